#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "ops/array_ir.h"

namespace passnet::codegen {

struct FnText {
  std::string text;
  bool libdevice = false;
  std::string helper;  // device function of templates/device.py that the text calls
};

// Triton source of a function of the array IR on operands of `type`, exact as the IR says: IEEE division and square
// root, libdevice's transcendental functions, no contraction. Operands are names or parenthesised expressions.
Result<FnText> fn_text(Fn fn, DType type, std::vector<std::string> args);

// The text without parentheses around the whole, for where commas or brackets delimit it.
std::string without_parentheses(std::string text);

}  // namespace passnet::codegen
