#include "solve/narrow.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/facts.h"

namespace passnet {
namespace {

bool writes(const PassSpec& pass) {
  return std::any_of(pass.pattern.nodes().begin(), pass.pattern.nodes().end(),
                     [](const auto& node) { return !node->writes.empty(); });
}

bool holds_product(const PassSpec& pass, const Profile& profile) {
  const GraphFacts facts(pass.pattern, profile);
  for (size_t n = 0; n < facts.size(); ++n) {
    const NodeFacts& node = facts[static_cast<NodeId>(n)];
    if (node.compute && node.call && node.call->row->cls == OpClass::kProduct) return true;
  }
  return false;
}

}  // namespace

Narrowing narrower(const PlanOptions& options, const std::vector<PassSpec>& lost,
                   const std::vector<PassSpec>& kept, const Profile& profile) {
  Narrowing out;
  out.options = options;
  std::vector<const PassSpec*> fresh;
  for (const PassSpec& pass : lost) {
    const bool known =
        std::any_of(kept.begin(), kept.end(), [&](const PassSpec& p) { return p.key == pass.key; });
    if (!known) fresh.push_back(&pass);
  }
  if (fresh.empty()) return out;
  out.possible = true;
  const Refusal why{"evaluation_lost", "a state with this pass lost its evaluation", {}};
  std::vector<std::string> names;
  for (const PassSpec* pass : fresh) {
    if (!writes(*pass)) continue;
    out.options.refused.emplace(pass->key, why);
    names.push_back(pass->name);
  }
  if (!names.empty()) {
    out.text = fmt::format("without the writes of {}", fmt::join(names, ", "));
    return out;
  }
  if (options.products && std::any_of(fresh.begin(), fresh.end(), [&](const PassSpec* pass) {
        return pass->kind == Region::Kind::kKernel && holds_product(*pass, profile);
      })) {
    out.options.products = false;
    out.text = "with products left to the library";
    return out;
  }
  const PassSpec* largest = *std::max_element(
      fresh.begin(), fresh.end(),
      [](const PassSpec* a, const PassSpec* b) { return replaced_nodes(*a) < replaced_nodes(*b); });
  out.options.refused.emplace(largest->key, why);
  out.text = fmt::format("without {}", largest->name);
  return out;
}

}  // namespace passnet
