"""The evaluate command: one variant by the public protocol, in the public order, as one record.

Compiled first: build, warm-up under the guard, timed trials without it, one more call whose outputs are
compared; then eager the same way. The poisoned warm-up outputs are compared too. Everything a text log or a
score needs is in the record; nothing is decided here.
"""

import gc
import random
import traceback

import numpy as np
import torch

from . import bench, compare, interpreter, pass_loader, pass_manager, poison, replay, samples, timing
from .errors import WorkerError, describe

DEFAULTS = {
  "warmup": 25,
  "trials": 100,
  "device": "cuda",
  "compiler": "pass_mgr",
  "replacement_func_limit": 1,
  "pattern_limit": 100,
}
INITIAL_SEED = 123


def command(request, progress):
  """evaluate: {"variant": directory, "pass_dir"?, "const_pass_dir"?, "rejected"?, "options"?} -> the record."""
  if "variant" not in request:
    raise WorkerError("request.field", "the request has no field 'variant'", "")
  options = {**DEFAULTS, **request.get("options", {})}
  device = torch.device(options["device"])
  if device.type == "cuda" and not torch.cuda.is_available():
    raise WorkerError("no_gpu", "evaluation on cuda needs a GPU and torch sees none", "")
  random.seed(INITIAL_SEED)
  np.random.seed(INITIAL_SEED)
  torch.manual_seed(INITIAL_SEED)
  record = {
    "variant": request["variant"],
    "compiler": options["compiler"],
    "warmup": options["warmup"],
    "trials": options["trials"],
    "device": options["device"],
    "hardware": bench._device_name(device),
    "torch": torch.__version__,
    "status": "failed",
  }
  if device.type == "cpu":
    with interpreter.Session():
      return _evaluate(record, request, options, device, progress)
  return _evaluate(record, request, options, device, progress)


def _evaluate(record, request, options, device, progress):
  variant = samples.load_variant(request["variant"])
  record["dtype"] = variant.dtype_name
  try:
    backend = _backend(request, options, record)
    named = replay.public_inputs(variant, device)
    model = samples.build_model(variant, device.type)
    inputs = [named[m.name] for m in samples.ordered_metas(variant, model)]
  except Exception as e:  # noqa: BLE001
    record["failed_in"] = "load"
    record["error"] = _failure(e)
    return record
  torch._dynamo.reset()
  call = {
    "pass_mgr": lambda: torch.compile(model, backend=backend),
    "nope": lambda: torch.compile(model, backend=lambda gm, _: gm),
    "inductor": lambda: torch.compile(model),
    "eager": lambda: model,
  }[options["compiler"]]()
  progress({"phase": "compiled"})
  poisoned = _measure(record, "compiled", call, inputs, options, device, backend)
  progress({"phase": "eager"})
  _measure(record, "eager", model, inputs, options, device, None)
  if backend is not None:
    record["graphs"] = backend.records
    record["violations"] = list(poison.violations)
  _judge(record, poisoned)
  return record


def _backend(request, options, record):
  if options["compiler"] != "pass_mgr":
    if options["compiler"] not in ("nope", "inductor", "eager"):
      raise WorkerError(
        "compiler", f"unknown compiler {options['compiler']!r}", "pass_mgr, nope, inductor, eager"
      )
    return None
  with pass_loader.imported_as_pass_dir(request["pass_dir"]):
    passes = pass_loader.load(
      request["pass_dir"],
      request.get("const_pass_dir"),
      request.get("rejected"),
      options["replacement_func_limit"],
      options["pattern_limit"],
    )
  record["loaded"], record["skipped"] = [p.name for p in passes.passes], passes.skipped
  return pass_manager.PassBackend(passes)


def _failure(error):
  inner = pass_manager.innermost(error)
  return {
    **describe(inner, with_traceback=False),
    "type": type(error).__name__,
    "traceback": "".join(traceback.format_exception(type(inner), inner, inner.__traceback__)[-20:]),
  }


def _measure(record, side, call, inputs, options, device, backend):
  """Warm-up, trials and the compared call of one side; fills record[side]. Returns the outputs of the last
  poisoned call.
  """
  out = record[side] = {"ok": False}
  warm = None
  poison.clear_violations() if backend else None
  try:
    for _ in range(options["warmup"]):
      warm = _one(call, inputs, backend, True)
    timing.synchronise(device)
    e2e, gpu = [], []
    for _ in range(options["trials"]):
      if backend:
        backend.poisoned = False
        backend.start_call()
      _, host, on_device = timing.timed_call(call, inputs, device)
      e2e.append(host)
      gpu += [] if on_device is None else [on_device]
    result = _one(call, inputs, backend, False)
    timing.synchronise(device)
    out.update(ok=True, e2e_ms=e2e, gpu_ms=gpu, e2e=timing.statistics(e2e), gpu=timing.statistics(gpu))
    out["value"] = compare.as_tuple(result)
    out["dtypes"] = [
      str(o.dtype).removeprefix("torch.") if isinstance(o, torch.Tensor) else type(o).__name__
      for o in out["value"]
    ]
    out["shapes"] = [list(o.shape) if isinstance(o, torch.Tensor) else None for o in out["value"]]
  except Exception as e:  # noqa: BLE001 - the candidate's failure is the record
    out["error"] = _failure(e)
  gc.collect()
  if device.type == "cuda":
    torch.cuda.empty_cache()
  return warm


def _one(call, inputs, backend, poisoned):
  if backend:
    backend.poisoned = poisoned
    backend.start_call()
  torch.manual_seed(timing.SEED)
  return call(*inputs)


def _judge(record, poisoned):
  compiled, eager = record["compiled"], record["eager"]
  got, expected = compiled.pop("value", None), eager.pop("value", None)
  if not (compiled["ok"] and eager["ok"]):
    record["failed_in"] = "eager" if not eager["ok"] else "compiled"
    return
  record["status"] = "success"
  record["type_match"] = compiled["dtypes"] == eager["dtypes"]
  record["shape_match"] = compiled["shapes"] == eager["shapes"]
  record["outputs"] = compare.compare_structures(expected, got)
  if poisoned is not None:
    record["poisoned_outputs"] = compare.compare_structures(expected, poisoned)
  if record["type_match"] and all(isinstance(o, torch.Tensor) for o in expected):
    record["correctness"] = compare.public_correctness(expected, got)
  record["first_correct_t"] = bench.first_correct_t(expected, got)
  record["speedup_e2e"] = float(f"{eager['e2e']['median'] / compiled['e2e']['median']:.5f}")
  if compiled["gpu"]:
    record["speedup_gpu"] = float(f"{eager['gpu']['median'] / compiled['gpu']['median']:.5f}")
