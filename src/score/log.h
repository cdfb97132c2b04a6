#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "score/measured.h"

namespace passnet::score {

// What stands in a log outside its variants.
struct LogFacts {
  std::optional<std::string> any_matched;  // "Has Any pass matched? [..]"
  std::optional<double> aggregated;        // "aggregated_speedup="
  std::vector<double> es;                  // "ESt=... for tolerance=...", from t = -10
  std::vector<std::string> hints;          // what a log without variants says of its reason
  bool filtered = false;                   // no sweep although variants have types: as a service sends it
};

struct ParsedLog {
  std::vector<Measured> variants;
  LogFacts facts;
};

// The text of a validation.log, the public harness's or ours; never fails: a torn log gives what it holds. Marks may have
// any prefix; `later` lines of one kind win, as in public.
ParsedLog parse_log(std::string_view text);

// A saved response of a service's evaluation.
struct ServiceResponse {
  ParsedLog log;  // of stdout and stderr
  std::optional<double> score;
  std::optional<bool> pass_matched;
  std::optional<int> returncode;
  std::string error;
};
// `score.no_evaluation` where the text is no completed evaluation: empty, an HTML or status page, no JSON.
Result<ServiceResponse> parse_response(std::string_view text, std::string_view file);

}  // namespace passnet::score
