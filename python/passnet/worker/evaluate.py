"""The evaluate command: one variant by the public protocol, as one record per compiler.

Public order, the default: compiled first (25 poisoned warm-ups, 100 timed trials, one more call whose outputs are
compared), then eager the same way, on the same inputs. Interleaved, for several compilers at once or on request:
every compiler is compiled and warmed up, the trials alternate in short blocks (rounds.py), and the compared call gets
fresh copies of the inputs. Everything a text log or a score needs is in the record (record.py); nothing is decided here.
"""

import contextlib
import gc
import random
import time

import numpy as np
import torch

from . import (
  audit,
  capture,
  compare,
  compilers,
  device_lock,
  interpreter,
  pass_manager,
  poison,
  record,
  replay,
  rounds,
  samples,
  timing,
  tracer,
)
from .errors import WorkerError

DEFAULTS = {
  "warmup": 25,
  "trials": 100,
  "block": 5,  # calls of a side in a turn: some milliseconds, so that a host that becomes slow does so for all sides
  "rounds": 3,
  "device": "cuda",
  "compiler": "pass_mgr",
  "interleave": False,
  "protocol": "public",
  "kept_trials": 5,
  "kept_bytes": 2 << 30,
  "raw": True,
  "live": True,  # one more call on inputs of the live family, after everything that is timed
  "side_by_side": False,  # others use the device while this one is timed: verdicts count, times do not
  "without": [],  # layers left out, to test the others
}
INITIAL_SEED = 123
LIVE_SEED = 1
SOILED = 64  # blocks of free memory that are overwritten before an output is judged
LIVE_BYTES = 2 << 30  # of inputs beyond which the live family is not drawn: the host takes seconds for it
# Errors after which a CUDA context is of no more use to anybody.
_LOST_CONTEXT = (
  "illegal memory access",
  "device-side assert",
  "misaligned address",
  "unspecified launch failure",
  "illegal instruction",
  "invalid program counter",
  "hardware stack error",
  "uncorrectable ECC",
)


def command(request, progress):
  """evaluate: {"variant": directory, "pass_dir"?, "const_pass_dir"?, "rejected"?, "options"?} -> the record."""
  if "variant" not in request:
    raise WorkerError("request.field", "the request has no field 'variant'", "")
  options = {**DEFAULTS, **request.get("options", {})}
  spec = {"name": options["compiler"], "kind": options["compiler"], "rejected": request.get("rejected")}
  for key in ("pass_dir", "const_pass_dir"):
    if key in request:
      spec[key] = request[key]
  for key in ("replacement_func_limit", "pattern_limit"):
    if key in options:
      spec[key] = options[key]
  job = {"variant": request["variant"], "compilers": [spec], "options": options}
  return evaluate_job(job, progress)[0]


def evaluate_job(job, report, lock=None):
  """The records of one variant, one per compiler of the job in its order.

  job: {"variant", "label"?, "compilers": [{"name", "kind", ...}], "options"}. report: called with {"phase", ...} as
  the work goes on. lock: a DeviceLock; by default nobody is kept out.
  """
  options = {**DEFAULTS, **job.get("options", {})}
  device = torch.device(options["device"])
  if device.type == "cuda":
    device = torch.device("cuda", device.index or 0)
  if device.type == "cuda" and not torch.cuda.is_available():
    raise WorkerError("no_gpu", "evaluation on cuda needs a GPU and torch sees none", "")
  for spec in job["compilers"]:
    if spec.get("kind", spec["name"]) not in compilers.NAMES:
      raise WorkerError("compiler", f"unknown compiler {spec['name']!r}", "one of " + ", ".join(compilers.NAMES))
    if spec.get("kind", spec["name"]) == "pass_mgr" and "pass_dir" not in spec:
      raise WorkerError("request.field", f"compiler {spec['name']!r} needs a pass_dir", "")
  random.seed(INITIAL_SEED)
  np.random.seed(INITIAL_SEED)
  torch.manual_seed(INITIAL_SEED)
  if callable(lock):
    lock = lock(device)
  poison.watch_plain = "plain" not in options["without"]
  tracer.check_replacement = "graph" not in options["without"]
  with contextlib.ExitStack() as stack:
    session = stack.enter_context(interpreter.Session()) if device.type == "cpu" else None
    return _Job(job, options, device, report, lock or device_lock.NoLock(), session).run()


def fluctuation_limit(options, device):
  """The share of the median beyond which a list of times is measured again; none where the times count for nothing."""
  return float("inf") if options["side_by_side"] else timing.threshold(device)


def context_is_lost(error):
  text = str(error)
  return any(words in text for words in _LOST_CONTEXT)


class Side:
  """One compiler on one variant: its callable, inputs, times and outputs."""

  def __init__(self, spec, name=None):
    self.spec, self.name = spec, name or spec["name"]
    self.backend = self.call = self.inputs = self.error = self.value = None
    self.failed_in = None
    self.rounds = []  # {"e2e_ms", "gpu_ms"}
    self.warm = []  # [call number, outputs] of poisoned calls that are kept
    self.kept = []  # outputs of secretly chosen timed calls
    self.mismatched_warm = None
    self.allocated = []  # bytes allocated on the device after each warm-up
    self.compile_seconds = None
    self.fresh = None  # comparison on fresh inputs
    self.changed_inputs = []  # inputs that the pass writes and eager does not
    self.skipped = []  # files left out, where that left nothing to load
    self.state_changes = []  # what loading the passes changed

  @property
  def kind(self):
    return self.spec.get("kind", self.name)

  @property
  def untrusted(self):
    return self.backend is not None


class _Job:
  def __init__(self, job, options, device, report, lock, session):
    self.job, self.options, self.device = job, options, device
    self.report, self.lock, self.session = report, lock, session
    self.interleave = options["interleave"] or len(job["compilers"]) > 1
    self.started = time.monotonic()
    self.state = audit.snapshot()
    self.variant = self.model = self.pristine = None
    self.facts = {}
    self.without = set(options["without"])
    self.fresh_expected = None  # eager's outputs on inputs as they were drawn
    self.host = None  # the inputs as they were drawn, on the host
    self.lost = False  # the device context died: what follows in this process says nothing
    self.common = None  # in turn: the round and the turns that count for all sides
    self.variances = set()  # names of running variances, for the live family
    self.records = record.Records(self)

  # -- the whole
  def run(self):
    sides = [Side(spec) for spec in self.job["compilers"]]
    eager = next((s for s in sides if s.kind == "eager"), None) or Side({"name": "eager"})
    try:
      self._load(sides, eager)
    except Exception as e:  # noqa: BLE001 - the sample's own fault is a record too
      fields = {"status": "failed", "failed_in": "load", "error": record.failure(e)}
      return [self.records.base(s, fields) for s in sides]
    if all(s.error is not None for s in sides):
      pass
    elif self.interleave:
      self._interleaved(sides, eager)
    else:
      self._public_order(sides[0], eager)
    with self.lock.held(exclusive=False):  # comparing keeps the device busy
      records = [self.records.judge(s, eager) for s in sides]
    self._live_calls(sides, eager, records)
    self.records.versus(sides, records)
    return records

  def _load(self, sides, eager):
    self.report({"phase": "load"})
    self.variant = samples.load_variant(self.job["variant"], self.job.get("label"))
    for side in sides:  # the backend comes before the inputs, as in public
      if side.kind == "pass_mgr":
        before = audit.snapshot()
        try:
          side.backend = compilers.load_backend(side.spec)
          side.state_changes = audit.changes(before)
        except Exception as e:  # noqa: BLE001
          side.error, side.failed_in, side.skipped = record.failure(e), "load", getattr(e, "skipped", [])
    if all(s.error is not None for s in sides):
      return  # nothing is left to run
    named = replay.public_inputs(self.variant)
    self.model = samples.build_model(self.variant, self.device.type)
    metas = samples.ordered_metas(self.variant, self.model)
    self.host = [named[m.name] for m in metas]
    if self.options["live"] and "batch_norm" in self.variant.source:
      self.variances = capture.running_variances(self.variant)
    with self.lock.held(exclusive=False):
      inputs = self._from_host(clone=self.device.type == "cpu")
      timing.synchronise(self.device)
    self.facts["input_bytes"] = sum(t.numel() * t.element_size() for t in inputs)
    self.pristine = inputs
    torch._dynamo.reset()
    for side in [*sides, eager]:
      side.inputs = inputs
      if side.error is None and side.call is None:
        model = self.model if side is eager else samples.build_model(self.variant, self.device.type)
        side.call = compilers.compile_model(side.spec, model, side.backend)

  def _from_host(self, clone=True, host=None):
    tensors = self.host if host is None else host
    return [t.clone() if clone and self.device.type == "cpu" else t.to(self.device) for t in tensors]

  # -- the public order
  def _public_order(self, side, eager):
    self._first_call(side)
    if side.error is not None:
      with self.lock.held(exclusive=False):  # whether the model itself runs says whose failure it is
        self._attempt(eager, lambda: self._one(eager, self._from_host(), False))
      return
    self.report({"phase": "lock"})
    with self.lock.held(exclusive=True):
      self.report({"phase": "time"})
      self._warm_up(side, self.options["warmup"] - 1)
      self._rounds([side])
      self._compared_call(side, side.inputs)
      self._rest()
      if side is not eager and side.error is None:  # without a compiled side there is nothing to compare with
        self.report({"phase": "eager"})
        self._attempt(eager, lambda: self._one(eager, eager.inputs, False))
        self._warm_up(eager, self.options["warmup"] - 1)
        self._rounds([eager])
        before = self._copies(self._attempt(eager, lambda: self._one(eager, eager.inputs, False)))
        self._compared_call(eager, eager.inputs)
        self._self_equality(before, eager.value)
    self.report({"phase": "compare"})
    if side.untrusted and "outputs" not in self.without:
      with self.lock.held(exclusive=False):
        self._fresh_calls(side, eager)

  def _fresh_calls(self, side, eager):
    """Both on copies of the inputs as they were drawn: what the pass left in its inputs, or knows of their addresses,
    helps it no more.
    """
    if side.error is not None or eager.error is not None:
      return
    try:
      mine, theirs = self._from_host(), self._from_host()
      expected = self._copies(self._one(eager, theirs, False))
      self._soil(side)
      got = self._one(side, mine, False)
      timing.synchronise(self.device)
      self.fresh_expected = expected
      side.fresh = compare.compare_structures(expected, got, max(compare.BASE_T, -3))
      originals = self._from_host()
      self.facts["mutates_inputs"] = not all(record.same_bits(o, b) for o, b in zip(originals, theirs))
      side.changed_inputs = [
        m.name
        for m, o, a, b in zip(samples.ordered_metas(self.variant, self.model), originals, mine, theirs)
        if not record.same_bits(o, a) and record.same_bits(o, b)
      ]
    except Exception as e:  # noqa: BLE001
      side.fresh = [{"ok": False, "reason": f"{type(e).__name__}: {e}"}]

  def _live_calls(self, sides, eager, records):
    """The first tolerance at which a side is right on inputs of the live family: normals where the sample has constants,
    running variances that vary. Last of all, so that whatever happens here spoils nothing that was measured.
    """
    wanted = [(s, r) for s, r in zip(sides, records) if r["status"] == "success" and s is not eager and s.kind != "ceiling"]
    if not wanted or not self.options["live"] or self.lost or self.facts.get("input_bytes", 0) > LIVE_BYTES:
      return
    named = replay.live_inputs(self.variant, LIVE_SEED, self.variances)
    host = [named[m.name] for m in samples.ordered_metas(self.variant, self.model)]
    with self.lock.held(exclusive=False), contextlib.suppress(Exception):  # its own inputs are what counts
      expected = self._copies(self._one(eager, self._from_host(host=host), False))
      for side, fields in wanted:
        fields["live"] = self._live_call(side, host, expected)
        if self.lost:
          return

  def _live_call(self, side, host, expected):
    try:
      mine = self._from_host(host=host)
      self._soil(side)
      got = self._one(side, mine, False)
      timing.synchronise(self.device)
      return {"first_correct_t": record.first_correct_t(expected, got)}
    except Exception as e:  # noqa: BLE001 - a fact about the side
      self.lost = self.device.type == "cuda" and context_is_lost(pass_manager.innermost(e))
      return {"first_correct_t": None, "error": f"{type(e).__name__}: {e}"[:500]}

  # -- several compilers in turn
  def _interleaved(self, sides, eager):
    everyone = sides if eager in sides else [*sides, eager]
    self._eager_twice(eager)
    for side in everyone:
      with self.lock.held(exclusive=False):
        self._own_inputs(side)
      self._first_call(side)
    self.report({"phase": "lock"})
    with self.lock.held(exclusive=True):
      self.report({"phase": "time"})
      for side in everyone:
        self._warm_up(side, self.options["warmup"] - 1)
      self._rounds(everyone)
    self.report({"phase": "compare"})
    with self.lock.held(exclusive=False):
      for side in everyone:
        side.inputs = None if self.facts.get("mutates_inputs") else side.inputs
        self._compared_call(side, self._fresh())

  def _fresh(self):
    return [t.clone() for t in self.pristine] if self.facts.get("mutates_inputs") else self.pristine

  def _own_inputs(self, side):
    if self.facts.get("mutates_inputs"):
      side.inputs = [t.clone() for t in self.pristine]

  def _eager_twice(self, eager):
    """Whether eager mutates its inputs, and whether it equals itself on the inputs it leaves behind."""
    self.report({"phase": "compile", "compiler": "eager"})
    with self.lock.held(exclusive=False):
      inputs = [t.clone() for t in self.pristine]
      first = self._copies(self._attempt(eager, lambda: self._one(eager, inputs, False)))
      if eager.error:
        return
      same = [record.same_bits(a, b) for a, b in zip(inputs, self.pristine)]
      self.facts["mutates_inputs"] = not all(same)
      second = self._attempt(eager, lambda: self._one(eager, inputs, False))
      self._self_equality(first, second)

  def _self_equality(self, first, second):
    if first is not None and second is not None:
      self.facts["eager_equals_itself"] = all(r["ok"] for r in compare.compare_structures(first, second))

  def _copies(self, value):
    if isinstance(value, (tuple, list)):
      return tuple(v.clone() if isinstance(v, torch.Tensor) else v for v in value)
    return value.clone() if isinstance(value, torch.Tensor) else value

  # -- single steps; each leaves the error of a side in the side
  def _attempt(self, side, step):
    if side.error is not None:
      return None
    if self.lost:
      side.error = {"code": "context_lost", "message": "the device context was lost before this compiler ran",
                    "remedy": "it is run again alone", "type": "ContextLost", "traceback": ""}
      side.failed_in = "context"
      return None
    try:
      return step()
    except Exception as e:  # noqa: BLE001 - the candidate's failure is the record
      side.error = record.failure(e)
      side.failed_in = side.failed_in or "run"
      self.lost = self.lost or (self.device.type == "cuda" and context_is_lost(pass_manager.innermost(e)))
      return None

  def _first_call(self, side):
    """Compiles, under the guard where there is one."""
    self.report({"phase": "compile", "compiler": side.name})
    started = time.monotonic()
    poison.clear_violations() if side.backend else None
    with contextlib.ExitStack() as stack:
      stack.enter_context(self.lock.held(exclusive=False))
      if side.kind.startswith("inductor"):
        stack.enter_context(compilers.inductor_off_the_device(self.lock))

      def step():
        value = self._one(side, side.inputs, True)
        timing.synchronise(self.device)
        return value

      value = self._attempt(side, step)
      if side.untrusted and side.error is None:
        side.warm = [[0, self._copies(value)]]
    if side.error is not None and side.failed_in == "run":
      side.failed_in = "compile"
    side.compile_seconds = round(time.monotonic() - started, 3)

  def _warm_up(self, side, count):
    def step():
      value = None
      for i in range(count):
        value = None
        value = self._one(side, side.inputs, True)
        if side.untrusted:
          if side.mismatched_warm is None and not record.agree(side.warm[0][1], value):
            side.mismatched_warm = i + 1
            side.warm.append([i + 1, self._copies(value)])
          if self.device.type == "cuda":
            side.allocated.append(torch.cuda.memory_allocated(self.device))
      timing.synchronise(self.device)

    self._attempt(side, step)

  def _rounds(self, sides):
    """Timed trials; those whose times fluctuate are measured again, all in the same way."""
    alone = len(sides) == 1
    for number in range(max(1, self.options["rounds"])):
      measured = [s for s in sides if s.error is None]
      if not measured:
        return
      secret = set(_secret_indices(self.options["trials"], self.options["kept_trials"]))
      for side in measured:
        side.rounds.append(rounds.new_round())
        side.kept = []
      by_name = {s.name: s for s in measured}
      block = self.options["trials"] if alone else self.options["block"]
      for _, name, first, count in rounds.turns(list(by_name), self.options["trials"], block):
        self.report({"phase": "trials", "compiler": name, "round": number, "count": count})
        self._attempt(by_name[name], lambda: self._trials(by_name[name], first, count, secret))
      self.report({"phase": "trials_done"})
      if self._steady(measured, alone):
        break
    self._refuse_fluctuation([s for s in sides if s.error is None])

  def _steady(self, measured, alone):
    """Whether a round that was just measured is one that counts."""
    limit = self._limit()
    alive = [s for s in measured if s.error is None]
    if alone:
      return all(rounds.fluctuation(s.rounds[-1]) <= limit for s in alive)
    self.common = rounds.common_round([s.rounds for s in alive], self.options["block"], limit, self._strict())
    return self.common is None or self.common.steady

  def _refuse_fluctuation(self, sides):
    """Several compilers in turn are all trusted: the calmest round is still a measurement, marked as unsteady. Otherwise
    a side without a quiet round has failed.
    """
    limit = self._limit()
    if self.common is None:
      noisy = [s for s in sides if rounds.own_round(s.rounds, limit) is None]
    elif self.common.steady or len(self.job["compilers"]) > 1:
      return
    else:
      noisy = [s for s, f in zip(sides, self.common.fluctuations) if f > limit] or sides
    for side in noisy:
      side.error = {
        "code": "fluctuation",
        "message": "Environment fluctuation detected. The interquartile range of the times exceeds "
        f"{limit:g} of their median in {len(side.rounds)} rounds. Please re-run the evaluation.",
        "remedy": "something else uses the machine, or the pass is erratic",
        "type": "RuntimeError",
        "traceback": "",
      }
      side.failed_in = "fluctuation"

  def _limit(self):
    return fluctuation_limit(self.options, self.device)

  def _strict(self):
    return self.options["protocol"] != "public"

  def counted(self, side):
    """Index of the round that counts for a side; None: there is none."""
    if self.common is not None:
      return self.common.index if len(side.rounds) > self.common.index else None
    return rounds.own_round(side.rounds, self._limit(), self._strict())

  def _trials(self, side, first, count, secret):
    times = side.rounds[-1]
    if side.backend:
      side.backend.poisoned = False
    kept_bytes = sum(_bytes_of(v) for _, v in side.kept)
    for i in range(first, first + count):
      if side.backend:
        side.backend.start_call()
      result, host, on_device = timing.timed_call(side.call, side.inputs, self.device)
      times["e2e_ms"].append(host)
      if on_device is not None:
        times["gpu_ms"].append(on_device)
      if side.untrusted and i in secret and kept_bytes < self.options["kept_bytes"]:
        side.kept.append([i, result])
        kept_bytes += _bytes_of(result)
      if self.session is not None:
        self.session.memory.clear()

  def _soil(self, side):
    """Fills the free memory that a new output would get with NaN: what was there before, a right answer perhaps, must not
    be taken for the work of a kernel that wrote nothing. Only where a pass is judged, and never before a timed call.
    """
    if self.device.type != "cuda" or not side.untrusted or not side.warm or "outputs" in self.without:
      return
    held, reserved = [], torch.cuda.memory_reserved(self.device)
    for size in sorted({_bytes_of(v) for v in compare.as_tuple(side.warm[0][1])} - {0}, reverse=True):
      # Until nothing that is free fits any more, so that the last block is new.
      with contextlib.suppress(torch.OutOfMemoryError):
        while len(held) < SOILED and torch.cuda.memory_reserved(self.device) == reserved:
          held.append(torch.full((size,), 0xFF, dtype=torch.uint8, device=self.device))
      reserved = torch.cuda.memory_reserved(self.device)

  def _compared_call(self, side, inputs):
    def step():
      self._soil(side)
      value = self._one(side, inputs, False)
      timing.synchronise(self.device)
      return value

    side.value = self._attempt(side, step)

  def _one(self, side, inputs, poisoned):
    if side.backend:
      side.backend.poisoned = poisoned
      side.backend.start_call()
    torch.manual_seed(timing.SEED)
    try:
      return side.call(*inputs)
    finally:
      if self.session is not None:
        self.session.memory.clear()

  def _rest(self):
    gc.collect()
    if self.device.type == "cuda" and not self.lost:
      torch.cuda.empty_cache()


def _secret_indices(trials, count):
  return random.SystemRandom().sample(range(trials), min(count, trials))


def _bytes_of(value):
  return sum(t.numel() * t.element_size() for t in compare.as_tuple(value) if isinstance(t, torch.Tensor))
