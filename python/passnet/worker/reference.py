"""The CUDA reference: evaluates array programs (src/ops/array_ir.h says what they mean) with exact functions,
on the CPU.

Small arrays are evaluated whole; of large ones only the elements that are asked for, with what they need. A
read outside an array poisons the elements that use it; a select drops the branch it does not take.
"""

from dataclasses import dataclass

import numpy as np
import torch

from . import compare, numeric
from .errors import WorkerError

WHOLE_LIMIT = 1 << 22  # element evaluations (times reduction points) up to which an array is evaluated whole
CHUNK = 1 << 20  # element evaluations at a time

_NUMPY = {
  "f32": np.float32,
  "f16": np.float16,
  "bf16": np.float32,
  "f64": np.float64,
  "i64": np.int64,
  "i32": np.int32,
  "i16": np.int16,
  "i8": np.int8,
  "u8": np.uint8,
  "bool": np.bool_,
  "c64": np.complex64,
  "c128": np.complex128,
}
_TORCH = {
  "f32": torch.float32,
  "f16": torch.float16,
  "bf16": torch.bfloat16,
  "f64": torch.float64,
  "i64": torch.int64,
  "i32": torch.int32,
  "i16": torch.int16,
  "i8": torch.int8,
  "u8": torch.uint8,
  "bool": torch.bool,
  "c64": torch.complex64,
  "c128": torch.complex128,
}
_FLOATS = ("f16", "bf16", "f32", "f64")


@dataclass
class Value:
  """Values of one expression at some points; arrays broadcast against each other. bad: elements that read
  outside an array.
  """

  data: np.ndarray
  dtype: str
  bad: np.ndarray | None = None


def _merge_bad(*values):
  bad = None
  for v in values:
    if v.bad is not None:
      bad = v.bad if bad is None else bad | v.bad
  return bad


def round_to(data, dtype):
  """fp data of any width as `dtype` holds it; bf16 in fp32 arrays. Through fp32, as torch's conversions go."""
  with np.errstate(all="ignore"):
    if dtype == "bf16":
      return numeric.bf16_to_f32(numeric.f32_to_bf16(data.astype(np.float32)))
    if dtype == "f16":
      return data.astype(np.float32).astype(np.float16)
    return data.astype(_NUMPY[dtype], copy=False)


def cast(value, dtype):
  source, data = value.dtype, value.data
  if source == dtype:
    return value
  if dtype in _FLOATS:
    out = round_to(
      data if source in _FLOATS else data.astype(np.float64 if dtype == "f64" else np.float32), dtype
    )
  elif dtype == "bool":
    out = data != 0
  elif source in _FLOATS:
    wide = numeric.float_to_int(data, np.int64 if dtype in ("i64", "u8") else np.int32)
    out = wide.astype(_NUMPY[dtype])
  else:
    out = data.astype(_NUMPY[dtype])
  return Value(out, dtype, value.bad)


def _quiet(function):
  def call(*args):
    with np.errstate(all="ignore"):
      return function(*args)

  return call


def _truncdiv(a, b):
  return ((a - np.fmod(a, b)) // b).astype(a.dtype)


def _mod(a, b):
  """The sign of the divisor, but a zero has that of the dividend: what is left of fmod."""
  if a.dtype.kind != "f":
    return np.mod(a, b)
  rest = np.fmod(a, b)
  return np.where((rest != 0) & ((b < 0) != (rest < 0)), rest + b, rest).astype(a.dtype)


def _power(a, b):
  if a.dtype.kind == "f":
    return numeric.binary("pow", a, b)
  negative = b < 0
  base = np.power(a, np.where(negative, 0, b))
  return np.where(
    negative, np.where(a == 1, 1, np.where(a == -1, np.where(b % 2 == 0, 1, -1), 0)), base
  ).astype(a.dtype)


def _logical(on_bool, on_int):
  return lambda *args: (on_bool if args[0].dtype == np.bool_ else on_int)(*args)


_FUNCTIONS = {
  "add": np.add,
  "sub": np.subtract,
  "mul": np.multiply,
  "div": np.divide,
  "div_rn": np.divide,
  "floordiv": np.floor_divide,
  "mod": _mod,
  "truncdiv": _truncdiv,
  "fma": numeric.fma,
  "neg": np.negative,
  "abs": np.abs,
  "min": np.minimum,
  "max": np.maximum,
  "pow": _power,
  "sign": lambda x: ((x > 0).astype(np.int8) - (x < 0).astype(np.int8)).astype(x.dtype),
  "tf32": numeric.tf32_to_nearest,
  "lt": np.less,
  "le": np.less_equal,
  "gt": np.greater,
  "ge": np.greater_equal,
  "eq": np.equal,
  "ne": np.not_equal,
  "isnan": np.isnan,
  "isinf": np.isinf,
  "and": _logical(np.logical_and, np.bitwise_and),
  "or": _logical(np.logical_or, np.bitwise_or),
  "xor": _logical(np.logical_xor, np.bitwise_xor),
  "not": _logical(np.logical_not, np.bitwise_not),
  "shl": np.left_shift,
  "shr": np.right_shift,
}
for _name in ("floor", "ceil", "trunc", "rint", *numeric.UNARY):
  _FUNCTIONS.setdefault(_name, lambda x, n=_name: numeric.unary(n, x))
for _name in ("atan2", "copysign", "fmod", "hypot"):
  _FUNCTIONS.setdefault(_name, lambda x, y, n=_name: numeric.binary(n, x, y))
_GIVES_BOOL = {"lt", "le", "gt", "ge", "eq", "ne", "isnan", "isinf"}


class Evaluator:
  @property
  def environment(self):
    return Environment

  def __init__(self, program, tensors):
    self.program = program
    self.arrays = {a["id"]: a for a in program["arrays"]}
    self.exprs = program.get("exprs", [])
    self.inputs = [self._input(a, tensors) if a["kind"] == "input" else None for a in program["arrays"]]
    self.by_id = {a["id"]: x for a, x in zip(program["arrays"], self.inputs)}
    self._whole = {}
    self._points = {}  # array -> (sorted flat indices, values) known so far

  def _input(self, array, tensors):
    k = array["input"]
    if k >= len(tensors):
      raise WorkerError(
        "reference.inputs", f"the program reads tensor argument {k}, the wrapper got {len(tensors)}", ""
      )
    t = tensors[k].detach().cpu()
    if list(t.shape) != list(array["shape"]) or t.dtype != _TORCH[array["dtype"]]:
      raise WorkerError(
        "reference.inputs",
        f"tensor argument {k} is {t.dtype}{list(t.shape)}, the program is for "
        f"{array['dtype']}{list(array['shape'])}",
        "",
      )
    return (
      t.view(torch.uint16).numpy() if t.dtype == torch.bfloat16 else t.numpy()
    )  # widened where it is read

  # -- whole arrays
  def cost(self, array):
    n = _product(array["shape"]) if array["kind"] != "input" else 0
    return n * _product(array.get("extents", []))

  def whole(self, array_id):
    """All elements as a numpy array of the array's shape."""
    array = self.arrays[array_id]
    if array["kind"] == "input":
      return self._widened(array, self.by_id[array_id])
    if array_id not in self._whole:
      n = _product(array["shape"])
      self._whole[array_id] = self._evaluate(array, np.arange(n, dtype=np.int64)).reshape(array["shape"])
    return self._whole[array_id]

  @staticmethod
  def _widened(array, data):
    return numeric.bf16_to_f32(data) if array["dtype"] == "bf16" else data

  def pick(self, array, positions):
    """Elements of an input or of an array evaluated whole; one index array a dimension."""
    if array["kind"] == "input":
      return self._widened(array, np.atleast_1d(self.by_id[array["id"]][tuple(positions)]))
    return np.atleast_1d(self.whole(array["id"])[tuple(positions)])

  def _is_whole(self, array):
    return array["kind"] == "input" or array["id"] in self._whole or self.cost(array) <= WHOLE_LIMIT

  # -- chosen elements
  def at(self, array_id, flat):
    """Elements at row-major positions `flat` (a 1-d int64 array)."""
    array = self.arrays[array_id]
    if self._is_whole(array):
      return np.ascontiguousarray(self.whole(array_id)).reshape(-1)[flat]
    unique, back = np.unique(flat, return_inverse=True)
    known, values = self._points.get(array_id, (np.zeros(0, np.int64), None))
    new = np.setdiff1d(unique, known, assume_unique=True)
    if new.size:
      fresh = self._evaluate(array, new)
      merged = np.concatenate([known, new])
      data = fresh if values is None else np.concatenate([values, fresh])
      order = np.argsort(merged, kind="stable")
      known, values = merged[order], data[order]
      self._points[array_id] = (known, values)
    return values[np.searchsorted(known, unique)][back].reshape(np.shape(flat))

  def _evaluate(self, array, flat):
    """Elements of a map or reduce array at flat positions, in chunks."""
    per = max(1, _product(array.get("extents", [])))
    step = max(1, CHUNK // per)
    parts = [self._chunk(array, flat[i : i + step]) for i in range(0, len(flat), step)]
    if not parts:
      return np.zeros(0, _NUMPY[array["dtype"]])
    return parts[0] if len(parts) == 1 else np.concatenate(parts)

  def _chunk(self, array, flat):
    if array["kind"] == "map":
      rank = 0
      points = np.unravel_index(flat, array["shape"]) if array["shape"] else ()
      env = self.environment(self, [p.astype(np.int64) for p in points], [])
      value = env.evaluate(array["expr"])
      data = np.broadcast_to(value.data, flat.shape)
    else:
      extents = array["extents"]
      rank = len(extents)
      column = (-1,) + (1,) * rank
      points = np.unravel_index(flat, array["shape"]) if array["shape"] else ()
      rv = [
        np.arange(e, dtype=np.int64).reshape((1,) + tuple(-1 if i == k else 1 for i in range(rank)))
        for k, e in enumerate(extents)
      ]
      env = self.environment(self, [p.astype(np.int64).reshape(column) for p in points], rv)
      value = env.evaluate(array["expr"])
      full = np.broadcast_to(value.data, (len(flat),) + tuple(extents)).reshape(len(flat), -1)
      data = self.reduce(array["op"], full, array["dtype"])
    if value.bad is not None:
      bad = np.broadcast_to(
        value.bad,
        (len(flat),) + (1,) * rank
        if value.bad.ndim == 0
        else np.broadcast_shapes(value.bad.shape, (len(flat),) + (1,) * rank),
      )
      if bad.any():
        raise WorkerError(
          "reference.read",
          f"array {array['id']} ({array.get('label', '')}) reads outside an array in a branch that is taken",
          "a fault of an operator row",
        )
    expected = array["dtype"]
    if array["kind"] == "map" and value.dtype != expected:
      data = env._cast(Value(data, value.dtype), expected).data
    return self.kept(array, np.ascontiguousarray(data))

  # What a subclass may see or change (undetermined.py).
  def reduce(self, op, data, dtype):
    return reduce(op, data, dtype)

  def kept(self, array, data):
    """Elements of an array as they are about to be kept."""
    return data


class Environment:
  """One evaluation: index arrays of the points, and a memo of the shared expressions."""

  def __init__(self, evaluator, iv, rv):
    self.evaluator, self.iv, self.rv, self.memo = evaluator, iv, rv, {}

  def evaluate(self, e):
    head = e[0]
    if head == "e":
      if e[1] not in self.memo:
        self.memo[e[1]] = self.evaluate(self.evaluator.exprs[e[1]])
      return self.memo[e[1]]
    if head == "iv":
      return Value(self.iv[e[1]], "i64")
    if head == "rv":
      return Value(self.rv[e[1]], "i64")
    if head == "c":
      return self._constant(e[1], e[2])
    if head == "read":
      return self._read(e[1], [self.evaluate(i) for i in e[2]])
    if head == "cast":
      return self._cast(self.evaluate(e[1]), e[2])
    if head == "select":
      return self._select(*(self.evaluate(x) for x in e[1:]))
    return self._call(head, [self.evaluate(x) for x in e[1:]])

  def _constant(self, value, dtype):
    return constant(value, dtype)

  def _cast(self, value, dtype):
    return cast(value, dtype)

  def _select(self, condition, a, b):
    data = np.where(condition.data, a.data, b.data)
    bad = None
    if a.bad is not None or b.bad is not None:
      none = np.zeros((), dtype=bool)
      bad = np.where(condition.data, none if a.bad is None else a.bad, none if b.bad is None else b.bad)
    if condition.bad is not None:
      bad = condition.bad if bad is None else bad | condition.bad
    return Value(data, a.dtype, bad)

  def _read(self, array_id, indices):
    array = self.evaluator.arrays[array_id]
    shape = array["shape"]
    bad = _merge_bad(*indices)
    positions, empty = [], 0 in shape
    for value, extent in zip(indices, shape):
      outside = (value.data < 0) | (value.data >= extent)
      if outside.any():
        bad = outside if bad is None else bad | outside
      positions.append(np.clip(value.data, 0, max(extent - 1, 0)))
    if array["dtype"].startswith("c"):
      raise WorkerError("reference.complex", "the program computes with complex numbers", "")
    if empty:
      return Value(
        np.zeros((1,) * (1 if not positions else positions[0].ndim), _NUMPY[array["dtype"]]),
        array["dtype"],
        np.ones((), dtype=bool),
      )
    if self.evaluator._is_whole(array):
      return Value(self.evaluator.pick(array, positions), array["dtype"], bad)
    positions = np.broadcast_arrays(*positions)
    flat = np.ravel_multi_index(positions, shape)
    return Value(self.evaluator.at(array_id, flat.reshape(-1)).reshape(flat.shape), array["dtype"], bad)

  def _call(self, name, args):
    function = _FUNCTIONS.get(name)
    if function is None:
      raise WorkerError("reference.function", f"the program uses an unknown function {name!r}", "")
    kind = args[0].dtype
    data = _quiet(function)(*(a.data for a in args))
    if name in _GIVES_BOOL:
      return Value(data, "bool", _merge_bad(*args))
    if kind in ("bf16", "f16"):
      data = round_to(data, kind)
    return Value(data.astype(_NUMPY[kind], copy=False), kind, _merge_bad(*args))


def constant(value, dtype):
  if isinstance(value, str):
    value = float(value)
  if dtype in _FLOATS:
    return Value(round_to(np.array([value], dtype=np.float64), dtype), dtype)
  return Value(np.array([value]).astype(_NUMPY[dtype]), dtype)


def reduce(op, data, dtype):
  """Folds axis 1. fp32 sums and products go through fp64; extrema are NaN if any element is; positions are of
  the first such element.
  """
  floating = data.dtype.kind == "f"
  with np.errstate(all="ignore"):
    if op in ("sum", "prod"):
      ufunc = np.add if op == "sum" else np.multiply
      out = ufunc.reduce(data, axis=1, dtype=np.float64 if floating else np.int64)
      return round_to(out, dtype) if dtype in _FLOATS else out.astype(_NUMPY[dtype])
    if op in ("max", "min"):
      return (
        (np.maximum if op == "max" else np.minimum).reduce(data, axis=1).astype(_NUMPY[dtype], copy=False)
      )
    if op in ("any", "all"):
      return (np.any if op == "any" else np.all)(data != 0, axis=1)
    if op in ("argmax", "argmin"):  # numpy's take the first NaN, else the first extremum
      return (np.argmax if op == "argmax" else np.argmin)(data, axis=1).astype(_NUMPY[dtype])
  raise WorkerError("reference.reduce", f"unknown reduction {op!r}", "")


def _product(values):
  n = 1
  for v in values:
    n *= v
  return n


def to_torch(data, dtype):
  if dtype == "bf16":
    return torch.from_numpy(np.array(data, copy=True)).to(torch.bfloat16)
  return torch.from_numpy(np.array(data, copy=True))


def evaluate(program, tensors):
  """All outputs, whole, as contiguous torch tensors."""
  e = Evaluator(program, tensors)
  return [to_torch(e.whole(k), e.arrays[k]["dtype"]) for k in program["outputs"]]


def evaluate_points(program, tensors, output, flat):
  """Elements of one output at row-major positions."""
  e = Evaluator(program, tensors)
  array = e.arrays[program["outputs"][output]]
  return to_torch(e.at(array["id"], np.asarray(flat, dtype=np.int64)), array["dtype"])


def total_cost(program):
  return sum(
    _product(a["shape"]) * max(1, _product(a.get("extents", [])))
    for a in program["arrays"]
    if a["kind"] != "input"
  )


def _sample(numel, points, rng, candidates):
  """Sorted positions to look at: single ones all over, and runs of 32 neighbours, which share what they need."""
  total = numel if candidates is None else candidates.size
  if total <= points:
    return np.arange(total, dtype=np.int64) if candidates is None else candidates
  single = rng.randint(0, total, size=points // 8)
  starts = rng.randint(0, max(total - 32, 1), size=points // 32)
  chosen = np.unique(np.concatenate([single, (starts[:, None] + np.arange(32)).reshape(-1), [0, total - 1]]))
  chosen = chosen[chosen < total]
  return chosen if candidates is None else candidates[chosen]


def compare_output(program, k, tensors, value, t=compare.BASE_T, written=None, points=4096, seed=1):
  """One wrapper output against the program: whole where that is cheap, else at `points` random elements, of
  the written ones if known.
  """
  evaluator = Evaluator(program, tensors)
  if k >= len(program["outputs"]):
    return {"ok": False, "reason": f"output {k}, the program has {len(program['outputs'])}"}
  array = evaluator.arrays[program["outputs"][k]]
  if list(value.shape) != list(array["shape"]) or value.dtype != _TORCH[array["dtype"]]:
    return {
      "ok": False,
      "reason": f"{value.dtype}{list(value.shape)}, the reference gives {array['dtype']}{list(array['shape'])}",
    }
  value = value.detach().cpu()
  if written is None and total_cost(program) <= WHOLE_LIMIT:
    return {
      **compare.compare_tensors(to_torch(evaluator.whole(array["id"]), array["dtype"]), value, t),
      "reference": "cuda formula, whole",
    }
  flat = _sample(
    value.numel(),
    points,
    np.random.RandomState(seed),
    None if written is None else np.flatnonzero(written.numpy().reshape(-1)),
  )
  if flat.size == 0:
    return {"ok": False, "reason": "the sampled programs wrote nothing of this output"}
  expected = to_torch(evaluator.at(array["id"], flat), array["dtype"])
  got = (
    value.reshape(-1)[torch.from_numpy(flat)]
    if value.is_contiguous()
    else value[tuple(torch.from_numpy(i) for i in np.unravel_index(flat, value.shape))]
  )
  out = {
    **compare.compare_tensors(expected, got, t),
    "reference": f"cuda formula at {len(flat)} of {value.numel()} elements",
  }
  out.pop("stride_expected", None)
  out.update(shape=list(value.shape), stride=list(value.stride()))
  if "first_bad" in out:
    where = np.unravel_index(flat[out["first_bad"]["index"][0]], value.shape) if value.dim() else ()
    out["first_bad"]["index"] = [int(i) for i in where]
  return out
