#include <fmt/format.h>

#include "base/json.h"
#include "check/check.h"

namespace passnet::check {

namespace {

std::string_view name_of(Proof proof) {
  switch (proof) {
    case Proof::kGreen: return "green";
    case Proof::kRed: return "red";
    case Proof::kNotProven: return "not_proven";
  }
  return "not_proven";
}

Json graph_json(const GraphReport& graph) {
  Json passes = Json::array();
  for (const PassMatches& entry : graph.passes) {
    Json matches = Json::array();
    for (const MatchReport& match : entry.matches) {
      matches.push_back(
          {{"nodes", match.nodes},
           {"returned", match.returned},
           {"bindings", match.bindings},
           {"wrapper",
            {{"followed", match.wrapper_followed},
             {"stopped", match.wrapper_followed ? Json(nullptr) : Json(match.wrapper_stopped)}}},
           {"legal", to_json(match.legality.verdict)}});
    }
    passes.push_back({{"pass", entry.pass}, {"matches", matches}, {"near_misses", entry.near_misses}});
  }
  return Json{{"matched", graph.matched}, {"passes", passes}};
}

Json repair_json(const CheckReport& report, const ReadPass& pass) {
  const auto at = report.repairs.find(pass.name);
  if (at == report.repairs.end()) return nullptr;
  const Result<std::string> text = built_text(pass, at->second);
  if (!text.ok()) return nullptr;
  return Json{{"pattern", *text}, {"literals", at->second.literals}};
}

}  // namespace

Json to_json(const CheckReport& report) {
  Json passes = Json::array();
  for (const ReadPass& pass : report.passes) {
    static constexpr std::string_view kForms[] = {"unknown", "hand_built", "traced"};
    Json arguments = Json::array();
    for (const Value& v : pass.rule.arguments) {
      arguments.push_back(python_text(v, [&](NodeId id) {
        return static_cast<size_t>(id) < pass.parameters.size() ? pass.parameters[static_cast<size_t>(id)]
                                                                : "?";
      }));
    }
    passes.push_back(
        {{"name", pass.name},
         {"form", kForms[static_cast<size_t>(pass.form)]},
         {"readable", pass.readable},
         {"read_by", !pass.readable ? Json(nullptr) : Json(pass.run_elsewhere ? "worker" : "native")},
         {"repair", repair_json(report, pass)},
         {"parameters", pass.parameters},
         {"arguments", arguments},
         {"function", pass.function},
         {"pattern", pass.readable ? Json(print(pass.pattern)) : Json(nullptr)}});
  }
  Json variants = Json::array();
  for (const VariantReport& variant : report.variants) {
    Json graphs = Json::array();
    for (const GraphReport& graph : variant.graphs) graphs.push_back(graph_json(graph));
    variants.push_back({{"name", variant.name}, {"matched", variant.matched()}, {"graphs", graphs}});
  }
  Json subjects = Json::object();
  for (const Subject& subject : report.subjects) {
    subjects[subject.name] = {{"proof", name_of(subject.proof)},
                              {"by", subject.by.empty() ? Json(nullptr) : Json(subject.by)}};
  }
  return Json{{"schema", "passnet.check/1"},
              {"status", report.green() ? "green" : "red"},
              {"findings", findings_to_json(report.findings)},
              {"order", report.order},
              {"passes", passes},
              {"variants", variants},
              {"subjects", subjects}};
}

}  // namespace passnet::check
