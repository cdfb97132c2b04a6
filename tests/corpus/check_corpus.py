"""The native pre-flight against the real path, on a corpus of pass_dirs.

  tests/corpus/check_corpus.py --binary build/passnet [--only TEXT] [--part I/N] [--native-only] [--keep DIR] [-v]

Every case of check/*.txt is one sample with one pass_dir. `passnet check` judges it; so does the real path: the public
source rules on CPython's syntax tree, import, trace, torch's matcher, replacement under torch.compile, poisoned, plain
and repeated calls on fresh inputs, compared with eager. Verdicts must be equal, and those of the case's first line. A red
case names the code of a finding that has to be there, so that it is red for its own reason.

The form of a case:
  ## NAME green | red CODE [order] | what is right or wrong with it
  model [dtype/label] in_0[4,8] in_1[8]:i64   the body of forward(), one variant (default float32/0)
  pass P(x, y) ROUTE [from SOURCE]          a traced pattern's body; replacement_args returns (x, y, "ROUTE")
  graph P(x, y) ROUTE                       lines that build the graph `g`; the last names the result `out`
  file NAME                                 a file as it stands; `nofile NAME` leaves one out
Files that are not given: _shared_kernels.py beside the cases, and a list of all passes in order.

Three things that the public harness lets happen silently and that its documentation forbids are red on the real path
too, from what is seen there: a listed pass that is not loaded, a file that is never imported, and operations
in the traced graph of replacement_args.
"""
import argparse
import contextlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "differential")]

MANIFEST = "sorted_output_pass_rule_names.json"

TRACED = """import torch
from pass_dir._shared_kernels import dispatch_wrapper

def pattern({names}):
{body}

def replacement_args({names}):
    return ({names}, "{route}")

def replacement_func():
    return dispatch_wrapper
"""
BUILT = """import inspect
import operator
import torch
from pass_dir._shared_kernels import dispatch_wrapper

def pattern():
    g = torch.fx.Graph()
{holders}
{body}
    g.output(out)
    m = torch.fx.GraphModule({{}}, g, "{name}")
    m.__signature__ = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in ({listed})])
    return m

pattern = pattern()

def replacement_args({names}):
    return ({names}, "{route}")

def replacement_func():
    return dispatch_wrapper
"""


class Case:
  def __init__(self, header, where):
    match = re.fullmatch(r"## (\w+) (green|red ([\w.]+))( order)?( smoke)? \| (.*)", header)
    if not match:
      raise SystemExit(f"{where}: not a header of a case: {header}")
    self.name, verdict, self.code, order, smoke, self.why = match.groups()
    self.verdict = verdict.split()[0]
    self.order, self.smoke = bool(order), bool(smoke)
    self.variants = []  # (label, [(input, shape, dtype)], body)
    self.files, self.const = {}, {}
    self.passes, self.without = [], []


def indent(lines):
  return textwrap.indent(textwrap.dedent("\n".join(lines)).strip("\n"), "    ")


def read_cases(path):
  cases, section = [], None
  for number, line in enumerate(path.read_text().splitlines() + ["## "], 1):
    where = f"{path.name}:{number}"
    if re.match(r"(## |model |pass \w+\(|graph \w+\(|file |const |nofile )", line) and not line.startswith("    "):
      if section:
        finish(cases[-1], *section)
      section = None
      if line == "## ":
        break
      if line.startswith("## "):
        cases.append(Case(line, where))
      elif line.startswith("nofile "):
        cases[-1].without.append(line.split()[1])
      else:
        section = (line, [])
    elif section:
      section[1].append(line)
  return cases


def finish(case, head, lines):
  kind, _, rest = head.partition(" ")
  while lines and not lines[-1].strip():
    lines.pop()
  if kind == "model":
    label = "float32/0"
    if re.match(r"\w+/\w+ ", rest):
      label, _, rest = rest.partition(" ")
    inputs = [(n, [int(d) for d in s.split(",") if d], t or None) for n, s, t in re.findall(r"(\w+)\[([\d,]*)\](?::(\w+))?", rest)]
    case.variants.append((label, inputs, "\n".join(lines) + "\n"))
  elif kind in ("file", "const"):
    (case.files if kind == "file" else case.const)[rest] = "\n".join(lines) + "\n"
  else:
    name, parameters, route = re.fullmatch(r"(\w+)\(([\w, ]*)\) (\w+)", rest).groups()
    names = [n for n in parameters.split(", ") if n]
    fill = {"name": name, "names": ", ".join(names), "route": route, "listed": ", ".join(f'"{n}"' for n in names) + ",",
            "body": indent(lines), "holders": "\n".join(f'    {n} = g.placeholder("{n}")' for n in names)}
    case.passes.append(name)
    case.files[f"{name}.py"] = (TRACED if kind == "pass" else BUILT).format(**fill)


def load_cases(only=""):
  cases = [c for path in sorted((HERE / "check").glob("*.txt")) for c in read_cases(path)]
  names = [c.name for c in cases]
  assert len(set(names)) == len(names), "two cases of one name"
  return [c for c in cases if only in c.name]


def meta(inputs, dtype):
  out = []
  for name, shape, own in inputs:
    kind = {"i64": "int64", "bool": "bool", "f16": "float16", "f32": "float32", None: dtype}[own]
    out.append(f'class Program_weight_tensor_meta_{name}:\n    name = "{name}"\n    shape = {shape}\n    dtype = "torch.{kind}"\n'
               f'    device = "cuda:0"\n    mean = 0.0\n    std = 1.0\n    data = None\n' + ("    min_val = 0\n    max_val = 3\n" if kind == "int64" else ""))
  return "\n".join(out)


def write_sample(case, root):
  for label, inputs, body in case.variants:
    folder = root / label
    folder.mkdir(parents=True)
    arguments = ", ".join(name for name, _, _ in inputs)
    head = f"import torch\n\nclass GraphModule(torch.nn.Module):\n\n    def forward(self, {arguments}):\n"
    (folder / "model.py").write_text(head + textwrap.indent(textwrap.dedent(body), " " * 8))
    (folder / "weight_meta.py").write_text(meta(inputs, label.split("/")[0]))
    (folder / "input_meta.py").write_text("")
    (folder / "graph_net.json").write_text('{"framework": "torch", "dynamic": false, "model_name": "case"}')
  (root / "graph_list.txt").write_text("".join(label + "\n" for label, _, _ in case.variants))
  files = {"_shared_kernels.py": (HERE / "check" / "_shared_kernels.py").read_text(), MANIFEST: json.dumps(case.passes)}
  files.update(case.files)
  for folder, content in (("pass_dir", files), ("const_pass_dir", case.const)):
    for name, text in content.items():
      if folder == "pass_dir" and name in case.without:
        continue
      path = root / folder / name
      path.parent.mkdir(parents=True, exist_ok=True)
      path.write_text(text)
  (root / "pass_dir").mkdir(exist_ok=True)
  return root


def native(binary, root, smoke=False):
  done = subprocess.run([binary, "check", str(root), "--json", "--quiet", *(["--smoke"] if smoke else [])], capture_output=True, text=True, timeout=300,
                        env={**os.environ, "PASSNET_PYTHON": sys.executable})
  try:
    report = json.loads(done.stdout)
  except ValueError:
    return "error", [], done.stderr or done.stdout
  codes = [f["code"] for f in report["findings"] if f["severity"] != "note"]
  text = "\n".join(f"{f['severity']} {f['code']}: {f['message']}" for f in report["findings"])
  return ("red" if done.returncode else "green"), codes, text


def rejected_files(root):
  from check_differential import python_rules

  out = {}
  try:
    listed = json.loads((root / "pass_dir" / MANIFEST).read_text())
  except (OSError, ValueError):
    return out
  for name in listed if isinstance(listed, list) else []:
    path = root / "pass_dir" / f"{name}.py"
    if path.is_file():
      found = python_rules(path.read_text())  # a syntax error ends the harness, and this
      if found:
        out[name] = found
  return out


def real(root):
  """(verdict, why) of the real path."""
  from passnet.worker import interpreter, pass_loader, smoke, tracer

  pass_dir, const = str(root / "pass_dir"), str(root / "const_pass_dir")
  const = const if os.path.isdir(const) else None
  try:
    rejected = rejected_files(root)
    with interpreter.Session(), pass_loader.imported_as_pass_dir(pass_dir):
      passes = pass_loader.load(pass_dir, const, rejected)
      if passes.skipped:
        return "red", f"not loaded: {passes.skipped}"
      seen = {p.name for p in passes.passes} | {n.split(".", 1)[1] for n in sys.modules if n.startswith("pass_dir.")}
      unseen = [p.name for p in sorted((root / "pass_dir").rglob("*.py")) if p.stem not in seen]
      if unseen:
        return "red", f"never imported: {unseen}"
      for p in passes.passes:
        graph = tracer.replacement_graph(tracer.parameter_names(p.pattern), p.replacement_args, p.function)
        calls = [n for n in graph.nodes if n.op not in ("placeholder", "output")]
        if len(calls) != 1:
          return "red", f"replacement_args of {p.name} computes: {calls}"
    report = smoke.command({"sample": str(root), "pass_dir": pass_dir, "const_pass_dir": const, "rejected": rejected,
                            "options": {"device": "cpu", "repeats": 2}}, lambda *_: None)
  except Exception as e:  # noqa: BLE001 - whatever ends the real path makes the pass_dir red
    return "red", f"{type(e).__name__}: {e}"
  for variant in report["variants"]:
    if not variant["ok"]:
      calls = [{k: v for k, v in c.items() if k not in ("wrappers",)} for c in variant.get("calls", []) if not c["ok"]]
      return "red", str(variant.get("error") or calls)[:3000]
  return "green", ""


def main():
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--binary", required=True)
  parser.add_argument("--only", default="")
  parser.add_argument("--part", default="1/1" if os.environ.get("PASSNET_SOAK") else "1/6",
                      help="I/N: the real path for every N-th case, beginning with the I-th (default 1/6; all with PASSNET_SOAK set)")
  parser.add_argument("--keep", help="leave the samples below this folder")
  parser.add_argument("--native-only", action="store_true", help="without torch: the native verdict against the case's own")
  parser.add_argument("--record", action="store_true", help="write the counts below bench/results")
  parser.add_argument("-v", "--verbose", action="store_true")
  args = parser.parse_args()
  cases = load_cases(args.only)
  red = [c for c in cases if c.verdict == "red"]
  order = [c for c in red if c.order]
  part, parts = map(int, args.part.split("/"))
  truly = set() if args.native_only else {c.name for c in cases[part - 1::parts]}
  failures, verdicts = 0, {}
  with contextlib.ExitStack() as stack:
    base = pathlib.Path(args.keep or stack.enter_context(tempfile.TemporaryDirectory(prefix="passnet-corpus.")))
    for case in cases:
      root = write_sample(case, base / case.name)
      verdict, codes, text = native(args.binary, root, case.smoke)
      with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        truth, why = (case.verdict, "") if case.name not in truly else real(root)
      trouble = []
      verdicts[case.name] = {"check": verdict, "real_path": truth if case.name in truly else None, "why": case.why}
      if verdict != truth:
        trouble.append(f"FALSE {verdict.upper()}: the real path is {truth}")
      if truth != case.verdict:
        trouble.append(f"the case says {case.verdict}")
      if case.code and verdict == "red" and case.code not in codes:
        trouble.append(f"red, but not for {case.code}: {codes}")
      if trouble:
        failures += 1
        print(f"{case.name}: {'; '.join(trouble)}\n  native: {text[:1500]}\n  real: {why[:1500]}", flush=True)
      elif args.verbose:
        print(f"{case.name}: {verdict} {codes}\n  real: {why[:300]}", flush=True)
  print(f"{len(cases)} pass_dirs ({len(red)} red, {len(order)} of them by order alone), {len(truly)} through the real path, {failures} verdicts differ")
  if args.record:
    sys.path.insert(0, str(ROOT / "tools"))
    import tool_common
    import torch

    ran = [v for v in verdicts.values() if v["real_path"]]
    document = {"machine": tool_common.machine(), "torch": torch.__version__, "pass_dirs": len(cases), "red": len(red), "by_order_alone": len(order),
                "real_path": len(ran), "false_green": sum(v["check"] == "green" != v["real_path"] for v in ran),
                "false_red": sum(v["check"] == "red" != v["real_path"] for v in ran), "cases": verdicts}
    document["command"] = "tests/corpus/check_corpus.py " + " ".join(a for a in sys.argv[1:] if "/" not in a or re.fullmatch(r"\d+/\d+", a))
    print(f"bench/results/{tool_common.write_result('check-corpus', document)} written")
  return 1 if failures else 0


if __name__ == "__main__":
  sys.exit(main())
