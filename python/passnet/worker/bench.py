"""The bench command: compilers against each other in one process, in interleaved blocks.

Compilers: "eager"; "nope" (a backend that changes nothing); "inductor"; "inductor_eager" (with every switch
for eager's numerics that this torch has); {"name", "pass_dir"} for a state of passes. Each has its own copies
of the inputs.
"""

import contextlib
import gc

import torch

from . import capture, compare, compilers, interpreter, node_times, record, replay, samples, timing
from .errors import WorkerError, describe

DEFAULTS = {
  "warmup": 25,
  "trials": 100,
  "block": 10,
  "device": "cuda",
  "family": "sample",
  "seed": 1,
  "raw": False,
  "nodes": False,  # also the eager time of every node
}


def command(request, progress):
  """bench: {"sample" | "variants", "labels"?, "compilers": [...], "options"?, "meta"?} -> {"variants":
  [{"label", "compilers": {name: ...}}]}.
  """
  options = {**DEFAULTS, **request.get("options", {})}
  device = torch.device(options["device"])
  if device.type == "cuda" and not torch.cuda.is_available():
    raise WorkerError(
      "no_gpu",
      "bench on cuda needs a GPU and torch sees none",
      "give device cpu to time on the host, for tests only",
    )
  pairs = (
    samples.variant_dirs(request["sample"]) if "sample" in request else [(d, d) for d in request["variants"]]
  )
  wanted = request.get("labels")
  pairs = [p for p in pairs if not wanted or p[0] in wanted]
  compilers = [c if isinstance(c, dict) else {"name": c} for c in request.get("compilers", ["eager", "nope"])]
  out = []
  for label, path in pairs:
    try:
      variant = samples.load_variant(path, label, request.get("meta", {}).get(label))
      result = _bench_variant(variant, compilers, options, device, request.get("rejected"))
      if options["nodes"]:
        result["nodes"] = node_times.measure(variant, device)
    except Exception as e:  # noqa: BLE001
      result = {"error": describe(e)}
    out.append({"label": label, **result})
    gc.collect()
    if device.type == "cuda":
      torch.cuda.empty_cache()
    progress({"variant": label, "done": len(out), "of": len(pairs)})
  return {"variants": out, "device": _device_name(device)}


def _device_name(device):
  return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


# The names under which the scripts of a GPU run know them.
inductor_eager_switches = compilers.inductor_eager_switches
first_correct_t = record.first_correct_t


class Contender:
  """One compiler on one variant: its callable, its inputs, its times."""

  def __init__(self, spec, variant, inputs, device, stack, rejected):
    self.name = spec["name"]
    self.device = device
    self.inputs = [t.clone() for t in inputs]
    model = samples.build_model(variant, device.type)
    self.backend = None
    self.call = self._compile(spec, model, stack, rejected)
    self.blocks_e2e, self.blocks_gpu = [], []

  def _compile(self, spec, model, stack, rejected):
    torch._dynamo.reset()
    if "pass_dir" in spec:
      self.backend = compilers.load_backend(spec, rejected)
      spec = {**spec, "kind": "pass_mgr"}
    return compilers.compile_model(spec, model, self.backend)

  def warm_up(self, count):
    if self.backend:
      self.backend.poisoned = True
    for _ in range(count):
      if self.backend:
        self.backend.start_call()
      torch.manual_seed(timing.SEED)
      self.call(*self.inputs)
    timing.synchronise(self.device)
    if self.backend:
      self.backend.poisoned = False

  def run_block(self, count):
    e2e, gpu = [], []
    for _ in range(count):
      _, host, device = timing.timed_call(self.call, self.inputs, self.device)
      e2e.append(host)
      if device is not None:
        gpu.append(device)
    self.blocks_e2e.append(e2e)
    self.blocks_gpu.append(gpu)


def _bench_variant(variant, compilers, options, device, rejected):
  model = samples.build_model(variant, device.type)
  metas = samples.ordered_metas(variant, model)
  named = (
    replay.public_inputs(variant, device)
    if options["family"] == "sample"
    else replay.live_inputs(variant, options["seed"], capture.running_variances(variant), device)
  )
  inputs = [named[m.name] for m in metas]
  results, contenders = {}, []
  with contextlib.ExitStack() as stack:
    if device.type == "cpu":
      stack.enter_context(interpreter.Session())
    for spec in compilers:
      try:
        contender = Contender(spec, variant, inputs, device, stack, rejected)
        contender.warm_up(max(1, options["warmup"]))
        contenders.append(contender)
      except Exception as e:  # noqa: BLE001 - one compiler that fails leaves the others
        results[spec["name"]] = {"ok": False, "error": describe(e, with_traceback=False)}
    rounds = -(-options["trials"] // options["block"])
    for i in range(rounds):  # A B C, C B A, ...: what drifts hits all alike
      for contender in contenders if i % 2 == 0 else reversed(contenders):
        contender.run_block(min(options["block"], options["trials"] - i * options["block"]))
    expected = _fresh_call(model, inputs)
    baseline = next((c for c in contenders if c.name == "eager"), None)
    for contender in contenders:
      results[contender.name] = _report(contender, baseline, expected, inputs, options)
  return {"compilers": results, "bytes": sum(t.numel() * t.element_size() for t in inputs)}


def _fresh_call(function, inputs):
  torch.manual_seed(timing.SEED)
  return function(*[t.clone() for t in inputs])


def _report(contender, baseline, expected, inputs, options):
  out = {
    "ok": True,
    "e2e_ms": timing.statistics([t for b in contender.blocks_e2e for t in b]),
    "gpu_ms": timing.statistics([t for b in contender.blocks_gpu for t in b]),
  }
  if baseline is not None and contender is not baseline:
    out["speedup_e2e"] = round(baseline_median(baseline, "e2e") / out["e2e_ms"]["median"], 5)
    out["speedup_e2e_90"] = timing.ratio_interval(baseline.blocks_e2e, contender.blocks_e2e)
    if out["gpu_ms"]:
      out["speedup_gpu"] = round(baseline_median(baseline, "gpu") / out["gpu_ms"]["median"], 5)
  if options["raw"]:
    out["blocks_e2e_ms"], out["blocks_gpu_ms"] = contender.blocks_e2e, contender.blocks_gpu
  got = _fresh_call(contender.call, inputs)
  out["first_correct_t"] = record.first_correct_t(expected, got)
  out["outputs"] = compare.compare_structures(expected, got)
  if contender.backend:
    out["graphs"] = contender.backend.records
  return out


def baseline_median(contender, kind):
  blocks = contender.blocks_e2e if kind == "e2e" else contender.blocks_gpu
  return timing.statistics([t for b in blocks for t in b])["median"]
