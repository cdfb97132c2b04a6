"""The evaluate command: one variant by the public protocol, as one record per compiler.

Public order, the default: compiled first (25 poisoned warm-ups, 100 timed trials, one more call whose outputs are
compared), then eager the same way, on the same inputs. Interleaved, for several compilers at once or on request:
every compiler is compiled and warmed up, the trials alternate in blocks, and the compared call gets fresh copies of
the inputs. Everything a text log or a score needs is in the record; nothing is decided here.
"""

import contextlib
import gc
import os
import random
import time
import traceback

import numpy as np
import torch

from . import (
  audit,
  compare,
  compilers,
  device_lock,
  interpreter,
  pass_loader,
  pass_manager,
  poison,
  replay,
  samples,
  timing,
  tracer,
)
from .errors import WorkerError, describe

SCHEMA = "passnet.record/1"
DEFAULTS = {
  "warmup": 25,
  "trials": 100,
  "block": 10,
  "rounds": 3,
  "device": "cuda",
  "compiler": "pass_mgr",
  "interleave": False,
  "protocol": "public",
  "kept_trials": 5,
  "kept_bytes": 2 << 30,
  "raw": True,
  "without": [],  # layers left out, to test the others
}
INITIAL_SEED = 123
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


def hardware_name(device):
  return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def failure(error):
  inner = pass_manager.innermost(error)
  return {
    **describe(inner, with_traceback=False),
    "type": type(inner if isinstance(error, WorkerError) else error).__name__,
    "traceback": "".join(traceback.format_exception(type(inner), inner, inner.__traceback__)[-20:]),
  }


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

  # -- the whole
  def run(self):
    sides = [Side(spec) for spec in self.job["compilers"]]
    eager = next((s for s in sides if s.spec.get("kind", s.name) == "eager"), None) or Side({"name": "eager"})
    try:
      self._load(sides, eager)
    except Exception as e:  # noqa: BLE001 - the sample's own fault is a record too
      error = failure(e)
      return [self._record(s, eager, {"status": "failed", "failed_in": "load", "error": error}) for s in sides]
    if all(s.error is not None for s in sides):
      pass
    elif self.interleave:
      self._interleaved(sides, eager)
    else:
      self._public_order(sides[0], eager)
    with self.lock.held(exclusive=False):  # comparing keeps the device busy
      records = [self._judge(s, eager) for s in sides]
    self._versus(sides, records)
    return records

  def _load(self, sides, eager):
    self.report({"phase": "load"})
    self.variant = samples.load_variant(self.job["variant"], self.job.get("label"))
    for side in sides:  # the backend comes before the inputs, as in public
      if side.spec.get("kind", side.name) == "pass_mgr":
        before = audit.snapshot()
        try:
          side.backend = compilers.load_backend(side.spec)
          side.state_changes = audit.changes(before)
        except Exception as e:  # noqa: BLE001
          side.error, side.failed_in, side.skipped = failure(e), "load", getattr(e, "skipped", [])
    if all(s.error is not None for s in sides):
      return  # nothing is left to run
    named = replay.public_inputs(self.variant)
    self.model = samples.build_model(self.variant, self.device.type)
    metas = samples.ordered_metas(self.variant, self.model)
    self.host = [named[m.name] for m in metas]
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

  def _from_host(self, clone=True):
    return [t.clone() if clone and self.device.type == "cpu" else t.to(self.device) for t in self.host]

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
      got = self._one(side, mine, False)
      timing.synchronise(self.device)
      self.fresh_expected = expected
      side.fresh = compare.compare_structures(expected, got, max(compare.BASE_T, -3))
      originals = self._from_host()
      self.facts["mutates_inputs"] = not all(_same_bits(o, b) for o, b in zip(originals, theirs))
      side.changed_inputs = [
        m.name
        for m, o, a, b in zip(samples.ordered_metas(self.variant, self.model), originals, mine, theirs)
        if not _same_bits(o, a) and _same_bits(o, b)
      ]
    except Exception as e:  # noqa: BLE001
      side.fresh = [{"ok": False, "reason": f"{type(e).__name__}: {e}"}]

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
      same = [_same_bits(a, b) for a, b in zip(inputs, self.pristine)]
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
      side.error = failure(e)
      side.failed_in = side.failed_in or "run"
      self.lost = self.lost or (self.device.type == "cuda" and context_is_lost(pass_manager.innermost(e)))
      return None

  def _first_call(self, side):
    """Compiles, under the guard where there is one."""
    self.report({"phase": "compile", "compiler": side.name})
    started = time.monotonic()
    poison.clear_violations() if side.backend else None
    with self.lock.held(exclusive=False):

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
          if side.mismatched_warm is None and not _agree(side.warm[0][1], value):
            side.mismatched_warm = i + 1
            side.warm.append([i + 1, self._copies(value)])
          if self.device.type == "cuda":
            side.allocated.append(torch.cuda.memory_allocated(self.device))
      timing.synchronise(self.device)

    self._attempt(side, step)

  def _rounds(self, sides):
    """Timed trials; those whose times fluctuate are measured again, all in the same way."""
    for number in range(max(1, self.options["rounds"])):
      measured = [s for s in sides if s.error is None]
      if not measured:
        return
      secret = set(_secret_indices(self.options["trials"], self.options["kept_trials"]))
      for side in measured:
        side.rounds.append({"e2e_ms": [], "gpu_ms": []})
        side.kept = []
      done, block = 0, self.options["block"] if len(measured) > 1 else self.options["trials"]
      turn = 0
      while done < self.options["trials"]:
        count = min(block, self.options["trials"] - done)
        for side in measured if turn % 2 == 0 else reversed(measured):
          self.report({"phase": "trials", "compiler": side.name, "round": number, "count": count})
          self._attempt(side, lambda: self._trials(side, done, count, secret))
        self.report({"phase": "trials_done"})
        done, turn = done + count, turn + 1
      if not any(self._fluctuates(s) for s in measured if s.error is None):
        return
    for side in sides:
      if side.error is None and self._accepted(side) is None:
        side.error = {
          "code": "fluctuation",
          "message": "Environment fluctuation detected. The interquartile range of the times exceeds "
          f"{timing.threshold(self.device):g} of their median in {len(side.rounds)} rounds. Please re-run the evaluation.",
          "remedy": "something else uses the machine, or the pass is erratic",
          "type": "RuntimeError",
          "traceback": "",
        }
        side.failed_in = "fluctuation"

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

  def _fluctuates(self, side):
    limit = timing.threshold(self.device)
    last = side.rounds[-1]
    return max(timing.fluctuation(last["e2e_ms"]), timing.fluctuation(last["gpu_ms"])) > limit

  def _accepted(self, side):
    """The round that counts: public, the first under the limit; strict, the slowest. None: none is under it."""
    limit = timing.threshold(self.device)
    good = [
      r for r in side.rounds if max(timing.fluctuation(r["e2e_ms"]), timing.fluctuation(r["gpu_ms"])) <= limit
    ]
    if not good:
      # Several compilers in turn, all trusted: what disturbs one disturbs all, and the calmest round is still a measurement.
      return min(side.rounds, key=lambda r: timing.fluctuation(r["e2e_ms"])) if self._lenient() and side.rounds else None
    return good[0] if self.options["protocol"] == "public" else max(good, key=lambda r: np.median(r["e2e_ms"]))

  def _lenient(self):
    return len(self.job["compilers"]) > 1

  def _compared_call(self, side, inputs):
    def step():
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

  # -- records
  def _record(self, side, eager, fields):
    spec = side.spec
    record = {
      "schema": SCHEMA,
      "variant": self.job.get("label") or self.job["variant"],
      "path": self.job["variant"],
      "dtype": self.variant.dtype_name if self.variant else None,
      "compiler": side.name,
      "kind": spec.get("kind", side.name),
      "protocol": self.options["protocol"],
      "order": "interleaved" if self.interleave else "public",
      "warmup": self.options["warmup"],
      "trials": self.options["trials"],
      "device": self.options["device"],
      "hardware": hardware_name(self.device),
      "comparable": self.device.type == "cuda",
      "torch": torch.__version__,
      "seconds": round(time.monotonic() - self.started, 3),
      "compile_seconds": side.compile_seconds,
      **self.facts,
      **fields,
    }
    if side.skipped:
      record["skipped"] = side.skipped
    if side.backend is not None:
      loaded = side.backend.pass_set
      record.update(
        loaded=[p.name for p in loaded.passes],
        skipped=loaded.skipped,
        graphs=side.backend.records,
        violations=list(poison.violations),
        kept_tensors=pass_loader.kept_tensors(loaded) if "kept" not in self.without else [],
        # Of several compilers any may have changed a setting; alone it was the passes.
        state_changes=[]
        if "audit" in self.without
        else side.state_changes
        if len(self.job["compilers"]) > 1
        else audit.changes(self.state),
      )
      if len(side.allocated) >= 2:
        record["memory_growth"] = side.allocated[-1] - side.allocated[0]
    return record

  def _times(self, side):
    out = {"ok": side.error is None, "rounds": []}
    for r in side.rounds:
      if r["e2e_ms"]:
        out["rounds"].append(
          {
            "e2e": timing.statistics(r["e2e_ms"]),
            "gpu": timing.statistics(r["gpu_ms"]),
            "fluctuation": [round(timing.fluctuation(r["e2e_ms"]), 4), round(timing.fluctuation(r["gpu_ms"]), 4)],
          }
        )
    chosen = self._accepted(side) if side.rounds else None
    if chosen is not None and len(chosen["e2e_ms"]) == self.options["trials"]:
      out["round"] = next(i for i, r in enumerate(side.rounds) if r is chosen)
      out["e2e"], out["gpu"] = timing.statistics(chosen["e2e_ms"]), timing.statistics(chosen["gpu_ms"])
      if self.options["raw"]:
        out["e2e_ms"] = [round(v, 6) for v in chosen["e2e_ms"]]
        out["gpu_ms"] = [round(v, 6) for v in chosen["gpu_ms"]]
      out["unsteady"] = self._lenient() and max(out["rounds"][out["round"]]["fluctuation"]) > timing.threshold(self.device)
    if side.error is not None:
      out["error"] = side.error
    if side.value is not None and side.error is None:
      values = compare.as_tuple(side.value)
      out["dtypes"] = [_dtype_word(o) for o in values]
      out["shapes"] = [list(o.shape) if isinstance(o, torch.Tensor) else None for o in values]
    return out

  def _judge(self, side, eager):
    compiled, reference = self._times(side), self._times(eager)
    fields = {"status": "failed", "compiled": compiled, "eager": reference}
    if side.error is not None and side.failed_in == "load":
      fields.update(failed_in="load", error=side.error)
      return self._record(side, eager, fields)
    if not (compiled["ok"] and reference["ok"]):
      # Where the compiled side broke the device's context, eager's failure afterwards says nothing of eager.
      at_fault = eager if not reference["ok"] and (side.error is None or eager.failed_in != "context") else side
      fields["failed_in"] = "eager" if at_fault is eager else "compiled"
      fields["phase"] = at_fault.failed_in
      return self._record(side, eager, fields)
    expected, got = compare.as_tuple(eager.value), compare.as_tuple(side.value)
    fields["status"] = "success"
    fields["type_match"] = compiled["dtypes"] == reference["dtypes"]
    fields["shape_match"] = compiled["shapes"] == reference["shapes"]
    fields["outputs"] = compare.compare_structures(expected, got)
    fields["first_correct_t"] = first_correct_t(expected, got)
    if side.untrusted:
      t = fields["first_correct_t"] if fields["first_correct_t"] is not None else compare.BASE_T
      t = max(t, compare.BASE_T)
      first, warm, kept = expected, side.warm, side.kept
      if self.facts.get("mutates_inputs"):
        # The inputs drift from call to call: only the first call can be compared, with eager on the same inputs.
        first, warm, kept = self.fresh_expected if self.fresh_expected is not None else expected, side.warm[:1], []
      fields["poisoned_outputs"] = [r for _, v in warm[:1] for r in compare.compare_structures(first, v, t)]
      fields["other_calls"] = [
        {"call": kind, "number": i, "ok": all(r["ok"] for r in results), "reason": _first_reason(results)}
        for kind, values in (("poisoned", warm), ("timed", kept))
        for i, v in values
        for results in [compare.compare_structures(first, v, t)]
      ]
      if side.fresh is not None:
        # At a looser tolerance than the compared call: another address may change the order of a sum.
        fields["other_calls"].append(
          {"call": "fresh", "number": 0, "ok": all(r["ok"] for r in side.fresh), "reason": _first_reason(side.fresh)}
        )
      fields["changed_inputs"] = side.changed_inputs
      if "outputs" in self.without:
        fields["other_calls"] = []
      fields["alias_added"] = sorted(
        set(compare.alias_relation(side.inputs or self.pristine, side.value))
        - set(compare.alias_relation(eager.inputs or self.pristine, eager.value))
      ) if not self.interleave else []
    if fields["type_match"] and all(isinstance(o, torch.Tensor) for o in expected):
      fields["correctness"] = compare.public_correctness(expected, got)
    fields["speedup_e2e"] = float(f"{reference['e2e']['median'] / compiled['e2e']['median']:.5f}")
    if compiled["gpu"]:
      fields["speedup_gpu"] = float(f"{reference['gpu']['median'] / compiled['gpu']['median']:.5f}")
    if self.interleave and side is not eager:
      fields["speedup_e2e_90"] = timing.ratio_interval(*(self._blocks(s) for s in (eager, side)))
    return self._record(side, eager, fields)

  def _versus(self, sides, records):
    """Of two compilers that are compared: the ratio of their times, first over second, with its 90% interval."""
    by_name = {s.name: s for s in sides}
    pair = [by_name.get(name) for name in self.options.get("compare") or ()]
    if len(pair) != 2 or any(s is None or s.error is not None for s in pair):
      return
    first, second = (np.median(self._accepted(s)["e2e_ms"]) for s in pair)
    for record in records:
      if record["compiler"] == pair[1].name:
        record["versus"] = {
          "compiler": pair[0].name,
          "ratio": float(f"{first / second:.5f}"),
          "interval_90": timing.ratio_interval(*(self._blocks(s) for s in pair)),
        }

  def _blocks(self, side):
    times = self._accepted(side)["e2e_ms"]
    n = self.options["block"]
    return [times[i : i + n] for i in range(0, len(times), n)]


def first_correct_t(expected, got):
  """The smallest tolerance in -10..4 at which all outputs agree, or None."""
  for t in range(-10, 5):
    if all(r["ok"] for r in compare.compare_structures(expected, got, t)):
      return t
  return None


def _dtype_word(value):
  return str(value.dtype).removeprefix("torch.") if isinstance(value, torch.Tensor) else type(value).__name__


def _first_reason(results):
  return next((r.get("reason", "differs") for r in results if not r["ok"]), "")


def _same_bits(a, b):
  """Equal with NaN in the same places."""
  return bool(((a == b) | ((a != a) & (b != b))).all()) if a.numel() else True


def _agree(first, second):
  """Two calls of one compiler on the same inputs: equal up to the base tolerance."""
  a, b = compare.as_tuple(first), compare.as_tuple(second)
  if len(a) != len(b):
    return False
  for x, y in zip(a, b):
    if isinstance(x, torch.Tensor) != isinstance(y, torch.Tensor):
      return False
    if isinstance(x, torch.Tensor):
      if x.shape != y.shape or x.dtype != y.dtype:
        return False
      if not _same_bits(x, y) and not compare.compare_tensors(x, y)["ok"]:
        return False
  return True


def _secret_indices(trials, count):
  return random.SystemRandom().sample(range(trials), min(count, trials))


def _bytes_of(value):
  return sum(t.numel() * t.element_size() for t in compare.as_tuple(value) if isinstance(t, torch.Tensor))


def device_facts(device):
  """What a record's machine is, once per run."""
  import platform

  facts = {
    "torch": torch.__version__,
    "python": platform.python_version(),
    "host": platform.processor() or platform.machine(),
    "cores": len(os.sched_getaffinity(0)),
    "gpu": None,
  }
  try:
    import triton

    facts["triton"] = triton.__version__
  except ImportError:
    facts["triton"] = None
  if device.type == "cuda":
    p = torch.cuda.get_device_properties(device)
    facts.update(
      gpu=p.name,
      multiprocessors=p.multi_processor_count,
      l2_bytes=p.L2_cache_size,
      memory=p.total_memory,
      uuid=str(getattr(p, "uuid", "")),
      cuda=torch.version.cuda,
      cudnn=torch.backends.cudnn.version(),
    )
  return facts
