#include "ops/pointwise_rows.h"
#include "ops/view_algebra.h"

namespace passnet {

namespace {

// ---- conversions: x.to(...), x.float(), ... . A conversion that changes nothing returns its argument, which makes
// this a view (a possible alias); one that does something copies in the preserved layout.

struct Target {
  DType dtype;
  std::string device;
  bool copy = false;
  std::string format;  // "preserve_format", "contiguous_format", ...
};

// "cuda" without an index is the current device; graphs are captured on the first one.
std::string full_device(const std::string& device) { return device == "cuda" ? "cuda:0" : device; }

Result<Target> target_of(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  Target out{input->dtype, input->device, false, "preserve_format"};
  if (const TensorMeta* like = call.tensor("other")) {
    out.dtype = like->dtype;
    out.device = like->device;
  } else {
    PN_TRY(out.dtype, dtype_arg(call, "dtype", input->dtype));
    const Value& device = call.arg("device");
    if (device.kind() == Value::Kind::kDevice || device.kind() == Value::Kind::kString) {
      out.device = full_device(device.text());
    } else if (!device.is_none()) {
      return bad_argument(call, "device", "a device");
    }
  }
  PN_TRY(out.copy, bool_arg(call, "copy"));
  PN_TRY(out.format, format_arg(call, "memory_format", "preserve_format"));
  return out;
}

Result<Inferred> converted(const Call& call, const Target& target) {
  const TensorMeta& input = *call.tensor("input");
  const bool keeps_format =
      target.format == "preserve_format" || (target.format == "contiguous_format" && input.is_contiguous()) ||
      (target.format == "channels_last" && input.stride && is_channels_last(input.shape, *input.stride));
  if (!target.copy && keeps_format && target.dtype == input.dtype && target.device == input.device) {
    return tensor_result(input);
  }
  std::optional<std::vector<int64_t>> stride;
  if (target.format == "preserve_format") {
    stride = preserved_strides(input);
  } else if (target.format == "contiguous_format") {
    stride = contiguous_strides(input.shape);
  } else {
    stride = channels_last_strides(input.shape);
  }
  TensorMeta meta = fresh_meta(input.shape, target.dtype, std::move(stride));
  meta.device = target.device;
  return tensor_result(std::move(meta));
}

Result<Inferred> meta_to(const Call& call) {
  PN_TRY(const Target target, target_of(call));
  return converted(call, target);
}

template <DType kTo>
Result<Inferred> meta_to_type(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  return converted(call, Target{kTo, input->device, false, "preserve_format"});
}

Result<std::vector<ArrayId>> lower_conversion(LowerContext& ctx, const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  const TensorMeta& result = call.node->meta.tensor;
  if (result.device != input->device) return no_lowering(call, "moves between devices");
  if (is_complex(input->dtype) || is_complex(result.dtype))
    return no_lowering(call, "complex numbers have no kernels");
  PN_TRY(const ArrayId array, ctx.array(call.arg("input")));
  if (result.dtype == input->dtype) return std::vector<ArrayId>{array};
  Program& p = ctx.program();
  const E x = read_broadcast(p, array, identity(p, result.shape));
  // float to bool asks whether it is not zero; NaN is true.
  const E value = result.dtype == DType::kBool ? truth(x) : x.cast(result.dtype);
  return std::vector<ArrayId>{p.add_map(result.shape, result.dtype, value.id, label_of(call), call.node->id)};
}

OpCost cost_conversion(const Call& call) {
  const Meta& meta = call.node->meta;
  const TensorMeta* input = call.tensor("input");
  OpCost cost;
  const bool nothing =
      input && meta.is_tensor() && meta.tensor.storage == input->storage && input->storage >= 0;
  cost.host_us = nothing ? 1.9 : 12.9;
  cost.kernels = nothing ? 0 : 1;
  if (nothing) cost.bytes = 0;
  return cost;
}

template <DType kTo>
OpRow type_method(std::string_view name) {
  return {.name = name,
          .cls = OpClass::kView,
          .spellings = {method(name, "input, memory_format=None")},
          .meta = meta_to_type<kTo>,
          .lower = lower_conversion,
          .cost = cost_conversion,
          .examples = {{"x=f16[4,33]", ""}, {"x=f32[3,5]{1,3}", ""}, {"x=i64[7]", ""}, {"x=bool[7]", ""}}};
}

}  // namespace

std::vector<OpRow> cast_rows() {
  return {
      {.name = "to",
       .cls = OpClass::kView,
       .spellings =
           {method("to",
                   "input, dtype:dtype, non_blocking:bool=False, copy:bool=False, *, memory_format=None, "
                   "device=None, other=None"),
            method(
                "to",
                "input, device:device=None, dtype:dtype=None, non_blocking:bool=False, copy:bool=False, *, "
                "memory_format=None"),
            method("to",
                   "input, other:tensor, non_blocking:bool=False, copy:bool=False, *, memory_format=None"),
            method("type", "input, dtype:dtype, non_blocking:bool=False"),
            method("type_as", "input, other:tensor")},
       .meta = meta_to,
       .lower = lower_conversion,
       .cost = cost_conversion,
       .examples = {{"x=f16[4,33]", "x.to(torch.float32)"},
                    {"x=f32[4,33]", "x.to(dtype=torch.bfloat16)"},
                    {"x=f32[3,5]{1,3}", "x.to(torch.float32)"},
                    {"x=i64[7], y=f16[2]", "x.type_as(y)"},
                    {"x=f32[7]", "x.to(torch.bool)"},
                    {"x=bool[7]", "x.type(torch.int64)"}}},
      type_method<DType::kFloat32>("float"),
      type_method<DType::kFloat16>("half"),
      type_method<DType::kBFloat16>("bfloat16"),
      type_method<DType::kFloat64>("double"),
      type_method<DType::kInt64>("long"),
      type_method<DType::kInt32>("int"),
      type_method<DType::kBool>("bool"),
  };
}

}  // namespace passnet
