"""check and analyze as their users start them: repairs that lose nothing, patterns that have to be run, machines without a GPU."""
import json
import pathlib
import sys

import pytest

from cli_samples import ROOT
from test_cli_json import valid

sys.path.insert(0, str(ROOT / "tests" / "corpus"))
import check_corpus

KEYWORDS = """## s green | a Python function with keywords
model float32/0 in_0[4,8]
tmp_0 = torch.nn.functional.relu(in_0, inplace = False)
tmp_1 = torch.nn.functional.softmax(tmp_0, dim = -1)
return (tmp_1,)
model float16/0 in_0[4,8]
tmp_0 = torch.nn.functional.relu(in_0, inplace = False)
tmp_1 = torch.nn.functional.softmax(tmp_0, dim = -1)
return (tmp_1,)
pass P(x) softmax
return torch.nn.functional.softmax(x, dim=-1)
"""
LOOP = """## s green | a pattern with a loop that no straight-line reading follows
model in_0[4,8]
tmp_0 = torch.sigmoid(in_0)
tmp_1 = torch.exp(tmp_0)
return (tmp_1,)
pass P(x) sigmoid_exp
for f in [torch.sigmoid, torch.exp]:
    while True:
        x = f(x)
        break
return x
"""


@pytest.fixture
def case(tmp_path):
  def make(text):
    path = tmp_path / "case.txt"
    path.write_text(text)
    (only,) = check_corpus.read_cases(path)
    return check_corpus.write_sample(only, tmp_path / "s")

  return make


def test_fix_writes_the_graph_and_keeps_the_old_file(passnet, case):
  sample = case(KEYWORDS)
  before = {p.name: p.read_bytes() for p in (sample / "pass_dir").iterdir()}
  document = valid(passnet("check", "--json", "s"), "check", "red")
  assert document["passes"][0]["repair"]["literals"] == []
  assert 'graph.call_function(torch.nn.functional.softmax, (x,), {"dim": -1})' in document["passes"][0]["repair"]["pattern"]
  assert {p.name: p.read_bytes() for p in (sample / "pass_dir").iterdir()} == before, "without --fix nothing is written"

  document = valid(passnet("check", "--fix", "--json", "s"), "check", "green")
  assert document["fixed"] == ["P"]
  text = (sample / "pass_dir" / "P.py").read_text()
  assert 'graph.call_function(torch.nn.functional.softmax, (x,), {"dim": -1})' in text
  assert text.index("import inspect") < text.index("def pattern") and "def replacement_func" in text
  kept = sample / ".passnet" / "history" / document["kept_state"] / "files"
  assert {p.name: p.read_bytes() for p in kept.iterdir()} == before
  assert not [p for p in (sample / "pass_dir").iterdir() if p.name not in before]
  # Nothing is left to repair, and a second time changes nothing.
  again = valid(passnet("check", "--fix", "--json", "s"), "check", "green")
  assert "fixed" not in again and (sample / "pass_dir" / "P.py").read_text() == text


def test_fix_in_another_folder(passnet, case, tmp_path):
  sample = case(KEYWORDS)
  (sample / "pass_dir").rename(tmp_path / "mine")
  old = (tmp_path / "mine" / "P.py").read_bytes()
  document = valid(passnet("check", "--fix", "--json", "--pass-dir", "mine", "s"), "check", "green")
  assert document["fixed"] == ["P"]
  assert (tmp_path / ".passnet" / "history" / document["kept_state"] / "files" / "P.py").read_bytes() == old


def test_fix_never_changes_a_literal(passnet, case):
  sample = case(KEYWORDS.replace("softmax(x, dim=-1)", "softmax(x, dim=0)"))
  before = (sample / "pass_dir" / "P.py").read_text()
  document = valid(passnet("check", "--fix", "--json", "--log", "note", "s"), "check", "red")
  assert "fixed" not in document and (sample / "pass_dir" / "P.py").read_text() == before
  assert document["passes"][0]["repair"]["literals"] == ["dim of softmax: 0 -> -1"]
  assert "fix.literal" in {f["code"] for f in document["findings"]}


def test_a_pattern_that_has_to_be_run_goes_to_the_worker(passnet, case):
  case(LOOP)
  document = valid(passnet("check", "--json", "--log", "note", "s", timeout=110), "check", "green")
  assert document["passes"][0]["read_by"] == "worker" and document["variants"][0]["matched"]
  assert "check.run_in_worker" in {f["code"] for f in document["findings"]}


def test_what_is_run_is_in_a_sandbox(passnet, case, tmp_path):
  mark = tmp_path / "escaped"
  case(LOOP.replace("for f in", f"try:\n    torch.save(1, {str(mark)!r})\nexcept (OSError, RuntimeError):\n    pass\nfor f in", 1))
  document = json.loads(passnet("check", "--json", "--log", "note", "s", timeout=110).out)
  codes = {f["code"] for f in document["findings"]}
  if "check.sandbox" in codes:
    pytest.skip(next(f["message"] for f in document["findings"] if f["code"] == "check.sandbox"))
  assert "check.run_in_worker" in codes and document["passes"][0]["read_by"] == "worker"
  assert not mark.exists()
  # The same pattern does write where there is no sandbox, so that the line above says something.
  passnet("check", "--json", "s", env={"PATH": str(tmp_path)}, timeout=110)
  assert mark.exists()


def test_without_a_sandbox_a_finding_says_so(passnet, case, tmp_path):
  case(LOOP)
  # A search path on which the worker's Python can be found, and bubblewrap cannot.
  run = passnet("check", "--json", "s", env={"PATH": str(tmp_path)}, timeout=110)
  document = json.loads(run.out)
  assert document["passes"][0]["read_by"] == "worker"
  assert "without a sandbox" in next(f["message"] for f in document["findings"] if f["code"] == "check.sandbox")


def test_without_the_worker_it_stays_unproven(passnet, case):
  case(LOOP)
  document = json.loads(passnet("check", "--no-worker", "--json", "s").out)
  assert document["passes"][0]["read_by"] is None
  assert document["subjects"]["structure"] == {"proof": "not_proven", "by": None}
  run = passnet("check", "--json", "s", env={"PASSNET_PYTHON": "/bin/false"})
  assert "check.worker" in {f["code"] for f in json.loads(run.out)["findings"]}


def test_max_variants_takes_each_dtype_first(passnet, case):
  case(KEYWORDS)
  one = json.loads(passnet("check", "--json", "--max-variants", "1", "s").out)
  both = json.loads(passnet("check", "--json", "--max-variants", "0", "s").out)
  assert [v["name"] for v in one["variants"]] == ["float32/0"]
  assert [v["name"] for v in both["variants"]] == ["float32/0", "float16/0"]


def test_bench_says_that_it_needs_a_gpu(passnet, case):
  case(KEYWORDS.replace("softmax(x, dim=-1)", "softmax(x, -1, 3, None)").replace("softmax(tmp_0, dim = -1)", "softmax(tmp_0, -1, 3, None)"))
  document = valid(passnet("check", "--bench", "--json", "s", env={"CUDA_VISIBLE_DEVICES": ""}, timeout=110), "check", "green")
  assert document["bench"] is None and [v["ok"] for v in document["smoke"]["variants"]] == [True, True]
  assert document["subjects"]["numerics"] == {"proof": "green", "by": "interpreter"}
  assert "check.no_gpu" in {f["code"] for f in document["findings"]}
  document = valid(passnet("analyze", "--bench", "--json", "s", env={"CUDA_VISIBLE_DEVICES": ""}, timeout=110), "analyze", "green")
  assert document["bench"] is None and "analyze.no_gpu" in {f["code"] for f in document["findings"]}


def test_smoke_finds_what_no_reading_can(passnet, case):
  # exp where the model has sigmoid: form, shape and type are right.
  case("""## s red check.smoke | another function
model in_0[4,8]
tmp_0 = torch.sigmoid(in_0)
return (tmp_0,)
pass P(x) exp
return torch.sigmoid(x)
""")
  assert json.loads(passnet("check", "--json", "s").out)["status"] == "green"
  document = valid(passnet("check", "--smoke", "--json", "s", timeout=110), "check", "red")
  assert document["subjects"]["numerics"]["proof"] == "red" and "check.smoke" in {f["code"] for f in document["findings"]}


def test_analyze_answers_the_checklist(passnet, case):
  case("""## s green | two sizes
model float32/0 in_0[4,8]
tmp_0 = torch.sigmoid(in_0)
tmp_1 = torch.nn.functional.relu(tmp_0, inplace = False)
tmp_2 = tmp_1.view(8, 4)
return (tmp_2,)
model float32/1 in_0[8,8]
tmp_0 = torch.sigmoid(in_0)
tmp_1 = torch.nn.functional.relu(tmp_0, inplace = False)
tmp_2 = tmp_1.view(16, 4)
return (tmp_2,)
""")
  document = valid(passnet("analyze", "--json", "s"), "analyze", "green")
  nodes = document["variants"][0]["graphs"][0]["nodes"]
  assert [n["matchable"] for n in nodes] == ["yes", "graph", "yes"]
  assert document["differing_literals"] == [
    {"node": "tmp_2", "place": "args[1]", "values": [{"literal": "8", "variants": "float32/0"}, {"literal": "16", "variants": "float32/1"}]}]
  assert {item["id"] for item in document["checklists"][0]["items"]} == {
    "one_value", "contained", "no_other_observer", "not_layout", "no_materialised_view", "one_wrapper"}
  assert document["variants"][0]["graphs"][0]["absorbable_us"] > 0
