#!/usr/bin/env python3
"""The judge must not let a wrong region pass: of each fault below one of its three questions alone can tell.

  check_judge.py --planner plan_regions

A region whose numbers a CPU does not determine (so that the judge asks at all), right as it is and wrong after one change.
"""

import argparse
import copy
import os
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))

import torch  # noqa: E402

import region_maker  # noqa: E402
import run_regions  # noqa: E402

# The angle of a zero with itself is pi or nothing, by the sign that eager's branches gave it.
NAME = "zeros"
INPUTS = {"x": ([17, 7], "float32"), "y": ([17, 7], "float32")}
BODY = "a = torch.nn.functional.softshrink(x, 1.0)\nb = torch.atan2(a, a)\nc = torch.mul(b, y)\nreturn (torch.exp(c),)"


def change(text, old, new):
  if text.count(old) != 1:
    raise AssertionError(f"{old!r} stands {text.count(old)} times in\n{text}")
  return text.replace(old, new)


def walk(value, old, new):
  """A program with every occurrence of one function taken for another; how many there were."""
  if isinstance(value, list):
    count = int(bool(value) and value[0] == old)
    items = [walk(v, old, new) for v in value]
    out = [i[0] for i in items]
    if count:
      out[0] = new
    return out, count + sum(i[1] for i in items)
  if isinstance(value, dict):
    items = {k: walk(v, old, new) for k, v in value.items()}
    return {k: v[0] for k, v in items.items()}, sum(v[1] for v in items.values())
  return value, 0


class Case:
  def __init__(self, planner, scratch):
    self.folder = os.path.join(scratch, NAME)
    region = region_maker.fixed_region(NAME, INPUTS, BODY)
    self.label = region_maker.write_sample(self.folder, region)
    self.answer = planner.solve([self.folder])[0]
    if "error" in self.answer or not self.answer["passes"] or self.answer["failures"]:
      raise AssertionError(f"{self.answer}")
    self.files = {p: p.read_text(encoding="utf-8") for p in pathlib.Path(self.folder, "pass_dir").iterdir()}

  def problems(self, edit=None, programs=None):
    for path, text in self.files.items():
      path.write_text(edit(path.name, text) if edit else text, encoding="utf-8")
    answer = {**self.answer, "programs": programs or self.answer["programs"]}
    reply = run_regions.run_sample(self.folder, self.label, answer, ["live"])
    return run_regions.failures_of(reply), reply


def expect(found, word, what):
  told = [f for f in found if word in f]
  if not told:
    raise AssertionError(f"{what}: no failure with {word!r}; found {found}")
  print(f"ok: {what}: {told[0][:140]}")


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--planner", required=True)
  options = parser.parse_args()
  torch.set_num_threads(1)
  planner = run_regions.Planner(options.planner)
  with tempfile.TemporaryDirectory() as scratch:
    case = Case(planner, scratch)
    found, reply = case.problems()
    if found or not any("note" in c for c in reply["variants"][0]["calls"]):
      raise AssertionError(f"right, and by the judge's questions: {found or reply}")
    print("ok: what a CPU does not determine passes")

    def kernel(name, text):
      return change(text, "libdevice.exp(", "1.01 * libdevice.exp(") if name == "_shared_kernels.py" else text

    expect(case.problems(kernel)[0], "against the reference", "1: a kernel that is not the formula")

    # Kernel and reference wrong alike: only eager's pattern tells.
    program, _ = walk(copy.deepcopy(case.answer["programs"]), "mul", "add")

    def both(name, text):
      return change(text, "atan2 * y_v", "atan2 + y_v") if name == "_shared_kernels.py" else text

    expect(case.problems(both, program)[0], "the reference is not what eager gives", "2: a formula that is not the operator's")

    # Right by itself, given the wrong operands.
    def swapped(name, text):
      return text if name == "_shared_kernels.py" or not name.endswith(".py") else change(text, "return (x, y, ", "return (y, x, ")

    expect(case.problems(swapped)[0], "with eager's values in the wrappers' memory", "3: a call at another place")
  planner.close()


if __name__ == "__main__":
  sys.exit(main())
