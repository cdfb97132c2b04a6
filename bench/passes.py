"""Times the routes of generated pass_dirs on a GPU: microseconds of device time, bytes in and out over it, and host time of a call.

FOLDER holds pass_dir/ and cases.json, as src/codegen's write_test_passes makes them. Values are compared with the array
program's reference at some thousand points.
"""

import argparse
import importlib
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "python"))

import torch  # noqa: E402

from passnet.worker import compare, reference  # noqa: E402


def tensor(meta):
  dtype = getattr(torch, meta["dtype"])
  if dtype.is_floating_point:
    data = torch.rand(meta["shape"], device="cuda") + 0.5
    data = data.to(dtype)
  else:
    data = torch.randint(0, 2, meta["shape"], device="cuda").to(dtype)
  return data.as_strided(meta["shape"], meta["stride"])


def literal(text):
  return eval(text, {"torch": torch})  # written by our own generator


def device_us(call, repeats):
  for _ in range(3):
    call()
  times = []
  for _ in range(7):
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(2_000_000)  # the launches queue up behind it, so that host time does not show
    start.record()
    for _ in range(repeats):
      call()
    stop.record()
    torch.cuda.synchronize()
    times.append(start.elapsed_time(stop) * 1e3 / repeats)
  return sorted(times)[len(times) // 2]


def host_us(call):
  best = []
  for _ in range(5):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(50):
      call()
    best.append((time.perf_counter() - start) * 1e6 / 50)
  torch.cuda.synchronize()
  return min(best)


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("folder")
  parser.add_argument("--only", default="")
  parser.add_argument("--no-check", action="store_true")
  parser.add_argument("--eager", action="store_true", help="run the pattern in eager beside it: times and differences at t = -5")
  options = parser.parse_args()
  sys.path.insert(0, options.folder)
  dispatch = importlib.import_module("pass_dir._shared_kernels").dispatch_wrapper
  with open(os.path.join(options.folder, "cases.json"), encoding="utf-8") as f:
    cases = json.load(f)["cases"]
  for case in cases:
    if options.only not in case["route"]:
      continue
    torch.manual_seed(1)
    arguments = [literal(m["literal"]) if "literal" in m else tensor(m) for m in case["inputs"]]
    tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
    got = dispatch(*arguments, case["route"])
    got = got if case["tuple"] else (got,)
    torch.cuda.synchronize()
    verdict = ""
    if not options.no_check:
      cpu = [t.cpu() for t in tensors]
      verdict = "ok"
      for k, value in enumerate(got):
        result = reference.compare_output(case["program"], k, cpu, value.cpu(), points=512)
        if not result["ok"]:
          verdict = "WRONG " + result["reason"]
    beside = ""
    if options.eager:
      module = importlib.import_module("pass_dir." + case["pass"]).pattern
      expected = module(*arguments)
      expected = expected if isinstance(expected, (tuple, list)) else (expected,)
      results = [compare.compare_tensors(e.cpu(), g.cpu()) for e, g in zip(expected, got)]
      wrong = sum(r.get("outside", 1) for r in results)
      eager = lambda: module(*arguments)  # noqa: E731
      beside = f"eager {device_us(eager, 20):8.1f} us, host {host_us(eager):6.1f} us, {wrong} elements outside"
    moved = sum(t.numel() * t.element_size() for t in [*tensors, *got])
    call = lambda: dispatch(*arguments, case["route"])  # noqa: E731
    device = device_us(call, 20)
    print(f"{case['route']:26s} {case['where'][:24]:24s} {moved / 1e6:9.1f} MB {device:9.1f} us {moved / device / 1e3:8.0f} GB/s "
          f"host {host_us(call):6.1f} us {verdict} {beside}", flush=True)


if __name__ == "__main__":
  main()
