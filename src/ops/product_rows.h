#pragma once

#include <span>
#include <string>
#include <vector>

#include "ops/rows.h"

// The parts of product_rows() that have files of their own, and what they share. Lowerings are sums of
// products in the opmath of the operands, rounded where eager rounds. They are exact where the libraries are
// not: cuDNN multiplies float32 in tf32 by default (operands rounded to 10 mantissa bits), and a schedule
// that stands for it has to do the same.

namespace passnet {

std::vector<OpRow> conv_rows();       // rows_conv.cpp
std::vector<OpRow> attention_rows();  // rows_attention.cpp
std::vector<OpRow> einsum_rows();     // rows_einsum.cpp

// The factors of one term, both in the type of the sum.
using Factors =
    std::function<std::pair<E, E>(Program&, std::span<const ExprId> at, std::span<const ExprId> k)>;
// sum over `extents` of the products, as an array of `sum_type`.
ArrayId add_product(Program& p, const std::vector<int64_t>& shape, DType sum_type,
                    const std::vector<int64_t>& extents, const Factors& factors, std::string label,
                    NodeId node);
// One map over an array of the same shape.
ArrayId add_epilogue(Program& p, ArrayId array, DType dtype,
                     const std::function<E(E, std::span<const ExprId>)>& formula, std::string label,
                     NodeId node);

// Cost of a product: `terms` multiply-adds an element of the (first) result.
OpCost product_cost(const Call& call, double host_us, double terms);

}  // namespace passnet
