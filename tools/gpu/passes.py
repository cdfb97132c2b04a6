#!/usr/bin/env python3
"""Solved samples on a GPU: correct on both input families, and how fast, compilers interleaved.

  tools/gpu/passes.py SAMPLES -o passes.json [--seconds 300] [--only TEXT] [--trials 60]

SAMPLES is a folder of samples whose pass_dir is filled. Per variant: one poisoned call and one plain call on fresh inputs of
the sample's own and of the live family, compared with eager at t = -5 (outputs and mutated inputs); then times of the
public protocol (seed, call, synchronise) in interleaved blocks: eager, nope (a backend that changes nothing), passnet, and
passnet_grid: the same passes launched by kernel[grid], which a launch hook forces.
"""

import argparse
import os
import statistics
import time

import torch

import common
from common import replay, samples

from passnet.worker import compare, pass_loader, pass_manager, poison

NAMES = ("eager", "nope", "passnet", "passnet_grid")


def nothing(gm, inputs):
  return gm.forward


def set_grid_launch(on):
  """A launch hook makes every generated wrapper take its kernel[grid] path."""
  import triton
  hook = (lambda *args, **kwargs: None) if on else None
  runtime = getattr(getattr(triton, "knobs", None), "runtime", None)
  if runtime is None:
    return False
  chain = runtime.launch_enter_hook
  if hasattr(chain, "add"):
    (chain.add if on else chain.remove)(set_grid_launch.hook)
  else:
    runtime.launch_enter_hook = hook
  return True


set_grid_launch.hook = lambda *args, **kwargs: None


class Case:
  """One variant with its compiled forms."""

  def __init__(self, sample_dir, path, label):
    self.variant = samples.load_variant(path, label)
    pass_dir = os.path.abspath(os.path.join(sample_dir, "pass_dir"))
    with pass_loader.imported_as_pass_dir(pass_dir):
      self.backend = pass_manager.PassBackend(pass_loader.load(pass_dir), poisoned=True)
    torch._dynamo.reset()
    build = lambda: samples.build_model(self.variant, common.device())
    self.eager = build()
    self.order = [m.name for m in samples.ordered_metas(self.variant, self.eager)]
    self.compiled = torch.compile(build(), backend=self.backend)
    self.nope = torch.compile(build(), backend=nothing)

  def inputs(self, family, seed=7):
    named = (replay.public_inputs(self.variant, common.device()) if family == "sample"
             else replay.live_inputs(self.variant, seed, device=common.device()))
    return [named[n] for n in self.order]

  def check(self, family, poisoned):
    """Elements outside tolerance over outputs and inputs, and reasons."""
    self.backend.poisoned = poisoned
    mine, theirs = self.inputs(family), self.inputs(family)
    got, want = self.compiled(*mine), self.eager(*theirs)
    found = compare.compare_structures(want, got)
    found += [compare.compare_tensors(a, b) for a, b in zip(theirs, mine)]
    bad = [f for f in found if not f.get("ok", True)]
    return {"outside": sum(f.get("outside", 1) for f in bad), "bit_equal": all(f.get("bit_equal", True) for f in found),
            "reasons": [f.get("reason", "") for f in bad][:3]}

  def run(self, name):
    return {"eager": self.eager, "nope": self.nope}.get(name, self.compiled)


def timed(run, inputs):
  common.synchronize()
  start = time.perf_counter()
  torch.manual_seed(1024)
  run(*inputs)
  common.synchronize()
  return time.perf_counter() - start


def measure(case, trials, seconds=2.0):
  case.backend.poisoned = False
  inputs = case.inputs("live")
  times = {name: [] for name in NAMES}

  def block(name, count):
    if name == "passnet_grid":
      set_grid_launch(True)
    try:
      return [timed(case.run(name), inputs) for _ in range(count)]
    finally:
      if name == "passnet_grid":
        set_grid_launch(False)

  once = max(block(name, 3)[-1] for name in NAMES)
  count = max(1, min(trials // 6, int(seconds / 24 / max(once, 1e-6))))
  for _ in range(6):
    for name in NAMES:
      times[name] += block(name, 1 + count)[1:]  # the first call after a change of compiler is warm-up
  out = {f"{name}_us": common.median_us(v) for name, v in times.items()}
  out["trials"] = 6 * count
  return out


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("samples")
  parser.add_argument("-o", "--output", required=True)
  parser.add_argument("--seconds", type=float, default=300)
  parser.add_argument("--only", default="")
  parser.add_argument("--trials", type=int, default=60)
  parser.add_argument("--largest", type=int, default=1 << 30, help="bytes of inputs beyond which a variant is left out")
  parser.add_argument("--shard", default="0/1", help="I/N: every N-th variant, for several processes at once; not for timing")
  parser.add_argument("--no-time", action="store_true", help="correctness only")
  args = parser.parse_args()

  results = common.Results(args.output, schema="passnet.passes/1", variants={}, left_out=[])
  deadline = common.Deadline(args.seconds)
  done = results.document["variants"]
  shard, shards = (int(x) for x in args.shard.split("/"))
  todo = common.spread([v for v in common.all_variants(args.samples) if args.only in v[0]])[shard::shards]
  for sample, label, path in todo:
    name = f"{sample}/{label}"
    if deadline.over() or sum(common.capture._bytes(m) for m in samples.load_variant(path, label).metas) > args.largest:
      results.document["left_out"].append(name)
      continue
    entry = done[name] = {}
    try:
      poison.clear_violations()
      case = Case(os.path.join(args.samples, sample), path, label)
      with torch.no_grad():
        for family in ("sample", "live"):
          for poisoned in (True, False):
            entry[f"{family}_{'poisoned' if poisoned else 'plain'}"] = case.check(family, poisoned)
        entry["matches"] = sum(len(p["matches"]) for r in case.backend.records for p in r["passes"])
        entry["violations"] = list(poison.violations)
        if not args.no_time:
          entry.update(measure(case, args.trials))
      entry["status"] = "correct" if all(v["outside"] == 0 for v in entry.values() if isinstance(v, dict)) else "wrong"
    except Exception as e:  # noqa: BLE001 - one variant that fails is one line of the table
      entry["status"], entry["error"] = "crash", f"{type(e).__name__}: {str(e)[:400]}"
      entry["violations"] = list(poison.violations)
      case = None
      if "CUDA error" in str(e):  # the context is gone: nothing after this can be trusted
        results.save(force=True)
        print(name, entry["error"])
        return 1
    case = None
    torch.cuda.empty_cache() if torch.cuda.is_available() else None
    results.save()
    if "passnet_us" in entry:
      print(f"{name:60s} {entry['status']:8s} eager {entry['eager_us']:9.1f}  nope {entry['eager_us'] / entry['nope_us']:.2f}  "
            f"passnet {entry['eager_us'] / entry['passnet_us']:.2f}  grid {entry['eager_us'] / entry['passnet_grid_us']:.2f}", flush=True)
    elif entry["status"] != "correct":
      why = entry.get("error") or next((str(v) for v in entry.values() if isinstance(v, dict) and v["outside"]), "")
      print(f"{name:60s} {entry['status']:8s} {why[:220]}", flush=True)
  results.save(force=True)
  timed_ones = [v for v in done.values() if "passnet_us" in v]
  for column in ("nope", "passnet", "passnet_grid"):
    ratios = [v["eager_us"] / v[f"{column}_us"] for v in timed_ones]
    if ratios:
      print(f"{column:13s} gmean {statistics.geometric_mean(ratios):.3f} over {len(ratios)}, at or above 1: {sum(r >= 1 for r in ratios)}")
  states = [v["status"] for v in done.values()]
  print(f"{states.count('correct')} correct, {states.count('wrong')} wrong, {states.count('crash')} crashed, {len(results.document['left_out'])} left out")
  return 0 if states.count("correct") == len(states) else 1


if __name__ == "__main__":
  raise SystemExit(main())
