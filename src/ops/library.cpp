#include "ops/library.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <vector>

namespace passnet {

namespace {

bool all_are(const std::vector<int64_t>& values, int64_t wanted) {
  return std::ranges::all_of(values, [&](int64_t v) { return v == wanted; });
}

// Whether ATen hands a depthwise convolution of float16 to cuDNN: a square kernel of 1, 3 or 5, 32 channels or more,
// seven rows or more, and with stride 2 enough work. nullopt between what was measured.
std::optional<bool> is_cudnn_depthwise(const ConvProblem& p) {
  if (p.dtype != DType::kFloat16 || p.kernel.size() != 2) return false;
  if (p.kernel[0] != p.kernel[1] || (p.kernel[0] != 1 && p.kernel[0] != 3 && p.kernel[0] != 5)) return false;
  if (!all_are(p.dilation, 1) || p.stride[0] != p.stride[1]) return false;
  if (p.in_channels < 32 || p.in_size[0] < 7) return false;
  if (p.stride[0] == 1 || p.batch == 1) return true;
  if (p.stride[0] != 2) return std::nullopt;
  if (p.in_size[1] >= 28) return p.in_channels >= 256;
  if (p.in_channels >= 768) return true;
  return p.in_channels <= 384 ? std::optional(false) : std::nullopt;
}

LibraryProduct depthwise_product(const ConvProblem& p) {
  const std::optional<bool> cudnn = is_cudnn_depthwise(p);
  LibraryProduct out;
  out.factors = LibraryProduct::Factors::kExact;
  out.bias_rounds = cudnn.value_or(false);
  // Only what has as many results as channels was measured.
  out.same_bits = cudnn.has_value() && p.out_channels == p.in_channels && p.kernel.size() == 2;
  if (p.kernel.size() == 1) out.bias_rounds = true;
  return out;
}

LibraryProduct pointwise_product(const ConvProblem& p) {
  LibraryProduct out;
  out.bias_rounds = true;
  const int64_t positions = p.positions(), c = p.in_channels, k = p.out_channels, n = p.batch;
  if (p.dtype != DType::kFloat32) {
    out.factors = LibraryProduct::Factors::kExact;
    if (!p.contiguous) return out;
    if (positions == 1) {
      out.same_bits = c % 4 == 0 && c <= 384;
    } else if (positions % 4 == 0) {
      // Over many images the library takes other kernels where the channels are no multiple of their tiles.
      const bool large = positions >= 784 && c >= 64 && c <= 768 && k >= 12 && k != 16;
      const bool few_images = positions >= 49 && n <= 8 && c % 32 == 0 && c <= 384 && k >= 17;
      const bool whole_tiles = c % 64 == 0 && k % 64 == 0 && c <= 384;
      out.same_bits = large || few_images || whole_tiles;
    }
    return out;
  }
  if (!p.contiguous) return out;
  if (k == 1 || (positions == 1 && n == 1)) {
    // One result a position, or one position at all, is no matrix product to the library. Long sums are split.
    if (c <= 512) out.factors = LibraryProduct::Factors::kExact;
  } else if (positions == 1) {
    out.same_bits = c >= 32 && ((c <= 128 && k < 768) || (c <= 384 && k < 512));
  } else {
    out.same_bits =
        positions % 4 == 0 && c % 32 == 0 && c >= 64 && c <= 384 && k >= 17 && (k < 768 || positions >= 196);
  }
  if (out.same_bits) out.factors = LibraryProduct::Factors::kTf32;
  return out;
}

// The order of a transposed convolution's terms: one image, kernel 4, stride 2, padding 1 (the step that doubles an image), and
// only the sizes that were measured (tests/data/transposed_order.txt): the library picks one of two kernels by rules of
// its own, and with few channels or positions a third in float32.
void set_transposed_order(const ConvProblem& p, LibraryProduct& out) {
  const bool doubles = p.transposed && p.groups == 1 && p.kernel.size() == 2 && all_are(p.kernel, 4) &&
                       all_are(p.stride, 2) && all_are(p.padding, 1) && all_are(p.dilation, 1) &&
                       p.out_size[0] == 2 * p.in_size[0] && p.out_size[1] == 2 * p.in_size[1];
  if (!doubles || p.batch != 1 || !(p.contiguous || p.channels_last)) return;
  constexpr int64_t kChannels[] = {128, 256, 384, 512, 768, 1024, 2048};
  constexpr int64_t kSides[][2] = {{8, 6},   {8, 8},   {14, 14}, {16, 12}, {16, 16},
                                   {24, 18}, {28, 28}, {32, 24}, {32, 32}, {64, 48}};
  const int64_t c = p.in_channels, n = p.out_channels, positions = p.in_size[0] * p.in_size[1];
  const bool measured = std::ranges::count(kChannels, c) > 0 && (n == 128 || n == 256) &&
                        std::ranges::any_of(kSides, [&](const int64_t(&s)[2]) {
                          return p.in_size[0] == s[0] && p.in_size[1] == s[1];
                        });
  if (!measured) return;
  if (p.dtype == DType::kFloat32) {
    const bool tf32 =
        p.channels_last ? positions <= 1024 : n == 256 && c >= 256 && positions >= 192 && positions <= 1024;
    if (!tf32) return;
    out.factors = LibraryProduct::Factors::kTf32;
    out.last_tap_first = true;
  } else if (positions % 64 != 0) {
    out.last_tap_first = c >= 1024 && positions <= 196;
  } else {
    out.last_tap_first =
        positions <= 256 || (positions == 1024 && c >= 256) || (positions == 3072 && (n == 256 || c >= 256));
  }
  out.same_bits = true;
  out.channel_block = p.dtype == DType::kFloat32 ? 32 : 64;
}

}  // namespace

int64_t ConvProblem::positions() const {
  return std::accumulate(out_size.begin(), out_size.end(), int64_t{1}, std::multiplies<>());
}

bool ConvProblem::pointwise() const {
  return groups == 1 && !transposed && all_are(kernel, 1) && all_are(stride, 1) && all_are(padding, 0);
}

bool ConvProblem::depthwise() const {
  return !transposed && groups > 1 && groups == in_channels && out_channels % in_channels == 0;
}

LibraryProduct library_conv(const ConvProblem& problem) {
  const bool known_type = problem.dtype == DType::kFloat32 || problem.dtype == DType::kFloat16 ||
                          problem.dtype == DType::kBFloat16;
  if (known_type && problem.depthwise()) return depthwise_product(problem);
  if (known_type && problem.kernel.size() == 2 && problem.pointwise()) return pointwise_product(problem);
  LibraryProduct out;
  out.bias_rounds = true;
  if (problem.dtype != DType::kFloat32) out.factors = LibraryProduct::Factors::kExact;
  if (known_type) set_transposed_order(problem, out);
  return out;
}

LibraryProduct library_matmul(DType dtype, int64_t columns, int64_t terms, bool batched) {
  LibraryProduct out;
  out.factors = LibraryProduct::Factors::kExact;
  const bool half = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  // Operands that the matrix units can take whole; others go through kernels that pad or split. Of many terms to few
  // results the library makes several sums.
  out.same_bits = half && terms % 8 == 0 && columns % 8 == 0 && (!batched || terms <= 128);
  return out;
}

bool attention_within_tolerance(const AttentionProblem& p) {
  const bool measured_depth = p.depth == p.value_depth && (p.depth == 32 || p.depth == 64 || p.depth == 128);
  if (!measured_depth || p.batch_rank != 2 || p.heads_per_key != 1 || !p.own_mask) return false;
  if (p.dtype == DType::kFloat32) return p.keys <= 256;
  // More keys than one block holds are summed in several steps.
  return (p.dtype == DType::kFloat16 || p.dtype == DType::kBFloat16) && p.keys <= 128;
}

LibraryProduct library_product(const Call& call, const TensorMeta& result, int64_t terms) {
  if (const std::optional<ConvProblem> problem = conv_problem(call)) return library_conv(*problem);
  const bool simple = call.row->name == "linear" || call.row->name == "matmul" || call.row->name == "bmm" ||
                      call.row->name == "mm";
  if (!simple || result.shape.empty()) {
    LibraryProduct out;
    out.factors = LibraryProduct::Factors::kExact;
    return out;
  }
  return library_matmul(result.dtype, result.shape.back(), terms, call.row->name != "linear");
}

}  // namespace passnet
