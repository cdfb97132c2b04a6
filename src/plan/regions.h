#pragma once

#include <string>
#include <vector>

#include "base/verdict.h"
#include "plan/facts.h"
#include "plan/region.h"

namespace passnet {

/// Bounds of the enumeration. A region is the cone of its root (the nodes whose every use leads to the root)
/// less the ancestors of one or more of its nodes, so their number is exponential in the worst case; beyond
/// these bounds only the whole cone, its truncations at one node and then as many of the rest as fit are
/// made.
struct RegionLimits {
  size_t small_graph = 40;  ///< compute nodes up to which `per_root` holds, `per_root_large` above
  size_t per_root = 64;
  size_t per_root_large = 8;
  size_t total = 20000;
  size_t cone_nodes = 64;  ///< larger cones are cut to the nodes nearest to the root
};

struct RegionCandidate {
  Region region;
  /// ok: it may become one call and, unless `ideal`, its operators all have a lowering. Lowering and schedule
  /// are judged later, for each graph (assess.h).
  Verdict verdict;
  std::string description;   ///< "cone of add_3", "cone of add_3 without layer_norm", "no-op dropout"
  int returns = -1;          ///< kZeroLaunch: index into `inputs` of what is returned
  int item = -1;             ///< kZeroLaunch: which item of that tuple
  bool copies_view = false;  ///< eager's value is a view of something outside; the call makes it a copy
};

struct RegionTable {
  std::vector<RegionCandidate> candidates;  ///< legal ones and refused ones, by root, larger first
  bool capped = false;                      ///< a bound was met: not every region is here
  std::vector<Refusal> walls;               ///< nodes that no kernel may hold, with the reason
};

/// All candidate regions of a graph. With `ideal` operators without a lowering count as fusible: what a
/// perfect generator could do. Zero-launch regions are included either way.
RegionTable enumerate_regions(const GraphFacts& facts, const RegionLimits& limits, bool ideal = false);

/// Judges one region in one graph: position, containment, aliasing (match/legality.h) and what the planner
/// adds: in-place writes are allowed where nobody outside can see them (the memory was made inside, or nobody
/// reads it any more), a kernel takes tensors only and at least one. `copies_view` is set if eager's value is
/// a view of something outside.
Verdict judge(const GraphFacts& facts, const Region& region, bool& copies_view);

/// Outside nodes that `nodes` (graph order) read, in first-use order.
std::vector<NodeId> region_inputs(const GraphFacts& facts, const std::vector<NodeId>& nodes);

}  // namespace passnet
