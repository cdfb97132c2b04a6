"""The parts of triton.language that must act at once instead of building IR, swapped in only while a kernel
runs.
"""

import contextlib
import inspect

import numpy as np
import triton.language as tl
from triton.language.extra import libdevice as libdevice_stub
from triton.language.extra.cuda import libdevice as libdevice_cuda
from triton.runtime.interpreter import TensorHandle

from . import interp_builder

current = None  # the active Session


class LanguagePatches:
  def __init__(self, semantic, builder):
    self.semantic, self.builder = semantic, builder
    self.changes = []  # (object, attribute, new value)
    self._swapped = {}  # id(builtin) -> replacement, for names imported one by one
    self._collect()

  def _bind(self, member):
    semantic = self.semantic

    def bound(*args, **kwargs):
      kwargs.pop("_semantic", None)
      kwargs.pop("_generator", None)
      return member(*args, **kwargs, _semantic=semantic)

    bound.__name__ = getattr(member, "__name__", "builtin")
    return bound

  def _add(self, owner, name, value, original=None):
    self.changes.append((owner, name, value))
    if original is not None:
      self._swapped[id(original)] = value

  def _collect(self):
    owners = [tl, tl.core, tl.math, tl.tensor, tl.core.tensor_descriptor_base, libdevice_cuda]
    for owner in owners:
      for name, member in inspect.getmembers(owner):
        if tl.core.is_builtin(member):
          self._add(owner, name, self._swapped.get(id(member)) or self._bind(member), member)
    for name, member in inspect.getmembers(libdevice_stub, inspect.isfunction):
      real = getattr(libdevice_cuda, name, None)
      if real is not None:
        self._add(libdevice_stub, name, self._swapped.get(id(real)) or self._bind(real), member)
    for owner in (tl, tl.core):
      for name, value in (("reduce", self._reduce), ("associative_scan", self._scan)):
        self._add(owner, name, value, getattr(owner, name))
      for name, value in (
        ("range", _range),
        ("static_range", _range),
        ("static_assert", _static_assert),
        ("static_print", lambda *a, **k: None),
        ("multiple_of", _same),
        ("max_contiguous", _same),
        ("max_constancy", _same),
        ("assume", _same),
      ):
        if hasattr(owner, name):
          self._add(owner, name, value, getattr(owner, name))
    self._add(tl.core.dtype, "to_ir", _to_ir)
    builder = self.builder
    for name, value in (
      ("__index__", lambda s: int(builder.uniform(s.handle.data))),
      ("__int__", lambda s: int(builder.uniform(s.handle.data))),
      ("__float__", lambda s: float(builder.uniform(interp_builder.wide(s.handle)))),
      ("__bool__", lambda s: bool(builder.uniform(s.handle.data)) if not s.type.is_block() else True),
      ("T", property(_transposed)),
    ):
      self._add(tl.tensor, name, value)

  def replacement_of(self, value):
    return self._swapped.get(id(value)) if callable(value) else None

  @contextlib.contextmanager
  def active(self):
    missing = object()
    saved = []
    for owner, name, value in self.changes:
      saved.append((owner, name, vars(owner).get(name, missing)))
      setattr(owner, name, value)
    try:
      yield
    finally:
      for owner, name, old in reversed(saved):
        if old is missing:
          delattr(owner, name)
        else:
          setattr(owner, name, old)

  # -- reductions and scans, along an axis that the batch axis shifts by one
  def _reduce(self, input, axis, combine_fn, keep_dims=False, **_):
    tensors = input if isinstance(input, tuple) else (input,)
    axis = axis.value if isinstance(axis, tl.constexpr) else axis
    rank = len(tensors[0].shape)
    arrays = _same_batch([t.handle.data for t in tensors])
    if axis is None:
      arrays = [a.reshape(a.shape[0], -1) for a in arrays]
      at = 1
    else:
      at = (axis + rank if axis < 0 else axis) + 1
    arrays = _fold(arrays, [t.dtype for t in tensors], at, combine_fn)
    if keep_dims:
      arrays = [
        np.expand_dims(a, at) if axis is not None else a.reshape(a.shape[0], *([1] * rank)) for a in arrays
      ]
    out = tuple(_tensor(a, t.dtype) for a, t in zip(arrays, tensors))
    return out if isinstance(input, tuple) else out[0]

  def _scan(self, input, axis, combine_fn, reverse=False, **_):
    tensors = input if isinstance(input, tuple) else (input,)
    rank = len(tensors[0].shape)
    at = (axis + rank if axis < 0 else axis) + 1
    arrays = [np.moveaxis(a, at, 0) for a in _same_batch([t.handle.data for t in tensors])]
    if reverse:
      arrays = [a[::-1] for a in arrays]
    outs = [np.empty(a.shape, a.dtype) for a in arrays]
    state = [a[0] for a in arrays]
    for o, s in zip(outs, state):
      o[0] = s
    for i in range(1, arrays[0].shape[0]):
      state = _combine(combine_fn, state, [a[i] for a in arrays], [t.dtype for t in tensors])
      for o, s in zip(outs, state):
        o[i] = s
    if reverse:
      outs = [o[::-1] for o in outs]
    result = tuple(_tensor(np.moveaxis(o, 0, at), t.dtype) for o, t in zip(outs, tensors))
    return result if isinstance(input, tuple) else result[0]


def _same_batch(arrays):
  n = max(a.shape[0] for a in arrays)
  return [np.broadcast_to(a, (n,) + a.shape[1:]) for a in arrays]


def _tensor(data, dtype):
  shape = list(data.shape[1:])
  return tl.tensor(TensorHandle(data, dtype.scalar), tl.block_type(dtype, shape) if shape else dtype)


def _combine(combine_fn, left, right, dtypes):
  """combine_fn on arrays of one shape: each element stands as one program's scalar, so any shape will do."""
  shape = left[0].shape
  args = [
    tl.tensor(TensorHandle(np.ascontiguousarray(a).reshape(-1), d.scalar), d.scalar)
    for a, d in zip((*left, *right), (*dtypes, *dtypes))
  ]
  made = combine_fn(*args)
  made = made if isinstance(made, (tuple, list)) else (made,)
  return [np.broadcast_to(m.handle.data, (int(np.prod(shape)),)).reshape(shape) for m in made]


def _fast_ufunc(combine_fn, dtype):
  """numpy's own reduction for the sums and extrema that need no rounding in between."""
  if not (dtype.is_int() or dtype in (tl.float32, tl.float64)):
    return None
  for known, ufunc in (
    (tl.standard._sum_combine, np.add),
    (tl.standard._elementwise_max, np.fmax),
    (tl.standard._elementwise_min, np.fmin),
  ):
    if combine_fn is known:
      return ufunc
  return None


def _fold(arrays, dtypes, at, combine_fn):
  """Neighbours are combined pairwise until one is left: any associative function, log2(n) steps, the rounding
  of the dtype in each.
  """
  ufunc = _fast_ufunc(combine_fn, dtypes[0])
  if ufunc is not None:
    with np.errstate(all="ignore"):
      return [ufunc.reduce(arrays[0], axis=at, dtype=arrays[0].dtype if ufunc is np.add else None)]
  arrays = [np.moveaxis(a, at, 0) for a in arrays]
  while arrays[0].shape[0] > 1:
    n = arrays[0].shape[0]
    made = _combine(combine_fn, [a[0 : n - n % 2 : 2] for a in arrays], [a[1:n:2] for a in arrays], dtypes)
    arrays = [np.concatenate([m, a[n - 1 :]]) if n % 2 else m for m, a in zip(made, arrays)]
  return [a[0] for a in arrays]


def _range(first, second=None, step=None, **_):
  start, stop = (0, first) if second is None else (first, second)
  return range(_plain(start), _plain(stop), 1 if step is None else _plain(step))


def _plain(value):
  return value.value if isinstance(value, tl.constexpr) else value.__index__()


def _static_assert(condition, message=""):
  assert condition, message


def _same(value, *_, **__):
  return value


def _transposed(tensor):
  shape = list(tensor.type.shape)
  shape[-1], shape[-2] = shape[-2], shape[-1]
  return tl.tensor(
    TensorHandle(np.swapaxes(tensor.handle.data, -1, -2), tensor.handle.dtype),
    tl.block_type(tensor.dtype, shape),
  )


_IR_NAMES = {
  "void": "void",
  "int1": "int1",
  "int8": "int8",
  "uint8": "uint8",
  "int16": "int16",
  "uint16": "uint16",
  "int32": "int32",
  "uint32": "uint32",
  "int64": "int64",
  "uint64": "uint64",
  "fp8e5": "fp8e5",
  "fp8e4nv": "fp8e4nv",
  "fp8e4b15": "fp8e4b15",
  "fp16": "half",
  "bf16": "bf16",
  "fp32": "float",
  "fp64": "double",
}


def _to_ir(self, builder):
  return getattr(builder, f"get_{_IR_NAMES[self.name]}_ty")()
