#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/json_fwd.h"
#include "base/result.h"

namespace passnet {

/// Parses one JSON document. A syntax error is a user diagnostic `json.syntax` with the position in `file`;
/// nesting deeper than 512 levels is `json.depth` (the library would recurse without a limit).
Result<Json> parse_json(std::string_view text, std::string_view file = {});

/// Serialises without ever throwing: bytes that are no UTF-8 become U+FFFD. `indent` < 0 means one line.
std::string dump_json(const Json& value, int indent = -1);

/// The value, or null.
template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace passnet
