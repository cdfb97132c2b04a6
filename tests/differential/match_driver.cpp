// Reads one JSON object a line, {"pattern": graph, "target": graph, "rewrite": bool}, and answers each with
// {"matches": [{"nodes": [[pattern, target], ...], "bindings": [...], "returning": [...]}]} or {"error":
// code}; with `rewrite` also {"rewritten": graph} or {"rewrite_error": code}. Bindings are {"node": name} or
// Python's text.

#include <iostream>
#include <string>

#include "base/json.h"
#include "match/matcher.h"
#include "match/rewrite.h"

namespace passnet {
namespace {

Json binding_json(const Value& v, const Graph& target) {
  if (v.is_node()) return Json{{"node", target.node(v.as_node()).name}};
  return python_text(v, [&](NodeId id) { return target.node(id).name; });
}

Result<Json> answer(std::string_view line) {
  PN_TRY(const Json question, parse_json(line));
  PN_TRY(const Graph pattern, graph_from_json(question.at("pattern")));
  PN_TRY(const Graph target, graph_from_json(question.at("target")));
  PN_TRY(const std::vector<Match> found, find_matches(pattern, target));
  Json matches = Json::array();
  for (const Match& match : found) {
    Json nodes = Json::array(), bindings = Json::array(), returning = Json::array();
    for (const auto& [p, g] : match.nodes) nodes.push_back({pattern.node(p).name, target.node(g).name});
    for (const Value& v : match.placeholder_bindings) bindings.push_back(binding_json(v, target));
    for (const NodeId id : match.returning) {
      returning.push_back(id == kNoNode ? Json(nullptr) : Json(target.node(id).name));
    }
    matches.push_back({{"nodes", nodes}, {"bindings", bindings}, {"returning", returning}});
  }
  Json out{{"matches", matches}};
  if (question.value("rewrite", false)) {
    const Result<PassResult> result = apply_pass(target, pattern, rule_with_route(pattern, "route"));
    if (result.ok()) {
      out["rewritten"] = to_json(result->graph);
    } else {
      out["rewrite_error"] = result.error().code;
    }
  }
  return out;
}

}  // namespace
}  // namespace passnet

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const passnet::Result<passnet::Json> out = passnet::answer(line);
    std::cout << (out.ok()
                      ? passnet::dump_json(*out)
                      : passnet::dump_json({{"error", out.error().code}, {"message", out.error().message}}))
              << "\n";
  }
  return 0;
}
