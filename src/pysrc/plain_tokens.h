#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/diagnostic.h"

namespace passnet::pysrc {

// Brackets within brackets, and what else nests.
inline constexpr int kMaxNesting = 50;

// An operator's characters as one number.
constexpr uint32_t op(std::string_view text) {
  uint32_t out = 0;
  for (const char c : text) out = out << 8 | static_cast<unsigned char>(c);
  return out;
}

struct Place {
  int line = 1;
  int col = 1;
};

inline Span between(Place begin, Place end) { return {begin.line, begin.col, end.line, end.col}; }

struct Token {
  enum class Kind : uint8_t { kName, kNumber, kString, kOperator, kLineEnd, kEnd };
  Kind kind = Kind::kEnd;
  uint32_t op = 0;
  std::string_view text;
  Place begin;
};

bool is_keyword(std::string_view text);
// Names in most places; the grammar gives them other meanings in some.
bool is_soft_keyword(std::string_view text);

// The tokens of plain text (plain.h), one at a time. All that is not plain is a failure, after which no token comes, so that every
// loop ends.
class PlainTokens {
 public:
  explicit PlainTokens(std::string_view text) : text_(text) {}

  const Token& token() const { return token_; }
  bool failed() const { return failed_; }
  void fail();

  // To the first token of the next line that is not empty; kEnd if there is none.
  void begin_line();
  // To the next token of the logical line, in the end kLineEnd.
  void advance();
  // Over this operator; a failure if it is another token.
  void expect(uint32_t code);

  bool at_end() const { return token_.kind == Token::Kind::kEnd; }
  bool is(uint32_t code) const { return token_.kind == Token::Kind::kOperator && token_.op == code; }
  bool is_name(std::string_view text) const {
    return token_.kind == Token::Kind::kName && token_.text == text;
  }

  // Spaces before the logical line.
  int indent() const { return indent_; }
  // Where the token before this one ended.
  Place last_end() const { return last_end_; }

 private:
  Place place(std::size_t at) const { return {line_, static_cast<int>(at - line_start_) + 1}; }
  char peek(std::size_t at) const { return at < text_.size() ? text_[at] : '\0'; }
  bool find_token();
  std::size_t name_end(std::size_t at) const;
  std::size_t number_end(std::size_t at) const;
  std::size_t string_end(std::size_t at) const;
  std::size_t operator_end(std::size_t at) const;

  std::string_view text_;
  std::size_t at_ = 0;          // behind token_
  std::size_t line_start_ = 0;  // of the line in which at_ is
  int line_ = 1;
  int indent_ = 0;
  int brackets_ = 0;  // open ones
  bool failed_ = false;
  Token token_;
  Place last_end_;
};

}  // namespace passnet::pysrc
