#include "pysrc/literals.h"

#include <charconv>
#include <cstdint>
#include <limits>

namespace passnet::pysrc {

namespace {

void append_utf8(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

std::optional<double> read_real(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (at != end) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    // from_chars leaves the value alone; Python gives inf, or 0 for what is too small.
    const std::size_t e = text.find_first_of("eE");
    const bool small = e != std::string_view::npos && text.find('-', e) != std::string_view::npos;
    return small ? 0.0 : std::numeric_limits<double>::infinity();
  }
  if (error != std::errc()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<NumberLiteral> read_number(std::string_view text) {
  std::string digits;
  if (text.find('_') != std::string_view::npos) {
    for (const char c : text) {
      if (c != '_') digits += c;
    }
    text = digits;
  }
  if (text.empty()) return std::nullopt;
  NumberLiteral out;
  int base = 10;
  if (text.size() > 2 && text[0] == '0') {
    const char c = static_cast<char>(text[1] | 0x20);
    base = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 10;
  }
  const std::string_view body = base == 10 ? text : text.substr(2);
  if (base != 10 || text.find_first_not_of("0123456789") == std::string_view::npos) {
    const char* end = body.data() + body.size();
    const auto [at, error] = std::from_chars(body.data(), end, out.integer, base);
    if (at != end) return std::nullopt;
    if (error == std::errc::result_out_of_range) {
      out.overflow = true;
    } else if (error != std::errc()) {
      return std::nullopt;
    }
    return out;
  }
  const bool imaginary = text.back() == 'j' || text.back() == 'J';
  if (imaginary) text.remove_suffix(1);
  const std::optional<double> real = read_real(text);
  if (!real) return std::nullopt;
  out.kind = imaginary ? NumberLiteral::Kind::kImaginary : NumberLiteral::Kind::kFloat;
  out.real = *real;
  return out;
}

StringLiteral read_string(std::string_view text) {
  using Problem = StringLiteral::Problem;
  StringLiteral out;
  bool raw = false;
  while (!text.empty() && text.front() != '"' && text.front() != '\'') {
    const char c = static_cast<char>(text.front() | 0x20);
    raw |= c == 'r';
    if (c == 'b') out.problem = Problem::kBytes;
    if (c == 'f' || c == 't') out.problem = Problem::kFormatted;
    text.remove_prefix(1);
  }
  const std::size_t quotes = text.size() >= 6 && text[1] == text[0] && text[2] == text[0] ? 3 : 1;
  if (text.size() < 2 * quotes) {
    out.problem = Problem::kBadEscape;
    return out;
  }
  text = text.substr(quotes, text.size() - 2 * quotes);
  if (out.problem != Problem::kNone) return out;
  out.value.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\r') {
      // Python reads every line end as \n.
      if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
      out.value += '\n';
      continue;
    }
    if (c != '\\' || raw || i + 1 == text.size()) {
      out.value += c;
      continue;
    }
    const char e = text[++i];
    const auto hex = [&](std::size_t count) {
      uint32_t value = 0;
      const char* begin = text.data() + i + 1;
      if (i + count >= text.size() || std::from_chars(begin, begin + count, value, 16).ptr != begin + count ||
          value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) {
        out.problem = Problem::kBadEscape;
        return;
      }
      append_utf8(out.value, value);
      i += count;
    };
    switch (e) {
      case '\n': break;
      case '\r':
        if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
        break;
      case '\\': out.value += '\\'; break;
      case '\'': out.value += '\''; break;
      case '"': out.value += '"'; break;
      case 'a': out.value += '\a'; break;
      case 'b': out.value += '\b'; break;
      case 'f': out.value += '\f'; break;
      case 'n': out.value += '\n'; break;
      case 'r': out.value += '\r'; break;
      case 't': out.value += '\t'; break;
      case 'v': out.value += '\v'; break;
      case 'x': hex(2); break;
      case 'u': hex(4); break;
      case 'U': hex(8); break;
      case 'N': out.problem = Problem::kBadEscape; break;
      default:
        if (e >= '0' && e <= '7') {
          uint32_t value = 0;
          std::size_t used = 0;
          while (used < 3 && i + used < text.size() && text[i + used] >= '0' && text[i + used] <= '7') {
            value = value * 8 + static_cast<uint32_t>(text[i + used++] - '0');
          }
          i += used - 1;
          append_utf8(out.value, value);
        } else {
          out.value += '\\';
          out.value += e;
        }
    }
    if (out.problem != Problem::kNone) return out;
  }
  return out;
}

}  // namespace passnet::pysrc
