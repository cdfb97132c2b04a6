// Expressions inside a wrapper: what is known of a value, and what the guard refuses.

#include <algorithm>

#include <fmt/format.h>

#include "capture/folding.h"
#include "capture/targets.h"
#include "check/wrapper_follower.h"

namespace passnet::check {

using pysrc::ExprKind;

Thing WrapperFollower::eval(const Expr& e, Frame& frame) {
  if (halted()) return {};
  switch (e.kind) {
    case ExprKind::kName: return name(e, frame);
    case ExprKind::kInt: return e.overflow ? Thing::unknown() : Thing::of(Value::integer(e.integer));
    case ExprKind::kFloat: return Thing::of(Value::real(e.real));
    case ExprKind::kString: return Thing::of(Value::string(e.text));
    case ExprKind::kTrue: return Thing::of(Value::boolean(true));
    case ExprKind::kFalse: return Thing::of(Value::boolean(false));
    case ExprKind::kNone: return Thing::of(Value::none());
    case ExprKind::kEllipsis: return Thing::of(Value::ellipsis());
    case ExprKind::kAttribute: return attribute(e, frame);
    case ExprKind::kCall: return call(e, frame);
    case ExprKind::kSubscript: return subscript(e, frame);
    case ExprKind::kSlice: {
      std::vector<Value> parts;
      for (const Expr* part : e.items) {
        std::optional<Value> v = part == nullptr ? Value::none() : eval(*part, frame).literal();
        if (!v) return {};
        parts.push_back(std::move(*v));
      }
      parts.resize(3);
      return Thing::of(Value::slice(parts[0], parts[1], parts[2]));
    }
    case ExprKind::kTuple:
    case ExprKind::kList: {
      std::vector<Thing> items;
      for (const Expr* item : e.items) {
        if (item->kind != ExprKind::kStarred) {
          items.push_back(eval(*item, frame));
          continue;
        }
        const std::optional<std::vector<Thing>> more = items_of(*item, eval(*item->value, frame));
        if (!more) return {};
        items.insert(items.end(), more->begin(), more->end());
      }
      return Thing::sequence(std::move(items), e.kind == ExprKind::kList);
    }
    case ExprKind::kDict: {
      Thing out;
      out.kind = Thing::Kind::kDict;
      for (size_t i = 0; i + 1 < e.items.size(); i += 2) {
        const std::optional<Value> key =
            e.items[i] == nullptr ? std::nullopt : eval(*e.items[i], frame).literal();
        if (!key) return {};
        out.keys.push_back(*key);
        out.items.push_back(eval(*e.items[i + 1], frame));
      }
      return out;
    }
    case ExprKind::kUnary: {
      const Thing a = eval(*e.value, frame);
      if (e.op() == "not") {
        const std::optional<bool> known = truth_of(*e.value, a);
        return known ? Thing::of(Value::boolean(!*known)) : Thing::unknown();
      }
      if (a.kind == Thing::Kind::kTensor)
        return operation(e, a.tensor, fmt::format("computes `{}` on", e.op()), "compute in the kernel");
      const std::optional<Value> v = a.literal();
      const Folded folded = v ? fold_unary(e.op(), *v) : Folded::no("");
      return folded.value ? Thing::of(*folded.value) : Thing::unknown();
    }
    case ExprKind::kBinary: {
      const Thing a = eval(*e.items[0], frame), b = eval(*e.items[1], frame);
      return binary(e, e.op(), a, b);
    }
    case ExprKind::kBoolOp: {
      const Thing a = eval(*e.items[0], frame);
      const std::optional<bool> known = truth_of(*e.items[0], a);
      if (!known) return {};
      if (*known == (e.op() == "or")) return a;
      return eval(*e.items[1], frame);
    }
    case ExprKind::kCompare: {
      Thing left = eval(*e.items[0], frame);
      for (size_t i = 0; i < e.ops.size(); ++i) {
        const Thing right = eval(*e.items[i + 1], frame);
        const Thing result = compare(e, e.ops[i], left, right);
        if (i + 1 == e.ops.size()) return result;
        const std::optional<bool> known = truth_of(e, result);
        if (!known || !*known) return known ? result : Thing::unknown();
        left = right;
      }
      return {};
    }
    case ExprKind::kConditional: {
      const std::optional<bool> known = truth_of(*e.items[0], eval(*e.items[0], frame));
      return known ? eval(*e.items[*known ? 1 : 2], frame) : Thing::unknown();
    }
    default: return {};
  }
}

Thing WrapperFollower::attribute(const Expr& e, Frame& frame) {
  const Thing object = eval(*e.value, frame);
  switch (object.kind) {
    case Thing::Kind::kTensor: return tensor_attribute(e, object.tensor, e.text);
    case Thing::Kind::kGlobal: {
      const std::string dotted = object.text + "." + e.text;
      if (std::optional<Value> constant = constant_global(dotted)) return Thing::of(std::move(*constant));
      if (std::optional<Thing> own = of_pass_dir(dotted)) return std::move(*own);
      return Thing::global(dotted);
    }
    case Thing::Kind::kLiteral:
      if (object.value.kind() == Value::Kind::kDType && e.text == "itemsize")
        return Thing::of(Value::integer(static_cast<int64_t>(size_of(object.value.as_dtype()))));
      if (object.value.kind() == Value::Kind::kDevice && e.text == "type")
        return Thing::of(Value::string(object.value.text().substr(0, object.value.text().find(':'))));
      [[fallthrough]];
    case Thing::Kind::kDict:
    case Thing::Kind::kSequence: {
      Thing out;
      out.kind = Thing::Kind::kMethod;
      out.text = e.text;
      out.items = {object};
      return out;
    }
    default: return {};
  }
}

Thing WrapperFollower::subscript(const Expr& e, Frame& frame) {
  const Thing object = eval(*e.value, frame);
  if (object.kind == Thing::Kind::kKernel) {
    if (!e.items.empty()) eval(*e.items[0], frame);
    Thing out = object;
    out.kind = Thing::Kind::kLaunch;
    return out;
  }
  const Thing index = eval(*e.items[0], frame);
  if (object.kind == Thing::Kind::kTensor) {
    return operation(e, object.tensor, "takes a part of",
                     "pass the whole tensor and take the part in the kernel, by its strides");
  }
  const std::optional<Value> key = index.literal();
  if (object.kind == Thing::Kind::kDict) {
    for (size_t i = 0; key && i < object.keys.size(); ++i) {
      if (object.keys[i] == *key) return object.items[i];
    }
    return {};
  }
  if (!key) return {};
  if (object.kind == Thing::Kind::kSequence) {
    const int64_t size = static_cast<int64_t>(object.items.size());
    if (const std::optional<int64_t> at = index_of(*key)) {
      if (*at >= -size && *at < size) return object.items[static_cast<size_t>(*at < 0 ? *at + size : *at)];
      if (frame.function == nullptr) return {};
      raise(e.span, "wrapper.raises",
            fmt::format("{} takes item {} of {} values", frame.function->text, *at, size),
            "let replacement_args return what the wrapper reads");
      return {};
    }
    if (key->kind() != Value::Kind::kSlice) return {};
    // The items a slice of their numbers takes.
    std::vector<Value> numbers;
    for (int64_t i = 0; i < size; ++i) numbers.push_back(Value::integer(i));
    const Folded folded = fold_subscript(Value::list(std::move(numbers)), *key);
    if (!folded.value) return {};
    std::vector<Thing> items;
    for (const Value& v : folded.value->items())
      items.push_back(object.items[static_cast<size_t>(v.as_int())]);
    return Thing::sequence(std::move(items), object.is_list);
  }
  if (object.kind != Thing::Kind::kLiteral) return {};
  const Folded folded = fold_subscript(object.value, *key);
  if (folded.value) return Thing::of(*folded.value);
  if (object.value.is_sequence() && index_of(*key) && frame.function != nullptr) {
    raise(e.span, "wrapper.raises",
          fmt::format("{} takes item {} of {} values", frame.function->text, *index_of(*key),
                      object.value.items().size()),
          "the rank of the tensor is another than the code expects");
  }
  return {};
}

Thing WrapperFollower::binary(const Expr& e, std::string_view op, const Thing& a, const Thing& b) {
  for (const Thing* side : {&a, &b}) {
    if (side->kind == Thing::Kind::kTensor && tensors_[side->tensor].poisoned)
      return operation(e, side->tensor, fmt::format("computes `{}` on", op), "compute in the kernel");
  }
  for (const Thing* side : {&a, &b}) {
    if (side->kind == Thing::Kind::kTensor) return operation(e, side->tensor, "", "");
  }
  if (a.kind == Thing::Kind::kSequence && b.kind == Thing::Kind::kSequence && op == "+") {
    std::vector<Thing> items = a.items;
    items.insert(items.end(), b.items.begin(), b.items.end());
    return Thing::sequence(std::move(items), a.is_list);
  }
  const std::optional<Value> x = a.literal(), y = b.literal();
  if (!x || !y) return {};
  const Folded folded = fold_binary(op, *x, *y);
  return folded.value ? Thing::of(*folded.value) : Thing::unknown();
}

Thing WrapperFollower::compare(const Expr& e, std::string_view op, const Thing& a, const Thing& b) {
  const bool identity = op == "is" || op == "is not", inside = op == "in" || op == "not in";
  if (identity) {
    const bool left = a.kind == Thing::Kind::kLiteral && a.value.is_none();
    const bool right = b.kind == Thing::Kind::kLiteral && b.value.is_none();
    if (a.kind == Thing::Kind::kUnknown || b.kind == Thing::Kind::kUnknown || (!left && !right)) return {};
    return Thing::of(Value::boolean((left && right) == (op == "is")));
  }
  if (inside) {
    const std::optional<Value> key = a.literal();
    if (b.kind == Thing::Kind::kDict && (key || b.keys.empty())) {
      const bool found = key && std::find(b.keys.begin(), b.keys.end(), *key) != b.keys.end();
      return Thing::of(Value::boolean(found == (op == "in")));
    }
    const std::optional<Value> container = b.literal();
    if (!key || !container || !container->is_sequence()) return {};
    const bool found =
        std::find(container->items().begin(), container->items().end(), *key) != container->items().end();
    return Thing::of(Value::boolean(found == (op == "in")));
  }
  for (const Thing* side : {&a, &b}) {
    if (side->kind == Thing::Kind::kTensor)
      return operation(e, side->tensor, fmt::format("computes `{}` on", op), "compare in the kernel");
  }
  const std::optional<Value> x = a.literal(), y = b.literal();
  if (!x || !y) return {};
  if (x->kind() == Value::Kind::kDType || y->kind() == Value::Kind::kDType ||
      x->kind() == Value::Kind::kDevice) {
    if (op != "==" && op != "!=") return {};
    return Thing::of(Value::boolean((*x == *y) == (op == "==")));
  }
  const Folded folded = fold_compare(op, *x, *y);
  return folded.value ? Thing::of(*folded.value) : Thing::unknown();
}

}  // namespace passnet::check
