#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace passnet {

/// Builds a text line by line at a current indent. A line never carries trailing spaces; empty lines carry no
/// indent; the text ends in exactly one newline unless it is empty.
class CodeWriter {
 public:
  explicit CodeWriter(int indent_width = 4) : indent_width_(indent_width) {}

  /// One or more lines (split at '\n'), each at the current indent.
  CodeWriter& line(std::string_view text = {});

  template <class... Args>
  CodeWriter& linef(fmt::format_string<Args...> format, Args&&... args) {
    return line(fmt::format(format, std::forward<Args>(args)...));
  }

  /// `count` empty lines, of which those already at the end count: never more than asked for. None at the
  /// start.
  CodeWriter& blank(int count = 1);

  CodeWriter& indent(int levels = 1);
  CodeWriter& dedent(int levels = 1);

  /// Writes `head`, then indents until the returned object goes out of scope:
  /// `{ auto body = writer.block("def f(x):"); writer.line("return x"); }`
  class Block {
   public:
    explicit Block(CodeWriter& writer, std::string tail = {}) : writer_(&writer), tail_(std::move(tail)) {}
    Block(Block&& other) noexcept
        : writer_(std::exchange(other.writer_, nullptr)), tail_(std::move(other.tail_)) {}
    Block& operator=(Block&&) = delete;
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    ~Block();

   private:
    CodeWriter* writer_;
    std::string tail_;
  };
  [[nodiscard]] Block block(std::string_view head, std::string_view tail = {});

  const std::string& text() const& { return text_; }
  std::string text() && { return std::move(text_); }
  bool empty() const { return text_.empty(); }

 private:
  int indent_width_;
  int level_ = 0;
  std::string text_;
};

}  // namespace passnet
