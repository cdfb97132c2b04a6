"""The trace command: the graphs of a pass_dir's passes, and what torch's matcher does with them on given
variants.

Structure only: nothing is run, captured graphs carry fake tensors.
"""

import torch

from . import capture, encode, interpreter, pass_loader, pass_manager, samples, tracer
from .errors import describe


def _bare_graph(graph):
  """A pattern or replacement graph as JSON: no values are known."""
  storages = encode.Storages()
  nodes = [encode.encode_node(n, storages) for n in graph.nodes]
  for entry in nodes:
    entry.pop("input", None)
  result = next((n.args[0] for n in graph.nodes if n.op == "output"), None)
  outputs = [encode.encode_arg(a) for a in (result if isinstance(result, (tuple, list)) else [result])]
  return {"nodes": nodes, "outputs": outputs}


def _pass_json(loaded):
  entry = {"pass": loaded.name}
  try:
    entry["hand_built"] = isinstance(loaded.pattern, (torch.fx.GraphModule, torch.fx.Graph))
    entry["parameters"] = tracer.parameter_names(loaded.pattern)
    entry["pattern"] = _bare_graph(tracer.pattern_graph(loaded.pattern))
    entry["replacement"] = _bare_graph(
      tracer.replacement_graph(entry["parameters"], loaded.replacement_args, loaded.function)
    )
  except Exception as e:  # noqa: BLE001 - a pass that cannot be traced is an entry with its error
    entry["error"] = describe(e)
  return entry


def _variant_json(variant, passes, device):
  graphs = []
  for gm in capture.record_graphs(variant, device):
    backend = pass_manager.PassBackend(passes)
    try:
      backend(gm, [])
    except Exception:  # noqa: BLE001 - recorded by the backend, no match included
      pass
    graphs.append({**backend.records[0], "rewritten": _bare_graph(gm.graph)})
  return {"graphs": graphs, "matched": all(g["modified"] for g in graphs)}


def command(request, progress):
  """trace: {"pass_dir", "const_pass_dir"?, "rejected"?, "sample"? | "variants"?, "device"?} -> {"passes",
  "skipped", "variants"}.
  """
  with interpreter.Session(), pass_loader.imported_as_pass_dir(request["pass_dir"]):
    passes = pass_loader.load(request["pass_dir"], request.get("const_pass_dir"), request.get("rejected"))
    out = {"passes": [_pass_json(p) for p in passes.passes], "skipped": passes.skipped, "variants": []}
    pairs = (
      samples.variant_dirs(request["sample"])
      if "sample" in request
      else [(d, d) for d in request.get("variants", [])]
    )
    for label, path in pairs:
      try:
        variant = samples.load_variant(path, label, request.get("meta", {}).get(label))
        out["variants"].append(
          {"label": label, **_variant_json(variant, passes, request.get("device", "cpu"))}
        )
      except Exception as e:  # noqa: BLE001
        out["variants"].append({"label": label, "matched": False, "error": describe(e)})
      progress({"done": len(out["variants"]), "of": len(pairs)})
  return out
