#include "worker/worker.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <thread>

#include <fmt/format.h>

#include "base/strings.h"
#include "worker/protocol.h"

namespace passnet {

namespace {

constexpr std::size_t kShownOutput = 4000;
/// The id of an answer to bytes that were no request.
constexpr long long kNoRequest = -1;
constexpr Duration kFarewell = std::chrono::seconds(3);

constexpr std::array kFailures = {WorkerFailure::kStart, WorkerFailure::kTimeout, WorkerFailure::kDied,
                                  WorkerFailure::kProtocol, WorkerFailure::kRefused};

Diagnostic with_outcome(Diagnostic diagnostic, WorkerFailure failure) {
  diagnostic.fields["outcome"] = to_string(failure);
  return diagnostic;
}

std::string text_of(const Json& object, std::string_view key) {
  if (!object.is_object()) return {};
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

Diagnostic refusal(const Json& reply, const WorkerRequest& request) {
  Json none = Json::object();
  const auto it = reply.find("error");
  const Json& error = it != reply.end() && it->is_object() ? *it : none;
  std::string code = text_of(error, "code");
  std::string message = text_of(error, "message");
  if (code.empty()) code = "worker.refused";
  if (message.empty())
    message = fmt::format("the worker could not carry out '{}' and gave no reason", request.cmd);
  auto diagnostic =
      user_error(code, message).with_hint(text_of(error, "remedy")).with("command", request.cmd);
  if (const std::string traceback = text_of(error, "traceback"); !traceback.empty()) {
    diagnostic.fields["traceback"] = traceback;
  }
  return with_outcome(std::move(diagnostic), WorkerFailure::kRefused);
}

}  // namespace

std::string_view to_string(WorkerFailure failure) {
  switch (failure) {
    case WorkerFailure::kStart: return "start";
    case WorkerFailure::kTimeout: return "timeout";
    case WorkerFailure::kDied: return "died";
    case WorkerFailure::kProtocol: return "protocol";
    case WorkerFailure::kRefused: return "refused";
  }
  return "";
}

std::optional<WorkerFailure> worker_failure(const Diagnostic& diagnostic) {
  const auto it = diagnostic.fields.find("outcome");
  if (it == diagnostic.fields.end()) return std::nullopt;
  for (const auto failure : kFailures) {
    if (it->second == to_string(failure)) return failure;
  }
  return std::nullopt;
}

WorkerOptions shared_machine(int workers) {
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  const unsigned share = std::max(1u, cores / static_cast<unsigned>(std::max(1, workers)));
  WorkerOptions options;
  const auto set = [&](const char* name, std::string value) {
    if (std::getenv(name) == nullptr) options.env[name] = std::move(value);
  };
  set("OMP_NUM_THREADS", std::to_string(share));
  set("MALLOC_MMAP_THRESHOLD_", "33554432");  // glibc takes no larger one
  set("MALLOC_TRIM_THRESHOLD_", "1073741824");
  set("MALLOC_TOP_PAD_", "67108864");
  return options;
}

ProcessWorker::ProcessWorker(WorkerOptions options) : options_(std::move(options)) {}

ProcessWorker::~ProcessWorker() {
  if (process_ == nullptr) return;
  SystemClock clock;
  const Duration deadline = clock.monotonic() + kFarewell;
  Json message = {{"v", kWorkerProtocolVersion}, {"id", next_id_}, {"cmd", "shutdown"}};
  if (const auto frame = encode_frame(message); frame.ok()) process_->write_all(*frame, deadline);
  process_->close_input();
  process_->wait(deadline);
}

std::string ProcessWorker::output_tail() const { return process_ ? process_->output_tail() : last_tail_; }

Status ProcessWorker::start() {
  ProcessSpec spec;
  spec.env = options_.env;
  spec.argv = options_.argv;
  if (spec.argv.empty()) {
    std::string python = options_.python;
    if (python.empty()) {
      PN_TRY(auto choice, find_python());
      python = std::move(choice.program);
    }
    PN_TRY(const std::string root, unpack_worker_files(real_files()));
    spec.argv = {python, "-m", "passnet.worker", "--fd-in", "{fd_in}", "--fd-out", "{fd_out}"};
    // `python -m` looks into the working directory first: somebody's folder named passnet must not win.
    spec.directory = root;
    std::string path = root;
    const auto changed = options_.env.find("PYTHONPATH");
    const char* inherited = std::getenv("PYTHONPATH");
    const std::string more = changed != options_.env.end() ? changed->second.value_or("")
                             : inherited != nullptr        ? inherited
                                                           : "";
    if (!more.empty()) path += ":" + more;
    spec.env["PYTHONPATH"] = path;
  }
  PN_TRY(process_, ChannelProcess::start(std::move(spec)));
  return {};
}

/// Ends the process and says how the call failed.
Diagnostic ProcessWorker::broken(WorkerFailure failure, const WorkerRequest& request,
                                 std::string_view reason) {
  ProcessEnd end;
  if (failure == WorkerFailure::kDied) {
    // It closed its pipe: its end is at most moments away, and its status is worth the wait.
    SystemClock clock;
    end = process_->wait(clock.monotonic() + kFarewell);
  } else {
    end = process_->kill();
  }
  last_tail_ = process_->output_tail();
  process_.reset();

  Diagnostic diagnostic;
  switch (failure) {
    case WorkerFailure::kDied:
      diagnostic =
          user_error("worker.died",
                     fmt::format("the worker ended during '{}': {}", request.cmd, end.to_text()))
              .with("end", end.to_text())
              .with_hint(
                  end.how == ProcessEnd::How::kSignalled && end.status == 9
                      ? "it was killed, most likely for want of memory: free some, or run fewer at once"
                      : "its last output says why; `passnet doctor` says what is usable here");
      break;
    case WorkerFailure::kTimeout:
      diagnostic =
          user_error("worker.timeout", fmt::format("the worker did not finish '{}' {}", request.cmd, reason))
              .with_hint("something in it hangs or is very slow; its last output may say what");
      break;
    default:
      diagnostic =
          internal_error("worker.protocol",
                         fmt::format("the worker's answer to '{}' cannot be used: {}", request.cmd, reason));
  }
  diagnostic.fields["command"] = request.cmd;
  if (!trim(last_tail_).empty()) diagnostic.fields["output"] = tail_of(last_tail_, kShownOutput);
  return with_outcome(std::move(diagnostic), failure);
}

Diagnostic ProcessWorker::channel_failure(ChannelProcess::Io io, const WorkerRequest& request) {
  if (io == ChannelProcess::Io::kTimedOut) {
    return broken(WorkerFailure::kTimeout, request,
                  fmt::format("within {}", human_duration(request.deadline)));
  }
  return broken(WorkerFailure::kDied, request, "");
}

Result<Json> ProcessWorker::read_message(Duration deadline, const WorkerRequest& request) {
  std::string bytes;
  if (const auto io = process_->read_exact(kFrameHeaderBytes, bytes, deadline);
      io != ChannelProcess::Io::kDone) {
    return channel_failure(io, request);
  }
  const auto length = decode_frame_length(bytes);
  if (!length.ok()) return broken(WorkerFailure::kProtocol, request, length.error().message);
  bytes.clear();
  if (const auto io = process_->read_exact(*length, bytes, deadline); io != ChannelProcess::Io::kDone) {
    return channel_failure(io, request);
  }
  auto message = decode_payload(bytes);
  if (!message.ok()) return broken(WorkerFailure::kProtocol, request, message.error().message);
  return message;
}

Result<Json> ProcessWorker::call(const WorkerRequest& asked) {
  const WorkerCommand* row = find_worker_command(asked.cmd);
  if (row == nullptr)
    return internal_error("worker.command", fmt::format("the worker has no command '{}'", asked.cmd));
  WorkerRequest request = asked;
  if (request.deadline <= Duration{0}) request.deadline = row->deadline;
  SystemClock clock;
  const Duration deadline = clock.monotonic() + request.deadline;

  if (process_ != nullptr && !process_->running()) {  // it ended between two calls: no fault of this one
    last_tail_ = process_->output_tail();
    process_.reset();
  }
  if (process_ == nullptr) {
    if (auto started = start(); !started.ok())
      return with_outcome(std::move(started).error(), WorkerFailure::kStart);
  }

  const long long id = next_id_++;
  Json message = {{"v", kWorkerProtocolVersion}, {"id", id}, {"cmd", request.cmd}};
  if (request.arguments.is_object()) {
    for (const auto& [key, value] : request.arguments.items())
      if (!message.contains(key)) message[key] = value;
  }
  PN_TRY(const std::string frame, encode_frame(message));
  if (const auto io = process_->write_all(frame, deadline); io != ChannelProcess::Io::kDone) {
    return channel_failure(io, request);
  }
  while (true) {
    PN_TRY(Json answer, read_message(deadline, request));
    if (const auto error = answer.find("error"); answer["id"] == kNoRequest && error != answer.end()) {
      return broken(WorkerFailure::kProtocol, request,
                    fmt::format("it could not read the request: {}", text_of(*error, "message")));
    }
    if (answer["id"] != id) {
      return broken(WorkerFailure::kProtocol, request,
                    fmt::format("it has id {}, not {}", dump_json(answer["id"]), id));
    }
    if (answer.contains("event")) {
      if (request.on_event) request.on_event(answer);
      continue;
    }
    const auto ok = answer.find("ok");
    if (ok == answer.end() || !ok->is_boolean()) {
      return broken(WorkerFailure::kProtocol, request, "it is neither an event nor a reply with ok");
    }
    if (!ok->get<bool>()) return refusal(answer, request);
    for (const char* key : {"v", "id", "ok"}) answer.erase(key);
    return answer;
  }
}

}  // namespace passnet
