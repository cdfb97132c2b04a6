#include <cmath>

#include <fmt/format.h>

#include "ops/pointwise_rows.h"

namespace passnet {

namespace {

constexpr auto kPromoted = ResultRule::kPromoted;
constexpr auto kFloat = ResultRule::kFloat;

// ---- add, sub: a + alpha * b. The compiler of ATen contracts that into a fused multiply-add, which only shows where
// alpha is not 1.

Result<E> scaled_sum(const FormArgs& f, E a, E b, double sign) {
  const Value alpha = known_value(f.call, f.call.arg("alpha"));
  if (!alpha.is_number()) return bad_argument(f.call, "alpha", "a number");
  if (f.common == DType::kBool) {
    if (alpha.as_double() != 1 || sign < 0) return no_lowering(f.call, "arithmetic on bools");
    return call(Fn::kOr, a, b);
  }
  const double factor = sign * alpha.as_double();
  if (factor == 1) return a + b;
  if (factor == -1) return a - b;
  if (is_integral(f.common, false)) return a + b * factor;
  return fma(b, a.constant(factor), a);
}

Result<E> add(const FormArgs& f) { return scaled_sum(f, f.x[0], f.x[1], 1); }
Result<E> sub(const FormArgs& f) { return scaled_sum(f, f.x[0], f.x[1], -1); }
Result<E> rsub(const FormArgs& f) { return scaled_sum(f, f.x[1], f.x[0], -1); }

E mul(const FormArgs& f) {
  return f.common == DType::kBool ? call(Fn::kAnd, f.x[0], f.x[1]) : f.x[0] * f.x[1];
}

// The arithmetic of Python numbers in a graph (sizes): the value where both are known.
template <ResultRule kRule, char kOp>
Result<Inferred> meta_arithmetic(const Call& call) {
  const Value a = known_value(call, call.args[0]), b = known_value(call, call.args[1]);
  if (!a.is_number() || !b.is_number()) return pointwise_meta(call, 2, kRule);
  Inferred out;
  if (a.kind() == Value::Kind::kFloat || b.kind() == Value::Kind::kFloat || kOp == '/') {
    const double x = a.as_double(), y = b.as_double();
    if ((kOp == '/' || kOp == '|' || kOp == '%') && y == 0) return out;
    const double quotient = std::floor(x / y);
    out.meta = Meta::number(Value::real(kOp == '+'   ? x + y
                                        : kOp == '-' ? x - y
                                        : kOp == '*' ? x * y
                                        : kOp == '/' ? x / y
                                        : kOp == '|' ? quotient
                                                     : x - quotient * y));
    return out;
  }
  const int64_t x = a.as_int(), y = b.as_int();
  int64_t v = 0;
  bool overflow = false;
  switch (kOp) {
    case '+': overflow = __builtin_add_overflow(x, y, &v); break;
    case '-': overflow = __builtin_sub_overflow(x, y, &v); break;
    case '*': overflow = __builtin_mul_overflow(x, y, &v); break;
    default: {
      if (y == 0 || (y == -1 && x == INT64_MIN)) return out;
      const int64_t floor = x / y - ((x % y != 0 && (x < 0) != (y < 0)) ? 1 : 0);
      v = kOp == '|' ? floor : x - floor * y;
    }
  }
  if (!overflow) out.meta = Meta::number(Value::integer(v));
  return out;
}

// ---- division ----

// A divisor that is a Python number is turned into its reciprocal, once, in the opmath; the elements are multiplied.
// A number divided by a tensor is Tensor.__rtruediv__: the reciprocal, an operation of its own, times the number.
E quotient(const FormArgs& f) {
  const E a = f.x[0], b = f.x[1];
  if (!f.call.tensor(f.call.args[0])) return (1.0 / b).cast(f.common).cast(b.type()) * a;
  if (!f.call.tensor(f.call.args[1])) {
    const double divisor = known_value(f.call, f.call.args[1]).as_double();
    if (f.program.expr(b.id).type == DType::kFloat64) return a * (1.0 / divisor);
    return a * static_cast<double>(1.0f / static_cast<float>(divisor));
  }
  return a / b;
}

// In 16 bits ATen's functor divides elements of the type itself, so the quotient is rounded before it is cut.
E truncated(const FormArgs& f) {
  if (is_integral(f.common, true)) return call(Fn::kTruncDiv, f.x[0], f.x[1]);
  const bool by_tensor = f.call.tensor(f.call.args[1]) != nullptr;
  const E q = quotient(f);
  return call(Fn::kTrunc, by_tensor ? q.cast(f.common).cast(q.type()) : q);
}

// fmod: the remainder has the dividend's sign. Exact, so the order of steps does not matter.
E fmod_float(E a, E b) { return call(Fn::kCopysign, call(Fn::kMod, abs(a), abs(b)), a); }

// Floats as ATen writes it out: the quotient of what fmod leaves, corrected by one where the signs differ, and its floor
// corrected by one where rounding lost it. Only the floor is of the element type.
E floored(const FormArgs& f) {
  const E a = f.x[0], b = f.x[1];
  if (is_integral(f.common, true)) return call(Fn::kFloorDiv, a, b);
  const bool by_number = !f.call.tensor(f.call.args[1]);
  const E inverse = 1.0 / b;  // of a number: the float division of the host
  const auto divided = [&](E e) { return by_number ? e * inverse : e / b; };
  const auto rounded = [&](E e) { return e.cast(f.common).cast(e.type()); };
  const E zero = a.constant(0), mod = fmod_float(a, b), plain = divided(a - mod);
  const E signs_differ = call(Fn::kXor, less(b, zero), less(mod, zero));
  const E q = select(call(Fn::kAnd, truth(mod), signs_differ), plain - 1.0, plain);
  const E down = rounded(call(Fn::kFloor, q));
  const E whole = select(greater(q - down, a.constant(0.5)), rounded(down + 1.0), down);
  return select(equal(b, zero), a / b, select(truth(q), whole, call(Fn::kCopysign, zero, divided(a))));
}

E modulo(const FormArgs& f) { return call(Fn::kMod, f.x[0], f.x[1]); }

E fmod_of(const FormArgs& f) {
  const E a = f.x[0], b = f.x[1];
  if (is_integral(f.common, true)) return a - call(Fn::kTruncDiv, a, b) * b;
  return fmod_float(a, b);
}

enum class Rounding : uint8_t { kTrue, kTrunc, kFloor };

Result<Rounding> rounding_of(const Call& call) {
  if (is_none(call, "rounding_mode")) return Rounding::kTrue;
  PN_TRY(const std::string mode, string_arg(call, "rounding_mode"));
  if (mode == "trunc") return Rounding::kTrunc;
  if (mode == "floor") return Rounding::kFloor;
  return bad_argument(call, "rounding_mode", "None, 'trunc' or 'floor'");
}

Result<Inferred> meta_div(const Call& call) {
  PN_TRY(const Rounding rounding, rounding_of(call));
  if (rounding != Rounding::kTrue) return pointwise_meta(call, 2, kPromoted);
  return meta_arithmetic<kFloat, '/'>(call);
}

Result<std::vector<ArrayId>> lower_div(LowerContext& ctx, const Call& call) {
  PN_TRY(const Rounding rounding, rounding_of(call));
  switch (rounding) {
    case Rounding::kTrue: return lower_form<kFloat, 2, quotient>(ctx, call);
    case Rounding::kTrunc: return lower_form<kPromoted, 2, truncated, NumberRule::kElement>(ctx, call);
    case Rounding::kFloor: break;
  }
  return lower_form<kPromoted, 2, floored>(ctx, call);
}

// ---- powers ----

// ATen's kernel for a number as exponent: special exponents first, each product rounded to the element type; otherwise
// pow in the opmath, the exponent having been cast to the element type. (-2 divides in double; the quotient rounded to
// float and to the element type is the same.)
Result<E> power_number(const FormArgs& f) {
  const Value exponent = known_value(f.call, f.call.args[1]);
  const E x = f.x[0];
  const double e = exponent.as_double();
  const bool integral = is_integral(f.common, true);
  const auto rounded = [&](E v) { return v.cast(f.common).cast(x.type()); };
  if (e == 0) return x.constant(1);
  if (e == 1) return x;
  if (!integral && e == 0.5) return sqrt(x);
  if (!integral && e == -0.5) return rsqrt(x);
  if (!integral && e == -1) return x.constant(1) / x;
  if (f.common == DType::kBool) return no_lowering(f.call, "powers of bools");
  if (e == 2) return x * x;
  if (e == 3) return rounded(x * x) * x;
  if (integral && e < 0) return bad_argument(f.call, "exponent", "not negative for integers");
  if (!integral && e == -2) return x.constant(1) / rounded(x * x);
  return call(Fn::kPow, x, f.x[1]);
}

Result<E> power(const FormArgs& f) {
  if (!f.call.tensor(f.call.args[1])) return power_number(f);
  if (f.common == DType::kBool) return no_lowering(f.call, "powers of bools");
  // A base of exactly 1 gives ones without computing, which pow does as well.
  return call(Fn::kPow, f.x[0], f.x[1]);
}

E square(const FormArgs& f) { return f.x[0] * f.x[0]; }

// x.pow(2), whose exponent is an int64: the square of a bool is one too.
Result<Inferred> meta_square(const Call& call) {
  PN_TRY(Inferred result, pointwise_meta(call, 1, kPromoted));
  if (result.meta.is_tensor() && result.meta.tensor.dtype == DType::kBool)
    result.meta.tensor.dtype = DType::kInt64;
  return result;
}

Result<std::vector<ArrayId>> lower_square(LowerContext& ctx, const Call& call) {
  constexpr std::string_view kOperand[] = {"input"};
  if (call.node->meta.tensor.dtype != DType::kInt64) return lower_form<kPromoted, 1, square>(ctx, call);
  return lower_pointwise(
      ctx, call, kOperand, [](std::span<const E> x) { return x[0] * x[0]; }, DType::kInt64);
}

// ---- pairs ----

// NaN if either is, as ATen writes it out.
E larger(const FormArgs& f) {
  return f.common == DType::kBool ? call(Fn::kOr, f.x[0], f.x[1]) : maximum(f.x[0], f.x[1]);
}
E smaller(const FormArgs& f) {
  return f.common == DType::kBool ? call(Fn::kAnd, f.x[0], f.x[1]) : minimum(f.x[0], f.x[1]);
}

E fmax_of(const FormArgs& f) {
  const E a = f.x[0], b = f.x[1];
  if (is_integral(f.common, true)) return larger(f);
  return select(call(Fn::kIsNan, a), b, select(call(Fn::kIsNan, b), a, maximum(a, b)));
}
E fmin_of(const FormArgs& f) {
  const E a = f.x[0], b = f.x[1];
  if (is_integral(f.common, true)) return smaller(f);
  return select(call(Fn::kIsNan, a), b, select(call(Fn::kIsNan, b), a, minimum(a, b)));
}

E atan2_of(const FormArgs& f) { return call(Fn::kAtan2, f.x[0], f.x[1]); }
E copysign_of(const FormArgs& f) { return call(Fn::kCopysign, f.x[0], f.x[1]); }

}  // namespace

std::vector<OpRow> arithmetic_rows() {
  constexpr auto kPoint = OpClass::kPointwise;
  return {
      {.name = "add",
       .cls = kPoint,
       .spellings = {function("torch.add", "input, other, *, alpha=1"),
                     function("operator.add", "input, other"),
                     in_place(function("operator.iadd", "input, other")),
                     method("add", "input, other, *, alpha=1"),
                     in_place(method("add_", "input, other, *, alpha=1")), method("__add__", "input, other"),
                     method("__radd__", "input, other"), in_place(method("__iadd__", "input, other"))},
       .meta = meta_arithmetic<kPromoted, '+'>,
       .lower = lower_form<kPromoted, 2, add>,
       .examples = {{"x=f16[4,8,16], y=f16[16]", "x + y"},
                    {"x=bf16[4,1,16], y=f32[8,1]", "torch.add(x, y, alpha=0.3)"},
                    {"x=f16[5,7]", "x + 0.1"},
                    {"x=f32[5,7]", "torch.add(x, 2, alpha=3)"},
                    {"x=i64[6]", "x + 2"},
                    {"x=f16[4,8], y=f32[]", "operator.iadd(x, y)"},
                    {"x=i32[5], y=bool[3,5]", "torch.add(x, y)"}}},
      {.name = "sub",
       .cls = kPoint,
       .spellings = {function("torch.sub", "input, other, *, alpha=1"),
                     function("operator.sub", "input, other"),
                     in_place(function("operator.isub", "input, other")),
                     method("sub", "input, other, *, alpha=1"),
                     in_place(method("sub_", "input, other, *, alpha=1")), method("__sub__", "input, other"),
                     function("torch.subtract", "input, other, *, alpha=1"),
                     method("subtract", "input, other, *, alpha=1"),
                     in_place(method("subtract_", "input, other, *, alpha=1")),
                     in_place(method("__isub__", "input, other"))},
       .meta = meta_arithmetic<kPromoted, '-'>,
       .lower = lower_form<kPromoted, 2, sub>,
       .examples = {{"x=f16[4,8,16], y=f16[8,1]", "x - y"},
                    {"x=bf16[33]", "1.0 - x"},
                    {"x=f32[4,3], y=f32[4,3]", "torch.sub(x, y, alpha=0.7)"},
                    {"x=i64[4,4]", "x - 1"}}},
      {.name = "rsub",
       .cls = kPoint,
       .spellings = {function("torch.rsub", "input, other, *, alpha=1"), method("__rsub__", "input, other"),
                     method("rsub", "input, other, *, alpha=1")},
       .meta = meta_form<kPromoted, 2>,
       .lower = lower_form<kPromoted, 2, rsub>,
       .examples = {{"x=f16[4,8]", "torch.rsub(x, 1.5)"},
                    {"x=f32[4], y=f32[3,1]", "torch.rsub(x, y, alpha=2)"}}},
      {.name = "mul",
       .cls = kPoint,
       .spellings = {PN_BINARY("mul", ""), function("operator.mul", "input, other"),
                     in_place(function("operator.imul", "input, other")), PN_BINARY("multiply", ""),
                     method("__mul__", "input, other"), method("__rmul__", "input, other"),
                     in_place(method("__imul__", "input, other"))},
       .meta = meta_arithmetic<kPromoted, '*'>,
       .lower = lower_form<kPromoted, 2, mul>,
       .examples = {{"x=f16[2,5,16], y=f16[2,1,16]", "x * y"},
                    {"x=bf16[4,8]", "x * 0.1767766952966369"},
                    {"x=f32[3,4]{1,3}, y=f32[4]", "torch.mul(x, y)"},
                    {"x=f32[7], y=bool[7]", "x * y"},
                    {"x=bool[7], y=bool[7]", "x * y"}}},
      {.name = "div",
       .cls = kPoint,
       .spellings = {PN_BINARY("div", ", *, rounding_mode=None"),
                     function("operator.truediv", "input, other"),
                     in_place(function("operator.itruediv", "input, other")),
                     PN_BINARY("divide", ", *, rounding_mode=None"), PN_BINARY("true_divide", ""),
                     method("__truediv__", "input, other"), in_place(method("__itruediv__", "input, other"))},
       .meta = meta_div,
       .lower = lower_div,
       .examples = {{"x=f16[4,8], y=f16[4,1]", "x / y"},
                    {"x=bf16[4,8]", "x / 11.313708498984761"},
                    {"x=f32[4,8]", "x / 3"},
                    {"x=f16[9]", "2.0 / x"},
                    {"x=i64[9]", "x / 7"},
                    {"x=i64[9]", "torch.div(x, 4, rounding_mode='trunc')"},
                    {"x=f32[9]", "3.0 / x"},
                    {"x=f16[9], y=f16[9]", "torch.div(x, y, rounding_mode='trunc')"},
                    {"x=bf16[9]", "torch.div(x, 0.3, rounding_mode='trunc')"},
                    {"x=f32[9]", "torch.div(x, 4, rounding_mode='floor')"}}},
      {.name = "floor_divide",
       .cls = kPoint,
       .spellings = {PN_BINARY("floor_divide", ""), function("operator.floordiv", "input, other"),
                     in_place(function("operator.ifloordiv", "input, other")),
                     method("__floordiv__", "input, other"),
                     in_place(method("__ifloordiv__", "input, other"))},
       .meta = meta_arithmetic<kPromoted, '|'>,
       .lower = lower_form<kPromoted, 2, floored>,
       .examples = {{"x=i64[9]", "x // 4"},
                    {"x=i32[4,1], y=i64[5]", "torch.floor_divide(x, y)"},
                    {"x=f32[9]", "x // 0.3"},
                    {"x=f16[9], y=f16[9]", "x // y"},
                    {"x=f16[9]", "x // 0.3"}}},
      {.name = "remainder",
       .cls = kPoint,
       .spellings = {PN_BINARY("remainder", ""), function("operator.mod", "input, other"),
                     in_place(function("operator.imod", "input, other")), method("__mod__", "input, other")},
       .meta = meta_arithmetic<kPromoted, '%'>,
       .lower = lower_form<kPromoted, 2, modulo, NumberRule::kElement>,
       .examples = {{"x=i64[9]", "x % 4"},
                    {"x=f32[4,5], y=f32[5]", "torch.remainder(x, y)"},
                    {"x=f16[9], y=f16[9]", "x % y"},
                    {"x=f16[9]", "x % 0.3"}}},
      {.name = "fmod",
       .cls = kPoint,
       .spellings = {PN_BINARY("fmod", "")},
       .meta = meta_form<kPromoted, 2>,
       .lower = lower_form<kPromoted, 2, fmod_of, NumberRule::kElement>,
       .examples = {{"x=i64[9]", "torch.fmod(x, 4)"}, {"x=f32[4,5], y=f32[5]", "torch.fmod(x, y)"}}},
      {.name = "pow",
       .cls = kPoint,
       .spellings = {function("torch.pow", "input, exponent"), function("operator.pow", "input, exponent"),
                     in_place(function("operator.ipow", "input, exponent")), method("pow", "input, exponent"),
                     in_place(method("pow_", "input, exponent")), method("__pow__", "input, exponent")},
       .meta = meta_form<kPromoted, 2>,
       .lower = lower_form<kPromoted, 2, power, NumberRule::kElement>,
       .examples = {{"x=f16[4,8]", "x.pow(2)"},
                    {"x=bf16[4,8]", "x ** 3"},
                    {"x=f32[9]", "torch.pow(x, 0.5)"},
                    {"x=f32[9]", "torch.pow(x, -0.5)"},
                    {"x=f16[9]", "torch.pow(x, 1.7)"},
                    {"x=f16[9]", "torch.pow(x, -2)"},
                    {"x=f32[9]", "torch.pow(10000.0, x)"},
                    {"x=f32[3,1], y=f32[4]", "x ** y"},
                    {"x=f16[9], y=f16[9]", "x ** y"},
                    {"x=i64[6]", "x ** 2"},
                    {"x=i64[6]", "x ** 0.5"}}},
      {.name = "square",
       .cls = kPoint,
       .spellings = {PN_UNARY("square")},
       .meta = meta_square,
       .lower = lower_square,
       .examples = {{"x=bf16[4,8]", "torch.square(x)"},
                    {"x=i64[4]", "torch.square(x)"},
                    {"x=bool[4]", "torch.square(x)"}}},
      {.name = "maximum",
       .cls = kPoint,
       .spellings = {function("torch.maximum", "input, other"), method("maximum", "input, other"),
                     function("torch.max", "input, other:tensor"), method("max", "input, other:tensor")},
       .meta = meta_form<kPromoted, 2>,
       .lower = lower_form<kPromoted, 2, larger>,
       .examples = {{"x=f16[4,8], y=f16[8]", "torch.maximum(x, y)"},
                    {"x=f32[4,1], y=f32[8]", "torch.max(x, y)"}}},
      {.name = "minimum",
       .cls = kPoint,
       .spellings = {function("torch.minimum", "input, other"), method("minimum", "input, other"),
                     function("torch.min", "input, other:tensor"), method("min", "input, other:tensor")},
       .meta = meta_form<kPromoted, 2>,
       .lower = lower_form<kPromoted, 2, smaller>,
       .examples = {{"x=bf16[4,8], y=bf16[8]", "torch.minimum(x, y)"},
                    {"x=i64[4,1], y=i64[8]", "torch.min(x, y)"}}},
      {.name = "fmax",
       .cls = kPoint,
       .spellings = {function("torch.fmax", "input, other"), method("fmax", "input, other")},
       .meta = meta_form<kPromoted, 2>,
       .lower = lower_form<kPromoted, 2, fmax_of>,
       .examples = {{"x=f32[4,8], y=f32[8]", "torch.fmax(x, y)"}}},
      {.name = "fmin",
       .cls = kPoint,
       .spellings = {function("torch.fmin", "input, other"), method("fmin", "input, other")},
       .meta = meta_form<kPromoted, 2>,
       .lower = lower_form<kPromoted, 2, fmin_of>,
       .examples = {{"x=f32[4,8], y=f32[8]", "torch.fmin(x, y)"}}},
      {.name = "atan2",
       .cls = kPoint,
       .spellings = {PN_BINARY("atan2", ""), function("torch.arctan2", "input, other")},
       .meta = meta_form<kFloat, 2>,
       .lower = lower_form<kFloat, 2, atan2_of>,
       .examples = {{"x=f32[4,8], y=f32[8]", "torch.atan2(x, y)"}}},
      {.name = "copysign",
       .cls = kPoint,
       .spellings = {PN_BINARY("copysign", "")},
       .meta = meta_form<kFloat, 2>,
       .lower = lower_form<kFloat, 2, copysign_of>,
       .examples = {{"x=f16[4,8], y=f16[8]", "torch.copysign(x, y)"}}},
  };
}

}  // namespace passnet
