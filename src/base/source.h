#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/result.h"

namespace passnet {

/// A file's name and text with an index of its lines. Lines end at \n; a \r before it does not belong to the
/// line. The text stays as it was read.
class SourceBuffer {
 public:
  SourceBuffer(std::string name, std::string text);

  /// Refuses text that is no UTF-8 (`source.utf8`) or holds a NUL byte (`source.nul`), with the place. A byte
  /// order mark at the start is dropped.
  static Result<SourceBuffer> checked(std::string name, std::string text);

  const std::string& name() const { return name_; }
  std::string_view text() const { return text_; }

  int line_count() const { return static_cast<int>(line_starts_.size()); }
  /// The text of a line (from 1) without its end; empty for a line that does not exist.
  std::string_view line(int number) const;
  /// Byte offset of a 1-based line and byte column, clamped to the text.
  std::size_t offset(int line, int col) const;
  /// The 1-based position of a byte offset (clamped): a Span that is a single point.
  Span position(std::size_t offset) const;
  /// The span of [begin, end) byte offsets.
  Span span(std::size_t begin, std::size_t end) const;
  /// The text that a span covers.
  std::string_view slice(const Span& span) const;

 private:
  std::string name_;
  std::string text_;
  std::vector<std::size_t> line_starts_;
};

/// Offset of the first byte that does not belong to valid UTF-8 (overlong forms, surrogates and values above
/// U+10FFFF are invalid), or npos.
std::size_t find_invalid_utf8(std::string_view text);

/// Number of code points; in invalid text, of bytes that are no continuation.
std::size_t utf8_length(std::string_view text);

}  // namespace passnet
