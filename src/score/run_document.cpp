#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "score/report.h"
#include "score/slow.h"

namespace passnet::score {
namespace {

constexpr double kMega = 1 << 20;
struct SizeClass {
  std::string_view name;
  double below;  // bytes of inputs
};
constexpr std::array kSizes = {SizeClass{"below 1 MB", kMega}, SizeClass{"1 to 16 MB", 16 * kMega},
                               SizeClass{"16 to 64 MB", 64 * kMega}, SizeClass{"64 MB and more", INFINITY}};

std::string size_class(const Measured& m) {
  if (!m.bytes) return "unknown";
  return std::string(std::find_if(kSizes.begin(), kSizes.end(), [&](const SizeClass& s) {
                       return *m.bytes < s.below;
                     })->name);
}

std::string family_of(const Measured& m) { return m.expected.family.empty() ? "unknown" : m.expected.family; }

bool correct(const ScoredVariant& v) {
  return v.judged.outcome == Outcome::kOk || v.judged.outcome == Outcome::kSlow;
}

Json rounded(const std::optional<double>& v, int digits) {
  if (!v || !std::isfinite(*v)) return nullptr;
  const double f = std::pow(10.0, digits);
  return std::round(*v * f) / f;
}

class Mean {
 public:
  void add(double v) { sum_ += std::log(v), ++count_; }
  std::optional<double> value() const {
    return count_ == 0 ? std::nullopt : std::optional<double>(std::exp(sum_ / static_cast<double>(count_)));
  }

 private:
  double sum_ = 0;
  size_t count_ = 0;
};

// What is said of any set of variants of one compiler.
Json facts_of(const std::vector<const ScoredVariant*>& variants, const ScoreOptions& options) {
  std::vector<EsInput> all, stable;
  Mean ratios, of_ceiling;
  int good = 0, fast = 0, live = 0, live_asked = 0;
  bool knows_stability = false;
  for (const ScoredVariant* v : variants) {
    const Measured& m = v->measured;
    all.push_back(EsInput::of(v->judged));
    knows_stability = knows_stability || m.eager_equals_itself.has_value();
    if (m.eager_equals_itself == true) stable.push_back(all.back());
    if (m.live_asked) ++live_asked;
    if (m.live_first_correct_t && *m.live_first_correct_t <= -5) ++live;
    if (!correct(*v)) continue;
    ++good;
    ratios.add(*v->judged.speedup);
    if (*v->judged.speedup >= 1) ++fast;
    if (const auto& ceiling = m.expected.legal_ceiling; ceiling && *ceiling > 0)
      of_ceiling.add(*v->judged.speedup / *ceiling);
  }
  const auto score = [&](const std::vector<EsInput>& inputs) -> std::optional<double> {
    return inputs.empty() ? std::nullopt
                          : std::optional<double>(score_of(inputs, options.es, options.weights));
  };
  const std::optional<double> share =
      good == 0 ? std::nullopt : std::optional<double>(static_cast<double>(fast) / good);
  return {{"variants", variants.size()},
          {"score", rounded(knows_stability ? score(stable) : score(all), 5)},
          {"score_all", rounded(score(all), 5)},
          {"scored", knows_stability ? stable.size() : all.size()},
          {"correct", good},
          {"correct_live", live},
          {"live_compared", live_asked},
          {"gmean", rounded(ratios.value(), 4)},
          {"at_least_1", fast},
          {"share_at_least_1", rounded(share, 4)},
          {"share_of_legal_ceiling", rounded(of_ceiling.value(), 4)}};
}

// {name of a group: {compiler: facts}}.
Json groups_by(const ScoreReport& report, std::string (*name_of)(const Measured&)) {
  std::map<std::string, std::map<std::string, std::vector<const ScoredVariant*>>> groups;
  for (const ScoredVariant& v : report.variants)
    groups[name_of(v.measured)][v.measured.compiler].push_back(&v);
  Json out = Json::object();
  for (const auto& [name, compilers] : groups) {
    for (const auto& [compiler, variants] : compilers)
      out[name][compiler] = facts_of(variants, report.options);
  }
  return out;
}

Json row_of(const ScoredVariant& v) {
  const Measured& m = v.measured;
  const std::string code(reason_code(m, v.judged));
  const bool told = !correct(v) && !v.judged.evidence.empty();
  const auto whole = [](const std::optional<int>& t) { return t ? Json(*t) : Json(); };
  Json r = {{"sample", m.sample},
            {"variant", m.variant},
            {"dtype", m.dtype},
            {"family", family_of(m)},
            {"bytes", m.bytes ? Json(static_cast<long long>(*m.bytes)) : Json()},
            {"size", size_class(m)},
            {"compiler", m.compiler},
            {"e2e_us", rounded(m.compiled.e2e_us, 3)},
            {"gpu_us", rounded(m.compiled.gpu_us, 3)},
            {"eager_e2e_us", rounded(m.eager.e2e_us, 3)},
            {"eager_gpu_us", rounded(m.eager.gpu_us, 3)},
            {"speedup", rounded(v.judged.speedup, 5)},
            {"predicted", rounded(m.expected.predicted, 4)},
            {"legal_ceiling", rounded(m.expected.legal_ceiling, 4)},
            {"first_correct_t", whole(v.judged.first_correct_t)},
            {"status", correct(v) ? std::string("correct") : std::string(row(v.judged.outcome).name)},
            {"reason_code", code},
            {"reason", told ? v.judged.evidence.front().substr(0, 300) : std::string(reason_meaning(code))}};
  if (m.live_asked) r["first_correct_t_live"] = whole(m.live_first_correct_t);
  if (m.eager_equals_itself) r["eager_equals_itself"] = *m.eager_equals_itself;
  if (m.low_90) r["speedup_90"] = {*m.low_90, *m.high_90};
  if (m.unsteady) r["unsteady"] = *m.unsteady;
  return r;
}

Json summary_of(const ScoreReport& report, const CompilerScore& c) {
  std::vector<const ScoredVariant*> variants;
  for (const size_t i : c.variants) variants.push_back(&report.variants[i]);
  Json s = facts_of(variants, report.options);
  s["public_score_all"] = rounded(c.public_score, 5);
  s["timed"] = c.timed;
  s["fixed_cost_us"] = rounded(c.fixed_cost_us, 1);
  if (c.stable)
    s["stable"] = {{"variants", c.stable->variants},
                   {"correct", c.stable->correct},
                   {"gmean", rounded(c.stable->gmean, 4)},
                   {"at_least_1", c.stable->at_least_1}};
  std::map<std::string, int> reasons;
  for (const ScoredVariant* v : variants)
    if (const std::string_view code = reason_code(v->measured, v->judged); !code.empty())
      ++reasons[std::string(code)];
  s["reasons"] = reasons;
  return s;
}

}  // namespace

Json run_document(const ScoreReport& report, const Json& machine, std::string_view command,
                  std::string_view date) {
  Json rows = Json::array(), summary = Json::object(), stable = Json::array();
  for (const ScoredVariant& v : report.variants) rows.push_back(row_of(v));
  for (const CompilerScore& c : report.compilers) summary[c.compiler] = summary_of(report, c);
  std::set<std::string> listed;
  for (const ScoredVariant& v : report.variants) {
    const std::string name = v.measured.sample + "/" + v.measured.variant;
    if (v.measured.eager_equals_itself == true && listed.insert(name).second) stable.push_back(name);
  }
  return {{"schema", "passnet.run/1"},
          {"machine", machine},
          {"command", command},
          {"date", date},
          {"variants", rows},
          {"summary", summary},
          {"groups",
           {{"size", groups_by(report, size_class)},
            {"family", groups_by(report, family_of)},
            {"dtype", groups_by(report, [](const Measured& m) { return m.dtype; })}}},
          {"eager_equals_itself", stable}};
}

}  // namespace passnet::score
