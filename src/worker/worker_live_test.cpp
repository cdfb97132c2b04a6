// The real Python side, unpacked from the test program. Skipped where the development environment is missing.

#include <chrono>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "embedded/python_files.h"
#include "worker/protocol.h"
#include "worker/worker.h"

namespace passnet {
namespace {

using testing::HasSubstr;

TEST(LiveWorker, AnswersVersionsAndRefusesWithReasons) {
  const std::string python = PASSNET_SOURCE_DIR "/.venv/bin/python";
  if (!real_files().exists(python)) GTEST_SKIP() << "no " << python;
  WorkerOptions options;
  options.python = python;
  ProcessWorker worker(options);
  WorkerRequest request;
  request.cmd = "versions";
  const auto versions = worker.call(request);
  ASSERT_TRUE(versions.ok()) << render_text(versions.error()) << worker.output_tail();
  EXPECT_THAT(versions.value()["torch"].get<std::string>(), testing::StartsWith("2."));
  EXPECT_THAT(versions.value()["python"].get<std::string>(), testing::StartsWith("3."));

  request.cmd = "capture";
  request.arguments = {
      {"variant", "/no/such/folder"}, {"variants", {"/no/such/folder"}}, {"sample", "/no/such"}};
  const auto refused = worker.call(request);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(worker_failure(refused.error()), WorkerFailure::kRefused) << render_text(refused.error());
  EXPECT_TRUE(worker.running()) << "a refusal does not end the process";
}

TEST(LiveWorker, BothSidesHaveTheSameCommands) {
  std::string_view table;
  for (const auto& file : embedded::python_files()) {
    if (file.path == "passnet/worker/commands.py") table = file.content;
  }
  ASSERT_FALSE(table.empty());
  for (const auto& row : worker_commands()) {
    if (row.name == "shutdown") continue;  // answered by the loop, not by the table
    EXPECT_THAT(std::string(table), HasSubstr("\"" + std::string(row.name) + "\":"));
  }
}

}  // namespace
}  // namespace passnet
