#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace passnet {

/// Without leading and trailing ASCII white space.
std::string_view trim(std::string_view text);
/// At every separator: n separators give n + 1 parts, empty ones included.
std::vector<std::string_view> split(std::string_view text, char separator);
/// Lines without their ends (\n or \r\n); a final newline starts no further line.
std::vector<std::string_view> split_lines(std::string_view text);
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);
std::string to_lower(std::string_view text);

/// Decimal integers and floats, the whole text or nothing. Floats also read inf and nan.
std::optional<long long> parse_int(std::string_view text);
std::optional<double> parse_double(std::string_view text);

/// The edits between two names (insert, delete, change, swap of neighbours).
std::size_t edit_distance(std::string_view a, std::string_view b);
/// The candidate nearest to `name` if it is near enough to be a slip (a third of its length), for hints.
std::optional<std::string> closest(std::string_view name, const std::vector<std::string>& candidates);

/// At most `limit` bytes from the end, cut at a line or at least between characters.
std::string tail_of(std::string_view text, std::size_t limit);

}  // namespace passnet
