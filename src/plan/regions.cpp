#include "plan/regions.h"

#include <algorithm>
#include <queue>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "match/legality.h"

namespace passnet {

namespace {

using Nodes = std::vector<NodeId>;

bool contains(const Nodes& sorted, NodeId id) { return std::binary_search(sorted.begin(), sorted.end(), id); }

std::vector<std::string> names_of(const GraphFacts& facts, const Nodes& nodes) {
  std::vector<std::string> names;
  for (NodeId id : nodes) names.push_back(facts.graph().node(id).name);
  return names;
}

// Whether a node may be inside a kernel region.
bool fusible(const GraphFacts& facts, NodeId id, bool ideal) {
  const NodeFacts& node = facts[id];
  if (!node.compute) return false;
  return node.wall.code.empty() || (ideal && !node.hard_wall);
}

// A getitem on a tuple from outside cannot be in a kernel: tuples are no arguments of kernels. On a tuple
// inside it can. Everything else is decided node by node.
Nodes cone_of(const GraphFacts& facts, NodeId root, const RegionLimits& limits, bool ideal, bool& cut) {
  Nodes cone{root};  // descending
  std::priority_queue<NodeId> pending;
  std::set<NodeId> seen;
  const auto push_inputs = [&](NodeId id) {
    for (NodeId input : facts[id].inputs) {
      if (fusible(facts, input, ideal) && seen.insert(input).second) pending.push(input);
    }
  };
  push_inputs(root);
  while (!pending.empty()) {
    const NodeId id = pending.top();
    pending.pop();
    // Users have larger ids, so each is decided by now; a node whose use is undecided is not in the cone.
    const Nodes& users = facts[id].users;
    const bool inside = std::all_of(users.begin(), users.end(), [&](NodeId user) {
      return std::find(cone.begin(), cone.end(), user) != cone.end();
    });
    if (!inside) continue;
    if (cone.size() >= limits.cone_nodes) {
      cut = true;
      break;
    }
    cone.push_back(id);
    push_inputs(id);
  }
  std::reverse(cone.begin(), cone.end());
  return cone;
}

// `cone` less `from` and everything of the cone that `from` depends on.
Nodes without_ancestors(const GraphFacts& facts, const Nodes& cone, NodeId from) {
  std::set<NodeId> removed{from};
  for (auto it = cone.rbegin(); it != cone.rend(); ++it) {
    if (!removed.count(*it)) continue;
    for (NodeId input : facts[*it].inputs) {
      if (contains(cone, input)) removed.insert(input);
    }
  }
  Nodes kept;
  for (NodeId id : cone) {
    if (!removed.count(id)) kept.push_back(id);
  }
  return kept;
}

std::string description_of(const GraphFacts& facts, const Nodes& cone, const Nodes& kept, NodeId root) {
  std::string text = "cone of " + facts.graph().node(root).name;
  Nodes removed;
  std::set_difference(cone.begin(), cone.end(), kept.begin(), kept.end(), std::back_inserter(removed));
  if (removed.empty()) return text;
  return text + fmt::format(" without {}", fmt::join(names_of(facts, removed), ", "));
}

// Whole cone first, then truncated at one node (larger first), then whatever taking away one more node
// without inputs inside gives, until `limit`.
std::vector<Nodes> truncations(const GraphFacts& facts, const Nodes& cone, NodeId root, size_t limit,
                               bool& capped) {
  std::vector<Nodes> out{cone};
  std::set<Nodes> seen{cone};
  std::vector<Nodes> singles;
  for (NodeId id : cone) {
    if (id == root) continue;
    Nodes kept = without_ancestors(facts, cone, id);
    if (seen.insert(kept).second) singles.push_back(std::move(kept));
  }
  std::stable_sort(singles.begin(), singles.end(),
                   [](const Nodes& a, const Nodes& b) { return a.size() > b.size(); });
  for (Nodes& single : singles) {
    if (out.size() >= limit) return capped = true, out;
    out.push_back(std::move(single));
  }
  for (size_t i = 0; i < out.size(); ++i) {
    const Nodes current = out[i];
    for (NodeId id : current) {
      if (id == root) continue;
      const bool leaf = std::none_of(facts[id].inputs.begin(), facts[id].inputs.end(),
                                     [&](NodeId input) { return contains(current, input); });
      if (!leaf) continue;
      Nodes kept;
      std::copy_if(current.begin(), current.end(), std::back_inserter(kept),
                   [&](NodeId n) { return n != id; });
      if (!seen.insert(kept).second) continue;
      if (out.size() >= limit) return capped = true, out;
      out.push_back(std::move(kept));
    }
  }
  return out;
}

// Whether nobody can tell that the region's write to `storage` did not happen: the memory was made by a call
// of this graph, and every outside value in it is read for the last time before the write (by the region
// itself, or earlier).
bool write_is_unseen(const GraphFacts& facts, const Region& region, StorageId storage) {
  NodeId writer = kNoNode;
  for (NodeId id : region.nodes) {
    const std::vector<StorageId>& writes = facts.graph().node(id).writes;
    if (std::find(writes.begin(), writes.end(), storage) != writes.end()) {
      writer = id;
      break;
    }
  }
  const NodeId creator = facts.creator(storage);
  if (writer == kNoNode || creator == kNoNode || !facts[creator].compute) return false;
  for (NodeId holder : facts.holders(storage)) {
    // Later holders are made from the region's value and share the new memory with it.
    if (holder > writer || contains(region.nodes, holder)) continue;
    for (NodeId user : facts[holder].users) {
      if (user > writer && !contains(region.nodes, user)) return false;
    }
  }
  return true;
}

// Functional lowering gives every value once: a node that reads a value written in place after it was made
// would see the old elements. Such a reader must read the in-place call's result instead, or the region is
// refused.
void refuse_stale_reads(const GraphFacts& facts, const Nodes& nodes, Verdict& verdict) {
  const Graph& graph = facts.graph();
  for (NodeId writer : nodes) {
    for (StorageId written : graph.node(writer).writes) {
      for (NodeId reader : nodes) {
        if (reader <= writer) continue;
        for (NodeId value : facts[reader].inputs) {
          const std::vector<StorageId> storages = facts.storages_of(value);
          if (value < writer && std::find(storages.begin(), storages.end(), written) != storages.end()) {
            verdict.refuse("stale_read", "reads a value that was written in place since",
                           names_of(facts, {writer, value, reader}));
          }
        }
      }
    }
  }
}

}  // namespace

Verdict judge(const GraphFacts& facts, const Region& region, bool& copies_view) {
  const Graph& graph = facts.graph();
  const bool returns_argument = region.kind == Region::Kind::kZeroLaunch;
  const Legality legality = judge_region(
      graph, RegionView{.nodes = region.nodes, .root = region.root, .returns_argument = returns_argument});
  if (!returns_argument) {
    // A value that the region itself wrote in place is no view that a call would have to copy.
    const bool written = std::any_of(region.nodes.begin(), region.nodes.end(), [&](NodeId id) {
      const std::vector<StorageId>& writes = graph.node(id).writes;
      const Meta& root = graph.node(region.root).meta;
      return root.is_tensor() && std::find(writes.begin(), writes.end(), root.tensor.storage) != writes.end();
    });
    for (const Refusal& note : legality.notes) copies_view |= !written && note.code == "region.returns_view";
  }
  Verdict verdict = legality.verdict;
  for (StorageId storage : legality.must_write) {
    if (storage >= 0 && write_is_unseen(facts, region, storage)) continue;
    Nodes writers;
    for (NodeId id : region.nodes) {
      if (!graph.node(id).writes.empty()) writers.push_back(id);
    }
    verdict.refuse("visible_write",
                   "writes memory that others can see, which the call would have to write as well",
                   names_of(facts, writers));
    break;
  }
  if (returns_argument) return verdict;
  refuse_stale_reads(facts, region.nodes, verdict);
  Nodes odd;
  std::copy_if(region.inputs.begin(), region.inputs.end(), std::back_inserter(odd),
               [&](NodeId id) { return !graph.node(id).meta.is_tensor(); });
  if (!odd.empty()) verdict.refuse("input_kind", "a kernel takes tensors only", names_of(facts, odd));
  if (region.inputs.empty()) {
    verdict.refuse("no_input", "reads nothing, so that nothing tells the call where to run",
                   names_of(facts, region.nodes));
  }
  return verdict;
}

namespace {

RegionCandidate kernel_candidate(const GraphFacts& facts, Nodes nodes, NodeId root) {
  RegionCandidate candidate;
  candidate.region.nodes = std::move(nodes);
  candidate.region.root = root;
  candidate.region.inputs = region_inputs(facts, candidate.region.nodes);
  candidate.verdict = judge(facts, candidate.region, candidate.copies_view);
  return candidate;
}

// Chains of calls that return their operand: one candidate for each length, longest first.
void add_no_op_chains(const GraphFacts& facts, NodeId root, std::vector<RegionCandidate>& out) {
  std::vector<RegionCandidate> found;
  Nodes chain;
  for (NodeId id = root; facts[id].no_op_of != kNoNode; id = facts[id].no_op_of) {
    if (id != root && facts[id].users.size() != 1) break;
    chain.insert(chain.begin(), id);
    RegionCandidate candidate;
    candidate.region.kind = Region::Kind::kZeroLaunch;
    candidate.region.nodes = chain;
    candidate.region.root = root;
    candidate.region.inputs = region_inputs(facts, chain);
    const Nodes& inputs = candidate.region.inputs;
    const NodeId source = facts[id].no_op_of;
    candidate.returns = static_cast<int>(std::find(inputs.begin(), inputs.end(), source) - inputs.begin());
    candidate.verdict = judge(facts, candidate.region, candidate.copies_view);
    candidate.description = fmt::format("no-op {}", fmt::join(names_of(facts, chain), ", "));
    found.push_back(std::move(candidate));
  }
  std::reverse(found.begin(), found.end());
  std::move(found.begin(), found.end(), std::back_inserter(out));
}

void add_tuple_item(const GraphFacts& facts, NodeId root, std::vector<RegionCandidate>& out) {
  if (facts[root].tuple == kNoNode) return;
  RegionCandidate candidate;
  candidate.region.kind = Region::Kind::kZeroLaunch;
  candidate.region.nodes = {root};
  candidate.region.root = root;
  candidate.region.inputs = {facts[root].tuple};
  candidate.returns = 0;
  candidate.item = facts[root].item;
  candidate.verdict = judge(facts, candidate.region, candidate.copies_view);
  candidate.description =
      fmt::format("item {} of {}", candidate.item, facts.graph().node(facts[root].tuple).name);
  out.push_back(std::move(candidate));
}

}  // namespace

std::vector<NodeId> region_inputs(const GraphFacts& facts, const std::vector<NodeId>& nodes) {
  Nodes inputs;
  for (NodeId id : nodes) {
    for (NodeId input : facts[id].inputs) {
      if (contains(nodes, input) || std::find(inputs.begin(), inputs.end(), input) != inputs.end()) continue;
      inputs.push_back(input);
    }
  }
  return inputs;
}

RegionTable enumerate_regions(const GraphFacts& facts, const RegionLimits& limits, bool ideal) {
  RegionTable table;
  const size_t per_root =
      facts.compute_nodes() <= limits.small_graph ? limits.per_root : limits.per_root_large;
  for (size_t i = 0; i < facts.size(); ++i) {
    const NodeId root = static_cast<NodeId>(i);
    const NodeFacts& node = facts[root];
    if (!node.compute) continue;
    if (!node.wall.code.empty()) table.walls.push_back(node.wall);
    if (node.dead) {
      table.walls.push_back(
          {"dead", "nobody reads the value, so that nothing can end here", {facts.graph().node(root).name}});
      continue;
    }
    if (table.candidates.size() >= limits.total) {
      table.capped = true;
      continue;
    }
    add_no_op_chains(facts, root, table.candidates);
    add_tuple_item(facts, root, table.candidates);
    if (!fusible(facts, root, ideal)) continue;
    const Nodes cone = cone_of(facts, root, limits, ideal, table.capped);
    for (Nodes& nodes : truncations(facts, cone, root, per_root, table.capped)) {
      std::string description = description_of(facts, cone, nodes, root);
      RegionCandidate candidate = kernel_candidate(facts, std::move(nodes), root);
      candidate.description = std::move(description);
      table.candidates.push_back(std::move(candidate));
    }
  }
  return table;
}

}  // namespace passnet
