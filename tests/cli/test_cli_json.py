"""Every --json document against its schema of docs/schemas: green, red and error."""
import json
import shutil

import jsonschema
import pytest

from cli_samples import MODEL, ROOT

SCHEMAS = ROOT / "docs" / "schemas"
STATUS = {0: "green", 1: "red", 2: "error"}


def schema_of(command):
  schema = json.loads((SCHEMAS / f"{command}.json").read_text())
  jsonschema.Draft202012Validator.check_schema(schema)
  return schema


def valid(run, command, status):
  """The document of a run, held against the schema, exit status and status word."""
  assert STATUS[run.status] == status, run.err[-2000:] + run.out[-2000:]
  document = json.loads(run.out)
  errors = sorted(jsonschema.Draft202012Validator(schema_of(command)).iter_errors(document), key=str)
  assert not errors, "\n".join(f"{error.json_path}: {error.message[:300]}" for error in errors[:10])
  assert document["schema"] == f"passnet.{command}/1"
  assert document["status"] == status
  if status != "green":
    # What is not good is said: in a finding that is an error, or by a part of the document of its own.
    assert [f for f in document["findings"] if f["severity"] == "error"] or document.get("items")
  for finding in document["findings"]:
    assert finding["message"] and finding["code"].count(".") >= 1
  # stdout is the document and nothing else, and people's messages are not in it.
  assert run.out.startswith("{") and run.out.endswith("}\n")
  return document


RED_MODEL = MODEL.replace("a + b", "torch.nonexistent_function(a, b)").replace("torch.nn.functional.relu(c)", "c")
BROKEN_MODEL = MODEL.replace("a + b", "a + (b")


@pytest.mark.parametrize("command", ["solve", "analyze", "capture"])
@pytest.mark.parametrize("model, status", [(MODEL, "green"), (RED_MODEL, "red"), (BROKEN_MODEL, "error")],
                         ids=["green", "red", "error"])
def test_sample_commands(passnet, make_sample, command, model, status):
  make_sample(model=model)
  quick = ["--no-preflight-run"] if command == "solve" else []
  document = valid(passnet(command, *quick, "--json", "s"), command, status)
  if status == "error":
    finding = document["findings"][0]
    assert (finding["code"], finding["file"], finding["line"], finding["column"]) == (
      "pysrc.syntax", "s/float32/0/model.py", 6, 18)
    assert finding["remedy"]


@pytest.mark.parametrize("name", sorted(path.parent.name for path in (ROOT / "examples").glob("*/graph_list.txt")))
def test_examples(passnet, example, name):
  example(name, "s")
  document = valid(passnet("solve", "--no-preflight-run", "--json", "s"), "solve", "green")
  assert document["score"] is None and document["pass_matched"] is True
  assert [variant["name"] for variant in document["variants"]] == (
    (ROOT / "examples" / name / "graph_list.txt").read_text().split())
  assert sum(state["chosen"] for state in document["states"]) == 1
  valid(passnet("check", "--json", "s"), "check", "green")
  valid(passnet("check", "--rules", "strict", "--json", "s"), "check", "green")
  valid(passnet("analyze", "--json", "s"), "analyze", "green")
  valid(passnet("capture", "--json", "s"), "capture", "green")
  restored = valid(passnet("solve", "--restore", document["states"][0]["hash"], "--json", "s"), "solve", "green")
  assert restored["restored"] == document["states"][0]["hash"]
  valid(passnet("solve", "--restore", "zz", "--json", "s"), "solve", "error")


def test_solve_with_the_interpreter(passnet, make_sample):
  pytest.importorskip("torch")
  make_sample()
  document = valid(passnet("solve", "--json", "s", timeout=110), "solve", "green")
  proofs = {proof["subject"]: proof for proof in document["variants"][0]["proven"]}
  assert proofs["numerics"]["state"] == "proven" and "interpreter" in proofs["numerics"]["by"]
  assert proofs["speed"]["state"] == "not proven" and proofs["speed"]["by"] is None
  valid(passnet("check", "--smoke", "--json", "s", timeout=110), "check", "green")


def test_check_red_and_error(passnet, make_sample):
  sample = make_sample()
  shutil.rmtree(sample / "pass_dir")
  valid(passnet("check", "--json", "s"), "check", "error")
  (sample / "pass_dir").mkdir()
  (sample / "pass_dir" / "sorted_output_pass_rule_names.json").write_text('["Theirs"]')
  (sample / "pass_dir" / "Theirs.py").write_text(
    "import torch\n\n\ndef pattern(a, b):\n  return a * b\n\n\ndef replacement_args(a, b):\n  return (a, b)\n\n\n"
    "def wrapper(a, b):\n  return a\n\n\ndef replacement_func():\n  return wrapper\n")
  document = valid(passnet("check", "--json", "s"), "check", "red")
  assert document["variants"][0]["matched"] is False


def test_doctor(passnet):
  document = valid(passnet("doctor", "--json", env={"PASSNET_PYTHON": "/bin/false"}), "doctor", "red")
  assert document["versions"] is None
  pytest.importorskip("torch")
  valid(passnet("doctor", "--json"), "doctor", "green")


def test_capture_by_dynamo(passnet, make_sample):
  pytest.importorskip("torch")
  make_sample()
  valid(passnet("capture", "--engine", "dynamo", "--json", "s/float32/0", timeout=110), "capture", "green")
  valid(passnet("capture", "--engine", "dynamo", "--json", "nowhere"), "capture", "error")


@pytest.mark.parametrize("command", ["solve", "analyze", "capture", "check", "doctor"])
def test_usage_errors(passnet, command):
  valid(passnet(command, "--json", "--frobnicate"), command, "error")


def test_usage_error_without_a_command(passnet):
  valid(passnet("--json", "sovle"), "usage", "error")


def test_every_schema_has_a_command(passnet):
  listed = passnet("--help").out.split("Subcommands:\n")[1].split("\n\n")[0]
  commands = {line.split()[0] for line in listed.splitlines() if line.strip()}
  assert {path.stem for path in SCHEMAS.glob("*.json")} == commands | {"usage"}


def test_the_schemas_refuse_what_is_not_a_document():
  for command in ("solve", "analyze", "capture", "check", "doctor", "usage"):
    validator = jsonschema.Draft202012Validator(schema_of(command))
    assert not validator.is_valid({})
    assert not validator.is_valid({"schema": f"passnet.{command}/1", "status": "fine", "findings": []})
    assert not validator.is_valid({"schema": f"passnet.{command}/1", "status": "error", "findings": [{"code": "a.b"}]})
    if command != "usage":
      assert not validator.is_valid({"schema": f"passnet.{command}/1", "status": "green", "findings": []})
