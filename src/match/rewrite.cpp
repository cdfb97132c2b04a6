#include "match/rewrite.h"

#include <algorithm>

#include <fmt/format.h>

namespace passnet {

namespace {

Diagnostic rewrite_error(const RewriteRule& rule, std::string_view code, const std::string& message,
                         std::string_view hint) {
  return user_error(code, rule.name.empty() ? message : fmt::format("{}: {}", rule.name, message))
      .with_hint(hint);
}

bool is_compute(const Node& node) { return node.op != NodeOp::kPlaceholder && node.op != NodeOp::kOutput; }

// What does not depend on the graph.
Status check_rule(const Graph& pattern, const RewriteRule& rule) {
  const std::vector<NodeId> returning = pattern.inputs_of(pattern.output()->id);
  if (returning.size() != 1) {
    return rewrite_error(
        rule, "rewrite.several_outputs",
        fmt::format("the pattern returns {} values, the replacement returns one", returning.size()),
        "end the pattern at one value; write one pass for each of them");
  }
  if (pattern.node(returning[0]).op == NodeOp::kPlaceholder) {
    return rewrite_error(rule, "rewrite.returns_placeholder", "the pattern returns one of its parameters",
                         "end the pattern at an operation");
  }
  const size_t placeholders = pattern.placeholders().size();
  if (placeholders != rule.parameters) {
    return rewrite_error(
        rule, "rewrite.parameter_count",
        fmt::format("the pattern has {} parameters, replacement_args has {}", placeholders, rule.parameters),
        "give both functions the same parameters");
  }
  Status status;
  for (const Value& v : rule.arguments) {
    v.for_each_node([&](NodeId index) {
      if (index >= 0 && static_cast<size_t>(index) < rule.parameters) return;
      status = rewrite_error(rule, "rewrite.bad_argument", fmt::format("there is no parameter {}", index),
                             "return parameters of replacement_args and literals only");
    });
  }
  return status;
}

struct Step {
  Graph graph;
  NodeId wrapper = kNoNode;
  std::vector<NodeId>
      forward;  // by old node: its id in `graph`; for erased nodes none, for the returned the wrapper's
};

std::string free_name(const Graph& graph, std::string_view wrapper) {
  const size_t dot = wrapper.rfind('.');
  const std::string stem(dot == std::string_view::npos ? wrapper : wrapper.substr(dot + 1));
  std::string name = stem;
  for (int i = 1; graph.find(name) != nullptr; ++i) name = fmt::format("{}_{}", stem, i);
  return name;
}

// `bindings` and `returned` are in terms of `graph`; `covered` is ascending.
Result<Step> replace_one(const Graph& graph, const RewriteRule& rule, const std::vector<Value>& bindings,
                         const std::vector<NodeId>& covered, NodeId returned) {
  const std::vector<std::vector<NodeId>> users = graph.users();
  if (users[static_cast<size_t>(returned)].empty()) {
    return rewrite_error(rule, "rewrite.no_users",
                         fmt::format("nothing reads {}, which the match returns", graph.node(returned).name),
                         "end the pattern at a value that the graph uses");
  }
  const NodeId before = users[static_cast<size_t>(returned)].front();
  std::vector<char> erased(graph.size(), 0);
  for (const NodeId id : covered) erased[static_cast<size_t>(id)] = 1;

  Step step;
  step.graph.file = graph.file;
  step.graph.storages = graph.storages;
  step.forward.assign(graph.size(), kNoNode);
  const std::string wrapper_name = free_name(graph, rule.wrapper);
  const auto moved = [&](const Value& v) {
    return v.map_nodes([&](NodeId id) { return Value::node(step.forward[static_cast<size_t>(id)]); });
  };
  const auto emit_wrapper = [&] {
    std::vector<Value> args;
    for (const Value& v : rule.arguments) {
      args.push_back(v.map_nodes([&](NodeId index) { return moved(bindings[static_cast<size_t>(index)]); }));
    }
    Node& node = step.graph.add(NodeOp::kCallFunction, rule.wrapper, std::move(args), {}, wrapper_name);
    node.meta = graph.node(returned).meta;
    node.span = graph.node(returned).span;
    for (const NodeId id : covered) {
      for (const StorageId storage : graph.node(id).writes) {
        if (std::find(node.writes.begin(), node.writes.end(), storage) == node.writes.end()) {
          node.writes.push_back(storage);
        }
      }
    }
    step.wrapper = node.id;
    step.forward[static_cast<size_t>(returned)] = node.id;
  };
  for (const auto& old : graph.nodes()) {
    if (old->id == before) emit_wrapper();
    if (erased[static_cast<size_t>(old->id)]) continue;
    std::vector<Value> args;
    for (const Value& v : old->args) args.push_back(moved(v));
    std::vector<std::pair<std::string, Value>> kwargs;
    for (const auto& [key, v] : old->kwargs) kwargs.emplace_back(key, moved(v));
    Node& node = step.graph.add(old->op, old->target, std::move(args), std::move(kwargs), old->name);
    node.meta = old->meta;
    node.writes = old->writes;
    node.span = old->span;
    step.forward[static_cast<size_t>(old->id)] = node.id;
  }
  return step;
}

}  // namespace

RewriteRule rule_with_route(const Graph& pattern, std::string route) {
  RewriteRule rule;
  rule.parameters = pattern.placeholders().size();
  for (size_t i = 0; i < rule.parameters; ++i) rule.arguments.push_back(Value::node(static_cast<NodeId>(i)));
  rule.arguments.push_back(Value::string(std::move(route)));
  return rule;
}

Result<PassResult> apply_pass(const Graph& graph, const Graph& pattern, const RewriteRule& rule) {
  PN_TRY(std::vector<Match> matches, find_matches(pattern, graph));
  PassResult result;
  result.graph = graph.clone();
  // Where each node of `graph` is now; a returned node that was replaced is its wrapper.
  std::vector<NodeId> now(graph.size());
  for (size_t i = 0; i < now.size(); ++i) now[i] = static_cast<NodeId>(i);
  if (!matches.empty()) PN_CHECK_OK(check_rule(pattern, rule));
  for (Match& match : matches) {
    for (const auto& node : pattern.nodes()) {
      if (!is_compute(*node) || match.target_of(node->id) != kNoNode) continue;
      return rewrite_error(rule, "rewrite.unmatched_node",
                           fmt::format("what the pattern returns does not depend on its {}", node->name),
                           "remove the node from the pattern");
    }
    Replaced replaced;
    replaced.covered = covered_nodes(pattern, match);
    std::vector<NodeId> covered;
    for (const NodeId id : replaced.covered) covered.push_back(now[static_cast<size_t>(id)]);
    std::sort(covered.begin(), covered.end());
    std::vector<Value> bindings;
    for (const Value& v : match.placeholder_bindings) {
      NodeId stale = kNoNode;
      if (!v.is_node()) {
        v.for_each_node([&](NodeId id) {
          for (const Replaced& earlier : result.replaced) stale = earlier.match.returned == id ? id : stale;
        });
      }
      if (stale != kNoNode) {
        return rewrite_error(
            rule, "rewrite.stale_binding",
            fmt::format("a parameter binds a list, tuple or slice that holds {}, which an earlier match "
                        "of the same pass replaces; torch.fx leaves it pointing at the node that is gone",
                        graph.node(stale).name),
            "take the items as parameters of the pattern");
      }
      bindings.push_back(v.map_nodes([&](NodeId id) { return Value::node(now[static_cast<size_t>(id)]); }));
    }
    const NodeId returned = now[static_cast<size_t>(match.returned)];
    replaced.legality = judge_region(result.graph, {covered, returned, rule.returns_argument});
    PN_TRY(Step step, replace_one(result.graph, rule, bindings, covered, returned));
    for (NodeId& id : now) {
      if (id != kNoNode) id = step.forward[static_cast<size_t>(id)];
    }
    for (Replaced& earlier : result.replaced)
      earlier.wrapper = step.forward[static_cast<size_t>(earlier.wrapper)];
    replaced.wrapper = step.wrapper;
    replaced.match = std::move(match);
    result.graph = std::move(step.graph);
    result.replaced.push_back(std::move(replaced));
  }
  result.origin.assign(result.graph.size(), kNoNode);
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i] != kNoNode) result.origin[static_cast<size_t>(now[i])] = static_cast<NodeId>(i);
  }
  for (const Replaced& replaced : result.replaced)
    result.origin[static_cast<size_t>(replaced.wrapper)] = kNoNode;
  return result;
}

}  // namespace passnet
