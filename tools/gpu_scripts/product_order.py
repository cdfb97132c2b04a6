#!/usr/bin/env python3
"""Whether a plain loop over the terms on the matrix units gives the library's own bits, over a grid of problems.

  product_order.py run -o product_order.json [--seconds 120] [--kinds conv,linear,bmm,depthwise] [--dtypes float32,float16,bfloat16]
  product_order.py table RECORD... -o tests/data/product_order.txt     the records as the text that the tests read

One kernel: a block of the result, one accumulator, blocks of the inner axis one after the other, as the generator writes it;
float32 operands rounded to tf32 (nearest even), or multiplied exactly (ieee). Per problem: elements that differ from eager
and elements outside the tolerance of t = -5, for each way. The numerics gate takes a product into a region where a way is
without such elements over the whole neighbourhood of its problem.
"""

import argparse
import contextlib
import json
import sys

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

import common

from passnet.worker import compare, interpreter

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


@triton.jit
def _round(a):
  u = a.to(tl.int32, bitcast=True)
  return ((u + 4095 + ((u >> 13) & 1)) & -8192).to(tl.float32, bitcast=True)


@triton.jit
def _product(a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbz, sbk, sbn, scz, scm, scn, saz, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
             WAY: tl.constexpr):
  z = tl.program_id(2).to(tl.int64)
  m = tl.program_id(0) * BM + tl.arange(0, BM)
  n = tl.program_id(1) * BN + tl.arange(0, BN)
  acc = tl.zeros([BM, BN], tl.float32)
  for k0 in range(0, K, BK):
    k = k0 + tl.arange(0, BK)
    a = tl.load(a_ptr + z * saz + m[:, None] * sam + k[None, :] * sak, mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
    b = tl.load(b_ptr + z * sbz + k[:, None] * sbk + n[None, :] * sbn, mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
    if WAY == "tf32":
      acc = tl.dot(_round(a), _round(b), acc, input_precision="tf32")
    elif WAY == "tf32x3":
      acc = tl.dot(a, b, acc, input_precision="tf32x3")
    else:
      acc = tl.dot(a, b, acc, input_precision="ieee")
  tl.store(c_ptr + z * scz + m[:, None] * scm + n[None, :] * scn, acc.to(c_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


def run(a, b, way, out_shape, dtype):
  """a (Z or 1, M, K), b (Z or 1, K, N) as strided views; the result as a contiguous (Z, M, N)."""
  z = max(a.shape[0], b.shape[0])
  m, k, n = a.shape[1], a.shape[2], b.shape[2]
  c = torch.empty((z, m, n), dtype=dtype, device=a.device)
  bm, bn = (64, 64) if way != "ieee" else (32, 32)
  grid = (triton.cdiv(m, bm), triton.cdiv(n, bn), z)
  _product[grid](a, b, c, m, n, k, a.stride(1), a.stride(2), b.stride(0) if b.shape[0] > 1 else 0, b.stride(1), b.stride(2), c.stride(0), c.stride(1),
                 c.stride(2), a.stride(0) if a.shape[0] > 1 else 0, BM=bm, BN=bn, BK=32, WAY=way, num_warps=4)
  return c.view(out_shape)


def problems(kinds):
  channels = (3, 4, 8, 12, 16, 17, 20, 24, 32, 40, 48, 64, 80, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
  outputs = (1, 2, 3, 4, 8, 12, 16, 17, 24, 32, 64, 96, 128, 192, 256, 512, 768, 1536)
  sides = (1, 2, 7, 8, 13, 14, 16, 28, 32, 56)
  grid = []
  if "conv" in kinds:
    grid += [("conv", (n, s, c, k)) for n in (1, 2, 8, 32) for s in sides for c in channels for k in outputs]
  if "linear" in kinds:
    grid += [("linear", (r, 1, c, k)) for r in (1, 2, 4, 8, 16, 64, 128, 197, 512, 2048, 8192) for c in channels for k in outputs]
  if "bmm" in kinds:
    grid += [("bmm", (z, r, c, k)) for z in (1, 4, 12, 64) for r in (16, 17, 49, 64, 128, 197) for c in (16, 32, 49, 64, 128, 197) for k in (16, 32, 49, 64, 128, 197)]
  for stride in (1, 2):
    if "depthwise" in kinds:
      grid += [(f"depthwise{stride}", (n, s, c, k)) for n in (1, 2, 8, 32) for s in (7, 14, 16, 28, 56, 112) for c in (8, 16, 32, 48, 64, 96, 192, 256, 384, 768)
               for k in (3, 5, 7)]
  # A spread of all kinds first, so that a run cut short has seen every part of the grid.
  generator = torch.Generator().manual_seed(5)
  order = torch.randperm(len(grid), generator=generator).tolist()
  return [grid[i] for i in order]


def depthwise(x, w, bias, stride):
  """The taps in their order, one float32 sum that begins with the bias: the library's own kernel without cuDNN."""
  k = w.shape[-1]
  out = F.conv2d(x, w, None, stride, k // 2, 1, w.shape[0]).shape
  padded = F.pad(x.float(), (k // 2,) * 4)
  acc = torch.zeros(out, device=x.device) if bias is None else bias.float().view(1, -1, 1, 1).expand(out).contiguous()
  for i in range(k):
    for j in range(k):
      window = padded[:, :, i : i + (out[2] - 1) * stride + 1 : stride, j : j + (out[3] - 1) * stride + 1 : stride]
      acc = acc + window * w[:, 0, i, j].float().view(1, -1, 1, 1)
  return acc.to(x.dtype)


def judge_depthwise(stride, shape, dtype):
  n, s, c, k = shape
  draw = lambda *dims: (torch.rand(dims, device=common.device()) * 2 - 1).to(dtype)
  x, w, bias = draw(n, c, s, s), draw(c, 1, k, k), draw(c)
  entry = {"elements": x.numel() // stride**2}
  for name, b in (("plain", None), ("bias", bias)):
    want = F.conv2d(x, w, b, stride, k // 2, 1, c)
    found = {"sequential": depthwise(x, w, b, stride)}
    if b is not None:
      found["twice"] = (depthwise(x, w, None, stride).float() + b.float().view(1, -1, 1, 1)).to(dtype)
    for way, got in found.items():
      entry[f"{name} {way}"] = [int((want != got).sum()), compare.compare_tensors(want, got).get("outside", 0)]
  return entry


def judge(kind, shape, dtype):
  if kind.startswith("depthwise"):
    return judge_depthwise(int(kind[-1]), shape, dtype)
  n, s, c, k = shape
  draw = lambda *dims: (torch.rand(dims, device=common.device()) * 2 - 1).to(dtype)
  if kind == "conv":
    x, w = draw(n, c, s, s), draw(k, c, 1, 1)
    want = F.conv2d(x, w)
    a, b = w.view(1, k, c), x.view(n, c, s * s)
  elif kind == "linear":
    x, w = draw(n, c), draw(k, c)
    want = F.linear(x, w)
    a, b = x.view(1, n, c), w.t().unsqueeze(0)
  else:
    x, y = draw(n, s, c), draw(n, c, k)
    want = torch.matmul(x, y)
    a, b = x, y
  entry = {"elements": want.numel()}
  ways = ("tf32", "ieee", "tf32x3") if dtype == torch.float32 else ("plain",)
  for way in ways:
    got = run(a, b, way, want.shape, dtype)
    found = compare.compare_tensors(want, got)
    entry[way] = [int((want != got).sum()), found.get("outside", 0)]
  return entry


LETTER = lambda found: "B" if found[0] == 0 else "o" if found[1] == 0 else "X"  # bits equal; within tolerance; outside


# The ways of each kind in the columns of the table.
COLUMNS = {"depthwise": [("float16", "plain sequential"), ("float16", "bias sequential"), ("float16", "bias twice"),
                         ("bfloat16", "plain sequential"), ("bfloat16", "bias sequential"), ("bfloat16", "bias twice")],
           "": [("float32", "tf32"), ("float32", "ieee"), ("float16", "plain"), ("bfloat16", "plain")]}


def columns_of(kind):
  return COLUMNS["depthwise" if kind.startswith("depthwise") else ""]


def table(args):
  """One line a problem: kind, its four numbers, and a letter for each column of its kind; - where it was not measured."""
  problems, machine = {}, None
  for path in args.records:
    with open(path, encoding="utf-8") as f:
      document = json.load(f)
    machine = document["machine"]
    for kind, *shape, dtype, entry in document["rows"]:
      for way, found in entry.items():
        if way not in ("elements", "error"):
          problems.setdefault((kind, *shape), {})[dtype, way] = LETTER(found)
  with open(args.output, "w", encoding="utf-8") as f:
    f.write(f"# {machine['gpu']}, torch {machine['torch']}, cuDNN {machine['cudnn']}; written by product_order.py table\n")
    f.write("# kind, batch (linear: rows), side, channels, results (depthwise: kernel), then B: eager's bits, o: within tolerance, X: outside, for\n")
    for kind, columns in COLUMNS.items():
      f.write(f"# {kind or 'conv, linear, bmm'}: {', '.join(' '.join(c) for c in columns)}\n")
    for (kind, *shape), ways in sorted(problems.items()):
      f.write(f"{kind} {' '.join(map(str, shape))} {''.join(ways.get(c, '-') for c in columns_of(kind))}\n")
  print(len(problems), "problems")
  return 0


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("command", choices=("run", "table"))
  parser.add_argument("records", nargs="*")
  parser.add_argument("-o", "--output", required=True)
  parser.add_argument("--seconds", type=float, default=120)
  parser.add_argument("--kinds", default="conv,linear,bmm,depthwise")
  parser.add_argument("--dtypes", default="float32,float16,bfloat16")
  parser.add_argument("--flops", type=float, default=4e9, help="problems with more are left out")
  parser.add_argument("--shard", default="0/1")
  args = parser.parse_args()
  if args.command == "table":
    return table(args)
  shard, shards = (int(x) for x in args.shard.split("/"))
  results = common.Results(args.output, schema="passnet.product_order/1", rows=[])
  deadline = common.Deadline(args.seconds)
  torch.manual_seed(0)
  with contextlib.nullcontext() if torch.cuda.is_available() else interpreter.Session():
    for kind, shape in problems(args.kinds.split(","))[shard::shards]:
      if deadline.over():
        break
      n, s, c, k = shape
      if 2.0 * n * s * (1 if kind in ("linear", "bmm") else s) * c * k > args.flops:
        continue
      for dtype in args.dtypes.split(","):
        try:
          entry = judge(kind, shape, DTYPES[dtype])
        except Exception as e:  # noqa: BLE001 - one problem that fails is one row
          entry = {"error": f"{type(e).__name__}: {str(e)[:120]}"}
          print(kind, shape, dtype, entry["error"], flush=True)
          if "CUDA error" in entry["error"]:
            results.save(force=True)
            return 1
        results.document["rows"].append([kind, *shape, dtype, entry])
      results.save()
  results.save(force=True)
  print(len(results.document["rows"]), "rows")
  return 0


if __name__ == "__main__":
  sys.exit(main())
