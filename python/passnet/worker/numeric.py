"""Exact scalar functions on numpy arrays, shared by the kernel interpreter and the reference evaluator.

fp32 transcendental functions are computed in fp64 and rounded once; a fused multiply-add rounds once. bf16
values live as uint16 bit patterns in memory and as fp32 in between.
"""

import numpy as np
import torch

F32, F64 = np.float32, np.float64


def bf16_to_f32(bits):
  # A shift of an array without dimensions gives a number, which is no array.
  return np.asarray(np.asarray(bits, dtype=np.uint16).astype(np.uint32) << np.uint32(16)).view(F32)


def f32_to_bf16(values):
  """Round to nearest even; NaN stays NaN."""
  bits = np.ascontiguousarray(values, dtype=F32).view(np.uint32)
  rounded = ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(
    np.uint16
  )
  nan = np.isnan(values)
  if np.any(nan):
    rounded = np.where(nan, np.uint16(0x7FC0), rounded)
  return rounded


def f32_to_bf16_toward_zero(values):
  return (np.ascontiguousarray(values, dtype=F32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)


def to_numpy(tensor):
  """A CPU tensor's values as numpy holds them; bf16 as fp32."""
  if tensor.dtype == torch.bfloat16:
    return bf16_to_f32(tensor.contiguous().view(torch.uint16).numpy())
  return tensor.numpy()


def f64_to_bf16(values):
  return f32_to_bf16(f64_round_to_odd_f32(np.asarray(values, dtype=F64)))


def f64_round_to_odd_f32(values):
  """fp32 whose last bit says that something was cut off, so that a second rounding is still the right one."""
  with np.errstate(all="ignore"):
    near = values.astype(F32)
    back = near.astype(F64)
    inexact = (back != values) & np.isfinite(values) & np.isfinite(near)
    bits = near.view(np.int32) if near.flags.c_contiguous else np.ascontiguousarray(near).view(np.int32)
    # Move to the neighbour toward zero where rounding went away from zero, then set the sticky bit.
    away = inexact & (np.abs(back) > np.abs(values))
    bits = np.where(away, bits - 1, bits)
    bits = np.where(inexact, bits | 1, bits).astype(np.int32)
  return bits.view(F32)


def fma(x, y, z):
  """x * y + z rounded once, in the dtype of z (fp16 through fp64: exact product, one rounding)."""
  dtype = z.dtype
  if dtype == F64:
    return _fma64(x, y, z)
  with np.errstate(all="ignore"):
    p = x.astype(F64) * y.astype(F64)  # exact: 24 + 24 bits
    c = z.astype(F64)
    s = p + c
    bb = s - p
    err = (p - (s - bb)) + (c - bb)
    # Round to odd, so that the cast below rounds the true sum.
    fix = (err != 0) & np.isfinite(s) & np.isfinite(err)
    if np.any(fix):
      bits = np.ascontiguousarray(np.broadcast_to(s, fix.shape)).view(np.int64)
      even = fix & ((bits & 1) == 0)
      step = np.where((err > 0) == (s > 0), 1, -1)
      s = np.where(even, bits + step, bits).view(F64)
    return s.astype(dtype)


def _fma64(x, y, z):
  import math

  if hasattr(math, "fma"):
    return np.vectorize(_safe_fma, otypes=[F64])(x, y, z)
  wide = np.longdouble
  return (x.astype(wide) * y.astype(wide) + z.astype(wide)).astype(F64)


def _safe_fma(x, y, z):
  import math

  try:
    return math.fma(x, y, z)
  except (OverflowError, ValueError):
    return x * y + z


def _torch64(function):
  def call(x):
    return function(torch.from_numpy(np.ascontiguousarray(x, dtype=F64))).numpy().reshape(np.shape(x))

  return call


def round_half_away(x):
  t = np.trunc(x)
  return np.where(np.abs(x - t) >= 0.5, t + np.sign(x), t)


# Functions of one argument evaluated in fp64 and rounded to the argument's dtype.
UNARY = {
  "exp": np.exp,
  "exp2": np.exp2,
  "expm1": np.expm1,
  "log": np.log,
  "log2": np.log2,
  "log10": np.log10,
  "log1p": np.log1p,
  "sqrt": np.sqrt,
  "rsqrt": lambda x: 1.0 / np.sqrt(x),
  "sin": np.sin,
  "cos": np.cos,
  "tan": np.tan,
  "asin": np.arcsin,
  "acos": np.arccos,
  "atan": np.arctan,
  "sinh": np.sinh,
  "cosh": np.cosh,
  "tanh": np.tanh,
  "asinh": np.arcsinh,
  "acosh": np.arccosh,
  "atanh": np.arctanh,
  "erf": _torch64(torch.special.erf),
  "erfc": _torch64(torch.special.erfc),
  "erfinv": _torch64(torch.special.erfinv),
  "lgamma": _torch64(torch.special.gammaln),
  "cbrt": np.cbrt,
  "rcbrt": lambda x: 1.0 / np.cbrt(x),
  "exp10": lambda x: np.power(10.0, x),
  "tgamma": lambda x: np.exp(_torch64(torch.special.gammaln)(x)),
  "reciprocal": lambda x: 1.0 / x,
  "cospi": lambda x: np.cos(np.pi * x),
  "sinpi": lambda x: np.sin(np.pi * x),
  "normcdf": _torch64(torch.special.ndtr),
  "bessel_i0": _torch64(torch.special.i0),
  "bessel_i1": _torch64(torch.special.i1),
}
# Exact in any precision: no widening needed.
UNARY_EXACT = {
  "floor": np.floor,
  "ceil": np.ceil,
  "trunc": np.trunc,
  "rint": np.rint,
  "nearbyint": np.rint,
  "round": round_half_away,
  "fabs": np.abs,
  "abs": np.abs,
  "neg": np.negative,
}
BINARY = {"pow": np.power, "atan2": np.arctan2, "hypot": np.hypot}
BINARY_EXACT = {
  "fmod": np.fmod,
  "copysign": np.copysign,
  "fmin": np.fmin,
  "fmax": np.fmax,
  "fdim": lambda a, b: np.where(a > b, a - b, 0).astype(a.dtype),
  "nextafter": np.nextafter,
  "remainder": lambda a, b: (a - b * np.rint(a.astype(F64) / b)).astype(a.dtype),
}


def unary(name, x):
  """A function of one fp argument, result in x's dtype."""
  with np.errstate(all="ignore"):
    if name in UNARY_EXACT:
      return UNARY_EXACT[name](x)
    return UNARY[name](x.astype(F64)).astype(x.dtype)


def binary(name, x, y):
  with np.errstate(all="ignore"):
    if name in BINARY_EXACT:
      return BINARY_EXACT[name](x, y)
    return BINARY[name](x.astype(F64), y.astype(F64)).astype(x.dtype)


def float_to_int(x, dtype):
  """Truncation toward zero, saturating, NaN to 0: what the GPU's conversion does."""
  info = np.iinfo(dtype)
  with np.errstate(all="ignore"):
    t = np.trunc(x.astype(F64))
    out = np.where(np.isnan(t), 0.0, t)
    low, high = out <= float(info.min), out >= float(info.max)
    body = np.where(low | high, 0.0, out).astype(dtype)
  return np.where(low, dtype(info.min), np.where(high, dtype(info.max), body)).astype(dtype)


def tf32_to_nearest(x):
  """float32 values as tf32 holds them: 10 bits of mantissa, ties to even."""
  bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
  rounded = (bits + 4095 + ((bits >> 13) & 1)) & np.uint32(0xFFFFE000)
  return np.where(np.isnan(x), x, rounded.astype(np.uint32).view(np.float32))


def tf32_toward_zero(x):
  return (np.ascontiguousarray(x, dtype=F32).view(np.uint32) & np.uint32(0xFFFFE000)).view(F32)
