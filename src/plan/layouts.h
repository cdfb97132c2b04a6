#pragma once

#include <optional>
#include <span>

#include "base/verdict.h"
#include "ir/graph.h"

namespace passnet {

/// One call of a pass in a graph that the passes have rewritten.
struct PassCall {
  NodeId node = kNoNode;
  bool kernel = true;  ///< false: it returns the argument `returns`, or the item `item` of it
  int returns = 0;
  int item = -1;
};

struct LayoutProblem {
  size_t call = 0;  ///< index of the call whose value is laid out otherwise than eager's
  Refusal why;
};

/// What a kernel gives lies in memory of its own, dense, in eager's order of axes where eager's value is dense too, and row
/// by row where it is not (a slice of something, say). Sets the strides of the calls' values accordingly, and those of
/// everything computed from them outside the passes, so that a later call is written for what it will really be given.
///
/// A problem where another layout changes more than speed: a view that cannot be taken of it, or a value that shares memory
/// with its operand where eager's does not, or the other way round and one of them is written.
std::optional<LayoutProblem> settle_layouts(Graph& graph, std::span<const PassCall> calls);

}  // namespace passnet
