#include "ops/row_args.h"

#include <algorithm>

#include <fmt/format.h>

namespace passnet {

const Meta* meta_of(const Call& call, const Value& v) {
  return v.is_node() ? &call.graph->node(v.as_node()).meta : nullptr;
}

Value known_value(const Call& call, const Value& v) {
  const Meta* meta = meta_of(call, v);
  if (meta && meta->kind == Meta::Kind::kScalar) return meta->scalar;
  return v;
}

Diagnostic bad_argument(const Call& call, std::string_view name, std::string_view expected) {
  const Value& given = call.arg(name);
  const Meta* meta = meta_of(call, given);
  if (meta && meta->kind == Meta::Kind::kUnknown)
    return bad_call(
        call, "ops.unknown_value",
        fmt::format("`{}` should be {}, but it is a value that is only known at run time", name, expected));
  return bad_call(call, "ops.bad_arguments", fmt::format("`{}` should be {}", name, expected));
}

Status shape_of(const Call& call, std::string_view name, std::span<const int64_t> shape) {
  const TensorMeta* meta = call.tensor(name);
  if (meta == nullptr || std::ranges::equal(meta->shape, shape)) return ok_status();
  return bad_argument(call, name, fmt::format("of shape [{}]", fmt::join(shape, ", ")));
}

Status index_fits(const Call& call, const TensorMeta& index, const TensorMeta& input, int axis) {
  if (std::max(input.dim(), 1) != std::max(index.dim(), 1))
    return bad_argument(call, "index", fmt::format("a tensor of {} dimensions, as `input` has", input.dim()));
  for (int i = 0; i < std::min(index.dim(), input.dim()); ++i) {
    const auto k = static_cast<size_t>(i);
    if (i != axis && index.shape[k] > input.shape[k])
      return bad_argument(call, "index", fmt::format("no larger than `input` along axis {}", i));
  }
  return ok_status();
}

Status broadcasts_to(const Call& call, std::string_view name, std::span<const int64_t> shape) {
  const TensorMeta* meta = call.tensor(name);
  if (meta == nullptr) return ok_status();
  bool fits = meta->shape.size() <= shape.size();
  for (size_t i = 0; fits && i < meta->shape.size(); ++i) {
    const int64_t mine = meta->shape[meta->shape.size() - 1 - i];
    fits = mine == 1 || mine == shape[shape.size() - 1 - i];
  }
  if (fits) return ok_status();
  return bad_argument(call, name, fmt::format("of a shape that broadcasts to [{}]", fmt::join(shape, ", ")));
}

namespace {

// A number was expected. A tensor without axes stands for one too, as torch takes it, but its value is of run
// time.
Diagnostic no_number(const Call& call, std::string_view name, std::string_view expected, const Value& given) {
  const TensorMeta* tensor = call.tensor(given);
  if (tensor == nullptr || tensor->dim() > 0) return bad_argument(call, name, expected);
  return bad_call(call, "ops.unknown_value",
                  fmt::format("`{}` should be {}; the tensor `{}` is only known at run time", name, expected,
                              call.graph->node(given.as_node()).name));
}

}  // namespace

Diagnostic no_lowering(const Call& call, std::string_view why) {
  return bad_call(call, "ops.no_lowering", std::string(why));
}

Result<const TensorMeta*> tensor_arg(const Call& call, std::string_view name) {
  const TensorMeta* meta = call.tensor(name);
  if (!meta) return bad_argument(call, name, "a tensor");
  return meta;
}

Result<std::vector<TensorMeta>> tensors_arg(const Call& call, std::string_view name) {
  const Value& v = call.arg(name);
  std::vector<TensorMeta> out;
  if (const Meta* meta = meta_of(call, v); meta && meta->kind == Meta::Kind::kTuple) {
    for (const Meta& item : meta->items) {
      if (!item.is_tensor()) return bad_argument(call, name, "a sequence of tensors");
      out.push_back(item.tensor);
    }
    return out;
  }
  if (!v.is_sequence()) return bad_argument(call, name, "a sequence of tensors");
  for (const Value& item : v.items()) {
    const TensorMeta* meta = call.tensor(item);
    if (!meta) return bad_argument(call, name, "a sequence of tensors");
    out.push_back(*meta);
  }
  return out;
}

Result<int64_t> int_arg(const Call& call, std::string_view name) {
  Value v = known_value(call, call.arg(name));
  if (v.kind() != Value::Kind::kInt && v.kind() != Value::Kind::kBool)
    return no_number(call, name, "an integer", v);
  return v.as_int();
}

Result<std::optional<int64_t>> optional_int_arg(const Call& call, std::string_view name) {
  if (is_none(call, name)) return std::optional<int64_t>();
  PN_TRY(int64_t v, int_arg(call, name));
  return std::optional<int64_t>(v);
}

Result<bool> bool_arg(const Call& call, std::string_view name) {
  Value v = known_value(call, call.arg(name));
  if (v.is_none()) return false;
  if (v.kind() != Value::Kind::kInt && v.kind() != Value::Kind::kBool)
    return no_number(call, name, "a bool", v);
  return v.as_bool();
}

Result<double> real_arg(const Call& call, std::string_view name) {
  Value v = known_value(call, call.arg(name));
  if (!v.is_number()) return no_number(call, name, "a number", v);
  return v.as_double();
}

Result<std::string> string_arg(const Call& call, std::string_view name) {
  const Value& v = call.arg(name);
  if (v.kind() != Value::Kind::kString) return bad_argument(call, name, "a string");
  return v.text();
}

namespace {

// Nothing has so many elements; sums of a few such numbers still fit.
int64_t bounded(int64_t v) {
  constexpr int64_t kMost = int64_t{1} << 61;
  return std::clamp(v, -kMost, kMost);
}

}  // namespace

Result<std::vector<int64_t>> ints_arg(const Call& call, std::string_view name) {
  Value v = known_value(call, call.arg(name));
  if (v.kind() == Value::Kind::kInt) return std::vector<int64_t>{bounded(v.as_int())};
  std::vector<int64_t> out;
  if (const Meta* meta = meta_of(call, v); meta && meta->kind == Meta::Kind::kTuple) {  // x.size(), x.shape
    for (const Meta& item : meta->items) {
      if (item.kind != Meta::Kind::kScalar) return bad_argument(call, name, "integers");
      out.push_back(bounded(item.scalar.as_int()));
    }
    return out;
  }
  if (!v.is_sequence()) return no_number(call, name, "integers", v);
  for (const Value& item : v.items()) {
    Value known = known_value(call, item);
    if (known.kind() == Value::Kind::kFloat || !known.is_number()) {
      if (const Meta* meta = meta_of(call, item); meta && meta->kind == Meta::Kind::kUnknown)
        return bad_call(call, "ops.unknown_value",
                        fmt::format("`{}` holds `{}`, which is only known at run time", name,
                                    call.graph->node(item.as_node()).name));
      return no_number(call, name, "integers", item);
    }
    out.push_back(bounded(known.as_int()));
  }
  return out;
}

Result<std::vector<int64_t>> spread_arg(const Call& call, std::string_view name, size_t n) {
  PN_TRY(std::vector<int64_t> v, ints_arg(call, name));
  if (v.size() == 1) v.resize(n, v[0]);
  if (v.size() != n) return bad_argument(call, name, fmt::format("one integer or {}", n));
  // Windows: what they are multiplied with still fits.
  constexpr int64_t kMost = int64_t{1} << 31;
  if (std::ranges::any_of(v, [](int64_t i) { return i > kMost || i < -kMost; }))
    return bad_argument(call, name, fmt::format("no number beyond {}", kMost));
  return v;
}

Result<int> axis_arg(const Call& call, std::string_view name, int64_t rank) {
  PN_TRY(int64_t dim, int_arg(call, name));
  PN_TRY(int64_t axis, normal_dim(call, dim, rank));
  return static_cast<int>(axis);
}

bool is_none(const Call& call, std::string_view name) {
  const Value& v = call.arg(name);
  if (v.is_none()) return true;
  const Meta* meta = meta_of(call, v);
  return meta && meta->kind == Meta::Kind::kNone;
}

Result<DType> dtype_arg(const Call& call, std::string_view name, DType fallback) {
  const Value& v = call.arg(name);
  if (v.is_none()) return fallback;
  if (v.kind() != Value::Kind::kDType) return bad_argument(call, name, "a torch dtype");
  return v.as_dtype();
}

Result<std::string> format_arg(const Call& call, std::string_view name, std::string_view fallback) {
  const Value& v = call.arg(name);
  if (v.is_none()) return std::string(fallback);
  if (v.kind() != Value::Kind::kMemoryFormat && v.kind() != Value::Kind::kConstant)
    return bad_argument(call, name, "a torch memory format");
  size_t dot = v.text().rfind('.');
  return dot == std::string::npos ? v.text() : v.text().substr(dot + 1);
}

Inferred tensor_result(TensorMeta meta) {
  Inferred out;
  out.meta = Meta::of(std::move(meta));
  return out;
}

Inferred tuple_result(std::vector<Meta> items) {
  Inferred out;
  out.meta = Meta::tuple(std::move(items));
  return out;
}

TensorMeta fresh_meta(std::vector<int64_t> shape, DType dtype) {
  std::vector<int64_t> stride = contiguous_strides(shape);
  return fresh_meta(std::move(shape), dtype, std::move(stride));
}

TensorMeta fresh_meta(std::vector<int64_t> shape, DType dtype, std::optional<std::vector<int64_t>> stride) {
  TensorMeta meta;
  meta.shape = std::move(shape);
  meta.dtype = dtype;
  meta.stride = std::move(stride);
  meta.storage = kFresh;
  return meta;
}

std::string label_of(const Call& call, std::string_view part) {
  std::string out = call.node->name;
  out += '.';
  out += call.row->name;
  if (!part.empty()) {
    out += '.';
    out += part;
  }
  return out;
}

}  // namespace passnet
