#include <algorithm>
#include <cmath>

#include "ops/pointwise_rows.h"

namespace passnet {

namespace {

constexpr auto kFirst = ResultRule::kFirst;
constexpr auto kPoint = OpClass::kPointwise;

// The operand may be the other branch's only by select, so that each formula reads as ATen's functor does. All
// constants are of the opmath; products and sums are separate roundings unless fma is written.

Result<double> number(const FormArgs& f, std::string_view name) { return real_arg(f.call, name); }

// clamp_min(x, 0): NaN stays.
E relu(const FormArgs& f) {
  if (f.common == DType::kBool) return f.x[0];
  return maximum(f.x[0], f.x[0].constant(0));
}

Result<E> gelu(const FormArgs& f) {
  PN_TRY(const std::string approximate, string_arg(f.call, "approximate"));
  const E x = f.x[0];
  if (approximate == "none") return x * 0.5 * (1.0 + call(Fn::kErf, x * std::sqrt(0.5)));
  if (approximate != "tanh") return bad_argument(f.call, "approximate", "'none' or 'tanh'");
  // kBeta = sqrt(2) * (2 / sqrt(pi)) * 0.5; x + kKappa * x^3 is contracted.
  constexpr double kBeta = 1.41421356237309504880 * 1.12837916709551257390 * 0.5;
  const E cube = x * x * x;
  const E inner = x.constant(kBeta) * fma(x.constant(0.044715), cube, x);
  return 0.5 * x * (1.0 + tanh(inner));
}

E silu(const FormArgs& f) { return f.x[0] / (1.0 + exp(-f.x[0])); }

E mish(const FormArgs& f) { return f.x[0] * tanh(log1p(exp(f.x[0]))); }

Result<E> softplus(const FormArgs& f) {
  PN_TRY(const double beta, number(f, "beta"));
  PN_TRY(const double threshold, number(f, "threshold"));
  const E x = f.x[0], scaled = x * beta;
  return select(greater(scaled, x.constant(threshold)), x, log1p(exp(scaled)) / beta);
}

E six_sided(const E& x) { return minimum(maximum(x + 3.0, x.constant(0)), x.constant(6)); }
E sixth(const E& x) { return x.constant(static_cast<double>(1.0f / 6.0f)); }
E hardswish(const FormArgs& f) { return f.x[0] * six_sided(f.x[0]) * sixth(f.x[0]); }
E hardsigmoid(const FormArgs& f) { return six_sided(f.x[0]) * sixth(f.x[0]); }

E clamped(const E& x, double low, double high) {
  return minimum(maximum(x, x.constant(low)), x.constant(high));
}
// (Bounds of an integer operand are cut to integers, as constants of such a type are.)
Result<E> hardtanh(const FormArgs& f) {
  PN_TRY(const double low, number(f, "min_val"));
  PN_TRY(const double high, number(f, "max_val"));
  return clamped(f.x[0], low, high);
}
E relu6(const FormArgs& f) { return clamped(f.x[0], 0, 6); }

Result<E> leaky_relu(const FormArgs& f) {
  PN_TRY(const double slope, number(f, "negative_slope"));
  const E x = f.x[0];
  return select(greater(x, x.constant(0)), x, x * slope);
}

// x > 0 ? x * scale : expm1(x * input_scale) * (alpha * scale); the constants are formed in the opmath.
E elu_form(const E& x, double alpha, double scale, double input_scale) {
  const double factor = static_cast<double>(static_cast<float>(alpha) * static_cast<float>(scale));
  return select(greater(x, x.constant(0)), x * scale, call(Fn::kExpm1, x * input_scale) * factor);
}
Result<E> elu(const FormArgs& f) {
  PN_TRY(const double alpha, number(f, "alpha"));
  return elu_form(f.x[0], alpha, 1, 1);
}
E selu(const FormArgs& f) {
  return elu_form(f.x[0], 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1);
}
Result<E> celu(const FormArgs& f) {
  PN_TRY(const double alpha, number(f, "alpha"));
  return elu_form(f.x[0], alpha, 1, 1.0 / alpha);
}

E log_sigmoid(const FormArgs& f) {
  const E x = f.x[0];
  return minimum(x.constant(0), x) - log1p(exp(-abs(x)));
}

Result<E> threshold(const FormArgs& f) {
  PN_TRY(const double bound, number(f, "threshold"));
  PN_TRY(const double value, number(f, "value"));
  const E x = f.x[0];
  // Both numbers are of the element type in the functor.
  return select(call(Fn::kLe, x, x.constant(round_to(bound, f.common))),
                x.constant(round_to(value, f.common)), x);
}

Result<E> hardshrink(const FormArgs& f) {
  PN_TRY(const double lambda, number(f, "lambd"));
  const E x = f.x[0], bound = x.constant(round_to(lambda, f.common));
  const E inside = call(Fn::kAnd, call(Fn::kGe, x, -bound), call(Fn::kLe, x, bound));
  return select(inside, x.constant(0), x);
}

Result<E> softshrink(const FormArgs& f) {
  PN_TRY(const double lambda, number(f, "lambd"));
  const E x = f.x[0], bound = x.constant(round_to(lambda, f.common));
  // NaN stays: neither comparison holds and it is not replaced by 0.
  return select(greater(x, bound), x - bound,
                select(less(x, -bound), x + bound, select(call(Fn::kIsNan, x), x, x.constant(0))));
}

// Python compositions: each step is an operation of its own and rounds.
E rounded(const FormArgs& f, const E& x) { return x.cast(f.common).cast(x.type()); }
E tanhshrink(const FormArgs& f) { return f.x[0] - rounded(f, tanh(f.x[0])); }
Result<E> softsign(const FormArgs& f) {
  const TensorMeta* input = f.call.tensor("input");
  if (input != nullptr && is_integral(input->dtype, false) && size_of(input->dtype) < 4)
    return no_lowering(f.call, "|x| + 1 may overflow in an integer type of that size");
  return f.x[0] / rounded(f, abs(f.x[0]) + 1.0);
}

// ---- prelu: the weight lies along axis 1, or is one number ----

Result<std::vector<int64_t>> weight_shape(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(const TensorMeta* weight, tensor_arg(call, "weight"));
  if (weight->dim() > 1) return bad_argument(call, "weight", "of at most one dimension");
  std::vector<int64_t> shape(static_cast<size_t>(input->dim()), 1);
  if (weight->numel() != 1) {
    if (input->dim() < 2 || input->shape[1] != weight->numel()) {
      return bad_argument(call, "weight", "as long as the operand's axis 1");
    }
    shape[1] = weight->numel();
  }
  return shape;
}

Result<Inferred> meta_prelu(const Call& call) {
  PN_TRY(std::vector<int64_t> shape, weight_shape(call));
  const TensorMeta& input = *call.tensor("input");
  TensorMeta weight = *call.tensor("weight");
  weight.shape = shape;
  weight.stride = contiguous_strides(shape);
  for (int64_t& s : *weight.stride) s = weight.numel() == 1 ? 0 : s;
  const TensorMeta* both[] = {&input, &weight};
  return fresh(input.shape, input.dtype, iterator_strides(input.shape, both));
}

Result<std::vector<ArrayId>> lower_prelu(LowerContext& ctx, const Call& call) {
  Program& p = ctx.program();
  PN_TRY(const std::vector<int64_t> shape, weight_shape(call));
  const TensorMeta& result = call.node->meta.tensor;
  PN_TRY(const ArrayId input, ctx.array(call.arg("input")));
  PN_TRY(const ArrayId weight, ctx.array(call.arg("weight")));
  const auto at = identity(p, result.shape);
  const DType wide = opmath(result.dtype);
  const E x = E{&p, p.read(input, at)}.cast(wide);
  std::vector<ExprId> weight_at;
  if (!p.array(weight).shape.empty())
    weight_at.push_back(p.array(weight).shape[0] == 1 ? p.integer(0) : at[1]);
  const E w = E{&p, p.read(weight, weight_at)}.cast(result.dtype).cast(wide);
  const E value = select(greater(x, x.constant(0)), x, w * x).cast(result.dtype);
  return std::vector<ArrayId>{p.add_map(result.shape, result.dtype, value.id, label_of(call), call.node->id)};
}

// ---- glu: first half times the sigmoid of the second ----

Result<int> glu_axis(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(const int axis, axis_arg(call, "dim", input->dim()));
  if (input->dim() == 0 || input->shape[static_cast<size_t>(axis)] % 2 != 0) {
    return bad_argument(call, "dim", "an axis of even size");
  }
  return axis;
}

Result<Inferred> meta_glu(const Call& call) {
  PN_TRY(const int axis, glu_axis(call));
  TensorMeta half = *call.tensor("input");
  half.shape[static_cast<size_t>(axis)] /= 2;
  const TensorMeta* both[] = {&half, &half};
  return fresh(half.shape, half.dtype, iterator_strides(half.shape, both));
}

Result<std::vector<ArrayId>> lower_glu(LowerContext& ctx, const Call& call) {
  Program& p = ctx.program();
  PN_TRY(const int axis, glu_axis(call));
  const TensorMeta& result = call.node->meta.tensor;
  PN_TRY(const ArrayId input, ctx.array(call.arg("input")));
  const DType wide = opmath(result.dtype);
  auto at = identity(p, result.shape);
  const E a = E{&p, p.read(input, at)}.cast(wide);
  ExprId& moved = at[static_cast<size_t>(axis)];
  moved = p.call(Fn::kAdd, {moved, p.integer(result.shape[static_cast<size_t>(axis)])});
  const E b = E{&p, p.read(input, at)}.cast(wide);
  const E value = (a * (1.0 / (1.0 + exp(-b)))).cast(result.dtype);
  return std::vector<ArrayId>{p.add_map(result.shape, result.dtype, value.id, label_of(call), call.node->id)};
}

// Activations of torch.nn.functional: refused for integers, result of the operand's type and layout.
Result<Inferred> meta_activation(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  if (!is_floating(input->dtype)) return bad_argument(call, "input", "of a float type");
  return pointwise_meta(call, 1, kFirst);
}

// Those that take integers too, if not bools.
template <ResultRule kRule>
Result<Inferred> meta_of_numbers(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  if (input->dtype == DType::kBool || is_complex(input->dtype))
    return bad_argument(call, "input", "of a float or integer type");
  return pointwise_meta(call, 1, kRule);
}

// An unsigned type has no negative bound.
Result<Inferred> meta_hardtanh(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  if (input->dtype == DType::kUInt8) {
    PN_TRY(const double low, real_arg(call, "min_val"));
    PN_TRY(const double high, real_arg(call, "max_val"));
    if (low < 0 || high < 0) return bad_argument(call, "min_val", "not negative for an unsigned type");
  }
  return meta_of_numbers<ResultRule::kFirst>(call);
}

template <auto kFormula>
constexpr LowerFn kLower = lower_form<kFirst, 1, kFormula>;

OpRow activation(std::string_view name, std::vector<Spelling> spellings, LowerFn lower,
                 std::vector<Example> more = {}, MetaFn meta = meta_activation) {
  std::vector<Example> examples = {{"x=f16[4,33]", ""}, {"x=bf16[4,33]", ""}, {"x=f32[3,5]{1,3}", ""}};
  examples.insert(examples.end(), more.begin(), more.end());
  return {.name = name,
          .cls = kPoint,
          .spellings = std::move(spellings),
          .meta = meta,
          .lower = lower,
          .examples = std::move(examples)};
}

// torch.nn.functional.f and the extension's function of the same name with the same parameters.
#define PN_NN(name, signature)                                                             \
  function("torch.nn.functional." name, "input" signature), function("torch._C._nn." name, \
                                                                     "inpu"                \
                                                                     "t" signature)

}  // namespace

std::vector<OpRow> activation_rows() {
  return {
      {.name = "relu",
       .cls = kPoint,
       .spellings = {function("torch.nn.functional.relu", "input, inplace=False"), PN_UNARY("relu"),
                     in_place(function("torch.nn.functional.relu_", "input"))},
       .meta = meta_form<ResultRule::kPromoted, 1>,
       .lower = lower_form<ResultRule::kPromoted, 1, relu>,
       .examples = {{"x=f16[4,33]", "torch.nn.functional.relu(x)"},
                    {"x=bf16[4,33]", "torch.nn.functional.relu(x, inplace=True)"},
                    {"x=f32[2,3,4,4]{48,1,12,3}", "torch.relu(x)"},
                    {"x=i64[9]", "x.relu()"}}},
      {.name = "relu6",
       .cls = kPoint,
       .spellings = {function("torch.nn.functional.relu6", "input, inplace=False"),
                     function("torch._C._nn.relu6", "input"),
                     in_place(function("torch._C._nn.relu6_", "input"))},
       .meta = meta_of_numbers<ResultRule::kPromoted>,
       .lower = lower_form<ResultRule::kPromoted, 1, relu6>,
       .examples = {{"x=f16[4,33]", "torch.nn.functional.relu6(x, True)"},
                    {"x=f32[4,33]", "torch.nn.functional.relu6(x)"}}},
      activation("gelu", {PN_NN("gelu", ", *, approximate='none'")}, kLower<gelu>,
                 {{"x=f16[4,33]", "torch.nn.functional.gelu(x, approximate='tanh')"},
                  {"x=f32[4,33]", "torch.nn.functional.gelu(x, approximate='tanh')"}}),
      activation("silu",
                 {function("torch.nn.functional.silu", "input, inplace=False"),
                  function("torch._C._nn.silu", "input"), in_place(function("torch._C._nn.silu_", "input"))},
                 kLower<silu>, {{"x=f16[4,8]", "torch.nn.functional.silu(x, inplace=True)"}}),
      activation("mish",
                 {function("torch.nn.functional.mish", "input, inplace=False"),
                  function("torch._C._nn.mish", "input"), in_place(function("torch._C._nn.mish_", "input"))},
                 kLower<mish>),
      activation("softplus", {PN_NN("softplus", ", beta=1, threshold=20")}, kLower<softplus>,
                 {{"x=f16[4,8]", "torch.nn.functional.softplus(x, 2.0, 3.0)"}}),
      activation("hardswish",
                 {function("torch.nn.functional.hardswish", "input, inplace=False"),
                  function("torch._C._nn.hardswish", "input"),
                  in_place(function("torch._C._nn.hardswish_", "input"))},
                 kLower<hardswish>),
      activation("hardsigmoid",
                 {function("torch.nn.functional.hardsigmoid", "input, inplace=False"),
                  function("torch._C._nn.hardsigmoid", "input"),
                  in_place(function("torch._C._nn.hardsigmoid_", "input"))},
                 kLower<hardsigmoid>),
      activation("hardtanh",
                 {function("torch.nn.functional.hardtanh", "input, min_val=-1.0, max_val=1.0, inplace=False"),
                  function("torch._C._nn.hardtanh", "input, min_val=-1, max_val=1"),
                  in_place(function("torch._C._nn.hardtanh_", "input, min_val=-1, max_val=1")),
                  in_place(function("torch.nn.functional.hardtanh_", "input, min_val=-1, max_val=1"))},
                 kLower<hardtanh>,
                 {{"x=f16[4,8]", "torch.nn.functional.hardtanh(x, 0.0, 6.0, False)"},
                  {"x=i64[4,8]", "torch.nn.functional.hardtanh(x, -1.7, 1.5)"}},
                 meta_hardtanh),
      activation("leaky_relu",
                 {function("torch.nn.functional.leaky_relu", "input, negative_slope=0.01, inplace=False"),
                  function("torch._C._nn.leaky_relu", "input, negative_slope=0.01"),
                  in_place(function("torch._C._nn.leaky_relu_", "input, negative_slope=0.01")),
                  in_place(function("torch.nn.functional.leaky_relu_", "input, negative_slope=0.01"))},
                 kLower<leaky_relu>, {{"x=f16[4,8]", "torch.nn.functional.leaky_relu(x, 0.2, True)"}}),
      activation("elu",
                 {function("torch.nn.functional.elu", "input, alpha=1.0, inplace=False"),
                  in_place(function("torch.nn.functional.elu_", "input, alpha=1.0"))},
                 kLower<elu>, {{"x=f16[4,8]", "torch.nn.functional.elu(x, 1.3, False)"}}),
      activation("selu", {function("torch.nn.functional.selu", "input, inplace=False"), PN_UNARY("selu")},
                 kLower<selu>),
      activation("celu",
                 {function("torch.nn.functional.celu", "input, alpha=1.0, inplace=False"),
                  function("torch.celu", "input, alpha=1.0")},
                 kLower<celu>, {{"x=f16[4,8]", "torch.celu(x, 1.3)"}}),
      activation("log_sigmoid",
                 {function("torch.nn.functional.logsigmoid", "input"),
                  function("torch._C._nn.log_sigmoid", "input")},
                 kLower<log_sigmoid>),
      {.name = "threshold",
       .cls = kPoint,
       .spellings = {function("torch.nn.functional.threshold", "input, threshold, value, inplace=False"),
                     function("torch.threshold", "input, threshold, value"),
                     in_place(function("torch.threshold_", "input, threshold, value"))},
       .meta = meta_of_numbers<ResultRule::kFirst>,
       .lower = kLower<threshold>,
       .examples = {{"x=f16[4,33]", "torch.nn.functional.threshold(x, 0.1, 20.0)"},
                    {"x=i32[4,8]", "torch.nn.functional.threshold(x, 1.9, -2.5)"},
                    {"x=f32[4,33]", "torch.threshold(x, 0.1, 0.3)"}}},
      activation("hardshrink",
                 {function("torch.nn.functional.hardshrink", "input, lambd=0.5"),
                  function("torch.hardshrink", "input, lambd=0.5"), method("hardshrink", "input, lambd=0.5")},
                 kLower<hardshrink>),
      activation("softshrink", {PN_NN("softshrink", ", lambd=0.5")}, kLower<softshrink>),
      activation("tanhshrink", {function("torch.nn.functional.tanhshrink", "input")},
                 lower_form<ResultRule::kFloat, 1, tanhshrink>,
                 {{"x=i64[4,8]", "torch.nn.functional.tanhshrink(x)"}}, meta_of_numbers<ResultRule::kFloat>),
      activation("softsign", {function("torch.nn.functional.softsign", "input")},
                 lower_form<ResultRule::kFloat, 1, softsign>,
                 {{"x=i64[4,8]", "torch.nn.functional.softsign(x)"}}, meta_of_numbers<ResultRule::kFloat>),
      {.name = "prelu",
       .cls = kPoint,
       .spellings = {function("torch.prelu", "input, weight"), method("prelu", "input, weight"),
                     function("torch.nn.functional.prelu", "input, weight")},
       .meta = meta_prelu,
       .lower = lower_prelu,
       .examples = {{"x=f16[2,6,4,4], w=f16[6]", "torch.prelu(x, w)"},
                    {"x=f32[2,6], w=f32[1]", "torch.nn.functional.prelu(x, w)"},
                    {"x=bf16[2,3,4,4]{48,1,12,3}, w=bf16[3]", "torch.prelu(x, w)"}}},
      {.name = "glu",
       .cls = kPoint,
       .spellings = {function("torch.nn.functional.glu", "input, dim=-1"),
                     function("torch._C._nn.glu", "input, dim=-1")},
       .meta = meta_glu,
       .lower = lower_glu,
       .examples = {{"x=f16[4,6,8]", "torch.nn.functional.glu(x, dim=1)"},
                    {"x=f32[4,6,8]", "torch.nn.functional.glu(x)"}}},
  };
}

}  // namespace passnet
