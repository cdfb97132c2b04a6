import pytest
import torch

from passnet.worker import compare


@pytest.fixture(autouse=True, params=["host", "device"])
def both_ways(request, monkeypatch):
  """Every test also takes the way that tensors on a device take, with torch in place of numpy."""
  if request.param == "device":
    monkeypatch.setattr(compare, "_arrays", lambda *tensors: (torch, list(tensors)))


PUBLIC = {
  (torch.float32, -5): (1.30e-6, 1e-5),
  (torch.float16, -5): (1e-3, 1e-5),
  (torch.bfloat16, -5): (1.6e-2, 1e-5),
  (torch.float64, -5): (1e-7, 1e-7),
  (torch.float32, -4): (1.96e-5, 1e-4),
  (torch.float32, -3): (2.94e-4, 1e-3),
  (torch.float32, -2): (4.42e-3, 1e-2),
  (torch.float32, -1): (6.65e-2, 0.1),
  (torch.float16, 0): (1, 1),
  (torch.int64, -5): (0, 0),
}


@pytest.mark.parametrize("key", PUBLIC, ids=str)
def test_tolerances_of_the_public_log(key):
  assert compare.tolerance(*key) == pytest.approx(PUBLIC[key], rel=4e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_one_wrong_element_is_found_and_named(dtype):
  x = torch.randn(4, 5, 6).to(dtype)
  assert compare.compare_tensors(x, x.clone())["bit_equal"]
  y = x.clone()
  y[2, 3, 1] += 1
  got = compare.compare_tensors(x, y)
  assert not got["ok"] and got["outside"] == 1 and got["first_bad"]["index"] == [2, 3, 1]
  assert compare.compare_tensors(
    x, y, where=torch.ones(4, 5, 6, dtype=torch.bool).index_fill_(0, torch.tensor([2]), False)
  )["ok"]


def test_the_edge_of_the_tolerance():
  x = torch.ones(3)
  limit = 1e-5 + 1.3e-6
  assert compare.compare_tensors(x, x + limit * 0.97)["ok"]
  assert not compare.compare_tensors(x, x + limit * 1.05)["ok"]


def test_nan_and_infinity_must_agree():
  x = torch.tensor([1.0, float("nan"), float("inf"), -float("inf")])
  assert compare.compare_tensors(x, x.clone())["ok"]
  for i, value in ((0, float("nan")), (1, 1.0), (2, -float("inf")), (2, 3e38), (3, 0.0)):
    y = x.clone()
    y[i] = value
    assert compare.compare_tensors(x, y)["outside"] == 1, (i, value)


def test_shape_dtype_count_and_stride():
  x = torch.zeros(2, 3)
  assert "dtype" in compare.compare_tensors(x, x.half())["reason"]
  assert "shape" in compare.compare_tensors(x, torch.zeros(3, 2))["reason"]
  assert "shape" in compare.compare_tensors(x, torch.zeros(1, 3))["reason"]  # allclose would broadcast
  assert compare.compare_structures((x, x), (x,))[0]["reason"].startswith("1 outputs")
  assert compare.compare_tensors(x, torch.zeros(3, 2).t())["stride_expected"] == [3, 1]
  assert not compare.compare_structures((x, 3), (x, 4))[1]["ok"]
  assert not compare.compare_structures((x, 3), (x, 3.0))[1]["ok"]


def test_alias_relation():
  a, b = torch.zeros(4), torch.zeros(4)
  assert compare.alias_relation([a, b], (a.view(2, 2), b + 1, a[1:])) == ["out0=in0", "out2=in0", "out2=out0"]


def test_large_integers_are_compared_exactly():
  x = torch.tensor([2**60, 2**60 + 1])
  assert compare.compare_tensors(x, x.clone())["bit_equal"]
  got = compare.compare_tensors(x, x + 1)
  assert got["outside"] == 2 and not got["ok"]
  mask = torch.tensor([True, False])
  assert compare.compare_tensors(mask, ~mask)["outside"] == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool])
def test_values_without_dimensions(dtype):
  one, other = torch.tensor(1).to(dtype), torch.tensor(0).to(dtype)
  assert compare.compare_tensors(one, one.clone())["ok"]
  differs = compare.compare_tensors(one, other)
  assert not differs["ok"] and differs["outside"] == 1 and differs["first_bad"]["index"] == []
