#include "pysrc/plain_tokens.h"

#include <algorithm>
#include <array>

namespace passnet::pysrc {

namespace {

constexpr std::array<std::string_view, 33> kKeywords = {
    "False", "None",   "True", "and",   "as",     "assert",   "break", "class", "continue",
    "def",   "del",    "elif", "else",  "except", "finally",  "for",   "from",  "global",
    "if",    "import", "in",   "is",    "lambda", "nonlocal", "not",   "or",    "pass",
    "raise", "return", "try",  "while", "with",   "yield"};
constexpr std::array<std::string_view, 8> kSoftKeywords = {"async", "await", "case", "exec",
                                                           "match", "print", "type", "__future__"};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_quote(char c) { return c == '\'' || c == '"'; }

}  // namespace

bool is_keyword(std::string_view text) {
  return text.size() <= 8 && std::find(kKeywords.begin(), kKeywords.end(), text) != kKeywords.end();
}

bool is_soft_keyword(std::string_view text) {
  return text.size() <= 10 &&
         std::find(kSoftKeywords.begin(), kSoftKeywords.end(), text) != kSoftKeywords.end();
}

void PlainTokens::fail() {
  failed_ = true;
  token_ = Token{};
}

void PlainTokens::expect(uint32_t code) {
  if (is(code)) {
    advance();
  } else {
    fail();
  }
}

void PlainTokens::begin_line() {
  for (std::size_t at = at_;; ++at, ++line_) {
    const std::size_t start = at;
    while (peek(at) == ' ') ++at;
    if (at == text_.size()) {
      at_ = at;
      indent_ = 0;
      token_ = Token{};
      return;
    }
    if (text_[at] == '\n') continue;
    at_ = at;
    line_start_ = start;
    indent_ = static_cast<int>(std::min<std::size_t>(at - start, 1000));
    return advance();
  }
}

// Moves at_ to where the next token begins; false where the line ended before.
bool PlainTokens::find_token() {
  for (;; ++at_) {
    if (at_ == text_.size()) break;
    if (text_[at_] == ' ') continue;
    if (text_[at_] != '\n') break;
    ++line_;
    if (brackets_ == 0) {
      ++at_;
      return false;
    }
    line_start_ = at_ + 1;
  }
  // Python does not ask how far the lines within brackets are indented; the grammar's scanner does.
  if (at_ < line_start_ + static_cast<std::size_t>(indent_)) fail();
  return at_ < text_.size();
}

void PlainTokens::advance() {
  if (failed_) return;
  // The end of a line is not the end of anything.
  if (token_.kind != Token::Kind::kLineEnd) last_end_ = place(at_);
  if (!find_token()) {
    token_.kind = Token::Kind::kLineEnd;
    if (brackets_ > 0) fail();
    return;
  }
  const std::size_t at = at_;
  const char c = text_[at];
  if (is_letter(c)) {
    token_.kind = Token::Kind::kName;
    at_ = name_end(at);
  } else if (is_digit(c)) {
    token_.kind = Token::Kind::kNumber;
    at_ = number_end(at);
  } else if (is_quote(c)) {
    token_.kind = Token::Kind::kString;
    at_ = string_end(at);
  } else {
    token_.kind = Token::Kind::kOperator;
    at_ = operator_end(at);
    if (c == '(' || c == '[') ++brackets_;
    if (c == ')' || c == ']') --brackets_;
  }
  if (failed_ || at_ == at || brackets_ < 0 || brackets_ > kMaxNesting) return fail();
  token_.text = text_.substr(at, at_ - at);
  token_.begin = place(at);
  if (token_.kind == Token::Kind::kOperator) token_.op = op(token_.text);
}

// Where the token at that place ends; the place itself if it is not plain.

std::size_t PlainTokens::name_end(std::size_t at) const {
  std::size_t end = at + 1;
  while (is_letter(peek(end)) || is_digit(peek(end))) ++end;
  return is_quote(peek(end)) ? at : end;  // the prefix of a string
}

// Decimal integers and floats.
std::size_t PlainTokens::number_end(std::size_t at) const {
  std::size_t end = at;
  const auto digits = [&] {
    const std::size_t begin = end;
    while (is_digit(peek(end))) ++end;
    return end - begin;
  };
  if (digits() > 1 && text_[at] == '0') return at;
  if (peek(end) == '.') {
    ++end;
    digits();
  }
  if (peek(end) == 'e' || peek(end) == 'E') {
    ++end;
    if (peek(end) == '+' || peek(end) == '-') ++end;
    if (digits() == 0) return at;
  }
  return is_letter(peek(end)) || peek(end) == '.' ? at : end;
}

// One literal of printable ASCII without escapes, none that joins another or begins with three quotes.
std::size_t PlainTokens::string_end(std::size_t at) const {
  const char quote = text_[at];
  std::size_t end = at + 1;
  while (peek(end) != quote && peek(end) >= ' ' && peek(end) <= '~' && peek(end) != '\\') ++end;
  if (peek(end) != quote) return at;
  ++end;
  return is_quote(peek(end)) || is_letter(peek(end)) ? at : end;
}

std::size_t PlainTokens::operator_end(std::size_t at) const {
  const char c = text_[at], next = peek(at + 1);
  switch (c) {
    case '(':
    case ')':
    case '[':
    case ']':
    case ',':
    case ';':
    case '~': return at + 1;
    case ':': return next == '=' ? at : at + 1;
    case '.':
      if (is_digit(next)) return at;
      return next == '.' && peek(at + 2) == '.' ? at + 3 : at + 1;
    case '*':
    case '/':
    case '<':
    case '>':
      if (c == '<' && next == '>') return at;
      if (next == c) return peek(at + 2) == '=' ? at + 3 : at + 2;
      return next == '=' ? at + 2 : at + 1;
    case '-':
      if (next == '>') return at;
      return next == '=' ? at + 2 : at + 1;
    case '!': return next == '=' ? at + 2 : at;
    case '=':
    case '+':
    case '%':
    case '@':
    case '&':
    case '|': return next == '=' ? at + 2 : at + 1;
    default: return at;
  }
}

}  // namespace passnet::pysrc
