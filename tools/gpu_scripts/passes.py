#!/usr/bin/env python3
"""Solved samples on a GPU: correct on both input families, and how fast, compilers interleaved.

  passes.py SAMPLES -o passes.json [--seconds 300] [--only TEXT] [--first NAME] [--trials 96]

SAMPLES is a folder of samples whose pass_dir is filled. Per variant: one poisoned call and one plain call on fresh inputs of
the sample's own and of the live family, compared with eager at t = -5 (outputs and mutated inputs); then times of the
public protocol (seed, call, synchronise; events inside) in interleaved blocks: eager, nope (a backend that changes nothing),
passnet, and passnet_grid: a second copy of the same passes that launches by kernel[grid] on every call, its wrappers being
told from their first call on that launch hooks are set. The copy differs from a plain kernel[grid] by a few attribute
look-ups a call. `bound` says of both copies how many bound launchers they kept; a passnet_grid that kept one is an error.

Without a GPU the kernels are interpreted: the answers count, the times say nothing.
"""

import argparse
import contextlib
import os
import statistics
import sys

import torch

import common
from common import replay, samples

from passnet.worker import bench, compare, interpreter, pass_loader, pass_manager, poison, timing

NAMES = ("eager", "nope", "passnet", "passnet_grid")
BLOCKS = 6


def nothing(gm, inputs):
  return gm.forward


def shared_globals(backend):
  """The globals of the module that holds the wrapper: one a load."""
  return backend.pass_set.passes[0].function.__globals__


def bound_launchers(backend):
  """How many (entry, alignment) pairs of one copy keep a bound launcher."""
  return sum(slot is not None for entry in shared_globals(backend).get("_READY", {}).values() for slot in entry[4:6])


def keep_to_grid(backend):
  """From now on every call of this copy launches by kernel[grid]; False where the pass_dir has no other way anyway."""
  names = shared_globals(backend)
  if "_hooked" not in names:
    return False
  names["_hooked"] = lambda: True
  return True


class Case:
  """One variant with its compiled forms."""

  def __init__(self, sample_dir, path, label):
    self.variant = samples.load_variant(path, label)
    self.pass_dir = os.path.abspath(os.path.join(sample_dir, "pass_dir"))
    torch._dynamo.reset()
    self.backends = {"passnet": self._load(), "passnet_grid": self._load()}
    if not keep_to_grid(self.backends["passnet_grid"]):
      del self.backends["passnet_grid"]
    build = lambda: samples.build_model(self.variant, common.device())
    self.calls = {"eager": build(), "nope": torch.compile(build(), backend=nothing)}
    for name, backend in self.backends.items():
      self.calls[name] = torch.compile(build(), backend=backend)
    self.order = [m.name for m in samples.ordered_metas(self.variant, self.calls["eager"])]
    self.drawn = {}

  def _load(self):
    with pass_loader.imported_as_pass_dir(self.pass_dir):
      return pass_manager.PassBackend(pass_loader.load(self.pass_dir), poisoned=True)

  def inputs(self, family, seed=7):
    """Fresh copies; drawn once, which takes longer than any call where there are a billion elements."""
    if family not in self.drawn:
      self.drawn[family] = (replay.public_inputs(self.variant, common.device()) if family == "sample"
                            else replay.live_inputs(self.variant, seed, device=common.device()))
    return [self.drawn[family][n].clone() for n in self.order]

  def call(self, name, inputs):
    if name in self.backends:
      self.backends[name].start_call()
    torch.manual_seed(timing.SEED)
    return self.calls[name](*inputs)

  def check(self, name, family, poisoned):
    """Elements outside tolerance over outputs and inputs, and reasons."""
    self.backends[name].poisoned = poisoned
    mine, theirs = self.inputs(family), self.inputs(family)
    got, want = self.call(name, mine), self.call("eager", theirs)
    found = compare.compare_structures(want, got)
    found += [compare.compare_tensors(a, b) for a, b in zip(theirs, mine)]
    bad = [f for f in found if not f.get("ok", True)]
    return {"outside": sum(f.get("outside", 1) for f in bad), "bit_equal": all(f.get("bit_equal", True) for f in found),
            "first_correct_t": bench.first_correct_t(want, got), "reasons": [f.get("reason", "") for f in bad][:3]}


def check(case, entry, families):
  for family in families:
    for poisoned in (True, False):
      entry[f"{family}_{'poisoned' if poisoned else 'plain'}"] = case.check("passnet", family, poisoned)
  if "passnet_grid" in case.backends:
    entry["grid_plain"] = case.check("passnet_grid", families[0], False)
  entry["bound"] = {name: bound_launchers(backend) for name, backend in case.backends.items()}
  if entry["bound"].get("passnet_grid"):
    raise RuntimeError("passnet_grid kept a bound launcher: the column would not be what it says")
  ts = [v["first_correct_t"] for v in entry.values() if isinstance(v, dict) and "first_correct_t" in v]
  entry["first_correct_t"] = None if None in ts else max(ts)
  entry["matches"] = sum(len(p["matches"]) for r in case.backends["passnet"].records for p in r["passes"])


def measure(case, trials, seconds):
  names = [n for n in NAMES if n in case.calls]
  device = torch.device(common.device())
  for backend in case.backends.values():
    backend.poisoned = False
  inputs = {name: case.inputs("live") for name in names}  # each its own: a variant that writes into them changes only its own

  def block(name, count):
    out = []
    for _ in range(count):
      if name in case.backends:
        case.backends[name].start_call()
      out.append(timing.timed_call(case.calls[name], inputs[name], device)[1:])
    return out

  once = max(block(name, 3)[-1][0] for name in names) / 1e3
  count = max(1, min(trials // BLOCKS, int(seconds / (BLOCKS * len(names)) / max(once, 1e-6))))
  for name in names:
    block(name, min(25, 2 * count))
  times = {name: [] for name in names}
  for i in range(BLOCKS):
    for name in names if i % 2 == 0 else reversed(names):  # what drifts hits all alike
      times[name] += block(name, 1 + count)[1:]  # the first call after a change of compiler is warm-up
  out = {"trials": BLOCKS * count, "bytes": sum(t.numel() * t.element_size() for t in inputs["eager"])}
  for name in names:
    out[f"{name}_us"] = common.median_us([e2e / 1e3 for e2e, _ in times[name]])
    if times[name][0][1] is not None:
      out[f"{name}_gpu_us"] = common.median_us([gpu / 1e3 for _, gpu in times[name]])
  return out


def table_line(name, entry):
  ratio = lambda column: f"{entry['eager_us'] / entry[column + '_us']:.2f}" if column + "_us" in entry else "   -"
  return (f"{name:60s} {entry['status']:8s} eager {entry['eager_us']:9.1f}  nope {ratio('nope')}  passnet {ratio('passnet')}  "
          f"grid {ratio('passnet_grid')}")


def run_variant(args, sample, label, path, entry):
  poison.clear_violations()
  try:
    case = Case(os.path.join(args.samples, sample), path, label)
    check(case, entry, args.families.split(","))
    if not args.no_time:
      entry.update(measure(case, args.trials, args.seconds_each))
    entry["violations"] = list(poison.violations)
    outside = any(v.get("outside") for v in entry.values() if isinstance(v, dict))
    entry["status"] = "wrong" if outside or entry["violations"] else "correct"
  except Exception as e:  # noqa: BLE001 - one variant that fails is one line of the table
    inner = pass_manager.innermost(e)
    entry["status"], entry["error"] = "crash", f"{type(inner).__name__}: {str(inner)[:400]}"
    entry["violations"] = list(poison.violations)
    return "CUDA error" not in str(e)  # else the context is gone: nothing after this can be trusted
  return True


def wanted_variants(args):
  shard, shards = (int(x) for x in args.shard.split("/"))
  all_of_them = [v for v in common.all_variants(args.samples) if args.only in v[0] and v[0] not in args.without]
  first = [v for name in args.first for v in all_of_them if v[0] == name]
  rest = [] if args.first_only else common.spread([v for v in all_of_them if v[0] not in args.first])
  return (first + rest)[shard::shards]


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("samples")
  parser.add_argument("-o", "--output", required=True)
  parser.add_argument("--seconds", type=float, default=300)
  parser.add_argument("--seconds-each", type=float, default=2.0, help="timed calls of one variant take about this long at most")
  parser.add_argument("--only", default="", help="samples whose name holds this text")
  parser.add_argument("--first", action="append", default=[], help="this sample before all others, with all its variants")
  parser.add_argument("--first-only", action="store_true", help="nothing but the samples named by --first")
  parser.add_argument("--without", action="append", default=[], help="leave this sample out")
  parser.add_argument("--trials", type=int, default=96)
  parser.add_argument("--largest", type=int, default=1 << 30, help="bytes of inputs beyond which a variant is left out")
  parser.add_argument("--shard", default="0/1", help="I/N: every N-th variant, for several processes at once; not for timing")
  parser.add_argument("--families", default="sample,live", help="input families to check; times are of the live one")
  parser.add_argument("--no-time", action="store_true", help="correctness only")
  args = parser.parse_args()

  results = common.Results(args.output, schema="passnet.passes/1", variants={}, left_out=[])
  deadline = common.Deadline(args.seconds)
  done = results.document["variants"]
  session = contextlib.nullcontext() if torch.cuda.is_available() else interpreter.Session()
  with session:
    for sample, label, path in wanted_variants(args):
      name = f"{sample}/{label}"
      if deadline.over() or sum(common.capture._bytes(m) for m in samples.load_variant(path, label).metas) > args.largest:
        results.document["left_out"].append(name)
        continue
      entry = done[name] = {}
      alive = run_variant(args, sample, label, path, entry)
      if torch.cuda.is_available() and alive:
        torch.cuda.empty_cache()
      results.save(force=not alive)
      if "passnet_us" in entry:
        print(table_line(name, entry), flush=True)
      if entry["status"] != "correct":
        why = entry.get("error") or next((str(v) for v in entry.values() if isinstance(v, dict) and v.get("outside")), "")
        print(f"{name:60s} {entry['status']:8s} {why or entry['violations']}"[:280], flush=True)
      if not alive:
        return 1
  results.save(force=True)
  timed_ones = [v for v in done.values() if "passnet_us" in v]
  for column in NAMES[1:]:
    ratios = [v["eager_us"] / v[f"{column}_us"] for v in timed_ones if f"{column}_us" in v]
    if ratios:
      print(f"{column:13s} gmean {statistics.geometric_mean(ratios):.3f} over {len(ratios)}, at or above 1: {sum(r >= 1 for r in ratios)}")
  states = [v["status"] for v in done.values()]
  print(f"{states.count('correct')} correct, {states.count('wrong')} wrong, {states.count('crash')} crashed, "
        f"{len(results.document['left_out'])} left out")
  return 0 if states.count("correct") == len(states) else 1


if __name__ == "__main__":
  sys.exit(main())
