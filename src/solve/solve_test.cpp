#include "solve/solve.h"

#include <algorithm>
#include <set>

#include "sample/state_store.h"
#include "solve/test_preflight.h"
#include "solve/test_sample.h"

namespace passnet {
namespace {

class SolveTest : public ::testing::Test {
 protected:
  SolveTest() { put_sample(files_); }

  Result<SolveReport> try_solve(FileSystem& files) {
    SolveContext context{files, clock_, preflight_, profile_, [](std::string_view) {}};
    SolveOptions options;
    options.sample = "s";
    return solve_sample(context, options);
  }
  SolveReport solve() {
    Result<SolveReport> report = try_solve(files_);
    if (!report.ok()) {
      ADD_FAILURE() << report.error().message;
      return {};
    }
    return std::move(*report);
  }
  StateFiles pass_dir() { return StateStore::open(files_, clock_, "s").value().current().value(); }
  StateFiles kept(const std::string& hash) {
    return StateStore::open(files_, clock_, "s").value().read_state(hash).value();
  }

  MemoryFiles files_;
  FakeClock clock_;
  FakePreflight preflight_;
  Profile profile_ = builtin_profile("h200").value();
  const StateFiles found_ = {{"Theirs.py", "# theirs\n"}};
};

TEST_F(SolveTest, FloorFirstThenTheUpsideThatIsBetter) {
  const SolveReport report = solve();
  ASSERT_EQ(report.states.size(), 2u);
  EXPECT_EQ(report.states[0].kind, "floor");
  EXPECT_EQ(report.states[1].kind, "upside");
  EXPECT_EQ(preflight_.asked[0], report.states[0].passes);
  EXPECT_GT(report.states[1].predicted_speedup, report.states[0].predicted_speedup);
  EXPECT_TRUE(report.green());
  ASSERT_EQ(report.chosen, 1u);
  EXPECT_EQ(report.stop, StopReason::kPreflightOnly);
  EXPECT_EQ(pass_dir(), kept(report.states[1].hash));
  EXPECT_EQ(report.files.size(), pass_dir().size());
  EXPECT_EQ(files_.read("s/pass_dir/.ignore").value(), "x");
  // Both states and what was there before are in the history, each judged state with its record.
  StateStore store = StateStore::open(files_, clock_, "s").value();
  EXPECT_EQ(store.list().value().size(), 3u);
  for (const SolvedState& state : report.states) {
    const std::optional<Json> record = store.get_record(state.hash, "check");
    ASSERT_TRUE(record.has_value());
    EXPECT_EQ((*record)["green"], true);
    EXPECT_EQ((*record)["passes"], Json(state.passes));
  }
}

TEST_F(SolveTest, TheFloorIsInForceWhenTheUpsideIsJudged) {
  std::vector<StateFiles> in_force;
  preflight_.change = [&](const StateUnderTest&, PreflightReport&) {
    StateFiles now;
    for (const auto& [path, content] : files_.files()) {
      if (path.starts_with("s/pass_dir/") && !path.ends_with(".ignore")) now[path.substr(11)] = content;
    }
    in_force.push_back(std::move(now));
  };
  const SolveReport report = solve();
  ASSERT_EQ(in_force.size(), 2u);
  EXPECT_EQ(in_force[0], found_);
  EXPECT_EQ(in_force[1], kept(report.states[0].hash));
}

TEST_F(SolveTest, AFailingPassIsRefusedAndThePlanMadeAgain) {
  const Names upside = solve().states[1].passes;
  ASSERT_EQ(upside.size(), 2u);
  MemoryFiles fresh;
  put_sample(fresh);
  preflight_.bad = {upside[0]};
  preflight_.asked.clear();
  const Result<SolveReport> report = try_solve(fresh);
  ASSERT_TRUE(report.ok());
  ASSERT_GE(report->states.size(), 3u);
  EXPECT_EQ(report->states[1].passes, upside);
  EXPECT_FALSE(report->states[1].preflight.green());
  ASSERT_TRUE(report->chosen.has_value());
  const SolvedState& chosen = report->states[*report->chosen];
  EXPECT_TRUE(report->green());
  EXPECT_EQ(std::count(chosen.passes.begin(), chosen.passes.end(), upside[0]), 0);
  EXPECT_EQ(report->states[2].kind, "upside without " + upside[0]);
  // The refused pass is asked about once only.
  const auto asked = std::count_if(preflight_.asked.begin(), preflight_.asked.end(), [&](const Names& names) {
    return std::find(names.begin(), names.end(), upside[0]) != names.end();
  });
  EXPECT_EQ(asked, 1);
}

TEST_F(SolveTest, AFailingFloorIsReplacedByAnother) {
  const Names floor = solve().states[0].passes;
  MemoryFiles fresh;
  put_sample(fresh);
  preflight_.bad = {floor[0]};
  const Result<SolveReport> report = try_solve(fresh);
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->green());
  EXPECT_EQ(report->states[1].kind, "floor");
  EXPECT_NE(report->states[1].passes, floor);
  EXPECT_NE(report->chosen, 0u);
}

TEST_F(SolveTest, AnUpsideThatFailsEverywhereLeavesTheFloor) {
  const Names floor = solve().states[0].passes;
  MemoryFiles fresh;
  put_sample(fresh);
  preflight_.change = [&](const StateUnderTest& state, PreflightReport& report) {
    if (names_of(*state.passes) == floor) return;
    for (const PassSpec& pass : *state.passes) {
      if (std::find(floor.begin(), floor.end(), pass.name) != floor.end()) continue;
      report.failures.push_back({pass.name, {"preflight_failed", "no", {}}});
    }
    for (size_t v = 0; v < report.variants.size(); ++v) fail_variant(report, v);
  };
  const Result<SolveReport> report = try_solve(fresh);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->chosen, 0u);
  EXPECT_TRUE(report->green());
  EXPECT_LE(report->states.size(), 1 + SolveOptions{}.max_replans + 1);
  EXPECT_EQ(StateStore::open(fresh, clock_, "s").value().current().value(),
            StateStore::open(fresh, clock_, "s").value().read_state(report->states[0].hash).value());
}

TEST_F(SolveTest, NothingGreenIsRedAndLeavesWhatWasThere) {
  preflight_.change = [](const StateUnderTest&, PreflightReport& report) {
    for (size_t v = 0; v < report.variants.size(); ++v) fail_variant(report, v);
  };
  const SolveReport report = solve();
  EXPECT_FALSE(report.green());
  EXPECT_FALSE(report.chosen.has_value());
  EXPECT_EQ(report.stop, StopReason::kNothingGreen);
  EXPECT_EQ(pass_dir(), found_);
  EXPECT_EQ(report.files, Names{"Theirs.py"});
  const Json json = to_json(report);
  EXPECT_EQ(json["pass_matched"], false);
  EXPECT_EQ(json["stop_reason"], "nothing_green");
  EXPECT_NE(to_text(report).find("red: no pass_dir was written"), std::string::npos);
}

TEST_F(SolveTest, MoreGreenVariantsCountBeforeTheBetterPrediction) {
  size_t calls = 0;
  preflight_.change = [&](const StateUnderTest&, PreflightReport& report) {
    if (calls++ == 1) fail_variant(report, 1);  // the upside, on one of two variants
  };
  const SolveReport report = solve();
  ASSERT_EQ(report.states.size(), 2u);
  EXPECT_EQ(report.chosen, 0u);

  MemoryFiles fresh;
  put_sample(fresh);
  calls = 1;  // now the floor fails on that variant, and the upside wins although it came later
  const Result<SolveReport> second = try_solve(fresh);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->chosen, 1u);
}

TEST_F(SolveTest, AHalfGreenStateIsKeptButTheReportIsRed) {
  preflight_.change = [](const StateUnderTest&, PreflightReport& report) { fail_variant(report, 1); };
  const SolveReport report = solve();
  EXPECT_FALSE(report.green());
  ASSERT_TRUE(report.chosen.has_value());
  EXPECT_EQ(pass_dir(), kept(report.states[*report.chosen].hash));
}

TEST_F(SolveTest, AStateWithAFailedPassNeverReplacesACleanOne) {
  size_t calls = 0;
  preflight_.change = [&](const StateUnderTest& state, PreflightReport& report) {
    // Every later state is green in all variants, and yet one of its passes is named as failed.
    if (calls++ > 0)
      report.failures.push_back({state.passes->front().name, {"kernel_does_not_compile", "no", {}}});
  };
  EXPECT_EQ(solve().chosen, 0u);
}

TEST_F(SolveTest, AnErrorOfThePreflightEndsTheRun) {
  class Broken final : public Preflight {
    Result<PreflightReport> run(const StateUnderTest&) override {
      return user_error("worker.python", "no Python");
    }
  } broken;
  SolveContext context{files_, clock_, broken, profile_, [](std::string_view) {}};
  SolveOptions options;
  options.sample = "s";
  const Result<SolveReport> report = solve_sample(context, options);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, "worker.python");
  EXPECT_EQ(pass_dir(), found_);
}

TEST_F(SolveTest, UnusableSamplesAreRefusedBeforeAnythingIsWritten) {
  const std::vector<std::pair<std::string, std::pair<std::string, std::string>>> cases = {
      {"ops.bad_arguments", {"s/float32/1/weight_meta.py", block_meta(16) + tensor_class("unused", "[1]")}},
      {"sample.variant_missing", {"s/graph_list.txt", "float32/0\nfloat32/7\n"}},
      {"capture.input_without_meta", {"s/float32/0/weight_meta.py", tensor_class("a", "[32, 64]")}},
  };
  for (const auto& [code, file] : cases) {
    MemoryFiles files;
    put_sample(files);
    std::string content = file.second;
    if (code == "ops.bad_arguments") content.replace(content.find("[16, 64]"), 8, "[15, 64]");
    files.put(file.first, content);
    const std::map<std::string, std::string> before = files.files();
    const Result<SolveReport> report = try_solve(files);
    ASSERT_FALSE(report.ok()) << code;
    EXPECT_EQ(report.error().code, code);
    EXPECT_FALSE(report.error().file.empty());
    EXPECT_GT(report.error().span.line, 0) << code;
    EXPECT_FALSE(report.error().hint.empty()) << code;
    EXPECT_EQ(files.files(), before);
    EXPECT_TRUE(preflight_.asked.empty());
  }
}

TEST_F(SolveTest, AValueOfRunTimeIsNoContradiction) {
  // torch takes a tensor without axes for a number; how long the result is only a run tells.
  files_.put("s/graph_list.txt", "v\n");
  put_variant(files_, "s/v",
              model_text("a, n",
                         "\n        r = torch.arange(0, n)\n        c = a + a\n"
                         "        d = torch.relu(c)\n        return (d, r)\n"),
              tensor_class("a", "[8, 8]") +
                  "class N:\n    name = \"n\"\n    shape = []\n    dtype = \"torch.int64\"\n");
  const CapturedSample sample = captured(files_);
  ASSERT_EQ(sample.findings.size(), 1u);
  EXPECT_EQ(sample.findings[0].code, "ops.unknown_value");
  EXPECT_FALSE(unusable(sample).has_value());
  const SolveReport report = solve();
  EXPECT_TRUE(report.green());
  ASSERT_TRUE(report.chosen.has_value());
}

// The disk as above until a number of changes was made; then every change fails, as when the program ends
// there.
class EndingFiles final : public FileSystem {
 public:
  EndingFiles(MemoryFiles& files, int changes) : files_(files), left_(changes) {}
  bool ended() const { return left_ < 0; }

  Result<std::string> read(const std::string& path, std::uint64_t limit) override {
    return files_.read(path, limit);
  }
  Result<FileInfo> stat(const std::string& path) override { return files_.stat(path); }
  Result<std::vector<DirEntry>> list(const std::string& path) override { return files_.list(path); }
  Status write(const std::string& p, std::string_view c) override {
    return change([&] { return files_.write(p, c); });
  }
  Status append(const std::string& p, std::string_view c) override {
    return change([&] { return files_.append(p, c); });
  }
  Status make_directory(const std::string& p) override {
    return change([&] { return files_.make_directory(p); });
  }
  Status rename(const std::string& a, const std::string& b) override {
    return change([&] { return files_.rename(a, b); });
  }
  Status remove_all(const std::string& p) override {
    return change([&] { return files_.remove_all(p); });
  }
  Status exchange_directories(const std::string& a, const std::string& b) override {
    return change([&] { return files_.exchange_directories(a, b); });
  }
  Status recover_exchange(const std::string& a) override {
    return change([&] { return files_.recover_exchange(a); });
  }

 private:
  template <class Change>
  Status change(Change make) {
    if (left_-- > 0) return make();
    left_ = -1;
    return user_error("file.io", "the program ended here");
  }

  MemoryFiles& files_;
  int left_;
};

TEST_F(SolveTest, EndedAfterAnyChangeThePassDirIsWholeAndNothingIsLost) {
  const SolveReport whole = solve();
  const std::vector<StateFiles> states = {found_, kept(whole.states[0].hash), kept(whole.states[1].hash)};
  std::set<size_t> met;
  int changes = 0;
  for (;; ++changes) {
    MemoryFiles files;
    put_sample(files);
    EndingFiles ending(files, changes);
    const Result<SolveReport> report = try_solve(ending);
    StateFiles now;
    for (const auto& [path, content] : files.files()) {
      if (path.starts_with("s/pass_dir/") && !path.ends_with(".ignore")) now[path.substr(11)] = content;
    }
    const auto it = std::find(states.begin(), states.end(), now);
    ASSERT_NE(it, states.end()) << "after " << changes << " changes";
    met.insert(static_cast<size_t>(it - states.begin()));
    EXPECT_EQ(report.ok(), !ending.ended());
    if (report.ok()) break;
    // The next run finishes, and what was there first comes back.
    const Result<SolveReport> again = try_solve(files);
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_TRUE(again->green());
    StateStore store = StateStore::open(files, clock_, "s").value();
    EXPECT_EQ(store.current().value(), states[2]);
    ASSERT_TRUE(store.restore("found").ok()) << "after " << changes << " changes";
    EXPECT_EQ(store.current().value(), found_);
    EXPECT_EQ(files.read("s/pass_dir/.ignore").value(), "x");
    ASSERT_LT(changes, 500);
  }
  EXPECT_EQ(met, (std::set<size_t>{0, 1, 2}));
  EXPECT_GT(changes, 20);
}

TEST_F(SolveTest, TwoRunsWriteTheSameBytes) {
  (void)solve();
  const StateFiles first = pass_dir();
  MemoryFiles fresh;
  put_sample(fresh);
  ASSERT_TRUE(try_solve(fresh).ok());
  EXPECT_EQ(StateStore::open(fresh, clock_, "s").value().current().value(), first);
}

}  // namespace
}  // namespace passnet
