#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json_fwd.h"
#include "plan/plan.h"

namespace passnet {

/// What the choice of regions becomes where one cost of the profile is another.
struct Flip {
  std::string cost;                       ///< "eager's host time"
  double factor = 1;                      ///< what the cost was multiplied by
  double speedup = 0;                     ///< predicted for the other choice, by the changed profile
  std::vector<std::string> gained, lost;  ///< descriptions of the regions
};

struct Sensitivity {
  std::vector<Flip> flips;
  std::vector<std::string> steady;    ///< costs at whose factors the choice stays
  std::vector<std::string> left_out;  ///< costs that the time did not suffice for
};

inline constexpr double kCostFactors[] = {0.8, 1.25};

/// Plans again with each cost of the profile in turn times 0.8 and 1.25, rates and bandwidths the other way round, and lists
/// where the upside's regions are others. All costs at once would change no choice: what counts is one against another.
Sensitivity sensitivity(const std::vector<CapturedVariant>& variants, const Profile& profile,
                        const ScheduleOracle& oracle, const PlanOptions& options, const PlanState& upside,
                        Clock& clock, Duration limit);

Json to_json(const Sensitivity& sensitivity);

}  // namespace passnet
