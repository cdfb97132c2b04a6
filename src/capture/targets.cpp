#include "capture/targets.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numbers>
#include <utility>

namespace passnet {

namespace {

using NamePair = std::pair<std::string_view, std::string_view>;

constexpr NamePair kBinary[] = {
    {"+", "operator.add"},       {"-", "operator.sub"}, {"*", "operator.mul"},  {"/", "operator.truediv"},
    {"//", "operator.floordiv"}, {"%", "operator.mod"}, {"**", "operator.pow"}, {"@", "operator.matmul"},
    {"&", "operator.and_"},      {"|", "operator.or_"}, {"^", "operator.xor"},  {"<<", "operator.lshift"},
    {">>", "operator.rshift"},   {"==", "operator.eq"}, {"!=", "operator.ne"},  {"<", "operator.lt"},
    {"<=", "operator.le"},       {">", "operator.gt"},  {">=", "operator.ge"}};

constexpr NamePair kInPlace[] = {
    {"+", "operator.iadd"},       {"-", "operator.isub"}, {"*", "operator.imul"},  {"/", "operator.itruediv"},
    {"//", "operator.ifloordiv"}, {"%", "operator.imod"}, {"**", "operator.ipow"}, {"@", "operator.imatmul"},
    {"&", "operator.iand"},       {"|", "operator.ior"},  {"^", "operator.ixor"},  {"<<", "operator.ilshift"},
    {">>", "operator.irshift"}};

// By the last component of the name: functions and methods alike.
constexpr std::string_view kTuples[] = {"chunk",
                                        "split",
                                        "unbind",
                                        "tensor_split",
                                        "hsplit",
                                        "vsplit",
                                        "dsplit",
                                        "unsafe_chunk",
                                        "unsafe_split",
                                        "split_with_sizes",
                                        "unsafe_split_with_sizes",
                                        "meshgrid",
                                        "topk",
                                        "sort",
                                        "std_mean",
                                        "var_mean",
                                        "kthvalue",
                                        "broadcast_tensors",
                                        "multi_head_attention_forward",
                                        "_native_multi_head_attention",
                                        "lstm",
                                        "gru",
                                        "slogdet",
                                        "max_pool2d_with_indices",
                                        "adaptive_max_pool2d_with_indices",
                                        "aminmax",
                                        "frexp",
                                        "linalg_svd",
                                        "linalg_qr",
                                        "linalg_eigh",
                                        "linalg_eig",
                                        "svd",
                                        "qr",
                                        "native_layer_norm",
                                        "native_batch_norm",
                                        "native_group_norm",
                                        "unique",
                                        "_unique2",
                                        "unique_consecutive",
                                        "nonzero_tuple",
                                        "atleast_1d_tuple"};
// Tuples only with a dim.
constexpr std::string_view kTuplesWithDim[] = {"max",  "min",    "median", "nanmedian",
                                               "mode", "cummax", "cummin"};

constexpr std::string_view kMemoryFormats[] = {"contiguous_format", "preserve_format", "channels_last",
                                               "channels_last_3d"};
constexpr std::string_view kLayouts[] = {"strided",    "sparse_coo", "sparse_csr", "sparse_csc",
                                         "sparse_bsr", "sparse_bsc", "jagged"};

std::string_view lookup(const auto& table, std::string_view key) {
  for (const auto& [from, to] : table) {
    if (from == key) return to;
  }
  return {};
}

bool contains(const auto& table, std::string_view key) {
  return std::find(std::begin(table), std::end(table), key) != std::end(table);
}

}  // namespace

std::optional<Value> constant_global(std::string_view dotted) {
  const std::size_t dot = dotted.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view module = dotted.substr(0, dot), name = dotted.substr(dot + 1);
  if (module != "torch" && module != "math" && module != "numpy") return std::nullopt;
  if (name == "inf") return Value::real(std::numeric_limits<double>::infinity());
  if (name == "nan") return Value::real(std::numeric_limits<double>::quiet_NaN());
  if (name == "pi") return Value::real(std::numbers::pi);
  if (name == "e") return Value::real(std::numbers::e);
  if (module != "torch") return std::nullopt;
  if (const std::optional<DType> dtype = parse_dtype(dotted)) {
    // torch.float and torch.int are dtypes; there is no function of these names.
    return Value::dtype(*dtype);
  }
  if (contains(kMemoryFormats, name)) return Value::constant(Value::Kind::kMemoryFormat, std::string(dotted));
  if (contains(kLayouts, name)) return Value::constant(Value::Kind::kLayout, std::string(dotted));
  return std::nullopt;
}

const InlinedFunction* inlined_function(std::string_view dotted) {
  static const std::vector<InlinedFunction> kInlined = {
      {"torch.nn.functional.pad",
       "torch._C._nn.pad",
       {{"input", true, {}},
        {"pad", true, {}},
        {"mode", false, Value::string("constant")},
        {"value", false, {}}}},
      {"torch.nn.functional.rms_norm",
       "torch.rms_norm",
       {{"input", true, {}}, {"normalized_shape", true, {}}, {"weight", false, {}}, {"eps", false, {}}}}};
  for (const InlinedFunction& f : kInlined) {
    if (f.name == dotted) return &f;
  }
  return nullptr;
}

bool returns_tuple(std::string_view target, bool has_dim) {
  const std::size_t dot = target.rfind('.');
  const std::string_view name = dot == std::string_view::npos ? target : target.substr(dot + 1);
  return contains(kTuples, name) || (has_dim && contains(kTuplesWithDim, name));
}

std::string_view binary_operator_target(std::string_view op) { return lookup(kBinary, op); }
std::string_view in_place_operator_target(std::string_view op) { return lookup(kInPlace, op); }

}  // namespace passnet
