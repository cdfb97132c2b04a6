"""solve with evaluations: from a file of answers, and where the evaluation itself fails or hangs."""
import json
import os
import signal
import subprocess
import time

import jsonschema

from cli_samples import ROOT, tree

QUICK = ["solve", "--no-preflight-run", "--quiet"]


def files_of(folder):
  return {name: content for name, content in tree(folder).items() if content != "folder" and name != ".ignore"}


def kept(sample, state):
  return files_of(sample / ".passnet" / "history" / state / "files")


def at(speedup, ratio=None):
  return {"eager_us": 100, "time_us": 100 / speedup, "ratio": ratio}


def answers(tmp_path, *evaluations):
  path = tmp_path / "answers.json"
  path.write_text(json.dumps({"schema": "passnet.evaluations/1", "evaluations": list(evaluations)}))
  return path


def floor(measurement):
  return {"contenders": {"candidate": {"*": measurement}}}


def pair(best, candidate):
  return {"contenders": {"best": {"*": best}, "candidate": {"*": candidate}}}


def valid(run, status):
  assert run.status == status, run.err
  document = json.loads(run.out)
  schema = json.loads((ROOT / "docs" / "schemas" / "solve.json").read_text())
  errors = sorted(jsonschema.Draft202012Validator(schema).iter_errors(document), key=str)
  assert not errors, "\n".join(f"{error.json_path}: {error.message[:300]}" for error in errors[:10])
  return document


def test_answers_decide(passnet, example, tmp_path):
  sample = example("transformer_residual_norm", "s")
  given = answers(tmp_path, floor(at(0.7)), pair(at(0.7), at(0.8, [1.14, 1.1, 1.2])))
  document = valid(passnet(*QUICK, "--answers", given, "--json", "s"), 0)
  # 0.8 is less than nine tenths of what the sample allows, and less than eager.
  assert document["stop_reason"] == "overhead_bound" and document["evaluations_used"] == 2
  assert abs(document["score"] - 0.8) < 1e-9
  assert [e["decision"] for e in document["evaluations"]] == ["first", "faster"]
  chosen = next(state for state in document["states"] if state["chosen"])
  assert chosen["kind"] == "upside" and files_of(sample / "pass_dir") == kept(sample, chosen["hash"])
  assert {v["measured"]["outcome"] for v in document["variants"]} == {"correct_but_slow"}
  speed = [p for p in document["variants"][0]["proven"] if p["subject"] == "speed"][0]
  assert speed["state"] == "proven" and speed["by"] == "completed evaluation"
  # What was answered is there to be answered again, and says the same to a person.
  again = passnet(*QUICK, "--answers", sample / ".passnet" / "evaluations.json", "s")
  assert again.status == 0, again
  assert "larger regions" in again.out and "kept: the 90% interval of the ratio lies above 1" in again.out
  assert "Stopped: right and slower than eager" in again.out
  assert files_of(sample / "pass_dir") == kept(sample, chosen["hash"])


def test_a_larger_state_that_loses_is_taken_back(passnet, example, tmp_path):
  sample = example("transformer_residual_norm", "s")
  slower = pair(at(0.7), at(0.5, [0.7, 0.65, 0.75]))
  document = valid(passnet(*QUICK, "--answers", answers(tmp_path, floor(at(0.7)), slower, slower), "--json", "s"), 0)
  chosen = next(state for state in document["states"] if state["chosen"])
  assert chosen["kind"] == "floor" and files_of(sample / "pass_dir") == kept(sample, chosen["hash"])
  assert document["evaluations"][1]["decision"] == "slower"


def test_wrong_everywhere_is_red(passnet, example, tmp_path):
  example("transformer_residual_norm", "s")
  wrong = {"correct": False, "outcome": "inaccurate", "why": "far off"}
  document = valid(passnet(*QUICK, "--max-evals", 1, "--answers", answers(tmp_path, floor(wrong)), "--json", "s"), 1)
  assert document["stop_reason"] == "budget"
  assert any(f["code"] == "solve.not_correct" and f["severity"] == "error" for f in document["findings"])


def test_answers_that_are_none(passnet, example, tmp_path):
  sample = example("transformer_residual_norm", "s")
  before = tree(sample)
  bad = tmp_path / "bad.json"
  bad.write_text('{"schema": "another"}')
  run = passnet(*QUICK, "--answers", bad, "s")
  assert run.status == 2 and "[solve.answers]" in run.err
  assert passnet(*QUICK, "--answers", "nowhere.json", "s").status == 2
  assert tree(sample) == before


def test_an_evaluator_that_cannot_run_leaves_the_floor(passnet, example):
  sample = example("transformer_residual_norm", "s")
  run = passnet(*QUICK, "--device", "cpu", "--evaluate", "--json", "s", env={"PASSNET_PYTHON": "/bin/false"})
  document = valid(run, 1)
  assert document["stop_reason"] == "evaluator_failed" and document["evaluations_used"] == 2
  assert all(e["error"] for e in document["evaluations"])
  assert any(f["severity"] == "error" for f in document["findings"])
  chosen = next(state for state in document["states"] if state["chosen"])
  assert chosen["kind"] == "floor" and files_of(sample / "pass_dir") == kept(sample, chosen["hash"])


def test_killed_within_an_evaluation_the_best_state_stands(binary, environment, example, tmp_path):
  sample = example("transformer_residual_norm", "s")
  hangs = tmp_path / "hangs"
  hangs.write_text("#!/bin/sh\ntouch started\nexec sleep 60\n")
  hangs.chmod(0o755)
  process = subprocess.Popen([binary, *QUICK, "--device", "cpu", "--evaluate", "s"], cwd=tmp_path,
                             start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             env={**environment, "PASSNET_PYTHON": str(hangs)})
  try:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not (sample / ".passnet" / "runs" / "1" / "run.json").is_file():
      time.sleep(0.02)
    assert process.poll() is None
    time.sleep(0.2)
  finally:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
  now = files_of(sample / "pass_dir")
  states = [p.name for p in (sample / ".passnet" / "history").iterdir() if (p / "check.json").is_file()]
  assert len(states) == 1 and now == kept(sample, states[0]), "the floor, whole"
