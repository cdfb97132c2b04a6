"""Which names of torch name one object, and what Python tells of each function's signature: what
src/ops/torch_identities/<version>.json holds, and what doctor compares with it.

{"torch": "2.13",
 "canonical": {name: canonical name},      only names that are not their own canonical one
 "functions": {canonical name: {"signature": null | [{"name", "kind", "default"}], "bool_dispatch": true}}}

"signature" is null where inspect.signature fails (functions written in C); "default" is Python source, absent where
there is none; "bool_dispatch" (absent: false) marks functions that choose between two by a flag.
"""

import builtins
import inspect
import math
import operator
import sys

import torch
import torch._functorch.predispatch
import torch._functorch.vmap
import torch._jit_internal

# Names of the earlier ones are preferred. "_operator" and the like are other spellings of a place.
PLACES = [
    ("operator", operator), ("torch", torch), ("torch.nn.functional", torch.nn.functional),
    ("torch.functional", torch.functional), ("torch.special", torch.special), ("torch.linalg", torch.linalg),
    ("torch.fft", torch.fft), ("torch._C._nn", torch._C._nn), ("torch._C", torch._C), ("math", math),
    ("builtins", builtins), ("torch._functorch.predispatch", torch._functorch.predispatch),
]
ALSO = [
    ("_operator", operator), ("torch._C._special", torch._C._special), ("torch._C._linalg", torch._C._linalg),
    ("torch._functorch.vmap", torch._functorch.vmap), ("torch._C._fft", torch._C._fft), ("torch._VF", torch._VF), ("torch._C._VariableFunctions", torch._C._VariableFunctions),
]
BUILTINS = ("abs", "getattr", "max", "min", "len", "round", "pow", "divmod", "sum", "setattr")


def is_function(value):
  return callable(value) and not inspect.isclass(value) and not inspect.ismodule(value)


def members(name, place):
  if name == "builtins":
    return {n: getattr(place, n) for n in BUILTINS}
  return {n: v for n in sorted(dir(place)) if not n.startswith("__") and is_function(v := getattr(place, n, None))}


def canonical_name(value):
  own = getattr(value, "__name__", None)
  for prefix, place in PLACES:
    if own and getattr(place, own, None) is value:
      return f"{prefix}.{own}"
  for prefix, place in PLACES:
    for name in sorted(vars(place)):
      if not name.startswith("_") and vars(place)[name] is value:
        return f"{prefix}.{name}"
  return None


def default_text(value):
  if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
    return str(value)
  if value is None or isinstance(value, (bool, int, str, tuple, list)):
    return repr(value)
  if isinstance(value, float):
    return repr(value) if math.isfinite(value) else f"float('{value}')"
  return "..."  # nothing that a graph could hold


def signature_of(value):
  try:
    signature = inspect.signature(value)
  except (ValueError, TypeError):
    return None
  out = []
  for p in signature.parameters.values():
    entry = {"name": p.name, "kind": p.kind.name.lower()}
    if p.default is not p.empty:
      entry["default"] = default_text(p.default)
    out.append(entry)
  return out


def record():
  canonical, functions = {}, {}
  for prefix, place in PLACES + ALSO:
    for name, value in members(prefix, place).items():
      spelled = f"{prefix}.{name}"
      own = canonical_name(value) or spelled
      if own != spelled:
        canonical[spelled] = own
      if own not in functions:
        entry = {"signature": signature_of(value)}
        if inspect.isfunction(value) and value in torch._jit_internal.boolean_dispatched:
          entry["bool_dispatch"] = True
        functions[own] = entry
  # Foreign helpers that a module merely imports are no operators.
  version = ".".join(torch.__version__.split(".")[:2])
  return {"torch": version, "canonical": dict(sorted(canonical.items())), "functions": dict(sorted(functions.items()))}


def command(request, progress):
  """identities: {} -> the document."""
  return record()
