#pragma once

#include <map>
#include <string>
#include <vector>

#include "check/check.h"
#include "cli/command.h"
#include "solve/solve.h"
#include "worker/worker.h"

// What `check` asks the worker: to trace what is not interpreted natively, to run passes, to time them.

namespace passnet {

struct CheckPlaces {
  std::string sample, pass_dir, const_pass_dir;  // absolute; const_pass_dir empty where there is none
};

/// How to start the worker for passes that somebody else wrote: in a sandbox that writes to `scratch` alone and has no network. Where
/// that cannot be had here it runs without, and a finding says so.
WorkerOptions sandboxed_worker(FileSystem& files, const CheckPlaces& places, const std::string& scratch,
                               std::vector<Diagnostic>& findings);

/// Passes of `report` that were not interpreted, traced by running their files. What could not be asked is a finding.
std::map<std::string, std::shared_ptr<const check::ReadPass>> run_elsewhere(
    Worker& worker, const CheckPlaces& places, const check::CheckReport& report,
    std::vector<Diagnostic>& findings);

/// Variants to be run: `most` of them (0: all), each dtype first.
std::vector<size_t> spread_over_dtypes(const std::vector<CapturedVariant>& variants, size_t most);
/// One variant a dtype.
std::vector<size_t> one_per_dtype(const std::vector<CapturedVariant>& variants);

struct RunRequest {
  const CheckPlaces& places;
  const CapturedSample& sample;
  const std::vector<size_t>& chosen;
};

/// Runs the passes on the chosen variants: by the interpreter on the CPU, or on the GPU where torch sees one. Adds the
/// reply to the document and what is proven to the report.
Status run_smoke(Worker& worker, bool gpu, const RunRequest& request, check::CheckReport& report,
                 CommandResult& result);
/// Times the passes against eager and against a backend that changes nothing. Only on a GPU.
Status run_bench(Worker& worker, const RunRequest& request, const check::CheckReport& report,
                 CommandResult& result);
/// Whether the worker's torch sees a GPU.
Result<bool> sees_gpu(Worker& worker);

}  // namespace passnet
