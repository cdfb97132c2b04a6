#!/usr/bin/env python3
"""Per node of every variant: run-time strides, host time of one eager call, device time.

  node_facts.py SAMPLES -o node_facts.json [--seconds 200]

Host time is taken with an empty queue: synchronise, call, read the clock before synchronising again; the median of the
repetitions. Device time is by events around 20 calls in a row, less nothing. Nodes of equal target, arguments
and operand metadata are timed once. Strides are those of a real run, library kernels included.
"""

import argparse
import time

import torch

import common
from common import capture, samples

from passnet.worker import encode


class Timer(torch.fx.Interpreter):
  """Runs a graph node by node, noting metadata and, for forms not seen yet, times."""

  def __init__(self, gm, facts, rows):
    super().__init__(gm)
    self.facts, self.rows = facts, rows

  def run_node(self, n):
    if n.op not in ("call_function", "call_method"):
      return super().run_node(n)
    args, kwargs = self.fetch_args_kwargs_from_env(n)
    key = form_key(n, args, kwargs)
    if key not in self.facts:
      self.facts[key] = time_call(n, args, kwargs)
    result = getattr(args[0], n.target)(*args[1:], **kwargs) if n.op == "call_method" else n.target(*args, **kwargs)
    self.rows.append({"node": n.name, "form": key, **describe(result)})
    return result


def describe(value):
  if isinstance(value, torch.Tensor):
    return {"shape": list(value.shape), "stride": list(value.stride()), "dtype": str(value.dtype)}
  if isinstance(value, (tuple, list)):
    return {"items": [describe(v) for v in value]}
  return {"value": repr(value)[:80]}


def form_key(n, args, kwargs):
  target = encode.canonical_target(n.target) if n.op == "call_function" else "." + n.target

  def text(v):
    if isinstance(v, torch.Tensor):
      return f"{str(v.dtype)[6:]}{list(v.shape)}" + ("" if v.is_contiguous() else f"s{list(v.stride())}")
    if isinstance(v, (tuple, list)):
      return "(" + ",".join(text(x) for x in v) + ")"
    return str(v)

  return target + "(" + ", ".join([text(a) for a in args] + [f"{k}={text(v)}" for k, v in kwargs.items()]) + ")"


def time_call(n, args, kwargs):
  def call():
    if n.op == "call_method":
      return getattr(args[0], n.target)(*args[1:], **kwargs)
    return n.target(*args, **kwargs)

  for _ in range(3):
    call()
  common.synchronize()
  start = time.perf_counter()
  call()
  common.synchronize()
  once = time.perf_counter() - start
  reps = max(5, min(60, int(0.03 / max(once, 1e-6))))
  host = []
  for _ in range(reps):
    common.synchronize()
    start = time.perf_counter()
    call()
    host.append(time.perf_counter() - start)
  common.synchronize()
  out = {"host_us": common.median_us(host), "wall_us": round(once * 1e6, 2)}
  if torch.cuda.is_available():
    batch = 20 if once < 1e-3 else 3
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(batch):
      call()
    end.record()
    common.synchronize()
    out["device_us"] = round(begin.elapsed_time(end) * 1e3 / batch, 3)
  return out


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("samples")
  parser.add_argument("-o", "--output", required=True)
  parser.add_argument("--seconds", type=float, default=200)
  parser.add_argument("--largest", type=int, default=40 << 30, help="bytes of inputs beyond which a variant is left out")
  args = parser.parse_args()
  results = common.Results(args.output, schema="passnet.node_facts/1", variants={}, forms={}, left_out=[])
  deadline = common.Deadline(args.seconds)
  for sample, label, path in common.all_variants(args.samples):
    name = f"{sample}/{label}"
    variant = samples.load_variant(path, label)
    size = sum(capture._bytes(m) for m in variant.metas)
    if deadline.over() or size > args.largest:
      results.document["left_out"].append(name)
      continue
    try:
      graphs = capture.record_graphs(variant, common.device())
      rows = []
      model = samples.build_model(variant, common.device())
      by_name = dict(zip([m.name for m in samples.ordered_metas(variant, model)], common.cheap_inputs(variant, model)))
      if len(graphs) == 1:
        gm = graphs[0]
        inputs = [by_name[encode.input_name(p)] for p in gm.graph.nodes if p.op == "placeholder"]
        with torch.no_grad():
          Timer(gm, results.document["forms"], rows).run(*inputs)
      results.document["variants"][name] = rows
      del by_name
    except Exception as e:  # noqa: BLE001 - a variant that fails is a fact too
      results.document["variants"][name] = {"error": f"{type(e).__name__}: {str(e)[:300]}"}
    if torch.cuda.is_available():
      torch.cuda.empty_cache()
    results.save()
  results.save(force=True)
  bad = [k for k, v in results.document["variants"].items() if isinstance(v, dict)]
  for k in bad[:10]:
    print("  ", k, results.document["variants"][k]["error"])
  print(f"node facts: {len(results.document['variants'])} variants, {len(results.document['forms'])} forms, "
        f"{len(bad)} failed, {len(results.document['left_out'])} left out")
  return 1 if bad else 0


if __name__ == "__main__":
  raise SystemExit(main())
