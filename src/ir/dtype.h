#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace passnet {

// Element types of tensors, named as torch names them.
enum class DType : uint8_t {
  kBool,
  kUInt8,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kComplex64,
  kComplex128
};

// "float32": the attribute name under `torch.`; never null.
std::string_view name_of(DType dtype);
// Accepts "float32", "torch.float32" and torch's aliases ("half", "float", "double", "long", "int", "short").
std::optional<DType> parse_dtype(std::string_view text);
// Bytes of one element.
int size_of(DType dtype);

bool is_floating(DType dtype);
bool is_complex(DType dtype);
bool is_integral(DType dtype, bool include_bool);

// The type arithmetic is done in on CUDA: float for the 16-bit floats, the type itself otherwise (aten's opmath).
DType opmath(DType dtype);

// torch.promote_types for two tensors of the same category order (dimension and scalar rules live with the operators).
DType promote_types(DType a, DType b);

}  // namespace passnet
