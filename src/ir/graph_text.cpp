// The text form of a graph, one line a node, and its reader:
//
//   %in_0 : f16[8,64]{64,1}@0 = placeholder
//   %gelu : f16[8,64]{64,1}@1 = call_function torch.nn.functional.gelu(%in_0, approximate='none')
//   %relu_ : f16[8,64]{64,1}@1 = call_method relu_(%gelu) writes [1]
//   output ((%relu_,))
//
// A type is dtype[shape]{strides}@storage+offset/device: strides read {?} where unknown, storage and offset are left
// out where there are none, the device where it is cuda:0. Tuples of types stand in parentheses; `number(3)` is a
// Python number, `none` is None; without ` : type` the metadata is unknown.

#include <array>
#include <charconv>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/graph.h"

namespace passnet {
namespace {

constexpr std::array<std::string_view, 12> kShort = {"bool", "u8",   "i8",  "i16", "i32", "i64",
                                                     "f16",  "bf16", "f32", "f64", "c64", "c128"};

std::string print_meta(const Meta& meta) {
  switch (meta.kind) {
    case Meta::Kind::kUnknown: return "?";
    case Meta::Kind::kNone: return "none";
    case Meta::Kind::kScalar: return fmt::format("number({})", python_text(meta.scalar));
    case Meta::Kind::kTuple: {
      std::string out = "(";
      for (size_t i = 0; i < meta.items.size(); ++i) {
        if (i > 0) out += ", ";
        out += print_meta(meta.items[i]);
      }
      return out + ")";
    }
    case Meta::Kind::kTensor: {
      const TensorMeta& t = meta.tensor;
      std::string out = fmt::format("{}[{}]", kShort[static_cast<size_t>(t.dtype)], fmt::join(t.shape, ","));
      out += t.stride ? fmt::format("{{{}}}", fmt::join(*t.stride, ",")) : "{?}";
      if (t.storage != kNoStorage) out += fmt::format("@{}", t.storage);
      if (t.offset != 0) out += fmt::format("+{}", t.offset);
      if (t.device != "cuda:0") out += "/" + t.device;
      return out;
    }
  }
  return "?";
}

struct Failure {
  std::string what;
};

// Reads one line. Throws Failure inside this file only; read_graph turns it into a Diagnostic.
class LineReader {
 public:
  LineReader(std::string_view line, Graph& graph) : text_(line), graph_(graph) {}

  void read() {
    if (accept("output")) {
      expect("(");
      std::vector<Value> args = {value()};
      expect(")");
      graph_.add(NodeOp::kOutput, "output", std::move(args), {}, "output");
      return end();
    }
    expect("%");
    const std::string name = identifier();
    if (graph_.find(name) != nullptr) throw Failure{"node name '" + name + "' is used twice"};
    Meta meta;
    if (accept(":")) meta = type();
    expect("=");
    const std::string kind = identifier();
    Node* node = nullptr;
    if (kind == "placeholder") {
      node = &graph_.add(NodeOp::kPlaceholder, name, {}, {}, name);
    } else if (kind == "get_attr") {
      node = &graph_.add(NodeOp::kGetAttr, dotted(), {}, {}, name);
    } else {
      if (kind != "call_function" && kind != "call_method") throw Failure{"unknown node kind '" + kind + "'"};
      const NodeOp op = kind == "call_method" ? NodeOp::kCallMethod : NodeOp::kCallFunction;
      std::string target = dotted();
      std::vector<Value> args;
      std::vector<std::pair<std::string, Value>> kwargs;
      expect("(");
      while (!accept(")")) {
        const size_t mark = at_;
        std::string key = identifier_or_empty();
        if (!key.empty() && peek() == '=') {
          expect("=");
          Value v = value();
          kwargs.emplace_back(std::move(key), std::move(v));
        } else {
          at_ = mark;
          args.push_back(value());
        }
        if (!accept(",") && peek() != ')') throw Failure{"expected ',' or ')'"};
      }
      node = &graph_.add(op, std::move(target), std::move(args), std::move(kwargs), name);
    }
    node->meta = std::move(meta);
    if (accept("writes")) {
      const Value list = value();
      for (const Value& storage : list.items()) {
        node->writes.push_back(static_cast<StorageId>(storage.as_int()));
        note_storage(node->writes.back());
      }
    }
    end();
  }

  size_t column() const { return at_ + 1; }

 private:
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(std::string_view token) {
    skip();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) throw Failure{fmt::format("expected '{}'", token)};
  }
  void end() {
    if (peek() != '\0') throw Failure{"unexpected text at the end of the line"};
  }
  static bool word(char c) { return isalnum(static_cast<unsigned char>(c)) || c == '_'; }
  std::string identifier_or_empty() {
    skip();
    const size_t start = at_;
    while (at_ < text_.size() && word(text_[at_])) ++at_;
    return std::string(text_.substr(start, at_ - start));
  }
  std::string identifier() {
    std::string id = identifier_or_empty();
    if (id.empty()) throw Failure{"expected a name"};
    return id;
  }
  std::string dotted() {
    std::string out = identifier();
    while (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      out += "." + identifier();
    }
    return out;
  }
  int64_t integer() {
    skip();
    int64_t v = 0;
    const auto [ptr, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
    if (error != std::errc()) throw Failure{"expected an integer"};
    at_ = static_cast<size_t>(ptr - text_.data());
    return v;
  }
  std::vector<int64_t> integers(std::string_view close) {
    std::vector<int64_t> out;
    while (!accept(close)) {
      out.push_back(integer());
      if (!accept(",")) {
        expect(close);
        break;
      }
    }
    return out;
  }
  void note_storage(StorageId id) {
    if (id >= graph_.storages) graph_.storages = id + 1;
  }

  Meta type() {
    if (accept("?")) return Meta::unknown();
    if (accept("none")) return Meta::none();
    if (accept("number(")) {
      Meta m = Meta::number(value());
      expect(")");
      return m;
    }
    if (accept("(")) {
      std::vector<Meta> items;
      while (!accept(")")) {
        items.push_back(type());
        if (!accept(",") && peek() != ')') throw Failure{"expected ',' or ')'"};
      }
      return Meta::tuple(std::move(items));
    }
    TensorMeta t;
    const std::string name = identifier();
    size_t i = 0;
    while (i < kShort.size() && kShort[i] != name) ++i;
    if (i == kShort.size()) throw Failure{"unknown element type '" + name + "'"};
    t.dtype = static_cast<DType>(i);
    expect("[");
    t.shape = integers("]");
    if (accept("{?}")) {
      t.stride = std::nullopt;
    } else if (accept("{")) {
      t.stride = integers("}");
    } else {
      t.stride = contiguous_strides(t.shape);
    }
    if (accept("@")) {
      t.storage = static_cast<StorageId>(integer());
      note_storage(t.storage);
    }
    if (accept("+")) t.offset = integer();
    if (accept("/")) {
      const size_t start = at_;
      while (at_ < text_.size() && (word(text_[at_]) || text_[at_] == ':')) ++at_;
      t.device = std::string(text_.substr(start, at_ - start));
    }
    return Meta::of(std::move(t));
  }

  std::vector<Value> items(std::string_view close, bool& trailing_comma) {
    std::vector<Value> out;
    trailing_comma = false;
    while (!accept(close)) {
      out.push_back(value());
      trailing_comma = accept(",");
      if (!trailing_comma && !text_.substr(at_).starts_with(close)) {
        skip();
        if (!text_.substr(at_).starts_with(close)) throw Failure{fmt::format("expected ',' or '{}'", close)};
      }
    }
    return out;
  }

  std::string quoted() {
    const char quote = text_[at_++];
    std::string out;
    while (at_ < text_.size() && text_[at_] != quote) {
      char c = text_[at_++];
      if (c == '\\' && at_ < text_.size()) {
        c = text_[at_++];
        if (c == 'n')
          c = '\n';
        else if (c == 't')
          c = '\t';
        else if (c == 'r')
          c = '\r';
        else if (c == 'x' && at_ + 2 <= text_.size()) {
          int byte = 0;
          std::from_chars(text_.data() + at_, text_.data() + at_ + 2, byte, 16);
          at_ += 2;
          c = static_cast<char>(byte);
        }
      }
      out += c;
    }
    if (at_ == text_.size()) throw Failure{"a string is not closed"};
    ++at_;
    return out;
  }

  double real() {
    if (accept("float('")) {
      const bool negative = accept("-");
      const double v = accept("inf") ? HUGE_VAL : (expect("nan"), std::strtod("nan", nullptr));
      expect("')");
      return negative ? -v : v;
    }
    const std::string text(text_.substr(at_, text_.find_first_of(" ,)]}", at_) - at_));
    char* stop = nullptr;
    const double v = std::strtod(text.c_str(), &stop);
    if (stop == text.c_str()) throw Failure{"expected a number"};
    at_ += static_cast<size_t>(stop - text.c_str());
    return v;
  }

  Value value() {
    // One level a bracket: deep enough for any graph, far from the end of the stack.
    if (++depth_ > 200) throw Failure{"values are nested more than 200 deep"};
    Value v = value_inside();
    --depth_;
    return v;
  }

  Value value_inside() {
    bool comma = false;
    const char c = peek();
    if (accept("...")) return Value::ellipsis();
    if (c == '%') {
      ++at_;
      const std::string name = identifier();
      const Node* node = graph_.find(name);
      if (node == nullptr) throw Failure{"no node named '" + name + "' before this line"};
      return Value::node(node->id);
    }
    if (accept("[")) return Value::list(items("]", comma));
    if (accept("(")) return Value::tuple(items(")", comma));
    if (accept("{")) {
      std::vector<std::pair<std::string, Value>> entries;
      while (!accept("}")) {
        if (peek() != '\'' && peek() != '"') throw Failure{"expected a quoted key"};
        std::string key = quoted();
        expect(":");
        Value v = value();
        entries.emplace_back(std::move(key), std::move(v));
        if (!accept(",") && peek() != '}') throw Failure{"expected ',' or '}'"};
      }
      return Value::dict(std::move(entries));
    }
    if (c == '\'' || c == '"') return Value::string(quoted());
    if (accept("slice(")) {
      std::vector<Value> parts = items(")", comma);
      if (parts.size() != 3) throw Failure{"slice() has three parts"};
      return Value::slice(std::move(parts[0]), std::move(parts[1]), std::move(parts[2]));
    }
    if (accept("complex(")) {
      const double re = (skip(), real());
      expect(",");
      const double im = (skip(), real());
      expect(")");
      return Value::complex(re, im);
    }
    if (accept("torch.device(")) {
      skip();
      Value v = Value::device(quoted());
      expect(")");
      return v;
    }
    if (text_.substr(at_).starts_with("float('")) return Value::real(real());
    if (isdigit(static_cast<unsigned char>(c)) || c == '-') {
      const size_t stop = text_.find_first_of(" ,)]}", at_);
      const std::string_view token = text_.substr(at_, stop - at_);
      if (token.find_first_of(".en") == std::string_view::npos) return Value::integer(integer());
      return Value::real(real());
    }
    const std::string word_text = dotted();
    if (word_text == "None") return Value::none();
    if (word_text == "True") return Value::boolean(true);
    if (word_text == "False") return Value::boolean(false);
    if (word_text.starts_with("torch.")) {
      if (const auto dtype = parse_dtype(word_text)) return Value::dtype(*dtype);
      const std::string leaf = word_text.substr(6);
      if (leaf == "strided" || leaf.starts_with("sparse_") || leaf == "jagged") {
        return Value::constant(Value::Kind::kLayout, word_text);
      }
      if (leaf.ends_with("_format") || leaf.starts_with("channels_last")) {
        return Value::constant(Value::Kind::kMemoryFormat, word_text);
      }
    }
    return Value::constant(Value::Kind::kConstant, word_text);
  }

  std::string_view text_;
  Graph& graph_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::string print(const Graph& graph) {
  const auto name = [&](NodeId id) { return "%" + graph.node(id).name; };
  std::string out;
  for (const auto& owned : graph.nodes()) {
    const Node& node = *owned;
    if (node.op == NodeOp::kOutput) {
      out += fmt::format("output ({})\n", node.args.empty() ? "None" : python_text(node.args[0], name));
      continue;
    }
    out += "%" + node.name;
    if (node.meta.kind != Meta::Kind::kUnknown) out += " : " + print_meta(node.meta);
    out += fmt::format(" = {}", name_of(node.op));
    if (node.op == NodeOp::kGetAttr) out += " " + node.target;
    if (node.op == NodeOp::kCallFunction || node.op == NodeOp::kCallMethod) {
      out += fmt::format(" {}(", node.target);
      bool first = true;
      for (const Value& arg : node.args) {
        if (!first) out += ", ";
        first = false;
        out += python_text(arg, name);
      }
      for (const auto& [key, value] : node.kwargs) {
        if (!first) out += ", ";
        first = false;
        out += key + "=" + python_text(value, name);
      }
      out += ")";
    }
    if (!node.writes.empty()) out += fmt::format(" writes [{}]", fmt::join(node.writes, ", "));
    out += "\n";
  }
  return out;
}

Result<Graph> read_graph(std::string_view text) {
  Graph graph;
  int line_number = 0;
  while (!text.empty()) {
    ++line_number;
    const size_t stop = text.find('\n');
    std::string_view line = text.substr(0, stop);
    text.remove_prefix(stop == std::string_view::npos ? text.size() : stop + 1);
    const size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos || line[first] == '#') continue;
    if (line.ends_with('\r')) line.remove_suffix(1);
    LineReader reader(line, graph);
    try {
      reader.read();
    } catch (const Failure& failure) {
      Span span{line_number, static_cast<int>(reader.column()), 0, 0};
      return user_error("ir.text", failure.what).at("<graph>", span);
    }
  }
  return graph;
}

}  // namespace passnet
