import json
import os
import random
import subprocess
import sys
import time

import pytest
import torch

from passnet.worker import compare, eval_child, eval_server, protocol, sandbox
from passnet.worker.errors import WorkerError

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "eval"))
import eval_cases as cases  # noqa: E402


def serve(script, timeout=100):
  """Runs a script with the server in a process of its own, as it is meant to run; its last line is JSON."""
  done = subprocess.run(
    [sys.executable, "-c", "import json, os, sys\nsys.path.insert(0, %r)\nfrom passnet.worker import eval_server\n%s" % (os.path.join(ROOT, "python"), script)],
    capture_output=True,
    text=True,
    timeout=timeout,
    env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")},
  )
  assert done.returncode == 0, done.stderr[-3000:]
  return json.loads(done.stdout.strip().splitlines()[-1])


SHARED = """
jobs = json.loads(%r)
records = []
eval_server.command({"jobs": jobs, "options": {"slots": 1}}, lambda e: records.extend(e.get("records", [])))
import torch
print(json.dumps({
  "messages": [(r.get("compiled") or {}).get("error", {}).get("message", r.get("error", {}).get("message", "")) for r in records],
  "modules": sorted(m for m in sys.modules if m.startswith("pass_dir") or m == "Fuse"),
  "cuda": torch.cuda.is_initialized(),
  "environment": "LEFT_BY_A_PASS" in os.environ,
  "threads": torch.get_num_threads(),
  "seed": torch.initial_seed(),
  "frames": dict(torch._dynamo.utils.counters["frames"]),
  "graphs": [bool(r.get("graphs")) for r in records],
}))
"""

# Says, by the exception it raises, what it finds in its process, and leaves things behind for the next child to find.
LOOKS = """
import gc, json, os, random, sys
import numpy as np
found = {
  "fds": sorted(os.readlink('/proc/self/fd/' + f).split(':')[0] for f in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + f)),
  "others": sorted(m for m in sys.modules if m.startswith('pass_dir') or m == 'passnet_variant_model'),
  "left": [hasattr(torch, 'left_by_a_pass'), 'LEFT_BY_A_PASS' in os.environ, os.path.exists('/proc/self/fd/77')],
  "random": [random.random(), float(np.random.rand()), torch.initial_seed()],
  "session": os.getsid(0) == os.getpid(),
  "threads": torch.get_num_threads(),
}
torch.left_by_a_pass = True
os.environ['LEFT_BY_A_PASS'] = '1'
torch.set_num_threads(1)
os.dup2(1, 77)
raise ValueError(json.dumps(found))
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
  """Two children of one parent, the first of which leaves behind what it can."""
  sample = cases.write_sample(tmp_path_factory.mktemp("s") / "s", count=2, passes=cases.wrapper(LOOKS))
  jobs = [
    {"id": str(i), "variant": str(sample / "float32" / str(i)), "label": f"float32/{i}", "group": "s",
     "compilers": [{"name": "pass_mgr", "kind": "pass_mgr", "pass_dir": str(sample / "pass_dir")}],
     "options": {"device": "cpu", "warmup": 1, "trials": 1}}
    for i in range(2)
  ]
  out = serve(SHARED % json.dumps(jobs))
  out["children"] = [json.loads(m) for m in out["messages"]]
  return out


def test_a_child_leaves_nothing_in_its_parent_or_its_siblings(shared):
  first, second = shared["children"]
  assert first == second
  assert second["left"] == [False, False, False] and second["others"] == []
  assert shared["modules"] == [] and not shared["environment"] and not shared["cuda"]


def test_a_child_has_only_its_channel_and_the_standard_descriptors(shared):
  for child in shared["children"]:
    # Standard input is the null device, output and errors one pipe, the channel another; what Python itself opens for
    # listing the folder is gone by then. The lock file of the device is opened when it is needed.
    kinds = [k.rsplit("/", 1)[-1] for k in child["fds"]]
    assert kinds.count("null") == 1 and kinds.count("pipe") == 3 and len(kinds) == 4
    assert child["session"]


def test_random_states_are_the_childs_own(shared):
  first, second = shared["children"]
  assert first["random"] == second["random"] and first["random"][2] == 1024


def test_the_parent_compiled_nothing_of_a_sample(shared):
  assert shared["frames"] == {"total": 1, "ok": 1}  # its own first compilation
  assert shared["graphs"] == [True, True]


# ---- the channel

def feed(data, job=None):
  """What the server makes of these bytes on a child's channel: (child, whether it was killed)."""
  server = eval_server.Server([], {**eval_server.DEFAULTS, "isolation": "fork"}, lambda e: None)
  reader, writer = os.pipe()
  os.set_blocking(reader, False)
  child = eval_server.Child(job or {"id": "j", "nonce": "n" * 32, "compilers": [{"name": "a"}]}, 2**22 - 3, reader, -1, last=time.monotonic())
  for i in range(0, len(data), 60000):
    os.write(writer, data[i : i + 60000])
    server._read(child, "answers", reader)
    if child.broken:
      break
  os.close(writer)
  os.close(reader)
  return child


def frame(number=0, nonce="n" * 32, **fields):
  return protocol.encode({"v": 1, "id": number, "nonce": nonce, **fields})


RECORD = {"compiler": "a", "status": "success"}


def test_answers_in_order_are_taken():
  child = feed(frame(0, phase="start") + frame(1, records=[RECORD]))
  assert child.records == [RECORD] and not child.killed


@pytest.mark.parametrize("data", [
  frame(0, nonce="m" * 32, records=[RECORD]),
  frame(1, records=[RECORD]),
  frame(0, records=[RECORD]) + frame(1, records=[RECORD]),
  frame(0, records=[{"compiler": "b"}]),
  frame(0, records=[RECORD, RECORD]),
  frame(0, records="all good"),
  frame(0, records=[RECORD]) + frame(1, phase="late"),
  frame(0, phase="start") + frame(0, records=[RECORD]),
  b"\x00\x00\x00\x02[]",
  b"\xff\xff\xff\xff",
  b"\x00\x00\x00\x00",
  b"[Speedup][e2e]: 999.0\n",
], ids=range(12))
def test_anything_else_ends_the_child(data):
  child = feed(data)
  assert child.killed == "forged_answer" and child.records is None


def test_random_bytes_and_shuffled_frames_are_never_records():
  rng = random.Random(11)
  good = [frame(i, phase="p") for i in range(6)] + [frame(6, records=[RECORD])]
  for _ in range(200):
    if rng.random() < 0.5:
      data = rng.randbytes(rng.randrange(1, 400))
    else:
      frames = good[:]
      rng.shuffle(frames)
      if frames == good:
        continue
      data = bytearray(b"".join(frames))
      if rng.random() < 0.5:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    child = feed(bytes(data))
    assert child.records is None


# ---- the comparator

def test_every_small_change_beyond_the_tolerance_is_seen():
  torch.manual_seed(0)
  for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
    base = (torch.rand(7, 33) + 1).to(dtype)
    rtol, atol = compare.tolerance(dtype)
    limit = atol + rtol * base.abs().double()
    for index in ((0, 0), (6, 32), (3, 17)):  # first, last and an inner element
      inside, outside = base.clone(), base.clone()
      inside[index] = (base[index].double() + 0.4 * limit[index]).to(dtype)
      outside[index] = (base[index].double() + 2.5 * limit[index]).to(dtype)
      assert compare.compare_tensors(base, inside)["ok"]
      got = compare.compare_tensors(base, outside)
      assert not got["ok"] and got["outside"] == 1 and got["first_bad"]["index"] == list(index)
    row, tail = base.clone(), base.clone()
    row[4] = 0
    tail.view(-1)[-5:] = 0
    assert compare.compare_tensors(base, row)["outside"] == 33 and compare.compare_tensors(base, tail)["outside"] == 5


def test_nan_and_infinity_must_stand_where_eager_has_them():
  base = torch.tensor([1.0, float("nan"), float("inf"), float("-inf"), 0.0])
  assert compare.compare_tensors(base, base.clone())["ok"]
  for i, value in ((0, float("nan")), (1, 1.0), (2, float("-inf")), (2, 3e38), (3, float("nan")), (4, float("inf"))):
    other = base.clone()
    other[i] = value
    assert not compare.compare_tensors(base, other)["ok"], (i, value)


def test_structure_counts_before_numbers():
  x = torch.zeros(2, 3)
  for other in ((x, x), (torch.zeros(3, 2),), (torch.zeros(1, 2, 3),), (torch.zeros(()),), (x.half(),), (x.int(),), (None,), ([x],)):
    assert not all(r["ok"] for r in compare.compare_structures((x,), other))


# ---- the lock

def test_the_lock_is_shared_alone_and_ends_with_its_process(tmp_path):
  import fcntl
  import time as clock

  from passnet.worker import device_lock

  mine, other = device_lock.NamedLock(str(tmp_path), "gpu-x"), device_lock.NamedLock(str(tmp_path), "gpu-x")

  def free(kind):
    try:
      fcntl.flock(other.fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
      return False
    fcntl.flock(other.fd, fcntl.LOCK_UN)
    return True

  with mine.held(exclusive=False):
    assert free(fcntl.LOCK_SH) and not free(fcntl.LOCK_EX)
  with mine.held(exclusive=True):
    assert not free(fcntl.LOCK_SH)
  assert free(fcntl.LOCK_EX)
  pid = os.fork()
  if pid == 0:
    device_lock.NamedLock(str(tmp_path), "gpu-x").keep()
    clock.sleep(1.0)
    os._exit(0)
  deadline = clock.monotonic() + 20
  while free(fcntl.LOCK_EX) and clock.monotonic() < deadline:
    clock.sleep(0.01)
  assert not free(fcntl.LOCK_EX) and free(fcntl.LOCK_SH)
  os.waitpid(pid, 0)
  assert free(fcntl.LOCK_EX)


# ---- the filter

def test_the_filter_refuses_what_it_lists():
  code = """
import os, socket, ctypes
from passnet.worker import sandbox
steps = sandbox.after_device({"network": False})
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
  ctypes.set_errno(0)
  return (libc.syscall(number, *args), ctypes.get_errno())
out = [steps, call(sandbox.DENIED["ptrace"], 0, 0, 0, 0), call(sandbox.DENIED["unshare"], 0)]
try:
  socket.socket(socket.AF_INET)
  out.append("network")
except OSError as e:
  out.append(e.errno)
socket.socket(socket.AF_UNIX).close()
out.append(os.system("true"))
import json
print(json.dumps(out))
"""
  done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")})
  steps, ptrace, unshare, network, ran = json.loads(done.stdout)
  if "seccomp_no_network" not in steps:
    pytest.skip("this kernel takes no filter")
  assert ptrace == [-1, 1] and unshare == [-1, 1] and network == 1 and ran == 0


def test_the_filter_reads_as_it_is_meant():
  program = sandbox.filter_program(network=True)
  assert len(program) == 5 + 2 * len(sandbox.DENIED) and program[-1] == (0x06, 0, 0, 0x7FFF0000)
  with pytest.raises(WorkerError):
    protocol.decode(b"\x00\x00")


def test_nothing_follows_the_last_answer():
  """A child that waits for the lock under which it leaves says so to nobody: the parent would take it for forged."""
  read, write = os.pipe()
  answers = eval_child.Answers(write, "n")
  answers.send({"phase": "compare"})
  answers.last({"records": []})
  answers.send({"phase": "lock"})
  os.close(write)
  with os.fdopen(read, "rb") as f:
    data = f.read()
  assert b"records" in data and b"compare" in data and b"lock" not in data
