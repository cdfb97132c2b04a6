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
  size_t call =
      0;  ///< index of the call whose value is laid out otherwise than eager's; that of no call where it is the
          ///< library's own choice
  Refusal why;
};

/// What a kernel gives lies in memory of its own, dense, in eager's order of axes where eager's value is dense too, and row
/// by row where it is not (a slice of something, say). Sets the strides of the calls' values accordingly, and those of
/// everything computed from them outside the passes, so that a later call is written for what it will really be given.
///
/// A problem where another layout changes more than speed: a view that cannot be taken of it, or a value that shares memory
/// with its operand where eager's does not, or the other way round and one of them is written.
///
/// `otherwise`: calls of the library that may lay their result out in another way too (other_strides) do so.
std::optional<LayoutProblem> settle_layouts(Graph& graph, std::span<const PassCall> calls,
                                            bool otherwise = false);

/// A rewritten graph as its calls may meet it.
struct SettledLayouts {
  Graph captured;                  ///< as it came: the layouts that a native reader of the passes works with
  Graph settled;                   ///< settle_layouts
  std::optional<Graph> otherwise;  ///< where the library has a choice, the other one
};
/// Errors: the problem of settle_layouts. One of the other choice is none: then no entry is written for it.
struct LayoutAnswer {
  std::optional<LayoutProblem> problem;
  SettledLayouts graphs;
};
LayoutAnswer settle_all_layouts(const Graph& graph, std::span<const PassCall> calls);

}  // namespace passnet
