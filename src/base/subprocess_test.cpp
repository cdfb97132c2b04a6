#include "base/subprocess.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/lock_file.h"
#include "base/strings.h"

namespace passnet {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

ProcessSpec shell(const std::string& script) {
  ProcessSpec spec;
  spec.argv = {"sh", "-c", script};
  return spec;
}

std::string scratch_file(const std::string& name) {
  return testing::TempDir() + "passnet-" + std::to_string(::getpid()) + "-" + name;
}

/// Whether the process with the id in this file ends soon.
bool ends_soon(const std::string& pid_file) {
  const auto pid = parse_int(trim(real_files().read(pid_file).value_or(std::string())));
  if (!pid || *pid <= 1) return false;
  for (int i = 0; i < 100; ++i) {
    const auto state = real_files().read("/proc/" + std::to_string(*pid) + "/stat");
    // A zombie that init has not yet reaped has ended as well.
    if (!state.ok() || state->find(") Z") != std::string::npos) return true;
    std::this_thread::sleep_for(20ms);
  }
  return false;
}

TEST(RunProcess, GivesOutputErrorsAndStatus) {
  const auto done = run_process(shell("cat; echo err >&2; exit 3"), {.input = "hello"}).value();
  EXPECT_EQ(done.out, "hello");
  EXPECT_EQ(done.err, "err\n");
  EXPECT_EQ(done.end.to_text(), "exit status 3");
  EXPECT_FALSE(done.end.success());
}

TEST(RunProcess, PassesMoreThanAPipeHoldsInBothDirections) {
  const std::string big(3u << 20, 'x');
  const auto done = run_process(shell("cat"), {.input = big, .output_limit = 4u << 20}).value();
  EXPECT_EQ(done.out, big);
}

TEST(RunProcess, AProcessThatDoesNotReadItsInputIsNoError) {
  EXPECT_TRUE(run_process(shell("exec true"), {.input = std::string(1u << 20, 'x')})->end.success());
}

TEST(RunProcess, KeepsTheTailOfLongOutput) {
  const auto done = run_process(shell("seq 1 100000"), {.output_limit = 100}).value();
  EXPECT_TRUE(done.truncated);
  EXPECT_EQ(done.out.size(), 100u);
  EXPECT_TRUE(done.out.ends_with("99999\n100000\n"));
}

TEST(RunProcess, NamesTheSignal) {
  const auto done = run_process(shell("kill -SEGV $$")).value();
  EXPECT_EQ(done.end.to_text(), "signal 11 (Segmentation fault)");
}

TEST(RunProcess, AtTheDeadlineTheWholeGroupIsKilled) {
  const std::string pid_file = scratch_file("group");
  const auto done =
      run_process(shell("sleep 60 & echo $! > " + pid_file + "; wait"), {.deadline = 400ms}).value();
  EXPECT_EQ(done.end.to_text(), "stopped at its deadline");
  EXPECT_LT(done.elapsed, Duration(20s));
  EXPECT_TRUE(ends_soon(pid_file));
  std::filesystem::remove(pid_file);
}

TEST(RunProcess, AGrandchildThatHoldsThePipesKeepsNobodyWaiting) {
  const std::string pid_file = scratch_file("grandchild");
  const auto done =
      run_process(shell("sleep 60 & echo $! > " + pid_file + "; echo out"), {.deadline = 30s}).value();
  EXPECT_EQ(done.out, "out\n");
  EXPECT_TRUE(done.end.success());
  EXPECT_LT(done.elapsed, Duration(10s));
  EXPECT_TRUE(ends_soon(pid_file));
  std::filesystem::remove(pid_file);
}

TEST(RunProcess, EnvironmentAndFolderAreThoseAskedFor) {
  auto spec = shell("echo $PN_A-$PN_B; pwd");
  ::setenv("PN_B", "inherited", 1);
  spec.env = {{"PN_A", "set"}, {"PN_B", std::nullopt}};
  spec.directory = "/";
  EXPECT_EQ(run_process(spec)->out, "set-\n/\n");
  ::unsetenv("PN_B");
}

TEST(RunProcess, WhatCannotBeStartedSaysWhy) {
  ProcessSpec spec;
  spec.argv = {"no-such-program-anywhere"};
  EXPECT_EQ(run_process(spec).error().code, "process.missing");
  spec = shell("true");
  spec.directory = "/no/such/folder";
  EXPECT_EQ(run_process(spec).error().code, "process.start");
  EXPECT_THAT(run_process(spec).error().message, HasSubstr("No such file or directory"));
}

std::unique_ptr<ChannelProcess> start_channel(const std::string& script) {
  ProcessSpec spec;
  // $0 and $1 of the script are the numbers of its two ends.
  spec.argv = {"sh", "-c", script, "{fd_in}", "{fd_out}"};
  return ChannelProcess::start(spec).value();
}

Duration in(Duration span) { return SystemClock().monotonic() + span; }

TEST(ChannelProcess, TalksBesideStandardOutput) {
  auto process = start_channel("echo noise; cat </proc/self/fd/$0 >/proc/self/fd/$1");
  EXPECT_EQ(process->write_all("ping", in(5s)), ChannelProcess::Io::kDone);
  std::string answer;
  EXPECT_EQ(process->read_exact(4, answer, in(5s)), ChannelProcess::Io::kDone);
  EXPECT_EQ(answer, "ping");
  process->close_input();
  EXPECT_TRUE(process->wait(in(5s)).success());
  EXPECT_EQ(process->output_tail(), "noise\n");
}

TEST(ChannelProcess, ReadingEndsAtTheDeadline) {
  auto process = start_channel("sleep 60");
  std::string answer;
  EXPECT_EQ(process->read_exact(1, answer, in(100ms)), ChannelProcess::Io::kTimedOut);
  EXPECT_TRUE(process->running());
  EXPECT_EQ(process->kill().status, SIGKILL);
  EXPECT_FALSE(process->running());
}

TEST(ChannelProcess, WhatWasWrittenBeforeTheEndIsStillRead) {
  auto process = start_channel("printf abc >/proc/self/fd/$1; exit 7");
  std::string answer;
  EXPECT_EQ(process->read_exact(5, answer, in(5s)), ChannelProcess::Io::kClosed);
  EXPECT_EQ(answer, "abc");
  EXPECT_EQ(process->wait(in(5s)).status, 7);
}

TEST(ChannelProcess, TheEndIsNoticedThoughAGrandchildHoldsThePipe) {
  auto process = start_channel("sleep 60 & exit 0");
  std::string answer;
  EXPECT_EQ(process->read_exact(1, answer, in(20s)), ChannelProcess::Io::kClosed);
}

TEST(ChannelProcess, WritingToAProcessThatEndedIsAnOutcome) {
  auto process = start_channel("exit 0");
  const std::string big(1u << 20, 'x');
  EXPECT_EQ(process->write_all(big, in(10s)), ChannelProcess::Io::kClosed);
}

TEST(LockFile, IsHeldByOneAndFreedByItsEnd) {
  const std::string path = scratch_file("lock");
  {
    const auto first = LockFile::acquire(path);
    ASSERT_TRUE(first.ok());
    const auto second = LockFile::acquire(path, 30ms);
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().code, "lock.busy");
    EXPECT_THAT(second.error().message, HasSubstr("process " + std::to_string(::getpid())));
  }
  EXPECT_TRUE(LockFile::acquire(path).ok());
  EXPECT_EQ(LockFile::acquire("/no/such/folder/lock").error().code, "lock.io");
  std::filesystem::remove(path);
}

TEST(LockFile, WaitsForTheHolder) {
  const std::string path = scratch_file("lock-wait");
  auto first = LockFile::acquire(path);
  ASSERT_TRUE(first.ok());
  std::thread holder([held = std::move(first).value()]() mutable {
    std::this_thread::sleep_for(50ms);
    const LockFile gone = std::move(held);
  });
  EXPECT_TRUE(LockFile::acquire(path, 10s).ok());
  holder.join();
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace passnet
