#include <algorithm>

#include <fmt/format.h>

#include "capture/interpreter.h"
#include "capture/targets.h"

namespace passnet {

using pysrc::ExprKind;

Result<Value> Interpreter::folded(const Expr& e, Folded folded) {
  if (folded.value) return std::move(*folded.value);
  return error("capture.value", folded.problem, e.span)
      .with_hint(
          "Python would raise an error here, or the value is beyond what is computed; correct the "
          "expression.");
}

Result<Value> Interpreter::eval(const Expr& e, const std::string& hint) {
  switch (e.kind) {
    case ExprKind::kName: return name(e);
    case ExprKind::kInt:
      if (e.overflow) {
        return error("capture.value", "this integer does not fit 64 bits", e.span)
            .with_hint("torch has no such integers; write a float.");
      }
      return Value::integer(e.integer);
    case ExprKind::kFloat: return Value::real(e.real);
    case ExprKind::kImaginary: return Value::complex(0, e.real);
    case ExprKind::kString: return Value::string(e.text);
    case ExprKind::kTrue: return Value::boolean(true);
    case ExprKind::kFalse: return Value::boolean(false);
    case ExprKind::kNone: return Value::none();
    case ExprKind::kEllipsis: return Value::ellipsis();
    case ExprKind::kAttribute: return attribute(e, hint);
    case ExprKind::kCall: return call(e, hint);
    case ExprKind::kSubscript: return subscript(e, hint);
    case ExprKind::kSlice: {
      Value parts[3];
      for (int i = 0; i < 3; ++i) {
        if (e.items[static_cast<std::size_t>(i)] != nullptr) {
          PN_TRY(parts[i], eval(*e.items[static_cast<std::size_t>(i)]));
        }
      }
      return Value::slice(parts[0], parts[1], parts[2]);
    }
    case ExprKind::kTuple:
    case ExprKind::kList: return sequence(e);
    case ExprKind::kDict: {
      std::vector<std::pair<std::string, Value>> items;
      for (std::size_t i = 0; i + 1 < e.items.size(); i += 2) {
        if (e.items[i]->kind != ExprKind::kString)
          return unsupported("dict whose keys are no strings", e.span);
        PN_TRY(Value value, eval(*e.items[i + 1]));
        items.emplace_back(e.items[i]->text, std::move(value));
      }
      return Value::dict(std::move(items));
    }
    case ExprKind::kUnary: return unary(e, hint);
    case ExprKind::kBinary: {
      PN_TRY(const Value a, eval(*e.items[0]));
      const StackMark mark(*this);
      push(a);
      PN_TRY(const Value b, eval(*e.items[1]));
      mark.drop();
      return binary(e, e.op(), a, b, hint);
    }
    case ExprKind::kBoolOp: {
      PN_TRY(Value a, eval(*e.items[0]));
      std::optional<bool> first = truth(a);
      if (!first) {
        PN_TRY(const Value number, number_of(*e.items[0], fmt::format("'{}' on a tensor", e.op()), a));
        first = truth(number);
      }
      if (*first == (e.op() == "or")) return a;
      return eval(*e.items[1]);
    }
    case ExprKind::kCompare: return compare(e, hint);
    case ExprKind::kConditional: {
      PN_TRY(const bool taken, condition(*e.items[0]));
      return eval(taken ? *e.items[1] : *e.items[2], hint);
    }
    case ExprKind::kSet:
    case ExprKind::kStarred:
    case ExprKind::kUnsupported: break;
  }
  return unsupported(describe(e), e.span);
}

Result<Value> Interpreter::name(const Expr& e) {
  if (const auto it = locals_.find(e.text); it != locals_.end()) return it->second.value;
  if (const auto it = globals_.find(e.text); it != globals_.end()) return it->second;
  if (e.text == self_) return unsupported("use of self", e.span);
  return error("capture.undefined_name", fmt::format("the name '{}' is not defined", e.text), e.span)
      .with_hint("Correct the name, or assign or import it before this line.");
}

Result<Value> Interpreter::sequence(const Expr& e) {
  std::vector<Value> items;
  items.reserve(e.items.size());
  const StackMark mark(*this);
  for (const Expr* item : e.items) {
    if (!items.empty()) push(items.back());
    if (item->kind == ExprKind::kStarred) {
      PN_TRY(const Value spread, eval(*item->value));
      PN_TRY(std::vector<Value> more, elements(*item, spread));
      for (Value& v : more) items.push_back(std::move(v));
    } else {
      PN_TRY(Value v, eval(*item));
      items.push_back(std::move(v));
    }
  }
  Value out = e.kind == ExprKind::kList ? Value::list(std::move(items)) : Value::tuple(std::move(items));
  // A name for a sequence in sequences of such names: twice as long with every line.
  if (value_size(out) > std::max(kMostNested, e.items.size() + 1))
    return unsupported("a sequence of sequences that gets too long", e.span);
  return out;
}

Result<bool> Interpreter::condition(const Expr& e) {
  PN_TRY(const Value v, eval(e));
  if (const std::optional<bool> known = truth(v)) return *known;
  PN_TRY(const Value number, number_of(e, "a branch on a tensor", v));
  return *truth(number);
}

Result<std::vector<Value>> Interpreter::elements(const Expr& e, const Value& value) {
  if (value.is_sequence()) return value.items();
  if (!value.is_node()) {
    return error("capture.value", "this value cannot be unpacked", e.span)
        .with_hint("Only tuples, lists and tensors can.");
  }
  if (is_lazy_tuple(value.as_node())) {
    return error("capture.needs_shape", "how many values this gives depends on shapes, which are not known",
                 e.span)
        .with_hint("Add the inputs' shapes to weight_meta.py, or unpack into a fixed number of names.");
  }
  PN_TRY(const TensorMeta* tensor, known_tensor(e, value.as_node(), "unpacking a tensor"));
  if (tensor->shape.empty()) {
    return error("capture.value", "a 0-dim tensor cannot be unpacked", e.span)
        .with_hint("Correct the shape.");
  }
  constexpr int64_t kMaxUnpacked = 1 << 16;
  const int64_t count = tensor->shape.front();
  if (count > kMaxUnpacked) return unsupported(fmt::format("loop over {} rows of a tensor", count), e.span);
  std::vector<Value> items;
  for (int64_t i = 0; i < count; ++i) {
    PN_TRY(Value item,
           emit(e, NodeOp::kCallFunction, "operator.getitem", {{value, Value::integer(i)}, {}}, {}));
    items.push_back(std::move(item));
  }
  return items;
}

Result<Value> Interpreter::attribute(const Expr& e, const std::string& hint) {
  if (e.value->kind == ExprKind::kName && e.value->text == self_ && !locals_.contains(self_)) {
    return error("capture.self_attribute", fmt::format("forward reads {}.{}", self_, e.text), e.span)
        .with_hint("Pass it as a parameter of forward, with an entry in weight_meta.py.");
  }
  PN_TRY(const Value object, eval(*e.value));
  if (object.kind() == Value::Kind::kConstant) {
    std::string dotted = object.text() + "." + e.text;
    if (std::optional<Value> constant = constant_global(dotted)) return std::move(*constant);
    return Value::constant(Value::Kind::kConstant, std::move(dotted));
  }
  if (object.is_node()) return tensor_attribute(e, object.as_node(), hint);
  if (object.kind() == Value::Kind::kDType) {
    const DType dtype = object.as_dtype();
    if (e.text == "itemsize") return Value::integer(size_of(dtype));
    if (e.text == "is_floating_point") return Value::boolean(is_floating(dtype));
    if (e.text == "is_complex") return Value::boolean(is_complex(dtype));
  }
  if (object.kind() == Value::Kind::kDevice) {
    const std::size_t colon = object.text().find(':');
    if (e.text == "type") return Value::string(object.text().substr(0, colon));
  }
  if (object.kind() == Value::Kind::kDict) {  // torch.finfo
    const Folded item = fold_subscript(object, Value::string(e.text));
    if (item.value) return *item.value;
  }
  // max(x, 1).values and .indices: the pair is a tuple here.
  if (object.kind() == Value::Kind::kTuple && object.items().size() == 2) {
    if (e.text == "values") return object.items()[0];
    if (e.text == "indices") return object.items()[1];
  }
  return unsupported(fmt::format("attribute '{}' of such a value", e.text), e.span);
}

Result<Value> Interpreter::tensor_attribute(const Expr& e, NodeId node, const std::string& hint) {
  const std::string& attribute = e.text;
  if (is_lazy_tuple(node)) {
    if (attribute == "values") return tuple_item(e, node, 0, hint);
    if (attribute == "indices") return tuple_item(e, node, 1, hint);
  }
  if (attribute == "shape") {
    PN_TRY(const TensorMeta* tensor, known_tensor(e, node, "the shape"));
    std::vector<Value> sizes;
    for (const int64_t n : tensor->shape) sizes.push_back(Value::integer(n));
    return Value::tuple(std::move(sizes));
  }
  if (attribute == "ndim") {
    PN_TRY(const TensorMeta* tensor, known_tensor(e, node, "the rank"));
    return Value::integer(tensor->dim());
  }
  if (attribute == "dtype") {
    PN_TRY(const TensorMeta* tensor, known_tensor(e, node, "the dtype"));
    return Value::dtype(tensor->dtype);
  }
  if (attribute == "device") {
    PN_TRY(const TensorMeta* tensor, known_tensor(e, node, "the device"));
    return Value::device(tensor->device);
  }
  if (attribute == "is_cuda") return Value::boolean(options_.device.starts_with("cuda"));
  if (attribute == "requires_grad" || attribute == "is_sparse" || attribute == "is_quantized" ||
      attribute == "is_meta" || attribute == "is_mkldnn" || attribute == "is_nested") {
    return Value::boolean(false);
  }
  if (attribute == "layout") return Value::constant(Value::Kind::kLayout, "torch.strided");
  if (attribute == "grad" || attribute == "grad_fn") return Value::none();
  if (attribute == "T" || attribute == "mT" || attribute == "H" || attribute == "mH" || attribute == "real" ||
      attribute == "imag") {
    const bool from_input = from_input_[static_cast<std::size_t>(node)];
    PN_TRY(Value v, emit(e, NodeOp::kCallFunction, "builtins.getattr",
                         {{Value::node(node), Value::string(attribute)}, {}}, hint));
    if (v.is_node() && from_input) from_input_[static_cast<std::size_t>(v.as_node())] = true;
    return v;
  }
  return unsupported(fmt::format("tensor attribute '{}'", attribute), e.span);
}

Result<Value> Interpreter::subscript(const Expr& e, const std::string& hint) {
  PN_TRY(const Value object, eval(*e.value));
  const StackMark mark(*this);
  push(object);
  PN_TRY(const Value index, eval(*e.items.front()));
  mark.drop();
  return subscript_of(e, object, index, hint);
}

Result<Value> Interpreter::subscript_of(const Expr& e, const Value& object, const Value& index,
                                        const std::string& hint) {
  if (object.is_node()) {
    const NodeId node = object.as_node();
    if (!is_lazy_tuple(node)) {
      return emit(e, NodeOp::kCallFunction, "operator.getitem", {{object, index}, {}}, hint);
    }
    const std::optional<int64_t> at = index_of(index);
    if (!at || *at < 0) {
      return error("capture.needs_shape", "this index of a tuple depends on its length, which is not known",
                   e.span)
          .with_hint("Add the inputs' shapes to weight_meta.py.");
    }
    return tuple_item(e, node, *at, hint);
  }
  if (holds_node(index)) {
    if (index.is_node()) return graph_break("a tensor as index of a Python sequence", e.span);
  }
  return folded(e, fold_subscript(object, index));
}

Result<Value> Interpreter::unary(const Expr& e, const std::string& hint) {
  PN_TRY(const Value a, eval(*e.value));
  const std::string& op = e.op();
  if (!a.is_node()) return folded(e, fold_unary(op, a));
  if (op == "not") {
    PN_TRY(const Value number, number_of(e, "'not' on a tensor", a));
    return folded(e, fold_unary(op, number));
  }
  const char* target = op == "-" ? "operator.neg" : op == "~" ? "operator.invert" : "operator.pos";
  return emit(e, NodeOp::kCallFunction, target, {{a}, {}}, hint);
}

Result<Value> Interpreter::binary(const Expr& at, std::string_view op, const Value& a, const Value& b,
                                  const std::string& hint) {
  if (!a.is_node() && !b.is_node()) return folded(at, fold_binary(op, a, b));
  const std::string_view target = binary_operator_target(op);
  if (target.empty()) return unsupported(fmt::format("'{}' operator", op), at.span);
  if (op == "*" && inputs_ != nullptr && (a.is_sequence() || b.is_sequence())) {
    // [None] * n with a tensor n: dynamo breaks the graph and does not get going again.
    PN_CHECK_OK(give_up(at, "a list times a tensor"));
    return Value::none();
  }
  for (const Value* side : {&a, &b}) {
    if (side->is_none() || side->kind() == Value::Kind::kString || side->is_sequence()) {
      return error("capture.value",
                   fmt::format("'{}' between a tensor and {}", op,
                               side->is_none()       ? "None"
                               : side->is_sequence() ? "a sequence"
                                                     : "a string"),
                   at.span)
          .with_hint(side->is_none()
                         ? "The name was freed (`= None`) before this line; remove the free or the use."
                         : "Correct the operand.");
    }
  }
  return emit(at, NodeOp::kCallFunction, std::string(target), {{a, b}, {}}, hint);
}

Result<Value> Interpreter::compare(const Expr& e, const std::string& hint) {
  if (e.items.size() == 2) {
    PN_TRY(const Value a, eval(*e.items[0]));
    PN_TRY(const Value b, eval(*e.items[1]));
    const std::string& op = e.ops.front();
    if (op == "is" || op == "is not") return folded(e, fold_compare(op, a, b));
    if (!a.is_node() && !b.is_node()) return folded(e, fold_compare(op, a, b));
    if ((op == "==" || op == "!=") && (a.is_none() || b.is_none())) return Value::boolean(op == "!=");
    return binary(e, op == "<>" ? "!=" : op, a, b, hint);
  }
  // a < b < c: each pair in turn, until one is false.
  PN_TRY(Value left, eval(*e.items[0]));
  for (std::size_t i = 0; i < e.ops.size(); ++i) {
    PN_TRY(const Value right, eval(*e.items[i + 1]));
    if (left.is_node() || right.is_node()) return graph_break("a chained comparison of tensors", e.span);
    PN_TRY(const Value one, folded(e, fold_compare(e.ops[i], left, right)));
    if (!one.as_bool()) return one;
    left = right;
  }
  return Value::boolean(true);
}

}  // namespace passnet
