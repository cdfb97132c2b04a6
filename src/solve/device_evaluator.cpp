#include "solve/device_evaluator.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include "base/strings.h"
#include "score/record.h"
#include "score/status.h"
#include "score/tolerance.h"

namespace passnet {
namespace {

// A child that hangs must leave the others of the evaluation their time.
constexpr double kShareOfOneVariant = 0.4;

std::vector<double> trial_times(const Json& record) {
  std::vector<double> times;
  const auto side = record.find("compiled");
  if (side == record.end() || !side->is_object()) return times;
  const auto list = side->find("e2e_ms");
  if (list == side->end() || !list->is_array()) return times;
  for (const Json& time : *list)
    if (time.is_number()) times.push_back(time.get<double>());
  return times;
}

Measurement measurement_of(const score::Measured& measured) {
  const score::Judged judged = score::judge(measured, false);
  const score::OutcomeRow& row = score::row(judged.outcome);
  Measurement m;
  m.outcome = std::string(row.name);
  m.correct = judged.outcome == score::Outcome::kOk || judged.outcome == score::Outcome::kSlow;
  const bool wrong = row.verdict == "wrong_output";
  m.counts = row.verdict != "infra_error" && row.verdict != "unstable_timing" &&
             !(wrong && measured.eager_equals_itself == false);
  m.eager_us = measured.eager.e2e_us;
  m.time_us = measured.compiled.e2e_us;
  if (!m.correct && !judged.evidence.empty()) m.why = judged.evidence.front();
  return m;
}

// Right on the sample's own inputs alone, by what the record says of the live family.
bool right_on_own_inputs_alone(const score::Measured& measured) {
  return measured.live_asked && measured.live_first_correct_t.value_or(99) > score::kBaseT;
}

// Time of the first over the other's: as the evaluator has it of the two states that it compares; else of the medians that
// count, with the interval of all turns.
std::optional<Interval> ratio_of(const Json& first, const Json& other, const score::Measured& measured,
                                 const Measurement& a, const Measurement& b) {
  if (measured.versus == first.value("compiler", "") && measured.versus_ratio && measured.versus_low &&
      measured.versus_high)
    return Interval{*measured.versus_ratio, *measured.versus_low, *measured.versus_high};
  std::optional<Interval> ratio = ratio_of_blocks(trial_times(first), trial_times(other));
  if (!ratio || !a.time_us || !b.time_us || *b.time_us <= 0) return ratio;
  ratio->value = *a.time_us / *b.time_us;
  ratio->low = std::min(ratio->low, ratio->value);
  ratio->high = std::max(ratio->high, ratio->value);
  return ratio;
}

Result<std::string> next_folder(FileSystem& files, const std::string& runs) {
  long long newest = 0;
  if (files.is_directory(runs)) {
    PN_TRY(const std::vector<DirEntry> entries, files.list(runs));
    for (const DirEntry& entry : entries)
      if (const auto n = parse_int(entry.name)) newest = std::max(newest, *n);
  }
  return join_path(runs, std::to_string(newest + 1));
}

}  // namespace

bool gpu_in_sight() {
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
      visible != nullptr && (std::string_view(visible).empty() || std::string_view(visible) == "-1"))
    return false;
  std::error_code ignored;
  return std::filesystem::exists("/dev/nvidiactl", ignored) || std::filesystem::exists("/dev/dxg", ignored);
}

Result<Evaluation> DeviceEvaluator::run(const EvaluationRequest& request) {
  eval::EvalOptions options = options_;
  options.interleave = true;
  options.only = request.variants;
  PN_TRY(options.out, next_folder(context_.files, runs_));
  options.time_limit = request.seconds;
  options.sample_seconds = 1e5;  // the limit of the whole is what bounds it
  options.variant_seconds =
      std::min(options_.variant_seconds,
               request.seconds * kShareOfOneVariant / static_cast<double>(request.contenders.size()));
  std::vector<std::string> states;
  for (const Contender& contender : request.contenders) {
    options.compilers.push_back({contender.name, contender.kind, contender.pass_dir});
    if (contender.kind == "pass_mgr") states.push_back(contender.name);
  }
  if (states.size() == 2) options.compare = {states[0], states[1]};
  PN_TRY(const eval::EvalReport report, eval::evaluate(context_, options));
  return evaluation_of(report, request);
}

Result<Evaluation> evaluation_of(const eval::EvalReport& report, const EvaluationRequest& request) {
  Evaluation evaluation;
  evaluation.seconds = report.seconds;
  if (report.runs.size() != 1) return internal_error("solve.runs", "an evaluation of one sample has one run");
  const eval::EvalRun& run = report.runs.front();
  evaluation.folder = run.out;
  struct Seen {
    const Json* record = nullptr;
    score::Measured measured;
  };
  std::map<std::string, std::map<std::string, Seen>> seen;  // by variant, by compiler
  for (const Json& record : run.records) {
    const std::string variant = record.value("variant", ""), compiler = record.value("compiler", "");
    PN_TRY(score::Measured measured, score::measured_of(record));
    evaluation.results[compiler][variant] = measurement_of(measured);
    if (measured.comparable == false) evaluation.comparable = false;
    seen[variant][compiler] = {&record, std::move(measured)};
  }
  const std::string& first = request.contenders.front().name;
  for (auto& [variant, by_compiler] : seen) {
    const auto base = by_compiler.find(first);
    // Where a backend that changes nothing, or the state that is challenged, fails on the live family too, it is eager that
    // does not equal itself there.
    bool live_tells = true;
    for (const Contender& contender : request.contenders) {
      const auto it = by_compiler.find(contender.name);
      const bool witness =
          contender.kind == "nope" || (contender.name == first && request.contenders.size() > 1 &&
                                       request.contenders[1].kind == "pass_mgr");
      if (witness && it != by_compiler.end() && right_on_own_inputs_alone(it->second.measured))
        live_tells = false;
    }
    for (auto& [compiler, it] : by_compiler) {
      Measurement& m = evaluation.results[compiler][variant];
      if (m.correct && live_tells && it.measured.kind == "pass_mgr" &&
          right_on_own_inputs_alone(it.measured)) {
        m.correct = false;
        m.outcome = kDegenerateOnly;
        m.why = "right on the sample's own inputs, which are degenerate, and not on live ones";
      }
      if (compiler != first && base != by_compiler.end())
        m.ratio =
            ratio_of(*base->second.record, *it.record, it.measured, evaluation.results[first][variant], m);
    }
  }
  for (const score::CompilerScore& c : report.score.compilers) evaluation.scores[c.compiler] = c.score;
  for (const std::string& variant : request.variants)
    if (evaluation.find(first, variant) == nullptr) evaluation.unmeasured.push_back(variant);
  return evaluation;
}

}  // namespace passnet
