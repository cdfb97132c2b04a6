#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "base/result.h"
#include "base/subprocess.h"

namespace passnet {

/// How a call can fail, in the field "outcome" of its Diagnostic.
enum class WorkerFailure {
  kStart,     ///< the process could not be started, or Python is missing
  kTimeout,   ///< no reply by the deadline; the process group was killed
  kDied,      ///< the process ended instead of replying
  kProtocol,  ///< what came was no reply to this request; the process group was killed
  kRefused,   ///< a reply with ok: false; the Diagnostic has its code, message, remedy and field "traceback"
};

std::string_view to_string(WorkerFailure failure);
/// Of a Diagnostic that Worker::call returned; nullopt for any other.
std::optional<WorkerFailure> worker_failure(const Diagnostic& diagnostic);

struct WorkerRequest {
  std::string cmd;                  ///< a name of worker_commands()
  Json arguments = Json::object();  ///< its further keys; paths in it are absolute
  Duration deadline{0};             ///< for the whole call; zero: that of the table
  std::function<void(const Json&)> on_event;
};

/// Something that answers requests: the process, a replayer, a test's own fake.
class Worker {
 public:
  virtual ~Worker() = default;
  /// The reply without its envelope (v, id, ok).
  virtual Result<Json> call(const WorkerRequest& request) = 0;
};

/// The Python that runs the worker.
struct PythonChoice {
  std::string program;
  std::string why;  ///< for messages: `PASSNET_PYTHON`, `.venv beside the program`, `PATH`
};

/// PASSNET_PYTHON; else `.venv/bin/python` in the folder of `program` (the running program when empty) or one
/// above it; else python3 on PATH. `worker.python` says where was looked. A set PASSNET_PYTHON that does not
/// exist is an error, not a reason to look further.
Result<PythonChoice> find_python(std::string_view program = {});

/// Unpacks the embedded Python files to a private folder keyed by their content and returns that folder, to
/// be put on PYTHONPATH. `cache_root` empty: XDG_CACHE_HOME or ~/.cache, or a folder of this user below
/// TMPDIR. What is already there is compared with what should be, and replaced if it differs.
Result<std::string> unpack_worker_files(FileSystem& files, std::string cache_root = {});

struct WorkerOptions {
  std::string python;                                     ///< empty: find_python
  std::map<std::string, std::optional<std::string>> env;  ///< changes to the environment
  std::vector<std::string>
      argv;  ///< instead of `python -m passnet.worker`, for tests; {fd_in}, {fd_out} as there
};

/// The environment of one of `workers` workers of this machine: torch's threads are their share of the cores (more of
/// them wait actively and slow the others), and freed memory is kept for the next array instead of given back, which
/// costs interpreted kernels a tenth of their time. What the user has set stays.
WorkerOptions shared_machine(int workers);

/// The worker process. Started by the first call, and anew by the next call after it failed; one request at a
/// time.
class ProcessWorker final : public Worker {
 public:
  explicit ProcessWorker(WorkerOptions options = {});
  /// Asks the process to end, gives it a moment, kills its group.
  ~ProcessWorker() override;
  ProcessWorker(const ProcessWorker&) = delete;
  ProcessWorker& operator=(const ProcessWorker&) = delete;

  Result<Json> call(const WorkerRequest& request) override;

  bool running() const { return process_ != nullptr; }
  /// What the process printed lately: for reports of failures.
  std::string output_tail() const;

 private:
  Status start();
  Result<Json> read_message(Duration deadline, const WorkerRequest& request);
  Diagnostic broken(WorkerFailure failure, const WorkerRequest& request, std::string_view reason);
  Diagnostic channel_failure(ChannelProcess::Io io, const WorkerRequest& request);

  WorkerOptions options_;
  std::unique_ptr<ChannelProcess> process_;
  std::string last_tail_;
  long long next_id_ = 1;
};

}  // namespace passnet
