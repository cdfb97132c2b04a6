"""What the scripts of the GPU run share: samples, timing, machine facts, results written as they come."""

import json
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.environ.get("PASSNET_PACK", os.path.join(HERE, "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "python"))

import torch  # noqa: E402

from passnet.worker import capture, replay, samples  # noqa: E402


def device():
  return "cuda" if torch.cuda.is_available() else "cpu"


def synchronize():
  if torch.cuda.is_available():
    torch.cuda.synchronize()


def machine():
  import platform
  import triton
  facts = {"torch": torch.__version__, "triton": triton.__version__, "python": platform.python_version(),
           "host": platform.processor() or platform.machine(), "gpu": None}
  if torch.cuda.is_available():
    p = torch.cuda.get_device_properties(0)
    facts.update({"gpu": p.name, "multiprocessors": p.multi_processor_count, "l2_bytes": p.L2_cache_size,
                  "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()})
  return facts


def all_variants(root):
  """(sample, label, directory), smallest label first within a sample."""
  for name in sorted(os.listdir(root)):
    sample = os.path.join(root, name)
    if os.path.exists(os.path.join(sample, "graph_list.txt")):
      for label, path in samples.variant_dirs(sample):
        yield name, label, path


def spread(variants):
  """The first variant of every sample, then the second of every sample, ...: a run cut short has seen every kind."""
  by_sample = {}
  for v in variants:
    by_sample.setdefault(v[0], []).append(v)
  out = []
  for rank in range(max(map(len, by_sample.values()), default=0)):
    # Another dtype first in each sample, so that all are seen early.
    out += [v[(rank + i) % len(v)] for i, v in enumerate(by_sample.values()) if rank < len(v)]
  return out


def cheap_inputs(variant, model):
  """Tensors of the right shapes made on the device: for facts that do not depend on values."""
  out = []
  for meta in samples.ordered_metas(variant, model):
    dtype = replay.torch_dtype(meta.dtype)
    if meta.data is not None or not dtype.is_floating_point:
      out.append(replay._draw_live(torch.Generator().manual_seed(1), meta, False).to(device()))
    else:
      t = torch.empty(tuple(meta.shape), dtype=dtype, device=device())
      out.append(t.uniform_(0.5, 1.5) if t.numel() else t)
  return out


def today():
  import datetime
  return datetime.date.today().isoformat()


def median_us(values):
  return round(statistics.median(values) * 1e6, 3)


class Results:
  """A JSON document written after every step, so that a stopped run keeps what it has."""

  def __init__(self, path, **head):
    self.path, self.document = path, {**head, "machine": machine()}
    self.saved = 0.0

  def save(self, force=False):
    if not force and time.monotonic() - self.saved < 5:
      return
    with open(self.path + ".part", "w") as f:
      json.dump(self.document, f, separators=(",", ":"))
    os.replace(self.path + ".part", self.path)
    self.saved = time.monotonic()


class Deadline:
  def __init__(self, seconds):
    self.end = time.monotonic() + seconds

  def over(self):
    return time.monotonic() > self.end
