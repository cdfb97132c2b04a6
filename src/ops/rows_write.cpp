#include <algorithm>

#include <fmt/format.h>

#include "ops/copy_rows.h"
#include "ops/row_args.h"
#include "ops/view_algebra.h"

// Rows that replace elements of a tensor, in place or in a copy: metadata, and lowerings where every element
// has one writer (fill_, zero_, copy_).

namespace passnet {

namespace {

constexpr std::string_view kScattered = "several writers may meet in one element";

// The functional forms that start from clone(preserve_format).
Result<Inferred> meta_changed_clone(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  return fresh(input->shape, input->dtype, preserved_strides(*input));
}

// index may be smaller than src along every axis, and smaller than the operand along every axis but `dim`.
Result<Inferred> meta_scatter(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(const TensorMeta* index, tensor_arg(call, "index"));
  PN_TRY(const int axis, axis_arg(call, "dim", input->dim()));
  const TensorMeta* src = call.tensor("src");
  if (src != nullptr && src->dim() == 0) src = nullptr;  // a number
  PN_CHECK_OK(index_fits(call, *index, *input, axis));
  for (int i = 0; i < std::min(index->dim(), input->dim()); ++i) {
    const auto k = static_cast<size_t>(i);
    if (src != nullptr && (k >= src->shape.size() || index->shape[k] > src->shape[k]))
      return bad_argument(call, "src", fmt::format("no smaller than `index` along axis {}", i));
  }
  return fresh(input->shape, input->dtype);
}

// A slice of `source` for each index, the other axes as the operand's.
Result<Inferred> meta_indexed(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(const TensorMeta* index, tensor_arg(call, "index"));
  PN_TRY(const int axis, axis_arg(call, "dim", input->dim()));
  std::vector<int64_t> shape = input->shape;
  if (!shape.empty()) {
    shape[static_cast<size_t>(axis)] = index->numel();
    PN_CHECK_OK(shape_of(call, "source", shape));
  }
  return fresh(input->shape, input->dtype);
}

Result<Inferred> meta_copy(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_CHECK_OK(broadcasts_to(call, "src", input->shape));
  return meta_changed_clone(call);
}

Result<Inferred> meta_masked_scatter(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(const TensorMeta* mask, tensor_arg(call, "mask"));
  if (call.in_place) PN_CHECK_OK(broadcasts_to(call, "mask", input->shape));
  PN_TRY(std::vector<int64_t> shape, broadcast_shapes(call, std::vector{input->shape, mask->shape}));
  if (shape == input->shape) return meta_changed_clone(call);
  return fresh(std::move(shape), input->dtype);
}

Result<Inferred> meta_fill(const Call& call) { return meta_changed_clone(call); }

E constant_of(Program& p, double value, DType dtype) { return {&p, p.real(value, dtype)}; }

Result<std::vector<ArrayId>> filled(LowerContext& ctx, const Call& call, double value) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  if (is_complex(input->dtype)) return no_lowering(call, "complex numbers are not generated");
  Program& p = ctx.program();
  ExprId e = constant_of(p, value, input->dtype).id;
  return std::vector<ArrayId>{p.add_map(input->shape, input->dtype, e, label_of(call), call.node->id)};
}

Result<std::vector<ArrayId>> lower_fill(LowerContext& ctx, const Call& call) {
  if (call.tensor("value")) return no_lowering(call, "the value is a tensor");
  PN_TRY(double value, real_arg(call, "value"));
  return filled(ctx, call, value);
}

Result<std::vector<ArrayId>> lower_zero(LowerContext& ctx, const Call& call) { return filled(ctx, call, 0); }

Result<std::vector<ArrayId>> lower_copy(LowerContext& ctx, const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(const TensorMeta* other, tensor_arg(call, "src"));
  bool safe = input->dtype == other->dtype || (is_floating(input->dtype) && is_floating(other->dtype));
  if (!safe) return no_lowering(call, "it converts between types that are not both floating");
  PN_TRY(ArrayId source, ctx.array(call.arg("src")));
  Program& p = ctx.program();
  std::vector<ExprId> at = identity(p, input->shape);
  ExprId value = read_broadcast(p, source, at).cast(input->dtype).id;
  return std::vector<ArrayId>{p.add_map(input->shape, input->dtype, value, label_of(call), call.node->id)};
}

// A functional spelling and its in-place one.
std::vector<Spelling> both(std::string_view function_target, std::string_view method_name,
                           std::string_view in_place_name, std::string_view signature) {
  return {method(method_name, signature), function(function_target, signature),
          in_place(method(in_place_name, signature))};
}

OpRow scatter_row(std::string_view name, std::vector<Spelling> spellings, MetaFn meta,
                  std::vector<Example> examples) {
  return {.name = name,
          .cls = OpClass::kOther,
          .spellings = std::move(spellings),
          .meta = meta,
          .cost = fixed_cost<200, 2>,
          .examples = std::move(examples),
          .wall = kScattered};
}

}  // namespace

std::vector<OpRow> write_rows() {
  return {
      {.name = "copy_",
       .cls = OpClass::kPointwise,
       .spellings = {in_place(method("copy_", "input, src, non_blocking=False"))},
       .meta = meta_copy,
       .lower = lower_copy,
       .cost = fixed_cost<110, 1>,
       .examples = {{"x=f32[2,3], y=f32[3]", "x.copy_(y)"}, {"x=f16[2,3], y=f32[2,3]", "x.copy_(y)"}}},
      {.name = "fill",
       .cls = OpClass::kPointwise,
       .spellings = {function("torch.fill", "input, value"), in_place(method("fill_", "input, value")),
                     in_place(function("torch.fill_", "input, value"))},
       .meta = meta_fill,
       .lower = lower_fill,
       .cost = fixed_cost<80, 1>,
       .examples = {{"x=f32[2,3]", "torch.fill(x, 2)"}, {"x=i64[2,3]", "x.fill_(7)"}}},
      {.name = "zero_",
       .cls = OpClass::kPointwise,
       .spellings = {in_place(method("zero_", "input")), in_place(function("torch.zero_", "input"))},
       .meta = meta_changed_clone,
       .lower = lower_zero,
       .cost = fixed_cost<70, 1>,
       .examples = {{"x=f32[2,3]", "x.zero_()"}}},
      scatter_row(
          "scatter",
          both("torch.scatter", "scatter", "scatter_", "input, dim, index, src|value, *, reduce=None"),
          meta_scatter,
          {{"x=f32[4,5], i=i64[2,5], s=f32[2,5]", "torch.scatter(x, 0, i, s)"},
           {"x=f32[4,5], i=i64[2,5]", "x.scatter_(0, i, 1.0)"}}),
      scatter_row("scatter_add",
                  both("torch.scatter_add", "scatter_add", "scatter_add_", "input, dim, index, src"),
                  meta_scatter, {{"x=f32[4,5], i=i64[2,5], s=f32[2,5]", "x.scatter_add_(0, i, s)"}}),
      scatter_row("scatter_reduce",
                  both("torch.scatter_reduce", "scatter_reduce", "scatter_reduce_",
                       "input, dim, index, src, reduce, *, include_self=True"),
                  meta_scatter,
                  {{"x=f32[4,5], i=i64[2,5], s=f32[2,5]",
                    "x.scatter_reduce_(0, i, s, reduce='amax', include_self=False)"}}),
      scatter_row("index_put",
                  {method("index_put", "input, indices, values, accumulate=False"),
                   function("torch.index_put", "input, indices, values, accumulate=False"),
                   in_place(method("index_put_", "input, indices, values, accumulate=False")),
                   in_place(function("torch.index_put_", "input, indices, values, accumulate=False"))},
                  meta_changed_clone, {{"x=f32[4,5], i=i64[3], v=f32[3,5]", "x.index_put((i,), v)"}}),
      scatter_row("index_add",
                  both("torch.index_add", "index_add", "index_add_", "input, dim, index, source, *, alpha=1"),
                  meta_indexed, {{"x=f32[4,5], i=i64[3], v=f32[3,5]", "torch.index_add(x, 0, i, v)"}}),
      scatter_row("index_copy",
                  both("torch.index_copy", "index_copy", "index_copy_", "input, dim, index, source"),
                  meta_indexed, {{"x=f32[4,5], i=i64[3], v=f32[3,5]", "torch.index_copy(x, 0, i, v)"}}),
      scatter_row("index_fill",
                  both("torch.index_fill", "index_fill", "index_fill_", "input, dim, index, value"),
                  meta_changed_clone, {{"x=f32[4,5], i=i64[3]", "torch.index_fill(x, 0, i, 2.0)"}}),
      scatter_row("masked_scatter",
                  both("torch.masked_scatter", "masked_scatter", "masked_scatter_", "input, mask, source"),
                  meta_masked_scatter, {{"x=f32[4], m=bool[4], s=f32[4]", "torch.masked_scatter(x, m, s)"}}),
      scatter_row("slice_scatter",
                  {function("torch.slice_scatter", "input, src, dim=0, start=None, end=None, step=1"),
                   method("slice_scatter", "input, src, dim=0, start=None, end=None, step=1")},
                  meta_changed_clone,
                  {{"x=f32[4,5], s=f32[2,5]", "torch.slice_scatter(x, s, start=1, end=3)"}}),
      scatter_row("select_scatter",
                  {function("torch.select_scatter", "input, src, dim, index"),
                   method("select_scatter", "input, src, dim, index")},
                  meta_changed_clone, {{"x=f32[4,5], s=f32[5]", "torch.select_scatter(x, s, 0, 1)"}}),
  };
}

}  // namespace passnet
