"""Random small graphs made of the operator table, each a sample folder: what a sample of the benchmark can look like, and worse.

A graph is made step by step with real tensors on the CPU: an example of a row is fitted to a value that is there already (its
sizes renamed, other operands made or found), executed, and kept if torch accepts it. So the maker needs no knowledge of
operators beyond their examples, and every graph is one that eager runs. Everything depends on the seed alone.

Inputs come contiguous, as the harness gives them; other layouts are made by a view in front (transposed, stepped, offset by one
element, expanded, channels last), which sometimes is read by others too, so that a kernel meets it from outside.
"""

import ast
import dataclasses
import json
import math
import operator
import os
import random
import re

import torch

FLOATS = ("float32", "float16", "bfloat16")
FACTORY = re.compile(r"^torch\.(arange|zeros|ones|full|eye|linspace|tensor|as_tensor|scalar_tensor)\(.*\)$")
# Of integers, a divisor of 0 ends the process: it must be an input, whose range is known.
DIVISIONS = ("div", "floor_divide", "remainder", "fmod", "true_divide")
MODES = ("before", "inside", "between")
WEIGHTS = {"pointwise": 46, "view": 18, "reduction": 10, "norm": 7, "copy": 10, "stencil": 4, "product": 3, "scan": 2, "factory": 1,
           "wall": 2, "write": 0}
NAMES = {"torch": torch, "operator": operator, "device": torch.device}


@dataclasses.dataclass(frozen=True)
class Limits:
  sizes: tuple = (1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 16, 17, 29, 32, 33)
  largest: int = 6000  # elements of a value: what the interpreter and the reference do in milliseconds
  steps: tuple = (2, 8)


@dataclasses.dataclass
class Form:
  """One example of a row that runs on the CPU."""
  row: str
  cls: str
  inputs: list
  tree: ast.expr
  writes: bool


@dataclasses.dataclass(eq=False)
class Value:
  name: str
  tensor: torch.Tensor
  made: bool  # by an operator, not an input
  uses: int = 0


@dataclasses.dataclass
class Region:
  seed: int
  dtype: str
  mutation: str | None
  source: str = ""
  inputs: list = dataclasses.field(default_factory=list)
  rows: list = dataclasses.field(default_factory=list)
  layouts: list = dataclasses.field(default_factory=list)


def kind_of(dtype):
  name = str(dtype).removeprefix("torch.")
  return "bool" if name == "bool" else "float" if "float" in name else "complex" if "complex" in name else "int"


def unsafe_divisor(value):
  return kind_of(value.tensor.dtype) != "float" and (value.made or bool((value.tensor == 0).any()))


class _Fit(ast.NodeTransformer):
  """An example's expression on other operands; inf and nan as a model writes them."""

  def __init__(self, names):
    self.names = names

  def visit_Name(self, node):
    if node.id in self.names:
      return self.names[node.id]
    if node.id in ("inf", "nan"):
      return ast.Call(ast.Name("float", ast.Load()), [ast.Constant(node.id)], [])
    return node


def fitted(tree, names):
  nodes = {k: ast.parse(v, mode="eval").body for k, v in names.items()}
  copy = ast.parse(ast.unparse(tree), mode="eval").body
  return ast.unparse(ast.fix_missing_locations(_Fit(nodes).visit(copy)))


def make_tensor(shape, dtype, low, high, generator):
  dtype = getattr(torch, dtype)
  if dtype == torch.bool:
    return torch.rand(shape, generator=generator) > 0.5
  if not dtype.is_floating_point:
    return torch.randint(low, high + 1, shape, generator=generator).to(dtype)
  return (torch.randn(shape, generator=generator) * 0.5 + 0.25).to(dtype)


class Table:
  """The forms of the operator table by class, once for many graphs."""

  def __init__(self, document):
    self.forms = {name: [] for name in WEIGHTS}
    self.in_place = set()  # method names that write their first operand
    generator = torch.Generator().manual_seed(1)
    for row in document["rows"]:
      for s in row["spellings"]:
        if s["kind"] == "method" and re.fullmatch(r"[a-z0-9]\w*[a-z0-9]_", s["target"]):
          self.in_place.add(s["target"])
      # What is not reproducible cannot be compared, and requires_grad_ is no write. Bits read as another type show every
      # last place by which a CPU differs from a GPU.
      if row["class"] == "random" or "empty" in row["name"] or row["name"] == "requires_grad_":
        continue
      for example in row["examples"]:
        form = self._form(row, example, generator)
        if form:
          self.forms[form.cls].append(form)
    # A row with many examples is no more likely than one with few.
    self.rows = {}
    for cls, forms in self.forms.items():
      by_row = {}
      for form in forms:
        by_row.setdefault(form.row, []).append(form)
      self.rows[cls] = [by_row[name] for name in sorted(by_row)]

  def _form(self, row, example, generator):
    value = example.get("value")
    if not value or "number" in value or any("complex" in i.get("dtype", "") for i in example["inputs"]):
      return None
    call = example["call"]
    if re.search(r"\.view\((dtype=)?torch\.", call):
      return None
    literals = {i["name"]: i["literal"] for i in example["inputs"] if "literal" in i}
    tensors = [i for i in example["inputs"] if "dtype" in i]
    tree = ast.parse(fitted(ast.parse(call, mode="eval").body, literals), mode="eval").body
    cls = row["class"] if row["class"] in WEIGHTS else "wall"
    if "program" not in example:
      cls = "wall"
    if not tensors and not FACTORY.match(call):
      return None
    names = dict(NAMES)
    for i in tensors:
      names[i["name"]] = make_tensor(i["shape"], i["dtype"], 1, 3, generator)
    try:
      # The call alone, so that a write to an operand is seen in its version.
      got = eval(ast.unparse(tree), names)  # noqa: S307 - the project's own table
    except Exception:  # noqa: BLE001 - what this torch does not run cannot be used
      return None
    flat = got if isinstance(got, (tuple, list)) else [got]
    if any(isinstance(t, torch.Tensor) and t.is_complex() for t in flat):
      return None
    writes = any(names[i["name"]]._version > 0 for i in tensors)
    return Form(row["name"], "write" if writes else cls, tensors, tree, writes)


class _Maker:
  def __init__(self, table, seed, mutation, only, dtype, limits):
    self.table, self.rng, self.limits = table, random.Random(seed), limits
    self.generator = torch.Generator().manual_seed(seed)
    self.region = Region(seed, dtype or self.rng.choice(FLOATS), mutation)
    self.lines, self.pool, self.inputs, self.count = [], [], [], 0
    self.weights = {k: v for k, v in WEIGHTS.items() if v and table.rows[k] and (only is None or k in only)}
    # Graphs of integers or masks have few forms of their own: they begin with such an input and go where that leads.
    roll = self.rng.random()
    self.first = "int64" if roll < 0.1 else "bool" if roll < 0.14 else self.region.dtype
    if only is not None:
      self.first = self.region.dtype

  # -- values
  def add_input(self, shape, dtype, low=0, high=3):
    name = f"in_{len(self.inputs)}"
    entry = {"name": name, "shape": list(shape), "dtype": dtype}
    kind = kind_of(dtype)
    if kind == "float":
      entry["mean"], entry["std"] = self.rng.choice([(0.0, 1.0), (0.5, 0.4), (0.1, 2.0), (0.3, 0.0)])
    elif kind == "int":
      entry["min_val"], entry["max_val"] = low, high
    self.inputs.append(entry)
    value = Value(name, make_tensor(shape, dtype, low, high, self.generator), False)
    self.pool.append(value)
    return value

  def shape(self):
    rank = self.rng.choices(range(6), (3, 14, 28, 28, 22, 5))[0]
    if self.rng.random() < 0.3:  # one that examples like
      form = self.rng.choice(self.rng.choice(self.table.rows[self.rng.choice(("norm", "stencil", "reduction", "copy"))]))
      if form.inputs:
        return list(form.inputs[0]["shape"])
    shape = [self.rng.choice(self.limits.sizes) for _ in range(rank)]
    while math.prod(shape) > self.limits.largest:
      shape[self.rng.randrange(rank)] = self.rng.choice(self.limits.sizes[:6])
    if rank and self.rng.random() < 0.04:
      shape[self.rng.randrange(rank)] = 0
    return shape

  def laid_out(self, shape, dtype, low=0, high=3):
    """A value of this shape: an input, or a view of one."""
    rank, layout = len(shape), "contiguous"
    if rank and self.rng.random() < 0.45:
      choices = ["offset", "stepped", "expanded"]
      if rank > 1:
        choices += ["transposed", "transposed", "inner"]
      if rank == 4:
        choices += ["channels_last"] * 3
      layout = self.rng.choice(choices)
    axis = self.rng.randrange(rank) if rank else 0
    base, text = list(shape), None
    if layout == "transposed":
      other = self.rng.choice([a for a in range(rank) if a != axis])
      base[axis], base[other] = base[other], base[axis]
      text = "{}.transpose(%d, %d)" % (axis, other)
    elif layout == "channels_last":
      base = [shape[0], shape[2], shape[3], shape[1]]
      text = "{}.permute(0, 3, 1, 2)"
    elif layout == "offset":
      if rank == 1 or self.rng.random() < 0.5:
        axis = 0
      base[axis] += 1
      text = "{}[%s]" % ", ".join(["slice(None, None, None)"] * axis + ["slice(1, None, None)"])
    elif layout == "inner":
      base[-1] += 3
      text = "{}[..., slice(2, -1, None)]"
    elif layout == "stepped":
      base[axis] *= 2
      text = "{}[%s]" % ", ".join(["slice(None, None, None)"] * axis + ["slice(None, None, 2)"])
    elif layout == "expanded":
      if shape[axis] == 0:
        return self.laid_out(shape, dtype, low, high)
      base[axis] = 1
      text = "{}.expand(%s)" % ", ".join(map(str, shape))
    self.region.layouts.append(layout)
    value = self.add_input(base, dtype, low, high)
    if text is None:
      return value
    (view,) = self.run(text.format(value.name), [value])
    return view

  # -- statements
  def run(self, text, operands, keep=True):
    """Executes an expression; the tensors that it gave, as values of the pool. Raises what torch raises."""
    names = {**NAMES, **{v.name: v.tensor for v in self.pool}}
    got = eval(text.replace("type='cuda'", "type='cpu'"), names)  # noqa: S307 - made from the table
    items = list(got) if isinstance(got, (tuple, list)) else [got]
    if not items or not all(isinstance(t, torch.Tensor) for t in items):
      raise ValueError("no tensor")
    for t in items:
      if t.is_complex() or t.numel() > self.limits.largest or t.dim() > 6:
        raise ValueError("not wanted")
      if t.is_floating_point() and t.numel():
        bad = 1 - float(torch.isfinite(t).double().mean())
        if bad > 0.3 or (bad > 0 and self.rng.random() < 0.8):
          raise ValueError("hardly a number")
    if not keep:
      return []
    name = f"tmp_{self.count}"
    self.count += 1
    self.lines.append(f"{name} = {text}")
    for v in operands:
      v.uses += 1
    if not isinstance(got, (tuple, list)):
      self.pool.append(Value(name, got, True))
      return self.pool[-1:]
    out = []
    wanted = [i for i in range(len(items)) if self.rng.random() < 0.8] or [0]
    for i in wanted:
      item = f"tmp_{self.count}"
      self.count += 1
      self.lines.append(f"{item} = {name}[{i}]")
      out.append(Value(item, items[i], True))
    self.pool += out
    return out

  def find(self, shape, dtypes, but=()):
    fits = [v for v in self.pool if list(v.tensor.shape) == list(shape) and str(v.tensor.dtype).removeprefix("torch.") in dtypes
            and v not in but]
    return self.rng.choice(fits) if fits else None

  def companion(self, spec, shape, lead, least):
    """An operand beside the lead: one that is there, or a new input."""
    dtype = spec["dtype"]
    if kind_of(dtype) == "float":
      dtype = str(lead.tensor.dtype).removeprefix("torch.") if lead and kind_of(lead.tensor.dtype) == "float" else self.region.dtype
      if self.rng.random() < 0.1:
        dtype = self.rng.choice(FLOATS)
    found = self.find(shape, (dtype,)) if self.rng.random() < 0.6 else None
    if found:
      return found
    return self.laid_out(shape, dtype, *least)

  def lead(self):
    made = [v for v in self.pool if v.made]
    if made and self.rng.random() < 0.75:
      return made[-1]
    unused = [v for v in self.pool if v.uses == 0]
    return self.rng.choice(unused if unused and self.rng.random() < 0.5 else self.pool)

  def broadcast(self, shape):
    """A shape that broadcasts with this one."""
    roll = self.rng.random()
    if roll < 0.4 or not shape:
      return list(shape)
    out = list(shape[self.rng.randrange(len(shape)):]) if roll < 0.7 else list(shape)
    return [1 if self.rng.random() < 0.3 else n for n in out]

  def operands(self, form, lead):
    """[value] for the form's tensors with the lead among them, or None where the lead does not fit."""
    specs = form.inputs
    same = [i for i, s in enumerate(specs) if kind_of(s["dtype"]) == kind_of(lead.tensor.dtype)]
    if not same and self.rng.random() < 0.8:
      return None
    if not same:
      same = [0]
    main = same[0] if self.rng.random() < 0.7 else self.rng.choice(same)
    there, here = specs[main]["shape"], list(lead.tensor.shape)
    index_like = form.cls in ("copy", "wall")
    least = (0, max(0, min([n for s in specs for n in s["shape"]] + here, default=1) - 1)) if index_like else (1, 4)
    if form.cls == "pointwise" and form.row not in ("glu", "prelu", "outer") and self.rng.random() < 0.85:
      shapes = [self.broadcast(here) for _ in specs]
    elif len(there) == len(here):
      renamed = {}
      if any(renamed.setdefault(a, b) != b for a, b in zip(there, here)):
        return None
      shapes = [[renamed.get(n, n) for n in s["shape"]] for s in specs]
    else:
      return None
    out = []
    for i, spec in enumerate(specs):
      if i == main or (specs[i]["shape"] == there and self.rng.random() < 0.1 and i in same):
        out.append(lead)
      else:
        out.append(self.companion(spec, shapes[i], lead, least))
    return out

  def exact(self, form):
    """Operands of the example's own shapes: values that have them, or new inputs."""
    least = (0, max(0, min([n for s in form.inputs for n in s["shape"]], default=1) - 1)) if form.cls in ("copy", "wall") else (1, 4)
    first = self.region.dtype
    out = []
    for spec in form.inputs:
      dtype = first if kind_of(spec["dtype"]) == "float" else spec["dtype"]
      found = self.find(spec["shape"], (dtype,), out) if self.rng.random() < 0.7 else None
      out.append(found or self.laid_out(spec["shape"], dtype, *least))
    return out

  def step(self, lead=None):
    """One more operator; False if nothing fitted."""
    for _ in range(20):
      cls = self.rng.choices(list(self.weights), list(self.weights.values()))[0]
      form = self.rng.choice(self.rng.choice(self.table.rows[cls]))
      before = len(self.lines), len(self.pool), len(self.inputs), self.count, len(self.region.layouts), [v.uses for v in self.pool]
      try:
        if not form.inputs:
          text = fitted(form.tree, {})[:-1] + ", device=device(type='cuda', index=0))"
          operands = []
        else:
          operands = self.operands(form, lead or self.lead()) if self.rng.random() < 0.96 or lead else self.exact(form)
          if operands is None:
            continue
          if form.row in DIVISIONS and any(unsafe_divisor(v) for v in operands[1:]):
            continue
          if form.cls == "copy" and any(v.made and kind_of(s["dtype"]) == "int" for s, v in zip(form.inputs, operands)):
            continue  # an index that is computed may be out of range, which not every path of a CPU notices
          if form.row == "logit" and any(v.tensor.dtype.itemsize == 2 for v in operands):
            continue  # its bound is rounded to 16 bits on a CPU, and is float32 on CUDA
          if form.row == "weight_norm" and not all(v.tensor.numel() for v in operands):
            continue  # torch divides by the number of elements
          text = fitted(form.tree, {s["name"]: v.name for s, v in zip(form.inputs, operands)})
        self.run(text, operands)
        self.region.rows.append(form.row)
        return True
      except Exception:  # noqa: BLE001 - torch does not take these operands
        lines, pool, inputs, self.count, layouts, uses = before
        del self.lines[lines:], self.pool[pool:], self.inputs[inputs:], self.region.layouts[layouts:]
        for v, n in zip(self.pool, uses):
          v.uses = n
    return False

  # -- mutation
  def mutate(self, targets):
    for _ in range(20):
      target = self.rng.choice(targets)
      how = self.rng.choice(("operator", "method", "function", "store", "slice", "row"))
      before = len(self.lines), len(self.pool), len(self.inputs), self.count, len(self.region.layouts)
      try:
        getattr(self, "_write_" + how)(target)
        return True
      except Exception:  # noqa: BLE001 - not writable like this
        lines, pool, inputs, self.count, layouts = before
        del self.lines[lines:], self.pool[pool:], self.inputs[inputs:], self.region.layouts[layouts:]
    return False

  def _other(self, target):
    """What is written: a number, or a value that broadcasts to the target."""
    kind = kind_of(target.tensor.dtype)
    if self.rng.random() < 0.5:
      return {"float": str(self.rng.choice((0.5, 2, -1.5, 3))), "int": str(self.rng.choice((1, 2, 5))), "bool": "True"}[kind]
    dtype = str(target.tensor.dtype).removeprefix("torch.")
    shape = list(target.tensor.shape)
    if shape and self.rng.random() < 0.5:
      shape = shape[self.rng.randrange(len(shape)):]
    value = self.find(shape, (dtype,)) if self.rng.random() < 0.6 else None
    value = value or self.laid_out(shape, dtype, 1, 4)
    value.uses += 1
    return value.name

  def _execute(self, line):
    names = {**NAMES, **{v.name: v.tensor for v in self.pool}}
    exec(line, names)  # noqa: S102 - made from the table
    self.lines.append(line)
    return names

  def _named(self, target, text):
    """The written value under a new name, or under none at all."""
    if self.rng.random() < 0.3:
      self._execute(text)
      return
    name = f"tmp_{self.count}"
    self.count += 1
    names = self._execute(f"{name} = {text}")
    target.uses += 1
    self.pool.append(Value(name, names[name], True))

  def _write_operator(self, target):
    kind = kind_of(target.tensor.dtype)
    op = self.rng.choice({"float": ("+=", "*=", "-=", "/="), "int": ("+=", "*=", "-="), "bool": ("|=", "&=", "^=")}[kind])
    other = self._other(target)
    target.uses += 1
    if self.rng.random() < 0.6:  # the name from before goes on naming the value from before
      name = f"tmp_{self.count}"
      self.count += 1
      self.lines.append(f"{name} = {target.name}")
      target = Value(name, target.tensor, True)
      self.pool.append(target)
    target.tensor = self._execute(f"{target.name} {op} {other}")[target.name]

  def _write_method(self, target):
    method = self.rng.choice(("add_", "mul_", "sub_", "div_", "relu_", "sigmoid_", "clamp_", "copy_", "fill_", "zero_", "neg_", "tanh_",
                              "abs_", "masked_fill_", "logical_not_", "sqrt_", "exp_", "round_"))
    if method not in self.table.in_place:
      raise ValueError("not in the table")
    if method in ("add_", "mul_", "sub_", "div_", "copy_"):
      rest = self._other(target)
    elif method == "fill_":
      rest = "True" if kind_of(target.tensor.dtype) == "bool" else "2"
    elif method == "clamp_":
      rest = "0, 2"
    elif method == "masked_fill_":
      mask = self.find(target.tensor.shape, ("bool",)) or self.laid_out(list(target.tensor.shape), "bool")
      mask.uses += 1
      rest = f"{mask.name}, 1"
    else:
      rest = ""
    self._named(target, f"{target.name}.{method}({rest})")

  def _write_function(self, target):
    self._named(target, self.rng.choice((
      "torch.nn.functional.relu({}, inplace=True)", "torch.nn.functional.silu({}, inplace=True)", "torch.nn.functional.hardtanh({}, 0.0, 6.0, True)",
      "torch.nn.functional.leaky_relu({}, 0.1, True)", "torch.nn.functional.hardswish({}, True)", "torch.nn.functional.elu({}, 1.0, True)",
    )).format(target.name))

  def _subscript(self, target):
    rank = target.tensor.dim()
    if rank == 0:
      return "..."
    return self.rng.choice(("...", "0", "-1", "slice(1, None, None)", "slice(None, 1, None)", "(Ellipsis, 0)", "(Ellipsis, slice(None, None, 2))",
                            "(slice(None, None, None), slice(0, 1, None))"))

  def _write_store(self, target):
    subscript = self._subscript(target)
    inner = eval(f"t[{subscript}]", {"t": target.tensor})  # noqa: S307
    target.uses += 1
    self._execute(f"{target.name}[{subscript}] = {self._other(Value('', inner, True))}")

  def _write_slice(self, target):
    """A view of the target is written; the target itself has no part in the statement."""
    (view,) = self.run(f"{target.name}[{self._subscript(target)}]", [target])
    self._write_operator(view)

  def _write_row(self, target):
    """A row of the table whose example writes."""
    form = self.rng.choice(self.rng.choice(self.table.rows["write"]))
    operands = self.operands(form, target)
    if operands is None:
      raise ValueError("does not fit")
    self._named(target, fitted(form.tree, {s["name"]: v.name for s, v in zip(form.inputs, operands)}))
    self.region.rows.append(form.row)

  # -- the whole
  def make(self):
    self.laid_out(self.shape(), self.first, 1, 4)
    steps = self.rng.randint(*self.limits.steps)
    mode = self.region.mutation
    at = {"before": self.rng.randint(0, 1), "inside": self.rng.randint(1, max(1, steps - 1))}.get(mode, -1)
    wrote = mode is None
    for i in range(steps):
      if i == at:
        made = [v for v in self.pool if v.made]
        wrote |= self.mutate(made[-1:] if mode == "inside" and made and self.rng.random() < 0.7 else self.pool)
      if not self.step():
        break
    if mode == "between":
      # Between the last value and its first user: what writes is anything else, as a rule.
      last = [v for v in self.pool if v.made]
      if last:
        others = [v for v in self.pool if v is not last[-1]] or self.pool
        wrote |= self.mutate(others if self.rng.random() < 0.9 else self.pool)
        if self.rng.random() < 0.6:
          self.step(last[-1])
    if not wrote or len(self.region.rows) < 2:
      return None
    returned = [v for v in self.pool if v.made and (v.uses == 0 or self.rng.random() < 0.12)]
    returned += [v for v in self.pool if not v.made and self.rng.random() < 0.03]
    returned = list({v.name: v for v in returned}.values())
    if not returned:
      return None
    body = self.lines + ["return (%s,)" % ", ".join(v.name for v in returned)]
    self.region.inputs = self.inputs
    self.region.source = model_text(self.inputs, body)
    return self.region


def model_text(inputs, lines):
  """model.py as samples have it."""
  head = ("import torch\nfrom torch import device\n\nclass GraphModule(torch.nn.Module):\n\n    def forward(self, %s):\n"
          % ", ".join(e["name"] for e in inputs))
  return head + "".join(f"        {line}\n" for line in lines)


def fixed_region(name, inputs, body):
  """A region written by hand: inputs are {name: (shape, dtype)}."""
  entries = [{"name": n, "shape": shape, "dtype": dtype, "mean": 0.3, "std": 1.0} for n, (shape, dtype) in inputs.items()]
  dtype = next((e["dtype"] for e in entries if e["dtype"] in FLOATS), "float32")
  return Region(name, dtype, None, model_text(entries, body.split("\n")), entries)


def make_region(table, seed, mutation=None, only=None, dtype=None, limits=Limits()):
  """The graph of one seed, or None where nothing came of it. `only`: classes of operators; `dtype`: of the floats."""
  return _Maker(table, seed, mutation, only, dtype, limits).make()


def meta_text(entry):
  """One class of weight_meta.py."""
  lines = [f"class Program_weight_tensor_meta_{entry['name']}:", f'\tname = "{entry["name"]}"', f"\tshape = {entry['shape']}",
           f'\tdtype = "torch.{entry["dtype"]}"', '\tdevice = "cuda:0"', f"\tmean = {entry.get('mean')}", f"\tstd = {entry.get('std')}"]
  lines += [f"\t{key} = {entry[key]}" for key in ("data", "min_val", "max_val") if key in entry]
  return "\n".join(lines) + "\n\n"


def write_sample(folder, region):
  """The region as a sample folder with one variant; the label of the variant."""
  label = f"{region.dtype}/0"
  path = os.path.join(folder, label)
  os.makedirs(path, exist_ok=True)
  files = {os.path.join(path, "model.py"): region.source,
           os.path.join(path, "weight_meta.py"): "".join(map(meta_text, region.inputs)),
           os.path.join(path, "input_meta.py"): "",
           os.path.join(path, "graph_net.json"): json.dumps({"framework": "torch", "num_devices_required": 1, "num_nodes_required": 1,
                                                             "dynamic": False, "model_name": f"region_{region.seed}"}),
           os.path.join(folder, "graph_list.txt"): label + "\n"}
  for name, text in files.items():
    with open(name, "w", encoding="utf-8") as f:
      f.write(text)
  return label
