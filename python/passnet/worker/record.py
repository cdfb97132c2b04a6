"""The record of one compiler on one variant: what was measured and seen, and nothing concluded from it.

Also the small words and comparisons that records are made of, for both protocols.
"""

import os
import time
import traceback

import torch

from . import audit, compare, pass_loader, pass_manager, poison, rounds, timing
from .errors import WorkerError, describe

SCHEMA = "passnet.record/1"


def failure(error):
  inner = pass_manager.innermost(error)
  return {
    **describe(inner, with_traceback=False),
    "type": type(inner if isinstance(error, WorkerError) else error).__name__,
    "traceback": "".join(traceback.format_exception(type(inner), inner, inner.__traceback__)[-20:]),
  }


def hardware_name(device):
  return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def first_correct_t(expected, got):
  """The smallest tolerance in -10..4 at which all outputs agree, or None."""
  for t in range(-10, 5):
    if all(r["ok"] for r in compare.compare_structures(expected, got, t)):
      return t
  return None


def dtype_word(value):
  return str(value.dtype).removeprefix("torch.") if isinstance(value, torch.Tensor) else type(value).__name__


def shapes(values):
  return [list(v.shape) if isinstance(v, torch.Tensor) else None for v in values]


def first_reason(results):
  return next((r.get("reason", "differs") for r in results if not r["ok"]), "")


def same_bits(a, b):
  """Equal with NaN in the same places."""
  return bool(((a == b) | ((a != a) & (b != b))).all()) if a.numel() else True


def agree(first, second):
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
      if not same_bits(x, y) and not compare.compare_tensors(x, y)["ok"]:
        return False
  return True


def ratio(first, second):
  """Of two medians in ms, with five decimals as the public log prints it. No call takes less than a nanosecond."""
  return float(f"{first / max(second, 1e-6):.5f}")


class Records:
  """What a job knows of its sides, as records. `job`: the evaluate._Job that measured."""

  def __init__(self, job):
    self.job, self.options = job, job.options

  # -- times
  def used(self, side):
    """The times that count, of both clocks; None: there are none."""
    index = self.job.counted(side)
    if index is None:
      return None
    times, common = side.rounds[index], self.job.common
    if len(times["e2e_ms"]) != self.options["trials"]:
      return None
    if common is None:
      return times
    return {k: rounds.of_turns(times[k], common.used, self.options["block"]) for k in ("e2e_ms", "gpu_ms")}

  def blocks(self, side):
    """Of the turns that count, a list of host times each."""
    times = self.used(side)["e2e_ms"]
    return rounds.blocks(times, self.options["block"])

  def times(self, side):
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
    used = self.used(side)
    if used is not None:
      out["round"] = self.job.counted(side)
      out["e2e"], out["gpu"] = timing.statistics(used["e2e_ms"]), timing.statistics(used["gpu_ms"])
      if self.options["raw"]:
        whole = side.rounds[out["round"]]
        out["e2e_ms"] = [round(v, 6) for v in whole["e2e_ms"]]
        out["gpu_ms"] = [round(v, 6) for v in whole["gpu_ms"]]
      out["unsteady"] = self.job.common is not None and not self.job.common.steady
    if side.error is not None:
      out["error"] = side.error
    if side.value is not None and side.error is None:
      values = compare.as_tuple(side.value)
      out["dtypes"] = [dtype_word(o) for o in values]
      out["shapes"] = shapes(values)
    return out

  # -- whole records
  def base(self, side, fields):
    job, spec = self.job, side.spec
    record = {
      "schema": SCHEMA,
      "variant": job.job.get("label") or job.job["variant"],
      "path": job.job["variant"],
      "dtype": job.variant.dtype_name if job.variant else None,
      "compiler": side.name,
      "kind": side.kind,
      "protocol": self.options["protocol"],
      "order": "interleaved" if job.interleave else "public",
      "warmup": self.options["warmup"],
      "trials": self.options["trials"],
      "device": self.options["device"],
      "hardware": hardware_name(job.device),
      "comparable": job.device.type == "cuda" and not self.options["side_by_side"],
      "torch": torch.__version__,
      "seconds": round(time.monotonic() - job.started, 3),
      "compile_seconds": side.compile_seconds,
      **job.facts,
      **fields,
    }
    if job.common is not None:
      record["turns"] = job.common.facts(self.options["block"])
    if side.skipped:
      record["skipped"] = side.skipped
    if side.backend is not None:
      record.update(self._passes(side))
    return record

  def _passes(self, side):
    job, loaded = self.job, side.backend.pass_set
    out = {
      "loaded": [p.name for p in loaded.passes],
      "skipped": loaded.skipped,
      "graphs": side.backend.records,
      "violations": list(poison.violations),
      "kept_tensors": pass_loader.kept_tensors(loaded) if "kept" not in job.without else [],
    }
    # Of several compilers any may have changed a setting; alone it was the passes.
    several = len(job.job["compilers"]) > 1
    out["state_changes"] = [] if "audit" in job.without else side.state_changes if several else audit.changes(job.state)
    if len(side.allocated) >= 2:
      out["memory_growth"] = side.allocated[-1] - side.allocated[0]
    return out

  def judge(self, side, eager):
    compiled, reference = self.times(side), self.times(eager)
    fields = {"status": "failed", "compiled": compiled, "eager": reference}
    if side.error is not None and side.failed_in == "load":
      fields.update(failed_in="load", error=side.error)
      return self.base(side, fields)
    if not (compiled["ok"] and reference["ok"]):
      # Where the compiled side broke the device's context, eager's failure afterwards says nothing of eager.
      at_fault = eager if not reference["ok"] and (side.error is None or eager.failed_in != "context") else side
      fields["failed_in"] = "eager" if at_fault is eager else "compiled"
      fields["phase"] = at_fault.failed_in
      return self.base(side, fields)
    expected, got = compare.as_tuple(eager.value), compare.as_tuple(side.value)
    fields["status"] = "success"
    fields["type_match"] = compiled["dtypes"] == reference["dtypes"]
    fields["shape_match"] = compiled["shapes"] == reference["shapes"]
    fields["outputs"] = compare.compare_structures(expected, got)
    fields["first_correct_t"] = first_correct_t(expected, got)
    if side.untrusted:
      fields.update(self._untrusted(side, eager, expected, fields["first_correct_t"]))
    if fields["type_match"] and all(isinstance(o, torch.Tensor) for o in expected):
      fields["correctness"] = compare.public_correctness(expected, got)
    fields["speedup_e2e"] = ratio(reference["e2e"]["median"], compiled["e2e"]["median"])
    if compiled["gpu"]:
      fields["speedup_gpu"] = ratio(reference["gpu"]["median"], compiled["gpu"]["median"])
    if self.job.interleave and side is not eager:
      fields["speedup_e2e_90"] = timing.ratio_interval(*(self.blocks(s) for s in (eager, side)))
    return self.base(side, fields)

  def _untrusted(self, side, eager, expected, first_correct):
    """The other calls of a side that loads passes, and what it did to its inputs."""
    job = self.job
    t = max(first_correct if first_correct is not None else compare.BASE_T, compare.BASE_T)
    first, warm, kept = expected, side.warm, side.kept
    if job.facts.get("mutates_inputs"):
      # The inputs drift from call to call: only the first call can be compared, with eager on the same inputs.
      first, warm, kept = job.fresh_expected if job.fresh_expected is not None else expected, side.warm[:1], []
    out = {"poisoned_outputs": [r for _, v in warm[:1] for r in compare.compare_structures(first, v, t)]}
    out["other_calls"] = [
      {"call": kind, "number": i, "ok": all(r["ok"] for r in results), "reason": first_reason(results)}
      for kind, values in (("poisoned", warm), ("timed", kept))
      for i, v in values
      for results in [compare.compare_structures(first, v, t)]
    ]
    if side.fresh is not None:
      # At a looser tolerance than the compared call: another address may change the order of a sum.
      out["other_calls"].append(
        {"call": "fresh", "number": 0, "ok": all(r["ok"] for r in side.fresh), "reason": first_reason(side.fresh)}
      )
    out["changed_inputs"] = side.changed_inputs
    if "outputs" in job.without:
      out["other_calls"] = []
    mine, theirs = (
      set(compare.alias_relation(s.inputs or job.pristine, s.value)) if not job.interleave else set() for s in (side, eager)
    )
    out["alias_added"] = sorted(mine - theirs)
    return out

  def versus(self, sides, records):
    """Of two compilers that are compared: the ratio of their times, first over second, with its 90% interval."""
    by_name = {s.name: s for s in sides}
    pair = [by_name.get(name) for name in self.options.get("compare") or ()]
    if len(pair) != 2 or any(s is None or s.error is not None for s in pair):
      return
    first, second = (timing.statistics(self.used(s)["e2e_ms"])["median"] for s in pair)
    for record in records:
      if record["compiler"] == pair[1].name:
        record["versus"] = {
          "compiler": pair[0].name,
          "ratio": ratio(first, second),
          "interval_90": timing.ratio_interval(*(self.blocks(s) for s in pair)),
        }


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
