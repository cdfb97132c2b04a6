"""The evaluations that say what arithmetic determines."""

import numpy as np
import torch

from passnet.worker import reference, undetermined

IV = lambda k: ["iv", k]  # noqa: E731


def inp(k, shape, dtype="f32"):
  return {"id": k, "kind": "input", "input": k, "shape": list(shape), "dtype": dtype}


def mapped(k, shape, expr, dtype="f32"):
  return {"id": k, "kind": "map", "shape": list(shape), "dtype": dtype, "expr": expr}


def folded(k, shape, extents, expr, op="sum", dtype="f32"):
  array = {"id": k, "kind": "reduce", "shape": list(shape), "extents": list(extents)}
  return {**array, "dtype": dtype, "op": op, "expr": expr}


def read(k, *at):
  return ["read", k, [IV(0), *at]]


def real(value):
  return ["c", float(np.float32(value)), "f32"]


def unary(function, n, source="f32"):
  value = mapped(1, (n,), [function, ["cast", read(0), "f32"]])
  return {"arrays": [inp(0, (n,), source), value], "outputs": [1]}


def decided(program, tensors, errors, value):
  return undetermined.outputs(program, tensors, errors)[0].undetermined(value)


def test_exact_values_are_never_moved():
  """Sums of integers, floors of them and comparisons: determined whatever the order."""
  x = torch.arange(64, dtype=torch.float32).reshape(8, 8)
  total = folded(1, (8,), (8,), read(0, ["rv", 0]))
  quarter = mapped(2, (8,), ["floor", ["div", read(1), real(4)]])
  program = {"arrays": [inp(0, (8, 8)), total, quarter], "outputs": [2]}
  expected = reference.evaluate(program, [x])[0]
  for errors in (undetermined.KERNEL, undetermined.EAGER):
    seen = undetermined.outputs(program, [x], errors)[0]
    assert np.array_equal(seen.low, seen.high)
    assert not seen.undetermined(expected + 1).any()


def test_a_floor_at_an_integer_is_undetermined():
  """The mean of numbers whose sum rounds, divided by one of them."""
  x = torch.full((4, 6), 0.3)
  total = folded(1, (4,), (6,), read(0, ["rv", 0]))
  mean = mapped(2, (4,), ["div", read(1), real(6)])
  floor = mapped(3, (4,), ["floor", ["div", read(2), real(0.3)]])
  program = {"arrays": [inp(0, (4, 6)), total, mean, floor], "outputs": [3]}
  for value, possible in ((0.0, True), (1.0, True), (30.0, False), (float("nan"), False)):
    assert bool(decided(program, [x], undetermined.KERNEL, torch.full((4,), value)).all()) == possible, value


def test_a_pole_is_undetermined_only_close_to_it():
  x = torch.tensor([0.5, 1.2, 4.8e10, float(np.float32(np.pi / 2))])
  got = decided(unary("tan", 4), [x], undetermined.EAGER, torch.tan(x.double()).float() * 1.0001)
  assert got.tolist() == [False, False, False, False]  # the argument is exact: one value is right
  moved = {"arrays": [inp(0, (4,)), mapped(1, (4,), ["tan", ["mul", read(0), real(1.1)]])], "outputs": [1]}
  got = decided(moved, [x / np.float32(1.1)], undetermined.EAGER, torch.tan(x.double()).float())
  assert got.tolist() == [False, False, True, True]


def test_last_places_alone_are_within_the_tolerance():
  x = torch.rand(200) + 0.5
  for errors in (undetermined.KERNEL, undetermined.EAGER):
    assert not decided(unary("exp", 200), [x], errors, torch.exp(x)).any()
    assert not decided(unary("exp", 200), [x], errors, torch.exp(x) * 1.001).any()


def test_the_signs_of_zeros_are_an_eagers_own():
  """atan2(0, -0) is pi: with zeros out of a branch, anything of four values."""
  x = torch.tensor([0.0, 1.0])
  zero = mapped(1, (2,), ["select", ["lt", read(0), real(0.5)], real(0), read(0)])
  angle = mapped(2, (2,), ["atan2", read(1), read(1)])
  program = {"arrays": [inp(0, (2,)), zero, angle], "outputs": [2]}
  value = torch.tensor([-np.pi, np.pi / 4], dtype=torch.float32)
  assert decided(program, [x], undetermined.EAGER, value).tolist() == [True, False]
  assert not decided(program, [x], undetermined.KERNEL, value).any()


def test_the_sign_of_nan_is_nobodys():
  x, y = torch.full((8,), -1.0), torch.arange(1.0, 9.0)
  logarithm = mapped(2, (8,), ["log2", read(0)])
  signed = mapped(3, (8,), ["copysign", read(1), read(2)])
  program = {"arrays": [inp(0, (8,)), inp(1, (8,)), logarithm, signed], "outputs": [3]}
  assert decided(program, [x, y], undetermined.KERNEL, y).all()
  assert decided(program, [x, y], undetermined.KERNEL, -y).all()
  assert not decided(program, [x, y], undetermined.KERNEL, y * 100).any()


def test_a_16_bit_type_may_round_within_an_operator():
  """x - alpha * y near 0: with alpha as bfloat16 another number, within the 16-bit places of the operands."""
  x, y = torch.full((1,), 0.7), torch.full((1,), 1.0)
  x, y = x.bfloat16(), y.bfloat16()
  product = ["mul", ["cast", read(1), "f32"], real(0.7)]
  value = mapped(2, (1,), ["cast", ["sub", ["cast", read(0), "f32"], product], "bf16"], "bf16")
  program = {"arrays": [inp(0, (1,), "bf16"), inp(1, (1,), "bf16"), value], "outputs": [2]}
  ours = reference.evaluate(program, [x, y])[0]
  cpu = torch.sub(x, y, alpha=0.7)
  assert float(ours) != float(cpu)
  assert decided(program, [x, y], undetermined.EAGER, cpu).all()
  assert not decided(program, [x, y], undetermined.KERNEL, cpu).any()
  assert not decided(program, [x, y], undetermined.EAGER, torch.full((1,), 0.5).bfloat16()).any()


def test_sums_exactly():
  rows = np.array([[1, 2, 3], [0.1, 0.2, 0.3], [2**24, 1, 0], [0, 0, 0], [np.inf, 1, 1]], dtype=np.float32)
  assert undetermined.sums_exactly(rows).tolist() == [True, False, False, True, False]


def test_what_fits_no_integer_has_no_value():
  x = torch.tensor([float("nan"), 3.5, 1e30])
  program = {"arrays": [inp(0, (3,)), mapped(1, (3,), ["cast", read(0), "i64"], "i64")], "outputs": [1]}
  low = torch.full((3,), torch.iinfo(torch.int64).min)
  assert decided(program, [x], undetermined.EAGER, low).tolist() == [True, False, True]
  assert not decided(program, [x], undetermined.KERNEL, low).any()


def test_another_eager_may_not_round_to_tf32():
  x, y = torch.rand(8) + 1, torch.rand(8) + 1
  product = mapped(2, (8,), ["mul", ["tf32", read(0)], ["tf32", read(1)]])
  program = {"arrays": [inp(0, (8,)), inp(1, (8,)), product], "outputs": [2]}
  rounded, cpu = reference.evaluate(program, [x, y])[0], x * y
  differs = ((rounded - cpu).abs() > 1e-5 + 1.3e-6 * cpu.abs()).numpy()
  assert differs.sum() > 3
  assert decided(program, [x, y], undetermined.EAGER, cpu)[differs].all()
  assert not decided(program, [x, y], undetermined.KERNEL, cpu).any()
  assert not decided(program, [x, y], undetermined.EAGER, cpu * 1.1).any()
