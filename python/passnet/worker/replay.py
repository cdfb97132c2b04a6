"""Inputs of a variant: as the public rules draw them, and as a live family of the same shapes.

The public rules fix the order of the random draws: integer-range tensors while the descriptions are loaded
(input_meta, then weight_meta, each in alphabetical class order), every other random tensor afterwards in the
same order.
"""

import numpy as np
import torch

from .errors import WorkerError
from .samples import INTEGER_DTYPES

PUBLIC_SEED = 123
_TORCH_DTYPES = {
  "float": torch.float32,
  "double": torch.float64,
  "half": torch.float16,
  "long": torch.int64,
  "int": torch.int32,
}


def torch_dtype(name):
  found = _TORCH_DTYPES.get(name) or getattr(torch, name, None)
  if not isinstance(found, torch.dtype):
    raise WorkerError("unknown_dtype", f"unknown dtype 'torch.{name}'", "")
  return found


def _integer_range(meta):
  return meta.dtype in INTEGER_DTYPES and meta.min_val is not None and meta.max_val is not None


def _draw_integers(rng, meta):
  values = rng.randint(int(meta.min_val), int(meta.max_val) + 1, size=tuple(meta.shape))
  return torch.as_tensor(np.asarray(values)).to(torch_dtype(meta.dtype)).reshape(meta.shape)


def _clamp(t, low, high):
  return t if low is None and high is None else t.clamp(min=low, max=high)


def _draw_public(rng, meta):
  dtype = torch_dtype(meta.dtype)
  shape = tuple(meta.shape)
  if meta.data is not None:
    return torch.tensor(meta.data, dtype=dtype).reshape(shape)
  if dtype == torch.bool:
    return torch.from_numpy(np.asarray(rng.uniform(size=shape) > 0.5)).reshape(shape)
  std = 0.1 if meta.std is None else meta.std
  mean = 0.0 if meta.mean is None else meta.mean
  if std == 0:
    t = (
      torch.full(shape, mean, dtype=dtype)
      if dtype.is_floating_point
      else torch.full(shape, int(mean), dtype=dtype)
    )
  else:
    # float64 from the generator, scaled in float64, cast once.
    values = np.asarray(rng.standard_normal(shape))
    values *= std
    values *= 0.2
    values += mean
    t = torch.from_numpy(values).to(dtype).reshape(shape)
  t = _clamp(t, meta.min_val, meta.max_val)
  return _finite(rng, t) if dtype.is_floating_point else t


def _finite(rng, t):
  bad = ~torch.isfinite(t)
  if bool(bad.any()):
    t = torch.where(bad, (torch.randn(t.shape) * 0.01).to(t.dtype), t)
  return t.clamp(-100, 100)


def public_tensor(meta):
  """One input alone, drawn from a generator of its own: for inputs that the description fixes."""
  return _draw_public(np.random.RandomState(PUBLIC_SEED), meta)


def public_inputs(variant, device="cpu", seed=PUBLIC_SEED):
  """{name: tensor}: the inputs of the public rules; with another seed, others of the same kinds."""
  rng = np.random.RandomState(seed)
  torch.manual_seed(seed)
  out = {m.name: _draw_integers(rng, m) for m in variant.metas if _integer_range(m)}
  for m in variant.metas:
    if m.name not in out:
      out[m.name] = _draw_public(rng, m)
  return {m.name: out[m.name].contiguous().to(device) for m in variant.metas}


def live_inputs(variant, seed, variance_names=(), device="cpu"):
  """{name: tensor} of the same shapes and dtypes, never degenerate.

  Constant floats (std 0 or None, no data) become normals of deviation 0.5 around their mean; running
  variances are uniform in [0.5, 2]; floats with data keep their mean and deviation but not their values
  unless they are single numbers (lifted eps and the like) or masks (two distinct values: the pattern is drawn
  anew); integers stay in the range their data or bounds give.
  """
  g = torch.Generator().manual_seed(seed)
  return {m.name: _draw_live(g, m, m.name in variance_names).contiguous().to(device) for m in variant.metas}


def _draw_live(g, meta, is_variance):
  dtype, shape = torch_dtype(meta.dtype), tuple(meta.shape)
  if dtype == torch.bool:
    return torch.rand(shape, generator=g) > 0.5
  if not dtype.is_floating_point:
    return _live_integers(g, meta, dtype, shape)
  if is_variance:
    return (torch.rand(shape, generator=g) * 1.5 + 0.5).to(dtype)
  if meta.data is not None:
    data = torch.tensor(meta.data, dtype=torch.float64).reshape(shape)
    distinct = torch.unique(data)
    if data.numel() <= 1:
      return data.to(dtype)
    if len(distinct) == 2 and data.numel() > 2:
      return distinct[(torch.rand(shape, generator=g) > 0.5).long()].to(dtype)
    finite = data[torch.isfinite(data)]
    mean, std = (float(finite.mean()), float(finite.std())) if len(finite) > 1 else (0.0, 0.5)
    t = torch.randn(shape, generator=g) * (std or 0.5) + mean
  else:
    mean = 0.0 if meta.mean is None else meta.mean
    constant = meta.std is None or meta.std == 0
    if abs(mean) > 100:  # mask constants such as -3.4e38 or -inf: keep the two-valued meaning
      choice = torch.rand(shape, generator=g) > 0.5
      return torch.where(
        choice, torch.tensor(0.0, dtype=torch.float64), torch.tensor(float(mean), dtype=torch.float64)
      ).to(dtype)
    t = torch.randn(shape, generator=g) * (0.5 if constant else meta.std) + mean
  return _clamp(t, meta.min_val, meta.max_val).to(dtype)


def _live_integers(g, meta, dtype, shape):
  if _integer_range(meta):
    low, high = int(meta.min_val), int(meta.max_val)
  elif meta.data:
    low, high = int(min(meta.data)), int(max(meta.data))
    if low == high == 1 and len(shape) > 0:  # a mask of ones; 0 is legal wherever 1 is
      low = 0
  else:  # no bounds known: 0 and 1 are legal as an index into anything that is not empty
    mean = int(meta.mean or 0)
    low, high = (0, 1) if mean == 0 else (mean, mean)
  if len(shape) == 0 and meta.data:  # a lifted Python number is part of the program, not an input
    return torch.tensor(meta.data, dtype=dtype).reshape(shape)
  return torch.randint(low, high + 1, shape, generator=g, dtype=torch.int64).to(dtype)


def running_variance_names(graph):
  """Placeholders that a graph uses as running_var of batch_norm, through any aliasing node-free path."""
  names = set()
  for node in graph.nodes:
    if node.op == "call_function" and getattr(node.target, "__name__", "") in (
      "batch_norm",
      "native_batch_norm",
    ):
      value = node.kwargs.get("running_var", node.args[2] if len(node.args) > 2 else None)
      # native torch.batch_norm has (input, weight, bias, mean, var); F.batch_norm has (input, mean, var, ...)
      if node.target is torch.batch_norm and len(node.args) > 4:
        value = node.args[4]
      if isinstance(value, torch.fx.Node) and value.op == "placeholder":
        names.add(str(value.target))
  return names
