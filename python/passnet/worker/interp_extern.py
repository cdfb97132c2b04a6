"""What a kernel calls beyond Triton's own operations: libdevice symbols and known inline assembly, as exact
numpy functions.
"""

import numpy as np

from . import numeric


class Unsupported(Exception):
  """Something that the interpreter cannot run; says nothing about the kernel."""


def _round_tf32_away(x):
  bits = np.ascontiguousarray(x).view(np.uint32)
  return (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)


INLINE_ASM = {
  "cvt.rna.tf32.f32 $0, $1;": lambda x: _round_tf32_away(x).view(np.int32),
  "cvt.rn.tf32.f32 $0, $1;": lambda x: numeric.tf32_to_nearest(x).view(np.int32),
  "add.rn.f32 $0, $1, $2;": lambda a, b: a + b,
  "sub.rn.f32 $0, $1, $2;": lambda a, b: a - b,
  "mul.rn.f32 $0, $1, $2;": lambda a, b: a * b,
  "div.rn.f32 $0, $1, $2;": lambda a, b: a / b,
  "fma.rn.f32 $0, $1, $2, $3;": lambda a, b, c: numeric.fma(a, b, c),
}


# libdevice symbols beyond the plain `__nv_<name>[f]` ones.
_EXTERN = {
  "fdiv_rn": np.divide,
  "ddiv_rn": np.divide,
  "fast_fdividef": np.divide,
  "fadd_rn": np.add,
  "dadd_rn": np.add,
  "fsub_rn": np.subtract,
  "dsub_rn": np.subtract,
  "fmul_rn": np.multiply,
  "dmul_rn": np.multiply,
  "fsqrt_rn": np.sqrt,
  "dsqrt_rn": np.sqrt,
  "frsqrt_rn": lambda x: numeric.unary("rsqrt", x),
  "frcp_rn": lambda x: numeric.unary("reciprocal", x),
  "drcp_rn": lambda x: 1.0 / x,
  "fma": numeric.fma,
  "fmaf": numeric.fma,
  "fma_rn": numeric.fma,
  "fmaf_rn": numeric.fma,
  "isnanf": np.isnan,
  "isnand": np.isnan,
  "isinff": np.isinf,
  "isinfd": np.isinf,
  "finitef": np.isfinite,
  "isfinited": np.isfinite,
  "signbitf": np.signbit,
  "signbitd": np.signbit,
  "abs": np.abs,
  "llabs": np.abs,
  "saturatef": lambda x: np.where(np.isnan(x), 0, np.clip(x, 0, 1)),
  "float_as_int": lambda x: np.ascontiguousarray(x).view(np.int32),
  "int_as_float": lambda x: np.ascontiguousarray(x).view(np.float32),
  "float_as_uint": lambda x: np.ascontiguousarray(x).view(np.uint32),
  "uint_as_float": lambda x: np.ascontiguousarray(x).view(np.float32),
  "double_as_longlong": lambda x: np.ascontiguousarray(x).view(np.int64),
  "longlong_as_double": lambda x: np.ascontiguousarray(x).view(np.float64),
  "powif": lambda x, n: np.power(x.astype(np.float64), n).astype(x.dtype),
  "powi": lambda x, n: np.power(x, n),
  "ldexpf": np.ldexp,
  "ldexp": np.ldexp,
  "scalbnf": np.ldexp,
  "scalbn": np.ldexp,
  "cyl_bessel_i0": lambda x: numeric.unary("bessel_i0", x),
  "cyl_bessel_i0f": lambda x: numeric.unary("bessel_i0", x),
  "cyl_bessel_i1": lambda x: numeric.unary("bessel_i1", x),
  "cyl_bessel_i1f": lambda x: numeric.unary("bessel_i1", x),
  "float2int_rn": lambda x: numeric.float_to_int(np.rint(x), np.int32),
  "float2int_rz": lambda x: numeric.float_to_int(x, np.int32),
  "float2int_rd": lambda x: numeric.float_to_int(np.floor(x), np.int32),
  "float2int_ru": lambda x: numeric.float_to_int(np.ceil(x), np.int32),
  "float2ll_rn": lambda x: numeric.float_to_int(np.rint(x), np.int64),
  "float2ll_rz": lambda x: numeric.float_to_int(x, np.int64),
  "float2ll_rd": lambda x: numeric.float_to_int(np.floor(x), np.int64),
  "float2ll_ru": lambda x: numeric.float_to_int(np.ceil(x), np.int64),
  "llrintf": lambda x: numeric.float_to_int(np.rint(x), np.int64),
  "llrint": lambda x: numeric.float_to_int(np.rint(x), np.int64),
  "int2float_rn": lambda x: x.astype(np.float32),
  "ll2float_rn": lambda x: x.astype(np.float32),
  "double2float_rn": lambda x: x.astype(np.float32),
  "mulhi": lambda a, b: ((a.astype(np.int64) * b.astype(np.int64)) >> 32).astype(np.int32),
  "umulhi": lambda a, b: ((a.astype(np.uint64) * b.astype(np.uint64)) >> np.uint64(32)).astype(np.uint32),
  "popc": lambda x: np.bitwise_count(x.view(np.uint32)),
  "popcll": lambda x: np.bitwise_count(x.view(np.uint64)),
}


def function(symbol):
  """The exact function behind a libdevice symbol."""
  base = symbol.removeprefix("__nv_")
  if base in _EXTERN:
    return lambda *a: _quiet(_EXTERN[base], a)
  for name in (base, base.removesuffix("f"), base.removeprefix("fast_").removesuffix("f")):
    if name in numeric.UNARY or name in numeric.UNARY_EXACT:
      return lambda x: numeric.unary(name, x)
    if name in numeric.BINARY or name in numeric.BINARY_EXACT:
      return lambda x, y: numeric.binary(name, x, y)
  raise Unsupported(f"libdevice symbol {symbol}")


def _quiet(function, args):
  with np.errstate(all="ignore"):
    return function(*args)
