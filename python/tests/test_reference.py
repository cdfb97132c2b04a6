"""Array programs written by hand against torch."""

import pytest
import torch

from passnet.worker import reference
from passnet.worker.errors import WorkerError

IV = lambda k: ["iv", k]  # noqa: E731
RV = lambda k: ["rv", k]  # noqa: E731
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def inp(i, shape, dtype="f32"):
  return {"id": i, "kind": "input", "shape": list(shape), "dtype": dtype, "input": i}


def softmax(rows, columns, dtype):
  x = ["cast", ["read", 0, [IV(0), RV(0)]], "f32"]
  return {
    "arrays": [
      inp(0, (rows, columns), dtype),
      {
        "id": 1,
        "kind": "reduce",
        "op": "max",
        "shape": [rows],
        "extents": [columns],
        "dtype": "f32",
        "expr": x,
      },
      {
        "id": 2,
        "kind": "reduce",
        "op": "sum",
        "shape": [rows],
        "extents": [columns],
        "dtype": "f32",
        "expr": ["exp", ["sub", x, ["read", 1, [IV(0)]]]],
      },
      {
        "id": 3,
        "kind": "map",
        "shape": [rows, columns],
        "dtype": dtype,
        "expr": [
          "cast",
          ["div", ["exp", ["sub", ["e", 0], ["read", 1, [IV(0)]]]], ["read", 2, [IV(0)]]],
          dtype,
        ],
      },
    ],
    "exprs": [["cast", ["read", 0, [IV(0), IV(1)]], "f32"]],
    "outputs": [3],
  }


def layer_norm(rows, columns, dtype, eps=1e-5):
  x = ["cast", ["read", 0, [IV(0), RV(0)]], "f32"]
  d = ["sub", x, ["read", 3, [IV(0)]]]
  n = ["c", columns, "f32"]
  centred = ["sub", ["cast", ["read", 0, [IV(0), IV(1)]], "f32"], ["read", 3, [IV(0)]]]
  scale = ["rsqrt", ["add", ["div", ["read", 4, [IV(0)]], n], ["c", eps, "f32"]]]
  w, b = (["cast", ["read", k, [IV(1)]], "f32"] for k in (1, 2))
  return {
    "arrays": [
      inp(0, (rows, columns), dtype),
      inp(1, (columns,), dtype),
      inp(2, (columns,), dtype),
      {
        "id": 5,
        "kind": "reduce",
        "op": "sum",
        "shape": [rows],
        "extents": [columns],
        "dtype": "f32",
        "expr": x,
      },
      {"id": 3, "kind": "map", "shape": [rows], "dtype": "f32", "expr": ["div", ["read", 5, [IV(0)]], n]},
      {
        "id": 4,
        "kind": "reduce",
        "op": "sum",
        "shape": [rows],
        "extents": [columns],
        "dtype": "f32",
        "expr": ["mul", d, d],
      },
      {
        "id": 6,
        "kind": "map",
        "shape": [rows, columns],
        "dtype": dtype,
        "expr": ["cast", ["fma", ["mul", centred, scale], w, b], dtype],
      },
    ],
    "outputs": [6],
  }


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax(dtype):
  x = torch.randn(33, 57).to(DTYPES[dtype]) * 4
  got = reference.evaluate(softmax(33, 57, dtype), [x])[0]
  want = x.double().softmax(-1)
  assert got.dtype == x.dtype
  assert (got.double() - want).abs().max() <= {"f32": 1e-7, "f16": 5e-4, "bf16": 4e-3}[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
def test_layer_norm(dtype):
  t = DTYPES[dtype]
  x, w, b = torch.randn(20, 64).to(t), torch.randn(64).to(t), torch.randn(64).to(t)
  got = reference.evaluate(layer_norm(20, 64, dtype), [x, w, b])[0]
  want = torch.nn.functional.layer_norm(x.double(), (64,), w.double(), b.double(), 1e-5)
  assert (got.double() - want).abs().max() <= {"f32": 2e-6, "f16": 4e-3, "bf16": 4e-2}[dtype]


def test_padding_reads_only_in_the_branch_that_is_taken():
  i = ["sub", IV(0), ["c", 2, "i64"]]
  inside = ["and", ["ge", i, ["c", 0, "i64"]], ["lt", i, ["c", 5, "i64"]]]
  padded = {
    "id": 1,
    "kind": "map",
    "shape": [9],
    "dtype": "f32",
    "expr": ["select", inside, ["read", 0, [i]], ["c", -1.0, "f32"]],
  }
  x = torch.randn(5)
  got = reference.evaluate({"arrays": [inp(0, (5,)), padded], "outputs": [1]}, [x])[0]
  assert torch.equal(got, torch.nn.functional.pad(x, (2, 2), value=-1.0))
  padded["expr"] = ["read", 0, [i]]
  with pytest.raises(WorkerError) as e:
    reference.evaluate({"arrays": [inp(0, (5,)), padded], "outputs": [1]}, [x])
  assert e.value.code == "reference.read"


def test_a_read_shared_by_both_branches_is_judged_where_it_is_used():
  read = ["e", 0]
  low = ["lt", IV(0), ["c", 3, "i64"]]
  array = {
    "id": 1,
    "kind": "map",
    "shape": [5],
    "dtype": "f32",
    "expr": [
      "add",
      ["select", low, read, ["c", 0.0, "f32"]],
      ["select", ["lt", IV(0), ["c", 4, "i64"]], read, ["c", 0.0, "f32"]],
    ],
  }
  program = {"arrays": [inp(0, (3,)), array], "exprs": [["read", 0, [IV(0)]]], "outputs": [1]}
  with pytest.raises(WorkerError):
    reference.evaluate(program, [torch.randn(3)])


def test_argmax_takes_the_first_and_nan_first():
  program = {
    "arrays": [
      inp(0, (3, 4)),
      {
        "id": 1,
        "kind": "reduce",
        "op": "argmax",
        "shape": [3],
        "extents": [4],
        "dtype": "i64",
        "expr": ["read", 0, [IV(0), RV(0)]],
      },
      {
        "id": 2,
        "kind": "reduce",
        "op": "max",
        "shape": [3],
        "extents": [4],
        "dtype": "f32",
        "expr": ["read", 0, [IV(0), RV(0)]],
      },
    ],
    "outputs": [1, 2],
  }
  x = torch.tensor([[1.0, 3.0, 3.0, 2.0], [0.0, float("nan"), 9.0, float("nan")], [-1.0, -1.0, -2.0, -1.0]])
  at, value = reference.evaluate(program, [x])
  assert at.tolist() == [1, 1, 0] and torch.equal(at, x.max(1).indices)
  assert value[0] == 3 and value[1].isnan() and value[2] == -1


def test_gather_and_wide_reduction():
  """Embedding rows summed over two axes at once."""
  program = {
    "arrays": [
      inp(0, (6, 3), "i64"),
      inp(1, (10, 4)),
      {
        "id": 2,
        "kind": "reduce",
        "op": "sum",
        "shape": [],
        "extents": [6, 3, 4],
        "dtype": "f32",
        "expr": ["read", 1, [["read", 0, [RV(0), RV(1)]], RV(2)]],
      },
    ],
    "outputs": [2],
  }
  index, table = torch.randint(0, 10, (6, 3)), torch.randint(-9, 9, (10, 4)).float()
  assert reference.evaluate(program, [index, table])[0] == table[index].sum()


FUNCTIONS = {
  "exp": torch.exp,
  "tanh": torch.tanh,
  "erf": torch.erf,
  "log1p": torch.log1p,
  "expm1": torch.expm1,
  "sin": torch.sin,
  "cos": torch.cos,
  "sqrt": torch.sqrt,
  "rsqrt": torch.rsqrt,
  "floor": torch.floor,
  "rint": torch.round,
  "abs": torch.abs,
  "neg": torch.neg,
  "sign": torch.sign,
  "exp2": torch.exp2,
  "atan": torch.atan,
  "log": torch.log,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
  x = torch.cat([torch.randn(1000) * 5, torch.tensor([0.0, float("inf"), float("-inf")])])
  program = {
    "arrays": [
      inp(0, x.shape),
      {"id": 1, "kind": "map", "shape": list(x.shape), "dtype": "f32", "expr": [name, ["read", 0, [IV(0)]]]},
    ],
    "outputs": [1],
  }
  got, want = reference.evaluate(program, [x])[0], FUNCTIONS[name](x.double()).float()
  differ = ~((got == want) | (got.isnan() & want.isnan()))
  assert int(differ.sum()) <= 1


def test_tf32_is_the_nearest_number_of_eleven_bits_and_ties_go_to_even():
  x = torch.cat([torch.randn(2000) * 100, torch.tensor([1 + 2**-11, 1 + 3 * 2**-11, -(1 + 2**-11), 0.0, float("inf")])])
  program = {
    "arrays": [
      inp(0, x.shape),
      {"id": 1, "kind": "map", "shape": list(x.shape), "dtype": "f32", "expr": ["tf32", ["read", 0, [IV(0)]]]},
    ],
    "outputs": [1],
  }
  got = reference.evaluate(program, [x])[0]
  # Rounding in units of the eleventh bit, by float64's own rounding to nearest even.
  mantissa, exponent = torch.frexp(x.double())
  want = torch.ldexp(torch.round(mantissa * 2**11), exponent - 11).float()
  want = torch.where(x.isinf(), x, want)
  assert torch.equal(got, want)
  nan = reference.evaluate({**program, "arrays": [inp(0, (1,)), {**program["arrays"][1], "shape": [1]}]}, [torch.tensor([float("nan")])])[0]
  assert nan.isnan().all()


@pytest.mark.parametrize(
  "name,function",
  [
    ("floordiv", lambda a, b: a // b),
    ("mod", torch.remainder),
    ("truncdiv", lambda a, b: torch.div(a, b, rounding_mode="trunc")),
  ],
)
def test_integer_division(name, function):
  a, b = torch.arange(-20, 20), torch.tensor([-7, 3, 5, -2] * 10)
  program = {
    "arrays": [
      inp(0, (40,), "i64"),
      inp(1, (40,), "i64"),
      {
        "id": 2,
        "kind": "map",
        "shape": [40],
        "dtype": "i64",
        "expr": [name, ["read", 0, [IV(0)]], ["read", 1, [IV(0)]]],
      },
    ],
    "outputs": [2],
  }
  assert torch.equal(reference.evaluate(program, [a, b])[0], function(a, b))


@pytest.mark.parametrize(
  "source,target",
  [
    ("f32", "i32"),
    ("f32", "bf16"),
    ("f32", "f16"),
    ("i64", "bf16"),
    ("f64", "f16"),
    ("f16", "i64"),
    ("bf16", "bool"),
    ("i64", "u8"),
  ],
)
def test_casts(source, target):
  x = (torch.randn(2000) * 300).to(reference._TORCH[source])
  program = {
    "arrays": [
      inp(0, (2000,), source),
      {
        "id": 1,
        "kind": "map",
        "shape": [2000],
        "dtype": target,
        "expr": ["cast", ["read", 0, [IV(0)]], target],
      },
    ],
    "outputs": [1],
  }
  assert torch.equal(reference.evaluate(program, [x])[0], x.to(reference._TORCH[target]))


def test_fp32_is_rounded_after_every_function():
  """x * x + y in two roundings differs from the fused form."""
  x, y = torch.rand(4000), -torch.rand(4000)
  arrays = [inp(0, (4000,)), inp(1, (4000,))]
  square = ["mul", ["read", 0, [IV(0)]], ["read", 0, [IV(0)]]]
  two = {
    "id": 2,
    "kind": "map",
    "shape": [4000],
    "dtype": "f32",
    "expr": ["add", square, ["read", 1, [IV(0)]]],
  }
  one = {
    "id": 3,
    "kind": "map",
    "shape": [4000],
    "dtype": "f32",
    "expr": ["fma", ["read", 0, [IV(0)]], ["read", 0, [IV(0)]], ["read", 1, [IV(0)]]],
  }
  a, b = reference.evaluate({"arrays": arrays + [two, one], "outputs": [2, 3]}, [x, y])
  assert torch.equal(a, x * x + y) and not torch.equal(a, b)


def test_points_agree_with_the_whole(monkeypatch):
  x = torch.randn(300, 70)
  program = softmax(300, 70, "f32")
  whole = reference.evaluate(program, [x])[0]
  monkeypatch.setattr(reference, "WHOLE_LIMIT", 10)
  monkeypatch.setattr(reference, "CHUNK", 512)
  points = torch.randint(0, whole.numel(), (500,))
  got = reference.evaluate_points(program, [x], 0, points.numpy())
  assert torch.equal(got, whole.reshape(-1)[points])
  right = reference.compare_output(program, 0, [x], whole.clone(), points=64)
  assert right["ok"] and "at" in right["reference"]
  bad = whole.clone()
  bad[150:152] += 1e-3
  wrong = reference.compare_output(program, 0, [x], bad, points=4096)
  assert not wrong["ok"] and wrong["first_bad"]["index"][0] in (150, 151)


def test_an_output_of_another_shape_or_dtype_is_refused():
  x = torch.randn(4, 5)
  program = softmax(4, 5, "f32")
  assert (
    "shape" in str(reference.compare_output(program, 0, [x], torch.zeros(5, 4)))
    or not reference.compare_output(program, 0, [x], torch.zeros(5, 4))["ok"]
  )
  assert not reference.compare_output(program, 0, [x], torch.zeros(4, 5, dtype=torch.float16))["ok"]
  with pytest.raises(WorkerError, match="the program is for"):
    reference.evaluate(program, [x.half()])
