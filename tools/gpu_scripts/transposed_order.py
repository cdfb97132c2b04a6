#!/usr/bin/env python3
"""In which order the library adds the terms of a transposed convolution, over a grid of problems.

  transposed_order.py run -o transposed_order.json [--seconds 60]
  transposed_order.py table RECORD... -o tests/data/transposed_order.txt     the records as the text that the program's rule is made of

A result of a convolution with kernel 4, stride 2 and padding 1 is met by four taps. The candidates add, in one float32 sum on the
matrix units, channels in blocks of 64 (float32: 32, rounded to tf32), in each block the taps from the first or from the last. Per
problem and type: which of the two gives eager's own bits in every element, if either does. Both layouts of the input are met.
"""

import argparse
import itertools
import json
import random
import sys

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

import common
from product_order import DTYPES, _round

BLOCK = {"float32": 32, "float16": 64, "bfloat16": 64}
BATCHES = (1, 2, 8, 32)
CHANNELS = (64, 128, 256, 384, 512, 768, 1024, 2048)
RESULTS = (64, 128, 256)
SIDES = ((8, 6), (8, 8), (14, 14), (16, 12), (16, 16), (24, 18), (28, 28), (32, 24), (32, 32), (64, 48))


@triton.jit
def _transposed(x, w, o, images, H, W, C, N, steps, LAST: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TF32: tl.constexpr):
  """x: images, H, W, C; w: 4, 4, C, N; o: images, N, 2 H, 2 W in float32. One remainder of the result's position a program_id(2)."""
  py, px = tl.program_id(2) // 2, tl.program_id(2) % 2
  m = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
  n = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
  image, y, column = m // (H * W), m // W % H, m % W
  acc = tl.full([BM, BN], 0.0, tl.float32)
  for step in range(0, steps):
    tap = 3 - step % 4 if LAST else step % 4
    iy, ix = y + py - tap // 2, column + px - tap % 2
    k = step // 4 * BK + tl.arange(0, BK)
    inside = (iy >= 0) & (iy < H) & (ix >= 0) & (ix < W) & (m < images * H * W)
    a = tl.load(x + ((image * H + iy) * W + ix) * C + k[None, :], mask=inside, other=0.0)
    b = tl.load(w + (((1 - py + tap // 2 * 2) * 4 + 1 - px + tap % 2 * 2) * C + k[:, None]) * N + n)
    if TF32:
      acc = tl.dot(_round(a), _round(b), acc, input_precision="tf32")
    else:
      acc = tl.dot(a, b, acc)
  tl.store(o + ((image * N + n) * (2 * H) + 2 * y + py) * (2 * W) + 2 * column + px, acc, mask=m < images * H * W)


def candidate(x, w, last):
  images, channels, h, wide = x.shape
  n = w.shape[1]
  out = torch.empty((images, n, 2 * h, 2 * wide), device=x.device, dtype=torch.float32)
  name = str(x.dtype).removeprefix("torch.")
  _transposed[(triton.cdiv(images * h * wide, 64), n // 32, 4)](
    x.permute(0, 2, 3, 1).contiguous(), w.permute(2, 3, 0, 1).contiguous(), out, images, h, wide, channels, n, 4 * channels // BLOCK[name], LAST=last, BM=64, BN=32, BK=BLOCK[name],
    TF32=name == "float32", num_warps=4)
  return out.to(x.dtype)


def judge(batch, channels, results, side, last_axis, dtype):
  """L: the last tap first, F: the first, -: neither."""
  generator = torch.Generator(device=common.device()).manual_seed(channels + results)
  draw = lambda *shape: torch.randn(shape, device=common.device(), generator=generator).to(dtype)
  x, w = draw(batch, channels, *side), draw(channels, results, 4, 4) * (4 * channels) ** -0.5
  if last_axis:
    x = x.contiguous(memory_format=torch.channels_last)
  want = F.conv_transpose2d(x, w, None, 2, 1)
  for letter, last in (("L", True), ("F", False)):
    if torch.equal(candidate(x, w, last), want):
      return letter
  return "-"


def problems():
  grid = [p for p in itertools.product(BATCHES, CHANNELS, RESULTS, SIDES, (False, True)) if p[0] * p[1] * p[3][0] * p[3][1] <= 1 << 24]
  # A spread of all first, so that a run cut short has seen every part of the grid; one image, the common case, before many.
  random.Random(5).shuffle(grid)
  return sorted(grid, key=lambda p: p[0] > 1)


def run(args):
  results = common.Results(args.output, schema="passnet.transposed_order/1", command=" ".join(["transposed_order.py", *sys.argv[1:]]), date=common.today(), rows=[])
  deadline = common.Deadline(args.seconds)
  for batch, channels, count, side, last_axis in problems():
    if deadline.over():
      break
    letters = ""
    for name, dtype in DTYPES.items():
      letters += judge(batch, channels, count, side, last_axis, dtype)
    results.document["rows"].append([batch, channels, count, *side, int(last_axis), letters])
    results.save()
  results.save(force=True)
  rows = results.document["rows"]
  for k, name in enumerate(DTYPES):
    print(f"{name}: " + ", ".join(f"{letter} {sum(r[-1][k] == letter for r in rows)}" for letter in "LF-") + f" of {len(rows)} of {len(problems())}")
  return 0


def table(args):
  rows = {}
  for path in args.records:
    with open(path, encoding="utf-8") as f:
      document = json.load(f)
    for row in document["rows"]:
      rows[tuple(row[:-1])] = row[-1]
  machine = document["machine"]
  with open(args.output, "w", encoding="utf-8") as f:
    f.write(f"# {machine['gpu']}, torch {machine['torch']}, cuDNN {machine['cudnn']}; written by transposed_order.py table\n")
    f.write("# kernel 4, stride 2, padding 1: batch, channels, results, height, width, channels last, then for float32, float16, bfloat16\n")
    f.write("# L: bits of the sum that takes the last tap first, F: the first, -: neither\n")
    for key, letters in sorted(rows.items()):
      f.write(" ".join(map(str, key)) + f" {letters}\n")
  return 0


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  commands = parser.add_subparsers(dest="command", required=True)
  p = commands.add_parser("run")
  p.add_argument("-o", "--output", required=True)
  p.add_argument("--seconds", type=float, default=60)
  p = commands.add_parser("table")
  p.add_argument("records", nargs="+")
  p.add_argument("-o", "--output", required=True)
  args = parser.parse_args()
  return run(args) if args.command == "run" else table(args)


if __name__ == "__main__":
  sys.exit(main())
