"""Dynamo graphs of a variant: what torch.compile hands to a backend, one graph per piece, in call order.

Fake tensors by default: no memory is used, whatever the size of the variant. Where the code asks for the
value of a tensor (.item(), data-dependent shapes) dynamo breaks the graph and the pieces between need real
data: `real=True`.

  python -m passnet.worker.capture [--device cpu] [--real] DIRECTORY...
"""

import argparse
import contextlib
import json
import sys

import torch
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensor
from torch.utils._mode_utils import no_dispatch

from . import encode, replay, samples
from .errors import WorkerError, describe


class _Recorder:
  """A torch.compile backend that records each graph and runs it unchanged.

  origins[g][i] says what the i-th placeholder of graph g was when the graph ran: a parameter's number, (earlier
  graph, name of its node), or None for what the code between two graphs computed.
  """

  def __init__(self, facts=False):
    self.graphs, self.origins = [], []
    self.facts = [] if facts else None  # of each graph what annotate() gives, taken while it runs
    self._known = {}  # id of a tensor: (what it is, the tensor, which must live as long as its id is used)

  def name_inputs(self, inputs):
    for i, tensor in enumerate(inputs):
      self._known.setdefault(id(tensor), (i, tensor))

  def __call__(self, gm, example_inputs):
    g = len(self.graphs)
    self.graphs.append(gm)
    self.origins.append(None)
    result = next(n for n in gm.graph.nodes if n.op == "output").args[0]

    def run(*args):
      if self.origins[g] is None:
        self.origins[g] = [self._known.get(id(a), (None,))[0] for a in args]
      if self.facts is not None and len(self.facts) == g:
        values, writes, storages = annotate_run(gm, args)
        self.facts.append((values, writes, storages))
        out = torch.fx.node.map_arg(result, lambda n: values[n])
      else:
        out = gm.forward(*args)
      for node, value in zip(result, out):
        if isinstance(node, torch.fx.Node) and node.op != "placeholder":
          self._known.setdefault(id(value), ((g, node.name), value))
      return out

    return run


_KNOWN_ELEMENTS = 1 << 16


class _FakeMode(FakeTensorMode):
  """Fake tensors, of which small ones keep the values that the description fixes, and what is computed of them: code
  between two graphs asks for values (`.item()`, a subscript by a mask). While dynamo traces, the values stay hidden,
  as they are for real tensors.
  """

  def __init__(self):
    super().__init__()
    self._values = {}  # id of a fake: (the fake, its values)

  def fix(self, fake, values):
    self._values[id(fake)] = (fake, values)

  def dispatch(self, func, types, args=(), kwargs=None):
    if torch._guards.TracingContext.try_get() is not None:
      return super().dispatch(func, types, args, kwargs)
    real = self._known(func, args, kwargs or {})
    if func is torch.ops.aten._local_scalar_dense.default:
      if real is not None:
        return real
      if args[0].dtype.is_floating_point:
        return float("nan")  # drawn at random: any number would do, this one cannot be taken for a real one
    try:
      out = super().dispatch(func, types, args, kwargs)
    except DynamicOutputShapeException:
      if not isinstance(real, torch.Tensor):
        raise
      with self:
        out = torch.empty_strided(real.shape, real.stride(), dtype=real.dtype, device=_device_of(args))
    if isinstance(out, torch.Tensor) and isinstance(real, torch.Tensor) and real.numel() <= _KNOWN_ELEMENTS:
      self.fix(out, real)
    elif isinstance(out, torch.Tensor):
      self._values.pop(id(out), None)  # written with what is not known, or the id of a tensor that is gone
    return out

  def _known(self, func, args, kwargs):
    """The operation on the known values; None where a tensor among the arguments has none, or there is no tensor."""
    missing, seen = object(), []

    def value(x):
      if not isinstance(x, torch.Tensor):
        return x
      seen.append(self._values.get(id(x), (None, missing))[1])
      return seen[-1]

    flat, spec = torch.utils._pytree.tree_flatten((args, kwargs))
    flat = [value(x) for x in flat]
    if not seen or any(x is missing for x in seen):
      return None
    args, kwargs = torch.utils._pytree.tree_unflatten(flat, spec)
    if "device" in kwargs:
      kwargs["device"] = "cpu"
    with no_dispatch():
      return func(*args, **kwargs)


def _device_of(args):
  return next(x.device for x in torch.utils._pytree.tree_leaves(args) if isinstance(x, torch.Tensor))


def _fixed_values(meta):
  """The values of an input where the description fixes them, as the public rules make them; else None."""
  numel = 1
  for n in meta.shape:
    numel *= n
  if numel > _KNOWN_ELEMENTS:
    return None
  drawn_integers = (
    meta.dtype in samples.INTEGER_DTYPES and meta.min_val is not None and meta.max_val is not None
  )
  if meta.data is None and (drawn_integers or meta.std != 0 or numel > 1):
    return None
  return replay.public_tensor(meta)


def _fake_inputs(variant, model, mode, device):
  out = []
  for m in samples.ordered_metas(variant, model):
    with mode:
      tensor = torch.empty(tuple(m.shape), dtype=replay.torch_dtype(m.dtype), device=device)
    values = _fixed_values(m)
    if values is not None:
      mode.fix(tensor, values)
    out.append(tensor)
  return out


def record_graphs(variant, device="cpu", real=False, reset=True):
  """[GraphModule] in call order."""
  return record(variant, device, real, reset).graphs


def record(variant, device="cpu", real=False, reset=True, facts=False):
  """The _Recorder after one call of the model: its graphs, what their placeholders are and, if asked for, the facts
  for graph_json().
  """
  if reset:
    torch._dynamo.reset()
  torch.manual_seed(1024)
  model = samples.build_model(variant, torch.device(device).type)
  recorder = _Recorder(facts)
  # The model runs once: no condition for running it again is needed, and they take most of the time.
  compiled = torch.compile(
    model, backend=recorder, options={"guard_filter_fn": lambda guards: [False] * len(guards)}
  )
  if real:
    named = replay.public_inputs(variant, device)
    inputs = [named[m.name] for m in samples.ordered_metas(variant, model)]
    scope = contextlib.nullcontext()
  else:
    scope = _FakeMode()
    inputs = _fake_inputs(variant, model, scope, device)
  recorder.name_inputs(inputs)
  with scope:
    compiled(*inputs)
  if not recorder.graphs:
    raise WorkerError(
      "no_graph",
      f"{variant.path}: dynamo made no graph",
      "the model holds no tensor operation that dynamo captures",
    )
  return recorder


def running_variances(variant):
  """Names of the inputs that the model uses as running variances, by a trace on fakes; none if that fails."""
  if "batch_norm" not in variant.source:
    return set()  # a trace takes longer than all that a small model computes
  try:
    graphs = record_graphs(variant)
  except Exception:  # noqa: BLE001 - the live family is then merely less tame
    return set()
  found = {p for gm in graphs for p in replay.running_variance_names(gm.graph)}
  return {
    encode.input_name(n)
    for gm in graphs
    for n in gm.graph.nodes
    if n.op == "placeholder" and n.target in found
  }


def annotate(gm):
  """Runs the graph on fakes of its placeholders and returns ({node: written storages}, {node: value},
  storages).

  In-place writes are seen as a rise of a fake's version counter; storages are numbered in order of first
  sight.
  """
  mode = next(
    (
      n.meta["example_value"].fake_mode
      for n in gm.graph.nodes
      if isinstance(n.meta.get("example_value"), FakeTensor)
    ),
    None,
  )
  with mode or FakeTensorMode():
    inputs = [_same_kind(n.meta.get("example_value")) for n in gm.graph.nodes if n.op == "placeholder"]
    return annotate_run(gm, inputs)


def _same_kind(value):
  if not isinstance(value, torch.Tensor):
    return value
  return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)


def annotate_run(gm, inputs):
  """annotate() of one run on given inputs."""
  storages = encode.Storages()
  values, writes = {}, {}
  inputs = iter(inputs)
  for node in gm.graph.nodes:
    if node.op == "output":
      break
    if node.op == "placeholder":
      value = next(inputs)
    elif node.op == "get_attr":
      value = _same_kind(_attribute(gm, node.target))
    else:
      args = torch.fx.node.map_arg(node.args, lambda n: values[n])
      kwargs = torch.fx.node.map_arg(node.kwargs, lambda n: values[n])
      # Tensors that share memory share the counter of writes too.
      before = [(t, t._version) for n in node.all_input_nodes for t in _tensors(values[n])]
      if node.op == "call_method":
        value = getattr(args[0], node.target)(*args[1:], **kwargs)
      elif node.op == "call_module":
        value = gm.get_submodule(node.target)(*args, **kwargs)
      else:
        value = node.target(*args, **kwargs)
      touched = {storages.of(t) for t, version in before if t._version != version}
      if touched:
        writes[node] = sorted(touched)
    values[node] = value
    for t in _tensors(value):
      storages.of(t)
  return values, writes, storages


def _tensors(value):
  if isinstance(value, torch.Tensor):
    return [value]
  if isinstance(value, (tuple, list)):
    return [t for v in value for t in _tensors(v)]
  return []


def _attribute(gm, target):
  for part in target.split("."):
    gm = getattr(gm, part)
  return gm


def graph_json(gm, facts=None):
  """One element of "graphs". A graph that cannot be run on fakes is still given, without the facts that need
  a run. `facts`: what annotate() gave, if that is known.
  """
  try:
    values, writes, storages = facts or annotate(gm)
    failed = None
  except Exception as e:  # noqa: BLE001 - whatever an operator raises is data here
    values, writes, storages, failed = {}, {}, encode.Storages(), f"{type(e).__name__}: {str(e)[:300]}"
  nodes = []
  outputs = []
  for node in gm.graph.nodes:
    entry = encode.encode_node(node, storages, values.get(node))
    entry["writes"] = writes.get(node, [])
    if node.op == "output":
      entry = {
        "name": node.name,
        "op": "output",
        "target": "output",
        "args": [encode.encode_arg(a) for a in node.args],
        "kwargs": {},
        "writes": [],
      }
      result = node.args[0]
      outputs = [encode.encode_arg(a) for a in (result if isinstance(result, (tuple, list)) else [result])]
    nodes.append(entry)
  out = {"nodes": nodes, "outputs": outputs}
  if failed:
    out["metadata_error"] = failed
  return out


def capture_variant(variant, device="cpu", real=False):
  """{"graphs": [...], "device", "inputs": how}: falls back to real inputs when fakes cannot carry the program
  through.
  """
  how = "real" if real else "fake"
  try:
    graphs = record_graphs(variant, device, real)
  except Exception:
    bytes_in = sum(_bytes(m) for m in variant.metas)
    if real or bytes_in > (256 << 20):
      raise
    graphs = record_graphs(variant, device, True)
    how = "real"
  return {
    "graphs": [graph_json(gm) for gm in graphs],
    "device": device,
    "inputs": how,
    "torch": torch.__version__,
  }


def _bytes(meta):
  n = 1
  for s in meta.shape:
    n *= s
  return n * replay.torch_dtype(meta.dtype).itemsize


def command(request, progress):
  """capture: {"variants": [dir...] | "sample": dir, "device", "real", "meta"} -> {"variants": [{"label",
  "graphs"|"error"}]}.
  """
  pairs = (
    samples.variant_dirs(request["sample"]) if "sample" in request else [(d, d) for d in request["variants"]]
  )
  results = []
  for i, (label, path) in enumerate(pairs):
    entry = {"label": label}
    try:
      variant = samples.load_variant(path, label, request.get("meta", {}).get(label))
      entry.update(capture_variant(variant, request.get("device", "cpu"), request.get("real", False)))
    except Exception as e:  # noqa: BLE001 - one bad variant is one bad entry
      entry["error"] = describe(e)
    results.append(entry)
    progress({"done": i + 1, "of": len(pairs)})
  return {"variants": results}


def main(argv=None):
  parser = argparse.ArgumentParser(
    prog="passnet.worker.capture", description="Print the dynamo graphs of variants as JSON."
  )
  parser.add_argument("directories", nargs="+", help="variant or sample directories")
  parser.add_argument("--device", default="cpu")
  parser.add_argument("--real", action="store_true", help="real inputs instead of fake tensors")
  args = parser.parse_args(argv)
  out, bad = [], 0
  for directory in args.directories:
    for label, path in samples.variant_dirs(directory):
      try:
        out.append(
          {
            "label": label,
            "path": path,
            **capture_variant(samples.load_variant(path, label), args.device, args.real),
          }
        )
      except Exception as e:  # noqa: BLE001
        bad += 1
        out.append({"label": label, "path": path, "error": describe(e)})
  json.dump({"schema": "passnet.capture/1", "variants": out}, sys.stdout, indent=1)
  print()
  return 1 if bad else 0


if __name__ == "__main__":
  sys.exit(main())
