#include <algorithm>
#include <optional>
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

double predicted_us(const SolvedState& state, const std::string& variant) {
  const auto it = state.predicted_us.find(variant);
  return it == state.predicted_us.end() ? 0 : it->second;
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

using passnet::or_null;  // the overloads below would hide it
Json or_null(const std::optional<Interval>& r) {
  return r ? Json({r->value, r->low, r->high}) : Json(nullptr);
}
Json or_null(const std::optional<Decision>& d) { return d ? Json(to_string(*d)) : Json(nullptr); }

double share_of_ceiling(const SolveReport& report) {
  return report.score && report.plan.gmean_ceiling > 0 ? *report.score / report.plan.gmean_ceiling : 0;
}

Json evaluations_json(const SolveReport& report) {
  Json out = Json::array();
  for (size_t i = 0; i < report.evaluations.size(); ++i) {
    const EvaluationNote& note = report.evaluations[i];
    Json entry = {{"number", i + 1},
                  {"change", note.change},
                  {"state", note.state ? Json(report.states[*note.state].hash) : Json(nullptr)},
                  {"contenders", note.contenders},
                  {"variants", note.variants},
                  {"unmeasured", note.unmeasured},
                  {"correct", note.correct},
                  {"predicted_speedup", note.predicted},
                  {"measured_speedup", or_null(note.speedup)},
                  {"ratio_to_best", or_null(note.ratio)},
                  {"decision", or_null(note.decision)},
                  {"seconds", note.seconds},
                  {"records", note.folder.empty() ? Json(nullptr) : Json(note.folder)}};
    if (note.decision) {
      entry["kept"] = kept(*note.decision);
      entry["reason"] = meaning(*note.decision);
    }
    if (!note.error.empty()) entry["error"] = note.error;
    if (!note.wrong.empty()) entry["wrong"] = note.wrong;
    out.push_back(std::move(entry));
  }
  return out;
}

Json calibration_json(const SolveReport& report) {
  Json out = Json::array();
  for (const Calibration::Change& change : report.calibration)
    out.push_back({{"field", change.field}, {"from", change.from}, {"to", change.to}});
  return out;
}

// Predicted and measured side by side, and why each state was kept or not.
std::string evaluations_text(const SolveReport& report) {
  if (report.evaluations.empty()) return "";
  std::string text =
      "\nEvaluations\n  #  change                        variants  correct  predicted  measured  against the "
      "best "
      "before\n";
  for (size_t i = 0; i < report.evaluations.size(); ++i) {
    const EvaluationNote& note = report.evaluations[i];
    text += fmt::format("{:>3}  {:<30}{:>8}", i + 1, note.change, note.variants);
    if (!note.error.empty()) {
      text += fmt::format("  failed: {}\n", note.error);
      continue;
    }
    text += note.state ? fmt::format("{:>9}{:>11.2f}{:>10}", note.correct, note.predicted,
                                     note.speedup ? fmt::format("{:.2f}", *note.speedup) : "-")
                       : fmt::format("{:>30}", "");
    if (note.ratio)
      text +=
          fmt::format("  {:.3f} ({:.3f} to {:.3f})", note.ratio->value, note.ratio->low, note.ratio->high);
    if (note.unmeasured > 0) text += fmt::format("  {} variants left out by the time limit", note.unmeasured);
    text += "\n";
    if (note.decision)
      text +=
          fmt::format("     {}: {}\n", kept(*note.decision) ? "kept" : "taken back", meaning(*note.decision));
    for (const std::string& wrong : note.wrong) text += fmt::format("     {}\n", wrong);
  }
  for (const Calibration::Change& change : report.calibration)
    text += fmt::format("Recalibrated: {} {:.4g} instead of {:.4g}\n", change.field, change.to, change.from);
  if (!report.pins.empty())
    text +=
        fmt::format("Tuned: {} kernel entries have other numbers than the generator's\n", report.pins.size());
  return text;
}

std::string sensitivity_text(const Sensitivity& sensitivity) {
  if (sensitivity.flips.empty())
    return sensitivity.left_out.empty() ? "The choice is the same with every cost times 0.8 and 1.25.\n" : "";
  std::string text = "Choices that flip with a cost\n";
  for (const Flip& flip : sensitivity.flips)
    text += fmt::format("  {} times {}: {}{}{}\n", flip.cost, flip.factor,
                        flip.gained.empty() ? "" : fmt::format("gains {}", fmt::join(flip.gained, ", ")),
                        flip.gained.empty() || flip.lost.empty() ? "" : "; ",
                        flip.lost.empty() ? "" : fmt::format("loses {}", fmt::join(flip.lost, ", ")));
  return text;
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
  json["score"] = or_null(report.score);  // only a completed evaluation on a GPU gives one
  json["evaluations_used"] = report.evaluations.size();
  json["stop_reason"] = to_string(report.stop);
  json["strategy"] = report.plan.strategy;
  json["pass_files"] = report.files;
  json["analysis_ms"] = report.analysis_ms;
  json["seconds"] = report.seconds;
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
                              {"compiled_us", predicted_us(state, v->name)},
                              {"speedup", ratio(v->eager_us, predicted_us(state, v->name))},
                              {"legal_ceiling", ratio(v->eager_us, v->ceiling_us)}};
      }
      if (const auto it = state.measured.find(variant.name); it != state.measured.end()) {
        const Measurement& m = it->second;
        entry["measured"] = {
            {"outcome", m.outcome},
            {"correct", m.correct},
            {"comparable", state.comparable},
            {"eager_us", or_null(m.eager_us)},
            {"compiled_us", or_null(m.time_us)},
            {"speedup", m.eager_us && m.time_us ? Json(ratio(*m.eager_us, *m.time_us)) : Json()}};
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
                      {"measured_speedup", or_null(state.measured_speedup)},
                      {"decision", or_null(state.decision)},
                      {"failures", std::move(failures)}});
  }
  json["states"] = std::move(states);
  json["evaluations"] = evaluations_json(report);
  json["calibration"] = calibration_json(report);
  json["tuning"] = report.pins;
  json["sensitivity"] = report.sensitivity ? to_json(*report.sensitivity) : Json(nullptr);
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
        "variant               matched  poison   numerics   eager us  predicted us  speedup  legal ceiling";
    text += !state.measured.empty() && state.comparable ? "  measured: eager us  state us  speedup\n" : "\n";
    for (const VariantProof& variant : state.preflight.variants) {
      const VariantPrediction* v = prediction_of(report.plan, variant.name);
      text += fmt::format("{:<22}{:<9}{:<9}{:<11}", variant.name,
                          variant.matched ? fmt::format("yes ({})", variant.matches) : "NO",
                          sign(variant.find("poison")), sign(variant.find("numerics")));
      if (v != nullptr) {
        text +=
            fmt::format("{:>8.1f}  {:>12.1f}  {:>7.2f}  {:>13.2f}", v->eager_us, predicted_us(state, v->name),
                        ratio(v->eager_us, predicted_us(state, v->name)), ratio(v->eager_us, v->ceiling_us));
      }
      if (const auto it = state.measured.find(variant.name); it != state.measured.end()) {
        const Measurement& m = it->second;
        text += state.comparable && m.correct && m.eager_us && m.time_us
                    ? fmt::format("  {:>18.1f}  {:>8.1f}  {:>7.2f}", *m.eager_us, *m.time_us,
                                  ratio(*m.eager_us, *m.time_us))
                    : fmt::format("  {}", m.outcome);
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
  text += evaluations_text(report);
  const double predicted = report.chosen ? report.states[*report.chosen].predicted_speedup : 0.0;
  if (report.score) {
    const SolvedState& state = report.states[*report.chosen];
    text += fmt::format(
        "\nScore {:.3f} over {} of {} variants, {:.0f}% of the legal ceiling {:.2f}; predicted {:.2f}. "
        "Evaluations "
        "used: {}.\n",
        *report.score, state.measured.size(), state.preflight.variants.size(), 100 * share_of_ceiling(report),
        report.plan.gmean_ceiling, predicted, report.evaluations.size());
  } else {
    text += fmt::format(
        "\nScore: none ({}). Predicted speedup {:.2f}, legal ceiling {:.2f}. Evaluations used: {}.\n",
        report.evaluations.empty() ? "no evaluation" : "no evaluation whose times count", predicted,
        report.plan.gmean_ceiling, report.evaluations.size());
  }
  if (report.sensitivity) text += sensitivity_text(*report.sensitivity);
  text += fmt::format("Stopped: {}. Analysis took {:.0f} ms.\n", meaning(report.stop), report.analysis_ms);
  return text;
}

}  // namespace passnet
