#include "score/es.h"

#include <cmath>

namespace passnet::score {
namespace {

bool correct_at(const EsInput& v, int t) {
  return v.status == PublicStatus::kCorrect && v.correct[static_cast<size_t>(std::min(t, 1) - kFirstT)];
}

bool tolerated_at(const EsInput& v, int t, const EsOptions& options) {
  if (t < 1) return false;
  const auto from = tolerated_from(v.status, options.interpretation);
  return from && t >= *from;
}

double rectified(double s, double p) { return s < 1 ? std::pow(s, p + 1) : s; }

}  // namespace

EsInput EsInput::of(const Judged& judged) {
  // A variant without a speedup cannot count as correct, whatever its outputs.
  EsInput v{judged.status, judged.correct, judged.speedup.value_or(1)};
  if (!judged.speedup || !(*judged.speedup > 0)) v.correct.fill(false);
  return v;
}

double es_of(const EsInput& v, int t, const EsOptions& options) {
  if (correct_at(v, t)) return rectified(v.speedup, options.p);
  return tolerated_at(v, t, options) ? 1.0 : options.b;
}

double es_at(std::span<const EsInput> variants, int t, const EsOptions& options) {
  if (variants.empty()) return 0;
  double sum = 0;
  for (const EsInput& v : variants) sum += std::log10(es_of(v, t, options));
  return std::pow(10.0, sum / static_cast<double>(variants.size()));
}

std::array<double, kTolerances> es_curve(std::span<const EsInput> variants, const EsOptions& options) {
  std::array<double, kTolerances> curve{};
  for (int t = kFirstT; t <= kLastT; ++t)
    curve[static_cast<size_t>(t - kFirstT)] = es_at(variants, t, options);
  return curve;
}

double aggregate(const std::array<double, kTolerances>& curve, const Weights& weights) {
  double total = 0, sum = 0;
  for (const double w : weights) total += w;
  for (size_t i = 0; i < curve.size(); ++i) {
    if (weights[i] == 0) continue;
    if (!(curve[i] > 0)) return 0;
    sum += weights[i] * std::log10(curve[i]);
  }
  return total > 0 ? std::pow(10.0, sum / total) : 0;
}

double score_of(std::span<const EsInput> variants, const EsOptions& options, const Weights& weights) {
  return aggregate(es_curve(variants, options), weights);
}

Macro macro_at(std::span<const EsInput> variants, int t, const EsOptions& options) {
  Macro m;
  if (variants.empty()) return m;
  const auto n = static_cast<double>(variants.size());
  double correct = 0, slow = 0, log_all = 0, log_slow = 0, wrong = 0, tolerated = 0;
  for (const EsInput& v : variants) {
    if (correct_at(v, t)) {
      ++correct;
      log_all += std::log10(v.speedup);
      if (v.speedup < 1) {
        ++slow;
        log_slow += std::log10(v.speedup);
      }
    } else {
      ++wrong;
      if (tolerated_at(v, t, options)) ++tolerated;
    }
  }
  m.lambda = correct / n;
  m.eta = correct > 0 ? slow / correct : 0;
  m.alpha = correct > 0 ? std::pow(10.0, log_all / correct) : 1;
  m.beta = slow > 0 ? std::pow(10.0, log_slow / slow) : 1;
  m.gamma = wrong > 0 ? std::pow(options.b, (wrong - tolerated) / wrong) : options.b;
  m.es = std::pow(m.alpha, m.lambda) * std::pow(m.beta, m.lambda * m.eta * options.p) *
         std::pow(m.gamma, 1 - m.lambda);
  return m;
}

}  // namespace passnet::score
