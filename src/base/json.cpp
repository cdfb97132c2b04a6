#include "base/json.h"

#include <algorithm>

#include "base/source.h"

namespace passnet {

namespace {

constexpr int kMaxDepth = 512;

/// The deepest nesting of brackets outside strings: an upper bound, also for text that is no JSON.
int nesting_depth(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view file) {
  if (nesting_depth(text) > kMaxDepth) {
    return user_error("json.depth", "JSON nested deeper than 512 levels").at(file);
  }
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const nlohmann::json::parse_error& error) {
    const SourceBuffer source{std::string(file), std::string(text)};
    std::string_view what = error.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 2: <the part that matters>"
    if (const auto colon = what.find(": "); colon != std::string_view::npos) what.remove_prefix(colon + 2);
    const std::size_t offset = error.byte > 0 ? error.byte - 1 : 0;
    return user_error("json.syntax", "not valid JSON: " + std::string(what))
        .at(file, source.position(offset))
        .with_hint("correct the file at this place, or write it anew");
  }
}

std::string dump_json(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace passnet
