"""One evaluation in a process of its own: forked from the clean parent, or started afresh.

The child gets one job, reports phases and its records as frames on one descriptor, and ends. Each frame carries the
job's nonce and a running number; the parent takes nothing else. What is printed goes to the parent's bounded tail
and is never read for results.

  python -m passnet.worker.eval_child --fd-in N --fd-out M     reads the job from one, answers on the other
"""

import argparse
import contextlib
import os
import signal
import sys
import time

from . import protocol, sandbox, warm
from .errors import describe


class Answers:
  """The child's end of the channel. The parent takes nothing behind the last answer for the child's own."""

  def __init__(self, fd, nonce):
    self.fd, self.nonce, self.number, self.ended = fd, nonce, 0, False

  def last(self, fields):
    self.send(fields)
    self.ended = True

  def send(self, fields):
    if self.ended:  # waiting for the lock under which the process leaves, say
      return
    data = memoryview(protocol.encode({"v": protocol.VERSION, "id": self.number, "nonce": self.nonce, **fields}))
    self.number += 1
    while data:
      data = data[os.write(self.fd, data) :]


def _cores(names):
  if names:
    with contextlib.suppress(OSError):
      os.sched_setaffinity(0, names)


def _leave_under_lock(lock):
  """Taking a context down disturbs whoever is being timed: the lock is held until the process is gone."""
  lock.keep()
  with contextlib.suppress(Exception):
    import torch

    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def run(job, fd):
  """Runs the job and reports; returns the exit status. Everything of the process is the child's own by now."""
  answers = Answers(fd, job["nonce"])
  started = time.monotonic()
  # Limits that can be set before the device is opened; the rest follows once it is.
  reached = sandbox.before_device(job.get("sandbox", {}))

  said = {}

  def report(fields):
    said.clear()
    said.update(fields)
    if fields.get("phase") == "time":
      _cores(job.get("timing_cores"))
    elif fields.get("phase") == "compare":
      _cores(job.get("cores"))
    answers.send(fields)

  try:
    _cores(job.get("cores"))
    report({"phase": "start"})
    import torch

    from . import device_lock, evaluate, record, strict

    # Waiting for the device is a phase of its own: the others use the time.
    device_lock.on_wait = lambda waits: answers.send({"phase": "lock"} if waits else dict(said))
    device = torch.device(job["options"].get("device", "cuda"))
    strict_job = job["options"].get("protocol") == "strict" and [c.get("kind") for c in job["compilers"]] == ["pass_mgr"]
    candidate = strict.start_candidate(job, fd) if strict_job else None
    warm.finish()
    name = device.type
    if device.type == "cuda":
      torch.set_num_threads(2)  # many children share the cores
      try:
        # Making a context disturbs whoever is being timed; which lock that is, is known once a first child had one.
        known = job.get("lock_dir") and job.get("lock_name")
        first = device_lock.NamedLock(job["lock_dir"], job["lock_name"]) if known else device_lock.NoLock()
        with first.held(exclusive=False):
          torch.cuda.init()
          torch.zeros(1, device=device)
          torch.cuda.synchronize(device)
        name = device_lock.device_name(torch.device("cuda", device.index or 0))
      except Exception as e:  # noqa: BLE001
        answers.last({"device_failed": describe(e)})
        return 3
      if job.get("memory_fraction"):
        torch.cuda.set_per_process_memory_fraction(job["memory_fraction"])
    reached += sandbox.after_device(job.get("sandbox", {}))
    report({"phase": "device", "seconds": round(time.monotonic() - started, 3), "lock_name": name})
    lock = None
    if job.get("lock_dir"):
      lock = lambda where: device_lock.lock_of(job["lock_dir"], where)  # noqa: E731
    if strict_job:
      records = strict.evaluate_job(job, report, lock, candidate)
    else:
      records = evaluate.evaluate_job(job, report, lock)
    waited = {k: round(v, 3) for k, v in device_lock.waited.items()}
    answers.last({"records": records, "machine": record.device_facts(device), "sandbox": reached, "waited": waited})
    if lock is not None and device.type == "cuda":
      _leave_under_lock(lock(torch.device("cuda", device.index or 0)))
    return 0
  except BaseException as e:  # noqa: BLE001 - sys.exit in somebody's pass ends the job, not the account of it
    answers.last({"failed": describe(e)})
    return 4


def after_fork(job, fd, output, keep):
  """In a forked child: a session of its own, the given descriptors and no others."""
  os.setsid()
  sandbox.die_with_parent(job["parent"])
  for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE):
    signal.signal(number, signal.SIG_DFL)
  null = os.open(os.devnull, os.O_RDONLY)
  os.dup2(null, 0)
  os.dup2(output, 1)
  os.dup2(output, 2)
  wanted = {0, 1, 2, fd, *keep}
  for name in os.listdir("/proc/self/fd"):
    if int(name) not in wanted:
      with contextlib.suppress(OSError):
        os.close(int(name))
  sys.stdout = open(1, "w", buffering=1, closefd=False, errors="replace")
  sys.stderr = open(2, "w", buffering=1, closefd=False, errors="replace")
  for key, value in job.get("env", {}).items():
    os.environ[key] = value


def main(argv=None):
  parser = argparse.ArgumentParser(prog="passnet.worker.eval_child")
  parser.add_argument("--fd-in", type=int, required=True)
  parser.add_argument("--fd-out", type=int, required=True)
  args = parser.parse_args(argv)
  sys.dont_write_bytecode = True
  job = protocol.Channel(args.fd_in, args.fd_out).read()["job"]
  os.close(args.fd_in)
  sandbox.die_with_parent(job["parent"])
  warm.prepare(probe=False)  # what torch arranges at its first compilation is arranged before anything is watched
  status = run(job, args.fd_out)
  sys.stdout.flush()
  sys.stderr.flush()
  os._exit(status)


if __name__ == "__main__":
  main()
