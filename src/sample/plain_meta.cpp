#include "sample/plain_meta.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string_view>

namespace passnet {

namespace {

constexpr std::string_view kPrefix = "Program_";
constexpr std::size_t kMaxRank = 64;

bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// An integer or a float in plain decimal notation.
std::optional<Value> number(std::string_view text) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.empty() || digits[0] < '0' || digits[0] > '9') return std::nullopt;
  if (digits.size() > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9') return std::nullopt;
  const bool integer = digits.find_first_not_of("0123456789") == std::string_view::npos;
  if (integer) {
    int64_t v = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return Value::integer(v);
  }
  double v = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return Value::real(v);
}

class Reader {
 public:
  explicit Reader(const SourceBuffer& source) : source_(source), text_(source.text()) {}

  std::optional<std::vector<TensorSpec>> read() {
    while (at_ < text_.size()) {
      const std::string_view line = next();
      if (line.empty()) continue;
      if (line.starts_with("class ")) {
        if (!end_class() || !line.ends_with(':')) return std::nullopt;
        const std::string_view name = line.substr(6, line.size() - 7);
        if (!name.starts_with(kPrefix) || !is_word(name)) return std::nullopt;
        spec_.emplace();
        spec_->class_name = name;
        spec_->file = source_.name();
        spec_->span = {line_, 1, line_, 6};
        seen_.clear();
        indent_ = {};
      } else if (!spec_ || !attribute(line)) {
        return std::nullopt;
      }
    }
    if (!end_class()) return std::nullopt;
    std::vector<TensorSpec> out;
    std::set<std::string_view> names;
    for (auto& [name, spec] : specs_) {
      if (!names.insert(spec.name).second) return std::nullopt;
    }
    out.reserve(specs_.size());
    for (auto& [name, spec] : specs_) out.push_back(std::move(spec));
    return out;
  }

 private:
  // The next line; empty behind the last.
  std::string_view next() {
    if (at_ >= text_.size()) return {};
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    const std::string_view line = text_.substr(at_, end - at_);
    at_ = end + 1;
    ++line_;
    return line;
  }

  bool attribute(std::string_view line) {
    const std::string_view indent = line.starts_with('\t') ? "\t" : "    ";
    if (!line.starts_with(indent) || (!indent_.empty() && indent_ != indent)) return false;
    indent_ = indent;
    line.remove_prefix(indent.size());
    const std::size_t equals = line.find(" = ");
    if (equals == std::string_view::npos) return false;
    const std::string_view key = line.substr(0, equals);
    std::string_view value = line.substr(equals + 3);
    if (!is_word(key) || value.empty() || !seen_.insert(key).second) return false;
    if (value.front() == '[') return list(key, value.substr(1));
    if (value == "(") {  // a long string on a line of its own, as formatters break it
      value = stripped(next());
      if (stripped(next()) != ")" || !value.starts_with('"')) return false;
    }
    if (value.front() == '"') {
      if (value.size() < 2 || value.back() != '"') return false;
      value = value.substr(1, value.size() - 2);
      if (!std::all_of(value.begin(), value.end(),
                       [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; }))
        return false;
      return string(key, value);
    }
    const std::optional<Value> v = value == "None" ? std::optional(Value::none()) : number(value);
    if (!v) return false;
    if (key == "data") return v->is_none();
    std::optional<double>* field = key == "mean"      ? &spec_->mean
                                   : key == "std"     ? &spec_->std
                                   : key == "min_val" ? &spec_->min_val
                                   : key == "max_val" ? &spec_->max_val
                                                      : nullptr;
    if (field == nullptr) return false;
    *field = v->is_none() ? std::nullopt : std::optional(v->as_double());
    return true;
  }

  bool string(std::string_view key, std::string_view value) {
    if (key == "name") spec_->name = value;
    if (key == "device") spec_->device = value;
    if (key == "dtype") {
      const std::optional<DType> dtype = parse_dtype(value);
      if (!dtype) return false;
      spec_->dtype = *dtype;
    }
    return key == "name" || key == "device" || key == "dtype" || key == "original_name";
  }

  static std::string_view stripped(std::string_view line) {
    const std::size_t first = line.find_first_not_of(" \t");
    return first == std::string_view::npos ? std::string_view() : line.substr(first);
  }

  // `rest`: the line behind the bracket. The list may go on over lines.
  bool list(std::string_view key, std::string_view rest) {
    std::vector<Value> values;
    while (true) {
      const std::size_t close = rest.find(']');
      std::string_view part = rest.substr(0, close);
      while (true) {
        const std::size_t comma = part.find(',');
        std::string_view item = part.substr(0, comma);
        while (item.starts_with(' ') || item.starts_with('\t')) item.remove_prefix(1);
        if (item.empty()) {
          // Behind the last comma of a line, or an empty list.
          if (comma != std::string_view::npos) return false;
          break;
        }
        const std::optional<Value> v = number(item);
        // A number that no comma ends has to be the last.
        if (!v || (comma == std::string_view::npos && close == std::string_view::npos && !last_line()))
          return false;
        values.push_back(*v);
        if (comma == std::string_view::npos) break;
        part.remove_prefix(comma + 1);
      }
      if (close != std::string_view::npos) {
        if (close + 1 != rest.size()) return false;
        break;
      }
      if (at_ >= text_.size()) return false;
      rest = next();
    }
    if (key == "shape") {
      for (const Value& v : values) {
        if (v.kind() != Value::Kind::kInt || v.as_int() < 0) return false;
        spec_->shape.push_back(v.as_int());
      }
      return true;
    }
    if (key != "data") return false;
    spec_->data_count = static_cast<int64_t>(values.size());
    spec_->data_head.assign(values.begin(),
                            values.begin() + static_cast<std::ptrdiff_t>(std::min(values.size(), kDataHead)));
    const bool integers = std::all_of(values.begin(), values.end(),
                                      [](const Value& v) { return v.kind() == Value::Kind::kInt; });
    if (integers && values.size() <= kMaxIntegers) {
      std::vector<double> all;
      all.reserve(values.size());
      for (const Value& v : values) all.push_back(v.as_double());
      spec_->integers = std::make_shared<const std::vector<double>>(std::move(all));
    }
    return true;
  }

  // Whether the list's next line only closes it.
  bool last_line() const {
    const std::size_t first = text_.find_first_not_of(" \t", at_);
    return first != std::string_view::npos && text_[first] == ']';
  }

  bool end_class() {
    if (!spec_) return true;
    for (const char* needed : {"name", "shape", "dtype"}) {
      if (!seen_.contains(needed)) return false;
    }
    if (!seen_.contains("mean")) spec_->mean = 0.0;
    if (!seen_.contains("std")) spec_->std = 1.0;
    if (spec_->shape.size() > kMaxRank || span_of(spec_->shape) > kMostElements) return false;
    if (spec_->has_data() && spec_->data_count != elements_of(spec_->shape)) return false;
    std::string name = spec_->class_name;
    specs_.insert_or_assign(std::move(name), *std::move(spec_));
    spec_.reset();
    return true;
  }

  const SourceBuffer& source_;
  std::string_view text_, indent_;
  std::size_t at_ = 0;
  int line_ = 0;
  std::optional<TensorSpec> spec_;
  std::set<std::string_view> seen_;
  std::map<std::string, TensorSpec> specs_;
};

}  // namespace

std::optional<std::vector<TensorSpec>> read_plain_specs(const SourceBuffer& source) {
  return Reader(source).read();
}

}  // namespace passnet
