#include "base/strings.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace passnet {
namespace {

using testing::ElementsAre;
using testing::Optional;

TEST(Strings, TrimTakesWhiteSpaceFromBothEnds) {
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim(" \n"), "");
}

TEST(Strings, SplitKeepsEmptyParts) {
  EXPECT_THAT(split("a,,b,", ','), ElementsAre("a", "", "b", ""));
  EXPECT_THAT(split("", ','), ElementsAre(""));
}

TEST(Strings, SplitLinesTakesBothLineEnds) {
  EXPECT_THAT(split_lines("a\r\n\nb\n"), ElementsAre("a", "", "b"));
  EXPECT_TRUE(split_lines("").empty());
}

TEST(Strings, ReplaceAllDoesNotLookAtWhatItWrote) {
  EXPECT_EQ(replace_all("aXbX", "X", "XX"), "aXXbXX");
  EXPECT_EQ(replace_all("abc", "", "Y"), "abc");
}

TEST(Strings, NumbersAreTheWholeTextOrNothing) {
  EXPECT_THAT(parse_int("-42"), Optional(-42));
  EXPECT_EQ(parse_int("4x"), std::nullopt);
  EXPECT_EQ(parse_int(""), std::nullopt);
  EXPECT_EQ(parse_int("99999999999999999999"), std::nullopt);
  EXPECT_THAT(parse_double("1e-3"), Optional(1e-3));
  EXPECT_TRUE(std::isinf(parse_double("-inf").value()));
  EXPECT_EQ(parse_double("1.0 "), std::nullopt);
}

TEST(Strings, EditDistanceCountsASwapOnce) {
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("solve", "sovle"), 1u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
}

TEST(Strings, EditDistanceIsSymmetric) {
  EXPECT_TRUE(rc::check([](const std::string& a, const std::string& b) {
    RC_ASSERT(edit_distance(a, b) == edit_distance(b, a));
  }));
}

TEST(Strings, ClosestOffersOnlyWhatCouldBeASlip) {
  const std::vector<std::string> names = {"solve", "score", "serve"};
  EXPECT_THAT(closest("sovle", names), Optional(std::string("solve")));
  EXPECT_EQ(closest("quit", names), std::nullopt);
  EXPECT_EQ(closest("x", {}), std::nullopt);
}

TEST(Strings, TailIsCutAtALineOrBetweenCharacters) {
  EXPECT_EQ(tail_of("one\ntwo\nthree\n", 9), "three\n");
  EXPECT_EQ(tail_of("short", 9), "short");
  EXPECT_EQ(tail_of("a\xC3\xA9\xC3\xA9", 3), "\xC3\xA9");
}

}  // namespace
}  // namespace passnet
