#include "base/result.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace passnet {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return user_error("odd", "cannot halve an odd number");
  return value / 2;
}

Result<int> quarter(int value) {
  PN_TRY(const int first, half(value));
  int second = 0;
  PN_TRY(second, half(first));
  return second;
}

Status check_even(int value) {
  PN_CHECK_OK(half(value));
  return {};
}

TEST(Result, TryTakesTheValueOrReturnsTheError) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).error().code, "odd");
  EXPECT_EQ(quarter(3).error().message, "cannot halve an odd number");
}

TEST(Result, StatusCarriesOnlyTheError) {
  EXPECT_TRUE(check_even(2).ok());
  EXPECT_TRUE(ok_status());
  EXPECT_EQ(check_even(1).error().code, "odd");
}

TEST(Result, HoldsMoveOnlyValues) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(3);
  ASSERT_TRUE(result);
  const auto taken = std::move(result).value();
  EXPECT_EQ(*taken, 3);
}

TEST(Result, ValueOrGivesTheFallbackOnlyOnError) {
  EXPECT_EQ(half(4).value_or(7), 2);
  EXPECT_EQ(half(5).value_or(7), 7);
}

TEST(Result, ConvertsFromWhatTheValueConvertsFrom) {
  const Result<std::string> text = "abc";
  EXPECT_EQ(text->size(), 3u);
}

TEST(ResultDeathTest, TakingTheWrongHalfStopsTheProgram) {
  EXPECT_DEATH((void)half(1).value(), "cannot halve an odd number");
  EXPECT_DEATH((void)half(2).error(), "error of a successful result");
}

}  // namespace
}  // namespace passnet
