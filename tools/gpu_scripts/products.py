#!/usr/bin/env python3
"""How the library multiplies: which rounding of float32 operands, computed in float64, comes closest to eager on this GPU.

  products.py -o products.json [--seconds 60]

Per product and dtype, on normally distributed inputs: elements of eager outside the tolerance of t = -5 of the same product in
float64 with the operands left as they are (exact), rounded to tf32 to nearest even (rne), to nearest away from zero (rna) or
toward zero (rz). The planner's numerics gate rests on this table: a region may hold a product only where one of the columns is 0.
"""

import argparse
import sys

import torch
import torch.nn.functional as F

import common

from passnet.worker import compare

# name: (kind, input shape, weight shape, keyword arguments)
PRODUCTS = {
  "conv 1x1 64-64, 1 image": ("conv", (1, 64, 28, 28), (64, 64, 1, 1), {}),
  "conv 1x1 64-256, 8 images": ("conv", (8, 64, 56, 56), (256, 64, 1, 1), {}),
  "conv 1x1 192-768, 32 images": ("conv", (32, 192, 28, 28), (768, 192, 1, 1), {}),
  "conv 1x1 2080-1536": ("conv", (8, 2080, 8, 8), (1536, 2080, 1, 1), {}),
  "conv 1x1 3-16": ("conv", (4, 3, 64, 64), (16, 3, 1, 1), {}),
  "conv 1x1 4-16": ("conv", (4, 4, 64, 64), (16, 4, 1, 1), {}),
  "conv 1x1 17-33, odd sizes": ("conv", (2, 17, 13, 11), (33, 17, 1, 1), {}),
  "conv 1x1 512-1": ("conv", (4, 512, 32, 32), (1, 512, 1, 1), {}),
  "conv 1x1 256-64 on 1x1": ("conv", (8, 256, 1, 1), (64, 256, 1, 1), {}),
  "conv 1x1 stride 2": ("conv", (8, 64, 56, 56), (128, 64, 1, 1), {"stride": 2}),
  "conv 1x1 channels last": ("conv_last", (8, 64, 56, 56), (256, 64, 1, 1), {}),
  "conv 3x3 64-64": ("conv", (8, 64, 28, 28), (64, 64, 3, 3), {"padding": 1}),
  "conv 3x3 3-32 stride 2": ("conv", (8, 3, 112, 112), (32, 3, 3, 3), {"padding": 1, "stride": 2}),
  "conv 4x4 stride 4 patches": ("conv", (4, 3, 128, 128), (96, 3, 4, 4), {"stride": 4}),
  "conv 16x16 stride 16 patches": ("conv", (2, 3, 224, 224), (384, 3, 16, 16), {"stride": 16}),
  "conv 3x3 in 4 groups": ("conv", (8, 64, 28, 28), (64, 16, 3, 3), {"padding": 1, "groups": 4}),
  "conv 3x3 depthwise": ("conv", (8, 96, 28, 28), (96, 1, 3, 3), {"padding": 1, "groups": 96}),
  "conv 7x7 depthwise": ("conv", (8, 96, 28, 28), (96, 1, 7, 7), {"padding": 3, "groups": 96}),
  "conv 3x3 depthwise stride 2": ("conv", (8, 96, 56, 56), (96, 1, 3, 3), {"padding": 1, "stride": 2, "groups": 96}),
  "conv transposed 4x4": ("transposed", (2, 128, 16, 12), (128, 64, 4, 4), {"stride": 2, "padding": 1}),
  "conv transposed 2x2": ("transposed", (2, 128, 16, 12), (128, 64, 2, 2), {"stride": 2}),
  "linear 768-3072": ("linear", (8, 128, 768), (3072, 768), {}),
  "linear 3072-768": ("linear", (8, 128, 3072), (768, 3072), {}),
  "linear 128-4": ("linear", (16, 128), (4, 128), {}),
  "linear 64-64 skinny": ("linear", (1, 64), (64, 64), {}),
  "matmul 64": ("matmul", (8, 12, 128, 64), (8, 12, 64, 128), {}),
  "matmul 512": ("matmul", (4, 64, 512), (4, 512, 64), {}),
}
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
WRITTEN = 13  # bits of float32's mantissa that tf32 does not have


def rounded(t, how):
  """float32 values as tf32 holds them."""
  bits = t.view(torch.int32).to(torch.int64) & 0xFFFFFFFF
  low = (1 << WRITTEN) - 1
  if how == "rne":
    bits = bits + (low >> 1) + ((bits >> WRITTEN) & 1)
  elif how == "rna":
    bits = bits + (1 << (WRITTEN - 1))
  bits = bits & ~low & 0xFFFFFFFF
  return torch.where(bits >= 1 << 31, bits - (1 << 32), bits).to(torch.int32).view(torch.float32)


def product(kind, x, w, bias, options):
  if kind == "conv_last":
    return F.conv2d(x.to(memory_format=torch.channels_last), w.to(memory_format=torch.channels_last), bias, **options)
  if kind == "conv":
    return F.conv2d(x, w, bias, **options)
  if kind == "transposed":
    return F.conv_transpose2d(x, w, bias, **options)
  if kind == "linear":
    return F.linear(x, w, bias)
  return torch.matmul(x, w)


def judge(kind, x_shape, w_shape, options, dtype, with_bias):
  generator = torch.Generator(device=common.device()).manual_seed(3)
  x = torch.randn(x_shape, generator=generator, device=common.device()).to(dtype)
  w = torch.randn(w_shape, generator=generator, device=common.device()).to(dtype)
  outputs = w_shape[1] if kind == "transposed" else w_shape[0]
  bias = torch.randn(outputs, generator=generator, device=common.device()).to(dtype) if with_bias and kind != "matmul" else None
  got = product(kind, x, w, bias, options)
  wide = None if bias is None else bias.double()
  entry = {"elements": got.numel()}
  for how in ("exact", "rne", "rna", "rz") if dtype == torch.float32 else ("exact",):
    a, b = (x, w) if how == "exact" else (rounded(x, how), rounded(w, how))
    want = product(kind, a.double(), b.double(), wide, options)
    if dtype != torch.float32 and bias is not None:  # is the product rounded before the bias is added?
      once = product(kind, a.double(), b.double(), None, options).to(dtype)
      shape = [1, -1] + [1] * (got.dim() - 2) if kind != "linear" else [-1]
      twice = (once.float() + bias.float().view(shape)).to(dtype)
      entry["twice"] = outside(twice, got)
    entry[how] = outside(want.to(dtype), got)
  return entry


def outside(want, got):
  found = compare.compare_tensors(want, got)
  return {"outside": found.get("outside", 0), "differ": int((want != got).sum()), "largest": float((want.double() - got.double()).abs().max())}


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("-o", "--output", required=True)
  parser.add_argument("--seconds", type=float, default=60)
  args = parser.parse_args()
  results = common.Results(args.output, schema="passnet.products/1", products={},
                           allow_tf32={"cudnn": torch.backends.cudnn.allow_tf32, "matmul": torch.backends.cuda.matmul.allow_tf32})
  deadline = common.Deadline(args.seconds)
  torch.manual_seed(0)
  for name, (kind, x_shape, w_shape, options) in PRODUCTS.items():
    for dtype_name, dtype in DTYPES.items():
      for with_bias in (False, True) if kind != "matmul" else (False,):
        if deadline.over():
          continue
        key = f"{name}, {dtype_name}{', bias' if with_bias else ''}"
        try:
          entry = judge(kind, x_shape, w_shape, options, dtype, with_bias)
        except Exception as e:  # noqa: BLE001 - one product that fails is one line
          entry = {"error": f"{type(e).__name__}: {str(e)[:200]}"}
        results.document["products"][key] = entry
        print(f"{key:52s}", entry.get("error") or " ".join(f"{k} {v['outside']}/{v['differ']}" for k, v in entry.items() if isinstance(v, dict)), f"of {entry.get('elements')}",
              flush=True)
        results.save()
  results.save(force=True)
  return 0


if __name__ == "__main__":
  sys.exit(main())
