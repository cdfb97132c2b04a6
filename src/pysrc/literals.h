#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace passnet::pysrc {

struct NumberLiteral {
  enum class Kind { kInt, kFloat, kImaginary };
  Kind kind = Kind::kInt;
  bool overflow = false;  // an int beyond 64 bits
  long long integer = 0;
  double real = 0;
};

// `0x1F`, `1_000`, `1e-05`, `.5`, `2j`; nothing for text that is no number.
std::optional<NumberLiteral> read_number(std::string_view text);

struct StringLiteral {
  enum class Problem { kNone, kBytes, kFormatted, kBadEscape };
  Problem problem = Problem::kNone;
  std::string value;
};

// One literal with prefix and quotes as written. \N{...} names are a kBadEscape: we carry no table of names.
StringLiteral read_string(std::string_view text);

}  // namespace passnet::pysrc
