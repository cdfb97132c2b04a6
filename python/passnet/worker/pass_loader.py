"""Loading a pass_dir: order, limits and refusals of the public harness.

Source rules are judged by the caller, who lists the files they reject in `rejected`; the custom checkers of
PASSNET_CUSTOM_PASS_SOURCE_CHECKER_PATH run here because they are Python.
"""

import collections
import contextlib
import contextvars
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import json
import linecache
import os
import random
import sys
import types
from dataclasses import dataclass, field

from .errors import WorkerError

PATTERN_LIMIT = 100
REPLACEMENT_FUNC_LIMIT = 1
PACKAGE = "pass_dir"


@dataclass
class LoadedPass:
  name: str
  module: object
  pattern: object
  replacement_args: object
  function: object


@dataclass
class PassSet:
  passes: list = field(default_factory=list)
  skipped: list = field(default_factory=list)  # [{"name", "reason"}]
  directory: str = ""
  modules: dict = field(default_factory=dict)  # everything that was imported from the pass_dir, by name


class _SourceLoader(importlib.machinery.SourceFileLoader):
  """Compiles the text as it stands: a stale or planted .pyc is never read, none is written."""

  def get_code(self, fullname):
    path = self.get_filename(fullname)
    return self.source_to_code(self.get_data(path), path)


class _PassDirFinder(importlib.abc.MetaPathFinder):
  """Maps the package name pass_dir to one directory, whatever that directory is called."""

  def __init__(self, directory):
    self.directory = directory

  def find_spec(self, fullname, path=None, target=None):
    if fullname == PACKAGE:
      spec = importlib.machinery.ModuleSpec(PACKAGE, None, is_package=True)
      spec.submodule_search_locations = [self.directory]
      return spec
    if fullname.startswith(PACKAGE + "."):
      file = os.path.join(self.directory, *fullname.split(".")[1:])
      for candidate, package in ((file + ".py", False), (os.path.join(file, "__init__.py"), True)):
        if os.path.exists(candidate):
          return importlib.util.spec_from_file_location(
            fullname,
            candidate,
            loader=_SourceLoader(fullname, candidate),
            submodule_search_locations=[file] if package else None,
          )
    return None


def _forget():
  for name in [n for n in sys.modules if n == PACKAGE or n.startswith(PACKAGE + ".")]:
    del sys.modules[name]
  linecache.checkcache()


@contextlib.contextmanager
def imported_as_pass_dir(directory):
  """While active, `pass_dir` is this directory; modules imported under that name are forgotten afterwards."""
  directory = os.path.abspath(directory)
  finder = _PassDirFinder(directory)
  root = os.path.dirname(directory)
  _forget()
  sys.meta_path.insert(0, finder)
  sys.path.insert(0, root)
  importlib.invalidate_caches()
  try:
    yield
  finally:
    sys.meta_path.remove(finder)
    if root in sys.path:
      sys.path.remove(root)
    _forget()


def _name_list(directory, file, default):
  path = os.path.join(directory, file)
  if not os.path.exists(path):
    return default
  try:
    with open(path, encoding="utf-8") as f:
      names = json.load(f)
  except ValueError as e:
    raise WorkerError("manifest_json", f"{path} is not JSON: {e}", "") from e
  if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
    raise WorkerError("manifest_kind", f"{path} must be a JSON list of file stems", "")
  return names


def _input_names(const_dir, pass_dir):
  listed = _name_list(const_dir, "sorted_input_pass_rule_names.json", []) if const_dir else []
  order = _name_list(pass_dir, "sorted_input_pass_rule_names.json", listed)
  if set(order) != set(listed):
    raise WorkerError(
      "input_order",
      "sorted_input_pass_rule_names.json of pass_dir may only reorder the input passes",
      "list exactly the names of const_pass_dir",
    )
  return order


def _custom_violations(source):
  for path in filter(None, os.environ.get("PASSNET_CUSTOM_PASS_SOURCE_CHECKER_PATH", "").split(":")):
    if os.path.isfile(path):
      spec = importlib.util.spec_from_file_location("passnet_custom_checker", path)
      checker = importlib.util.module_from_spec(spec)
      spec.loader.exec_module(checker)
      found = checker.validate_pass_source(source)
      if found:
        return list(found)
  return []


def _load_file(directory, name, rejected, skipped):
  path = os.path.join(directory, name + ".py")
  try:
    with open(path, encoding="utf-8") as f:
      source = f.read()
  except OSError as e:
    raise WorkerError(
      "pass_missing",
      f"{path} is listed but cannot be read: {e.strerror}",
      "remove it from the list or add the file",
    ) from e
  reasons = rejected.get(name) or _custom_violations(source)
  if reasons:
    skipped.append({"name": name, "reason": "source rules: " + "; ".join(reasons)})
    return None
  spec = importlib.util.spec_from_file_location(name, path, loader=_SourceLoader(name, path))
  module = importlib.util.module_from_spec(spec)
  try:
    spec.loader.exec_module(module)
  except Exception as e:
    raise WorkerError(
      "pass_import",
      f"{path} fails when imported: {type(e).__name__}: {e}",
      "run `python` on the file to see it alone",
    ) from e
  for attribute in ("pattern", "replacement_args", "replacement_func"):
    if not hasattr(module, attribute):
      raise WorkerError(
        "pass_contract",
        f"{path} defines no `{attribute}`",
        "a pass defines pattern, replacement_args and replacement_func",
      )
  return module


def _keep_limited(rules, limit, key, what, skipped, rng):
  """The public limit: too many distinct keys, a seeded sample of them stays, in order."""
  keys = list(dict.fromkeys(key(r) for r in rules))
  if len(keys) <= limit:
    return rules
  kept = {keys[i] for i in sorted(rng.sample(range(len(keys)), limit))}
  for r in rules:
    if key(r) not in kept:
      skipped.append({"name": r[0], "reason": f"dropped by the limit of {limit} {what}"})
  return [r for r in rules if key(r) in kept]


def load(
  pass_dir,
  const_dir=None,
  rejected=None,
  replacement_func_limit=REPLACEMENT_FUNC_LIMIT,
  pattern_limit=PATTERN_LIMIT,
):
  """The passes of a pass_dir in the order they run. Call inside imported_as_pass_dir."""
  rejected = rejected or {}
  out = PassSet(directory=pass_dir)
  try:
    return _load(out, pass_dir, const_dir, rejected, replacement_func_limit, pattern_limit)
  except Exception as e:
    e.skipped = out.skipped  # why nothing was left to load
    raise
  finally:
    out.modules = {name: m for name, m in sys.modules.items() if name.startswith(PACKAGE + ".")}


def _load(out, pass_dir, const_dir, rejected, replacement_func_limit, pattern_limit):
  rng = random.Random(
    123
  )  # the public harness seeds the global generator with 123 before it builds the backend
  output = [
    (n, m)
    for n in _name_list(pass_dir, "sorted_output_pass_rule_names.json", [])
    if (m := _load_file(pass_dir, n, rejected, out.skipped)) is not None
  ]
  unstable = [n for n, m in output if m.replacement_func() is not m.replacement_func()]
  if unstable:
    raise WorkerError(
      "unstable_replacement_func",
      "The following pass rules have unstable replacement_func(): " + ", ".join(unstable),
      "return one module-level function, not a new one per call",
    )
  if not output:
    raise WorkerError(
      "no_passes",
      f"No replacement functions available after filtering {len(output)} rules.",
      "list at least one valid pass in sorted_output_pass_rule_names.json",
    )
  output = _keep_limited(
    output,
    replacement_func_limit,
    lambda r: id(r[1].replacement_func()),
    "replacement functions",
    out.skipped,
    rng,
  )
  output = _keep_limited(output, pattern_limit, lambda r: r[0], "patterns", out.skipped, rng)
  ordered = {
    n: m
    for n in _input_names(const_dir, pass_dir)
    if (m := _load_file(const_dir, n, rejected, out.skipped)) is not None
  }
  ordered.update(output)  # an output pass of an input pass's name takes its place; new names follow
  functions = {id(m.replacement_func()) for m in ordered.values()}
  if len(functions) > 1:
    raise WorkerError(
      "many_replacement_funcs",
      f"the passes use {len(functions)} replacement functions",
      "all passes must return the same one",
    )
  for name, module in ordered.items():
    out.passes.append(
      LoadedPass(name, module, module.pattern, module.replacement_args, module.replacement_func())
    )
  return out


def kept_tensors(pass_set):
  """Tensors reachable from the globals of the submission's modules, as text: no tensor may outlive a call."""
  import torch

  modules = {name: m for name, m in sys.modules.items() if name.startswith(PACKAGE + ".")}
  modules.update(pass_set.modules)
  modules.update({p.name: p.module for p in pass_set.passes if p.module is not None})
  found = []
  for name, module in sorted(modules.items()):
    for variable, value in vars(module).items():
      if _holds_tensor(value, torch.Tensor, 0, set()):
        found.append(f"tensor kept in {name}.{variable}")
  return found


def _holds_tensor(value, kind, depth, seen):
  if isinstance(value, kind):
    return True
  if depth > 8 or id(value) in seen or isinstance(value, (str, bytes, int, float, type(None), types.ModuleType)):
    return False
  seen.add(id(value))
  return any(_holds_tensor(v, kind, depth + 1, seen) for v in _inside(value))


def _inside(value):
  """What an object keeps alive that a pass can have put there, whatever the trick: containers, closures, defaults, attributes."""
  if isinstance(value, dict):
    return [*value.keys(), *value.values()]
  if isinstance(value, (list, tuple, set, frozenset, collections.deque)):
    return list(value)
  if isinstance(value, types.MethodType):
    return [value.__self__, value.__func__]
  if isinstance(value, types.GeneratorType):
    frame = value.gi_frame
    return list(frame.f_locals.values()) if frame is not None else []
  if isinstance(value, functools.partial):
    return [value.func, *value.args, *value.keywords.values()]
  if isinstance(value, contextvars.ContextVar):
    return [value.get(None)]
  found = []
  # Compiled kernels, and the interpreter's in their place, belong to Triton and to this package.
  ours = ("torch", "triton", "numpy", "passnet")
  if isinstance(value, types.FunctionType):
    found += [c.cell_contents for c in value.__closure__ or () if _filled(c)]
    found += [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values(), *vars(value).values()]
  elif isinstance(value, type):
    if not value.__module__.startswith((*ours, "builtins")):
      found += list(vars(value).values())
  elif not type(value).__module__.startswith(ours):
    found += list(getattr(value, "__dict__", {}).values())
    found += [getattr(value, n, None) for n in getattr(type(value), "__slots__", ()) if isinstance(n, str)]
  return found


def _filled(cell):
  try:
    cell.cell_contents
  except ValueError:
    return False
  return True
