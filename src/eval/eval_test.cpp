#include "eval/eval.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "eval/outputs.h"
#include "eval/passes.h"
#include "eval/plan.h"
#include "eval/surroundings.h"
#include "score/record.h"
#include "worker/recording.h"

namespace passnet::eval {
namespace {

using testing::HasSubstr;

constexpr std::string_view kModel =
    "import torch\n\nclass GraphModule(torch.nn.Module):\n\n    def forward(self, x, y):\n        a = x * y\n"
    "        return (torch.sigmoid(a),)\n";
constexpr std::string_view kMeta =
    "class A:\n    name = \"x\"\n    shape = [4, 8]\n    dtype = \"torch.float32\"\n\nclass B:\n    name = "
    "\"y\"\n"
    "    shape = [4, 8]\n    dtype = \"torch.float32\"\n";
constexpr std::string_view kPass = "def pattern(x, y):\n    return x * y\n";

// A sample of `variants` variants on the disk, below the test's own folder.
class EvalTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "eval_test_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::string sample(const std::string& name, int variants = 2) {
    const std::string folder = root_ + "/" + name;
    std::string list;
    for (int i = 0; i < variants; ++i) {
      const std::string label = "float32/" + std::to_string(i);
      put(folder + "/" + label + "/model.py", kModel);
      put(folder + "/" + label + "/weight_meta.py", kMeta);
      list += label + "\n";
    }
    put(folder + "/graph_list.txt", list);
    put(folder + "/pass_dir/Fuse.py", kPass);
    put(folder + "/pass_dir/sorted_output_pass_rule_names.json", "[\"Fuse\"]");
    return folder;
  }

  static void put(const std::string& path, std::string_view text) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
  }

  std::string read(const std::string& path) { return real_files().read(path).value_or("(not there)"); }

  EvalOptions options(std::vector<std::string> samples) {
    EvalOptions o;
    o.samples = std::move(samples);
    o.compilers = {{"pass_mgr", "pass_mgr", ""}};
    o.device = "cpu";
    o.out = root_ + "/out";
    return o;
  }

  std::string root_;
  FakeClock clock_;
};

Json good_record(const Json& job, const std::string& compiler, double speedup) {
  Json sweep = Json::array();
  for (int t = -10; t <= 5; ++t)
    for (const std::string_view d : score::kFloatDtypes) sweep.push_back({score::all_close_key(d, t), {1}});
  Json side = {{"ok", true},         {"e2e", {{"median", 0.1}}}, {"gpu", nullptr}, {"dtypes", {"float32"}},
               {"shapes", {{4, 8}}}, {"e2e_ms", {0.1, 0.2}}};
  return {{"schema", "passnet.record/1"},
          {"variant", job["label"]},
          {"compiler", compiler},
          {"kind", compiler},
          {"status", "success"},
          {"dtype", "float32"},
          {"device", "cpu"},
          {"hardware", "cpu"},
          {"torch", "2"},
          {"warmup", 25},
          {"trials", 100},
          {"compiled", side},
          {"eager", side},
          {"type_match", true},
          {"shape_match", true},
          {"correctness", {{"equal", {1}}, {"allclose", sweep}, {"max_diff", {0.0}}, {"mean_diff", {0.0}}}},
          {"first_correct_t", -10},
          {"speedup_e2e", speedup}};
}

// Answers as a script says: for every call of the worker a function that sees the request.
class ScriptedWorker final : public Worker {
 public:
  using Step = std::function<Result<Json>(const WorkerRequest&)>;
  ScriptedWorker(std::vector<Step>& steps, size_t& next) : steps_(steps), next_(next) {}
  Result<Json> call(const WorkerRequest& request) override {
    if (next_ >= steps_.size()) return internal_error("test.script", "one call too many");
    return steps_[next_++](request);
  }

 private:
  std::vector<Step>& steps_;
  size_t& next_;
};

struct Script {
  std::vector<ScriptedWorker::Step> steps;
  size_t next = 0;
  std::vector<WorkerOptions> started;

  EvalContext context(Clock& clock, FileSystem& files = real_files()) {
    return {files, clock,
            [this](const WorkerOptions& o) -> std::unique_ptr<Worker> {
              started.push_back(o);
              return std::make_unique<ScriptedWorker>(steps, next);
            },
            [](std::string_view) {}};
  }
};

// Records for the first `count` jobs of the request (all by default), then the reply or a death.
ScriptedWorker::Step answers(size_t count = 1000, bool dies = false) {
  return [count, dies](const WorkerRequest& request) -> Result<Json> {
    size_t done = 0;
    for (const Json& job : request.arguments["jobs"]) {
      request.on_event({{"job", job["id"]}, {"phase", "started"}});
      if (done++ >= count) break;
      Json records = Json::array();
      for (const Json& c : job["compilers"])
        records.push_back(good_record(job, c["name"].get<std::string>(), 2.0));
      request.on_event({{"job", job["id"]}, {"outcome", "done"}, {"records", records}});
    }
    if (dies)
      return user_error("worker.died", "the worker ended during 'evaluate_all': signal 9")
          .with("outcome", "died");
    return Json{{"isolation", "fork"}, {"machine", {{"gpu", nullptr}}}, {"unmeasured", Json::array()}};
  };
}

TEST_F(EvalTest, ARunLeavesRecordsLogScoreAndState) {
  Script script{{answers()}};
  EvalContext context = script.context(clock_);
  const auto report = evaluate(context, options({sample("s")}));
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_TRUE(report->complete);
  const std::string out = root_ + "/out";
  const auto records = score::parse_records(read(out + "/records.jsonl"), "r");
  ASSERT_TRUE(records.ok());
  ASSERT_EQ(records->records.size(), 2u);
  EXPECT_EQ(records->records[0]["sample"], "s");
  EXPECT_EQ(records->records[0]["verdict"], "ok");
  EXPECT_EQ(records->records[0]["key"].get<std::string>().size(), 32u);
  EXPECT_NEAR(parse_json(read(out + "/aggregated_score.json"))->at("score").get<double>(), 2.0, 1e-12);
  EXPECT_EQ(parse_json(read(out + "/run.json"))->at("state"), "done");
  const std::string log = read(out + "/validation.log");
  EXPECT_THAT(log, HasSubstr("graph-net-test-compiler-log [Processing] float32/0\n"));
  EXPECT_THAT(log, HasSubstr("[Correctness][all_close_atol_1.00E-05_rtol_1.30E-06]: 1\n"));
  EXPECT_THAT(log, HasSubstr("[Speedup][e2e]: 2.00000\n"));
  EXPECT_THAT(log, HasSubstr("Trial 1: e2e=0.10000 ms\n"));
}

TEST_F(EvalTest, TheWorkerGetsTheJudgedBytesAndAListOfVariables) {
  ::setenv("A_SECRET_OF_THE_TEST", "1", 1);
  std::string seen;
  bool writable = true;
  Script script{{[&](const WorkerRequest& request) {
    const std::string copy = request.arguments["jobs"][0]["compilers"][0]["pass_dir"].get<std::string>();
    seen = real_files().read(copy + "/Fuse.py").value_or("");
    writable = (std::filesystem::status(copy + "/Fuse.py").permissions() &
                std::filesystem::perms::owner_write) != std::filesystem::perms::none;
    return answers()(request);
  }}};
  EvalContext context = script.context(clock_);
  const std::string folder = sample("s");
  ASSERT_TRUE(evaluate(context, options({folder})).ok());
  EXPECT_EQ(seen, kPass);
  EXPECT_FALSE(writable);
  ASSERT_EQ(script.started.size(), 1u);
  EXPECT_EQ(script.started[0].env.at("A_SECRET_OF_THE_TEST"), std::nullopt);
  EXPECT_FALSE(script.started[0].env.contains("PATH"));
  ::unsetenv("A_SECRET_OF_THE_TEST");
}

TEST_F(EvalTest, AFolderOfAnotherRunIsRefusedAndResumeKeepsWhatIsTheSame) {
  Script script{{answers(), answers(), answers()}};
  EvalContext context = script.context(clock_);
  const std::string folder = sample("s");
  EvalOptions o = options({folder});
  ASSERT_TRUE(evaluate(context, o).ok());
  const auto again = evaluate(context, o);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code, "eval.out_exists");
  o.resume = true;
  auto resumed = evaluate(context, o);
  ASSERT_TRUE(resumed.ok());
  EXPECT_EQ(resumed->resumed, 2u);
  EXPECT_EQ(script.next, 1u) << "nothing was left to measure";
  // Another pass_dir: other keys, so nothing of the old run counts.
  put(folder + "/pass_dir/Fuse.py", "# changed\n" + std::string(kPass));
  resumed = evaluate(context, o);
  ASSERT_TRUE(resumed.ok());
  EXPECT_EQ(resumed->resumed, 0u);
  EXPECT_EQ(resumed->runs[0].records.size(), 2u);
}

TEST_F(EvalTest, ATornLastRecordIsMeasuredAgain) {
  Script script{{answers(), answers()}};
  EvalContext context = script.context(clock_);
  EvalOptions o = options({sample("s")});
  ASSERT_TRUE(evaluate(context, o).ok());
  const std::string path = root_ + "/out/records.jsonl";
  const std::string whole = read(path);
  put(path, whole.substr(0, whole.size() - 40));
  put(root_ + "/out/aggregated_score.json", "{\"id\":1,\"score\":99}");
  o.resume = true;
  const auto resumed = evaluate(context, o);
  ASSERT_TRUE(resumed.ok());
  EXPECT_EQ(resumed->resumed, 1u);
  EXPECT_EQ(score::parse_records(read(path), "r")->records.size(), 2u);
  EXPECT_NEAR(parse_json(read(root_ + "/out/aggregated_score.json"))->at("score").get<double>(), 2.0, 1e-12);
}

TEST_F(EvalTest, AWorkerThatDiesIsStartedAgainAndNothingIsLost) {
  Script script{{answers(1, true), answers()}};
  EvalContext context = script.context(clock_);
  const auto report = evaluate(context, options({sample("s", 3)}));
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->runs[0].records.size(), 3u);
  EXPECT_EQ(script.started.size(), 2u);
  EXPECT_TRUE(report->score.green());
}

TEST_F(EvalTest, AVariantThatKillsTheWorkerEveryTimeGetsARecordOfIt) {
  Script script{{answers(1, true), answers(0, true), answers(0, true), answers()}};
  EvalContext context = script.context(clock_);
  const auto report = evaluate(context, options({sample("s", 3)}));
  ASSERT_TRUE(report.ok()) << report.error().message;
  ASSERT_EQ(report->runs[0].records.size(), 3u);
  EXPECT_EQ(report->runs[0].records[1]["verdict"], "infra_error");
  EXPECT_EQ(report->runs[0].records[2]["verdict"], "ok");
  EXPECT_FALSE(report->score.green());
}

TEST_F(EvalTest, AWorkerThatCannotStartIsAnError) {
  Script script{{[](const WorkerRequest&) -> Result<Json> {
    return user_error("worker.python", "no Python").with("outcome", "start");
  }}};
  EvalContext context = script.context(clock_);
  const auto report = evaluate(context, options({sample("s")}));
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, "worker.python");
}

TEST_F(EvalTest, WhatTheTimeLimitCutOffIsSaidAndNotInvented) {
  Script script{{[](const WorkerRequest& request) -> Result<Json> {
    auto reply = answers(1)(request);
    (*reply)["unmeasured"] = {request.arguments["jobs"][1]["id"]};
    return reply;
  }}};
  EvalContext context = script.context(clock_);
  const auto report = evaluate(context, options({sample("s")}));
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->complete);
  EXPECT_EQ(report->runs[0].records.size(), 1u);
  EXPECT_EQ(report->findings.front().code, "eval.unmeasured");
}

TEST_F(EvalTest, RepeatsAreRoundsOverAllSamples) {
  std::vector<std::string> asked;
  Json run_options;
  Script script{{[&](const WorkerRequest& request) -> Result<Json> {
    for (const Json& job : request.arguments["jobs"]) asked.push_back(job["id"].get<std::string>());
    run_options = request.arguments["options"];
    return answers()(request);
  }}};
  EvalContext context = script.context(clock_);
  EvalOptions o = options({sample("a"), sample("b", 1)});
  o.repeat = 2;
  o.side_by_side = true;
  const auto report = evaluate(context, o);
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->complete);
  EXPECT_TRUE(run_options["side_by_side"].get<bool>());
  EXPECT_THAT(asked, testing::ElementsAre("a/float32/0", "a/float32/1", "b/float32/0", "a/float32/0#2",
                                          "a/float32/1#2", "b/float32/0#2"));
  ASSERT_EQ(report->runs[0].records.size(), 4u);
  EXPECT_EQ(report->runs[0].records[2]["variant"], "float32/0#2");
  EXPECT_EQ(report->runs[0].records[2]["dtype"], "float32");
}

TEST_F(EvalTest, ShardsAreDisjointAndWhole) {
  std::vector<std::string> samples;
  for (const char* name : {"a", "b", "c", "d", "e"}) samples.push_back(sample(name, 1));
  std::vector<std::string> seen;
  for (int i = 0; i < 3; ++i) {
    EvalOptions o = options({root_});
    o.shard = i;
    o.shards = 3;
    const auto plan = plan_run(real_files(), o, root_ + "/scratch" + std::to_string(i));
    ASSERT_TRUE(plan.ok());
    for (const PlannedSample& s : plan->samples) seen.push_back(s.name);
  }
  EXPECT_THAT(seen, testing::UnorderedElementsAre("a", "b", "c", "d", "e"));
}

TEST_F(EvalTest, AFullDiskStopsTheRunWithWhatWasWritten) {
  // The second record does not fit: the run ends with that error, and going on later measures only what is missing.
  class FullDisk final : public FileSystem {
   public:
    int left = 1;
    Result<std::string> read(const std::string& p, std::uint64_t l) override {
      return real_files().read(p, l);
    }
    Status write(const std::string& p, std::string_view c) override { return real_files().write(p, c); }
    Status append(const std::string& p, std::string_view c) override {
      if (left-- <= 0) return user_error("file.full", "no space is left").at(p);
      return real_files().append(p, c);
    }
    Result<FileInfo> stat(const std::string& p) override { return real_files().stat(p); }
    Result<std::vector<DirEntry>> list(const std::string& p) override { return real_files().list(p); }
    Status make_directory(const std::string& p) override { return real_files().make_directory(p); }
    Status rename(const std::string& a, const std::string& b) override { return real_files().rename(a, b); }
    Status remove_all(const std::string& p) override { return real_files().remove_all(p); }
    Status exchange_directories(const std::string& a, const std::string& b) override {
      return real_files().exchange_directories(a, b);
    }
    Status recover_exchange(const std::string& a) override { return real_files().recover_exchange(a); }
  } disk;
  Script script{{answers(), answers()}};
  EvalContext context = script.context(clock_, disk);
  EvalOptions o = options({sample("s", 3)});
  const auto stopped = evaluate(context, o);
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().code, "file.full");
  EXPECT_EQ(parse_json(read(root_ + "/out/run.json"))->at("state"), "running");
  EXPECT_EQ(read(root_ + "/out/aggregated_score.json"), "(not there)");
  disk.left = 100;
  o.resume = true;
  const auto resumed = evaluate(context, o);
  ASSERT_TRUE(resumed.ok());
  EXPECT_EQ(resumed->resumed, 1u);
  EXPECT_EQ(resumed->runs[0].records.size(), 3u);
}

TEST_F(EvalTest, SourceRulesLeaveOutWhatTheyReject) {
  const std::string folder = sample("s");
  put(folder + "/pass_dir/Fuse.py", "import torch\n\ndef wrapper(x):\n    return torch.mm(x, x)\n");
  auto judged = judge_passes(real_files(), folder + "/pass_dir", false);
  ASSERT_TRUE(judged.ok());
  ASSERT_TRUE(judged->rejected.contains("Fuse"));
  EXPECT_THAT(judged->rejected["Fuse"].front(), HasSubstr("Line 4: blocked call 'torch.mm'"));
  // A helper counts under the strict rules only, and then takes the listed files with it.
  put(folder + "/pass_dir/Fuse.py", kPass);
  put(folder + "/pass_dir/_helper.py", "import os\n");
  EXPECT_TRUE(judge_passes(real_files(), folder + "/pass_dir", false)->rejected.empty());
  EXPECT_THAT(judge_passes(real_files(), folder + "/pass_dir", true)->rejected["Fuse"].front(),
              HasSubstr("_helper.py: Line 1"));
}

TEST_F(EvalTest, NamesThatLeadOutOfThePassDirAreRefused) {
  const std::string folder = sample("s");
  for (const char* manifest : {"[\"../x\"]", "[\"/etc/passwd\"]", "[\"a/b\"]", "[\".hidden\"]", "[\"\"]"}) {
    put(folder + "/pass_dir/sorted_output_pass_rule_names.json", manifest);
    const auto judged = judge_passes(real_files(), folder + "/pass_dir", false);
    ASSERT_FALSE(judged.ok()) << manifest;
    EXPECT_EQ(judged.error().code, "eval.pass_dir");
  }
}

TEST_F(EvalTest, TheNextFreeRunOfASampleIsItsFolder) {
  EvalOptions o = options({sample("s")});
  o.out.clear();
  ::unsetenv("PASSNET_EVAL_OUTPUT");
  EXPECT_EQ(*output_folder(real_files(), o, "/x/s", "s", false), "/x/s/.passnet/runs/1");
  put(root_ + "/s/.passnet/runs/7/run.json", "{}");
  EXPECT_EQ(*output_folder(real_files(), o, root_ + "/s", "s", false), root_ + "/s/.passnet/runs/8");
  o.resume = true;
  EXPECT_EQ(*output_folder(real_files(), o, root_ + "/s", "s", false), root_ + "/s/.passnet/runs/7");
  ::setenv("PASSNET_EVAL_OUTPUT", "/y", 1);
  EXPECT_EQ(*output_folder(real_files(), o, root_ + "/s", "s", false), "/y");
  EXPECT_EQ(*output_folder(real_files(), o, root_ + "/s", "s", true), "/y/s");
  ::unsetenv("PASSNET_EVAL_OUTPUT");
}

TEST_F(EvalTest, TheWholePathFromARecordedWorker) {
  // Recorded from the real worker on the CPU (PASSNET_ACCEPT rewrites it); replayed without Python.
  const std::string recording = std::string(PASSNET_SOURCE_DIR) + "/tests/data/eval_worker.jsonl";
  const bool accept = std::getenv("PASSNET_ACCEPT") != nullptr;
  if (accept) std::filesystem::remove(recording);
  const std::string folder = sample("s");
  EvalOptions o = options({folder});
  o.compilers = {{"nope", "nope", ""}};
  o.warmup = 2;
  o.trials = 4;
  std::unique_ptr<Worker> inner;
  EvalContext context{real_files(), clock_,
                      [&](const WorkerOptions& w) -> std::unique_ptr<Worker> {
                        const std::string caches = w.env.at("TRITON_CACHE_DIR").value();
                        Placeholders places = {{root_, "$ROOT"},
                                               {caches.substr(0, caches.find("/caches")), "$SCRATCH"},
                                               {"passnet-locks-" + std::to_string(::getuid()), "$LOCKS"},
                                               {std::filesystem::temp_directory_path().string(), "$TMP"}};
                        if (accept) {
                          inner = std::make_unique<ProcessWorker>(w);
                          return std::make_unique<RecordingWorker>(*inner, real_files(), recording, places);
                        }
                        auto replaying = ReplayingWorker::open(real_files(), recording, places);
                        EXPECT_TRUE(replaying.ok());
                        return std::make_unique<ReplayingWorker>(std::move(replaying).value());
                      },
                      [](std::string_view) {}};
  const auto report = evaluate(context, o);
  ASSERT_TRUE(report.ok()) << report.error().message;
  ASSERT_EQ(report->runs[0].records.size(), 2u);
  EXPECT_TRUE(report->score.green());
  for (const score::ScoredVariant& v : report->score.variants) EXPECT_EQ(v.measured.comparable, false);
  EXPECT_THAT(to_text(*report), HasSubstr("not comparable"));
}

TEST(Environment, OnlyNamesOfTheListReachTheWorker) {
  EXPECT_TRUE(environment_allowed("PATH"));
  EXPECT_TRUE(environment_allowed("CUDA_VISIBLE_DEVICES"));
  EXPECT_FALSE(environment_allowed("LD_PRELOAD"));
  EXPECT_FALSE(environment_allowed("PYTHONSTARTUP"));
  EXPECT_FALSE(environment_allowed("TRITON_INTERPRET"));
}

}  // namespace
}  // namespace passnet::eval
