"""Comparison of outputs with the rules of the score: tolerance per dtype, NaN, shape, structure, aliasing."""

import numpy as np
import torch

from . import numeric

_RTOL_SLOPE = {torch.float16: 0.6, torch.bfloat16: 0.3592, torch.float32: 1.1772, torch.float64: 1.4}
BASE_T = -5


def tolerance(dtype, t=BASE_T):
  """(rtol, atol) at tolerance t, as printed in the public log: three significant digits."""
  if dtype not in _RTOL_SLOPE:
    return 0.0, 0.0
  rtol = float(f"{10 ** (_RTOL_SLOPE[dtype] * t):.2E}")
  atol = rtol if dtype == torch.float64 else float(f"{10.0**t:.2E}")
  return rtol, atol


def public_pairs(t):
  """The four (rtol, atol) pairs of tolerance t in the order of the public log: float16, bfloat16, float32,
  float64.
  """
  return [tolerance(d, t) for d in (torch.float16, torch.bfloat16, torch.float32, torch.float64)]


def public_correctness(expected, got):
  """What the public log says of the outputs: equal, the 64 allclose lines in their order (some keys repeat),
  max_diff, mean_diff; 0 and 1 per output.

  A shape that does not broadcast counts as different instead of ending the process.
  """
  pairs = list(zip(as_tuple(expected), as_tuple(got)))

  def close(a, b, rtol, atol):
    try:
      return int(a.shape == b.shape and torch.allclose(a, b, rtol=rtol, atol=atol))
    except RuntimeError:  # integer and bool outputs of some torch versions
      return int(torch.equal(a, b))

  out = {"equal": [int(a.shape == b.shape and torch.equal(a, b)) for a, b in pairs], "allclose": []}
  for t in range(-10, 6):
    for rtol, atol in public_pairs(t):
      out["allclose"].append(
        [f"all_close_atol_{atol:.2E}_rtol_{rtol:.2E}", [close(a, b, rtol, atol) for a, b in pairs]]
      )
  differences = [
    (a.float() - b.float()).abs() if a.shape == b.shape and a.numel() else None for a, b in pairs
  ]
  out["max_diff"] = [None if d is None else float(d.max()) for d in differences]
  out["mean_diff"] = [None if d is None else float(d.mean()) for d in differences]
  return out


def _number(x):
  v = x.item()
  return v if not isinstance(v, float) or (v == v and abs(v) != float("inf")) else repr(v)


def _arrays(*tensors):
  """(module, arrays): numpy on the host, where torch's threads cost more than they help; torch on a device.

  16-bit floats come as wider ones.
  """
  if any(t.is_cuda for t in tensors):
    device = next(t.device for t in tensors if t.is_cuda)
    return torch, [t.to(device) for t in tensors]
  return np, [numeric.to_numpy(t.detach()) for t in tensors]


def _double(array):
  return array.astype(np.float64) if isinstance(array, np.ndarray) else array.to(torch.float64)


def compare_tensors(expected, got, t=BASE_T, where=None):
  """Differences of one tensor. `where`: boolean tensor of the elements that count (sampled runs)."""
  out = {"dtype": str(got.dtype), "shape": list(got.shape), "stride": list(got.stride()), "ok": True}
  if expected.dtype != got.dtype:
    out.update(ok=False, reason=f"dtype {got.dtype}, eager gives {expected.dtype}")
    return out
  if expected.shape != got.shape:
    out.update(ok=False, reason=f"shape {list(got.shape)}, eager gives {list(expected.shape)}")
    return out
  if expected.stride() != got.stride() and expected.numel() > 1:
    out["stride_expected"] = list(expected.stride())
  if expected.numel() == 0:
    out.update(max_abs_diff=0.0, outside=0, compared=0)
    return out
  if expected.dtype.is_complex:
    expected, got = torch.view_as_real(expected), torch.view_as_real(got)
    where = None if where is None else where.unsqueeze(-1).expand(expected.shape)
  xp, (e, g) = _arrays(expected, got)
  rtol, atol = tolerance(expected.dtype, t)
  with np.errstate(all="ignore"):
    nan = (e != e) & (g != g)
    same = (e == g) | nan
    difference = xp.abs(_double(g) - _double(e))
    # The public comparison scales rtol by the compiled output, not by eager's.
    close = same | (
      (difference <= atol + rtol * xp.abs(_double(g))) & xp.isfinite(difference) if rtol else same
    )
  if where is not None:
    ignored = ~(where.numpy() if xp is np else where)
    close, same = close | ignored, same | ignored
  finite = xp.where(xp.isfinite(difference) & ~same, difference, 0.0)
  outside = int((~close).sum())
  out.update(
    max_abs_diff=float(finite.max()),
    outside=outside,
    compared=int(where.sum()) if where is not None else expected.numel(),
    both_nan=int(nan.sum()),
    bit_equal=bool(same.all()),
  )
  if outside:
    bad = ~close
    flat = int(bad.argmax()) if xp is np else int(bad.flatten().to(torch.uint8).argmax())
    index = [int(i) for i in np.unravel_index(flat, tuple(close.shape))]
    out.update(
      ok=False,
      reason=f"{outside} of {out['compared']} elements outside rtol {rtol:.3g} atol {atol:.3g}",
      first_bad={
        "index": index,
        "expected": _number(expected[tuple(index)]),
        "got": _number(got[tuple(index)]),
      },
    )
  return out


def as_tuple(value):
  return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def compare_structures(expected, got, t=BASE_T):
  """[per output result]; a wrong number of outputs is one failed entry."""
  expected, got = as_tuple(expected), as_tuple(got)
  if len(expected) != len(got):
    return [{"ok": False, "reason": f"{len(got)} outputs, eager gives {len(expected)}"}]
  return [_compare_value(e, g, t) for e, g in zip(expected, got)]


def _compare_value(e, g, t):
  if isinstance(e, torch.Tensor) and isinstance(g, torch.Tensor):
    return compare_tensors(e, g, t)
  if isinstance(e, (tuple, list)) and isinstance(g, (tuple, list)):
    inner = compare_structures(e, g, t)
    return {"ok": all(i["ok"] for i in inner), "items": inner}
  same = type(e) is type(g) and e == g
  return {"ok": same} if same else {"ok": False, "reason": f"{g!r}, eager gives {e!r}"}


def alias_relation(inputs, outputs):
  """Which outputs share memory with which inputs and earlier outputs: sorted ["out0=in2", "out1=out0", ...]."""
  found = []
  flat = [o for o in as_tuple(outputs)]
  for i, out in enumerate(flat):
    if not isinstance(out, torch.Tensor) or out.numel() == 0:
      continue
    mine = out.untyped_storage().data_ptr()
    found += [
      f"out{i}=in{j}"
      for j, x in enumerate(inputs)
      if isinstance(x, torch.Tensor) and x.numel() and x.untyped_storage().data_ptr() == mine
    ]
    found += [
      f"out{i}=out{j}"
      for j in range(i)
      if isinstance(flat[j], torch.Tensor)
      and flat[j].numel()
      and flat[j].untyped_storage().data_ptr() == mine
    ]
  return found
