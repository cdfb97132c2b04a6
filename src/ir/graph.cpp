#include "ir/graph.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include <fmt/format.h>

namespace passnet {

int64_t saturating_product(int64_t a, int64_t b) {
  int64_t out = 0;
  if (!__builtin_mul_overflow(a, b, &out)) return out;
  return (a < 0) == (b < 0) ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
}

int64_t elements_of(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (const int64_t extent : shape) {
    if (extent == 0) return 0;
    n = saturating_product(n, extent);
  }
  return n;
}

int64_t span_of(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (const int64_t extent : shape) n = saturating_product(n, std::max<int64_t>(extent, 1));
  return n;
}

int64_t TensorMeta::numel() const { return elements_of(shape); }

int64_t TensorMeta::bytes() const { return saturating_product(numel(), size_of(dtype)); }

bool TensorMeta::is_contiguous() const {
  if (!stride) return false;
  if (numel() == 0) return true;
  int64_t expected = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) continue;  // the stride of a size-1 axis never addresses anything
    if ((*stride)[i] != expected) return false;
    expected = saturating_product(expected, shape[i]);
  }
  return true;
}

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) {
    // Torch's rule for empty axes.
    strides[i - 1] = saturating_product(strides[i], std::max<int64_t>(shape[i], 1));
  }
  return strides;
}

bool same_strides(const std::vector<int64_t>& shape, const std::vector<int64_t>& a,
                  const std::vector<int64_t>& b) {
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] > 1 && a[i] != b[i]) return false;
  }
  return true;
}

Meta Meta::of(TensorMeta t) {
  Meta m;
  m.kind = Kind::kTensor;
  m.tensor = std::move(t);
  return m;
}

Meta Meta::tuple(std::vector<Meta> items) {
  Meta m;
  m.kind = Kind::kTuple;
  m.items = std::move(items);
  return m;
}

Meta Meta::number(Value v) {
  Meta m;
  m.kind = Kind::kScalar;
  m.scalar = std::move(v);
  return m;
}

Meta Meta::none() {
  Meta m;
  m.kind = Kind::kNone;
  return m;
}

std::string_view name_of(NodeOp op) {
  switch (op) {
    case NodeOp::kPlaceholder: return "placeholder";
    case NodeOp::kCallFunction: return "call_function";
    case NodeOp::kCallMethod: return "call_method";
    case NodeOp::kGetAttr: return "get_attr";
    case NodeOp::kOutput: return "output";
  }
  return "output";
}

const Value* Node::kwarg(std::string_view key) const {
  for (const auto& [keyword, value] : kwargs) {
    if (keyword == key) return &value;
  }
  return nullptr;
}

namespace {

// What torch.fx would call a node of this target: the last component, as an identifier.
std::string base_name(const std::string& target) {
  const size_t dot = target.rfind('.');
  std::string name = dot == std::string::npos ? target : target.substr(dot + 1);
  for (char& c : name) {
    if (!isalnum(static_cast<unsigned char>(c)) && c != '_') c = '_';
  }
  if (name.empty() || isdigit(static_cast<unsigned char>(name[0]))) name = "_" + name;
  return name;
}

}  // namespace

Node& Graph::add(NodeOp op, std::string target, std::vector<Value> args,
                 std::vector<std::pair<std::string, Value>> kwargs, std::string name_hint) {
  auto node = std::make_unique<Node>();
  node->id = static_cast<NodeId>(nodes_.size());
  node->op = op;
  node->args = std::move(args);
  node->kwargs = std::move(kwargs);
  std::string name = name_hint.empty() ? base_name(target) : std::move(name_hint);
  const std::string stem = name;
  for (int& suffix = next_suffix_[stem]; names_.contains(name);) name = fmt::format("{}_{}", stem, ++suffix);
  names_.emplace(name, node->id);
  node->name = std::move(name);
  node->target = std::move(target);
  nodes_.push_back(std::move(node));
  return *nodes_.back();
}

const Node* Graph::find(std::string_view name) const {
  const auto it = names_.find(std::string(name));
  return it == names_.end() ? nullptr : nodes_[static_cast<size_t>(it->second)].get();
}

const Node* Graph::output() const {
  return nodes_.empty() || nodes_.back()->op != NodeOp::kOutput ? nullptr : nodes_.back().get();
}

std::vector<NodeId> Graph::placeholders() const {
  std::vector<NodeId> ids;
  for (const auto& node : nodes_) {
    if (node->op == NodeOp::kPlaceholder) ids.push_back(node->id);
  }
  return ids;
}

std::vector<NodeId> Graph::inputs_of(NodeId id) const {
  std::vector<NodeId> ids;
  const auto take = [&](NodeId input) {
    if (std::find(ids.begin(), ids.end(), input) == ids.end()) ids.push_back(input);
  };
  for (const Value& arg : node(id).args) arg.for_each_node(take);
  for (const auto& [key, value] : node(id).kwargs) value.for_each_node(take);
  return ids;
}

std::vector<std::vector<NodeId>> Graph::users() const {
  std::vector<std::vector<NodeId>> table(nodes_.size());
  for (const auto& node : nodes_) {
    for (const NodeId input : inputs_of(node->id)) table[static_cast<size_t>(input)].push_back(node->id);
  }
  return table;
}

Graph Graph::clone() const {
  Graph copy;
  copy.file = file;
  copy.storages = storages;
  copy.names_ = names_;
  copy.next_suffix_ = next_suffix_;
  copy.nodes_.reserve(nodes_.size());
  for (const auto& node : nodes_) copy.nodes_.push_back(std::make_unique<Node>(*node));
  return copy;
}

std::vector<Diagnostic> verify(const Graph& graph) {
  std::vector<Diagnostic> broken;
  const auto fail = [&](const Node& node, std::string_view rule) {
    broken.push_back(internal_error("ir.invalid", fmt::format("{} ({}): {}", node.name, node.target, rule))
                         .at(graph.file, node.span));
  };
  bool seen_compute = false;
  for (const auto& owned : graph.nodes()) {
    const Node& node = *owned;
    if (graph.find(node.name) != &node) fail(node, "node names are unique");
    for (const NodeId input : graph.inputs_of(node.id)) {
      if (input < 0 || input >= static_cast<NodeId>(graph.size())) {
        fail(node, "arguments name nodes of the same graph");
      } else if (input >= node.id) {
        fail(node, "a node reads only nodes before it");
      } else if (graph.node(input).op == NodeOp::kOutput) {
        fail(node, "the output node has no value");
      }
    }
    if (node.op == NodeOp::kPlaceholder) {
      if (seen_compute) fail(node, "placeholders come before all other nodes");
      if (!node.kwargs.empty()) fail(node, "placeholders have no keyword arguments");
    } else {
      seen_compute = true;
    }
    if (node.op == NodeOp::kOutput) {
      if (owned != graph.nodes().back()) fail(node, "the output node is the last one");
      if (node.args.size() != 1) fail(node, "the output node has exactly one argument");
    }
    if (node.op == NodeOp::kCallMethod && (node.args.empty() || node.target.find('.') != std::string::npos)) {
      fail(node, "a method call has a receiver as first argument and a plain method name as target");
    }
    if (node.meta.is_tensor()) {
      const TensorMeta& t = node.meta.tensor;
      if (std::any_of(t.shape.begin(), t.shape.end(), [](int64_t n) { return n < 0; })) {
        fail(node, "extents are not negative");
      }
      if (t.stride && t.stride->size() != t.shape.size()) fail(node, "there is one stride an axis");
      if (t.storage != kNoStorage && (t.storage < 0 || t.storage >= graph.storages)) {
        fail(node, "storage ids are handed out by the graph");
      }
    }
    for (const StorageId storage : node.writes) {
      if (storage < 0 || storage >= graph.storages) fail(node, "written storages are known to the graph");
    }
  }
  if (graph.output() == nullptr) {
    broken.push_back(internal_error("ir.invalid", "a graph ends with its output node").at(graph.file, {}));
  }
  return broken;
}

}  // namespace passnet
