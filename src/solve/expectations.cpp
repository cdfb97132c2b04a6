#include "solve/expectations.h"

#include <set>

#include "codegen/pass_dir.h"
#include "sample/state_store.h"

namespace passnet {
namespace {

constexpr size_t kReplans = 6;

// The files that make a state, as state_hash counts them.
StateFiles state_files(const std::map<std::string, std::string>& passes) {
  return {passes.begin(), passes.end()};
}

bool writes(const PlanState& state, const std::string& hash) {
  if (state.passes.empty()) return false;
  const auto generated = generate_pass_dir(state.passes);
  return generated.ok() && state_hash({generated->files.begin(), generated->files.end()}) == hash;
}

// Refuses what the planner chose and the folder does not have; false: there is nothing of that kind.
bool refuse_missing(const PlanState& state, const std::map<std::string, std::string>& passes,
                    PlanOptions& options) {
  bool changed = false;
  for (const PassSpec& pass : state.passes) {
    if (passes.contains(pass.name + ".py")) continue;
    changed |= options.refused
                   .emplace(pass.key, Refusal{"preflight_failed", "the pass_dir does not have this pass", {}})
                   .second;
  }
  return changed;
}

}  // namespace

const Expectations::Known* Expectations::known(const std::string& root) {
  const auto found = known_.find(root);
  if (found != known_.end()) return found->second ? &*found->second : nullptr;
  std::optional<Known>& entry = known_[root];
  auto sample = capture_sample(*files_, root, device_, 1);
  if (!sample.ok() || unusable(*sample)) return nullptr;
  entry.emplace();
  entry->variants = std::move(sample->variants);
  entry->plan = plan_sample(entry->variants, *profile_, &estimate_schedule);
  return &*entry;
}

score::ExpectedOfSample Expectations::of(const std::string& root,
                                         const std::map<std::string, std::string>& passes) {
  score::ExpectedOfSample out;
  const Known* sample = known(root);
  if (sample == nullptr) return out;
  PlanResult replanned;
  const PlanResult* plan = &sample->plan;
  std::string state = passes.empty() ? "" : "other";
  if (!passes.empty()) {
    const std::string hash = state_hash(state_files(passes));
    PlanOptions options;
    for (size_t attempt = 0; attempt <= kReplans; ++attempt) {
      if (writes(plan->upside, hash)) state = "upside";
      if (state == "other" && writes(plan->floor, hash)) state = "floor";
      if (state != "other" || !refuse_missing(plan->upside, passes, options)) break;
      replanned = plan_sample(sample->variants, *profile_, &estimate_schedule, options);
      plan = &replanned;
    }
  }
  std::set<std::string> codes;
  for (const Refusal& refusal : sample->plan.blocked) codes.insert(refusal.code);
  for (size_t v = 0; v < sample->plan.variants.size(); ++v) {
    const VariantPrediction& base = sample->plan.variants[v];
    const auto ratio = [&](double us) {
      return us > 0 && base.eager_us > 0 ? std::optional<double>(base.eager_us / us) : std::nullopt;
    };
    score::Expected e;
    e.legal_ceiling = ratio(base.ceiling_us);
    e.unchanged = ratio(base.unchanged_us);
    e.state = state;
    if (!sample->plan.archetypes.empty()) e.family = sample->plan.archetypes.front().archetype->family;
    e.blocked.assign(codes.begin(), codes.end());
    if (state == "upside" || state == "floor") {
      const VariantPrediction& own = plan->variants[v];
      const bool upside = state == "upside";
      const double us = upside ? own.upside_us : own.floor_us;
      e.predicted = ratio(us);
      if (us > 0) e.device_share = (upside ? own.upside_device_us : own.floor_device_us) / us;
    }
    out[base.name] = std::move(e);
  }
  return out;
}

}  // namespace passnet
