#pragma once

#include "ops/rows.h"

// The parts of view_rows() that have files of their own.

namespace passnet {

std::vector<OpRow> identity_rows();   // rows_identity.cpp: contiguous, clone, eval dropout, as_strided
std::vector<OpRow> split_rows();      // rows_split.cpp: chunk, split, unbind: tuples of views
std::vector<OpRow> subscript_rows();  // rows_subscript.cpp: getitem and setitem in every form
std::vector<OpRow> attribute_rows();  // rows_attribute.cpp: sizes and attributes of a tensor

// A view, or a copy where the result's storage is its own.
OpCost view_or_copy_cost(const Call& call);

}  // namespace passnet
