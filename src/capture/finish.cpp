#include <algorithm>

#include "capture/interpreter.h"

namespace passnet {

// Tensors of the returned value in order, each once. Inputs are not among them: the caller has them already.
void Interpreter::collect_outputs(const Value& v, std::vector<NodeId>& out) const {
  v.for_each_node([&](NodeId id) {
    if (!is_carried(id) && std::find(out.begin(), out.end(), id) == out.end()) {
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
    // Not across a graph break.
    if (std::any_of(segments_.begin(), segments_.end(),
                    [&](const Segment& s) { return s.end == static_cast<NodeId>(i + 1); })) {
      continue;
    }
    mode = !mode;
    kept[i] = kept[i + 1] = false;
  }
}

// One segment of the draft as a graph of its own. What it reads of earlier ones becomes an input, by the object that
// it is then: a parameter, a value of an earlier graph, or what ran between two.
Graph Interpreter::graph_of(NodeId begin, const Segment& segment, const std::vector<bool>& kept,
                            std::vector<NodeId>& inputs) {
  const bool only = segments_.size() == 1;
  const std::size_t count = draft_.size();
  const auto inside = [&](NodeId id) {
    return id >= begin && id < segment.end && draft_.node(id).op != NodeOp::kPlaceholder;
  };
  // Items of tuples read late stand directly behind the tuple, in index order.
  std::vector<NodeId> order;
  std::vector<std::vector<NodeId>> late(lazy_items_.empty() ? 0 : count);
  std::vector<bool> moved(lazy_items_.empty() ? 0 : count, false);
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
      if (late.empty()) continue;
      const std::vector<NodeId>& items = late[static_cast<std::size_t>(id)];
      stack.insert(stack.end(), items.rbegin(), items.rend());
    }
  };
  for (NodeId id = begin; id < segment.end; ++id) {
    if (inside(id) && (moved.empty() || !moved[static_cast<std::size_t>(id)])) place(id);
  }
  std::vector<bool> wanted(count, false);
  const auto want = [&](NodeId id) {
    if (inside(id)) return;
    const NodeId object = object_of(id);
    if (wanted[static_cast<std::size_t>(object)]) return;
    wanted[static_cast<std::size_t>(object)] = true;
    inputs.push_back(object);
  };
  for (const NodeId id : order) {
    for (const Value& v : draft_.node(id).args) v.for_each_node(want);
    for (const auto& [key, v] : draft_.node(id).kwargs) v.for_each_node(want);
  }
  for (const NodeId id : segment.outputs) want(id);
  std::sort(inputs.begin(), inputs.end());

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
  const auto map_node = [&](NodeId id) {
    return Value::node(new_id[static_cast<std::size_t>(inside(id) ? id : object_of(id))]);
  };
  for (const NodeId id : inputs) {
    const Node& old = draft_.node(id);
    Node& node = graph.add(NodeOp::kPlaceholder, old.op == NodeOp::kPlaceholder ? old.target : old.name, {},
                           {}, old.name);
    node.meta = old.meta;
    node.span = old.span;
    node.magnitude = old.magnitude;
    map_meta(map_meta, node.meta);
    new_id[static_cast<std::size_t>(id)] = node.id;
  }
  for (const NodeId id : order) {
    Node& old = draft_.node(id);
    std::vector<Value> args;
    args.reserve(old.args.size());
    for (const Value& v : old.args) args.push_back(v.map_nodes(map_node));
    std::vector<std::pair<std::string, Value>> kwargs;
    for (const auto& [key, v] : old.kwargs) kwargs.emplace_back(key, v.map_nodes(map_node));
    Node& node = graph.add(old.op, old.target, std::move(args), std::move(kwargs), old.name);
    node.meta = only ? std::move(old.meta) : old.meta;
    node.writes = old.writes;
    node.span = old.span;
    map_meta(map_meta, node.meta);
    for (StorageId& s : node.writes) map_storage(s);
    new_id[static_cast<std::size_t>(id)] = node.id;
    if (!only) names_[id] = node.name;
  }
  std::vector<Value> returned;
  for (const NodeId id : segment.outputs) returned.push_back(map_node(id));
  graph.add(NodeOp::kOutput, "output", {Value::tuple(std::move(returned))}, {}, "output");
  return graph;
}

Result<Captured> Interpreter::finish() {
  Captured out;
  if (!compiled_) findings_.resize(findings_kept_);
  out.findings = std::move(findings_);
  if (compiled_) {
    Segment last;
    last.end = static_cast<NodeId>(draft_.size());
    if (result_is_bare_) {
      last.outputs.push_back(result_.as_node());
    } else {
      collect_outputs(result_, last.outputs);
    }
    segments_.push_back(std::move(last));
  }

  const std::size_t count = draft_.size();
  std::vector<bool> read(count, false), kept(count, true);
  drop_grad_mode_pairs(kept);
  std::vector<int> graph_index(segments_.size(), -1);
  NodeId begin = 0;
  for (std::size_t s = 0; s < segments_.size(); ++s) {
    const Segment& segment = segments_[s];
    // A subscript that nothing reads is dropped, and what only dropped ones read.
    for (const NodeId id : segment.outputs) read[static_cast<std::size_t>(id)] = true;
    bool computes = false;
    for (NodeId id = segment.end; id-- > begin;) {
      const std::size_t i = static_cast<std::size_t>(id);
      const Node& node = draft_.node(id);
      if (!kept[i] || node.op == NodeOp::kPlaceholder) continue;
      if (!read[i] && node.op == NodeOp::kCallFunction && node.target == "operator.getitem") {
        kept[i] = false;
        continue;
      }
      computes = true;
      const auto mark = [&](NodeId input) { read[static_cast<std::size_t>(input)] = true; };
      for (const Value& v : node.args) v.for_each_node(mark);
      for (const auto& [key, v] : node.kwargs) v.for_each_node(mark);
    }
    // dynamo compiles nothing where nothing is computed.
    if (computes) {
      std::vector<NodeId> inputs;
      graph_index[s] = static_cast<int>(out.graphs.size());
      out.graphs.push_back(graph_of(begin, segment, kept, inputs));
      std::map<std::string, Captured::Origin>& origins = out.origins.emplace_back();
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const NodeId id = inputs[i];
        if (id < parameters_) continue;
        Captured::Origin origin;
        if (draft_.node(id).op != NodeOp::kPlaceholder) {
          const auto of = std::upper_bound(segments_.begin(), segments_.end(), id,
                                           [](NodeId n, const Segment& other) { return n < other.end; });
          origin.graph = graph_index[static_cast<std::size_t>(of - segments_.begin())];
          // Of several results that are one object, the first counts.
          const auto same = std::find_if(of->outputs.begin(), of->outputs.end(),
                                         [&](NodeId n) { return object_of(n) == id; });
          origin.node = names_[same == of->outputs.end() ? id : *same];
        }
        origins.emplace(out.graphs.back().node(static_cast<NodeId>(i)).name, std::move(origin));
      }
    }
    begin = segment.end;
  }
  return out;
}

}  // namespace passnet
