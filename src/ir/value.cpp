#include "ir/value.h"

#include <bit>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace passnet {

Value Value::boolean(bool v) {
  Value out;
  out.kind_ = Kind::kBool;
  out.int_ = v ? 1 : 0;
  return out;
}

Value Value::integer(int64_t v) {
  Value out;
  out.kind_ = Kind::kInt;
  out.int_ = v;
  return out;
}

Value Value::real(double v) {
  Value out;
  out.kind_ = Kind::kFloat;
  out.real_ = v;
  return out;
}

Value Value::complex(double re, double im) {
  Value out;
  out.kind_ = Kind::kComplex;
  out.real_ = re;
  out.imag_ = im;
  return out;
}

Value Value::string(std::string v) {
  Value out;
  out.kind_ = Kind::kString;
  out.text_ = std::move(v);
  return out;
}

Value Value::dtype(DType v) {
  Value out;
  out.kind_ = Kind::kDType;
  out.int_ = static_cast<int64_t>(v);
  return out;
}

Value Value::device(std::string v) {
  Value out;
  out.kind_ = Kind::kDevice;
  out.text_ = std::move(v);
  return out;
}

Value Value::constant(Kind kind, std::string dotted) {
  Value out;
  out.kind_ = kind;
  out.text_ = std::move(dotted);
  return out;
}

Value Value::ellipsis() {
  Value out;
  out.kind_ = Kind::kEllipsis;
  return out;
}

Value Value::node(NodeId id) {
  Value out;
  out.kind_ = Kind::kNode;
  out.int_ = id;
  return out;
}

Value Value::list(std::vector<Value> items) {
  Value out;
  out.kind_ = Kind::kList;
  out.items_ = std::move(items);
  return out;
}

Value Value::tuple(std::vector<Value> items) {
  Value out;
  out.kind_ = Kind::kTuple;
  out.items_ = std::move(items);
  return out;
}

Value Value::slice(Value start, Value stop, Value step) {
  Value out;
  out.kind_ = Kind::kSlice;
  out.items_ = {std::move(start), std::move(stop), std::move(step)};
  return out;
}

Value Value::dict(std::vector<std::pair<std::string, Value>> items) {
  Value out;
  out.kind_ = Kind::kDict;
  for (auto& [key, value] : items) {
    out.keys_.push_back(std::move(key));
    out.items_.push_back(std::move(value));
  }
  return out;
}

bool Value::operator==(const Value& other) const {
  if (kind_ != other.kind_ || int_ != other.int_ || text_ != other.text_ || keys_ != other.keys_)
    return false;
  // NaN literals are the same literal; 0.0 and -0.0 are not.
  if (std::bit_cast<uint64_t>(real_) != std::bit_cast<uint64_t>(other.real_)) return false;
  if (std::bit_cast<uint64_t>(imag_) != std::bit_cast<uint64_t>(other.imag_)) return false;
  return items_ == other.items_;
}

std::string python_float(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  char digits[64];
  const double magnitude = std::fabs(v);
  // repr() switches to an exponent below 1e-4 and from 1e16 on, with at least two exponent digits.
  const bool scientific = magnitude != 0 && (magnitude < 1e-4 || magnitude >= 1e16);
  const auto format = scientific ? std::chars_format::scientific : std::chars_format::fixed;
  const auto end = std::to_chars(digits, digits + sizeof digits, v, format).ptr;
  std::string text(digits, end);
  if (!scientific && text.find('.') == std::string::npos) text += ".0";
  return text;
}

namespace detail {

std::string python_string(const std::string& s) {
  const bool has_single = s.find('\'') != std::string::npos;
  const char quote = has_single && s.find('"') == std::string::npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : s) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == quote || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  out += quote;
  return out;
}

std::string python_text(const Value& v, const std::function<std::string(NodeId)>& name) {
  const auto joined = [&](std::string_view open, std::string_view close) {
    std::string out(open);
    for (size_t i = 0; i < v.items().size(); ++i) {
      if (i > 0) out += ", ";
      out += python_text(v.items()[i], name);
    }
    if (v.kind() == Value::Kind::kTuple && v.items().size() == 1) out += ",";
    out += close;
    return out;
  };
  // A float literal that is no literal in Python is a call.
  const auto number = [](double d) {
    return std::isfinite(d) ? python_float(d) : fmt::format("float('{}')", python_float(d));
  };
  switch (v.kind()) {
    case Value::Kind::kNone: return "None";
    case Value::Kind::kBool: return v.as_bool() ? "True" : "False";
    case Value::Kind::kInt: return std::to_string(v.as_int());
    case Value::Kind::kFloat: return number(v.as_double());
    case Value::Kind::kComplex:
      return fmt::format("complex({}, {})", number(v.as_double()), number(v.imag()));
    case Value::Kind::kString: return python_string(v.text());
    case Value::Kind::kDType: return fmt::format("torch.{}", name_of(v.as_dtype()));
    case Value::Kind::kDevice: return fmt::format("torch.device({})", python_string(v.text()));
    case Value::Kind::kLayout:
    case Value::Kind::kMemoryFormat:
    case Value::Kind::kConstant: return v.text();
    case Value::Kind::kEllipsis: return "...";
    case Value::Kind::kNode: return name(v.as_node());
    case Value::Kind::kList: return joined("[", "]");
    case Value::Kind::kTuple: return joined("(", ")");
    case Value::Kind::kSlice: return joined("slice(", ")");
    case Value::Kind::kDict: {
      std::string out = "{";
      for (size_t i = 0; i < v.items().size(); ++i) {
        if (i > 0) out += ", ";
        out += python_string(v.keys()[i]) + ": " + python_text(v.items()[i], name);
      }
      return out + "}";
    }
  }
  return "None";
}

}  // namespace detail

std::string python_text(const Value& v) {
  return detail::python_text(v, [](NodeId id) { return fmt::format("%{}", id); });
}

}  // namespace passnet
