#!/usr/bin/env python3
"""Which way of writing attention gives eager's own bits, over a grid of problems.

  attention_order.py run -o attention_order.json [--seconds 150] [--jobs 12] [--all-ways]
  attention_order.py table RECORD... -o tests/data/attention_order.txt     the records as the text that the tests read

One kernel, in the ways that a library may have chosen: the weights kept in float32 or rounded to the operands' type before
the second product; exp, or exp2 of scores whose scale is folded in; all keys at once, or blocks of 64 or 128 keys with a
running maximum, first to last or last to first; division by the sum, or multiplication by its reciprocal. Per problem and way:
elements that differ from eager and elements outside the tolerance of t = -5; and the name of the kernel that eager ran.
Without --all-ways only the one that was found to be the library's: two roundings, blocks of 128 keys first to last (float32:
everything as it is).
"""

import argparse
import itertools
import json
import multiprocessing
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from triton.language.extra import libdevice

import common

from passnet.worker import compare

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
MASKS = ("none", "causal", "float", "bool")
# How a weight comes of a score s, the row's maximum m, the scale and log2(e); f is scale * log2(e), rounded once (f64) or
# as a product of two float32 (f32).
EXPONENTS = ("exp", "fma f32", "fma f64", "two f32", "two f64", "minus f32", "minus f64", "scaled fma", "scaled two", "scaled minus")
# name: (rounded weights, exponent, block of keys or 0 for all, last to first, reciprocal)
WAYS = {
  "exact": (False, "exp", 0, False, False),
  "rounded": (True, "exp", 0, False, False),
  "64": (True, "fma f32", 64, False, True),
  "128back": (True, "fma f32", 128, True, True),
  **{f"128 {e}": (True, e, 128, False, True) for e in EXPONENTS},
  "128 fma f64 div": (True, "fma f64", 128, False, False),
}
# The library's way by kind of mask, and whether scale and mask are one multiply-add; float32 is "exact".
FOUND = {"none": ("128 two f32", False), "causal": ("128 two f32", False), "float": ("128 two f32", True), "bool": ("128 scaled two", False)}


@triton.jit(do_not_specialize=["S", "T"])
def _attention(q_ptr, k_ptr, v_ptr, mask_ptr, o_ptr, S, T, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, MASK: tl.constexpr,
               ROUNDED: tl.constexpr, EXP: tl.constexpr, FACTOR: tl.constexpr, FUSED: tl.constexpr, BACK: tl.constexpr,
               RECIPROCAL: tl.constexpr, PRECISION: tl.constexpr):
  z = tl.program_id(1).to(tl.int64)
  m = tl.program_id(0) * BM + tl.arange(0, BM)
  d = tl.arange(0, D)
  q = tl.load(q_ptr + z * S * D + m[:, None] * D + d[None, :], mask=m[:, None] < S, other=0.0)
  top = tl.full([BM], float("-inf"), tl.float32)
  total = tl.zeros([BM], tl.float32)
  acc = tl.zeros([BM, D], tl.float32)
  blocks = tl.cdiv(T, BN)
  for start in range(0, T, BN):
    n = ((blocks - 1) * BN - start if BACK else start) + tl.arange(0, BN)
    k = tl.load(k_ptr + z * T * D + n[None, :] * D + d[:, None], mask=n[None, :] < T, other=0.0)
    v = tl.load(v_ptr + z * T * D + n[:, None] * D + d[None, :], mask=n[:, None] < T, other=0.0)
    s = tl.dot(q, k, input_precision=PRECISION)
    inside = (n[None, :] < T) & (m[:, None] < S)
    if MASK == "causal":
      inside = inside & (n[None, :] <= m[:, None])
    if MASK == "bool":
      inside = inside & (tl.load(mask_ptr + m[:, None] * T + n[None, :], mask=inside, other=0) != 0)
    if MASK == "float":
      bias = tl.load(mask_ptr + m[:, None] * T + n[None, :], mask=inside, other=0.0).to(tl.float32)
      s = tl.fma(s, scale + tl.zeros_like(s), bias) if FUSED else s * scale + bias
      factor = 1.4426950408889634
    elif EXP == "scaled fma" or EXP == "scaled two" or EXP == "scaled minus":
      s = s * scale
      factor = 1.4426950408889634
    elif EXP == "exp":
      s = s * scale
      factor = 1.0
    else:
      factor = FACTOR
    s = tl.where(inside, s, float("-inf"))
    new = tl.maximum(top, tl.max(s, 1))
    safe = tl.where(new == float("-inf"), 0.0, new)
    if EXP == "exp":
      p = libdevice.exp(s - safe[:, None])
      shrink = libdevice.exp(top - safe)
    elif EXP == "fma f32" or EXP == "fma f64" or EXP == "scaled fma":
      p = tl.exp2(tl.fma(s, factor + tl.zeros_like(s), tl.zeros_like(s) - (safe * factor)[:, None]))
      shrink = tl.exp2((top - safe) * factor)
    elif EXP == "two f32" or EXP == "two f64" or EXP == "scaled two":
      p = tl.exp2(s * factor - (safe * factor)[:, None])
      shrink = tl.exp2((top - safe) * factor)
    else:
      p = tl.exp2((s - safe[:, None]) * factor)
      shrink = tl.exp2((top - safe) * factor)
    total = total * shrink + tl.sum(p, 1)
    acc = acc * shrink[:, None]
    if ROUNDED:
      acc = tl.dot(p.to(v.dtype), v, acc, input_precision=PRECISION)
    else:
      acc = tl.dot(p, v.to(tl.float32), acc, input_precision="ieee")
    top = new
  if RECIPROCAL:
    out = acc * tl.div_rn(1.0, total)[:, None]
  else:
    out = tl.div_rn(acc, total[:, None] + tl.zeros_like(acc))
  tl.store(o_ptr + z * S * D + m[:, None] * D + d[None, :], out.to(o_ptr.dtype.element_ty), mask=m[:, None] < S)


def attention(q, k, v, mask, kind, way, precision, fused=False):
  z, s, d = q.shape
  t = k.shape[1]
  rounded, exponent, block, back, reciprocal = WAYS[way]
  factor = float(np.float32(d**-0.5 * np.log2(np.e)) if exponent.endswith("64") else np.float32(d**-0.5) * np.float32(np.log2(np.e)))
  out = torch.empty_like(q)
  rows = 16 if q.dtype == torch.float32 else 64
  _attention[(triton.cdiv(s, rows), z)](q, k, v, mask if mask is not None else q, out, s, t, d**-0.5, D=d, BM=rows,
                                        BN=block or max(16, triton.next_power_of_2(t)), MASK=kind, ROUNDED=rounded, EXP=exponent, FACTOR=factor,
                                        FUSED=fused, BACK=back, RECIPROCAL=reciprocal, PRECISION=precision, num_warps=4, num_stages=1, enable_fp_fusion=False)
  return out


def kernel_names(call):
  from torch.profiler import ProfilerActivity, profile
  with profile(activities=[ProfilerActivity.CUDA]) as p:
    call()
    torch.cuda.synchronize()
  return [e.key[:160] for e in p.key_averages()]


def problems():
  """(batch times heads, rows, keys)."""
  grid = [(96, 64, 64), (96, 197, 197), (16, 128, 128), (16, 192, 192), (4, 100, 100), (4, 300, 300), (4, 1, 64), (4, 1, 197), (4, 32, 128)]
  grid += [(12, 64, 64), (16, 20, 20), (32, 128, 128), (96, 100, 100), (384, 64, 64), (4, 16, 128), (4, 128, 16), (4, 7, 7), (4, 8, 8), (4, 2, 64)]
  return grid + [(4, s, s) for s in (16, 17, 20, 24, 32, 49, 50, 77, 96, 127, 144, 160, 196, 256, 577)]


def judge(dtype, depth, kind, problem, precisions, named, all_ways):
  z, s, t = problem
  draw = lambda *dims: torch.randn(dims, device="cuda", dtype=torch.float32).to(dtype)
  q, k, v = draw(1, z, s, depth), draw(1, z, t, depth), draw(1, z, t, depth)
  mask = None
  if kind == "float":
    mask = draw(1, 1, s, t)
  elif kind == "bool":
    mask = torch.rand(1, 1, s, t, device="cuda") < 0.7
    mask[..., 0] = True
  eager = lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=kind == "causal")
  want = eager()
  entry = {"elements": want.numel()}
  if named:
    entry["kernels"] = kernel_names(eager)
  flat = lambda x: x.reshape(-1, *x.shape[-2:])
  for way, precision, fused in itertools.product(WAYS, precisions, (False, True) if kind == "float" else (False,)):
    rounded, exponent, block, _, _ = WAYS[way]
    if not all_ways and (way, precision, fused) != (("exact", "ieee", False) if dtype == torch.float32 else (FOUND[kind][0], "ieee", FOUND[kind][1])):
      continue
    if block == 0 and t > 256 or (precision != "ieee" and not rounded):
      continue
    if dtype == torch.float32 and (block or fused) or kind == "float" and "f64" in exponent:
      continue
    got = attention(flat(q), flat(k), flat(v), mask.to(torch.int8) if kind == "bool" else mask, kind, way, precision, fused).view(want.shape)
    found = compare.compare_tensors(want, got)
    entry[" ".join([way, *[precision][: precision != "ieee"], *["fused"][: fused]])] = [int((want != got).sum()), found.get("outside", 0)]
  return entry


def work(task):
  word, depth, kind, seconds, all_ways = task
  torch.manual_seed(3)
  until = time.monotonic() + seconds
  out = {}
  for i, problem in enumerate(problems()):
    if time.monotonic() > until:
      break
    if kind == "causal" and problem[1] != problem[2]:
      continue
    key = f"{word} {depth} {kind} " + " ".join(map(str, problem))
    try:
      out[key] = judge(DTYPES[word], depth, kind, problem, ("ieee", "tf32x3") if word == "float32" else ("ieee",), i < 2, all_ways)
    except Exception as e:  # noqa: BLE001 - one problem that fails is one line
      out[key] = {"error": f"{type(e).__name__}: {str(e)[:300]}"}
  return out


def command_run(args):
  tasks = [(w, d, k, args.seconds, args.all_ways) for w in args.dtypes.split(",") for d in (32, 64, 128) for k in MASKS]
  results = {"schema": "passnet.attention_order/1", "machine": common.machine(), "problems": {}}
  with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
    for found in pool.imap_unordered(work, tasks):
      results["problems"].update(found)
      with open(args.output, "w") as f:
        json.dump(results, f, indent=0)
  totals = {}
  for key, entry in results["problems"].items():
    word, depth, kind = key.split(" ")[:3]
    for way, value in entry.items():
      if way in ("elements", "kernels", "error"):
        continue
      t = totals.setdefault((word, kind, way), [0, 0, 0, 0])
      t[0] += value[0] > 0
      t[1] += value[1] > 0
      t[2] += value[1]
      t[3] += 1
  for (word, kind, way), (bits, outside, elements, count) in sorted(totals.items()):
    print(f"{word:9s} {kind:7s} {way:18s} {count:4d} problems, {bits:4d} with other bits, {outside:4d} with elements outside ({elements})")
  print(sum("error" in e for e in results["problems"].values()), "errors", next((e["error"] for e in results["problems"].values() if "error" in e), ""))
  return 0


def command_table(args):
  """A line a problem: type, depth, mask, batch times heads, rows, keys, and of the library's way B: eager's bits, o: within
  tolerance, X: outside.
  """
  lines, machine = {}, None
  for path in args.records:
    with open(path, encoding="utf-8") as f:
      document = json.load(f)
    machine = document["machine"]
    for key, entry in document["problems"].items():
      word, _, kind = key.split(" ")[:3]
      way = "exact" if word == "float32" else " ".join([FOUND[kind][0], *["fused"][: FOUND[kind][1]]])
      if way in entry:
        bits, outside = entry[way]
        lines[key] = "B" if bits == 0 else "o" if outside == 0 else "X"
  with open(args.output, "w", encoding="utf-8") as f:
    f.write(f"# {machine['gpu']}, torch {machine['torch']}, cuDNN {machine['cudnn']}; written by attention_order.py table\n")
    f.write("# type, depth, mask, batch times heads, rows, keys; B: eager's bits, o: within tolerance, X: outside\n")
    for key, letter in sorted(lines.items()):
      f.write(f"{key} {letter}\n")
  print(len(lines), "problems")
  return 0


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  commands = parser.add_subparsers(dest="verb", required=True)
  p = commands.add_parser("run")
  p.set_defaults(function=command_run)
  p.add_argument("-o", "--output", required=True)
  p.add_argument("--seconds", type=float, default=150)
  p.add_argument("--jobs", type=int, default=12)
  p.add_argument("--dtypes", default=",".join(DTYPES))
  p.add_argument("--all-ways", action="store_true")
  p = commands.add_parser("table")
  p.set_defaults(function=command_table)
  p.add_argument("records", nargs="+")
  p.add_argument("-o", "--output", required=True)
  args = parser.parse_args()
  return args.function(args)


if __name__ == "__main__":
  sys.exit(main())
