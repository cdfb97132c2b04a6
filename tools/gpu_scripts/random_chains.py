#!/usr/bin/env python3
"""Random chains of pointwise operators in float16 and bfloat16, solved and run: bit for bit what eager gives?

  random_chains.py --passnet PASSNET --table TABLE -o chains.json [--count 500] [--seed N] [--jobs 8]

Chains are made of the operator table (TABLE: the program print_operator_table, or what it printed as a .json file) by
tests/regions/region_maker.py, solved by PASSNET, and run by torch.compile with the written passes on two draws of inputs. Compared are the outputs on normal
numbers: an element counts where every input and every value on its way is zero or a normal number of its type. What lies
outside (denormal numbers, infinity, NaN) is held to t = -5, and counted apart.

Without a GPU the kernels are interpreted and compared with the CPU's eager, which rounds its own way: differences are then
recorded and no failure.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time

import torch

import common
from common import replay, samples

from passnet.worker import compare, interpreter, pass_loader, pass_manager  # noqa: E402

# Beside this script in a pack, in its own folder otherwise.
sys.path.append(os.path.join(common.ROOT, "tests", "regions"))
import region_maker  # noqa: E402

DTYPES = ("float16", "bfloat16")
LIMITS = region_maker.Limits(sizes=(1, 8, 17, 64, 32, 129, 256, 33), largest=1 << 17)


def load_table(path):
  if path.endswith(".json"):
    with open(path, encoding="utf-8") as f:
      return json.load(f)
  return json.loads(subprocess.run([path], check=True, capture_output=True, text=True).stdout)


def solve(passnet, folder):
  """(exit status, what it said) of the native solve; structure and source rules are checked, nothing is run."""
  done = subprocess.run([passnet, "solve", folder, "--no-preflight-run", "--quiet", "--json", "--jobs", "1"], capture_output=True, text=True)
  return done.returncode, (done.stdout + done.stderr)[-400:]


class Recorder(torch.fx.Interpreter):
  """Eager, node by node, with every floating value kept."""

  def __init__(self, gm):
    super().__init__(gm)
    self.values = []

  def run_node(self, n):
    value = super().run_node(n)
    for t in value if isinstance(value, (tuple, list)) else (value,):
      if isinstance(t, torch.Tensor) and t.is_floating_point():
        self.values.append(t)
    return value


def is_normal(t):
  size = t.abs()
  return ((size >= torch.finfo(t.dtype).tiny) & torch.isfinite(t)) | (t == 0)


def normal_mask(values, output):
  """Where all values that broadcast to an output are normal; the others have no part in it."""
  mask = torch.ones_like(output, dtype=torch.bool)
  for t in [*values, *([output] if output.is_floating_point() else [])]:
    try:
      mask &= is_normal(t).broadcast_to(output.shape)
    except RuntimeError:
      continue
  return mask


class Chain:
  """One solved chain: eager recorded node by node, and compiled with its passes."""

  def __init__(self, folder, label):
    self.pass_dir = os.path.join(folder, "pass_dir")
    self.variant = samples.load_variant(os.path.join(folder, label))

  def model(self):
    return samples.build_model(self.variant, common.device())

  def run(self):
    """{"elements", "normal", "differing", "outside", "wrappers", "first"?} over both draws of inputs."""
    out = {"elements": 0, "normal": 0, "differing": 0, "outside": 0}
    recorders = []

    def keep(gm, example):
      recorders.append(Recorder(gm))
      return recorders[-1].run

    torch._dynamo.reset()
    with pass_loader.imported_as_pass_dir(self.pass_dir):
      backend = pass_manager.PassBackend(pass_loader.load(self.pass_dir), poisoned=False)
      model = self.model()
      order = [m.name for m in samples.ordered_metas(self.variant, model)]
      eager, compiled = torch.compile(model, backend=keep), torch.compile(self.model(), backend=backend)
      for seed in (1, 2):
        named = replay.live_inputs(self.variant, seed, (), common.device())
        for recorder in recorders:
          recorder.values = []
        expected = eager(*(named[n] for n in order))
        got = compiled(*(named[n] for n in order))
        common.synchronize()
        values = [v for recorder in recorders for v in recorder.values] + list(named.values())
        for e, g in zip(compare.as_tuple(expected), compare.as_tuple(got), strict=True):
          judge(out, e, g, [v for v in values if v.is_floating_point()])
    out["wrappers"] = sum(len(p["matches"]) for record in backend.records for p in record["passes"])
    return out


def judge(out, e, g, values):
  if e.dtype != g.dtype or e.shape != g.shape:
    out["outside"] += max(1, e.numel())
    out["first"] = f"{g.dtype} {list(g.shape)} for {e.dtype} {list(e.shape)}"
    return
  mask = normal_mask(values, e)
  bad = (e != g) & ~((e != e) & (g != g)) & mask
  out["elements"] += e.numel()
  out["normal"] += int(mask.sum())
  out["differing"] += int(bad.sum())
  out["outside"] += compare.compare_tensors(e, g).get("outside", 0)
  if bool(bad.any()) and "first" not in out:
    at = tuple(bad.nonzero()[0].tolist())
    out["first"] = f"{list(at)}: {e[at].item()!r} in eager, {g[at].item()!r} compiled"


def run_part(args):
  table = region_maker.Table(load_table(args.table))
  document = {"ran": 0, "unusable": 0, "unsolved": [], "differing": [], "crashed": [], "elements": 0, "normal": 0, "outside": 0,
              "wrappers": 0, "rows": {}, "dtypes": {}}
  wanted = args.count // args.jobs + (args.part < args.count % args.jobs)
  with tempfile.TemporaryDirectory() as scratch:
    for seed in range(args.seed + args.part, sys.maxsize, args.jobs):
      if document["ran"] >= wanted:
        return document
      region = region_maker.make_region(table, seed, None, {"pointwise"}, DTYPES[seed // args.jobs % 2], LIMITS)
      if region is None:
        document["unusable"] += 1
        continue
      folder = os.path.join(scratch, str(seed))
      chain = Chain(folder, region_maker.write_sample(folder, region))
      status, said = solve(args.passnet, folder)
      if status != 0:
        document["unsolved"].append({"seed": seed, "said": said})
        continue
      document["ran"] += 1
      for row in region.rows:
        document["rows"][row] = document["rows"].get(row, 0) + 1
      document["dtypes"][region.dtype] = document["dtypes"].get(region.dtype, 0) + 1
      try:
        found = chain.run()
      except Exception as e:  # noqa: BLE001 - a chain that cannot run is a result like another
        document["crashed"].append({"seed": seed, "model": region.source, "error": f"{type(e).__name__}: {e}"[:400]})
        continue
      for key in ("elements", "normal", "outside", "wrappers"):
        document[key] += found[key]
      if found["differing"] or found["outside"]:
        document["differing"].append({"seed": seed, "rows": region.rows, "model": region.source, **found})


def add(total, part):
  for key, value in part.items():
    if isinstance(value, dict):
      for k, n in value.items():
        total.setdefault(key, {})[k] = total.get(key, {}).get(k, 0) + n
    else:
      total[key] = total[key] + value if key in total else value
  return total


def run_parts(args):
  """A process each: compiling a kernel takes longer than all else."""
  with tempfile.TemporaryDirectory() as scratch:
    outs = [os.path.join(scratch, f"part_{i}.json") for i in range(args.jobs)]
    processes = [subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--part", str(i), "--out", out]) for i, out in enumerate(outs)]
    statuses = [p.wait() for p in processes]
    total = {"processes_failed": sum(s != 0 for s in statuses)}
    for out in outs:
      if os.path.exists(out):
        with open(out, encoding="utf-8") as f:
          add(total, json.load(f))
  return total


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--passnet", required=True)
  parser.add_argument("--table", required=True)
  parser.add_argument("-o", "--out", required=True)
  parser.add_argument("--count", type=int, default=500)
  parser.add_argument("--seed", type=int, default=1)
  parser.add_argument("--jobs", type=int, default=max(1, min(12, (os.cpu_count() or 2) - 2)))
  parser.add_argument("--part", type=int, help=argparse.SUPPRESS)
  args = parser.parse_args()
  on_cpu = common.device() == "cpu"
  if args.part is not None:
    with interpreter.Session() if on_cpu else contextlib.nullcontext():
      document = run_part(args)
    with open(args.out, "w", encoding="utf-8") as f:
      json.dump(document, f)
    return 0
  started = time.monotonic()
  total = run_parts(args)
  bad = total["crashed"] or total["processes_failed"] or total["ran"] < args.count
  if not on_cpu:  # a CPU rounds its own way: there the run shows that the script works, no more
    bad = bad or total["differing"]
  document = {"schema": "passnet.chains/1", "machine": common.machine(), "seed": args.seed, "seconds": round(time.monotonic() - started, 1),
              "bit_equal": total["ran"] - len(total["crashed"]) - sum(d["differing"] > 0 for d in total["differing"]), **total}
  with open(args.out, "w", encoding="utf-8") as f:
    json.dump(document, f, indent=1)
    f.write("\n")
  print(f"random_chains: {document['ran']} chains on {document['machine']['gpu'] or 'the CPU'}, {document['bit_equal']} bit-equal on "
        f"{document['normal']} of {document['elements']} elements that are normal throughout, {document['outside']} elements outside t = -5, "
        f"{len(document['crashed'])} crashed, {len(document['unsolved'])} not solved, {document['seconds']} s")
  return 1 if bad else 0


if __name__ == "__main__":
  sys.exit(main())
