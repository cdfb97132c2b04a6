#include "capture/interpreter.h"

#include <algorithm>

#include <fmt/format.h>

#include "capture/targets.h"
#include "pysrc/parse.h"

namespace passnet {

namespace {

using pysrc::ExprKind;
using pysrc::StmtKind;

// Loops are unrolled; a model that runs longer than this is none that was extracted from a graph.
constexpr int64_t kMaxSteps = int64_t{1} << 22;

constexpr std::string_view kBuiltins[] = {
    "slice", "int", "float", "bool",    "len", "tuple", "list",  "range",   "max",        "min",
    "abs",   "sum", "round", "getattr", "str", "dict",  "print", "complex", "isinstance", "pow"};

}  // namespace

const Value* Interpreter::Arguments::keyword(std::string_view name) const {
  for (const auto& [key, value] : kwargs) {
    if (key == name) return &value;
  }
  return nullptr;
}

Interpreter::Interpreter(const pysrc::Module& module, const std::vector<InputMeta>* inputs,
                         const CaptureOptions& options)
    : module_(module), inputs_(inputs), options_(options) {
  draft_.file = module.file();
}

Diagnostic Interpreter::error(std::string_view code, const std::string& message, const Span& span) const {
  return user_error(code, message).at(module_.file(), span);
}

Diagnostic Interpreter::unsupported(std::string_view construct, const Span& span) const {
  return error("capture.unsupported", fmt::format("a {} is not interpreted here", construct), span)
      .with_hint("Write forward as plain assignments, calls and one return, as extracted graphs are.")
      .with("construct", construct);
}

Diagnostic Interpreter::graph_break(std::string_view construct, const Span& span) const {
  return error("capture.graph_break",
               fmt::format("{} needs a tensor's value: torch.compile breaks the graph here", construct), span)
      .with_hint("Capture this variant with `--engine dynamo`, which runs the model.")
      .with("construct", construct);
}

Result<Captured> Interpreter::run() {
  for (const std::string_view name : kBuiltins) {
    globals_.emplace(name, Value::constant(Value::Kind::kConstant, "builtins." + std::string(name)));
  }
  globals_.emplace("Ellipsis", Value::ellipsis());
  PN_CHECK_OK(bind_globals());
  const Stmt* model = module_.find_class(options_.class_name);
  if (model == nullptr) {
    return error("capture.no_model", fmt::format("there is no class {}", options_.class_name), {})
        .with_hint(fmt::format("Define `class {}(torch.nn.Module)` with a method {}.", options_.class_name,
                               options_.method));
  }
  const Stmt* forward = pysrc::Module::find(model->body, StmtKind::kFunction, options_.method);
  if (forward == nullptr) {
    return error("capture.no_forward",
                 fmt::format("class {} has no method {}", options_.class_name, options_.method), model->span)
        .with_hint(fmt::format("Define `def {}(self, ...)` in it.", options_.method));
  }
  if (forward->is_async || !forward->decorators.empty()) {
    return unsupported(forward->is_async ? "async method" : "decorated method", forward->span);
  }
  PN_CHECK_OK(bind_parameters(*forward));
  body_ = &forward->body;
  const Result<Flow> flow = block(forward->body);
  if (!flow.ok() && compiled_) return flow.error();
  if (flow.ok() && *flow == Flow::kNext) result_ = Value::none();
  return finish();
}

Status Interpreter::bind_globals() {
  for (const Stmt* s : module_.body()) {
    switch (s->kind) {
      case StmtKind::kImport:
      case StmtKind::kImportFrom: PN_CHECK_OK(import(*s)); break;
      case StmtKind::kAssign: {
        // Globals beyond literals matter only if forward reads them; it is told then.
        const Result<Value> value = eval(*s->value);
        for (const Expr* target : s->exprs) {
          if (value.ok() && target->kind == ExprKind::kName) globals_[target->text] = *value;
        }
        break;
      }
      default: break;
    }
  }
  return ok_status();
}

Result<Value> Interpreter::import(const Stmt& s) {
  const auto bind = [&](const std::string& name, Value value) {
    if (body_ == nullptr) {
      globals_[name] = std::move(value);
    } else {
      set_local(name, std::move(value));
    }
  };
  for (const pysrc::ImportedName& name : s.names) {
    if (name.name == "*") {
      return error("capture.unsupported", "a star import hides which names exist", s.span)
          .with_hint("Import the names that are used.");
    }
    if (s.kind == StmtKind::kImport) {
      // `import a.b` binds a; `import a.b as c` binds the inner module.
      const bool aliased = !name.alias.empty();
      const std::string bound = aliased ? name.alias : name.name.substr(0, name.name.find('.'));
      bind(bound, Value::constant(Value::Kind::kConstant, aliased ? name.name : bound));
      continue;
    }
    const std::string dotted = s.text + "." + name.name;
    const std::optional<Value> constant = constant_global(dotted);
    bind(name.alias.empty() ? name.name : name.alias,
         constant ? *constant : Value::constant(Value::Kind::kConstant, dotted));
  }
  return Value::none();
}

void Interpreter::set_local(const std::string& name, Value value) {
  Local& local = locals_[name];
  if (local.rank < 0) local.rank = next_rank_++;
  local.value = std::move(value);
}

Status Interpreter::bind_parameters(const Stmt& forward) {
  if (forward.parameters.empty() || forward.parameters.front().kind != pysrc::Parameter::Kind::kNormal) {
    return error("capture.no_self", fmt::format("{} has no self", options_.method), forward.span)
        .with_hint(fmt::format("Write `def {}(self, ...)`.", options_.method));
  }
  self_ = forward.parameters.front().name;
  for (std::size_t i = 1; i < forward.parameters.size(); ++i) {
    const pysrc::Parameter& p = forward.parameters[i];
    if (p.kind != pysrc::Parameter::Kind::kNormal) {
      return unsupported(p.kind == pysrc::Parameter::Kind::kStar ? "*args parameter" : "**kwargs parameter",
                         p.span);
    }
    if (p.name == self_ || locals_.contains(p.name)) {
      return error("pysrc.syntax", fmt::format("the parameter '{}' occurs twice", p.name), p.span)
          .with_hint("Rename one of them.");
    }
    Node& node = draft_.add(NodeOp::kPlaceholder, p.name, {}, {}, p.name);
    node.span = p.span;
    if (inputs_ != nullptr) {
      const auto it = std::find_if(inputs_->begin(), inputs_->end(),
                                   [&](const InputMeta& input) { return input.name == p.name; });
      if (it != inputs_->end()) {
        TensorMeta tensor = it->tensor;
        if (!tensor.stride) tensor.stride = contiguous_strides(tensor.shape);
        tensor.storage = draft_.storages++;
        tensor.device = options_.device == "cuda" ? "cuda:0" : options_.device;
        node.meta = Meta::of(std::move(tensor));
        node.magnitude = it->magnitude;
        if (it->item) items_.emplace(node.id, *it->item);
        if (it->integers && static_cast<int64_t>(it->integers->size()) == it->tensor.numel()) {
          known_.fix(node.id, {it->tensor.shape, it->tensor.dtype, *it->integers});
        }
      } else if (p.default_value == nullptr) {
        findings_.push_back(
            error("capture.input_without_meta",
                  fmt::format("parameter '{}' has no entry in weight_meta.py", p.name), p.span)
                .with_hint(fmt::format("Add a class with `name = \"{}\"`, shape and dtype to weight_meta.py.",
                                       p.name)));
      }
    }
    set_local(p.name, Value::node(node.id));
  }
  parameters_ = static_cast<NodeId>(draft_.size());
  from_input_.assign(draft_.size(), true);
  return ok_status();
}

Result<Interpreter::Flow> Interpreter::block(const std::vector<const Stmt*>& body) {
  for (const Stmt* const& s : body) {
    if (++steps_ > kMaxSteps) {
      return error("capture.too_long", "the model runs too many statements", s->span)
          .with_hint("Unroll the loop or shorten it.");
    }
    if (&body == body_) {
      statement_index_ = static_cast<std::size_t>(&s - body.data());
      statement_start_ = static_cast<NodeId>(draft_.size());
    }
    PN_TRY(const Flow flow, statement(*s));
    if (flow == Flow::kReturned || !compiled_) return Flow::kReturned;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::statement(const Stmt& s) {
  switch (s.kind) {
    case StmtKind::kPass:
    case StmtKind::kAnnotation: return Flow::kNext;
    case StmtKind::kImport:
    case StmtKind::kImportFrom: PN_CHECK_OK(import(s)); return Flow::kNext;
    case StmtKind::kExpr: PN_CHECK_OK(eval(*s.value)); return Flow::kNext;
    case StmtKind::kAssign: {
      // `x = None` frees a name: by far the most common statement of an extracted graph.
      const bool one_name = s.exprs.size() == 1 && s.exprs.front()->kind == ExprKind::kName;
      PN_TRY(const Value value, eval(*s.value, one_name ? s.exprs.front()->text : std::string()));
      for (const Expr* target : s.exprs) PN_CHECK_OK(assign(*target, value));
      return Flow::kNext;
    }
    case StmtKind::kAugAssign: PN_CHECK_OK(augmented(s)); return Flow::kNext;
    case StmtKind::kDelete:
      for (const Expr* target : s.exprs) {
        if (target->kind != ExprKind::kName) return unsupported("del of anything but a name", target->span);
        if (locals_.erase(target->text) == 0) PN_CHECK_OK(name(*target));
      }
      return Flow::kNext;
    case StmtKind::kReturn:
      if (s.value != nullptr) {
        PN_TRY(result_, eval(*s.value));
      } else {
        result_ = Value::none();
      }
      result_is_bare_ = result_.is_node();
      return Flow::kReturned;
    case StmtKind::kIf: {
      PN_TRY(const bool taken, condition(*s.value));
      return block(taken ? s.body : s.orelse);
    }
    case StmtKind::kFor: {
      if (s.is_async) return unsupported("async for loop", s.span);
      PN_TRY(const Value over, eval(*s.value));
      PN_TRY(const std::vector<Value> items, elements(*s.value, over));
      ++loops_;
      for (const Value& item : items) {
        PN_CHECK_OK(assign(*s.exprs.front(), item));
        PN_TRY(const Flow flow, block(s.body));
        if (flow == Flow::kReturned) return flow;
      }
      --loops_;
      return block(s.orelse);
    }
    case StmtKind::kClass:
    case StmtKind::kFunction:
    case StmtKind::kUnsupported: break;
  }
  return unsupported(describe(s), s.span);
}

Status Interpreter::assign(const Expr& target, Value value) {
  switch (target.kind) {
    case ExprKind::kName: set_local(target.text, std::move(value)); return ok_status();
    case ExprKind::kTuple:
    case ExprKind::kList: return unpack(target, target.items, value);
    case ExprKind::kSubscript: {
      PN_TRY(const Value object, eval(*target.value));
      PN_TRY(Value index, eval(*target.items.front()));
      if (!object.is_node() || is_lazy_tuple(object.as_node())) {
        return unsupported("store into a list or dict", target.span);
      }
      PN_CHECK_OK(emit(target, NodeOp::kCallFunction, "operator.setitem",
                       {{object, std::move(index), std::move(value)}, {}}, {}));
      return ok_status();
    }
    case ExprKind::kAttribute: return unsupported("store into an attribute", target.span);
    default: return unsupported(describe(target), target.span);
  }
}

Status Interpreter::unpack(const Expr& pattern, const std::vector<const Expr*>& targets, const Value& value) {
  for (const Expr* target : targets) {
    if (target->kind == ExprKind::kStarred) return unsupported("starred assignment", target->span);
  }
  std::vector<Value> items;
  if (value.is_node() && is_lazy_tuple(value.as_node())) {
    for (std::size_t i = 0; i < targets.size(); ++i) {
      const std::string hint = targets[i]->kind == ExprKind::kName ? targets[i]->text : std::string();
      items.push_back(tuple_item(pattern, value.as_node(), static_cast<int64_t>(i), hint));
    }
  } else {
    PN_TRY(items, elements(pattern, value));
  }
  if (items.size() != targets.size()) {
    return error("capture.unpack",
                 fmt::format("{} values are unpacked into {} names", items.size(), targets.size()),
                 pattern.span)
        .with_hint(
            "Correct the number of names, or the shapes in weight_meta.py if they differ from the model's.");
  }
  for (std::size_t i = 0; i < targets.size(); ++i) PN_CHECK_OK(assign(*targets[i], items[i]));
  return ok_status();
}

Status Interpreter::augmented(const Stmt& s) {
  const Expr& target = *s.exprs.front();
  if (target.kind != ExprKind::kName && target.kind != ExprKind::kSubscript) {
    return unsupported("augmented assignment to an attribute", target.span);
  }
  Value object, index, old;
  if (target.kind == ExprKind::kSubscript) {
    PN_TRY(object, eval(*target.value));
    PN_TRY(index, eval(*target.items.front()));
    PN_TRY(old, subscript_of(target, object, index, {}));
  } else {
    PN_TRY(old, name(target));
  }
  PN_TRY(const Value operand, eval(*s.value));
  Value updated;
  if (old.is_node()) {
    const std::string_view function = in_place_operator_target(s.op);
    if (function.empty()) return unsupported(fmt::format("'{}='", s.op), s.span);
    const std::string hint = target.kind == ExprKind::kName ? target.text : std::string();
    PN_TRY(updated, emit(target, NodeOp::kCallFunction, std::string(function), {{old, operand}, {}}, hint));
  } else {
    // A Python number on the left has no in-place form: dynamo records the plain operator.
    PN_TRY(updated,
           binary(target, s.op, old, operand, target.kind == ExprKind::kName ? target.text : std::string()));
  }
  if (target.kind == ExprKind::kName) {
    set_local(target.text, std::move(updated));
    return ok_status();
  }
  if (!object.is_node()) return unsupported("store into a list or dict", target.span);
  PN_CHECK_OK(emit(target, NodeOp::kCallFunction, "operator.setitem", {{object, index, updated}, {}}, {}));
  return ok_status();
}

Result<Captured> capture_model(const pysrc::Module& module, const std::vector<InputMeta>* inputs,
                               const CaptureOptions& options) {
  return Interpreter(module, inputs, options).run();
}

Result<Captured> capture_model(SourceBuffer source, const std::vector<InputMeta>* inputs,
                               const CaptureOptions& options) {
  PN_TRY(const pysrc::Module module, pysrc::parse_module(std::move(source)));
  return capture_model(module, inputs, options);
}

}  // namespace passnet
