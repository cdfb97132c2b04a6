#include "solve/sensitivity.h"

#include <map>
#include <span>
#include <string_view>

#include "base/json.h"

namespace passnet {
namespace {

using Member = double Profile::*;

struct Cost {
  std::string_view name;
  std::vector<Member> members;
  bool rate = false;  // a cost is what a rate divides
};

const std::vector<Cost>& costs() {
  static const std::vector<Cost> all = {
      {"eager's host time", {&Profile::host_scale}},
      {"host time of a wrapper",
       {&Profile::wrapper_us, &Profile::tensor_argument_us, &Profile::allocation_us, &Profile::launch_us,
        &Profile::zero_launch_us}},
      {"the harness's share", {&Profile::harness_us}},
      {"the compiled path's tax", {&Profile::compiled_tax_us}},
      {"the shortest kernel and its latency", {&Profile::kernel_floor_us, &Profile::latency_us}},
      {"moving bytes", {&Profile::bandwidth_gbps, &Profile::l2_gbps}, true},
      {"the library's products", {&Profile::product_efficiency}, true},
      {"the library's convolutions",
       {&Profile::conv32_tflops, &Profile::conv16_tflops, &Profile::depthwise_tflops, &Profile::stem_tflops,
        &Profile::transposed_tflops},
       true},
      {"generated products",
       {&Profile::generated_efficiency, &Profile::windowed16_tflops, &Profile::windowed32_tflops},
       true},
  };
  return all;
}

std::map<std::string, std::string> regions_of(const PlanState& state) {
  std::map<std::string, std::string> out;
  for (size_t p = 0; p < state.passes.size(); ++p)
    out[state.passes[p].key] = p < state.descriptions.size() ? state.descriptions[p] : state.passes[p].name;
  return out;
}

std::vector<std::string> missing(const std::map<std::string, std::string>& in,
                                 const std::map<std::string, std::string>& from) {
  std::vector<std::string> out;
  for (const auto& [key, text] : from)
    if (!in.contains(key)) out.push_back(text);
  return out;
}

}  // namespace

Sensitivity sensitivity(const std::vector<CapturedVariant>& variants, const Profile& profile,
                        const ScheduleOracle& oracle, const PlanOptions& options, const PlanState& upside,
                        Clock& clock, Duration limit) {
  Sensitivity out;
  const std::map<std::string, std::string> now = regions_of(upside);
  PlanOptions quick = options;
  quick.ceiling = false;
  const Duration start = clock.monotonic();
  for (const Cost& cost : costs()) {
    if (clock.monotonic() - start > limit) {
      out.left_out.emplace_back(cost.name);
      continue;
    }
    bool steady = true;
    for (const double factor : kCostFactors) {
      Profile changed = profile;
      for (const Member member : cost.members) changed.*member *= cost.rate ? 1 / factor : factor;
      const PlanResult plan = plan_sample(variants, changed, oracle, quick);
      const std::map<std::string, std::string> then = regions_of(plan.upside);
      Flip flip{std::string(cost.name), factor, plan.upside.gmean_speedup, missing(now, then),
                missing(then, now)};
      if (flip.gained.empty() && flip.lost.empty()) continue;
      steady = false;
      out.flips.push_back(std::move(flip));
    }
    if (steady) out.steady.emplace_back(cost.name);
  }
  return out;
}

Json to_json(const Sensitivity& sensitivity) {
  Json flips = Json::array();
  for (const Flip& flip : sensitivity.flips)
    flips.push_back({{"cost", flip.cost},
                     {"factor", flip.factor},
                     {"speedup", flip.speedup},
                     {"gained", flip.gained},
                     {"lost", flip.lost}});
  return {{"flips", std::move(flips)}, {"steady", sensitivity.steady}, {"left_out", sensitivity.left_out}};
}

}  // namespace passnet
