"""python -m passnet.worker --fd-in N --fd-out M: answers frames until shutdown or the end of the stream."""

import argparse
import os
import sys

from . import commands, protocol
from .errors import WorkerError, describe


def _own_descriptors(fd_in, fd_out):
  """Private copies of the protocol's descriptors; 1 and 2 lead to stderr, so nothing that is printed gets
  between frames.
  """
  pair = []
  for fd in (fd_in, fd_out):
    copy = os.dup(fd)
    os.set_inheritable(copy, False)
    pair.append(copy)
  for fd in {fd_in, fd_out}:
    if fd > 2:
      os.close(fd)
  if fd_in == 0:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
  try:
    os.dup2(2, 1)
  except OSError:  # no stderr: both are thrown away
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
  return pair


def _answer(channel, message):
  """The reply to one request; events go out on the way."""
  number = message["id"]

  def progress(fields):
    channel.write({"v": protocol.VERSION, "id": number, "event": "progress", **fields})

  try:
    request = {k: v for k, v in message.items() if k not in ("v", "id", "cmd")}
    return {
      "v": protocol.VERSION,
      "id": number,
      "ok": True,
      **_without_ok(commands.run(message.get("cmd"), request, progress)),
    }
  except BaseException as e:  # noqa: BLE001 - sys.exit in somebody's pass must not end the worker
    if isinstance(e, KeyboardInterrupt):
      raise
    return {"v": protocol.VERSION, "id": number, "ok": False, "error": {"traceback": "", **describe(e)}}


def _without_ok(fields):
  """`ok` of a reply says that the command ran; what it found is in `green`."""
  if "ok" in fields:
    fields = dict(fields)
    fields["green"] = fields.pop("ok")
  return fields


def serve(channel):
  while True:
    try:
      message = channel.read()
    except protocol.FrameError as e:
      channel.write(
        {"v": protocol.VERSION, "id": -1, "ok": False, "error": describe(e, with_traceback=False)}
      )
      if e.fatal:
        return 1
      continue
    if message is None:
      return 0
    if message.get("cmd") == "shutdown":
      channel.write({"v": protocol.VERSION, "id": message["id"], "ok": True})
      return 0
    reply = _answer(channel, message)
    try:
      channel.write(reply)
    except WorkerError as e:  # the reply is too large to send
      channel.write(
        {"v": protocol.VERSION, "id": message["id"], "ok": False, "error": describe(e, with_traceback=False)}
      )


def main(argv=None):
  parser = argparse.ArgumentParser(prog="passnet.worker")
  parser.add_argument("--fd-in", type=int, default=0)
  parser.add_argument("--fd-out", type=int, default=1)
  args = parser.parse_args(argv)
  sys.dont_write_bytecode = True
  fd_in, fd_out = _own_descriptors(args.fd_in, args.fd_out)
  try:
    return serve(protocol.Channel(fd_in, fd_out))
  except (BrokenPipeError, KeyboardInterrupt):
    return 1


if __name__ == "__main__":
  sys.exit(main())
