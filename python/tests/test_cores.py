"""Which processors a run's timing has to itself."""
import fcntl
import os
import subprocess
import sys
import time

import pytest

from passnet.worker import cores, device_lock

PAIRS = {c: {c & ~1, c | 1} for c in range(128)}  # siblings next to each other


def halves(n):
  return {c: {c, (c + n // 2) % n} for c in range(n)}


@pytest.mark.parametrize("n, siblings", [(16, PAIRS), (16, halves(16)), (32, PAIRS), (128, halves(128)), (16, {c: {c} for c in range(16)})])
@pytest.mark.parametrize("known", [True, False])
def test_nobody_computes_on_a_sibling_of_a_timing_core(n, siblings, known):
  """By the true topology, whether the system tells it or not; for two runs at once they are apart as well."""
  runs = 2 if n >= 32 else 1
  parts = [cores.split(range(n), siblings if known else {}, i, runs) for i in range(runs)]
  for part in parts:
    assert part.topology == ("read" if known else "hidden") and len(part.timing) == 2
    for timed in part.timing:
      beside = siblings[timed] - {timed}
      assert not beside & set(part.compile) and not beside & set(part.timing)
      for other in parts:
        assert timed not in other.compile and (other is part or not siblings[timed] & set(other.timing))
    assert len(part.compile) >= n - 4 * runs and not set(part.compile) & set(part.idle)


def test_few_processors_are_shared():
  for n in (1, 2, 4, 5):
    got = cores.split(range(n), PAIRS)
    assert got.topology == "shared" and got.compile == got.timing == list(range(n))


def test_eight_processors_give_up_one_core():
  got = cores.split(range(8), PAIRS, 0, 1)
  assert got.compile and not {s for c in got.timing for s in PAIRS[c]} & set(got.compile)


def test_processors_that_are_not_ours_do_not_count():
  mine = [3, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15, 16]
  got = cores.split(mine, PAIRS)
  assert set(got.compile) | set(got.timing) | set(got.idle) <= set(mine)


def test_lists_as_the_system_writes_them(tmp_path):
  assert cores.parse_list("0-2,5\n") == {0, 1, 2, 5} and cores.parse_list("") == set()
  folder = tmp_path / "cpu3" / "topology"
  folder.mkdir(parents=True)
  (folder / "thread_siblings_list").write_text("3,11\n")
  (tmp_path / "cpufreq").mkdir()
  (tmp_path / "cpu4").mkdir()
  assert cores.read_siblings(str(tmp_path)) == {3: {3, 11}}
  assert cores.read_siblings(str(tmp_path / "none")) == {}


def test_gpus_that_can_be_seen(tmp_path):
  for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"):
    (tmp_path / name).touch()
  nowhere = str(tmp_path / "none")
  assert cores.visible_gpus(str(tmp_path), nowhere, "") == (2, 0)
  assert cores.visible_gpus(str(tmp_path), nowhere, "1") == (2, 1)
  assert cores.visible_gpus(nowhere, nowhere, "3") == (4, 3)  # one that is named is there
  assert cores.visible_gpus(nowhere, nowhere, "GPU-5e9d") == (1, 0)


def test_two_runs_take_different_cores(tmp_path):
  """Both think that they use the first GPU: the second run takes other cores, and the first leaves them alone."""
  script = "import sys, time\nfrom passnet.worker import cores\nc = cores.Claim(%r, 0, 2)\nprint(c.index, flush=True)\nsys.stdin.read()\n" % str(tmp_path)
  root = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
  mine = cores.Claim(str(tmp_path), 0, 1)
  assert mine.index == 0 and mine.runs(1) == 1
  other = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": root})
  assert other.stdout.readline() == "1\n"
  assert mine.runs(1) == 2
  other.kill()
  other.wait()
  deadline = time.monotonic() + 10
  while mine.runs(1) == 2 and time.monotonic() < deadline:
    time.sleep(0.01)
  assert mine.runs(1) == 1  # its claim ended with it
  late = cores.Claim(str(tmp_path), 0, 1)
  assert late.shared  # more runs than GPUs


def test_whether_a_processor_that_is_asked_for_is_kept():
  assert isinstance(cores.enforced(min(os.sched_getaffinity(0)), 0.02), bool)


def test_a_run_keeps_its_driver_off_the_timing_cores_until_it_ends(monkeypatch):
  """On a pretended machine of 16 processors: what is asked of the system, and that it is undone."""
  asked = []
  monkeypatch.setattr(cores.os, "sched_getaffinity", lambda pid: set(range(16)))
  monkeypatch.setattr(cores.os, "sched_setaffinity", lambda pid, cpus: asked.append((pid, sorted(cpus))))
  monkeypatch.setattr(cores, "read_siblings", lambda: PAIRS)
  monkeypatch.setattr(cores, "visible_gpus", lambda: (1, 0))
  for kept, slots in ((True, 12), (False, 6)):
    asked.clear()
    monkeypatch.setattr(cores, "enforced", lambda cpu: kept)
    division = cores.Division(None)
    assert division.begin(12, os.getpid()) == slots
    assert asked[0] == (0, division.now.compile) and len(asked) >= 2 and division.now.facts()["enforced"] is kept
    assert {tuple(cpus) for _, cpus in asked} == {tuple(division.now.compile)}
    asked.clear()
    division.end()
    assert asked and {tuple(cpus) for _, cpus in asked} == {tuple(range(16))}


def test_who_waits_to_be_alone_is_not_overtaken(tmp_path):
  """Two that share in turn, so that one always holds the lock: without a gate the third would wait for ever."""
  code = """
import sys, time
from passnet.worker import device_lock
lock = device_lock.NamedLock(%r, "gpu")
if sys.argv[1] == "alone":
  print("ready", flush=True)
  sys.stdin.readline()
  with lock.held(exclusive=True):
    print(device_lock.waited["exclusive"], flush=True)
else:
  end = time.monotonic() + 4
  print("ready", flush=True)
  while time.monotonic() < end:
    with lock.held(exclusive=False):
      time.sleep(0.1)
""" % str(tmp_path)
  root = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
  start = lambda word: subprocess.Popen([sys.executable, "-c", code, word], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,  # noqa: E731
                                        env={**os.environ, "PYTHONPATH": root})
  alone = start("alone")
  alone.stdout.readline()
  sharing = [start("sharing") for _ in range(3)]
  for p in sharing:
    p.stdout.readline()
  alone.stdin.write("now\n")
  alone.stdin.flush()
  assert float(alone.stdout.readline()) < 2.0
  for p in [alone, *sharing]:
    p.kill()
    p.wait()


def test_a_shared_hold_is_given_up_for_a_while(tmp_path):
  mine, other = device_lock.NamedLock(str(tmp_path), "gpu"), device_lock.NamedLock(str(tmp_path), "gpu")

  def free():
    try:
      fcntl.flock(other.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      return False
    fcntl.flock(other.fd, fcntl.LOCK_UN)
    return True

  with mine.held(exclusive=False):
    assert not free()
    with mine.released():
      assert free()
    assert not free()
  assert free()
