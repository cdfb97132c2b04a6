#pragma once

#include "ops/rows.h"

// The parts of stencil_rows() that have files of their own.

namespace passnet {

std::vector<OpRow> interpolate_rows();  // rows_interpolate.cpp: interpolate, upsample, grid_sample
std::vector<OpRow> scan_rows();         // rows_scan.cpp: cumulative sums, sorting and selection, transforms

// floor(a * n / b) and its successor's ceiling: where window `i` of adaptive pooling starts and ends (aten's
// formulas).
int64_t adaptive_start(int64_t i, int64_t out, int64_t in);
int64_t adaptive_end(int64_t i, int64_t out, int64_t in);
// Adaptive average pooling to `out_size`, as interpolate's "area" mode and the pooling rows compute it.
Result<Inferred> adaptive_avg_meta(const TensorMeta& input, const std::vector<int64_t>& out_size);
Result<std::vector<ArrayId>> lower_adaptive_avg(LowerContext& ctx, const Call& call,
                                                const std::vector<int64_t>& out_size);

}  // namespace passnet
