#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/pass_dir.h"
#include "plan/pass_specs.h"
#include "solve/solver.h"

namespace passnet {
namespace {

size_t green_variants(const PreflightReport& report) {
  return static_cast<size_t>(std::count_if(report.variants.begin(), report.variants.end(),
                                           [](const VariantProof& v) { return v.green(); }));
}

Json state_json(const SolvedState& state) {
  Json variants = Json::array();
  for (const VariantProof& variant : state.preflight.variants) {
    Json proofs = Json::array();
    for (const Proof& proof : variant.proofs) proofs.push_back(to_json(proof));
    variants.push_back({{"name", variant.name},
                        {"matched", variant.matched},
                        {"green", variant.green()},
                        {"proofs", proofs}});
  }
  return {{"schema", "passnet.check_record/1"},
          {"kind", state.kind},
          {"green", state.preflight.green()},
          {"passes", state.passes},
          {"variants", variants},
          {"details", state.preflight.details}};
}

}  // namespace

Result<SolveReport> Solver::run() {
  started_ = context_.clock.monotonic();
  context_.progress("reading and capturing the sample");
  PN_TRY(sample_, capture_sample(context_.files, options_.sample, options_.device, options_.jobs));
  if (auto reason = unusable(sample_)) return std::move(*reason);
  report_.sample = sample_.name;
  report_.findings = sample_.findings;
  PN_TRY(store_, StateStore::open(context_.files, context_.clock,
                                  options_.out.empty() ? sample_.root : options_.out));
  context_.progress(fmt::format("planning {} variants", sample_.variants.size()));
  plan_options_ = options_.plan;
  report_.plan = plan(plan_options_);
  report_.analysis_ms =
      std::chrono::duration<double, std::milli>(context_.clock.monotonic() - started_).count();
  if (report_.plan.floor.passes.empty()) {
    report_.stop = StopReason::kNoRegion;
    report_.findings.insert(report_.findings.end(), report_.plan.findings.begin(),
                            report_.plan.findings.end());
    return finish();
  }
  if (context_.evaluator != nullptr) {
    PN_CHECK_OK(run_evaluations());
  } else {
    // Floor before any upside: from here on the sample is never without a matching state.
    PN_CHECK_OK(floor());
    PN_CHECK_OK(upside("upside"));
    if (!report_.green()) report_.stop = report_.chosen ? StopReason::kNoRegion : StopReason::kNothingGreen;
  }
  report_.findings.insert(report_.findings.end(), report_.plan.findings.begin(), report_.plan.findings.end());
  if (options_.sensitivity_seconds > 0) {
    const auto limit =
        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options_.sensitivity_seconds));
    report_.sensitivity = sensitivity(sample_.variants, profile_, &estimate_schedule, plan_options_,
                                      report_.plan.upside, context_.clock, limit);
  }
  return finish();
}

PlanResult Solver::plan(const PlanOptions& plan_options) {
  return plan_sample(sample_.variants, profile_, &estimate_schedule, plan_options);
}

Result<size_t> Solver::judge(const std::string& kind, const PlanState& state) {
  PN_TRY(GeneratedPassDir generated, generate_pass_dir(state.passes));
  SolvedState solved;
  solved.kind = kind;
  solved.predicted_speedup = state.gmean_speedup;
  for (const PassSpec& pass : state.passes) {
    solved.passes.push_back(pass.name);
    solved.nodes += replaced_nodes(pass);
  }
  for (const VariantPrediction& v : report_.plan.variants)
    solved.predicted_us[v.name] = kind == "floor" ? v.floor_us : v.upside_us;
  PN_TRY(solved.hash, store_->keep(generated.files));
  // The same bytes were judged already, in an earlier run or as another state of this one.
  for (size_t i = 0; i < report_.states.size(); ++i) {
    if (report_.states[i].hash == solved.hash) return i;
  }
  context_.progress(fmt::format("pre-flight of the {}: {}", kind, fmt::join(solved.passes, ", ")));
  StateUnderTest test;
  test.passes = &state.passes;
  test.generated = &generated;
  test.variants = &sample_.variants;
  test.sample_root = sample_.root;
  test.variant_dirs = sample_.dirs;
  PN_TRY(solved.preflight, context_.preflight.run(test));
  report_.states.push_back(std::move(solved));
  const size_t index = report_.states.size() - 1;
  passes_[index] = clone(state.passes);
  PN_CHECK_OK(store_->put_record(report_.states[index].hash, "check", state_json(report_.states[index])));
  return index;
}

Status Solver::adopt(size_t index) {
  report_.chosen = index;
  PN_TRY(const StateFiles files, store_->read_state(report_.states[index].hash));
  PN_TRY(const std::string hash, store_->install(files));
  report_.files.clear();
  for (const auto& [name, text] : files) report_.files.push_back(name);
  return ok_status();
}

Status Solver::adopt_if_better(size_t index) { return better(index) ? adopt(index) : ok_status(); }

// More green variants first, then the better prediction; a state in which something failed never replaces one in
// which nothing did.
bool Solver::better(size_t index) const {
  const SolvedState& state = report_.states[index];
  if (report_.chosen == index || green_variants(state.preflight) == 0) return false;
  if (!report_.chosen) return true;
  const SolvedState& best = report_.states[*report_.chosen];
  if (best.decision) return false;  // what was evaluated gives way to an evaluation only
  const bool clean = state.preflight.failures.empty(), best_clean = best.preflight.failures.empty();
  if (clean != best_clean) return clean;
  const size_t green = green_variants(state.preflight), best_green = green_variants(best.preflight);
  if (green != best_green) return green > best_green;
  return state.predicted_speedup > best.predicted_speedup;
}

// A pass that failed is taken from the planner's choice; the plan is made again without it.
bool Solver::refuse(const SolvedState& state, const std::vector<PassSpec>& passes,
                    PlanOptions& plan_options) {
  bool changed = false;
  for (const PassFailure& failure : state.preflight.failures) {
    for (const PassSpec& pass : passes) {
      if (pass.name != failure.pass) continue;
      changed |= plan_options.refused.emplace(pass.key, failure.why).second;
    }
  }
  return changed;
}

Result<std::optional<size_t>> Solver::floor() {
  std::optional<size_t> last;
  for (size_t attempt = 0; attempt <= options_.max_replans; ++attempt) {
    if (report_.plan.floor.passes.empty()) break;
    PN_TRY(last, judge("floor", report_.plan.floor));
    PN_CHECK_OK(adopt_if_better(*last));
    const SolvedState& state = report_.states[*last];
    if (state.preflight.failures.empty() || !refuse(state, report_.plan.floor.passes, plan_options_)) break;
    report_.plan = plan(plan_options_);
  }
  return last;
}

Result<std::optional<size_t>> Solver::upside(std::string kind) {
  std::optional<size_t> last;
  const std::string first = kind;
  for (size_t attempt = 0; attempt <= options_.max_replans; ++attempt) {
    if (report_.plan.upside.passes.empty()) break;
    PN_TRY(last, judge(kind, report_.plan.upside));
    // With an evaluator nothing but an evaluation puts a larger state in force.
    if (context_.evaluator == nullptr) PN_CHECK_OK(adopt_if_better(*last));
    const SolvedState& state = report_.states[*last];
    if (state.preflight.failures.empty() || !refuse(state, report_.plan.upside.passes, plan_options_)) break;
    std::set<std::string> without;  // a pass may fail on several variants
    for (const PassFailure& failure : state.preflight.failures) without.insert(failure.pass);
    kind = fmt::format("{} without {}", first, fmt::join(without, ", "));
    report_.plan = plan(plan_options_);
  }
  return last;
}

Result<SolveReport> Solver::finish() {
  if (!report_.chosen) {
    PN_TRY(const StateFiles files, store_->current());
    for (const auto& [name, text] : files) report_.files.push_back(name);
  }
  take_proofs();
  if (report_.chosen) report_.score = report_.states[*report_.chosen].measured_speedup;
  report_.seconds = elapsed();
  return std::move(report_);
}

}  // namespace passnet
