#!/usr/bin/env python3
"""Block sizes of the kernels in solved samples, by measurement: what the generator's rules for them rest on.

  tune.py SAMPLES -o tune.json --case SAMPLE/VARIANT [--case ...] [--seconds 200]

Per case each pass that is met launches its kernel with other blocks, warps and stages (as far as the text allows them: an axis
without a mask only takes blocks that divide it). All forms are compiled first, then timed by events with a cold cache, one after
the other under a lock that other processes of this script share, so that cases can be tuned side by side.
"""

import argparse
import contextlib
import fcntl
import itertools
import os
import sys
import tempfile

import torch

import common
import regions

from passnet.worker import pass_manager

LOCK = os.path.join(tempfile.gettempdir(), "passnet-tune.lock")


class Launch:
  """One kernel of one wrapper call, with the tensors it was given."""

  def __init__(self, kernel, grid, warps, stages, constants, tensors):
    self.kernel, self.grid, self.warps, self.stages, self.tensors = kernel, grid, warps, stages, tensors
    names = [n for n in kernel.arg_names][len(tensors):]
    self.constants = dict(zip(names, constants))

  def run(self, grid=None, warps=None, stages=None, **changed):
    values = {**self.constants, **changed}
    self.kernel[(grid or self.grid,)](*self.tensors, *values.values(), num_warps=warps or self.warps, num_stages=stages or self.stages,
                                      enable_fp_fusion=False)


def launches_of(loaded, args):
  """What the wrapper launches, caught at its first launch."""
  names = loaded.function.__globals__
  caught = []
  kept = names["_first_launch"]

  def catch(entry, slot, device, arguments):
    caught.extend(Launch(*kernel, tensors) for kernel, tensors in zip(entry[2], arguments))
    return kept(entry, slot, device, arguments)

  names["_first_launch"] = catch
  for entry in names["_READY"].values():
    entry[4] = entry[5] = None
  try:
    loaded.function(*args)
  finally:
    names["_first_launch"] = kept
  return caught


def product_forms(launch):
  c, text = launch.constants, launch.kernel.src
  columns = c["N0"] if "x_in" in text else c["G0"] * c["COLS"]
  rows = launch.grid // c["G0"] * c["ROWS"]
  if "y_in" in text:
    return
  for bm, bn, bk, warps, stages in itertools.product((64, 128, 256), (32, 64, 128, 256), (16, 32, 64), (4, 8), (2, 3, 4)):
    large = bm * bn
    if not 64 * 32 <= large <= 128 * 256 or (large >= 128 * 128 and warps == 4) or bn >= 2 * columns or rows % bm:
      continue
    if (columns % bn == 0) == ("x_in" in text) or (large <= 64 * 64 and warps == 8):
      continue
    g0 = -(-columns // bn)
    yield {"grid": rows // bm * g0, "warps": warps, "stages": stages, "ROWS": bm, "COLS": bn, "INNER": bk, "G0": g0}


def blocks_of(launch):
  """Other forms of the launch, {} for its own first."""
  c, text = launch.constants, launch.kernel.src
  yield {}
  if "INNER" in c and "G0" in c:
    yield from product_forms(launch)
  elif "ROWS" in c:
    rows = launch.grid * c["ROWS"]
    for warps, more in itertools.product((1, 2, 4, 8, 16), (1, 2, 4, 8)):
      if more == c["ROWS"]:
        yield {"warps": warps}
      elif "y_in" not in text and "G0" not in c and rows % more == 0:
        yield {"warps": warps, "ROWS": more, "grid": rows // more}
  elif "BLOCK" in c and "i_in" not in text:
    total = launch.grid * c["BLOCK"]
    for block, warps in itertools.product((64, 128, 256, 512, 1024, 2048), (1, 2, 4, 8)):
      if total % block == 0 and 32 <= block // warps:
        yield {"grid": total // block, "warps": warps, "BLOCK": block}


def tune(launch, deadline, seen):
  import triton.testing
  ready = []
  for form in blocks_of(launch):
    if deadline.over():
      break
    try:
      launch.run(**form)
      torch.cuda.synchronize()
      ready.append(form)
    except Exception as e:  # noqa: BLE001 - too much shared memory and the like
      seen.append([form, f"{type(e).__name__}: {str(e)[:80]}"])
      if "CUDA error" in str(e):
        raise
  with open(LOCK, "w") as lock:
    for form in ready:
      fcntl.flock(lock, fcntl.LOCK_EX)
      us = triton.testing.do_bench(lambda: launch.run(**form), warmup=5, rep=30, return_mode="median") * 1e3
      fcntl.flock(lock, fcntl.LOCK_UN)
      seen.append([form, round(us, 2)])


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("samples")
  parser.add_argument("-o", "--output", required=True)
  parser.add_argument("--case", action="append", default=[])
  parser.add_argument("--seconds", type=float, default=200)
  args = parser.parse_args()
  results = common.Results(args.output, schema="passnet.tune/1", cases={})
  deadline = common.Deadline(args.seconds)
  for sample, label, path in common.all_variants(args.samples):
    if f"{sample}/{label}" not in args.case:
      continue
    with contextlib.suppress(KeyboardInterrupt):
      meetings = regions.Meetings(os.path.join(args.samples, sample), path, label)
      for number, ((name, _), values) in enumerate(meetings.meet("live").items()):
        try:
          for k, launch in enumerate(launches_of(meetings.passes[name], values)):
            seen = results.document["cases"][f"{sample}/{label}/{name}/{number}/{launch.kernel.fn.__name__}/{k}"] = []
            tune(launch, deadline, seen)
            times = sorted((t, i) for i, (_, t) in enumerate(seen) if isinstance(t, float))
            own = next((t for f, t in seen if not f and isinstance(t, float)), None)
            print(f"{sample}/{label}/{name}: own {own} us {launch.constants.get('ROWS')}x{launch.constants.get('COLS')}x{launch.constants.get('INNER')} "
                  f"{launch.constants.get('BLOCK')} warps {launch.warps}; best: " + "; ".join(f"{t} {seen[i][0]}" for t, i in times[:4]), flush=True)
            results.save(force=True)
        except Exception as e:  # noqa: BLE001
          print(f"{sample}/{label}/{name}: {type(pass_manager.innermost(e)).__name__}: {str(e)[:200]}", flush=True)
  results.save(force=True)
  return 0


if __name__ == "__main__":
  sys.exit(main())
