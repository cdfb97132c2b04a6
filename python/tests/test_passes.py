"""Loading, tracing, matching and rewriting."""

import inspect
import json
import operator
import os
import shutil

import pytest
import torch

from passnet.worker import interpreter, pass_loader, pass_manager, poison, tracer
from passnet.worker.errors import WorkerError

F = torch.nn.functional


def captured(function, *inputs):
  torch._dynamo.reset()
  found = []
  torch.compile(function, backend=lambda gm, _: found.append(gm) or gm.forward)(*inputs)
  return found[0]


def a_pass(pattern, replacement_args=None, function=None, name="P"):
  return pass_loader.LoadedPass(
    name, None, pattern, replacement_args or (lambda *a: a), function or (lambda *a: a[0])
  )


def hand_built(names, build):
  g = torch.fx.Graph()
  g.output(build(g, *(g.placeholder(n) for n in names)))
  m = torch.fx.GraphModule({}, g, "P")
  m.__signature__ = inspect.Signature(
    [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names]
  )
  return m


def apply(gm, loaded):
  return pass_manager.apply_pass(gm, loaded, lambda *a: loaded.function(*a))


def wrapped(function):
  function.__name__ = function.__qualname__ = "wrapped"
  return function


# -- tracing
def test_tracing_writes_python_functions_positionally_and_leaves_the_rest():
  def pattern(x, w):
    a = F.relu(x, inplace=True)
    b = F.layer_norm(a, (4,), w)
    c = torch.conv2d(b, w, stride=(1, 1))
    return c.sum(dim=1, keepdim=True)

  nodes = {n.name: n for n in tracer.pattern_graph(pattern).nodes}
  assert nodes["relu"].args[1:] == (True,) and nodes["relu"].kwargs == {}
  assert nodes["layer_norm"].args[3:] == (None, 1e-5) and len(nodes["layer_norm"].args) == 5
  assert nodes["conv2d"].kwargs == {"stride": (1, 1)}  # C-bound: no signature
  assert nodes["sum_1"].op == "call_method" and nodes["sum_1"].kwargs == {"dim": 1, "keepdim": True}


def test_a_bare_graph_has_no_signature():
  g = torch.fx.Graph()
  g.output(g.placeholder("x"))
  with pytest.raises(WorkerError, match="no signature"):
    tracer.parameter_names(g)


# -- matching
def test_keyword_forms_match_by_hand_and_not_by_callable():
  model = lambda x, y: F.relu(x * y, inplace=True) + 1  # noqa: E731
  x, y = torch.randn(3), torch.randn(3)  # two placeholders never bind one node
  gm = captured(model, x, y)
  assert apply(gm, a_pass(lambda x, y: F.relu(x * y, inplace=True)))["matches"] == []
  pattern = hand_built(
    ("x", "y"),
    lambda g, x, y: g.call_function(F.relu, (g.call_function(operator.mul, (x, y)),), {"inplace": True}),
  )
  record = apply(gm, a_pass(pattern, function=wrapped(lambda x, y: torch.zeros(3))))
  assert len(record["matches"]) == 1 and len(record["matches"][0]["nodes"]) == 2
  assert torch.equal(gm(x, y)[0], torch.ones(3))


def test_devices_of_a_pattern_are_taken_for_that_of_the_run():
  model = lambda x: x + torch.zeros(3, device=torch.device("cpu"))  # noqa: E731

  def a_pass_of(index):
    pattern = hand_built(
      ("x",),
      lambda g, x: g.call_function(
        operator.add, (x, g.call_function(torch.zeros, (3,), {"device": torch.device("cuda", index)}))
      ),
    )
    return a_pass(pattern, function=wrapped(lambda x: x))

  gm = captured(model, torch.randn(3))
  assert apply(gm, a_pass_of(0))["matches"] == []
  record = pass_manager.apply_pass(gm, a_pass_of(0), wrapped(lambda x: x), "cpu")
  assert len(record["matches"]) == 1 and record["devices_moved"] == 1


def test_a_callable_matches_c_bound_functions_and_methods_as_written():
  model = lambda x: torch.sigmoid(x).permute(1, 0).contiguous()  # noqa: E731
  gm = captured(model, torch.randn(2, 3))
  assert apply(gm, a_pass(lambda x: torch.sigmoid(x).permute(0, 1)))["matches"] == []
  assert len(apply(gm, a_pass(lambda x: torch.sigmoid(x).permute(1, 0)))["matches"]) == 1


def test_a_placeholder_binds_a_literal_and_the_wrapper_gets_it():
  seen = []
  model = lambda x: x.permute(0, 2, 1).contiguous()  # noqa: E731
  x = torch.randn(2, 3, 4)
  gm = captured(model, x)
  pattern = hand_built(
    ("x", "c"), lambda g, x, c: g.call_method("contiguous", (g.call_method("permute", (x, 0, c, 1)),))
  )
  record = apply(
    gm, a_pass(pattern, lambda x, c: (x, c, "route"), wrapped(lambda *a: seen.append(a[1:]) or a[0]))
  )
  assert record["matches"][0]["placeholders"]["c"] == 2
  gm(x)
  assert seen == [(2, "route")]


def test_an_inner_value_used_outside_blocks_the_match():
  def model(x):
    a = x * 2
    return a + 1, a

  assert apply(captured(model, torch.randn(3)), a_pass(lambda x: x * 2 + 1))["matches"] == []


def test_every_disjoint_match_is_replaced_and_later_passes_see_the_result():
  model = lambda x: ((x * 2 + 1) * 2 + 1) * 3  # noqa: E731
  x = torch.randn(4)
  gm = captured(model, x)
  record = apply(gm, a_pass(lambda x: x * 2 + 1, function=wrapped(lambda x: x * 10)))
  assert len(record["matches"]) == 2
  # A later match whose input was itself replaced is fed the replacement.
  assert torch.allclose(gm(x)[0], x * 300)
  again = apply(gm, a_pass(lambda x: x * 3, function=wrapped(lambda x: x * 0)))
  assert len(again["matches"]) == 1 and torch.equal(gm(x)[0], x * 0)


def test_two_outputs_are_refused_as_in_public():
  def pattern(x):
    return x * 2, x + 1

  def model(x):
    return (x * 2).sin() + (x + 1).cos()

  with pytest.raises(AssertionError, match="one value only"):
    apply(captured(model, torch.randn(3)), a_pass(pattern))


def test_the_replacement_stands_before_the_first_user():
  def model(x, y):
    a = x * 2
    y += 1
    return a + y

  gm = captured(model, torch.ones(2), torch.ones(2))
  apply(gm, a_pass(lambda x: x * 2, function=wrapped(lambda x: x * 2)))
  order = [n.name for n in gm.graph.nodes if n.op == "call_function"]
  assert (
    order.index("wrapped" if "wrapped" in order else [n for n in order if n not in ("add", "iadd", "y")][0])
    > 0
  )
  assert [n.op for n in gm.graph.nodes][-1] == "output" and torch.equal(
    gm(torch.ones(2), torch.ones(2))[0], torch.full((2,), 4.0)
  )


# -- the backend
def test_no_match_in_any_graph_fails_with_the_public_words():
  backend = pass_manager.PassBackend(pass_loader.PassSet([a_pass(lambda x: torch.cosh(x))]))
  torch._dynamo.reset()
  with pytest.raises(Exception, match=r"\[PassMgrBackend\] No passes modified the graph\."):
    torch.compile(lambda x: x + 1, backend=backend)(torch.randn(3))
  assert backend.records == [{"passes": [{"pass": "P", "matches": []}], "modified": False}]


def test_each_piece_of_a_broken_graph_must_match():
  def model(x):
    y = x * 2
    torch._dynamo.graph_break()
    return torch.sin(y)

  backend = pass_manager.PassBackend(
    pass_loader.PassSet([a_pass(lambda x: x * 2, function=wrapped(lambda x: torch.empty_like(x)))])
  )
  torch._dynamo.reset()
  with pytest.raises(Exception, match="No passes modified"):
    torch.compile(model, backend=backend)(torch.randn(3))
  assert [r["modified"] for r in backend.records] == [True, False]


# -- the guard
ALLOWED = {
  "empty_like": lambda x: torch.empty_like(x),
  "zeros_like": torch.zeros_like,
  "ones_like": torch.ones_like,
  "full_like": lambda x: torch.full_like(x, 2),
  "empty": lambda x: torch.empty(x.shape, dtype=x.dtype, device=x.device),
  "as_tensor": lambda x: torch.as_tensor(x),
  "to": lambda x: x.to(torch.float16),
  "metadata": lambda x: (
    x.shape,
    x.stride(),
    x.numel(),
    x.dim(),
    x.dtype,
    x.device,
    x.data_ptr(),
    x.is_contiguous(),
    x.size(0),
    x.get_device(),
  ),
}
FORBIDDEN = {
  "add": lambda x: x + 1,
  "view": lambda x: x.view(-1),
  "contiguous of a transpose": lambda x: x.t().contiguous(),
  "matmul": lambda x: x @ x,
  "fill_": lambda x: x.fill_(0),
  "copy_": lambda x: torch.empty_like(x).copy_(x),
  "clone": lambda x: x.clone(),
  "index": lambda x: x[0],
  "detach": lambda x: x.detach(),
  "relu": lambda x: F.relu(x),
  "item": lambda x: x.sum().item(),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_allocation_and_metadata_are_allowed(name):
  poison.clear_violations()
  x = torch.randn(3, 3)
  out = poison.guarded_call(lambda x: ALLOWED[name](x), (x,))
  if isinstance(out, torch.Tensor):
    assert type(out) is torch.Tensor
  assert poison.violations == []


@pytest.mark.parametrize("name", FORBIDDEN)
def test_everything_else_is_refused_and_latched(name):
  poison.clear_violations()
  with pytest.raises(RuntimeError, match="Unauthorized Operator"):
    poison.guarded_call(lambda x: FORBIDDEN[name](x), (torch.randn(3, 3),))

  def swallowing(x):
    try:
      return FORBIDDEN[name](x)
    except RuntimeError:
      return torch.empty_like(x)

  poison.clear_violations()
  poison.guarded_call(swallowing, (torch.randn(3, 3),))
  assert poison.violations


def test_empty_like_drops_its_dtype_under_the_guard_as_in_public():
  out = poison.guarded_call(lambda x: torch.empty_like(x, dtype=torch.float64), (torch.randn(3),))
  assert out.dtype == torch.float32


def test_storage_is_shared_and_lists_stay_plain():
  x = torch.randn(4)
  seen = {}
  out = poison.guarded_call(
    lambda a, rest: seen.update(kind=type(rest[0]).__name__, top=type(a).__name__, p=a.data_ptr()) or a,
    (x, [x]),
  )
  assert seen == {"kind": "Tensor", "top": "PosionDispatchTensor", "p": x.data_ptr()}
  assert type(out) is torch.Tensor and out.data_ptr() == x.data_ptr()


# -- loading
def write(directory, names, **files):
  directory.mkdir(exist_ok=True)
  (directory / "sorted_output_pass_rule_names.json").write_text(json.dumps(names))
  for name, text in files.items():
    (directory / f"{name}.py").write_text(text)
  return str(directory)


SHARED = "def wrapper(*a):\n  return a[0]\ndef other(*a):\n  return a[0]\n"


def plain_pass(function="wrapper", pattern="x * 2"):
  return (
    f"from pass_dir._shared_kernels import {function}\ndef pattern(x):\n  return {pattern}\ndef replacement_args(x):\n  return (x,)\n"
    f"def replacement_func():\n  return {function}\n"
  )


def load(directory, **keywords):
  with interpreter.driver_without_device(), pass_loader.imported_as_pass_dir(directory):
    return pass_loader.load(directory, **keywords)


def test_order_limits_and_refusals(tmp_path):
  d = write(
    tmp_path / "state_7",
    ["B", "A", "C"],
    _shared_kernels=SHARED,
    A=plain_pass(),
    B=plain_pass(),
    C=plain_pass(),
  )
  found = load(d, rejected={"C": ["Line 3: blocked call"]})
  assert [p.name for p in found.passes] == ["B", "A"]
  assert found.skipped == [{"name": "C", "reason": "source rules: Line 3: blocked call"}]
  assert found.passes[0].function is found.passes[1].function


def test_a_second_replacement_function_drops_passes_with_a_reason(tmp_path):
  d = write(tmp_path / "p", ["A", "B"], _shared_kernels=SHARED, A=plain_pass(), B=plain_pass("other"))
  found = load(d)
  assert (
    len(found.passes) == 1 and found.skipped[0]["reason"] == "dropped by the limit of 1 replacement functions"
  )


@pytest.mark.parametrize(
  "names,files,code",
  [
    (["A"], {}, "pass_missing"),
    ([], {}, "no_passes"),
    (["A"], {"A": "x = 1\n"}, "pass_contract"),
    (["A"], {"A": "import nothing_of_that_name\n"}, "pass_import"),
    (["A"], {"A": plain_pass().replace("return wrapper", "return lambda x: x")}, "unstable_replacement_func"),
  ],
)
def test_bad_pass_dirs_say_what_is_wrong(tmp_path, names, files, code):
  d = write(tmp_path / "p", names, _shared_kernels=SHARED, **files)
  with pytest.raises(WorkerError) as e:
    load(d)
  assert e.value.code == code and e.value.remedy


def test_the_manifest_must_be_a_list(tmp_path):
  d = write(tmp_path / "p", {"A": 1})
  with pytest.raises(WorkerError) as e:
    load(d)
  assert e.value.code == "manifest_kind"


def test_input_passes_run_first_and_may_be_replaced_and_reordered(tmp_path):
  const = write(tmp_path / "const", [], I=plain_pass(), J=plain_pass())
  with open(os.path.join(const, "sorted_input_pass_rule_names.json"), "w") as f:
    json.dump(["I", "J"], f)
  d = write(tmp_path / "p", ["J", "Z"], _shared_kernels=SHARED, J=plain_pass(pattern="x * 5"), Z=plain_pass())
  found = load(d, const_dir=const)
  assert [p.name for p in found.passes] == ["I", "J", "Z"] and found.passes[1].module.__file__.startswith(d)
  with open(os.path.join(d, "sorted_input_pass_rule_names.json"), "w") as f:
    json.dump(["J", "I"], f)
  assert [p.name for p in load(d, const_dir=const).passes] == ["J", "I", "Z"]
  with open(os.path.join(d, "sorted_input_pass_rule_names.json"), "w") as f:
    json.dump(["J"], f)
  with pytest.raises(WorkerError, match="only reorder"):
    load(d, const_dir=const)


def test_a_planted_pyc_is_never_run_and_two_states_do_not_mix(tmp_path):
  import py_compile

  d = write(tmp_path / "p", ["A"], _shared_kernels=SHARED, A=plain_pass())
  shared = os.path.join(d, "_shared_kernels.py")
  evil = tmp_path / "evil.py"
  evil.write_text(SHARED.replace("return a[0]", "return 666"))
  stamp = os.stat(shared)
  os.utime(evil, (stamp.st_mtime, stamp.st_mtime))
  cache = os.path.join(d, "__pycache__")
  os.makedirs(cache)
  import importlib.util

  py_compile.compile(
    str(evil),
    cfile=importlib.util.cache_from_source(shared),
    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
  )
  assert load(d).passes[0].function(5) == 5
  other = str(tmp_path / "q")
  shutil.copytree(d, other)
  with open(os.path.join(other, "_shared_kernels.py"), "w") as f:
    f.write(SHARED.replace("return a[0]", "return 77"))
  assert load(other).passes[0].function(5) == 77
  assert load(d).passes[0].function(5) == 5


def test_custom_checkers_of_the_environment(tmp_path, monkeypatch):
  d = write(
    tmp_path / "p", ["A", "B"], _shared_kernels=SHARED, A=plain_pass(), B=plain_pass() + "# forbidden word\n"
  )
  checker = tmp_path / "checker.py"
  checker.write_text(
    "def validate_pass_source(source):\n  return ['no such word'] if 'forbidden' in source else []\n"
  )
  monkeypatch.setenv("PASSNET_CUSTOM_PASS_SOURCE_CHECKER_PATH", f"/nowhere.py:{checker}")
  found = load(d)
  assert [p.name for p in found.passes] == ["A"] and "no such word" in found.skipped[0]["reason"]
