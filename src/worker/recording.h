#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "worker/worker.h"

// A recording is a JSONL file, one call a line: `{"request": {"cmd", ...}, "events": [...], "reply": {...}}`,
// or with
// `"failure": {"outcome", "kind", "code", "message", "remedy", "fields"}` in place of the reply.

namespace passnet {

/// Texts that differ between machines (the folder of a sample, a scratch folder) and the names that stand for
/// them in a recording, such as {"/data/samples", "$SAMPLES"}. Replaced in every text of a request and its
/// answer, the longest first.
using Placeholders = std::vector<std::pair<std::string, std::string>>;

/// Passes calls on and writes each down.
class RecordingWorker final : public Worker {
 public:
  RecordingWorker(Worker& worker, FileSystem& files, std::string path, Placeholders placeholders = {});
  Result<Json> call(const WorkerRequest& request) override;

 private:
  Worker& worker_;
  FileSystem& files_;
  std::string path_;
  Placeholders placeholders_;
};

/// Answers from a recording, without Python. Calls are found by command and arguments, in any order; of
/// several equal ones each is answered in turn, the last one for ever. A call that was not recorded is
/// `worker.not_recorded`.
class ReplayingWorker final : public Worker {
 public:
  /// `recording.syntax` names the line that is none.
  static Result<ReplayingWorker> open(FileSystem& files, const std::string& path,
                                      Placeholders placeholders = {});
  Result<Json> call(const WorkerRequest& request) override;

 private:
  struct Entry {
    Json request;
    Json events;
    Json reply;    ///< null when the call failed
    Json failure;  ///< null when it did not
    bool used = false;
  };

  explicit ReplayingWorker(Placeholders placeholders) : placeholders_(std::move(placeholders)) {}

  Placeholders placeholders_;
  std::vector<Entry> entries_;
};

}  // namespace passnet
