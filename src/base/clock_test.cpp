#include "base/clock.h"

#include <gtest/gtest.h>

namespace passnet {
namespace {

using namespace std::chrono_literals;

TEST(Clock, FakeMovesOnlyWhenTold) {
  FakeClock clock;
  clock.set_wall(100);
  EXPECT_EQ(clock.monotonic(), clock.monotonic());
  clock.sleep(1500ms);
  clock.advance(500ms);
  EXPECT_EQ(clock.monotonic(), Duration(2s));
  EXPECT_DOUBLE_EQ(clock.wall(), 102.0);
}

TEST(Clock, SystemClockSleepsAtLeastAsLongAsAsked) {
  SystemClock clock;
  const auto start = clock.monotonic();
  clock.sleep(2ms);
  EXPECT_GE(clock.monotonic() - start, Duration(2ms));
  EXPECT_GT(clock.wall(), 1.6e9);
}

TEST(Clock, TimesAreWrittenInUtc) {
  EXPECT_EQ(iso_time(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(iso_time(951782399.9), "2000-02-28T23:59:59Z");
}

TEST(Clock, DurationsAreWrittenForPeople) {
  EXPECT_EQ(human_duration(850ms), "850 ms");
  EXPECT_EQ(human_duration(12340ms), "12.3 s");
  EXPECT_EQ(human_duration(245s), "4 min 05 s");
  EXPECT_EQ(human_duration(3h + 7min), "3 h 07 min");
}

}  // namespace
}  // namespace passnet
