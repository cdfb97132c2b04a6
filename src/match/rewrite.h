#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "match/legality.h"
#include "match/matcher.h"

// What torch.fx's replace_pattern does with a pass: every match becomes one opaque call, put before the first
// user of the value the match returns. A graph is never changed: each step gives a new one.

namespace passnet {

// What a pass puts in place of a match. `arguments` are those of the wrapper's call, as replacement_args
// returns them: a node value stands for the parameter of that number (from 0), everything else is a constant.
struct RewriteRule {
  std::string name;       // the pass's, for messages
  size_t parameters = 0;  // of replacement_args: as many as the pattern has placeholders
  std::vector<Value> arguments;
  std::string wrapper = "dispatch_wrapper";
  bool returns_argument = false;  // the wrapper returns one of its arguments (see RegionView)
};

// All placeholders in order, then the route: what our own passes call.
RewriteRule rule_with_route(const Graph& pattern, std::string route);

struct Replaced {
  Match match;                  // ids of the graph that the pass was applied to
  std::vector<NodeId> covered;  // likewise: the nodes that are gone
  NodeId wrapper = kNoNode;     // id in the rewritten graph; the node after it was the first user
  Legality legality;            // of this replacement, in the graph as it was when its turn came
};

struct PassResult {
  Graph graph;
  std::vector<Replaced> replaced;  // in torch's order of matches; empty: the pass does not match
  std::vector<NodeId> origin;      // by node of `graph`: its id in the graph before; none for a wrapper
};

// One pass over one graph. Errors, where torch would fail an assertion or crash: those of find_matches,
// `rewrite.several_outputs`, `rewrite.returns_placeholder`, `rewrite.parameter_count`, `rewrite.bad_argument`
// (a parameter that does not exist), `rewrite.stale_binding` (a parameter binds a
// container of a value that the same pass replaces), `rewrite.no_users` (what the match returns is read by
// nothing), `rewrite.unmatched_node` (a node of the pattern that what it returns does not depend on).
Result<PassResult> apply_pass(const Graph& graph, const Graph& pattern, const RewriteRule& rule);

}  // namespace passnet
