#include "worker/protocol.h"

#include <algorithm>
#include <array>
#include <chrono>

#include <fmt/format.h>

#include "base/json.h"
#include "base/source.h"

namespace passnet {

namespace {

using std::chrono::minutes;
using std::chrono::seconds;

// The first command of a process pays for the import of torch (up to some 10 s on a cold disk), so none is
// short.
constexpr std::array<WorkerCommand, 10> kCommands = {{
    {"versions", seconds(60), "what is installed and usable: Python, torch, Triton, GPUs"},
    {"identities", minutes(2), "which names of torch name one object, and the functions' signatures"},
    {"capture", minutes(3), "the graphs of a variant as dynamo gives them"},
    {"trace", minutes(2), "the pattern graph of each pass of a pass_dir as the tracer gives it"},
    {"smoke", minutes(10), "runs a pass_dir on a variant, poisoned, and compares what it wrote with eager"},
    {"compile", minutes(10), "compiles the kernels of a pass_dir to machine code without a device"},
    {"bench", minutes(20), "times compilers against each other, interleaved in one process"},
    {"evaluate", minutes(30), "the whole evaluation of one variant, in the worker itself"},
    {"evaluate_all", std::chrono::hours(12),
     "many variants, each in a child of its own; records come as events"},
    {"shutdown", seconds(10), "ends the worker"},
}};

}  // namespace

std::span<const WorkerCommand> worker_commands() { return kCommands; }

const WorkerCommand* find_worker_command(std::string_view name) {
  const auto* it =
      std::find_if(kCommands.begin(), kCommands.end(), [&](const auto& row) { return row.name == name; });
  return it == kCommands.end() ? nullptr : it;
}

Result<std::string> encode_frame(const Json& message) {
  const std::string payload = dump_json(message);
  if (payload.size() > kMaxFrameBytes) {
    return internal_error("frame.length", fmt::format("a message of {} bytes is over the limit of {}",
                                                      payload.size(), kMaxFrameBytes));
  }
  std::string frame;
  frame.reserve(kFrameHeaderBytes + payload.size());
  for (int shift = 24; shift >= 0; shift -= 8) frame += static_cast<char>(payload.size() >> shift & 0xFF);
  frame += payload;
  return frame;
}

Result<std::uint32_t> decode_frame_length(std::string_view header) {
  std::uint32_t length = 0;
  for (const char c : header.substr(0, kFrameHeaderBytes))
    length = length << 8 | static_cast<unsigned char>(c);
  if (length == 0 || length > kMaxFrameBytes) {
    return internal_error("frame.length",
                          fmt::format("a frame announces {} bytes: this is no frame", length));
  }
  return length;
}

Result<Json> decode_payload(std::string_view payload) {
  if (const std::size_t bad = find_invalid_utf8(payload); bad != std::string_view::npos) {
    return internal_error("frame.json", fmt::format("the payload of a frame is not UTF-8 at offset {}", bad));
  }
  auto parsed = parse_json(payload);
  if (!parsed.ok()) {
    return internal_error("frame.json", fmt::format("the payload of a frame: {}", parsed.error().message));
  }
  if (!parsed->is_object()) return internal_error("frame.shape", "the payload of a frame is no object");
  const auto version = parsed->find("v");
  if (version == parsed->end() || !version->is_number_integer() || *version != kWorkerProtocolVersion) {
    return internal_error(
        "frame.version",
        fmt::format("a message has protocol version {}, not {}",
                    version == parsed->end() ? "none" : dump_json(*version), kWorkerProtocolVersion));
  }
  const auto id = parsed->find("id");
  if (id == parsed->end() || !id->is_number_integer()) {
    return internal_error("frame.shape", "a message has no integer id");
  }
  return parsed;
}

Result<Json> decode_frame(std::string_view& bytes) {
  const auto truncated = [] { return internal_error("frame.truncated", "the bytes end inside a frame"); };
  if (bytes.size() < kFrameHeaderBytes) return truncated();
  PN_TRY(const std::uint32_t length, decode_frame_length(bytes));
  if (bytes.size() - kFrameHeaderBytes < length) return truncated();
  PN_TRY(Json message, decode_payload(bytes.substr(kFrameHeaderBytes, length)));
  bytes.remove_prefix(kFrameHeaderBytes + length);
  return message;
}

}  // namespace passnet
