#include "base/subprocess.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/files.h"
#include "base/strings.h"

extern char** environ;

namespace passnet {

namespace {

constexpr int kLifeCheckMs = 50;

Duration now() { return SystemClock().monotonic(); }

int poll_timeout(Duration deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 1 << 30));
}

/// A descriptor that closes itself.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void reset() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

struct Pipe {
  Fd read;
  Fd write;
};

/// Numbers from 10 up, so that no end collides with the 0, 1 and 2 that the child is given.
Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return user_error("process.start", fmt::format("cannot make a pipe: {}", std::strerror(errno)))
        .with_hint("too many files are open; raise the limit (ulimit -n)");
  }
  const Fd low_read(ends[0]);
  const Fd low_write(ends[1]);
  Pipe pipe;
  pipe.read = Fd(::fcntl(low_read.get(), F_DUPFD_CLOEXEC, 10));
  pipe.write = Fd(::fcntl(low_write.get(), F_DUPFD_CLOEXEC, 10));
  if (!pipe.read.open() || !pipe.write.open()) {
    return user_error("process.start", "cannot make a pipe: no file numbers are left");
  }
  return pipe;
}

void set_nonblocking(const Fd& fd) { ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK); }

/// What the child gets, made ready before fork: after it only async-signal-safe calls are allowed.
struct Prepared {
  std::string program;
  std::vector<std::string> args;
  std::vector<std::string> env;
  std::vector<char*> arg_pointers;
  std::vector<char*> env_pointers;
};

Result<Prepared> prepare(const ProcessSpec& spec) {
  if (spec.argv.empty()) return internal_error("process.start", "a process without a name");
  const auto program = find_program(spec.argv.front());
  if (!program) {
    return user_error("process.missing", fmt::format("cannot find the program {}", spec.argv.front()))
        .with_hint("install it, or put its folder on PATH");
  }
  Prepared out;
  out.program = *program;
  out.args = spec.argv;
  std::map<std::string, std::string> env;
  if (!spec.clean_env) {
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string_view text = *entry;
      const std::size_t equals = text.find('=');
      if (equals != std::string_view::npos)
        env[std::string(text.substr(0, equals))] = text.substr(equals + 1);
    }
  }
  for (const auto& [key, value] : spec.env) {
    if (value) {
      env[key] = *value;
    } else {
      env.erase(key);
    }
  }
  for (const auto& [key, value] : env) out.env.push_back(fmt::format("{}={}", key, value));
  return out;
}

struct ChildFds {
  int in = -1;  ///< -1: /dev/null
  int out = -1;
  int err = -1;
  std::vector<int> keep;  ///< stay open under their own numbers
};

/// Forks and executes. Errors of the child before exec come back through a pipe, so they are reported here.
Result<pid_t> spawn(Prepared& prepared, const ProcessSpec& spec, const ChildFds& fds) {
  for (auto& arg : prepared.args) prepared.arg_pointers.push_back(arg.data());
  prepared.arg_pointers.push_back(nullptr);
  for (auto& entry : prepared.env) prepared.env_pointers.push_back(entry.data());
  prepared.env_pointers.push_back(nullptr);

  PN_TRY(Pipe report, make_pipe());
  const pid_t pid = ::fork();
  if (pid < 0) {
    return user_error("process.start", fmt::format("cannot start a process: {}", std::strerror(errno)));
  }
  if (pid == 0) {
    const auto give_up = [&] {
      const int error = errno;
      [[maybe_unused]] const ssize_t written = ::write(report.write.get(), &error, sizeof error);
      ::_exit(127);
    };
    ::setpgid(0, 0);
    const int null = ::open("/dev/null", O_RDWR);
    if (null < 0) give_up();
    if (::dup2(fds.in >= 0 ? fds.in : null, 0) < 0) give_up();
    if (::dup2(fds.out >= 0 ? fds.out : null, 1) < 0) give_up();
    if (::dup2(fds.err >= 0 ? fds.err : null, 2) < 0) give_up();
    if (null > 2) ::close(null);
    for (const int fd : fds.keep) {
      if (::fcntl(fd, F_SETFD, 0) < 0) give_up();
    }
    if (!spec.directory.empty() && ::chdir(spec.directory.c_str()) != 0) give_up();
    // The program may run under a host that blocks or ignores signals: the child starts with none of it.
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::signal(SIGPIPE, SIG_DFL);
    ::execve(prepared.program.c_str(), prepared.arg_pointers.data(), prepared.env_pointers.data());
    give_up();
  }
  ::setpgid(pid, pid);  // in both: whichever comes first
  report.write.reset();
  int error = 0;
  ssize_t got = 0;
  do {
    got = ::read(report.read.get(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  if (got > 0) {
    ::waitpid(pid, nullptr, 0);
    return user_error("process.start",
                      fmt::format("cannot start {}: {}", prepared.program, std::strerror(error)))
        .with_hint(spec.directory.empty()
                       ? "check that it is an executable of this machine"
                       : fmt::format("check the program and the folder {}", spec.directory));
  }
  return pid;
}

void kill_group(pid_t pid) { ::kill(-pid, SIGKILL); }

ProcessEnd end_of(int status) {
  ProcessEnd end;
  if (WIFSIGNALED(status)) {
    end.how = ProcessEnd::How::kSignalled;
    end.status = WTERMSIG(status);
  } else {
    end.status = WEXITSTATUS(status);
  }
  return end;
}

/// Whether the process has ended, without taking its status: its number stays ours until it is reaped, so
/// that the group can be killed safely before.
bool has_ended(pid_t pid) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == pid;
}

bool wait_until(pid_t pid, Duration deadline) {
  Duration pause = std::chrono::microseconds(200);
  while (!has_ended(pid)) {
    if (now() >= deadline) return false;
    std::this_thread::sleep_for(std::min<Duration>(pause, std::max<Duration>(deadline - now(), Duration{1})));
    pause = std::min<Duration>(pause * 2, std::chrono::milliseconds(20));
  }
  return true;
}

ProcessEnd reap(pid_t pid) {
  kill_group(pid);  // what the process left running
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return end_of(status);
}

/// Keeps the tail; cut to the limit only at twice its size, so that the cost stays linear.
void append_tail(std::string& text, std::string_view more, std::size_t limit, bool& truncated) {
  text += more;
  if (text.size() > 2 * limit + 4096) {
    text.erase(0, text.size() - limit);
    truncated = true;
  }
}

/// Writing to a closed pipe must be an error, not a signal that ends the program. Blocks SIGPIPE for the
/// thread and takes a pending one away afterwards.
class NoSigPipe {
 public:
  NoSigPipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  NoSigPipe(const NoSigPipe&) = delete;
  NoSigPipe& operator=(const NoSigPipe&) = delete;
  ~NoSigPipe() {
    if (!sigismember(&before_, SIGPIPE)) {
      const timespec none{};
      while (::sigtimedwait(&pipe_, nullptr, &none) > 0) {
      }
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_{};
  sigset_t before_{};
};

}  // namespace

std::string ProcessEnd::to_text() const {
  switch (how) {
    case How::kExited: return fmt::format("exit status {}", status);
    case How::kSignalled: return fmt::format("signal {} ({})", status, ::strsignal(status));
    case How::kTimedOut: return "stopped at its deadline";
  }
  return "";
}

std::optional<std::string> find_program(std::string_view name) {
  const auto executable = [](const std::string& path) {
    return ::access(path.c_str(), X_OK) == 0 && !real_files().is_directory(path);
  };
  if (name.empty()) return std::nullopt;
  if (name.find('/') != std::string_view::npos) {
    std::string path(name);
    if (executable(path)) return path;
    return std::nullopt;
  }
  const char* path = std::getenv("PATH");
  for (const auto folder : split(path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin", ':')) {
    std::string candidate = join_path(folder.empty() ? "." : folder, name);
    if (executable(candidate)) return candidate;
  }
  return std::nullopt;
}

Result<ProcessOutput> run_process(const ProcessSpec& spec, const RunOptions& options) {
  PN_TRY(Prepared prepared, prepare(spec));
  PN_TRY(Pipe in, make_pipe());
  PN_TRY(Pipe out, make_pipe());
  PN_TRY(Pipe err, make_pipe());
  const Duration started = now();
  const Duration deadline = started + options.deadline;
  PN_TRY(const pid_t pid, spawn(prepared, spec, {in.read.get(), out.write.get(), err.write.get(), {}}));
  in.read.reset();
  out.write.reset();
  err.write.reset();
  set_nonblocking(in.write);
  set_nonblocking(out.read);
  set_nonblocking(err.read);

  const NoSigPipe guard;
  ProcessOutput result;
  std::string_view input = options.input;
  if (input.empty()) in.write.reset();
  bool timed_out = false;
  std::array<char, 1 << 16> buffer{};
  const auto drain = [&](Fd& fd, std::string& text) {
    const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
    if (got > 0)
      append_tail(text, {buffer.data(), static_cast<std::size_t>(got)}, options.output_limit,
                  result.truncated);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) fd.reset();
  };
  while (out.read.open() || err.read.open()) {
    std::array<pollfd, 3> fds = {pollfd{out.read.get(), POLLIN, 0}, pollfd{err.read.get(), POLLIN, 0},
                                 pollfd{in.write.get(), POLLOUT, 0}};
    // Woken now and then: a grandchild may hold the pipes open after the process itself has ended.
    const int ready = ::poll(fds.data(), fds.size(), std::min(poll_timeout(deadline), kLifeCheckMs));
    if (ready <= 0) {
      if (now() >= deadline) {
        timed_out = true;
        break;
      }
      if (has_ended(pid)) break;
      continue;
    }
    if (fds[0].revents != 0) drain(out.read, result.out);
    if (fds[1].revents != 0) drain(err.read, result.err);
    if (fds[2].revents != 0) {
      const ssize_t written = ::write(in.write.get(), input.data(), input.size());
      if (written > 0) input.remove_prefix(static_cast<std::size_t>(written));
      if (input.empty() || (written < 0 && errno != EAGAIN && errno != EINTR)) in.write.reset();
    }
    if (now() >= deadline) {
      timed_out = true;
      break;
    }
  }
  in.write.reset();
  if (!timed_out) timed_out = !wait_until(pid, deadline);
  result.end = reap(pid);
  if (timed_out) result.end = {ProcessEnd::How::kTimedOut, 0};
  for (auto* text : {&result.out, &result.err}) {
    if (text->size() > options.output_limit) {
      text->erase(0, text->size() - options.output_limit);
      result.truncated = true;
    }
  }
  result.elapsed = now() - started;
  return result;
}

struct ChannelProcess::State {
  pid_t pid = -1;
  std::optional<ProcessEnd> end;
  Fd to_child;
  Fd from_child;
  Fd output;
  Fd stop_read;  ///< closing stop_write wakes the reader thread
  Fd stop_write;
  std::size_t tail_limit = 0;
  std::thread reader;
  mutable std::mutex mutex;
  std::string tail;

  void read_output() {
    std::array<char, 1 << 14> buffer{};
    while (true) {
      std::array<pollfd, 2> fds = {pollfd{output.get(), POLLIN, 0}, pollfd{stop_read.get(), POLLIN, 0}};
      if (::poll(fds.data(), fds.size(), -1) < 0) {
        if (errno == EINTR) continue;
        return;
      }
      if (fds[0].revents != 0) {
        const ssize_t got = ::read(output.get(), buffer.data(), buffer.size());
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (got <= 0) return;
        const std::lock_guard lock(mutex);
        bool truncated = false;
        append_tail(tail, {buffer.data(), static_cast<std::size_t>(got)}, tail_limit, truncated);
        continue;  // what is still there is read before the stop is obeyed
      }
      if (fds[1].revents != 0) return;
    }
  }

  void finish() {
    end = reap(pid);
    stop_write.reset();
    if (reader.joinable()) reader.join();
  }
};

ChannelProcess::ChannelProcess(std::unique_ptr<State> state) : state_(std::move(state)) {}

ChannelProcess::~ChannelProcess() {
  if (!state_->end) kill();
}

Result<std::unique_ptr<ChannelProcess>> ChannelProcess::start(ProcessSpec spec, std::size_t tail_limit) {
  auto state = std::make_unique<State>();
  state->tail_limit = tail_limit;
  PN_TRY(Pipe down, make_pipe());
  PN_TRY(Pipe up, make_pipe());
  PN_TRY(Pipe output, make_pipe());
  PN_TRY(Pipe stop, make_pipe());
  for (auto& arg : spec.argv) {
    if (arg == "{fd_in}") arg = std::to_string(down.read.get());
    if (arg == "{fd_out}") arg = std::to_string(up.write.get());
  }
  PN_TRY(Prepared prepared, prepare(spec));
  PN_TRY(state->pid, spawn(prepared, spec,
                           {-1, output.write.get(), output.write.get(), {down.read.get(), up.write.get()}}));
  state->to_child = std::move(down.write);
  state->from_child = std::move(up.read);
  state->output = std::move(output.read);
  state->stop_read = std::move(stop.read);
  state->stop_write = std::move(stop.write);
  set_nonblocking(state->to_child);
  set_nonblocking(state->from_child);
  set_nonblocking(state->output);
  state->reader = std::thread([raw = state.get()] { raw->read_output(); });
  return std::unique_ptr<ChannelProcess>(new ChannelProcess(std::move(state)));
}

// Both directions are woken now and then to see whether the process still lives: a process that it forked may
// hold the pipes open after its end.
ChannelProcess::Io ChannelProcess::write_all(std::string_view bytes, Duration deadline) {
  const NoSigPipe guard;
  while (!bytes.empty()) {
    if (!state_->to_child.open()) return Io::kClosed;
    const bool ended = !running();
    pollfd fd{state_->to_child.get(), POLLOUT, 0};
    const int ready = ::poll(&fd, 1, std::min(poll_timeout(deadline), kLifeCheckMs));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return Io::kFailed;
    if (ready == 0) {
      if (now() >= deadline) return Io::kTimedOut;
      if (ended) return Io::kClosed;
      continue;
    }
    const ssize_t written = ::write(state_->to_child.get(), bytes.data(), bytes.size());
    if (written < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (written < 0) return errno == EPIPE ? Io::kClosed : Io::kFailed;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return Io::kDone;
}

ChannelProcess::Io ChannelProcess::read_exact(std::size_t size, std::string& out, Duration deadline) {
  std::array<char, 1 << 16> buffer{};
  while (size > 0) {
    const bool ended = !running();  // asked before: what it wrote before its end is still read
    pollfd fd{state_->from_child.get(), POLLIN, 0};
    const int ready = ::poll(&fd, 1, std::min(poll_timeout(deadline), kLifeCheckMs));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return Io::kFailed;
    if (ready == 0) {
      if (now() >= deadline) return Io::kTimedOut;
      if (ended) return Io::kClosed;
      continue;
    }
    const ssize_t got = ::read(state_->from_child.get(), buffer.data(), std::min(size, buffer.size()));
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got < 0) return Io::kFailed;
    if (got == 0) return Io::kClosed;
    out.append(buffer.data(), static_cast<std::size_t>(got));
    size -= static_cast<std::size_t>(got);
  }
  return Io::kDone;
}

void ChannelProcess::close_input() { state_->to_child.reset(); }

ProcessEnd ChannelProcess::wait(Duration deadline) {
  if (state_->end) return *state_->end;
  if (!wait_until(state_->pid, deadline)) {
    kill();
    state_->end = ProcessEnd{ProcessEnd::How::kTimedOut, 0};
    return *state_->end;
  }
  state_->finish();
  return *state_->end;
}

ProcessEnd ChannelProcess::kill() {
  if (!state_->end) {
    kill_group(state_->pid);
    state_->finish();
  }
  return *state_->end;
}

bool ChannelProcess::running() { return !state_->end && !has_ended(state_->pid); }

int ChannelProcess::pid() const { return state_->pid; }

std::string ChannelProcess::output_tail() const {
  const std::lock_guard lock(state_->mutex);
  return tail_of(state_->tail, state_->tail_limit);
}

}  // namespace passnet
