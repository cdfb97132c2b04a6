"""Pattern functions to graphs, the way the public harness traces them.

A call_function whose target shows a signature that the call binds to is written with every argument
positional and defaults filled in; anything else stays as the author wrote it. Hand-built graphs are taken as
they are.
"""

import inspect

import torch
import torch.fx

from .errors import WorkerError


def positional_form(target, args, kwargs):
  """(args, kwargs) with all arguments positional where the signature allows it, else unchanged."""
  try:
    bound = inspect.signature(target).bind(*args, **kwargs)
  except (TypeError, ValueError):  # no signature (C functions), or the call does not fit it
    return args, kwargs
  bound.apply_defaults()
  if bound.kwargs:  # keyword-only parameters have no positional form
    return args, kwargs
  return bound.args, {}


class NormalisingTracer(torch.fx.Tracer):
  def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
    if kind == "call_function":
      args, kwargs = positional_form(target, args, kwargs)
    return super().create_node(kind, target, args, kwargs, name, type_expr)


def pattern_graph(pattern):
  """The torch.fx.Graph of a pass's `pattern`: a GraphModule, a Graph or a function."""
  if isinstance(pattern, torch.fx.GraphModule):
    return pattern.graph
  if isinstance(pattern, torch.fx.Graph):
    return pattern
  if not callable(pattern):
    raise WorkerError(
      "pattern_kind",
      f"pattern is a {type(pattern).__name__}, not a function or a GraphModule",
      "define `def pattern(...)`, or assign a GraphModule with __signature__ set",
    )
  tracer = NormalisingTracer()
  graph = tracer.trace(pattern)
  torch.fx.GraphModule(tracer.root, graph)  # gives the graph an owner, which get_attr matching needs
  return graph


def parameter_names(pattern):
  try:
    return list(inspect.signature(pattern).parameters)
  except (TypeError, ValueError) as e:
    raise WorkerError(
      "pattern_signature",
      f"pattern has no signature: {e}",
      "a bare Graph has none; wrap it in a GraphModule and set __signature__",
    ) from e


def replacement_graph(names, replacement_args, call):
  """The graph `call(*replacement_args(*names))`: placeholders, constants and one opaque call.

  `call` becomes the target of the one call_function node whatever its arguments are, also when none is a
  node.
  """
  tracer = NormalisingTracer()

  def build(*proxies):
    args = replacement_args(*proxies)
    return tracer.create_proxy("call_function", call, tuple(args), {})

  # The tracer reads parameter names from the function's signature; a generated function carries them.
  scope = {"build": build}
  listed = ", ".join(names)
  exec(f"def replacement({listed}):\n  return build({listed})\n", scope)
  graph = tracer.trace(scope["replacement"])
  _only_the_call(graph, call)
  return graph


check_replacement = True  # off only to test what else would notice


def _only_the_call(graph, call):
  """The replacement is placeholders, one call and the output: what replacement_args computes would run beside the guard."""
  extra = [n for n in graph.nodes if n.op not in ("placeholder", "output") and n.target is not call]
  if extra and check_replacement:
    raise WorkerError(
      "replacement_ops",
      f"replacement_args computes: {', '.join(str(n.target) for n in extra)}",
      "it may only reorder or drop its parameters and add constants; compute in the kernel",
    )
