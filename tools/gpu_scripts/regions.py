#!/usr/bin/env python3
"""Every wrapper of solved samples alone on a GPU: right against eager, bytes a second, next to eager's own operators.

  regions.py SAMPLES -o regions.json [--seconds 200] [--only TEXT] [--compile]

SAMPLES is a folder of samples whose pass_dir is filled. Each pass is met in the real path, its arguments are kept, and then the
wrapper and the pattern (eager's operators, as the pass matches them) are run on them: elements outside tolerance at t = -5,
device time of both by events with a cold cache, host time of both, and with --compile that of torch.compile's default mode.
`bound` is the time that the bytes alone need at the bandwidth of a large copy measured in the same run; `share` is bound over
device time. Bytes: each input and output tensor once, by its elements, so a region that reads an input twice is not excused.

Without a GPU the kernels are interpreted and nothing is timed.
"""

import argparse
import contextlib
import os
import sys
import time

import torch

import common
from common import replay, samples

from passnet.worker import compare, interpreter, pass_loader, pass_manager

FAMILIES = ("live", "sample")


def copy_bandwidth():
  """Bytes a second of a large device copy, read and write counted."""
  import triton.testing
  source = torch.empty(1 << 29, dtype=torch.uint8, device="cuda")
  target = torch.empty_like(source)
  ms = triton.testing.do_bench(lambda: target.copy_(source), return_mode="median")
  return 2 * source.numel() / ms * 1e3


def tensors_of(values):
  return [v for v in values if isinstance(v, torch.Tensor)]


def bytes_of(tensors):
  """Each distinct tensor once; an expanded one by what it holds."""
  seen = {}
  for t in tensors:
    held = 1
    for extent, stride in zip(t.shape, t.stride()):
      held *= extent if stride else 1
    seen[t.data_ptr(), tuple(t.shape), tuple(t.stride())] = held * t.element_size()
  return sum(seen.values())


def device_us(call):
  import triton.testing
  return round(triton.testing.do_bench(call, warmup=10, rep=40, return_mode="median") * 1e3, 2)


def host_us(call):
  """Time to hand over, not to finish: short runs, so that the queue never fills."""
  best = float("inf")
  for _ in range(5):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(20):
      call()
    best = min(best, (time.perf_counter() - start) / 20)
  torch.cuda.synchronize()
  return round(best * 1e6, 2)


class Meetings:
  """The calls of wrappers in one variant, one for each pass and kind of arguments."""

  def __init__(self, sample_dir, path, label):
    self.variant = samples.load_variant(path, label)
    torch._dynamo.reset()
    with pass_loader.imported_as_pass_dir(os.path.abspath(os.path.join(sample_dir, "pass_dir"))):
      self.backend = pass_manager.PassBackend(pass_loader.load(os.path.join(sample_dir, "pass_dir")), poisoned=False)
    self.passes = {p.name: p for p in self.backend.pass_set.passes}
    self.model = samples.build_model(self.variant, common.device())
    self.order = [m.name for m in samples.ordered_metas(self.variant, self.model)]
    self.compiled = torch.compile(self.model, backend=self.backend)

  def meet(self, family):
    named = (replay.public_inputs(self.variant, common.device()) if family == "sample"
             else replay.live_inputs(self.variant, 11, device=common.device()))
    kept = {}

    def before(name, ordinal, args):
      key = (name, tuple((tuple(a.shape), a.stride(), a.dtype) if isinstance(a, torch.Tensor) else repr(a) for a in args))
      if key not in kept:
        kept[key] = [a.clone() if isinstance(a, torch.Tensor) and a.is_contiguous() else a for a in args]

    self.backend.before = before
    self.backend.start_call()
    self.compiled(*[named[n] for n in self.order])
    self.backend.before = None
    return kept


def eager_of(loaded):
  """The pattern as something that runs: what the wrapper stands for."""
  pattern = loaded.pattern
  if isinstance(pattern, torch.fx.GraphModule):
    return pattern
  if isinstance(pattern, torch.fx.Graph):
    return torch.fx.GraphModule({}, pattern)
  return pattern


def judge(loaded, args):
  mine = [a.clone() if isinstance(a, torch.Tensor) and a.is_contiguous() else a for a in args]
  want = eager_of(loaded)(*args[:-1])
  found = compare.compare_structures(want, loaded.function(*mine))
  return {"outside": sum(f.get("outside", 1) for f in found if not f.get("ok", True)), "elements": sum(t.numel() for t in tensors_of(compare.as_tuple(want))),
          "largest_difference": max((f.get("max_abs_diff") or 0 for f in found), default=0), "bit_equal": all(f.get("bit_equal", True) for f in found)}


def measure(loaded, args, bandwidth, with_compile):
  eager, wrapper = eager_of(loaded), loaded.function
  total = bytes_of(tensors_of(args) + tensors_of(compare.as_tuple(wrapper(*args))))
  out = {"bytes": total, "us": device_us(lambda: wrapper(*args)), "eager_us": device_us(lambda: eager(*args[:-1])),
         "host_us": host_us(lambda: wrapper(*args)), "eager_host_us": host_us(lambda: eager(*args[:-1])),
         "bound_us": round(total / bandwidth * 1e6, 2)}
  if with_compile:
    torch._dynamo.reset()
    compiled = torch.compile(eager)
    out["inductor_us"] = device_us(lambda: compiled(*args[:-1]))
  out["share"] = round(out["bound_us"] / out["us"], 3)
  return out


def run_variant(args, sample, label, path, bandwidth, found):
  meetings = Meetings(os.path.join(args.samples, sample), path, label)
  for family in FAMILIES:
    for number, ((name, _), values) in enumerate(meetings.meet(family).items()):
      key = f"{sample}/{label}/{name}/{number}"
      entry = found.setdefault(key, {"dtype": str(next((t.dtype for t in tensors_of(values)), "")).removeprefix("torch.")})
      entry[family] = judge(meetings.passes[name], values)
      if family == "live" and torch.cuda.is_available():
        entry.update(measure(meetings.passes[name], values, bandwidth, args.compile))


def line_of(key, entry):
  out = f"{key:96s} {sum(entry[f]['outside'] for f in FAMILIES if f in entry):9d} outside"
  if "us" in entry:
    out += (f" {entry['bytes'] / 1e6:8.1f} MB {entry['us']:8.1f} us, eager {entry['eager_us']:8.1f}, inductor {entry.get('inductor_us', 0):8.1f}, "
            f"share {entry['share']:.2f}, host {entry['host_us']:.1f} / {entry['eager_host_us']:.1f}")
  return out


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("samples")
  parser.add_argument("-o", "--output", required=True)
  parser.add_argument("--seconds", type=float, default=200)
  parser.add_argument("--only", default="", help="samples whose name holds one of these texts, separated by commas")
  parser.add_argument("--largest", type=int, default=1 << 31, help="bytes of inputs beyond which a variant is left out")
  parser.add_argument("--compile", action="store_true", help="time torch.compile's default mode on each pattern too")
  parser.add_argument("--shard", default="0/1", help="I/N: every N-th variant; times of shards that ran at once say nothing")
  args = parser.parse_args()
  bandwidth = copy_bandwidth() if torch.cuda.is_available() else None
  results = common.Results(args.output, schema="passnet.regions/1", copy_bytes_per_s=bandwidth, regions={}, failed={}, left_out=[])
  deadline = common.Deadline(args.seconds)
  shard, shards = (int(x) for x in args.shard.split("/"))
  chosen = common.spread([v for v in common.all_variants(args.samples) if any(t in v[0] for t in args.only.split(","))])[shard::shards]
  session = contextlib.nullcontext() if torch.cuda.is_available() else interpreter.Session()
  with session:
    for sample, label, path in chosen:
      size = sum(common.capture._bytes(m) for m in samples.load_variant(path, label).metas)
      if deadline.over() or size > args.largest or not os.path.isdir(os.path.join(args.samples, sample, "pass_dir")):
        results.document["left_out"].append(f"{sample}/{label}")
        continue
      found = {}
      try:
        run_variant(args, sample, label, path, bandwidth, found)
      except Exception as e:  # noqa: BLE001 - one variant that fails is one line
        inner = pass_manager.innermost(e)
        results.document["failed"][f"{sample}/{label}"] = f"{type(inner).__name__}: {str(inner)[:400]}"
        print(f"{sample}/{label}: {type(inner).__name__}: {str(inner)[:160]}", flush=True)
        if "CUDA error" in str(e):
          results.save(force=True)
          return 1
      results.document["regions"].update(found)
      for key, entry in found.items():
        print(line_of(key, entry), flush=True)
      results.save()
      if torch.cuda.is_available():
        torch.cuda.empty_cache()
  results.save(force=True)
  regions = results.document["regions"].values()
  wrong = sum(any(e[f]["outside"] for f in FAMILIES if f in e) for e in regions)
  print(f"{len(regions)} regions, {wrong} with elements outside tolerance, {len(results.document['failed'])} variants failed, "
        f"{len(results.document['left_out'])} left out")
  return 1 if wrong or results.document["failed"] else 0


if __name__ == "__main__":
  sys.exit(main())
