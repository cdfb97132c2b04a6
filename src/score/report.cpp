#include "score/report.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

namespace passnet::score {
namespace {

std::optional<double> gmean(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  double sum = 0;
  for (const double v : values) sum += std::log(v);
  return std::exp(sum / static_cast<double>(values.size()));
}

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

bool is_correct(const Judged& j) { return j.outcome == Outcome::kOk || j.outcome == Outcome::kSlow; }

// A variant that came to count 1.0 everywhere.
EsInput fixed_input() {
  EsInput v;
  v.correct.fill(true);
  v.speedup = 1;
  return v;
}

std::vector<EsInput> inputs_of(const ScoreReport& report, const std::vector<size_t>& indices) {
  std::vector<EsInput> out;
  for (const size_t i : indices) out.push_back(EsInput::of(report.variants[i].judged));
  return out;
}

CompilerScore score_compiler(ScoreReport& report, std::string compiler, std::vector<size_t> indices) {
  CompilerScore c;
  c.compiler = std::move(compiler);
  c.variants = std::move(indices);
  const ScoreOptions& o = report.options;
  const std::vector<EsInput> inputs = inputs_of(report, c.variants);
  c.curve = es_curve(inputs, o.es);
  c.score = aggregate(c.curve, o.weights);
  for (int t = kFirstT; t <= kLastT; ++t)
    c.macro[static_cast<size_t>(t - kFirstT)] = macro_at(inputs, t, o.es);
  std::vector<double> ratios, stable_ratios, fixed_costs;
  std::vector<EsInput> by_public, repaired, stable;
  CompilerScore::Stable s;
  bool knows_stability = false;
  for (size_t k = 0; k < c.variants.size(); ++k) {
    ScoredVariant& v = report.variants[c.variants[k]];
    const Judged& j = v.judged;
    c.estimated = c.estimated || j.estimated;
    v.alone = score_of(std::span(&inputs[k], 1), o.es, o.weights);
    const bool ok = is_correct(j);
    if (j.speedup) ++c.timed;
    if (ok) {
      ++c.correct;
      ratios.push_back(*j.speedup);
      if (*j.speedup >= 1) ++c.at_least_1;
    }
    repaired.push_back(ok ? inputs[k] : fixed_input());
    Judged as_public = j.estimated ? j : judge(v.measured, true);
    by_public.push_back(EsInput::of(as_public));
    if (v.measured.compiled.e2e_us && v.measured.compiled.gpu_us)
      fixed_costs.push_back(*v.measured.compiled.e2e_us - *v.measured.compiled.gpu_us);
    if (v.measured.eager_equals_itself) knows_stability = true;
    if (v.measured.eager_equals_itself != false && v.measured.eager_equals_itself.has_value()) {
      stable.push_back(inputs[k]);
      ++s.variants;
      if (ok) {
        ++s.correct;
        stable_ratios.push_back(*j.speedup);
        if (*j.speedup >= 1) ++s.at_least_1;
      }
    }
  }
  for (size_t k = 0; k < c.variants.size(); ++k) {
    std::vector<EsInput> one = inputs;
    one[k] = fixed_input();
    ScoredVariant& v = report.variants[c.variants[k]];
    v.if_fixed = is_correct(v.judged) ? c.score : score_of(one, o.es, o.weights);
  }
  c.gmean = gmean(ratios);
  c.public_score = score_of(by_public, o.es, o.weights);
  c.if_failing_were_1 = score_of(repaired, o.es, o.weights);
  c.fixed_cost_us = median(fixed_costs);
  if (knows_stability) {
    s.score = score_of(stable, o.es, o.weights);
    s.gmean = gmean(stable_ratios);
    c.stable = s;
  }
  return c;
}

void add_samples(ScoreReport& report) {
  std::map<std::pair<std::string, std::string>, std::vector<size_t>> by;
  for (size_t i = 0; i < report.variants.size(); ++i)
    by[{report.variants[i].measured.sample, report.variants[i].measured.compiler}].push_back(i);
  for (const auto& [key, indices] : by) {
    SampleScore s;
    s.sample = key.first;
    s.compiler = key.second;
    s.variants = indices.size();
    s.score = score_of(inputs_of(report, indices), report.options.es, report.options.weights);
    for (const size_t i : indices) {
      const Judged& j = report.variants[i].judged;
      if (is_correct(j)) ++s.correct;
      if (row(j.outcome).verdict == "unstable_timing") s.unstable = true;
    }
    report.samples.push_back(std::move(s));
  }
}

void add_families(ScoreReport& report, const std::map<std::string, SampleLabels>& labels) {
  std::map<std::string, FamilyCounts> by;
  for (const auto& [sample, label] : labels) {
    FamilyCounts& f = by[std::string(counted_family(label))];
    if (label.numeric_preflight_blocked) ++f.numeric_preflight_blocked;
    if (label.larger_region_attempted) ++f.larger_region_attempted;
    if (label.larger_region_regressed) ++f.correctness_regressed_on_larger_region;
    for (const SampleScore& s : report.samples) {
      if (s.sample != sample ||
          (s.compiler != "pass_mgr" && s.compiler != "passnet" && report.compilers.size() > 1))
        continue;
      ++f.completed_workers;
      const bool correct = s.correct == static_cast<int>(s.variants);
      if (s.unstable) ++f.evaluator_instability;
      if (s.score > 1)
        ++f.score_above_eager;
      else if (correct)
        ++f.correct_but_slow;
    }
  }
  for (auto& [name, counts] : by) {
    counts.family = name;
    report.families.push_back(std::move(counts));
  }
}

void add_advice(ScoreReport& report) {
  for (const CompilerScore& c : report.compilers) {
    if (c.compiler == "eager" || c.compiler == "nope" || c.compiler == "ceiling") continue;
    GuideFacts f;
    std::vector<double> e2e, gpu, eager;
    std::set<std::string> dtypes, failing, passing;
    bool timeout = false, fluctuation = false, others = true;
    for (const size_t i : c.variants) {
      const ScoredVariant& v = report.variants[i];
      const Outcome outcome = v.judged.outcome;
      dtypes.insert(v.measured.dtype);
      if (outcome == Outcome::kInaccurate || outcome == Outcome::kTypeMismatch)
        failing.insert(v.measured.dtype);
      else if (is_correct(v.judged))
        passing.insert(v.measured.dtype);
      timeout = timeout || outcome == Outcome::kTimeout;
      if (outcome == Outcome::kFluctuation)
        fluctuation = true;
      else
        others = others && is_correct(v.judged);
      if (is_correct(v.judged)) {
        if (v.measured.speedup_e2e) e2e.push_back(*v.measured.speedup_e2e);
        if (v.measured.speedup_gpu) gpu.push_back(*v.measured.speedup_gpu);
        if (v.measured.eager.e2e_us) eager.push_back(*v.measured.eager.e2e_us);
      }
    }
    f.speedup_e2e = gmean(e2e);
    if (gpu.size() == e2e.size()) f.speedup_gpu = gmean(gpu);
    f.eager_us = median(eager);
    f.dtypes_total = static_cast<int>(dtypes.size());
    std::set<std::string> only;
    for (const std::string& d : failing)
      if (!passing.contains(d)) only.insert(d);
    f.dtypes_failing = static_cast<int>(only.size());
    f.timed_out = timeout;
    f.fluctuation = fluctuation;
    f.others_correct = others;
    for (const GuideRow* guide : score::advice(f)) report.advice.emplace_back(c.compiler, guide);
  }
}

void add_findings(ScoreReport& report) {
  for (const ScoredVariant& v : report.variants) {
    const Measured& m = v.measured;
    const std::string who = m.sample.empty() ? m.variant : m.sample + "/" + m.variant;
    const std::string of = report.compilers.size() > 1 ? fmt::format(" ({})", m.compiler) : "";
    if (!is_correct(v.judged)) {
      const OutcomeRow& o = row(v.judged.outcome);
      std::string why = v.judged.evidence.empty() ? std::string(o.text) : v.judged.evidence.front();
      if (why.size() > 300) why = why.substr(0, 300) + " ...";
      Diagnostic d = user_error(fmt::format("score.{}", o.name), fmt::format("{}{}: {}", who, of, why));
      if (const FailureClass* f = find_failure_class(o.failure)) d = std::move(d).with_hint(f->fix);
      report.findings.push_back(std::move(d));
    }
    const bool passes = m.kind == "pass_mgr";
    if (passes && is_correct(v.judged) && m.live_asked && m.live_first_correct_t.value_or(99) > -5)
      report.findings.push_back(
          user_warning(
              "score.live_inputs",
              fmt::format("{}{}: right on the sample's own inputs, {} on inputs of the live family", who, of,
                          m.live_first_correct_t ? fmt::format("from t = {} on", *m.live_first_correct_t)
                                                 : std::string("at no tolerance")))
              .with_hint(
                  "the pass depends on values that the sample draws as constants, or on how large they are"));
    for (const std::string& difference : v.judged.differences)
      report.findings.push_back(note("score.public_rules", fmt::format("{}{}: {}", who, of, difference)));
    if (m.loaded && !m.skipped.empty())
      report.findings.push_back(
          user_warning("score.dropped_passes", fmt::format("{}{}: {}", who, of, m.skipped.front()))
              .with_hint(find_failure_class("dropped_passes")->fix));
  }
}

}  // namespace

std::string_view counted_family(const SampleLabels& labels) {
  if (!labels.actual_winning_region_family.empty()) return labels.actual_winning_region_family;
  if (!labels.worker_confirmed_family.empty()) return labels.worker_confirmed_family;
  return labels.triage_family;
}

bool ScoreReport::green() const {
  return !variants.empty() && std::all_of(variants.begin(), variants.end(),
                                          [](const ScoredVariant& v) { return is_correct(v.judged); });
}

const CompilerScore* ScoreReport::find(std::string_view compiler) const {
  for (const CompilerScore& c : compilers)
    if (c.compiler == compiler) return &c;
  return nullptr;
}

ScoreReport make_report(std::vector<Measured> measured, const ScoreOptions& options,
                        const std::map<std::string, SampleLabels>& labels) {
  ScoreReport report;
  report.options = options;
  std::map<std::tuple<std::string, std::string, std::string>, size_t> seen;
  std::vector<std::string> order;
  for (Measured& m : measured) {
    ScoredVariant v;
    v.judged = judge(m, options.compat);
    v.measured = std::move(m);
    const auto key = std::tuple(v.measured.sample, v.measured.variant, v.measured.compiler);
    // A log may list a variant twice, and both count; a record is one of a kind.
    const bool is_record = v.measured.source == Measured::Source::kRecord;
    if (const auto it = seen.find(key); is_record && it != seen.end()) {
      report.variants[it->second] = std::move(v);
      continue;
    }
    seen[key] = report.variants.size();
    if (std::find(order.begin(), order.end(), v.measured.compiler) == order.end())
      order.push_back(v.measured.compiler);
    report.variants.push_back(std::move(v));
  }
  for (const std::string& compiler : order) {
    std::vector<size_t> indices;
    for (size_t i = 0; i < report.variants.size(); ++i)
      if (report.variants[i].measured.compiler == compiler) indices.push_back(i);
    report.compilers.push_back(score_compiler(report, compiler, std::move(indices)));
  }
  add_samples(report);
  add_families(report, labels);
  add_advice(report);
  add_findings(report);
  return report;
}

}  // namespace passnet::score
