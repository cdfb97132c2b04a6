"""Timing of one call as the public protocol does it: seed, call, synchronise; host clock and, on CUDA,
events.
"""

import time

import numpy as np
import torch

SEED = 1024


def synchronise(device):
  if device.type == "cuda":
    torch.cuda.synchronize(device)


def timed_call(function, inputs, device):
  """(result, e2e ms, gpu ms or None) of one call; the seed call is inside both, as in public."""
  synchronise(device)
  if device.type != "cuda":
    started = time.time()
    torch.manual_seed(SEED)
    result = function(*inputs)
    return result, (time.time() - started) * 1e3, None
  first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
  started = time.time()
  first.record()
  torch.manual_seed(SEED)
  result = function(*inputs)
  last.record()
  torch.cuda.synchronize(device)
  return result, (time.time() - started) * 1e3, first.elapsed_time(last)


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
