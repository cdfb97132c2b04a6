#include "base/diagnostic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "base/source.h"

namespace passnet {
namespace {

TEST(Diagnostic, TextShowsTheLineWithACaretUnderTheSpan) {
  const SourceBuffer source("model.py", "a = 1\nx = foo(y)\n");
  const auto d =
      user_error("pysrc.syntax", "unknown function").at("model.py", {2, 5, 2, 11}).with_hint("define foo");
  EXPECT_EQ(render_text(d, &source),
            "model.py:2:5: error: unknown function [pysrc.syntax]\n"
            "  | x = foo(y)\n"
            "  |     ^~~~~~\n"
            "  hint: define foo\n");
}

TEST(Diagnostic, TextWithoutSourceOrPlaceIsOneLine) {
  EXPECT_EQ(render_text(user_warning("a.b", "careful")), "warning: careful [a.b]\n");
  EXPECT_EQ(render_text(note("", "only said").at("f.py")), "f.py: note: only said\n");
}

TEST(Diagnostic, InternalErrorAsksForAReportAndShowsItsFields) {
  EXPECT_EQ(
      render_text(internal_error("ir.verify", "dangling value").with("node", "add_1")),
      "internal error: dangling value [ir.verify]\n"
      "  node: add_1\n"
      "  This is a fault of passnet, not of your input. Please report it with this text and the input.\n");
}

TEST(Diagnostic, CaretCountsCharactersNotBytesAndTabsAsOne) {
  const SourceBuffer source("m.py", "\t\xC3\xA9\xC3\xA9 = bad\n");
  const auto d = user_error("c", "m").at("m.py", {1, 9, 1, 12});
  EXPECT_EQ(render_text(d, &source), "m.py:1:9: error: m [c]\n  |  \xC3\xA9\xC3\xA9 = bad\n  |       ^~~\n");
}

TEST(Diagnostic, LongLineIsCutAroundTheSpan) {
  std::string line(300, 'a');
  line.replace(200, 3, "BAD");
  const SourceBuffer source("m.py", line);
  const auto text = render_text(user_error("c", "m").at("m.py", {1, 201, 1, 204}), &source, {.width = 30});
  const std::string expected = "  | ..." + std::string(10, 'a') + "BAD" + std::string(17, 'a') + "...\n  | " +
                               std::string(13, ' ') + "^~~\n";
  EXPECT_THAT(text, testing::HasSubstr(expected));
}

TEST(Diagnostic, SpanOverSeveralLinesIsMarkedToTheEndOfTheFirst) {
  const SourceBuffer source("m.py", "f(a,\n  b)\n");
  EXPECT_THAT(render_text(user_error("c", "m").at("m.py", {1, 2, 2, 5}), &source),
              testing::HasSubstr("  | f(a,\n  |  ^~~\n"));
}

TEST(Diagnostic, SpanOutsideTheSourceShowsNoExcerpt) {
  const SourceBuffer source("m.py", "x\n");
  EXPECT_EQ(render_text(user_error("c", "m").at("m.py", {7, 1, 0, 0}), &source), "m.py:7:1: error: m [c]\n");
}

TEST(Diagnostic, JsonHasTheKeysOfAFinding) {
  const auto d = user_error("pysrc.syntax", "no").at("model.py", {2, 5, 2, 8}).with_hint("do").with("k", "v");
  EXPECT_EQ(dump_json(to_json(d)),
            R"({"code":"pysrc.syntax","severity":"error","file":"model.py","line":2,"column":5,)"
            R"("message":"no","remedy":"do","fields":{"k":"v"}})");
  EXPECT_EQ(dump_json(findings_to_json({internal_error("x", "y")})),
            R"([{"code":"x","severity":"error","file":null,"line":null,"column":null,)"
            R"("message":"y","remedy":null,"internal":true}])");
}

TEST(Diagnostic, JsonColumnCountsCharactersWhenTheSourceIsKnown) {
  const SourceBuffer source("m.py", "\xC3\xA9 = 1");
  const auto d = user_error("c", "m").at("m.py", {1, 4, 0, 0});
  EXPECT_EQ(to_json(d)["column"], 4);
  EXPECT_EQ(to_json(d, &source)["column"], 3);
}

}  // namespace
}  // namespace passnet
