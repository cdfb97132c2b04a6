#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sample/state_store.h"
#include "solve/calibrate.h"
#include "solve/decision.h"
#include "solve/evaluator.h"
#include "solve/solve.h"

namespace passnet {

/// The state machine of `solve`: states.cpp plans, writes and judges states; loop.cpp evaluates them, keeps or takes back, and
/// stops. At every moment pass_dir holds the best state known.
class Solver {
 public:
  Solver(SolveContext& context, const SolveOptions& options)
      : context_(context), options_(options), profile_(context.profile) {}

  Result<SolveReport> run();

 private:
  // states.cpp
  PlanResult plan(const PlanOptions& plan_options);
  /// Writes one state, keeps it in the history and judges it; the index of it, or of an equal one judged before.
  Result<size_t> judge(const std::string& kind, const PlanState& state);
  /// Puts a judged state in force.
  Status adopt(size_t index);
  /// Without evaluations: in force if it is the best by what is known, a better prediction last.
  Status adopt_if_better(size_t index);
  bool better(size_t index) const;
  bool refuse(const SolvedState& state, const std::vector<PassSpec>& passes, PlanOptions& plan_options);
  /// The plan's floor, judged; again without what failed, until one is green. Empty if there is none.
  Result<std::optional<size_t>> floor();
  Result<std::optional<size_t>> upside(std::string kind);
  Result<SolveReport> finish();

  // loop.cpp
  Status run_evaluations();
  Status evaluate_floor(std::optional<size_t> index);
  Status try_larger();
  Status try_narrower(size_t lost);
  Status tune();
  /// One candidate against the best state: evaluated, decided, adopted or not. Empty if nothing was decided.
  Result<std::optional<Decision>> challenge(size_t index, const std::string& change);
  /// One evaluation. Empty if the budget allows none, or it failed twice: then the reason to stop is set.
  Result<std::optional<Evaluation>> evaluate(std::vector<Contender> contenders, const std::string& change,
                                             std::optional<size_t> state);
  bool may_evaluate();
  std::vector<std::string> variants_to_measure(size_t contenders, double seconds);
  void remember(const Evaluation& evaluation, std::string_view contender, size_t index);
  void recalibrate(const Evaluation& evaluation);
  void stop(StopReason reason);
  void stop_at_ceiling();
  Contender contender(std::string name, size_t index) const;
  double elapsed() const;
  double total_limit() const;
  Status record_state(size_t index, const EvaluationNote& note);
  /// What the evaluations proved of the state in force, beside what its pre-flight did.
  void take_proofs();

  SolveContext& context_;
  const SolveOptions& options_;
  Profile profile_;  // the context's, as the first evaluation corrects it
  PlanOptions plan_options_;
  CapturedSample sample_;
  std::optional<StateStore> store_;
  SolveReport report_;
  std::map<size_t, std::vector<PassSpec>> passes_;  // by state
  Duration started_{0};

  // Of the evaluations.
  bool stopped_ = false;
  bool calibrated_ = false;
  std::map<std::string, size_t> measured_;                      // by variant: how often
  std::map<size_t, std::map<std::string, Measurement>> known_;  // by state, by variant: the latest
  bool comparable_ = true;
  double unit_seconds_ = 4;  // of one contender on one variant; a guess until the first evaluation
  double last_seconds_ = 0;
  int failures_ = 0;  // evaluations that failed, in a row
  Json answers_ = Json::array();
};

}  // namespace passnet
