import json
import os
import subprocess
import sys
import tempfile

import pytest

from passnet.worker import protocol

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))

with open(os.path.join(ROOT, "tests", "fixtures", "worker_frames.json"), encoding="utf-8") as f:
  FRAMES = json.load(f)


@pytest.mark.parametrize("row", FRAMES["good"], ids=lambda r: r["name"])
def test_good_frames(row):
  frame = bytes.fromhex(row["frame"])
  assert protocol.encode(row["message"]) == frame
  message, rest = protocol.decode(frame + b"tail")
  assert message == row["message"] and rest == b"tail"


@pytest.mark.parametrize("row", FRAMES["bad"], ids=lambda r: r["name"])
def test_bad_frames(row):
  with pytest.raises(protocol.FrameError) as e:
    protocol.decode(bytes.fromhex(row["frame"]))
  assert e.value.code == row["code"]


def test_limits_agree_with_the_fixtures():
  assert protocol.MAX_FRAME_BYTES == FRAMES["max_frame_bytes"] and protocol.VERSION == FRAMES["version"]


def test_numbers_that_json_lacks_become_text():
  message, _ = protocol.decode(
    protocol.encode({"v": 1, "id": 1, "a": [float("inf"), float("nan"), 1e-45], "b": {2: object}})
  )
  assert message["a"] == ["inf", "nan", 1e-45] and isinstance(message["b"]["2"], str)


class Worker:
  def __init__(self):
    request, self.out = os.pipe()
    self.back, reply = os.pipe()
    self.files = (
      tempfile.TemporaryFile(),
      tempfile.TemporaryFile(),
    )  # files, not pipes: nobody drains a pipe here
    env = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")}
    self.process = subprocess.Popen(
      [sys.executable, "-m", "passnet.worker", "--fd-in", str(request), "--fd-out", str(reply)],
      pass_fds=(request, reply),
      env=env,
      stdout=self.files[0],
      stderr=self.files[1],
    )
    os.close(request)
    os.close(reply)
    self.channel = protocol.Channel(self.back, self.out)

  def call(self, **fields):
    self.channel.write({"v": 1, "id": 5, **fields})
    return self.reply()

  def reply(self):
    while True:
      message = self.channel.read()
      if "event" not in message:
        return message

  def end(self):
    os.close(self.out)
    code = self.process.wait(timeout=20)
    os.close(self.back)
    for f in self.files:
      f.seek(0)
    self.stdout, self.stderr = (f.read() for f in self.files)
    return code


@pytest.fixture
def worker():
  w = Worker()
  yield w
  if w.process.poll() is None:
    w.process.kill()
    w.process.wait()


def test_a_bad_frame_is_answered_and_the_next_one_works(worker):
  os.write(worker.out, b"\0\0\0\5[1,2]")
  assert worker.reply()["error"]["code"] == "frame.shape"
  os.write(worker.out, b"\0\0\0\4\xff\xff\xff\xff")
  assert worker.reply()["error"]["code"] == "frame.json"
  assert worker.call(cmd="versions")["ok"]
  assert worker.call(cmd="shutdown") == {"v": 1, "id": 5, "ok": True}
  assert worker.end() == 0


def test_unknown_commands_and_missing_fields_are_errors_with_a_remedy(worker):
  refused = worker.call(cmd="dance")
  assert (
    not refused["ok"]
    and refused["error"]["code"] == "command.unknown"
    and "smoke" in refused["error"]["remedy"]
  )
  assert worker.call(cmd="trace")["error"]["code"] == "request.field"
  assert worker.end() == 0


def test_garbage_ends_the_worker_with_an_answer(worker):
  os.write(worker.out, b"Hello, world\n" * 10)
  assert worker.reply()["error"]["code"] == "frame.length"
  assert worker.end() == 1


def test_what_a_pass_prints_and_its_exit_stay_out_of_the_protocol(worker, tmp_path):
  (tmp_path / "sorted_output_pass_rule_names.json").write_text('["Loud"]')
  (tmp_path / "Loud.py").write_text("import os, sys\nprint('x' * 100000)\nos.write(1, b'raw')\nsys.exit(3)\n")
  reply = worker.call(cmd="trace", pass_dir=str(tmp_path))
  assert not reply["ok"] and reply["error"]["code"] == "SystemExit"
  assert worker.call(cmd="versions")["torch"]
  assert worker.end() == 0
  assert b"raw" in worker.stderr and b"raw" not in worker.stdout
