#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "score/measured.h"
#include "score/status.h"

namespace passnet::score {

// What the reasons look at. Empty: not measured or not known.
struct SlowFacts {
  bool passes = false;  // the compiler loads passes
  double speedup = 1;
  std::optional<double> high_90, predicted, ceiling, device_share;
  std::optional<bool> unsteady;
  bool gate_refused = false, region_refused = false;  // larger regions, by the gate on numbers or otherwise
};

struct SlowReason {
  std::string_view id, meaning, action;
  bool (*applies)(const SlowFacts& f);
};

std::span<const SlowReason> slow_reasons();
const SlowReason& slow_reason(const SlowFacts& facts);

// The reason of a variant that counts less than 1: of a correct one a row of slow.def, of another its outcome's name. Empty
// for a variant at or above 1.
std::string_view reason_code(const Measured& measured, const Judged& judged);
// What a code means, whichever of the two tables it is of.
std::string_view reason_meaning(std::string_view code);

}  // namespace passnet::score
