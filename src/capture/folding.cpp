#include "capture/folding.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace passnet {

namespace {

bool is_integer(const Value& v) { return v.kind() == Value::Kind::kInt || v.kind() == Value::Kind::kBool; }

constexpr const char* kOverflow = "the integer result does not fit 64 bits";

Folded integer_binary(std::string_view op, int64_t a, int64_t b) {
  int64_t out = 0;
  if (op == "+")
    return __builtin_add_overflow(a, b, &out) ? Folded::no(kOverflow) : Folded::of(Value::integer(out));
  if (op == "-")
    return __builtin_sub_overflow(a, b, &out) ? Folded::no(kOverflow) : Folded::of(Value::integer(out));
  if (op == "*")
    return __builtin_mul_overflow(a, b, &out) ? Folded::no(kOverflow) : Folded::of(Value::integer(out));
  if (op == "/") {
    if (b == 0) return Folded::no("division by zero");
    return Folded::of(Value::real(static_cast<double>(a) / static_cast<double>(b)));
  }
  if (op == "//" || op == "%") {
    if (b == 0) return Folded::no("division by zero");
    if (b == -1) return op == "%" ? Folded::of(Value::integer(0)) : integer_binary("*", a, -1);
    int64_t quotient = a / b, rest = a % b;
    if (rest != 0 && (rest < 0) != (b < 0)) {  // Python rounds down, C++ towards zero
      --quotient;
      rest += b;
    }
    return Folded::of(Value::integer(op == "//" ? quotient : rest));
  }
  if (op == "**") {
    if (b < 0) return Folded::of(Value::real(std::pow(static_cast<double>(a), static_cast<double>(b))));
    int64_t result = 1, base = a;
    for (int64_t e = b; e > 0;) {
      if ((e & 1) && __builtin_mul_overflow(result, base, &result)) return Folded::no(kOverflow);
      e >>= 1;
      if (e > 0 && __builtin_mul_overflow(base, base, &base)) return Folded::no(kOverflow);
    }
    return Folded::of(Value::integer(result));
  }
  if (op == "&") return Folded::of(Value::integer(a & b));
  if (op == "|") return Folded::of(Value::integer(a | b));
  if (op == "^") return Folded::of(Value::integer(a ^ b));
  if (op == "<<" || op == ">>") {
    if (b < 0) return Folded::no("negative shift count");
    if (op == ">>") return Folded::of(Value::integer(a >> std::min<int64_t>(b, 63)));
    if (b > 62 || (a != 0 && (std::abs(a) >> (62 - b)) != 0)) return Folded::no(kOverflow);
    return Folded::of(Value::integer(static_cast<int64_t>(static_cast<uint64_t>(a) << b)));
  }
  return Folded::no("these operands have no '" + std::string(op) + "'");
}

Folded real_binary(std::string_view op, double a, double b) {
  if (op == "+") return Folded::of(Value::real(a + b));
  if (op == "-") return Folded::of(Value::real(a - b));
  if (op == "*") return Folded::of(Value::real(a * b));
  if (op == "/") return b == 0 ? Folded::no("division by zero") : Folded::of(Value::real(a / b));
  if (op == "//" || op == "%") {
    if (b == 0) return Folded::no("division by zero");
    double rest = std::fmod(a, b);
    double quotient = (a - rest) / b;
    if (rest != 0 && (rest < 0) != (b < 0)) {
      rest += b;
      quotient -= 1;
    }
    return Folded::of(Value::real(op == "%" ? rest : std::floor(quotient + 0.5)));
  }
  if (op == "**") {
    if (a < 0 && b != std::floor(b))
      return Folded::no("a negative base with a fractional exponent is complex");
    if (a == 0 && b < 0) return Folded::no("division by zero");
    return Folded::of(Value::real(std::pow(a, b)));
  }
  return Folded::no("floats have no '" + std::string(op) + "'");
}

Folded repeat(const Value& sequence, int64_t count) {
  const std::size_t size = value_size(sequence);
  const std::size_t times = count < 0 || sequence.items().empty() ? 0 : static_cast<std::size_t>(count);
  if (times > kMostComputed / size) return Folded::no("the sequence gets too long");
  std::vector<Value> items;
  for (std::size_t i = 0; i < times; ++i) {
    items.insert(items.end(), sequence.items().begin(), sequence.items().end());
  }
  return Folded::of(sequence.kind() == Value::Kind::kList ? Value::list(std::move(items))
                                                          : Value::tuple(std::move(items)));
}

}  // namespace

std::size_t value_size(const Value& v) {
  std::size_t size = 1 + (v.kind() == Value::Kind::kString ? v.text().size() / 16 : 0);
  if (v.is_sequence())
    for (const Value& item : v.items()) size += value_size(item);
  return size;
}

bool holds_node(const Value& v) {
  bool found = false;
  v.for_each_node([&](NodeId) { found = true; });
  return found;
}

std::optional<bool> truth(const Value& v) {
  switch (v.kind()) {
    case Value::Kind::kNone: return false;
    case Value::Kind::kBool:
    case Value::Kind::kInt: return v.as_int() != 0;
    case Value::Kind::kFloat: return v.as_double() != 0;
    case Value::Kind::kString: return !v.text().empty();
    case Value::Kind::kList:
    case Value::Kind::kTuple:
    case Value::Kind::kDict: return !v.items().empty();
    case Value::Kind::kNode: return std::nullopt;
    default: return true;
  }
}

std::optional<int64_t> index_of(const Value& v) {
  if (!is_integer(v)) return std::nullopt;
  return v.as_int();
}

Folded fold_unary(std::string_view op, const Value& a) {
  if (op == "not") return Folded::of(Value::boolean(!*truth(a)));
  if (is_integer(a)) {
    if (op == "+") return Folded::of(Value::integer(a.as_int()));
    if (op == "~") return Folded::of(Value::integer(~a.as_int()));
    if (op == "-") return integer_binary("-", 0, a.as_int());
  }
  if (a.kind() == Value::Kind::kFloat) {
    if (op == "+") return Folded::of(a);
    if (op == "-") return Folded::of(Value::real(-a.as_double()));
  }
  if (a.kind() == Value::Kind::kComplex && op == "-")
    return Folded::of(Value::complex(-a.as_double(), -a.imag()));
  return Folded::no("this operand has no unary '" + std::string(op) + "'");
}

Folded fold_binary(std::string_view op, const Value& a, const Value& b) {
  if (is_integer(a) && is_integer(b)) {
    if (a.kind() == Value::Kind::kBool && b.kind() == Value::Kind::kBool &&
        (op == "&" || op == "|" || op == "^")) {
      return Folded::of(Value::boolean(op == "&"   ? a.as_bool() && b.as_bool()
                                       : op == "|" ? a.as_bool() || b.as_bool()
                                                   : a.as_bool() != b.as_bool()));
    }
    return integer_binary(op, a.as_int(), b.as_int());
  }
  if (a.is_number() && b.is_number()) return real_binary(op, a.as_double(), b.as_double());
  if (op == "+" && a.kind() == b.kind()) {
    if (value_size(a) + value_size(b) > kMostComputed) return Folded::no("the sequence gets too long");
    if (a.kind() == Value::Kind::kString) return Folded::of(Value::string(a.text() + b.text()));
    if (a.is_sequence()) {
      std::vector<Value> items = a.items();
      items.insert(items.end(), b.items().begin(), b.items().end());
      return Folded::of(a.kind() == Value::Kind::kList ? Value::list(std::move(items))
                                                       : Value::tuple(std::move(items)));
    }
  }
  if (op == "*" && a.is_sequence() && is_integer(b)) return repeat(a, b.as_int());
  if (op == "*" && b.is_sequence() && is_integer(a)) return repeat(b, a.as_int());
  return Folded::no("these operands have no '" + std::string(op) + "'");
}

Folded fold_compare(std::string_view op, const Value& a, const Value& b) {
  const auto yes = [](bool v) { return Folded::of(Value::boolean(v)); };
  // A global that the source names (torch.float32, None) is one object.
  if (op == "is" || op == "is not") return yes((a == b) == (op == "is"));
  if (op == "in" || op == "not in") {
    if (!b.is_sequence()) return Folded::no("'in' needs a list or a tuple");
    const bool found = std::any_of(b.items().begin(), b.items().end(), [&](const Value& item) {
      const Folded equal = fold_compare("==", a, item);
      return equal.value && equal.value->as_bool();
    });
    return yes(found == (op == "in"));
  }
  if (a.is_number() && b.is_number()) {
    const auto compare = [&](auto x, auto y) {
      return yes(op == "=="   ? x == y
                 : op == "!=" ? x != y
                 : op == "<"  ? x < y
                 : op == "<=" ? x <= y
                 : op == ">"  ? x > y
                              : x >= y);
    };
    // Integers as integers: a double cannot hold all of them.
    return is_integer(a) && is_integer(b) ? compare(a.as_int(), b.as_int())
                                          : compare(a.as_double(), b.as_double());
  }
  if (op == "==" || op == "!=") return yes((a == b) == (op == "=="));
  return Folded::no("these operands have no '" + std::string(op) + "'");
}

Folded fold_subscript(const Value& container, const Value& index) {
  if (container.kind() == Value::Kind::kDict) {
    for (std::size_t i = 0; i < container.keys().size(); ++i) {
      if (index.kind() == Value::Kind::kString && container.keys()[i] == index.text()) {
        return Folded::of(container.items()[i]);
      }
    }
    return Folded::no("the dict has no such key");
  }
  const bool text = container.kind() == Value::Kind::kString;
  if (!text && !container.is_sequence()) return Folded::no("this value cannot be subscripted");
  const int64_t size = static_cast<int64_t>(text ? container.text().size() : container.items().size());
  if (const std::optional<int64_t> i = index_of(index)) {
    const int64_t at = *i < 0 ? *i + size : *i;
    if (at < 0 || at >= size) {
      return Folded::no("index " + std::to_string(*i) + " is out of range, there are " +
                        std::to_string(size));
    }
    if (text) return Folded::of(Value::string(container.text().substr(static_cast<std::size_t>(at), 1)));
    return Folded::of(container.items()[static_cast<std::size_t>(at)]);
  }
  if (index.kind() != Value::Kind::kSlice || text) return Folded::no("this index is no integer");
  int64_t step = 1;
  if (!index.items()[2].is_none()) {
    const std::optional<int64_t> given = index_of(index.items()[2]);
    if (!given || *given == 0) return Folded::no("the slice's step is no integer other than 0");
    step = *given;
  }
  const auto bound = [&](const Value& v, int64_t fallback) -> std::optional<int64_t> {
    if (v.is_none()) return fallback;
    std::optional<int64_t> at = index_of(v);
    if (!at) return std::nullopt;
    if (*at < 0) *at += size;
    return std::clamp<int64_t>(*at, step > 0 ? 0 : -1, step > 0 ? size : size - 1);
  };
  const std::optional<int64_t> start = bound(index.items()[0], step > 0 ? 0 : size - 1);
  const std::optional<int64_t> stop = bound(index.items()[1], step > 0 ? size : -1);
  if (!start || !stop) return Folded::no("the slice's bounds are no integers");
  std::vector<Value> items;
  // A step of any size leaves the range at the latest after `size` elements.
  for (int64_t i = *start, n = 0; n < size && (step > 0 ? i < *stop : i > *stop); ++n) {
    items.push_back(container.items()[static_cast<std::size_t>(i)]);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return Folded::of(container.kind() == Value::Kind::kList ? Value::list(std::move(items))
                                                           : Value::tuple(std::move(items)));
}

}  // namespace passnet
