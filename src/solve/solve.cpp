#include "solve/solve.h"

#include <algorithm>

#include "solve/solver.h"

namespace passnet {

std::string_view to_string(StopReason reason) {
  switch (reason) {
    case StopReason::kPreflightOnly: return "preflight_only";
    case StopReason::kNoRegion: return "no_region";
    case StopReason::kNothingGreen: return "nothing_green";
    case StopReason::kCeiling: return "ceiling_reached";
    case StopReason::kBudget: return "budget";
    case StopReason::kTimeLimit: return "time_limit";
    case StopReason::kOverheadBound: return "overhead_bound";
    case StopReason::kNothingLeft: return "nothing_left";
    case StopReason::kNotComparable: return "not_comparable";
    case StopReason::kEvaluatorFailed: return "evaluator_failed";
  }
  return "preflight_only";
}

std::string_view meaning(StopReason reason) {
  switch (reason) {
    case StopReason::kPreflightOnly:
      return "no GPU was used: the best state that passed its pre-flight stands; speeds are predictions";
    case StopReason::kNoRegion: return "some variant has no region that a pass could legally replace";
    case StopReason::kNothingGreen: return "no state passed its pre-flight";
    case StopReason::kCeiling: return "nine tenths of the legal ceiling are reached";
    case StopReason::kBudget: return "all evaluations are used";
    case StopReason::kTimeLimit: return "the time for evaluations is used";
    case StopReason::kOverheadBound:
      return "right and slower than eager, and no larger legal region is left: the fixed costs of a compiled "
             "call are "
             "more than a pass can save";
    case StopReason::kNothingLeft: return "no other state is left to try";
    case StopReason::kNotComparable:
      return "evaluated without a GPU: what is right was seen, times were not compared and decide nothing; "
             "speeds are "
             "predictions";
    case StopReason::kEvaluatorFailed:
      return "the evaluation failed twice in a row: the best state known before stands";
  }
  return "";
}

std::string_view to_string(Proof::State state) {
  switch (state) {
    case Proof::State::kProven: return "proven";
    case Proof::State::kFailed: return "failed";
    case Proof::State::kNotProven: return "not proven";
  }
  return "not proven";
}

const Proof* VariantProof::find(std::string_view subject) const {
  for (const Proof& proof : proofs) {
    if (proof.subject == subject) return &proof;
  }
  return nullptr;
}

bool VariantProof::green() const {
  if (!matched) return false;
  for (const std::string_view subject : {"structure", "source_rules"}) {
    const Proof* proof = find(subject);
    if (proof == nullptr || proof->state != Proof::State::kProven) return false;
  }
  return std::none_of(proofs.begin(), proofs.end(),
                      [](const Proof& p) { return p.state == Proof::State::kFailed; });
}

bool PreflightReport::green() const {
  return !variants.empty() && failures.empty() &&
         std::all_of(variants.begin(), variants.end(), [](const VariantProof& v) { return v.green(); });
}

bool SolveReport::green() const {
  if (!chosen || stop == StopReason::kEvaluatorFailed) return false;
  const SolvedState& state = states[*chosen];
  return state.preflight.green() &&
         std::all_of(state.measured.begin(), state.measured.end(),
                     [](const auto& m) { return m.second.correct || !m.second.counts; });
}

Result<SolveReport> solve_sample(SolveContext& context, const SolveOptions& options) {
  return Solver(context, options).run();
}

}  // namespace passnet
