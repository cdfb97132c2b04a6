"""What an evaluation compares: compilers by name, each a callable of a model.

eager; nope (a backend that changes nothing); ceiling (a backend that returns outputs it kept from its first
call: the cost of everything but the work); inductor; inductor_eager (with every switch for eager's numerics
that this torch has); pass_mgr (the passes of a pass_dir).
"""

import contextlib

import torch

from . import pass_loader, pass_manager
from .errors import WorkerError

NAMES = ("eager", "nope", "ceiling", "inductor", "inductor_eager", "pass_mgr")


def nothing(gm, example_inputs):
  return gm.forward


class ReadyOutputs:
  """Each dynamo graph computes once and returns the same outputs from then on."""

  def __call__(self, gm, example_inputs):
    kept = []

    def ready(*args):
      if not kept:
        kept.append(gm.forward(*args))
      return kept[0]

    return ready


def inductor_eager_switches():
  """The Inductor settings of this torch that ask for eager's numerics."""
  import torch._inductor.config as config

  wanted = {
    "emulate_precision_casts": True,
    "emulate_divison_rounding": True,
    "emulate_division_rounding": True,
  }
  return {k: v for k, v in wanted.items() if hasattr(config, k)}


@contextlib.contextmanager
def inductor_off_the_device(lock):
  """While Inductor writes and compiles code, seconds in which the device has nothing to do, a shared lock is given to
  others. The compiled callable is the same: only the function that makes it is wrapped, and only in here.
  """
  import torch._inductor.compile_fx as module

  original, inside = module.compile_fx, []

  def compile_fx(*args, **kwargs):
    if inside:  # it calls itself
      return original(*args, **kwargs)
    inside.append(True)
    try:
      with lock.released():
        return original(*args, **kwargs)
    finally:
      inside.pop()

  module.compile_fx = compile_fx
  try:
    yield
  finally:
    module.compile_fx = original


def load_backend(spec, rejected=None):
  """The pass manager's backend over a pass_dir, its load errors raised as they are.

  spec: {"pass_dir", "const_pass_dir"?, "replacement_func_limit"?, "pattern_limit"?}.
  """
  with pass_loader.imported_as_pass_dir(spec["pass_dir"]):
    passes = pass_loader.load(
      spec["pass_dir"],
      spec.get("const_pass_dir"),
      rejected if rejected is not None else spec.get("rejected"),
      spec.get("replacement_func_limit", pass_loader.REPLACEMENT_FUNC_LIMIT),
      spec.get("pattern_limit", pass_loader.PATTERN_LIMIT),
    )
  return pass_manager.PassBackend(passes)


def compile_model(spec, model, backend=None):
  """A callable of the model's inputs. Nothing is compiled before its first call."""
  kind = spec.get("kind", spec["name"])
  if kind == "eager":
    return model
  if kind == "pass_mgr":
    return torch.compile(model, backend=backend)
  if kind == "nope":
    return torch.compile(model, backend=nothing)
  if kind == "ceiling":
    return torch.compile(model, backend=ReadyOutputs())
  if kind == "inductor":
    options = spec.get("inductor", {})
    return torch.compile(
      model,
      mode=options.get("mode"),
      options=options.get("options"),
      fullgraph=options.get("fullgraph", False),
      dynamic=options.get("dynamic"),
    )
  if kind == "inductor_eager":
    return torch.compile(model, options=inductor_eager_switches())
  raise WorkerError("compiler", f"unknown compiler {kind!r}", "one of " + ", ".join(NAMES))
