"""The canonical text of the graphs that torch.compile hands to a backend: what the oracle of full-model graphs holds.

A model is a list of lines. `graph` starts a graph, every compute node is a line, `return` ends the graph:

  torch.conv2d($+1, $+1, None, (2, 2), (1, 1), (1, 1), 1) | float32[1,64,112,112]
  .view(%1, -1, 4, 64; copy=True) | float32[8,4,64] @%1
  operator.iadd(%1, $0) | float32[8] @$+0 !$+0
  return %1, %3

Before the bar stands what is compared as the graph: target (methods with a dot), positional arguments, keywords in
alphabetical order behind the semicolon. `%k` is the value k compute nodes before this one. `$+d` is an input: a parameter
of forward by its number, counted from the parameter that was named last (repeated layers are then equal lines). Inputs
of the graphs after a break are what they are at run time: a parameter, or `&g.k`, what compute node k of graph g computed;
`&?` is what the code between two graphs computed.
After the bar stands the metadata: dtype, shape, strides in braces where they are not those of a contiguous tensor (axes of size 1
and empty tensors have no strides that mean anything), `@` the first value that has this storage, if another has it, `!` values
whose storage is written. Items of tuples stand in parentheses; `?` is unknown, and numbers are written out.
"""

import lzma


def number(value):
  return repr(float(value)) if isinstance(value, float) else repr(value)


def argument(value, ref):
  """One argument of the JSON form (`passnet capture --json`)."""
  if isinstance(value, list):
    return "[" + ", ".join(argument(v, ref) for v in value) + "]"
  if isinstance(value, dict):
    (key, inner), = value.items()
    if key == "node":
      return ref(inner)
    if key in ("tuple", "size"):
      return "(" + "".join(argument(v, ref) + ", " for v in inner).rstrip(" ") + ")"
    if key == "slice":
      return "slice(" + ", ".join(argument(v, ref) for v in inner) + ")"
    if key == "dict":
      return "{" + ", ".join(f"{k}: {argument(v, ref)}" for k, v in (inner.items() if isinstance(inner, dict) else inner)) + "}"
    if key == "ellipsis":
      return "..."
    if key == "complex":
      return f"complex({inner[0]!r}, {inner[1]!r})"
    if key == "device":
      return f"device:{inner}"
    return str(inner) if key in ("dtype", "layout", "memory_format", "float") else f"{key}:{inner}"
  return number(value) if isinstance(value, float) else repr(value)


def contiguous(shape):
  out, product = [], 1
  for n in reversed(shape):
    out.append(product)
    product *= max(n, 1)
  return out[::-1]


def meaningful(shape, stride):
  """Strides with those that address nothing replaced by what a contiguous tensor has."""
  full = contiguous(shape)
  if 0 in shape:
    return full
  return [f if n == 1 else s for n, s, f in zip(shape, stride, full)]


class Namer:
  """References of one graph."""

  def __init__(self):
    self.compute, self.inputs, self.last, self.position = {}, {}, -1, 0

  def ref(self, name):
    if name in self.compute:
      return f"%{self.position - self.compute[name]}"
    identity = self.inputs.get(name, "&?")
    if isinstance(identity, int):
      text, self.last = f"${identity - self.last:+d}", identity
      return text
    return identity


def tensor_text(shape, dtype, stride):
  text = dtype.removeprefix("torch.") + "[" + ",".join(map(str, shape)) + "]"
  if any(isinstance(n, str) for n in shape):
    return text
  if stride is None:
    return text + "{?}"
  stride = meaningful(shape, stride)
  return text if stride == contiguous(shape) else text + "{" + ",".join(map(str, stride)) + "}"


def graph_lines(nodes, outputs, inputs):
  """Lines of one graph. nodes, outputs: the JSON form; inputs: {placeholder name: parameter number or text}."""
  namer, first = Namer(), {}
  namer.inputs = inputs
  lines = ["graph"]

  def value_text(entry, name):
    if "tuple" in entry:
      return "(" + ", ".join(value_text(v, name) for v in entry["tuple"]) + ")"
    if "value" in entry:
      return "= " + argument(entry["value"], namer.ref)
    if entry.get("shape") is None:
      return "?"
    if isinstance(entry.get("dtype"), list):
      parts = zip(entry["shape"], entry["dtype"], entry["stride"], entry["storage"])
      return "(" + ", ".join(value_text(dict(zip(("shape", "dtype", "stride", "storage"), p)), name) for p in parts) + ")"
    text = tensor_text(entry["shape"], entry["dtype"], entry.get("stride"))
    storage = entry.get("storage")
    if storage is not None and 0 not in entry["shape"]:
      # An empty tensor shares no byte with anything.
      if storage in first and first[storage] != name:
        text += " @" + namer.ref(first[storage])
      first.setdefault(storage, name)
    return text

  def age(node):
    """Parameters by their number, then values of earlier graphs, then others."""
    identity = inputs.get(node["name"], "&?")
    if isinstance(identity, int):
      return 0, identity, 0
    return (2, 0, 0) if identity == "&?" else (1, *map(int, identity[1:].split(".")))

  for node in sorted((n for n in nodes if n["op"] == "placeholder"), key=age):
    if node.get("storage") is not None and not isinstance(node["storage"], list):
      first.setdefault(node["storage"], node["name"])
  for node in nodes:
    if node["op"] in ("placeholder", "output"):
      continue
    call = ("." if node["op"] == "call_method" else "") + node["target"] + "("
    call += ", ".join(argument(a, namer.ref) for a in node["args"])
    if node["kwargs"]:
      call += "; " + ", ".join(f"{k}={argument(v, namer.ref)}" for k, v in sorted(node["kwargs"].items()))
    meta = value_text(node, node["name"])
    writes = [namer.ref(first[w]) for w in node.get("writes", []) if w in first]
    lines.append(call + ") | " + meta + "".join(" !" + w for w in writes))
    namer.compute[node["name"]] = namer.position
    namer.position += 1
  if isinstance(outputs, dict) and "tuple" in outputs:
    outputs = outputs["tuple"]
  lines.append("return " + ", ".join(argument(o, namer.ref) for o in outputs))
  return lines


# ---- the file: a head line of JSON, then per model a line "= name digest how" and its lines

def write_archive(path, head, models):
  import json
  out = [json.dumps(head, sort_keys=True)]
  for name in sorted(models):
    out.append(f"= {name} {models[name]['digest']} {models[name]['how']}")
    out += models[name]["lines"]
  with lzma.open(path, "wb", preset=9 | lzma.PRESET_EXTREME) as f:
    f.write(("\n".join(out) + "\n").encode())


def read_archive(path):
  """(head, {name: {"digest", "how", "lines"}})."""
  import json
  with lzma.open(path, "rt", encoding="utf-8", newline="\n") as f:
    head, models, lines = json.loads(f.readline()), {}, []
    for line in f:
      line = line.rstrip("\n")
      if line.startswith("= "):
        name, digest, how = line[2:].rsplit(" ", 2)
        lines = []
        models[name] = {"digest": digest, "how": how, "lines": lines}
      else:
        lines.append(line)
  return head, models


def digest_of(folder):
  """Of the files that decide what a model's graphs are."""
  import hashlib
  import os
  h = hashlib.sha256()
  for name in ("model.py", "input_meta.py", "weight_meta.py"):
    path = os.path.join(folder, name)
    if os.path.exists(path):
      with open(path, "rb") as f:
        h.update(name.encode() + b"\0" + f.read() + b"\0")
  return h.hexdigest()[:16]


