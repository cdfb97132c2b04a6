#include "score/status.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace passnet::score {
namespace {

constexpr OutcomeRow kOutcomes[] = {
#define PASSNET_OUTCOME(id, name, verdict, status, cls, count, value, text) \
  {Outcome::k##id, name, verdict, status, cls, count, value, text},
#include "score/outcomes.def"
#undef PASSNET_OUTCOME
};

constexpr FailureClass kFailures[] = {
#define PASSNET_FAILURE(id, signal, fix, where) {id, signal, fix, where},
#include "score/failure_classes.def"
#undef PASSNET_FAILURE
};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool all_ones(const std::vector<int>& flags, size_t outputs) {
  return flags.size() == outputs && outputs > 0 &&
         std::all_of(flags.begin(), flags.end(), [](int f) { return f == 1; });
}

// Every output close at t, each by the key of its eager dtype.
bool close_at(const Measured& m, int t) {
  const size_t outputs = m.eager_dtypes.size();
  if (outputs == 0) return false;
  for (size_t i = 0; i < outputs; ++i) {
    const std::string& dtype = m.eager_dtypes[i];
    const std::vector<int>* flags = &m.equal;
    if (!is_judged_by_equality(dtype)) {
      const auto it = m.all_close.find(all_close_key(dtype, t));
      if (it == m.all_close.end()) return false;
      flags = &it->second;
    }
    if (i >= flags->size() || (*flags)[i] != 1) return false;
  }
  return true;
}

// Without the sweep: max_diff against the absolute part of the tolerance, which ignores the relative part and is
// therefore too strict for large values. A guess, and marked as one.
bool guessed_close_at(const Measured& m, int t) {
  const size_t outputs = m.eager_dtypes.size();
  if (outputs == 0) return false;
  if (all_ones(m.equal, outputs)) return true;
  if (m.max_diff.size() != outputs) return false;
  for (size_t i = 0; i < outputs; ++i) {
    const double limit =
        is_judged_by_equality(m.eager_dtypes[i]) ? 0.0 : closeness(m.eager_dtypes[i], t).atol;
    if (!(m.max_diff[i] <= limit)) return false;
  }
  return true;
}

void fill_correctness(const Measured& m, Judged& j) {
  // A service took the sweep out of every variant; a single variant without one was torn off.
  const bool guess = m.source == Measured::Source::kFilteredLog && m.types_match != false;
  j.estimated = guess && m.eager_types_seen && m.compiled_types_seen;
  for (int t = kFirstT; t <= kLastExtendedT; ++t) {
    const bool close = guess ? guessed_close_at(m, t) : close_at(m, t);
    j.correct[static_cast<size_t>(t - kFirstT)] = close;
    if (close && !j.first_correct_t && t <= kLastT) j.first_correct_t = t;
  }
}

void nowhere_correct(Judged& j) {
  j.correct.fill(false);
  j.first_correct_t.reset();
}

// What a failure's text says it was.
Outcome failure_of(const Measured& m, std::vector<std::string>& evidence) {
  const std::string& text = m.message;
  const auto say = [&](std::string line) { evidence.push_back(std::move(line)); };
  const std::string& code = m.verdict_code;
  const auto one_of = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), m.exception) != names.end();
  };
  if (contains(text, "not done within")) return say(text), Outcome::kTimeout;
  if (contains(text, "MB were printed")) return say(text), Outcome::kResource;
  if (code == "timeout" || code == "group_deadline") return say(text), Outcome::kTimeout;
  if (code == "output_limit" || code == "killed") return say(text), Outcome::kResource;
  if (code == "forged_answer") return say(text), Outcome::kForged;
  if (code == "infra" || code == "worker_died") return say(text), Outcome::kInfra;
  if (code == "fluctuation" || contains(text, "Environment fluctuation"))
    return say(text), Outcome::kFluctuation;
  if (!m.violations.empty() || contains(text, "Unauthorized Operator")) {
    say(m.violations.empty() ? text : fmt::format("operators refused: {}", fmt::join(m.violations, ", ")));
    return Outcome::kForbiddenOp;
  }
  if (code == "replacement_ops" || contains(text, "replacement_args computes"))
    return say(text), Outcome::kReplacementOps;
  if (code == "rejected_pass_dir") return say(text), Outcome::kRejectedSource;
  if (contains(text, "No space left on device")) return say(text), Outcome::kInfra;
  if (contains(text, "out of memory") || m.exception == "OutOfMemoryError")
    return say(text), Outcome::kOutOfMemory;
  if (!m.rejected.empty() || m.hacking_line) {
    for (const std::string& r : m.rejected) say(r);
    if (m.no_pass_line || code == "no_passes" || code == "no_match" ||
        contains(text, "No replacement functions"))
      return Outcome::kRejectedSource;
  }
  if (m.no_pass_line || code == "no_match" || contains(text, "No passes modified")) {
    say(text.empty() ? "no pass modified the graph" : text);
    return Outcome::kNoMatch;
  }
  if (contains(text, "must be used") || contains(text, "no user") || contains(text, "returning node"))
    return say(text), Outcome::kDeadResult;
  if ((m.exception == "AssertionError" || contains(text, "one value only")) &&
      (contains(text, "returns") || contains(text, "replace_pattern")))
    return say(text), Outcome::kMultiOutput;
  if (m.failed_in == "eager" || (m.eager_failed_line && !m.compiled_failed_line))
    return say(text), Outcome::kEagerFailed;
  if (m.failed_in == "load" || contains(text, "No replacement functions available") ||
      contains(text, "unstable replacement_func") ||
      one_of({"ImportError", "ModuleNotFoundError", "SyntaxError", "IndentationError"}))
    return say(text), Outcome::kLoadError;
  if (!m.result && m.exception.empty() && text.empty() && m.verdict_code.empty() && !m.eager_failed_line &&
      !m.compiled_failed_line)
    return say("no result line"), Outcome::kIncomplete;
  say(text.empty() ? "no message" : text);
  return Outcome::kCrash;
}

// What a variant that ran to its end came to.
Outcome result_of(const Measured& m, const Judged& j, std::vector<std::string>& evidence) {
  if (!m.violations.empty()) {
    evidence.push_back(
        fmt::format("operators refused and the refusal swallowed: {}", fmt::join(m.violations, ", ")));
    return Outcome::kForbiddenOp;
  }
  if (!m.kept_tensors.empty() || !m.state_changes.empty()) {
    for (const std::string& k : m.kept_tensors) evidence.push_back(k);
    for (const std::string& c : m.state_changes) evidence.push_back("changed: " + c);
    return Outcome::kKeptState;
  }
  if (!m.changed_inputs.empty()) {
    evidence.push_back(
        fmt::format("inputs written that eager leaves alone: {}", fmt::join(m.changed_inputs, ", ")));
    return Outcome::kChangedInputs;
  }
  if (m.types_match == false) {
    evidence.push_back(fmt::format("dtypes {} instead of {}", fmt::join(m.compiled_dtypes, " "),
                                   fmt::join(m.eager_dtypes, " ")));
    return Outcome::kTypeMismatch;
  }
  if (m.shapes_match == false)
    return evidence.push_back("shapes differ from eager's"), Outcome::kShapeMismatch;
  if (m.kind == "pass_mgr" && m.clock_ratio && *m.clock_ratio < 0.5) {
    evidence.push_back(fmt::format("the trials claim {:.0f}% of the time that passed", *m.clock_ratio * 100));
    return Outcome::kClockMismatch;
  }
  if (!j.correct_at(kBaseT)) {
    evidence.push_back(j.first_correct_t ? fmt::format("correct from t = {} on", *j.first_correct_t)
                                         : std::string("correct at no tolerance"));
    return Outcome::kInaccurate;
  }
  if (!m.other_calls.empty()) {
    for (const std::string& call : m.other_calls) evidence.push_back(call);
    return Outcome::kOtherCalls;
  }
  return m.speedup_e2e.value_or(0) >= 1 ? Outcome::kOk : Outcome::kSlow;
}

}  // namespace

std::string_view to_string(Measured::Source source) {
  switch (source) {
    case Measured::Source::kLog: return "log";
    case Measured::Source::kFilteredLog: return "filtered log";
    case Measured::Source::kRecord: return "record";
  }
  return "";
}

std::string_view to_string(PublicStatus status) {
  switch (status) {
    case PublicStatus::kCorrect: return "correct";
    case PublicStatus::kEagerFail: return "eager_fail";
    case PublicStatus::kCompileFail: return "compile_fail";
    case PublicStatus::kShapeMismatch: return "shape_mismatch";
    case PublicStatus::kTypeMismatch: return "type_mismatch";
    case PublicStatus::kRuntimeFail: return "runtime_fail";
    case PublicStatus::kPassMiss: return "pass_miss";
  }
  return "";
}

PublicStatus public_status(const Measured& m) {
  const bool swept = m.has_all_close();  // such a line alone counts for eager, compiled and shapes
  if (!m.eager_types_seen && !swept) return PublicStatus::kEagerFail;
  if (!m.compiled_types_seen && !swept) return PublicStatus::kCompileFail;
  if (!swept && m.shapes_match != true) return PublicStatus::kShapeMismatch;
  if (m.types_match != true) return PublicStatus::kTypeMismatch;
  if (m.error_line) return PublicStatus::kRuntimeFail;
  if (m.no_pass_line) return PublicStatus::kPassMiss;
  return PublicStatus::kCorrect;
}

std::optional<int> tolerated_from(PublicStatus status, Interpretation interpretation) {
  const bool extended = interpretation == Interpretation::kMismatchExtended;
  switch (status) {
    case PublicStatus::kCorrect: return 1;
    case PublicStatus::kShapeMismatch:
    case PublicStatus::kTypeMismatch: return extended ? 2 : 3;
    case PublicStatus::kRuntimeFail: return 3;
    case PublicStatus::kCompileFail: return extended ? 4 : 3;
    case PublicStatus::kEagerFail:
    case PublicStatus::kPassMiss: return std::nullopt;
  }
  return std::nullopt;
}

std::span<const OutcomeRow> outcome_table() { return kOutcomes; }
const OutcomeRow& row(Outcome outcome) { return kOutcomes[static_cast<size_t>(outcome)]; }
std::span<const FailureClass> failure_classes() { return kFailures; }

const FailureClass* find_failure_class(std::string_view id) {
  for (const FailureClass& f : kFailures)
    if (f.id == id) return &f;
  return nullptr;
}

Judged judge(const Measured& m, bool compat) {
  Judged j;
  j.public_status = public_status(m);
  j.speedup = m.speedup_e2e;
  fill_correctness(m, j);
  // A filtered log has no sweep, and the public rules would call every variant of it a shape mismatch.
  const bool ran = m.eager_types_seen && m.compiled_types_seen && (m.result || m.speedup_e2e);
  if (ran) {
    j.outcome = result_of(m, j, j.evidence);
  } else {
    j.outcome = failure_of(m, j.evidence);
    nowhere_correct(j);
  }
  if (compat && !j.estimated) {
    j.status = j.public_status;
    return j;
  }
  switch (j.outcome) {
    case Outcome::kOk:
    case Outcome::kSlow:
    case Outcome::kInaccurate: j.status = PublicStatus::kCorrect; break;
    case Outcome::kOtherCalls:
    case Outcome::kChangedInputs:
      j.status = PublicStatus::kCorrect;
      nowhere_correct(j);
      break;
    case Outcome::kTypeMismatch:
    case Outcome::kShapeMismatch: j.status = PublicStatus::kShapeMismatch; break;
    default: j.status = PublicStatus::kEagerFail;
  }
  if (!j.estimated && j.status != j.public_status) {
    j.differences.push_back(fmt::format("the public rules read {}{}", to_string(j.public_status),
                                        m.stray_error ? ", for a line with \"Error:\" in the output" : ""));
  }
  if (j.outcome == Outcome::kOtherCalls && j.public_status == PublicStatus::kCorrect)
    j.differences.push_back("the public rules compare one call only");
  return j;
}

}  // namespace passnet::score
