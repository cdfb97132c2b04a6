#include "check/repair.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/strings.h"
#include "check/pattern_text.h"
#include "ops/core.h"
#include "ops/identities.h"

namespace passnet::check {

namespace {

bool is_call(const Node& node) { return node.op == NodeOp::kCallFunction || node.op == NodeOp::kCallMethod; }

std::string_view last_name(const Node& node) {
  const std::string_view target = node.target;
  const size_t dot = target.rfind('.');
  return node.op == NodeOp::kCallFunction && dot != std::string_view::npos ? target.substr(dot + 1) : target;
}

// Equal as a value, whatever its type and whether it is a list or a tuple.
bool same_literal(const Value& a, const Value& b) {
  if (a.is_sequence() && b.is_sequence()) {
    if (a.items().size() != b.items().size()) return false;
    for (size_t i = 0; i < a.items().size(); ++i) {
      if (!same_literal(a.items()[i], b.items()[i])) return false;
    }
    return true;
  }
  return python_equal(a, b);
}

bool holds_nodes(const Value& v) {
  bool holds = false;
  v.for_each_node([&](NodeId) { holds = true; });
  return holds;
}

// A pattern laid onto a graph by what the operations mean, not by how they are written.
class Alignment {
 public:
  Alignment(const Graph& pattern, const Graph& graph) : pattern_(pattern), graph_(graph) {}

  bool lay(NodeId p, NodeId t) {
    const Node& a = pattern_.node(p);
    const Node& b = graph_.node(t);
    if (a.op == NodeOp::kPlaceholder) return bind(p, Value::node(t));
    if (const auto at = inner_.find(p); at != inner_.end()) return at->second == t;
    if (!is_call(a) || !is_call(b)) return false;
    const Result<Call> x = resolve(pattern_, a), y = resolve(graph_, b);
    if (x.ok() && y.ok()) {
      if (x->row != y->row || x->in_place != y->in_place) return false;
    } else if (last_name(a) != last_name(b)) {
      return false;
    }
    inner_[p] = t;
    if (x.ok() && y.ok() && x->args.size() == y->args.size()) {
      const std::vector<std::string_view> names = parameters_of(*x->row);
      for (size_t i = 0; i < x->args.size(); ++i) {
        if (!lay_value(x->args[i], y->args[i], a,
                       i < names.size() ? std::string(names[i]) : fmt::format("args[{}]", i)))
          return false;
      }
      return true;
    }
    const std::vector<NodeId> from = pattern_.inputs_of(p), to = graph_.inputs_of(t);
    if (from.size() != to.size()) return false;
    for (size_t i = 0; i < from.size(); ++i) {
      if (!lay(from[i], to[i])) return false;
    }
    return true;
  }

  // The graph's own nodes in the pattern's place; nothing if an operand is none of the parameters.
  std::optional<Graph> build(const std::vector<std::string>& parameters) const {
    Graph out;
    out.file = pattern_.file;
    std::map<NodeId, NodeId> holders, made;  // by pattern placeholder, by target node
    const std::vector<NodeId> placeholders = pattern_.placeholders();
    for (size_t i = 0; i < placeholders.size(); ++i) {
      if (!bound_.contains(placeholders[i])) return std::nullopt;
      holders[placeholders[i]] =
          out.add(NodeOp::kPlaceholder, i < parameters.size() ? parameters[i] : "x").id;
    }
    std::vector<NodeId> covered;
    for (const auto& [p, t] : inner_) covered.push_back(t);
    std::sort(covered.begin(), covered.end());
    if (std::adjacent_find(covered.begin(), covered.end()) != covered.end()) return std::nullopt;
    bool good = true;
    const auto moved = [&](const Value& v) {
      // A literal that a parameter stood for becomes that parameter again.
      for (const auto& [p, value] : bound_) {
        if (!value.is_node() && !holds_nodes(v) && v == value) return Value::node(holders.at(p));
      }
      return v.map_nodes([&](NodeId id) {
        if (const auto at = made.find(id); at != made.end()) return Value::node(at->second);
        for (const auto& [p, value] : bound_) {
          if (value.is_node() && value.as_node() == id) return Value::node(holders.at(p));
        }
        good = false;
        return Value::none();
      });
    };
    const std::function<Value(const Value&)> deep = [&](const Value& v) {
      if (v.is_sequence() && !holds_nodes(v)) {
        const Value whole = moved(v);
        if (whole.is_node()) return whole;
        std::vector<Value> items;
        for (const Value& item : v.items()) items.push_back(deep(item));
        return v.kind() == Value::Kind::kList ? Value::list(std::move(items))
                                              : Value::tuple(std::move(items));
      }
      return moved(v);
    };
    for (const NodeId t : covered) {
      const Node& node = graph_.node(t);
      std::vector<Value> args;
      for (const Value& v : node.args) args.push_back(deep(v));
      std::vector<std::pair<std::string, Value>> kwargs;
      for (const auto& [key, v] : node.kwargs) kwargs.emplace_back(key, deep(v));
      made[t] = out.add(node.op, node.target, std::move(args), std::move(kwargs)).id;
    }
    if (!good) return std::nullopt;
    const std::vector<NodeId> returned = pattern_.inputs_of(pattern_.output()->id);
    const auto root = returned.size() == 1 ? inner_.find(returned[0]) : inner_.end();
    if (root == inner_.end()) return std::nullopt;
    out.add(NodeOp::kOutput, "output", {Value::node(made.at(root->second))}, {}, "output");
    return out;
  }

  const std::vector<std::string>& literals() const { return literals_; }

 private:
  bool bind(NodeId placeholder, const Value& v) {
    const auto [at, fresh] = bound_.try_emplace(placeholder, v);
    if (!fresh) return at->second == v;
    if (!v.is_node()) return true;
    // Two parameters never stand for one node.
    return std::none_of(bound_.begin(), bound_.end(), [&](const auto& other) {
      return other.first != placeholder && other.second.is_node() && other.second.as_node() == v.as_node();
    });
  }

  bool lay_value(const Value& a, const Value& b, const Node& node, const std::string& where) {
    if (a.is_node()) {
      if (pattern_.node(a.as_node()).op == NodeOp::kPlaceholder && !b.is_node())
        return !holds_nodes(b) && bind(a.as_node(), b);
      return b.is_node() && lay(a.as_node(), b.as_node());
    }
    if (b.is_node()) return false;
    if (a.is_sequence() && b.is_sequence() && a.items().size() == b.items().size()) {
      for (size_t i = 0; i < a.items().size(); ++i) {
        if (!lay_value(a.items()[i], b.items()[i], node, where)) return false;
      }
      return true;
    }
    if (holds_nodes(a) || holds_nodes(b)) return false;
    if (!same_literal(a, b))
      literals_.push_back(
          fmt::format("{} of {}: {} -> {}", where, node.name, python_text(a), python_text(b)));
    return true;
  }

  const Graph& pattern_;
  const Graph& graph_;
  std::map<NodeId, NodeId> inner_;  // pattern call -> graph call
  std::map<NodeId, Value> bound_;   // placeholder -> node or literal of the graph
  std::vector<std::string> literals_;
};

std::vector<std::string> names_of(const ReadPass& pass, const Graph& graph) {
  std::vector<std::string> out;
  std::set<std::string> used(pass.parameters.begin(), pass.parameters.end());
  size_t parameter = 0;
  for (const auto& node : graph.nodes()) {
    if (node->op == NodeOp::kPlaceholder && parameter < pass.parameters.size()) {
      out.push_back(pass.parameters[parameter++]);
      continue;
    }
    static const std::set<std::string_view> kTaken = {
        "graph", "module", "torch", "inspect", "operator", "math",    "pattern", "name", "and",   "or",
        "not",   "is",     "in",    "slice",   "float",    "getattr", "lambda",  "if",   "else",  "for",
        "while", "with",   "pass",  "del",     "sum",      "max",     "min",     "abs",  "round", "pow"};
    std::string name = node->name;
    while (kTaken.contains(name) || !used.insert(name).second) name += "_";
    out.push_back(std::move(name));
  }
  return out;
}

// A call of the graph in Python, operands under the pattern's names where they have one.
std::string call_text(const Node& node, const std::function<std::string(NodeId)>& name) {
  std::string args, object;
  for (const Value& v : node.args) {
    if (node.op == NodeOp::kCallMethod && object.empty()) {
      object = python_text(v, name);
      continue;
    }
    args += (args.empty() ? "" : ", ") + python_text(v, name);
  }
  for (const auto& [key, v] : node.kwargs)
    args += (args.empty() ? "" : ", ") + key + "=" + python_text(v, name);
  return node.op == NodeOp::kCallMethod ? fmt::format("{}.{}({})", object, node.target, args)
                                        : fmt::format("{}({})", node.target, args);
}

}  // namespace

std::optional<Repair> repair_pattern(const ReadPass& pass, const Graph& graph) {
  const Graph& pattern = pass.pattern;
  if (pattern.output() == nullptr || !check_pattern(pattern) || !match_all(pattern, graph).empty())
    return std::nullopt;
  const std::vector<NodeId> returned = pattern.inputs_of(pattern.output()->id);
  if (returned.size() != 1) return std::nullopt;
  std::optional<Repair> best;
  for (const auto& node : graph.nodes()) {
    if (!is_call(*node)) continue;
    Alignment alignment(pattern, graph);
    if (!alignment.lay(returned[0], node->id)) continue;
    std::optional<Graph> built = alignment.build(pass.parameters);
    if (!built || match_all(*built, graph).empty()) continue;
    if (best && best->literals.size() <= alignment.literals().size()) continue;
    best = Repair{std::move(*built), alignment.literals()};
    if (best->literals.empty()) break;
  }
  return best;
}

std::string edit_for(const NearMiss& miss, const ReadPass& pass, const Graph& graph) {
  const Graph& pattern = pass.pattern;
  const bool paired = miss.pattern_node != kNoNode && miss.target_node != kNoNode;
  if (paired && (miss.code == "target" || miss.code == "arguments" || miss.code == "no_candidate")) {
    const Node& target = graph.node(miss.target_node);
    const std::vector<NodeId> mine = pattern.inputs_of(miss.pattern_node),
                              theirs = graph.inputs_of(miss.target_node);
    const auto name = [&](NodeId id) {
      for (size_t i = 0; i < theirs.size() && theirs.size() == mine.size(); ++i) {
        if (theirs[i] == id) return pattern.node(mine[i]).name;
      }
      return graph.node(id).name;
    };
    const bool in_place_operator = target.target.starts_with("operator.i") &&
                                   target.op == NodeOp::kCallFunction && target.target != "operator.invert" &&
                                   target.target != "operator.inv";
    const bool normalised =
        pass.form == ReadPass::Form::kTraced && target.op == NodeOp::kCallFunction &&
        (in_place_operator || (signature_of(target.target) != nullptr && !target.kwargs.empty()));
    if (!normalised) return fmt::format("write `{}`, as the model does", call_text(target, name));
    std::vector<std::string> names;
    for (const auto& node : graph.nodes()) names.push_back(name(node->id));
    names[static_cast<size_t>(target.id)] = "out";
    std::set<std::string> modules;
    const Result<std::string> line = node_text(target, names, modules);
    return fmt::format(
        "no traced pattern gives this form; build the graph by hand with `{}` (check --fix writes it)",
        line.ok() ? *line : call_text(target, name));
  }
  if (miss.code == "literal" || miss.code == "literal_type")
    return fmt::format("write {} for {}", miss.actual, miss.expected);
  if (miss.code == "not_contained") {
    return fmt::format("end the pattern at {}, or leave it out and make its value a parameter",
                       miss.pattern_node == kNoNode ? "the value that is used outside"
                                                    : pattern.node(miss.pattern_node).name);
  }
  if (miss.code == "same_node") return "use one parameter in both places";
  if (miss.code == "shared_value") return "use two parameters, one for each value";
  if (miss.code == "node_for_literal" || miss.code == "literal_for_node")
    return fmt::format("write {} for {}, or make it a parameter of the pattern", miss.actual, miss.expected);
  return {};
}

Result<std::string> built_text(const ReadPass& pass, const Repair& repair) {
  PN_TRY(const PatternText text, pattern_text(repair.pattern, pass.name, names_of(pass, repair.pattern)));
  return text.definition;
}

Result<std::string> with_built_pattern(const pysrc::Module& module, const ReadPass& pass,
                                       const Repair& repair) {
  PN_TRY(const PatternText text, pattern_text(repair.pattern, pass.name, names_of(pass, repair.pattern)));
  const pysrc::Stmt* function = module.find_function("pattern");
  if (function == nullptr) {
    return user_error("repair.place", fmt::format("{} has no `def pattern` at its top level", module.file()))
        .with_hint("write the pattern that is printed into the file by hand");
  }
  std::set<int> gone;  // lines of the old definition, and of `pattern = pattern()`
  const auto drop = [&](const Span& span) {
    const int last = span.end_col <= 1 && span.end_line > span.line ? span.end_line - 1 : span.end_line;
    for (int line = span.line; line <= last; ++line) gone.insert(line);
  };
  drop(function->span);
  std::set<std::string> imported;
  for (const pysrc::Stmt* s : module.body()) {
    if (s->kind == pysrc::StmtKind::kAssign && s->exprs.size() == 1 &&
        s->exprs[0]->kind == pysrc::ExprKind::kName && s->exprs[0]->text == "pattern") {
      drop(s->span);
    }
    if (s->kind == pysrc::StmtKind::kImport) {
      for (const pysrc::ImportedName& name : s->names) {
        if (name.alias.empty()) imported.insert(name.name);
      }
    }
  }
  std::set<std::string> needed = text.modules;
  needed.insert({"inspect", "torch"});
  std::string out, imports;
  for (const std::string& name : needed) {
    if (!imported.contains(name)) imports += "import " + name + "\n";
  }
  int number = 0;
  for (const std::string_view line : split_lines(module.source().text())) {
    ++number;
    if (number == function->span.line) out += text.definition;
    if (gone.contains(number)) continue;
    // In front of the first import, behind whatever the file begins with.
    if (!imports.empty() && (line.starts_with("import ") || line.starts_with("from "))) {
      out += imports;
      imports.clear();
    }
    out += std::string(line) + "\n";
  }
  if (!imports.empty()) out.insert(0, imports);
  return out;
}

}  // namespace passnet::check
