#include "ops/example.h"

#include <algorithm>
#include <cctype>
#include <map>

#include <fmt/format.h>

#include "base/strings.h"
#include "ops/identities.h"
#include "ops/signature.h"

namespace passnet {

namespace {

constexpr std::pair<std::string_view, DType> kTypes[] = {
    {"bool", DType::kBool},   {"u8", DType::kUInt8},      {"i8", DType::kInt8},
    {"i16", DType::kInt16},   {"i32", DType::kInt32},     {"i64", DType::kInt64},
    {"f16", DType::kFloat16}, {"bf16", DType::kBFloat16}, {"f32", DType::kFloat32},
    {"f64", DType::kFloat64}, {"c64", DType::kComplex64}, {"c128", DType::kComplex128}};

struct Operator {
  std::string_view text, target;
  int precedence;
};
// Longer ones first, so that `**` is not taken for `*`.
constexpr Operator kOperators[] = {
    {"**", "operator.pow", 9},    {"//", "operator.floordiv", 7}, {"<<", "operator.lshift", 5},
    {">>", "operator.rshift", 5}, {"<=", "operator.le", 1},       {">=", "operator.ge", 1},
    {"==", "operator.eq", 1},     {"!=", "operator.ne", 1},       {"+", "operator.add", 6},
    {"-", "operator.sub", 6},     {"*", "operator.mul", 7},       {"/", "operator.truediv", 7},
    {"%", "operator.mod", 7},     {"@", "operator.matmul", 7},    {"&", "operator.and_", 4},
    {"^", "operator.xor", 3},     {"|", "operator.or_", 2},       {"<", "operator.lt", 1},
    {">", "operator.gt", 1}};
constexpr int kUnary = 8;

bool is_name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

class Builder {
 public:
  explicit Builder(std::string_view text) : text_(text) {}

  Status add_inputs(std::string_view inputs) {
    size_t at = 0;
    const auto space = [&] {
      while (at < inputs.size() && (inputs[at] == ' ' || inputs[at] == ',')) ++at;
    };
    for (space(); at < inputs.size(); space()) {
      const size_t equals = inputs.find('=', at);
      if (equals == std::string_view::npos) return wrong("an input without `=`");
      const std::string name(inputs.substr(at, equals - at));
      at = equals + 1;
      const size_t open = inputs.find_first_of("[,", at);
      const auto* type = open == std::string_view::npos || inputs[open] != '['
                             ? std::end(kTypes)
                             : std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& t) {
                                 return t.first == inputs.substr(at, open - at);
                               });
      if (type == std::end(kTypes)) {
        PN_TRY(Value literal, parse_literal(inputs, &at));
        names_.emplace_back(name, std::move(literal));
        continue;
      }
      TensorMeta meta;
      meta.dtype = type->second;
      at = open;
      PN_TRY(meta.shape, integers(inputs, &at, ']'));
      meta.stride = contiguous_strides(meta.shape);
      if (at < inputs.size() && inputs[at] == '{') {
        PN_TRY(std::vector<int64_t> stride, integers(inputs, &at, '}'));
        if (stride.size() != meta.shape.size()) return wrong("strides of another rank");
        meta.stride = std::move(stride);
      }
      meta.storage = graph_.storages++;
      Node& node = graph_.add(NodeOp::kPlaceholder, name, {}, {}, name);
      node.meta = Meta::of(std::move(meta));
      names_.emplace_back(name, Value::node(node.id));
    }
    return {};
  }

  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& [name, v] : names_) out.push_back(name);
    return out;
  }
  const std::vector<std::pair<std::string, Value>>& inputs() const { return names_; }
  const Graph& graph() const { return graph_; }

  Result<Graph> finish(const OpRow& row) {
    Value value;
    if (text_.empty()) {
      std::vector<Value> args;
      for (const auto& [name, v] : names_) args.push_back(v);
      const Spelling& s = row.spellings[0];
      const bool is_function = s.kind == Spelling::Kind::kFunction;
      PN_TRY(value, add(is_function ? NodeOp::kCallFunction : NodeOp::kCallMethod,
                        std::string(is_function ? canonical_target(s.target) : s.target), std::move(args)));
    } else {
      PN_TRY(value, expression(0));
      space();
      if (at_ != text_.size()) return wrong("text behind the expression");
    }
    graph_.add(NodeOp::kOutput, "output", {Value::tuple({value})});
    return std::move(graph_);
  }

 private:
  Diagnostic wrong(std::string_view what) const {
    return internal_error("ops.example",
                          fmt::format("{} at position {} of the example `{}`", what, at_, text_));
  }

  Result<std::vector<int64_t>> integers(std::string_view inputs, size_t* at, char close) const {
    const size_t end = inputs.find(close, *at);
    if (end == std::string_view::npos) return wrong("an unclosed shape");
    std::vector<int64_t> out;
    const std::string_view inner = trim(inputs.substr(*at + 1, end - *at - 1));
    *at = end + 1;
    if (inner.empty()) return out;
    for (const std::string_view part : split(inner, ',')) {
      const auto v = parse_int(trim(part));
      if (!v) return wrong("a shape that is no list of integers");
      out.push_back(*v);
    }
    return out;
  }

  void space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Result<Value> add(NodeOp op, std::string target, std::vector<Value> args,
                    std::vector<std::pair<std::string, Value>> kwargs = {}) {
    Node& node = graph_.add(op, std::move(target), std::move(args), std::move(kwargs));
    PN_CHECK_OK(infer(graph_, node));
    return Value::node(node.id);
  }

  static bool holds_node(const Value& v) {
    bool found = false;
    v.for_each_node([&](NodeId) { found = true; });
    return found;
  }

  Result<Value> expression(int least) {
    space();
    Value left;
    if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '~')) {
      const bool invert = text_[at_] == '~';
      ++at_;
      PN_TRY(const Value operand, expression(kUnary));
      if (holds_node(operand)) {
        PN_TRY(left, add(NodeOp::kCallFunction, invert ? "operator.invert" : "operator.neg", {operand}));
      } else if (operand.kind() == Value::Kind::kFloat) {
        left = Value::real(-operand.as_double());
      } else {
        left = Value::integer(-operand.as_int());
      }
    } else {
      PN_TRY(left, postfix());
    }
    for (;;) {
      space();
      const auto* op = std::find_if(std::begin(kOperators), std::end(kOperators), [&](const Operator& o) {
        return text_.substr(at_, o.text.size()) == o.text;
      });
      if (op == std::end(kOperators) || op->precedence < least) return left;
      at_ += op->text.size();
      // ** binds to the right and tighter than a sign before it.
      PN_TRY(const Value right, expression(op->precedence == 9 ? kUnary : op->precedence + 1));
      if (!holds_node(left) && !holds_node(right)) return wrong("arithmetic of literals");
      PN_TRY(left, add(NodeOp::kCallFunction, std::string(op->target), {left, right}));
    }
  }

  // Items up to `close`; keyword arguments go to `kwargs` if there may be some.
  Status items(char close, std::vector<Value>* out, std::vector<std::pair<std::string, Value>>* kwargs,
               bool* comma) {
    *comma = false;
    while (!take(close)) {
      size_t end = at_;
      while (end < text_.size() && is_name_char(text_[end])) ++end;
      const bool keyword =
          kwargs && end > at_ && end + 1 < text_.size() && text_[end] == '=' && text_[end + 1] != '=';
      if (keyword) {
        const std::string name(text_.substr(at_, end - at_));
        at_ = end + 1;
        PN_TRY(Value v, expression(0));
        kwargs->emplace_back(name, std::move(v));
      } else {
        PN_TRY(Value v, close == ']' && !kwargs && in_subscript_ ? subscript_item() : expression(0));
        out->push_back(std::move(v));
      }
      *comma = take(',');
      space();
      if (!*comma && (at_ >= text_.size() || text_[at_] != close))
        return wrong("no comma and no end of a list");
    }
    return {};
  }

  Result<Value> subscript_item() {
    const bool outer = in_subscript_;
    in_subscript_ = false;
    Value parts[3];
    int n = 0;
    bool colon = false;
    for (;;) {
      space();
      if (at_ < text_.size() && text_[at_] == ':') {
        ++at_;
        ++n;
        colon = true;
        if (n > 2) return wrong("a slice with more than three parts");
      } else if (at_ < text_.size() && text_[at_] != ',' && text_[at_] != ']') {
        PN_TRY(parts[n], expression(0));
      } else {
        break;
      }
    }
    in_subscript_ = outer;
    return colon ? Value::slice(parts[0], parts[1], parts[2]) : parts[0];
  }

  Result<Value> postfix() {
    PN_TRY(Value v, primary());
    for (;;) {
      if (at_ < text_.size() && text_[at_] == '.') {
        ++at_;
        const size_t start = at_;
        while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
        const std::string name(text_.substr(start, at_ - start));
        if (take('(')) {
          std::vector<Value> args = {v};
          PN_TRY(v, call(NodeOp::kCallMethod, name, std::move(args)));
        } else {
          PN_TRY(v, add(NodeOp::kCallFunction, "builtins.getattr", {v, Value::string(name)}));
        }
      } else if (at_ < text_.size() && text_[at_] == '[' && holds_node(v)) {
        ++at_;
        std::vector<Value> index;
        bool comma = false;
        in_subscript_ = true;
        PN_CHECK_OK(items(']', &index, nullptr, &comma));
        in_subscript_ = false;
        Value key = index.size() == 1 && !comma ? index[0] : Value::tuple(std::move(index));
        PN_TRY(v, add(NodeOp::kCallFunction, "operator.getitem", {v, std::move(key)}));
      } else {
        return v;
      }
    }
  }

  Result<Value> call(NodeOp op, std::string target, std::vector<Value> args) {
    std::vector<std::pair<std::string, Value>> kwargs;
    bool comma = false;
    PN_CHECK_OK(items(')', &args, &kwargs, &comma));
    return add(op, std::move(target), std::move(args), std::move(kwargs));
  }

  Result<Value> primary() {
    space();
    if (at_ >= text_.size()) return wrong("no expression");
    const char c = text_[at_];
    if (c == '(' || c == '[') {
      ++at_;
      std::vector<Value> list;
      bool comma = false;
      const bool outer = in_subscript_;
      in_subscript_ = false;
      PN_CHECK_OK(items(c == '(' ? ')' : ']', &list, nullptr, &comma));
      in_subscript_ = outer;
      if (c == '[') return Value::list(std::move(list));
      if (list.size() == 1 && !comma) return list[0];
      return Value::tuple(std::move(list));
    }
    size_t end = at_;
    while (end < text_.size() && (is_name_char(text_[end]) || text_[end] == '.')) ++end;
    const std::string_view dotted = text_.substr(at_, end - at_);
    const std::string_view first = dotted.substr(0, dotted.find('.'));
    const auto named =
        std::find_if(names_.begin(), names_.end(), [&](const auto& n) { return n.first == first; });
    if (named != names_.end()) {
      at_ += first.size();
      return named->second;
    }
    const bool literal_call = dotted == "slice" || dotted == "float" || dotted == "torch.device";
    if (end < text_.size() && text_[end] == '(' && !dotted.empty() && !literal_call) {
      at_ = end + 1;
      return call(NodeOp::kCallFunction, std::string(canonical_target(dotted)), {});
    }
    return parse_literal(text_, &at_);
  }

  std::string_view text_;
  size_t at_ = 0;
  bool in_subscript_ = false;
  Graph graph_;
  std::vector<std::pair<std::string, Value>> names_;
};

Json meta_json(const Graph& graph, const Meta& meta) {
  Json out = Json::object();
  switch (meta.kind) {
    case Meta::Kind::kTensor: {
      out["shape"] = meta.tensor.shape;
      out["dtype"] = name_of(meta.tensor.dtype);
      out["stride"] = meta.tensor.stride ? Json(*meta.tensor.stride) : Json();
      bool alias = false;
      for (const NodeId id : graph.placeholders()) {
        alias = alias || (graph.node(id).meta.is_tensor() &&
                          graph.node(id).meta.tensor.storage == meta.tensor.storage);
      }
      out["alias"] = alias;
      return out;
    }
    case Meta::Kind::kTuple:
      out["items"] = Json::array();
      for (const Meta& item : meta.items) out["items"].push_back(meta_json(graph, item));
      return out;
    case Meta::Kind::kScalar: out["number"] = python_text(meta.scalar); return out;
    default: return Json();
  }
}

Json example_json(const OpRow& row, const Example& example) {
  Json out = Json::object();
  Builder inputs("");
  Json list = Json::array();
  if (inputs.add_inputs(example.inputs).ok()) {
    for (const auto& [name, value] : inputs.inputs()) {
      Json entry = Json::object();
      entry["name"] = name;
      if (value.is_node()) {
        const TensorMeta& t = inputs.graph().node(value.as_node()).meta.tensor;
        entry["shape"] = t.shape;
        entry["dtype"] = name_of(t.dtype);
        entry["stride"] = *t.stride;
      } else {
        entry["literal"] = python_text(value);
      }
      list.push_back(std::move(entry));
    }
  }
  out["inputs"] = std::move(list);
  out["call"] = example_text(row, example);
  const Result<Graph> graph = example_graph(row, example);
  if (!graph) {
    out["refusal"] = graph.error().message;
    return out;
  }
  std::vector<NodeId> calls;
  for (const auto& node : graph->nodes()) {
    if (node->op == NodeOp::kCallFunction || node->op == NodeOp::kCallMethod) calls.push_back(node->id);
  }
  out["value"] = meta_json(*graph, graph->node(calls.back()).meta);
  const Result<Program> program = lower_region(*graph, calls, calls.back(), graph->placeholders());
  if (program) {
    out["program"] = program->to_json();
  } else {
    out["refusal"] = program.error().message;
  }
  return out;
}

}  // namespace

std::vector<std::string> example_inputs(const Example& example) {
  Builder builder("");
  if (!builder.add_inputs(example.inputs).ok()) return {};
  return builder.names();
}

std::string example_text(const OpRow& row, const Example& example) {
  if (!example.call.empty()) return std::string(example.call);
  const Spelling& s = row.spellings[0];
  const std::vector<std::string> names = example_inputs(example);
  if (s.kind == Spelling::Kind::kFunction) return fmt::format("{}({})", s.target, fmt::join(names, ", "));
  return fmt::format("{}.{}({})", names[0], s.target, fmt::join(names.begin() + 1, names.end(), ", "));
}

namespace {

// The inputs with every shape (and strides) replaced by one long axis; empty if the example does not lend itself.
std::string widened(const OpRow& row, const Example& example) {
  if (row.cls != OpClass::kPointwise || example.inputs.find("f16[") == std::string_view::npos) return {};
  std::string out;
  for (size_t at = 0; at < example.inputs.size();) {
    const char c = example.inputs[at];
    if (c != '[' && c != '{') {
      out += c;
      ++at;
      continue;
    }
    if (c == '[') out += "[65536]";
    at = example.inputs.find(c == '[' ? ']' : '}', at) + 1;
  }
  return out;
}

}  // namespace

Json table_to_json(bool wide) {
  Json rows = Json::array();
  for (const OpRow& row : all_rows()) {
    if (wide && row.cls != OpClass::kPointwise) continue;
    Json entry = Json::object();
    entry["name"] = row.name;
    entry["class"] = name_of(row.cls);
    entry["wall"] = row.wall;
    entry["spellings"] = Json::array();
    for (const Spelling& s : row.spellings) {
      Json spelling = Json::object();
      spelling["kind"] = s.kind == Spelling::Kind::kFunction ? "function" : "method";
      spelling["target"] = s.kind == Spelling::Kind::kFunction ? canonical_target(s.target) : s.target;
      spelling["signature"] = s.signature;
      entry["spellings"].push_back(std::move(spelling));
    }
    entry["examples"] = Json::array();
    for (const Example& example : row.examples) {
      if (!wide) {
        entry["examples"].push_back(example_json(row, example));
      } else if (const std::string inputs = widened(row, example); !inputs.empty()) {
        Json one = example_json(row, Example{inputs, example.call});
        // Rows whose operands have fixed relations (glu, prelu) do not widen.
        if (one.contains("program")) entry["examples"].push_back(std::move(one));
      }
    }
    rows.push_back(std::move(entry));
  }
  Json out = Json::object();
  out["rows"] = std::move(rows);
  return out;
}

Result<Graph> example_graph(const OpRow& row, const Example& example) {
  Builder builder(example.call);
  PN_CHECK_OK(builder.add_inputs(example.inputs));
  return builder.finish(row);
}

}  // namespace passnet
