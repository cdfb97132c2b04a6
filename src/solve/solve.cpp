#include "solve/solve.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/pass_dir.h"
#include "sample/state_store.h"

namespace passnet {

std::string_view to_string(StopReason reason) {
  switch (reason) {
    case StopReason::kPreflightOnly: return "preflight_only";
    case StopReason::kNoRegion: return "no_region";
    case StopReason::kNothingGreen: return "nothing_green";
  }
  return "preflight_only";
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

bool SolveReport::green() const { return chosen.has_value() && states[*chosen].preflight.green(); }

namespace {

size_t green_variants(const PreflightReport& report) {
  return static_cast<size_t>(std::count_if(report.variants.begin(), report.variants.end(),
                                           [](const VariantProof& v) { return v.green(); }));
}

class Solver {
 public:
  Solver(SolveContext& context, const SolveOptions& options) : context_(context), options_(options) {}

  Result<SolveReport> run() {
    const Duration start = context_.clock.monotonic();
    context_.progress("reading and capturing the sample");
    PN_TRY(sample_, capture_sample(context_.files, options_.sample, options_.device, options_.jobs));
    if (auto reason = unusable(sample_)) return std::move(*reason);
    report_.sample = sample_.name;
    report_.findings = sample_.findings;
    PN_TRY(StateStore store, StateStore::open(context_.files, context_.clock,
                                              options_.out.empty() ? sample_.root : options_.out));
    context_.progress(fmt::format("planning {} variants", sample_.variants.size()));
    PlanOptions plan_options = options_.plan;
    report_.plan = plan(plan_options);
    report_.analysis_ms =
        std::chrono::duration<double, std::milli>(context_.clock.monotonic() - start).count();
    if (report_.plan.floor.passes.empty()) {
      report_.stop = StopReason::kNoRegion;
      report_.findings.insert(report_.findings.end(), report_.plan.findings.begin(),
                              report_.plan.findings.end());
      return finish(store);
    }
    // Floor before any upside: from here on the sample is never without a matching state.
    PN_CHECK_OK(floor(store, plan_options));
    PN_CHECK_OK(upside(store, plan_options));
    report_.findings.insert(report_.findings.end(), report_.plan.findings.begin(),
                            report_.plan.findings.end());
    if (!report_.green()) {
      report_.stop = report_.chosen ? StopReason::kNoRegion : StopReason::kNothingGreen;
    }
    return finish(store);
  }

 private:
  PlanResult plan(const PlanOptions& plan_options) {
    return plan_sample(sample_.variants, context_.profile, &estimate_schedule, plan_options);
  }

  // Judges one state, keeps it in the history, and puts it in force if it is the best so far.
  Result<size_t> judge(StateStore& store, const std::string& kind, const PlanState& state) {
    PN_TRY(GeneratedPassDir generated, generate_pass_dir(state.passes));
    SolvedState solved;
    solved.kind = kind;
    solved.predicted_speedup = state.gmean_speedup;
    for (const PassSpec& pass : state.passes) solved.passes.push_back(pass.name);
    PN_TRY(solved.hash, store.keep(generated.files));
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
    PN_CHECK_OK(store.put_record(report_.states[index].hash, "check", state_json(report_.states[index])));
    if (better(index)) {
      report_.chosen = index;
      PN_TRY(const std::string hash, store.install(generated.files));
      report_.files.clear();
      for (const auto& [name, text] : generated.files) report_.files.push_back(name);
    }
    return index;
  }

  static Json state_json(const SolvedState& state) {
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

  // More green variants first, then the better prediction; a state in which something failed never replaces one in
  // which nothing did.
  bool better(size_t index) const {
    const SolvedState& state = report_.states[index];
    if (green_variants(state.preflight) == 0) return false;
    if (!report_.chosen) return true;
    const SolvedState& best = report_.states[*report_.chosen];
    const bool clean = state.preflight.failures.empty(), best_clean = best.preflight.failures.empty();
    if (clean != best_clean) return clean;
    const size_t green = green_variants(state.preflight), best_green = green_variants(best.preflight);
    if (green != best_green) return green > best_green;
    return state.predicted_speedup > best.predicted_speedup;
  }

  // A pass that failed is taken from the planner's choice; the plan is made again without it.
  bool refuse(const SolvedState& state, const PlanState& planned, PlanOptions& plan_options) {
    bool changed = false;
    for (const PassFailure& failure : state.preflight.failures) {
      for (const PassSpec& pass : planned.passes) {
        if (pass.name != failure.pass) continue;
        changed |= plan_options.refused.emplace(pass.key, failure.why).second;
      }
    }
    return changed;
  }

  Status floor(StateStore& store, PlanOptions& plan_options) {
    for (size_t attempt = 0; attempt <= options_.max_replans; ++attempt) {
      const PlanState& planned = report_.plan.floor;
      PN_TRY(const size_t index, judge(store, "floor", planned));
      const SolvedState& state = report_.states[index];
      const bool again = !state.preflight.failures.empty() && refuse(state, planned, plan_options);
      if (!again) return ok_status();
      report_.plan = plan(plan_options);
      if (report_.plan.floor.passes.empty()) return ok_status();
    }
    return ok_status();
  }

  Status upside(StateStore& store, PlanOptions& plan_options) {
    std::string kind = "upside";
    for (size_t attempt = 0; attempt <= options_.max_replans; ++attempt) {
      const PlanState& planned = report_.plan.upside;
      if (planned.passes.empty()) return ok_status();
      PN_TRY(const size_t index, judge(store, kind, planned));
      const SolvedState& state = report_.states[index];
      if (state.preflight.failures.empty() || !refuse(state, planned, plan_options)) return ok_status();
      std::set<std::string> without;  // a pass may fail on several variants
      for (const PassFailure& failure : state.preflight.failures) without.insert(failure.pass);
      kind = fmt::format("upside without {}", fmt::join(without, ", "));
      report_.plan = plan(plan_options);
    }
    return ok_status();
  }

  Result<SolveReport> finish(StateStore& store) {
    if (!report_.chosen) {
      PN_TRY(const StateFiles files, store.current());
      for (const auto& [name, text] : files) report_.files.push_back(name);
    }
    return std::move(report_);
  }

  SolveContext& context_;
  const SolveOptions& options_;
  CapturedSample sample_;
  SolveReport report_;
};

}  // namespace

Result<SolveReport> solve_sample(SolveContext& context, const SolveOptions& options) {
  return Solver(context, options).run();
}

}  // namespace passnet
