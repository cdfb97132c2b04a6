"""Sample directories: the list of variants, the tensor descriptions, the model class.

The tensor descriptions are read as literals from the syntax tree; nothing in them is executed. model.py is
executed, after device literals have been rewritten to the device in use.
"""

import ast
import os
import re
from dataclasses import dataclass, field

from .errors import WorkerError

INTEGER_DTYPES = ("int8", "int16", "int32", "int64")


@dataclass
class TensorMeta:
  class_name: str
  name: str
  shape: list
  dtype: str  # without the "torch." prefix
  mean: float | None = 0.0
  std: float | None = 1.0
  data: list | None = None
  min_val: float | None = None
  max_val: float | None = None


@dataclass
class Variant:
  path: str
  label: str
  source: str
  input_metas: list = field(default_factory=list)
  weight_metas: list = field(default_factory=list)
  shrunk: bool = False

  @property
  def metas(self):
    return self.input_metas + self.weight_metas

  @property
  def dtype_name(self):
    found = re.search(r"/(float16|float32|bfloat16|float64)/", os.path.abspath(self.path) + "/")
    return found.group(1) if found else None


def _literal(node, where):
  """A Python literal, plus float("inf") and the bare names inf and nan."""
  if isinstance(node, ast.Constant):
    return node.value
  if isinstance(node, (ast.List, ast.Tuple)):
    return [_literal(e, where) for e in node.elts]
  if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
    return -_literal(node.operand, where)
  if (
    isinstance(node, ast.Call)
    and isinstance(node.func, ast.Name)
    and node.func.id == "float"
    and len(node.args) == 1
  ):
    return float(_literal(node.args[0], where))
  if isinstance(node, ast.Name) and node.id in ("inf", "nan"):
    return float(node.id)
  if isinstance(node, ast.Attribute):  # torch.float32 written without quotes
    return ast.unparse(node)
  raise WorkerError(
    "meta_not_literal",
    f"{where}:{node.lineno}: '{ast.unparse(node)[:60]}' is not a literal",
    "tensor descriptions hold literals only; nothing in them is executed",
  )


def parse_metas(text, where):
  """The classes of a *_meta.py in alphabetical order of their names; a later class of one name replaces the
  earlier.
  """
  try:
    tree = ast.parse(text)
  except SyntaxError as e:
    raise WorkerError("meta_syntax", f"{where}:{e.lineno}: {e.msg}", "") from e
  classes = {}
  for node in tree.body:
    if not isinstance(node, ast.ClassDef):
      continue
    fields = {}
    for statement in node.body:
      if (
        isinstance(statement, ast.Assign)
        and len(statement.targets) == 1
        and isinstance(statement.targets[0], ast.Name)
      ):
        fields[statement.targets[0].id] = _literal(statement.value, where)
    if "name" in fields:
      classes[node.name] = fields
  return [_meta(name, classes[name], where) for name in sorted(classes)]


def _meta(class_name, f, where):
  if isinstance(f.get("data"), str):
    raise WorkerError(
      "meta_string_data", f"{where}: {class_name}.data is a string", "give the values as a flat list"
    )
  return TensorMeta(
    class_name,
    f["name"],
    list(f.get("shape", [])),
    str(f.get("dtype", "float")).removeprefix("torch."),
    f.get("mean", 0.0),
    f.get("std", 1.0),
    f.get("data"),
    f.get("min_val"),
    f.get("max_val"),
  )


def _read(path):
  try:
    with open(path, encoding="utf-8") as f:
      return f.read()
  except OSError as e:
    raise WorkerError("cannot_read", f"cannot read {path}: {e.strerror}", "") from e


def load_variant(path, label=None, meta_override=None):
  """One variant directory. meta_override: {name: {shape, data, ...}}, replaces fields of single tensors
  (shrinking).
  """
  source = _read(os.path.join(path, "model.py"))
  metas = []
  for file in ("input_meta.py", "weight_meta.py"):
    full = os.path.join(path, file)
    metas.append(parse_metas(_read(full), full) if os.path.exists(full) else [])
  known = {m.name for m in metas[1]}
  metas[0] = [m for m in metas[0] if m.name not in known]
  variant = Variant(path, label or path, source, metas[0], metas[1])
  for name, fields in (meta_override or {}).items():
    if name == "__model__":
      variant.source = fields
      continue
    for m in variant.metas:
      if m.name == name:
        for key, value in fields.items():
          setattr(m, key, value.removeprefix("torch.") if key == "dtype" else value)
        if "shape" in fields and "data" not in fields:
          m.data = None
        variant.shrunk = True
  return variant


def variant_dirs(sample_dir):
  """[(label, directory)] of graph_list.txt, in its order; a directory that is itself a variant stands alone."""
  listing = os.path.join(sample_dir, "graph_list.txt")
  if os.path.exists(listing):
    lines = [line.strip() for line in _read(listing).splitlines()]
    return [(line, os.path.join(sample_dir, line)) for line in lines if line]
  if os.path.exists(os.path.join(sample_dir, "model.py")):
    return [(os.path.basename(os.path.abspath(sample_dir)), sample_dir)]
  raise WorkerError(
    "not_a_sample", f"{sample_dir} has neither graph_list.txt nor model.py", "name a sample directory"
  )


class _DeviceRewriter(ast.NodeTransformer):
  """Replaces the device type in device('..'), device(type='..') and any device= keyword or .to() holding
  them.
  """

  def __init__(self, device):
    self.device, self.count = device, 0

  def _swap(self, node):
    kind, _, _ = str(node.value).partition(":")
    if isinstance(node.value, str) and kind in ("cpu", "cuda") and kind != self.device:
      self.count += 1
      return ast.copy_location(ast.Constant(self.device), node)
    return node

  def visit_Call(self, node):
    self.generic_visit(node)
    is_device = (isinstance(node.func, ast.Name) and node.func.id == "device") or (
      isinstance(node.func, ast.Attribute) and node.func.attr == "device"
    )
    if is_device:
      before = self.count
      node.args = [self._swap(a) if isinstance(a, ast.Constant) else a for a in node.args]
      for k in node.keywords:
        if k.arg == "type" and isinstance(k.value, ast.Constant):
          k.value = self._swap(k.value)
      if self.count > before and self.device == "cpu":  # an index is meaningless on the CPU
        node.keywords = [k for k in node.keywords if k.arg != "index"]
        node.args = node.args[:1]
    return node


def rewrite_devices(source, device):
  """(source, number of rewritten literals). The text is kept byte for byte when nothing changes."""
  tree = ast.parse(source)
  rewriter = _DeviceRewriter(device)
  tree = rewriter.visit(tree)
  return (ast.unparse(ast.fix_missing_locations(tree)), rewriter.count) if rewriter.count else (source, 0)


def build_model(variant, device):
  """The GraphModule instance of the variant for `device` ('cpu' or 'cuda')."""
  file = os.path.join(variant.path, "model.py")
  try:
    source, count = rewrite_devices(variant.source, device)
  except SyntaxError as e:
    raise WorkerError("model_syntax", f"{file}:{e.lineno}: {e.msg}", "") from e
  # The text is registered under a name of its own so that dynamo and tracebacks can show lines.
  import linecache

  name = file if not count else f"{file} (device rewritten)"
  linecache.cache[name] = (len(source), None, source.splitlines(True), name)
  namespace = {"__name__": "passnet_variant_model", "__file__": file}
  exec(compile(source, name, "exec"), namespace)
  if "GraphModule" not in namespace:
    raise WorkerError("model_class_missing", f"{file} defines no class GraphModule", "")
  return namespace["GraphModule"]()


def forward_parameters(model):
  import inspect

  return [p.name for p in inspect.signature(model.forward).parameters.values()]


def ordered_metas(variant, model):
  """The tensor descriptions in forward-parameter order; every parameter must have one."""
  by_name = {m.name: m for m in variant.metas}
  names = forward_parameters(model)
  missing = [n for n in names if n not in by_name]
  if missing:
    raise WorkerError(
      "meta_missing",
      f"{variant.path}: no tensor description for {', '.join(missing)}",
      "weight_meta.py must describe every forward parameter",
    )
  return [by_name[n] for n in names]
