"""Eager time of every node of a variant's graphs: an interpreter of the graph that runs each node again and again.

Per node: one call to warm up, then 30; the host's time less that of an empty loop, and on CUDA the device's time by events.
Calls that write their operand are repeated on it: values change, times do not.
"""

import time

import torch

from . import capture, encode, replay, samples, timing

REPEATS = 30
LEAST_US = 0.5


class _Timer(torch.fx.Interpreter):
  def __init__(self, module, device):
    super().__init__(module)
    self.device, self.rows = device, []

  def run_node(self, n):
    if n.op not in ("call_function", "call_method"):
      return super().run_node(n)
    args, kwargs = self.fetch_args_kwargs_from_env(n)
    call = getattr(self, n.op)
    result = call(n.target, args, kwargs)
    timing.synchronise(self.device)
    first = last = None
    if self.device.type == "cuda":
      first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
      first.record()
    started = time.perf_counter()
    for _ in range(REPEATS):
      result = call(n.target, args, kwargs)
    host = time.perf_counter() - started
    gpu_us = 0.0
    if last is not None:
      last.record()
      timing.synchronise(self.device)
      gpu_us = first.elapsed_time(last) * 1e3 / REPEATS
    host_us = max(host * 1e6 / REPEATS - _empty_us(), LEAST_US)
    target = encode.canonical_target(n.target) if n.op == "call_function" else "." + n.target
    self.rows.append(
      {"name": n.name, "target": target, "us": round(max(host_us, gpu_us), 3), "host_us": round(host_us, 3), "gpu_us": round(gpu_us, 3)}
    )
    return result


_empty = []


def _empty_us():
  """What a loop around nothing costs, measured once."""
  if not _empty:
    nothing = lambda target, args, kwargs: None  # noqa: E731
    started = time.perf_counter()
    for _ in range(1000):
      nothing(None, (), {})
    _empty.append((time.perf_counter() - started) * 1e3)
  return _empty[0]


def measure(variant, device):
  """[{"name", "target", "us", "host_us", "gpu_us"}] over all graphs in call order. Graphs after the first get their inputs
  from the capture's own run.
  """
  model = samples.build_model(variant, device.type)
  named = replay.public_inputs(variant, device)
  inputs = [named[m.name] for m in samples.ordered_metas(variant, model)]
  rows = []

  def backend(gm, _):
    def run(*given):
      timer = _Timer(gm, device)
      out = timer.run(*given)
      rows.extend(timer.rows)
      return out

    return run

  torch._dynamo.reset()
  torch.manual_seed(timing.SEED)
  with torch.no_grad():
    torch.compile(model, backend=backend)(*inputs)
  torch._dynamo.reset()
  return rows
