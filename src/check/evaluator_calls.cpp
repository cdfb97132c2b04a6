// Calls: the methods of a graph under construction, the few functions computed here, and what becomes a node.

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/strings.h"
#include "capture/folding.h"
#include "capture/targets.h"
#include "check/evaluator.h"
#include "check/tracer_forms.h"
#include "ops/identities.h"
#include "ops/signature.h"

namespace passnet::check {

namespace {

using pysrc::ExprKind;

constexpr int kMaxCallDepth = 16;
constexpr int64_t kMaxItems = 10000;

}  // namespace

Result<Evaluator::Arguments> Evaluator::arguments_of(const Expr& e, Scope& scope) {
  Arguments out;
  for (const Expr* item : e.items) {
    if (item->kind == ExprKind::kStarred) {
      PN_TRY(const Object object, eval(*item->value, scope));
      PN_TRY(const std::vector<Object> more, items_of(*item, object));
      out.args.insert(out.args.end(), more.begin(), more.end());
      continue;
    }
    PN_TRY(Object object, eval(*item, scope));
    out.args.push_back(std::move(object));
  }
  for (const pysrc::Keyword& keyword : e.keywords) {
    PN_TRY(Object object, eval(*keyword.value, scope));
    if (!keyword.name.empty()) {
      out.kwargs.emplace_back(keyword.name, std::move(object));
      continue;
    }
    const std::optional<Value> v = object.as_value();
    if (!v || v->kind() != Value::Kind::kDict)
      return refuse(*keyword.value, "keywords from something that is no dict");
    for (size_t i = 0; i < v->keys().size(); ++i)
      out.kwargs.emplace_back(v->keys()[i], Object::of(v->items()[i]));
  }
  return out;
}

Result<Value> Evaluator::value_of(const Expr& e, const Object& object) const {
  if (std::optional<Value> v = object.as_value()) return std::move(*v);
  if (object.kind == Object::Kind::kGlobal) return Value::constant(Value::Kind::kConstant, object.text);
  if (object.kind == Object::Kind::kUnknown && !object.text.empty()) return refuse(e, object.text);
  return refuse(e, "a value that a graph cannot hold");
}

Result<Evaluator::ValueArguments> Evaluator::values_of(const Expr& e, const Arguments& arguments) const {
  ValueArguments out;
  for (const Object& object : arguments.args) {
    PN_TRY(Value v, value_of(e, object));
    out.args.push_back(std::move(v));
  }
  for (const auto& [key, object] : arguments.kwargs) {
    PN_TRY(Value v, value_of(e, object));
    out.kwargs.emplace_back(key, std::move(v));
  }
  return out;
}

Result<std::vector<Object>> Evaluator::items_of(const Expr& e, const Object& object) {
  if (object.kind == Object::Kind::kSequence) return object.items;
  if (object.kind == Object::Kind::kValue && object.value.is_sequence()) {
    std::vector<Object> out;
    for (const Value& v : object.value.items()) out.push_back(Object::of(v));
    return out;
  }
  if (object.kind == Object::Kind::kValue && object.value.kind() == Value::Kind::kString) {
    std::vector<Object> out;
    for (const char c : object.value.text()) out.push_back(Object::of(Value::string(std::string(1, c))));
    return out;
  }
  return refuse(e, "the items of something that is no sequence");
}

Result<Object> Evaluator::call(const Expr& e, Scope& scope) {
  const Expr& callee = *e.value;
  if (callee.kind == ExprKind::kAttribute) {
    PN_TRY(const Object object, eval(*callee.value, scope));
    if (object.kind == Object::Kind::kGraph) return graph_method(e, object, callee.text, scope);
    if (object.kind == Object::Kind::kValue) return method(e, object, callee.text, scope);
    if (object.kind == Object::Kind::kGlobal) return global_call(e, object.text + "." + callee.text, scope);
    return refuse(e, fmt::format("a call of {} on something that is not interpreted", callee.text));
  }
  PN_TRY(const Object function, eval(callee, scope));
  if (function.kind == Object::Kind::kGlobal) return global_call(e, function.text, scope);
  if (function.kind != Object::Kind::kFunction)
    return refuse(e, "a call of something that is not interpreted");
  const Stmt& s = *function.function;
  if (!s.decorators.empty() || s.is_async)
    return refuse(e, fmt::format("a call of {}, which is decorated", s.text));
  PN_TRY(const Arguments arguments, arguments_of(e, scope));
  Scope inner;
  size_t position = 0;
  for (const pysrc::Parameter& p : s.parameters) {
    const Object* given =
        p.kind == pysrc::Parameter::Kind::kNormal ? arguments.find(position, p.name) : nullptr;
    if (given == nullptr)
      return refuse(e, fmt::format("a call of {} whose parameter {} is not given", s.text, p.name));
    inner[p.name] = *given;
    ++position;
  }
  if (depth_ >= kMaxCallDepth) return refuse(e, "calls are nested too deep");
  ++depth_;
  Result<std::optional<Object>> done = block(s.body, inner, tracing_ != nullptr);
  --depth_;
  if (!done.ok()) return std::move(done).error();
  return done->has_value() ? **done : Object::of(Value::none());
}

Result<Object> Evaluator::method(const Expr& e, const Object& object, const std::string& name, Scope& scope) {
  if (!object.is_node()) return refuse(e, fmt::format("the method {} of a literal", name));
  if (building_arguments_) {
    return user_error("args.impure", fmt::format("replacement_args calls the method {}", name))
        .at(module_.file(), e.span)
        .with_hint("only reorder or drop parameters and append literals; compute in the kernel");
  }
  if (tracing_ == nullptr) return refuse(e, fmt::format("the method {} of a node", name));
  PN_TRY(const Arguments arguments, arguments_of(e, scope));
  PN_TRY(ValueArguments values, values_of(e, arguments));
  values.args.insert(values.args.begin(), object.value);
  return emit(e, NodeOp::kCallMethod, name, std::move(values));
}

Result<Object> Evaluator::graph_method(const Expr& e, const Object& object, const std::string& name,
                                       Scope& scope) {
  PN_TRY(const Arguments arguments, arguments_of(e, scope));
  Graph& graph = object.build->graph;
  const auto text_of = [&](const Object* o) -> std::optional<std::string> {
    if (o == nullptr || o->kind != Object::Kind::kValue || o->value.kind() != Value::Kind::kString)
      return std::nullopt;
    return o->value.text();
  };
  if (object.build->finished) return refuse(e, "the graph is changed after its output");
  if (name == "placeholder" || name == "get_attr") {
    const std::optional<std::string> text =
        text_of(arguments.find(0, name == "placeholder" ? "name" : "qualified_name"));
    if (!text) return refuse(e, fmt::format("{} without a literal name", name));
    Node& node = graph.add(name == "placeholder" ? NodeOp::kPlaceholder : NodeOp::kGetAttr, *text);
    node.span = e.span;
    return Object::of(Value::node(node.id));
  }
  if (name == "output") {
    const Object* result = arguments.find(0, "result");
    if (result == nullptr) return refuse(e, "output without a value");
    PN_TRY(Value v, value_of(e, *result));
    graph.add(NodeOp::kOutput, "output", {std::move(v)}, {}, "output").span = e.span;
    object.build->finished = true;
    return Object::of(Value::none());
  }
  if (name == "lint") return Object::of(Value::none());
  if (name != "call_function" && name != "call_method") return refuse(e, fmt::format("{} of a graph", name));
  const bool function = name == "call_function";
  const Object* callee = arguments.find(0, function ? "the_function" : "method_name");
  std::string target;
  if (function) {
    if (callee == nullptr || callee->kind != Object::Kind::kGlobal) {
      return refuse(e, "call_function of something that is not a function by its name");
    }
    // A name without a module is a builtin.
    const bool builtin = callee->text.find('.') == std::string::npos;
    target = std::string(canonical_target(builtin ? "builtins." + callee->text : callee->text));
  } else {
    const std::optional<std::string> text = text_of(callee);
    if (!text) return refuse(e, "call_method without a literal name");
    target = *text;
  }
  std::vector<Value> args;
  std::vector<std::pair<std::string, Value>> kwargs;
  if (const Object* given = arguments.find(1, "args")) {
    PN_TRY(Value v, value_of(e, *given));
    if (!v.is_sequence()) return refuse(e, "args that are no tuple");
    args = std::move(v.items());
  }
  if (const Object* given = arguments.find(2, "kwargs")) {
    PN_TRY(Value v, value_of(e, *given));
    if (v.kind() != Value::Kind::kDict && !v.is_none()) return refuse(e, "kwargs that are no dict");
    for (size_t i = 0; i < v.keys().size(); ++i) kwargs.emplace_back(v.keys()[i], v.items()[i]);
  }
  Node& node = graph.add(function ? NodeOp::kCallFunction : NodeOp::kCallMethod, std::move(target),
                         std::move(args), std::move(kwargs));
  node.span = e.span;
  return Object::of(Value::node(node.id));
}

Object Evaluator::emit(const Expr& e, NodeOp op, std::string target, ValueArguments arguments) {
  Node& node =
      tracing_->graph.add(op, std::move(target), std::move(arguments.args), std::move(arguments.kwargs));
  node.span = e.span;
  return Object::of(Value::node(node.id));
}

// What the harness's tracer does to every call of a function with a visible signature: all arguments by
// position, defaults filled in. torch's Python functions hand every argument on by keyword first, so that a
// call that does not bind positionally is not what the author wrote either: tracer_forms.h has what becomes of those.
Status Evaluator::normalise(const Expr& e, std::string& target, ValueArguments& arguments) const {
  if (traces_elsewhere(target)) return refuse(e, fmt::format("{} makes other calls", target));
  if (const KeptForm* form = kept_form(target)) {
    PN_TRY(const bool flagged, keep_form(e, *form, arguments));
    if (!flagged) return {};
    if (form->flagged.empty()) return refuse(e, fmt::format("{} with {}", target, form->flag));
    target = std::string(form->flagged);
  } else if (is_bool_dispatch(target)) {
    return refuse(e, fmt::format("{} chooses its function by a flag", target));
  }
  const PySignature* parameters = signature_of(target);
  if (parameters == nullptr) return {};
  const bool keeps = std::any_of(parameters->begin(), parameters->end(), [](const PyParameter& p) {
    return p.kind == PyParameter::Kind::kKeywordOnly || p.kind == PyParameter::Kind::kVarKeyword;
  });
  if (keeps) return refuse(e, fmt::format("{} has parameters by keyword only", target));
  std::vector<Value> args;
  size_t given = 0, used = 0;
  for (const PyParameter& p : *parameters) {
    if (p.kind == PyParameter::Kind::kVarPositional) {
      for (; given < arguments.args.size(); ++given) args.push_back(arguments.args[given]);
      continue;
    }
    const auto keyword = std::find_if(arguments.kwargs.begin(), arguments.kwargs.end(),
                                      [&](const auto& entry) { return entry.first == p.name; });
    if (given < arguments.args.size()) {
      args.push_back(arguments.args[given++]);
    } else if (keyword != arguments.kwargs.end() && p.kind != PyParameter::Kind::kPositionalOnly) {
      args.push_back(keyword->second);
      ++used;
    } else {
      size_t at = 0;
      Result<Value> value = p.default_text
                                ? parse_literal(*p.default_text, &at)
                                : Result<Value>(refuse(e, fmt::format("{} needs {}", target, p.name)));
      if (!value.ok()) return refuse(e, fmt::format("the call of {} does not give {}", target, p.name));
      args.push_back(std::move(value).value());
    }
  }
  if (used != arguments.kwargs.size() || given != arguments.args.size()) {
    return refuse(e, fmt::format("the call does not fit the signature of {}", target));
  }
  arguments.args = std::move(args);
  arguments.kwargs.clear();
  return {};
}

// The form of tracer_forms.h; true, and the arguments as they were, if the flag makes it a call of the other function.
Result<bool> Evaluator::keep_form(const Expr& e, const KeptForm& form, ValueArguments& arguments) const {
  const auto names_of = [](std::string_view text) {
    std::vector<std::string> out;
    for (const std::string_view part : split(text, ',')) {
      if (!trim(part).empty()) out.emplace_back(trim(part));
    }
    return out;
  };
  const std::vector<std::string> positional = names_of(form.positional), rest = names_of(form.keywords);
  std::vector<Value> args;
  std::vector<std::pair<std::string, Value>> kwargs;
  size_t given = 0, used = 0;
  const auto take = [&](const std::string& name, std::string_view default_text) -> Result<Value> {
    if (given < arguments.args.size()) return arguments.args[given++];
    for (const auto& [key, v] : arguments.kwargs) {
      if (key != name) continue;
      ++used;
      return v;
    }
    size_t at = 0;
    if (default_text.empty())
      return refuse(e, fmt::format("the call of {} does not give {}", form.target, name));
    return parse_literal(default_text, &at);
  };
  for (const std::string& name : positional) {
    if (name.starts_with("*")) {
      for (; given < arguments.args.size(); ++given) args.push_back(arguments.args[given]);
      continue;
    }
    PN_TRY(Value v, take(name, {}));
    args.push_back(std::move(v));
  }
  for (const std::string& entry : rest) {
    const size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    PN_TRY(Value v, take(name, std::string_view(entry).substr(equals + 1)));
    if (name == form.flag) {
      const std::optional<bool> set = truth(v);
      if (!set)
        return refuse(e, fmt::format("{} chooses its function by a flag that is not known", form.target));
      if (*set) return true;
    }
    kwargs.emplace_back(name, std::move(v));
  }
  if (used != arguments.kwargs.size() || given != arguments.args.size())
    return refuse(e, fmt::format("the call does not fit the signature of {}", form.target));
  arguments.args = std::move(args);
  arguments.kwargs = std::move(kwargs);
  return false;
}

Result<Object> Evaluator::global_call(const Expr& e, const std::string& target, Scope& scope) {
  PN_TRY(const Arguments arguments, arguments_of(e, scope));
  if (target == "torch.fx.Graph" || target == "torch.fx.graph.Graph") {
    Object object;
    object.kind = Object::Kind::kGraph;
    object.build = std::make_shared<GraphBuild>();
    object.build->graph.file = module_.file();
    return object;
  }
  if (target == "torch.fx.GraphModule" || target == "torch.fx.graph_module.GraphModule") {
    const Object* graph = arguments.find(1, "graph");
    if (graph == nullptr || graph->kind != Object::Kind::kGraph)
      return refuse(e, "a GraphModule of no graph built here");
    Object object;
    object.kind = Object::Kind::kModule;
    object.build = graph->build;
    object.signature = std::make_shared<std::optional<std::vector<std::string>>>();
    return object;
  }
  if (target == "inspect.Parameter") {
    const Object* name = arguments.find(0, "name");
    if (name == nullptr || name->kind != Object::Kind::kValue || name->value.kind() != Value::Kind::kString) {
      return refuse(e, "a Parameter without a literal name");
    }
    Object object;
    object.kind = Object::Kind::kParameter;
    object.text = name->value.text();
    return object;
  }
  if (target == "inspect.Signature") {
    Object object;
    object.kind = Object::Kind::kSignature;
    if (const Object* given = arguments.find(0, "parameters")) {
      PN_TRY(object.items, items_of(e, *given));
      for (const Object& item : object.items) {
        if (item.kind != Object::Kind::kParameter)
          return refuse(e, "a Signature of something else than Parameters");
      }
    }
    return object;
  }
  if (target == "torch.nn.Module") return Object::unknown("an empty module");
  if (target == "tuple" || target == "list") {
    std::vector<Object> items;
    if (!arguments.args.empty()) {
      PN_TRY(items, items_of(e, arguments.args[0]));
    }
    return Object::sequence(std::move(items), target == "list");
  }
  PN_TRY(ValueArguments values, values_of(e, arguments));
  bool traced = false;
  for (const Value& v : values.args) traced = traced || holds_node(v);
  for (const auto& [key, v] : values.kwargs) traced = traced || holds_node(v);
  const std::vector<Value>& a = values.args;
  if (target == "slice" && !a.empty() && a.size() <= 3 && values.kwargs.empty()) {
    if (a.size() == 1) return Object::of(Value::slice(Value::none(), a[0], Value::none()));
    return Object::of(Value::slice(a[0], a[1], a.size() == 3 ? a[2] : Value::none()));
  }
  if (target == "range" && !a.empty() && a.size() <= 2 && values.kwargs.empty()) {
    const std::optional<int64_t> first = a.size() == 2 ? index_of(a[0]) : 0, last = index_of(a.back());
    if (!first || !last || *last - *first > kMaxItems) return refuse(e, "a range that is not known");
    std::vector<Value> items;
    for (int64_t i = *first; i < *last; ++i) items.push_back(Value::integer(i));
    return Object::of(Value::list(std::move(items)));
  }
  if (target == "torch.device") {
    // device('cuda', 0), device(type='cuda', index=0)
    const Object* type = arguments.find(0, "type");
    const Object* index = arguments.find(1, "index");
    if (type != nullptr && type->kind == Object::Kind::kValue && type->value.kind() == Value::Kind::kString) {
      std::string text = type->value.text();
      if (index != nullptr && index->kind == Object::Kind::kValue &&
          index->value.kind() == Value::Kind::kInt) {
        text += fmt::format(":{}", index->value.as_int());
      }
      return Object::of(Value::device(std::move(text)));
    }
    return refuse(e, "a device that is not known");
  }
  if (target == "float" && a.size() == 1) {
    if (a[0].is_number()) return Object::of(Value::real(a[0].as_double()));
    if (a[0].kind() == Value::Kind::kString) {
      const std::string& text = a[0].text();
      if (text == "inf" || text == "-inf")
        return Object::of(Value::real(text[0] == '-' ? -HUGE_VAL : HUGE_VAL));
    }
    return refuse(e, "a float that is not known");
  }
  if (!traced) {
    return refuse(
        e, fmt::format("a call of {} without a value of the graph runs at once instead of becoming a node",
                       target));
  }
  if (building_arguments_) {
    return user_error("args.impure", fmt::format("replacement_args calls {}", target))
        .at(module_.file(), e.span)
        .with_hint("only reorder or drop parameters and append literals; compute in the kernel");
  }
  if (tracing_ == nullptr) return refuse(e, fmt::format("a call of {} on a node", target));
  std::string canonical(canonical_target(target));
  // Two functions of Python that only call a method of their argument.
  if ((canonical == "torch.nn.functional.sigmoid" || canonical == "torch.nn.functional.tanh") &&
      a.size() + values.kwargs.size() == 1) {
    if (a.empty()) values = {{values.kwargs.front().second}, {}};
    return emit(e, NodeOp::kCallMethod, canonical.substr(canonical.rfind('.') + 1), std::move(values));
  }
  PN_CHECK_OK(normalise(e, canonical, values));
  return emit(e, NodeOp::kCallFunction, std::move(canonical), std::move(values));
}

}  // namespace passnet::check
