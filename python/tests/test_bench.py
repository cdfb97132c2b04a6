import os

import numpy as np
import pytest
import torch

from passnet.worker import bench, compare, evaluate, timing
from passnet.worker.errors import WorkerError

BODY = "a = x * y\nb = torch.nn.functional.relu(a, inplace=True)\nreturn (b.view(-1, 8),)"
METAS = {"x": {"shape": [5, 8]}, "y": {"shape": [5, 8]}}
QUICK = {"device": "cpu", "warmup": 2, "trials": 4, "block": 2}


def test_statistics_of_a_list():
  got = timing.statistics([1.0, 2.0, 3.0, 4.0, 100.0])
  assert got == {
    "median": 3.0,
    "iqr": 2.0,
    "mean": 22.0,
    "std": float(f"{np.std([1, 2, 3, 4, 100]):.6g}"),
    "min": 1.0,
    "max": 100.0,
  }
  assert timing.statistics([]) is None


def test_the_interval_of_a_ratio_excludes_one_only_for_a_difference():
  rng = np.random.RandomState(0)
  same = [[list(rng.normal(10, 0.5, 10)) for _ in range(10)] for _ in range(2)]
  low, high = timing.ratio_interval(*same)
  assert low <= 1 <= high
  low, high = timing.ratio_interval([[v * 1.5 for v in b] for b in same[0]], same[1])
  assert low > 1.3


def test_compilers_side_by_side(make_variant, corpus):
  state = {"name": "state", "pass_dir": corpus("scale_relu")}
  reply = bench.command(
    {
      "variants": [make_variant(BODY, METAS)],
      "compilers": ["eager", "nope", state, "nonsense"],
      "options": {**QUICK, "raw": True},
    },
    lambda e: None,
  )
  got = reply["variants"][0]["compilers"]
  assert (
    got["eager"]["e2e_ms"]["median"] > 0
    and got["nope"]["speedup_e2e"] > 0
    and len(got["nope"]["blocks_e2e_ms"]) == 2
  )
  assert got["state"]["first_correct_t"] == -10 and got["state"]["graphs"][0]["modified"]
  assert got["nonsense"]["error"]["code"] == "compiler"
  assert "speedup_e2e" not in got["eager"]


def test_without_a_gpu_timing_on_cuda_is_refused(make_variant):
  if torch.cuda.is_available():
    pytest.skip("there is a GPU")
  for run in (bench.command, evaluate.command):
    with pytest.raises(WorkerError) as e:
      run({"variants": [], "variant": "x"}, lambda e: None)
    assert e.value.code == "no_gpu"


def test_one_variant_evaluated(make_variant, corpus):
  record = evaluate.command(
    {"variant": make_variant(BODY, METAS), "pass_dir": corpus("scale_relu"), "options": QUICK}, lambda e: None
  )
  assert record["status"] == "success" and record["dtype"] == "float32" and record["loaded"] == ["ScaleRelu"]
  assert (
    len(record["compiled"]["e2e_ms"]) == len(record["eager"]["e2e_ms"]) == 4 and record["speedup_e2e"] > 0
  )
  assert len(record["correctness"]["allclose"]) == 64 and record["correctness"]["equal"] == [1]
  assert record["poisoned_outputs"][0]["bit_equal"] and record["violations"] == []


def test_failures_are_records(make_variant, corpus, tmp_path):
  record = evaluate.command(
    {"variant": make_variant("return (x + y,)", METAS), "pass_dir": corpus("scale_relu"), "options": QUICK},
    lambda e: None,
  )
  assert (
    record["status"] == "failed"
    and record["failed_in"] == "compiled"
    and record["compiled"]["error"]["code"] == "no_match"
  )
  (tmp_path / "empty").mkdir()
  record = evaluate.command(
    {"variant": make_variant(BODY, METAS), "pass_dir": os.fspath(tmp_path / "empty"), "options": QUICK},
    lambda e: None,
  )
  assert record["failed_in"] == "load" and record["error"]["code"] == "no_passes"
  record = evaluate.command(
    {"variant": make_variant("return (x.nothing(),)", METAS), "options": {**QUICK, "compiler": "nope"}},
    lambda e: None,
  )
  assert record["failed_in"] == "eager"


def test_the_public_keys():
  x = torch.randn(3)
  got = compare.public_correctness((x, torch.arange(3)), (x + 1e-4, torch.arange(3)))
  lines = dict(got["allclose"])
  assert lines["all_close_atol_1.00E-05_rtol_1.30E-06"] == [0, 1] and lines[
    "all_close_atol_1.00E-03_rtol_2.94E-04"
  ] == [1, 1]
  assert got["equal"] == [0, 1] and got["max_diff"][0] == pytest.approx(1e-4, rel=1e-2)
  assert compare.public_correctness((x,), (torch.randn(4),))["equal"] == [0]
