#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "score/measured.h"
#include "score/tolerance.h"

namespace passnet::score {

// The statuses that the public aggregator reads out of a log.
enum class PublicStatus {
  kCorrect,
  kEagerFail,
  kCompileFail,
  kShapeMismatch,
  kTypeMismatch,
  kRuntimeFail,
  kPassMiss,
};
std::string_view to_string(PublicStatus status);

// By the public rules, in their order, defects included.
PublicStatus public_status(const Measured& m);

enum class Interpretation { kDefault, kMismatchExtended };

// From which t on a status counts as 1 instead of b; nullopt: never. kCorrect stands for a variant whose outputs are not
// close enough.
std::optional<int> tolerated_from(PublicStatus status, Interpretation interpretation);

// What became of a variant: one row of outcomes.def.
enum class Outcome {
#define PASSNET_OUTCOME(id, name, verdict, status, cls, count, value, text) k##id,
#include "score/outcomes.def"
#undef PASSNET_OUTCOME
};

// One row: how the vocabularies map. `verdict` is the evaluator's word, `status` the public aggregator's, `failure` a row
// of failure_classes.def ("" for none), `count` one of the seven counts of a round ("" for none), `value` what the variant
// counts in the words of the solver's table.
struct OutcomeRow {
  Outcome outcome;
  std::string_view name, verdict, status, failure, count, value, text;
};
std::span<const OutcomeRow> outcome_table();
const OutcomeRow& row(Outcome outcome);

// One class of failures: how it is recognised, and where the fix is.
struct FailureClass {
  std::string_view id, signal, fix, where;
};
std::span<const FailureClass> failure_classes();
const FailureClass* find_failure_class(std::string_view id);

// How a variant is judged.
struct Judged {
  PublicStatus public_status = PublicStatus::kCorrect;  // of the public rules
  PublicStatus status = PublicStatus::kCorrect;         // that counts: ours, or the public one with compat
  Outcome outcome = Outcome::kOk;
  bool estimated = false;                                    // correctness is a guess from max_diff
  std::array<bool, kLastExtendedT - kFirstT + 1> correct{};  // at t, from kFirstT
  std::optional<int> first_correct_t;
  std::optional<double> speedup;
  std::vector<std::string> evidence;     // what the outcome rests on, a line each
  std::vector<std::string> differences;  // where the public rules say otherwise
  bool correct_at(int t) const { return correct[static_cast<size_t>(t - kFirstT)]; }
};

Judged judge(const Measured& m, bool compat);

}  // namespace passnet::score
