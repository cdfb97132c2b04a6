// The loop over evaluations, every branch with scripted answers.

#include <algorithm>
#include <cmath>

#include "sample/state_store.h"
#include "solve/evaluator.h"
#include "solve/solve.h"
#include "solve/test_preflight.h"
#include "solve/test_sample.h"

namespace passnet {
namespace {

constexpr double kEager = 100;

// A measurement with this speedup; `ratio` to the first contender where there is one.
Json fast(double speedup, Json ratio = nullptr) {
  return {{"eager_us", kEager}, {"time_us", kEager / speedup}, {"ratio", std::move(ratio)}};
}
Json better(double speedup) { return fast(speedup, {1.10, 1.05, 1.15}); }
Json worse(double speedup) { return fast(speedup, {0.90, 0.85, 0.95}); }
Json even(double speedup) { return fast(speedup, {1.01, 0.95, 1.07}); }
Json wrong(std::string outcome = "inaccurate") {
  return {{"correct", false}, {"outcome", std::move(outcome)}, {"why", "an element too many"}};
}

Json floor_of(Json all) { return {{"contenders", {{"candidate", {{"*", std::move(all)}}}}}}; }
Json pair(Json best, Json candidate) {
  return {{"contenders", {{"best", {{"*", std::move(best)}}}, {"candidate", {{"*", std::move(candidate)}}}}}};
}
Json failure() { return {{"error", "the worker died"}}; }
Json without_gpu(Json answer) {
  answer["comparable"] = false;
  return answer;
}
Json taking(Json answer, double seconds) {
  answer["seconds"] = seconds;
  return answer;
}

class LoopTest : public ::testing::Test {
 protected:
  LoopTest() {
    put_sample(files_);
    // A machine on which there is room between eager and the ceiling.
    profile_.harness_us = 40;
    profile_.compiled_tax_us = 20;
  }

  Result<SolveReport> try_solve(FileSystem& files, std::vector<Json> answers, SolveOptions options = {}) {
    Json script = {{"schema", "passnet.evaluations/1"}, {"evaluations", answers}};
    evaluator_.emplace(std::move(script), &clock_);
    SolveContext context{files, clock_, preflight_, profile_, [](std::string_view) {}, &*evaluator_};
    options.sample = "s";
    return solve_sample(context, options);
  }
  SolveReport solve(std::vector<Json> answers, SolveOptions options = {}) {
    Result<SolveReport> report = try_solve(files_, std::move(answers), std::move(options));
    if (!report.ok()) {
      ADD_FAILURE() << report.error().message;
      return {};
    }
    return std::move(*report);
  }
  StateFiles in_force(FileSystem& files) {
    return StateStore::open(files, clock_, "s").value().current().value();
  }
  StateFiles kept_state(FileSystem& files, const std::string& hash) {
    return StateStore::open(files, clock_, "s").value().read_state(hash).value();
  }
  double ceiling() {
    return plan_sample(captured(files_).variants, profile_, &estimate_schedule).gmean_ceiling;
  }

  MemoryFiles files_;
  FakeClock clock_;
  FakePreflight preflight_;
  Profile profile_ = builtin_profile("h200").value();
  std::optional<ScriptedEvaluator> evaluator_;
};

std::vector<std::string> decisions(const SolveReport& report) {
  std::vector<std::string> out;
  for (const EvaluationNote& note : report.evaluations)
    out.emplace_back(note.decision ? to_string(*note.decision) : "none");
  return out;
}

struct Row {
  std::string name;
  std::vector<Json> answers;
  std::string stop;
  std::vector<std::string> decisions;
  std::string chosen;  // kind of the state in force at the end
  bool green = true;
  SolveOptions options = {};
};

SolveOptions budget(size_t evaluations) {
  SolveOptions options;
  options.max_evaluations = evaluations;
  return options;
}
SolveOptions seconds(double total) {
  SolveOptions options;
  options.total_seconds = total;
  return options;
}

TEST_F(LoopTest, EveryBranch) {
  const double top = ceiling();
  ASSERT_GT(top, 1.15) << "the rows below want room between eager and the ceiling";
  const double some = 1.02;  // ahead of eager, below nine tenths of the ceiling
  ASSERT_LT(some, 0.9 * top);
  const std::vector<Row> rows = {
      {"the upside wins",
       {floor_of(fast(0.8)), pair(fast(0.8), better(some))},
       "nothing_left",
       {"first", "faster"},
       "upside"},
      {"the upside wins and is slower than eager",
       {floor_of(fast(0.7)), pair(fast(0.7), better(0.8))},
       "overhead_bound",
       {"first", "faster"},
       "upside"},
      {"the floor is enough", {floor_of(fast(0.95 * top))}, "ceiling_reached", {"first"}, "floor"},
      {"the upside is enough",
       {floor_of(fast(0.8)), pair(fast(0.8), better(0.95 * top))},
       "ceiling_reached",
       {"first", "faster"},
       "upside"},
      {"upside and narrower lose: a slow floor stays",
       {floor_of(fast(0.8)), pair(fast(0.8), worse(0.7)), pair(fast(0.8), worse(0.75))},
       "overhead_bound",
       {"first", "slower", "slower"},
       "floor"},
      {"the narrower wins after a loss",
       {floor_of(fast(0.8)), pair(fast(0.8), worse(0.7)), pair(fast(0.8), better(some))},
       "nothing_left",
       {"first", "slower", "faster"},
       "narrower"},
      {"the narrower is tried where the upside is wrong",
       {floor_of(fast(0.8)), pair(fast(0.8), wrong()), pair(fast(0.8), better(some))},
       "nothing_left",
       {"first", "incorrect", "faster"},
       "narrower"},
      {"an upside that hangs",
       {floor_of(fast(0.8)), pair(fast(0.8), wrong("timeout")), pair(fast(0.8), worse(0.5))},
       "overhead_bound",
       {"first", "incorrect", "slower"},
       "floor"},
      {"an upside that crashes",
       {floor_of(fast(some)), pair(fast(some), wrong("crash")), pair(fast(some), wrong("crash"))},
       "nothing_left",
       {"first", "incorrect", "incorrect"},
       "floor"},
      {"nothing is decided: the smaller state stays, and no narrower one is tried",
       {floor_of(fast(0.8)), pair(fast(0.8), even(0.8))},
       "overhead_bound",
       {"first", "undecided"},
       "floor"},
      {"no times of the upside",
       {floor_of(fast(0.8)), pair(fast(0.8), fast(0.9))},
       "overhead_bound",
       {"first", "unmeasured"},
       "floor"},
      {"the budget ends after the floor",
       {floor_of(fast(0.8))},
       "budget",
       {"first"},
       "floor",
       true,
       budget(1)},
      {"the budget ends before the narrower",
       {floor_of(fast(0.8)), pair(fast(0.8), worse(0.7))},
       "budget",
       {"first", "slower"},
       "floor",
       true,
       budget(2)},
      {"the time ends",
       {taking(floor_of(fast(0.8)), 70)},
       "time_limit",
       {"first"},
       "floor",
       true,
       seconds(100)},
      {"the time would end within the next",
       {taking(floor_of(fast(0.8)), 40), taking(pair(fast(0.8), worse(0.7)), 50)},
       "time_limit",
       {"first", "slower"},
       "floor",
       true,
       seconds(120)},
      {"the evaluator fails once",
       {failure(), floor_of(fast(0.8)), pair(fast(0.8), better(some))},
       "nothing_left",
       {"evaluator_failed", "first", "faster"},
       "upside"},
      {"the evaluator fails twice on the floor",
       {failure(), failure()},
       "evaluator_failed",
       {"evaluator_failed", "evaluator_failed"},
       "floor",
       false},
      {"the evaluator fails twice on the upside",
       {floor_of(fast(0.8)), failure(), failure()},
       "evaluator_failed",
       {"first", "evaluator_failed", "evaluator_failed"},
       "floor",
       false},
      {"failures apart are no two in a row",
       {failure(), floor_of(fast(0.8)), failure(), pair(fast(0.8), better(some))},
       "nothing_left",
       {"evaluator_failed", "first", "evaluator_failed", "faster"},
       "upside"},
      {"without a GPU: right, and no more is said",
       {without_gpu(floor_of(fast(0.1))), without_gpu(pair(fast(0.1), worse(0.01)))},
       "not_comparable",
       {"first", "predicted"},
       "upside"},
      {"without a GPU: wrong counts",
       {without_gpu(floor_of(fast(0.1))), without_gpu(pair(fast(0.1), wrong())),
        without_gpu(pair(fast(0.1), fast(9)))},
       "not_comparable",
       {"first", "incorrect", "predicted"},
       "narrower"},
      {"a wrong floor gives way to another",
       {floor_of(wrong()), floor_of(fast(0.8)), pair(fast(0.8), better(some))},
       "nothing_left",
       {"first", "more_correct", "faster"},
       "upside"},
      {"an answer that is none ends like a failure",
       {{{"no", "contenders"}}, {{"no", "contenders"}}},
       "evaluator_failed",
       {"evaluator_failed", "evaluator_failed"},
       "floor",
       false},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    MemoryFiles files;
    put_sample(files);
    const Result<SolveReport> report = try_solve(files, row.answers, row.options);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(to_string(report->stop), row.stop);
    EXPECT_EQ(decisions(*report), row.decisions);
    EXPECT_EQ(evaluator_->asked.size(), row.answers.size()) << "every answer is asked for, and no more";
    ASSERT_TRUE(report->chosen.has_value());
    EXPECT_EQ(report->states[*report->chosen].kind, row.chosen);
    EXPECT_EQ(report->green(), row.green);
    EXPECT_EQ(in_force(files), kept_state(files, report->states[*report->chosen].hash));
    EXPECT_LE(report->evaluations.size(), row.options.max_evaluations);
    const Json json = to_json(*report);
    EXPECT_EQ(json["stop_reason"], row.stop);
    EXPECT_EQ(json["evaluations_used"], row.answers.size());
    EXPECT_NE(to_text(*report).find(std::string(meaning(report->stop))), std::string::npos);
  }
}

TEST_F(LoopTest, TheFloorIsInForceAndAloneWhileItIsMeasured) {
  const SolveReport report = solve({floor_of(fast(0.8)), pair(fast(0.8), better(1.02))});
  ASSERT_EQ(evaluator_->asked.size(), 2u);
  const EvaluationRequest& first = evaluator_->asked[0];
  ASSERT_EQ(first.contenders.size(), 3u);
  EXPECT_EQ(first.contenders[0].name, "candidate");
  EXPECT_EQ(first.contenders[0].pass_dir, "s/.passnet/history/" + report.states[0].hash + "/files");
  EXPECT_EQ(first.contenders[1].kind, "nope");
  EXPECT_EQ(first.contenders[2].kind, "ceiling");
  EXPECT_EQ(first.variants, (std::vector<std::string>{"float32/0", "float32/1"}));
  // Then the two states alone, the best one first: its time is what ratios are of.
  const EvaluationRequest& second = evaluator_->asked[1];
  ASSERT_EQ(second.contenders.size(), 2u);
  EXPECT_EQ(second.contenders[0].name, "best");
  EXPECT_EQ(second.contenders[0].pass_dir, first.contenders[0].pass_dir);
  EXPECT_EQ(second.contenders[1].pass_dir, "s/.passnet/history/" + report.states[1].hash + "/files");
}

TEST_F(LoopTest, TheReportHasPredictedBesideMeasured) {
  const SolveReport report = solve({floor_of(fast(0.8)), pair(fast(0.75), better(1.02))});
  const Json json = to_json(report);
  EXPECT_NEAR(json["score"].get<double>(), 1.02, 1e-9);
  ASSERT_EQ(json["evaluations"].size(), 2u);
  const Json& second = json["evaluations"][1];
  EXPECT_EQ(second["change"], "larger regions");
  EXPECT_EQ(second["decision"], "faster");
  EXPECT_EQ(second["kept"], true);
  EXPECT_NEAR(second["ratio_to_best"][0].get<double>(), 1.10, 1e-9);
  EXPECT_GT(second["ratio_to_best"][1].get<double>(), 1.05) << "two variants say more than one";
  EXPECT_GT(second["predicted_speedup"].get<double>(), 0);
  EXPECT_NEAR(second["measured_speedup"].get<double>(), 1.02, 1e-9);
  EXPECT_EQ(json["variants"][0]["measured"]["outcome"], "correct");
  EXPECT_NEAR(json["variants"][0]["measured"]["speedup"].get<double>(), 1.02, 1e-9);
  EXPECT_TRUE(json["variants"][0].contains("predicted"));
  // What the floor was measured at last, beside the upside.
  EXPECT_NEAR(json["states"][0]["measured_speedup"].get<double>(), 0.75, 1e-9);
  StateStore store = StateStore::open(files_, clock_, "s").value();
  EXPECT_EQ((*store.get_record(report.states[1].hash, "evaluation"))["decision"], "faster");
}

TEST_F(LoopTest, WhatWasAnsweredCanBeAnsweredAgain) {
  const SolveReport first = solve({failure(), floor_of(fast(0.8)), pair(fast(0.8), better(1.02))});
  const Json answers = parse_json(files_.read("s/.passnet/evaluations.json").value()).value();
  MemoryFiles fresh;
  put_sample(fresh);
  const Result<SolveReport> second = try_solve(fresh, answers["evaluations"].get<std::vector<Json>>());
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(decisions(*second), decisions(first));
  EXPECT_EQ(in_force(fresh), in_force(files_));
}

TEST_F(LoopTest, AWrongVariantIsNamedAndTheReportIsRed) {
  // The floor is right on one variant of two, and so is all that could follow.
  Json half = {{"contenders", {{"candidate", {{"float32/0", fast(0.8)}, {"float32/1", wrong()}}}}}};
  std::vector<Json> answers(6, half);
  const SolveReport report = solve(answers);
  EXPECT_FALSE(report.green());
  ASSERT_FALSE(report.evaluations.empty());
  EXPECT_EQ(report.evaluations[0].correct, 1u);
  ASSERT_EQ(report.evaluations[0].wrong.size(), 1u);
  EXPECT_EQ(report.evaluations[0].wrong[0], "float32/1: inaccurate, an element too many");
  EXPECT_EQ(report.chosen, 0u) << "no other is right on more variants";
  EXPECT_NE(to_text(report).find("float32/1: inaccurate"), std::string::npos);
}

TEST_F(LoopTest, WhatTheSurroundingsSpoiltDecidesNothing) {
  Json spoilt = wrong("infra");
  spoilt["counts"] = false;
  // Of the upside one variant was lost to the machine, the other is faster.
  const Json answer = {
      {"contenders",
       {{"best", {{"*", fast(0.8)}}}, {"candidate", {{"float32/0", better(1.02)}, {"float32/1", spoilt}}}}}};
  const SolveReport report = solve({floor_of(fast(0.8)), answer});
  EXPECT_EQ(decisions(report), (std::vector<std::string>{"first", "faster"}));
  EXPECT_TRUE(report.green());
}

TEST_F(LoopTest, TheFirstEvaluationRecalibrates) {
  // A host three times as slow as the profile's: eager and the wrappers with it.
  const CapturedSample sample = captured(files_);
  Profile slow = profile_;
  slow.host_scale = 3;
  slow.harness_us = 300;
  const std::vector<double> eager = predicted_eager_us(sample.variants, slow);
  Json answer = {{"contenders", Json::object()}};
  for (size_t v = 0; v < sample.variants.size(); ++v) {
    const std::string& name = sample.variants[v].name;
    answer["contenders"]["candidate"][name] = {{"eager_us", eager[v]}, {"time_us", eager[v] * 1.2}};
    answer["contenders"]["nope"][name] = {{"eager_us", eager[v]}, {"time_us", eager[v] + 60}};
    answer["contenders"]["ready"][name] = {{"eager_us", eager[v]}, {"time_us", 300 + 60 + profile_.sync_us}};
  }
  const SolveReport report = solve({answer, pair(fast(0.8), better(1.02))});
  std::map<std::string, double> now;
  for (const Calibration::Change& change : report.calibration) now[change.field] = change.to;
  EXPECT_NEAR(now["compiled_tax_us"], 60, 1e-6);
  EXPECT_NEAR(now["harness_us"], 300, 1e-6);
  EXPECT_NEAR(now["host_scale"], 3, 0.02);
  EXPECT_NEAR(now["launch_us"], 3 * profile_.launch_us, 0.1);
  // Predictions and the ceiling are those of the machine as measured.
  EXPECT_NEAR(report.plan.variants[0].eager_us, eager[0], 1);
  EXPECT_NE(report.plan.gmean_ceiling, ceiling());
}

TEST_F(LoopTest, TimesWithoutAGpuRecalibrateNothing) {
  Json answer = floor_of(fast(0.8));
  answer["contenders"]["nope"]["*"] = {{"eager_us", 1e6}, {"time_us", 2e6}};
  const SolveReport report = solve({without_gpu(answer), without_gpu(pair(fast(1), fast(1)))});
  EXPECT_TRUE(report.calibration.empty());
  EXPECT_FALSE(report.score.has_value());
  EXPECT_TRUE(report.green());
  EXPECT_NE(to_text(report).find("without a GPU"), std::string::npos);
}

class ManyVariantsTest : public LoopTest {
 protected:
  explicit ManyVariantsTest(int count = 120) {
    std::string list;
    for (int i = 0; i < count; ++i) {
      const std::string name = fmt::format("float32/{}", i);
      list += name + "\n";
      put_variant(files_, "s/" + name, model_text("a, b, w, bias", kBlock), block_meta(16 + i));
    }
    files_.put("s/graph_list.txt", list);
  }
};

TEST_F(ManyVariantsTest, OfMoreThanTheTimeAllowsAPartIsMeasured) {
  const SolveReport report =
      solve({taking(floor_of(fast(0.8)), 400), taking(pair(fast(0.8), better(1.02)), 300)});
  ASSERT_EQ(evaluator_->asked.size(), 2u);
  const std::vector<std::string>&first = evaluator_->asked[0].variants,
        &second = evaluator_->asked[1].variants;
  EXPECT_EQ(first.size(), 40u) << "600 s, three contenders of 4 s, a fifth in reserve";
  // 400 s for 40 variants of three: 3.3 s each, so that two contenders leave room for 72.
  EXPECT_EQ(second.size(), 72u);
  EXPECT_EQ(evaluator_->asked[0].seconds, 600);
  // Those not measured yet come first.
  const std::set<std::string> seen(first.begin(), first.end());
  EXPECT_TRUE(
      std::none_of(second.begin(), second.end(), [&](const std::string& v) { return seen.contains(v); }));
  // Spread over the sizes: some of every tenth.
  std::set<int> tenths;
  for (const std::string& v : first) tenths.insert(std::stoi(v.substr(8)) / 12);
  EXPECT_EQ(tenths.size(), 10u);
  EXPECT_EQ(report.states[*report.chosen].measured.size(), 72u);
  EXPECT_NE(to_text(report).find("over 72 of 120 variants"), std::string::npos);
}

TEST_F(ManyVariantsTest, WhatTheLimitLeftOutIsSaid) {
  Json answer = floor_of(fast(0.8));
  answer["unmeasured"] = {"float32/0"};
  const SolveReport report = solve({answer, pair(fast(0.8), better(1.02))}, budget(2));
  const bool asked = std::ranges::count(evaluator_->asked[0].variants, "float32/0") > 0;
  ASSERT_TRUE(asked);
  EXPECT_EQ(report.evaluations[0].unmeasured, 1u);
  EXPECT_FALSE(report.states[0].measured.contains("float32/0") && report.evaluations.size() == 1);
  // It is among the first of the next.
  EXPECT_EQ(std::ranges::count(evaluator_->asked[1].variants, "float32/0"), 1);
}

TEST(Decisions, EveryRow) {
  const auto comparison = [](size_t base, size_t candidate, std::optional<Interval> ratio,
                             bool comparable = true) {
    Comparison c;
    c.variants = 3;
    c.base_correct = base;
    c.candidate_correct = candidate;
    c.ratio = ratio;
    c.comparable = comparable;
    return c;
  };
  const Interval up{1.1, 1.01, 1.2}, down{0.9, 0.8, 0.99}, both{1.05, 0.99, 1.1};
  const Sizes larger{2, 5, 1.0, 1.5}, smaller{5, 2, 1.0, 1.5}, worse_predicted{2, 5, 1.5, 1.0};
  EXPECT_EQ(decide(comparison(3, 3, up), larger), Decision::kFaster);
  EXPECT_EQ(decide(comparison(3, 3, down), smaller), Decision::kSlower);
  EXPECT_EQ(decide(comparison(3, 3, both), larger), Decision::kUndecided);
  EXPECT_EQ(decide(comparison(3, 3, both), smaller), Decision::kSmaller);
  EXPECT_EQ(decide(comparison(3, 2, up), larger), Decision::kIncorrect);
  EXPECT_EQ(decide(comparison(2, 3, down), larger), Decision::kMoreCorrect);
  EXPECT_EQ(decide(comparison(3, 3, std::nullopt), larger), Decision::kUnmeasured);
  EXPECT_EQ(decide(comparison(3, 3, down, false), larger), Decision::kPredicted);
  EXPECT_EQ(decide(comparison(3, 3, up, false), worse_predicted), Decision::kNotPredicted);
  EXPECT_EQ(decide(Comparison{}, larger), Decision::kUnmeasured);
  Comparison exchanged = comparison(2, 2, up);
  exchanged.lost = {"float32/0: inaccurate"};
  EXPECT_EQ(decide(exchanged, larger), Decision::kIncorrect);
}

TEST(Decisions, TheIntervalOfSeveralVariantsIsNarrower) {
  Evaluation evaluation;
  for (const char* variant : {"a", "b", "c", "d"}) {
    evaluation.results["best"][variant].correct = true;
    Measurement& m = evaluation.results["candidate"][variant];
    m.correct = true;
    m.ratio = Interval{1.1, 1.0, 1.21};
  }
  const Comparison c = compare(evaluation, "best", "candidate");
  ASSERT_TRUE(c.ratio.has_value());
  EXPECT_NEAR(c.ratio->value, 1.1, 1e-9);
  EXPECT_NEAR(std::log(c.ratio->high / c.ratio->low), std::log(1.21) / 2, 1e-9);
  evaluation.results["candidate"]["d"].ratio.reset();
  EXPECT_FALSE(compare(evaluation, "best", "candidate").ratio.has_value())
      << "one without times hides anything";
}

TEST(Decisions, AVariantThatIsWrongCountsATenth) {
  Evaluation evaluation;
  evaluation.results["it"]["a"] = {"correct", true, true, 100, 50, {}, ""};
  evaluation.results["it"]["b"] = {"inaccurate", false, true, 100, 10, {}, "too far"};
  const Standing s = standing(evaluation, "it");
  EXPECT_EQ(s.correct, 1u);
  EXPECT_NEAR(*s.speedup, std::sqrt(2 * 0.1), 1e-9);
  EXPECT_EQ(s.wrong, (std::vector<std::string>{"b: inaccurate, too far"}));
}

TEST(Ratios, OfBlocksTakenInTurn) {
  std::vector<double> a, b;
  for (int i = 0; i < 100; ++i) {
    const double drift = 1 + 0.2 * i / 100;  // the machine slows down, for both alike
    a.push_back(1.2 * drift * (1 + 0.01 * (i % 3)));
    b.push_back(1.0 * drift * (1 + 0.01 * (i % 7)));
  }
  const std::optional<Interval> r = ratio_of_blocks(a, b);
  ASSERT_TRUE(r.has_value());
  EXPECT_NEAR(r->value, 1.19, 0.03);
  EXPECT_LT(r->low, r->value);
  EXPECT_GT(r->low, 1.1);
  EXPECT_LT(r->high, 1.3);
  EXPECT_EQ(ratio_of_blocks(a, b)->low, r->low);
  EXPECT_FALSE(ratio_of_blocks({1, 2}, {1, 2}).has_value()) << "one block says nothing";
}

}  // namespace
}  // namespace passnet
