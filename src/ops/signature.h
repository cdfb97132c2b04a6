#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/value.h"

namespace passnet {

// What an argument must be for a spelling to apply; only overloads of one target need it.
enum class ArgKind : uint8_t {
  kAny,
  kTensor,
  kTensors,
  kInt,
  kInts,
  kNumber,
  kBool,
  kString,
  kDType,
  kDevice
};
std::string_view name_of(ArgKind kind);

struct Parameter {
  std::vector<std::string> names;  // the row's name first, then alternative keywords
  ArgKind kind = ArgKind::kAny;
  std::optional<Value> default_value;  // absent: required
  bool keyword_only = false;
  bool rest = false;  // "size...": the remaining positional arguments
  const std::string& name() const { return names.front(); }
};

struct Signature {
  std::vector<Parameter> parameters;
  int find(std::string_view name) const;  // -1 if there is none; alternative keywords count
};

// Parses Spelling::signature, e.g. "input, dim|axis:int=None, keepdim=False, *, dtype=None".
Result<Signature> parse_signature(std::string_view text);

// A Python literal: None, True, numbers, strings, tuples, lists, torch.<dtype>, torch.device('...'), -x, inf, nan,
// slice(...), ... (Ellipsis). Reads from `*at` on and moves it behind the literal.
Result<Value> parse_literal(std::string_view text, size_t* at);

}  // namespace passnet
