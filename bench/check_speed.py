#!/usr/bin/env python3
"""How long `passnet check` takes on a sample of ten variants with three passes, and the same checks by torch.

  bench/check_speed.py [--binary build-release/passnet] [--repeats 31] [--torch-repeats 1] [--no-record]

The sample is the first of examples/, written by tools/make_examples with ten variants over three dtypes; the three passes match
gelu, an evaluation dropout, and an addition with layer_norm. Both sides run on one core, start of the process included. The
torch side imports torch, captures each variant with dynamo, reads the sources by the public rules, traces the patterns,
runs torch's matcher and replaces. On a busy machine the processor's time decides, not the clock. Written to bench/results/<date>-check-speed.json.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import tool_common as common

VARIANTS = 10

KERNELS = '''import torch
import triton
import triton.language as tl


@triton.jit
def _gelu(x, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(o + i, (0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476))).to(o.dtype.element_ty), mask=i < n)


@triton.jit
def _add_layer_norm(x, y, w, b, o, C, EPS, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    m = c < C
    v = (tl.load(x + r * C + c, mask=m, other=0.0) + tl.load(y + r * C + c, mask=m, other=0.0)).to(tl.float32)
    d = tl.where(m, v - tl.sum(v, 0) / C, 0.0)
    s = 1.0 / tl.sqrt(tl.sum(d * d, 0) / C + EPS)
    g = tl.load(w + c, mask=m, other=0.0).to(tl.float32)
    h = tl.load(b + c, mask=m, other=0.0).to(tl.float32)
    tl.store(o + r * C + c, (d * s * g + h).to(o.dtype.element_ty), mask=m)


def _run_gelu(x):
    o = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    _gelu[(triton.cdiv(x.numel(), 1024),)](x, o, x.numel(), BLOCK=1024)
    return o


def _run_add_layer_norm(x, y, w, b):
    o = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    c = x.shape[-1]
    _add_layer_norm[(x.numel() // c,)](x, y, w, b, o, c, 1e-05, BLOCK=triton.next_power_of_2(c))
    return o


@torch.fx.wrap
def dispatch_wrapper(*args):
    route = args[-1]
    if route == "gelu":
        return _run_gelu(args[0])
    if route == "same":
        return args[0]
    if route == "add_layer_norm":
        return _run_add_layer_norm(args[0], args[1], args[2], args[3])
    raise ValueError(f"unknown route {route}")
'''
PASS = '''import torch
from pass_dir._shared_kernels import dispatch_wrapper


def pattern({names}):
    return {body}


def replacement_args({names}):
    return ({names}, "{route}")


def replacement_func():
    return dispatch_wrapper
'''
PASSES = {
  "FuseGelu": ("x", "torch.nn.functional.gelu(x, approximate='none')", "gelu"),
  "FuseDropout": ("x", "torch.nn.functional.dropout(x, 0.1, False, False)", "same"),
  "FuseAddLayerNorm": ("x, y, w, b", "torch.nn.functional.layer_norm(x + y, (512,), w, b, 1e-05)", "add_layer_norm"),
}
TORCH = '''
import sys, json, pathlib
sys.path[:0] = [sys.argv[1] + "/python", sys.argv[1] + "/tests/differential"]
from check_differential import python_rules
from passnet.worker import trace
sample = sys.argv[2]
rules = {p.stem: python_rules(p.read_text()) for p in pathlib.Path(sample, "pass_dir").glob("*.py") if not p.name.startswith("_")}
out = trace.command({"sample": sample, "pass_dir": sample + "/pass_dir"}, lambda *_: None)
print(json.dumps({"violations": rules, "matched": [v["matched"] for v in out["variants"]]}))
'''


def write_sample(folder):
  subprocess.run([sys.executable, str(ROOT / "tools" / "make_examples"), "--sizes", "4", "--out", str(folder)], check=True, capture_output=True)
  sample = folder / "transformer_residual_norm"
  lines = (sample / "graph_list.txt").read_text().splitlines()[:VARIANTS]
  (sample / "graph_list.txt").write_text("".join(line + "\n" for line in lines))
  for name, (names, body, route) in PASSES.items():
    (sample / "pass_dir" / f"{name}.py").write_text(PASS.format(names=names, body=body, route=route))
  (sample / "pass_dir" / "_shared_kernels.py").write_text(KERNELS)
  (sample / "pass_dir" / "sorted_output_pass_rule_names.json").write_text(json.dumps(list(PASSES)))
  return sample


def timed(command):
  """Wall and processor time in ms, and the finished process; on one core."""
  used = resource.getrusage(resource.RUSAGE_CHILDREN)
  started = time.perf_counter()
  done = subprocess.run(command, capture_output=True, text=True, preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}))
  wall = (time.perf_counter() - started) * 1e3
  after = resource.getrusage(resource.RUSAGE_CHILDREN)
  return wall, (after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime) * 1e3, done


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--binary", default=str(ROOT / "build-release" / "passnet"))
  parser.add_argument("--repeats", type=int, default=31)
  parser.add_argument("--torch-repeats", type=int, default=1)
  parser.add_argument("--no-record", action="store_true")
  args = parser.parse_args()
  with tempfile.TemporaryDirectory(prefix="passnet-bench.") as scratch:
    sample = write_sample(pathlib.Path(scratch))
    command = [args.binary, "check", str(sample), "--json", "--quiet", "--jobs", "1"]
    native, native_cpu = [], []
    for _ in range(args.repeats):
      ms, cpu, done = timed(command)
      native.append(ms)
      native_cpu.append(cpu)
      report = json.loads(done.stdout)
      if done.returncode or len(report["variants"]) != VARIANTS or any(len(g["passes"]) != 3 or not all(p["matches"] for p in g["passes"])
                                                                       for v in report["variants"] for g in v["graphs"]):
        print(f"check_speed: the check is not green with three matches everywhere: {done.stdout[:800]}", file=sys.stderr)
        return 1
    print(f"check: wall {statistics.median(native):.1f} ms, fastest {min(native):.1f}; processor {statistics.median(native_cpu):.1f} ms", flush=True)
    real, real_cpu = [], []
    for _ in range(args.torch_repeats):
      ms, cpu, done = timed([common.PYTHON, "-c", TORCH, str(ROOT), str(sample)])
      if done.returncode or json.loads(done.stdout.strip().rsplit("\n", 1)[-1])["matched"] != [True] * VARIANTS:
        print(f"check_speed: torch: {done.stderr[-800:]}{done.stdout[-300:]}", file=sys.stderr)
        return 1
      real.append(ms)
      real_cpu.append(cpu)
  median, torch_ms = statistics.median(native), statistics.median(real)
  cpu, torch_cpu = statistics.median(native_cpu), statistics.median(real_cpu)
  machine = common.machine()
  busy = machine["load_at_start"] > 0.5 * machine["cores"]
  document = {"machine": machine, "command": "bench/check_speed.py", "binary": "release" if "release" in args.binary else "dev", "busy": busy,
              "variants": VARIANTS, "passes": len(PASSES), "repeats": args.repeats, "torch_repeats": args.torch_repeats,
              "check_ms": {"median": round(median, 2), "fastest": round(min(native), 2), "slowest": round(max(native), 2), "processor": round(cpu, 2)},
              "torch_ms": {"median": round(torch_ms, 1), "processor": round(torch_cpu, 1)},
              "ratio": round(torch_ms / median, 1), "ratio_processor": round(torch_cpu / cpu, 1)}
  print(f"with torch and dynamo: wall {torch_ms:.0f} ms, processor {torch_cpu:.0f} ms; {torch_ms / median:.0f} times the wall time, {torch_cpu / cpu:.0f} times the processor's")
  if busy:
    print("the machine is busy: wall times are those of waiting; the processor's times count")
  if not args.no_record:
    print(f"bench/results/{common.write_result('check-speed', document)} written")
  return 0 if (cpu if busy else median) < 30 and (torch_cpu / cpu if busy else torch_ms / median) >= 100 else 1


if __name__ == "__main__":
  sys.exit(main())
