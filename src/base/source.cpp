#include "base/source.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace passnet {

SourceBuffer::SourceBuffer(std::string name, std::string text)
    : name_(std::move(name)), text_(std::move(text)) {
  line_starts_.push_back(0);
  for (std::size_t i = 0; i < text_.size(); ++i) {
    if (text_[i] == '\n' && i + 1 < text_.size()) line_starts_.push_back(i + 1);
  }
}

Result<SourceBuffer> SourceBuffer::checked(std::string name, std::string text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  const std::size_t bad = find_invalid_utf8(text);
  const std::size_t nul = text.find('\0');
  SourceBuffer buffer(std::move(name), std::move(text));
  if (bad != std::string::npos) {
    const auto byte = static_cast<unsigned>(static_cast<unsigned char>(buffer.text_[bad]));
    return user_error("source.utf8",
                      fmt::format("the file is not UTF-8: byte 0x{:02x} at offset {}", byte, bad))
        .at(buffer.name_, buffer.position(bad))
        .with_hint("save the file as UTF-8");
  }
  if (nul != std::string::npos) {
    return user_error("source.nul", fmt::format("the file holds a NUL byte at offset {}", nul))
        .at(buffer.name_, buffer.position(nul))
        .with_hint("this is no text file, or it was cut while being written; write it anew");
  }
  return buffer;
}

std::string_view SourceBuffer::line(int number) const {
  if (number < 1 || number > line_count()) return {};
  const std::size_t begin = line_starts_[static_cast<std::size_t>(number) - 1];
  std::size_t end = number < line_count() ? line_starts_[static_cast<std::size_t>(number)] : text_.size();
  if (end > begin && text_[end - 1] == '\n') --end;
  if (end > begin && text_[end - 1] == '\r') --end;
  return text().substr(begin, end - begin);
}

std::size_t SourceBuffer::offset(int line, int col) const {
  if (line < 1) return 0;
  if (line > line_count()) return text_.size();
  const std::size_t begin = line_starts_[static_cast<std::size_t>(line) - 1];
  return std::min(text_.size(), begin + static_cast<std::size_t>(std::max(col, 1) - 1));
}

Span SourceBuffer::position(std::size_t offset) const {
  offset = std::min(offset, text_.size());
  const auto next = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
  const auto index = static_cast<std::size_t>(next - line_starts_.begin()) - 1;
  Span span;
  span.line = static_cast<int>(index) + 1;
  span.col = static_cast<int>(offset - line_starts_[index]) + 1;
  return span;
}

Span SourceBuffer::span(std::size_t begin, std::size_t end) const {
  Span span = position(begin);
  const Span last = position(std::max(begin, end));
  span.end_line = last.line;
  span.end_col = last.col;
  return span;
}

std::string_view SourceBuffer::slice(const Span& span) const {
  const std::size_t begin = offset(span.line, span.col);
  const std::size_t end = span.end_line > 0 ? offset(span.end_line, span.end_col) : begin;
  return text().substr(begin, end > begin ? end - begin : 0);
}

std::size_t find_invalid_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  std::size_t i = 0;
  while (i < text.size()) {
    const unsigned char lead = byte(i);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    std::size_t length = 0;
    unsigned code = 0;
    unsigned least = 0;
    if ((lead & 0xE0) == 0xC0) {
      length = 2, code = lead & 0x1Fu, least = 0x80;
    } else if ((lead & 0xF0) == 0xE0) {
      length = 3, code = lead & 0x0Fu, least = 0x800;
    } else if ((lead & 0xF8) == 0xF0) {
      length = 4, code = lead & 0x07u, least = 0x10000;
    } else {
      return i;
    }
    if (i + length > text.size()) return i;
    for (std::size_t k = 1; k < length; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return i;
      code = (code << 6) | (byte(i + k) & 0x3Fu);
    }
    if (code < least || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return i;
    i += length;
  }
  return std::string_view::npos;
}

std::size_t utf8_length(std::string_view text) {
  // Continuation bytes belong to the character before; a stray one at the start counts for itself.
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i == 0 || (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) ++count;
  }
  return count;
}

}  // namespace passnet
