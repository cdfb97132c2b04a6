#pragma once

#include <iterator>
#include <vector>

#include "ops/forms.h"

namespace passnet {

// The parts of pointwise_rows(), a file each.
std::vector<OpRow> unary_rows();       // rows_unary.cpp
std::vector<OpRow> arithmetic_rows();  // rows_arithmetic.cpp: binary arithmetic, powers
std::vector<OpRow> logic_rows();       // rows_logic.cpp: comparisons, logical and bitwise functions
std::vector<OpRow> cast_rows();        // rows_cast.cpp
std::vector<OpRow> select_rows();      // rows_select.cpp: where, masked_fill, clamp, lerp, addcmul, ...

}  // namespace passnet

// torch.f, x.f() and the in-place x.f_() and torch.f_(): a string literal's spellings.
#define PN_UNARY(name)                                                                          \
  function("torch." name, "input"), method(name, "input"), in_place(method(name "_", "input")), \
      in_place(function("torch." name "_", "input"))
// torch.f(x, y), x.f(y), x.f_(y), with `rest` behind the second parameter.
#define PN_BINARY(name, rest)                                                      \
  function("torch." name, "input, other" rest), method(name, "input, other" rest), \
      in_place(method(name "_", "input, other" rest))
