#include "plan/cost.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "plan/test_graphs.h"

namespace passnet {
namespace {

// The queue as it is written down, from the first call to the last.
double simulate(const std::vector<CallCost>& calls, double start, const Profile& profile) {
  double h = start, d = 0;
  for (const CallCost& call : calls) {
    h += call.host_us;
    if (call.kernels > 0) d = std::max(d, h + profile.latency_us) + call.device_us;
  }
  return std::max(h, d) + profile.sync_us;
}

TEST(Queue, SeenFromItsEndIsTheQueue) {
  const Profile profile = h200();
  std::mt19937 random(7);
  std::uniform_real_distribution<double> time(0, 40);
  for (int round = 0; round < 200; ++round) {
    std::vector<CallCost> calls(random() % 12);
    for (CallCost& call : calls) {
      call = {time(random), time(random), static_cast<int>(random() % 3)};
      if (call.kernels == 0) call.device_us = 0;
    }
    EXPECT_NEAR(eager_time_us(calls, profile), simulate(calls, profile.harness_us, profile), 1e-9);
    EXPECT_NEAR(compiled_time_us(calls, profile),
                simulate(calls, profile.harness_us + profile.compiled_tax_us, profile), 1e-9);
  }
}

TEST(Queue, DeviceTimeIsTheGreatestOfItsBounds) {
  const Profile profile = h200();
  EXPECT_DOUBLE_EQ(device_time_us(100, 0, 60, 1, profile), profile.kernel_floor_us);
  EXPECT_DOUBLE_EQ(device_time_us(100, 0, 60, 3, profile), 3 * profile.kernel_floor_us);
  EXPECT_DOUBLE_EQ(device_time_us(4.19e9, 0, 60, 1, profile), 1000);  // a GB at 4,190 GB/s: 1 ms
  EXPECT_DOUBLE_EQ(device_time_us(100, 6e9, 60, 1, profile), 100);
  EXPECT_DOUBLE_EQ(device_time_us(1e12, 1e15, 60, 0, profile), 0);  // a view
  // What fits in half of the cache moves at the cache's bandwidth.
  EXPECT_DOUBLE_EQ(device_time_us(29.25e6, 0, 60, 1, profile), 29.25e6 / profile.l2_gbps * 1e-3);
}

TEST(Queue, WrapperPaysForArgumentsAllocationsAndLaunches) {
  const Profile p = h200();
  ScheduleEstimate estimate;
  estimate.kernels = 1;
  EXPECT_DOUBLE_EQ(wrapper_cost(Region::Kind::kKernel, estimate, 3, 1, 30, p).host_us,
                   p.wrapper_us + 3 * p.tensor_argument_us + p.allocation_us + p.launch_us);
  estimate.kernels = 2;
  EXPECT_DOUBLE_EQ(wrapper_cost(Region::Kind::kKernel, estimate, 3, 1, 30, p).host_us,
                   p.wrapper_us + 3 * p.tensor_argument_us + 2 * p.allocation_us + 2 * p.launch_us);
  const CallCost nothing = wrapper_cost(Region::Kind::kZeroLaunch, estimate, 3, 1, 30, p);
  EXPECT_EQ(nothing.kernels, 0);
  EXPECT_DOUBLE_EQ(nothing.host_us, p.zero_launch_us);
}

}  // namespace
}  // namespace passnet
