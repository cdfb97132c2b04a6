"""When a region's outputs are not those of eager on a CPU: is the region wrong, or does a CPU compute otherwise than a GPU?

Three questions take the place of the one comparison, and all three must be answered with yes:

 1. Is every wrapper's output that of the CUDA reference on the same inputs?
 2. Is the CUDA reference what eager gives for the pattern on the same inputs?
 3. With eager's values for the pattern put into the memory that the wrapper returned, does the whole model give what eager
    gives, outputs and written inputs? Here nothing is left of arithmetic: a call at the wrong place, an operand that was
    written too early or too late, a copy where a view was written stay. (What eager gives of the captured graph also
    counts: dynamo takes addcdiv with a value apart, and the parts round, whatever the backend.)

In 1 and 2 an element may differ only if it is undetermined (passnet.worker.undetermined): moved by no more than the errors
of the steps it is computed in, the reference itself leaves the tolerance there.
"""

import numpy as np
import torch

from passnet.worker import compare, numeric, pass_manager, reference, smoke, tracer, undetermined


def eager_of(loaded, args):
  """What the pattern of a pass gives on the arguments of its wrapper (all placeholders in order, then the route)."""
  graph = tracer.pattern_graph(loaded.pattern)
  pass_manager.move_devices(graph, "cpu")
  holders = [n for n in graph.nodes if n.op == "placeholder"]
  if len(holders) != len(args) - 1 or not isinstance(args[-1], str):
    raise AssertionError(f"{loaded.name}: {len(args)} arguments, {len(holders)} placeholders and a route expected")
  return torch.fx.GraphModule(torch.nn.Module(), graph)(*args[:-1])


def _tensors(values):
  return [v for v in values if isinstance(v, torch.Tensor)]


def _finite(t):
  return torch.where(torch.isfinite(t), t, 0).abs().double()


def _numeric(result):
  """A comparison that failed by elements only; structures cannot."""
  return "outside" in result and "first_bad" in result


def outside(expected, got, t):
  """Elements that are not within the tolerance, as compare_tensors has it."""
  e, g = (numeric.to_numpy(x.detach()) for x in (expected, got))
  rtol, atol = compare.tolerance(expected.dtype, t)
  with np.errstate(all="ignore"):
    same = (e == g) | ((e != e) & (g != g))
    difference = np.abs(g.astype(np.float64) - e.astype(np.float64))
    near = np.isfinite(difference) & (difference <= atol + rtol * np.abs(g.astype(np.float64)))
  return ~(same | (near if rtol else False))


class LibraryMoved(torch.fx.Interpreter):
  """A captured graph whose calls are off by what their error may be: which of several routines runs (a matrix product's, a
  vector's or a scalar's) depends on the operands' layout, and a wrapper's result may have another than eager's."""

  # What adds up many elements is off by places of the largest, anything else by places of its own operands.
  SUMS = ("attention", "conv", "linear", "matmul", "mm", "mv", "dot", "einsum", "norm", "softmax", "sum", "mean", "var", "std", "prod", "pool")
  EXACT = ("getitem", "clone", "contiguous", "cat", "stack", "pad", "roll", "gather", "index", "where", "fill", "flip", "repeat", "to", "float",
           "half", "double", "type", "sort", "topk", "max", "min", "relu", "abs", "neg", "clamp", "round", "floor", "ceil", "trunc", "sign",
           "tri", "diag", "take", "select", "new", "like")

  def __init__(self, graph, run):
    super().__init__(graph)
    self.random = torch.Generator().manual_seed(run)

  def run_node(self, node):
    result = super().run_node(node)
    name = getattr(node.target, "__name__", str(node.target))
    sums = any(n in name for n in self.SUMS)
    if node.op not in ("call_function", "call_method") or name.endswith("_") or (not sums and any(n in name for n in self.EXACT)):
      return result
    operands = _tensors(torch.utils._pytree.tree_leaves(self.fetch_args_kwargs_from_env(node)))
    given = {t.untyped_storage().data_ptr() for t in operands}
    for t in _tensors(compare.as_tuple(result)):
      if t.is_floating_point() and t.numel() and t.untyped_storage().data_ptr() not in given:
        by = torch.rand(t.shape, generator=self.random, dtype=torch.float64) * 2 - 1
        size = _finite(t)
        if sums:
          size = size.max()
        else:
          for o in operands:
            if o.is_floating_point() and o.dim() <= t.dim() and all(a in (1, b) for a, b in zip(reversed(o.shape), reversed(t.shape))):
              size = size + _finite(o)
        t += (by * size * torch.finfo(t.dtype).eps * 2).to(t.dtype)
    return result


class JudgedRun(smoke.VariantRun):
  """smoke's run of a variant, with these questions wherever the comparison alone says no."""

  def run(self):
    self.undetermined = 0  # elements that were excused
    self.by_name = {p.name: p for p in self.passes.passes}
    self._settling = self._plain = None
    self._settled = {}  # by inputs: what is wrong, or None
    out = super().run()
    out["undetermined"] = self.undetermined
    return out

  def _near(self, expected, got, eager_in, mine):
    return False  # asked exactly in _compare

  # -- 1: the wrapper against the reference
  def _against_reference(self, program, k, tensors, value):
    out = super()._against_reference(program, k, tensors, value)
    if not out["ok"] and _numeric(out):
      expected = reference.evaluate(program, tensors)[k]
      self._excuse(out, program, k, tensors, expected, value, undetermined.KERNEL)
    return out

  def _excuse(self, out, program, k, tensors, expected, got, errors):
    """Lets a failed comparison pass where each element outside is undetermined, by both of its values."""
    t = self.options["t"]
    flat = np.flatnonzero(outside(expected, got, t).reshape(-1))
    values = [x.reshape(-1)[torch.from_numpy(flat)] for x in (expected, got)]
    left = int((~undetermined.possible(program, tensors, errors, k, flat, values, t)).sum())
    if left == 0:
      self.undetermined += len(flat)
      out.update(ok=True, undetermined=len(flat))
    else:
      out["determined"] = left

  # -- 2 and 3
  def _compare(self, out, expected, got, eager_in, mine):
    super()._compare(out, expected, got, eager_in, mine)
    if out["ok"] or out.get("alias_added") or out["violations"]:
      return
    if not all(w.get("ok", w["identity"]) for w in out["wrappers"]) or not any(w.get("ok") for w in out["wrappers"]):
      return
    if not all(r["ok"] or _numeric(r) for r in (*out["outputs"], *out["inputs"])):
      return
    # A poisoned and a plain call on the same inputs have the same answer.
    if (out["family"], out["seed"]) not in self._settled:
      self._settled[out["family"], out["seed"]] = self._settle(out, expected, eager_in)
    why = self._settled[out["family"], out["seed"]]
    if why:
      out["settling"] = why
    else:
      out.update(ok=True, note="differs from CPU eager by its arithmetic alone; every wrapper agrees with the CUDA reference")

  def _settle(self, out, expected, eager_in):
    """Questions 2 and 3 in one more call; what is wrong, or None."""
    mine = [t.clone() for t in self._inputs(out["family"], out["seed"])]
    observer, poisoned, calls = self.backend.observer, self.backend.poisoned, self.wrapper_calls
    self._settling = []
    self.backend.observer, self.backend.poisoned, self.wrapper_calls = self._replace, False, []
    self.backend.start_call()
    try:
      torch.manual_seed(1024)
      got = self.compiled(*mine)
    except Exception as e:  # noqa: BLE001 - whatever it is, it is no answer
      return [f"{type(e).__name__}: {e}"]
    finally:
      self.backend.observer, self.backend.poisoned, self.wrapper_calls = observer, poisoned, calls
      self.session.memory.clear()
    problems = self._differences(expected, got, eager_in, mine)
    if problems:
      theirs, captured = self._captured(out, lambda graph: graph.forward)
      problems = self._differences(captured, got, theirs, mine)
    if problems:
      runs = [self._captured(out, lambda graph, run=run: LibraryMoved(graph, run).run) for run in range(undetermined.RUNS)]
      problems = self._differences(captured, got, theirs, mine, runs)
    return self._settling + problems

  def _captured(self, out, how):
    """(inputs afterwards, outputs) of the captured graph, run by what `how` makes of it."""
    self._how = how
    if self._plain is None:  # compiled once: dynamo counts, and gives up in silence
      self._plain = torch.compile(self.model, backend=lambda graph, _: lambda *args: self._how(graph)(*args))
    theirs = [t.clone() for t in self._inputs(out["family"], out["seed"])]
    return theirs, self._plain(*theirs)

  def _differences(self, expected, got, eager_in, mine, runs=()):
    """What differs; with runs, by more than they among each other."""
    problems, t = [], self.options["t"]
    for what, pairs in (("output", zip(expected, got)), ("input", zip(eager_in, mine))):
      for i, (e, g) in enumerate(pairs):
        r = compare.compare_tensors(e, g, t)
        if not r["ok"] and runs and _numeric(r):
          seen = undetermined.Range.of([numeric.to_numpy((inputs if what == "input" else outputs)[i]) for inputs, outputs in runs])
          r["ok"] = not (outside(e, g, t) & ~seen.undetermined(g, t)).any()
        if not r["ok"]:
          problems.append(f"with eager's values in the wrappers' memory: {what} {i}: {r['reason']} {r.get('first_bad', '')}")
    return problems

  def _replace(self, name, ordinal, args, result):
    """Puts eager's values of a pattern where the wrapper left its own."""
    saved = self._saved_all
    eager_args = [a.clone() if isinstance(a, torch.Tensor) else a for a in saved]
    with torch.no_grad():
      given = eager_of(self.by_name[name], eager_args)
    program = self._program(name, ordinal)
    eager, mine = compare.as_tuple(given), compare.as_tuple(result)
    if program is not None:
      for k, (e, m) in enumerate(zip(eager, mine)):
        tensors = _tensors(saved)
        r = reference.evaluate(program, tensors)[k]
        if tuple(e.shape) != tuple(r.shape) or e.dtype != r.dtype:
          self._settling.append(f"{name}: eager gives {e.dtype}{list(e.shape)}, the reference {r.dtype}{list(r.shape)}")
          continue
        found = compare.compare_tensors(r, e, self.options["t"])
        if not found["ok"]:
          self._excuse(found, program, k, tensors, r, e, undetermined.EAGER)
        if not found["ok"]:
          self._settling.append(f"{name}: the reference is not what eager gives: {found['reason']} {found['first_bad']}"
                                f", {found.get('determined')} of them determined")
    for a, before, after in zip(args, saved, eager_args):
      if isinstance(a, torch.Tensor) and not torch.equal(before, after):
        a.copy_(after)
    held = {a.untyped_storage().data_ptr() for a in _tensors(args)}
    for e, m in zip(eager, mine):
      if m.numel() and m.untyped_storage().data_ptr() not in held:
        m.copy_(e)

  def _before(self, name, ordinal, args):
    super()._before(name, ordinal, args)
    self._saved_all = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
