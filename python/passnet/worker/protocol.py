"""Frames: a 4-byte big-endian length and that many bytes of UTF-8 JSON, one object.

Requests {"v":1,"id":n,"cmd":...}; any number of events {"v":1,"id":n,"event":...}; one reply
{"v":1,"id":n,"ok":true,...} or {"v":1,"id":n,"ok":false,"error":{"code","message","remedy","traceback"}}.
"""

import json
import math
import os

from .errors import WorkerError

VERSION = 1
MAX_FRAME_BYTES = 256 << 20


class FrameError(WorkerError):
  """A frame that is none. `fatal`: the stream cannot be followed any further."""

  def __init__(self, code, message, fatal=False):
    super().__init__(code, message, "this is a fault of the two programs, not of the input")
    self.fatal = fatal


def plain(value):
  """The value with everything JSON cannot say turned into text: infinities, NaN, foreign objects."""
  if isinstance(value, dict):
    return {str(k): plain(v) for k, v in value.items()}
  if isinstance(value, (list, tuple)):
    return [plain(v) for v in value]
  if isinstance(value, float) and not math.isfinite(value):
    return repr(value)
  if value is None or isinstance(value, (bool, int, float, str)):
    return value
  return str(value)


def encode(message):
  payload = json.dumps(plain(message), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
  if len(payload) > MAX_FRAME_BYTES:
    raise FrameError(
      "frame.length", f"a message of {len(payload)} bytes is over the limit of {MAX_FRAME_BYTES}"
    )
  return len(payload).to_bytes(4, "big") + payload


def decode_length(header):
  length = int.from_bytes(header, "big")
  if not 0 < length <= MAX_FRAME_BYTES:
    raise FrameError("frame.length", f"a frame announces {length} bytes: this is no frame", fatal=True)
  return length


def decode_payload(payload):
  try:
    message = json.loads(payload.decode("utf-8"))
  except (UnicodeDecodeError, ValueError, RecursionError) as e:
    raise FrameError("frame.json", f"a frame holds no JSON: {e}") from e
  if not isinstance(message, dict):
    raise FrameError("frame.shape", "a frame holds no object")
  if message.get("v") != VERSION:
    raise FrameError("frame.version", f"a frame of version {message.get('v')!r}; this side speaks {VERSION}")
  number = message.get("id")
  if not isinstance(number, int) or isinstance(number, bool):
    raise FrameError("frame.shape", "a frame without an integer id")
  return message


def decode(data):
  """(message, rest) of the first frame of `data`."""
  if len(data) < 4:
    raise FrameError("frame.truncated", "the stream ends inside a length", fatal=True)
  length = decode_length(data[:4])
  if len(data) < 4 + length:
    raise FrameError(
      "frame.truncated", f"the stream ends after {len(data) - 4} of {length} bytes", fatal=True
    )
  return decode_payload(data[4 : 4 + length]), data[4 + length :]


class Channel:
  """Both ends of the stream as file descriptors."""

  def __init__(self, fd_in, fd_out):
    self.fd_in, self.fd_out = fd_in, fd_out

  def _read_exactly(self, count):
    parts, left = [], count
    while left:
      part = os.read(self.fd_in, min(left, 1 << 20))
      if not part:
        break
      parts.append(part)
      left -= len(part)
    return b"".join(parts)

  def read(self):
    """The next message; None at the end of the stream."""
    header = self._read_exactly(4)
    if not header:
      return None
    if len(header) < 4:
      raise FrameError("frame.truncated", "the stream ends inside a length", fatal=True)
    length = decode_length(header)
    payload = self._read_exactly(length)
    if len(payload) < length:
      raise FrameError(
        "frame.truncated", f"the stream ends after {len(payload)} of {length} bytes", fatal=True
      )
    return decode_payload(payload)

  def write(self, message):
    data = memoryview(encode(message))
    while data:
      data = data[os.write(self.fd_out, data) :]
