#pragma once

#include "ops/rows.h"

// The parts of view_rows() that have files of their own.

namespace passnet {

std::vector<OpRow> split_rows();      // rows_split.cpp: chunk, split, unbind: tuples of views
std::vector<OpRow> subscript_rows();  // rows_subscript.cpp: getitem and setitem in every form
std::vector<OpRow> attribute_rows();  // rows_attribute.cpp: sizes and attributes of a tensor, known at capture

}  // namespace passnet
