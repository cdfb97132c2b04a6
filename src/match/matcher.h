#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "ir/graph.h"

// The subgraph matcher that decides where a pass applies. Its semantics are those of torch.fx's
// SubgraphMatcher as the harness configures it: placeholders are wildcards, the output node takes no part,
// literals count, overlapping matches are dropped in the order found. Targets are compared by canonical name.

namespace passnet {

// One place where a pattern fits. Ids in `nodes` are (pattern, target), in the order in which they were
// paired: anchor first, then its arguments depth first. Placeholders that bound a literal appear only in the
// bindings.
struct Match {
  std::vector<std::pair<NodeId, NodeId>> nodes;
  std::vector<Value> placeholder_bindings;  // by placeholder of the pattern; a node value holds a target id
  NodeId returned = kNoNode;                // target of the first returned value; none for a literal
  std::vector<NodeId> returning;            // of every returned value, in output order

  NodeId target_of(NodeId pattern_node) const;
};

// The target nodes that a match covers (everything but what its placeholders bound), ascending.
std::vector<NodeId> covered_nodes(const Graph& pattern, const Match& match);

// Why a pattern did not fit at a place. `field` says where in the node ("target", "args", "kwargs",
// "args[1]", "kwargs[dim]", "args[0][2]", "users"), `expected` what the pattern has, `actual` what the graph
// has.
//   no_candidate     no node of the graph has the pattern's anchor; target_node is one with the same last name, if any
//   target           the nodes paired have different operations
//   arguments        different number of arguments, or different keywords or order of keywords
//   literal          literals differ
//   literal_type     literals compare equal in Python but their types differ (1 and True)
//   literal_for_node the pattern has an operation's value where the graph has a literal
//   node_for_literal the pattern has a literal where the graph has a node
//   shared_value     one pattern node would stand for two different values
//   same_node        two pattern nodes (often two placeholders) would stand for one graph node
//   not_contained    a node inside is used outside
//   cycle            something outside depends on the match and the match on it
//   overlap          the place was taken by an earlier match of the same pattern
struct NearMiss {
  NodeId pattern_node = kNoNode;
  NodeId target_node = kNoNode;
  std::string code;
  std::string field;
  std::string expected;
  std::string actual;
  int matched = 0;  // pattern nodes paired before it failed; the larger, the nearer

  bool operator==(const NearMiss&) const = default;
};

// Which patterns torch's matcher takes at all: it is not empty, ends with an output node and holds no dead code
// (`match.no_output`, `match.dead_code`).
Status check_pattern(const Graph& pattern);

// Every non-overlapping match in torch's order. Errors: those of check_pattern, and
// `match.unbound_placeholder` where torch fails on a match: a placeholder (or a whole returned branch) that
// the match never reached.
Result<std::vector<Match>> find_matches(const Graph& pattern, const Graph& target);

// find_matches for patterns known to be good; a pattern that it refuses matches nowhere.
std::vector<Match> match_all(const Graph& pattern, const Graph& target);

// The attempts that failed, nearest first, at most `limit`. Empty if nothing failed.
std::vector<NearMiss> near_misses(const Graph& pattern, const Graph& target, size_t limit = 8);

// One sentence: "args[1] of layer_norm (layer_norm_2 in the graph): the pattern has 1e-05, the graph 1e-06".
std::string describe(const NearMiss& miss, const Graph& pattern, const Graph& target);
Json to_json(const NearMiss& miss, const Graph& pattern, const Graph& target);

// Python's `==` on literals (1 == 1.0 == True, a list is no tuple); nodes are equal if they are the same one.
bool python_equal(const Value& a, const Value& b);

}  // namespace passnet
