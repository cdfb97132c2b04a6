#include <fmt/format.h>

#include "ops/row_args.h"
#include "ops/view_algebra.h"
#include "ops/view_rows.h"

// Calls that keep the elements as they are: no-ops, copies in another layout, and views that read memory
// anew.

namespace passnet {

namespace {

using Shape = std::vector<int64_t>;

OpCost cost_contiguous(const Call& call) {
  OpCost cost = view_or_copy_cost(call);
  if (cost.kernels == 0) cost.host_us = 0.2;
  return cost;
}

Result<std::vector<ArrayId>> lower_same(LowerContext& ctx, const Call& call) {
  PN_TRY(ArrayId id, ctx.array(call.arg("input")));
  return std::vector<ArrayId>{id};
}

Result<Inferred> meta_same(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  return tensor_result(*input);
}

Result<std::optional<Shape>> formatted_strides(const Call& call, const TensorMeta& input,
                                               std::string_view format) {
  if (format == "contiguous_format") return std::optional<Shape>(contiguous_strides(input.shape));
  if (format == "preserve_format") return preserved_strides(input);
  int rank = format == "channels_last" ? 4 : format == "channels_last_3d" ? 5 : -1;
  if (input.dim() != rank)
    return bad_argument(call, "memory_format", "a format that suits the tensor's rank");
  return std::optional<Shape>(channels_last_strides(input.shape));
}

Result<Inferred> meta_contiguous(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(std::string format, format_arg(call, "memory_format", "contiguous_format"));
  PN_TRY(std::optional<Shape> stride, formatted_strides(call, *input, format));
  if (!input->stride) {  // perhaps a copy, perhaps not: the strides are certain, sharing is possible
    TensorMeta out = *input;
    out.stride = std::move(stride);
    return tensor_result(std::move(out));
  }
  bool already =
      format == "contiguous_format" ? input->is_contiguous() : is_channels_last(input->shape, *input->stride);
  if (already) return tensor_result(*input);
  return fresh(input->shape, input->dtype, std::move(stride));
}

Result<Inferred> meta_clone(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(std::string format, format_arg(call, "memory_format", "preserve_format"));
  PN_TRY(std::optional<Shape> stride, formatted_strides(call, *input, format));
  return fresh(input->shape, input->dtype, std::move(stride));
}

Result<Inferred> meta_dropout(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(bool training, bool_arg(call, "training"));
  if (!training || call.in_place) return tensor_result(*input);
  return fresh(input->shape, input->dtype, preserved_strides(*input));
}

Result<std::vector<ArrayId>> lower_dropout(LowerContext& ctx, const Call& call) {
  PN_TRY(bool training, bool_arg(call, "training"));
  if (training) return no_lowering(call, "dropout in training draws random numbers");
  return lower_same(ctx, call);
}

OpCost cost_dropout(const Call& call) {
  OpCost cost;
  Result<bool> training = bool_arg(call, "training");
  cost.host_us = training.ok() && *training ? 14 : 3.9;
  cost.kernels = training.ok() && *training ? 1 : 0;
  if (cost.kernels == 0) cost.bytes = 0;
  return cost;
}

Result<Inferred> meta_as_strided(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(Shape size, ints_arg(call, "size"));
  PN_TRY(Shape stride, ints_arg(call, "stride"));
  PN_TRY(std::optional<int64_t> offset, optional_int_arg(call, "storage_offset"));
  if (size.size() != stride.size()) return bad_argument(call, "stride", "as many as `size` has");
  TensorMeta out = *input;
  out.shape = std::move(size);
  out.stride = std::move(stride);
  if (offset) out.offset = *offset;
  return tensor_result(std::move(out));
}

Result<Inferred> meta_real_view(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  if (!is_complex(input->dtype)) return bad_argument(call, "input", "a complex tensor");
  TensorMeta out = *input;
  out.dtype = input->dtype == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64;
  out.offset *= 2;
  out.shape.push_back(2);
  if (out.stride) {
    for (int64_t& stride : *out.stride) stride *= 2;
    out.stride->push_back(1);
  }
  return tensor_result(std::move(out));
}

Result<Inferred> meta_complex_view(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  bool fits = input->dtype == DType::kFloat32 || input->dtype == DType::kFloat64;
  if (!fits || input->shape.empty() || input->shape.back() != 2)
    return bad_argument(call, "input", "a float tensor whose last axis has size 2");
  TensorMeta out = *input;
  out.dtype = input->dtype == DType::kFloat32 ? DType::kComplex64 : DType::kComplex128;
  out.offset /= 2;
  out.shape.pop_back();
  if (out.stride) {
    out.stride->pop_back();
    for (int64_t& stride : *out.stride) stride /= 2;
  }
  return tensor_result(std::move(out));
}

OpRow same_row(std::string_view name, std::vector<Spelling> spellings, std::vector<Example> examples) {
  return {.name = name,
          .cls = OpClass::kView,
          .spellings = std::move(spellings),
          .meta = meta_same,
          .lower = lower_same,
          .cost = fixed_cost<20, 0>,
          .examples = std::move(examples)};
}

}  // namespace

std::vector<OpRow> identity_rows() {
  return {
      {.name = "contiguous",
       .cls = OpClass::kView,
       .spellings = {method("contiguous", "input, *, memory_format=None")},
       .meta = meta_contiguous,
       .lower = lower_same,
       .cost = cost_contiguous,
       .examples = {{"x=f32[2,3]", "x.contiguous()"},
                    {"x=f32[2,3]", "x.t().contiguous()"},
                    {"x=f32[2,3,4,5]", "x.contiguous(memory_format=torch.channels_last)"}}},
      {.name = "clone",
       .cls = OpClass::kCopy,
       .spellings = {method("clone", "input, *, memory_format=None"),
                     function("torch.clone", "input, *, memory_format=None")},
       .meta = meta_clone,
       .lower = lower_same,
       .cost = fixed_cost<120, 1>,
       .examples = {{"x=f32[2,3]", "x.clone()"},
                    {"x=f32[2,3,4]", "x.transpose(0, 2).clone()"},
                    {"x=f32[2,3]", "torch.clone(x.t(), memory_format=torch.contiguous_format)"},
                    {"x=f32[2,1]", "x.expand(2, 3).clone()"}}},
      same_row("detach", {method("detach", "input"), function("torch.detach", "input")},
               {{"x=f32[2,3]", "x.detach()"}}),
      same_row("alias",
               {function("torch.ops.aten.alias", "input"), function("torch.ops.aten.alias.default", "input")},
               {{"x=f32[2,3]", "torch.ops.aten.alias(x)"}}),
      same_row("resolve_conj",
               {method("resolve_conj", "input"), function("torch.resolve_conj", "input"),
                method("resolve_neg", "input"), function("torch.resolve_neg", "input")},
               {{"x=f32[2]", "x.resolve_conj()"}}),
      same_row("requires_grad_", {method("requires_grad_", "input, requires_grad=True")},
               {{"x=f32[2]", "x.requires_grad_(False)"}}),
      {.name = "dropout",
       .cls = OpClass::kView,
       .spellings = {function("torch.nn.functional.dropout", "input, p=0.5, training=True, inplace=False"),
                     function("torch.nn.functional.dropout1d", "input, p=0.5, training=True, inplace=False"),
                     function("torch.nn.functional.dropout2d", "input, p=0.5, training=True, inplace=False"),
                     function("torch.nn.functional.dropout3d", "input, p=0.5, training=True, inplace=False"),
                     function("torch.nn.functional.alpha_dropout",
                              "input, p=0.5, training=False, inplace=False"),
                     function("torch.nn.functional.feature_alpha_dropout",
                              "input, p=0.5, training=False, inplace=False"),
                     function("torch.dropout", "input, p, training|train"),
                     function("torch.feature_dropout", "input, p, training|train"),
                     function("torch.alpha_dropout", "input, p, training|train"),
                     function("torch.feature_alpha_dropout", "input, p, training|train")},
       .meta = meta_dropout,
       .lower = lower_dropout,
       .cost = cost_dropout,
       .examples = {{"x=f32[2,3]", "torch.nn.functional.dropout(x, 0.1, False, False)"},
                    {"x=f16[2,3]", "torch.nn.functional.dropout(x, p=0.0, training=False)"},
                    {"x=f32[2,3,4,4]", "torch.nn.functional.dropout2d(x, 0.1, False, False)"},
                    {"x=f32[2,3]", "torch.dropout(x, 0.1, False)"}}},
      {.name = "as_strided",
       .cls = OpClass::kView,
       .spellings = {method("as_strided", "input, size, stride, storage_offset=None"),
                     function("torch.as_strided", "input, size, stride, storage_offset=None")},
       .meta = meta_as_strided,
       .cost = fixed_cost<30, 0>,
       .examples = {{"x=f32[12]", "x.as_strided((2, 3), (1, 4), 2)"}},
       .wall = "it addresses memory, not elements"},
      {.name = "view_as_real",
       .cls = OpClass::kView,
       .spellings = {function("torch.view_as_real", "input")},
       .meta = meta_real_view,
       .cost = fixed_cost<30, 0>,
       .examples = {{"x=c64[2,3]", "torch.view_as_real(x)"}},
       .wall = "complex numbers are not generated"},
      {.name = "view_as_complex",
       .cls = OpClass::kView,
       .spellings = {function("torch.view_as_complex", "input")},
       .meta = meta_complex_view,
       .cost = fixed_cost<30, 0>,
       .examples = {{"x=f32[2,3,2]", "torch.view_as_complex(x)"}},
       .wall = "complex numbers are not generated"},
  };
}

}  // namespace passnet
