#include "solve/sensitivity.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "solve/test_sample.h"

namespace passnet {
namespace {

class SensitivityTest : public ::testing::Test {
 protected:
  SensitivityTest() {
    put_sample(files_);
    sample_ = captured(files_);
  }
  Sensitivity at(const Profile& profile, Duration limit = std::chrono::hours(1)) {
    const PlanResult plan = plan_sample(sample_.variants, profile, &estimate_schedule);
    return sensitivity(sample_.variants, profile, &estimate_schedule, {}, plan.upside, clock_, limit);
  }

  MemoryFiles files_;
  CapturedSample sample_;
  FakeClock clock_;
};

TEST_F(SensitivityTest, ACostAtItsThresholdFlipsAChoice) {
  // The launch is made so dear that some choice hangs on it: the price is sought between two at which the choices differ.
  const Profile h200 = builtin_profile("h200").value();
  const auto chosen = [&](double launch) {
    Profile profile = h200;
    profile.launch_us = launch;
    std::vector<std::string> names;
    for (const PassSpec& pass : plan_sample(sample_.variants, profile, &estimate_schedule).upside.passes)
      names.push_back(pass.key);
    return names;
  };
  double low = 1, high = 1000;
  ASSERT_NE(chosen(low), chosen(high));
  for (int i = 0; i < 20; ++i) {
    const double middle = std::sqrt(low * high);
    (chosen(middle) == chosen(1) ? low : high) = middle;
  }
  Profile profile = h200;
  profile.launch_us = low;
  const Sensitivity found = at(profile);
  const auto flip =
      std::ranges::find_if(found.flips, [](const Flip& f) { return f.cost == "host time of a wrapper"; });
  ASSERT_NE(flip, found.flips.end());
  EXPECT_EQ(flip->factor, 1.25);
  EXPECT_FALSE(flip->gained.empty() && flip->lost.empty());
  EXPECT_EQ(std::ranges::count(found.steady, "host time of a wrapper"), 0);
}

TEST_F(SensitivityTest, EveryCostIsAccountedFor) {
  const Sensitivity all = at(builtin_profile("h200").value());
  std::set<std::string> costs(all.steady.begin(), all.steady.end());
  for (const Flip& flip : all.flips) costs.insert(flip.cost);
  EXPECT_EQ(costs.size(), 9U);
  EXPECT_TRUE(all.left_out.empty());
  const Sensitivity none = at(builtin_profile("h200").value(), Duration(-1));
  EXPECT_EQ(none.left_out.size(), 9U);
  EXPECT_TRUE(none.flips.empty() && none.steady.empty());
}

}  // namespace
}  // namespace passnet
