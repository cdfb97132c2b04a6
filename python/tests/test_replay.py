"""The public input rules, derived a second time here from their description and compared bit for bit."""

import numpy as np
import pytest
import torch

from passnet.worker import replay, samples
from passnet.worker.errors import WorkerError

METAS = {
  "zz": {"shape": [3, 4], "mean": 1.0, "std": 2.0},
  "index": {"shape": [6], "dtype": "torch.int64", "min_val": 2, "max_val": 9, "data": [0, 0, 0, 0, 0, 0]},
  "exact": {"shape": [2, 2], "data": [1.5, -2.0, 3e38, 4.0]},
  "mask": {"shape": [5], "dtype": "torch.bool"},
  "constant": {"shape": [3], "mean": 0.25, "std": 0},
  "unknown": {"shape": [4], "mean": None, "std": None},
  "clamped": {"shape": [64], "mean": 0.0, "std": 50.0, "min_val": -1.0, "max_val": 0.5},
  "huge": {"shape": [64], "mean": 0.0, "std": 1e4},
  "short": {"shape": [3], "dtype": "torch.int16", "min_val": 0, "max_val": 3},
  "half": {"shape": [33], "dtype": "torch.float16", "mean": 0.1, "std": 0.3},
  "scalar": {"shape": [], "dtype": "torch.int64", "data": [7]},
}


def expected():
  """Written from the rules alone: alphabetical classes, integers first, the rest after, numpy seeded 123."""
  np.random.seed(123)
  names = sorted(METAS)
  out = {}
  for n in names:
    m = METAS[n]
    if "int" in m.get("dtype", "") and "min_val" in m and "max_val" in m:
      out[n] = torch.from_numpy(np.random.randint(m["min_val"], m["max_val"] + 1, size=m["shape"])).to(
        getattr(torch, m["dtype"][6:])
      )
  for n in names:
    m = METAS[n]
    dtype = getattr(torch, m.get("dtype", "torch.float32")[6:])
    if n in out:
      continue
    if "data" in m:
      out[n] = torch.tensor(m["data"], dtype=dtype).reshape(m["shape"])
      continue
    if dtype is torch.bool:
      out[n] = torch.from_numpy(np.random.uniform(size=m["shape"]) > 0.5)
      continue
    std = 0.1 if m["std"] is None else m["std"]
    mean = 0 if m["mean"] is None else m["mean"]
    t = (
      torch.full(m["shape"], mean, dtype=dtype)
      if std == 0
      else torch.from_numpy(np.random.randn(*m["shape"]) * std * 0.2 + mean).to(dtype)
    )
    if "min_val" in m:
      t = t.clamp(m["min_val"], m["max_val"])
    out[n] = t.clamp(-100, 100)
  return out


def test_bit_equal_to_the_public_rules(make_variant):
  variant = samples.load_variant(make_variant("return (zz,)", METAS))
  got = replay.public_inputs(variant)
  want = expected()
  assert set(got) == set(want)
  for name in want:
    assert got[name].dtype == want[name].dtype and got[name].shape == want[name].shape, name
    assert torch.equal(got[name], want[name]), name
  assert got["exact"].flatten()[2] == torch.tensor(3e38)  # data is taken as it is, never clamped
  assert got["huge"].abs().max() == 100


def test_defaults_of_missing_attributes(tmp_path):
  (tmp_path / "weight_meta.py").write_text(
    "class A:\n  name = 'a'\n  unknown_thing = 3\nclass B:\n  shape = [1]\n"
  )
  metas = samples.parse_metas((tmp_path / "weight_meta.py").read_text(), "weight_meta.py")
  assert [(m.name, m.dtype, m.shape, m.mean, m.std) for m in metas] == [("a", "float", [], 0.0, 1.0)]


def test_descriptions_are_never_executed():
  with pytest.raises(WorkerError) as e:
    samples.parse_metas("class A:\n  name = 'a'\n  data = [__import__('os').getpid()]\n", "w.py")
  assert e.value.code == "meta_not_literal" and "w.py:3" in e.value.message
  assert samples.parse_metas("class A:\n  name = 'a'\n  data = [-1, float('-inf'), 1e-3]\n", "w")[0].data == [
    -1,
    float("-inf"),
    1e-3,
  ]


def test_live_family_is_never_degenerate(make_variant):
  metas = {
    **METAS,
    "flag": {"shape": [40], "data": [0.0] * 20 + [-3e38] * 20},
    "var": {"shape": [50], "mean": 0.0, "std": 0},
    "ones": {"shape": [40], "dtype": "torch.int64", "data": [1] * 40},
    "negative": {"shape": [8, 8], "mean": -3.4028234663852886e38, "std": 0},
  }
  variant = samples.load_variant(make_variant("return (zz,)", metas))
  got = replay.live_inputs(variant, 7, {"var"})
  assert got["constant"].std() > 0.05 and got["unknown"].std() > 0.05
  assert 0.5 <= got["var"].min() and got["var"].max() <= 2 and got["var"].std() > 0.2
  assert 2 <= got["index"].min() and got["index"].max() <= 9
  assert set(got["ones"].tolist()) == {0, 1}
  assert got["scalar"] == 7  # a number of the program, not data
  assert set(got["flag"].tolist()) == set(torch.tensor([0.0, -3e38]).tolist())
  assert len(torch.unique(got["negative"])) == 2
  assert {n: (t.shape, t.dtype) for n, t in got.items()} == {
    n: (t.shape, t.dtype) for n, t in replay.public_inputs(variant).items()
  }
  again, other = replay.live_inputs(variant, 7, {"var"}), replay.live_inputs(variant, 8, {"var"})
  assert torch.equal(again["zz"], got["zz"]) and not torch.equal(other["zz"], got["zz"])


def test_device_literals_follow_the_device():
  source = "x = a.to(device(type='cuda', index=0))\ny = torch.arange(3, device=device('cuda:0'))\nz = torch.device('cpu')\ns = 'cuda'\n"
  text, count = samples.rewrite_devices(source, "cpu")
  assert count == 2
  assert (
    text
    == "x = a.to(device(type='cpu'))\ny = torch.arange(3, device=device('cpu'))\nz = torch.device('cpu')\ns = 'cuda'"
  )
  assert samples.rewrite_devices("x = 1  # kept as it is\n", "cpu") == ("x = 1  # kept as it is\n", 0)


def test_running_variance_is_found_by_use(make_variant):
  from passnet.worker import capture

  path = make_variant(
    "return (torch.nn.functional.batch_norm(x, m, v, w, b, False, 0.1, 1e-05),)",
    {n: {"shape": [2, 3, 4, 4] if n == "x" else [3]} for n in "xmvwb"},
  )
  graph = capture.record_graphs(samples.load_variant(path))[0].graph
  assert replay.running_variance_names(graph) == {"L_v_"}
