#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/explain.h"
#include "solve/solve.h"

namespace passnet {
namespace {

const VariantPrediction* prediction_of(const PlanResult& plan, std::string_view name) {
  for (const VariantPrediction& v : plan.variants) {
    if (v.name == name) return &v;
  }
  return nullptr;
}

bool is_floor(const SolvedState& state) { return state.kind == "floor"; }

double predicted_us(const SolvedState& state, const VariantPrediction& v) {
  return is_floor(state) ? v.floor_us : v.upside_us;
}

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

std::string_view sign(const Proof* proof) {
  if (proof == nullptr) return "-";
  switch (proof->state) {
    case Proof::State::kProven: return "yes";
    case Proof::State::kFailed: return "FAILED";
    case Proof::State::kNotProven: return "-";
  }
  return "-";
}

std::string_view meaning(StopReason reason) {
  switch (reason) {
    case StopReason::kPreflightOnly:
      return "no GPU was used: the best state that passed its pre-flight stands; speeds are predictions";
    case StopReason::kNoRegion: return "some variant has no region that a pass could legally replace";
    case StopReason::kNothingGreen: return "no state passed its pre-flight";
  }
  return "";
}

// What was proven over all variants, once each: "numerics: interpreter on the CPU, 3 of 9 variants".
std::vector<std::string> proof_summary(const PreflightReport& report) {
  std::vector<std::string> lines;
  for (const std::string_view subject : {"structure", "source_rules", "poison", "numerics", "speed"}) {
    size_t proven = 0, failed = 0;
    std::vector<std::string> by;
    for (const VariantProof& variant : report.variants) {
      const Proof* proof = variant.find(subject);
      if (proof == nullptr) continue;
      proven += proof->state == Proof::State::kProven;
      failed += proof->state == Proof::State::kFailed;
      if (proof->state == Proof::State::kProven && std::find(by.begin(), by.end(), proof->by) == by.end())
        by.push_back(proof->by);
    }
    std::string line = fmt::format("  {:<13} {} of {} variants", subject, proven, report.variants.size());
    if (!by.empty()) line += fmt::format(", by {}", fmt::join(by, "; "));
    if (failed > 0) line += fmt::format("; FAILED on {}", failed);
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace

Json to_json(const Proof& proof) {
  Json json = {{"subject", proof.subject}, {"state", to_string(proof.state)}};
  json["by"] = proof.by.empty() ? Json(nullptr) : Json(proof.by);
  if (!proof.note.empty()) json["note"] = proof.note;
  return json;
}

Json to_json(const SolveReport& report) {
  Json json = Json::object();
  json["sample"] = report.sample;
  json["score"] = nullptr;  // only a completed evaluation gives one
  json["evaluations_used"] = 0;
  json["stop_reason"] = to_string(report.stop);
  json["strategy"] = report.plan.strategy;
  json["pass_files"] = report.files;
  json["analysis_ms"] = report.analysis_ms;
  Json variants = Json::array();
  bool all_matched = report.chosen.has_value();
  double log_sum = 0;
  if (report.chosen) {
    const SolvedState& state = report.states[*report.chosen];
    for (const VariantProof& variant : state.preflight.variants) {
      Json entry = {{"name", variant.name},
                    {"matched", variant.matched},
                    {"matches", variant.matches},
                    {"green", variant.green()}};
      Json proofs = Json::array();
      for (const Proof& proof : variant.proofs) proofs.push_back(to_json(proof));
      entry["proven"] = std::move(proofs);
      if (const VariantPrediction* v = prediction_of(report.plan, variant.name)) {
        entry["predicted"] = {{"eager_us", v->eager_us},
                              {"compiled_us", predicted_us(state, *v)},
                              {"speedup", ratio(v->eager_us, predicted_us(state, *v))},
                              {"legal_ceiling", ratio(v->eager_us, v->ceiling_us)}};
      }
      all_matched &= variant.matched;
      variants.push_back(std::move(entry));
    }
    log_sum = state.predicted_speedup;
  }
  json["pass_matched"] = all_matched;
  json["variants"] = std::move(variants);
  json["predicted"] = {
      {"gmean_speedup", log_sum > 0 ? Json(log_sum) : Json(nullptr)},
      {"legal_ceiling", report.plan.gmean_ceiling > 0 ? Json(report.plan.gmean_ceiling) : Json(nullptr)}};
  Json states = Json::array();
  for (size_t i = 0; i < report.states.size(); ++i) {
    const SolvedState& state = report.states[i];
    Json failures = Json::array();
    for (const PassFailure& failure : state.preflight.failures)
      failures.push_back({{"pass", failure.pass}, {"why", to_json(failure.why)}});
    states.push_back({{"kind", state.kind},
                      {"hash", state.hash},
                      {"passes", state.passes},
                      {"predicted_speedup", state.predicted_speedup},
                      {"green", state.preflight.green()},
                      {"chosen", report.chosen == i},
                      {"failures", std::move(failures)}});
  }
  json["states"] = std::move(states);
  Json blocked = Json::array();
  for (const Refusal& refusal : report.plan.blocked) blocked.push_back(to_json(refusal));
  json["blocked"] = std::move(blocked);
  json["plan"] = to_json(report.plan);
  return json;
}

std::string to_text(const SolveReport& report) {
  std::string text = fmt::format("{}: {}\n\n", report.sample,
                                 report.green()  ? "green"
                                 : report.chosen ? "red: not every variant is green"
                                                 : "red: no pass_dir was written");
  if (report.chosen) {
    const SolvedState& state = report.states[*report.chosen];
    text +=
        "variant               matched  poison   numerics   eager us  predicted us  speedup  legal ceiling\n";
    for (const VariantProof& variant : state.preflight.variants) {
      const VariantPrediction* v = prediction_of(report.plan, variant.name);
      text += fmt::format("{:<22}{:<9}{:<9}{:<11}", variant.name,
                          variant.matched ? fmt::format("yes ({})", variant.matches) : "NO",
                          sign(variant.find("poison")), sign(variant.find("numerics")));
      if (v != nullptr) {
        text += fmt::format("{:>8.1f}  {:>12.1f}  {:>7.2f}  {:>13.2f}", v->eager_us, predicted_us(state, *v),
                            ratio(v->eager_us, predicted_us(state, *v)), ratio(v->eager_us, v->ceiling_us));
      }
      text += "\n";
    }
    text += fmt::format("\nState in force: {} ({}), passes {}\n", state.kind, state.hash,
                        fmt::join(state.passes, ", "));
    text += fmt::format("Files: {}\n", fmt::join(report.files, ", "));
    text += "What was proven:\n";
    for (const std::string& line : proof_summary(state.preflight)) text += line + "\n";
    for (const VariantProof& variant : state.preflight.variants) {
      for (const Proof& proof : variant.proofs) {
        if (proof.state == Proof::State::kFailed)
          text += fmt::format("  {} {}: {}\n", variant.name, proof.subject, proof.note);
      }
    }
  }
  for (const SolvedState& state : report.states) {
    std::set<std::string> told;
    for (const PassFailure& failure : state.preflight.failures) {
      if (!told.insert(failure.pass).second) continue;
      text += fmt::format("Refused in the {}: {}: {}\n", state.kind, failure.pass, failure.why.message);
    }
  }
  text += fmt::format("\n{}\n", report.plan.strategy);
  text += fmt::format(
      "\nScore: none (no evaluation). Predicted speedup {:.2f}, legal ceiling {:.2f}. Evaluations used: 0.\n",
      report.chosen ? report.states[*report.chosen].predicted_speedup : 0.0, report.plan.gmean_ceiling);
  text += fmt::format("Stopped: {}. Analysis took {:.0f} ms.\n", meaning(report.stop), report.analysis_ms);
  return text;
}

}  // namespace passnet
