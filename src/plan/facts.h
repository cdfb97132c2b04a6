#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/verdict.h"
#include "ir/graph.h"
#include "ops/core.h"
#include "plan/machine.h"

namespace passnet {

/// What one call costs on the two clocks of the queue model (cost.h).
struct CallCost {
  double host_us = 0;
  double device_us = 0;
  int kernels = 0;  ///< 0: nothing is launched, the device clock does not move
};

/// What the planner needs to know of one node, worked out once.
struct NodeFacts {
  bool compute = false;  ///< call_function or call_method
  bool dead = false;     ///< compute, but nobody reads the value
  std::optional<Call> call;
  std::vector<NodeId> inputs, users;
  OpCost cost;
  CallCost eager;
  /// Why the node can be in no generated kernel; empty code: it may be. Reason codes are those of explain.h.
  Refusal wall;
  /// The wall would stand for a perfect generator too: random numbers, no tensor value, unknown operator.
  bool hard_wall = false;
  /// The operand whose very tensor this call returns, proven by metadata: eval dropout, contiguous, to,
  /// expand or view that change nothing. kNoNode: none.
  NodeId no_op_of = kNoNode;
  /// operator.getitem with an integer on a tuple value: the tuple and the (non-negative) index.
  NodeId tuple = kNoNode;
  int item = -1;
};

class GraphFacts {
 public:
  GraphFacts(const Graph& graph, const Profile& profile);

  const Graph& graph() const { return *graph_; }
  const NodeFacts& operator[](NodeId id) const { return nodes_[static_cast<size_t>(id)]; }
  size_t size() const { return nodes_.size(); }
  size_t compute_nodes() const { return compute_nodes_; }
  /// The first node whose value has this storage; kNoNode if none.
  NodeId creator(StorageId storage) const;
  /// All nodes whose value (or an item of it) has this storage, in graph order.
  const std::vector<NodeId>& holders(StorageId storage) const;
  /// Storage ids of a value, items of tuples included, each once.
  std::vector<StorageId> storages_of(NodeId id) const;
  /// The operator's row name, or the target where there is no row.
  std::string operator_name(NodeId id) const;

 private:
  const Graph* graph_;
  std::vector<NodeFacts> nodes_;
  std::vector<std::vector<NodeId>> holders_;
  size_t compute_nodes_ = 0;
};

bool is_tensor_tuple(const Meta& meta);

/// Time on the device of something that moves `bytes` and computes `flops` in `kernels` launches: the
/// greatest of the bandwidth of the level that holds the bytes, the unit's rate, and the floor of a launch.
double device_time_us(double bytes, double flops, double tflops, int kernels, const Profile& profile);
/// Rate at which the library does a call's flops.
double library_tflops(const Call* call, const OpCost& cost, const Profile& profile);
/// Rate at which a generated kernel does them: on the matrix units if its schedule uses them; fp32 products
/// other than convolutions take three tf32 terms to be as exact as eager.
double generated_tflops(const Call* call, const OpCost& cost, bool matrix_units, const Profile& profile);
/// The same for a kernel as good as the library's best.
double perfect_tflops(const Call* call, const OpCost& cost, const Profile& profile);

}  // namespace passnet
