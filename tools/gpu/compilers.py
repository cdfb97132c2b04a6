#!/usr/bin/env python3
"""Eager, a backend that changes nothing, Inductor and Inductor rounding like eager, on as many variants as time allows.

  tools/gpu/compilers.py SAMPLES -o compilers.json [--seconds 150] [--jobs 8]

Compilation of the variants runs in parallel processes first (it fills Inductor's cache); timing is done alone afterwards, in
one process, compilers interleaved in blocks. Times are of the public protocol: seed, call, synchronise.
"""

import argparse
import multiprocessing
import os
import statistics
import time

import torch

import common
from common import replay, samples

OPTIONS = {"inductor": {}, "inductor_eager": {"emulate_precision_casts": True}}
TOLERANCE = {torch.float16: (1e-3, 1e-5), torch.bfloat16: (1.6e-2, 1e-5), torch.float32: (1.3e-6, 1e-5), torch.float64: (1e-7, 1e-7)}


def nothing(gm, inputs):
  return gm.forward


def build(name, model):
  if name == "eager":
    return model
  if name == "nope":
    return torch.compile(model, backend=nothing)
  return torch.compile(model, backend="inductor", options=dict(OPTIONS[name]))


def warm(job):
  """Compiles one variant with one compiler in a process of its own; the cache on disk keeps the kernels."""
  path, label, name = job
  try:
    variant = samples.load_variant(path, label)
    model = samples.build_model(variant, common.device())
    with torch.no_grad():
      build(name, model)(*common.cheap_inputs(variant, model))
    return None
  except Exception as e:  # noqa: BLE001
    return f"{path} {name}: {type(e).__name__}: {str(e)[:200]}"


def timed(run, inputs):
  common.synchronize()
  start = time.perf_counter()
  torch.manual_seed(1024)
  run(*inputs)
  common.synchronize()
  return time.perf_counter() - start


def tensors(value):
  return [t for v in value for t in tensors(v)] if isinstance(value, (tuple, list)) else [value]


def outside(result, reference):
  """Elements outside t = -5 over all outputs; -1 where shapes or dtypes differ."""
  count = 0
  for a, b in zip(tensors(result), tensors(reference)):
    if a.shape != b.shape or a.dtype != b.dtype:
      return -1
    rtol, atol = TOLERANCE.get(a.dtype, (0, 0))
    count += int((~torch.isclose(a.double(), b.double(), rtol=rtol, atol=atol, equal_nan=True)).sum())
  return count


def measure(path, label, names, trials):
  variant = samples.load_variant(path, label)
  torch._dynamo.reset()
  model = samples.build_model(variant, common.device())
  fresh = lambda: [t for t in (replay.live_inputs(variant, 7, device=common.device())[m.name]
                               for m in samples.ordered_metas(variant, model))]
  out = {}
  with torch.no_grad():
    runs = {name: build(name, samples.build_model(variant, common.device())) for name in names}
    reference = runs["eager"](*fresh())
    for name in names:
      out[name] = {"outside": outside(runs[name](*fresh()), reference)}
    inputs = fresh()
    times = {name: [] for name in names}
    for name in names:
      for _ in range(5):
        timed(runs[name], inputs)
    for _ in range(5):
      for name in names:
        times[name] += [timed(runs[name], inputs) for _ in range(trials // 5)]
  for name in names:
    out[name]["e2e_us"] = common.median_us(times[name])
  return out


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("samples")
  parser.add_argument("-o", "--output", required=True)
  parser.add_argument("--seconds", type=float, default=150)
  parser.add_argument("--jobs", type=int, default=8)
  parser.add_argument("--trials", type=int, default=50)
  parser.add_argument("--largest", type=int, default=1 << 30)
  args = parser.parse_args()
  results = common.Results(args.output, schema="passnet.compilers/1", variants={}, left_out=[], failures=[])
  deadline = common.Deadline(args.seconds)
  jobs = []
  for sample, label, path in common.all_variants(args.samples):
    if sum(common.capture._bytes(m) for m in samples.load_variant(path, label).metas) <= args.largest:
      jobs.append((sample, label, path))
    else:
      results.document["left_out"].append(f"{sample}/{label}")
  jobs = common.spread(jobs)
  names = ["eager", "nope"] + (list(OPTIONS) if torch.cuda.is_available() or os.environ.get("PASSNET_INDUCTOR_ON_CPU") else [])
  for start in range(0, len(jobs), 2 * args.jobs):
    if deadline.over():
      results.document["left_out"] += [f"{s}/{l}" for s, l, _ in jobs[start:]]
      break
    group = jobs[start:start + 2 * args.jobs]
    if len(names) > 2:
      with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        for failure in pool.imap_unordered(warm, [(p, l, n) for _, l, p in group for n in OPTIONS]):
          if failure:
            results.document["failures"].append(failure)
    for sample, label, path in group:
      try:
        results.document["variants"][f"{sample}/{label}"] = measure(path, label, names, args.trials)
      except Exception as e:  # noqa: BLE001
        results.document["failures"].append(f"{sample}/{label}: {type(e).__name__}: {str(e)[:300]}")
      results.save()
  results.save(force=True)
  done = results.document["variants"]
  print(f"compilers: {len(done)} variants, {len(results.document['failures'])} failures, {len(results.document['left_out'])} left out")
  for name in names[1:]:
    ratios = [v["eager"]["e2e_us"] / v[name]["e2e_us"] for v in done.values()]
    if ratios:
      print(f"  {name:15s} gmean {statistics.geometric_mean(ratios):.3f}  correct {sum(v[name]['outside'] == 0 for v in done.values())}/{len(done)}")


if __name__ == "__main__":
  main()
