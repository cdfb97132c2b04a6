#include <algorithm>

#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/strings.h"
#include "score/report.h"
#include "score/slow.h"

namespace passnet::score {
namespace {

bool is_correct(const Judged& j) { return j.outcome == Outcome::kOk || j.outcome == Outcome::kSlow; }

std::string number(const std::optional<double>& v, int digits = 3) {
  return v ? fmt::format("{:.{}f}", *v, digits) : "-";
}

std::string max_of(const std::vector<double>& values) {
  if (values.empty()) return "-";
  double worst = 0;
  for (const double v : values) worst = std::isnan(v) || v > worst ? v : worst;
  return fmt::format("{:.3g}", worst);
}

std::string passes_of(const Measured& m) {
  std::vector<std::string> out;
  for (const PassTrace& p : m.passes) {
    if (p.crashed)
      out.push_back(p.name + " crashed");
    else if (p.applied > 0)
      out.push_back(fmt::format("{} x{}", p.name, p.applied));
  }
  const auto missed = std::count_if(m.passes.begin(), m.passes.end(),
                                    [](const PassTrace& p) { return p.failed && p.applied == 0; });
  if (missed > 0) out.push_back(fmt::format("{} not matched", missed));
  return out.empty() ? "-" : fmt::format("{}", fmt::join(out, ", "));
}

struct Column {
  std::string_view title;
  std::string (*text)(const ScoredVariant& v);
};

constexpr Column kColumns[] = {
    {"variant",
     [](const ScoredVariant& v) {
       return v.measured.sample.empty() ? v.measured.variant : v.measured.sample + "/" + v.measured.variant;
     }},
    {"compiler",
     [](const ScoredVariant& v) {
       return v.measured.compiler.empty() ? std::string("-") : v.measured.compiler;
     }},
    {"dtype",
     [](const ScoredVariant& v) { return v.measured.dtype.empty() ? std::string("-") : v.measured.dtype; }},
    {"status",
     [](const ScoredVariant& v) {
       return std::string(row(v.judged.outcome).name) + (v.judged.estimated ? " (est.)" : "");
     }},
    {"e2e", [](const ScoredVariant& v) { return number(v.judged.speedup); }},
    {"gpu", [](const ScoredVariant& v) { return number(v.measured.speedup_gpu); }},
    {"eager us", [](const ScoredVariant& v) { return number(v.measured.eager.e2e_us, 1); }},
    {"compiled us", [](const ScoredVariant& v) { return number(v.measured.compiled.e2e_us, 1); }},
    {"max_diff", [](const ScoredVariant& v) { return max_of(v.measured.max_diff); }},
    {"from t",
     [](const ScoredVariant& v) {
       return v.judged.first_correct_t ? fmt::format("{}", *v.judged.first_correct_t) : std::string("-");
     }},
    {"alone", [](const ScoredVariant& v) { return fmt::format("{:.4f}", v.alone); }},
    {"if 1.0",
     [](const ScoredVariant& v) {
       return is_correct(v.judged) ? std::string("-") : fmt::format("{:.4f}", v.if_fixed);
     }},
    {"passes", [](const ScoredVariant& v) { return passes_of(v.measured); }},
};

std::vector<std::vector<std::string>> cells(const ScoreReport& report) {
  std::vector<std::vector<std::string>> out(1);
  for (const Column& c : kColumns) out[0].emplace_back(c.title);
  for (const ScoredVariant& v : report.variants) {
    out.emplace_back();
    for (const Column& c : kColumns) out.back().push_back(c.text(v));
  }
  return out;
}

std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> width;
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      if (i >= width.size()) width.push_back(0);
      width[i] = std::max(width[i], row[i].size());
    }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      line += i + 1 == row.size() ? row[i] : fmt::format("{:<{}}  ", row[i], width[i]);
    out += std::string(line.substr(0, line.find_last_not_of(' ') + 1)) + "\n";
  }
  return out;
}

std::string markdown(const std::vector<std::vector<std::string>>& rows) {
  std::string out;
  for (size_t i = 0; i < rows.size(); ++i) {
    out += "|";
    for (const std::string& cell : rows[i]) out += " " + replace_all(cell, "|", "\\|") + " |";
    out += "\n";
    if (i == 0) {
      out += "|";
      for (size_t k = 0; k < rows[0].size(); ++k) out += "---|";
      out += "\n";
    }
  }
  return out;
}

std::vector<std::vector<std::string>> summary_cells(const ScoreReport& report) {
  std::vector<std::vector<std::string>> out = {{"compiler", "score", "public score", "gmean", "correct", "of",
                                                ">= 1", "fast_1", "all at 1.0", "eager stable", "score there",
                                                "fixed us"}};
  for (const CompilerScore& c : report.compilers) {
    out.push_back({c.compiler.empty() ? "-" : c.compiler,
                   fmt::format("{:.5f}{}", c.score, c.estimated ? " (est.)" : ""),
                   fmt::format("{:.5f}", c.public_score), number(c.gmean, 4), std::to_string(c.correct),
                   std::to_string(c.variants.size()), std::to_string(c.at_least_1),
                   c.correct > 0 ? fmt::format("{:.3f}", static_cast<double>(c.at_least_1) / c.correct) : "-",
                   fmt::format("{:.5f}", c.if_failing_were_1),
                   c.stable ? fmt::format("{} of {}", c.stable->correct, c.stable->variants) : "-",
                   c.stable ? fmt::format("{:.5f}", c.stable->score) : "-", number(c.fixed_cost_us, 1)});
  }
  return out;
}

std::vector<std::vector<std::string>> curve_cells(const ScoreReport& report) {
  std::vector<std::vector<std::string>> out(1);
  out[0].emplace_back("ES(t)");
  for (int t = kFirstT; t <= kLastT; ++t) out[0].push_back(std::to_string(t));
  for (const CompilerScore& c : report.compilers) {
    out.push_back({c.compiler.empty() ? "-" : c.compiler});
    for (const double es : c.curve) out.back().push_back(fmt::format("{:.3f}", es));
  }
  return out;
}

std::string failures(const ScoreReport& report, std::string_view bullet) {
  std::map<std::string_view, std::vector<const ScoredVariant*>> by;
  for (const ScoredVariant& v : report.variants)
    if (!is_correct(v.judged)) by[row(v.judged.outcome).failure].push_back(&v);
  std::string out;
  for (const auto& [id, variants] : by) {
    const FailureClass* f = find_failure_class(id);
    out += fmt::format("{}{}: {} variant{}; {} ({})\n", bullet, id, variants.size(),
                       variants.size() == 1 ? "" : "s", f != nullptr ? f->fix : "",
                       f != nullptr ? f->where : "");
    for (size_t i = 0; i < variants.size() && i < 3; ++i) {
      const ScoredVariant& v = *variants[i];
      std::string why = v.judged.evidence.empty() ? "" : v.judged.evidence.front();
      if (why.size() > 200) why = why.substr(0, 200) + " ...";
      out += fmt::format("    {} {}: {}\n", v.measured.variant, v.measured.compiler, why);
      for (const PassTrace& p : v.measured.passes)
        for (size_t d = 0; d < p.diagnosis.size() && d < 2; ++d)
          out += fmt::format("      {}: {}\n", p.name, p.diagnosis[d]);
    }
  }
  return out;
}

std::string closing(const ScoreReport& report, std::string_view bullet) {
  std::string out = failures(report, bullet);
  for (const ScoredVariant& v : report.variants) {
    const Measured& m = v.measured;
    if (m.versus_ratio)
      out += fmt::format("{}{}: {} takes {:.4f} times as long as {}, 90% [{}, {}]\n", bullet, m.variant,
                         m.versus, *m.versus_ratio, m.compiler, number(m.versus_low, 4),
                         number(m.versus_high, 4));
  }
  for (const auto& [compiler, guide] : report.advice)
    out += fmt::format("{}{}: {} -> {}: {}\n", bullet, compiler.empty() ? "-" : compiler, guide->signal,
                       guide->diagnosis, guide->action);
  for (const FamilyCounts& f : report.families) {
    out += fmt::format(
        "{}family {}: {} completed, {} above eager, {} correct but slow, {} blocked by numeric pre-flight, "
        "{} regressed on a larger region, {} larger regions tried, {} evaluator instability\n",
        bullet, f.family, f.completed_workers, f.score_above_eager, f.correct_but_slow,
        f.numeric_preflight_blocked, f.correctness_regressed_on_larger_region, f.larger_region_attempted,
        f.evaluator_instability);
  }
  for (const LogFacts& log : report.logs) {
    if (log.aggregated) out += fmt::format("{}the log's own score: {}\n", bullet, *log.aggregated);
    for (const std::string& hint : log.hints) out += fmt::format("{}{}\n", bullet, hint);
  }
  if (report.service_score)
    out += fmt::format("{}the service's score, which counts: {}\n", bullet, *report.service_score);
  return out;
}

Json variant_json(const ScoredVariant& v) {
  const Measured& m = v.measured;
  const Judged& j = v.judged;
  const OutcomeRow& o = row(j.outcome);
  Json passes = Json::array();
  for (const PassTrace& p : m.passes)
    passes.push_back({{"pass", p.name},
                      {"applied", p.applied},
                      {"failed", p.failed},
                      {"crashed", p.crashed},
                      {"diagnosis", p.diagnosis}});
  Json diffs = Json::array();
  for (const double d : m.max_diff) diffs.push_back(std::isfinite(d) ? Json(d) : Json(fmt::format("{}", d)));
  const FailureClass* f = find_failure_class(o.failure);
  return {{"sample", m.sample},
          {"variant", m.variant},
          {"compiler", m.compiler},
          {"dtype", m.dtype},
          {"source", to_string(m.source)},
          {"outcome", o.name},
          {"verdict", o.verdict},
          {"public_status", to_string(j.public_status)},
          {"failure", o.failure.empty() ? Json() : Json(o.failure)},
          {"fix", f != nullptr ? Json(f->fix) : Json()},
          {"estimated", j.estimated},
          {"correct", is_correct(j)},
          {"first_correct_t", j.first_correct_t ? Json(*j.first_correct_t) : Json()},
          {"speedup_e2e", or_null(j.speedup)},
          {"speedup_gpu", or_null(m.speedup_gpu)},
          {"eager_e2e_us", or_null(m.eager.e2e_us)},
          {"eager_gpu_us", or_null(m.eager.gpu_us)},
          {"compiled_e2e_us", or_null(m.compiled.e2e_us)},
          {"compiled_gpu_us", or_null(m.compiled.gpu_us)},
          {"max_diff", diffs},
          {"passes", passes},
          {"score_alone", v.alone},
          {"score_if_fixed", v.if_fixed},
          {"eager_equals_itself", m.eager_equals_itself ? Json(*m.eager_equals_itself) : Json()},
          {"comparable", m.comparable ? Json(*m.comparable) : Json()},
          {"versus", m.versus_ratio ? Json{{"compiler", m.versus},
                                           {"ratio", *m.versus_ratio},
                                           {"low_90", or_null(m.versus_low)},
                                           {"high_90", or_null(m.versus_high)}}
                                    : Json()},
          {"evidence", j.evidence},
          {"differences", j.differences}};
}

}  // namespace

std::string to_text(const ScoreReport& report) {
  std::string out =
      aligned(cells(report)) + "\n" + aligned(summary_cells(report)) + "\n" + aligned(curve_cells(report));
  const std::string rest = closing(report, "");
  if (!rest.empty()) out += "\n" + rest;
  return out;
}

std::string to_markdown(const ScoreReport& report) {
  std::string out = "## Score\n\n" + markdown(summary_cells(report)) + "\n## ES(t)\n\n" +
                    markdown(curve_cells(report)) + "\n## Variants\n\n" + markdown(cells(report));
  const std::string rest = closing(report, "* ");
  if (!rest.empty()) out += "\n## What to do\n\n" + rest;
  return out;
}

Json to_json(const ScoreReport& report) {
  Json compilers = Json::array(), variants = Json::array(), samples = Json::array(), families = Json::array(),
       advice = Json::array(), logs = Json::array();
  for (const CompilerScore& c : report.compilers) {
    Json macro = Json::array();
    for (const Macro& m : c.macro)
      macro.push_back({{"alpha", m.alpha},
                       {"beta", m.beta},
                       {"lambda", m.lambda},
                       {"eta", m.eta},
                       {"gamma", m.gamma},
                       {"es", m.es}});
    Json entry = {{"compiler", c.compiler},
                  {"variants", c.variants.size()},
                  {"score", c.score},
                  {"public_score", c.public_score},
                  {"es", c.curve},
                  {"macro", macro},
                  {"correct", c.correct},
                  {"at_least_1", c.at_least_1},
                  {"gmean", or_null(c.gmean)},
                  {"fast_1", c.correct > 0 ? Json(static_cast<double>(c.at_least_1) / c.correct) : Json()},
                  {"estimated", c.estimated},
                  {"score_if_failing_were_1", c.if_failing_were_1},
                  {"fixed_cost_us", or_null(c.fixed_cost_us)},
                  {"stable", nullptr}};
    if (c.stable)
      entry["stable"] = {{"variants", c.stable->variants},
                         {"correct", c.stable->correct},
                         {"at_least_1", c.stable->at_least_1},
                         {"score", c.stable->score},
                         {"gmean", or_null(c.stable->gmean)}};
    compilers.push_back(std::move(entry));
  }
  for (const ScoredVariant& v : report.variants) variants.push_back(variant_json(v));
  for (const SampleScore& s : report.samples)
    samples.push_back({{"sample", s.sample},
                       {"compiler", s.compiler},
                       {"score", s.score},
                       {"variants", s.variants},
                       {"correct", s.correct}});
  for (const FamilyCounts& f : report.families)
    families.push_back({{"family", f.family},
                        {"completed_workers", f.completed_workers},
                        {"score_above_eager", f.score_above_eager},
                        {"correct_but_slow", f.correct_but_slow},
                        {"numeric_preflight_blocked", f.numeric_preflight_blocked},
                        {"correctness_regressed_on_larger_region", f.correctness_regressed_on_larger_region},
                        {"larger_region_attempted", f.larger_region_attempted},
                        {"evaluator_instability", f.evaluator_instability}});
  for (const auto& [compiler, guide] : report.advice)
    advice.push_back({{"compiler", compiler},
                      {"row", guide->id},
                      {"signal", guide->signal},
                      {"diagnosis", guide->diagnosis},
                      {"action", guide->action}});
  for (const LogFacts& log : report.logs)
    logs.push_back({{"any_matched", log.any_matched ? Json(*log.any_matched) : Json()},
                    {"aggregated_speedup", or_null(log.aggregated)},
                    {"filtered", log.filtered},
                    {"hints", log.hints}});
  return {{"compat", report.options.compat},
          {"compilers", compilers},
          {"samples", samples},
          {"variants", variants},
          {"families", families},
          {"advice", advice},
          {"logs", logs},
          {"service_score", or_null(report.service_score)}};
}

Json tables_json() {
  Json outcomes = Json::array(), failures = Json::array(), guide = Json::array(), tolerances = Json::array();
  for (const OutcomeRow& o : outcome_table())
    outcomes.push_back({{"outcome", o.name},
                        {"verdict", o.verdict},
                        {"public_status", o.status},
                        {"failure", o.failure},
                        {"count", o.count},
                        {"value", o.value},
                        {"text", o.text}});
  for (const FailureClass& f : failure_classes())
    failures.push_back({{"id", f.id}, {"signal", f.signal}, {"fix", f.fix}, {"where", f.where}});
  for (const GuideRow& g : decision_guide())
    guide.push_back({{"id", g.id}, {"signal", g.signal}, {"diagnosis", g.diagnosis}, {"action", g.action}});
  for (int t = kFirstT; t <= kLastT; ++t) {
    Json by = {{"t", t}, {"weight", public_weights()[static_cast<size_t>(t - kFirstT)]}};
    for (const std::string_view d : kFloatDtypes) by[std::string(d)] = all_close_key(d, t);
    tolerances.push_back(std::move(by));
  }
  Json slow = Json::array();
  for (const SlowReason& r : slow_reasons())
    slow.push_back({{"id", r.id}, {"meaning", r.meaning}, {"action", r.action}});
  return {{"outcomes", outcomes},
          {"failure_classes", failures},
          {"slow_reasons", slow},
          {"decision_guide", guide},
          {"tolerances", tolerances}};
}

std::string tables_text() {
  std::vector<std::vector<std::string>> outcomes = {
      {"outcome", "verdict", "public status", "failure class", "counts", "text"}};
  for (const OutcomeRow& o : outcome_table())
    outcomes.push_back({std::string(o.name), std::string(o.verdict), std::string(o.status),
                        std::string(o.failure.empty() ? "-" : o.failure), std::string(o.value),
                        std::string(o.text)});
  std::vector<std::vector<std::string>> failures = {{"failure class", "signal", "fix", "see"}};
  for (const FailureClass& f : failure_classes())
    failures.push_back({std::string(f.id), std::string(f.signal), std::string(f.fix), std::string(f.where)});
  std::vector<std::vector<std::string>> guide = {{"signal", "diagnosis", "action"}};
  for (const GuideRow& g : decision_guide())
    guide.push_back({std::string(g.signal), std::string(g.diagnosis), std::string(g.action)});
  std::vector<std::vector<std::string>> slow = {{"reason below 1", "meaning", "action"}};
  for (const SlowReason& r : slow_reasons())
    slow.push_back({std::string(r.id), std::string(r.meaning), std::string(r.action)});
  return aligned(outcomes) + "\n" + aligned(failures) + "\n" + aligned(slow) + "\n" + aligned(guide);
}

}  // namespace passnet::score
