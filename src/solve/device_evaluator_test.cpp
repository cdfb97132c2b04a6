// The evaluator's records as the loop sees them, with a worker that answers from a script.

#include "solve/device_evaluator.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/scratch_folder.h"
#include "base/strings.h"
#include "score/tolerance.h"

namespace passnet {
namespace {

Json side(const std::vector<double>& times) {
  return {{"ok", true},         {"e2e", {{"median", times.front()}}},
          {"gpu", nullptr},     {"dtypes", {"float32"}},
          {"shapes", {{4, 8}}}, {"e2e_ms", times}};
}

// The record of a compiler whose calls take `ms`; twenty trials, so that there are two blocks.
Json record(const Json& job, const std::string& compiler, const std::string& kind, double ms) {
  Json sweep = Json::array();
  for (int t = -10; t <= 5; ++t)
    for (const std::string_view d : score::kFloatDtypes) sweep.push_back({score::all_close_key(d, t), {1}});
  return {{"schema", "passnet.record/1"},
          {"variant", job["label"]},
          {"compiler", compiler},
          {"kind", kind},
          {"status", "success"},
          {"dtype", "float32"},
          {"compiled", side(std::vector<double>(20, ms))},
          {"eager", side(std::vector<double>(20, 0.1))},
          {"type_match", true},
          {"shape_match", true},
          {"comparable", true},
          {"correctness", {{"equal", {1}}, {"allclose", sweep}, {"max_diff", {0.0}}, {"mean_diff", {0.0}}}},
          {"first_correct_t", -10},
          {"speedup_e2e", 0.1 / ms}};
}

class DeviceEvaluatorTest : public ::testing::Test {
 protected:
  using Change = std::function<void(Json& record)>;

  DeviceEvaluatorTest() : scratch_(real_files(), "passnet-test-") {
    put("s/graph_list.txt", "float32/0\nfloat32/1\n");
    for (const char* v : {"0", "1"}) {
      put(fmt::format("s/float32/{}/model.py", v), "import torch\n");
      put(fmt::format("s/float32/{}/weight_meta.py", v),
          "class M:\n    name = \"x\"\n    shape = [4, 8]\n    dtype = \"torch.float32\"\n");
    }
    put("state/sorted_output_pass_rule_names.json", "[]\n");
  }
  void put(const std::string& path, const std::string& text) {
    const std::string full = scratch_.path() + "/" + path;
    ASSERT_TRUE(real_files().make_directory(full.substr(0, full.rfind('/'))).ok());
    ASSERT_TRUE(real_files().write(full, text).ok());
  }

  // Runs two states; the second takes half the time of the first. `left_out` stay unmeasured.
  Result<Evaluation> run(Change change = {}, std::vector<std::string> left_out = {}, bool dies = false) {
    class Scripted final : public Worker {
     public:
      Scripted(DeviceEvaluatorTest& test, Change change, std::vector<std::string> left_out, bool dies)
          : test_(test), change_(std::move(change)), left_out_(std::move(left_out)), dies_(dies) {}
      Result<Json> call(const WorkerRequest& request) override {
        test_.request_ = request.arguments;
        if (dies_) return user_error("worker.python", "no Python here").with("outcome", "start");
        Json unmeasured = Json::array();
        for (const Json& job : request.arguments["jobs"]) {
          const std::string label = job["label"].get<std::string>();
          if (std::ranges::count(left_out_, label) > 0) {
            unmeasured.push_back(job["id"]);
            continue;
          }
          Json records = Json::array();
          for (const Json& c : job["compilers"]) {
            const std::string name = c["name"].get<std::string>();
            records.push_back(record(job, name, c["kind"].get<std::string>(), name == "best" ? 0.2 : 0.1));
            if (change_) change_(records.back());
          }
          request.on_event({{"job", job["id"]}, {"records", records}});
        }
        return Json{{"isolation", "fork"}, {"machine", {{"gpu", "G"}}}, {"unmeasured", unmeasured}};
      }

     private:
      DeviceEvaluatorTest& test_;
      Change change_;
      std::vector<std::string> left_out_;
      bool dies_;
    };
    eval::EvalOptions options;
    options.samples = {scratch_.path() + "/s"};
    options.sandbox = "none";
    eval::EvalContext context{real_files(), clock_,
                              [&](const WorkerOptions&) -> std::unique_ptr<Worker> {
                                return std::make_unique<Scripted>(*this, change, left_out, dies);
                              },
                              [](std::string_view) {}};
    DeviceEvaluator evaluator(std::move(context), std::move(options), scratch_.path() + "/runs");
    EvaluationRequest request;
    request.contenders = {{"best", "pass_mgr", scratch_.path() + "/state"},
                          {"candidate", "pass_mgr", scratch_.path() + "/state"},
                          {"nope", "nope", ""}};
    request.variants = {"float32/0", "float32/1"};
    request.seconds = 300;
    return evaluator.run(request);
  }

  ScratchFolder scratch_;
  FakeClock clock_;
  Json request_;
};

TEST_F(DeviceEvaluatorTest, TimesAndRatiosOfEveryContender) {
  const Result<Evaluation> evaluation = run();
  ASSERT_TRUE(evaluation.ok()) << evaluation.error().message;
  EXPECT_EQ(evaluation->results.size(), 3u);
  const Measurement* best = evaluation->find("best", "float32/1");
  ASSERT_NE(best, nullptr);
  EXPECT_TRUE(best->correct);
  EXPECT_EQ(best->outcome, "correct_but_slow");
  EXPECT_NEAR(*best->eager_us, 100, 1e-9);
  EXPECT_NEAR(*best->time_us, 200, 1e-9);
  EXPECT_FALSE(best->ratio.has_value());
  const Measurement* candidate = evaluation->find("candidate", "float32/1");
  ASSERT_NE(candidate, nullptr);
  ASSERT_TRUE(candidate->ratio.has_value());
  EXPECT_NEAR(candidate->ratio->value, 2, 1e-9);
  EXPECT_TRUE(evaluation->comparable);
  EXPECT_TRUE(evaluation->folder.ends_with("/runs/1"));
  EXPECT_TRUE(real_files().is_file(evaluation->folder + "/records.jsonl"));
  EXPECT_NEAR(evaluation->scores.at("candidate"), 1, 1e-6);
}

TEST_F(DeviceEvaluatorTest, EveryRunHasAFolderOfItsOwnAndItsLimit) {
  ASSERT_TRUE(run().ok());
  const Result<Evaluation> second = run();
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(second->folder.ends_with("/runs/2"));
  EXPECT_EQ(request_["options"]["time_limit"], 300.0);
  // One variant may take two fifths of it, whatever it holds.
  EXPECT_NEAR(request_["options"]["variant_seconds"].get<double>(), 120, 1e-9);
  EXPECT_EQ(request_["jobs"][0]["options"]["compare"], Json({"best", "candidate"}));
  EXPECT_EQ(request_["jobs"][0]["options"]["interleave"], true);
}

TEST_F(DeviceEvaluatorTest, WhatTheRecordsSayOfFailures) {
  const auto candidate = [&](const Change& change) {
    const Result<Evaluation> evaluation = run([&](Json& r) {
      if (r["compiler"] == "candidate") change(r);
    });
    EXPECT_TRUE(evaluation.ok());
    const Measurement* m = evaluation->find("candidate", "float32/0");
    EXPECT_NE(m, nullptr);
    return m == nullptr ? Measurement{} : *m;
  };
  const auto wrong = [](Json& r) {
    for (Json& line : r["correctness"]["allclose"]) line[1] = {0};
    r["first_correct_t"] = nullptr;
  };
  Measurement m = candidate(wrong);
  EXPECT_FALSE(m.correct);
  EXPECT_TRUE(m.counts);
  EXPECT_EQ(m.outcome, "inaccurate");
  EXPECT_FALSE(m.why.empty());
  // Where eager differs from itself, so may everybody.
  m = candidate([&](Json& r) { wrong(r), r["eager_equals_itself"] = false; });
  EXPECT_FALSE(m.counts);
  m = candidate([](Json& r) {
    r["status"] = "failed";
    r["failed_in"] = "process";
    r["error"] = {{"code", "timeout"}, {"message", "not done within 5 s"}, {"type", ""}, {"traceback", ""}};
  });
  EXPECT_EQ(m.outcome, "timeout");
  EXPECT_TRUE(m.counts && !m.correct);
}

TEST_F(DeviceEvaluatorTest, WhatIsRightOnDegenerateInputsAloneIsNotRight) {
  const auto outcome = [&](const std::set<std::string>& fails) {
    const Result<Evaluation> evaluation = run([&](Json& r) {
      r["live"] = {
          {"first_correct_t", fails.contains(r["compiler"].get<std::string>()) ? Json(-2) : Json(-6)}};
      if (r["kind"] != "pass_mgr") r["kind"] = "nope";
    });
    EXPECT_TRUE(evaluation.ok());
    const Measurement* m = evaluation->find("candidate", "float32/0");
    return m->correct ? "right" : m->outcome;
  };
  EXPECT_EQ(outcome({}), "right");
  EXPECT_EQ(outcome({"candidate"}), "degenerate_only");
  // Then it is eager that does not equal itself there.
  EXPECT_EQ(outcome({"candidate", "nope"}), "right");
  EXPECT_EQ(outcome({"candidate", "best"}), "right");
}

TEST_F(DeviceEvaluatorTest, TheEvaluatorsOwnRatioCountsWhereItHasOne) {
  const Result<Evaluation> evaluation = run([](Json& r) {
    if (r["compiler"] == "candidate")
      r["versus"] = {{"compiler", "best"}, {"ratio", 1.9}, {"interval_90", {1.8, 2.1}}};
  });
  ASSERT_TRUE(evaluation.ok());
  const Measurement* m = evaluation->find("candidate", "float32/0");
  ASSERT_TRUE(m != nullptr && m->ratio.has_value());
  EXPECT_EQ(m->ratio->low, 1.8);
  EXPECT_NEAR(evaluation->find("nope", "float32/0")->ratio->value, 2, 1e-9);
}

TEST_F(DeviceEvaluatorTest, WithoutAGpuTimesAreNotComparable) {
  const Result<Evaluation> evaluation = run([](Json& r) { r["comparable"] = false; });
  ASSERT_TRUE(evaluation.ok());
  EXPECT_FALSE(evaluation->comparable);
}

TEST_F(DeviceEvaluatorTest, WhatTheLimitLeftOutIsNamed) {
  const Result<Evaluation> evaluation = run({}, {"float32/1"});
  ASSERT_TRUE(evaluation.ok()) << evaluation.error().message;
  EXPECT_EQ(evaluation->unmeasured, (std::vector<std::string>{"float32/1"}));
  EXPECT_EQ(evaluation->find("candidate", "float32/1"), nullptr);
}

TEST_F(DeviceEvaluatorTest, AWorkerThatCannotStartIsAnError) {
  const Result<Evaluation> evaluation = run({}, {}, true);
  ASSERT_FALSE(evaluation.ok());
  EXPECT_EQ(evaluation.error().message, "no Python here");
}

TEST_F(DeviceEvaluatorTest, AnAnswerIsReadAsItWasWritten) {
  const Evaluation evaluation = run().value();
  EvaluationRequest request;
  request.contenders = {{"best", "", ""}, {"candidate", "", ""}, {"nope", "", ""}};
  request.variants = {"float32/0", "float32/1"};
  const Result<Evaluation> again = evaluation_from_json(to_json(evaluation), request);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(to_json(*again), to_json(evaluation));
}

}  // namespace
}  // namespace passnet
