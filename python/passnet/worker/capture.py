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
from torch._subclasses.fake_tensor import FakeTensor

from . import encode, replay, samples
from .errors import WorkerError, describe


class _Recorder:
  """A torch.compile backend that records each graph and runs it unchanged."""

  def __init__(self):
    self.graphs = []

  def __call__(self, gm, example_inputs):
    self.graphs.append(gm)
    return gm.forward


def _fake_inputs(variant, model, mode, device):
  with mode:
    return [
      torch.empty(tuple(m.shape), dtype=replay.torch_dtype(m.dtype), device=device)
      for m in samples.ordered_metas(variant, model)
    ]


def record_graphs(variant, device="cpu", real=False, reset=True):
  """[GraphModule] in call order."""
  if reset:
    torch._dynamo.reset()
  torch.manual_seed(1024)
  model = samples.build_model(variant, torch.device(device).type)
  recorder = _Recorder()
  compiled = torch.compile(model, backend=recorder)
  if real:
    named = replay.public_inputs(variant, device)
    inputs = [named[m.name] for m in samples.ordered_metas(variant, model)]
    scope = contextlib.nullcontext()
  else:
    scope = FakeTensorMode()
    inputs = _fake_inputs(variant, model, scope, device)
  with scope:
    compiled(*inputs)
  if not recorder.graphs:
    raise WorkerError(
      "no_graph",
      f"{variant.path}: dynamo made no graph",
      "the model holds no tensor operation that dynamo captures",
    )
  return recorder.graphs


def running_variances(variant):
  """Names of the inputs that the model uses as running variances, by a trace on fakes; none if that fails."""
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
  storages = encode.Storages()
  values, writes = {}, {}
  mode = next(
    (
      n.meta["example_value"].fake_mode
      for n in gm.graph.nodes
      if isinstance(n.meta.get("example_value"), FakeTensor)
    ),
    None,
  )
  with mode or FakeTensorMode():
    env = {}
    seen = []  # (tensor, version) of everything made so far
    for node in gm.graph.nodes:
      if node.op == "output":
        break
      if node.op == "placeholder":
        value = node.meta.get("example_value")
        if isinstance(value, torch.Tensor):
          value = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
      elif node.op == "get_attr":
        value = _attribute(gm, node.target)
        if isinstance(value, torch.Tensor):
          value = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
      else:
        args = torch.fx.node.map_arg(node.args, lambda n: env[n])
        kwargs = torch.fx.node.map_arg(node.kwargs, lambda n: env[n])
        before = {id(t): t._version for t in seen}
        if node.op == "call_method":
          value = getattr(args[0], node.target)(*args[1:], **kwargs)
        elif node.op == "call_module":
          value = gm.get_submodule(node.target)(*args, **kwargs)
        else:
          value = node.target(*args, **kwargs)
        touched = sorted({storages.of(t) for t in seen if t._version != before[id(t)]})
        if touched:
          writes[node] = touched
      env[node] = value
      values[node] = value
      for t in _tensors(value):
        storages.of(t)
        seen.append(t)
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


def graph_json(gm):
  """One element of "graphs". A graph that cannot be run on fakes is still given, without the facts that need
  a run.
  """
  try:
    values, writes, storages = annotate(gm)
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
