#!/usr/bin/env python3
"""Small models, one for each thing that dynamo was found to do where a graph ends or is put together otherwise than it is written;
src/capture/DYNAMO.md names them. Native capture has to give what was recorded.

  dynamo_cases.py --driver build/tests/differential/capture_driver      compares native capture with the recording
  dynamo_cases.py --check                                               asks the installed torch again (make soak)
  dynamo_cases.py --record                                              writes the recording

Parameters: x, y: float32 [4, 6]; s: a single int64, 5; e: a single float64, 0.25; k: int64 [6] of known elements; w: a single float32 that is
drawn. The recording is tests/data/dynamo_cases_<torch>.txt, in the form of canonical_graphs.py.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT / "python"), str(ROOT / "tools")]

METAS = {
  "x": ([4, 6], "float32", 0.1, 0.5, None), "y": ([4, 6], "float32", 0.1, 0.5, None), "s": ([], "int64", None, None, [5]),
  "e": ([], "float64", 0.25, 0.0, None), "k": ([6], "int64", None, None, [1, 0, 3, 2, 0, 1]), "w": ([], "float32", 0.1, 0.5, None),
}

CASES = {
  "item": "a = x * 2\nb = a + 1\ni = e.item()\nc = a + i\nreturn (c, b)",
  "item of an integer": "a = x * 2\ni = s.item()\nc = a + i\nd = c[:, :i]\nreturn (d,)",
  "item before any node": "i = e.item()\nreturn (x + i,)",
  "item twice": "a = x * 2\ni = e.item()\nb = a + i\nj = s.item()\nreturn (b * j, a)",
  "item of what was computed": "m = k.max()\na = x + 1\nj = m.item()\nreturn (a * j,)",
  "item of what was drawn": "a = x + 1\nj = w.item()\nreturn (a * j,)",
  "item inside an expression": "a = x * 2\nb = (a + y) * e.item() - a\nreturn (b, y)",
  "item inside arguments": "a = x * 2\nb = torch.clamp(a, e.item(), max=3.0)\nreturn (b, a)",
  "the stack before the names": "b = x + 1\na = x * 2\nreturn (torch.stack([a, b * y * e.item()]), b)",
  "names by age": "c = x + 1\nb = x + 2\na = x + 3\nc = x + 4\ni = e.item()\nreturn (a * i, b, c)",
  "freed names take a new place": "c = x + 1\nb = x + 2\nc = None\ni = e.item()\nc = x + 3\nj = e.item()\nreturn (b, c * j)",
  "dead names": "a = x * 2\nb = a + 1\nc = b * 3\ni = e.item()\nb = c + i\nreturn (b,)",
  "two names of one value": "a = x * 2\nb = a\ni = e.item()\nreturn (a + i, b)",
  "a tuple lives on": "a, b = torch.chunk(x * 2, 2, dim=1)\nt = (a, b)\ni = e.item()\nreturn (t[0] * i,)",
  "tuple items that nothing reads": "t = torch.chunk(x * 2, 2, dim=1)\ni = e.item()\nreturn (t[1] * i,)",
  "in place, then a break": "a = x * 2\na += 1\ni = e.item()\nreturn (a * i,)",
  "an input in place, then a break": "x += 1\ni = e.item()\nreturn (x * i,)",
  "views of inputs are carried": "a = x[0]\nb = x.t()\nc = y + 1\ni = e.item()\nreturn (a * i, b + 1, c)",
  "the same object twice": "a = x * 2\nb = a.contiguous()\nc = torch.nn.functional.relu(b, inplace=True)\ni = e.item()\nreturn (a + i, b, c)",
  "nothing after the break": "a = x * 2\ni = e.item()\nreturn (a,)",
  "bare return after a break": "a = x * 2\ni = e.item()\nreturn a",
  "an unread subscript before a break": "a = x * 2\nb = a[0]\ni = e.item()\nreturn (a * i,)",
  "grad mode over a break": "_set = torch._C._set_grad_enabled(False)\na = x * 2\ni = e.item()\nb = a * i\n_set = torch._C._set_grad_enabled(True)\nreturn (b,)",
  "int() of a tensor": "a = x + 1\nj = int(s)\nreturn (a * j,)",
  "float() of a tensor": "a = x + 1\nj = float(e)\nreturn (a * j,)",
  "a branch on a tensor": "a = x + 1\nif s > 3:\n  a = a * 3\nreturn (a * 4,)",
  "a branch on a tensor, not taken": "a = x + 1\nif s > 7:\n  a = a * 3\nreturn (a * 4,)",
  "a mask": "m = k != 0\na = x + 1\nj = k[m]\nreturn (j + 1, a * 2)",
  "a mask in a tuple": "p = k.view(2, 3)\nm = p[0] != p[1]\nq = p[(slice(None, None, None), m)]\nreturn (q + 1, x * 2)",
  "a size after a mask": "m = k != 0\nj = k[m]\nn = torch.ops.aten.sym_size.int(j, 0)\nreturn (torch.ones(n), x + 1)",
  "sym_sum of numbers": "a = x * 2\nz = torch.sym_sum([3, 4])\nreturn (a + z,)",
  "sym_sum with a tensor": "a = x + 1\nj = torch.sym_sum([s, 3])\nreturn (a * j,)",
  "sym_not": "a = x + 1\nj = torch.sym_not(True)\nreturn (a * j,)",
  "sym_max": "a = x + 1\nj = torch.sym_max(3, 4)\nreturn (a * j,)",
  "sym_min": "a = x + 1\nj = torch.sym_min(3, 4)\nreturn (a * j,)",
  "sym_int": "a = x + 1\nj = torch.sym_int(3.5)\nreturn (a * j,)",
  "sym_float": "a = x + 1\nj = torch.sym_float(3)\nreturn (a * j,)",
  "sym_sqrt": "a = x + 1\nj = torch._sym_sqrt(3)\nreturn (a * j,)",
  "_check_is_size": "a = x + 1\nj = torch._check_is_size(3)\nreturn (a * 2,)",
  "_check": "a = x + 1\nj = torch._check(True)\nreturn (a * 2,)",
  "_assert_scalar": "a = x + 1\nj = torch.ops.aten._assert_scalar.default(True, 'x')\nreturn (a * 2,)",
  "_local_scalar_dense": "a = x + 1\nj = torch.ops.aten._local_scalar_dense(e)\nreturn (a * j,)",
  "a tensor as a size": "a = x + 1\nb = torch.arange(s)\nreturn (b + 1, a * 2)",
  "a tensor as a size of a view": "c = x + 1\nb = y.expand(s, 4, 6)\nreturn (b * 2, c)",
  "a tensor as a probability": "a = x * 2\nb = torch.nn.functional.dropout(a, e, False, False)\nreturn (b + 1, a)",
  "a tensor as an epsilon": "a = x * 2\nb = torch.nn.functional.layer_norm(a, (6,), None, None, e)\nreturn (b + 1, a)",
  "a literal tensor as a size": "t = torch.tensor([3])\np = torch.prod(t)\nb = torch.arange(start=0, end=p)\nreturn (b + 1, x * 2)",
  "a slice with a tensor": "a = x * 2\nb = a[(slice(None, None, None), slice(s, None, None))]\nreturn (b + 1,)",
  "a list times a tensor": "a = x * 2\nm = [None] * s\nreturn (a + y,)",
  "a list times a tensor after a break": "a = x * 2\ni = e.item()\nb = a * i\nm = [None] * s\nreturn (b + y,)",
  "a break in a loop": "a = x * 2\nb = a + 1\nfor i in range(2):\n  b = b * e.item()\nreturn (b + y,)",
  "a loop after a break": "a = x * 2\ni = e.item()\nfor j in range(2):\n  a = a * i\nreturn (a + y,)",
  "FunctionCtx": "a = x * 2\nf = torch.autograd.function.FunctionCtx()\nreturn (a,)",
  "autocast off": "a = x * 2\nc = torch.amp.autocast_mode._enter_autocast('cpu', None, False, None)\nb = a @ y.t()\nz = torch.amp.autocast_mode._exit_autocast(c)\nreturn (b,)",
  "autocast off for a GPU": "a = x * 2\nc = torch.amp.autocast_mode._enter_autocast('cuda', None, False, None)\nb = a @ y.t()\nz = torch.amp.autocast_mode._exit_autocast(c)\nreturn (b,)",
  "autocast in autocast": "c = torch.amp.autocast_mode._enter_autocast('cpu', None, False, None)\nd = torch.amp.autocast_mode._enter_autocast('cpu', None, False, None)\nb = x @ y.t()\nz = torch.amp.autocast_mode._exit_autocast(d)\nz = torch.amp.autocast_mode._exit_autocast(c)\nreturn (b,)",
  "vmap": """\
c = torch.arange(5)
d = torch.arange(3)
l = torch._functorch.predispatch.lazy_load_decompositions()
v = torch._functorch.predispatch._vmap_increment_nesting(5, "error")
c1 = torch._functorch.predispatch._add_batch_dim(c, 0, 1)
v2 = torch._functorch.predispatch._vmap_increment_nesting(3, "error")
d1 = torch._functorch.predispatch._add_batch_dim(d, 0, 2)
r = c1.new_ones((), dtype=torch.bool)
q = d1.le(c1)
r1 = r.__and__(q)
b = torch._functorch.predispatch._remove_batch_dim(r1, 2, 3, 0)
w2 = torch._functorch.predispatch._vmap_decrement_nesting()
b1 = torch._functorch.predispatch._remove_batch_dim(b, 1, 5, 0)
w1 = torch._functorch.predispatch._vmap_decrement_nesting()
return (b1, x + y)""",
  "vmap by its functions in C": """\
c = torch.arange(5)
a = x + 1
v = torch._C._functorch._vmap_increment_nesting(5, "error")
c1 = torch._C._functorch._add_batch_dim(c, 0, 1)
q = c1.le(3)
b = torch._C._functorch._remove_batch_dim(q, 1, 5, 0)
w1 = torch._C._functorch._vmap_decrement_nesting()
return (b, a + y)""",
  "addcdiv with a value": "a = torch.addcdiv(x, y, x, value=0.3)\nb = torch.addcdiv(x, y, a)\nreturn (b,)",
  "new_tensor": "a = x + 1\nb = a.new_tensor([1, 2])\nc = a.new_tensor([1, 2], dtype=torch.int64)\nreturn (b + 1, c * 2)",
  "threshold": "a = torch.nn.functional.threshold(x, 0.1, value=20.0)\nb = torch.nn.functional.threshold(a, 0.1, 2.0, True)\nc = torch.nn.functional.threshold(b, 0.5, 1.0, inplace=False)\nreturn (c,)",
  "float of a text": "a = x.masked_fill(x > 0, float('-inf'))\nb = a.clamp(max=float('inf'))\nreturn (b,)",
}


def write_models(root):
  """{case: folder}"""
  out = {}
  for number, (title, body) in enumerate(CASES.items()):
    folder = root / f"{number:03d}"
    folder.mkdir()
    (folder / "model.py").write_text(
      "import torch\nfrom torch import device, inf\nimport math\n\n\nclass GraphModule(torch.nn.Module):\n"
      f"  def forward(self, {', '.join(METAS)}):\n" + textwrap.indent(body, "    ") + "\n")
    (folder / "weight_meta.py").write_text("".join(
      f"class Meta_{name}:\n  name = '{name}'\n  shape = {shape}\n  dtype = 'torch.{dtype}'\n  mean = {mean}\n  std = {std}\n  data = {data}\n\n"
      for name, (shape, dtype, mean, std, data) in METAS.items()))
    out[title] = folder
  return out


def read_recording(path):
  """(torch, {case: lines})"""
  first, *rest = path.read_text(encoding="utf-8").splitlines()
  cases, lines = {}, []
  for line in rest:
    if line.startswith("= "):
      cases[line[2:]] = lines = []
    else:
      lines.append(line)
  return first.removeprefix("torch "), cases


def derive(folders):
  """{case: lines} by the installed torch."""
  import logging
  import capture_vs_oracle
  logging.getLogger("torch._dynamo").setLevel(logging.CRITICAL)
  record = capture_vs_oracle.recorder()
  out = {}
  for title, folder in folders.items():
    result = record.record_or_say_why(folder)
    out[title] = result["lines"] if "error" not in result else ["error " + result["error"]]
  return out


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--driver")
  parser.add_argument("--check", action="store_true")
  parser.add_argument("--record", action="store_true")
  parser.add_argument("--recording", type=pathlib.Path, default=ROOT / "tests" / "data" / "dynamo_cases_2.13.txt")
  args = parser.parse_args()
  with tempfile.TemporaryDirectory(prefix="passnet.") as scratch:
    folders = write_models(pathlib.Path(scratch))
    if args.record or args.check:
      from importlib.metadata import version
      installed = version("torch").split("+")[0]
      answers = derive(folders)
      if args.record:
        text = f"torch {installed}\n" + "".join(f"= {t}\n" + "".join(line + "\n" for line in lines) for t, lines in answers.items())
        args.recording.write_text(text, encoding="utf-8")
        print(f"{args.recording}: {len(answers)} cases")
        return 0
    else:
      import capture_vs_oracle
      given = capture_vs_oracle.native_lines(args.driver, [("cpu", str(f)) for f in folders.values()], 1)
      answers = {title: given[str(f)][1] if given[str(f)][0] == "ok" else ["error " + given[str(f)][2][0]] for title, f in folders.items()}
  torch_version, recorded = read_recording(args.recording)
  if args.check and installed != torch_version:
    print(f"skipped: recorded with torch {torch_version}, installed is {installed}")
    return 77
  bad = 0
  for title in CASES:
    mine, theirs = answers[title], recorded.get(title, ["(not recorded: dynamo_cases.py --record)"])
    if mine != theirs:
      bad += 1
      print(f"== {title}\n" + "".join(f"  {line}\n" for line in mine) + " instead of\n" + "".join(f"  {line}\n" for line in theirs))
  print(f"{len(CASES) - bad} of {len(CASES)} cases as torch {torch_version} has them")
  return 1 if bad else 0


if __name__ == "__main__":
  sys.exit(main())
