"""passnet eval as its users start it, on the CPU with the interpreter: the whole path, and what must not stop it."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import jsonschema
import pytest

import eval_cases as cases

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = os.environ.get("PASSNET_BINARY", str(ROOT / "build" / "passnet"))
in_soak = pytest.mark.skipif(not os.environ.get("PASSNET_SOAK"), reason="runs with --soak")
ENV = {**os.environ, "PASSNET_PYTHON": os.environ.get("PASSNET_PYTHON", sys.executable)}
QUICK = ["--device", "cpu", "--warmup", "3", "--trials", "6", "--jobs", "2"]


def start(*args, env=None, **kwargs):
  return subprocess.Popen([BINARY, "eval", *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**ENV, **(env or {})}, **kwargs)


def run(*args, env=None, status=(0, 1), json_output=True):
  process = start(*args, *QUICK, *(["--json"] if json_output else []), env=env)
  out, err = process.communicate(timeout=300)
  assert process.returncode in status, out[-1500:] + err[-3000:]
  return json.loads(out) if json_output else out


def records(folder):
  return [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]


def test_repeats_side_by_side(tmp_path):
  """Every time a child and a record of its own; nobody waits for a lock, and the times say nothing."""
  cases.write_sample(tmp_path / "s", passes=cases.one_pass())
  for protocol in ("public", "strict"):
    document = run(tmp_path / "s", "--repeat", "2", "--side-by-side", "--protocol", protocol, "--rules", "public", "--out", tmp_path / protocol, status=(0,))
    assert [v["variant"] for v in document["variants"]] == ["float32/0", "float32/0#2"] and all(v["correct"] and not v["comparable"] for v in document["variants"])
    assert document["worker"]["phase_seconds"]["lock_exclusive"] == 0 and document["worker"]["cores"]["topology"] == "shared"


def test_the_whole_path(tmp_path):
  """Two samples: passes that are right in every dtype, and a model that no pass matches; every file and document."""
  cases.write_sample(tmp_path / "s" / "right", dtypes=("float32", "float16", "bfloat16"), passes=cases.one_pass())
  cases.write_sample(tmp_path / "s" / "unmatched", model=cases.MODEL.replace("sigmoid", "tanh"), passes=cases.one_pass())
  document = run(tmp_path / "s", "--out", tmp_path / "out", status=(1,))
  schema = json.loads((ROOT / "docs" / "schemas" / "eval.json").read_text())
  errors = list(jsonschema.Draft202012Validator(schema).iter_errors(document))
  assert not errors, errors[0].message
  by = {(v["sample"], v["variant"]): v for v in document["variants"]}
  assert [by["right", f"{d}/0"]["correct"] for d in ("float32", "float16", "bfloat16")] == [True] * 3
  assert by["unmatched", "float32/0"]["verdict"] == "no_match" and not any(v["comparable"] for v in document["variants"])
  assert document["worker"]["isolation"] == "fork" and document["worker"]["proof"]["clean"] and document["complete"]
  worker = document["worker"]
  assert worker["cores"]["compile"] and worker["cores"]["children"] == 2 and worker["phase_seconds"]["compile"] > 0
  assert set(document["machine"]["processors"]) >= {"timing", "idle_siblings", "topology", "enforced"}
  for sample, count in (("right", 3), ("unmatched", 1)):
    folder = tmp_path / "out" / sample
    assert len(records(folder)) == count and json.loads((folder / "run.json").read_text())["state"] == "done"
    score = json.loads((folder / "aggregated_score.json").read_text())
    assert score["id"] == 1 and score["score"] == pytest.approx(next(s["score"] for s in document["samples"] if s["sample"] == sample))
    assert (folder / "validation.log").read_text().count("[Processing]") == count
  whole = json.loads((tmp_path / "out" / "run.json").read_text())
  schema = json.loads((ROOT / "docs" / "schemas" / "files" / "run.json").read_text())
  errors = list(jsonschema.Draft202012Validator(schema).iter_errors(whole))
  assert not errors, errors[0].message
  # A ceiling for every variant, no prediction for passes that the planner did not write, a reason below 1.
  for row in whole["variants"]:
    assert row["legal_ceiling"] > 0 and row["predicted"] is None
    assert bool(row["reason_code"]) == (row["status"] != "correct" or row["speedup"] < 1)
  assert [r["first_correct_t_live"] <= -5 for r in whole["variants"] if r["status"] == "correct"] == [True] * 3
  assert whole["groups"]["dtype"]["float16"]["pass_mgr"]["variants"] == 1
  # The program's own reading of the log it wrote is the same.
  done = subprocess.run([BINARY, "score", "--json", "--compat", str(tmp_path / "out" / "right" / "validation.log")], capture_output=True, text=True)
  assert json.loads(done.stdout)["compilers"][0]["score"] == pytest.approx(next(s["score"] for s in document["samples"] if s["sample"] == "right"), abs=1e-9)


@in_soak
def test_two_compilers_side_by_side(tmp_path):
  sample = cases.write_sample(tmp_path / "s", passes=cases.one_pass())
  document = run(sample, "--compare", "nope", sample / "pass_dir", "--out", tmp_path / "out")
  a, b = document["variants"]
  assert (a["compiler"], b["compiler"]) == ("A", "B") and a["correct"] and b["correct"]
  assert b["versus"]["compiler"] == "A" and 0 < b["versus"]["ratio"] < 1  # interpreting a kernel takes longer than eager
  assert records(tmp_path / "out")[0]["order"] == "interleaved"


@in_soak
def test_a_fresh_interpreter_gives_the_same_answers(tmp_path):
  sample = cases.write_sample(tmp_path / "s", passes=cases.one_pass())
  forked = run(sample, "--out", tmp_path / "fork")
  fresh = run(sample, "--out", tmp_path / "fresh", "--isolation", "spawn")
  assert fresh["worker"]["isolation"] == "spawn" and fresh["worker"]["proof"] is None
  keep = ("outcome", "first_correct_t", "max_diff", "passes", "evidence")
  assert [{k: v[k] for k in keep} for v in forked["variants"]] == [{k: v[k] for k in keep} for v in fresh["variants"]]


@in_soak
def test_a_model_that_adds_to_its_input(tmp_path):
  """Its inputs drift from call to call: in turn and strictly it is judged on fresh ones; the public order cannot."""
  sample = cases.write_sample(tmp_path / "s", model=cases.MODEL.replace("a = x * y", "x.add_(y)\n        a = x * y"), passes=cases.one_pass())
  both = run(sample, "--compare", "nope", sample / "pass_dir", "--out", tmp_path / "both")
  strict = run(sample, "--protocol", "strict", "--rules", "public", "--out", tmp_path / "strict")
  public = run(sample, "--out", tmp_path / "public", status=(1,))
  assert all(v["correct"] for v in both["variants"] + strict["variants"])
  assert public["variants"][0]["outcome"] == "inaccurate" and public["variants"][0]["eager_equals_itself"] is False
  assert [v["eager_equals_itself"] for v in both["variants"]] == [False, False]


PHASES = ["load", "compile", "time", "compare"]


def test_children_killed_in_every_phase(tmp_path):
  """Each kill costs an attempt of one variant; every variant has its record and none is false."""
  sample = cases.write_sample(tmp_path / "s", count=5, passes=cases.one_pass())
  killer = tmp_path / "kill.py"
  killer.write_text(f"""import os, sys
sys.path.insert(0, {str(ROOT / "python")!r})
from passnet.worker import eval_server
original = eval_server.Server._take
todo = {PHASES!r}
def take(self, child, message):
  original(self, child, message)
  if todo and message.get("phase") == todo[0] and not child.job["attempts"]:
    todo.pop(0)
    os.kill(child.pid, 9)
eval_server.Server._take = take
from passnet.worker.__main__ import main
sys.exit(main(sys.argv[1:]))
""")
  wrapper = tmp_path / "python"
  wrapper.write_text(f"#!/bin/sh\nshift 2\nexec {sys.executable} {killer} \"$@\"\n")
  wrapper.chmod(0o755)
  document = run(sample, "--out", tmp_path / "out", env={"PASSNET_PYTHON": str(wrapper)}, status=(0,))
  found = records(tmp_path / "out")
  assert len(found) == 5 and all(r["outcome"].startswith("correct") for r in found)
  assert sorted(len(r["attempts"]) for r in found) == [0, 1, 1, 1, 1] and document["complete"]
  assert {a["code"] for r in found for a in r["attempts"]} == {"killed"}


def test_one_bad_variant_leaves_the_others_alone(tmp_path):
  """A crash, a deadline, a flood of output: records of those, and a right one beside them."""
  bad = {"segfault": "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "endless": "while True:\n    pass",
         "flood": "while True:\n    print('x' * 1000000)", "exits": "import os\nos._exit(0)", "sys_exit": "raise SystemExit(0)"}
  for name, body in bad.items():
    cases.write_sample(tmp_path / "s" / name, passes=cases.wrapper(body))
  cases.write_sample(tmp_path / "s" / "right", passes=cases.one_pass())
  started = time.monotonic()
  document = run(tmp_path / "s", "--out", tmp_path / "out", "--variant-deadline", "6", status=(1,))
  outcome = {v["sample"]: v["outcome"] for v in document["variants"]}
  assert outcome.pop("right").startswith("correct")
  assert outcome == {"segfault": "crash", "endless": "timeout", "flood": "resource_limit", "exits": "crash", "sys_exit": "crash"}
  assert time.monotonic() - started < 120 and document["complete"]


def test_the_driver_killed_and_resumed(tmp_path):
  """SIGKILL in the middle: its children end too, what was recorded stays, --resume measures the rest."""
  sample = cases.write_sample(tmp_path / "s", count=6, passes=cases.one_pass())
  process = start(sample, "--out", tmp_path / "out", *QUICK)
  path = tmp_path / "out" / "records.jsonl"
  deadline = time.monotonic() + 120
  while time.monotonic() < deadline and not (path.exists() and path.read_text().count("\n") >= 2):
    time.sleep(0.05)
  process.kill()
  process.communicate()
  assert not (tmp_path / "out" / "aggregated_score.json").exists()
  before = records(tmp_path / "out") if path.read_text().endswith("\n") else None
  time.sleep(1.5)
  left = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True).stdout.split()
  assert not [p for p in left if int(p) != os.getpid()], "children outlived the driver"
  document = run(sample, "--out", tmp_path / "out", "--resume")
  assert 2 <= document["resumed"] < 6 and document["complete"] and len(records(tmp_path / "out")) == 6
  assert before is None or records(tmp_path / "out")[: len(before)] == before


@in_soak
def test_a_full_disk(tmp_path):
  """The folder of the run fills up: the run says so and ends; what was recorded stays whole, and with room again --resume
  measures what is missing."""
  sample = cases.write_sample(tmp_path / "s", count=6, passes=cases.one_pass())
  out = tmp_path / "small"
  out.mkdir()
  command = f"{BINARY} eval {sample} --out {out}/run {' '.join(QUICK)} --json"
  script = f"""mount -t tmpfs -o size=32k small {out} || exit 77
{command} > {tmp_path}/first.json; echo $? > {tmp_path}/first.status
cp {out}/run/records.jsonl {tmp_path}/before.jsonl
mount -o remount,size=8m {out}
{command} --resume > {tmp_path}/second.json; echo $? > {tmp_path}/second.status
cp {out}/run/records.jsonl {out}/run/run.json {tmp_path}
"""
  done = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script], capture_output=True, text=True, env=ENV, timeout=300)
  if done.returncode == 77 or "unshare" in done.stderr:
    pytest.skip("no mounts without privileges here")
  first, second = (json.loads((tmp_path / f"{n}.json").read_text()) for n in ("first", "second"))
  assert (tmp_path / "first.status").read_text() == "2\n" and (tmp_path / "second.status").read_text() == "0\n", done.stderr[-2000:]
  finding = first["findings"][0]
  assert finding["code"] == "file.full" and finding["file"].endswith("records.jsonl"), finding
  before = [line for line in (tmp_path / "before.jsonl").read_text().split("\n") if line]
  whole = [json.loads(line) for line in before[:-1]]  # the last one may be torn
  found = records(tmp_path)
  assert 1 <= second["resumed"] <= len(before) and second["resumed"] < 6 and second["complete"] and len(found) == 6
  assert found[: len(whole)] == whole and {r["variant"] for r in found} == {f"float32/{i}" for i in range(6)}


@in_soak
def test_the_worker_killed(tmp_path):
  """The clean parent dies: it is started again and goes on with what is missing."""
  sample = cases.write_sample(tmp_path / "s", count=4, passes=cases.one_pass())
  process = start(sample, "--out", tmp_path / "out", *QUICK, "--json")
  path = tmp_path / "out" / "records.jsonl"

  def kill():
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline and not (path.exists() and "\n" in path.read_text()):
      time.sleep(0.02)
    for pid in subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split():
      os.kill(int(pid), signal.SIGKILL)

  thread = threading.Thread(target=kill)
  thread.start()
  out, err = process.communicate(timeout=300)
  thread.join()
  document = json.loads(out)
  assert document["complete"] and len(records(tmp_path / "out")) == 4
  assert all(v["correct"] for v in document["variants"]), err[-2000:]


def test_the_public_harness_in_place_of_ours(tmp_path):
  """--evaluator entry: the log that entry.sh leaves becomes records, with the same score."""
  import gzip

  sample = cases.write_sample(tmp_path / "s", count=2, dtypes=("float32", "float16", "bfloat16", "float64"), passes=cases.one_pass())
  text = gzip.decompress((ROOT / "tests" / "data" / "logs" / "success.log.gz").read_bytes()).decode()
  log = tmp_path / "ready.log"
  log.write_text(text.replace("[Processing] ", "[Processing] /somewhere/graphs/"))
  (sample / "entry.sh").write_text(f"mkdir -p $PASSNET_EVAL_OUTPUT\ncp {log} $PASSNET_EVAL_OUTPUT/validation.log\n")
  document = run(sample, "--evaluator", "entry", "--out", tmp_path / "out")
  public = json.loads(subprocess.run([BINARY, "score", "--json", "--compat", str(log)], capture_output=True, text=True).stdout)
  assert len(document["variants"]) == 8 and document["compilers"][0]["score"] == pytest.approx(public["compilers"][0]["score"], abs=1e-9)
  assert all(v["correct"] and v["passes"][0]["applied"] == 1 for v in document["variants"])
  (sample / "entry.sh").write_text("echo nothing; exit 3\n")
  failed = run(sample, "--evaluator", "entry", "--out", tmp_path / "out2", status=(2,))
  assert failed["findings"][0]["code"] == "eval.entry" and "exit status 3" in failed["findings"][0]["message"]


def test_usage(tmp_path):
  sample = cases.write_sample(tmp_path / "s", passes=cases.one_pass())
  for arguments, code in ((["--shard", "3/2"], "cli.usage"), (["--pass-dir", tmp_path / "none"], "eval.no_pass_dir"), (["--variant", "float32/9"], "eval.nothing")):
    done = subprocess.run([BINARY, "eval", str(sample), "--json", *map(str, arguments)], capture_output=True, text=True, env=ENV)
    finding = json.loads(done.stdout)["findings"][0]
    assert done.returncode == 2 and finding["code"] == code and finding["remedy"]
