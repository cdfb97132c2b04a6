#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/files.h"
#include "solve/preflight.h"
#include "solve/worker_pool.h"
#include "worker/worker.h"

namespace passnet {

struct PreflightOptions {
  bool run = true;            ///< false: structure and source rules only, the worker is never started
  bool all_variants = false;  ///< every variant through the interpreter, not only the smallest of each dtype
  bool compile = true;        ///< kernels to machine code for sm_80, sm_86, sm_90
  int64_t run_elements =
      1 << 21;  ///< variants with more input elements are shrunk to this before they are run
  double run_flops =
      2e8;  ///< the same for those whose products take more operations: a few seconds interpreted
  int64_t most_elements = 1 << 24;   ///< what cannot be shrunk is run whole up to here, and not at all beyond
  size_t kernels_per_signature = 1;  ///< compiled entries per kernel and element types
  std::string device = "cpu";
  std::function<void(std::string_view)> progress;
};

/// The pre-flight without a GPU: the native check on every variant and graph, then one variant per dtype (or all) through the
/// real torch.compile with interpreted kernels, poisoned and plain, on both input families, against eager and the
/// CUDA reference of the operator rows, then each kernel through the compiler of three targets.
class WorkerPreflight final : public Preflight {
 public:
  /// `workers`: at least one; variants and kernels are spread over them.
  WorkerPreflight(FileSystem& files, std::vector<Worker*> workers, PreflightOptions options)
      : files_(files), pool_(std::move(workers)), options_(std::move(options)) {}

  Result<PreflightReport> run(const StateUnderTest& state) override;

 private:
  struct Trial;
  struct Compilation;
  void check_natively(const StateUnderTest& state, PreflightReport& report);
  Status run_trials(const StateUnderTest& state, PreflightReport& report);
  Result<Trial> prepare(const StateUnderTest& state, size_t variant, const std::string& scratch);
  std::vector<size_t> variants_to_run(const StateUnderTest& state) const;
  static WorkerRequest smoke_request(const StateUnderTest& state, const Trial& trial,
                                     const PreflightOptions& options);
  static Status take_smoke(const StateUnderTest& state, const Trial& trial, Result<Json> reply,
                           PreflightReport& report);
  /// The kernels of the state that no earlier state had, as requests that several workers can share.
  Compilation plan_compilation(const StateUnderTest& state, const std::string& pass_dir) const;
  void take_compilation(const StateUnderTest& state, Compilation compilation,
                        std::vector<std::optional<Result<Json>>> replies, PreflightReport& report);

  FileSystem& files_;
  WorkerPool pool_;
  PreflightOptions options_;
  std::map<std::string, Json>
      compiled_;  // what the compiler said of an entry, by its text: states share kernels
};

}  // namespace passnet
