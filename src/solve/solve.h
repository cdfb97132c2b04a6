#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/diagnostic.h"
#include "base/files.h"
#include "base/json.h"
#include "base/result.h"
#include "capture/capture.h"
#include "plan/plan.h"
#include "solve/preflight.h"

namespace passnet {

struct SolveOptions {
  std::string sample;  ///< the sample directory
  std::string out;     ///< where pass_dir and .passnet are written; empty: the sample itself
  std::string device = "cuda";
  size_t max_replans = 6;  ///< upside states tried after a pass failed its pre-flight
  int jobs = 1;
  PlanOptions plan;
};

/// Why the solving ended.
enum class StopReason {
  kPreflightOnly,  ///< no GPU: the best green state stands, nothing was evaluated
  kNoRegion,       ///< no legal region in some variant: nothing more can be done for it
  kNothingGreen    ///< no state survived its pre-flight
};
std::string_view to_string(StopReason reason);

/// One state that was written and judged.
struct SolvedState {
  std::string kind;  ///< "floor", "upside", "upside without FuseX"
  std::string hash;  ///< of the kept state
  std::vector<std::string> passes;
  double predicted_speedup = 0;
  PreflightReport preflight;
};

struct SolveReport {
  std::string sample;               ///< name of the folder
  std::vector<SolvedState> states;  ///< in the order they were tried
  std::optional<size_t> chosen;     ///< index of the state now in pass_dir
  PlanResult plan;                  ///< the plan that the chosen state came from
  StopReason stop = StopReason::kPreflightOnly;
  std::vector<Diagnostic> findings;
  std::vector<std::string> files;  ///< of pass_dir now
  double analysis_ms = 0;          ///< reading, capture and planning, without the worker
  bool green() const;              ///< every variant matched and green
};

/// The document of `solve --json` without its envelope, and the text for people.
Json to_json(const SolveReport& report);
std::string to_text(const SolveReport& report);

struct SolveContext {
  FileSystem& files;
  Clock& clock;
  Preflight& preflight;
  const Profile& profile;
  std::function<void(std::string_view)> progress;
};

/// The main job without evaluations: floor first, then upside, the best green state put in force. Errors are those
/// of reading and capturing the sample; what is wrong with a state is in the report.
Result<SolveReport> solve_sample(SolveContext& context, const SolveOptions& options);

struct CapturedSample {
  std::string name, root;
  std::vector<CapturedVariant> variants;
  std::vector<std::string> dirs;
  std::vector<Diagnostic> findings;
};
/// Captures every variant of a sample. The first variant that cannot be read or captured is the error; findings of
/// the others are collected.
Result<CapturedSample> capture_sample(FileSystem& files, const std::string& root, const std::string& device,
                                      int jobs);
/// What makes a sample unusable for writing or judging passes, if anything does: a listed variant that is not there,
/// inputs without shapes, a call whose arguments or shapes the operator refuses. The evaluation could not run such a
/// variant either.
std::optional<Diagnostic> unusable(const CapturedSample& sample);
/// A folder with a model.py: with its metadata where there is some, else structure alone.
Result<Captured> capture_folder(FileSystem& files, const std::string& dir, const CaptureOptions& options);

}  // namespace passnet
