"""Timing of one call as the public protocol does it: seed, call, synchronise; host clock and, on CUDA,
events.
"""

import os
import time

import numpy as np
import torch

SEED = 1024
FLUCTUATION = 0.2  # interquartile range over median beyond which a list of times says nothing

# Bound before anything of a pass is loaded: what a pass puts in their place later is not called.
_now = time.time
_seed = torch.manual_seed
_synchronize = torch.cuda.synchronize


def synchronise(device):
  if device.type == "cuda":
    _synchronize(device)


def timed_call(function, inputs, device):
  """(result, e2e ms, gpu ms or None) of one call; the seed call is inside both, as in public."""
  synchronise(device)
  if device.type != "cuda":
    started = _now()
    _seed(SEED)
    result = function(*inputs)
    return result, (_now() - started) * 1e3, None
  first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
  started = _now()
  first.record()
  _seed(SEED)
  result = function(*inputs)
  last.record()
  _synchronize(device)
  return result, (_now() - started) * 1e3, first.elapsed_time(last)


def statistics(values):
  """Median, interquartile range, mean, population deviation, extremes: six significant digits, as in the
  public log.
  """
  if not values:
    return None
  a = np.asarray(values, dtype=np.float64)
  low, high = np.percentile(a, [25, 75])
  facts = {
    "median": np.median(a),
    "iqr": high - low,
    "mean": a.mean(),
    "std": a.std(),
    "min": a.min(),
    "max": a.max(),
  }
  return {k: float(f"{v:.6g}") for k, v in facts.items()}


def fluctuation(values):
  """Interquartile range over median; 0 for no values."""
  if not values:
    return 0.0
  low, middle, high = np.percentile(np.asarray(values, dtype=np.float64), [25, 50, 75])
  return float((high - low) / middle) if middle > 0 else 0.0


def threshold(device):
  """The fluctuation at which a list of times is measured again. On the CPU times are not comparable anyway, and no
  limit holds unless the variable asks for one.
  """
  said = os.environ.get("GRAPH_NET_FLUCTUATION_DETECT_THRESHOLD")
  try:
    return float(said) if said else FLUCTUATION if device.type == "cuda" else float("inf")
  except ValueError:
    return FLUCTUATION


def ratio_interval(first, second, level=0.9, draws=2000, seed=0):
  """[low, high]: bootstrap interval of median(first) / median(second) over paired blocks of times."""
  a, b = (np.array([np.median(block) for block in blocks]) for blocks in (first, second))
  n = min(len(a), len(b))
  if n < 2:
    return None
  pick = np.random.RandomState(seed).randint(0, n, size=(draws, n))
  ratios = np.median(a[:n][pick], axis=1) / np.median(b[:n][pick], axis=1)
  tail = (1 - level) / 2 * 100
  return [float(f"{v:.5g}") for v in np.percentile(ratios, [tail, 100 - tail])]
