#include "check/pass_reader.h"

#include <algorithm>

#include <fmt/format.h>

#include "check/evaluator.h"
#include "check/rules.h"
#include "match/legality.h"
#include "match/matcher.h"

namespace passnet::check {

namespace {

using pysrc::ExprKind;
using pysrc::Stmt;
using pysrc::StmtKind;

class Reader {
 public:
  Reader(const std::string& stem, const pysrc::Module& module) : module_(module), evaluator_(module) {
    out_.name = stem;
    out_.rule.name = stem;
  }

  ReadPass run() {
    evaluator_.run_module();
    const bool pattern = read_pattern();
    const bool args = read_arguments();
    read_function();
    out_.readable = pattern && args;
    return std::move(out_);
  }

 private:
  void add(Diagnostic d, const Span& span) { out_.findings.push_back(std::move(d).at(module_.file(), span)); }

  const Object* required(std::string_view name) {
    const Object* object = evaluator_.find(name);
    if (object == nullptr)
      add(broken("contract.missing", fmt::format("{} does not define {}", out_.name, name)), {});
    return object;
  }

  bool read_pattern() {
    const Object* object = required("pattern");
    if (object == nullptr) return false;
    switch (object->kind) {
      case Object::Kind::kFunction: return read_traced(*object->function);
      case Object::Kind::kModule: return read_built(*object);
      case Object::Kind::kGraph:
        add(broken("contract.bare_graph", "pattern is a bare torch.fx.Graph, which has no signature"), {});
        return false;
      default:
        add(user_warning("check.not_interpreted", object->text.empty()
                                                      ? "pattern is neither a function nor a GraphModule"
                                                      : object->text)
                .with_hint("define `def pattern(...)`, or assign a GraphModule with __signature__ set"),
            {});
        return false;
    }
  }

  bool read_traced(const Stmt& function) {
    out_.form = ReadPass::Form::kTraced;
    check_statements(function.body);
    for (const pysrc::Parameter& p : function.parameters) out_.parameters.push_back(p.name);
    Result<std::shared_ptr<GraphBuild>> build = evaluator_.trace(function);
    if (!build.ok()) {
      out_.findings.push_back(build.error());
      return false;
    }
    out_.pattern = std::move((*build)->graph);
    return check_graph(function.span);
  }

  bool read_built(const Object& object) {
    out_.form = ReadPass::Form::kHandBuilt;
    if (!object.build->finished) {
      add(user_error("match.no_output", "the pattern's graph has no output node")
              .with_hint("end the pattern's graph with g.output(value)"),
          {});
      return false;
    }
    out_.pattern = object.build->graph.clone();
    std::vector<std::string> names;
    for (const NodeId id : out_.pattern.placeholders()) names.push_back(out_.pattern.node(id).target);
    if (!object.signature->has_value()) {
      add(broken("contract.signature", "the pattern's GraphModule has no __signature__"), {});
      out_.parameters = names;
    } else {
      out_.parameters = **object.signature;
      if (out_.parameters.size() != names.size()) {
        add(broken("contract.signature",
                   fmt::format("__signature__ has {} parameters, the graph {} placeholders",
                               out_.parameters.size(), names.size())),
            {});
      }
    }
    return check_graph({});
  }

  // Statements that make no node, or none that the graph has.
  void check_statements(const std::vector<const Stmt*>& body) {
    for (const Stmt* s : body) {
      const pysrc::Expr* value = s->value;
      if (s->kind == StmtKind::kAssign && value != nullptr && value->kind == ExprKind::kNone) {
        add(broken("pattern.statement", "pattern assigns None: it frees nothing and matches nothing"),
            s->span);
      } else if (s->kind == StmtKind::kUnsupported && s->text == "assert statement") {
        add(broken("pattern.assert", "pattern asserts something"), s->span);
      } else if (s->kind == StmtKind::kExpr && value->kind == ExprKind::kCall &&
                 value->value->kind == ExprKind::kName && value->value->text == "print") {
        add(broken("pattern.statement", "pattern prints"), s->span);
      }
    }
  }

  bool check_graph(const Span& span) {
    const Graph& graph = out_.pattern;
    const std::vector<NodeId> returned = graph.inputs_of(graph.output()->id);
    if (returned.size() != 1) {
      add(broken("contract.one_output",
                 fmt::format("pattern returns {} values of the graph", returned.size())),
          graph.output()->span.known() ? graph.output()->span : span);
    } else if (graph.node(returned[0]).op == NodeOp::kPlaceholder) {
      add(broken("contract.returns_parameter", "pattern returns one of its own parameters"), span);
    }
    for (const auto& node : graph.nodes()) {
      if (is_random(*node)) {
        add(broken("pattern.random", fmt::format("{} ({}) draws random numbers", node->name, node->target)),
            node->span);
      }
      if (is_subscript_store(*node)) {
        add(broken("pattern.store", fmt::format("{} stores into a subscript", node->name)), node->span);
      }
    }
    if (const Status status = check_pattern(graph); !status.ok()) {
      add(broken("pattern.dead_code", status.error().message), status.error().span);
      return false;
    }
    return check_parameters(span) && returned.size() == 1;
  }

  // A parameter that what is returned does not depend on is never bound: torch fails on the first match.
  bool check_parameters(const Span& span) {
    const Graph& graph = out_.pattern;
    std::vector<char> reached(graph.size(), 0);
    reached[static_cast<size_t>(graph.output()->id)] = 1;
    for (NodeId id = static_cast<NodeId>(graph.size()) - 1; id >= 0; --id) {
      if (!reached[static_cast<size_t>(id)]) continue;
      for (const NodeId input : graph.inputs_of(id)) reached[static_cast<size_t>(input)] = 1;
    }
    bool all = true;
    for (const NodeId id : graph.placeholders()) {
      if (reached[static_cast<size_t>(id)]) continue;
      all = false;
      add(broken("pattern.unused_parameter",
                 fmt::format("pattern never uses its parameter {}", graph.node(id).target)),
          graph.node(id).span.known() ? graph.node(id).span : span);
    }
    return all;
  }

  bool read_arguments() {
    const Object* object = required("replacement_args");
    if (object == nullptr) return false;
    if (object->kind != Object::Kind::kFunction) {
      add(user_warning("check.not_interpreted", "replacement_args is no plain function"), {});
      return false;
    }
    const Stmt& function = *object->function;
    out_.rule.parameters = function.parameters.size();
    if (!out_.parameters.empty() || out_.form != ReadPass::Form::kUnknown) {
      if (function.parameters.size() != out_.parameters.size()) {
        add(broken("contract.parameters", fmt::format("pattern has {} parameters, replacement_args {}",
                                                      out_.parameters.size(), function.parameters.size())),
            function.span);
        return false;
      }
    }
    const Result<Object> returned = evaluator_.arguments(function);
    if (!returned.ok()) {
      const Diagnostic& error = returned.error();
      if (error.code == "args.impure") {
        add(broken("args.impure", error.message), error.span);
      } else {
        out_.findings.push_back(error);
      }
      return false;
    }
    const std::optional<Value> v = returned->as_value();
    if (!v || !v->is_sequence()) {
      add(broken("args.not_tuple", "replacement_args does not return a tuple of arguments"), function.span);
      return false;
    }
    out_.rule.arguments = v->items();
    return true;
  }

  void read_function() {
    const Object* object = required("replacement_func");
    if (object == nullptr) return;
    if (object->kind != Object::Kind::kFunction) {
      add(user_warning("check.not_interpreted", "replacement_func is no plain function"), {});
      return;
    }
    const Stmt& function = *object->function;
    const pysrc::Expr* returned = nullptr;
    bool nested = false;
    for (const Stmt* s : function.body) {
      if (s->kind == StmtKind::kReturn) returned = s->value;
      if (s->kind == StmtKind::kFunction && returned == nullptr) nested = true;
    }
    if (returned == nullptr) {
      add(broken("func.unstable", "replacement_func returns nothing"), function.span);
      return;
    }
    const std::string name = pysrc::dotted_name(*returned);
    if (name.empty()) {
      add(broken("func.unstable", fmt::format("replacement_func returns a {}, a new object at every call",
                                              pysrc::describe(*returned))),
          returned->span);
      return;
    }
    if (nested && pysrc::Module::find(function.body, StmtKind::kFunction, name) != nullptr) {
      add(broken("func.unstable", fmt::format("replacement_func defines {} anew at every call", name)),
          returned->span);
      return;
    }
    const std::string first = name.substr(0, name.find('.'));
    const Object* target = evaluator_.find(first);
    if (target == nullptr) {
      add(broken("func.unstable", fmt::format("replacement_func returns {}, which is not defined", name)),
          returned->span);
    } else if (target->kind == Object::Kind::kGlobal) {
      out_.function = target->text + name.substr(first.size());
    } else if (target->kind == Object::Kind::kFunction) {
      out_.function = out_.name + "." + name;
    } else {
      add(user_warning("check.not_interpreted",
                       fmt::format("what {} is cannot be seen from the source", name)),
          returned->span);
    }
    if (!out_.function.empty()) out_.rule.wrapper = out_.function.substr(out_.function.rfind('.') + 1);
  }

  const pysrc::Module& module_;
  Evaluator evaluator_;
  ReadPass out_;
};

}  // namespace

ReadPass read_pass(const std::string& stem, const pysrc::Module& module) {
  return Reader(stem, module).run();
}

}  // namespace passnet::check
