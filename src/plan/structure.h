#pragma once

#include <compare>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "plan/facts.h"
#include "plan/region.h"

namespace passnet {

/// One captured graph of one variant, with its facts.
struct Instance {
  size_t variant = 0;
  size_t graph_index = 0;
  const Graph* graph = nullptr;
  std::unique_ptr<GraphFacts> facts;
};

/// A literal inside a node's arguments: positional argument `arg` (or keyword `key`), then indices of nested
/// lists and tuples.
struct LiteralPath {
  NodeId node = kNoNode;
  int arg = -1;
  std::string key;
  std::vector<int> inner;
  auto operator<=>(const LiteralPath&) const = default;
};

/// Graphs that differ only in tensor metadata and in sizes: the same nodes, targets, edges and written
/// arguments, up to integers that only say how large something is. A region of one is a region of all.
struct GraphClass {
  std::vector<size_t> instances;
  /// Sizes that are not the same in all of them: they become placeholders of a pattern.
  std::set<LiteralPath> holes;
};

std::vector<GraphClass> classify(const std::vector<Instance>& instances);

/// A pattern under construction: a slice of a captured graph.
struct Pattern {
  Graph graph;                        ///< placeholders (tensors first, then sizes), compute nodes, output
  std::vector<NodeId> tensor_inputs;  ///< outside nodes of the captured graph, one a tensor placeholder
  std::string key;                    ///< equal for patterns that match the same things
};

/// `region.inputs` become placeholders in order; literals at `holes` inside the region become further ones.
Pattern slice_pattern(const Graph& graph, const Region& region, const std::set<LiteralPath>& holes);

}  // namespace passnet
