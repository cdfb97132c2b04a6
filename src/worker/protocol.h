#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/json_fwd.h"
#include "base/result.h"

// The protocol with the Python worker. A frame is a 4-byte big-endian length and that many bytes of UTF-8
// JSON, one object. Requests `{"v":1,"id":n,"cmd":...,...}`; for each any number of events
// `{"v":1,"id":n,"event":...,...}` and then one reply, `{"v":1,"id":n,"ok":true,...}` or
// `{"v":1,"id":n,"ok":false,"error":{"code","message","remedy", "traceback"}}`.
// tests/fixtures/worker_frames.json is tested from both sides.

namespace passnet {

constexpr int kWorkerProtocolVersion = 1;
/// A larger length means that something else than frames came through.
constexpr std::uint32_t kMaxFrameBytes = 256u << 20;
constexpr std::size_t kFrameHeaderBytes = 4;

/// One command of the worker. The table is the whole of it: a command that is not here cannot be asked for.
struct WorkerCommand {
  std::string_view name;
  Duration deadline;         ///< when the caller names none
  std::string_view summary;  ///< what it does
};

std::span<const WorkerCommand> worker_commands();
/// Null for an unknown name.
const WorkerCommand* find_worker_command(std::string_view name);

/// The frame of a message. `frame.length` when it is over the limit.
Result<std::string> encode_frame(const Json& message);

/// The length that a header announces: `frame.length` for 0 and for more than the limit.
Result<std::uint32_t> decode_frame_length(std::string_view header);

/// The message of a payload, checked for what every message has: `frame.json`, `frame.shape` (no object, no
/// integer id), `frame.version`.
Result<Json> decode_payload(std::string_view payload);

/// The first frame of `bytes`, all in memory: the above and `frame.truncated`. Advances `bytes` past it.
Result<Json> decode_frame(std::string_view& bytes);

}  // namespace passnet
