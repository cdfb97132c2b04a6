#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/region.h"

namespace passnet {

// The files of a pass_dir by name (no directories), byte for byte reproducible from the same specs:
// sorted_output_pass_rule_names.json, _shared_kernels.py and one <Name>.py a pass.
using PassDirFiles = std::map<std::string, std::string>;

// One compiled kernel entry, for the device-free compilation check and the point-sampled proof.
struct KernelEntry {
  std::string route;
  size_t pass = 0, entry = 0;                                  // indices into the specs
  std::string kernel;                                          // function name in _shared_kernels.py
  std::vector<std::string> pointer_dtypes;                     // "*fp32", in argument order
  std::vector<std::pair<std::string, std::string>> constants;  // name and Python literal, in argument order
  int num_warps = 4, num_stages = 1;
  int64_t grid = 1;
};

struct GeneratedPassDir {
  PassDirFiles files;
  std::vector<KernelEntry> kernels;
};

// One kernel of one entry, with the numbers it has and others that are worth measuring, most promising first.
struct TunableKernel {
  size_t pass = 0, entry = 0, kernel = 0;  // indices into the specs and into the entry's kernels
  double bytes = 0, flops = 0;             // of one launch
  KernelConfig now;
  std::vector<KernelConfig> others;
};
// Every kernel of the passes, at most `most` other numbers each. Where a library chooses the layout of an argument, the
// contiguous one is looked at. Errors: those of generate_pass_dir.
Result<std::vector<TunableKernel>> tunable_kernels(const std::vector<PassSpec>& passes, size_t most);

// Whether and how one program can be scheduled; never throws, refuses with reasons.
ScheduleEstimate estimate_schedule(const Program& program);

// Writes the passes in the given order (priority order). Errors: a program without a schedule, a name used twice.
Result<GeneratedPassDir> generate_pass_dir(const std::vector<PassSpec>& passes);

}  // namespace passnet
