"""The evaluate_all command: the clean parent of evaluations.

Many variants, each in a child of its own: forked from this process where it can prove that it never touched a device,
a fresh interpreter otherwise. This process starts them, bounds their time, output and number, kills whole groups,
takes their answers, and never loads anything of a sample or a pass. Every job ends with records, whatever became of
its child.

Events: {"job", "phase", ...} as children go on; {"job", "outcome", "records", ...} once per job.
"""

import contextlib
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field

from . import cores, eval_child, protocol, sandbox, warm
from .errors import WorkerError

DEFAULTS = {
  "slots": 1,
  "isolation": "fork",
  "variant_seconds": 300.0,
  "group_seconds": 600.0,
  "output_limit": 64 << 20,
  "memory": 0,  # bytes of inputs that may be in flight at once; 0: no limit
  "tail": 4000,
  "side_by_side": False,  # children time while others use the device: no lock, no processors set apart
  "time_limit": 0.0,  # seconds after which no child is started, and none is left running much longer; 0: none
}
GRACE = 10.0
# A child that waits for the device does not use up its own time, but only so long.
WAIT_SECONDS = 1800.0
TICK = 0.5
# What counts as what in a run's account; of what a child says nothing else gets into it.
_PHASES = {
  **{name: name for name in ("started", "start", "device", "load", "compile", "lock", "time", "compare")},
  "trials": "time", "trials_done": "time", "eager": "time",
}


@dataclass
class Child:
  job: dict
  pid: int
  answers: int  # descriptor
  output: int  # descriptor
  process: object = None  # of a fresh interpreter
  started: float = 0.0
  spent: float = 0.0  # seconds that count
  waited: float = 0.0
  last: float = 0.0
  phase: dict = field(default_factory=dict)
  buffer: bytearray = field(default_factory=bytearray)
  number: int = 0
  tail: bytearray = field(default_factory=bytearray)
  printed: int = 0
  records: list = None
  failed: dict = None
  device_failed: dict = None
  machine: dict = None
  sandbox: list = field(default_factory=list)
  waited_for: dict = field(default_factory=dict)  # seconds at the device's lock, shared and exclusive
  beside: dict = field(default_factory=dict)  # what the others did when its timing began: phase -> children
  killed: str = ""  # why this process ended it
  blocks: dict = field(default_factory=dict)  # compiler -> seconds of trials by this process's clock
  block: tuple = None
  broken: str = ""
  end: int = None  # exit status, or minus the signal's number


def command(request, progress):
  """evaluate_all: {"jobs": [{"id", "variant", "label", "group"?, "bytes"?, "compilers", "options"}], "options"?} ->
  {"isolation", "proof", "machine"}.
  """
  options = {**DEFAULTS, **request.get("options", {})}
  return Server(request["jobs"], options, progress).run()


class Server:
  def __init__(self, jobs, options, progress):
    self.options, self.progress = options, progress
    # The long ones first, so that none of them is left running alone at the end.
    self.waiting = sorted(({**j, "attempts": list(j.get("attempts", []))} for j in jobs), key=lambda j: -j.get("weight", 0))
    self.children = []
    self.group_spent = {}
    self.machine = {}
    self.parent = os.getppid()
    self.isolation = options["isolation"]
    self.proof = None
    self.lock_name = None
    self.unmeasured = []
    self.end = time.monotonic() + options["time_limit"] if options["time_limit"] else None
    self.slots = max(1, options["slots"])
    self.phase_seconds = {}  # over all children
    apart = not options["side_by_side"]
    if not apart:
      self.waiting = [{**j, "lock_dir": "", "options": {**j.get("options", {}), "side_by_side": True}} for j in self.waiting]
    self.cores = cores.Division(next((j["lock_dir"] for j in jobs if j.get("lock_dir")), None) if apart else None, apart)

  def run(self):
    started = time.monotonic()
    sandbox.adopt_orphans()
    self.slots = self.cores.begin(self.slots, self.parent)
    if self.isolation == "fork":
      kinds = {c.get("kind", c["name"]) for j in self.waiting for c in j["compilers"]}
      on_device = any(j.get("options", {}).get("device", "cuda").startswith("cuda") for j in self.waiting)
      self.proof = warm.prepare(inductor=any(k.startswith("inductor") for k in kinds), kernels=on_device)
      if not self.proof["clean"]:
        self.isolation = "spawn"
    warmed = time.monotonic() - started
    try:
      while self.waiting or self.children:
        self._stop_in_time()
        self._start_what_fits()
        self._listen()
        if os.getppid() != self.parent:
          raise SystemExit(1)  # nobody is left to tell
    finally:
      for child in list(self.children):
        self._kill(child, "the evaluation was ended")
        self._reap(child)
      self.cores.end()
    return {
      "isolation": self.isolation,
      "sandbox": self.options.get("sandbox_level"),
      "unmeasured": sorted(set(self.unmeasured)),
      "proof": self.proof,
      "machine": self.machine,
      "cores": {**self.cores.now.facts(), "children": self.slots},
      "phase_seconds": {k: round(v, 1) for k, v in sorted(self.phase_seconds.items())},
      "warm_seconds": round(warmed, 3),
      "seconds": round(time.monotonic() - started, 3),
    }

  def _stop_in_time(self):
    """At the limit of the run: what waits is left for another run, what runs gets a moment."""
    now = time.monotonic()
    if self.end is None or now < self.end:
      return
    self.unmeasured += [j["id"] for j in self.waiting]
    self.waiting = []
    if now > self.end + GRACE:
      for child in self.children:
        self._kill(child, "time_limit")

  # -- starting
  def _start_what_fits(self):
    while self.waiting and len(self.children) < self.slots:
      if any(c.job.get("alone") for c in self.children):
        return
      flying = sum(c.job.get("bytes", 0) for c in self.children)
      limit = self.options["memory"]
      index = next(
        (
          i
          for i, job in enumerate(self.waiting)
          if not self.children
          or (not job.get("alone") and (not limit or flying + job.get("bytes", 0) <= limit))
        ),
        None,
      )
      if index is None:
        return
      job = self.waiting.pop(index)
      group = job.get("group", "")
      if self.group_spent.get(group, 0.0) >= self.options["group_seconds"]:
        self._finish_unstarted(job, "group_deadline", f"the {self.options['group_seconds']:g} s of its sample were used up before it began")
        continue
      try:
        self.children.append(self._start(job))
      except OSError as e:
        self._finish_unstarted(job, "infra", f"no process could be started: {e}")

  def _start(self, job):
    job["nonce"] = secrets.token_hex(16)
    job["parent"] = os.getpid()
    job["lock_name"] = self.lock_name
    now = self.cores.again()
    job["cores"], job["timing_cores"] = now.compile, now.timing
    job.setdefault("isolation", self.isolation)
    job.setdefault("sandbox", self.options.get("sandbox", {}))
    answers_out, answers_in = os.pipe()
    output_out, output_in = os.pipe()
    os.set_blocking(answers_out, False)
    os.set_blocking(output_out, False)
    now = time.monotonic()
    process = None
    if self.isolation == "fork":
      sys.stdout.flush()
      sys.stderr.flush()
      pid = os.fork()
      if pid == 0:
        status = 5
        try:
          eval_child.after_fork(job, answers_in, output_in, ())
          status = eval_child.run(job, answers_in)
        finally:
          os._exit(status)
    else:
      job_out, job_in = os.pipe()
      os.set_inheritable(job_out, True)
      os.set_inheritable(answers_in, True)
      process = subprocess.Popen(
        [sys.executable, "-m", __package__ + ".eval_child", "--fd-in", str(job_out), "--fd-out", str(answers_in)],
        stdin=subprocess.DEVNULL,
        stdout=output_in,
        stderr=output_in,
        pass_fds=(job_out, answers_in),
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": _with_package(), **job.get("env", {})},
      )
      os.close(job_out)
      data = memoryview(protocol.encode({"v": protocol.VERSION, "id": 0, "job": job}))
      with contextlib.suppress(BrokenPipeError):
        while data:
          data = data[os.write(job_in, data) :]
      os.close(job_in)
      pid = process.pid
    os.close(answers_in)
    os.close(output_in)
    self.progress({"job": job["id"], "phase": "started", "pid": pid})
    return Child(job, pid, answers_out, output_out, process, now, last=now, phase={"phase": "started"})

  # -- listening
  def _listen(self):
    descriptors = {}
    for child in self.children:
      for kind in ("answers", "output"):
        if getattr(child, kind) >= 0:
          descriptors[getattr(child, kind)] = (child, kind)
    ready = select.select(list(descriptors), [], [], TICK)[0] if descriptors else []
    for fd in ready:
      child, kind = descriptors[fd]
      self._read(child, kind, fd)
    now = time.monotonic()
    for child in list(self.children):
      self._account(child, now)
      if child.answers < 0 and child.output < 0 or self._ended(child):
        self._drain(child)
        self._reap(child)
        self.children.remove(child)
        self._conclude(child)

  def _read(self, child, kind, fd):
    try:
      data = os.read(fd, 1 << 20)
    except BlockingIOError:
      return
    if not data:
      os.close(fd)
      setattr(child, kind, -1)
      return
    if kind == "output":
      child.printed += len(data)
      child.tail += data
      del child.tail[: -self.options["tail"]]
      if child.printed > self.options["output_limit"]:
        self._kill(child, "output_limit")
      return
    child.buffer += data
    while not child.broken:
      if len(child.buffer) < 4:
        return
      try:
        length = protocol.decode_length(bytes(child.buffer[:4]))
        if len(child.buffer) < 4 + length:
          return
        message = protocol.decode_payload(bytes(child.buffer[4 : 4 + length]))
      except WorkerError as e:
        self._distrust(child, e.message)
        return
      del child.buffer[: 4 + length]
      self._take(child, message)

  def _distrust(self, child, why):
    child.broken, child.records = why, None
    self._kill(child, "forged_answer")

  def _take(self, child, message):
    """One frame of a child. Anything but the next number with the job's nonce ends it."""
    if message.get("nonce") != child.job["nonce"] or message.get("id") != child.number:
      return self._distrust(child, "an answer that does not follow the ones before it")
    child.number += 1
    now = time.monotonic()
    if child.records is not None or child.failed is not None:
      return self._distrust(child, "an answer after the last one")
    if child.block:
      name, began = child.block
      child.blocks[name] = child.blocks.get(name, 0.0) + now - began
      child.block = None
    if "records" in message:
      if not _plausible_records(message["records"], child.job):
        return self._distrust(child, "records that are not of this job")
      child.records, child.machine, child.sandbox = message["records"], message.get("machine"), message.get("sandbox", [])
      child.waited_for = message.get("waited") or {}
    elif "failed" in message:
      child.failed = message["failed"]
    elif "device_failed" in message:
      child.device_failed = message["device_failed"]
    else:
      self._account(child, now)
      child.phase = {k: v for k, v in message.items() if k not in ("v", "id", "nonce")}
      if child.phase.get("phase") == "device":
        self.lock_name = self.lock_name or child.phase.get("lock_name")
      if child.phase.get("phase") == "time":
        child.beside = self._phases_of_others(child)
      if child.phase.get("phase") == "trials":
        child.block = (child.phase.get("compiler"), now)
      if child.phase.get("phase") not in ("trials", "trials_done"):
        self.progress({"job": child.job["id"], **child.phase})

  def _phases_of_others(self, child):
    """What the other children of the run do at this moment: phase -> how many."""
    out = {}
    for other in self.children:
      if other is not child:
        out[_phase_of(other)] = out.get(_phase_of(other), 0) + 1
    return out

  def _account(self, child, now):
    span, child.last = now - child.last, now
    name = _phase_of(child)
    self.phase_seconds[name] = self.phase_seconds.get(name, 0.0) + span
    if child.phase.get("phase") == "lock":
      child.waited += span
      if child.waited > WAIT_SECONDS:
        self._kill(child, "lock_deadline")
      return
    child.spent += span
    group = child.job.get("group", "")
    self.group_spent[group] = self.group_spent.get(group, 0.0) + span
    if child.killed:
      return
    if child.spent > self.options["variant_seconds"]:
      self._kill(child, "variant_deadline")
    elif self.group_spent[group] > self.options["group_seconds"]:
      self._kill(child, "group_deadline")

  # -- ending
  def _kill(self, child, why):
    if not child.killed:
      child.killed = why
    with contextlib.suppress(ProcessLookupError, PermissionError):
      os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
      os.kill(child.pid, signal.SIGKILL)

  def _ended(self, child):
    """Whether the process itself is gone, whoever else still holds its descriptors."""
    try:
      return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
      return True

  def _drain(self, child):
    """What the child had written when it ended."""
    for kind in ("answers", "output"):
      for _ in range(4096):
        fd = getattr(child, kind)
        if fd < 0 or not select.select([fd], [], [], 0)[0]:
          break
        self._read(child, kind, fd)
    for kind in ("answers", "output"):
      if getattr(child, kind) >= 0:
        os.close(getattr(child, kind))
        setattr(child, kind, -1)

  def _reap(self, child):
    """The end of the child and of all that it started, daemons included."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
      os.killpg(child.pid, signal.SIGKILL)
    try:
      _, status = os.waitpid(child.pid, 0)
      child.end = os.waitstatus_to_exitcode(status)
    except ChildProcessError:
      child.end = child.process.returncode if child.process is not None else None
    if child.process is not None:
      child.process.returncode = child.end
    known = {c.pid for c in self.children}
    for pid in _children_of(os.getpid()):
      if pid not in known and not _is_ours(pid):
        with contextlib.suppress(ProcessLookupError, PermissionError):
          os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
          os.waitpid(pid, 0)

  # -- conclusions
  def _finish_unstarted(self, job, code, message):
    error = {"code": code, "message": message, "remedy": "", "type": "", "traceback": ""}
    records = [_empty_record(job, c["name"], c.get("kind", c["name"]), error) for c in job["compilers"]]
    self._emit(job, records, None)

  def _conclude(self, child):
    job = child.job
    if child.machine and not self.machine:
      self.machine = {**child.machine, "cores": len(self.cores.mine)}
    for kind in ("shared", "exclusive"):
      seconds = child.waited_for.get(kind, 0.0) if isinstance(child.waited_for, dict) else 0.0
      if isinstance(seconds, float):
        self.phase_seconds[f"lock_{kind}"] = self.phase_seconds.get(f"lock_{kind}", 0.0) + seconds
    if child.device_failed is not None and not child.killed:
      if self.isolation == "fork":  # the fork does not carry over here: fresh interpreters from now on
        self.isolation = "spawn"
        self._again(job, job["compilers"], "device_in_fork", child.device_failed["message"])
        return
      return self._finish_unstarted(job, "infra", "the device cannot be used: " + child.device_failed["message"])
    if child.records is not None and not child.broken:
      return self._conclude_records(child)
    self._conclude_loss(child)

  def _conclude_records(self, child):
    job, keep, again = child.job, [], []
    for spec, record in zip(job["compilers"], child.records):
      record["isolation"] = job["isolation"]
      record["sandbox"] = [*filter(None, [self.options.get("sandbox_level")]), *child.sandbox]
      alone = not self.options["side_by_side"]  # else nobody is accused by a clock
      record["parent_clock"] = _clock_claim(record, child.blocks.get(record["compiler"])) if alone else None
      record["beside"] = child.beside
      if _is_context_loss(record):
        again.append(spec)
      elif _is_memory(record) and not job.get("alone") and len(job["compilers"]) + len(self.children) > 1:
        again.append(spec)
      else:
        keep.append(record)
    if keep:
      self._emit(job, keep, child)
    if again:
      self._again(job, again, "alone", "the device's memory or context was lost to others")

  def _conclude_loss(self, child):
    """The child ended without records: whose fault, and what of the rest."""
    job = child.job
    if child.killed == "time_limit":
      self.unmeasured.append(job["id"])
      return
    code, message = self._why(child)
    culprit = child.phase.get("compiler") if len(job["compilers"]) > 1 else job["compilers"][0]["name"]
    unexplained = code == "killed" and not job.get("alone")
    if unexplained:
      return self._again(job, job["compilers"], code, message)
    guilty = [s for s in job["compilers"] if s["name"] == culprit] or list(job["compilers"])
    rest = [s for s in job["compilers"] if s not in guilty]
    error = {
      "code": code,
      "message": message,
      "remedy": "",
      "type": child.failed["code"] if child.failed else "",
      "traceback": (child.failed or {}).get("traceback", ""),
      "phase": child.phase.get("phase"),
      "output": child.tail.decode("utf-8", "replace"),
    }
    records = [_empty_record(job, s["name"], s.get("kind", s["name"]), error) for s in guilty]
    self._emit(job, records, child)
    if rest:
      self._again(job, rest, "others", f"{culprit} ended the process it shared: {message}")

  def _why(self, child):
    if child.broken:
      return "forged_answer", "the channel of results carried " + child.broken
    if child.killed == "variant_deadline":
      return "timeout", f"not done within {self.options['variant_seconds']:g} s, in phase {child.phase.get('phase')}"
    if child.killed == "group_deadline":
      return "group_deadline", f"the {self.options['group_seconds']:g} s of its sample were used up"
    if child.killed == "lock_deadline":
      return "infra", "the device stayed locked by another process"
    if child.killed == "output_limit":
      return "output_limit", f"more than {self.options['output_limit'] >> 20} MB were printed"
    if child.failed is not None:
      return "failed", f"{child.failed['code']}: {child.failed['message']}"
    if child.end is not None and child.end < 0:
      name = signal.Signals(-child.end).name if -child.end in signal.valid_signals() else str(-child.end)
      return ("killed" if -child.end == signal.SIGKILL else "crash"), f"ended by {name} in phase {child.phase.get('phase')}"
    return "crash", f"ended with status {child.end} in phase {child.phase.get('phase')} without a result"

  def _again(self, job, specs, code, message):
    attempts = [*job["attempts"], {"code": code, "message": message[:500]}]
    fresh = {k: v for k, v in job.items() if k not in ("nonce", "isolation")}
    if len(attempts) > 6:
      error = {"code": "infra", "message": f"tried {len(attempts)} times: {message}", "remedy": "", "type": "", "traceback": ""}
      return self._emit(job, [_empty_record(job, s["name"], s.get("kind", s["name"]), error) for s in specs], None)
    self.waiting.insert(0, {**fresh, "compilers": specs, "attempts": attempts, "alone": code != "device_in_fork"})

  def _emit(self, job, records, child):
    for record in records:
      record["attempts"] = job["attempts"]
      record["sample"] = job.get("group", "")
    event = {"job": job["id"], "outcome": "done", "records": records}
    if child is not None:
      event["seconds"], event["waited"] = round(child.spent, 3), round(child.waited, 3)
      event["printed"] = child.printed
    self.progress(event)


def _phase_of(child):
  return _PHASES.get(child.phase.get("phase"), "other")


def _plausible_records(records, job):
  names = [c["name"] for c in job["compilers"]]
  return isinstance(records, list) and [r.get("compiler") if isinstance(r, dict) else None for r in records] == names


def _empty_record(job, name, kind, error):
  from . import evaluate, record

  options = {**evaluate.DEFAULTS, **job.get("options", {})}
  return {
    "schema": record.SCHEMA,
    "variant": job.get("label") or job["variant"],
    "path": job["variant"],
    "dtype": None,
    "compiler": name,
    "kind": kind,
    "protocol": options["protocol"],
    "warmup": options["warmup"],
    "trials": options["trials"],
    "device": options["device"],
    "hardware": None,
    "comparable": options["device"].startswith("cuda") and not options["side_by_side"],
    "status": "failed",
    "failed_in": "process",
    "error": error,
    "isolation": job.get("isolation"),
  }


def _is_context_loss(record):
  return (record.get("compiled") or {}).get("error", {}).get("code") == "context_lost"


def _is_memory(record):
  errors = [record.get("error") or {}] + [(record.get(s) or {}).get("error") or {} for s in ("compiled", "eager")]
  return any(e.get("code") == "OutOfMemoryError" or "out of memory" in e.get("message", "") for e in errors)


def _clock_claim(record, seconds):
  """The worker's own sum of trial times beside what this process saw pass."""
  rounds = (record.get("compiled") or {}).get("rounds") or []
  if seconds is None or not rounds:
    return None
  claimed = sum(r["e2e"]["mean"] for r in rounds) * record["trials"] / 1e3
  return {"seen": round(seconds, 6), "claimed": round(claimed, 6)}


def _with_package():
  """PYTHONPATH with this package's own folder first."""
  root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
  return os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))


def _children_of(parent):
  found = []
  for name in os.listdir("/proc"):
    if name.isdigit():
      with contextlib.suppress(OSError, ValueError, IndexError):
        with open(f"/proc/{name}/stat", "rb") as f:
          if int(f.read().rsplit(b")", 1)[1].split()[1]) == parent:
            found.append(int(name))
  return found


def _is_ours(pid):
  """Python's own helpers of this process, which no child started."""
  with contextlib.suppress(OSError):
    with open(f"/proc/{pid}/cmdline", "rb") as f:
      return b"multiprocessing.resource_tracker" in f.read()
  return True
