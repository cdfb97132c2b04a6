"""passnet score against a second implementation of the public rules, written here from their description alone."""
import gzip
import json
import math
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = os.environ.get("PASSNET_BINARY", str(ROOT / "build" / "passnet"))
LOGS = ROOT / "tests" / "data" / "logs"
NAMES = sorted(p.name[: -len(".log.gz")] for p in LOGS.glob("*.log.gz"))
WEIGHTS = {**{t: 0.001 for t in range(-10, -5)}, -5: 1, -4: 1, -3: 1, -2: 0.8, -1: 0.64, 0: 0.512, 1: 0.4096, 2: 0.32768, 3: 0.262144, 4: 0.001}
SLOPES = {"float16": 0.6, "bfloat16": 0.3592, "float32": 1.1772, "float64": 1.4}
TOLERATED = {"correct": 1, "runtime_fail": 3, "shape_mismatch": 3, "type_mismatch": 3, "compile_fail": 3}


# ---- the second implementation

def blocks(text):
  parts = re.split(r"^.*\[Processing\] ", text, flags=re.MULTILINE)[1:]
  for part in parts:
    first, _, rest = part.partition("\n")
    yield first.strip(), rest


def last(pattern, text):
  found = re.findall(pattern, text)
  return found[-1] if found else None


def status(text):
  swept = "[Correctness][all_close" in text
  if not swept and "[Datatype][eager]" not in text:
    return "eager_fail"
  if not swept and "[Datatype][compiled]" not in text:
    return "compile_fail"
  if not swept and not re.search(r"\[Shape\].*match:True", text):
    return "shape_mismatch"
  if not re.search(r"\[DataType\].*match:True", text):
    return "type_mismatch"
  if re.search(r"Exception:|Error:", text):
    return "runtime_fail"
  return "pass_miss" if "No passes modified" in text else "correct"


def key(dtype, t):
  rtol = 10 ** (SLOPES[dtype] * t)
  atol = rtol if dtype == "float64" else 10.0**t
  return f"all_close_atol_{atol:.2E}_rtol_{rtol:.2E}"


def correct(text, t):
  dtypes = last(r"\[Datatype\]\[eager\]: (.*)", text).split()
  for i, dtype in enumerate(dtypes):
    name = key(dtype, t) if dtype in SLOPES else "equal"
    flags = last(r"\[Correctness\]\[" + re.escape(name) + r"\]: (.*)", text)
    if flags is None or i >= len(flags.split()) or flags.split()[i] != "1":
      return False
  return True


def es(text, t, b=0.1, p=0.0):
  state, speed = status(text), last(r"\[Speedup\]\[e2e\]: (.+)", text)
  if state == "correct" and speed is not None and correct(text, min(t, 1)):
    s = float(speed)
    return s ** (p + 1) if s < 1 else s
  return 1.0 if t >= 1 and t >= TOLERATED.get(state, 99) else b


def curve(text, **options):
  all_blocks = [body for _, body in blocks(text)]
  return [math.exp(sum(math.log(es(body, t, **options)) for body in all_blocks) / len(all_blocks)) for t in range(-10, 5)]


def aggregate(values):
  return math.exp(sum(w * math.log(v) for w, v in zip(WEIGHTS.values(), values)) / sum(WEIGHTS.values()))


# ---- running the program

def run(*args, env=None, status_in=(0, 1)):
  done = subprocess.run([BINARY, "score", "--json", *map(str, args)], capture_output=True, text=True, timeout=60, env={**os.environ, **(env or {})})
  assert done.returncode in status_in, done.stdout[-2000:] + done.stderr[-2000:]
  return json.loads(done.stdout)


def text_of(name):
  return gzip.decompress((LOGS / f"{name}.log.gz").read_bytes()).decode()


@pytest.fixture
def log(tmp_path):
  def write(text, name="validation.log"):
    path = tmp_path / name
    path.write_text(text)
    return path

  return write


def merged(document):
  """ES(t) and the score over the variants of all compilers of a document: a log without a [Config] line has none."""
  total = sum(c["variants"] for c in document["compilers"])
  values = [math.exp(sum(c["variants"] * math.log(c["es"][i]) for c in document["compilers"]) / total) for i in range(15)]
  return values, aggregate(values)


@pytest.mark.parametrize("name", [n for n in NAMES if not n.startswith("filtered")])
def test_the_public_number_of_every_log(log, name):
  text = text_of(name)
  document = run("--compat", log(text))
  assert [v["public_status"] for v in document["variants"]] == [status(body) for _, body in blocks(text)]
  want = curve(text)
  if len(document["compilers"]) == 1:
    got = document["compilers"][0]
    assert got["es"] == pytest.approx(want, abs=1e-9)
    assert got["score"] == pytest.approx(aggregate(want), abs=1e-9)
    assert got["public_score"] == pytest.approx(aggregate(want), abs=1e-9)
    # The macro form is the same within rounding; the public aggregator asserts 1e-3.
    assert [m["es"] for m in got["macro"]] == pytest.approx(want, abs=1e-9)
  else:
    values, score = merged(document)
    assert values == pytest.approx(want, abs=1e-9) and score == pytest.approx(aggregate(want), abs=1e-9)


@pytest.mark.parametrize("b, p", [(0.001, 0.0), (0.1, 1.0), (0.05, 0.5)])
def test_other_parameters(log, b, p):
  text = text_of("several")
  got = run("--compat", "--fpdb", b, "--negative-speedup-penalty", p, log(text))
  values, _ = merged(got)
  assert values == pytest.approx(curve(text, b=b, p=p), abs=1e-9)


def test_the_log_is_long():
  assert text_of("many").count("[Processing]") == 400


def synthetic(first_t=None, s=1.0, dtype="float32", before="", after="", types="match:True", eager=True, compiled=True):
  lines = ["P [Processing] float32/0", before]
  if eager:
    lines.append(f"P [Datatype][eager]: {dtype}")
  if compiled:
    lines.append(f"P [Datatype][compiled]: {dtype}")
  if eager and compiled:
    lines.append(f"P [DataType] eager:['{dtype}'] compiled:['{dtype}'] {types}")
    if types == "match:True":
      lines += [f"P [Correctness][{key(d, t)}]: {int(first_t is not None and t >= first_t)}" for t in range(-10, 6) for d in SLOPES]
    lines += ["P [Result] status: success", f"P [Speedup][e2e]: {s:.5f}"]
  return "\n".join([*lines, after, ""])


@pytest.mark.parametrize("first_t, value", [(-5, 0.99807), (None, 0.1472), (1, None), (-4, 0.678), (-3, 0.461), (-2, 0.313), (0, 0.179)])
def test_the_constants(log, first_t, value):
  got = run("--compat", log(synthetic(first_t)))["compilers"][0]["score"]
  assert got == pytest.approx(aggregate(curve(synthetic(first_t))), abs=1e-9)
  if value is not None:
    assert got == pytest.approx(value, abs=6e-4 if value < 0.9 else 6e-6)


def test_further_constants(log):
  for s in (0.5, 2.0):
    at_baseline = run("--compat", log(synthetic(-5, s)))["compilers"][0]["score"]
    assert at_baseline == pytest.approx(0.99807 * s ** (1 - 0.005 / 5.957424), abs=2e-5)
    assert run("--compat", log(synthetic(-10, s)))["compilers"][0]["score"] == pytest.approx(s, abs=1e-9)  # bit-exact: s
    assert run("--compat", log(synthetic(0, s)))["compilers"][0]["score"] == pytest.approx(0.179 * s**0.254, abs=6e-4)
  crash = run("--compat", log(synthetic(eager=False, compiled=False, after="Compiled model execution failed: boom")))
  assert crash["compilers"][0]["score"] == pytest.approx(0.1, abs=1e-12)
  mismatch = run("--compat", log(synthetic(types="match:False")))
  assert mismatch["compilers"][0]["score"] == pytest.approx(0.1107, abs=5e-5)
  assert sum(WEIGHTS.values()) == pytest.approx(5.957424, abs=1e-9)


def test_a_stray_error_line_fails_a_variant_only_in_public(log):
  text = text_of("stray_error")
  public, ours = run("--compat", log(text)), run(log(text))
  assert public["variants"][0]["public_status"] == "runtime_fail"
  assert public["compilers"][0]["score"] == pytest.approx(aggregate(curve(text)), abs=1e-9)
  speed = float(last(r"\[Speedup\]\[e2e\]: (.+)", text))
  assert ours["compilers"][0]["score"] == pytest.approx(speed, rel=0.01) and ours["variants"][0]["correct"]
  assert any(f["code"] == "score.public_rules" for f in run("--log", "note", log(text))["findings"])


EXPECTED = {
  "no_match": "no_match", "near_miss": "no_match", "unauthorized": "forbidden_op", "hacking_all": "rejected_source", "multi_output": "multi_output",
  "dtype": "type_mismatch", "wrong": "inaccurate", "small": "inaccurate", "crash": "crash", "import_error": "load_error",
  "syntax_error": "load_error", "unstable": "load_error", "empty_manifest": "load_error", "eager_fails": "eager_failed",
  "fluctuation": "fluctuation", "timeout": "timeout", "flood": "resource_limit", "killed": "crash", "mutates": "inaccurate",
  "out_of_memory": "out_of_memory",
}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_the_class_of_every_failure(log, name):
  variant = run(log(text_of(name)))["variants"][0]
  assert variant["outcome"] == EXPECTED[name]
  assert variant["fix"] and variant["failure"] and variant["evidence"]
  assert variant["score_if_fixed"] == pytest.approx(1.0, abs=1e-9) and not variant["correct"]


def test_records_say_what_logs_say(tmp_path):
  path = tmp_path / "records.jsonl"
  path.write_bytes(gzip.decompress((LOGS / "records.jsonl.gz").read_bytes()))
  by = {}
  for v in run(path)["variants"]:
    by.setdefault(v["sample"], []).append(v["outcome"])
  for name, outcome in EXPECTED.items():
    assert by[name][0] == outcome, name
  assert by["kept"] == ["kept_state"] and by["shape"] == ["shape_mismatch"] and by["stray_error"][0].startswith("correct")
  # A torn last line is left out and said; a broken one in the middle is an error with its number.
  text = path.read_text()
  path.write_text(text[:-50])
  assert any(f["code"] == "score.torn" for f in run(path)["findings"])
  lines = text.splitlines(True)
  path.write_text(lines[0] + "{\"schema\": 1}\n" + lines[1])
  broken = run(path, status_in=(2,))
  assert broken["findings"][0]["code"] == "score.record" and broken["findings"][0]["line"] == 2


def test_a_filtered_log_is_estimated_and_the_services_score_counts(log):
  whole, filtered = run(log(text_of("success"))), run(log(text_of("filtered_success")))
  assert all(v["estimated"] for v in filtered["variants"]) and not any(v["estimated"] for v in whole["variants"])
  assert [v["outcome"] for v in filtered["variants"]] == [v["outcome"] for v in whole["variants"]]
  assert filtered["compilers"][0]["score"] == pytest.approx(whole["compilers"][0]["score"], rel=0.02)
  response = {"returncode": 0, "pass_matched": True, "score": {"id": 1, "score": 0.42}, "stdout": text_of("filtered_success"), "stderr": ""}
  got = run(log(json.dumps(response), "response.json"))
  assert got["service_score"] == 0.42 and len(got["variants"]) == 8


@pytest.mark.parametrize("body", ["", "HTTP000", "<html>503</html>", "{\"stdout\": \"x", "{\"error\": \"busy\"}", "{\"returncode\": 1}"])
def test_what_is_no_evaluation_has_no_score(log, body):
  got = run(log(body, "response.json"), status_in=(2,))
  assert got["findings"][0]["code"] in ("score.no_evaluation", "score.no_variants") and got["findings"][0]["remedy"]
  assert "compilers" not in got


def test_torn_and_interleaved_logs(log):
  whole, mixed = run(log(text_of("success"))), run(log(text_of("interleaved")))
  assert [(v["outcome"], v["speedup_e2e"]) for v in mixed["variants"]] == [(v["outcome"], v["speedup_e2e"]) for v in whole["variants"]]
  torn = run(log(text_of("torn")))["variants"]
  assert 1 <= len(torn) < 8 and [v["variant"] for v in torn] == [v["variant"] for v in whole["variants"]][: len(torn)]
  assert torn[-1]["outcome"] == "incomplete" and all(v["correct"] for v in torn[:-1])


def test_labels_count_under_the_winning_family(log, tmp_path):
  labels = tmp_path / "labels.json"
  name = tmp_path.name  # a log's sample is its folder
  (tmp_path / "b").mkdir()
  second = log(text_of("fluctuation"), "b/validation.log")
  labels.write_text(json.dumps({
    name: {"triage_family": "elementwise", "worker_confirmed_family": "elementwise", "actual_winning_region_family": "norm", "larger_region_attempted": True},
    "b": {"triage_family": "conv", "numeric_preflight_blocked": True}}))
  families = {f["family"]: f for f in run("--labels", labels, log(text_of("success")), second)["families"]}
  assert set(families) == {"norm", "conv"}
  assert families["norm"]["correct_but_slow"] == 1 and families["norm"]["larger_region_attempted"] == 1 and families["norm"]["completed_workers"] == 1
  assert families["conv"]["evaluator_instability"] == 1 and families["conv"]["numeric_preflight_blocked"] == 1


def test_custom_weights(log, tmp_path):
  weights = tmp_path / "weights.py"
  weights.write_text("def get_weights():\n  return {t: 1.0 if t == -3 else 0.0 for t in range(-10, 5)}\n")
  env = {"PASSNET_CUSTOM_WEIGHT_FUNC_PATH": str(weights), "PASSNET_PYTHON": os.environ.get("PASSNET_PYTHON", "python3")}
  got = run(log(text_of("accuracy")), env=env)["compilers"][0]
  assert got["score"] == pytest.approx(got["es"][-3 + 10], abs=1e-12)
  weights.write_text("def get_weights():\n  return [1.0]\n")
  assert run(log(text_of("accuracy")), env=env, status_in=(2,))["findings"][0]["code"] == "score.weights"


def test_a_run_document(log, tmp_path):
  path = tmp_path / "records.jsonl"
  path.write_bytes(gzip.decompress((LOGS / "records.jsonl.gz").read_bytes()))
  out = tmp_path / "run.json"
  run(path, "--write-run", out, "--command", "passnet eval x")
  document = json.loads(out.read_text())
  assert document["schema"] == "passnet.run/1" and document["command"] == "passnet eval x"
  rows = {(r["sample"], r["variant"]): r for r in document["variants"]}
  assert rows["accuracy", "float32/0"]["status"] == "inaccurate" and rows["accuracy", "float32/0"]["first_correct_t"] > -5
  assert "mutates/float32/0" not in document["eager_equals_itself"] and "success/float32/0" in document["eager_equals_itself"]
  assert document["summary"]["pass_mgr"]["variants"] == len(document["variants"])


def test_what_was_expected_is_asked_of_the_samples(tmp_path):
  """A run that says nothing of it: the ceiling is the sample's; a prediction needs the bytes that were measured."""
  import shutil

  sample = tmp_path / "samples" / "s"
  shutil.copytree(sorted((ROOT / "examples").glob("*/graph_list.txt"))[0].parent, sample)
  assert subprocess.run([BINARY, "solve", str(sample), "--no-preflight-run", "--quiet"], capture_output=True).returncode == 0
  label = (sample / "graph_list.txt").read_text().split()[0]
  out = tmp_path / "run"
  out.mkdir()
  side = {"ok": True, "e2e": {"median": 0.1}, "gpu": {"median": 0.1}, "dtypes": ["float32"], "shapes": [[1]]}
  record = {"schema": "passnet.record/1", "sample": "s", "variant": label, "compiler": "passnet", "kind": "pass_mgr", "dtype": "float32", "status": "success",
            "type_match": True, "shape_match": True, "speedup_e2e": 1.0, "first_correct_t": -10, "compiled": side, "eager": side}
  (out / "records.jsonl").write_text(json.dumps(record) + "\n")
  rows = {}
  for name, head in (("unknown", {}), ("other", {"compilers": [{"name": "passnet", "pass_dir_hash": "0" * 16}]})):
    (out / "run.json").write_text(json.dumps({"sample": "s", **head}))
    run(out, "--samples", tmp_path / "samples", "--write-run", tmp_path / "doc.json")
    rows[name] = json.loads((tmp_path / "doc.json").read_text())["variants"][0]
    assert rows[name]["legal_ceiling"] > 0 and rows[name]["predicted"] is None and rows[name]["family"] != "unknown"
  done = subprocess.run([BINARY, "eval", str(sample), "--device", "cpu", "--variant", label, "--warmup", "1", "--trials", "1", "--out", str(tmp_path / "real"), "--json", "--quiet"],
                        capture_output=True, text=True)
  assert done.returncode in (0, 1), done.stderr[-2000:]
  real = json.loads((tmp_path / "real" / "run.json").read_text())
  assert real["expected"]["pass_mgr"][label]["predicted"] > 0 and real["expected"]["pass_mgr"][label]["state"] == "upside"
  (out / "run.json").write_text(json.dumps({"sample": "s", "compilers": [{**real["compilers"][0], "name": "passnet"}]}))
  run(out, "--samples", tmp_path / "samples", "--write-run", tmp_path / "doc.json")
  row = json.loads((tmp_path / "doc.json").read_text())["variants"][0]
  assert row["predicted"] == pytest.approx(real["expected"]["pass_mgr"][label]["predicted"], abs=1e-4)
