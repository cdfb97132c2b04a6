#pragma once

#include "ops/rows.h"

// The parts of copy_rows() that have files of their own.

namespace passnet {

std::vector<OpRow> pad_rows();     // rows_pad.cpp: pad in every mode, unfold (im2col) and fold
std::vector<OpRow> gather_rows();  // rows_gather.cpp: gather, embedding, one_hot: an index tensor decides
std::vector<OpRow> write_rows();   // rows_write.cpp: scatter, index_put, copy_, fill_: elements replaced

}  // namespace passnet
