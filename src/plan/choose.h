#pragma once

#include <vector>

#include "plan/cost.h"

namespace passnet {

/// A region that may be chosen: which nodes go, and what its call costs in each graph of the class.
struct ChoiceOption {
  NodeId root = kNoNode;
  std::vector<NodeId> nodes;   ///< ascending; none after the root
  std::vector<CallCost> cost;  ///< by graph
};

/// Which disjoint regions make the least geometric mean of the compiled times over the graphs of a class.
struct ChoiceProblem {
  std::vector<std::vector<CallCost>> eager;  ///< by graph, then by node id; zero cost for what is no call
  std::vector<ChoiceOption> options;
  const Profile* profile = nullptr;
  size_t width = 1024;  ///< partial solutions kept at each node
  size_t keep = 4;      ///< solutions returned
};

struct Choice {
  std::vector<size_t> options;  ///< indices, by root descending
  std::vector<double> time_us;  ///< compiled, by graph
  double mean_log = 0;          ///< mean over the graphs of log(time)
};

struct ChoiceResult {
  std::vector<Choice> best;  ///< best first, each with at least one region; empty if there is no option
  bool exhaustive = true;    ///< false: `width` was met, so that a better set may have been missed
};

/// From the last node to the first: a node is computed by its own call, or it ends a chosen region, or it
/// lies in one already chosen. A partial solution is the pair of clocks to come (QueueTail) for each graph
/// and the nodes below that are spoken for; of two with the same nodes, the one that is no better on any
/// graph is dropped.
ChoiceResult choose_regions(const ChoiceProblem& problem);

}  // namespace passnet
