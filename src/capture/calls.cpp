#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "capture/interpreter.h"
#include "capture/targets.h"
#include "ops/identities.h"

namespace passnet {

using pysrc::ExprKind;

namespace {

// Methods that hand a tensor's values to Python.
constexpr std::string_view kValueMethods[] = {"item",    "tolist",    "numpy",     "__bool__",
                                              "__int__", "__float__", "__index__", "nonzero",
                                              "equal",   "allclose",  "is_nonzero"};

bool has(const auto& table, std::string_view key) {
  return std::find(std::begin(table), std::end(table), key) != std::end(table);
}

Value sizes(const std::vector<int64_t>& values) {
  std::vector<Value> items;
  items.reserve(values.size());
  for (const int64_t v : values) items.push_back(Value::integer(v));
  return Value::tuple(std::move(items));
}

double lowest_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return -65504.0;
    case DType::kBFloat16: return -3.3895313892515355e+38;
    case DType::kFloat32: return -3.4028234663852886e+38;
    default: return std::numeric_limits<double>::lowest();
  }
}

double epsilon_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return 0.0009765625;
    case DType::kBFloat16: return 0.0078125;
    case DType::kFloat32: return 1.1920928955078125e-07;
    default: return std::numeric_limits<double>::epsilon();
  }
}

// float("-inf") and its kind; other text is written as a number by everybody.
std::optional<double> float_of(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  double value = 0;
  if (lower == "inf" || lower == "infinity") {
    value = std::numeric_limits<double>::infinity();
  } else if (lower == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else {
    return std::nullopt;
  }
  return negative ? -value : value;
}

double smallest_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return 6.103515625e-05;
    case DType::kBFloat16:
    case DType::kFloat32: return 1.1754943508222875e-38;
    default: return std::numeric_limits<double>::min();
  }
}

}  // namespace

Result<Interpreter::Arguments> Interpreter::arguments(const Expr& e) {
  Arguments out;
  out.args.reserve(e.items.size());
  const StackMark mark(*this);
  for (const Expr* item : e.items) {
    if (!out.args.empty()) push(out.args.back());
    if (item->kind == ExprKind::kStarred) {
      PN_TRY(const Value spread, eval(*item->value));
      PN_TRY(std::vector<Value> more, elements(*item, spread));
      for (Value& v : more) out.args.push_back(std::move(v));
      continue;
    }
    PN_TRY(Value v, eval(*item));
    out.args.push_back(std::move(v));
  }
  if (!out.args.empty() && !e.keywords.empty()) push(out.args.back());
  for (const pysrc::Keyword& keyword : e.keywords) {
    PN_TRY(Value v, eval(*keyword.value));
    push(v);
    if (!keyword.name.empty()) {
      if (out.keyword(keyword.name) != nullptr) {
        return error("pysrc.syntax", fmt::format("the keyword '{}' is given twice", keyword.name),
                     keyword.span)
            .with_hint("Remove one of them.");
      }
      out.kwargs.emplace_back(keyword.name, std::move(v));
      continue;
    }
    if (v.kind() != Value::Kind::kDict) return unsupported("** of anything but a dict", keyword.span);
    for (std::size_t i = 0; i < v.keys().size(); ++i) out.kwargs.emplace_back(v.keys()[i], v.items()[i]);
  }
  return out;
}

Result<Value> Interpreter::call(const Expr& e, const std::string& hint) {
  const Expr& callee = *e.value;
  if (callee.kind == ExprKind::kAttribute &&
      !(callee.value->kind == ExprKind::kName && callee.value->text == self_)) {
    PN_TRY(const Value object, eval(*callee.value));
    if (object.kind() != Value::Kind::kConstant) {
      const StackMark mark(*this);
      push(object);
      PN_TRY(Arguments args, arguments(e));
      mark.drop();
      return method_call(e, object, callee.text, std::move(args), hint);
    }
    PN_TRY(Arguments args, arguments(e));
    return global_call(e, object.text() + "." + callee.text, std::move(args), hint);
  }
  PN_TRY(const Value function, eval(callee));
  if (function.kind() != Value::Kind::kConstant) {
    return error("capture.not_callable", "this value cannot be called", callee.span)
        .with_hint("Only functions of torch, methods of tensors and a few built-in functions are.");
  }
  PN_TRY(Arguments args, arguments(e));
  return global_call(e, function.text(), std::move(args), hint);
}

Result<Value> Interpreter::method_call(const Expr& e, const Value& object, std::string_view method,
                                       Arguments arguments, const std::string& hint) {
  if (object.is_node()) {
    const NodeId node = object.as_node();
    PN_TRY(std::optional<Value> known, metadata_method(e, node, method, arguments));
    if (known) return std::move(*known);
    if (method == "item") return number_of(e, "'.item()'", object);
    if (has(kValueMethods, method)) return graph_break(fmt::format("'.{}()'", method), e.span);
    if (method == "__getitem__" && arguments.args.size() == 1) {
      return subscript_of(e, object, arguments.args.front(), hint);
    }
    if (method == "to") {
      for (Value& v : arguments.args) v = move_devices(v, true);
    }
    for (auto& [key, v] : arguments.kwargs) v = move_devices(v, key == "device");
    if (method == "new_tensor") {
      PN_TRY(std::optional<Value> made, new_tensor(e, node, arguments, hint));
      if (made) return std::move(*made);
    }
    arguments.args.insert(arguments.args.begin(), object);
    return emit(e, NodeOp::kCallMethod, std::string(method), std::move(arguments), hint);
  }
  if (object.is_none()) {
    return error("capture.value", fmt::format("'.{}()' of None", method), e.span)
        .with_hint("The name was freed (`= None`) before this line; remove the free or the use.");
  }
  if (object.is_sequence() && method == "numel") {
    int64_t product = 1;
    for (const Value& v : object.items()) {
      const std::optional<int64_t> n = index_of(v);
      if (!n || __builtin_mul_overflow(product, *n, &product))
        return unsupported("numel() of this tuple", e.span);
    }
    return Value::integer(product);
  }
  // int.__add__ and the like occur where a size was a symbol once.
  if (object.is_number() && arguments.args.size() == 1 && arguments.kwargs.empty()) {
    constexpr std::pair<std::string_view, std::string_view> kDunder[] = {
        {"__add__", "+"},       {"__sub__", "-"}, {"__mul__", "*"}, {"__truediv__", "/"},
        {"__floordiv__", "//"}, {"__mod__", "%"}, {"__pow__", "**"}};
    for (const auto& [name, op] : kDunder) {
      if (name == method) return binary(e, op, object, arguments.args.front(), hint);
    }
  }
  return unsupported(fmt::format("method '{}' of such a value", method), e.span);
}

Result<std::optional<Value>> Interpreter::metadata_method(const Expr& e, NodeId node, std::string_view method,
                                                          const Arguments& arguments) {
  const auto axis = [&](const TensorMeta& tensor) -> Result<std::optional<std::size_t>> {
    const Value* dim = !arguments.args.empty() ? &arguments.args.front() : arguments.keyword("dim");
    if (dim == nullptr || dim->is_none()) return std::optional<std::size_t>();
    std::optional<int64_t> at = index_of(*dim);
    if (!at) return unsupported("dimension that is no integer", e.span);
    if (*at < 0) *at += tensor.dim();
    if (*at < 0 || *at >= tensor.dim()) {
      return error("capture.value",
                   fmt::format("dimension {} of a tensor of rank {}", *index_of(*dim), tensor.dim()), e.span)
          .with_hint("Correct the dimension or the shape in weight_meta.py.");
    }
    return std::optional<std::size_t>(static_cast<std::size_t>(*at));
  };
  const auto found = [](Value v) { return std::optional<Value>(std::move(v)); };
  if (method == "size" || method == "stride") {
    PN_TRY(const TensorMeta* tensor, known_tensor(e, node, "the shape"));
    PN_TRY(const std::optional<std::size_t> at, axis(*tensor));
    if (method == "size") return found(at ? Value::integer(tensor->shape[*at]) : sizes(tensor->shape));
    if (!tensor->stride) {
      return error("capture.needs_shape", "the strides are a library's choice and not known", e.span)
          .with_hint("Capture this variant with `--engine dynamo`.");
    }
    return found(at ? Value::integer((*tensor->stride)[*at]) : sizes(*tensor->stride));
  }
  if (method == "dim" || method == "ndimension") {
    PN_TRY(const TensorMeta* tensor, known_tensor(e, node, "the rank"));
    return found(Value::integer(tensor->dim()));
  }
  if (method == "numel" || method == "nelement" || method == "__len__") {
    PN_TRY(const TensorMeta* tensor, known_tensor(e, node, "the shape"));
    if (method != "__len__") return found(Value::integer(tensor->numel()));
    if (tensor->shape.empty()) return unsupported("len() of a 0-dim tensor", e.span);
    return found(Value::integer(tensor->shape.front()));
  }
  if (method == "element_size" || method == "is_floating_point" || method == "is_complex") {
    PN_TRY(const TensorMeta* tensor, known_tensor(e, node, "the dtype"));
    if (method == "element_size") return found(Value::integer(size_of(tensor->dtype)));
    return found(
        Value::boolean(method == "is_complex" ? is_complex(tensor->dtype) : is_floating(tensor->dtype)));
  }
  if (method == "is_contiguous" && arguments.args.empty() && arguments.kwargs.empty()) {
    PN_TRY(const TensorMeta* tensor, known_tensor(e, node, "contiguity"));
    if (!tensor->stride) {
      return error("capture.needs_shape", "the strides are a library's choice and not known", e.span)
          .with_hint("Capture this variant with `--engine dynamo`.");
    }
    return found(Value::boolean(tensor->is_contiguous()));
  }
  return std::optional<Value>();
}

// The evaluator replaces the type of a device call that stands in a `device=` argument or directly in `.to(...)`.
Value Interpreter::move_devices(const Value& v, bool direct) const {
  if (!direct || v.kind() != Value::Kind::kDevice) return v;
  const std::size_t colon = v.text().find(':');
  const std::string type = options_.device.substr(0, options_.device.find(':'));
  // A CPU has no second one.
  if (colon == std::string::npos || type == "cpu") return Value::device(type);
  return Value::device(type + v.text().substr(colon));
}

Result<Value> Interpreter::global_call(const Expr& e, const std::string& target, Arguments arguments,
                                       const std::string& hint) {
  PN_TRY(std::optional<Value> special, special_call(e, target, arguments));
  if (special) return std::move(*special);
  PN_TRY(std::optional<Value> computed, computed_call(e, target, arguments));
  if (computed) return std::move(*computed);
  if (target.starts_with("builtins.") || target.starts_with("math.")) {
    const std::string_view name = std::string_view(target).substr(target.find('.') + 1);
    const bool on_tensor =
        std::any_of(arguments.args.begin(), arguments.args.end(), [](const Value& v) { return v.is_node(); });
    if (on_tensor && name != "getattr" && name != "print")
      return graph_break(fmt::format("{}() of a tensor", name), e.span);
    return unsupported(fmt::format("call of {} with such arguments", target), e.span);
  }
  if (!target.starts_with("torch.") && !target.starts_with("operator.")) {
    return error("capture.unknown_function", fmt::format("'{}' is no function of torch", target), e.span)
        .with_hint("Extracted graphs call torch and operator only; write the call with them.");
  }
  for (auto& [key, v] : arguments.kwargs) v = move_devices(v, key == "device");
  if (target == "torch.addcdiv" && arguments.args.size() == 3 && arguments.kwargs.size() == 1 &&
      arguments.keyword("value") != nullptr) {
    return addcdiv(e, arguments, hint);
  }
  if (canonical_target(target) == "torch.nn.functional._threshold")
    return threshold(e, std::move(arguments), hint);
  if (const InlinedFunction* function = inlined_function(target)) {
    PN_TRY(Arguments inner, inlined_arguments(e, *function, std::move(arguments)));
    return emit(e, NodeOp::kCallFunction, std::string(function->inner), std::move(inner), hint);
  }
  return emit(e, NodeOp::kCallFunction, std::string(canonical_target(target)), std::move(arguments), hint);
}

Result<Interpreter::Arguments> Interpreter::inlined_arguments(const Expr& e, const InlinedFunction& function,
                                                              Arguments arguments) {
  const auto wrong = [&](std::string message) {
    return error("capture.value", message, e.span).with_hint("Correct the call.");
  };
  Arguments out;
  out.args = std::move(arguments.args);
  if (out.args.size() > function.parameters.size())
    return wrong(fmt::format("too many arguments for {}", function.name));
  for (std::size_t i = out.args.size(); i < function.parameters.size(); ++i) {
    const InlinedFunction::Parameter& p = function.parameters[i];
    const Value* given = arguments.keyword(p.name);
    if (given == nullptr && p.required)
      return wrong(fmt::format("{} lacks its argument '{}'", function.name, p.name));
    out.args.push_back(given != nullptr ? *given : p.default_value);
    if (given != nullptr)
      std::erase_if(arguments.kwargs, [&](const auto& pair) { return pair.first == p.name; });
  }
  if (!arguments.kwargs.empty()) {
    return wrong(fmt::format("{} has no such argument '{}'", function.name, arguments.kwargs.front().first));
  }
  return out;
}

Result<std::optional<Value>> Interpreter::computed_call(const Expr& e, std::string_view target,
                                                        const Arguments& arguments) {
  const std::vector<Value>& args = arguments.args;
  const auto found = [](Value v) { return std::optional<Value>(std::move(v)); };
  const std::optional<Value> nothing;
  const bool plain = arguments.kwargs.empty();
  if (target == "builtins.slice" && plain && !args.empty() && args.size() <= 3) {
    if (args.size() == 1) return found(Value::slice(Value::none(), args[0], Value::none()));
    return found(Value::slice(args[0], args[1], args.size() == 3 ? args[2] : Value::none()));
  }
  if (target == "torch.device") {
    const Value* type = !args.empty() ? &args[0] : arguments.keyword("type");
    const Value* index = args.size() > 1 ? &args[1] : arguments.keyword("index");
    if (type != nullptr && type->kind() == Value::Kind::kDevice) return found(*type);
    if (type == nullptr || type->kind() != Value::Kind::kString)
      return unsupported("device of this form", e.span);
    std::string name = type->text();
    if (index != nullptr && !index->is_none()) {
      if (index->kind() != Value::Kind::kInt) return unsupported("device of this form", e.span);
      name += ":" + std::to_string(index->as_int());
    }
    return found(Value::device(std::move(name)));
  }
  if (target == "torch.Size" || target == "builtins.tuple" || target == "builtins.list") {
    std::vector<Value> items;
    if (args.size() > 1 || !plain) return nothing;
    if (!args.empty()) {
      PN_TRY(items, elements(e, args[0]));
    }
    return found(target == "builtins.list" ? Value::list(std::move(items)) : Value::tuple(std::move(items)));
  }
  if (target == "builtins.dict" && args.empty()) return found(Value::dict(arguments.kwargs));
  if (target == "torch.finfo" && args.size() == 1 && args[0].kind() == Value::Kind::kDType &&
      is_floating(args[0].as_dtype())) {
    const DType dtype = args[0].as_dtype();
    // A dict stands for the object; attribute access on it is resolved in attribute().
    return found(Value::dict({{"min", Value::real(lowest_of(dtype))},
                              {"max", Value::real(-lowest_of(dtype))},
                              {"eps", Value::real(epsilon_of(dtype))},
                              {"tiny", Value::real(smallest_of(dtype))},
                              {"smallest_normal", Value::real(smallest_of(dtype))},
                              {"bits", Value::integer(8 * size_of(dtype))}}));
  }
  if (target == "builtins.getattr" && args.size() == 2 && args[0].is_node() &&
      args[1].kind() == Value::Kind::kString) {
    pysrc::Expr attribute;
    attribute.kind = ExprKind::kAttribute;
    attribute.span = e.span;
    attribute.text = args[1].text();
    PN_TRY(Value v, tensor_attribute(attribute, args[0].as_node(), {}));
    return found(std::move(v));
  }
  if (target == "builtins.len" && args.size() == 1) {
    if (args[0].is_sequence()) return found(Value::integer(static_cast<int64_t>(args[0].items().size())));
    if (args[0].is_node()) return metadata_method(e, args[0].as_node(), "__len__", {});
  }
  if ((target == "builtins.int" || target == "builtins.float") && args.size() == 1 && args[0].is_node()) {
    PN_TRY(const Value number, number_of(e, fmt::format("{}() of a tensor", target.substr(9)), args[0]));
    if (target == "builtins.float") return found(Value::real(number.as_double()));
    if (number.kind() != Value::Kind::kFloat) return found(Value::integer(number.as_int()));
    if (!(std::fabs(number.as_double()) < 9.2e18)) return nothing;
    return found(Value::integer(static_cast<int64_t>(number.as_double())));
  }
  const bool numbers = std::all_of(args.begin(), args.end(), [](const Value& v) { return v.is_number(); });
  if (!plain || args.empty()) return nothing;
  if (target == "builtins.max" || target == "builtins.min") {
    const std::vector<Value>& over = args.size() == 1 && args[0].is_sequence() ? args[0].items() : args;
    if (over.empty() || !std::all_of(over.begin(), over.end(), [](const Value& v) { return v.is_number(); }))
      return nothing;
    const bool largest = target.ends_with("max");
    const Value* best = &over.front();
    for (const Value& v : over) {
      if (largest ? v.as_double() > best->as_double() : v.as_double() < best->as_double()) best = &v;
    }
    return found(*best);
  }
  if (target == "builtins.float" && args.size() == 1 && args[0].kind() == Value::Kind::kString) {
    const std::optional<double> number = float_of(args[0].text());
    return number ? found(Value::real(*number)) : nothing;
  }
  if (!numbers) return nothing;
  if (target == "builtins.range" && args.size() <= 3) {
    int64_t bounds[3] = {0, 0, 1};
    for (std::size_t i = 0; i < args.size(); ++i) {
      const std::optional<int64_t> v = index_of(args[i]);
      if (!v) return nothing;
      bounds[args.size() == 1 ? 1 : i] = *v;
    }
    constexpr std::size_t kMaxRange = std::size_t{1} << 20;
    if (bounds[2] == 0) return nothing;
    std::vector<Value> items;
    for (int64_t i = bounds[0]; bounds[2] > 0 ? i < bounds[1] : i > bounds[1];) {
      if (items.size() == kMaxRange) return unsupported("range of this length", e.span);
      items.push_back(Value::integer(i));
      if (__builtin_add_overflow(i, bounds[2], &i)) break;
    }
    return found(Value::list(std::move(items)));
  }
  const Value& x = args[0];
  if (args.size() == 2 && (target == "builtins.pow" || target == "math.pow")) {
    PN_TRY(Value v,
           folded(e, fold_binary("**", target == "math.pow" ? Value::real(x.as_double()) : x, args[1])));
    return found(std::move(v));
  }
  if (args.size() != 1) return nothing;
  if (target == "builtins.bool") return found(Value::boolean(*truth(x)));
  if (target == "builtins.float") return found(Value::real(x.as_double()));
  if (target == "builtins.int" || target == "math.floor" || target == "math.ceil") {
    if (x.kind() != Value::Kind::kFloat) return found(Value::integer(x.as_int()));
    const double d = target == "math.floor"  ? std::floor(x.as_double())
                     : target == "math.ceil" ? std::ceil(x.as_double())
                                             : std::trunc(x.as_double());
    if (!(std::fabs(d) < 9.2e18)) return nothing;
    return found(Value::integer(static_cast<int64_t>(d)));
  }
  if (target == "builtins.abs") {
    if (x.kind() == Value::Kind::kFloat) return found(Value::real(std::fabs(x.as_double())));
    if (x.as_int() != std::numeric_limits<int64_t>::min()) return found(Value::integer(std::abs(x.as_int())));
  }
  if (target == "math.sqrt" && x.as_double() >= 0) {
    return found(Value::real(std::sqrt(x.as_double())));
  }
  if (target == "math.exp") return found(Value::real(std::exp(x.as_double())));
  if (target == "math.log" && x.as_double() > 0) return found(Value::real(std::log(x.as_double())));
  return nothing;
}

}  // namespace passnet
