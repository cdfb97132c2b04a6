#include "plan/explain.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json.h"
#include "plan/plan.h"

namespace passnet {

namespace {

constexpr PlanReason kReasons[] = {
    // Walls: the node can be in no kernel.
    {"unknown_operator", "no row describes the operator", "add a row for it"},
    {"random", "random numbers would differ from eager's", "none: they stay outside"},
    {"not_tensor", "the value is no tensor and no tuple of tensors", "none: it stays outside"},
    {"library_product", "no kernel is generated for this product",
     "a schedule for it, where measurement says it pays"},
    {"no_lowering", "the operator's row has no lowering", "write the row's lowering"},
    // Numerics (numerics_gate.h).
    {"product.tf32", "whether the library rounds this convolution's float32 operands to tf32 is not known",
     "measure it (tools/gpu_scripts/product_order.py) and widen the rules of ops/library"},
    {"product.order", "a long sum in another order than the library's may miss the tolerance",
     "none: it stays in the library"},
    {"product.attention", "the library's attention rounds its weights in its own way",
     "none: it stays in the library"},
    {"norm.layout",
     "a float32 batch_norm of a tensor that is not contiguous has a formula of its own in the library",
     "leave it in eager and fuse what follows"},
    {"reduction.tf32", "a last place that may differ reaches a convolution that rounds to tf32",
     "leave the reduction in eager and fuse what follows"},
    {"reduction.rounding", "a float16 reduction may differ in its last place, and what follows rounds again",
     "leave the reduction in eager and fuse what follows"},
    {"product.rounding", "a 16-bit product may differ in its last place, and what follows rounds again",
     "leave the product in the library and fuse what follows"},
    {"dead", "nobody reads the value", "none: a replacement needs a reader"},
    // Legality (match/legality.h).
    {"region.empty", "there is nothing in it", "none"},
    {"region.root", "its value is not one of its nodes", "none"},
    {"region.node_kind", "a placeholder or the output is inside", "none"},
    {"region.userless", "nobody reads its value", "none: a replacement needs a reader"},
    {"region.dead_node", "it holds a call that nobody reads", "leave that call outside"},
    {"region.not_contained", "a value inside is read outside as well",
     "end a region there, or start after it"},
    {"region.root_inside", "its value is also read inside", "a smaller region"},
    {"region.cycle", "something outside depends on it and it on that", "a smaller region"},
    {"region.store", "a subscript store is inside", "none: a store has no value to replace"},
    {"region.random", "random numbers are drawn inside", "none: they stay outside"},
    {"region.read_clobbered", "the call sinks past a write to what it reads", "a region without that reader"},
    {"region.write_observed", "the call sinks past a reader of what it writes",
     "a region without that writer"},
    {"region.alias_broken", "its value shares memory with one that is written later",
     "a region that ends elsewhere"},
    {"region.must_write", "it writes memory that others see", "a wrapper that performs the same write"},
    {"visible_write", "it writes memory that others see", "a wrapper that performs the same write"},
    {"stale_read", "a value is read after it was written in place",
     "read the in-place call's result instead"},
    {"input_kind", "an operand from outside is no tensor", "start the region after it"},
    {"no_input", "it reads nothing", "join it with its reader"},
    {"not_a_no_op", "a call changes its operand in some variant", "a kernel instead"},
    // Generator.
    {"lowering", "an operator inside refused to be lowered in this form", "extend the row's lowering"},
    {"no_schedule", "the generator has no schedule for the lowered region",
     "a schedule, or a smaller region"},
    {"product_excluded", "products were to stay in the library", "plan with products"},
    {"preflight_failed", "the pass failed the pre-flight", "see the failure's text"},
    {"kernel_does_not_compile", "its kernel does not compile for a target", "see the compiler's text"},
    {"evaluation_lost", "a state with this pass lost its evaluation", "see the evaluation's record"},
    // Over all variants.
    {"other_variant", "it is possible in some variants only", "a pattern that fits the others as well"},
    {"mixed_operands", "an operand of its pattern is a tensor at one place and a number at another",
     "more context in the pattern"},
    {"match_cannot_run", "its pattern also fits where the call cannot run", "more context in the pattern"},
    {"no_match", "its pattern matches nowhere", "report it: the pattern was cut from this graph"},
    {"rewrite", "the rewriting itself fails", "a region with one value that is read"},
    {"kernel_cost", "the kernel would cost more than it saves", "a faster schedule or cheaper launch"},
};

std::string kind_of(const RegionRow& row) {
  return row.kind == Region::Kind::kZeroLaunch ? "zero-launch" : "kernel";
}

std::string marks_of(const RegionRow& row) {
  std::string marks;
  marks += row.in_floor ? 'F' : '.';
  marks += row.in_upside ? 'U' : '.';
  marks += row.in_ceiling ? 'C' : '.';
  return marks;
}

double ratio(double eager, double compiled) { return compiled > 0 ? eager / compiled : 0; }

Json state_json(const PlanState& state) {
  Json json = Json::object();
  json["predicted_gmean_speedup"] = state.gmean_speedup;
  json["passes"] = Json::array();
  for (size_t i = 0; i < state.passes.size(); ++i) {
    const PassSpec& spec = state.passes[i];
    Json pass = Json::object();
    pass["name"] = spec.name;
    pass["route"] = spec.route;
    pass["kind"] = spec.kind == Region::Kind::kZeroLaunch ? "zero_launch" : "kernel";
    pass["region"] = state.descriptions[i];
    pass["pattern_nodes"] = replaced_nodes(spec);
    pass["entries"] = Json::array();
    for (const PassEntry& entry : spec.entries) pass["entries"].push_back(entry.where);
    json["passes"].push_back(std::move(pass));
  }
  return json;
}

std::string pass_list(const PlanState& state) {
  std::vector<std::string> names;
  for (const PassSpec& spec : state.passes) names.push_back(spec.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::span<const PlanReason> plan_reasons() { return kReasons; }

const PlanReason* find_reason(std::string_view code) {
  const auto it = std::find_if(std::begin(kReasons), std::end(kReasons),
                               [&](const PlanReason& reason) { return reason.code == code; });
  return it == std::end(kReasons) ? nullptr : it;
}

Json to_json(const PlanResult& plan) {
  Json json = Json::object();
  json["graph_classes"] = plan.graph_classes;
  json["exhaustive"] = plan.exhaustive;
  json["strategy"] = plan.strategy;
  json["archetypes"] = Json::array();
  for (const ArchetypeMatch& match : plan.archetypes) {
    json["archetypes"].push_back({{"id", match.archetype->id},
                                  {"family", match.archetype->family},
                                  {"priority", match.archetype->priority},
                                  {"looks", match.archetype->looks},
                                  {"strategy", match.archetype->strategy}});
  }
  json["triage_family"] = plan.archetypes.empty() ? Json() : Json(plan.archetypes.front().archetype->family);
  json["floor"] = state_json(plan.floor);
  json["upside"] = state_json(plan.upside);
  json["ceiling"] = {{"predicted_gmean_speedup", plan.gmean_ceiling}};
  json["variants"] = Json::array();
  for (const VariantPrediction& v : plan.variants) {
    json["variants"].push_back({{"name", v.name},
                                {"eager_us", v.eager_us},
                                {"unchanged_us", v.unchanged_us},
                                {"floor_us", v.floor_us},
                                {"upside_us", v.upside_us},
                                {"ceiling_us", v.ceiling_us},
                                {"floor_matches", v.floor_matches},
                                {"upside_matches", v.upside_matches},
                                {"floor_speedup", ratio(v.eager_us, v.floor_us)},
                                {"upside_speedup", ratio(v.eager_us, v.upside_us)},
                                {"ceiling_speedup", ratio(v.eager_us, v.ceiling_us)}});
  }
  json["regions"] = Json::array();
  for (const RegionRow& row : plan.regions) {
    Json region = Json::object();
    region["class"] = row.graph_class;
    region["region"] = row.description;
    region["kind"] = row.kind == Region::Kind::kZeroLaunch ? "zero_launch" : "kernel";
    region["root"] = row.root;
    region["nodes"] = row.nodes;
    region["inputs"] = row.inputs;
    region["operators"] = row.operators;
    region["verdict"] = to_json(row.verdict);
    if (row.verdict.ok()) {
      region["schedule"] = row.estimate.schedule;
      region["kernels"] = row.estimate.kernels;
      region["bytes"] = row.estimate.read_bytes + row.estimate.write_bytes;
      region["eager_host_us"] = row.eager_host_us;
      region["call_host_us"] = row.call_host_us;
      region["gmean_us"] = row.gmean_us;
      region["copies_view"] = row.copies_view;
    }
    region["floor"] = row.in_floor;
    region["upside"] = row.in_upside;
    region["ceiling"] = row.in_ceiling;
    json["regions"].push_back(std::move(region));
  }
  json["blocked"] = Json::array();
  for (const Refusal& refusal : plan.blocked) {
    Json entry = to_json(refusal);
    if (const PlanReason* reason = find_reason(refusal.code)) entry["remedy"] = reason->remedy;
    json["blocked"].push_back(std::move(entry));
  }
  json["findings"] = findings_to_json(plan.findings);
  return json;
}

std::string region_table_text(const PlanResult& plan, bool refused) {
  std::string text;
  for (const RegionRow& row : plan.regions) {
    if (!row.verdict.ok() && !refused) continue;
    text += fmt::format("{} {:<11} {}", marks_of(row), kind_of(row), row.description);
    if (row.verdict.ok()) {
      text += fmt::format(" | {} | {} kernel{}, {:.0f} bytes | host {:.1f} -> {:.1f} us{}\n",
                          row.estimate.schedule, row.estimate.kernels, row.estimate.kernels == 1 ? "" : "s",
                          row.estimate.read_bytes + row.estimate.write_bytes, row.eager_host_us,
                          row.call_host_us, row.copies_view ? " | copies a view" : "");
    } else {
      std::vector<std::string> reasons;
      for (const Refusal& refusal : row.verdict.refusals()) {
        reasons.push_back(fmt::format("{} ({})", refusal.code, fmt::join(refusal.nodes, ", ")));
      }
      text += fmt::format(" | refused: {}\n", fmt::join(reasons, "; "));
    }
  }
  return text;
}

std::string to_text(const PlanResult& plan, bool refused) {
  std::string text = plan.strategy + "\n\n";
  text += "variant              eager us  unchanged  floor  upside  ceiling  speedup floor/upside/ceiling\n";
  for (const VariantPrediction& v : plan.variants) {
    text += fmt::format("{:<20} {:>8.1f} {:>10.1f} {:>6.1f} {:>7.1f} {:>8.1f}  {:.2f} / {:.2f} / {:.2f}\n",
                        v.name, v.eager_us, v.unchanged_us, v.floor_us, v.upside_us, v.ceiling_us,
                        ratio(v.eager_us, v.floor_us), ratio(v.eager_us, v.upside_us),
                        ratio(v.eager_us, v.ceiling_us));
  }
  text += "\nregions (F floor, U upside, C ceiling)\n" + region_table_text(plan, refused);
  if (!plan.blocked.empty()) text += "\nwhat keeps the upside from the ceiling\n";
  for (const Refusal& refusal : plan.blocked) {
    const PlanReason* reason = find_reason(refusal.code);
    text += fmt::format("{}: {} ({}); {}\n", refusal.code, refusal.message, fmt::join(refusal.nodes, ", "),
                        reason == nullptr ? "" : reason->remedy);
  }
  return text;
}

std::string strategy_text(const PlanResult& plan) {
  std::string text;
  if (!plan.archetypes.empty()) {
    const Archetype& first = *plan.archetypes.front().archetype;
    text += fmt::format("This sample is of the family {}: {}. The rule for it: {}.", first.family,
                        first.looks, first.strategy);
  }
  if (plan.floor.passes.empty()) {
    return text + " No legal region exists in any variant, so that no pass can match: each scores 0.1.";
  }
  text += fmt::format(" Floor: {} (predicted {:.2f}).", pass_list(plan.floor), plan.floor.gmean_speedup);
  const bool same = std::equal(plan.floor.passes.begin(), plan.floor.passes.end(), plan.upside.passes.begin(),
                               plan.upside.passes.end(),
                               [](const PassSpec& a, const PassSpec& b) { return a.name == b.name; });
  text += same ? " Nothing larger is predicted to be faster."
               : fmt::format(" Upside: {} (predicted {:.2f}).", pass_list(plan.upside),
                             plan.upside.gmean_speedup);
  if (plan.gmean_ceiling > 0) {
    text += fmt::format(" With perfect kernels the best legal choice would reach {:.2f}", plan.gmean_ceiling);
    std::map<std::string_view, size_t> codes;
    for (const Refusal& refusal : plan.blocked) ++codes[refusal.code];
    std::vector<std::string> parts;
    for (const auto& [code, count] : codes) parts.push_back(fmt::format("{} ({})", code, count));
    text += parts.empty() ? "." : fmt::format("; in the way: {}.", fmt::join(parts, ", "));
  }
  return text;
}

}  // namespace passnet
