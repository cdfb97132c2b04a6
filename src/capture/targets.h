#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/value.h"

namespace passnet {

// What a dotted global that is no function stands for: torch.float32, torch.inf, math.pi, torch.channels_last, ...
// Nothing for names that may only be called.
std::optional<Value> constant_global(std::string_view dotted);

// A Python function of torch that dynamo traces into: the call that it makes, its parameters in order, all of which
// become positional arguments, with their defaults. Null for functions that stay one node.
struct InlinedFunction {
  std::string_view name;
  std::string_view inner;
  struct Parameter {
    std::string_view name;
    bool required;
    Value default_value;
  };
  std::vector<Parameter> parameters;
};
const InlinedFunction* inlined_function(std::string_view dotted);

// True if a call of this target or method gives a tuple, for graphs without metadata: max(x) is a tensor, max(x, 1) a
// pair (`has_dim`).
bool returns_tuple(std::string_view target, bool has_dim);

// "operator.add" for "+"; empty for an operator that has no such function. `in_place`: "operator.iadd" for "+=".
std::string_view binary_operator_target(std::string_view op);
std::string_view in_place_operator_target(std::string_view op);

}  // namespace passnet
