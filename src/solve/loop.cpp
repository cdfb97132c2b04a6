// The loop over evaluations: what is measured next, what its result decides, and when it ends.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "codegen/pass_dir.h"
#include "plan/pass_specs.h"
#include "solve/narrow.h"
#include "solve/solver.h"
#include "solve/tune.h"

namespace passnet {
namespace {

constexpr double kShareOfCeiling = 0.9;
constexpr double kVariantsOfATotal = 30;  // an allowance of `evaluation_seconds` for so many
constexpr double kLeastSeconds = 30;      // an evaluation of less is not begun
constexpr double kMargin = 0.8;           // of the seconds of an evaluation that the plan for it fills
constexpr int kAttempts = 2;              // evaluations that fail in a row before the loop gives up

constexpr std::string_view kBest = "best", kCandidate = "candidate";

// 0, 1/2, 1/4, 3/4, ...: any beginning of it is spread evenly.
double spread(size_t i) {
  double value = 0, step = 0.5;
  for (; i > 0; i /= 2, step /= 2)
    if (i % 2 == 1) value += step;
  return value;
}

}  // namespace

double Solver::elapsed() const {
  return std::chrono::duration<double>(context_.clock.monotonic() - started_).count();
}

double Solver::total_limit() const {
  if (options_.total_seconds > 0) return options_.total_seconds;
  return options_.evaluation_seconds *
         std::ceil(static_cast<double>(sample_.variants.size()) / kVariantsOfATotal);
}

void Solver::stop(StopReason reason) {
  if (stopped_) return;
  stopped_ = true;
  report_.stop = reason;
}

Status Solver::run_evaluations() {
  // The floor comes before anything larger: from its pre-flight on the sample is never without a matching state.
  PN_TRY(const std::optional<size_t> first, floor());
  PN_CHECK_OK(evaluate_floor(first));
  if (!stopped_) PN_CHECK_OK(try_larger());
  if (!stopped_ && options_.tune) PN_CHECK_OK(tune());
  if (stopped_) return ok_status();
  if (!report_.chosen) {
    stop(StopReason::kNothingGreen);
  } else if (!comparable_) {
    stop(StopReason::kNotComparable);
  } else {
    const std::optional<double> speed = report_.states[*report_.chosen].measured_speedup;
    stop(speed && *speed < 1 ? StopReason::kOverheadBound : StopReason::kNothingLeft);
  }
  return ok_status();
}

// The floor, with what tells the machine's fixed costs. A floor that turns out wrong is planned around like one that fails
// its pre-flight; the one that is right on most variants stays until something better comes.
Status Solver::evaluate_floor(std::optional<size_t> index) {
  while (index && !stopped_) {
    SolvedState& state = report_.states[*index];
    if (state.decision) return ok_status();  // planned again, and the same came out
    std::vector<Contender> contenders = {contender(std::string(kCandidate), *index)};
    if (!calibrated_) {
      contenders.push_back({std::string(kNope), "nope", ""});
      contenders.push_back({std::string(kReady), "ceiling", ""});
    }
    PN_TRY(const std::optional<Evaluation> evaluation, evaluate(std::move(contenders), "floor", *index));
    if (!evaluation) return ok_status();
    remember(*evaluation, kCandidate, *index);
    EvaluationNote& note = report_.evaluations.back();
    const Standing standing = passnet::standing(*evaluation, kCandidate);
    const SolvedState* best =
        report_.chosen && report_.chosen != *index ? &report_.states[*report_.chosen] : nullptr;
    state.decision = standing.variants == 0                            ? Decision::kUnmeasured
                     : best == nullptr || !best->decision              ? Decision::kFirst
                     : state.measured_correct > best->measured_correct ? Decision::kMoreCorrect
                                                                       : Decision::kIncorrect;
    note.decision = state.decision;
    if (kept(*state.decision) && report_.chosen != *index) PN_CHECK_OK(adopt(*index));
    PN_CHECK_OK(record_state(*index, note));
    recalibrate(*evaluation);
    if (standing.correct == standing.variants) {
      stop_at_ceiling();
      return ok_status();
    }
    bool changed = false;
    for (const PassSpec& pass : passes_[*index]) {
      Refusal why{"evaluation_lost", standing.wrong.front(), {}};
      changed |= plan_options_.refused.emplace(pass.key, std::move(why)).second;
    }
    if (!changed) return ok_status();
    report_.plan = plan(plan_options_);
    PN_TRY(index, floor());
  }
  return ok_status();
}

Status Solver::try_larger() {
  PN_TRY(const std::optional<size_t> index, upside("upside"));
  if (!index || report_.chosen == *index || report_.states[*index].decision) return ok_status();
  // What failed its pre-flight is evaluated no more.
  if (!report_.states[*index].preflight.green()) return ok_status();
  PN_TRY(const std::optional<Decision> decision, challenge(*index, "larger regions"));
  if (stopped_ || (decision != Decision::kSlower && decision != Decision::kIncorrect)) return ok_status();
  return try_narrower(*index);
}

// Once: the part of what lost that has no side effects, no product, or not its largest pass.
Status Solver::try_narrower(size_t lost) {
  static const std::vector<PassSpec> kNone;
  const Narrowing narrow =
      narrower(plan_options_, passes_[lost], report_.chosen ? passes_[*report_.chosen] : kNone, profile_);
  if (!narrow.possible) return ok_status();
  PlanOptions before = std::exchange(plan_options_, narrow.options);
  PlanResult plan_before = std::exchange(report_.plan, plan(plan_options_));
  const size_t judged = report_.states.size();
  PN_TRY(const std::optional<size_t> index, upside("narrower"));
  std::optional<Decision> decision;
  if (index && *index >= judged && report_.states[*index].preflight.green()) {
    PN_TRY(decision, challenge(*index, "narrower, " + narrow.text));
  }
  if (decision && kept(*decision)) return ok_status();
  plan_options_ = std::move(before);
  report_.plan = std::move(plan_before);
  return ok_status();
}

Result<std::optional<Decision>> Solver::challenge(size_t index, const std::string& change) {
  std::vector<Contender> contenders;
  if (report_.chosen) contenders.push_back(contender(std::string(kBest), *report_.chosen));
  contenders.push_back(contender(std::string(kCandidate), index));
  PN_TRY(const std::optional<Evaluation> evaluation, evaluate(std::move(contenders), change, index));
  if (!evaluation) return std::optional<Decision>();
  EvaluationNote& note = report_.evaluations.back();
  remember(*evaluation, kCandidate, index);
  SolvedState& state = report_.states[index];
  if (!report_.chosen) {
    state.decision =
        passnet::standing(*evaluation, kCandidate).correct > 0 ? Decision::kFirst : Decision::kIncorrect;
  } else {
    remember(*evaluation, kBest, *report_.chosen);
    const SolvedState& best = report_.states[*report_.chosen];
    const Comparison comparison = compare(*evaluation, kBest, kCandidate);
    state.decision =
        decide(comparison, {best.nodes, state.nodes, best.predicted_speedup, state.predicted_speedup});
    note.ratio = comparison.ratio;
  }
  note.decision = state.decision;
  if (kept(*state.decision)) PN_CHECK_OK(adopt(index));
  PN_CHECK_OK(record_state(index, note));
  context_.progress(
      fmt::format("  {}: {}", kept(*state.decision) ? "kept" : "taken back", meaning(*state.decision)));
  stop_at_ceiling();
  return state.decision;
}

// A round measures single kernels with other numbers; what wins in any of them becomes one state, which has to pass its
// pre-flight and an evaluation like any other.
Status Solver::tune() {
  if (!report_.chosen || !comparable_) return ok_status();
  const size_t best = *report_.chosen;
  PN_TRY(const TunePlan tuning, TunePlan::make(passes_[best], sample_.variants, profile_));
  std::vector<Pin> pins;
  for (const std::vector<Variation>& round : tuning.rounds()) {
    // One evaluation is left for the state that comes of it.
    if (report_.evaluations.size() + 2 > options_.max_evaluations || stopped_) break;
    std::vector<Contender> contenders = {contender(std::string(kBest), best)};
    for (const Variation& variation : round) {
      PN_TRY(const GeneratedPassDir generated, generate_pass_dir(tuning.with(variation)));
      PN_TRY(const std::string hash, store_->keep(generated.files));
      contenders.push_back({variation.name, "pass_mgr", store_->files_of(hash)});
    }
    PN_TRY(const std::optional<Evaluation> evaluation,
           evaluate(std::move(contenders), "kernel numbers", std::nullopt));
    if (!evaluation) break;
    remember(*evaluation, kBest, best);
    for (Pin& pin : tuning.winners(round, *evaluation, kBest)) {
      const auto same = std::find_if(pins.begin(), pins.end(), [&](const Pin& p) {
        return p.pass == pin.pass && p.entry == pin.entry && p.kernel == pin.kernel;
      });
      if (same == pins.end()) {
        pins.push_back(std::move(pin));
      } else if (pin.ratio.value > same->ratio.value) {
        *same = std::move(pin);
      }
    }
  }
  if (pins.empty() || stopped_) return ok_status();
  PlanState tuned;
  tuned.passes = tuning.with(pins);
  tuned.gmean_speedup = report_.states[best].predicted_speedup;
  PN_TRY(const size_t index, judge("tuned", tuned));
  report_.states[index].predicted_us = report_.states[best].predicted_us;
  if (index == best || !report_.states[index].preflight.green()) return ok_status();
  PN_TRY(const std::optional<Decision> decision, challenge(index, "tuned"));
  if (decision && kept(*decision)) {
    for (const Pin& pin : pins) report_.pins.push_back(to_json(pin, passes_[index]));
  }
  return ok_status();
}

bool Solver::may_evaluate() {
  if (stopped_) return false;
  if (report_.evaluations.size() >= options_.max_evaluations) {
    stop(StopReason::kBudget);
    return false;
  }
  // The first is always made: without it nothing is known.
  const double left = total_limit() - elapsed();
  if (!report_.evaluations.empty() && left < std::max(kLeastSeconds, last_seconds_)) {
    stop(StopReason::kTimeLimit);
    return false;
  }
  return true;
}

// All variants, or as many as the time is expected to suffice for: those that were measured least often first, spread over
// types and sizes.
std::vector<std::string> Solver::variants_to_measure(size_t contenders, double seconds) {
  std::vector<size_t> order(sample_.variants.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto expected = [&](size_t v) {
    return v < report_.plan.variants.size() ? report_.plan.variants[v].eager_us : 0.0;
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(sample_.variants[a].dtype, expected(a)) <
           std::pair(sample_.variants[b].dtype, expected(b));
  });
  const size_t n = order.size();
  const double fits =
      kMargin * seconds / (unit_seconds_ * static_cast<double>(std::max<size_t>(1, contenders)));
  const size_t most = fits >= static_cast<double>(n) ? n : std::max<size_t>(1, static_cast<size_t>(fits));
  std::vector<std::string> names;
  if (most < n) {
    // Places in the sorted list, each once, so that every beginning of the sequence is spread over it.
    std::vector<size_t> spread_order;
    std::vector<bool> taken(n, false);
    for (size_t i = 0; spread_order.size() < n; ++i) {
      const auto place = static_cast<size_t>(spread(i) * static_cast<double>(n));
      if (taken[place]) continue;
      taken[place] = true;
      spread_order.push_back(order[place]);
    }
    std::stable_sort(spread_order.begin(), spread_order.end(), [&](size_t a, size_t b) {
      return measured_[sample_.variants[a].name] < measured_[sample_.variants[b].name];
    });
    spread_order.resize(most);
    std::sort(spread_order.begin(), spread_order.end());
    for (const size_t v : spread_order) names.push_back(sample_.variants[v].name);
    return names;
  }
  for (const CapturedVariant& variant : sample_.variants) names.push_back(variant.name);
  return names;
}

Contender Solver::contender(std::string name, size_t index) const {
  return {std::move(name), "pass_mgr", store_->files_of(report_.states[index].hash)};
}

Result<std::optional<Evaluation>> Solver::evaluate(std::vector<Contender> contenders,
                                                   const std::string& change, std::optional<size_t> state) {
  while (may_evaluate()) {
    EvaluationRequest request;
    request.contenders = contenders;
    request.seconds =
        std::min(options_.evaluation_seconds, report_.evaluations.empty()
                                                  ? options_.evaluation_seconds
                                                  : std::max(kLeastSeconds, total_limit() - elapsed()));
    request.variants = variants_to_measure(contenders.size(), request.seconds);
    context_.progress(fmt::format("evaluation {} of {}: {} ({} of {} variants)",
                                  report_.evaluations.size() + 1, options_.max_evaluations, change,
                                  request.variants.size(), sample_.variants.size()));
    EvaluationNote note;
    note.change = change;
    note.state = state;
    note.contenders = contenders.size();
    note.variants = request.variants.size();
    if (state) note.predicted = report_.states[*state].predicted_speedup;
    const double before = elapsed();
    Result<Evaluation> evaluation = context_.evaluator->run(request);
    note.seconds = last_seconds_ = elapsed() - before;
    if (!evaluation.ok()) {
      note.error = evaluation.error().message;
      note.decision = Decision::kEvaluatorFailed;
      report_.evaluations.push_back(std::move(note));
      answers_.push_back({{"error", evaluation.error().message}, {"seconds", last_seconds_}});
      report_.findings.push_back(evaluation.error());
      if (++failures_ >= kAttempts) {
        stop(StopReason::kEvaluatorFailed);
        return std::optional<Evaluation>();
      }
      continue;
    }
    failures_ = 0;
    comparable_ = evaluation->comparable;
    note.unmeasured = evaluation->unmeasured.size();
    note.folder = evaluation->folder;
    const size_t done = request.variants.size() - std::min(request.variants.size(), note.unmeasured);
    if (done > 0)
      unit_seconds_ = std::max(0.01, last_seconds_ / static_cast<double>(done * contenders.size()));
    for (const std::string& variant : request.variants) {
      const auto& left = evaluation->unmeasured;
      if (std::find(left.begin(), left.end(), variant) == left.end()) ++measured_[variant];
    }
    if (state) {
      const Standing standing = passnet::standing(*evaluation, kCandidate);
      note.speedup = standing.speedup;
      note.correct = standing.correct;
      note.wrong = standing.wrong;
    }
    report_.evaluations.push_back(std::move(note));
    answers_.push_back(to_json(*evaluation));
    PN_CHECK_OK(context_.files.write(
        join_path(store_->root(), ".passnet/evaluations.json"),
        dump_json(
            {{"schema", "passnet.evaluations/1"}, {"sample", report_.sample}, {"evaluations", answers_}}, 1) +
            "\n"));
    return std::optional<Evaluation>(std::move(*evaluation));
  }
  return std::optional<Evaluation>();
}

// The latest of each variant counts: a state that is measured again, beside another one, is measured better.
void Solver::remember(const Evaluation& evaluation, std::string_view contender, size_t index) {
  const auto all = evaluation.results.find(std::string(contender));
  if (all == evaluation.results.end()) return;
  for (const auto& [variant, m] : all->second) known_[index][variant] = m;
  SolvedState& state = report_.states[index];
  state.measured = known_[index];
  state.comparable = evaluation.comparable;
  Evaluation merged;
  merged.comparable = evaluation.comparable;
  merged.results["it"] = known_[index];
  const Standing standing = passnet::standing(merged, "it");
  state.measured_speedup = standing.speedup;
  state.measured_correct = standing.correct;
}

void Solver::recalibrate(const Evaluation& evaluation) {
  if (calibrated_ || !evaluation.comparable) return;
  calibrated_ = true;
  Calibration calibration = calibrate(evaluation, sample_.variants, profile_);
  if (calibration.changes.empty()) return;
  report_.calibration = calibration.changes;
  profile_ = std::move(calibration.profile);
  report_.plan = plan(plan_options_);
  // The floor is what it was; what it is predicted to do on this machine is another matter.
  for (SolvedState& state : report_.states) {
    if (state.kind != "floor" || state.passes.size() != report_.plan.floor.passes.size()) continue;
    bool same = true;
    for (size_t p = 0; p < state.passes.size(); ++p)
      same &= state.passes[p] == report_.plan.floor.passes[p].name;
    if (!same) continue;
    state.predicted_speedup = report_.plan.floor.gmean_speedup;
    for (const VariantPrediction& v : report_.plan.variants) state.predicted_us[v.name] = v.floor_us;
  }
}

void Solver::stop_at_ceiling() {
  if (!report_.chosen || !comparable_ || report_.plan.gmean_ceiling <= 0) return;
  const std::optional<double> speed = report_.states[*report_.chosen].measured_speedup;
  if (speed && *speed >= kShareOfCeiling * report_.plan.gmean_ceiling) stop(StopReason::kCeiling);
}

void Solver::take_proofs() {
  if (!report_.chosen || report_.evaluations.empty()) return;
  SolvedState& state = report_.states[*report_.chosen];
  for (const auto& [variant, m] : state.measured) {
    if (m.correct || !m.counts) continue;
    report_.findings.push_back(
        user_error("solve.not_correct", fmt::format("{} with the state in force: {}{}{}", variant, m.outcome,
                                                    m.why.empty() ? "" : ", ", m.why))
            .with_hint("no state that was evaluated is right on more variants; docs/solving.md"));
  }
  for (VariantProof& variant : state.preflight.variants) {
    const auto it = state.measured.find(variant.name);
    if (it == state.measured.end() || !it->second.counts) continue;
    const Measurement& m = it->second;
    const std::string by = comparable_ ? "completed evaluation" : "interpreter on the CPU";
    for (Proof& proof : variant.proofs) {
      if (!m.correct && (proof.subject == "numerics"))
        proof = {proof.subject, Proof::State::kFailed, by, fmt::format("{}, {}", m.outcome, m.why)};
      if (!m.correct || proof.state == Proof::State::kFailed) continue;
      if (proof.subject == "numerics" && proof.state == Proof::State::kProven) {
        if (comparable_) proof.by += " and a completed evaluation";
      } else if (proof.subject == "numerics" || (proof.subject == "poison" && proof.by.empty())) {
        proof = {proof.subject, Proof::State::kProven, by, "on the sample's own inputs"};
      } else if (proof.subject == "speed" && comparable_ && m.time_us) {
        proof = {proof.subject, Proof::State::kProven, by, "median of the trials, in turn with eager's"};
      }
    }
  }
}

Status Solver::record_state(size_t index, const EvaluationNote& note) {
  const SolvedState& state = report_.states[index];
  Json variants = Json::object();
  for (const auto& [variant, m] : state.measured)
    variants[variant] = {{"outcome", m.outcome},
                         {"correct", m.correct},
                         {"eager_us", m.eager_us ? Json(*m.eager_us) : Json(nullptr)},
                         {"time_us", m.time_us ? Json(*m.time_us) : Json(nullptr)}};
  return store_->put_record(state.hash, "evaluation",
                            {{"schema", "passnet.evaluation_record/1"},
                             {"kind", state.kind},
                             {"change", note.change},
                             {"decision", note.decision ? Json(to_string(*note.decision)) : Json(nullptr)},
                             {"folder", note.folder},
                             {"variants", std::move(variants)}});
}

}  // namespace passnet
