#include "base/code_writer.h"

#include <gtest/gtest.h>

namespace passnet {
namespace {

TEST(CodeWriter, IndentsNestedBlocks) {
  CodeWriter writer;
  {
    auto function = writer.block("def f(x):");
    writer.line("y = x");
    {
      auto loop = writer.block("for i in y:");
      writer.linef("use({}, {})", "i", 3);
    }
    writer.line("return y");
  }
  writer.line("f(1)");
  EXPECT_EQ(writer.text(), "def f(x):\n    y = x\n    for i in y:\n        use(i, 3)\n    return y\nf(1)\n");
}

TEST(CodeWriter, BlockWritesItsTailAtTheOuterIndent) {
  CodeWriter writer(2);
  {
    auto list = writer.block("x = [", "]");
    writer.line("1,");
  }
  EXPECT_EQ(writer.text(), "x = [\n  1,\n]\n");
}

TEST(CodeWriter, LinesHaveNoTrailingSpacesAndEmptyLinesNoIndent) {
  CodeWriter writer;
  writer.indent().line("a  \n\nb\t").line();
  EXPECT_EQ(writer.text(), "    a\n\n    b\n\n");
}

TEST(CodeWriter, BlankCountsTheEmptyLinesThatAreThere) {
  CodeWriter writer;
  writer.blank(2);
  EXPECT_EQ(writer.text(), "");
  writer.line("a").blank().blank(2).blank();
  EXPECT_EQ(writer.text(), "a\n\n\n");
}

TEST(CodeWriter, DedentStopsAtTheMargin) {
  CodeWriter writer;
  writer.indent().dedent(3).line("a");
  EXPECT_EQ(writer.text(), "a\n");
}

}  // namespace
}  // namespace passnet
