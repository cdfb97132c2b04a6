#include "worker/worker.h"

#include <cstdlib>
#include <filesystem>

#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "embedded/python_files.h"
#include "worker/recording.h"

namespace passnet {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

WorkerOptions fake_options() {
  WorkerOptions options;
  options.argv = {"python3", PASSNET_SOURCE_DIR "/src/worker/fake_worker.py", "{fd_in}", "{fd_out}"};
  return options;
}

WorkerRequest asking(const char* mode, Duration deadline = 20s) {
  WorkerRequest request;
  request.cmd = "smoke";
  request.arguments = {{"mode", mode}};
  request.deadline = deadline;
  return request;
}

std::string scratch_folder() {
  std::string path = testing::TempDir() + "passnet-worker-XXXXXX";
  return ::mkdtemp(path.data());
}

/// Sets an environment variable for the length of a test.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    value != nullptr ? ::setenv(name, value, 1) : ::unsetenv(name);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() { old_ ? ::setenv(name_, old_->c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

TEST(ProcessWorker, SendsTheArgumentsAndGivesTheReplyWithoutEnvelope) {
  ProcessWorker worker(fake_options());
  const auto reply = worker.call(asking("echo")).value();
  EXPECT_EQ(reply["request"]["cmd"], "smoke");
  EXPECT_EQ(reply["request"]["mode"], "echo");
  EXPECT_FALSE(reply.contains("ok") || reply.contains("id") || reply.contains("v"));
}

TEST(ProcessWorker, OneProcessServesManyCalls) {
  ProcessWorker worker(fake_options());
  const auto first = worker.call(asking("echo")).value();
  const auto second = worker.call(asking("echo")).value();
  EXPECT_EQ(first["pid"], second["pid"]);
  EXPECT_EQ(second["calls"], 2);
}

TEST(ProcessWorker, EventsComeBeforeTheReply) {
  ProcessWorker worker(fake_options());
  std::vector<int> seen;
  auto request = asking("events");
  request.on_event = [&](const Json& event) { seen.push_back(event["done"].get<int>()); };
  EXPECT_TRUE(worker.call(request).ok());
  EXPECT_THAT(seen, ElementsAre(0, 1, 2));
}

TEST(ProcessWorker, LargeRepliesComeWhole) {
  ProcessWorker worker(fake_options());
  EXPECT_EQ(worker.call(asking("big")).value()["text"].get<std::string>().size(), 3'000'000u);
}

TEST(ProcessWorker, ARefusalHasCodeMessageRemedyAndTraceback) {
  ProcessWorker worker(fake_options());
  const auto error = worker.call(asking("refuse")).error();
  EXPECT_EQ(worker_failure(error), WorkerFailure::kRefused);
  EXPECT_EQ(error.code, "sample.no_model");
  EXPECT_EQ(error.message, "there is no model.py");
  EXPECT_EQ(error.hint, "name a variant");
  EXPECT_EQ(error.fields.at("traceback"), "Traceback: ...");
  EXPECT_TRUE(worker.call(asking("echo")).ok()) << "the process goes on after a refusal";
  EXPECT_EQ(worker.call(asking("refuse badly")).error().message,
            "the worker could not carry out 'smoke' and gave no reason");
}

TEST(ProcessWorker, DeathNamesTheStatusAndShowsTheOutputAndTheNextCallStartsAnew) {
  ProcessWorker worker(fake_options());
  const auto error = worker.call(asking("die")).error();
  EXPECT_EQ(worker_failure(error), WorkerFailure::kDied);
  EXPECT_EQ(error.code, "worker.died");
  EXPECT_EQ(error.message, "the worker ended during 'smoke': exit status 3");
  EXPECT_THAT(error.fields.at("output"), HasSubstr("last words"));
  EXPECT_FALSE(worker.running());
  EXPECT_EQ(worker.call(asking("echo")).value()["calls"], 1);
}

TEST(ProcessWorker, ACrashNamesTheSignal) {
  ProcessWorker worker(fake_options());
  EXPECT_EQ(worker.call(asking("crash")).error().message,
            "the worker ended during 'smoke': signal 11 (Segmentation fault)");
  EXPECT_EQ(worker_failure(worker.call(asking("die inside a frame")).error()), WorkerFailure::kDied);
}

TEST(ProcessWorker, TheDeadlineEndsTheProcess) {
  ProcessWorker worker(fake_options());
  ASSERT_TRUE(worker.call(asking("echo")).ok());
  const auto error = worker.call(asking("hang", 200ms)).error();
  EXPECT_EQ(worker_failure(error), WorkerFailure::kTimeout);
  EXPECT_EQ(error.message, "the worker did not finish 'smoke' within 200 ms");
  EXPECT_FALSE(worker.running());
  EXPECT_TRUE(worker.call(asking("echo")).ok());
}

TEST(ProcessWorker, WhatIsNoAnswerIsAFaultOfTheProtocol) {
  for (const char* mode : {"garbage", "other id", "no ok", "unreadable"}) {
    ProcessWorker worker(fake_options());
    const auto error = worker.call(asking(mode)).error();
    EXPECT_EQ(worker_failure(error), WorkerFailure::kProtocol) << mode;
    EXPECT_EQ(error.kind, DiagnosticKind::kInternal);
    EXPECT_FALSE(worker.running());
  }
}

TEST(ProcessWorker, AProcessThatCannotStartSaysSo) {
  WorkerOptions options;
  options.argv = {"no-such-python-anywhere"};
  ProcessWorker worker(options);
  const auto error = worker.call(asking("echo")).error();
  EXPECT_EQ(worker_failure(error), WorkerFailure::kStart);
  EXPECT_EQ(error.code, "process.missing");
}

TEST(ProcessWorker, KnowsItsCommands) {
  ProcessWorker worker(fake_options());
  WorkerRequest request;
  request.cmd = "dance";
  EXPECT_EQ(worker.call(request).error().code, "worker.command");
  EXPECT_FALSE(worker.running()) << "nothing was started for it";
}

TEST(FindPython, TheVariableWinsAndMustExist) {
  {
    const Environment set("PASSNET_PYTHON", "/bin/sh");
    EXPECT_EQ(find_python().value().program, "/bin/sh");
  }
  const Environment set("PASSNET_PYTHON", "/no/such/python");
  EXPECT_EQ(find_python().error().code, "worker.python");
}

TEST(FindPython, LooksForAVenvAtAndAboveTheProgram) {
  const Environment unset("PASSNET_PYTHON", nullptr);
  const std::string root = scratch_folder();
  ASSERT_TRUE(real_files().make_directory(root + "/.venv/bin").ok());
  ASSERT_TRUE(real_files().make_directory(root + "/a/build").ok());
  std::filesystem::create_symlink("/bin/sh", root + "/.venv/bin/python");
  const auto found = find_python(root + "/a/build/passnet").value();
  EXPECT_EQ(found.program, root + "/.venv/bin/python");
  EXPECT_EQ(found.why, ".venv in " + root);
  std::filesystem::remove_all(root);
}

TEST(FindPython, WithoutAnyTheErrorSaysWhereItLooked) {
  const Environment unset("PASSNET_PYTHON", nullptr);
  const Environment path("PATH", "/no/such/folder");
  const auto error = find_python("/passnet").error();
  EXPECT_EQ(error.message, "no Python was found: none in a .venv at or above /, no python3 on PATH");
}

TEST(UnpackWorkerFiles, WritesThePackageOnceAndRepairsIt) {
  const std::string cache = scratch_folder();
  const std::string root = unpack_worker_files(real_files(), cache).value();
  ASSERT_TRUE(real_files().is_file(root + "/passnet/worker/__init__.py"));
  EXPECT_EQ(real_files().list_recursive(root)->size(), embedded::python_files().size());
  const auto& file = embedded::python_files().front();
  const std::string path = join_path(root, file.path);
  ASSERT_TRUE(real_files().write(path, "raise SystemExit('changed by somebody')").ok());
  EXPECT_EQ(unpack_worker_files(real_files(), cache).value(), root);
  EXPECT_EQ(*real_files().read(path), file.content);
  EXPECT_EQ(real_files().list(cache)->size(), 1u) << "staging folders were left";
  std::filesystem::remove_all(cache);
}

TEST(UnpackWorkerFiles, EmbeddedFilesAreThoseOfTheSourceTree) {
  for (const auto& file : embedded::python_files()) {
    EXPECT_EQ(*real_files().read(join_path(PASSNET_SOURCE_DIR "/python", file.path)), file.content)
        << file.path;
  }
}

TEST(UnpackWorkerFiles, TheCacheIsPrivate) {
  const std::string home = scratch_folder();
  const Environment set("XDG_CACHE_HOME", home.c_str());
  const std::string root = unpack_worker_files(real_files()).value();
  EXPECT_TRUE(root.starts_with(home + "/passnet/python-")) << root;
  struct stat status {};
  ASSERT_EQ(::stat((home + "/passnet").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  std::filesystem::remove_all(home);
}

/// Answers by a function: a worker without a process.
class FakeWorker final : public Worker {
 public:
  Result<Json> call(const WorkerRequest& request) override {
    ++calls;
    if (request.on_event) request.on_event({{"v", 1}, {"id", calls}, {"event", "progress"}, {"done", calls}});
    if (request.arguments.value("fail", false)) {
      return user_error("worker.died", "it ended").with_hint("start it").with("outcome", "died");
    }
    return Json{{"path", request.arguments["path"]}, {"call", calls}};
  }
  int calls = 0;
};

TEST(Recording, IsAnsweredFromAsItWasRecorded) {
  MemoryFiles files;
  ASSERT_TRUE(files.make_directory("/rec").ok());
  FakeWorker fake;
  RecordingWorker recorder(fake, files, "/rec/calls.jsonl",
                           {{"/here", "$ROOT"}, {"/here/samples", "$SAMPLES"}});
  WorkerRequest request;
  request.cmd = "capture";
  request.arguments = {{"path", "/here/samples/a"}, {"device", "cpu"}};
  ASSERT_TRUE(recorder.call(request).ok());
  ASSERT_TRUE(recorder.call(request).ok());
  request.arguments["fail"] = true;
  ASSERT_FALSE(recorder.call(request).ok());
  EXPECT_EQ(files.files().at("/rec/calls.jsonl").find("/here"), std::string::npos);

  auto replayer =
      ReplayingWorker::open(files, "/rec/calls.jsonl", {{"/there", "$ROOT"}, {"/there/data", "$SAMPLES"}})
          .value();
  request.arguments = {{"device", "cpu"}, {"path", "/there/data/a"}};  // another order of the keys
  int events = 0;
  request.on_event = [&](const Json& event) { events += event["done"].get<int>(); };
  EXPECT_EQ(replayer.call(request).value(), (Json{{"path", "/there/data/a"}, {"call", 1}}));
  EXPECT_EQ(replayer.call(request).value()["call"], 2);
  EXPECT_EQ(replayer.call(request).value()["call"], 2) << "the last one answers for ever";
  EXPECT_EQ(events, 1 + 2 + 2);
  request.arguments["fail"] = true;
  const auto error = replayer.call(request).error();
  EXPECT_EQ(worker_failure(error), WorkerFailure::kDied);
  EXPECT_EQ(error.hint, "start it");
  EXPECT_EQ(fake.calls, 3);
}

TEST(Recording, ACallThatWasNotRecordedIsNamed) {
  MemoryFiles files(
      std::map<std::string, std::string>{{"/r", R"({"request":{"cmd":"versions"},"reply":{"a":1}})"}});
  auto replayer = ReplayingWorker::open(files, "/r").value();
  WorkerRequest request;
  request.cmd = "versions";
  EXPECT_EQ(replayer.call(request).value()["a"], 1);
  request.arguments = {{"x", 1}};
  const auto error = replayer.call(request).error();
  EXPECT_EQ(error.code, "worker.not_recorded");
  EXPECT_EQ(error.message, R"(no such call was recorded: {"cmd":"versions","x":1})");
}

TEST(Recording, ABrokenLineIsNamed) {
  for (const char* line : {"{", "[]", R"({"request":{}})", R"({"request":{},"reply":{},"failure":{}})"}) {
    MemoryFiles files(std::map<std::string, std::string>{{"/r", "\n" + std::string(line) + "\n"}});
    const auto error = ReplayingWorker::open(files, "/r").error();
    EXPECT_EQ(error.code, "recording.syntax") << line;
    EXPECT_EQ(error.span.line, 2);
  }
}

}  // namespace
}  // namespace passnet
