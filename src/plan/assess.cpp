#include "plan/assess.h"

#include <algorithm>

#include <fmt/format.h>

#include "plan/numerics_gate.h"

namespace passnet {

namespace {

int output_count(const Meta& meta) {
  return meta.kind == Meta::Kind::kTuple ? static_cast<int>(meta.items.size()) : 1;
}

CallCost cost_of_region(const GraphFacts& facts, const Region& region, const ScheduleEstimate& estimate,
                        const Profile& profile) {
  // A perfect kernel reaches what the library reaches at its best; a generated one is not tuned.
  const bool ideal = estimate.schedule == kIdealSchedule;
  const bool units = ideal || estimate.schedule.find("product") != std::string::npos;
  const double tflops = region_tflops(facts, region, units, ideal, profile);
  return wrapper_cost(region.kind, estimate, static_cast<int>(region.inputs.size()),
                      output_count(facts.graph().node(region.root).meta), tflops, profile);
}

// A zero-launch region is right only where its metadata proves it: every call returns its operand, or it is
// the item of a tuple.
void check_zero_launch(const GraphFacts& facts, const Region& region, Verdict& verdict) {
  if (region.nodes.size() == 1 && facts[region.root].tuple != kNoNode) return;
  for (NodeId id : region.nodes) {
    if (facts[id].no_op_of != kNoNode) continue;
    const std::string& name = facts.graph().node(id).name;
    verdict.refuse("not_a_no_op", fmt::format("{} does not return its operand here", name), {name});
  }
}

}  // namespace

bool has_product(const GraphFacts& facts, const Region& region) {
  return std::any_of(region.nodes.begin(), region.nodes.end(), [&](NodeId id) {
    return facts[id].call && facts[id].call->row->cls == OpClass::kProduct;
  });
}

const Assessment& Assessor::assess(size_t instance, const Region& region) {
  const auto [it, fresh] = done_.try_emplace(Key{instance, region.kind, region.nodes, region.inputs});
  Assessment& out = it->second;
  if (!fresh) return out;
  const GraphFacts& facts = *(*instances_)[instance].facts;
  out.verdict = judge(facts, region, out.copies_view);
  if (region.kind == Region::Kind::kZeroLaunch) {
    check_zero_launch(facts, region, out.verdict);
    out.estimate.schedule = "none";
    out.estimate.kernels = 0;
  } else {
    for (NodeId id : region.nodes) {
      if (!facts[id].wall.code.empty()) out.verdict.refuse(facts[id].wall);
    }
    if (out.verdict.ok()) out.verdict &= judge_numerics(facts, region);
    if (out.verdict.ok()) {
      const Result<Program> program = lower_region(facts.graph(), region.nodes, region.root, region.inputs);
      if (!program) {
        out.verdict.refuse("lowering", program.error().message, {facts.graph().node(region.root).name});
      } else {
        out.estimate = (*oracle_)(*program);
        for (const Refusal& refusal : out.estimate.verdict.refusals()) {
          out.verdict.refuse("no_schedule", fmt::format("{} ({})", refusal.message, refusal.code),
                             refusal.nodes);
        }
      }
    }
  }
  out.cost = cost_of_region(facts, region, out.estimate, *profile_);
  return out;
}

Assessment Assessor::assess_ideal(size_t instance, const Region& region) const {
  const GraphFacts& facts = *(*instances_)[instance].facts;
  Assessment out;
  out.verdict = judge(facts, region, out.copies_view);
  if (region.kind == Region::Kind::kZeroLaunch) {
    check_zero_launch(facts, region, out.verdict);
    out.estimate.kernels = 0;
  } else {
    out.estimate = ideal_estimate(facts, region);
  }
  out.cost = cost_of_region(facts, region, out.estimate, *profile_);
  return out;
}

}  // namespace passnet
