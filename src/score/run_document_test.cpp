#include <cmath>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "score/record.h"
#include "score/report.h"
#include "score/slow.h"
#include "score/tolerance.h"

namespace passnet::score {
namespace {

Measured measured(const std::string& sample, const std::string& variant, const std::string& compiler,
                  double speedup, double bytes = 1000) {
  Json sweep = Json::array();
  for (int t = kFirstT; t <= 5; ++t)
    for (const std::string_view d : kFloatDtypes) sweep.push_back({all_close_key(d, t), {1}});
  const auto side = [](double ms) {
    return Json{{"ok", true},
                {"e2e", {{"median", ms}}},
                {"gpu", {{"median", ms * 0.9}}},
                {"dtypes", {"float32"}},
                {"shapes", {{4}}}};
  };
  const Json record = {
      {"schema", kRecordSchema},
      {"sample", sample},
      {"variant", variant},
      {"compiler", compiler},
      {"kind", compiler == "passnet" ? "pass_mgr" : compiler},
      {"dtype", variant.substr(0, variant.find('/'))},
      {"status", "success"},
      {"input_bytes", bytes},
      {"eager_equals_itself", true},
      {"type_match", true},
      {"shape_match", true},
      {"speedup_e2e", speedup},
      {"first_correct_t", -10},
      {"live", {{"first_correct_t", -5}}},
      {"compiled", side(0.1 / speedup)},
      {"eager", side(0.1)},
      {"correctness", {{"equal", {1}}, {"max_diff", {0.0}}, {"mean_diff", {0.0}}, {"allclose", sweep}}}};
  auto m = measured_of(record);
  EXPECT_TRUE(m.ok());
  return std::move(*m);
}

SlowFacts facts(double speedup) {
  SlowFacts f;
  f.passes = true;
  f.speedup = speedup;
  f.ceiling = 1.4;
  f.predicted = speedup;
  f.device_share = 0.2;
  return f;
}

TEST(Slow, EveryRowIsReachedByWhatWasMeasured) {
  std::set<std::string_view> seen;
  const auto expect = [&](std::string_view id, const SlowFacts& f) {
    EXPECT_EQ(slow_reason(f).id, id);
    seen.insert(id);
  };
  SlowFacts f = facts(0.9);
  expect("as_predicted", f);
  f.region_refused = true;
  expect("region_refused", f);
  f.gate_refused = true;
  expect("gate_refused", f);
  f.predicted.reset();
  expect("other_passes", f);
  f = facts(0.8);
  f.ceiling = 0.95;
  expect("overhead_bound", f);
  f = facts(0.8);
  f.predicted = 0.9;
  expect("slower_than_predicted.host", f);
  f.device_share = 0.6;
  expect("slower_than_predicted.device", f);
  f.ceiling = 0.85;
  expect("at_legal_ceiling", f);
  f.ceiling.reset();
  expect("no_expectation", f);
  f.high_90 = 1.01;
  expect("within_noise", f);
  f.unsteady = true;
  expect("unsteady", f);
  f.passes = false;
  expect("baseline", f);
  EXPECT_EQ(seen.size(), slow_reasons().size());
}

TEST(Slow, ConditionsAskForWhatTheyRead) {
  // Any row on its own, with nothing known: none may look at a value that is not there.
  SlowFacts f;
  f.passes = true;
  for (const SlowReason& reason : slow_reasons()) {
    const bool applies = reason.applies(f);
    EXPECT_EQ(applies,
              reason.id == "no_expectation" || reason.id == "other_passes" || reason.id == "as_predicted")
        << reason.id;
    EXPECT_FALSE(reason.meaning.empty() || reason.action.empty());
  }
}

TEST(Slow, CodesAreOfTwoTablesAndEachHasAMeaning) {
  const Measured slow = measured("s", "float32/0", "passnet", 0.8);
  EXPECT_EQ(reason_code(slow, judge(slow, false)), "no_expectation");
  const Measured fast = measured("s", "float32/0", "passnet", 1.2);
  EXPECT_EQ(reason_code(fast, judge(fast, false)), "");
  Measured wrong = fast;
  wrong.other_calls = {"poisoned call 3: differs"};
  EXPECT_EQ(reason_code(wrong, judge(wrong, false)), "inconsistent");
  std::set<std::string_view> ids;
  for (const SlowReason& reason : slow_reasons()) EXPECT_TRUE(ids.insert(reason.id).second);
  for (const OutcomeRow& outcome : outcome_table()) {
    EXPECT_TRUE(ids.insert(outcome.name).second) << "one code, one meaning: " << outcome.name;
    EXPECT_FALSE(reason_meaning(outcome.name).empty());
  }
}

TEST(RunDocument, RowsSayWhatWasExpectedAndWhyASlowOneIsSlow) {
  std::vector<Measured> all = {measured("s", "float32/0", "passnet", 0.8),
                               measured("s", "float16/0", "passnet", 1.25, 100 << 20),
                               measured("s", "float32/0", "nope", 0.9)};
  const Json expected = {
      {"", {{"float32/0", {{"legal_ceiling", 1.5}, {"unchanged", 0.88}, {"family", "norm"}}}}},
      {"passnet",
       {{"float32/0",
         {{"legal_ceiling", 1.6}, {"predicted", 1.1}, {"device_share", 0.7}, {"family", "norm"}}},
        {"float16/0", {{"legal_ceiling", 2.5}, {"predicted", 1.2}, {"family", "norm"}}}}}};
  for (Measured& m : all) attach_expected(m, expected);
  const Json document = run_document(make_report(std::move(all), {}), Json::object(), "c", "2026-01-01");
  const Json& rows = document["variants"];
  EXPECT_EQ(rows[0]["reason_code"], "slower_than_predicted.device");
  EXPECT_EQ(rows[0]["predicted"], 1.1);
  EXPECT_EQ(rows[0]["legal_ceiling"], 1.6);
  EXPECT_EQ(rows[0]["first_correct_t_live"], -5);
  EXPECT_THAT(rows[0]["reason"].get<std::string>(), testing::HasSubstr("below the prediction"));
  EXPECT_EQ(rows[1]["reason_code"], "");
  EXPECT_EQ(rows[1]["size"], "64 MB and more");
  // A baseline has the sample's ceiling, and as its prediction that nothing is changed.
  EXPECT_EQ(rows[2]["reason_code"], "baseline");
  EXPECT_EQ(rows[2]["legal_ceiling"], 1.5);
  EXPECT_EQ(rows[2]["predicted"], 0.88);
  for (const Json& row : rows)
    EXPECT_EQ(row["speedup"].get<double>() < 1, row["reason_code"] != "") << row.dump();
}

TEST(RunDocument, GroupsAddUpToTheWhole) {
  std::vector<Measured> all;
  for (int i = 0; i < 6; ++i) {
    const std::string variant = std::string(i % 2 == 0 ? "float32/" : "float16/") + std::to_string(i);
    all.push_back(measured("s", variant, "passnet", 0.8 + 0.1 * i, i < 3 ? 1e3 : 1e8));
    all.push_back(measured("s", variant, "inductor", 1.1, i < 3 ? 1e3 : 1e8));
    all[all.size() - 2].expected.legal_ceiling = 1.6;
  }
  const Json document = run_document(make_report(std::move(all), {}), Json::object(), "c", "2026-01-01");
  const Json& whole = document["summary"]["passnet"];
  EXPECT_EQ(whole["variants"], 6);
  EXPECT_EQ(whole["at_least_1"], 4);
  EXPECT_NEAR(whole["share_at_least_1"].get<double>(), 4 / 6.0, 1e-4);
  EXPECT_EQ(whole["correct_live"], 6);
  EXPECT_NEAR(whole["share_of_legal_ceiling"].get<double>(), whole["gmean"].get<double>() / 1.6, 2e-4);
  EXPECT_TRUE(document["summary"]["inductor"]["share_of_legal_ceiling"].is_null());
  for (const char* kind : {"size", "dtype", "family"}) {
    int variants = 0, fast = 0;
    double log_sum = 0;
    for (const auto& [name, compilers] : document["groups"][kind].items()) {
      const Json& g = compilers["passnet"];
      variants += g["variants"].get<int>();
      fast += g["at_least_1"].get<int>();
      log_sum += g["variants"].get<int>() * std::log(g["score"].get<double>());
    }
    EXPECT_EQ(variants, 6) << kind;
    EXPECT_EQ(fast, 4) << kind;
    EXPECT_NEAR(std::exp(log_sum / 6), whole["score"].get<double>(), 1e-4) << kind;
  }
}

}  // namespace
}  // namespace passnet::score
