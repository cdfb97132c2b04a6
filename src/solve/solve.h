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
#include "solve/calibrate.h"
#include "solve/decision.h"
#include "solve/evaluator.h"
#include "solve/preflight.h"
#include "solve/sensitivity.h"
#include "solve/tune.h"

namespace passnet {

struct SolveOptions {
  std::string sample;  ///< the sample directory
  std::string out;     ///< where pass_dir and .passnet are written; empty: the sample itself
  std::string device = "cuda";
  size_t max_replans = 6;  ///< upside states tried after a pass failed its pre-flight
  int jobs = 1;
  PlanOptions plan;
  size_t max_evaluations = 6;
  double evaluation_seconds = 600;  ///< of one evaluation; more variants than that allows are sampled
  double total_seconds = 0;         ///< after which none is started; 0: 600 for every 30 variants begun
  bool tune = false;               ///< measure other block sizes, warps and stages once the passes are chosen
  double sensitivity_seconds = 0;  ///< for planning again with other costs; 0: not done
};

/// Why the solving ended.
enum class StopReason {
  kPreflightOnly,    ///< no evaluator: the best green state stands, nothing was evaluated
  kNoRegion,         ///< no legal region in some variant: nothing more can be done for it
  kNothingGreen,     ///< no state survived its pre-flight
  kCeiling,          ///< nine tenths of the legal ceiling are reached
  kBudget,           ///< all evaluations are used
  kTimeLimit,        ///< the time for all evaluations is used
  kOverheadBound,    ///< right, slower than eager, and no larger legal region is left
  kNothingLeft,      ///< ahead of eager, and no other state is left to try
  kNotComparable,    ///< evaluated without a GPU: right or wrong is known, faster or slower is not
  kEvaluatorFailed,  ///< the evaluation failed twice in a row
};
std::string_view to_string(StopReason reason);
std::string_view meaning(StopReason reason);

/// One evaluation, as the report tells it.
struct EvaluationNote {
  std::string
      change;  ///< what is new in it: "floor", "larger regions", "narrower: ...", "kernel numbers", ...
  std::optional<size_t> state;  ///< that was to be decided on; none for a round of tuning
  size_t contenders = 0, variants = 0, unmeasured = 0;
  double seconds = 0;
  std::string folder;  ///< of the records
  std::string error;   ///< why it says nothing
  std::optional<Decision> decision;
  std::optional<Interval> ratio;   ///< time of the best state before over the candidate's
  std::optional<double> speedup;   ///< of the candidate against eager, over the variants measured
  double predicted = 0;            ///< the same as the planner had it
  size_t correct = 0;              ///< variants
  std::vector<std::string> wrong;  ///< those that are not, with why
};

/// One state that was written and judged.
struct SolvedState {
  std::string kind;  ///< "floor", "upside", "upside without FuseX", "narrower", "tuned"
  std::string hash;  ///< of the kept state
  std::vector<std::string> passes;
  double predicted_speedup = 0;
  std::map<std::string, double> predicted_us;  ///< by variant
  size_t nodes = 0;                            ///< that its patterns replace
  PreflightReport preflight;
  std::optional<Decision> decision;             ///< none: it was never evaluated
  std::map<std::string, Measurement> measured;  ///< by variant
  std::optional<double> measured_speedup;       ///< geometric mean over the variants measured
  bool comparable = true;                       ///< false: measured without a GPU, times say nothing
  size_t measured_correct = 0;                  ///< variants
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
  double seconds = 0;              ///< of everything
  std::vector<EvaluationNote> evaluations;
  std::optional<double> score;  ///< of the state in force, over the variants measured
  std::vector<Calibration::Change> calibration;
  std::vector<Json> pins;  ///< kernel numbers that the state in force has from tuning
  std::optional<Sensitivity> sensitivity;
  bool green() const;  ///< every variant matched and green, and right in every evaluation
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
  Evaluator* evaluator = nullptr;  ///< null: solve ends with its pre-flight
};

/// The main job: floor first, then upside, the best state put in force; with an evaluator by what it measures. Errors are those
/// of reading and capturing the sample; what is wrong with a state or an evaluation is in the report.
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
