#include "ir/dtype.h"

#include <array>
#include <utility>

namespace passnet {
namespace {

struct DTypeInfo {
  std::string_view name;
  int bytes;
};

constexpr std::array<DTypeInfo, 12> kInfo = {{{"bool", 1},
                                              {"uint8", 1},
                                              {"int8", 1},
                                              {"int16", 2},
                                              {"int32", 4},
                                              {"int64", 8},
                                              {"float16", 2},
                                              {"bfloat16", 2},
                                              {"float32", 4},
                                              {"float64", 8},
                                              {"complex64", 8},
                                              {"complex128", 16}}};

constexpr std::array<std::pair<std::string_view, DType>, 8> kAliases = {{{"half", DType::kFloat16},
                                                                         {"float", DType::kFloat32},
                                                                         {"double", DType::kFloat64},
                                                                         {"short", DType::kInt16},
                                                                         {"int", DType::kInt32},
                                                                         {"long", DType::kInt64},
                                                                         {"cfloat", DType::kComplex64},
                                                                         {"cdouble", DType::kComplex128}}};

const DTypeInfo& info(DType dtype) { return kInfo[static_cast<size_t>(dtype)]; }

}  // namespace

std::string_view name_of(DType dtype) { return info(dtype).name; }

std::optional<DType> parse_dtype(std::string_view text) {
  if (text.starts_with("torch.")) text.remove_prefix(6);
  for (size_t i = 0; i < kInfo.size(); ++i) {
    if (kInfo[i].name == text) return static_cast<DType>(i);
  }
  for (const auto& [alias, dtype] : kAliases) {
    if (alias == text) return dtype;
  }
  return std::nullopt;
}

int size_of(DType dtype) { return info(dtype).bytes; }

bool is_floating(DType dtype) { return dtype >= DType::kFloat16 && dtype <= DType::kFloat64; }

bool is_complex(DType dtype) { return dtype >= DType::kComplex64; }

bool is_integral(DType dtype, bool include_bool) {
  return dtype == DType::kBool ? include_bool : dtype <= DType::kInt64;
}

DType opmath(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 ? DType::kFloat32 : dtype;
}

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  if (static_cast<int>(a) > static_cast<int>(b)) std::swap(a, b);
  // Complex takes the wider of its own and the other's precision.
  if (is_complex(b)) {
    const bool wide = b == DType::kComplex128 || a == DType::kFloat64;
    return wide ? DType::kComplex128 : DType::kComplex64;
  }
  if (a == DType::kFloat16 && b == DType::kBFloat16) return DType::kFloat32;
  // uint8 and a signed integer meet in the next wider signed type.
  if (a == DType::kUInt8 && b == DType::kInt8) return DType::kInt16;
  return b;
}

}  // namespace passnet
