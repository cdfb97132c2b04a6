"""Generated pass_dirs against the CUDA reference, on the CPU: every hand-built pass is run by the kernel interpreter, as first
launch, by the cached launcher, and on addresses that are not aligned; every kernel is compiled for a GPU that need not be there.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "python"))

import torch  # noqa: E402

from passnet.worker import compile_check, interpreter, pass_loader, reference  # noqa: E402


def tensor(meta, generator, shifted):
  shape, dtype = meta["shape"], getattr(torch, meta["dtype"])
  numel = 1
  for extent in shape:
    numel *= extent
  if dtype.is_floating_point:
    data = torch.randn(numel + 1, generator=generator) * 0.8
    if meta.get("positive"):
      data = data.abs() + 0.5
    data = data.to(dtype)
  else:
    data = torch.randint(0, 50, (numel + 1,), generator=generator).to(dtype)
  flat = data[1:] if shifted else data[:numel].clone()
  return flat.as_strided(shape, meta["stride"], 1 if shifted else 0)


def run_case(dispatch, case, shifted):
  """Reasons why the case is wrong; two calls, so that the second goes through the cached launcher."""
  generator = torch.Generator().manual_seed(7)
  metas = [dict(m, positive=case["route"].startswith("batch_norm") and i == 2) for i, m in enumerate(case["inputs"])]
  problems = []
  for attempt in range(2):
    tensors = [tensor(m, generator, shifted) for m in metas]
    got = dispatch(*tensors, case["route"])
    got = got if case["tuple"] else (got,)
    for k, (value, meta) in enumerate(zip(got, case["outputs"], strict=True)):
      result = reference.compare_output(case["program"], k, tensors, value)
      if not result["ok"]:
        problems.append(f"call {attempt}, output {k}: {result['reason']} {result.get('first_bad', '')}")
      if list(value.stride()) != meta["stride"]:
        problems.append(f"call {attempt}, output {k}: strides {value.stride()}, eager gives {meta['stride']}")
  return problems


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--writer", required=True, help="the program that writes the passes")
  parser.add_argument("--only", default="", help="routes that contain this")
  parser.add_argument("--no-compile", action="store_true")
  options = parser.parse_args()
  failures = 0
  with tempfile.TemporaryDirectory() as folder:
    subprocess.run([options.writer, folder], check=True)
    with open(os.path.join(folder, "cases.json"), encoding="utf-8") as f:
      document = json.load(f)
    pass_dir = os.path.join(folder, "pass_dir")
    cases = [c for c in document["cases"] if options.only in c["route"]]
    for shifted in (False, True):
      # A large tensor shows nothing new when it is shifted.
      chosen = [c for c in cases if not shifted or sum(torch.Size(m["shape"]).numel() for m in c["inputs"]) < 1 << 18]
      with interpreter.Session() as session, pass_loader.imported_as_pass_dir(pass_dir):
        dispatch = importlib.import_module("pass_dir._shared_kernels").dispatch_wrapper
        for case in chosen:
          before = len(session.launches)
          try:
            problems = run_case(dispatch, case, shifted)
          except Exception as e:  # noqa: BLE001 - any failure of a case is that case's result
            problems = [f"{type(e).__name__}: {e}"]
          fast = [launch["fast"] for launch in session.launches[before:]]
          if not problems and (True not in fast or False not in fast):
            problems = [f"launches {fast}: the second call must use the cached launcher"]
          if problems:
            failures += 1
            print(f"FAILED {case['route']} {case['where']} shifted={shifted}: " + "; ".join(problems))
    print(f"{len(cases)} cases run, {failures} failures")
    if not options.no_compile:
      seen = set()
      with interpreter.driver_without_device(), pass_loader.imported_as_pass_dir(pass_dir):
        module = importlib.import_module("pass_dir._shared_kernels")
        for entry in document["kernels"]:
          key = json.dumps(entry)
          if key in seen or options.only not in entry["kernel"]:
            continue
          seen.add(key)
          try:
            found = compile_check.compile_entry(module, dict(entry, pointer_dtypes=entry["pointers"]), 90)
            problems = [p["message"] for p in found["findings"]]
          except Exception as e:  # noqa: BLE001
            problems = [f"{type(e).__name__}: {e}"]
          if problems:
            failures += 1
            print(f"FAILED compile {entry['kernel']} {entry['constants']}: " + "; ".join(problems))
      print(f"{len(seen)} kernels compiled")
  return 1 if failures else 0


if __name__ == "__main__":
  sys.exit(main())
