#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "base/result.h"

namespace passnet {

/// A number between two others, with 90% confidence.
struct Interval {
  double value = 0, low = 0, high = 0;
};

/// One of the things that an evaluation measures in turn: a state of a pass_dir, or a reference.
struct Contender {
  std::string name;      ///< unique in its request
  std::string kind;      ///< pass_mgr, nope (changes nothing), ceiling (returns ready outputs)
  std::string pass_dir;  ///< of pass_mgr
};

struct EvaluationRequest {
  std::vector<Contender> contenders;  ///< ratios are against the first
  std::vector<std::string> variants;  ///< labels
  double seconds = 600;               ///< nothing more is started after these
};

/// The outcome of what is right on the sample's own inputs alone: constants and zeros, on which much is right.
inline constexpr const char* kDegenerateOnly = "degenerate_only";

/// One contender on one variant.
struct Measurement {
  std::string outcome;  ///< a name of score/outcomes.def, or kDegenerateOnly
  bool correct = false;
  bool counts =
      true;  ///< false: the surroundings failed, or eager does not equal itself: says nothing of the passes
  std::optional<double> eager_us, time_us;  ///< medians of the same child, taken in turn
  std::optional<Interval> ratio;            ///< time of the request's first contender over this one's
  std::string why;                          ///< of an outcome that is not correct
};

struct Evaluation {
  std::map<std::string, std::map<std::string, Measurement>> results;  ///< by contender, then by variant
  std::map<std::string, double> scores;  ///< by contender, as the evaluator aggregates
  bool comparable = true;                ///< false: no GPU, the times decide nothing
  std::vector<std::string> unmeasured;   ///< variants that the time limit left out
  double seconds = 0;
  std::string folder;  ///< of the records

  const Measurement* find(std::string_view contender, std::string_view variant) const;
};

Json to_json(const Evaluation& evaluation);
/// What to_json writes. A contender's entry "*" stands for every variant of the request that it does not name.
/// Errors: `solve.answers`, which says what is wrong.
Result<Evaluation> evaluation_from_json(const Json& json, const EvaluationRequest& request);

/// Measures states. Errors are those of the surroundings: the evaluation then says nothing of any state.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  virtual Result<Evaluation> run(const EvaluationRequest& request) = 0;
};

/// Answers from a document instead of a device: `{"schema": "passnet.evaluations/1", "evaluations": [...]}`, in order; an entry
/// may be `{"error": text}`. For tests, and to see again what a recorded run decided.
class ScriptedEvaluator final : public Evaluator {
 public:
  /// `clock` moves by the seconds that an answer names, where it can.
  explicit ScriptedEvaluator(Json script, FakeClock* clock = nullptr)
      : script_(std::move(script)), clock_(clock) {}
  static Result<ScriptedEvaluator> read(FileSystem& files, const std::string& path);
  Result<Evaluation> run(const EvaluationRequest& request) override;

  std::vector<EvaluationRequest> asked;

 private:
  Json script_;
  FakeClock* clock_;
};

/// Ratio of the medians of two lists of times that were taken in turn in blocks of `block`, first over second, with the
/// bootstrap interval over paired blocks. Empty for fewer than two blocks.
std::optional<Interval> ratio_of_blocks(const std::vector<double>& first, const std::vector<double>& second,
                                        size_t block = 10);

}  // namespace passnet
