#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "base/json.h"
#include "score/es.h"
#include "score/guide.h"
#include "score/log.h"
#include "score/measured.h"
#include "score/status.h"

namespace passnet::score {

struct ScoreOptions {
  bool compat = false;  // the public number, defects included
  EsOptions es;
  Weights weights = public_weights();
};

struct ScoredVariant {
  Measured measured;
  Judged judged;
  double alone = 0;     // the score of this variant by itself
  double if_fixed = 0;  // the score of its compiler if this one counted 1.0
};

// All variants of one compiler.
struct CompilerScore {
  std::string compiler;
  std::vector<size_t> variants;  // indices into ScoreReport::variants
  std::array<double, kTolerances> curve{};
  double score = 0;
  double public_score = 0;  // by the public rules; equal to `score` where no rule differs
  std::array<Macro, kTolerances> macro{};
  int correct = 0, at_least_1 = 0, timed = 0;
  std::optional<double> gmean;  // over the correct ones
  double if_failing_were_1 = 0;
  std::optional<double> fixed_cost_us;  // median of what a call costs beside the device
  // The same over the variants on which eager equals itself; absent where no record says so.
  struct Stable {
    size_t variants = 0;
    int correct = 0, at_least_1 = 0;
    double score = 0;
    std::optional<double> gmean;
  };
  std::optional<Stable> stable;
  bool estimated = false;
};

struct SampleScore {
  std::string sample, compiler;
  double score = 0;
  size_t variants = 0;
  int correct = 0;
  bool unstable = false;
};

// What a round knows of a sample beside its measurements.
struct SampleLabels {
  std::string triage_family, worker_confirmed_family, actual_winning_region_family;
  bool numeric_preflight_blocked = false, larger_region_attempted = false, larger_region_regressed = false;
};
// The family a sample counts under: that of its best completed state, else what the worker confirmed, else the triage.
std::string_view counted_family(const SampleLabels& labels);

struct FamilyCounts {
  std::string family;
  int completed_workers = 0, score_above_eager = 0, correct_but_slow = 0, numeric_preflight_blocked = 0,
      correctness_regressed_on_larger_region = 0, larger_region_attempted = 0, evaluator_instability = 0;
};

struct ScoreReport {
  ScoreOptions options;
  std::vector<ScoredVariant> variants;
  std::vector<CompilerScore> compilers;
  std::vector<SampleScore> samples;
  std::vector<FamilyCounts> families;
  std::vector<LogFacts> logs;
  std::optional<double> service_score;                          // authoritative for a filtered log
  std::vector<std::pair<std::string, const GuideRow*>> advice;  // compiler, row
  std::vector<Diagnostic> findings;

  // Every variant correct. False for none.
  bool green() const;
  const CompilerScore* find(std::string_view compiler) const;
};

// `labels` by sample. Of two entries of one sample, variant and compiler the later counts.
ScoreReport make_report(std::vector<Measured> measured, const ScoreOptions& options,
                        const std::map<std::string, SampleLabels>& labels = {});

Json to_json(const ScoreReport& report);
std::string to_text(const ScoreReport& report);
std::string to_markdown(const ScoreReport& report);

// The tables of this folder as one document: outcomes, failure classes, decision guide, tolerances and weights.
Json tables_json();
std::string tables_text();

// `passnet.run/1`: rows and summary of a run for bench/results. `machine` as the evaluator recorded it.
Json run_document(const ScoreReport& report, const Json& machine, std::string_view command,
                  std::string_view date);

}  // namespace passnet::score
