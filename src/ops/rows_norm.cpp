#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "ops/reduce_forms.h"
#include "ops/view_algebra.h"

namespace passnet {

namespace {

constexpr auto kNorm = OpClass::kNorm;

std::vector<ArrayId> finished(LowerContext& ctx, const Call& call, E value) {
  const TensorMeta& result = call.node->meta.tensor;
  return {ctx.program().add_map(result.shape, result.dtype, value.cast(result.dtype).id, label_of(call),
                                call.node->id)};
}

Status check_float(const Call& call, DType type) {
  if (is_complex(type)) return no_lowering(call, "complex numbers have no kernels");
  return {};
}

// ---- softmax family: everything in the opmath from the maximum on, rounded once ----

Result<DType> softmax_type(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  return dtype_arg(call, "dtype", input->dtype);
}

Result<Inferred> meta_softmax(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(const DType type, softmax_type(call));
  if (!is_floating(type)) return bad_argument(call, "input", "of a float type, or `dtype` given");
  PN_TRY([[maybe_unused]] const int axis, axis_arg(call, "dim", input->dim()));
  return fresh(input->shape, type);  // contiguous whatever the operand's layout
}

enum class SoftmaxForm : uint8_t { kSoftmax, kLogSoftmax, kSoftmin };

template <SoftmaxForm kForm>
Result<std::vector<ArrayId>> lower_softmax(LowerContext& ctx, const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(const DType type, softmax_type(call));
  PN_TRY(const int axis, axis_arg(call, "dim", input->dim()));
  Program& p = ctx.program();
  PN_TRY(const ArrayId source, ctx.array(call.arg("input")));
  std::vector<bool> folded(input->shape.size(), false);
  if (!folded.empty()) folded[static_cast<size_t>(axis)] = true;
  const Axes axes(input->shape, std::move(folded));
  const auto element = [&](std::span<const ExprId> at) {
    const E x = read_wide(p, source, at, type);
    return kForm == SoftmaxForm::kSoftmin ? -x : x;
  };
  const auto point = axes.point(p, true);
  const ArrayId top = fold(ctx, call, axes, ReduceOp::kMax, element(point), "max");
  const ArrayId sum =
      fold(ctx, call, axes, ReduceOp::kSum, exp(element(point) - read_row(p, top, axes, point)), "sum");
  const auto at = identity(p, input->shape);
  const E x = element(at), m = read_row(p, top, axes, at), s = read_row(p, sum, axes, at);
  if (kForm != SoftmaxForm::kLogSoftmax) return finished(ctx, call, exp(x - m) / s);
  return finished(ctx, call, (x - m) - log(s));
}

// ---- layer_norm and rms_norm over trailing axes ----

Result<size_t> normalized_rank(const Call& call, const TensorMeta& input) {
  PN_TRY(const std::vector<int64_t> shape, ints_arg(call, "normalized_shape"));
  const size_t rank = input.shape.size();
  if (shape.empty() || shape.size() > rank ||
      !std::equal(shape.begin(), shape.end(),
                  input.shape.end() - static_cast<std::ptrdiff_t>(shape.size()))) {
    return bad_argument(call, "normalized_shape", "the operand's trailing axes");
  }
  return shape.size();
}

// kBias: the row has a bias beside its weight.
template <bool kBias>
Result<Inferred> meta_trailing_norm(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(const size_t rank, normalized_rank(call, *input));
  if (!is_floating(input->dtype)) return bad_argument(call, "input", "of a float type");
  const auto normalized = std::span<const int64_t>(input->shape).last(rank);
  PN_CHECK_OK(shape_of(call, "weight", normalized));
  if constexpr (kBias) PN_CHECK_OK(shape_of(call, "bias", normalized));
  return fresh(input->shape, input->dtype);
}

// A parameter (weight, bias) in the opmath, read at the trailing `indices`; none if it is None.
Result<std::optional<E>> parameter(LowerContext& ctx, const Call& call, std::string_view name,
                                   std::span<const ExprId> indices, DType wide) {
  if (is_none(call, name)) return std::optional<E>();
  PN_TRY(const TensorMeta* meta, tensor_arg(call, name));
  if (meta->shape.size() != indices.size()) {
    return bad_argument(call, name, fmt::format("of {} dimensions", indices.size()));
  }
  PN_TRY(const ArrayId array, ctx.array(call.arg(name)));
  Program& p = ctx.program();
  return std::optional<E>(E{&p, p.read(array, {indices.begin(), indices.end()})}.cast(wide));
}

// (x - mean) * rstd * weight + bias in float, the last product and sum contracted, one rounding at the end. (On CUDA
// the parameters have the operand's type.)
Result<std::vector<ArrayId>> lower_layer_norm(LowerContext& ctx, const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(const size_t rank, normalized_rank(call, *input));
  PN_TRY(const double eps, real_arg(call, "eps"));
  Program& p = ctx.program();
  PN_TRY(const ArrayId source, ctx.array(call.arg("input")));
  const Axes axes = trailing_axes(*input, rank);
  const DType wide = opmath(input->dtype);
  const auto element = [&](std::span<const ExprId> at) { return read_wide(p, source, at, input->dtype); };
  const Moments m = moments(ctx, call, axes, element);
  const auto row = identity(p, axes.result_shape(true));
  const ArrayId rstd = per_row(ctx, call, axes, rsqrt(E{&p, p.read(m.variance, row)} + eps), "rstd");
  const auto at = identity(p, input->shape);
  const auto inner = std::span<const ExprId>(at).last(rank);
  PN_TRY(const std::optional<E> weight, parameter(ctx, call, "weight", inner, wide));
  PN_TRY(const std::optional<E> bias, parameter(ctx, call, "bias", inner, wide));
  const E distance = element(at) - read_row(p, m.mean, axes, at);
  const E scale = read_row(p, rstd, axes, at);
  if (weight && bias) return finished(ctx, call, fma(*weight, scale * distance, *bias));
  if (bias) return finished(ctx, call, fma(scale, distance, *bias));
  return finished(ctx, call, weight ? *weight * (scale * distance) : scale * distance);
}

Result<std::vector<ArrayId>> lower_rms_norm(LowerContext& ctx, const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(const size_t rank, normalized_rank(call, *input));
  // Without eps: the machine epsilon of the opmath (which one is to be settled by recorded outputs of a GPU).
  const DType wide = opmath(input->dtype);
  double eps = wide == DType::kFloat64 ? std::numeric_limits<double>::epsilon()
                                       : static_cast<double>(std::numeric_limits<float>::epsilon());
  if (!is_none(call, "eps")) {
    PN_TRY(eps, real_arg(call, "eps"));
  }
  Program& p = ctx.program();
  PN_TRY(const ArrayId source, ctx.array(call.arg("input")));
  const Axes axes = trailing_axes(*input, rank);
  const auto element = [&](std::span<const ExprId> at) { return read_wide(p, source, at, input->dtype); };
  const E x = element(axes.point(p, true));
  const ArrayId squares = fold(ctx, call, axes, ReduceOp::kSum, x * x, "squares");
  const auto row = identity(p, axes.result_shape(true));
  const E mean = E{&p, p.read(squares, row)} / static_cast<double>(axes.count());
  const ArrayId rstd = per_row(ctx, call, axes, rsqrt(mean + eps), "rstd");
  const auto at = identity(p, input->shape);
  PN_TRY(const std::optional<E> weight,
         parameter(ctx, call, "weight", std::span<const ExprId>(at).last(rank), wide));
  const E scaled = read_row(p, rstd, axes, at) * element(at);
  return finished(ctx, call, weight ? *weight * scaled : scaled);
}

// ---- normalisations along channels (axis 1) ----

Result<const TensorMeta*> channelled(const Call& call, int64_t least) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  if (input->dim() < least)
    return bad_argument(call, "input", fmt::format("of at least {} dimensions", least));
  if (!is_floating(input->dtype)) return bad_argument(call, "input", "of a float type");
  return input;
}

// Parameters and statistics are vectors with an element a channel.
Status a_channel_each(const Call& call, const TensorMeta& input,
                      std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) PN_CHECK_OK(shape_of(call, name, std::span(&input.shape[1], 1)));
  return ok_status();
}

Result<Inferred> meta_batch_norm(const Call& call) {
  PN_TRY(const TensorMeta* input, channelled(call, 2));
  PN_CHECK_OK(a_channel_each(call, *input, {"running_mean", "running_var", "weight", "bias"}));
  PN_TRY(const bool training, bool_arg(call, "training"));
  if (!training && (is_none(call, "running_mean") || is_none(call, "running_var"))) {
    return bad_argument(call, "running_mean", "given, with running_var, when not training");
  }
  Inferred out = fresh(input->shape, input->dtype, preserved_strides(*input));
  if (training) {
    for (const std::string_view name : {"running_mean", "running_var"}) {
      if (const TensorMeta* stat = call.tensor(name); stat && stat->storage >= 0)
        out.writes.push_back(stat->storage);
    }
  }
  return out;
}

// weight * (x - mean) * invstd + bias from the left, the last product and sum contracted; all in float. Without weight
// 1, without bias 0.
E scale_and_shift(E x, E mean, E invstd, const std::optional<E>& weight, const std::optional<E>& bias) {
  const E distance = x - mean;
  const E left = weight ? *weight * distance : distance;
  return bias ? fma(left, invstd, *bias) : left * invstd;
}

Result<std::vector<ArrayId>> lower_batch_norm(LowerContext& ctx, const Call& call) {
  PN_TRY(const TensorMeta* input, channelled(call, 2));
  PN_CHECK_OK(a_channel_each(call, *input, {"running_mean", "running_var", "weight", "bias"}));
  PN_TRY(const bool training, bool_arg(call, "training"));
  PN_TRY(const double eps, real_arg(call, "eps"));
  PN_CHECK_OK(check_float(call, input->dtype));
  Program& p = ctx.program();
  PN_TRY(const ArrayId source, ctx.array(call.arg("input")));
  const DType wide = opmath(input->dtype);
  const auto at = identity(p, input->shape);
  const ExprId channel[] = {at[1]};
  PN_TRY(const std::optional<E> weight, parameter(ctx, call, "weight", channel, wide));
  PN_TRY(const std::optional<E> bias, parameter(ctx, call, "bias", channel, wide));
  const auto element = [&](std::span<const ExprId> index) {
    return read_wide(p, source, index, input->dtype);
  };
  if (!training) {
    PN_TRY(const std::optional<E> mean, parameter(ctx, call, "running_mean", channel, wide));
    PN_TRY(const std::optional<E> variance, parameter(ctx, call, "running_var", channel, wide));
    return finished(ctx, call, scale_and_shift(element(at), *mean, rsqrt(*variance + eps), weight, bias));
  }
  if (!is_none(call, "running_mean") || !is_none(call, "running_var")) {
    return no_lowering(call, "training updates the running statistics");
  }
  std::vector<bool> folded(input->shape.size(), true);
  folded[1] = false;
  const Axes axes(input->shape, std::move(folded));
  const Moments m = moments(ctx, call, axes, element);
  const auto row = identity(p, axes.result_shape(true));
  const ArrayId invstd = per_row(ctx, call, axes, rsqrt(E{&p, p.read(m.variance, row)} + eps), "invstd");
  return finished(ctx, call,
                  scale_and_shift(element(at), read_row(p, m.mean, axes, at), read_row(p, invstd, axes, at),
                                  weight, bias));
}

Result<Inferred> meta_instance_norm(const Call& call) {
  PN_TRY(const TensorMeta* input, channelled(call, 2));
  PN_CHECK_OK(a_channel_each(call, *input, {"running_mean", "running_var", "weight", "bias"}));
  return fresh(input->shape, input->dtype);
}

Result<std::vector<ArrayId>> lower_instance_norm(LowerContext& ctx, const Call& call) {
  PN_TRY(const TensorMeta* input, channelled(call, 2));
  PN_TRY(const bool own_statistics, bool_arg(call, "use_input_stats"));
  PN_TRY(const double eps, real_arg(call, "eps"));
  if (!own_statistics) return no_lowering(call, "running statistics of an instance norm");
  if (!is_none(call, "running_mean")) return no_lowering(call, "it updates the running statistics");
  Program& p = ctx.program();
  PN_TRY(const ArrayId source, ctx.array(call.arg("input")));
  const DType wide = opmath(input->dtype);
  const auto at = identity(p, input->shape);
  const ExprId channel[] = {at[1]};
  PN_TRY(const std::optional<E> weight, parameter(ctx, call, "weight", channel, wide));
  PN_TRY(const std::optional<E> bias, parameter(ctx, call, "bias", channel, wide));
  const auto element = [&](std::span<const ExprId> index) {
    return read_wide(p, source, index, input->dtype);
  };
  std::vector<bool> folded(input->shape.size(), true);
  folded[0] = folded[1] = false;
  const Axes axes(input->shape, std::move(folded));
  const Moments m = moments(ctx, call, axes, element);
  const auto row = identity(p, axes.result_shape(true));
  const ArrayId invstd = per_row(ctx, call, axes, rsqrt(E{&p, p.read(m.variance, row)} + eps), "invstd");
  return finished(ctx, call,
                  scale_and_shift(element(at), read_row(p, m.mean, axes, at), read_row(p, invstd, axes, at),
                                  weight, bias));
}

// ---- group_norm ----

Result<int64_t> groups_of(const Call& call, const TensorMeta& input) {
  PN_TRY(const int64_t groups, int_arg(call, "num_groups"));
  if (groups <= 0 || input.shape[1] % groups != 0)
    return bad_argument(call, "num_groups", "a divisor of the channels");
  return groups;
}

Result<Inferred> meta_group_norm(const Call& call) {
  PN_TRY(const TensorMeta* input, channelled(call, 2));
  PN_TRY([[maybe_unused]] const int64_t groups, groups_of(call, *input));
  PN_CHECK_OK(a_channel_each(call, *input, {"weight", "bias"}));
  return fresh(input->shape, input->dtype);
}

// ATen keeps mean and rstd of a group in the operand's type, folds them into a factor and a summand a channel, in float,
// and applies both with one multiply-add.
Result<std::vector<ArrayId>> lower_group_norm(LowerContext& ctx, const Call& call) {
  PN_TRY(const TensorMeta* input, channelled(call, 2));
  PN_TRY(const int64_t groups, groups_of(call, *input));
  PN_TRY(const double eps, real_arg(call, "eps"));
  Program& p = ctx.program();
  PN_TRY(const ArrayId source, ctx.array(call.arg("input")));
  const DType wide = opmath(input->dtype);
  // Statistics over [N, groups, channels / groups, ...].
  const int64_t inner = input->shape[1] / groups;
  std::vector<int64_t> split = {input->shape[0], groups, inner};
  split.insert(split.end(), input->shape.begin() + 2, input->shape.end());
  std::vector<bool> folded(split.size(), true);
  folded[0] = folded[1] = false;
  const Axes axes(split, std::move(folded));
  const auto joined = [&](std::span<const ExprId> at) {
    std::vector<ExprId> out = {at[0], p.call(Fn::kAdd, {p.call(Fn::kMul, {at[1], p.integer(inner)}), at[2]})};
    out.insert(out.end(), at.begin() + 3, at.end());
    return out;
  };
  const auto element = [&](std::span<const ExprId> at) { return read_wide(p, source, at, input->dtype); };
  const Moments m = moments(ctx, call, axes, [&](std::span<const ExprId> at) { return element(joined(at)); });
  const auto row = identity(p, axes.result_shape(true));
  const auto stored = [&](E e) { return e.cast(input->dtype).cast(wide); };
  const ArrayId rstd_row = per_row(ctx, call, axes, rsqrt(E{&p, p.read(m.variance, row)} + eps), "rstd");
  const auto at = identity(p, input->shape);
  std::vector<ExprId> group = {at[0], p.call(Fn::kFloorDiv, {at[1], p.integer(inner)})};
  while (group.size() < split.size()) group.push_back(p.integer(0));
  const E x = element(at);
  const E mean = stored({&p, p.read(m.mean, group)}), rstd = stored({&p, p.read(rstd_row, group)});
  const ExprId channel[] = {at[1]};
  PN_TRY(const std::optional<E> weight, parameter(ctx, call, "weight", channel, wide));
  PN_TRY(const std::optional<E> bias, parameter(ctx, call, "bias", channel, wide));
  int64_t area = 1;
  for (size_t i = 2; i < input->shape.size(); ++i) area *= input->shape[i];
  if (!weight && !bias) return finished(ctx, call, (x - mean) * rstd);
  // One element a channel: no folding.
  if (area == 1) {
    const E normal = (x - mean) * rstd;
    if (weight && bias) return finished(ctx, call, fma(normal, *weight, *bias));
    return finished(ctx, call, weight ? normal * *weight : fma(x - mean, rstd, *bias));
  }
  const E factor = weight ? rstd * *weight : rstd;
  const E summand = bias ? fma(-factor, mean, *bias) : -factor * mean;
  return finished(ctx, call, fma(factor, x, summand));
}

// ---- torch.nn.functional.normalize: norm, clamp_min, expand_as and div, each rounding ----

Result<Inferred> meta_normalize(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  if (!is_floating(input->dtype)) return bad_argument(call, "input", "of a float type");
  PN_TRY([[maybe_unused]] const Axes axes, axes_arg(call, "dim", *input));
  const TensorMeta* of[] = {input};
  return fresh(input->shape, input->dtype, iterator_strides(input->shape, of));
}

Result<std::vector<ArrayId>> lower_normalize(LowerContext& ctx, const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(const Axes axes, axes_arg(call, "dim", *input));
  PN_TRY(const double order, real_arg(call, "p"));
  PN_TRY(const double eps, real_arg(call, "eps"));
  if (order != 2 && order != 1) return no_lowering(call, "orders other than 1 and 2");
  Program& p = ctx.program();
  PN_TRY(const ArrayId source, ctx.array(call.arg("input")));
  const auto element = [&](std::span<const ExprId> at) { return read_wide(p, source, at, input->dtype); };
  const auto rounded = [&](E e) { return e.cast(input->dtype).cast(e.type()); };
  const E x = element(axes.point(p, true));
  const ArrayId sum = fold(ctx, call, axes, ReduceOp::kSum, order == 2 ? x * x : abs(x), "sum");
  const E total{&p, p.read(sum, identity(p, axes.result_shape(true)))};
  const E norm = rounded(order == 2 ? sqrt(total) : total);
  const ArrayId divisor = per_row(ctx, call, axes, rounded(maximum(norm, norm.constant(eps))), "norm");
  const auto at = identity(p, input->shape);
  return finished(ctx, call, element(at) / read_row(p, divisor, axes, at));
}

// ---- weight normalisation along the first or last axis: g * v times the reciprocal of the norm.

Result<Inferred> meta_weight_norm(const Call& call) {
  PN_TRY(const TensorMeta* v, tensor_arg(call, "input"));
  PN_CHECK_OK(tensor_arg(call, "g"));
  PN_TRY(const int axis, axis_arg(call, "dim", v->dim()));
  std::vector<int64_t> norms(v->shape.size(), 1);
  if (!norms.empty()) norms[static_cast<size_t>(axis)] = v->shape[static_cast<size_t>(axis)];
  PN_CHECK_OK(shape_of(call, "g", norms));
  return fresh(v->shape, v->dtype);
}

Result<std::vector<ArrayId>> lower_weight_norm(LowerContext& ctx, const Call& call) {
  PN_TRY(const TensorMeta* v, tensor_arg(call, "input"));
  PN_TRY(const TensorMeta* g, tensor_arg(call, "g"));
  PN_TRY(const int64_t dim, int_arg(call, "dim"));
  if (v->dim() < 2 || (dim != 0 && dim != v->dim() - 1)) return no_lowering(call, "an axis in the middle");
  std::vector<bool> folded(v->shape.size(), true);
  folded[static_cast<size_t>(dim)] = false;
  const Axes axes(v->shape, std::move(folded));
  if (g->shape != axes.result_shape(true)) return bad_argument(call, "g", "one element a slice");
  Program& p = ctx.program();
  PN_TRY(const ArrayId source, ctx.array(call.arg("input")));
  PN_TRY(const ArrayId gain, ctx.array(call.arg("g")));
  const E x = read_wide(p, source, axes.point(p, true), v->dtype);
  const ArrayId sum = fold(ctx, call, axes, ReduceOp::kSum, x * x, "squares");
  const E norm = sqrt({&p, p.read(sum, identity(p, axes.result_shape(true)))});
  const ArrayId reciprocal = per_row(ctx, call, axes, 1.0 / norm, "reciprocal");
  const auto at = identity(p, v->shape);
  const E scale = read_wide(p, gain, axes.kept(p, at), g->dtype).cast(opmath(v->dtype));
  return finished(ctx, call, scale * read_wide(p, source, at, v->dtype) * read_row(p, reciprocal, axes, at));
}

#define PN_SOFTMAX(name)                                                                         \
  function("torch.nn.functional." name, "input, dim=None, _stacklevel=3, dtype=None"),           \
      function("torch." name, "input, dim, dtype=None"), method(name, "input, dim, dtype=None"), \
      function("torch.special." name, "input, dim, dtype=None")

}  // namespace

std::vector<OpRow> norm_rows() {
  return {
      {.name = "softmax",
       .cls = kNorm,
       .spellings = {PN_SOFTMAX("softmax")},
       .meta = meta_softmax,
       .lower = lower_softmax<SoftmaxForm::kSoftmax>,
       .cost = fixed_cost<107, 1>,
       .examples = {{"x=f16[4,6,33]", "torch.nn.functional.softmax(x, dim=-1)"},
                    {"x=bf16[4,6,7]", "torch.nn.functional.softmax(x, 1, _stacklevel=5)"},
                    {"x=f16[4,6]", "torch.softmax(x, dim=-1, dtype=torch.float32)"},
                    {"x=f32[4,6]{1,4}", "x.softmax(0)"}}},
      {.name = "log_softmax",
       .cls = kNorm,
       .spellings = {PN_SOFTMAX("log_softmax")},
       .meta = meta_softmax,
       .lower = lower_softmax<SoftmaxForm::kLogSoftmax>,
       .cost = fixed_cost<107, 1>,
       .examples = {{"x=f16[4,6,33]", "torch.nn.functional.log_softmax(x, dim=-1)"},
                    {"x=f32[2,1500]", "x.log_softmax(1)"}}},
      {.name = "softmin",
       .cls = kNorm,
       .spellings = {function("torch.nn.functional.softmin", "input, dim=None, _stacklevel=3, dtype=None")},
       .meta = meta_softmax,
       .lower = lower_softmax<SoftmaxForm::kSoftmin>,
       .cost = fixed_cost<220, 2>,
       .examples = {{"x=f32[4,6]", "torch.nn.functional.softmin(x, dim=1)"}}},
      {.name = "layer_norm",
       .cls = kNorm,
       .spellings = {function("torch.nn.functional.layer_norm",
                              "input, normalized_shape, weight=None, bias=None, eps=1e-05"),
                     function(
                         "torch.layer_norm",
                         "input, normalized_shape, weight=None, bias=None, eps=1e-05, _cudnn_enable=True")},
       .meta = meta_trailing_norm<true>,
       .lower = lower_layer_norm,
       .cost = fixed_cost<175, 1>,
       .examples = {{"x=f16[4,6,64], w=f16[64], b=f16[64]",
                     "torch.nn.functional.layer_norm(x, (64,), w, b, 1e-05)"},
                    {"x=bf16[4,6,33], w=bf16[33], b=bf16[33]",
                     "torch.nn.functional.layer_norm(x, (33,), w, b, 1e-06)"},
                    {"x=f32[4,3,5], w=f32[3,5]", "torch.nn.functional.layer_norm(x, (3, 5), w, None, 1e-05)"},
                    {"x=f32[4,8]", "torch.nn.functional.layer_norm(x, (8,))"}}},
      {.name = "rms_norm",
       .cls = kNorm,
       .spellings = {function("torch.nn.functional.rms_norm",
                              "input, normalized_shape, weight=None, eps=None"),
                     function("torch.rms_norm", "input, normalized_shape, weight=None, eps=None")},
       .meta = meta_trailing_norm<false>,
       .lower = lower_rms_norm,
       .cost = fixed_cost<175, 1>,
       .examples = {{"x=f16[4,6,64], w=f16[64]", "torch.rms_norm(x, (64,), w, 1e-06)"},
                    {"x=f32[2,3,8]", "torch.nn.functional.rms_norm(x, (8,))"}}},
      {.name = "batch_norm",
       .cls = kNorm,
       .spellings =
           {function(
                "torch.nn.functional.batch_norm",
                "input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, "
                "eps=1e-05"),
            function(
                "torch.batch_norm",
                "input, weight, bias, running_mean, running_var, training, momentum, eps, _cudnn_enabled")},
       .meta = meta_batch_norm,
       .lower = lower_batch_norm,
       .cost = fixed_cost<230, 1>,
       .examples = {{"x=f16[2,6,4,4], m=f16[6], v=f16[6], w=f16[6], b=f16[6]",
                     "torch.nn.functional.batch_norm(x, m, v, w, b, False, 0.1, 1e-05)"},
                    {"x=bf16[2,6,5]{30,1,6}, m=f32[6], v=f32[6]", "torch.nn.functional.batch_norm(x, m, v)"},
                    {"x=f32[4,6], m=f32[6], v=f32[6], w=f32[6], b=f32[6]",
                     "torch.nn.functional.batch_norm(x, m, v, w, b, False, 0.1, 0.001)"},
                    {"x=f32[1,6,9], w=f32[6]",
                     "torch.nn.functional.batch_norm(x, None, None, weight=w, training=True, momentum=0.0, "
                     "eps=1e-06)"}},
       .suggested_layout = true},
      {.name = "instance_norm",
       .cls = kNorm,
       .spellings = {function(
           "torch.nn.functional.instance_norm",
           "input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, "
           "momentum=0.1, eps=1e-05")},
       .meta = meta_instance_norm,
       .lower = lower_instance_norm,
       .cost = fixed_cost<400, 3>,
       .examples = {{"x=f16[2,6,4,4], w=f16[6], b=f16[6]",
                     "torch.nn.functional.instance_norm(x, weight=w, bias=b)"},
                    {"x=f32[2,6,9]", "torch.nn.functional.instance_norm(x)"}}},
      {.name = "group_norm",
       .cls = kNorm,
       .spellings = {function("torch.nn.functional.group_norm",
                              "input, num_groups, weight=None, bias=None, eps=1e-05"),
                     function("torch.group_norm",
                              "input, num_groups, weight=None, bias=None, eps=1e-05, _cudnn_enabled=True")},
       .meta = meta_group_norm,
       .lower = lower_group_norm,
       .cost = fixed_cost<250, 3>,
       .examples = {{"x=f16[2,6,4,4], w=f16[6], b=f16[6]",
                     "torch.nn.functional.group_norm(x, 3, w, b, 1e-05)"},
                    {"x=f32[2,6,9], w=f32[6]", "torch.nn.functional.group_norm(x, 2, w, None, 1e-06)"},
                    {"x=f32[2,6,3]", "torch.nn.functional.group_norm(x, 6)"},
                    {"x=bf16[2,6], w=bf16[6], b=bf16[6]", "torch.nn.functional.group_norm(x, 1, w, b)"}}},
      {.name = "normalize",
       .cls = kNorm,
       .spellings = {function("torch.nn.functional.normalize", "input, p=2.0, dim=1, eps=1e-12")},
       .meta = meta_normalize,
       .lower = lower_normalize,
       .cost = fixed_cost<450, 3>,
       .examples = {{"x=f16[4,6,33]", "torch.nn.functional.normalize(x, dim=-1)"},
                    {"x=f32[4,6]", "torch.nn.functional.normalize(x, p=1, dim=0)"}}},
      {.name = "weight_norm",
       .cls = kNorm,
       .spellings = {function("torch._weight_norm", "input|v, g, dim=0")},
       .meta = meta_weight_norm,
       .lower = lower_weight_norm,
       .cost = fixed_cost<180, 1>,
       .examples = {{"v=f32[6,3,5], g=f32[6,1,1]", "torch._weight_norm(v, g, 0)"},
                    {"v=f16[6,3,5], g=f16[1,1,5]", "torch._weight_norm(v, g, 2)"}}},
  };
}

}  // namespace passnet
