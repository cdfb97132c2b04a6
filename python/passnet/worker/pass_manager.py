"""The torch.compile backend that rewrites a dynamo graph with the passes of a pass_dir, as the public harness
does.

One implementation for smoke, bench, evaluate and the differential tests. Each backend owns its wrapper calls
and its poison flag, so one process can run many pass_dirs one after the other.
"""

import torch
from torch.fx.passes.utils.matcher_utils import SubgraphMatcher

from . import encode, poison, tracer
from .errors import WorkerError, describe

NO_MATCH = "[PassMgrBackend] No passes modified the graph."


def innermost(error):
  """The exception that a backend raised, out of dynamo's wrapping."""
  seen = set()
  while id(error) not in seen:
    seen.add(id(error))
    inner = getattr(error, "inner_exception", None) or error.__cause__
    if inner is None:
      return error
    error = inner
  return error


def find_matches(graph, pattern):
  """torch's own matcher with the public options."""
  matcher = SubgraphMatcher(
    pattern,
    match_output=False,
    match_placeholder=False,
    remove_overlapping_matches=True,
    ignore_literals=False,
  )
  return matcher.match(graph)


def _insertion_point(graph, returning):
  users = {u for node in returning for u in node.users}
  return next((n for n in graph.nodes if n in users), None)


def _splice(graph, pattern, replacement, match, renamed):
  """Puts one copy of `replacement` before the first user of the match's result and removes the matched nodes."""
  holders = [n for n in replacement.nodes if n.op == "placeholder"]
  if len(holders) != len(match.placeholder_nodes):
    raise AssertionError(
      f"the pattern has {len(match.placeholder_nodes)} placeholders, the replacement {len(holders)}"
    )
  bound = [renamed.get(v, v) if isinstance(v, torch.fx.Node) else v for v in match.placeholder_nodes]
  point = _insertion_point(graph, match.returning_nodes)
  if point is None:
    raise AssertionError("the matched result has no user: a returning node must be used")
  with graph.inserting_before(point):
    returned = graph.graph_copy(replacement, dict(zip(holders, bound)))
  returned = returned if isinstance(returned, (tuple, list)) else (returned,)
  if len(returned) != len(match.returning_nodes):
    raise AssertionError(
      f"the pattern returns {len(match.returning_nodes)} values, the replacement {len(returned)}: one value only"
    )
  for old, new in zip(match.returning_nodes, returned):
    old.replace_all_uses_with(new)
    renamed[old] = new
  for node in reversed(pattern.nodes):
    if node.op not in ("placeholder", "output"):
      graph.erase_node(match.nodes_map[node])
  return bound, [n.name for n in returned]


def move_devices(graph, device):
  """Devices that a pattern names, as those of a model that runs elsewhere are rewritten; how many there were."""
  moved = 0

  def swap(value):
    nonlocal moved
    if not isinstance(value, torch.device) or value.type == device:
      return value
    moved += 1
    return torch.device(device)

  for node in graph.nodes:
    node.args = torch.fx.node.map_aggregate(node.args, swap)
    node.kwargs = torch.fx.node.map_aggregate(node.kwargs, swap)
  return moved


def apply_pass(gm, loaded, call, device=None):
  """Rewrites `gm` with one pass. Returns its record; errors are recorded and raised.

  device: where the graph was made to run, if devices written in the pattern are to be taken for it.
  """
  record = {"pass": loaded.name, "matches": []}
  pattern = tracer.pattern_graph(loaded.pattern)
  if device is not None:
    moved = move_devices(pattern, device)
    if moved:
      record["devices_moved"] = moved
  replacement = tracer.replacement_graph(
    tracer.parameter_names(loaded.pattern), loaded.replacement_args, call
  )
  renamed = {}
  for match in find_matches(gm.graph, pattern):
    inner = [n for n in pattern.nodes if n.op not in ("placeholder", "output")]
    entry = {
      "nodes": [match.nodes_map[n].name for n in inner],
      "returns": [n.name for n in match.returning_nodes],
    }
    bound, entry["inserted"] = _splice(gm.graph, pattern, replacement, match, renamed)
    names = [n.name for n in pattern.nodes if n.op == "placeholder"]
    entry["placeholders"] = {n: encode.encode_arg(v) for n, v in zip(names, bound)}
    record["matches"].append(entry)
  if record["matches"]:
    gm.recompile()
  return record


class PassBackend:
  """A torch.compile backend.

  records: one entry per dynamo graph: {"passes": [record], "modified", "error"?}. observer: called as
  observer(pass name, ordinal of the call within this forward, args, outputs) after each wrapper call;
  before(pass name, ordinal, args) in front of it. device: see apply_pass.
  """

  def __init__(self, pass_set, poisoned=True, device=None):
    self.pass_set, self.poisoned, self.device = pass_set, poisoned, device
    self.records = []
    self.observer = self.before = None
    self._ordinals = {}

  def start_call(self):
    self._ordinals = {}

  def _wrapper(self, loaded):
    function = loaded.function

    def call_replacement(*args):
      if not self.poisoned and self.before is None and self.observer is None:
        return function(*args)  # timed calls: nothing in between
      ordinal = self._ordinals[loaded.name] = self._ordinals.get(loaded.name, -1) + 1
      if self.before:
        self.before(loaded.name, ordinal, args)
      out = poison.guarded_call(loaded.function, args) if self.poisoned else loaded.function(*args)
      if self.observer:
        self.observer(loaded.name, ordinal, args, out)
      return out

    call_replacement.__name__ = call_replacement.__qualname__ = "replacement_" + "".join(
      c if c.isalnum() else "_" for c in loaded.name
    )
    return call_replacement

  def __call__(self, gm, example_inputs):
    record = {"passes": [], "modified": False}
    self.records.append(record)
    for loaded in self.pass_set.passes:
      try:
        done = apply_pass(gm, loaded, self._wrapper(loaded), self.device)
      except Exception as e:
        record["error"] = {"pass": loaded.name, **describe(e, with_traceback=False)}
        raise
      record["passes"].append(done)
      record["modified"] |= bool(done["matches"])
    if not record["modified"]:
      raise WorkerError(
        "no_match", NO_MATCH, "at least one pass must match in every dynamo graph of every variant"
      )
    return gm.forward
