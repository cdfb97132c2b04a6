#!/usr/bin/env python3
"""A shape that torch refuses is refused here too: every example of the operator table with one extent of one operand larger.

  refused_shapes.py --table build/src/ops/print_operator_table --driver build/tests/differential/capture_driver

Torch's answer is that of fake tensors. A capture that took such a call would give metadata that no run can have, and a variant
made smaller would no longer run. The other way round torch's fake tensors accept some calls that no kernel does; those are
only counted.
"""

import argparse
import copy
import json
import logging
import operator
import os
import subprocess
import sys
import tempfile

import torch
from torch._subclasses import FakeTensorMode

logging.disable(logging.CRITICAL)


def contiguous(shape):
  strides = [1] * len(shape)
  for k in range(len(shape) - 2, -1, -1):
    strides[k] = strides[k + 1] * max(shape[k + 1], 1)
  return strides


def cases(table):
  """(row, example, its inputs with one extent one larger)."""
  for row in table["rows"]:
    for example in row["examples"]:
      for i, given in enumerate(example["inputs"]):
        for axis in range(len(given.get("shape", ()))):
          inputs = copy.deepcopy(example["inputs"])
          inputs[i]["shape"][axis] += 1
          inputs[i]["stride"] = contiguous(inputs[i]["shape"])
          yield row["name"], example, inputs


def torch_accepts(example, inputs):
  names = {"torch": torch, "operator": operator, "inf": float("inf"), "nan": float("nan")}
  with FakeTensorMode():
    for x in inputs:
      names[x["name"]] = (eval(x["literal"], dict(names)) if "literal" in x
                          else torch.empty_strided(x["shape"], x["stride"], dtype=getattr(torch, x["dtype"])))
    try:
      eval(example["call"], names)
      return True
    except NotImplementedError:
      return None
    except Exception:  # noqa: BLE001 - whatever it is, torch does not take the call
      return False


def write_model(folder, example, inputs):
  os.makedirs(folder)
  tensors = [x for x in inputs if "literal" not in x]
  body = [f"        {x['name']} = {x['literal']}" for x in inputs if "literal" in x] + [f"        r = {example['call']}", "        return (r,)"]
  head = ["import operator", "from math import inf, nan", "import torch", "", "class GraphModule(torch.nn.Module):", ""]
  with open(os.path.join(folder, "model.py"), "w") as f:
    f.write("\n".join([*head, f"    def forward(self, {', '.join(x['name'] for x in tensors)}):", *body, ""]))
  with open(os.path.join(folder, "weight_meta.py"), "w") as f:
    for x in tensors:
      f.write(f'class P_{x["name"]}:\n\tname = "{x["name"]}"\n\tshape = {x["shape"]}\n\tdtype = "torch.{x["dtype"]}"\n\tdevice = "cuda:0"\n'
              "\tmean = 0.1\n\tstd = 0.5\n\n")
  with open(os.path.join(folder, "input_meta.py"), "w"):
    pass


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--table", required=True)
  parser.add_argument("--driver", required=True)
  args = parser.parse_args()
  table = json.loads(subprocess.run([args.table], capture_output=True, text=True, check=True).stdout)
  found = list(cases(table))
  with tempfile.TemporaryDirectory() as root:
    for k, (_, example, inputs) in enumerate(found):
      write_model(f"{root}/{k}", example, inputs)
    questions = "".join(f"cuda {root}/{k}\n" for k in range(len(found)))
    answers = subprocess.run([args.driver, "--quiet"], input=questions, capture_output=True, text=True, check=True).stdout
  verdicts = {}
  for line in answers.splitlines():
    if line.startswith("= "):
      _, folder, word, *_ = line.split(" ")
      number = int(folder.rsplit("/", 1)[1])
      verdicts[number] = word == "ok"
    elif line.startswith("! ops."):  # the call is in the graph, without metadata and with this finding
      verdicts[number] = False
  wrong, refused, accepted, agreed = [], 0, 0, 0
  for k, (row, example, inputs) in enumerate(found):
    theirs = torch_accepts(example, inputs)
    if theirs is False:
      refused += 1
      if verdicts[k]:
        wrong.append(f"{row}: {example['call']} on " + ", ".join(str(x.get("shape", x.get("literal"))) for x in inputs))
    elif theirs:
      accepted += 1
      agreed += verdicts[k]
  print(f"{len(found)} calls; torch refuses {refused} of them, of which {len(wrong)} were accepted; of {accepted} that torch takes {agreed} were")
  for line in wrong[:40]:
    print(line)
  # A capture that refused everything would pass otherwise.
  return 1 if wrong or refused < 400 or agreed < 0.97 * accepted else 0


if __name__ == "__main__":
  sys.exit(main())
