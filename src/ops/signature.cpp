#include "ops/signature.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>

#include "base/strings.h"

namespace passnet {

namespace {

constexpr std::array<std::pair<std::string_view, ArgKind>, 10> kKinds = {{{"any", ArgKind::kAny},
                                                                          {"tensor", ArgKind::kTensor},
                                                                          {"tensors", ArgKind::kTensors},
                                                                          {"int", ArgKind::kInt},
                                                                          {"ints", ArgKind::kInts},
                                                                          {"number", ArgKind::kNumber},
                                                                          {"bool", ArgKind::kBool},
                                                                          {"str", ArgKind::kString},
                                                                          {"dtype", ArgKind::kDType},
                                                                          {"device", ArgKind::kDevice}}};

Diagnostic bad_text(std::string_view text, size_t at, std::string_view what) {
  return internal_error("ops.signature", std::string(what) + " at position " + std::to_string(at) + " of `" +
                                             std::string(text) + "`");
}

void skip_space(std::string_view text, size_t* at) {
  while (*at < text.size() && text[*at] == ' ') ++*at;
}

bool is_name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string_view take_name(std::string_view text, size_t* at) {
  const size_t start = *at;
  while (*at < text.size() && is_name_char(text[*at])) ++*at;
  return text.substr(start, *at - start);
}

std::string_view take_dotted(std::string_view text, size_t* at) {
  const size_t start = *at;
  while (*at < text.size() && (is_name_char(text[*at]) || text[*at] == '.')) ++*at;
  return text.substr(start, *at - start);
}

Result<Value> parse_string(std::string_view text, size_t* at) {
  const char quote = text[*at];
  const size_t end = text.find(quote, *at + 1);
  if (end == std::string_view::npos) return bad_text(text, *at, "unclosed string");
  Value v = Value::string(std::string(text.substr(*at + 1, end - *at - 1)));
  *at = end + 1;
  return v;
}

Result<Value> parse_number(std::string_view text, size_t* at) {
  const size_t start = *at;
  bool is_float = false;
  while (*at < text.size()) {
    const char c = text[*at];
    const bool exponent_sign =
        (c == '-' || c == '+') && (text[*at - 1] == 'e' || text[*at - 1] == 'E') && *at > start;
    if (c == '.' || c == 'e' || c == 'E') is_float = true;
    if (!std::isdigit(static_cast<unsigned char>(c)) && c != '.' && c != 'e' && c != 'E' && !exponent_sign)
      break;
    ++*at;
  }
  const std::string_view digits = text.substr(start, *at - start);
  if (!is_float) {
    if (const auto v = parse_int(digits)) return Value::integer(*v);
  } else if (const auto v = parse_double(digits)) {
    return Value::real(*v);
  }
  return bad_text(text, start, "no number");
}

Result<std::vector<Value>> parse_items(std::string_view text, size_t* at, char close, bool* trailing_comma) {
  std::vector<Value> items;
  *trailing_comma = false;
  for (;;) {
    skip_space(text, at);
    if (*at >= text.size()) return bad_text(text, *at, "unclosed bracket");
    if (text[*at] == close) break;
    PN_TRY(Value item, parse_literal(text, at));
    items.push_back(std::move(item));
    *trailing_comma = false;
    skip_space(text, at);
    if (*at < text.size() && text[*at] == ',') {
      *trailing_comma = true;
      ++*at;
    }
  }
  ++*at;
  return items;
}

}  // namespace

std::string_view name_of(ArgKind kind) {
  for (const auto& [name, k] : kKinds) {
    if (k == kind) return name;
  }
  return "any";
}

Result<Value> parse_literal(std::string_view text, size_t* at) {
  skip_space(text, at);
  if (*at >= text.size()) return bad_text(text, *at, "no value");
  const char c = text[*at];
  bool comma = false;
  if (c == '-') {
    ++*at;
    PN_TRY(const Value v, parse_literal(text, at));
    if (v.kind() == Value::Kind::kInt) return Value::integer(-v.as_int());
    if (v.kind() == Value::Kind::kFloat) return Value::real(-v.as_double());
    return bad_text(text, *at, "no number behind -");
  }
  if (c == '\'' || c == '"') return parse_string(text, at);
  if (c == '(') {
    ++*at;
    PN_TRY(std::vector<Value> items, parse_items(text, at, ')', &comma));
    if (items.size() == 1 && !comma) return items[0];
    return Value::tuple(std::move(items));
  }
  if (c == '[') {
    ++*at;
    PN_TRY(std::vector<Value> items, parse_items(text, at, ']', &comma));
    return Value::list(std::move(items));
  }
  if (text.substr(*at, 3) == "...") {
    *at += 3;
    return Value::ellipsis();
  }
  if (std::isdigit(static_cast<unsigned char>(c)) || c == '.') return parse_number(text, at);
  const size_t start = *at;
  const std::string_view name = take_dotted(text, at);
  if (name == "None") return Value::none();
  if (name == "True") return Value::boolean(true);
  if (name == "False") return Value::boolean(false);
  if (name == "inf" || name == "math.inf" || name == "torch.inf") {
    return Value::real(std::numeric_limits<double>::infinity());
  }
  if (name == "nan" || name == "math.nan" || name == "torch.nan") return Value::real(std::nan(""));
  if (name == "Ellipsis") return Value::ellipsis();
  if (name == "slice" || name == "float" || name == "torch.device") {
    skip_space(text, at);
    if (*at < text.size() && text[*at] == '(') {
      ++*at;
      PN_TRY(std::vector<Value> items, parse_items(text, at, ')', &comma));
      if (name == "slice" && !items.empty() && items.size() <= 3) {
        if (items.size() == 1) return Value::slice(Value::none(), items[0], Value::none());
        return Value::slice(items[0], items[1], items.size() == 3 ? items[2] : Value::none());
      }
      if (name != "slice" && items.size() == 1 && items[0].kind() == Value::Kind::kString) {
        if (name == "torch.device") return Value::device(items[0].text());
        if (const auto v = parse_double(items[0].text())) return Value::real(*v);
      }
      return bad_text(text, start, "arguments");
    }
  }
  if (name.starts_with("torch.")) {
    if (const auto dtype = parse_dtype(name)) return Value::dtype(*dtype);
    if (name.ends_with("_format") || name.starts_with("torch.channels_last"))
      return Value::constant(Value::Kind::kMemoryFormat, std::string(name));
    if (name == "torch.strided") return Value::constant(Value::Kind::kLayout, std::string(name));
  }
  return bad_text(text, start, "no literal");
}

int Signature::find(std::string_view name) const {
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& names = parameters[i].names;
    if (std::find(names.begin(), names.end(), name) != names.end()) return static_cast<int>(i);
  }
  return -1;
}

Result<Signature> parse_signature(std::string_view text) {
  Signature out;
  bool keyword_only = false;
  size_t at = 0;
  skip_space(text, &at);
  while (at < text.size()) {
    if (text[at] == '*') {
      keyword_only = true;
      ++at;
    } else {
      Parameter p;
      p.keyword_only = keyword_only;
      for (;;) {
        const std::string_view name = take_name(text, &at);
        if (name.empty()) return bad_text(text, at, "no parameter name");
        if (out.find(name) >= 0) return bad_text(text, at, "a parameter given twice");
        p.names.emplace_back(name);
        if (at >= text.size() || text[at] != '|') break;
        ++at;
      }
      if (text.substr(at, 3) == "...") {
        p.rest = true;
        at += 3;
      }
      if (at < text.size() && text[at] == ':') {
        ++at;
        const std::string_view kind = take_name(text, &at);
        const auto* found =
            std::find_if(kKinds.begin(), kKinds.end(), [&](const auto& k) { return k.first == kind; });
        if (found == kKinds.end()) return bad_text(text, at, "unknown kind");
        p.kind = found->second;
      }
      if (at < text.size() && text[at] == '=') {
        ++at;
        PN_TRY(Value v, parse_literal(text, &at));
        p.default_value = std::move(v);
      }
      out.parameters.push_back(std::move(p));
    }
    skip_space(text, &at);
    if (at < text.size()) {
      if (text[at] != ',') return bad_text(text, at, "no comma");
      ++at;
      skip_space(text, &at);
    }
  }
  return out;
}

}  // namespace passnet
