#include <cmath>

#include "ops/pointwise_rows.h"

namespace passnet {

namespace {

constexpr auto kPromoted = ResultRule::kPromoted;
constexpr auto kPoint = OpClass::kPointwise;

// ---- where, masked_fill: the first parameter of the formula rows below is not part of the promotion, so these read
// their condition themselves.

struct Choice {
  std::string_view condition, then_value, else_value;
};

Result<E> operand(LowerContext& ctx, const Call& call, std::string_view name, std::span<const ExprId> at,
                  DType type) {
  Program& p = ctx.program();
  const Value& given = call.arg(name);
  if (call.tensor(given)) {
    PN_TRY(const ArrayId array, ctx.array(given));
    if (is_complex(p.array(array).dtype)) return no_lowering(call, "complex numbers have no kernels");
    const E x = read_broadcast(p, array, at);
    return type == DType::kBool ? truth(x) : x.cast(type);
  }
  const Value v = known_value(call, given);
  if (!v.is_number()) return bad_argument(call, name, "a tensor or a number");
  return E{&p, v.kind() == Value::Kind::kFloat ? p.real(v.as_double(), type) : p.integer(v.as_int(), type)};
}

Result<Inferred> meta_choice(const Call& call, const Choice& choice, std::optional<DType> type) {
  std::vector<const TensorMeta*> valued, iterated;
  std::vector<Value> numbers;
  std::vector<std::vector<int64_t>> shapes;
  for (const std::string_view name : {choice.condition, choice.then_value, choice.else_value}) {
    if (const TensorMeta* t = call.tensor(name)) {
      iterated.push_back(t);
      shapes.push_back(t->shape);
      if (name != choice.condition) valued.push_back(t);
      continue;
    }
    const Value v = known_value(call, call.arg(name));
    if (!v.is_number()) return bad_argument(call, name, "a tensor or a number");
    numbers.push_back(v);
  }
  PN_TRY(std::vector<int64_t> shape, broadcast_shapes(call, shapes));
  auto stride = iterator_strides(shape, iterated);
  const DType result = type.value_or(result_type(valued, numbers));
  return fresh(std::move(shape), result, std::move(stride));
}

Result<std::vector<ArrayId>> lower_choice(LowerContext& ctx, const Call& call, const Choice& choice) {
  Program& p = ctx.program();
  const TensorMeta& result = call.node->meta.tensor;
  if (is_complex(result.dtype)) return no_lowering(call, "complex numbers have no kernels");
  const auto at = identity(p, result.shape);
  PN_TRY(const E condition, operand(ctx, call, choice.condition, at, DType::kBool));
  PN_TRY(const E a, operand(ctx, call, choice.then_value, at, result.dtype));
  PN_TRY(const E b, operand(ctx, call, choice.else_value, at, result.dtype));
  return std::vector<ArrayId>{
      p.add_map(result.shape, result.dtype, select(condition, a, b).id, label_of(call), call.node->id)};
}

constexpr Choice kWhere = {"condition", "input", "other"};
constexpr Choice kMaskedFill = {"mask", "value", "input"};

Result<Inferred> meta_where(const Call& call) {
  if (is_none(call, "input") || is_none(call, "other")) {
    Inferred positions;  // where(condition) alone: as many as there are
    return positions;
  }
  return meta_choice(call, kWhere, std::nullopt);
}
Result<std::vector<ArrayId>> lower_where(LowerContext& ctx, const Call& call) {
  if (is_none(call, "input")) return no_lowering(call, "the number of results depends on the values");
  return lower_choice(ctx, call, kWhere);
}

Result<Inferred> meta_masked_fill(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(const TensorMeta* mask, tensor_arg(call, "mask"));
  const std::vector<int64_t> shapes[] = {input->shape, mask->shape};
  PN_TRY(std::vector<int64_t> shape, broadcast_shapes(call, shapes));
  // A copy of the (expanded) operand, then the fill.
  const TensorMeta* of[] = {input};
  auto stride = iterator_strides(shape, of);
  return fresh(std::move(shape), input->dtype, std::move(stride));
}
Result<std::vector<ArrayId>> lower_masked_fill(LowerContext& ctx, const Call& call) {
  return lower_choice(ctx, call, kMaskedFill);
}

// ---- clamp ----

// With numbers: NaN stays NaN, else min(max(x, low), high) in the opmath. With tensors a NaN bound gives NaN as well.
E clamp(const FormArgs& f) {
  E x = f.x[0];
  if (f.given(1)) x = maximum(x, f.x[1]);
  if (f.given(2)) x = minimum(x, f.x[2]);
  return x;
}

Result<Inferred> meta_clamp(const Call& call) {
  if (is_none(call, "min") && is_none(call, "max")) return bad_argument(call, "min", "given, or max");
  return pointwise_meta(call, 3, kPromoted);
}

E clamp_min(const FormArgs& f) { return maximum(f.x[0], f.x[1]); }
E clamp_max(const FormArgs& f) { return minimum(f.x[0], f.x[1]); }

// ---- interpolation and fused products ----

// a + w * (b - a) for |w| < 0.5, else b - (b - a) * (1 - w): each one multiply-add that the compiler contracts.
E lerp(const FormArgs& f) {
  const E a = f.x[0], b = f.x[1], w = f.x[2], d = b - a;
  return select(less(abs(w), w.constant(0.5)), fma(w, d, a), fma(-d, 1.0 - w, b));
}

// A weight that is a number does not promote: it is of the tensors' opmath. A tensor is of their type, or has no dimensions
// and takes part in the promotion as such.
ResultRule lerp_rule(const Call& call) {
  return call.tensor("weight") != nullptr ? ResultRule::kPromoted : ResultRule::kFirst;
}

Result<Inferred> meta_lerp(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(const TensorMeta* end, tensor_arg(call, "end"));
  if (end->dtype != input->dtype) return bad_argument(call, "end", "of the input's type");
  const TensorMeta* weight = call.tensor("weight");
  if (weight != nullptr && weight->dim() > 0 && weight->dtype != input->dtype)
    return bad_argument(call, "weight", "of the input's type");
  return pointwise_meta(call, 3, lerp_rule(call));
}

Result<std::vector<ArrayId>> lower_lerp(LowerContext& ctx, const Call& call) {
  return lower_formula(ctx, call, 3, lerp_rule(call), NumberRule::kOpmath,
                       [](const FormArgs& args) -> Result<E> { return lerp(args); });
}

Result<E> addcmul(const FormArgs& f) {
  PN_TRY(const double value, real_arg(f.call, "value"));
  const E a = f.x[0], b = f.x[1], c = f.x[2];
  if (is_integral(f.common, true)) return a + (b * value) * c;
  // a + value * (b * c), the outer product and the sum contracted. For a value of 1 that leaves b * c to round alone
  // or to be contracted: the same in 16 bits, where b * c is exact in float.
  if (value == 1) return fma(b, c, a);
  return fma(b.constant(value), b * c, a);
}

Result<E> addcdiv(const FormArgs& f) {
  PN_TRY(const double value, real_arg(f.call, "value"));
  if (is_integral(f.common, true)) return bad_argument(f.call, "input", "of a float type");
  const E q = f.x[1] / f.x[2];
  return fma(q.constant(value), q, f.x[0]);  // a + value * (b / c), contracted
}

E xlogy(const FormArgs& f) {
  const E x = f.x[0], y = f.x[1];
  return select(call(Fn::kIsNan, y), y.constant(std::nan("")),
                select(equal(x, x.constant(0)), x.constant(0), x * log(y)));
}

}  // namespace

std::vector<OpRow> select_rows() {
  return {
      {.name = "where",
       .cls = kPoint,
       .spellings = {function("torch.where", "condition, input=None, other=None"),
                     method("where", "input, condition, other"),
                     function("torch.ops.aten.where.self", "condition, input, other")},
       .meta = meta_where,
       .lower = lower_where,
       .examples = {{"c=bool[4,1], x=f16[4,8], y=f16[8]", "torch.where(c, x, y)"},
                    {"c=bool[4,5], x=f16[4,5]", "torch.where(c, x, -inf)"},
                    {"c=bool[4,5]", "torch.where(c, 1.0, 0.0)"},
                    {"c=bool[4,5]", "torch.where(c, 1, 0)"},
                    {"c=bool[4], x=i64[4], y=f32[3,1]", "x.where(c, y)"}}},
      {.name = "masked_fill",
       .cls = kPoint,
       .spellings = {function("torch.masked_fill", "input, mask, value"),
                     method("masked_fill", "input, mask, value"),
                     in_place(method("masked_fill_", "input, mask, value"))},
       .meta = meta_masked_fill,
       .lower = lower_masked_fill,
       .examples = {{"x=f16[2,4,8], m=bool[4,8]", "x.masked_fill(m, -inf)"},
                    {"x=f32[2,4,8], m=bool[2,1,8]", "torch.masked_fill(x, m, -3.4028234663852886e+38)"},
                    {"x=bf16[4,8], m=bool[4,8], v=bf16[]", "x.masked_fill(m, v)"},
                    {"x=i64[4,8], m=bool[4,8]", "x.masked_fill_(m, 7)"}}},
      {.name = "clamp",
       .cls = kPoint,
       .spellings = {function("torch.clamp", "input, min=None, max=None"),
                     method("clamp", "input, min=None, max=None"),
                     in_place(method("clamp_", "input, min=None, max=None")),
                     in_place(function("torch.clamp_", "input, min=None, max=None")),
                     function("torch.clip", "input, min=None, max=None"),
                     method("clip", "input, min=None, max=None"),
                     in_place(method("clip_", "input, min=None, max=None"))},
       .meta = meta_clamp,
       .lower = lower_form<kPromoted, 3, clamp>,
       .examples = {{"x=f16[4,8]", "torch.clamp(x, -0.1, 0.3)"},
                    {"x=bf16[4,8]", "x.clamp(min=1e-05)"},
                    {"x=f32[4,8], a=f32[8]", "torch.clamp(x, a)"},
                    {"x=i64[9]", "torch.clamp(x, 0, 5)"},
                    {"x=i64[9]", "torch.clamp(x, max=2.5)"}}},
      {.name = "clamp_min",
       .cls = kPoint,
       .spellings = {function("torch.clamp_min", "input, min"), method("clamp_min", "input, min"),
                     in_place(method("clamp_min_", "input, min"))},
       .meta = meta_form<kPromoted, 2>,
       .lower = lower_form<kPromoted, 2, clamp_min>,
       .examples = {{"x=f16[4,8]", "x.clamp_min(1e-12)"}}},
      {.name = "clamp_max",
       .cls = kPoint,
       .spellings = {function("torch.clamp_max", "input, max"), method("clamp_max", "input, max"),
                     in_place(method("clamp_max_", "input, max"))},
       .meta = meta_form<kPromoted, 2>,
       .lower = lower_form<kPromoted, 2, clamp_max>,
       .examples = {{"x=f16[4,8]", "x.clamp_max(0.3)"}}},
      {.name = "lerp",
       .cls = kPoint,
       .spellings = {function("torch.lerp", "input, end, weight"), method("lerp", "input, end, weight"),
                     in_place(method("lerp_", "input, end, weight"))},
       .meta = meta_lerp,
       .lower = lower_lerp,
       .examples = {{"x=f16[4,8], y=f16[8]", "torch.lerp(x, y, 0.3)"},
                    {"x=f32[4,8], y=f32[4,8], w=f32[8]", "torch.lerp(x, y, w)"},
                    {"x=bf16[4,8], y=bf16[4,8], w=f32[]", "torch.lerp(x, y, w)"},
                    {"x=bf16[], y=bf16[], w=f32[]", "torch.lerp(x, y, w)"}}},
      {.name = "addcmul",
       .cls = kPoint,
       .spellings = {function("torch.addcmul", "input, tensor1, tensor2, *, value=1"),
                     method("addcmul", "input, tensor1, tensor2, *, value=1"),
                     in_place(method("addcmul_", "input, tensor1, tensor2, *, value=1"))},
       .meta = meta_form<kPromoted, 3>,
       .lower = lower_form<kPromoted, 3, addcmul>,
       .examples = {{"x=f16[4,8], y=f16[8], z=f16[4,1]", "torch.addcmul(x, y, z)"},
                    {"x=f32[4,8], y=f32[8], z=f32[4,8]", "torch.addcmul(x, y, z, value=0.3)"},
                    {"x=f32[4,8], y=f32[4,8], z=f32[4,8]", "torch.addcmul(x, y, z)"},
                    {"x=bf16[4,8], y=bf16[4,8], z=bf16[4,8]", "x.addcmul(y, z, value=0.5)"}}},
      {.name = "addcdiv",
       .cls = kPoint,
       .spellings = {function("torch.addcdiv", "input, tensor1, tensor2, *, value=1"),
                     method("addcdiv", "input, tensor1, tensor2, *, value=1"),
                     in_place(method("addcdiv_", "input, tensor1, tensor2, *, value=1"))},
       .meta = meta_form<kPromoted, 3>,
       .lower = lower_form<kPromoted, 3, addcdiv>,
       .examples = {{"x=f32[4,8], y=f32[8], z=f32[4,8]", "torch.addcdiv(x, y, z, value=0.3)"},
                    {"x=f16[4,8], y=f16[4,8], z=f16[4,8]", "torch.addcdiv(x, y, z)"}}},
      {.name = "xlogy",
       .cls = kPoint,
       .spellings = {PN_BINARY("xlogy", ""), function("torch.special.xlogy", "input, other")},
       .meta = meta_form<ResultRule::kFloat, 2>,
       .lower = lower_form<ResultRule::kFloat, 2, xlogy>,
       .examples = {{"x=f32[4,8], y=f32[8]", "torch.xlogy(x, y)"}}},
  };
}

}  // namespace passnet
