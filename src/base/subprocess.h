#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace passnet {

struct ProcessSpec {
  std::vector<std::string> argv;                          ///< argv[0] is looked up on PATH
  std::map<std::string, std::optional<std::string>> env;  ///< changes to the environment; nullopt unsets
  bool clean_env = false;                                 ///< start from nothing but `env`
  std::string directory;                                  ///< working directory; empty: ours
};

/// How a process ended.
struct ProcessEnd {
  enum class How { kExited, kSignalled, kTimedOut } how = How::kExited;
  int status = 0;  ///< exit status, or the number of the signal

  bool success() const { return how == How::kExited && status == 0; }
  /// `exit status 3`, `signal 11 (Segmentation fault)`, `stopped at its deadline`.
  std::string to_text() const;
};

struct ProcessOutput {
  ProcessEnd end;
  std::string out;  ///< at most `output_limit` bytes each: the head is dropped, the tail kept
  std::string err;
  bool truncated = false;
  Duration elapsed{0};
};

struct RunOptions {
  std::string input;  ///< written to standard input
  Duration deadline = std::chrono::minutes(1);
  std::size_t output_limit = 1u << 20;
};

/// Runs a process to its end in a process group of its own. At the deadline the whole group is killed; what
/// is left of the group after a normal end is killed too. Fails only if the process could not be started
/// (`process.missing`, `process.start`).
Result<ProcessOutput> run_process(const ProcessSpec& spec, const RunOptions& options = {});

/// Where PATH leads for this name; a name with a slash is only tested for being executable.
std::optional<std::string> find_program(std::string_view name);

/// A running process with standard input closed, output and errors captured to a bounded tail by a thread,
/// and a pair of pipes for a protocol of its own. The child learns the two numbers through `{fd_in}` and
/// `{fd_out}` in argv. Not for concurrent use by several threads.
class ChannelProcess {
 public:
  static Result<std::unique_ptr<ChannelProcess>> start(ProcessSpec spec, std::size_t tail_limit = 64u << 10);
  /// Kills the group if it still runs.
  ~ChannelProcess();
  ChannelProcess(const ChannelProcess&) = delete;
  ChannelProcess& operator=(const ChannelProcess&) = delete;

  enum class Io { kDone, kTimedOut, kClosed, kFailed };

  /// Writes all bytes, by `deadline` on the monotonic clock.
  Io write_all(std::string_view bytes, Duration deadline);
  /// Reads exactly `size` bytes into `out` (appended). kClosed: the other side closed before the last byte.
  Io read_exact(std::size_t size, std::string& out, Duration deadline);

  /// Closes our writing end: the child sees the end of its input.
  void close_input();
  /// Waits for the end until `deadline`, then kills the group.
  ProcessEnd wait(Duration deadline);
  ProcessEnd kill();
  bool running();
  int pid() const;

  /// The end of what the process wrote to standard output and error, mixed as it came.
  std::string output_tail() const;

 private:
  struct State;
  explicit ChannelProcess(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace passnet
