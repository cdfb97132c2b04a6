#include "plan/layouts.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "ops/core.h"
#include "ops/view_algebra.h"

namespace passnet {

namespace {

bool is_call(const Node& node) { return node.op == NodeOp::kCallFunction || node.op == NodeOp::kCallMethod; }

// Tensors without elements may have any strides. Those of axes of extent 1 count: a convolution sees channels_last in them.
bool same_layout(const TensorMeta& a, const TensorMeta& b) { return a.numel() <= 1 || a.stride == b.stride; }

bool same_layout(const Meta& a, const Meta& b) {
  if (a.kind != b.kind) return false;
  if (a.is_tensor()) return same_layout(a.tensor, b.tensor);
  return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(),
                    [](const Meta& x, const Meta& y) { return same_layout(x, y); });
}

// Shapes do not change with the layout; were they to, the rows' metadata would contradict itself.
void take_strides(Meta& to, const Meta& from) {
  if (to.is_tensor() && from.is_tensor()) to.tensor.stride = from.tensor.stride;
  for (size_t i = 0; i < to.items.size() && i < from.items.size(); ++i)
    take_strides(to.items[i], from.items[i]);
}

void lay_out(Meta& meta) {
  if (meta.is_tensor()) meta.tensor.stride = stored_strides(meta.tensor);
  for (Meta& item : meta.items) lay_out(item);
}

void collect(const Meta& meta, std::vector<StorageId>& out) {
  if (meta.is_tensor()) out.push_back(meta.tensor.storage);
  for (const Meta& item : meta.items) collect(item, out);
}

bool share(const Meta& a, const Meta& b) {
  std::vector<StorageId> mine, theirs;
  collect(a, mine);
  collect(b, theirs);
  return std::any_of(mine.begin(), mine.end(), [&](StorageId id) {
    return std::find(theirs.begin(), theirs.end(), id) != theirs.end();
  });
}

bool is_written(const Graph& graph, const Meta& meta) {
  std::vector<StorageId> mine;
  collect(meta, mine);
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const auto& node) {
    return std::any_of(node->writes.begin(), node->writes.end(),
                       [&](StorageId id) { return std::find(mine.begin(), mine.end(), id) != mine.end(); });
  });
}

}  // namespace

std::optional<LayoutProblem> settle_layouts(Graph& graph, std::span<const PassCall> calls, bool otherwise) {
  // By node: the call whose layout it has to do with, or the library; none where all is as captured.
  constexpr size_t kNone = static_cast<size_t>(-1);
  const size_t library = calls.size();
  std::vector<size_t> cause(graph.size(), kNone);
  Graph now = graph.clone();  // metadata inferred anew, with storages of its own
  for (size_t i = 0; i < graph.size(); ++i) {
    Node& node = now.node(static_cast<NodeId>(i));
    const Node& was = graph.node(node.id);
    const auto call =
        std::find_if(calls.begin(), calls.end(), [&](const PassCall& c) { return c.node == node.id; });
    if (call != calls.end()) {
      if (call->kernel) {
        lay_out(node.meta);
      } else {
        const Value& argument = node.args[static_cast<size_t>(call->returns)];
        if (!argument.is_node()) continue;
        const Meta& given = now.node(argument.as_node()).meta;
        const auto item = static_cast<size_t>(call->item);
        if (call->item < 0) take_strides(node.meta, given);
        if (call->item >= 0 && item < given.items.size()) take_strides(node.meta, given.items[item]);
      }
      if (!same_layout(node.meta, was.meta)) cause[i] = static_cast<size_t>(call - calls.begin());
      continue;
    }
    if (!is_call(node)) continue;
    size_t blamed = kNone;
    const std::vector<NodeId> inputs = now.inputs_of(node.id);
    for (const NodeId input : inputs) {
      if (cause[static_cast<size_t>(input)] != kNone) blamed = cause[static_cast<size_t>(input)];
    }
    const auto other = otherwise ? other_strides(now, node) : std::nullopt;
    if (blamed == kNone && other) {
      node.meta.tensor.stride = other;
      cause[i] = library;
      continue;
    }
    if (blamed == kNone) continue;
    if (const Status status = infer(now, node); !status) {
      return LayoutProblem{blamed,
                           {"layout",
                            fmt::format("{} cannot be computed of what the call returns: {}", node.name,
                                        status.error().message),
                            {node.name}}};
    }
    for (const NodeId input : inputs) {
      const bool shares = share(node.meta, now.node(input).meta);
      if (shares == share(was.meta, graph.node(input).meta)) continue;
      // A copy in place of a view shows only where one of the two is written.
      if (!shares && !is_written(graph, was.meta)) continue;
      return LayoutProblem{blamed,
                           {"layout",
                            fmt::format("whether {} shares memory with {} depends on a layout that the call "
                                        "does not keep",
                                        node.name, now.node(input).name),
                            {node.name}}};
    }
    if (const auto again = otherwise ? other_strides(now, node) : std::nullopt)
      node.meta.tensor.stride = again;
    if (!same_layout(node.meta, was.meta)) cause[i] = blamed;
  }
  for (size_t i = 0; i < graph.size(); ++i) {
    const NodeId id = static_cast<NodeId>(i);
    take_strides(graph.node(id).meta, now.node(id).meta);
  }
  return std::nullopt;
}

LayoutAnswer settle_all_layouts(const Graph& graph, std::span<const PassCall> calls) {
  LayoutAnswer out;
  out.graphs.captured = graph.clone();
  out.graphs.settled = graph.clone();
  out.problem = settle_layouts(out.graphs.settled, calls);
  const bool choice = std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const auto& node) {
    return is_call(*node) && other_strides(graph, *node).has_value();
  });
  if (out.problem || !choice) return out;
  Graph otherwise = graph.clone();
  if (!settle_layouts(otherwise, calls, true)) out.graphs.otherwise = std::move(otherwise);
  return out;
}

}  // namespace passnet
