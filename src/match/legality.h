#pragma once

#include <span>
#include <vector>

#include "base/verdict.h"
#include "ir/graph.h"

// Whether a set of nodes may become one call. The call is inserted at P, just before the first user of the
// root's value, so that everything the region does sinks to P: past mutations of what it reads, and past
// readers of what it writes. Aliasing is by storage id; a value without known metadata may share memory with
// any other.

namespace passnet {

struct RegionView {
  std::span<const NodeId> nodes;  // graph order
  NodeId root = kNoNode;          // the one node whose value is used outside
  // The call returns one of its arguments, so that the result goes on sharing memory with it as the root's
  // value does.
  bool returns_argument = false;
};

struct Legality {
  // Codes of refusals:
  //   region.empty            no nodes, or the root is not one of them
  //   region.node_kind        a placeholder, an attribute or the output inside
  //   region.userless         nothing reads the root's value: there is no place to put the call
  //   region.dead_node        a node inside that nothing reads
  //   region.not_contained    a value other than the root's is read outside
  //   region.root_inside      the root's value is also read inside
  //   region.store            a subscript store inside
  //   region.random           random numbers are drawn inside
  //   region.read_clobbered   what the region reads is written, outside, between its first node and P
  //   region.write_observed   what the region writes is read or written, outside, between that write and P
  //   region.alias_broken     the root's value shares memory with a value outside, and one of them is written
  //   from P on
  Verdict verdict;
  // region.returns_view: the root's value shares memory with a value outside; a call that does not return an
  // argument gives a copy of it. region.must_write: nodes whose writes the call has to perform itself.
  std::vector<Refusal> notes;
  std::vector<StorageId> must_write;  // storages visible outside that the region writes
  NodeId before = kNoNode;            // P: the first user of the root; none if it has no user
};

Legality judge_region(const Graph& graph, const RegionView& region);

// The storages that a value may lie in, or all of them.
struct StorageSet {
  std::vector<StorageId> ids;  // sorted, unique
  bool any = false;            // may share memory with everything

  void add(StorageId id);
  void add(const Meta& meta);
  void add(const StorageSet& other);
  bool empty() const { return !any && ids.empty(); }
  bool may_alias(const StorageSet& other) const;
};

// What a node reads through its operands and what it writes. Writes are those of the metadata; a node spelled
// as an in-place operation without recorded writes is taken to write its first operand (and its `out`
// argument).
StorageSet reads_of(const Graph& graph, const Node& node);
StorageSet writes_of(const Graph& graph, const Node& node);

// `x[i] = v`: it has no users, so that it can be neither inside a region nor its end.
bool is_subscript_store(const Node& node);
// Draws random numbers; a dropout counts unless its `training` is literally False.
bool is_random(const Node& node);

}  // namespace passnet
