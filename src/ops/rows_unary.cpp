#include <cmath>

#include "ops/pointwise_rows.h"

namespace passnet {

namespace {

constexpr auto kPromoted = ResultRule::kPromoted;
constexpr auto kFloat = ResultRule::kFloat;
constexpr auto kBool = ResultRule::kBool;
constexpr auto kPoint = OpClass::kPointwise;

template <Fn kFn>
E apply(const FormArgs& f) {
  return call(kFn, f.x[0]);
}

// Rounding functions leave integers alone.
template <Fn kFn>
E apply_to_floats(const FormArgs& f) {
  return is_floating(f.x[0].type()) ? call(kFn, f.x[0]) : f.x[0];
}

Result<E> negative(const FormArgs& f) {
  if (f.common == DType::kBool) return no_lowering(f.call, "the negative of a bool");
  return -f.x[0];
}
E absolute(const FormArgs& f) { return f.common == DType::kBool ? f.x[0] : abs(f.x[0]); }
E sign_of(const FormArgs& f) { return f.common == DType::kBool ? f.x[0] : call(Fn::kSign, f.x[0]); }
E reciprocal(const FormArgs& f) { return 1.0 / f.x[0]; }

// 1 / (1 + exp(-x)): all in the opmath.
E sigmoid(const FormArgs& f) { return 1.0 / (1.0 + exp(-f.x[0])); }

Result<E> logit(const FormArgs& f) {
  const Value eps = known_value(f.call, f.call.arg("eps"));
  const E x = f.x[0];
  if (eps.is_none()) return log(x / (1.0 - x));
  PN_TRY(const double e, real_arg(f.call, "eps"));
  // Bounds are formed in the opmath: 1 - eps after eps was rounded.
  const E low = x.constant(e), high = 1.0 - low;
  const E z = select(less(x, low), low, select(greater(x, high), high, x));
  return log(z / (1.0 - z));
}

Result<E> round_half_even(const FormArgs& f) {
  PN_TRY(const int64_t decimals, int_arg(f.call, "decimals"));
  if (!is_floating(f.x[0].type())) return f.x[0];
  if (decimals == 0) return call(Fn::kRint, f.x[0]);
  // The power of ten is a float; a negative one divides first.
  const double ten = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  const E x = f.x[0];
  return decimals > 0 ? call(Fn::kRint, x * ten) / ten : call(Fn::kRint, x / ten) * ten;
}

Result<E> replace_nan(const FormArgs& f) {
  const E x = f.x[0];
  if (!is_floating(x.type())) return x;
  const double largest = f.common == DType::kFloat16    ? 65504.0
                         : f.common == DType::kBFloat16 ? 3.3895313892515355e38
                         : f.common == DType::kFloat32  ? 3.4028234663852886e38
                                                        : 1.7976931348623157e308;
  const auto value = [&](std::string_view name, double fallback) -> Result<double> {
    if (is_none(f.call, name)) return fallback;
    return real_arg(f.call, name);
  };
  PN_TRY(const double nan, value("nan", 0.0));
  PN_TRY(const double high, value("posinf", largest));
  PN_TRY(const double low, value("neginf", -largest));
  const auto element = [&](double v) { return x.constant(round_to(v, f.common)); };
  const E infinite = x.constant(std::numeric_limits<double>::infinity());
  return select(call(Fn::kIsNan, x), element(nan),
                select(equal(x, infinite), element(high), select(equal(x, -infinite), element(low), x)));
}

E not_a_number(const FormArgs& f) {
  return is_floating(f.x[0].type()) ? call(Fn::kIsNan, f.x[0]) : E{&f.program, f.program.boolean(false)};
}
E infinite(const FormArgs& f) {
  return is_floating(f.x[0].type()) ? call(Fn::kIsInf, f.x[0]) : E{&f.program, f.program.boolean(false)};
}
E finite(const FormArgs& f) {
  const E x = f.x[0];
  if (!is_floating(x.type())) return {&f.program, f.program.boolean(true)};
  return call(Fn::kNot, call(Fn::kOr, call(Fn::kIsNan, x), call(Fn::kIsInf, x)));
}

E log_of(const FormArgs& f) { return log(f.x[0]); }

// Float functions: float32 for integers.
OpRow float_row(std::string_view name, std::vector<Spelling> spellings, LowerFn lower) {
  return {.name = name,
          .cls = kPoint,
          .spellings = std::move(spellings),
          .meta = meta_form<kFloat, 1>,
          .lower = lower,
          .examples = {{"x=f16[4,33]", ""}, {"x=bf16[4,33]", ""}, {"x=f32[3,5]{1,3}", ""}, {"x=i64[7]", ""}}};
}

// Functions of the operand's own type.
OpRow same_row(std::string_view name, std::vector<Spelling> spellings, LowerFn lower) {
  return {.name = name,
          .cls = kPoint,
          .spellings = std::move(spellings),
          .meta = meta_form<kPromoted, 1>,
          .lower = lower,
          .examples = {{"x=f16[4,33]", ""}, {"x=bf16[4,33]", ""}, {"x=f32[3,5]{1,3}", ""}, {"x=i64[7]", ""}}};
}

OpRow test_row(std::string_view name, std::vector<Spelling> spellings, LowerFn lower) {
  return {.name = name,
          .cls = kPoint,
          .spellings = std::move(spellings),
          .meta = meta_form<kBool, 1>,
          .lower = lower,
          .examples = {{"x=f16[4,33]", ""}, {"x=f32[3,5]", ""}, {"x=i64[7]", ""}}};
}

template <Fn kFn>
constexpr LowerFn kFloatFn = lower_form<kFloat, 1, apply<kFn>>;
template <Fn kFn>
constexpr LowerFn kRoundFn = lower_form<kPromoted, 1, apply_to_floats<kFn>>;

}  // namespace

// Examples without text call the first spelling on x.
std::vector<OpRow> unary_rows() {
  return {
      float_row("exp", {PN_UNARY("exp")}, kFloatFn<Fn::kExp>),
      float_row("exp2", {PN_UNARY("exp2"), function("torch.special.exp2", "input")}, kFloatFn<Fn::kExp2>),
      float_row("expm1", {PN_UNARY("expm1"), function("torch.special.expm1", "input")}, kFloatFn<Fn::kExpm1>),
      float_row("log", {PN_UNARY("log")}, lower_form<kFloat, 1, log_of>),
      float_row("log2", {PN_UNARY("log2")}, kFloatFn<Fn::kLog2>),
      float_row("log10", {PN_UNARY("log10")}, kFloatFn<Fn::kLog10>),
      float_row("log1p", {PN_UNARY("log1p"), function("torch.special.log1p", "input")}, kFloatFn<Fn::kLog1p>),
      float_row("sqrt", {PN_UNARY("sqrt")}, kFloatFn<Fn::kSqrt>),
      float_row("rsqrt", {PN_UNARY("rsqrt")}, kFloatFn<Fn::kRsqrt>),
      float_row("reciprocal", {PN_UNARY("reciprocal")}, lower_form<kFloat, 1, reciprocal>),
      float_row("sin", {PN_UNARY("sin")}, kFloatFn<Fn::kSin>),
      float_row("cos", {PN_UNARY("cos")}, kFloatFn<Fn::kCos>),
      float_row("tan", {PN_UNARY("tan")}, kFloatFn<Fn::kTan>),
      float_row("asin", {PN_UNARY("asin"), function("torch.arcsin", "input"), method("arcsin", "input")},
                kFloatFn<Fn::kAsin>),
      float_row("acos", {PN_UNARY("acos"), function("torch.arccos", "input"), method("arccos", "input")},
                kFloatFn<Fn::kAcos>),
      float_row("atan", {PN_UNARY("atan"), function("torch.arctan", "input"), method("arctan", "input")},
                kFloatFn<Fn::kAtan>),
      float_row("sinh", {PN_UNARY("sinh")}, kFloatFn<Fn::kSinh>),
      float_row("cosh", {PN_UNARY("cosh")}, kFloatFn<Fn::kCosh>),
      float_row("tanh", {PN_UNARY("tanh"), function("torch.nn.functional.tanh", "input")},
                kFloatFn<Fn::kTanh>),
      float_row("erf", {PN_UNARY("erf"), function("torch.special.erf", "input")}, kFloatFn<Fn::kErf>),
      float_row("erfc", {PN_UNARY("erfc"), function("torch.special.erfc", "input")}, kFloatFn<Fn::kErfc>),
      float_row("sigmoid",
                {PN_UNARY("sigmoid"), function("torch.nn.functional.sigmoid", "input"),
                 function("torch.special.expit", "input")},
                lower_form<kFloat, 1, sigmoid>),
      {.name = "logit",
       .cls = kPoint,
       .spellings = {function("torch.logit", "input, eps=None"), method("logit", "input, eps=None"),
                     function("torch.special.logit", "input, eps=None"),
                     in_place(method("logit_", "input, eps=None"))},
       .meta = meta_form<kFloat, 1>,
       .lower = lower_form<kFloat, 1, logit>,
       .examples = {{"x=f32[9]", "torch.logit(x, eps=0.001)"}, {"x=f16[9]", "torch.logit(x)"}}},
      same_row("neg",
               {PN_UNARY("neg"), function("operator.neg", "input"), function("torch.negative", "input"),
                method("__neg__", "input"), method("negative", "input")},
               lower_form<kPromoted, 1, negative>),
      same_row("abs",
               {PN_UNARY("abs"), function("operator.abs", "input"), function("torch.absolute", "input"),
                method("absolute", "input"), method("__abs__", "input")},
               lower_form<kPromoted, 1, absolute>),
      same_row("sign",
               {function("torch.sign", "input"), method("sign", "input"), in_place(method("sign_", "input")),
                function("torch.sgn", "input"), method("sgn", "input")},
               lower_form<kPromoted, 1, sign_of>),
      same_row("floor", {PN_UNARY("floor")}, kRoundFn<Fn::kFloor>),
      same_row("ceil", {PN_UNARY("ceil")}, kRoundFn<Fn::kCeil>),
      same_row("trunc", {PN_UNARY("trunc"), function("torch.fix", "input"), method("fix", "input")},
               kRoundFn<Fn::kTrunc>),
      {.name = "round",
       .cls = kPoint,
       .spellings = {function("torch.round", "input, *, decimals=0"), method("round", "input, decimals=0"),
                     in_place(method("round_", "input, decimals=0")),
                     function("torch.special.round", "input, *, decimals=0")},
       .meta = meta_form<kPromoted, 1>,
       .lower = lower_form<kPromoted, 1, round_half_even>,
       .examples = {{"x=f16[4,33]", "torch.round(x)"},
                    {"x=f32[9]", "torch.round(x, decimals=2)"},
                    {"x=i64[3]", "x.round()"}}},
      {.name = "nan_to_num",
       .cls = kPoint,
       .spellings = {function("torch.nan_to_num", "input, nan=0.0, posinf=None, neginf=None"),
                     method("nan_to_num", "input, nan=0.0, posinf=None, neginf=None"),
                     in_place(method("nan_to_num_", "input, nan=0.0, posinf=None, neginf=None"))},
       .meta = meta_form<kPromoted, 1>,
       .lower = lower_form<kPromoted, 1, replace_nan>,
       .examples = {{"x=f16[9]", "torch.nan_to_num(x)"},
                    {"x=f32[9]", "torch.nan_to_num(x, 1.0, posinf=5.0)"}}},
      test_row("isnan", {function("torch.isnan", "input"), method("isnan", "input")},
               lower_form<kPromoted, 1, not_a_number>),
      test_row("isinf", {function("torch.isinf", "input"), method("isinf", "input")},
               lower_form<kPromoted, 1, infinite>),
      test_row("isfinite", {function("torch.isfinite", "input"), method("isfinite", "input")},
               lower_form<kPromoted, 1, finite>),
  };
}

}  // namespace passnet
