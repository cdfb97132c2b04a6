#include "check/wrapper_follower.h"

#include <algorithm>

#include <fmt/format.h>

#include "capture/folding.h"
#include "capture/targets.h"
#include "check/rules.h"

namespace passnet::check {

namespace {

using pysrc::ExprKind;
using pysrc::StmtKind;

constexpr int kMaxSteps = 20000;  // statements and calls; a loop beyond this is not followed

// Names that Python itself knows; any other that is bound nowhere raises.
constexpr std::string_view kBuiltins[] = {"len",
                                          "range",
                                          "min",
                                          "max",
                                          "int",
                                          "float",
                                          "bool",
                                          "tuple",
                                          "list",
                                          "dict",
                                          "set",
                                          "abs",
                                          "sum",
                                          "sorted",
                                          "enumerate",
                                          "zip",
                                          "round",
                                          "str",
                                          "slice",
                                          "all",
                                          "any",
                                          "reversed",
                                          "hasattr",
                                          "getattr",
                                          "setattr",
                                          "isinstance",
                                          "issubclass",
                                          "type",
                                          "id",
                                          "print",
                                          "repr",
                                          "format",
                                          "map",
                                          "filter",
                                          "iter",
                                          "next",
                                          "callable",
                                          "pow",
                                          "divmod",
                                          "hash",
                                          "object",
                                          "super",
                                          "globals",
                                          "locals",
                                          "vars",
                                          "eval",
                                          "exec",
                                          "open",
                                          "compile",
                                          "frozenset",
                                          "bytes",
                                          "complex",
                                          "ord",
                                          "chr",
                                          "ValueError",
                                          "TypeError",
                                          "KeyError",
                                          "IndexError",
                                          "RuntimeError",
                                          "Exception",
                                          "AssertionError",
                                          "NotImplementedError",
                                          "AttributeError",
                                          "ImportError",
                                          "StopIteration",
                                          "OSError",
                                          "__name__",
                                          "__file__",
                                          "__import__",
                                          "property",
                                          "staticmethod",
                                          "classmethod",
                                          "NotImplemented",
                                          "bin",
                                          "hex",
                                          "input",
                                          "delattr",
                                          "dir",
                                          "memoryview",
                                          "bytearray"};

}  // namespace

Thing Thing::of(Value v) {
  Thing out;
  out.kind = Kind::kLiteral;
  out.value = std::move(v);
  return out;
}

Thing Thing::global(std::string dotted) {
  Thing out;
  out.kind = Kind::kGlobal;
  out.text = std::move(dotted);
  return out;
}

Thing Thing::sequence(std::vector<Thing> items, bool is_list) {
  Thing out;
  out.kind = Kind::kSequence;
  out.items = std::move(items);
  out.is_list = is_list;
  return out;
}

std::optional<Value> Thing::literal() const {
  if (kind == Kind::kLiteral) return value;
  if (kind != Kind::kSequence) return std::nullopt;
  std::vector<Value> values;
  for (const Thing& item : items) {
    std::optional<Value> v = item.literal();
    if (!v) return std::nullopt;
    values.push_back(std::move(*v));
  }
  return is_list ? Value::list(std::move(values)) : Value::tuple(std::move(values));
}

const Thing* WrapperFollower::Arguments::find(size_t position, std::string_view name) const {
  if (position < args.size()) return &args[position];
  for (const auto& [key, thing] : kwargs) {
    if (key == name) return &thing;
  }
  return nullptr;
}

std::vector<const Thing*> WrapperFollower::Arguments::all() const {
  std::vector<const Thing*> out;
  for (const Thing& thing : args) out.push_back(&thing);
  for (const auto& [key, thing] : kwargs) out.push_back(&thing);
  return out;
}

void WrapperFollower::stop(const Span& span, const std::string& why) {
  if (halted_) return;
  halted_ = true;
  out_.stopped = why;
  out_.stopped_at = span;
}

void WrapperFollower::raise(const Span& span, std::string_view code, const std::string& message,
                            const std::string& hint) {
  if (halted_) return;
  halted_ = true;
  out_.stopped = message;
  out_.stopped_at = span;
  Diagnostic d = broken(code, message).at(file(), span);
  if (!hint.empty()) d.hint = hint;
  out_.findings.push_back(std::move(d));
}

const std::string& WrapperFollower::file() const { return modules_.at(frames_.back()->stem)->file(); }

Thing WrapperFollower::make(WrapperTensor tensor) {
  Thing out;
  out.kind = Thing::Kind::kTensor;
  out.tensor = tensors_.size();
  tensors_.push_back(std::move(tensor));
  return out;
}

Thing WrapperFollower::operation(const Expr& e, size_t tensor, const std::string& what,
                                 const std::string& instead) {
  if (tensors_[tensor].poisoned) {
    raise(e.span, "wrapper.operation",
          fmt::format("{} {} {}, which the run-time guard refuses", frames_.back()->function->text, what,
                      tensors_[tensor].name),
          instead);
    return {};
  }
  return make({{}, {}, {}, false, tensors_[tensor].argument, tensors_[tensor].name});
}

// ---- names ----

Thing WrapperFollower::define(const Stmt& s, const std::string& stem) const {
  Thing out;
  out.kind = Thing::Kind::kFunction;
  out.function = &s;
  out.text = stem;
  for (const Expr* decorator : s.decorators) {
    const std::string dotted =
        pysrc::dotted_name(decorator->kind == ExprKind::kCall ? *decorator->value : *decorator);
    const std::string last = dotted.substr(dotted.rfind('.') + 1);
    if (last == "jit" || last == "autotune" || last == "heuristics") {
      out.kind = Thing::Kind::kKernel;
    } else if (dotted != "torch.fx.wrap" && out.kind != Thing::Kind::kKernel) {
      return Thing::unknown();
    }
  }
  return out;
}

std::optional<Thing> WrapperFollower::of_pass_dir(const std::string& dotted) {
  constexpr std::string_view kPackage = "pass_dir.";
  if (!dotted.starts_with(kPackage)) return std::nullopt;
  const std::string rest = dotted.substr(kPackage.size());
  const size_t dot = rest.find('.');
  if (dot == std::string::npos || !modules_.contains(rest.substr(0, dot))) return std::nullopt;
  const Scope& scope = globals_of(rest.substr(0, dot));
  const auto at = scope.find(rest.substr(dot + 1));
  return at == scope.end() ? Thing::unknown() : at->second;
}

void WrapperFollower::import(const Stmt& s, Scope& scope) {
  for (const pysrc::ImportedName& name : s.names) {
    if (s.kind == StmtKind::kImport) {
      const std::string first = name.name.substr(0, name.name.find('.'));
      scope[name.alias.empty() ? first : name.alias] = Thing::global(name.alias.empty() ? first : name.name);
      continue;
    }
    if (name.name == "*") continue;
    const std::string dotted = s.text + "." + name.name;
    std::optional<Value> constant = constant_global(dotted);
    std::optional<Thing> own = of_pass_dir(dotted);
    scope[name.alias.empty() ? name.name : name.alias] = constant ? Thing::of(std::move(*constant))
                                                         : own    ? std::move(*own)
                                                                  : Thing::global(dotted);
  }
}

WrapperFollower::Scope& WrapperFollower::globals_of(const std::string& stem) {
  const auto [at, fresh] = globals_.try_emplace(stem);
  if (!fresh) return at->second;
  Frame frame;
  frame.stem = stem;
  frames_.push_back(&frame);
  for (const Stmt* s : modules_.at(stem)->body()) {
    module_statement(*s, frame);
    // What a later statement does not find in `locals` it looks up here.
    for (const auto& [key, thing] : frame.locals) globals_[stem][key] = thing;
  }
  frames_.pop_back();
  return globals_[stem];
}

// Loading: what is not understood leaves its names unknown and ends nothing.
void WrapperFollower::module_statement(const Stmt& s, Frame& frame) {
  const WrapperRun before = out_;
  const bool halted = halted_;
  switch (s.kind) {
    case StmtKind::kImport:
    case StmtKind::kImportFrom: import(s, frame.locals); break;
    case StmtKind::kFunction: frame.locals[s.text] = define(s, frame.stem); break;
    case StmtKind::kAssign: {
      Thing value =
          s.value == nullptr || s.value->kind == ExprKind::kCall ? Thing::unknown() : eval(*s.value, frame);
      if (halted_ && !halted) value = Thing::unknown();
      halted_ = halted;
      for (const Expr* target : s.exprs) assign(*target, value, frame);
      break;
    }
    case StmtKind::kIf:
    case StmtKind::kUnsupported:
    case StmtKind::kFor:
    case StmtKind::kClass: {
      // Either branch may bind its names.
      std::vector<const Stmt*> inner = s.body;
      inner.insert(inner.end(), s.orelse.begin(), s.orelse.end());
      if (s.kind == StmtKind::kClass) frame.locals[s.text] = Thing::unknown();
      for (const Stmt* each : inner) {
        for (const Expr* target : each->exprs) assign(*target, Thing::unknown(), frame);
        if (!each->text.empty()) frame.locals[each->text] = Thing::unknown();
        for (const pysrc::ImportedName& name : each->names)
          frame.locals[name.alias.empty() ? name.name : name.alias] = Thing::unknown();
      }
      break;
    }
    default: break;
  }
  halted_ = halted;
  out_ = before;
}

Thing WrapperFollower::name(const Expr& e, Frame& frame) {
  if (const auto at = frame.locals.find(e.text); at != frame.locals.end()) return at->second;
  const Scope& globals = globals_of(frame.stem);
  if (const auto at = globals.find(e.text); at != globals.end()) return at->second;
  if (std::find(std::begin(kBuiltins), std::end(kBuiltins), e.text) != std::end(kBuiltins))
    return Thing::global(e.text);
  // Statements that are not read may bind names at the top of a module; only a module without such is sure.
  const std::vector<const Stmt*>& body = modules_.at(frame.stem)->body();
  const bool sure = std::none_of(body.begin(), body.end(), [](const Stmt* s) {
    return s->kind == StmtKind::kUnsupported || s->kind == StmtKind::kImportFrom
               ? s->kind == StmtKind::kUnsupported || s->names[0].name == "*"
               : false;
  });
  if (sure && frame.function != nullptr) {
    raise(e.span, "wrapper.raises",
          fmt::format("{} uses the name {}, which is not defined", frame.function->text, e.text),
          fmt::format("define or import {}", e.text));
  }
  return {};
}

// ---- statements ----

void WrapperFollower::block(const std::vector<const Stmt*>& body, Frame& frame) {
  for (const Stmt* s : body) {
    if (halted() || frame.returned) return;
    if (++steps_ > kMaxSteps) return stop(s->span, "a loop that runs too long to be followed");
    switch (s->kind) {
      case StmtKind::kImport:
      case StmtKind::kImportFrom: import(*s, frame.locals); break;
      case StmtKind::kFunction: frame.locals[s->text] = define(*s, frame.stem); break;
      case StmtKind::kAssign: {
        const Thing value = eval(*s->value, frame);
        for (const Expr* target : s->exprs) assign(*target, value, frame);
        break;
      }
      case StmtKind::kAugAssign: {
        const Thing a = eval(*s->exprs[0], frame), b = eval(*s->value, frame);
        assign(*s->exprs[0], binary(*s->value, s->op, a, b), frame);
        break;
      }
      case StmtKind::kExpr: eval(*s->value, frame); break;
      case StmtKind::kReturn:
        frame.returned = s->value == nullptr ? Thing::of(Value::none()) : eval(*s->value, frame);
        return;
      case StmtKind::kIf: {
        const Thing condition = eval(*s->value, frame);
        const std::optional<bool> taken = truth_of(*s->value, condition);
        if (!taken) return stop(s->value->span, "a condition that is not known before the call");
        block(*taken ? s->body : s->orelse, frame);
        break;
      }
      case StmtKind::kFor: {
        const std::optional<std::vector<Thing>> items = items_of(*s->value, eval(*s->value, frame));
        if (!items) return stop(s->value->span, "a loop over something that is not known before the call");
        for (const Thing& item : *items) {
          assign(*s->exprs[0], item, frame);
          block(s->body, frame);
          if (halted() || frame.returned) return;
        }
        break;
      }
      case StmtKind::kPass:
      case StmtKind::kAnnotation: break;
      default:
        if (s->text == "raise statement") {
          const std::string_view text = modules_.at(frame.stem)->source().slice(s->span);
          return raise(s->span, "wrapper.raises",
                       fmt::format("{} ends in `{}` for this match", frame.function->text, text));
        }
        return stop(s->span, fmt::format("{} is not followed", pysrc::describe(*s)));
    }
  }
}

void WrapperFollower::assign(const Expr& target, const Thing& value, Frame& frame) {
  switch (target.kind) {
    case ExprKind::kName: frame.locals[target.text] = value; return;
    case ExprKind::kTuple:
    case ExprKind::kList: {
      const std::optional<std::vector<Thing>> items = items_of(target, value);
      if (items && items->size() != target.items.size() &&
          std::none_of(target.items.begin(), target.items.end(),
                       [](const Expr* e) { return e->kind == ExprKind::kStarred; })) {
        if (frame.function == nullptr) return;
        return raise(target.span, "wrapper.raises",
                     fmt::format("{} unpacks {} values into {} names", frame.function->text, items->size(),
                                 target.items.size()),
                     "the rank of the tensor is another than the code expects");
      }
      for (size_t i = 0; i < target.items.size(); ++i)
        assign(*target.items[i],
               items && items->size() == target.items.size() ? (*items)[i] : Thing::unknown(), frame);
      return;
    }
    case ExprKind::kStarred: return assign(*target.value, Thing::unknown(), frame);
    case ExprKind::kSubscript: {
      const Thing object = eval(*target.value, frame);
      if (object.kind == Thing::Kind::kTensor)
        operation(target, object.tensor, "stores into a part of", "store in the kernel");
      return;  // into a cache: what it holds is not looked up in the first call
    }
    default: return;
  }
}

std::optional<bool> WrapperFollower::truth_of(const Expr& e, const Thing& thing) {
  if (thing.kind == Thing::Kind::kTensor) {
    operation(e, thing.tensor, "decides on the value of", "decide on shapes, dtypes and literals only");
    return std::nullopt;
  }
  if (thing.kind == Thing::Kind::kSequence) return !thing.items.empty();
  if (thing.kind == Thing::Kind::kDict) return !thing.keys.empty();
  if (thing.kind == Thing::Kind::kLiteral) return truth(thing.value);
  if (thing.kind == Thing::Kind::kFunction || thing.kind == Thing::Kind::kKernel) return true;
  return std::nullopt;
}

std::optional<std::vector<Thing>> WrapperFollower::items_of(const Expr& e, const Thing& thing) {
  if (thing.kind == Thing::Kind::kSequence) return thing.items;
  if (thing.kind == Thing::Kind::kTensor) {
    operation(e, thing.tensor, "iterates over", "index in the kernel");
    return std::nullopt;
  }
  if (thing.kind != Thing::Kind::kLiteral || !thing.value.is_sequence()) return std::nullopt;
  std::vector<Thing> out;
  for (const Value& v : thing.value.items()) out.push_back(Thing::of(v));
  return out;
}

// ---- the whole ----

WrapperRun WrapperFollower::run(const std::string& function, const std::vector<WrapperArgument>& arguments) {
  std::string dotted = function;
  if (!dotted.starts_with("pass_dir.")) dotted.insert(0, "pass_dir.");
  const std::optional<Thing> callee = of_pass_dir(dotted);
  if (!callee || callee->kind != Thing::Kind::kFunction) {
    out_.stopped = fmt::format("{} is no plain function of the pass_dir", function);
    return std::move(out_);
  }
  Arguments given;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const WrapperArgument& a = arguments[i];
    if (a.kind == WrapperArgument::Kind::kTensor) {
      given.args.push_back(
          make({a.tensor.shape, a.tensor.stride, a.tensor.dtype, true, static_cast<int>(i), a.name}));
    } else {
      given.args.push_back(a.kind == WrapperArgument::Kind::kLiteral ? Thing::of(a.literal)
                                                                     : Thing::unknown());
    }
  }
  Frame frame;  // so that messages of the call itself have a file
  frame.stem = callee->text;
  frame.function = callee->function;
  frames_.push_back(&frame);
  Expr at;
  at.span = callee->function->span;
  at.span.end_line = at.span.line;
  const Thing returned = call_function(at, *callee, given);
  frames_.pop_back();
  if (halted()) return std::move(out_);
  out_.followed = true;
  std::vector<Thing> values = {returned};
  if (returned.kind == Thing::Kind::kSequence) {
    out_.returns_tuple = true;
    values = returned.items;
  }
  out_.outputs_known = true;
  for (const Thing& value : values) {
    if (value.kind == Thing::Kind::kTensor)
      out_.outputs.push_back(tensors_[value.tensor]);
    else
      out_.outputs_known = false;
  }
  return std::move(out_);
}

WrapperRun follow_wrapper(const ModuleTable& modules, const std::string& function,
                          const std::vector<WrapperArgument>& arguments, VisitedCalls& visited) {
  return WrapperFollower(modules, visited).run(function, arguments);
}

}  // namespace passnet::check
