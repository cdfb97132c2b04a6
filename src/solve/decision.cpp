#include "solve/decision.h"

#include <cmath>

#include <fmt/format.h>

namespace passnet {
namespace {

constexpr double kNoMatch = 0.1;       // what a variant counts that no pass serves
constexpr double kDeviations = 1.645;  // from the middle to either end of a 90% interval

struct Row {
  Decision decision;
  bool kept;
  std::string_view name, meaning;
};
constexpr Row kRows[] = {
    {Decision::kFirst, true, "first", "nothing was measured before it"},
    {Decision::kFaster, true, "faster", "the 90% interval of the ratio lies above 1"},
    {Decision::kMoreCorrect, true, "more_correct", "it is right on more variants"},
    {Decision::kSmaller, true, "smaller",
     "the 90% interval of the ratio holds 1, and it is the smaller state"},
    {Decision::kPredicted, true, "predicted",
     "times decide nothing without a GPU, and it is predicted to be faster"},
    {Decision::kSlower, false, "slower", "the 90% interval of the ratio lies below 1"},
    {Decision::kIncorrect, false, "incorrect", "it is wrong on a variant where the best state is right"},
    {Decision::kUndecided, false, "undecided",
     "the 90% interval of the ratio holds 1, and the best state is not larger"},
    {Decision::kNotPredicted, false, "not_predicted",
     "times decide nothing without a GPU, and it is not predicted to be faster"},
    {Decision::kUnmeasured, false, "unmeasured",
     "no variant was measured of both states, or one of them has no times"},
    {Decision::kEvaluatorFailed, false, "evaluator_failed", "the evaluation itself failed"},
};

const Row& row_of(Decision decision) {
  for (const Row& row : kRows)
    if (row.decision == decision) return row;
  return kRows[0];
}

std::string with_why(const std::string& variant, const Measurement& m) {
  return fmt::format("{}: {}{}{}", variant, m.outcome, m.why.empty() ? "" : ", ", m.why);
}

}  // namespace

bool kept(Decision decision) { return row_of(decision).kept; }
std::string_view to_string(Decision decision) { return row_of(decision).name; }
std::string_view meaning(Decision decision) { return row_of(decision).meaning; }

Comparison compare(const Evaluation& evaluation, std::string_view base, std::string_view candidate) {
  Comparison out;
  out.comparable = evaluation.comparable;
  const auto all = evaluation.results.find(std::string(base));
  if (all == evaluation.results.end()) return out;
  double sum = 0, variance = 0;
  size_t timed = 0, both = 0;
  for (const auto& [variant, mine] : all->second) {
    const Measurement* other = evaluation.find(candidate, variant);
    if (other == nullptr || !mine.counts || !other->counts) continue;
    ++out.variants;
    out.base_correct += mine.correct;
    out.candidate_correct += other->correct;
    if (mine.correct && !other->correct) out.lost.push_back(with_why(variant, *other));
    if (!mine.correct || !other->correct) continue;
    ++both;
    if (!other->ratio || other->ratio->low <= 0) continue;
    ++timed;
    sum += std::log(other->ratio->value);
    const double deviation = std::log(other->ratio->high / other->ratio->low) / (2 * kDeviations);
    variance += deviation * deviation;
  }
  // A variant without a ratio may hide anything: then there is none of the whole.
  if (timed > 0 && timed == both) {
    const double n = static_cast<double>(timed);
    const double middle = sum / n, half = kDeviations * std::sqrt(variance) / n;
    out.ratio = Interval{std::exp(middle), std::exp(middle - half), std::exp(middle + half)};
  }
  return out;
}

Decision decide(const Comparison& comparison, const Sizes& sizes) {
  if (comparison.variants == 0) return Decision::kUnmeasured;
  if (comparison.candidate_correct > comparison.base_correct) return Decision::kMoreCorrect;
  if (comparison.candidate_correct < comparison.base_correct || !comparison.lost.empty())
    return Decision::kIncorrect;
  if (!comparison.comparable)
    return sizes.candidate_predicted > sizes.base_predicted ? Decision::kPredicted : Decision::kNotPredicted;
  if (comparison.ratio && comparison.ratio->low > 1) return Decision::kFaster;
  if (comparison.ratio && comparison.ratio->high < 1) return Decision::kSlower;
  if (!comparison.ratio) return Decision::kUnmeasured;
  return sizes.candidate < sizes.base ? Decision::kSmaller : Decision::kUndecided;
}

Standing standing(const Evaluation& evaluation, std::string_view contender) {
  Standing out;
  const auto all = evaluation.results.find(std::string(contender));
  if (all == evaluation.results.end()) return out;
  double sum = 0;
  bool timed = true;
  for (const auto& [variant, m] : all->second) {
    if (!m.counts) continue;
    ++out.variants;
    out.correct += m.correct;
    if (!m.correct) out.wrong.push_back(with_why(variant, m));
    if (!m.correct) {
      sum += std::log(kNoMatch);
    } else if (m.eager_us && m.time_us && *m.time_us > 0 && *m.eager_us > 0) {
      sum += std::log(*m.eager_us / *m.time_us);
    } else {
      timed = false;
    }
  }
  if (out.variants > 0 && timed && evaluation.comparable)
    out.speedup = std::exp(sum / static_cast<double>(out.variants));
  return out;
}

}  // namespace passnet
