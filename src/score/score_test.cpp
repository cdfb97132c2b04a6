#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "score/es.h"
#include "score/guide.h"
#include "score/log.h"
#include "score/record.h"
#include "score/report.h"

namespace passnet::score {
namespace {

using testing::HasSubstr;

TEST(Tolerance, KeysAreThoseOfTheLog) {
  EXPECT_EQ(all_close_key("float32", -5), "all_close_atol_1.00E-05_rtol_1.30E-06");
  EXPECT_EQ(all_close_key("float16", -5), "all_close_atol_1.00E-05_rtol_1.00E-03");
  EXPECT_EQ(all_close_key("bfloat16", -5), "all_close_atol_1.00E-05_rtol_1.60E-02");
  EXPECT_EQ(all_close_key("float64", -5), "all_close_atol_1.00E-07_rtol_1.00E-07");
  EXPECT_EQ(all_close_key("float32", -1), "all_close_atol_1.00E-01_rtol_6.65E-02");
  for (const std::string_view d : kFloatDtypes)
    EXPECT_EQ(all_close_key(d, 0), "all_close_atol_1.00E+00_rtol_1.00E+00");
  EXPECT_TRUE(is_judged_by_equality("int64"));
}

EsInput input(std::optional<int> first_t, double speedup, PublicStatus status = PublicStatus::kCorrect) {
  EsInput v;
  v.status = status;
  v.speedup = speedup;
  for (int t = kFirstT; t <= kLastExtendedT; ++t)
    v.correct[static_cast<size_t>(t - kFirstT)] = first_t && t >= *first_t;
  return v;
}

TEST(Es, TheConstantsComeOut) {
  const auto score = [](const EsInput& v) { return score_of(std::span(&v, 1)); };
  EXPECT_NEAR(score(input(-5, 1)), 0.99807, 5e-6);
  EXPECT_NEAR(score(input(std::nullopt, 7)), 0.1472, 5e-5);
  EXPECT_NEAR(score(input(-4, 1)), 0.678, 5e-4);
  EXPECT_NEAR(score(input(-3, 1)), 0.461, 5e-4);
  EXPECT_NEAR(score(input(std::nullopt, 1, PublicStatus::kEagerFail)), 0.1, 1e-12);
  EXPECT_NEAR(score(input(std::nullopt, 1, PublicStatus::kShapeMismatch)), 0.1107, 5e-5);
  EXPECT_NEAR(score(input(-10, 0.73)), 0.73, 1e-12);
}

TEST(Es, TheExtendedInterpretationToleratesMismatchesEarlierAndCompilationLater) {
  EsOptions extended;
  extended.interpretation = Interpretation::kMismatchExtended;
  const EsInput shape = input(std::nullopt, 1, PublicStatus::kShapeMismatch);
  const EsInput compile = input(std::nullopt, 1, PublicStatus::kCompileFail);
  EXPECT_EQ(es_of(shape, 2), kFailed);
  EXPECT_EQ(es_of(shape, 2, extended), 1.0);
  EXPECT_EQ(es_of(compile, 3), 1.0);
  EXPECT_EQ(es_of(compile, 3, extended), kFailed);
  EXPECT_EQ(es_of(compile, 4, extended), 1.0);
}

TEST(Es, NoVariantsHaveNoScore) {
  EXPECT_EQ(es_at({}, 0), 0);
  EXPECT_EQ(score_of({}), 0);
  EXPECT_FALSE(make_report({}, {}).green());
}

TEST(Tables, EveryOutcomeHasItsVerdictAndItsFix) {
  const std::set<std::string_view> verdicts = {
      "ok",         "wrong_output",    "forbidden_op",   "rejected_source",
      "no_match",   "unstable_timing", "resource_limit", "crash",
      "infra_error"};
  const std::set<std::string_view> counts = {"",
                                             "score_above_eager",
                                             "correct_but_slow",
                                             "numeric_preflight_blocked",
                                             "correctness_regressed_on_larger_region",
                                             "evaluator_instability"};
  std::set<std::string_view> names, used;
  for (const OutcomeRow& r : outcome_table()) {
    EXPECT_TRUE(names.insert(r.name).second) << r.name;
    EXPECT_TRUE(verdicts.contains(r.verdict)) << r.verdict;
    EXPECT_TRUE(counts.contains(r.count)) << r.count;
    EXPECT_EQ(&row(r.outcome), &r) << "the table is in the order of the enumeration";
    if (r.verdict == "ok") continue;
    ASSERT_NE(find_failure_class(r.failure), nullptr) << r.failure;
    used.insert(r.failure);
  }
  for (const FailureClass& f : failure_classes()) {
    EXPECT_TRUE(real_files().is_file(join_path(PASSNET_SOURCE_DIR, f.where))) << f.where;
    EXPECT_FALSE(f.fix.empty());
  }
}

TEST(Guide, HasElevenRowsAndEachSpeaksForItsOwnSignal) {
  ASSERT_EQ(decision_guide().size(), 11u);
  std::map<std::string_view, GuideFacts> examples;
  examples["overhead_bound"] = {.eager_us = 90, .cheap_nodes = 2};
  examples["per_call_costs"] = {.eager_us = 400, .nodes_us = 150};
  examples["kernel_target"] = {.heavy_share = 0.7, .heavy_matchable = true};
  examples["disjoint_conv"] = {.heavy_is_conv = true, .heavy_is_library = true, .conv_disjoint = true};
  examples["library_op"] = {.heavy_is_conv = true, .heavy_is_library = true, .conv_disjoint = false};
  examples["kwargs_form"] = {.heavy_share = 0.8, .heavy_matchable = false};
  examples["launch_bound"] = {.speedup_e2e = 0.8, .speedup_gpu = 0.82};
  examples["host_overhead"] = {.speedup_e2e = 0.8, .speedup_gpu = 1.4};
  examples["some_dtypes_fail"] = {.dtypes_failing = 1, .dtypes_total = 3};
  examples["timed_out"] = {.timed_out = true};
  examples["unstable_evaluator"] = {.fluctuation = true, .others_correct = true};
  for (const GuideRow& r : decision_guide()) {
    const auto said = advice(examples.at(r.id));
    ASSERT_EQ(said.size(), 1u) << r.id;
    EXPECT_EQ(said[0]->id, r.id);
  }
  EXPECT_TRUE(advice({}).empty()) << "nothing measured, nothing said";
}

TEST(Log, AMarkMayHaveAnyPrefixAndLaterLinesWin) {
  const ParsedLog log = parse_log(
      "x 12:00 [Processing] float16/3\nfoo [Datatype][eager]: torch.float16\r\n[Datatype][compiled]: "
      "float16\n"
      "[DataType] eager:['float16'] compiled:['float16'] match:True\n[Result] status: success\n"
      "[Speedup][e2e]: 1.00000\nbar [Speedup][e2e]: 2.50000\n");
  ASSERT_EQ(log.variants.size(), 1u);
  EXPECT_EQ(log.variants[0].dtype, "float16");
  EXPECT_EQ(log.variants[0].eager_dtypes, std::vector<std::string>{"float16"});
  EXPECT_EQ(log.variants[0].speedup_e2e, 2.5);
}

TEST(Log, WhatIsPrintedWhileLoadingBelongsToTheNextVariant) {
  const ParsedLog log = parse_log(
      "[Processing] a\nApplied 2 replacements with P.\nDetected hacking behavior, forbidden torch API usage\n"
      "Pass source validation failed for /x/Q.py:\n  - Line 3: blocked call 'torch.mm' (resolves to "
      "'torch.mm')\n"
      "Skipping loading of /x/Q.py due to validation failures.\n[PassMgrBackend] Loaded 1 passes: "
      "['P']\n[Processing] b\n"
      "Pass P failed to match.\nDiagnostic for P (best-attempt):\n  - MatchFailure(type=OP, p=add, t=mul)\n");
  ASSERT_EQ(log.variants.size(), 2u);
  EXPECT_EQ(log.variants[0].passes[0].applied, 2);
  EXPECT_TRUE(log.variants[0].rejected.empty());
  EXPECT_THAT(log.variants[1].rejected, testing::ElementsAre(HasSubstr("Q.py: Line 3")));
  EXPECT_EQ(log.variants[1].loaded, 1);
  EXPECT_EQ(log.variants[1].passes[0].diagnosis.size(), 1u);
}

TEST(Record, TheLogOfARecordSaysWhatTheRecordSays) {
  Json sweep = Json::array();
  for (int t = kFirstT; t <= kLastExtendedT; ++t)
    for (const std::string_view d : kFloatDtypes)
      sweep.push_back({all_close_key(d, t), {t >= -4 ? 1 : 0, 1}});
  const auto side = [](double e2e, double gpu) {
    return Json{{"ok", true},
                {"e2e", {{"median", e2e}, {"iqr", 0.01}}},
                {"gpu", {{"median", gpu}}},
                {"dtypes", {"float32", "int64"}},
                {"shapes", {{2}, {3}}},
                {"e2e_ms", {e2e}},
                {"gpu_ms", {gpu}}};
  };
  const Json record = {
      {"schema", kRecordSchema},
      {"variant", "float32/1"},
      {"compiler", "pass_mgr"},
      {"kind", "pass_mgr"},
      {"dtype", "float32"},
      {"device", "cuda"},
      {"hardware", "GPU X"},
      {"torch", "2.11"},
      {"warmup", 25},
      {"trials", 100},
      {"status", "success"},
      {"loaded", {"P"}},
      {"compiled", side(0.05, 0.02)},
      {"eager", side(0.1, 0.03)},
      {"type_match", true},
      {"shape_match", true},
      {"correctness",
       {{"equal", {0, 1}}, {"allclose", sweep}, {"max_diff", {0.5, 0.0}}, {"mean_diff", {0.25, 0.0}}}},
      {"speedup_e2e", 2.0},
      {"speedup_gpu", 1.5},
      {"first_correct_t", -4},
      {"graphs", {{{"passes", {{{"pass", "P"}, {"matches", {Json::object()}}}}}}}}};
  const auto direct = measured_of(record);
  ASSERT_TRUE(direct.ok());
  const std::string text = public_log_block(record);
  EXPECT_THAT(
      text,
      HasSubstr(
          "graph-net-test-compiler-log [Performance][compiled]: {\"e2e\": {\"median\": 0.05, \"iqr\": 0.01}, "
          "\"gpu\": {\"median\": 0.02}}\n"));
  EXPECT_THAT(text, HasSubstr("[Correctness][max_diff]: 0.5 0.0\n"));
  const ParsedLog log = parse_log(text);
  ASSERT_EQ(log.variants.size(), 1u);
  for (const bool compat : {false, true}) {
    const Judged a = judge(*direct, compat), b = judge(log.variants[0], compat);
    EXPECT_EQ(a.outcome, b.outcome);
    EXPECT_EQ(a.outcome, Outcome::kInaccurate);
    EXPECT_EQ(a.status, b.status);
    EXPECT_EQ(a.correct, b.correct);
    EXPECT_EQ(a.first_correct_t, -4);
    EXPECT_EQ(a.speedup, b.speedup);
  }
  EXPECT_EQ(log.variants[0].compiled.e2e_us, 50.0);
  EXPECT_EQ(log.variants[0].hardware, "GPU X");
  EXPECT_EQ(log.variants[0].passes[0].applied, 1);
}

TEST(Report, ARecordOfOneVariantAndCompilerCountsOnceTheLatest) {
  Measured first;
  first.source = Measured::Source::kRecord;
  first.sample = "s";
  first.variant = "v";
  first.compiler = "pass_mgr";
  Measured second = first;
  second.message = "later";
  const ScoreReport report = make_report({first, second}, {});
  ASSERT_EQ(report.variants.size(), 1u);
  EXPECT_EQ(report.variants[0].measured.message, "later");
}

// What the clock of a strict run's reference saw, what the trials claim of it, and what such blocks take beside.
TEST(Record, TheReferencesClockIsOverwhelmedByWhatIsMissingAlone) {
  const auto ratio = [](double seen, double claimed, std::optional<double> beside, bool comparable = true) {
    Json clock = {{"seen", seen}, {"claimed", claimed}};
    if (beside) clock["beside"] = *beside;
    const auto m = measured_of({{"schema", kRecordSchema}, {"own_clock", clock}, {"comparable", comparable}});
    return m.ok() ? m->clock_ratio : std::nullopt;
  };
  EXPECT_FALSE(ratio(0.050, 0.045, 0.0));
  EXPECT_NEAR(*ratio(0.050, 0.005, 0.0), 0.1, 1e-9);
  EXPECT_FALSE(ratio(0.050, 0.005, 0.040));  // large inputs: their contents are written before each call
  EXPECT_FALSE(ratio(0.015, 0.001, 0.0));    // too little to tell
  EXPECT_FALSE(ratio(1.0, 0.85, 0.0));       // less than a fifth
  EXPECT_TRUE(ratio(1.0, 0.30, 0.40));
  EXPECT_FALSE(ratio(1.0, 0.25, 0.0, false));  // interpreted
  EXPECT_TRUE(ratio(1.0, 0.01, 0.02, false));
  EXPECT_TRUE(ratio(0.050, 0.005, std::nullopt));
}

}  // namespace
}  // namespace passnet::score
