#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "score/expected.h"

namespace passnet::score {

// What one pass did to one variant, as far as the source says.
struct PassTrace {
  std::string name;
  int applied = 0;      // replacements
  bool failed = false;  // did not match
  bool crashed = false;
  std::string crash;                   // the message
  std::vector<std::string> diagnosis;  // near misses, as printed
};

struct Medians {
  std::optional<double> e2e_us, gpu_us;
};

// One compiler on one variant: everything that was seen, and nothing concluded. Filled from a log block, from a
// record, or from a service's filtered output; what a source does not say stays empty.
struct Measured {
  enum class Source { kLog, kFilteredLog, kRecord };
  Source source = Source::kLog;
  std::string sample, variant, compiler, kind, dtype;

  // Lines of the public log, or the same facts of a record.
  bool eager_types_seen = false, compiled_types_seen = false;
  std::vector<std::string> eager_dtypes, compiled_dtypes;
  std::optional<bool> types_match, shapes_match;
  std::vector<int> equal;
  std::map<std::string, std::vector<int>> all_close;  // by key
  std::vector<double> max_diff, mean_diff;
  std::optional<std::string> result;  // success, failed
  std::optional<double> speedup_e2e, speedup_gpu;
  Medians eager, compiled;
  bool error_line = false;    // a line holds "Exception:" or "Error:"
  bool stray_error = false;   // such a line, although the variant ran to its end
  bool no_pass_line = false;  // "No passes modified"
  bool eager_failed_line = false, compiled_failed_line = false;
  std::string exception, message;  // of the failure: type and text
  std::vector<PassTrace> passes;
  std::optional<int> loaded;  // passes loaded
  std::vector<std::string> loaded_names;
  std::vector<std::string> rejected;  // "file: line of the violation"
  bool hacking_line = false;          // "Detected hacking behavior"

  // Of records only.
  std::string verdict_code;  // error code of the process: timeout, output_limit, forged_answer, ...
  std::string failed_in;
  std::vector<std::string> violations, kept_tensors, state_changes, skipped;
  std::vector<std::string> changed_inputs;  // written by the pass and not by eager
  std::vector<std::string>
      other_calls;  // poisoned or timed calls whose outputs are not those compared: reasons
  std::optional<bool> eager_equals_itself, comparable;
  std::optional<double> memory_growth, clock_ratio;  // bytes; claimed over seen seconds of the trials
  std::optional<int> first_correct_t;
  bool live_asked = false;  // whether outputs were compared on the live family too
  std::optional<int> live_first_correct_t;
  std::optional<bool> unsteady;  // in turn: no round in which the machine was in one state
  Expected expected;
  std::optional<double> low_90, high_90;  // of the ratio, where blocks were interleaved
  // Of two compared compilers: the other one, and its time over this one's with the 90% interval.
  std::string versus;
  std::optional<double> versus_ratio, versus_low, versus_high;
  std::optional<double> bytes, seconds, compile_seconds;
  std::string hardware, protocol, isolation;

  bool has_all_close() const { return !all_close.empty(); }
};

std::string_view to_string(Measured::Source source);

}  // namespace passnet::score
