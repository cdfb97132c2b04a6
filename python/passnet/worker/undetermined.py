"""Which elements of an array program's outputs the arithmetic does not determine.

Two ways to compute one formula differ by the order of sums, by the last places of functions, by how often a 16-bit type
rounds on the way, and in the signs of zeros and NaNs that no rule fixes. As a rule that stays within every tolerance;
behind a difference of nearly equal numbers, a pole, a floor or a comparison it does not. Here a program is evaluated
many times, every inexact step moved at random by what its error may be: what those evaluations do not agree on within
the tolerance, no comparison can decide. What is exact (integers, copies, sums whose partial sums all fit) is never
moved, so a value that is exact by every route stays determined.
"""

import math

import numpy as np

from . import compare, numeric, reference

RUNS = 24
WHOLE_LIMIT = 1 << 15  # element evaluations (times reduction points) up to which an array is evaluated whole
# A value counts as one of the possible ones within this many times the range that was seen: behind a pole the values
# have no bounds that few evaluations would meet.
WIDENED = 8

_MANTISSA = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
_ARITHMETIC = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "div_rn": np.divide}
_FUNCTIONS = set(numeric.UNARY) | {"pow", "atan2", "hypot", "fmod"}


class Errors:
  """By how much the steps of one computation may be off, in last places.

  kernel: what two kernels of one formula may differ by: order of sums, functions. eager: what an eager of another
  device may: other formulas of the same operator, products without tf32, and where a 16-bit type takes part, any step and
  any scalar rounded to it.
  """

  def __init__(self, arithmetic, functions, narrow, signs):
    self.arithmetic, self.functions, self.narrow, self.signs = arithmetic, functions, narrow, signs


KERNEL = Errors(arithmetic=0, functions=2, narrow=0, signs=False)
EAGER = Errors(arithmetic=1, functions=4, narrow=2, signs=True)


def spacing(data, dtype):
  """The last place of every element; 0 where there is none (infinities, NaN)."""
  with np.errstate(all="ignore"):
    if dtype == "f64":
      out = np.spacing(np.abs(data))
    elif dtype == "f16":
      out = np.spacing(np.abs(data.astype(np.float16))).astype(np.float64)
    else:
      out = np.spacing(np.abs(data.astype(np.float32))).astype(np.float64)
      out = out * 65536 if dtype == "bf16" else out
  return np.where(np.isfinite(out), out, 0.0)


def sums_exactly(data, steps=2.0**24):
  """Rows whose sum has no rounding in any order: all terms are multiples of one power of two, and few enough."""
  finite = np.isfinite(data).all(axis=1)
  with np.errstate(all="ignore"):
    wide = np.where(np.isfinite(data), data, 0.0).astype(np.float64)
    mantissa, exponent = np.frexp(wide)
    bits = np.abs(mantissa * (1 << 53)).astype(np.int64)
    low = (bits & -bits).astype(np.float64)  # the lowest bit set
    lowest = np.where(wide == 0, np.inf, np.ldexp(low, exponent - 53)).min(axis=1, initial=np.inf)
    total = np.abs(wide).sum(axis=1)
  return finite & ((total == 0) | (total <= lowest * steps))


class _Environment(reference.Environment):
  def _call(self, name, args):
    return self.evaluator.moved(name, args, super()._call(name, args))

  def _cast(self, value, dtype):
    return self.evaluator.moved_cast(value, super()._cast(value, dtype))

  def _constant(self, value, dtype):
    return self.evaluator.moved_constant(super()._constant(value, dtype))


class Plain(reference.Evaluator):
  """Without errors; few elements of a large array are all that is asked for, many times over."""

  def _is_whole(self, array):
    return array["kind"] == "input" or array["id"] in self._whole or self.cost(array) <= WHOLE_LIMIT


class Moved(Plain):
  """One evaluation with its errors."""

  def __init__(self, program, tensors, errors, seed, run):
    super().__init__(program, tensors)
    self.errors, self.random = errors, np.random.RandomState([seed, run])
    # Errors of many elements may go one way (another formula, the sign that a machine gives its NaNs): in every
    # second run they do.
    self.bias = (0, 1, 0, -1)[run % 4]
    self.unrounded = run % 8 < 4
    types = {a["dtype"] for a in program["arrays"]}
    # The 16-bit type that takes part, if the errors are those that reckon with it.
    self.narrow = next((t for t in ("bf16", "f16") if t in types and errors.narrow), None)
    self.constants = {}
    self.scaled = any(a["kind"] == "reduce" for a in program["arrays"])

  @property
  def environment(self):
    return _Environment

  def _step(self, value, places, where=None, place=None):
    """The value with some elements some last places off (`place`: the size of one, where it is not the value's own)."""
    data, dtype = value.data, value.dtype
    if places == 0 or (where is not None and not np.any(where)):
      return value
    by = np.full(data.shape, self.bias * places)
    if self.bias == 0:
      by = self.random.randint(-places, places + 1, size=data.shape)
    if where is not None:
      by = np.where(where, by, 0)
    with np.errstate(all="ignore"):
      off = data.astype(np.float64) + by * (spacing(data, dtype) if place is None else place)
      if place is None:  # nothing is moved over zero
        off = np.where(np.signbit(off) == np.signbit(data), off, data)
      off = np.where(np.isfinite(off), off, data)
    return reference.Value(reference.round_to(off, dtype), dtype, value.bad)

  def moved(self, name, args, value):
    if value.dtype not in _MANTISSA:
      return value
    e = self.errors
    if name == "tf32" and e.signs:
      # Rounding that the library of one device does and that of another does not: all of it, or none.
      return value if self.bias < 0 or (self.bias == 0 and not self.unrounded) else args[0]
    if name in ("min", "max"):
      return self._signs(value, value.data == 0)
    if name in _FUNCTIONS or name == "fma":
      places = e.arithmetic if name == "fma" else e.functions
      exact = numeric.UNARY.get(name)
      with np.errstate(all="ignore"):
        inexact = None if exact is None else exact(args[0].data.astype(np.float64)) != value.data
      return self._step(value, places, inexact)
    if name in ("add", "sub") and e.arithmetic:
      # Where one eager subtracts and then scales, another scales both and subtracts what was rounded.
      a, b = np.broadcast_arrays(args[0].data, args[1].data)
      short = sums_exactly(np.stack([a.reshape(-1), b.reshape(-1)], axis=1), 2.0**10).reshape(a.shape)
      kind = self.narrow or value.dtype
      larger = np.where(
        short,
        np.maximum(spacing(a, value.dtype), spacing(b, value.dtype)),
        np.maximum(spacing(a, kind), spacing(b, kind)),
      )
      # Numbers of few bits are subtracted exactly, unless something scales them first.
      return self._step(value, e.arithmetic, None if self.scaled else ~short, larger)
    if name in _ARITHMETIC and e.arithmetic and value.dtype != "f64":
      with np.errstate(all="ignore"):
        wide = _ARITHMETIC[name](args[0].data.astype(np.float64), args[1].data.astype(np.float64))
      return self._step(value, e.arithmetic, wide != value.data)
    return value

  def moved_cast(self, before, value):
    """A 16-bit type is where an operator ends, and on another device may have rounded within it already."""
    if before.dtype not in _MANTISSA:
      return value
    if value.dtype not in _MANTISSA:
      return self._converted(before, value)
    if value.dtype not in ("f16", "bf16"):
      return value
    with np.errstate(all="ignore"):
      return self._step(value, self.errors.narrow, before.data != value.data)

  def moved_constant(self, value):
    if self.narrow is None or value.dtype != "f32":
      return value
    number = float(value.data[0])
    if number not in self.constants:
      # A scalar that the formula rounds to the operand's type may be taken as it was, and the other way round. One of
      # few bits (0.5, 3) is exact both ways.
      mantissa = math.frexp(number)[0] * 64 if math.isfinite(number) else 0
      rounded = float(reference.round_to(value.data, self.narrow)[0])
      half = float(spacing(value.data, self.narrow)[0]) / 2 if mantissa != int(mantissa) else 0
      self.constants[number] = self.random.choice([number, rounded, number - half, number + half])
    return reference.Value(np.array([self.constants[number]], dtype=np.float32), "f32")

  def _converted(self, before, value):
    """What does not fit an integer has no value there: a GPU's is the nearest, a CPU's whatever its instruction gives."""
    if value.dtype == "bool" or not self.errors.signs:
      return value
    info = np.iinfo(value.data.dtype)
    with np.errstate(all="ignore"):
      fits = (before.data >= float(info.min)) & (before.data < float(info.max))
    if np.all(fits):
      return value
    other = self.random.choice(np.array([info.min, 0, info.max]), size=value.data.shape)
    return reference.Value(np.where(fits, value.data, other).astype(value.data.dtype), value.dtype, value.bad)

  def _signs(self, value, where):
    if not self.errors.signs or not np.any(where):
      return value
    return reference.Value(np.where(where, self._signed(value.data), value.data), value.dtype, value.bad)

  def _signed(self, data):
    sign = self.random.choice([-1, 1], size=data.shape) if self.bias == 0 else self.bias
    return np.copysign(data, sign).astype(data.dtype)

  def kept(self, array, data):
    if array["dtype"] not in _MANTISSA:
      return data
    # The sign of a NaN is anybody's; that of a zero, of whoever wrote the branches.
    loose = np.isnan(data) | ((data == 0) if self.errors.signs else False)
    if not np.any(loose):
      return data
    return np.where(loose, self._signed(data), data)

  def reduce(self, op, data, dtype):
    out = super().reduce(op, data, dtype)
    if op not in ("sum", "prod") or dtype not in _MANTISSA or data.shape[1] < 2:
      return out
    bits = _MANTISSA[self.narrow or dtype]
    exact = sums_exactly(data, 2.0 ** min(bits, 24)) if op == "sum" else np.all(np.abs(data) == 1, axis=1)
    terms = data.shape[1]
    with np.errstate(all="ignore"):
      if op == "sum":
        # Pairwise, as a rule; a 16-bit type may be what one after the other is added up in.
        steps = terms if self.narrow else math.log2(terms) + 1
        scale = np.abs(data.astype(np.float64)).sum(axis=1) * steps
      else:
        scale = np.abs(out.astype(np.float64)) * terms
      # Also by little: not at all is one of the possible values.
      by = self.random.uniform(-1, 1, size=out.shape) ** 3 if self.bias == 0 else self.bias
      off = out + np.where(exact, 0.0, by * scale * 2.0**-bits)
      off = np.where(np.isfinite(off), off, out)
    return reference.round_to(off, dtype).astype(out.dtype, copy=False)


class Range:
  """What an output may be, element by element."""

  def __init__(self, low, high, number, nan):
    self.low, self.high, self.number, self.nan = low, high, number, nan

  def reshaped(self, shape):
    return Range(*(a.reshape(shape) for a in (self.low, self.high, self.number, self.nan)))

  @staticmethod
  def of(values):
    """Of what several evaluations gave: arrays of one shape."""
    found = None
    for v in values:
      v = np.asarray(v).astype(np.float64)
      nan = np.isnan(v)
      now = np.where(nan, np.inf, v), np.where(nan, -np.inf, v), ~nan, nan
      found = now if found is None else (
        np.minimum(found[0], now[0]), np.maximum(found[1], now[1]), found[2] | now[2], found[3] | now[3]
      )
    return Range(*found)

  def undetermined(self, value, t=compare.BASE_T):
    """Elements of the tensor `value` that are possible ones of several that differ by more than the tolerance."""
    got = numeric.to_numpy(value.detach().cpu()).astype(np.float64)
    rtol, atol = compare.tolerance(value.dtype, t)
    with np.errstate(all="ignore"):
      spread = self.high - self.low
      largest = np.maximum(np.abs(self.low), np.abs(self.high))
      wide = (spread > atol + rtol * largest) | (np.isinf(self.low) != np.isinf(self.high))
      reach = np.where(np.isfinite(spread), WIDENED * spread, np.inf)
      inside = (got >= self.low - reach) & (got <= self.high + reach)
      # A range that is all but as wide as the tolerance: only what is really in it.
      near = (2 * spread > atol + rtol * largest) & (got >= self.low - spread / 2) & (got <= self.high + spread / 2)
      open_nan = self.nan & self.number
    return np.where(np.isnan(got), self.nan & (open_nan | wide), near | (inside & (wide | open_nan)))


def at(program, tensors, errors, output, flat, runs=RUNS, seed=1):
  """The Range of one output at row-major positions."""
  seen = []
  for run in range(runs):
    evaluator = Moved(program, tensors, errors, seed, run) if run else Plain(program, tensors)
    seen.append(evaluator.at(program["outputs"][output], flat))
  return Range.of(seen)


def possible(program, tensors, errors, output, flat, values, t=compare.BASE_T, runs=RUNS, seed=1):
  """Which positions are undetermined, by each of several tensors of values there. Asks for no more evaluations than that
  takes.
  """
  seen, found = [], np.zeros(len(flat), dtype=bool)
  for run in range(runs):
    evaluator = Moved(program, tensors, errors, seed, run) if run else Plain(program, tensors)
    seen.append(evaluator.at(program["outputs"][output], flat))
    if run % 4 == 3 or run == runs - 1:
      ranges = Range.of(seen)
      found = np.logical_and.reduce([ranges.undetermined(v, t) for v in values])
      if found.all():
        break
  return found


def outputs(program, tensors, errors, runs=RUNS, seed=1):
  """The Range of every output, whole."""
  shapes = {a["id"]: a["shape"] for a in program["arrays"]}
  out = []
  for k, array in enumerate(program["outputs"]):
    n = math.prod(shapes[array])
    out.append(at(program, tensors, errors, k, np.arange(n, dtype=np.int64), runs, seed).reshaped(shapes[array]))
  return out
