"""FX graphs as JSON: one encoding for targets and arguments, shared by every command that shows a graph.

A target is named canonically: the first namespace of `_NAMESPACES` that holds that very object, so the many
spellings of one function have one name. Methods have their bare name.
"""

import math
import operator
import re

import torch

# (name, module), in order of preference.
_NAMESPACES = None


def _namespaces():
  global _NAMESPACES
  if _NAMESPACES is None:
    import builtins

    _NAMESPACES = [
      ("operator", operator),
      ("torch", torch),
      ("torch.nn.functional", torch.nn.functional),
      ("torch.functional", torch.functional),
      ("torch.special", torch.special),
      ("torch.linalg", torch.linalg),
      ("torch.fft", torch.fft),
      ("torch._C._nn", torch._C._nn),
      ("torch._C", torch._C),
      ("math", math),
      ("builtins", builtins),
    ]
  return _NAMESPACES


_names = {}


def canonical_target(target):
  """The dotted name of a call_function target."""
  if isinstance(target, str):
    return target
  key = id(target)
  if key in _names and _names[key][0] is target:
    return _names[key][1]
  name = _find_name(target)
  _names[key] = (target, name)
  return name


def _find_name(target):
  if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
    return "torch.ops." + str(target)
  own = getattr(target, "__name__", None)
  for prefix, module in _namespaces():
    if own and getattr(module, own, None) is target:
      return f"{prefix}.{own}"
  for prefix, module in _namespaces():
    for name in sorted(vars(module)):
      if not name.startswith("_") and vars(module)[name] is target:
        return f"{prefix}.{name}"
  return f"{getattr(target, '__module__', '?')}.{getattr(target, '__qualname__', own or repr(target))}"


def encode_arg(value):
  """Nodes, tuples, slices, dtypes, devices, Ellipsis as one-key objects; lists as lists; the rest as JSON
  values.
  """
  if isinstance(value, torch.fx.Node):
    return {"node": value.name}
  if isinstance(value, torch.Size):
    return {"size": [encode_arg(v) for v in value]}
  if isinstance(value, tuple):
    return {"tuple": [encode_arg(v) for v in value]}
  if isinstance(value, list):
    return [encode_arg(v) for v in value]
  if isinstance(value, dict):
    return {"dict": [[k, encode_arg(v)] for k, v in value.items()]}
  if isinstance(value, slice):
    return {"slice": [encode_arg(value.start), encode_arg(value.stop), encode_arg(value.step)]}
  if value is Ellipsis:
    return {"ellipsis": True}
  if isinstance(value, torch.dtype):
    return {"dtype": str(value)}
  if isinstance(value, torch.device):
    return {"device": str(value)}
  if isinstance(value, torch.layout):
    return {"layout": str(value)}
  if isinstance(value, torch.memory_format):
    return {"memory_format": str(value)}
  if isinstance(value, bool) or value is None or isinstance(value, (int, str)):
    return value
  if isinstance(value, float):
    # JSON has no such numbers; the sign of zero and every digit survive repr.
    return value if math.isfinite(value) else {"float": repr(value)}
  if isinstance(value, complex):
    return {"complex": [value.real, value.imag]}
  if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
    return {"symbol": str(value)}
  return {"object": f"{type(value).__module__}.{type(value).__qualname__}", "repr": repr(value)[:200]}


class Storages:
  """Small integers for storages, in order of first sight."""

  def __init__(self):
    self._ids, self._keep = {}, []

  def of(self, tensor):
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
      tensor = torch._C._functorch.get_unwrapped(tensor)
    storage = tensor.untyped_storage()
    key = storage._cdata
    if key not in self._ids:
      self._ids[key] = len(self._ids)
      self._keep.append(storage)
    return self._ids[key]


def describe_value(value, storages):
  """{shape, dtype, stride, device, storage} of a tensor; {"tuple": [...]} of several; {"value": x} of a
  number.
  """
  if isinstance(value, torch.Tensor):
    return {
      "shape": [_size(s) for s in value.shape],
      "dtype": str(value.dtype),
      "stride": [_size(s) for s in value.stride()],
      "device": value.device.type,
      "storage": storages.of(value),
    }
  if isinstance(value, (tuple, list)):
    return {"tuple": [describe_value(v, storages) for v in value]}
  return {"value": encode_arg(value)}


def _size(s):
  return s if isinstance(s, int) else str(s)


def encode_node(node, storages, value=None):
  """One element of "nodes": `value` is what the node evaluates to, where it is known."""
  out = {
    "name": node.name,
    "op": node.op,
    "target": canonical_target(node.target) if node.op == "call_function" else str(node.target),
    "args": [encode_arg(a) for a in node.args],
    "kwargs": {k: encode_arg(v) for k, v in node.kwargs.items()},
  }
  if node.op == "placeholder":
    out["input"] = input_name(node)
  if value is None:
    value = node.meta.get("example_value", node.meta.get("val"))
  if value is not None:
    out.update(describe_value(value, storages))
  return out


def input_name(node):
  """The forward parameter that a placeholder of a dynamo graph stands for (dynamo spells L['x'] as L_x_), or
  None.
  """
  found = re.fullmatch(r"[Ll]_(\w+)_", str(node.target))
  return found.group(1) if found else None
