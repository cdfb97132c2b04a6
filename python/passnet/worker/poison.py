"""The run-time guard around a replacement function.

Tensor arguments are wrapped in a subclass on which only allocation and metadata are allowed, as in the public
harness; any other operator is refused. A refusal is latched in the guard's record before it is raised, so a
pass that swallows the exception is still found out.

With `watch_plain` a dispatch mode sees operators on plain tensors too, which a pass can make without any argument:
allocation, filling and views of what it allocated are allowed, computing is not. Triton's autotuner and the
interpreter of kernels are exempt.
"""

import contextlib

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

aten = torch.ops.aten

# Overloads that allocate or copy whole: run on the plain tensors, results are poisoned again.
_FACTORIES = {
  aten.empty.memory_format: lambda a, k: torch.empty(*(a[:1] or ((),)), **k),
  aten.empty_like.default: lambda a, k: torch.empty_like(
    a[0]
  ),  # keywords are dropped, dtype included: as in public
  aten.zeros.default: lambda a, k: torch.zeros(*a),
  aten.zeros_like.default: lambda a, k: torch.zeros_like(a[0]),
  aten.ones.default: lambda a, k: torch.ones(*a),
  aten.ones_like.default: lambda a, k: torch.ones_like(a[0]),
  aten.full.default: lambda a, k: torch.full(*a, **k),
  aten.full_like.default: lambda a, k: torch.full_like(a[0], a[1] if len(a) > 1 else 0),
}
_COPIES = (aten.lift_fresh.default, aten.alias.default, aten._to_copy.default)
_METADATA = {
  aten.size.default: lambda t: t.size(),
  aten.sym_size.default: lambda t: t.size(),
  aten.stride.default: lambda t: t.stride(),
  aten.sym_stride.default: lambda t: t.stride(),
  aten.dim.default: lambda t: t.dim(),
  aten.numel.default: lambda t: t.numel(),
  aten.sym_numel.default: lambda t: t.numel(),
}
if hasattr(aten, "device"):
  _METADATA[aten.device.default] = lambda t: t.device

# Of plain tensors: overload packets that make or fill memory without reading any.
_PLAIN = frozenset(
  f"aten.{name}"
  for name in (
    "empty empty_strided empty_like new_empty new_empty_strided zeros zeros_like new_zeros ones ones_like new_ones "
    "full full_like new_full fill_ zero_ lift_fresh alias detach _to_copy size sym_size stride sym_stride dim numel "
    "sym_numel sym_storage_offset device is_contiguous scalar_tensor"
  ).split()
)

violations = []  # operators refused since clear_violations(), as text


def clear_violations():
  violations.clear()


# The class name is the public harness' own spelling: passes and tools look for it.
class PosionDispatchTensor(torch.Tensor):
  @classmethod
  def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
    plain = tuple(unwrap(a) for a in args)
    keywords = {k: unwrap(v) for k, v in (kwargs or {}).items()}
    if func in _FACTORIES:
      return _FACTORIES[func](plain, keywords).as_subclass(cls)
    if func in _COPIES:
      return func(*plain, **keywords).as_subclass(cls)
    if func in _METADATA:
      return _METADATA[func](plain[0])
    _refuse(func)

  def __repr__(self):
    return f"PosionDispatchTensor(shape={tuple(self.shape)}, dtype={self.dtype})"


def wrap(value):
  if isinstance(value, torch.Tensor) and not isinstance(value, PosionDispatchTensor):
    return value.as_subclass(PosionDispatchTensor)
  return value


def unwrap(value):
  if isinstance(value, PosionDispatchTensor):
    with torch._C._DisableTorchDispatch():
      return value.as_subclass(torch.Tensor)
  return value


def _refuse(func):
  violations.append(str(func))
  raise RuntimeError(
    f"Unauthorized Operator ({func}) Detected: inside a replacement function only allocation (empty, zeros, ones, "
    "full and their _like forms, as_tensor) and metadata are allowed on tensors; do the work in a Triton kernel."
  )


def _is_pure_view(func):
  """Shares memory with an argument and writes nothing."""
  schema = func._schema
  infos = [a.alias_info for a in schema.arguments if a.alias_info is not None]
  return bool(infos) and not any(i.is_write for i in infos) and any(r.alias_info is not None for r in schema.returns)


class PlainTensorGuard(TorchDispatchMode):
  """Operators on tensors that carry no poison. Poisoned ones are the subclass's to judge."""

  def __torch_dispatch__(self, func, types, args=(), kwargs=None):
    kwargs = kwargs or {}
    if not any(issubclass(t, PosionDispatchTensor) for t in types):
      if str(func._overloadpacket) not in _PLAIN and not _is_pure_view(func):
        _refuse(func)
    return func(*args, **kwargs)


def exempt(function):
  """`function` seen by no guard: for parts of Triton that use tensors on a pass's behalf."""

  def call(*args, **kwargs):
    with _disable_current_modes():
      return function(*args, **kwargs)

  return call


watch_plain = True


def _exempt_autotuner():
  """Triton's autotuner saves and restores arguments with torch operators: it gets plain tensors."""
  try:
    from triton.runtime import autotuner
  except ImportError:
    return
  original = autotuner.Autotuner.run
  if getattr(original, "sees_plain_tensors", False):
    return

  def run(self, *args, **kwargs):
    with _disable_current_modes():
      return original(self, *(unwrap(a) for a in args), **{k: unwrap(v) for k, v in kwargs.items()})

  run.sees_plain_tensors = True
  autotuner.Autotuner.run = run


_exempt_autotuner()


def guarded_call(function, args):
  """`function` on poisoned top-level tensor arguments (tensors inside lists stay plain); the result is
  unwrapped.
  """
  with PlainTensorGuard() if watch_plain else contextlib.nullcontext():
    out = function(*(wrap(a) for a in args))
  if isinstance(out, (tuple, list)):
    return tuple(unwrap(o) for o in out)
  return unwrap(out)
