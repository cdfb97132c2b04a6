#include "check/evaluator.h"

#include <algorithm>

#include <fmt/format.h>

#include "capture/folding.h"
#include "capture/targets.h"

namespace passnet::check {

namespace {

using pysrc::ExprKind;
using pysrc::StmtKind;

constexpr int kMaxCallDepth = 16;

}  // namespace

Object Object::unknown(std::string what) {
  Object out;
  out.text = std::move(what);
  return out;
}

Object Object::of(Value v) {
  Object out;
  out.kind = Kind::kValue;
  out.value = std::move(v);
  return out;
}

Object Object::global(std::string dotted) {
  Object out;
  out.kind = Kind::kGlobal;
  out.text = std::move(dotted);
  return out;
}

Object Object::sequence(std::vector<Object> items, bool is_list) {
  Object out;
  out.kind = Kind::kSequence;
  out.items = std::move(items);
  out.is_list = is_list;
  if (std::optional<Value> v = out.as_value()) return Object::of(std::move(*v));
  return out;
}

std::optional<Value> Object::as_value() const {
  if (kind == Kind::kValue) return value;
  if (kind != Kind::kSequence) return std::nullopt;
  std::vector<Value> values;
  for (const Object& item : items) {
    std::optional<Value> v = item.as_value();
    if (!v) return std::nullopt;
    values.push_back(std::move(*v));
  }
  return is_list ? Value::list(std::move(values)) : Value::tuple(std::move(values));
}

const Object* Evaluator::Arguments::find(size_t position, std::string_view name) const {
  if (position < args.size()) return &args[position];
  for (const auto& [key, object] : kwargs) {
    if (key == name) return &object;
  }
  return nullptr;
}

Evaluator::Evaluator(const pysrc::Module& module) : module_(module) {}

Diagnostic Evaluator::refuse(const Expr& e, const std::string& what) const {
  return user_warning("check.not_interpreted", what)
      .at(module_.file(), e.span)
      .with_hint("write the pattern as straight-line code; what is not interpreted is not proven");
}

Diagnostic Evaluator::refuse(const Stmt& s, const std::string& what) const {
  return user_warning("check.not_interpreted", what)
      .at(module_.file(), s.span)
      .with_hint("write the pattern as straight-line code; what is not interpreted is not proven");
}

const Object* Evaluator::find(std::string_view name) const {
  const auto at = globals_.find(name);
  return at == globals_.end() ? nullptr : &at->second;
}

void Evaluator::run_module() {
  for (const Stmt* statement : module_.body()) {
    const Result<std::optional<Object>> done = block({statement}, globals_, false);
    if (done.ok() || (statement->kind != StmtKind::kAssign && statement->kind != StmtKind::kAugAssign))
      continue;
    for (const Expr* target : statement->exprs) {
      if (target->kind != ExprKind::kName) continue;
      globals_[target->text] = Object::unknown(done.error().message);
    }
  }
}

void Evaluator::import(const Stmt& s, Scope& scope) const {
  if (s.kind == StmtKind::kImport) {
    for (const pysrc::ImportedName& name : s.names) {
      if (!name.alias.empty()) {
        scope[name.alias] = Object::global(name.name);
      } else {
        const std::string first = name.name.substr(0, name.name.find('.'));
        scope[first] = Object::global(first);
      }
    }
    return;
  }
  for (const pysrc::ImportedName& name : s.names) {
    if (name.name == "*") continue;
    const std::string dotted = s.text + "." + name.name;
    const std::string& local = name.alias.empty() ? name.name : name.alias;
    std::optional<Value> constant = constant_global(dotted);
    scope[local] = constant ? Object::of(std::move(*constant)) : Object::global(dotted);
  }
}

Result<Object> Evaluator::call(const Stmt& function) {
  if (!function.parameters.empty()) return refuse(function, function.text + " takes parameters");
  if (depth_ >= kMaxCallDepth) return refuse(function, "calls are nested too deep");
  ++depth_;
  Scope scope;
  const Result<std::optional<Object>> done = block(function.body, scope, false);
  --depth_;
  if (!done.ok()) return done.error();
  return done->has_value() ? **done : Object::of(Value::none());
}

Result<std::shared_ptr<GraphBuild>> Evaluator::trace(const Stmt& function) {
  auto build = std::make_shared<GraphBuild>();
  build->graph.file = module_.file();
  Scope scope;
  for (const pysrc::Parameter& p : function.parameters) {
    if (p.kind != pysrc::Parameter::Kind::kNormal || p.keyword_only || p.default_value != nullptr) {
      return refuse(function, "pattern has a parameter that is not plain: " + p.name);
    }
    Node& node = build->graph.add(NodeOp::kPlaceholder, p.name);
    node.span = p.span;
    scope[p.name] = Object::of(Value::node(node.id));
  }
  tracing_ = build;
  const Result<std::optional<Object>> done = block(function.body, scope, true);
  tracing_ = nullptr;
  if (!done.ok()) return done.error();
  const Object returned = done->has_value() ? **done : Object::of(Value::none());
  std::optional<Value> v = returned.as_value();
  if (!v) return refuse(function, "pattern returns something that is no value of the graph");
  build->graph.add(NodeOp::kOutput, "output", {std::move(*v)}, {}, "output").span = function.span;
  build->finished = true;
  return build;
}

Result<Object> Evaluator::arguments(const Stmt& function) {
  Scope scope;
  NodeId number = 0;
  for (const pysrc::Parameter& p : function.parameters) scope[p.name] = Object::of(Value::node(number++));
  building_arguments_ = true;
  const Result<std::optional<Object>> done = block(function.body, scope, false);
  building_arguments_ = false;
  if (!done.ok()) return done.error();
  return done->has_value() ? **done : Object::of(Value::none());
}

Result<std::optional<Object>> Evaluator::block(const std::vector<const Stmt*>& body, Scope& scope,
                                               bool tracing) {
  for (const Stmt* s : body) {
    switch (s->kind) {
      case StmtKind::kImport:
      case StmtKind::kImportFrom: import(*s, scope); break;
      case StmtKind::kPass:
      case StmtKind::kAnnotation:
      case StmtKind::kClass: break;
      case StmtKind::kFunction: {
        Object object;
        object.kind = Object::Kind::kFunction;
        object.function = s;
        object.text = s->text;
        scope[s->text] = std::move(object);
        break;
      }
      case StmtKind::kAssign: {
        PN_TRY(const Object value, eval(*s->value, scope));
        for (const Expr* target : s->exprs) PN_CHECK_OK(assign(*target, value, scope));
        break;
      }
      case StmtKind::kAugAssign: {
        // A traced value has no in-place operators: Python falls back to the plain one.
        PN_TRY(const Object left, eval(*s->exprs[0], scope));
        PN_TRY(const Object right, eval(*s->value, scope));
        PN_TRY(const Object value, operation(*s->value, s->op, left, right));
        PN_CHECK_OK(assign(*s->exprs[0], value, scope));
        break;
      }
      case StmtKind::kExpr: {
        if (s->value->kind == ExprKind::kString) break;
        const Result<Object> value = eval(*s->value, scope);
        if (!value.ok()) return value.error();
        break;
      }
      case StmtKind::kReturn: {
        if (s->value == nullptr) return std::optional<Object>(Object::of(Value::none()));
        PN_TRY(Object value, eval(*s->value, scope));
        return std::optional<Object>(std::move(value));
      }
      case StmtKind::kIf: {
        PN_TRY(const Object condition, eval(*s->value, scope));
        const std::optional<bool> taken =
            condition.kind == Object::Kind::kValue ? truth(condition.value) : std::nullopt;
        if (!taken) return refuse(*s, "a condition that is not known before the graph runs");
        PN_TRY(std::optional<Object> done, block(*taken ? s->body : s->orelse, scope, tracing));
        if (done) return done;
        break;
      }
      case StmtKind::kFor: {
        PN_TRY(const Object sequence, eval(*s->value, scope));
        PN_TRY(const std::vector<Object> items, items_of(*s->value, sequence));
        for (const Object& item : items) {
          PN_CHECK_OK(assign(*s->exprs[0], item, scope));
          PN_TRY(std::optional<Object> done, block(s->body, scope, tracing));
          if (done) return done;
        }
        break;
      }
      default: return refuse(*s, fmt::format("{} is not interpreted", pysrc::describe(*s)));
    }
  }
  return std::optional<Object>();
}

Status Evaluator::assign(const Expr& target, const Object& value, Scope& scope) {
  switch (target.kind) {
    case ExprKind::kName: scope[target.text] = value; return {};
    case ExprKind::kTuple:
    case ExprKind::kList: {
      std::vector<Object> items;
      if (value.is_node() && tracing_ != nullptr) {
        // Unpacking a traced value reads its items one by one.
        for (size_t i = 0; i < target.items.size(); ++i) {
          const Value index = Value::integer(static_cast<int64_t>(i));
          items.push_back(
              emit(target, NodeOp::kCallFunction, "operator.getitem", {{value.value, index}, {}}));
        }
      } else {
        PN_TRY(items, items_of(target, value));
      }
      if (items.size() != target.items.size()) {
        return refuse(target, fmt::format("{} values for {} names", items.size(), target.items.size()));
      }
      for (size_t i = 0; i < items.size(); ++i) PN_CHECK_OK(assign(*target.items[i], items[i], scope));
      return {};
    }
    case ExprKind::kAttribute: {
      PN_TRY(const Object object, eval(*target.value, scope));
      if (object.kind == Object::Kind::kModule && target.text == "__signature__") {
        std::vector<std::string> names;
        if (value.kind != Object::Kind::kSignature)
          return refuse(target, "__signature__ is no inspect.Signature");
        for (const Object& item : value.items) names.push_back(item.text);
        *object.signature = std::move(names);
        return {};
      }
      return refuse(target, fmt::format("assignment to the attribute {}", target.text));
    }
    default: return refuse(target, fmt::format("assignment to a {}", pysrc::describe(target)));
  }
}

Result<Object> Evaluator::eval(const Expr& e, Scope& scope) {
  switch (e.kind) {
    case ExprKind::kName: return name(e, scope);
    case ExprKind::kInt:
      if (e.overflow) return refuse(e, "an integer beyond 64 bits");
      return Object::of(Value::integer(e.integer));
    case ExprKind::kFloat: return Object::of(Value::real(e.real));
    case ExprKind::kImaginary: return Object::of(Value::complex(0, e.real));
    case ExprKind::kString: return Object::of(Value::string(e.text));
    case ExprKind::kTrue: return Object::of(Value::boolean(true));
    case ExprKind::kFalse: return Object::of(Value::boolean(false));
    case ExprKind::kNone: return Object::of(Value::none());
    case ExprKind::kEllipsis: return Object::of(Value::ellipsis());
    case ExprKind::kAttribute: return attribute(e, scope);
    case ExprKind::kCall: return call(e, scope);
    case ExprKind::kSubscript: return subscript(e, scope);
    case ExprKind::kSlice: {
      std::vector<Value> parts;
      for (const Expr* part : e.items) {
        if (part == nullptr) {
          parts.push_back(Value::none());
          continue;
        }
        PN_TRY(const Object object, eval(*part, scope));
        PN_TRY(Value v, value_of(*part, object));
        parts.push_back(std::move(v));
      }
      parts.resize(3);
      return Object::of(Value::slice(std::move(parts[0]), std::move(parts[1]), std::move(parts[2])));
    }
    case ExprKind::kTuple:
    case ExprKind::kList: return sequence(e, scope);
    case ExprKind::kDict: {
      std::vector<std::pair<std::string, Value>> entries;
      for (size_t i = 0; i + 1 < e.items.size(); i += 2) {
        if (e.items[i] == nullptr) return refuse(e, "a dict that unpacks another");
        PN_TRY(const Object key, eval(*e.items[i], scope));
        if (key.kind != Object::Kind::kValue || key.value.kind() != Value::Kind::kString) {
          return refuse(*e.items[i], "a dict key that is no string");
        }
        PN_TRY(const Object item, eval(*e.items[i + 1], scope));
        PN_TRY(Value v, value_of(*e.items[i + 1], item));
        entries.emplace_back(key.value.text(), std::move(v));
      }
      return Object::of(Value::dict(std::move(entries)));
    }
    case ExprKind::kUnary: return unary(e, scope);
    case ExprKind::kBinary: {
      PN_TRY(const Object a, eval(*e.items[0], scope));
      PN_TRY(const Object b, eval(*e.items[1], scope));
      return operation(e, e.op(), a, b);
    }
    case ExprKind::kCompare: {
      if (e.ops.size() != 1) return refuse(e, "a chain of comparisons");
      PN_TRY(const Object a, eval(*e.items[0], scope));
      PN_TRY(const Object b, eval(*e.items[1], scope));
      return operation(e, e.op(), a, b);
    }
    case ExprKind::kUnsupported:
      if (e.text == "generator expression" || e.text == "list comprehension") return comprehension(e, scope);
      return refuse(e, fmt::format("{} is not interpreted", e.text));
    default: return refuse(e, fmt::format("{} is not interpreted", pysrc::describe(e)));
  }
}

Result<Object> Evaluator::name(const Expr& e, Scope& scope) {
  if (const auto at = scope.find(e.text); at != scope.end()) return at->second;
  if (const auto at = globals_.find(e.text); at != globals_.end()) return at->second;
  static constexpr std::string_view kBuiltins[] = {"slice", "tuple", "list", "float",   "int",     "dict",
                                                   "range", "print", "bool", "complex", "getattr", "len"};
  if (std::find(std::begin(kBuiltins), std::end(kBuiltins), e.text) != std::end(kBuiltins)) {
    return Object::global(e.text);
  }
  return refuse(e, fmt::format("the name {} is not known here", e.text));
}

Result<Object> Evaluator::attribute(const Expr& e, Scope& scope) {
  PN_TRY(const Object object, eval(*e.value, scope));
  if (object.kind == Object::Kind::kGlobal) {
    const std::string dotted = object.text + "." + e.text;
    if (std::optional<Value> constant = constant_global(dotted)) return Object::of(std::move(*constant));
    return Object::global(dotted);
  }
  if (object.is_node()) {
    if (building_arguments_) {
      return user_error("args.impure", fmt::format("replacement_args reads the attribute {}", e.text))
          .at(module_.file(), e.span)
          .with_hint("only reorder or drop parameters and append literals; read shapes in the wrapper");
    }
    if (tracing_ != nullptr) {
      return emit(e, NodeOp::kCallFunction, "builtins.getattr", {{object.value, Value::string(e.text)}, {}});
    }
  }
  if (object.kind == Object::Kind::kModule && e.text == "graph") {
    Object graph;
    graph.kind = Object::Kind::kGraph;
    graph.build = object.build;
    return graph;
  }
  return refuse(e, fmt::format("the attribute {} is not interpreted", e.text));
}

Result<Object> Evaluator::sequence(const Expr& e, Scope& scope) {
  std::vector<Object> items;
  for (const Expr* item : e.items) {
    if (item->kind == ExprKind::kStarred) {
      PN_TRY(const Object object, eval(*item->value, scope));
      PN_TRY(const std::vector<Object> more, items_of(*item, object));
      items.insert(items.end(), more.begin(), more.end());
      continue;
    }
    PN_TRY(Object object, eval(*item, scope));
    items.push_back(std::move(object));
  }
  return Object::sequence(std::move(items), e.kind == ExprKind::kList);
}

Result<Object> Evaluator::unary(const Expr& e, Scope& scope) {
  PN_TRY(const Object a, eval(*e.value, scope));
  PN_TRY(const Value v, value_of(e, a));
  if (!holds_node(v)) {
    Folded folded = fold_unary(e.op(), v);
    if (!folded.value) return refuse(e, folded.problem);
    return Object::of(std::move(*folded.value));
  }
  const std::string target = e.op() == "-"   ? "operator.neg"
                             : e.op() == "+" ? "operator.pos"
                             : e.op() == "~" ? "operator.invert"
                                             : "";
  if (target.empty()) return refuse(e, "the truth of a tensor decides what happens");
  if (building_arguments_ || tracing_ == nullptr) return operation(e, e.op(), a, a);
  return emit(e, NodeOp::kCallFunction, target, {{v}, {}});
}

Result<Object> Evaluator::operation(const Expr& e, std::string_view op, const Object& a, const Object& b) {
  PN_TRY(const Value x, value_of(e, a));
  PN_TRY(const Value y, value_of(e, b));
  if (!holds_node(x) && !holds_node(y)) {
    const bool compares = op == "<" || op == ">" || op == "<=" || op == ">=" || op == "==" || op == "!=";
    Folded folded = compares ? fold_compare(op, x, y) : fold_binary(op, x, y);
    if (!folded.value) return refuse(e, folded.problem);
    return Object::of(std::move(*folded.value));
  }
  if (building_arguments_) {
    return user_error("args.impure", fmt::format("replacement_args computes with its parameters ({})", op))
        .at(module_.file(), e.span)
        .with_hint("only reorder or drop parameters and append literals; compute in the kernel");
  }
  const std::string_view target = binary_operator_target(op);
  if (tracing_ == nullptr || target.empty()) return refuse(e, fmt::format("the operator {} on a node", op));
  return emit(e, NodeOp::kCallFunction, std::string(target), {{x, y}, {}});
}

Result<Object> Evaluator::subscript(const Expr& e, Scope& scope) {
  PN_TRY(const Object object, eval(*e.value, scope));
  PN_TRY(const Object index, eval(*e.items[0], scope));
  PN_TRY(const Value i, value_of(*e.items[0], index));
  if (object.kind == Object::Kind::kSequence) {
    const std::optional<int64_t> at = index_of(i);
    const int64_t size = static_cast<int64_t>(object.items.size());
    if (!at || *at < -size || *at >= size) return refuse(e, "a subscript that is no index of the sequence");
    return object.items[static_cast<size_t>(*at < 0 ? *at + size : *at)];
  }
  PN_TRY(const Value container, value_of(e, object));
  if (container.is_node()) {
    if (building_arguments_) {
      return user_error("args.impure", "replacement_args takes a part of a parameter")
          .at(module_.file(), e.span)
          .with_hint("pass the whole value; take the part in the wrapper");
    }
    if (tracing_ == nullptr) return refuse(e, "a subscript of a node");
    return emit(e, NodeOp::kCallFunction, "operator.getitem", {{container, i}, {}});
  }
  Folded folded = fold_subscript(container, i);
  if (!folded.value) return refuse(e, folded.problem);
  return Object::of(std::move(*folded.value));
}

}  // namespace passnet::check
