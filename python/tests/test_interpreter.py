import kernels
import numpy as np
import pytest
import torch
import triton

from passnet.worker import interpreter, numeric, poison

N, B = 3001, 256


@pytest.fixture
def session():
  with interpreter.Session() as s:
    yield s


def special(dtype):
  g = torch.Generator().manual_seed(1)
  x = torch.randn(N, generator=g) * 3
  x[:12] = torch.tensor(
    [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-30, -1e-30, 88.0, -88.0, 0.5, 1.5, 2.5]
  )
  return x.to(dtype)


def grid(n=N, b=B):
  return (triton.cdiv(n, b),)


# Each is compared with torch in fp64, rounded once to fp32: bit for bit.
UNARY = {
  "exp": torch.exp,
  "tl_exp": torch.exp,
  "log": torch.log,
  "tanh": torch.tanh,
  "erf": torch.erf,
  "tl_erf": torch.erf,
  "sin": torch.sin,
  "cos": torch.cos,
  "rsqrt": torch.rsqrt,
  "expm1": torch.expm1,
  "log1p": torch.log1p,
  "sqrt_rn": torch.sqrt,
  "rint": torch.round,
  "floor": torch.floor,
  "trunc": torch.trunc,
  "abs": torch.abs,
  "isnan": lambda x: x.isnan().double(),
}


def same(a, b, ulps=0):
  if ulps:
    return bool(
      (
        ((a.double() - b.double()).abs() <= ulps * 2**-23 * b.double().abs() + 1e-45)
        | (a == b)
        | (a.isnan() & b.isnan())
      ).all()
    )
  return bool(((a == b) | (a.isnan() & b.isnan())).all())


@pytest.mark.parametrize("name", UNARY)
def test_unary_functions_are_exact(session, name):
  x = special(torch.float32)
  o = torch.empty_like(x)
  kernels.unary[grid()](x, o, N, NAME=name, B=B)
  want = UNARY[name](x.double()).float()
  # numpy's and torch's fp64 functions may differ in their last bit, which one rounding nearly always hides.
  assert int((~((o == want) | (o.isnan() & want.isnan()))).sum()) <= 2 and same(o, want, ulps=1)


def test_the_guard_sees_no_operator_that_a_kernel_is_computed_with(session):
  def wrapper(x):
    o = torch.empty_like(x)
    kernels.unary[grid()](x, o, N, NAME="erf", B=B)
    return o

  poison.clear_violations()
  x = special(torch.float32)
  assert same(poison.guarded_call(wrapper, (x,)), torch.erf(x.double()).float(), ulps=1)
  assert not poison.violations


@pytest.mark.parametrize(
  "name,function",
  [
    ("add", torch.add),
    ("sub", torch.sub),
    ("mul", torch.mul),
    ("max_nan", torch.maximum),
    ("max", torch.fmax),
  ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_arithmetic_rounds_in_its_own_dtype(session, name, function, dtype):
  x, y = special(dtype), special(dtype).flip(0)
  o = torch.empty_like(x)
  kernels.binary[grid()](x, y, o, N, NAME=name, B=B)
  assert same(o, function(x, y))


@pytest.mark.parametrize("name", ["div_rn", "lib_div_rn", "pow", "fma", "lib_fma"])
def test_rounded_once(session, name):
  x, y = special(torch.float32).abs(), special(torch.float32).flip(0)
  o = torch.empty_like(x)
  kernels.binary[grid()](x, y, o, N, NAME=name, B=B)
  if "fma" in name:
    with np.errstate(all="ignore"):
      wide = (x.numpy().astype(np.longdouble) * y.numpy() + x.numpy()).astype(np.float32)
    want = torch.from_numpy(wide)
  else:
    want = (torch.pow if name == "pow" else torch.div)(x.double(), y.double()).float()
  assert same(o, want)


def test_fma_rounds_a_halfway_case_once():
  # 1 + 2^-23 times 1 + 2^-23 is 1 + 2^-22 + 2^-46; minus 2^-24 the tie is broken by the last bit only.
  x = np.array([1 + 2.0**-23], dtype=np.float32)
  z = np.array([2.0**-24 + 2.0**-60], dtype=np.float32)
  import fractions

  exact = fractions.Fraction(float(x[0])) ** 2 + fractions.Fraction(float(z[0]))
  got = numeric.fma(x, x, z)[0]
  neighbours = [np.nextafter(got, np.float32(0)), got, np.nextafter(got, np.float32(2))]
  assert min(neighbours, key=lambda c: abs(fractions.Fraction(float(c)) - exact)) == got


@pytest.mark.parametrize(
  "name,function",
  [
    ("div_int", lambda a, b: torch.div(a, b, rounding_mode="trunc")),
    ("mod_int", torch.fmod),
    ("less", lambda a, b: (a < b).to(torch.int32)),
    ("shift", lambda a, b: a >> (b & 7)),
  ],
)
def test_integers_are_c_integers(session, name, function):
  g = torch.Generator().manual_seed(2)
  x = torch.randint(-1000, 1000, (N,), generator=g, dtype=torch.int32)
  y = torch.randint(1, 50, (N,), generator=g, dtype=torch.int32) * torch.where(
    torch.rand(N, generator=g) > 0.5, 1, -1
  ).to(torch.int32)
  o = torch.empty_like(x)
  kernels.binary[grid()](x, y, o, N, NAME=name, B=B)
  assert torch.equal(o, function(x, y).to(torch.int32))


@pytest.mark.parametrize("source", [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64])
@pytest.mark.parametrize("target", [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64])
def test_casts_as_torch(session, source, target):
  x = special(torch.float32)
  if not source.is_floating_point or not target.is_floating_point:
    x = torch.where(x.isfinite() & (x.abs() < 1e6), x, 3.7) * 100
  x = x.to(source)
  o = torch.empty(N, dtype=target)
  kernels.cast[grid()](x, o, N, B=B)
  assert same(o, x.to(target))


def test_every_bf16_pattern_survives():
  bits = np.arange(65536, dtype=np.uint16)
  back = numeric.f32_to_bf16(numeric.bf16_to_f32(bits))
  nan = np.isnan(numeric.bf16_to_f32(bits))
  assert (back[~nan] == bits[~nan]).all() and np.isnan(numeric.bf16_to_f32(back[nan])).all()
  x = np.concatenate(
    [
      np.random.RandomState(0).randn(4096).astype(np.float32),
      np.array([1.00390625, 1.01171875, 3.3961775e38], np.float32),
    ]
  )
  assert (numeric.f32_to_bf16(x) == torch.from_numpy(x).to(torch.bfloat16).view(torch.uint16).numpy()).all()


def test_reductions_scans_and_device_functions(session):
  rows, columns = 37, 100
  x = torch.randint(-5, 6, (rows, columns)).float()
  s, mx, am, cs = (
    torch.empty(rows),
    torch.empty(rows),
    torch.empty(rows, dtype=torch.int32),
    torch.empty(rows, columns),
  )
  kernels.rows[(rows,)](x, s, mx, am, cs, rows, C=columns, B=128)
  assert torch.equal(s, x.sum(1)) and torch.equal(mx, x.max(1).values)
  first = torch.tensor([int((r == r.max()).nonzero()[0]) for r in x])
  assert torch.equal(am.long(), first)
  assert torch.equal(cs, (x * 2 + 1).cumsum(1))


def test_tiles_and_transposes(session):
  x = torch.randn(45, 70)
  o = torch.empty(70, 45)
  kernels.tile[(3, 5)](x, o, 45, 70, BM=16, BN=16)
  assert torch.equal(o, x.t())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_dot(session, dtype):
  a, b = torch.randn(40, 50).to(dtype), torch.randn(50, 33).to(dtype)
  o = torch.empty(40, 33, dtype=dtype)
  kernels.matmul[(3, 3)](a, b, o, M=40, N=33, K=50, BM=16, BN=16, BK=32)
  want = a.double() @ b.double()
  assert (o.double() - want).abs().max() <= {torch.float32: 1e-5, torch.float16: 2e-2, torch.bfloat16: 2e-1}[
    dtype
  ]


def test_batches_with_diverging_control_flow_run_one_by_one(session):
  o = torch.zeros(12 * 16)
  kernels.branches[(12,)](o, o, 12, B=16)
  want = torch.tensor([1.0 + (10 if p % 3 == 0 else 0) + 100 * p for p in range(12)]).repeat_interleave(16)
  assert torch.equal(o, want)


def test_accesses_outside_a_tensor_are_errors_with_the_place(session):
  # The result lies in memory of its own: beside the input it would be what the kernel reads by mistake.
  x, o = torch.zeros(100), torch.zeros(1 << 20)[:256]
  with pytest.raises(interpreter.KernelError) as e:
    kernels.unmasked[(1,)](x, o, B=256)
  assert (
    "unmasked" in str(e.value)
    and "load outside every tensor: 156 of 256" in str(e.value)
    and "400 bytes" in str(e.value)
  )
  assert torch.equal(o, torch.zeros(256))


def test_atomics(session):
  o = torch.zeros(8, dtype=torch.int32)
  kernels.count[(50,)](o, B=8)
  assert torch.equal(o, torch.full((8,), 50, dtype=torch.int32))


def test_autotuned_kernels_take_their_first_configuration(session):
  x = torch.randn(1000)
  o = torch.empty_like(x)
  kernels.tuned[lambda meta: (triton.cdiv(1000, meta["B"]),)](x, o, 1000)
  assert torch.equal(o, x * 2) and session.launches[-1]["grid"] == [16, 1, 1]


def test_the_launcher_checks_what_the_entry_was_compiled_for(session):
  x, o = torch.randn(1024), torch.zeros(1024)
  k = kernels.add_one[(4,)](x, o, 1024, B=256)
  x2, o2 = torch.randn(1024), torch.zeros(1024)
  launch = (0, k.function, k.packed_metadata, None, None, None)
  k.run(
    4, 1, 1, *launch, x2.data_ptr(), o2.data_ptr(), 1024, 999
  )  # constants are compiled in: 999 has no effect
  assert torch.equal(o2, x2 + 1) and session.launches[-1]["fast"]
  with pytest.raises(interpreter.KernelError, match="compiled as 16-byte aligned"):
    k.run(3, 1, 1, *launch, x2[1:].data_ptr(), o2.data_ptr(), 1024, 256)
  with pytest.raises(interpreter.KernelError, match="multiple of 16"):
    k.run(4, 1, 1, *launch, x2.data_ptr(), o2.data_ptr(), 1000, 256)
  with pytest.raises(interpreter.KernelError, match="takes 4 arguments, got 3"):
    k.run(4, 1, 1, *launch, x2.data_ptr(), o2.data_ptr(), 1024)
  inner = (0, k.function, False, False, None, None, k.packed_metadata, None, None, None)
  o2.zero_()
  k.run.launch(4, 1, 1, *inner, x2.data_ptr(), o2.data_ptr(), 1024, 256)
  assert torch.equal(o2, x2 + 1)
  with pytest.raises(interpreter.KernelError, match="another kernel's function"):
    k.run(4, 1, 1, 0, object(), *launch[2:], x2.data_ptr(), o2.data_ptr(), 1024, 256)
  one = kernels.add_one[(1,)](x, o, 1, B=16)
  launch = (0, one.function, one.packed_metadata, None, None, None)
  with pytest.raises(interpreter.KernelError, match="compiled as 1"):
    one.run(1, 1, 1, *launch, x2.data_ptr(), o2.data_ptr(), 2, 16)


def test_an_unknown_option_is_refused(session):
  with pytest.raises(KeyError, match="num_wraps"):
    kernels.add_one[(1,)](torch.zeros(4), torch.zeros(4), 4, B=4, num_wraps=4)


def test_a_sample_of_programs_records_what_it_wrote():
  with interpreter.Session(sample=3, seed=5) as s:
    x, o = torch.randn(16 * 64), torch.full((16 * 64,), -7.0)
    kernels.add_one[(16,)](x, o, 16 * 64, B=64)
    written = torch.from_numpy(s.memory.written_mask(o).copy())
    assert int(written.sum()) == 3 * 64 and s.launches[-1]["ran"] == 3
    assert torch.equal(o[written], x[written] + 1) and (o[~written] == -7).all()
    assert int(s.memory.written_mask(o.view(16, 64).t()).sum()) == 3 * 64


def test_everything_is_put_back():
  import triton.language as tl
  from triton.runtime import driver, jit

  before = (
    jit.JITFunction.run,
    jit.JITFunction.__call__,
    tl.load,
    tl.tensor.__add__,
    driver._active,
    "data_ptr" in vars(torch.Tensor),
  )
  with interpreter.Session():
    kernels.add_one[(1,)](torch.zeros(4), torch.zeros(4), 4, B=4)
    assert tl.load is before[2]  # swapped in only while a kernel runs
  assert before == (
    jit.JITFunction.run,
    jit.JITFunction.__call__,
    tl.load,
    tl.tensor.__add__,
    driver._active,
    "data_ptr" in vars(torch.Tensor),
  )
