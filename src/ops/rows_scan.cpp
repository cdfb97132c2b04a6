#include <algorithm>

#include <fmt/format.h>

#include "ops/row_args.h"
#include "ops/stencil_rows.h"
#include "ops/view_algebra.h"

// Scans, sorting and selection, Fourier transforms: results in which an element depends on a whole axis.

namespace passnet {

namespace {

using Shape = std::vector<int64_t>;

Result<Inferred> meta_cumulative(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_CHECK_OK(axis_arg(call, "dim", input->dim()));
  DType natural = is_integral(input->dtype, true) ? DType::kInt64 : input->dtype;
  PN_TRY(DType dtype, dtype_arg(call, "dtype", natural));
  return fresh(input->shape, dtype);
}

// Element i is the sum over j <= i: exact for integers; for floating types the order is the schedule's, and
// 16-bit types are refused because eager's scan rounds every partial sum.
template <bool kProduct>
Result<std::vector<ArrayId>> lower_cumulative(LowerContext& ctx, const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  if (input->dim() == 0) return no_lowering(call, "a scan of a 0-dim tensor");
  PN_TRY(int axis, axis_arg(call, "dim", input->dim()));
  DType dtype = call.node->meta.tensor.dtype;
  if (dtype == DType::kFloat16 || dtype == DType::kBFloat16)
    return no_lowering(call, "eager rounds every partial result to 16 bits, in an order of its own");
  if (is_complex(dtype) || dtype == DType::kBool)
    return no_lowering(call, "the result is not a plain number");
  PN_TRY(ArrayId source, ctx.array(call.arg("input")));
  Program& p = ctx.program();
  size_t a = static_cast<size_t>(axis);
  std::vector<ExprId> at = identity(p, input->shape);
  ExprId j = p.reduce_index(0, input->shape[a]);
  std::vector<ExprId> in = at;
  in[a] = j;
  ExprId value = p.cast(p.read(source, in), dtype);
  double neutral = kProduct ? 1 : 0;
  ExprId none = is_floating(dtype) ? p.real(neutral, dtype) : p.integer(static_cast<int64_t>(neutral), dtype);
  value = p.select(p.call(Fn::kLe, {j, at[a]}), value, none);
  return std::vector<ArrayId>{p.add_reduce(input->shape, dtype, kProduct ? ReduceOp::kProd : ReduceOp::kSum,
                                           {input->shape[a]}, value, label_of(call), call.node->id)};
}

Result<Inferred> meta_logcumsumexp(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_CHECK_OK(axis_arg(call, "dim", input->dim()));
  return fresh(input->shape, input->dtype);
}

Inferred values_and_indices(const Shape& shape, DType dtype, const std::optional<Shape>& stride) {
  return tuple_result(
      {Meta::of(fresh_meta(shape, dtype, stride)), Meta::of(fresh_meta(shape, DType::kInt64, stride))});
}

// cummax and cummin.
Result<Inferred> meta_cumulative_extreme(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_CHECK_OK(axis_arg(call, "dim", input->dim()));
  return values_and_indices(input->shape, input->dtype, contiguous_strides(input->shape));
}

Result<Inferred> meta_sort(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_CHECK_OK(axis_arg(call, "dim", input->dim()));
  return values_and_indices(input->shape, input->dtype, preserved_strides(*input));
}

Result<Inferred> meta_argsort(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_CHECK_OK(axis_arg(call, "dim", input->dim()));
  return fresh(input->shape, DType::kInt64, preserved_strides(*input));
}

Result<Inferred> meta_msort(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  return fresh(input->shape, input->dtype, preserved_strides(*input));
}

Result<Inferred> meta_topk(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(int axis, axis_arg(call, "dim", input->dim()));
  PN_TRY(int64_t k, int_arg(call, "k"));
  Shape shape = input->shape;
  int64_t size = shape.empty() ? 1 : shape[static_cast<size_t>(axis)];
  if (k < 0 || k > size) return bad_argument(call, "k", fmt::format("at most the axis' size, {}", size));
  if (!shape.empty()) shape[static_cast<size_t>(axis)] = k;
  return values_and_indices(shape, input->dtype, contiguous_strides(shape));
}

Result<Inferred> meta_kthvalue(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(int axis, axis_arg(call, "dim", input->dim()));
  PN_TRY(bool keepdim, bool_arg(call, "keepdim"));
  Shape shape = input->shape;
  if (!shape.empty() && keepdim) shape[static_cast<size_t>(axis)] = 1;
  if (!shape.empty() && !keepdim) shape.erase(shape.begin() + axis);
  return values_and_indices(shape, input->dtype, contiguous_strides(shape));
}

Result<Inferred> meta_search(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(bool narrow, bool_arg(call, "out_int32"));
  return fresh(input->shape, narrow ? DType::kInt32 : DType::kInt64);
}

// ---- Fourier transforms: the library chooses strides ----

DType complex_of(DType dtype) {
  return dtype == DType::kFloat64 || dtype == DType::kComplex128 ? DType::kComplex128 : DType::kComplex64;
}

enum class Transform { kFull, kToHalf, kFromHalf };

template <Transform kKind>
Result<Inferred> meta_fft(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(int axis, axis_arg(call, "dim", input->dim()));
  PN_TRY(std::optional<int64_t> n, optional_int_arg(call, "n"));
  if (input->dim() == 0) return bad_argument(call, "input", "a tensor with dimensions");
  Shape shape = input->shape;
  int64_t& size = shape[static_cast<size_t>(axis)];
  if (kKind == Transform::kFull) size = n.value_or(size);
  if (kKind == Transform::kToHalf) size = n.value_or(size) / 2 + 1;
  if (kKind == Transform::kFromHalf) size = n.value_or(2 * (size - 1));
  DType dtype = complex_of(input->dtype);
  if (kKind == Transform::kFromHalf) dtype = dtype == DType::kComplex128 ? DType::kFloat64 : DType::kFloat32;
  return fresh(std::move(shape), dtype, std::nullopt);
}

Result<Inferred> meta_fftn(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  Shape shape = input->shape;
  if (!is_none(call, "s")) {
    PN_TRY(Shape sizes, ints_arg(call, "s"));
    Shape axes;
    if (!is_none(call, "dim")) {
      PN_TRY(axes, ints_arg(call, "dim"));
    } else {
      for (size_t i = 0; i < sizes.size(); ++i) axes.push_back(static_cast<int64_t>(i) - std::ssize(sizes));
    }
    if (axes.size() != sizes.size()) return bad_argument(call, "s", "as many sizes as axes");
    for (size_t i = 0; i < axes.size(); ++i) {
      PN_TRY(int64_t axis, normal_dim(call, axes[i], input->dim()));
      if (sizes[i] != -1) shape[static_cast<size_t>(axis)] = sizes[i];
    }
  }
  return fresh(std::move(shape), complex_of(input->dtype), std::nullopt);
}

OpRow cumulative_row(std::string_view name, std::vector<Spelling> spellings, LowerFn lower,
                     std::vector<Example> examples) {
  return {.name = name,
          .cls = OpClass::kScan,
          .spellings = std::move(spellings),
          .meta = meta_cumulative,
          .lower = lower,
          .cost = fixed_cost<130, 1>,
          .examples = std::move(examples)};
}

OpRow other_row(std::string_view name, OpClass cls, std::vector<Spelling> spellings, MetaFn meta,
                std::vector<Example> examples, std::string_view wall) {
  return {.name = name,
          .cls = cls,
          .spellings = std::move(spellings),
          .meta = meta,
          .cost = fixed_cost<400, 3>,
          .examples = std::move(examples),
          .wall = wall};
}

constexpr std::string_view kCumulative = "input, dim|axis, *, dtype=None, out=None";
constexpr std::string_view kSort = "input, dim=-1, descending=False, *, stable=False";
constexpr std::string_view kTopk = "input, k, dim=-1, largest=True, sorted=True, *, out=None";
constexpr std::string_view kSorts = "sorting is not generated";
constexpr std::string_view kScans = "a scan that no schedule exists for";
constexpr std::string_view kTransforms = "a transform of a library";
constexpr std::string_view kFft = "input, n=None, dim=-1, norm=None, *, out=None";

}  // namespace

std::vector<OpRow> scan_rows() {
  return {
      cumulative_row("cumsum", {function("torch.cumsum", kCumulative), method("cumsum", kCumulative)},
                     lower_cumulative<false>,
                     {{"x=f32[3,4]", "torch.cumsum(x, dim=1)"},
                      {"x=i32[3,4]", "x.cumsum(0)"},
                      {"x=bool[3,4]", "torch.cumsum(x, axis=-1)"},
                      {"x=i64[3,4]", "x.cumsum(1, dtype=torch.float32)"}}),
      cumulative_row("cumprod", {function("torch.cumprod", kCumulative), method("cumprod", kCumulative)},
                     lower_cumulative<true>, {{"x=f32[3,4]", "torch.cumprod(x, dim=1)"}}),
      other_row("cummax", OpClass::kScan,
                {function("torch.cummax", "input, dim|axis"), method("cummax", "input, dim|axis")},
                meta_cumulative_extreme, {{"x=f32[3,4]", "torch.cummax(x, 1)"}}, kScans),
      other_row("cummin", OpClass::kScan,
                {function("torch.cummin", "input, dim|axis"), method("cummin", "input, dim|axis")},
                meta_cumulative_extreme, {{"x=f32[3,4]", "torch.cummin(x, 1)"}}, kScans),
      other_row(
          "logcumsumexp", OpClass::kScan,
          {function("torch.logcumsumexp", "input, dim|axis"), method("logcumsumexp", "input, dim|axis")},
          meta_logcumsumexp, {{"x=f32[3,4]", "torch.logcumsumexp(x, 1)"}}, kScans),
      other_row("sort", OpClass::kOther, {function("torch.sort", kSort), method("sort", kSort)}, meta_sort,
                {{"x=f32[3,4]", "torch.sort(x, dim=-1)"}, {"x=f32[3,4]", "x.sort(0, True)"}}, kSorts),
      other_row("argsort", OpClass::kOther, {function("torch.argsort", kSort), method("argsort", kSort)},
                meta_argsort, {{"x=f32[3,4]", "torch.argsort(x, dim=1, descending=True)"}}, kSorts),
      other_row("msort", OpClass::kOther, {function("torch.msort", "input"), method("msort", "input")},
                meta_msort, {{"x=f32[3,4]", "torch.msort(x)"}}, kSorts),
      other_row("topk", OpClass::kOther, {function("torch.topk", kTopk), method("topk", kTopk)}, meta_topk,
                {{"x=f32[3,4]", "x.topk(2)"}, {"x=f32[5,4]", "torch.topk(x, k=3, dim=0, largest=False)"}},
                kSorts),
      other_row("kthvalue", OpClass::kOther,
                {function("torch.kthvalue", "input, k, dim=-1, keepdim=False"),
                 method("kthvalue", "input, k, dim=-1, keepdim=False")},
                meta_kthvalue, {{"x=f32[3,4]", "torch.kthvalue(x, 2, keepdim=True)"}}, kSorts),
      other_row("bucketize", OpClass::kOther,
                {function("torch.bucketize", "input, boundaries, *, out_int32=False, right=False")},
                meta_search, {{"x=f32[3,4], b=f32[5]", "torch.bucketize(x, b, right=True)"}},
                "a search that no schedule exists for"),
      other_row(
          "searchsorted", OpClass::kOther,
          {function("torch.searchsorted",
                    "sorted_sequence, input|self, *, out_int32=False, right=False, side=None, sorter=None")},
          meta_search, {{"b=f32[5], x=f32[3,4]", "torch.searchsorted(b, x)"}},
          "a search that no schedule exists for"),
      other_row("fft", OpClass::kOther,
                {function("torch.fft.fft", kFft), function("torch._C._fft.fft_fft", kFft),
                 function("torch.fft.ifft", kFft), function("torch._C._fft.fft_ifft", kFft)},
                meta_fft<Transform::kFull>, {{"x=f32[3,8]", "torch.fft.fft(x, n=6)"}}, kTransforms),
      other_row("rfft", OpClass::kOther,
                {function("torch.fft.rfft", kFft), function("torch._C._fft.fft_rfft", kFft)},
                meta_fft<Transform::kToHalf>, {{"x=f32[3,8]", "torch.fft.rfft(x, n=6)"}}, kTransforms),
      other_row("irfft", OpClass::kOther,
                {function("torch.fft.irfft", kFft), function("torch._C._fft.fft_irfft", kFft)},
                meta_fft<Transform::kFromHalf>, {{"x=c64[3,5]", "torch.fft.irfft(x, n=8)"}}, kTransforms),
      other_row("fftn", OpClass::kOther,
                {function("torch.fft.fftn", "input, s=None, dim=None, norm=None, *, out=None"),
                 function("torch._C._fft.fft_fftn", "input, s=None, dim=None, norm=None, *, out=None"),
                 function("torch.fft.fft2", "input, s=None, dim=(-2, -1), norm=None, *, out=None"),
                 function("torch._C._fft.fft_fft2", "input, s=None, dim=(-2, -1), norm=None, *, out=None")},
                meta_fftn, {{"x=f32[2,4,8]", "torch.fft.fftn(x, dim=(1, 2))"}}, kTransforms),
  };
}

}  // namespace passnet
