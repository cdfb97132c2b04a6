#pragma once

#include <optional>

#include "ops/core.h"

// What the row files share. Each rows_*.cpp defines one list; all_rows() joins them in this order.

namespace passnet {

std::vector<OpRow> pointwise_rows();  // rows_pointwise.cpp: arithmetic, comparisons, casts, where, clamp, ...
std::vector<OpRow> activation_rows();  // rows_activation.cpp
std::vector<OpRow> reduction_rows();   // rows_reduction.cpp
std::vector<OpRow> norm_rows();        // rows_norm.cpp: softmax family and normalisations
std::vector<OpRow> view_rows();     // rows_view.cpp: view algebra, subscripts, chunk, split, unbind, getitem
std::vector<OpRow> copy_rows();     // rows_copy.cpp: cat, stack, pad, roll, gather, embedding, repeat, ...
std::vector<OpRow> factory_rows();  // rows_factory.cpp: arange, zeros, tensor, random
std::vector<OpRow> product_rows();  // rows_product.cpp: conv, linear, matmul, attention, einsum
std::vector<OpRow> stencil_rows();  // rows_stencil.cpp: pooling, interpolate; scans

// ---- engines for metadata (meta_engine.cpp) ----
Diagnostic bad_call(const Call& call, std::string code, std::string message, std::string hint = {});
Inferred fresh(std::vector<int64_t> shape, DType dtype);  // contiguous
Inferred fresh(std::vector<int64_t> shape, DType dtype, std::optional<std::vector<int64_t>> stride);
Result<std::vector<int64_t>> broadcast_shapes(const Call& call, std::span<const std::vector<int64_t>> shapes);
// torch's result type over tensors (dimensioned before 0-dim) and Python scalars.
DType result_type(std::span<const TensorMeta* const> tensors, std::span<const Value> scalars);
// Strides TensorIterator gives a fresh result of broadcasting these operands (unknown if a decisive operand's are).
std::optional<std::vector<int64_t>> iterator_strides(const std::vector<int64_t>& shape,
                                                     std::span<const TensorMeta* const> operands);
Result<int64_t> normal_dim(const Call& call, int64_t dim, int64_t rank);  // wraps negatives, range checked
Result<std::vector<int64_t>> int_list(const Call& call, const Value& v);  // int or sequence of ints

// ---- engines for lowering (lower_engine.cpp) ----
// Index expressions of the array being defined: one per axis of `shape`.
std::vector<ExprId> identity(Program& p, const std::vector<int64_t>& shape);
// Reads `array` broadcast to the index `at` over a result of rank at.size() (leading axes dropped, size-1 axes at 0).
E read_broadcast(Program& p, ArrayId array, std::span<const ExprId> at);
// A pointwise call over tensors and scalars: operands broadcast, cast to the opmath of `compute` (default: the result
// type over the operands), `formula` applied, rounded to the result dtype of the node's metadata.
using Formula = std::function<E(std::span<const E>)>;
Result<std::vector<ArrayId>> lower_pointwise(LowerContext& ctx, const Call& call,
                                             std::span<const std::string_view> operands,
                                             const Formula& formula,
                                             std::optional<DType> compute = std::nullopt);
// A view-like result: element `i` of the result is the operand's element at index_map(i).
using IndexMap = std::function<std::vector<ExprId>(Program&, std::span<const ExprId>)>;
Result<std::vector<ArrayId>> lower_gather(LowerContext& ctx, const Call& call, std::string_view operand,
                                          const IndexMap& index_map);
// The linear index of `at` in a contiguous array of `shape`, and back.
ExprId linearize(Program& p, const std::vector<int64_t>& shape, std::span<const ExprId> at);
std::vector<ExprId> delinearize(Program& p, const std::vector<int64_t>& shape, ExprId linear);

}  // namespace passnet
