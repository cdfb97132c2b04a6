#!/usr/bin/env python3
"""Eager, a backend that changes nothing, Inductor and Inductor rounding like eager, on as many variants as time allows.

  compilers.py SAMPLES -o compilers.json [--seconds 150] [--jobs 8]

Compilation of the variants runs in parallel processes first (it fills Inductor's cache); timing is done alone afterwards, in
one process, compilers interleaved in blocks. Times are of the public protocol: seed, call, synchronise.
"""

import argparse
import multiprocessing
import os
import statistics

import torch

import common
from common import replay, samples

from passnet.worker import bench, compare, timing

OPTIONS = {"inductor": {}, "inductor_eager": bench.inductor_eager_switches()}


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
    build(name, model)(*common.cheap_inputs(variant, model))
    return None
  except Exception as e:  # noqa: BLE001
    return f"{path} {name}: {type(e).__name__}: {str(e)[:200]}"


def measure(path, label, names, trials):
  variant = samples.load_variant(path, label)
  torch._dynamo.reset()
  model = samples.build_model(variant, common.device())
  device = torch.device(common.device())
  order = [m.name for m in samples.ordered_metas(variant, model)]

  def fresh():
    named = replay.live_inputs(variant, 7, device=device)
    return [named[n] for n in order]

  def once(name, inputs):
    torch.manual_seed(timing.SEED)
    return runs[name](*inputs)

  runs = {name: build(name, samples.build_model(variant, common.device())) for name in names}
  reference, out = once("eager", fresh()), {}
  for name in names:
    got = once(name, fresh())
    found = [r for r in compare.compare_structures(reference, got) if not r["ok"]]
    out[name] = {"outside": sum(r.get("outside", 1) for r in found), "first_correct_t": bench.first_correct_t(reference, got)}
  inputs = {name: fresh() for name in names}
  times = {name: [] for name in names}
  for name in names:
    for _ in range(5):
      timing.timed_call(runs[name], inputs[name], device)
  for i in range(5):
    for name in names if i % 2 == 0 else reversed(names):
      times[name] += [timing.timed_call(runs[name], inputs[name], device)[1:] for _ in range(max(1, trials // 5))]
  for name in names:
    out[name]["e2e_us"] = common.median_us([e2e / 1e3 for e2e, _ in times[name]])
    if times[name][0][1] is not None:
      out[name]["gpu_us"] = common.median_us([gpu / 1e3 for _, gpu in times[name]])
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
  for name in names[1:]:
    ratios = [v["eager"]["e2e_us"] / v[name]["e2e_us"] for v in done.values()]
    if ratios:
      print(f"  {name:15s} gmean {statistics.geometric_mean(ratios):.3f}  correct {sum(v[name]['outside'] == 0 for v in done.values())}/{len(done)}")
  print(f"compilers: {len(done)} variants, {len(results.document['failures'])} failures, {len(results.document['left_out'])} left out")
  return 0 if done else 1


if __name__ == "__main__":
  raise SystemExit(main())
