#include "plan/structure.h"

#include <algorithm>
#include <functional>
#include <map>

#include <fmt/format.h>

namespace passnet {

namespace {

// Whether an integer among this call's arguments only says how large something is, so that a kernel compiled
// for each value serves them all. Subscripts choose a value, and other classes' integers say what is computed
// (dims, exponents): these stay literal, one pass a value.
bool has_sizes(const NodeFacts& node) {
  if (!node.call || node.call->node->target == "operator.getitem") return false;
  switch (node.call->row->cls) {
    case OpClass::kView:
    case OpClass::kFactory:
    case OpClass::kStencil:
    case OpClass::kCopy: return true;
    default: return false;
  }
}

using LiteralFn = std::function<void(const LiteralPath&, const Value&)>;

// Literals that a pattern placeholder can stand for: arguments, and items of (nested) lists and tuples.
// torch's matcher does not look into slices and dictionaries.
void visit(const Value& value, LiteralPath& path, const LiteralFn& fn) {
  if (value.is_sequence()) {
    for (size_t i = 0; i < value.items().size(); ++i) {
      path.inner.push_back(static_cast<int>(i));
      visit(value.items()[i], path, fn);
      path.inner.pop_back();
    }
  } else if (!value.is_node()) {
    fn(path, value);
  }
}

void for_each_literal(const Node& node, const LiteralFn& fn) {
  LiteralPath path;
  path.node = node.id;
  for (size_t i = 0; i < node.args.size(); ++i) {
    path.arg = static_cast<int>(i);
    visit(node.args[i], path, fn);
  }
  path.arg = -1;
  for (const auto& [key, value] : node.kwargs) {
    path.key = key;
    visit(value, path, fn);
  }
}

// Values with the id of what they refer to; integers as "?" where asked for.
std::string text_of(const Value& value, bool hide_integers) {
  if (value.is_sequence()) {
    std::string text = value.kind() == Value::Kind::kList ? "[" : "(";
    for (const Value& item : value.items()) text += text_of(item, hide_integers) + ",";
    return text + (value.kind() == Value::Kind::kList ? "]" : ")");
  }
  if (hide_integers && value.kind() == Value::Kind::kInt) return "?";
  return python_text(value, [](NodeId id) { return fmt::format("%{}", id); });
}

std::string text_of(const Node& node, bool hide_integers) {
  std::string text = fmt::format("{} {}(", name_of(node.op), node.target);
  for (const Value& arg : node.args) text += text_of(arg, hide_integers) + ",";
  for (const auto& [key, value] : node.kwargs) text += key + "=" + text_of(value, hide_integers) + ",";
  return text + ")\n";
}

std::string structure_key(const Instance& instance) {
  std::string key;
  for (const auto& node : instance.graph->nodes()) {
    if (node->op == NodeOp::kPlaceholder) {
      key += "placeholder\n";
    } else {
      key += text_of(*node, has_sizes((*instance.facts)[node->id]));
    }
  }
  return key;
}

}  // namespace

std::vector<GraphClass> classify(const std::vector<Instance>& instances) {
  std::vector<GraphClass> classes;
  std::map<std::string, size_t> by_key;
  for (size_t i = 0; i < instances.size(); ++i) {
    const auto [it, fresh] = by_key.emplace(structure_key(instances[i]), classes.size());
    if (fresh) classes.emplace_back();
    classes[it->second].instances.push_back(i);
  }
  for (GraphClass& cls : classes) {
    const Instance& first = instances[cls.instances.front()];
    for (const auto& node : first.graph->nodes()) {
      if (!has_sizes((*first.facts)[node->id])) continue;
      std::map<LiteralPath, Value> values;
      for_each_literal(*node,
                       [&](const LiteralPath& path, const Value& value) { values.emplace(path, value); });
      for (size_t i : cls.instances) {
        for_each_literal(instances[i].graph->node(node->id),
                         [&](const LiteralPath& path, const Value& value) {
                           if (value.kind() == Value::Kind::kInt && !(values.at(path) == value))
                             cls.holes.insert(path);
                         });
      }
    }
  }
  return classes;
}

Pattern slice_pattern(const Graph& graph, const Region& region, const std::set<LiteralPath>& holes) {
  Pattern pattern;
  pattern.tensor_inputs = region.inputs;
  std::map<NodeId, NodeId> ids;  // of the captured graph to the pattern's
  for (NodeId input : region.inputs) {
    const Node& outside = graph.node(input);
    Node& placeholder = pattern.graph.add(NodeOp::kPlaceholder, outside.name, {}, {}, outside.name);
    placeholder.meta = outside.meta;
    ids[input] = placeholder.id;
  }
  std::map<LiteralPath, NodeId> hole_ids;
  for (NodeId id : region.nodes) {
    for_each_literal(graph.node(id), [&](const LiteralPath& path, const Value& value) {
      if (!holes.count(path)) return;
      const std::string name = fmt::format("size_{}", hole_ids.size());
      Node& placeholder = pattern.graph.add(NodeOp::kPlaceholder, name, {}, {}, name);
      placeholder.meta = Meta::number(value);
      hole_ids[path] = placeholder.id;
    });
  }
  for (NodeId id : region.nodes) {
    const Node& node = graph.node(id);
    LiteralPath path;
    path.node = id;
    const std::function<Value(const Value&)> translate = [&](const Value& value) -> Value {
      if (const auto hole = hole_ids.find(path); hole != hole_ids.end() && !value.is_sequence()) {
        return Value::node(hole->second);
      }
      if (!value.is_sequence()) return value.map_nodes([&](NodeId n) { return Value::node(ids.at(n)); });
      Value out = value;
      for (size_t i = 0; i < out.items().size(); ++i) {
        path.inner.push_back(static_cast<int>(i));
        out.items()[i] = translate(value.items()[i]);
        path.inner.pop_back();
      }
      return out;
    };
    std::vector<Value> args;
    for (size_t i = 0; i < node.args.size(); ++i) {
      path.arg = static_cast<int>(i);
      args.push_back(translate(node.args[i]));
    }
    path.arg = -1;
    std::vector<std::pair<std::string, Value>> kwargs;
    for (const auto& [key, value] : node.kwargs) {
      path.key = key;
      kwargs.emplace_back(key, translate(value));
    }
    Node& copy = pattern.graph.add(node.op, node.target, std::move(args), std::move(kwargs), node.name);
    copy.meta = node.meta;
    copy.writes = node.writes;
    copy.span = node.span;
    ids[id] = copy.id;
  }
  pattern.graph.add(NodeOp::kOutput, "output", {Value::node(ids.at(region.root))}, {}, "output");
  pattern.graph.file = graph.file;
  pattern.graph.storages = graph.storages;
  for (const auto& node : pattern.graph.nodes()) {
    pattern.key += node->op == NodeOp::kPlaceholder ? "placeholder\n" : text_of(*node, false);
  }
  return pattern;
}

}  // namespace passnet
