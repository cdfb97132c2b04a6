#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/files.h"
#include "solve/preflight.h"
#include "worker/worker.h"

namespace passnet {

struct PreflightOptions {
  bool run = true;      ///< false: structure and source rules only, the worker is never started
  bool compile = true;  ///< kernels to machine code for sm_80, sm_86, sm_90
  int64_t run_elements =
      1 << 21;  ///< variants with more input elements are shrunk to this before they are run
  int64_t most_elements = 1 << 24;   ///< what cannot be shrunk is run whole up to here, and not at all beyond
  size_t kernels_per_signature = 1;  ///< compiled entries per kernel and element types
  std::string device = "cpu";
  std::function<void(std::string_view)> progress;
};

/// The pre-flight without a GPU: the native check on every variant and graph, then one variant per dtype through the
/// real torch.compile with interpreted kernels, poisoned and plain, on both input families, against eager and the
/// CUDA reference of the operator rows, then each kernel through the compiler of three targets.
class WorkerPreflight final : public Preflight {
 public:
  WorkerPreflight(FileSystem& files, Worker& worker, PreflightOptions options)
      : files_(files), worker_(worker), options_(std::move(options)) {}

  Result<PreflightReport> run(const StateUnderTest& state) override;

 private:
  struct Trial;
  void check_natively(const StateUnderTest& state, PreflightReport& report);
  Status run_trials(const StateUnderTest& state, PreflightReport& report);
  Result<Trial> prepare(const StateUnderTest& state, size_t variant, const std::string& scratch);
  Status run_trial(const StateUnderTest& state, const Trial& trial, PreflightReport& report);
  Status compile_kernels(const StateUnderTest& state, const std::string& pass_dir, PreflightReport& report);

  Status compile_fresh(Json kernels, const std::vector<std::string>& keys, const std::string& pass_dir,
                       Json& results, PreflightReport& report);

  FileSystem& files_;
  Worker& worker_;
  PreflightOptions options_;
  std::map<std::string, Json>
      compiled_;  // what the compiler said of an entry, by its text: states share kernels
};

}  // namespace passnet
