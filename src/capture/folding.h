#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/value.h"

// Arithmetic on values known at capture time, as Python does it: dynamo folds it away too.

namespace passnet {

// What a folding came to: a value, or why Python raises or we do not compute it.
struct Folded {
  std::optional<Value> value;
  std::string problem;

  static Folded of(Value v) { return {std::move(v), {}}; }
  static Folded no(std::string why) { return {std::nullopt, std::move(why)}; }
};

bool holds_node(const Value& v);
// Values in it, those of nested sequences and itself included; 16 characters of a string count as one.
std::size_t value_size(const Value& v);
// Sequences are copied wherever they are used: what is computed of others may not grow beyond this many values. What is
// written out is as long as its text.
inline constexpr std::size_t kMostComputed = std::size_t{1} << 12;
inline constexpr std::size_t kMostNested = std::size_t{1} << 16;
Folded fold_unary(std::string_view op, const Value& a);
Folded fold_binary(std::string_view op, const Value& a, const Value& b);
Folded fold_compare(std::string_view op, const Value& a, const Value& b);
// Truth of a constant; nothing for a node.
std::optional<bool> truth(const Value& v);
// An int or bool as an index; nothing otherwise.
std::optional<int64_t> index_of(const Value& v);
// items[index] and items[slice] of a list, tuple or string.
Folded fold_subscript(const Value& container, const Value& index);

}  // namespace passnet
