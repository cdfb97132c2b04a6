#include <cmath>

#include "ops/row_args.h"
#include "ops/view_algebra.h"
#include "ops/view_rows.h"

// Sizes and attributes: numbers known when the graph is captured, and the two views that are spelled as
// attributes.

namespace passnet {

namespace {

Inferred number_result(Value v) {
  Inferred out;
  out.meta = Meta::number(std::move(v));
  return out;
}

Inferred sizes_result(const std::vector<int64_t>& sizes) {
  std::vector<Meta> items;
  for (int64_t size : sizes) items.push_back(Meta::number(Value::integer(size)));
  return tuple_result(std::move(items));
}

Result<Inferred> per_axis(const Call& call, const std::vector<int64_t>& of_axes) {
  if (is_none(call, "dim")) return sizes_result(of_axes);
  PN_TRY(int axis, axis_arg(call, "dim", static_cast<int64_t>(of_axes.size())));
  if (of_axes.empty()) return bad_argument(call, "dim", "left out for a 0-dim tensor");
  return number_result(Value::integer(of_axes[static_cast<size_t>(axis)]));
}

Diagnostic unknown_strides(const Call& call) {
  return bad_call(call, "ops.unknown_value",
                  "the strides are chosen by a library and only known at run time");
}

Result<Inferred> meta_size(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  return per_axis(call, input->shape);
}

Result<Inferred> meta_stride(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  if (!input->stride) return unknown_strides(call);
  return per_axis(call, *input->stride);
}

Result<Inferred> meta_dim(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  return number_result(Value::integer(input->dim()));
}

Result<Inferred> meta_numel(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  return number_result(Value::integer(input->numel()));
}

Result<Inferred> meta_element_size(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  return number_result(Value::integer(size_of(input->dtype)));
}

Result<Inferred> meta_offset(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  if (!input->stride) return unknown_strides(call);
  return number_result(Value::integer(input->offset));
}

Result<Inferred> meta_is_contiguous(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  if (!input->stride) return unknown_strides(call);
  PN_TRY(std::string format, format_arg(call, "memory_format", "contiguous_format"));
  bool yes =
      format == "contiguous_format" ? input->is_contiguous() : is_channels_last(input->shape, *input->stride);
  return number_result(Value::boolean(yes));
}

Result<Inferred> meta_is_floating_point(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  return number_result(Value::boolean(is_floating(input->dtype)));
}

Result<Inferred> meta_is_complex(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  return number_result(Value::boolean(is_complex(input->dtype)));
}

Result<Inferred> meta_item(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  if (input->numel() != 1) return bad_argument(call, "input", "a tensor of one element");
  return Inferred{};  // a number of the run
}

// The sum of numbers of which some may be sizes of the run.
Result<Inferred> meta_sym_sum(const Call& call) {
  const Value& terms = call.arg("args");
  if (!terms.is_sequence()) return bad_argument(call, "args", "a sequence of integers");
  int64_t sum = 0;
  for (const Value& term : terms.items()) {
    const Value known = known_value(call, term);
    if (known.is_node()) {
      const Meta* meta = meta_of(call, known);
      if (meta->kind != Meta::Kind::kUnknown) return bad_argument(call, "args", "a sequence of integers");
      return Inferred{};
    }
    if (known.kind() != Value::Kind::kInt && known.kind() != Value::Kind::kBool)
      return bad_argument(call, "args", "a sequence of integers");
    sum += known.as_int();
  }
  return number_result(Value::integer(sum));
}

Result<Inferred> meta_sym_int(const Call& call) {
  const Value known = known_value(call, call.arg("input"));
  if (known.kind() == Value::Kind::kInt || known.kind() == Value::Kind::kBool)
    return number_result(Value::integer(known.as_int()));
  if (known.is_number()) {
    if (!(std::fabs(known.as_double()) < 9.2e18)) return bad_argument(call, "input", "a number of 64 bits");
    return number_result(Value::integer(static_cast<int64_t>(known.as_double())));
  }
  return Inferred{};
}

// Assertions about sizes: they have no value.
Result<Inferred> meta_assertion(const Call&) {
  Inferred out;
  out.meta = Meta::none();
  return out;
}

std::optional<View> attribute_view(const TensorMeta& input, std::string_view name) {
  View view(input);
  if (name == "T" || name == "H") {
    std::vector<int64_t> axes;
    for (int axis = view.rank() - 1; axis >= 0; --axis) axes.push_back(axis);
    view.permute(axes);
    return view;
  }
  if (name == "mT" || name == "mH") {
    if (view.rank() < 2) return std::nullopt;
    view.transpose(view.rank() - 2, view.rank() - 1);
    return view;
  }
  if (name == "data" || (name == "real" && !is_complex(input.dtype))) return view;
  return std::nullopt;
}

Result<Inferred> meta_getattr(const Call& call) {
  PN_TRY(std::string name, string_arg(call, "name"));
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  if (std::optional<View> view = attribute_view(*input, name)) return tensor_result(view->meta());
  if (name == "shape") return sizes_result(input->shape);
  if (name == "ndim") return number_result(Value::integer(input->dim()));
  if (name == "itemsize") return number_result(Value::integer(size_of(input->dtype)));
  if (name == "nbytes") return number_result(Value::integer(input->bytes()));
  if (name == "dtype") return number_result(Value::dtype(input->dtype));
  if (name == "device") return number_result(Value::device(input->device));
  if (name == "is_cuda") return number_result(Value::boolean(input->device.rfind("cuda", 0) == 0));
  if (name == "requires_grad" || name == "is_sparse" || name == "is_quantized" || name == "is_mkldnn")
    return number_result(Value::boolean(false));
  if ((name == "real" || name == "imag") && is_complex(input->dtype)) {
    TensorMeta out = *input;
    out.dtype = input->dtype == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64;
    out.offset = out.offset * 2 + (name == "imag" ? 1 : 0);
    if (out.stride)
      for (int64_t& stride : *out.stride) stride *= 2;
    return tensor_result(std::move(out));
  }
  return bad_argument(call, "name",
                      "an attribute of a tensor that is known at capture (shape, dtype, T, ...)");
}

Result<std::vector<ArrayId>> lower_getattr(LowerContext& ctx, const Call& call) {
  PN_TRY(std::string name, string_arg(call, "name"));
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  std::optional<View> view = attribute_view(*input, name);
  if (!view || is_complex(input->dtype)) return no_lowering(call, "the attribute is no view of the elements");
  return lower_gather(ctx, call, "input",
                      [&](Program& p, std::span<const ExprId> at) { return view->map(p, at); });
}

// real and imag as functions: `real` of a real tensor is itself.
template <bool kImaginary>
Result<Inferred> meta_part(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  if (!is_complex(input->dtype)) {
    if (kImaginary) return bad_argument(call, "input", "a complex tensor");
    return tensor_result(*input);
  }
  TensorMeta out = *input;
  out.dtype = input->dtype == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64;
  out.offset = out.offset * 2 + (kImaginary ? 1 : 0);
  if (out.stride)
    for (int64_t& stride : *out.stride) stride *= 2;
  return tensor_result(std::move(out));
}

constexpr std::string_view kIsNumber = "its value is a number, not a tensor";

OpRow number_row(std::string_view name, std::vector<Spelling> spellings, MetaFn meta,
                 std::vector<Example> examples) {
  return {.name = name,
          .cls = OpClass::kOther,
          .spellings = std::move(spellings),
          .meta = meta,
          .cost = fixed_cost<2, 0>,
          .examples = std::move(examples),
          .wall = kIsNumber};
}

}  // namespace

std::vector<OpRow> attribute_rows() {
  return {
      number_row("size",
                 {method("size", "input, dim=None"), function("torch.ops.aten.sym_size.int", "input, dim")},
                 meta_size, {{"x=f32[2,3]", "x.size()"}, {"x=f32[2,3]", "x.size(-1)"}}),
      number_row("stride", {method("stride", "input, dim=None")}, meta_stride,
                 {{"x=f32[2,3]", "x.stride()"}, {"x=f32[2,3]", "x.t().stride(0)"}}),
      number_row("dim", {method("dim", "input"), method("ndimension", "input")}, meta_dim,
                 {{"x=f32[2,3]", "x.dim()"}}),
      number_row("numel",
                 {method("numel", "input"), method("nelement", "input"), function("torch.numel", "input")},
                 meta_numel, {{"x=f32[2,3]", "x.numel()"}}),
      number_row("element_size", {method("element_size", "input")}, meta_element_size,
                 {{"x=f16[2,3]", "x.element_size()"}}),
      number_row("storage_offset", {method("storage_offset", "input")}, meta_offset,
                 {{"x=f32[2,3]", "x.select(0, 1).storage_offset()"}}),
      number_row("is_contiguous", {method("is_contiguous", "input, memory_format=None")}, meta_is_contiguous,
                 {{"x=f32[2,3]", "x.is_contiguous()"}, {"x=f32[2,3]", "x.t().is_contiguous()"}}),
      number_row("is_floating_point",
                 {method("is_floating_point", "input"), function("torch.is_floating_point", "input")},
                 meta_is_floating_point, {{"x=i64[2,3]", "x.is_floating_point()"}}),
      number_row("is_complex", {method("is_complex", "input"), function("torch.is_complex", "input")},
                 meta_is_complex, {{"x=f32[2,3]", "x.is_complex()"}}),
      number_row("sym_sum", {function("torch.sym_sum", "args")}, meta_sym_sum,
                 {{"", "torch.sym_sum([1, 2])"}}),
      number_row("sym_int", {function("torch.sym_int", "input|a")}, meta_sym_int,
                 {{"", "torch.sym_int(2.0)"}}),
      number_row("size_assertion",
                 {function("torch._check_is_size", "input|i, message=None, *, max=None"),
                  function("torch.ops.aten._assert_scalar.default", "input, message")},
                 meta_assertion, {{"", "torch._check_is_size(3)"}}),
      {.name = "item",
       .cls = OpClass::kOther,
       .spellings = {method("item", "input"), function("torch.ops.aten._local_scalar_dense", "input")},
       .meta = meta_item,
       .cost = fixed_cost<200, 1>,
       .examples = {{"x=f32[]", "x.item()"}},
       .wall = "the host waits for the value"},
      {.name = "getattr",
       .cls = OpClass::kView,
       .spellings = {function("builtins.getattr", "input, name")},
       .meta = meta_getattr,
       .lower = lower_getattr,
       .cost = fixed_cost<25, 0>,
       .examples = {{"x=f32[2,3]", "x.T"},
                    {"x=f32[2,3,4]", "x.mT"},
                    {"x=f32[2,3]", "x.shape"},
                    {"x=c64[2,3]", "x.real"}}},
      {.name = "real",
       .cls = OpClass::kView,
       .spellings = {function("torch.real", "input")},
       .meta = meta_part<false>,
       .cost = fixed_cost<30, 0>,
       .examples = {{"x=c64[2,3]", "torch.real(x)"}},
       .wall = "complex numbers are not generated"},
      {.name = "imag",
       .cls = OpClass::kView,
       .spellings = {function("torch.imag", "input")},
       .meta = meta_part<true>,
       .cost = fixed_cost<30, 0>,
       .examples = {{"x=c64[2,3]", "torch.imag(x)"}},
       .wall = "complex numbers are not generated"},
  };
}

}  // namespace passnet
