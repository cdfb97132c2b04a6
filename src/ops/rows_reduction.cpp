#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "ops/reduce_forms.h"

namespace passnet {

namespace {

constexpr auto kReduction = OpClass::kReduction;

struct Operand {
  const TensorMeta* meta;
  Axes axes;
  bool keep;
};

Result<Operand> operand_of(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(Axes axes, axes_arg(call, "dim", *input));
  PN_TRY(const bool keep, bool_arg(call, "keepdim"));
  return Operand{input, std::move(axes), keep};
}

// Results of reductions are contiguous whatever the operand's layout.
Inferred reduced(const Operand& x, DType dtype) { return fresh(x.axes.result_shape(x.keep), dtype); }

// ---- sums: the operand is converted to the result's type first, added up in its opmath and rounded once ----

Result<DType> sum_type(const Call& call, const TensorMeta& input, bool integers_widen) {
  const DType own = integers_widen && is_integral(input.dtype, true) ? DType::kInt64 : input.dtype;
  return dtype_arg(call, "dtype", own);
}

Result<Inferred> meta_sum(const Call& call) {
  PN_TRY(const Operand x, operand_of(call));
  PN_TRY(const DType type, sum_type(call, *x.meta, true));
  return reduced(x, type);
}

Result<Inferred> meta_mean(const Call& call) {
  PN_TRY(const Operand x, operand_of(call));
  PN_TRY(const DType type, sum_type(call, *x.meta, false));
  if (is_integral(type, true)) return bad_argument(call, "input", "of a float type, or `dtype` given");
  return reduced(x, type);
}

// One result: `last` on the value of the kept-shape array `row`, rounded to `type`, with or without the folded axes.
ArrayId result_of(LowerContext& ctx, const Call& call, const Operand& x, ArrayId row, DType type,
                  std::string_view part, const std::function<E(E)>& last) {
  Program& p = ctx.program();
  const std::vector<int64_t> shape = x.axes.result_shape(x.keep);
  const auto at = identity(p, shape);
  std::vector<ExprId> kept;
  size_t next = 0;
  for (size_t i = 0; i < x.axes.shape().size(); ++i) {
    if (x.axes.folds(i)) {
      kept.push_back(p.integer(0));
      next += x.keep;
    } else {
      kept.push_back(at[next++]);
    }
  }
  const E value = last(E{&p, p.read(row, kept)}).cast(type);
  return p.add_map(shape, type, value.id, label_of(call, part), call.node->id);
}

std::vector<ArrayId> finish(LowerContext& ctx, const Call& call, const Operand& x, ArrayId row,
                            const std::function<E(E)>& last) {
  return {result_of(ctx, call, x, row, call.node->meta.tensor.dtype, {}, last)};
}

// One fold of `element`, then `last` on its value. `type`: what the operand is converted to.
Result<std::vector<ArrayId>> lower_fold(LowerContext& ctx, const Call& call, const Operand& x, DType type,
                                        ReduceOp op, const std::function<E(E)>& element,
                                        const std::function<E(E)>& last) {
  if (is_complex(type) || is_complex(x.meta->dtype))
    return no_lowering(call, "complex numbers have no kernels");
  Program& p = ctx.program();
  PN_TRY(const ArrayId input, ctx.array(call.arg("input")));
  const E value = element(read_wide(p, input, x.axes.point(p, true), type));
  return finish(ctx, call, x, fold(ctx, call, x.axes, op, value, "fold"), last);
}

E same(E e) { return e; }
E call_pow(E e, double exponent) { return call(Fn::kPow, e, e.constant(exponent)); }

Result<std::vector<ArrayId>> lower_sum(LowerContext& ctx, const Call& call) {
  PN_TRY(const Operand x, operand_of(call));
  const DType type = call.node->meta.tensor.dtype;
  if (type == DType::kBool) return no_lowering(call, "a sum of type bool");
  return lower_fold(ctx, call, x, type, ReduceOp::kSum, same, same);
}

// ATen multiplies the sum by the factor results / elements, a float.
Result<std::vector<ArrayId>> lower_mean(LowerContext& ctx, const Call& call) {
  PN_TRY(const Operand x, operand_of(call));
  const DType type = call.node->meta.tensor.dtype;
  const double factor = 1.0 / static_cast<double>(x.axes.count());
  return lower_fold(ctx, call, x, type, ReduceOp::kSum, same, [factor](E e) { return e * factor; });
}

Result<std::vector<ArrayId>> lower_prod(LowerContext& ctx, const Call& call) {
  PN_TRY(const Operand x, operand_of(call));
  const DType type = call.node->meta.tensor.dtype;
  if (type == DType::kBool) return no_lowering(call, "a product of type bool");
  return lower_fold(ctx, call, x, type, ReduceOp::kProd, same, same);
}

// ---- extremes ----

Result<Inferred> meta_extreme(const Call& call) {
  PN_TRY(const Operand x, operand_of(call));
  return reduced(x, x.meta->dtype);
}

template <ReduceOp kOp>
Result<std::vector<ArrayId>> lower_extreme(LowerContext& ctx, const Call& call) {
  PN_TRY(const Operand x, operand_of(call));
  if (x.meta->dtype == DType::kBool) {
    return lower_fold(ctx, call, x, DType::kBool, kOp == ReduceOp::kMax ? ReduceOp::kAny : ReduceOp::kAll,
                      same, same);
  }
  return lower_fold(ctx, call, x, x.meta->dtype, kOp, same, same);
}

// max(x, dim): values and the first position of each.
Result<Inferred> meta_extreme_pair(const Call& call) {
  PN_TRY(const Operand x, operand_of(call));
  std::vector<Meta> items;
  items.push_back(reduced(x, x.meta->dtype).meta);
  items.push_back(reduced(x, DType::kInt64).meta);
  return tuple_result(std::move(items));
}

template <ReduceOp kValue, ReduceOp kPosition>
Result<std::vector<ArrayId>> lower_extreme_pair(LowerContext& ctx, const Call& call) {
  PN_TRY(const Operand x, operand_of(call));
  if (x.meta->dtype == DType::kBool || is_complex(x.meta->dtype))
    return no_lowering(call, "extremes of bools");
  Program& p = ctx.program();
  PN_TRY(const ArrayId input, ctx.array(call.arg("input")));
  const E value = read_wide(p, input, x.axes.point(p, x.keep), x.meta->dtype);
  const std::vector<int64_t> shape = x.axes.result_shape(x.keep);
  const ArrayId best = p.add_reduce(shape, value.type(), kValue, x.axes.extents(), value.id,
                                    label_of(call, "fold"), call.node->id);
  const E rounded = E{&p, p.read(best, identity(p, shape))}.cast(x.meta->dtype);
  const ArrayId values = p.add_map(shape, x.meta->dtype, rounded.id, label_of(call, "values"), call.node->id);
  const ArrayId positions = p.add_reduce(shape, DType::kInt64, kPosition, x.axes.extents(), value.id,
                                         label_of(call, "indices"), call.node->id);
  return std::vector<ArrayId>{values, positions};
}

Result<Inferred> meta_position(const Call& call) {
  PN_TRY(const Operand x, operand_of(call));
  return reduced(x, DType::kInt64);
}

template <ReduceOp kOp>
Result<std::vector<ArrayId>> lower_position(LowerContext& ctx, const Call& call) {
  PN_TRY(const Operand x, operand_of(call));
  if (x.meta->dtype == DType::kBool || is_complex(x.meta->dtype))
    return no_lowering(call, "extremes of bools");
  Program& p = ctx.program();
  PN_TRY(const ArrayId input, ctx.array(call.arg("input")));
  const E value = read_wide(p, input, x.axes.point(p, x.keep), x.meta->dtype);
  return std::vector<ArrayId>{p.add_reduce(x.axes.result_shape(x.keep), DType::kInt64, kOp, x.axes.extents(),
                                           value.id, label_of(call), call.node->id)};
}

// ---- truth and counts ----

Result<Inferred> meta_truth(const Call& call) {
  PN_TRY(const Operand x, operand_of(call));
  return reduced(x, x.meta->dtype == DType::kUInt8 ? DType::kUInt8 : DType::kBool);
}

template <ReduceOp kOp>
Result<std::vector<ArrayId>> lower_truth(LowerContext& ctx, const Call& call) {
  PN_TRY(const Operand x, operand_of(call));
  return lower_fold(ctx, call, x, x.meta->dtype, kOp, truth, same);
}

Result<Inferred> meta_count(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(const Axes axes, axes_arg(call, "dim", *input));
  return fresh(axes.result_shape(false), DType::kInt64);
}

Result<std::vector<ArrayId>> lower_count(LowerContext& ctx, const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(const Axes axes, axes_arg(call, "dim", *input));
  return lower_fold(
      ctx, call, Operand{input, axes, false}, input->dtype, ReduceOp::kSum,
      [](E e) { return truth(e).cast(DType::kInt64); }, same);
}

// ---- variance ----

Result<double> correction_of(const Call& call) {
  if (!is_none(call, "correction")) return real_arg(call, "correction");
  PN_TRY(const bool unbiased, bool_arg(call, "unbiased"));
  return unbiased ? 1.0 : 0.0;
}

Result<Inferred> meta_variance(const Call& call) {
  PN_TRY(const Operand x, operand_of(call));
  if (!is_floating(x.meta->dtype)) return bad_argument(call, "input", "of a float type");
  return reduced(x, x.meta->dtype);
}

Result<Inferred> meta_variance_mean(const Call& call) {
  PN_TRY(const Operand x, operand_of(call));
  if (!is_floating(x.meta->dtype)) return bad_argument(call, "input", "of a float type");
  std::vector<Meta> items(2, reduced(x, x.meta->dtype).meta);
  return tuple_result(std::move(items));
}

// Squared distances from the mean, divided by count - correction (0 where there are no more elements than that: NaN or
// infinity, as in ATen); everything in the opmath, one rounding.
Result<std::vector<ArrayId>> lower_spread(LowerContext& ctx, const Call& call, bool root, bool with_mean) {
  PN_TRY(const Operand x, operand_of(call));
  PN_TRY(const double correction, correction_of(call));
  PN_TRY(const ArrayId input, ctx.array(call.arg("input")));
  Program& p = ctx.program();
  const double n = static_cast<double>(x.axes.count());
  const auto element = [&](std::span<const ExprId> at) { return read_wide(p, input, at, x.meta->dtype); };
  const auto point = x.axes.point(p, true);
  const auto row = identity(p, x.axes.result_shape(true));
  const ArrayId sum = fold(ctx, call, x.axes, ReduceOp::kSum, element(point), "sum");
  const ArrayId mean = per_row(ctx, call, x.axes, E{&p, p.read(sum, row)} / n, "mean");
  const E distance = element(point) - read_row(p, mean, x.axes, point);
  const ArrayId squares = fold(ctx, call, x.axes, ReduceOp::kSum, distance * distance, "squares");
  const double divisor = std::max(n - correction, 0.0);
  const auto spread = [&](E e) { return root ? sqrt(e / divisor) : e / divisor; };
  if (!with_mean) return finish(ctx, call, x, squares, spread);
  const ArrayId first = result_of(ctx, call, x, squares, x.meta->dtype, "spread", spread);
  const ArrayId second = result_of(ctx, call, x, mean, x.meta->dtype, "mean_result", same);
  return std::vector<ArrayId>{first, second};
}

template <bool kRoot, bool kWithMean>
Result<std::vector<ArrayId>> lower_variance(LowerContext& ctx, const Call& call) {
  return lower_spread(ctx, call, kRoot, kWithMean);
}

// ---- norms of vectors ----

// The order of a norm; matrix norms have none.
Result<double> order_of(const Call& call) {
  const Value p = known_value(call, call.arg("p"));
  if (p.is_none()) return 2.0;
  if (p.kind() == Value::Kind::kString && p.text() == "fro") return 2.0;
  if (p.kind() == Value::Kind::kString && p.text() == "nuc") return no_lowering(call, "the nuclear norm");
  return real_arg(call, "p");
}

Result<Inferred> meta_norm(const Call& call) {
  PN_TRY(const Operand x, operand_of(call));
  PN_TRY(const DType type, dtype_arg(call, "dtype", x.meta->dtype));
  if (!is_floating(type) && !is_complex(type)) return bad_argument(call, "input", "of a float type");
  const DType real = type == DType::kComplex64    ? DType::kFloat32
                     : type == DType::kComplex128 ? DType::kFloat64
                                                  : type;
  return reduced(x, real);
}

Result<std::vector<ArrayId>> lower_norm(LowerContext& ctx, const Call& call) {
  PN_TRY(const Operand x, operand_of(call));
  PN_TRY(const double p, order_of(call));
  const DType type = call.node->meta.tensor.dtype;
  const auto with = [&](ReduceOp op, const std::function<E(E)>& element, const std::function<E(E)>& last) {
    return lower_fold(ctx, call, x, type, op, element, last);
  };
  if (p == 2)
    return with(
        ReduceOp::kSum, [](E e) { return e * e; }, [](E e) { return sqrt(e); });
  if (p == 1)
    return with(
        ReduceOp::kSum, [](E e) { return abs(e); }, same);
  if (p == 0)
    return with(
        ReduceOp::kSum, [](E e) { return truth(e).cast(e.type()); }, same);
  if (std::isinf(p))
    return with(
        p > 0 ? ReduceOp::kMax : ReduceOp::kMin, [](E e) { return abs(e); }, same);
  return with(
      ReduceOp::kSum, [p](E e) { return call_pow(abs(e), p); }, [p](E e) { return call_pow(e, 1.0 / p); });
}

// linalg.norm: without `ord` the 2-norm of the flattened axes; with it, two axes make a matrix norm, which only "fro"
// shares with vectors.
Status check_no_matrix(const Call& call) {
  const Value ord = call.arg("p");
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  size_t axes = static_cast<size_t>(input->dim());
  if (!is_none(call, "dim")) {
    PN_TRY(const std::vector<int64_t> dims, ints_arg(call, "dim"));
    axes = dims.size();
  }
  const bool vector_like = ord.is_none() || (ord.kind() == Value::Kind::kString && ord.text() == "fro");
  if (axes == 2 && !vector_like) return no_lowering(call, "a matrix norm");
  return {};
}

Result<std::vector<ArrayId>> lower_linalg_norm(LowerContext& ctx, const Call& call) {
  PN_CHECK_OK(check_no_matrix(call));
  return lower_norm(ctx, call);
}

// ---- logsumexp: a composition in the element type; every step rounds ----

Result<std::vector<ArrayId>> lower_logsumexp(LowerContext& ctx, const Call& call) {
  PN_TRY(const Operand x, operand_of(call));
  const DType type = call.node->meta.tensor.dtype;
  if (is_complex(type) || is_complex(x.meta->dtype))
    return no_lowering(call, "complex numbers have no kernels");
  Program& p = ctx.program();
  PN_TRY(const ArrayId input, ctx.array(call.arg("input")));
  const auto rounded = [&](E e) { return e.cast(type).cast(opmath(type)); };
  const auto point = x.axes.point(p, true);
  const auto row = identity(p, x.axes.result_shape(true));
  const E value = read_wide(p, input, point, type);
  const ArrayId raw = fold(ctx, call, x.axes, ReduceOp::kMax, value, "max");
  // An infinite maximum is replaced by 0, so that inf - inf does not appear.
  const E top{&p, p.read(raw, row)};
  const E infinite = equal(abs(top), top.constant(std::numeric_limits<double>::infinity()));
  const ArrayId shift = per_row(ctx, call, x.axes, select(infinite, top.constant(0), top), "shift");
  const E power = rounded(exp(rounded(value - read_row(p, shift, x.axes, point))));
  const ArrayId sum = fold(ctx, call, x.axes, ReduceOp::kSum, power, "sum");
  const E total = rounded(log(rounded(E{&p, p.read(sum, row)}))) + E{&p, p.read(shift, row)};
  return finish(ctx, call, x, per_row(ctx, call, x.axes, total, "value"), same);
}

Result<Inferred> meta_logsumexp(const Call& call) {
  PN_TRY(const Operand x, operand_of(call));
  return reduced(x, is_integral(x.meta->dtype, true) ? DType::kFloat32 : x.meta->dtype);
}

#define PN_REDUCE(name, signature) function("torch." name, signature), method(name, signature)
constexpr std::string_view kDims = "input, dim|axis:ints=None, keepdim:bool=False, *, dtype=None";
constexpr std::string_view kOneDim = "input, dim|axis:ints=None, keepdim:bool=False";
constexpr std::string_view kVariance =
    "input, dim|axis:ints=None, unbiased:bool=True, keepdim:bool=False, *, correction=None";
constexpr std::string_view kNorm = "input, p=2, dim=None, keepdim:bool=False, dtype=None";

}  // namespace

std::vector<OpRow> reduction_rows() {
  return {
      {.name = "sum",
       .cls = kReduction,
       .spellings = {PN_REDUCE("sum", kDims), PN_REDUCE("sum", "input, *, dtype=None")},
       .meta = meta_sum,
       .lower = lower_sum,
       .examples = {{"x=f16[4,6,33]", "x.sum(dim=-1)"},
                    {"x=bf16[4,6,33]", "torch.sum(x, (0, 2), keepdim=True)"},
                    {"x=f32[4,6]{1,4}", "x.sum()"},
                    {"x=f16[4,6]", "x.sum(1, dtype=torch.float32)"},
                    {"x=i32[4,6]", "torch.sum(x, dim=0)"},
                    {"x=bool[4,6]", "x.sum(1)"}}},
      {.name = "mean",
       .cls = kReduction,
       .spellings = {PN_REDUCE("mean", kDims)},
       .meta = meta_mean,
       .lower = lower_mean,
       .examples = {{"x=f16[4,6,33]", "x.mean(-1, keepdim=True)"},
                    {"x=bf16[2,3,7,7]", "x.mean((2, 3), keepdim=True)"},
                    {"x=f32[2,3,7,7]{147,1,21,3}", "torch.mean(x, dim=[2, 3])"},
                    {"x=f32[4,6]", "x.mean()"},
                    {"x=i64[4,6]", "x.mean(1, dtype=torch.float32)"}}},
      {.name = "prod",
       .cls = kReduction,
       .spellings = {PN_REDUCE("prod", "input, dim|axis:int=None, keepdim:bool=False, *, dtype=None")},
       .meta = meta_sum,
       .lower = lower_prod,
       .examples = {{"x=f32[4,6]", "x.prod(1)"}, {"x=i64[4,3]", "torch.prod(x)"}}},
      {.name = "amax",
       .cls = kReduction,
       .spellings = {PN_REDUCE("amax", kOneDim)},
       .meta = meta_extreme,
       .lower = lower_extreme<ReduceOp::kMax>,
       .examples = {{"x=f16[4,6,33]", "x.amax(dim=-1)"},
                    {"x=f32[4,6]", "torch.amax(x, (0, 1), keepdim=True)"}}},
      {.name = "amin",
       .cls = kReduction,
       .spellings = {PN_REDUCE("amin", kOneDim)},
       .meta = meta_extreme,
       .lower = lower_extreme<ReduceOp::kMin>,
       .examples = {{"x=bf16[4,6,33]", "x.amin(1, True)"}}},
      // Before the rows of whole extremes, which would take the dim as well.
      {.name = "max_dim",
       .cls = kReduction,
       .spellings = {PN_REDUCE("max", "input, dim:int, keepdim:bool=False")},
       .meta = meta_extreme_pair,
       .lower = lower_extreme_pair<ReduceOp::kMax, ReduceOp::kArgMax>,
       .examples = {{"x=f16[4,6]", "x.max(1, keepdim=True)"}, {"x=f32[4,6]", "torch.max(x, dim=0)"}}},
      {.name = "min_dim",
       .cls = kReduction,
       .spellings = {PN_REDUCE("min", "input, dim:int, keepdim:bool=False")},
       .meta = meta_extreme_pair,
       .lower = lower_extreme_pair<ReduceOp::kMin, ReduceOp::kArgMin>,
       .examples = {{"x=f32[4,6]", "torch.min(x, 1)"}}},
      {.name = "max",
       .cls = kReduction,
       .spellings = {PN_REDUCE("max", "input, *, dim=None, keepdim=False")},
       .meta = meta_extreme,
       .lower = lower_extreme<ReduceOp::kMax>,
       .examples = {{"x=f16[4,6]", "x.max()"}, {"x=i64[4,6]", "torch.max(x)"}}},
      {.name = "min",
       .cls = kReduction,
       .spellings = {PN_REDUCE("min", "input, *, dim=None, keepdim=False")},
       .meta = meta_extreme,
       .lower = lower_extreme<ReduceOp::kMin>,
       .examples = {{"x=f16[4,6]", "x.min()"}}},
      {.name = "argmax",
       .cls = kReduction,
       .spellings = {PN_REDUCE("argmax", "input, dim|axis:int=None, keepdim:bool=False")},
       .meta = meta_position,
       .lower = lower_position<ReduceOp::kArgMax>,
       .examples = {{"x=f16[4,6]", "x.argmax(dim=-1)"},
                    {"x=f32[4,6]", "torch.argmax(x)"},
                    {"x=i64[4,6]", "x.argmax(0, True)"}}},
      {.name = "argmin",
       .cls = kReduction,
       .spellings = {PN_REDUCE("argmin", "input, dim|axis:int=None, keepdim:bool=False")},
       .meta = meta_position,
       .lower = lower_position<ReduceOp::kArgMin>,
       .examples = {{"x=f32[4,6]", "torch.argmin(x, 1)"}}},
      {.name = "any",
       .cls = kReduction,
       .spellings = {PN_REDUCE("any", kOneDim)},
       .meta = meta_truth,
       .lower = lower_truth<ReduceOp::kAny>,
       .examples = {{"x=bool[4,6]", "x.any(-1)"}, {"x=f32[4,6]", "torch.any(x)"}}},
      {.name = "all",
       .cls = kReduction,
       .spellings = {PN_REDUCE("all", kOneDim)},
       .meta = meta_truth,
       .lower = lower_truth<ReduceOp::kAll>,
       .examples = {{"x=bool[4,6]", "x.all(dim=-1, keepdim=True)"}, {"x=i64[4,6]", "torch.all(x)"}}},
      {.name = "count_nonzero",
       .cls = kReduction,
       .spellings = {PN_REDUCE("count_nonzero", "input, dim:ints=None")},
       .meta = meta_count,
       .lower = lower_count,
       .examples = {{"x=f32[4,6]", "torch.count_nonzero(x, dim=1)"}, {"x=bool[4,6]", "x.count_nonzero()"}}},
      {.name = "var",
       .cls = kReduction,
       .spellings = {PN_REDUCE("var", kVariance), PN_REDUCE("var", "input, unbiased:bool")},
       .meta = meta_variance,
       .lower = lower_variance<false, false>,
       .examples = {{"x=f16[4,6,33]", "x.var(-1, keepdim=True)"},
                    {"x=f32[4,6]", "torch.var(x, dim=(0, 1), correction=0)"},
                    {"x=f32[4,6]", "torch.var(x, 1, False)"},
                    {"x=f32[4,6]", "x.var(False)"}}},
      {.name = "std",
       .cls = kReduction,
       .spellings = {PN_REDUCE("std", kVariance), PN_REDUCE("std", "input, unbiased:bool")},
       .meta = meta_variance,
       .lower = lower_variance<true, false>,
       .examples = {{"x=bf16[4,6,33]", "x.std(-1, keepdim=True)"}, {"x=f32[4,6]", "torch.std(x)"}}},
      {.name = "var_mean",
       .cls = kReduction,
       .spellings = {function("torch.var_mean", kVariance),
                     function("torch.var_mean", "input, unbiased:bool")},
       .meta = meta_variance_mean,
       .lower = lower_variance<false, true>,
       .examples = {{"x=f32[4,6]", "torch.var_mean(x, 1, unbiased=False, keepdim=True)"}}},
      {.name = "std_mean",
       .cls = kReduction,
       .spellings = {function("torch.std_mean", kVariance),
                     function("torch.std_mean", "input, unbiased:bool")},
       .meta = meta_variance_mean,
       .lower = lower_variance<true, true>,
       .examples = {{"x=f16[4,6]", "torch.std_mean(x, 1)"}}},
      {.name = "norm",
       .cls = kReduction,
       .spellings = {function("torch.norm", kNorm), method("norm", kNorm),
                     function("torch.functional.norm", kNorm)},
       .meta = meta_norm,
       .lower = lower_norm,
       .cost = fixed_cost<170, 1>,
       .examples = {{"x=f16[4,6,33]", "x.norm(p=2, dim=-1, keepdim=True)"},
                    {"x=f32[4,6,5]", "torch.norm(x, p=2, dim=(1, 2))"},
                    {"x=f32[4,6]", "x.norm(p=1, dim=1)"},
                    {"x=bf16[4,6]", "torch.norm(x)"},
                    {"x=f32[4,6]", "x.norm(p=inf, dim=1)"},
                    {"x=f32[4,6]", "torch.norm(x, 3, 0)"}}},
      {.name = "vector_norm",
       .cls = kReduction,
       .spellings = {function("torch.linalg.vector_norm",
                              "input|x|A, p|ord=2, dim=None, keepdim:bool=False, *, dtype=None")},
       .meta = meta_norm,
       .lower = lower_norm,
       .examples = {{"x=f16[4,6]", "torch.linalg.vector_norm(x, ord=2, dim=(1,), keepdim=True)"},
                    {"x=f32[4,6]", "torch.linalg.vector_norm(x)"}}},
      {.name = "linalg_norm",
       .cls = kReduction,
       .spellings = {function("torch.linalg.norm",
                              "input|A, p|ord=None, dim=None, keepdim:bool=False, *, dtype=None")},
       .meta = meta_norm,
       .lower = lower_linalg_norm,
       .examples = {{"x=f16[4,6]", "torch.linalg.norm(x, dim=-1, keepdim=True)"},
                    {"x=f32[4,6]", "torch.linalg.norm(x, ord=2, dim=1)"}}},
      {.name = "logsumexp",
       .cls = kReduction,
       .spellings = {PN_REDUCE("logsumexp", "input, dim|axis:ints, keepdim:bool=False"),
                     function("torch.special.logsumexp", "input, dim|axis:ints, keepdim:bool=False")},
       .meta = meta_logsumexp,
       .lower = lower_logsumexp,
       .cost = fixed_cost<600, 6>,
       .examples = {{"x=f16[4,6]", "torch.logsumexp(x, 1)"},
                    {"x=f32[4,6]", "x.logsumexp((0, 1), keepdim=True)"}}},
  };
}

}  // namespace passnet
