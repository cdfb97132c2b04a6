#include "check/traced_pass.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/json.h"
#include "check/check.h"
#include "check/rules.h"
#include "ops/core.h"

namespace passnet::check {

namespace {

// What replacement_args made of its parameters: one call, whose arguments are parameters and literals.
Status read_replacement(const Json& replacement, ReadPass& out) {
  PN_TRY(const Graph graph, graph_from_json(replacement));
  const std::vector<NodeId> placeholders = graph.placeholders();
  const Node* call = nullptr;
  for (const auto& node : graph.nodes()) {
    if (node->op == NodeOp::kPlaceholder || node->op == NodeOp::kOutput) continue;
    if (call != nullptr) {
      out.findings.push_back(
          broken("args.impure", fmt::format("replacement_args computes ({})", call->target))
              .at(out.name + ".py"));
      return user_error("args.impure", "replacement_args computes");
    }
    call = node.get();
  }
  if (call == nullptr) return user_error("check.not_interpreted", "replacement_args makes no call");
  out.rule.parameters = placeholders.size();
  for (const Value& v : call->args) {
    out.rule.arguments.push_back(v.map_nodes([&](NodeId id) {
      const auto at = std::find(placeholders.begin(), placeholders.end(), id);
      return Value::node(static_cast<NodeId>(at - placeholders.begin()));
    }));
  }
  return ok_status();
}

}  // namespace

ReadPass traced_pass(const Json& entry) {
  ReadPass out;
  out.name = entry.value("pass", "");
  out.rule.name = out.name;
  out.form = entry.value("hand_built", false) ? ReadPass::Form::kHandBuilt : ReadPass::Form::kTraced;
  const auto refuse = [&](const std::string& message) {
    out.findings.push_back(
        user_error("check.trace", fmt::format("{} cannot be traced: {}", out.name, message))
            .at(out.name + ".py")
            .with_hint("the harness traces it the same way and fails alike; correct the pattern"));
  };
  if (entry.contains("error") && entry["error"].is_object()) {
    refuse(entry["error"].value("message", "torch raises"));
    return out;
  }
  for (const Json& name : entry.value("parameters", Json::array()))
    out.parameters.push_back(name.get<std::string>());
  Result<Graph> pattern = graph_from_json(entry.value("pattern", Json::object()));
  if (!pattern.ok()) {
    refuse(pattern.error().message);
    return out;
  }
  out.pattern = std::move(pattern).value();
  if (out.pattern.output() == nullptr || out.pattern.inputs_of(out.pattern.output()->id).size() != 1) {
    out.findings.push_back(broken("contract.one_output", "pattern returns another number of values than one")
                               .at(out.name + ".py"));
    return out;
  }
  if (const Status status = check_pattern(out.pattern); !status.ok()) {
    out.findings.push_back(broken("pattern.dead_code", status.error().message).at(out.name + ".py"));
    return out;
  }
  for (const auto& node : out.pattern.nodes()) {
    if (is_random(*node))
      out.findings.push_back(
          broken("pattern.random", fmt::format("{} ({}) draws random numbers", node->name, node->target))
              .at(out.name + ".py"));
  }
  if (const Status status = read_replacement(entry.value("replacement", Json::object()), out); !status.ok()) {
    if (out.findings.empty()) refuse(status.error().message);
    return out;
  }
  out.readable = true;
  return out;
}

Json reference_programs(const std::vector<ReadPass>& passes, const Variant& variant) {
  struct CallAt {
    size_t pass = 0;
    NodeId node = kNoNode;  // the wrapper's, in the graph as rewritten so far
    Json program;
  };
  std::map<std::string, Json> out;
  for (const Graph& captured : variant.graphs) {
    Graph rewritten = captured.clone();
    std::vector<NodeId> original(captured.size());
    for (size_t n = 0; n < original.size(); ++n) original[n] = static_cast<NodeId>(n);
    std::vector<CallAt> calls;
    for (size_t p = 0; p < passes.size(); ++p) {
      if (!passes[p].readable) continue;
      Result<PassResult> applied = apply_pass(rewritten, passes[p].pattern, passes[p].rule);
      if (!applied.ok() || applied->replaced.empty()) continue;
      std::vector<NodeId> now(applied->graph.size(), kNoNode), moved(rewritten.size(), kNoNode);
      for (size_t n = 0; n < now.size(); ++n) {
        if (applied->origin[n] == kNoNode) continue;
        now[n] = original[static_cast<size_t>(applied->origin[n])];
        moved[static_cast<size_t>(applied->origin[n])] = static_cast<NodeId>(n);
      }
      for (CallAt& call : calls) call.node = moved[static_cast<size_t>(call.node)];
      for (const Replaced& replaced : applied->replaced) {
        const std::vector<Value>& bindings = replaced.match.placeholder_bindings;
        std::vector<NodeId> inputs, nodes;
        for (const Value& argument : passes[p].rule.arguments) {
          if (!argument.is_node() || static_cast<size_t>(argument.as_node()) >= bindings.size()) continue;
          const Value& bound = bindings[static_cast<size_t>(argument.as_node())];
          if (bound.is_node()) inputs.push_back(original[static_cast<size_t>(bound.as_node())]);
        }
        for (const NodeId id : replaced.covered) nodes.push_back(original[static_cast<size_t>(id)]);
        std::sort(nodes.begin(), nodes.end());
        const NodeId root = original[static_cast<size_t>(replaced.match.returned)];
        CallAt call{p, replaced.wrapper, nullptr};
        if (Result<Program> program = lower_region(captured, nodes, root, inputs); program.ok())
          call.program = program->to_json();
        now[static_cast<size_t>(replaced.wrapper)] = root;
        calls.push_back(std::move(call));
      }
      rewritten = std::move(applied->graph);
      original = std::move(now);
    }
    std::stable_sort(calls.begin(), calls.end(),
                     [](const CallAt& a, const CallAt& b) { return a.node < b.node; });
    for (CallAt& call : calls) {
      Json& list = out.try_emplace(passes[call.pass].name, Json::array()).first->second;
      list.push_back(std::move(call.program));
    }
  }
  Json json = Json::object();
  for (auto& [name, list] : out) json[name] = std::move(list);
  return json;
}

}  // namespace passnet::check
