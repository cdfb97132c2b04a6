#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "solve/evaluator.h"

namespace passnet {

/// Why a state was kept or taken back: a closed list, with the rule that each is.
enum class Decision {
  kFirst,        ///< kept: nothing was measured before it
  kFaster,       ///< kept: the 90% interval of the ratio lies above 1
  kMoreCorrect,  ///< kept: right on more variants
  kSmaller,      ///< kept: the interval holds 1, and it is the smaller state
  kPredicted,  ///< kept: times decide nothing here, it is right where the other is and predicted to be faster
  kSlower,     ///< taken back: the interval lies below 1
  kIncorrect,  ///< taken back: wrong on a variant where the other is right
  kUndecided,  ///< taken back: the interval holds 1, and it is not the smaller state
  kNotPredicted,    ///< taken back: times decide nothing here, and it is not predicted to be faster
  kUnmeasured,      ///< taken back: no variant was measured of both, or one has no times
  kEvaluatorFailed  ///< taken back: the evaluation itself failed
};
bool kept(Decision decision);
std::string_view to_string(Decision decision);
/// One clause for people.
std::string_view meaning(Decision decision);

/// Two states of one evaluation, side by side.
struct Comparison {
  size_t variants = 0;  ///< measured of both, and telling something
  size_t base_correct = 0, candidate_correct = 0;
  std::optional<Interval> ratio;  ///< geometric mean over the variants on which both are right
  std::vector<std::string> lost;  ///< variants on which only the base is right, with why
  bool comparable = true;
};
Comparison compare(const Evaluation& evaluation, std::string_view base, std::string_view candidate);

struct Sizes {
  size_t base = 0, candidate = 0;  ///< nodes that the patterns of either state replace
  double base_predicted = 0, candidate_predicted = 0;
};
Decision decide(const Comparison& comparison, const Sizes& sizes);

/// What a contender is worth on the variants that say something: the geometric mean of its speedups, where a variant that is
/// not correct counts as the evaluation's 0.1. Empty if no variant says anything.
struct Standing {
  size_t variants = 0, correct = 0;
  std::optional<double> speedup;
  std::vector<std::string> wrong;  ///< variants that are not correct, with why
};
Standing standing(const Evaluation& evaluation, std::string_view contender);

}  // namespace passnet
