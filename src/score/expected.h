#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace passnet::score {

// What the planner expected of a variant and its passes before anything was measured. Speedups are over eager, by the
// same cost model on both sides.
struct Expected {
  std::optional<double> legal_ceiling;  // of the best legal choice with perfect kernels
  std::optional<double> unchanged;      // of the compiled path with no pass applied
  std::optional<double> predicted;      // of these passes; empty where they are not the planner's own bytes
  std::optional<double> device_share;   // of the predicted time, what the device works
  std::string state;                    // "floor", "upside", "other"
  std::string family;                   // triage family of the sample
  std::vector<std::string> blocked;     // codes of what keeps the sample's upside from its ceiling
};
using ExpectedOfSample = std::map<std::string, Expected>;  // by variant

// As it stands in run.json, and back; what is not there stays empty.
Json to_json(const Expected& expected);
Expected expected_of(const Json& json);

}  // namespace passnet::score
