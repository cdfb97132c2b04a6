// Tuning with scripted answers: what is measured, what is pinned, and that the state that comes of it is judged like any other.

#include "solve/tune.h"

#include <algorithm>

#include "codegen/pass_dir.h"
#include "sample/state_store.h"
#include "solve/solve.h"
#include "solve/test_preflight.h"
#include "solve/test_sample.h"

namespace passnet {
namespace {

constexpr std::string_view kChain = R"(
        c = a + b
        d = torch.nn.functional.gelu(c)
        e = d * 2.0
        return (e,)
)";

std::string pair_meta(int rows) {
  return tensor_class("a", fmt::format("[{}, 4096]", rows)) +
         tensor_class("b", fmt::format("[{}, 4096]", rows));
}

Json at(double time, Json ratio = nullptr) {
  return {{"eager_us", 100}, {"time_us", time}, {"ratio", std::move(ratio)}};
}

class TuneTest : public ::testing::Test {
 protected:
  TuneTest() {
    files_.put("s/graph_list.txt", "float32/0\nfloat32/1\nfloat32/2\n");
    put_variant(files_, "s/float32/0", model_text("a, b", kChain), pair_meta(4096));
    put_variant(files_, "s/float32/1", model_text("a, b", kChain), pair_meta(8192));
    put_variant(files_, "s/float32/2", model_text("a, b", kChain), pair_meta(4096));
    sample_ = captured(files_);
    profile_.harness_us = 10;  // far below the ceiling at a speedup of 1
    profile_.compiled_tax_us = 10;
    plan_ = plan_sample(sample_.variants, profile_, &estimate_schedule);
  }

  Result<TunePlan> tuning() { return TunePlan::make(plan_.upside.passes, sample_.variants, profile_); }

  Result<SolveReport> solve(FileSystem& files, std::vector<Json> answers, bool tune = true) {
    evaluator_.emplace(Json{{"schema", "passnet.evaluations/1"}, {"evaluations", std::move(answers)}},
                       &clock_);
    SolveContext context{files, clock_, preflight_, profile_, [](std::string_view) {}, &*evaluator_};
    SolveOptions options;
    options.sample = "s";
    options.tune = tune;
    return solve_sample(context, options);
  }
  static StateFiles in_force(FileSystem& files, Clock& clock) {
    return StateStore::open(files, clock, "s").value().current().value();
  }

  // Answers up to the tuning: the floor, then the larger regions where there are any.
  std::vector<Json> until_tuning() {
    std::vector<Json> out = {{{"contenders", {{"candidate", {{"*", at(98)}}}}}}};
    if (plan_.floor.passes.front().key != plan_.upside.passes.front().key)
      out.push_back(
          {{"contenders", {{"best", {{"*", at(98)}}}, {"candidate", {{"*", at(90, {1.1, 1.05, 1.15})}}}}}});
    return out;
  }
  // A round in which one contender is faster on some variants, and the others are not.
  static Json round_won_by(const std::string& name, const std::vector<std::string>& variants) {
    Json answer = {{"contenders", {{"best", {{"*", at(100)}}}}}};
    for (int i = 1; i <= 8; ++i)
      answer["contenders"][fmt::format("t{}", i)]["*"] = at(101, {0.99, 0.97, 1.01});
    for (const std::string& v : variants) answer["contenders"][name][v] = at(90, {1.11, 1.08, 1.14});
    return answer;
  }
  static Json last(Json candidate) {
    return {{"contenders", {{"best", {{"*", at(100)}}}, {"candidate", {{"*", std::move(candidate)}}}}}};
  }

  MemoryFiles files_;
  FakeClock clock_;
  FakePreflight preflight_;
  Profile profile_ = builtin_profile("h200").value();
  CapturedSample sample_;
  PlanResult plan_;
  std::optional<ScriptedEvaluator> evaluator_;
};

TEST_F(TuneTest, ARoundVariesOneKernelAtATime) {
  const Result<TunePlan> plan = tuning();
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->rounds().size(), 1u) << "one kernel has at most six other configurations";
  const std::vector<Variation>& round = plan->rounds()[0];
  ASSERT_GE(round.size(), 3u);
  const GeneratedPassDir as_it_is = generate_pass_dir(plan_.upside.passes).value();
  std::set<std::string> texts = {as_it_is.files.at("_shared_kernels.py")};
  for (const Variation& variation : round)
    texts.insert(generate_pass_dir(plan->with(variation)).value().files.at("_shared_kernels.py"));
  EXPECT_EQ(texts.size(), round.size() + 1) << "every variation is a text of its own";
}

TEST_F(TuneTest, WhatIsTooShortToBeSeenIsLeftAlone) {
  MemoryFiles small;
  put_sample(small);
  const CapturedSample sample = captured(small);
  const PlanResult plan = planned(sample);
  const Result<TunePlan> tuned = TunePlan::make(plan.upside.passes, sample.variants, profile_);
  ASSERT_TRUE(tuned.ok());
  EXPECT_TRUE(tuned->rounds().empty());
}

TEST_F(TuneTest, AShapeIsPinnedByTheVariantsThatHaveIt) {
  const Result<TunePlan> plan = tuning();
  ASSERT_TRUE(plan.ok());
  const std::vector<Variation>& round = plan->rounds()[0];
  const EvaluationRequest request{{{"best", "", ""}, {"t1", "", ""}, {"t2", "", ""}, {"t3", "", ""}},
                                  {"float32/0", "float32/1", "float32/2"},
                                  600};
  const auto pins = [&](const Json& answer) {
    return plan->winners(round, evaluation_from_json(answer, request).value(), "best");
  };
  // Variants 0 and 2 share their shape: one entry.
  std::vector<Pin> won = pins(round_won_by("t2", {"float32/0", "float32/2"}));
  ASSERT_EQ(won.size(), 1u);
  EXPECT_EQ(won[0].entry, 0u);
  EXPECT_EQ(won[0].variants, 2u);
  EXPECT_NE(won[0].to, won[0].from);
  won = pins(round_won_by("t1", {"float32/1"}));
  ASSERT_EQ(won.size(), 1u);
  EXPECT_EQ(won[0].entry, 1u);
  // Faster on one of the two that share an entry, as much slower on the other.
  Json torn = round_won_by("t2", {"float32/0"});
  torn["contenders"]["t2"]["float32/2"] = at(110, {0.9, 0.85, 0.95});
  EXPECT_TRUE(pins(torn).empty());
  // The better of two.
  Json two = round_won_by("t1", {"float32/1"});
  two["contenders"]["t3"]["float32/1"] = at(80, {1.25, 1.2, 1.3});
  won = pins(two);
  ASSERT_EQ(won.size(), 1u);
  EXPECT_NEAR(won[0].ratio.value, 1.25, 1e-9);
  // Faster and wrong is nothing.
  two["contenders"]["t3"]["float32/1"]["correct"] = false;
  EXPECT_NEAR(pins(two).at(0).ratio.value, 1.11, 1e-9);
  // Times without a GPU pin nothing.
  two["comparable"] = false;
  EXPECT_TRUE(pins(two).empty());
}

TEST_F(TuneTest, TheTunedStateIsJudgedAndMeasuredAndKept) {
  std::vector<Json> answers = until_tuning();
  answers.push_back(round_won_by("t2", {"float32/0", "float32/1", "float32/2"}));
  answers.push_back(last(at(90, {1.11, 1.08, 1.14})));
  const Result<SolveReport> report = solve(files_, answers);
  ASSERT_TRUE(report.ok()) << report.error().message;
  ASSERT_TRUE(report->chosen.has_value());
  const SolvedState& state = report->states[*report->chosen];
  EXPECT_EQ(state.kind, "tuned");
  EXPECT_EQ(state.decision, Decision::kFaster);
  EXPECT_TRUE(state.preflight.green());
  EXPECT_EQ(report->pins.size(), 2u) << "one an entry";
  EXPECT_EQ(evaluator_->asked.size(), answers.size());
  // The same decisions give the same bytes.
  const StateFiles first = in_force(files_, clock_);
  MemoryFiles fresh;
  fresh.put("s/graph_list.txt", "float32/0\nfloat32/1\nfloat32/2\n");
  for (const auto& [name, rows] : {std::pair{"0", 4096}, {"1", 8192}, {"2", 4096}})
    put_variant(fresh, fmt::format("s/float32/{}", name), model_text("a, b", kChain), pair_meta(rows));
  ASSERT_TRUE(solve(fresh, answers).ok());
  EXPECT_EQ(in_force(fresh, clock_), first);
  // The numbers stand in the table of entries, by shape.
  const GeneratedPassDir as_it_is = generate_pass_dir(plan_.upside.passes).value();
  EXPECT_NE(first.at("_shared_kernels.py"), as_it_is.files.at("_shared_kernels.py"));
  EXPECT_EQ(to_json(*report)["tuning"].size(), 2u);
}

TEST_F(TuneTest, ATunedStateThatDoesNotWinIsTakenBack) {
  struct Case {
    std::string name;
    Json answer;
    Decision decision;
  };
  for (const Case& c : {Case{"slower", last(at(120, {0.9, 0.85, 0.95})), Decision::kSlower},
                        Case{"no difference", last(at(100, {1.0, 0.98, 1.02})), Decision::kUndecided},
                        Case{"wrong", last({{"correct", false}}), Decision::kIncorrect}}) {
    SCOPED_TRACE(c.name);
    std::vector<Json> answers = until_tuning();
    const size_t before = answers.size();
    answers.push_back(round_won_by("t2", {"float32/0"}));
    answers[before]["contenders"]["t2"]["float32/2"] = at(90, {1.11, 1.08, 1.14});
    answers.push_back(c.answer);
    MemoryFiles files;
    for (const auto& [path, text] : files_.files()) files.put(path, text);
    const Result<SolveReport> report = solve(files, answers);
    ASSERT_TRUE(report.ok());
    EXPECT_NE(report->states[*report->chosen].kind, "tuned");
    EXPECT_EQ(report->states.back().kind, "tuned");
    EXPECT_EQ(report->states.back().decision, c.decision);
    EXPECT_TRUE(report->pins.empty());
    EXPECT_TRUE(report->green());
  }
}

TEST_F(TuneTest, ATunedStateThatFailsItsPreflightIsNotMeasured) {
  std::vector<Json> answers = until_tuning();
  answers.push_back(round_won_by("t2", {"float32/1"}));
  const size_t judged = answers.size() - 1;
  preflight_.change = [&, calls = size_t{0}](const StateUnderTest&, PreflightReport& report) mutable {
    if (calls++ == judged) fail_variant(report, 1);
  };
  const Result<SolveReport> report = solve(files_, answers);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(evaluator_->asked.size(), answers.size());
  EXPECT_EQ(report->states.back().kind, "tuned");
  EXPECT_FALSE(report->states.back().decision.has_value());
  EXPECT_NE(report->states[*report->chosen].kind, "tuned");
}

TEST_F(TuneTest, WithoutTheOptionNothingIsTuned) {
  const std::vector<Json> answers = until_tuning();
  const Result<SolveReport> report = solve(files_, answers, false);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(evaluator_->asked.size(), answers.size());
  EXPECT_EQ(report->stop, StopReason::kNothingLeft);
}

TEST_F(TuneTest, ARoundIsNotBegunWithoutAnEvaluationForItsResult) {
  std::vector<Json> answers = until_tuning();
  evaluator_.emplace(Json{{"schema", "passnet.evaluations/1"}, {"evaluations", answers}}, &clock_);
  SolveContext context{files_, clock_, preflight_, profile_, [](std::string_view) {}, &*evaluator_};
  SolveOptions options;
  options.sample = "s";
  options.tune = true;
  options.max_evaluations = answers.size() + 1;
  const Result<SolveReport> report = solve_sample(context, options);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(evaluator_->asked.size(), answers.size());
}

}  // namespace
}  // namespace passnet
