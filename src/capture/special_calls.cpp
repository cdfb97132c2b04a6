#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "capture/interpreter.h"
#include "capture/targets.h"

// Calls that dynamo treats in a way of their own: it follows them into what they call, or records them and knows their
// result, or stops at them. DYNAMO.md says how each was found.

namespace passnet {

namespace {

bool is_number_sequence(const Value& v) {
  return v.is_sequence() &&
         std::all_of(v.items().begin(), v.items().end(), [](const Value& item) { return item.is_number(); });
}

// torch.sym_max(3, 4) and its kind on numbers: a node, and a number from then on.
std::optional<Value> symbolic_result(std::string_view target, const std::vector<Value>& args) {
  if (args.empty() || !std::all_of(args.begin(), args.end(), [](const Value& v) { return v.is_number(); })) {
    return std::nullopt;
  }
  const Value& x = args[0];
  if (args.size() == 2 && (target == "torch.sym_max" || target == "torch.sym_min")) {
    const bool second =
        target == "torch.sym_max" ? args[1].as_double() > x.as_double() : args[1].as_double() < x.as_double();
    return second ? args[1] : x;
  }
  if (args.size() != 1) return std::nullopt;
  if (target == "torch.sym_float") return Value::real(x.as_double());
  if (target == "torch.sym_int") {
    if (x.kind() != Value::Kind::kFloat) return Value::integer(x.as_int());
    if (!(std::fabs(x.as_double()) < 9.2e18)) return std::nullopt;
    return Value::integer(static_cast<int64_t>(x.as_double()));
  }
  if (target == "torch._sym_sqrt" && x.as_double() >= 0) return Value::real(std::sqrt(x.as_double()));
  return std::nullopt;
}

}  // namespace

// A node whose metadata needs no row.
NodeId Interpreter::plain_node(const Expr& at, std::string target, std::vector<Value> args, Meta meta) {
  Node& node = draft_.add(NodeOp::kCallFunction, std::move(target), std::move(args));
  node.span = at.span;
  node.meta = std::move(meta);
  from_input_.push_back(false);
  return node.id;
}

// dynamo gives up on the rest of the model: the graph before ends here, and nothing behind is compiled.
Status Interpreter::stop_compiling(const Expr& at, std::string_view construct,
                                   std::initializer_list<const Value*> operands) {
  if (!compiled_) return ok_status();
  PN_CHECK_OK(end_graph(at, construct, operands));
  compiled_ = false;
  findings_kept_ = findings_.size();
  return ok_status();
}

Result<std::optional<Value>> Interpreter::special_call(const Expr& e, std::string_view target,
                                                       const Arguments& arguments) {
  const std::optional<Value> nothing;
  const auto found = [](Value v) { return std::optional<Value>(std::move(v)); };
  const std::vector<Value>& args = arguments.args;
  if (!target.starts_with("torch.")) {
    // slice(a tensor): torch would be asked for a number, and a slice cannot be carried over the break.
    if (target == "builtins.slice" && inputs_ != nullptr &&
        std::any_of(args.begin(), args.end(), [](const Value& v) { return v.is_node(); })) {
      const Value all = Value::tuple(args);
      PN_CHECK_OK(stop_compiling(e, "a slice with a tensor as its bound", {&all}));
      return found(Value::slice(Value::none(), Value::none(), Value::none()));
    }
    return nothing;
  }
  if (target.starts_with("torch.sym_") || target == "torch._sym_sqrt") {
    if (target == "torch.sym_sum" && args.size() == 1 && is_number_sequence(args[0])) {
      // Not recorded: the graph ends, Python adds.
      Value total = Value::integer(0);
      for (const Value& v : args[0].items()) {
        PN_TRY(total, folded(e, fold_binary("+", total, v)));
      }
      if (inputs_ != nullptr) PN_CHECK_OK(end_graph(e, target, {}));
      return found(std::move(total));
    }
    if (target == "torch.sym_not" && args.size() == 1 && args[0].is_number()) {
      if (inputs_ != nullptr) PN_CHECK_OK(end_graph(e, target, {}));
      return found(Value::boolean(!*truth(args[0])));
    }
    const std::optional<Value> number = symbolic_result(target, args);
    if (!number || !arguments.kwargs.empty()) return nothing;
    plain_node(e, std::string(target), args, Meta::number(*number));
    return found(*number);
  }
  if (target == "torch.autograd.function.FunctionCtx") return found(Value::none());
  if (target == "torch.amp.autocast_mode._enter_autocast") return enter_autocast(e, arguments);
  if (target == "torch.amp.autocast_mode._exit_autocast") return exit_autocast(e, arguments);
  if ((target == "torch.ops.aten._assert_scalar.default" || target == "torch._check") && !args.empty() &&
      args[0].is_number()) {
    return found(Value::none());
  }
  if (target == "torch.ops.aten._local_scalar_dense" && args.size() == 1 && args[0].is_node()) {
    PN_TRY(Value number, number_of(e, "'_local_scalar_dense'", args[0]));
    return found(std::move(number));
  }
  if (target == "torch.ops.aten.sym_size.int" && args.size() == 2 && args[0].is_node()) {
    Arguments dim;
    dim.args.push_back(args[1]);
    return metadata_method(e, args[0].as_node(), "size", dim);
  }
  if (target == "torch._C._functorch._vmap_increment_nesting" && inputs_ != nullptr) {
    PN_CHECK_OK(stop_compiling(e, target, {}));
    return found(Value::none());
  }
  return nothing;
}

Result<std::optional<Value>> Interpreter::new_tensor(const Expr& e, NodeId like, const Arguments& arguments,
                                                     const std::string& hint) {
  if (arguments.args.size() != 1 || !draft_.node(like).meta.is_tensor()) return std::optional<Value>();
  Arguments made = arguments;
  if (const Value* layout = made.keyword("layout")) {
    if (layout->kind() != Value::Kind::kConstant || layout->text() != "torch.strided")
      return std::optional<Value>();
    std::erase_if(made.kwargs, [](const auto& pair) { return pair.first == "layout"; });
  }
  const TensorMeta& tensor = draft_.node(like).meta.tensor;
  if (!made.keyword("dtype")) made.kwargs.emplace_back("dtype", Value::dtype(tensor.dtype));
  if (!made.keyword("device")) made.kwargs.emplace_back("device", Value::device(tensor.device));
  PN_TRY(Value v, emit(e, NodeOp::kCallFunction, "torch.tensor", std::move(made), hint));
  return std::optional(std::move(v));
}

Result<Value> Interpreter::addcdiv(const Expr& e, const Arguments& arguments, const std::string& hint) {
  const auto step = [&](const char* target, Value a, Value b, const std::string& name) {
    Arguments two;
    two.args = {std::move(a), std::move(b)};
    return emit(e, NodeOp::kCallFunction, target, std::move(two), name);
  };
  PN_TRY(Value quotient, step("torch.div", arguments.args[1], arguments.args[2], "div"));
  PN_TRY(Value scaled, step("torch.mul", std::move(quotient), *arguments.keyword("value"), "mul"));
  return step("torch.add", arguments.args[0], std::move(scaled), hint);
}

Result<Value> Interpreter::threshold(const Expr& e, Arguments arguments, const std::string& hint) {
  std::optional<Value> in_place;
  if (arguments.args.size() > 3) {
    in_place = arguments.args[3];
    arguments.args.erase(arguments.args.begin() + 3);
  } else if (const Value* given = arguments.keyword("inplace")) {
    in_place = *given;
    std::erase_if(arguments.kwargs, [](const auto& pair) { return pair.first == "inplace"; });
  }
  const bool write = in_place && truth(*in_place).value_or(false);
  const InlinedFunction function{"torch.nn.functional.threshold",
                                 write ? "torch.threshold_" : "torch.threshold",
                                 {{"input", true, {}}, {"threshold", true, {}}, {"value", true, {}}}};
  PN_TRY(Arguments inner, inlined_arguments(e, function, std::move(arguments)));
  return emit(e, NodeOp::kCallFunction, std::string(function.inner), std::move(inner), hint);
}

// autocast.__init__ and __enter__, with autocast switched off: what was on before is off too, so nothing changes.
Result<std::optional<Value>> Interpreter::enter_autocast(const Expr& e, const Arguments& arguments) {
  const std::vector<Value>& args = arguments.args;
  const auto is = [&](std::size_t i, Value::Kind kind) { return i < args.size() && args[i].kind() == kind; };
  if (args.size() != 4 || !arguments.kwargs.empty() || !is(0, Value::Kind::kString) ||
      !is(2, Value::Kind::kBool) || (!is(1, Value::Kind::kNone) && !is(1, Value::Kind::kDType)) ||
      !is(3, Value::Kind::kNone)) {
    return unsupported("autocast of this form", e.span);
  }
  if (args[2].as_bool()) return unsupported("autocast that is switched on", e.span);
  const std::string& device = args[0].text();
  if (device != "cpu" && device != "cuda") return unsupported("autocast for this device", e.span);
  const Value fallback = Value::dtype(device == "cuda" ? DType::kFloat16 : DType::kBFloat16);
  plain_node(e, "torch._C._is_autocast_available", {args[0]}, Meta::number(Value::boolean(true)));
  plain_node(e, "torch.set_autocast_enabled", {args[0], Value::boolean(false)}, Meta::none());
  plain_node(e, "torch.set_autocast_dtype", {args[0], args[1].is_none() ? fallback : args[1]}, Meta::none());
  plain_node(e, "torch.autocast_increment_nesting", {}, Meta::number(Value::integer(++autocast_depth_)));
  plain_node(e, "torch.set_autocast_cache_enabled", {Value::boolean(true)}, Meta::none());
  return std::optional(Value::dict({{"device", args[0]}, {"dtype", fallback}}));
}

Result<std::optional<Value>> Interpreter::exit_autocast(const Expr& e, const Arguments& arguments) {
  const std::vector<Value>& args = arguments.args;
  if (args.size() != 1 || args[0].kind() != Value::Kind::kDict || args[0].items().size() != 2 ||
      autocast_depth_ == 0) {
    return unsupported("end of an autocast of this form", e.span);
  }
  const Value device = args[0].items()[0], dtype = args[0].items()[1];
  plain_node(e, "torch.autocast_decrement_nesting", {}, Meta::number(Value::integer(--autocast_depth_)));
  if (autocast_depth_ == 0) plain_node(e, "torch.clear_autocast_cache", {}, Meta::none());
  plain_node(e, "torch.set_autocast_enabled", {device, Value::boolean(false)}, Meta::none());
  plain_node(e, "torch.set_autocast_dtype", {device, dtype}, Meta::none());
  plain_node(e, "torch.set_autocast_cache_enabled", {Value::boolean(true)}, Meta::none());
  return std::optional(Value::none());
}

// ---- vmap: values with hidden axes, one a level ----

namespace {

constexpr std::string_view kVmap = "torch._functorch.predispatch.";

}  // namespace

// Levels of a value and how long their axes are; a value has those of what it was made of.
void Interpreter::inherit_levels(const Node& node) {
  std::map<int64_t, int64_t> levels;
  const auto look = [&](NodeId id) {
    if (const auto it = levels_.find(id); it != levels_.end())
      levels.insert(it->second.begin(), it->second.end());
  };
  for (const Value& v : node.args) v.for_each_node(look);
  for (const auto& [key, v] : node.kwargs) v.for_each_node(look);
  if (!levels.empty()) levels_[node.id] = std::move(levels);
}

// The metadata of vmap's own functions; false for other targets or arguments that are not as vmap writes them.
bool Interpreter::infer_vmap(NodeId id) {
  const Node& node = draft_.node(id);
  if (!node.target.starts_with(kVmap)) return false;
  const std::string_view name = std::string_view(node.target).substr(kVmap.size());
  const auto integer = [&](std::size_t i) {
    return i < node.args.size() ? index_of(node.args[i]) : std::optional<int64_t>();
  };
  if (name == "_vmap_increment_nesting") {
    draft_.node(id).meta = Meta::number(Value::integer(++vmap_depth_));
    return true;
  }
  if (name == "_vmap_decrement_nesting" && vmap_depth_ > 0) {
    draft_.node(id).meta = Meta::number(Value::integer(vmap_depth_--));
    return true;
  }
  if (node.args.empty() || !node.args[0].is_node()) return false;
  const NodeId source = node.args[0].as_node();
  if (!draft_.node(source).meta.is_tensor()) return false;
  TensorMeta out = draft_.node(source).meta.tensor;
  std::map<int64_t, int64_t> levels;
  if (const auto it = levels_.find(source); it != levels_.end()) levels = it->second;
  if (name == "_add_batch_dim" && integer(1) && integer(2)) {
    const int64_t axis = *integer(1);
    if (axis < 0 || axis >= out.dim()) return false;
    levels[*integer(2)] = out.shape[static_cast<std::size_t>(axis)];
    out.shape.erase(out.shape.begin() + axis);
    if (out.stride) out.stride->erase(out.stride->begin() + axis);
  } else if (name == "_remove_batch_dim" && integer(1) && integer(2) && integer(3)) {
    const int64_t size = *integer(2), axis = *integer(3);
    if (axis < 0 || axis > out.dim() || size < 0) return false;
    const bool has_level = levels.erase(*integer(1)) > 0;
    out.shape.insert(out.shape.begin() + axis, size);
    // Hidden axes lie outside the others, the lowest level first. One that is not there is broadcast.
    if (has_level || size == 1) {
      out.stride = contiguous_strides(out.shape);
    } else {
      out.stride.reset();
    }
  } else {
    return false;
  }
  draft_.node(id).meta = Meta::of(std::move(out));
  if (!levels.empty()) levels_[id] = std::move(levels);
  return true;
}

}  // namespace passnet
