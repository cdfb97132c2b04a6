import json
import os
import shutil

import pytest

from passnet.worker import smoke, trace

BODY = "a = x * y\nb = torch.nn.functional.relu(a, inplace=True)\nreturn (b.view(-1, 8),)"
METAS = {"x": {"shape": [5, 6, 8]}, "y": {"shape": [5, 6, 8], "mean": 1.0, "std": 0}}
PROGRAM = {
  "arrays": [
    {"id": 0, "kind": "input", "shape": [5, 6, 8], "dtype": "f32", "input": 0},
    {"id": 1, "kind": "input", "shape": [5, 6, 8], "dtype": "f32", "input": 1},
    {
      "id": 2,
      "kind": "map",
      "shape": [5, 6, 8],
      "dtype": "f32",
      "expr": [
        "max",
        ["mul", *(["read", k, [["iv", 0], ["iv", 1], ["iv", 2]]] for k in (0, 1))],
        ["c", 0.0, "f32"],
      ],
    },
  ],
  "outputs": [2],
}


@pytest.fixture
def run(make_variant, corpus, tmp_path):
  def call(
    edit=None,
    file="_shared_kernels.py",
    body=BODY,
    metas=METAS,
    dtypes=("float32",),
    programs=None,
    meta=None,
    **options,
  ):
    pass_dir = corpus("scale_relu")
    if edit:
      copy = str(tmp_path / "state")
      shutil.copytree(pass_dir, copy, dirs_exist_ok=True)
      path = os.path.join(copy, file)
      with open(path) as f:
        text = f.read()
      assert edit[0] in text
      with open(path, "w") as f:
        f.write(text.replace(*edit))
      pass_dir = copy
    variants = [make_variant(body, metas, dtype) for dtype in dtypes]
    request = {"variants": variants, "pass_dir": pass_dir, "options": options}
    if programs:
      request["programs"] = {variants[0]: programs}
    if meta:
      request["meta"] = {variants[0]: meta}
    reply = smoke.command(request, lambda event: None)
    json.dumps(reply)
    return reply

  return call


def errors(reply):
  return [c["error"]["message"] for v in reply["variants"] for c in v.get("calls", []) if "error" in c]


def test_a_good_pass_is_green_in_every_dtype(run):
  reply = run(dtypes=("float32", "float16", "bfloat16"), repeats=2)
  assert reply["ok"] and reply["loaded"] == ["ScaleRelu"]
  for variant in reply["variants"]:
    assert len(variant["graphs"]) == 1 and len(variant["graphs"][0]["passes"][0]["matches"]) == 1
    # Only live inputs differ from call to call, so only they are repeated.
    assert [(c["family"], c["mode"]) for c in variant["calls"]] == [("sample", "poisoned"), ("sample", "plain")] + [
      ("live", m) for m in ("poisoned", "plain", "plain", "plain")
    ]
    assert all(o["bit_equal"] for c in variant["calls"] for o in c["outputs"])
    assert variant["proven"]["poison"] == variant["proven"]["numerics"] == "interpreter on the CPU"
    assert any(
      launch["fast"] for launch in variant["launches"]
    )  # the compiled kernel's own launcher was used


def test_wrong_numbers_are_found_with_the_element(run):
  reply = run(("tl.maximum(v, 0.0)", "tl.maximum(v, 0.001)"))
  call = reply["variants"][0]["calls"][0]
  assert (
    not reply["ok"]
    and call["outputs"][0]["outside"] > 0
    and call["outputs"][0]["first_bad"]["got"] == pytest.approx(0.001)
  )
  assert reply["variants"][0]["proven"] == {}


def test_degenerate_inputs_do_not_hide_a_fault(run):
  """y is constant 1 in the sample: forgetting it is right there, and wrong on the live family."""
  reply = run(("v = (a * b)", "v = (a + 0 * b)"))
  assert [c["ok"] for c in reply["variants"][0]["calls"]] == [True] * 2 + [False] * 3
  assert reply["variants"][0]["degenerate_only"]


def test_a_forbidden_operator_is_named(run):
  reply = run(("return _run_scale_relu(args[0], args[1])", "return torch.relu(args[0] * args[1])"))
  variant = reply["variants"][0]
  assert (
    not reply["ok"]
    and variant["violations"] == ["aten.mul.Tensor"]
    and "Unauthorized Operator" in errors(reply)[0]
  )


def test_a_swallowed_violation_counts(run):
  reply = run(
    (
      "    return _run_scale_relu(args[0], args[1])",
      "    try:\n        args[0].view(-1)\n    except RuntimeError:\n        pass\n    return _run_scale_relu(args[0], args[1])",
    )
  )
  assert not reply["ok"] and reply["variants"][0]["violations"] == ["aten.view.default"]
  assert all(c["ok"] for c in reply["variants"][0]["calls"] if c["mode"] == "plain")


def test_a_cached_output_fails_on_fresh_inputs(run):
  reply = run(
    (
      "    return _run_scale_relu(args[0], args[1])",
      "    if 'o' not in _entries:\n        _entries['o'] = _run_scale_relu(args[0], args[1])\n    return _entries['o']",
    )
  )
  assert not reply["ok"]


def test_a_tensor_kept_between_calls_is_named(run):
  reply = run(
    (
      "        _entries[key] = (k.run",
      "        _entries['held'] = [{'o': o}]\n        _entries[key] = (k.run",
    )
  )
  assert not reply["ok"]
  assert reply["variants"][0]["violations"] == ["tensor kept in pass_dir._shared_kernels._entries"]


def test_a_model_that_does_not_equal_itself_proves_nothing(run):
  body = "self.n = getattr(self, 'n', 0) + 1\nreturn (x * y + self.n,)"
  call = run(body=body)["variants"][0]["calls"][0]
  assert call["error"]["code"] == "eager_unstable" and not call["ok"]


def test_an_output_out_of_bounds_is_an_error_not_a_crash(run):
  reply = run(("m = i < N", "m = i < N + 1000"))
  assert not reply["ok"] and "outside every tensor" in errors(reply)[0]


def test_a_launcher_key_without_alignment_is_found(run, tmp_path):
  """The entry of an aligned first call must not serve an unaligned view."""
  body = "c = z * w\nd = torch.nn.functional.relu(c, inplace=True)\na = x[1:] * y[1:]\nb = torch.nn.functional.relu(a, inplace=True)\nreturn (d, b)"
  metas = {"x": {"shape": [33]}, "y": {"shape": [33]}, "z": {"shape": [32]}, "w": {"shape": [32]}}
  assert run(body=body, metas=metas)["ok"]
  reply = run(("x.get_device(), (px | py | po) & 15)", "x.get_device())"), body=body, metas=metas)
  assert not reply["ok"] and any("compiled as 16-byte aligned" in e for e in errors(reply)), errors(reply)


def test_mutated_inputs_and_aliases_are_compared(run):
  body = "x *= y\nb = torch.nn.functional.relu(x, inplace=True)\nreturn (b,)"
  reply = run(("operator.mul", "operator.imul"), file="ScaleRelu.py", body=body)
  call = reply["variants"][0]["calls"][0]
  assert not reply["ok"] and call["outputs"][0]["ok"]  # the value is right, but eager writes x and returns it
  assert [i["name"] for i in call["inputs"]] == ["x"] and call["alias"] == {
    "eager": ["out0=in0"],
    "compiled": [],
  }


def test_no_match_and_failing_models_leave_the_others_alone(run, make_variant, corpus):
  good, unmatched, broken = (
    make_variant(BODY, METAS),
    make_variant("return (x + y,)", METAS),
    make_variant("return (x.nothing(),)", METAS),
  )
  reply = smoke.command(
    {"variants": [unmatched, broken, "/nowhere", good], "pass_dir": corpus("scale_relu")}, lambda e: None
  )
  assert [v["ok"] for v in reply["variants"]] == [False, False, False, True]
  assert (
    reply["variants"][0]["calls"][0]["error"]["code"] == "no_match"
    and len(reply["variants"][0]["calls"]) == 1
  )
  assert reply["variants"][1]["calls"][0]["error"]["code"] == "eager_failed"
  assert reply["variants"][2]["error"]["code"] == "cannot_read"


def test_wrapper_outputs_against_the_reference(run):
  reply = run(programs={"ScaleRelu": [PROGRAM]})
  assert reply["ok"]
  wrapper = reply["variants"][0]["calls"][-1]["wrappers"][0]
  assert (
    wrapper["ok"]
    and wrapper["outputs"][0]["bit_equal"]
    and wrapper["outputs"][0]["reference"] == "cuda formula, whole"
  )
  other = json.loads(json.dumps(PROGRAM).replace('"max"', '"min"'))
  assert not run(programs={"ScaleRelu": [other]})["ok"]


def test_the_cuda_reference_decides_over_cpu_eager_in_the_last_bits_only(run):
  """A kernel and a reference that both add 1e-4: outside t = -5 of eager, inside the rough tolerance; 10 is
  not.
  """
  for step, ok in (("1e-4", True), ("10.0", False)):
    program = json.loads(json.dumps(PROGRAM))
    program["arrays"][2]["expr"] = ["add", program["arrays"][2]["expr"], ["c", float(step), "f32"]]
    reply = run(("tl.maximum(v, 0.0)", f"(tl.maximum(v, 0.0) + {step})"), programs={"ScaleRelu": [program]})
    assert reply["ok"] == ok
    call = reply["variants"][0]["calls"][0]
    assert not call["outputs"][0]["ok"] and call["wrappers"][0]["ok"] and ("note" in call) == ok


def test_a_sample_of_programs_is_judged_by_the_reference_alone(run):
  metas = {n: {**m, "shape": [50, 60, 8]} for n, m in METAS.items()}
  program = json.loads(json.dumps(PROGRAM).replace("[5, 6, 8]", "[50, 60, 8]"))
  reply = run(metas=metas, programs={"ScaleRelu": [program]}, program_sample=4)
  variant = reply["variants"][0]
  assert reply["ok"] and variant["calls"][0]["sampled"] and "outputs" not in variant["calls"][0]
  assert "a sample of the programs" in variant["proven"]["numerics"]
  bad = json.loads(json.dumps(program).replace("0.0", "0.5"))
  assert not run(metas=metas, programs={"ScaleRelu": [bad]}, program_sample=4)["ok"]


def test_large_variants_are_refused_with_a_way_out_and_run_when_shrunk(run):
  reply = run(max_elements=100)
  assert (
    reply["variants"][0]["error"]["code"] == "too_large"
    and "shrunk" in reply["variants"][0]["error"]["remedy"]
  )
  small = run(max_elements=100, meta={n: {"shape": [1, 2, 8]} for n in METAS})
  assert (
    small["ok"]
    and small["variants"][0]["shrunk"]
    and small["variants"][0]["proven"]["numerics"].endswith("shrunk shapes")
  )


def test_trace_gives_patterns_and_matches(make_variant, corpus):
  reply = trace.command(
    {
      "pass_dir": corpus("scale_relu"),
      "variants": [make_variant(BODY, METAS), make_variant("return (x + y,)", METAS)],
    },
    lambda e: None,
  )
  entry = reply["passes"][0]
  assert entry["hand_built"] and entry["parameters"] == ["x", "y"]
  assert [n["target"] for n in entry["pattern"]["nodes"]] == [
    "x",
    "y",
    "operator.mul",
    "torch.nn.functional.relu",
    "output",
  ]
  assert entry["replacement"]["nodes"][2]["args"] == [{"node": "x"}, {"node": "y"}, "scale_relu"]
  assert [v["matched"] for v in reply["variants"]] == [True, False]
  assert reply["variants"][0]["graphs"][0]["passes"][0]["matches"][0]["nodes"] == ["a", "b"]


def test_the_real_sample_with_a_hand_written_pass(sample_dir):
  sample = sample_dir("RTMO-l_start349_end354_12")
  example = os.path.join(os.path.dirname(sample), "..", "..", "design", "example_pass")
  if not os.path.exists(os.path.join(example, "_shared_kernels.py")):
    pytest.skip("the hand-written example pass is not there")
  reply = smoke.command({"sample": sample, "pass_dir": example}, lambda e: None)
  assert reply["ok"] and len(reply["variants"]) == 3
