#include <algorithm>

#include "capture/interpreter.h"

namespace passnet {

// Tensors of the returned value in order, each once. Inputs are not among them: the caller has them already.
void Interpreter::collect_outputs(const Value& v, std::vector<NodeId>& out) const {
  v.for_each_node([&](NodeId id) {
    if (!from_input_[static_cast<std::size_t>(id)] && std::find(out.begin(), out.end(), id) == out.end()) {
      out.push_back(id);
    }
  });
}

// Neighbours that switch grad mode off and on again (or the other way round) are dropped, as dynamo drops them. The
// mode outside is on.
void Interpreter::drop_grad_mode_pairs(std::vector<bool>& kept) const {
  constexpr std::string_view kSwitch = "torch._C._set_grad_enabled";
  const auto setting = [&](const Node& node) -> std::optional<bool> {
    if (node.target != kSwitch || node.args.size() != 1 || node.args[0].kind() != Value::Kind::kBool)
      return std::nullopt;
    return node.args[0].as_bool();
  };
  bool mode = true;
  for (std::size_t i = 0; i + 1 < draft_.size(); ++i) {
    if (!kept[i] || setting(draft_.node(static_cast<NodeId>(i))) != !mode) continue;
    mode = !mode;
    if (setting(draft_.node(static_cast<NodeId>(i + 1))) != !mode) continue;
    mode = !mode;
    kept[i] = kept[i + 1] = false;
  }
}

Result<Captured> Interpreter::finish() {
  Captured out;
  out.findings = std::move(findings_);
  std::vector<NodeId> outputs;
  if (result_is_bare_) {
    outputs.push_back(result_.as_node());
  } else {
    collect_outputs(result_, outputs);
  }

  // A subscript that nothing reads is dropped, and what only dropped ones read.
  const std::size_t count = draft_.size();
  std::vector<bool> read(count, false), kept(count, true);
  drop_grad_mode_pairs(kept);
  for (const NodeId id : outputs) read[static_cast<std::size_t>(id)] = true;
  bool computes = false;
  for (std::size_t i = count; i-- > 0;) {
    if (!kept[i]) continue;
    const Node& node = draft_.node(static_cast<NodeId>(i));
    const bool subscript = node.op == NodeOp::kCallFunction && node.target == "operator.getitem";
    if (!read[i] && (subscript || node.op == NodeOp::kPlaceholder)) {
      kept[i] = false;
      continue;
    }
    computes |= node.op != NodeOp::kPlaceholder;
    const auto mark = [&](NodeId id) { read[static_cast<std::size_t>(id)] = true; };
    for (const Value& v : node.args) v.for_each_node(mark);
    for (const auto& [key, v] : node.kwargs) v.for_each_node(mark);
  }
  if (!computes) return out;  // dynamo compiles nothing

  // Items of tuples read late stand directly behind the tuple, in index order.
  std::vector<NodeId> order;
  std::vector<std::vector<NodeId>> late(count);
  std::vector<bool> moved(count, false);
  for (const auto& [key, id] : lazy_items_) {
    late[static_cast<std::size_t>(key.first)].push_back(id);
    moved[static_cast<std::size_t>(id)] = true;
  }
  const auto place = [&](NodeId first) {
    // Items may be tuples themselves.
    std::vector<NodeId> stack{first};
    while (!stack.empty()) {
      const NodeId id = stack.back();
      stack.pop_back();
      if (!kept[static_cast<std::size_t>(id)]) continue;
      order.push_back(id);
      const std::vector<NodeId>& items = late[static_cast<std::size_t>(id)];
      stack.insert(stack.end(), items.rbegin(), items.rend());
    }
  };
  for (std::size_t i = 0; i < count; ++i) {
    if (!moved[i]) place(static_cast<NodeId>(i));
  }

  Graph graph;
  graph.file = draft_.file;
  std::vector<NodeId> new_id(count, kNoNode);
  std::vector<StorageId> new_storage(static_cast<std::size_t>(draft_.storages), kNoStorage);
  const auto map_storage = [&](StorageId& id) {
    if (id < 0) return;
    StorageId& mapped = new_storage[static_cast<std::size_t>(id)];
    if (mapped == kNoStorage) mapped = graph.storages++;
    id = mapped;
  };
  const auto map_meta = [&](auto&& self, Meta& meta) -> void {
    if (meta.is_tensor()) map_storage(meta.tensor.storage);
    for (Meta& item : meta.items) self(self, item);
  };
  const auto map_node = [&](NodeId id) { return Value::node(new_id[static_cast<std::size_t>(id)]); };
  for (const NodeId id : order) {
    Node& old = draft_.node(id);
    std::vector<Value> args;
    args.reserve(old.args.size());
    for (const Value& v : old.args) args.push_back(v.map_nodes(map_node));
    std::vector<std::pair<std::string, Value>> kwargs;
    for (const auto& [key, v] : old.kwargs) kwargs.emplace_back(key, v.map_nodes(map_node));
    Node& node = graph.add(old.op, old.target, std::move(args), std::move(kwargs), old.name);
    node.meta = std::move(old.meta);
    node.writes = std::move(old.writes);
    node.span = old.span;
    map_meta(map_meta, node.meta);
    for (StorageId& s : node.writes) map_storage(s);
    new_id[static_cast<std::size_t>(id)] = node.id;
  }
  std::vector<Value> returned;
  for (const NodeId id : outputs) returned.push_back(map_node(id));
  graph.add(NodeOp::kOutput, "output", {Value::tuple(std::move(returned))}, {}, "output");
  out.graphs.push_back(std::move(graph));
  return out;
}

}  // namespace passnet
