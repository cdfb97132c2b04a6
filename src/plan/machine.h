#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"

namespace passnet {

/// What a machine costs, as data (`profiles/<gpu>.json`). Times in microseconds, bandwidths in 10^9 bytes a
/// second, rates in 10^12 operations a second. Where a number was not measured, `source` says so.
struct Profile {
  std::string name;    ///< "h200"
  std::string gpu;     ///< "NVIDIA H200"
  std::string source;  ///< where the numbers come from, for reports
  int sm = 0;          ///< compute capability, 90

  double bandwidth_gbps = 0;  ///< device memory, read plus written, as a copy reaches it
  double l2_bytes = 0;        ///< size of the last level cache
  double l2_gbps = 0;         ///< bandwidth while everything fits in it
  double fp32_tflops = 0, tf32_tflops = 0, tensor16_tflops = 0;
  double product_efficiency = 0;    ///< share of those rates that library products reach
  double generated_efficiency = 0;  ///< share that generated products reach, without tuning
  /// Rates that the library's convolutions reach as measured, in fp32 (through tf32) and 16 bits, depthwise,
  /// and with at most four input channels (patch embeddings, stems).
  double conv32_tflops = 0, conv16_tflops = 0, depthwise_tflops = 0, stem_tflops = 0;
  double transposed_tflops =
      0;  ///< and transposed ones, small as they are, their conversions of the layout included
  /// Rates that generated products reach whose factors are read through windows, element by element (transposed convolutions).
  double windowed16_tflops = 0, windowed32_tflops = 0;
  double kernel_floor_us = 0;  ///< no kernel is shorter
  double latency_us = 0;       ///< from a launch on the host to its start on an idle device
  double sync_us = 0;          ///< from the end of the last kernel to the host's return
  double harness_us = 0;       ///< seed call and timing events inside every timed call, both sides
  double compiled_tax_us = 0;  ///< compiled path with a backend that changes nothing, minus eager

  double wrapper_us = 0;          ///< entering the dispatcher and comparing the key, without arguments
  double tensor_argument_us = 0;  ///< per tensor: its part of the key and its pointer
  double allocation_us = 0;       ///< one torch.empty
  double launch_us = 0;           ///< one launch by the compiled kernel's own launcher
  double zero_launch_us = 0;      ///< a wrapper that returns one of its arguments
  double host_scale = 1;          ///< host time of eager calls relative to the operator rows' table
};

/// The profiles that are compiled in, in the order h200, a100, a30.
std::vector<std::string> profile_names();
/// Errors: `profile.unknown`, which names those that exist.
Result<Profile> builtin_profile(std::string_view name);
/// Reads a profile file. Errors: `json.syntax`, `profile.schema`, `profile.missing` (names the field),
/// `profile.value` (a number that must be positive is not).
Result<Profile> read_profile(std::string_view text, std::string_view file = {});
Json to_json(const Profile& profile);

}  // namespace passnet
