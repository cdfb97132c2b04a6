#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/core.h"

namespace passnet {

/// How the library multiplies where eager calls it, as measured: cuDNN and cuBLAS of torch 2.11 on an H200, contiguous
/// operands, 9,882 problems (tests/data/product_order.txt, against which library_test holds these rules).
struct LibraryProduct {
  enum class Factors {
    kExact,    ///< float32 factors as they are, 16-bit ones likewise
    kTf32,     ///< float32 factors rounded to tf32, to nearest even
    kUnknown,  ///< the library decides by rules of its own that were not found out
  };
  Factors factors = Factors::kUnknown;
  /// One sum over the terms in their order, on the matrix units where they are used, gives eager's own bits.
  bool same_bits = false;
  /// A transposed convolution's terms: channels in blocks of so many, in each block the taps that meet a result, either from the first
  /// or from the last; 0 where that is not known. `same_bits` is then about that order.
  int64_t channel_block = 0;
  bool last_tap_first = false;
  /// The bias is added to the rounded sum, and rounded again. Else it is part of the sum.
  bool bias_rounds = false;
};

/// A convolution as the library sees it.
struct ConvProblem {
  DType dtype = DType::kFloat32;
  int64_t batch = 1, in_channels = 1, out_channels = 1, groups = 1;
  std::vector<int64_t> in_size, out_size, kernel, stride, dilation, padding;  ///< one entry an axis
  bool transposed = false;
  bool contiguous = true;      ///< input and weight
  bool channels_last = false;  ///< the input, the weight being contiguous; never where `contiguous` is true

  int64_t positions() const;
  bool pointwise() const;  ///< 1x1, unit stride, one group, no padding
  /// One input channel a group: ATen's own kernel, or cuDNN's for float16.
  bool depthwise() const;
};

LibraryProduct library_conv(const ConvProblem& problem);

/// Attention as the library sees it.
struct AttentionProblem {
  DType dtype = DType::kFloat32;
  int64_t rows = 1, keys = 1, depth = 1, value_depth = 1;
  int64_t heads_per_key = 1;
  int batch_rank = 2;    ///< axes before rows and depth
  bool own_mask = true;  ///< no mask, one of booleans, or one of the operands' type
};

/// Whether the row's formula is within the tolerance of t = -5 of the library's attention on every problem measured around this
/// one (tests/data/attention_order.txt: one H200, torch 2.11, cuDNN 9.19). Bits are not equal everywhere.
bool attention_within_tolerance(const AttentionProblem& problem);

/// What the call asks of the library; nullopt for calls that are no attention.
std::optional<AttentionProblem> attention_problem(const Call& call);  // rows_attention.cpp

/// A (rows, terms) by (terms, columns) product, as linear and matmul do it; `batched` for bmm.
LibraryProduct library_matmul(DType dtype, int64_t columns, int64_t terms, bool batched);

/// What the call asks of the library; nullopt for calls that are no convolution.
std::optional<ConvProblem> conv_problem(const Call& call);  // rows_conv.cpp

/// The same for a call of any product with one tensor as its result; `terms` products are summed for an element of it.
LibraryProduct library_product(const Call& call, const TensorMeta& result, int64_t terms);

}  // namespace passnet
