#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "plan/facts.h"
#include "plan/plan.h"

// What is to be known of a graph before a pass is written by hand: how each node can be matched, what is answered by each
// question of the containment checklist for a region, which literals differ between variants, and how much eager time
// legal regions can absorb.

namespace passnet {

/// How a pattern can hold a node. `code`: "yes" (a traced pattern that writes the same call matches), "graph" (only a graph
/// built by hand does), "random", "no".
struct Matchability {
  std::string code, meaning;
};
Matchability matchability(const GraphFacts& facts, const Node& node);

/// One question of the checklist and its answer. `good`: nothing stands in the way.
struct ChecklistItem {
  std::string_view
      id;  ///< "one_value", "contained", "no_other_observer", "not_layout", "no_materialised_view", "one_wrapper"
  bool good = true;
  std::string answer;
};
/// Of a region of `facts`, by the names of its nodes in graph order.
std::vector<ChecklistItem> containment_checklist(const GraphFacts& facts, const std::vector<NodeId>& nodes,
                                                 NodeId root);

/// A place where variants of one structure have different literals: a pattern for all of them takes a parameter there.
struct DifferingLiteral {
  std::string node, place;  ///< "tmp_7", "args[1]" or "kwargs[dim]"
  std::vector<std::pair<std::string, std::string>>
      values;  ///< literal -> variants that have it, in order of first sight
};
/// Compared are variants whose graphs have the same calls in the same order as the first one's.
std::vector<DifferingLiteral> differing_literals(const std::vector<CapturedVariant>& variants);

/// Eager time of nodes that some legal region of the plan holds, and the bound on the speedup that the public scripts
/// compute from it: eager / (max(eager - absorbable, 0) + 70 us + 0.3 absorbable). Optimistic: 70 us of fixed costs is what
/// graphs of three nodes have.
struct Absorbable {
  double us = 0;
  double ceiling = 0;
};
Absorbable absorbable_time(const GraphFacts& facts, const std::vector<RegionRow>& regions, double eager_us);

/// Whether the graph has nodes of all the names of a region.
bool lies_in(const Graph& graph, const RegionRow& row);

Json to_json(const std::vector<ChecklistItem>& items);
Json to_json(const std::vector<DifferingLiteral>& literals);

}  // namespace passnet
