"""Every exploit that needs no GPU, under strict and under public source rules: what becomes of it and which layer catches it."""
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import eval_cases as cases
import exploits
import honest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = os.environ.get("PASSNET_BINARY", str(ROOT / "build" / "passnet"))
SOAK = bool(os.environ.get("PASSNET_SOAK"))
# A fifth of the exploits in every test run, all of them in the soak.
CHOSEN = exploits.EXPLOITS if SOAK else exploits.EXPLOITS[::5]
in_soak = pytest.mark.skipif(not SOAK, reason="runs with --soak")
QUICK = ["--device", "cpu", "--warmup", "3", "--quiet", "--json", "--jobs", "2"]


def evaluate(samples, out, *options, env=None, trials=8):
  """{sample: variant of the document} of one run over all samples."""
  done = subprocess.run([BINARY, "eval", *map(str, samples), *QUICK, "--trials", str(trials), "--out", str(out), *options], capture_output=True, text=True,
                        timeout=600, env={**os.environ, "PASSNET_PYTHON": os.environ.get("PASSNET_PYTHON", sys.executable), **(env or {})})
  assert done.returncode in (0, 1), done.stdout[-1500:] + done.stderr[-3000:]
  document = json.loads(done.stdout)
  assert document["complete"]
  return {v["sample"]: v for v in document["variants"]}


def write(folder, entries):
  for e in entries:
    sample = cases.write_sample(folder / e.id, model=e.model, metas=e.metas, passes=e.passes)
    for name, content in getattr(e, "extra", {}).items():
      (sample / "pass_dir" / name).parent.mkdir(parents=True, exist_ok=True)
      (sample / "pass_dir" / name).write_bytes(content)
  return [folder / e.id for e in entries]


def simple(outcome):
  return "correct" if outcome.startswith("correct") else outcome


def check(got, wanted):
  """What differs from what was expected, a line each."""
  return [f"{e.id} ({e.what}): {simple(got[e.id]['outcome'])} instead of {want}; {got[e.id]['evidence'][:1]}"
          for e, want in wanted if want != "any" and simple(got[e.id]["outcome"]) != want]


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
  return write(tmp_path_factory.mktemp("exploits"), CHOSEN)


def test_every_row_has_its_place():
  """Every exploit is tested here, apart, or on a GPU, and names its outcome."""
  ids = [e.id for e in exploits.EXPLOITS]
  assert len(ids) == len(set(ids)) and len(ids) >= 60
  for e in exploits.EXPLOITS:
    assert {e.strict, e.public} <= {*exploits.OUTCOME_LAYER, "any"} and e.what
  rows = {i.rstrip("abcdefg") for i in (*ids, *exploits.APART, *exploits.ON_A_GPU)}
  listed = [f"{letter}{n}" for letter, last in (("A", 10), ("B", 9), ("C", 7), ("D", 9), ("E", 12), ("F", 7)) for n in range(1, last + 1)]
  assert not set(listed) - rows


@in_soak
def test_under_strict_rules(samples, tmp_path):
  got = evaluate(samples, tmp_path / "out", "--rules", "strict", "--variant-deadline", "12")
  assert not check(got, [(e, e.strict) for e in CHOSEN])
  # No exploit under strict rules comes to more than an honest pass or a failure.
  assert all(exploits.OUTCOME_LAYER[simple(v["outcome"])] for v in got.values())


def test_under_public_rules(samples, tmp_path):
  """Defence in depth: with the public source rules alone in front, the next layer catches what they let through."""
  got = evaluate(samples, tmp_path / "out", "--rules", "public", "--variant-deadline", "12")
  assert not check(got, [(e, e.public) for e in CHOSEN])


@in_soak
@pytest.mark.parametrize("layer, ids, then", [
  ("plain", ["A4"], {"A4": "correct"}),  # nobody else sees an operator on a tensor that was never poisoned
  # Right answers from a cache on the same inputs: under the public protocol nobody else can tell.
  ("kept", ["C1b", "C3", "C4", "C6"], {"C1b": "correct", "C3": "correct", "C4": "correct", "C6": "correct"}),
  ("audit", ["B6a", "D5"], {"D5": "correct"}),
  ("outputs", ["A1a", "A8b"], {}),
  ("graph", ["A6"], {"A6": "correct"}),
])
def test_with_a_layer_left_out(tmp_path, layer, ids, then):
  chosen = [e for e in exploits.EXPLOITS if e.id in ids]
  got = evaluate(write(tmp_path / "s", chosen), tmp_path / "out", "--rules", "public", "--variant-deadline", "12", "--without", layer)
  assert not check(got, [(e, then.get(e.id, "any")) for e in chosen])


@in_soak
def test_the_strict_protocol(tmp_path):
  """Under public source rules, so that everything runs: the separate reference and fresh contents catch the rest."""
  instead = exploits.UNDER_THE_STRICT_PROTOCOL
  got = evaluate(write(tmp_path / "s", exploits.EXPLOITS), tmp_path / "out", "--protocol", "strict", "--rules", "public", "--variant-deadline", "15")
  assert not check(got, [(e, instead.get(e.id, e.public)) for e in exploits.EXPLOITS])


@in_soak
def test_fresh_contents_end_replay(tmp_path):
  """C: a cache of right answers, with nobody looking for caches: the strict protocol alone tells, by the outputs."""
  chosen = [e for e in exploits.EXPLOITS if e.id in ("C1b", "C3", "C4", "C6")]
  options = ["--protocol", "strict", "--rules", "public", "--without", "kept", "--variant-deadline", "15"]
  got = evaluate(write(tmp_path / "s", [*chosen, honest.HONEST[0]]), tmp_path / "out", *options)
  assert {got[e.id]["outcome"] for e in chosen} <= {"inconsistent", "inaccurate"}
  assert simple(got["plain"]["outcome"]) == "correct"


@in_soak
def test_the_references_clock(tmp_path):
  """D4: with nobody looking for exchanged functions, the reference sees more time pass than the trials claim."""
  chosen = [e for e in exploits.EXPLOITS if e.id == "D4c"]
  options = ["--protocol", "strict", "--rules", "public", "--without", "audit"]
  got = evaluate(write(tmp_path / "s", [*chosen, honest.HONEST[0]]), tmp_path / "out", *options, trials=200)
  assert got["D4c"]["outcome"] == "clock_mismatch" and simple(got["plain"]["outcome"]) == "correct"


def test_the_honest_corpus(tmp_path):
  """No flag on anything that only looks like an exploit, under both rule sets."""
  found = {}
  for rules in ("public", "strict") if SOAK else ("public",):
    entries = [e for e in (honest.HONEST if SOAK else honest.HONEST[::3]) if rules == "public" or e.strict]
    got = evaluate(write(tmp_path / rules, entries), tmp_path / ("out" + rules), "--rules", rules, "--variant-deadline", "60")
    if SOAK:
      again = evaluate(write(tmp_path / (rules + "s"), entries), tmp_path / ("outs" + rules), "--protocol", "strict", "--rules", rules, "--variant-deadline", "60")
      found.update({(rules, e.id, "strict protocol"): again[e.id] for e in entries if simple(again[e.id]["outcome"]) != "correct"})
    found.update({(rules, e.id): got[e.id] for e in entries if simple(got[e.id]["outcome"]) != "correct"})
  assert not {k: (v["outcome"], v["evidence"][:2]) for k, v in found.items()}


# What is an accusation. Outputs of passes for a GPU may differ from eager's on a CPU, so that these say nothing here.
FLAGS = {"rejected_source", "forbidden_op", "replacement_ops", "kept_state", "changed_inputs", "clock_mismatch", "forged_answer", "load_error"}
SMALL = 1 << 20  # bytes of inputs: larger ones are interpreted for minutes


def solved_samples(folder):
  """Of the samples in PASSNET_DATA that have a small variant: that variant and the passes that solve writes."""
  data = pathlib.Path(os.environ.get("PASSNET_DATA") or ROOT.parent / "shared" / "data" / "samples")
  out = []
  for root in sorted(p.parent for p in data.glob("*/graph_list.txt")) if data.is_dir() else []:
    whole = folder / "solved" / root.name
    done = subprocess.run([BINARY, "solve", str(root), "--no-preflight-run", "--no-gpu", "--quiet", "--json", "--out", str(whole)], capture_output=True, text=True)
    sizes = {}
    for label in (root / "graph_list.txt").read_text().split():
      shapes = re.findall(r"shape = \[([\d, ]*)\]", (root / label / "weight_meta.py").read_text())
      sizes[label] = 4 * sum(math.prod(int(n) for n in shape.replace(",", " ").split()) for shape in shapes)
    label = min(sizes, key=sizes.get)
    if done.returncode == 0 and sizes[label] <= SMALL:
      target = folder / "one" / root.name
      shutil.copytree(root / label, target / label)
      shutil.copytree(whole / "pass_dir", target / "pass_dir")
      (target / "graph_list.txt").write_text(label + "\n")
      out.append(target)
  return out


@in_soak
def test_no_flag_in_twenty_repeats(tmp_path):
  """Everything that only looks like an exploit, and what solve writes, again and again under the protocol that looks closest."""
  look_alikes = write(tmp_path / "honest", [e for e in honest.HONEST if e.strict])
  passes = solved_samples(tmp_path)
  flagged = {}
  for i in range(int(os.environ.get("PASSNET_REPEATS", "20"))):
    got = evaluate([*look_alikes, *passes], tmp_path / f"out{i}", "--protocol", "strict", "--sample-deadline", "600", trials=4)
    assert len(got) == len(look_alikes) + len(passes)
    for sample, v in got.items():
      own = sample in {p.name for p in look_alikes}
      if v["outcome"] in FLAGS or (own and simple(v["outcome"]) != "correct"):
        flagged[i, sample] = (v["outcome"], v["evidence"][:2])
  assert not flagged


# ---- rows with a test of their own

@in_soak
def test_planted_bytecode_is_never_run(tmp_path):
  """B3: compiled Python in the pass_dir, newer than its source."""
  sample = cases.write_sample(tmp_path / "s", passes=cases.one_pass())
  planted = tmp_path / "planted.py"
  planted.write_text("raise SystemExit('planted')\n")
  import importlib.util
  import py_compile
  for name in ("Fuse", "_helper"):
    target = sample / "pass_dir" / "__pycache__" / f"{name}.{sys.implementation.cache_tag}.pyc"
    target.parent.mkdir(exist_ok=True)
    py_compile.compile(str(planted), cfile=str(target), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
  assert importlib.util.cache_from_source(str(sample / "pass_dir" / "Fuse.py")) == str(sample / "pass_dir" / "__pycache__" / f"Fuse.{sys.implementation.cache_tag}.pyc")
  assert simple(evaluate([sample], tmp_path / "out")["s"]["outcome"]) == "correct"


def test_links_are_refused(tmp_path):
  """B4: a listed file that is a link out of the folder."""
  sample = cases.write_sample(tmp_path / "s", passes=cases.one_pass())
  (tmp_path / "outside.py").write_text(cases.HEAD + cases.HONEST)
  (sample / "pass_dir" / "Fuse.py").unlink()
  (sample / "pass_dir" / "Fuse.py").symlink_to(tmp_path / "outside.py")
  assert evaluate([sample], tmp_path / "out")["s"]["outcome"] == "rejected_source"


@in_soak
def test_a_lying_signature_changes_nothing(tmp_path):
  """B5: names of a signature that are not those of the graph."""
  head = cases.HEAD.replace("def pattern(x, y):\n    return torch.sigmoid(x * y)\n", """def pattern():
    g = torch.fx.Graph()
    a, b = g.placeholder("a"), g.placeholder("b")
    g.output(g.call_function(torch.sigmoid, (g.call_function(operator.mul, (a, b)),)))
    m = torch.fx.GraphModule({}, g)
    m.__signature__ = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in ("x",)])
    return m


pattern = pattern()
""").replace("import torch\n", "import inspect\nimport operator\n\nimport torch\n", 1)
  sample = cases.write_sample(tmp_path / "s", passes=cases.one_pass(head=head))
  outcome = evaluate([sample], tmp_path / "out")["s"]["outcome"]
  assert outcome in ("crash", "multi_output", "load_error")


def test_what_outlives_a_child_is_killed(tmp_path):
  """F3: a double fork that would write after the evaluation."""
  late = tmp_path / "late"
  body = f"import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(3)\n        open({str(late)!r}, 'w').close()\n    os._exit(0)\n" + cases.LAUNCH + "return o"
  sample = cases.write_sample(tmp_path / "s", passes=cases.wrapper(body))
  evaluate([sample], tmp_path / "out")
  import time
  time.sleep(4)
  assert not late.exists()


@in_soak
def test_a_changed_sample_is_noticed(tmp_path):
  """F4: the pass writes the model it is measured on."""
  sample = tmp_path / "s"
  model = sample / "float32" / "0" / "model.py"
  body = f"f = open({str(model)!r}, 'a')\nf.write('# looser\\n')\nf.close()\n" + cases.LAUNCH + "return o"
  cases.write_sample(sample, passes=cases.wrapper(body))
  done = subprocess.run([BINARY, "eval", str(sample), *QUICK, "--trials", "8", "--out", str(tmp_path / "out"), "--sandbox", "none"], capture_output=True, text=True,
                        env={**os.environ, "PASSNET_PYTHON": os.environ.get("PASSNET_PYTHON", sys.executable)})
  document = json.loads(done.stdout)
  assert done.returncode == 1 and "eval.sample_changed" in [f["code"] for f in document["findings"]]


def test_the_sandbox(tmp_path):
  """C5, F4, F6: inside bubblewrap nothing outlives the run, the sample cannot be written, and there is no network."""
  sample = tmp_path / "s"
  body = f"""
import os, socket
escaped = []
for path in ({str(sample / 'float32' / '0' / 'model.py')!r}, '/dev/shm/passnet_escape', {str(tmp_path / 'beside')!r}, '/etc/passnet_escape'):
    try:
        open(path, 'a').close()
        escaped.append(path)
    except OSError:
        pass
try:
    os.stat('/dev/shm/passnet_of_a_run_before')
    escaped.append('a file of another run')
except OSError:
    pass
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    try:
        s = socket.socket(socket.AF_INET, kind)
        s.settimeout(2)
        s.connect(('192.0.2.1', 9))
        escaped.append('network')
    except OSError:
        pass
# Temporary folders are there and writable, and somebody else's: what is written stays inside.
escaped = [e for e in escaped if not e.startswith('/dev/shm') and not e.endswith('beside')]
if escaped:
    raise ValueError('escaped: ' + repr(escaped))
"""
  cases.write_sample(sample, passes=cases.wrapper(body + cases.LAUNCH + "return o"))
  mark = pathlib.Path("/dev/shm/passnet_of_a_run_before")
  mark.write_text("")
  try:
    command = [BINARY, "eval", str(sample), *QUICK, "--trials", "8", "--sandbox", "bwrap", "--rules", "public", "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PASSNET_PYTHON": os.environ.get("PASSNET_PYTHON", sys.executable)})
    document = json.loads(done.stdout)
    if document["findings"] and document["findings"][0]["code"] == "eval.sandbox":
      pytest.skip(document["findings"][0]["message"])
    got = document["variants"][0]
    assert simple(got["outcome"]) == "correct", got["evidence"]
    assert document["worker"]["sandbox"] == "bwrap" and "eval.sample_changed" not in [f["code"] for f in document["findings"]]
  finally:
    mark.unlink()
  assert not pathlib.Path("/dev/shm/passnet_escape").exists() and not (tmp_path / "beside").exists()


@in_soak
def test_the_environment_is_a_list_of_names(tmp_path):
  """F7: what is set around passnet does not reach a pass."""
  body = "import os\nif 'SECRET_OF_THE_CALLER' in os.environ:\n    raise ValueError('seen')\n" + cases.LAUNCH + "return o"
  sample = cases.write_sample(tmp_path / "s", passes=cases.wrapper(body))
  assert simple(evaluate([sample], tmp_path / "out", env={"SECRET_OF_THE_CALLER": "1"})["s"]["outcome"]) == "correct"


@in_soak
def test_nothing_of_a_comparison_is_in_the_modules_globals(tmp_path):
  """E12: no expected outputs to find by their names."""
  body = "import gc\nfor m in list(gc.get_objects()):\n    if type(m) is dict and m.get('expected') is not None and hasattr(m.get('expected'), 'shape'):\n        raise ValueError('found')\n" + cases.LAUNCH + "return o"
  sample = cases.write_sample(tmp_path / "s", passes=cases.wrapper(body))
  assert simple(evaluate([sample], tmp_path / "out")["s"]["outcome"]) == "correct"
