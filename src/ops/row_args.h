#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/rows.h"

// Reading of a call's arguments with a refusal that names the parameter, and small builders for the row
// lists.

namespace passnet {

// The metadata of a node argument; null for a literal.
const Meta* meta_of(const Call& call, const Value& v);
// A literal, or the number a node is known to be (sizes read from a tensor); `v` itself otherwise.
Value known_value(const Call& call, const Value& v);

Result<const TensorMeta*> tensor_arg(const Call& call, std::string_view name);
// A list or tuple of tensor nodes, or a node whose value is a tuple of tensors.
Result<std::vector<TensorMeta>> tensors_arg(const Call& call, std::string_view name);
Result<int64_t> int_arg(const Call& call, std::string_view name);
Result<std::optional<int64_t>> optional_int_arg(const Call& call, std::string_view name);
Result<bool> bool_arg(const Call& call, std::string_view name);
Result<double> real_arg(const Call& call, std::string_view name);
Result<std::string> string_arg(const Call& call, std::string_view name);
Result<std::vector<int64_t>> ints_arg(const Call& call, std::string_view name);
// One int for all `n`, or one each: kernel sizes, strides, paddings.
Result<std::vector<int64_t>> spread_arg(const Call& call, std::string_view name, size_t n);
// An axis of `input`, wrapped.
Result<int> axis_arg(const Call& call, std::string_view name, int64_t rank);
bool is_none(const Call& call, std::string_view name);
// A dtype argument, `fallback` if it is None.
Result<DType> dtype_arg(const Call& call, std::string_view name, DType fallback);
// A torch.* memory format argument by its last word: "contiguous_format", "preserve_format", ...; `fallback`
// if None.
Result<std::string> format_arg(const Call& call, std::string_view name, std::string_view fallback);

Diagnostic bad_argument(const Call& call, std::string_view name, std::string_view expected);
// Refuses a tensor of another shape; None is accepted.
Status shape_of(const Call& call, std::string_view name, std::span<const int64_t> shape);
// Refuses an index of another rank than `input`, or larger than it along an axis other than `axis`.
Status index_fits(const Call& call, const TensorMeta& index, const TensorMeta& input, int axis);
// Refuses a tensor that does not broadcast to `shape`; None is accepted.
Status broadcasts_to(const Call& call, std::string_view name, std::span<const int64_t> shape);
// Why a lowering does not exist for this call.
Diagnostic no_lowering(const Call& call, std::string_view why);

Inferred tensor_result(TensorMeta meta);  // a view: storage as in `meta`
Inferred tuple_result(std::vector<Meta> items);
TensorMeta fresh_meta(std::vector<int64_t> shape, DType dtype);
TensorMeta fresh_meta(std::vector<int64_t> shape, DType dtype, std::optional<std::vector<int64_t>> stride);

// "<node>.<row>" or "<node>.<row>.<part>".
std::string label_of(const Call& call, std::string_view part = {});

inline Spelling function(std::string_view target, std::string_view signature) {
  return {Spelling::Kind::kFunction, target, signature};
}
inline Spelling method(std::string_view target, std::string_view signature) {
  return {Spelling::Kind::kMethod, target, signature};
}
inline Spelling in_place(Spelling s) {
  s.in_place = true;
  return s;
}

// Host time of one eager call and its launches, the rest derived.
template <int kHostTenths, int kKernels>
OpCost fixed_cost(const Call&) {
  OpCost cost;
  cost.host_us = kHostTenths / 10.0;
  cost.kernels = kKernels;
  if (kKernels == 0) cost.bytes = 0;
  return cost;
}

}  // namespace passnet
