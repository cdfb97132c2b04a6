#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "capture/interpreter.h"
#include "ops/core.h"

// Where dynamo ends a graph, runs one instruction as Python would, and traces on behind it.

namespace passnet {

namespace {

// Operations that may hand back their operand itself, not a view of it.
constexpr std::string_view kSameObject[] = {"contiguous", "to",   "float", "half",   "bfloat16",
                                            "double",     "long", "int",   "bool",   "type",
                                            "type_as",    "cuda", "cpu",   "dropout"};

bool same_layout(const TensorMeta& a, const TensorMeta& b) {
  return a.shape == b.shape && a.stride == b.stride && a.offset == b.offset && a.dtype == b.dtype;
}

}  // namespace

// The node whose tensor object this node's value is: in-place methods return their operand.
NodeId Interpreter::object_of(NodeId id) const {
  while (true) {
    const Node& node = draft_.node(id);
    const bool call = node.op == NodeOp::kCallFunction || node.op == NodeOp::kCallMethod;
    if (!call || node.args.empty() || !node.args[0].is_node() || !node.meta.is_tensor()) return id;
    const Node& first = draft_.node(node.args[0].as_node());
    if (!first.meta.is_tensor() || first.meta.tensor.storage != node.meta.tensor.storage) return id;
    if (!same_layout(first.meta.tensor, node.meta.tensor)) return id;
    const std::size_t dot = node.target.rfind('.');
    const std::string_view name =
        std::string_view(node.target).substr(dot == std::string::npos ? 0 : dot + 1);
    const StorageId storage = node.meta.tensor.storage;
    const bool writes = std::find(node.writes.begin(), node.writes.end(), storage) != node.writes.end();
    const bool same =
        std::find(std::begin(kSameObject), std::end(kSameObject), name) != std::end(kSameObject);
    if (!writes && !same) return id;
    id = first.id;
  }
}

NodeId Interpreter::segment_start() const { return segments_.empty() ? 0 : segments_.back().end; }

bool Interpreter::is_carried(NodeId id) const {
  return id < segment_start() || draft_.node(id).op == NodeOp::kPlaceholder ||
         from_input_[static_cast<std::size_t>(id)];
}

void Interpreter::push(const Value& v) {
  v.for_each_node([&](NodeId id) { stack_.push_back(id); });
}

// Ends the graph at `at`: what Python holds then and needs later are its results, in the order in which dynamo collects
// them: the stack of the expression under way, then the local names that are read again, by age.
Status Interpreter::end_graph(const Expr& at, std::string_view construct,
                              std::initializer_list<const Value*> operands) {
  if (inputs_ == nullptr) return graph_break(construct, at.span);
  if (!compiled_) return ok_status();
  if (loops_ > 0) {  // dynamo does not resume inside a loop: nothing is compiled since the graph before
    compiled_ = false;
    findings_kept_ = findings_.size();
    return ok_status();
  }
  Segment segment;
  const auto take = [&](NodeId id) {
    if (is_carried(id)) return;
    if (std::find(segment.outputs.begin(), segment.outputs.end(), id) == segment.outputs.end()) {
      segment.outputs.push_back(id);
    }
  };
  for (const NodeId id : stack_) take(id);
  for (const Value* v : operands) v->for_each_node(take);
  if (!liveness_) liveness_.emplace(*body_);
  std::vector<std::pair<int64_t, const Local*>> live;
  for (auto it = locals_.begin(); it != locals_.end();) {
    if (liveness_->is_read_after(it->first, statement_index_, at.span)) {
      live.emplace_back(it->second.rank, &it->second);
      ++it;
    } else {
      it = locals_.erase(it);
    }
  }
  std::sort(live.begin(), live.end());
  for (const auto& [rank, local] : live) local->value.for_each_node(take);
  segment.end = static_cast<NodeId>(draft_.size());
  segments_.push_back(std::move(segment));
  return ok_status();
}

std::optional<Value> Interpreter::known_number(NodeId id) {
  if (const auto it = items_.find(object_of(id)); it != items_.end()) return it->second;
  const KnownTensorPtr known = known_.find(id);
  return known == nullptr ? std::nullopt : known->item();
}

// A number that Python asks a tensor for (`.item()`, a branch): known, or capture ends here.
Result<Value> Interpreter::number_of(const Expr& at, std::string_view construct, const Value& tensor) {
  const NodeId node = tensor.as_node();
  std::optional<Value> number = known_number(node);
  if (!number) {
    const Meta& meta = draft_.node(node).meta;
    if (!meta.is_tensor() || !is_floating(meta.tensor.dtype) || meta.tensor.numel() != 1 ||
        inputs_ == nullptr) {
      return graph_break(construct, at.span);
    }
    // The graphs do not depend on a float's value but for the literal that it becomes.
    number = Value::real(std::numeric_limits<double>::quiet_NaN());
    findings_.push_back(
        error("capture.drawn_value",
              fmt::format("{} asks for a number that only the inputs decide; it stands as nan in the graph",
                          construct),
              at.span)
            .with_hint("Give the tensor's values as `data` in weight_meta.py, or use `--engine dynamo`."));
  }
  PN_CHECK_OK(end_graph(at, construct, {&tensor}));
  return std::move(*number);
}

// dynamo gives up on the rest of the model in the middle of a statement: it compiles up to the statement's start if two
// calls were recorded until then, else nothing of this graph.
Status Interpreter::give_up(const Expr& at, std::string_view construct) {
  if (inputs_ == nullptr || loops_ > 0) return graph_break(construct, at.span);
  if (!compiled_) return ok_status();
  int calls = 0;
  for (NodeId id = segment_start(); id < statement_start_; ++id) {
    calls += draft_.node(id).op != NodeOp::kPlaceholder ? 1 : 0;
  }
  if (calls > 1) {
    Expr start;
    const Span& whole = (*body_)[statement_index_]->span;
    start.span = {whole.line, whole.col, whole.line, whole.col};
    stack_.clear();
    PN_CHECK_OK(end_graph(start, construct, {}));
    segments_.back().end = statement_start_;
  }
  compiled_ = false;
  findings_kept_ = findings_.size();
  return ok_status();
}

// The newest node turns out to run between two graphs: it ends one, and its result is an input of those that follow.
Status Interpreter::take_out(const Expr& at, std::string_view construct, NodeId id, const std::string& hint) {
  Node& node = draft_.node(id);
  std::vector<Value> operands = std::move(node.args);
  for (auto& [key, v] : node.kwargs) operands.push_back(std::move(v));
  const Value all = Value::tuple(std::move(operands));
  node.op = NodeOp::kPlaceholder;
  node.target = hint.empty() ? node.name : hint;
  node.args.clear();
  node.kwargs.clear();
  node.writes.clear();
  const std::size_t before = segments_.size();
  PN_CHECK_OK(end_graph(at, construct, {&all}));
  if (segments_.size() > before) segments_.back().end = id;
  return ok_status();
}

// An operation whose argument has to be a number and is a tensor: torch asks the tensor for it, which dynamo does not
// trace. Where metadata depends on the numbers, it is derived with those that are known.
Result<std::optional<Value>> Interpreter::run_between(const Expr& at, NodeId id, const std::string& hint) {
  const std::optional<Value> nothing;
  if (inputs_ == nullptr || loops_ > 0) return nothing;
  if (draft_.node(id).meta.kind == Meta::Kind::kUnknown) {
    std::vector<std::pair<NodeId, Meta>> replaced;
    for (const NodeId input : draft_.inputs_of(id)) {
      const Meta& meta = draft_.node(input).meta;
      if (!meta.is_tensor() || meta.tensor.numel() != 1) continue;
      if (std::optional<Value> number = known_number(input))
        replaced.emplace_back(input, Meta::number(*number));
    }
    if (replaced.empty()) return nothing;
    for (auto& [input, meta] : replaced) std::swap(draft_.node(input).meta, meta);
    const Status status = infer(draft_, draft_.node(id));
    for (auto& [input, meta] : replaced) std::swap(draft_.node(input).meta, meta);
    if (!status.ok()) return nothing;
    settle_device(draft_.node(id));
    if (std::all_of(replaced.begin(), replaced.end(),
                    [&](const auto& pair) { return known_.is_literal(pair.first); })) {
      return std::optional(expand(at, id));  // torch's fake tensors know the numbers: the graph goes on
    }
  }
  if (!draft_.node(id).meta.is_tensor()) return nothing;
  const NodeId object = object_of(id);
  const std::string construct = draft_.node(id).target;
  PN_CHECK_OK(take_out(at, construct, id, hint));
  return std::optional(Value::node(object));
}

// Whether an argument that torch takes as a Python number is a tensor.
bool Interpreter::needs_number(NodeId id) const {
  constexpr std::string_view kNumbers[] = {"p",     "eps",   "momentum",       "dropout_p", "scale",
                                           "alpha", "lambd", "negative_slope", "training"};
  const Node& node = draft_.node(id);
  if (node.op == NodeOp::kPlaceholder || !node.meta.is_tensor()) return false;
  const auto is_single = [&](const Value& v) {
    if (!v.is_node()) return false;
    const Meta& meta = draft_.node(v.as_node()).meta;
    return meta.is_tensor() && meta.tensor.dim() == 0;
  };
  // The operand itself may have no axes; what comes behind it hardly ever is a tensor without axes.
  const bool may = std::any_of(node.args.begin() + (node.args.empty() ? 0 : 1), node.args.end(), is_single) ||
                   std::any_of(node.kwargs.begin(), node.kwargs.end(),
                               [&](const auto& pair) { return is_single(pair.second); });
  if (!may) return false;
  const Result<Call> call = resolve(draft_, node);
  if (!call) return false;
  const std::vector<std::string_view> names = parameters_of(*call->row);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (std::find(std::begin(kNumbers), std::end(kNumbers), names[i]) != std::end(kNumbers) &&
        is_single(call->args[i])) {
      return true;
    }
  }
  return false;
}

// x[..., mask, ...]: torch counts the mask's elements, dynamo does not.
Result<Value> Interpreter::masked(const Expr& at, NodeId id, const std::string& hint) {
  constexpr std::string_view kConstruct = "a shape that depends on values";
  const Value object = draft_.node(id).args[0], index = draft_.node(id).args[1];
  const TensorMeta& tensor = draft_.node(object.as_node()).meta.tensor;
  const std::vector<Value> single{index};
  const std::vector<Value>& parts = index.kind() == Value::Kind::kTuple ? index.items() : single;
  const Value whole = Value::slice(Value::none(), Value::none(), Value::none());
  KnownTensorPtr mask;
  int64_t axis = 0;
  for (const Value& part : parts) {
    if (part.is_node() && mask == nullptr) {
      mask = known_.find(part.as_node());
      if (mask == nullptr) return graph_break(kConstruct, at.span);
    } else if (part == whole) {
      axis += mask == nullptr ? 1 : 0;
    } else {
      return graph_break(kConstruct, at.span);
    }
  }
  if (mask == nullptr) return graph_break(kConstruct, at.span);
  const KnownTensorPtr x = known_.find(object.as_node());
  std::optional<KnownTensor> result = masked_subscript(tensor.shape, tensor.dtype, x.get(), *mask, axis);
  if (!result) return graph_break(kConstruct, at.span);
  TensorMeta meta;
  meta.shape = result->shape;
  meta.dtype = result->dtype;
  meta.stride = contiguous_strides(meta.shape);
  meta.device = tensor.device;
  meta.storage = draft_.storages++;
  draft_.node(id).meta = Meta::of(std::move(meta));
  PN_CHECK_OK(take_out(at, kConstruct, id, hint));
  if (x != nullptr) known_.fix(id, *std::move(result));
  return Value::node(id);
}

}  // namespace passnet
