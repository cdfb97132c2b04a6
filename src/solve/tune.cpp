#include "solve/tune.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/json.h"
#include "codegen/pass_dir.h"
#include "plan/facts.h"
#include "plan/pass_specs.h"
#include "solve/decision.h"
#include "solve/specialise.h"

namespace passnet {
namespace {

constexpr size_t kChoices = 6;        // configurations a kernel
constexpr size_t kContenders = 8;     // variations of a round, beside the state as it is
constexpr double kWorthTuning = 2.5;  // times the shortest kernel: below, the host hides what is won

// Time on the device of one launch, as the planner would have it.
double device_us(const TunableKernel& kernel, const Profile& profile) {
  const bool units = kernel.now.schedule == "product";
  const double rate = units ? profile.tf32_tflops * profile.generated_efficiency : profile.fp32_tflops;
  return device_time_us(kernel.bytes, kernel.flops, rate, 1, profile);
}

void pin(PassEntry& entry, size_t kernel, const KernelConfig& config) {
  if (entry.tuned.size() <= kernel) entry.tuned.resize(kernel + 1);
  entry.tuned[kernel] = config;
}

}  // namespace

Result<TunePlan> TunePlan::make(const std::vector<PassSpec>& passes,
                                const std::vector<CapturedVariant>& variants, const Profile& profile) {
  TunePlan plan;
  plan.passes_ = clone(passes);
  for (const PassSpec& pass : passes) plan.users_.emplace_back(pass.entries.size());
  for (const CapturedVariant& variant : variants) {
    const Result<Specialised> special = specialise(passes, variant);
    if (!special.ok()) continue;  // a graph without a match of its own: nothing there to tune
    for (size_t p = 0; p < passes.size(); ++p) {
      for (size_t e = 0; e < passes[p].entries.size(); ++e) {
        const bool uses =
            std::any_of(special->entries[p].begin(), special->entries[p].end(), [&](const PassEntry& entry) {
              return same_bindings(entry.bindings, passes[p].entries[e].bindings);
            });
        if (uses) plan.users_[p][e].push_back(variant.name);
      }
    }
  }
  PN_TRY(const std::vector<TunableKernel> kernels, tunable_kernels(passes, kChoices));
  struct Slot {
    double us = 0;
    size_t choices = 0;
  };
  std::map<std::pair<size_t, size_t>, Slot> slots;  // by pass and kernel
  for (const TunableKernel& kernel : kernels) {
    plan.kernels_.push_back({kernel.pass, kernel.entry, kernel.kernel, kernel.now, kernel.others});
    const double us = device_us(kernel, profile);
    if (us < kWorthTuning * profile.kernel_floor_us) continue;
    Slot& slot = slots[{kernel.pass, kernel.kernel}];
    slot.us += us;
    slot.choices = std::max(slot.choices, kernel.others.size());
  }
  std::vector<std::pair<std::pair<size_t, size_t>, Slot>> order(slots.begin(), slots.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.us > b.second.us; });
  std::vector<Variation> all;
  for (const auto& [at, slot] : order)
    for (size_t c = 0; c < slot.choices; ++c) all.push_back({at.first, at.second, c, {}});
  for (size_t i = 0; i < all.size(); i += kContenders) {
    std::vector<Variation>& round = plan.rounds_.emplace_back();
    for (size_t k = i; k < std::min(all.size(), i + kContenders); ++k) {
      round.push_back(all[k]);
      round.back().name = fmt::format("t{}", k + 1);
    }
  }
  return plan;
}

std::vector<PassSpec> TunePlan::with(const Variation& variation) const {
  std::vector<PassSpec> out = clone(passes_);
  for (const Kernel& kernel : kernels_) {
    if (kernel.pass == variation.pass && kernel.kernel == variation.kernel &&
        variation.choice < kernel.others.size())
      pin(out[kernel.pass].entries[kernel.entry], kernel.kernel, kernel.others[variation.choice]);
  }
  return out;
}

std::vector<PassSpec> TunePlan::with(const std::vector<Pin>& pins) const {
  std::vector<PassSpec> out = clone(passes_);
  for (const Pin& p : pins) pin(out[p.pass].entries[p.entry], p.kernel, p.to);
  return out;
}

std::vector<Pin> TunePlan::winners(const std::vector<Variation>& round, const Evaluation& evaluation,
                                   std::string_view base) const {
  std::vector<Pin> out;
  if (!evaluation.comparable) return out;
  for (const Kernel& kernel : kernels_) {
    std::optional<Pin> best;
    for (const Variation& variation : round) {
      if (variation.pass != kernel.pass || variation.kernel != kernel.kernel ||
          variation.choice >= kernel.others.size())
        continue;
      // Only the variants that use this entry say anything of it.
      Evaluation part;
      for (const std::string& variant : users_[kernel.pass][kernel.entry]) {
        for (const std::string& name : {std::string(base), variation.name}) {
          if (const Measurement* m = evaluation.find(name, variant)) part.results[name][variant] = *m;
        }
      }
      const Comparison c = compare(part, base, variation.name);
      if (c.candidate_correct != c.variants || !c.ratio || c.ratio->low <= 1) continue;
      if (best && c.ratio->value <= best->ratio.value) continue;
      best = Pin{kernel.pass, kernel.entry, kernel.kernel, kernel.now, kernel.others[variation.choice],
                 *c.ratio,    c.variants};
    }
    if (best) out.push_back(*best);
  }
  return out;
}

Json to_json(const KernelConfig& config) {
  Json json = {{"schedule", config.schedule}, {"warps", config.num_warps}, {"stages", config.num_stages}};
  for (const auto& [name, value] : {std::pair{"block", config.block},
                                    {"rows", config.rows},
                                    {"cols", config.cols},
                                    {"inner", config.inner}})
    if (value > 0) json[name] = value;
  return json;
}

Json to_json(const Pin& pin, const std::vector<PassSpec>& passes) {
  return {{"pass", passes[pin.pass].name}, {"entry", passes[pin.pass].entries[pin.entry].where},
          {"kernel", pin.kernel},          {"from", to_json(pin.from)},
          {"to", to_json(pin.to)},         {"ratio", {pin.ratio.value, pin.ratio.low, pin.ratio.high}},
          {"variants", pin.variants}};
}

}  // namespace passnet
