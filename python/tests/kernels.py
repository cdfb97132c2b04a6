"""Kernels for the interpreter's tests; in a file because Triton reads their source."""

import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as cuda_libdevice


@triton.jit
def unary(x, o, N, NAME: tl.constexpr, B: tl.constexpr):
  i = tl.program_id(0) * B + tl.arange(0, B)
  m = i < N
  v = tl.load(x + i, mask=m, other=0.5)
  if NAME == "exp":
    r = libdevice.exp(v)
  elif NAME == "tl_exp":
    r = tl.exp(v)
  elif NAME == "log":
    r = libdevice.log(v)
  elif NAME == "tanh":
    r = cuda_libdevice.tanh(v)
  elif NAME == "erf":
    r = libdevice.erf(v)
  elif NAME == "tl_erf":
    r = tl.math.erf(v)
  elif NAME == "sin":
    r = libdevice.sin(v)
  elif NAME == "cos":
    r = libdevice.cos(v)
  elif NAME == "rsqrt":
    r = libdevice.rsqrt(v)
  elif NAME == "expm1":
    r = libdevice.expm1(v)
  elif NAME == "log1p":
    r = libdevice.log1p(v)
  elif NAME == "sqrt_rn":
    r = tl.sqrt_rn(v)
  elif NAME == "rint":
    r = libdevice.rint(v)
  elif NAME == "floor":
    r = tl.floor(v)
  elif NAME == "trunc":
    r = libdevice.trunc(v)
  elif NAME == "abs":
    r = tl.abs(v)
  elif NAME == "sigmoid":
    r = tl.sigmoid(v)
  elif NAME == "isnan":
    r = libdevice.isnan(v).to(tl.float32)
  tl.store(o + i, r, mask=m)


@triton.jit
def binary(x, y, o, N, NAME: tl.constexpr, B: tl.constexpr):
  i = tl.program_id(0) * B + tl.arange(0, B)
  m = i < N
  a = tl.load(x + i, mask=m)
  b = tl.load(y + i, mask=m, other=1)
  if NAME == "add":
    r = a + b
  elif NAME == "sub":
    r = a - b
  elif NAME == "mul":
    r = a * b
  elif NAME == "div_rn":
    r = tl.div_rn(a, b)
  elif NAME == "lib_div_rn":
    r = libdevice.div_rn(a, b)
  elif NAME == "pow":
    r = libdevice.pow(a, b)
  elif NAME == "max":
    r = tl.maximum(a, b)
  elif NAME == "max_nan":
    r = tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
  elif NAME == "fma":
    r = tl.fma(a, b, a)
  elif NAME == "lib_fma":
    r = libdevice.fma(a, b, a)
  elif NAME == "div_int":
    r = a // b
  elif NAME == "mod_int":
    r = a % b
  elif NAME == "less":
    r = (a < b).to(tl.int8)
  elif NAME == "shift":
    r = a >> (b & 7)
  tl.store(o + i, r, mask=m)


@triton.jit
def cast(x, o, N, B: tl.constexpr):
  i = tl.program_id(0) * B + tl.arange(0, B)
  m = i < N
  tl.store(o + i, tl.load(x + i, mask=m).to(o.dtype.element_ty), mask=m)


@triton.jit
def helper(v, s):
  return v * s + 1.0


@triton.jit
def _later(a, i, b, j):
  take = (b > a) | ((b == a) & (j < i))
  return tl.where(take, b, a), tl.where(take, j, i)


@triton.jit
def rows(x, s, mx, am, cs, R, C: tl.constexpr, B: tl.constexpr):
  row = tl.program_id(0)
  c = tl.arange(0, B)
  m = c < C
  v = tl.load(x + row * C + c, mask=m, other=float("-inf"))
  tl.store(s + row, tl.sum(tl.where(m, v, 0.0), 0))
  tl.store(mx + row, tl.max(v, 0))
  best, at = tl.reduce((v, c), 0, _later)
  tl.store(am + row, at)
  tl.store(cs + row * C + c, tl.cumsum(tl.where(m, helper(v, 2.0), 0.0), 0), mask=m)


@triton.jit
def tile(x, o, M, N, BM: tl.constexpr, BN: tl.constexpr):
  r = tl.program_id(0) * BM + tl.arange(0, BM)
  c = tl.program_id(1) * BN + tl.arange(0, BN)
  m = (r[:, None] < M) & (c[None, :] < N)
  v = tl.load(x + r[:, None] * N + c[None, :], mask=m, other=0.0)
  w = tl.trans(v)
  tl.store(o + c[:, None] * M + r[None, :], w + tl.sum(w, axis=1, keep_dims=True) * 0.0, mask=tl.trans(m))


@triton.jit
def matmul(
  a,
  b,
  o,
  M: tl.constexpr,
  N: tl.constexpr,
  K: tl.constexpr,
  BM: tl.constexpr,
  BN: tl.constexpr,
  BK: tl.constexpr,
):
  r = tl.program_id(0) * BM + tl.arange(0, BM)
  c = tl.program_id(1) * BN + tl.arange(0, BN)
  acc = tl.zeros((BM, BN), dtype=tl.float32)
  for k0 in range(0, K, BK):
    k = k0 + tl.arange(0, BK)
    x = tl.load(a + r[:, None] * K + k[None, :], mask=(r[:, None] < M) & (k[None, :] < K), other=0.0)
    y = tl.load(b + k[:, None] * N + c[None, :], mask=(k[:, None] < K) & (c[None, :] < N), other=0.0)
    acc = tl.dot(x, y, acc, input_precision="ieee")
  tl.store(
    o + r[:, None] * N + c[None, :], acc.to(o.dtype.element_ty), mask=(r[:, None] < M) & (c[None, :] < N)
  )


@triton.jit
def branches(x, o, n, B: tl.constexpr):
  # In place and with control flow that differs between programs: a batch taken back must not be applied
  # twice.
  pid = tl.program_id(0)
  i = pid * B + tl.arange(0, B)
  tl.store(o + i, tl.load(o + i) + 1.0)
  if pid % 3 == 0:
    tl.store(o + i, tl.load(o + i) + 10.0)
  for k in range(0, pid):
    tl.store(o + i, tl.load(o + i) + 100.0)


@triton.jit
def add_one(x, o, N, B: tl.constexpr):
  i = tl.program_id(0) * B + tl.arange(0, B)
  tl.store(o + i, tl.load(x + i, mask=i < N) + 1.0, mask=i < N)


@triton.jit
def unmasked(x, o, B: tl.constexpr):
  i = tl.program_id(0) * B + tl.arange(0, B)
  tl.store(o + i, tl.load(x + i))


@triton.jit
def count(o, B: tl.constexpr):
  tl.atomic_add(o + tl.arange(0, B), tl.full((B,), 1, tl.int32))


@triton.autotune(configs=[triton.Config({"B": 64}), triton.Config({"B": 128})], key=["N"])
@triton.jit
def tuned(x, o, N, B: tl.constexpr):
  i = tl.program_id(0) * B + tl.arange(0, B)
  tl.store(o + i, tl.load(x + i, mask=i < N) * 2.0, mask=i < N)
