#include <algorithm>

#include <fmt/format.h>

#include "capture/interpreter.h"
#include "capture/targets.h"
#include "ops/core.h"

namespace passnet {

namespace {

// What dynamo can hand over may be as large as the largest published graphs; this is far beyond.
constexpr std::size_t kMaxNodes = std::size_t{1} << 20;

// Functions called for what they do to torch's state: they have no value, and no operator row.
constexpr std::string_view kWithoutValue[] = {"torch._C._set_grad_enabled", "torch._C._log_api_usage_once",
                                              "torch._functorch.predispatch.lazy_load_decompositions",
                                              "torch._check", "torch._check_is_size"};

bool has_unknown_operand(const Graph& graph, const Node& node) {
  bool unknown = false;
  const auto look = [&](NodeId id) { unknown |= graph.node(id).meta.kind == Meta::Kind::kUnknown; };
  for (const Value& v : node.args) v.for_each_node(look);
  for (const auto& [key, v] : node.kwargs) v.for_each_node(look);
  return unknown;
}

}  // namespace

void Interpreter::infer_node(NodeId id, const Span& span) {
  Node& node = draft_.node(id);
  if (std::find(std::begin(kWithoutValue), std::end(kWithoutValue), node.target) != std::end(kWithoutValue)) {
    node.meta = Meta::none();
    return;
  }
  if (has_unknown_operand(draft_, node)) return;  // the cause was reported where it arose
  if (infer_vmap(id)) return;
  const Status status = infer(draft_, node);
  if (status.ok()) {
    settle_device(node);
    if (!levels_.empty()) inherit_levels(node);
    return;
  }
  if (node.target == "torch.sym_sum" && sum_of_sizes(node)) return;
  Diagnostic d = status.error();
  d.file = module_.file();
  d.span = span;
  d.fields.emplace("node", node.name);
  d.fields.emplace("target", node.target);
  findings_.push_back(std::move(d));
}

// A sum of sizes some of which are 0-dim integer tensors: symbols of the model's first capture that are inputs now.
bool Interpreter::sum_of_sizes(Node& node) {
  if (node.args.size() != 1 || !node.args[0].is_sequence()) return false;
  std::optional<TensorMeta> result;
  for (const Value& v : node.args[0].items()) {
    if (v.kind() == Value::Kind::kInt) continue;
    if (!v.is_node()) return false;
    const Meta& meta = draft_.node(v.as_node()).meta;
    if (!meta.is_tensor() || meta.tensor.dim() != 0 || !is_integral(meta.tensor.dtype, false)) return false;
    if (result && result->dtype != meta.tensor.dtype) return false;
    result = meta.tensor;
  }
  if (!result) return false;
  result->offset = 0;
  result->storage = draft_.storages++;
  node.meta = Meta::of(std::move(*result));
  return true;
}

// What is made of no tensor lives on the CPU unless the call names a device, also in a graph that runs on a GPU: torch
// takes 0-dim ones as operands there, and moves the others by `.to(device)`.
void Interpreter::settle_device(Node& node) const {
  if (!node.meta.is_tensor() || node.op != NodeOp::kCallFunction) return;
  bool reads = false;
  const auto look = [&](NodeId) { reads = true; };
  for (const Value& v : node.args) v.for_each_node(look);
  for (const auto& [key, v] : node.kwargs) v.for_each_node(look);
  const Value* device = node.kwarg("device");
  if (device != nullptr &&
      (device->kind() == Value::Kind::kDevice || device->kind() == Value::Kind::kString)) {
    node.meta.tensor.device = device->text() == "cuda" ? "cuda:0" : device->text();
  } else if (!reads) {
    node.meta.tensor.device = "cpu";
  }
}

Result<Value> Interpreter::emit(const Expr& at, NodeOp op, std::string target, Arguments arguments,
                                const std::string& hint) {
  if (draft_.size() >= kMaxNodes) {
    return error("capture.too_long", "the model makes too many nodes", at.span)
        .with_hint("Unroll the loop or shorten it.");
  }
  Node& node =
      draft_.add(op, std::move(target), std::move(arguments.args), std::move(arguments.kwargs), hint);
  node.span = at.span;
  from_input_.push_back(false);
  const NodeId id = node.id;
  const std::size_t findings = findings_.size();
  infer_node(id, at.span);
  // dynamo does not trace into a shape that depends on values (a subscript by a mask, nonzero): it breaks the graph.
  if (findings_.size() > findings && findings_.back().code == "ops.data_dependent_shape") {
    const Node& refused = draft_.node(id);
    if (refused.target != "operator.getitem" || !refused.args[0].is_node()) {
      return graph_break("a shape that depends on values", at.span);
    }
    findings_.resize(findings);
    return masked(at, id, hint);
  }
  if (findings_.size() > findings && findings_.back().code == "ops.unknown_value") {
    PN_TRY(std::optional<Value> ran, run_between(at, id, hint));
    if (ran) {
      findings_.resize(findings);
      return std::move(*ran);
    }
  }
  if (needs_number(id)) {
    PN_TRY(std::optional<Value> ran, run_between(at, id, hint));
    if (ran) return std::move(*ran);
  }
  return expand(at, id);
}

// dynamo turns the tuple that an operation returns into a Python tuple of getitem nodes at once.
Value Interpreter::expand(const Expr& at, NodeId id) {
  const Meta& meta = draft_.node(id).meta;
  if (meta.kind == Meta::Kind::kNone)
    return draft_.node(id).target == "operator.setitem" ? Value::node(id) : Value::none();
  if (meta.kind != Meta::Kind::kTuple) return Value::node(id);
  const std::size_t count = meta.items.size();
  std::vector<Value> items;
  for (std::size_t i = 0; i < count; ++i) {
    if (draft_.node(id).meta.items[i].kind == Meta::Kind::kNone) {
      items.push_back(Value::none());
      continue;
    }
    Node& item = draft_.add(NodeOp::kCallFunction, "operator.getitem",
                            {Value::node(id), Value::integer(static_cast<int64_t>(i))});
    item.span = at.span;
    from_input_.push_back(false);
    const NodeId item_id = item.id;
    infer_node(item_id, at.span);
    items.push_back(expand(at, item_id));
  }
  return Value::tuple(std::move(items));
}

Value Interpreter::tuple_item(const Expr& at, NodeId producer, int64_t index, const std::string& hint) {
  const auto key = std::pair(producer, index);
  if (const auto it = lazy_items_.find(key); it != lazy_items_.end()) return Value::node(it->second);
  Node& item = draft_.add(NodeOp::kCallFunction, "operator.getitem",
                          {Value::node(producer), Value::integer(index)}, {}, hint);
  item.span = at.span;
  from_input_.push_back(false);
  lazy_items_.emplace(key, item.id);
  return Value::node(item.id);
}

bool Interpreter::is_lazy_tuple(NodeId id) const {
  const Node& node = draft_.node(id);
  if (node.meta.kind != Meta::Kind::kUnknown) return false;
  if (node.op != NodeOp::kCallFunction && node.op != NodeOp::kCallMethod) return false;
  const bool has_dim = node.args.size() > 1 ? !node.args[1].is_node() : node.kwarg("dim") != nullptr;
  return returns_tuple(node.target, has_dim);
}

Result<const TensorMeta*> Interpreter::known_tensor(const Expr& at, NodeId id, std::string_view what) {
  const Node& node = draft_.node(id);
  if (node.meta.is_tensor()) return &node.meta.tensor;
  return error("capture.needs_shape", fmt::format("{} of '{}' is not known here", what, node.name), at.span)
      .with_hint(
          "Add the inputs' metadata to weight_meta.py, or see the finding about the operator that made it.");
}

}  // namespace passnet
