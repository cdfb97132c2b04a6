#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"
#include "solve/evaluator.h"

namespace passnet {

/// What a first evaluation says of the machine's fixed costs, against the profile that planned it.
struct Calibration {
  struct Change {
    std::string field;  ///< of the profile
    double from = 0, to = 0;
  };
  std::vector<Change> changes;  ///< empty: nothing could be learned
  Profile profile;              ///< with the changes
};

/// Names of the contenders that a first evaluation measures beside the floor.
inline constexpr std::string_view kNope = "nope", kReady = "ready";

/// From medians over the variants: the compiled path's tax is a backend that changes nothing minus eager; the harness's share is
/// ready outputs minus that tax and the synchronisation; host time of eager calls is scaled so that the variants' eager times
/// come out as measured, which host-bound variants alone can say, and the wrappers' with it. Times without a GPU say nothing.
Calibration calibrate(const Evaluation& evaluation, const std::vector<CapturedVariant>& variants,
                      const Profile& profile);

/// Predicted time of one eager call of each variant, the harness's share included.
std::vector<double> predicted_eager_us(const std::vector<CapturedVariant>& variants, const Profile& profile);

}  // namespace passnet
