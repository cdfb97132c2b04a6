#pragma once

#include <string>

#include "plan/plan.h"

namespace passnet {

/// The one narrower try after a loss: what the planner is asked to do without, and that in words.
struct Narrowing {
  PlanOptions options;
  std::string text;  ///< "without the writes of FuseX", "with products left to the library", "without FuseX"
  bool possible = false;
};

/// Of the passes of `lost` that `kept` does not have: those that write memory others see; if there are none, products go back
/// to the library; if there are none either, the largest pass. Of what is refused the planner takes the next best part.
Narrowing narrower(const PlanOptions& options, const std::vector<PassSpec>& lost,
                   const std::vector<PassSpec>& kept, const Profile& profile);

}  // namespace passnet
