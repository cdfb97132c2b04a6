#include "base/source.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace passnet {
namespace {

TEST(Source, LinesExcludeTheirEnds) {
  const SourceBuffer source("a.py", "one\r\ntwo\n\nfour");
  ASSERT_EQ(source.line_count(), 4);
  EXPECT_EQ(source.line(1), "one");
  EXPECT_EQ(source.line(2), "two");
  EXPECT_EQ(source.line(3), "");
  EXPECT_EQ(source.line(4), "four");
  EXPECT_EQ(source.line(0), "");
  EXPECT_EQ(source.line(5), "");
}

TEST(Source, AFinalNewlineStartsNoLine) {
  EXPECT_EQ(SourceBuffer("a", "x\n").line_count(), 1);
  EXPECT_EQ(SourceBuffer("a", "").line_count(), 1);
}

TEST(Source, PositionAndOffsetAreInverse) {
  EXPECT_TRUE(rc::check("offset(position(i)) == i", [](const std::string& text) {
    const SourceBuffer source("a", text);
    for (std::size_t i = 0; i <= text.size(); ++i) {
      const Span at = source.position(i);
      RC_ASSERT(source.offset(at.line, at.col) == i);
    }
  }));
}

TEST(Source, SliceGivesTheTextOfASpan) {
  const SourceBuffer source("a", "ab\ncd\n");
  EXPECT_EQ(source.slice(source.span(1, 4)), "b\nc");
  EXPECT_EQ(source.slice({2, 1, 2, 3}), "cd");
  EXPECT_EQ(source.slice({2, 1, 0, 0}), "");
}

TEST(Source, CheckedRefusesWhatIsNoUtf8WithThePlace) {
  const auto bad = SourceBuffer::checked("a.py", "ok\n x\xFFy");
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().code, "source.utf8");
  EXPECT_EQ(bad.error().message, "the file is not UTF-8: byte 0xff at offset 5");
  EXPECT_EQ(bad.error().span, (Span{2, 3, 0, 0}));
  EXPECT_EQ(SourceBuffer::checked("a.py", std::string("a\0b", 3)).error().code, "source.nul");
}

TEST(Source, CheckedDropsAByteOrderMark) {
  EXPECT_EQ(SourceBuffer::checked("a", "\xEF\xBB\xBFx")->text(), "x");
}

TEST(Source, Utf8EdgesAreDecidedAsTheStandardSays) {
  EXPECT_EQ(find_invalid_utf8("\xF4\x8F\xBF\xBF"), std::string::npos);  // U+10FFFF
  EXPECT_EQ(find_invalid_utf8("\xF4\x90\x80\x80"), 0u);                 // above it
  EXPECT_EQ(find_invalid_utf8("a\xC0\x80"), 1u);                        // overlong NUL
  EXPECT_EQ(find_invalid_utf8("\xED\xA0\x80"), 0u);                     // a surrogate
  EXPECT_EQ(find_invalid_utf8("ab\xE2\x82"), 2u);                       // cut short
  EXPECT_EQ(find_invalid_utf8("\x80"), 0u);                             // a stray continuation
  EXPECT_EQ(utf8_length("a\xE2\x82\xAC z"), 4u);
}

}  // namespace
}  // namespace passnet
