"""Running @triton.jit kernels on CPU tensors, with no device and no environment variable.

Inside `Session` a launch `kernel[grid](...)` on CPU tensors is interpreted, many programs at a time, and
returns an object with the attributes of a compiled kernel: its `run` takes raw addresses like the compiled
launcher does, checks the assumptions that the entry was specialised on (alignment, sizes equal to 1), and
runs the same program. A driver without device answers for the stream getter and the current device.
"""

import contextlib
import inspect
from types import SimpleNamespace

import numpy as np
import torch
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDAOptions
from triton.language.semantic import TritonSemantic
from triton.runtime import autotuner, driver, jit
from triton.runtime.interpreter import FunctionRewriter, InterpretedFunction, TensorHandle

from . import interp_builder, interp_memory, interp_patch, poison
from .errors import WorkerError

BATCH_ELEMENTS = 1 << 18  # elements of the largest value of one batch: small enough for the caches
_OPTION_NAMES = frozenset(CUDAOptions.__dataclass_fields__) | {"instrumentation_mode"}


class KernelError(Exception):
  """A kernel did something that fails on a device; the text names kernel and program."""


class _Rewriter(FunctionRewriter):
  """Rewrites assignments like the stock interpreter, in a private copy of the function's globals."""

  def __init__(self, fn, namespace):
    super().__init__(fn)
    self.namespace = namespace

  def _compile_and_exec(self, tree):
    local = {}
    exec(compile(tree, filename=self.filename, mode="exec"), self.namespace, local)
    return local[self.fn.__name__]


class Session:
  """All interpretation within one `with` block. Options:

  sample: at most this many programs of each launch are run (0: all), chosen by `seed`; record_stores: keep
  which bytes were written.
  """

  def __init__(self, sample=0, seed=0, record_stores=False):
    self.memory = interp_memory.Memory()
    self.memory.record_stores = record_stores or bool(sample)
    self.builder = interp_builder.BatchedBuilder(self.memory)
    self.semantic = TritonSemantic(self.builder)
    self.sample, self.rng = sample, np.random.RandomState(seed)
    self.launches = []  # {"kernel", "grid", "programs", "ran", "fast"}
    self._functions = {}
    self._depth = 0
    self._probes = {}  # kernel -> largest value per program, known after the first program
    self._patches = None

  # -- functions
  def function(self, fn):
    """The interpreted form of a Python kernel or device function."""
    if fn not in self._functions:
      namespace = dict(fn.__globals__)
      namespace.update(inspect.getclosurevars(fn).nonlocals)
      namespace["interpreter_semantic"] = self.semantic
      for name, value in namespace.items():
        swapped = self._patches.replacement_of(value)
        if swapped is not None:
          namespace[name] = swapped
      self._functions[fn] = _Rewriter(fn, namespace).rewrite_ast()
    return self._functions[fn]

  def call_device_function(self, jitted, args, kwargs):
    return self.function(jitted.fn)(*args, **kwargs)

  # -- launches
  def launch(self, jitted, args, kwargs, grid):
    for name in kwargs:
      if name not in jitted.arg_names and name not in _OPTION_NAMES:
        raise KeyError(f"Keyword argument {name} was specified but unrecognised")
    kwargs = {k: v for k, v in kwargs.items() if k in jitted.arg_names}
    bound = inspect.signature(jitted.fn).bind(*args, **kwargs)
    bound.apply_defaults()
    entry = InterpretedKernel(self, jitted, dict(bound.arguments))
    if callable(grid):
      grid = grid(dict(bound.arguments))
    entry.execute(tuple(int(g) for g in grid), entry.values)
    return entry

  @poison.exempt  # what a kernel computes is no operator of the wrapper
  def run_programs(self, name, fn, grid, arguments, fast):
    grid = tuple(grid) + (1,) * (3 - len(grid))
    total = grid[0] * grid[1] * grid[2]
    ids = np.arange(total, dtype=np.int64)
    if self.sample and total > self.sample:
      ids = np.sort(self.rng.choice(total, self.sample, replace=False))
    self.launches.append(
      {"kernel": name, "grid": list(grid), "programs": total, "ran": len(ids), "fast": fast}
    )
    self.builder.grid_dim = grid
    position = 0
    with self._patches.active():
      while position < len(ids):
        known = self._probes.get(fn)
        count = 1 if known is None else max(1, BATCH_ELEMENTS // known)
        batch = ids[position : position + count]
        if known is None:
          self.builder.largest, self.builder.branched = 1, False
        self._run_batch(name, fn, batch, grid, arguments)
        if known is None:
          self._probes[fn] = self.builder.largest
        position += len(batch)

  def _run_batch(self, name, fn, batch, grid, arguments):
    # The first program alone shows whether control flow depends on values at all; only then can a batch fail
    # half way.
    if len(batch) > 1 and self.builder.branched:
      self.memory.undo = []
    try:
      self._run(name, fn, batch, grid, arguments)
    except interp_builder.NeedSerial:
      if self.memory.undo:
        self.memory.take_back()
      self.memory.undo = None
      for one in batch:
        self._run(name, fn, np.array([one]), grid, arguments)
    finally:
      self.memory.undo = None

  def _run(self, name, fn, batch, grid, arguments):
    x, rest = np.divmod(batch, grid[1] * grid[2])
    y, z = np.divmod(rest, grid[2])
    self.builder.set_programs(x, y, z)
    try:
      fn(**arguments)
    except interp_builder.NeedSerial:
      raise
    except Exception as e:
      where = f"program {(int(x[0]), int(y[0]), int(z[0]))}" + (
        f" to {(int(x[-1]), int(y[-1]), int(z[-1]))}" if len(batch) > 1 else ""
      )
      raise KernelError(f"kernel {name}, {where} of grid {grid}: {type(e).__name__}: {e}") from e

  # -- scope
  def __enter__(self):
    if interp_patch.current is not None:
      raise WorkerError("nested_session", "an interpreter session is active already", "")
    self._patches = interp_patch.LanguagePatches(self.semantic, self.builder)
    self._stack = contextlib.ExitStack()
    interp_patch.current = self
    self._stack.callback(lambda: setattr(interp_patch, "current", None))
    self._stack.enter_context(_patched_runtime(self))
    return self

  def __exit__(self, *exc):
    self._stack.close()
    self.memory.clear()


def _unwrap(value):
  return poison.unwrap(value) if isinstance(value, torch.Tensor) else value


class Launcher:
  """A compiled kernel's launcher: called, or through its inner `launch`, with the argument orders of the CUDA backend."""

  global_scratch_size = profile_scratch_size = 0
  global_scratch_align = profile_scratch_align = 1
  launch_cooperative_grid = launch_pdl = False
  num_ctas = 1

  def __init__(self, kernel):
    self.kernel = kernel

  def __call__(self, gx, gy, gz, stream, function, metadata, launch_metadata, enter_hook, exit_hook, *args):
    self.launch(
      gx,
      gy,
      gz,
      stream,
      function,
      False,
      False,
      None,
      None,
      metadata,
      launch_metadata,
      enter_hook,
      exit_hook,
      *args,
    )

  def launch(
    self,
    gx,
    gy,
    gz,
    stream,
    function,
    cooperative,
    pdl,
    scratch,
    profile,
    metadata,
    launch_metadata,
    enter,
    leave,
    *args,
  ):
    if function is not self.kernel.function or metadata is not self.kernel.packed_metadata:
      raise KernelError(f"kernel {self.kernel.name}: its launcher got another kernel's function or metadata")
    if cooperative or pdl or scratch is not None or profile is not None:
      raise KernelError(f"kernel {self.kernel.name}: its launcher got options that it was not compiled for")
    self.kernel.run_compiled((int(gx), int(gy), int(gz)), args)


class InterpretedKernel:
  """What a launch returns: a stand-in for a compiled kernel, specialised like one."""

  def __init__(self, session, jitted, arguments):
    self.session, self.jitted = session, jitted
    self.name = jitted.fn.__name__
    self.parameters = list(jitted.params) if hasattr(jitted, "params") else []
    self.constexprs = {p.name for p in self.parameters if p.is_constexpr}
    self.types, self.assumed, self.values = {}, {}, {}
    self.function = object()  # handles: opaque to the caller, told apart from those of other kernels
    self.packed_metadata = [4, 1, 0]
    self.metadata = SimpleNamespace(name=self.name, num_warps=4, num_stages=1, shared=0)
    self.n_regs, self.n_spills, self.asm = 0, 0, {}
    self.run = Launcher(self)
    for p in self.parameters:
      self._specialise(p, _unwrap(arguments[p.name]))

  def _specialise(self, p, value):
    self.values[p.name] = value
    if p.name in self.constexprs:
      self.constants = getattr(self, "constants", {})
      self.constants[p.name] = value
      return
    if isinstance(value, torch.Tensor):
      if value.device.type != "cpu":
        raise KernelError(
          f"kernel {self.name}: argument {p.name} is on {value.device}, the interpreter needs CPU tensors"
        )
      self.types[p.name] = jit.mangle_type(value)
      if not p.do_not_specialize and not p.do_not_specialize_on_alignment and value.data_ptr() % 16 == 0:
        self.assumed[p.name] = "aligned"
    elif value is None:
      self.constants = getattr(self, "constants", {})
      self.constants[p.name] = None
    elif isinstance(value, int) and not isinstance(value, bool) and not p.do_not_specialize:
      if value == 1:
        self.assumed[p.name] = "one"
      elif value % 16 == 0 and not p.do_not_specialize_on_alignment:
        self.assumed[p.name] = "divisible"

  def __getitem__(self, grid):
    return lambda *args, **kwargs: self.run(
      *(tuple(grid) + (1,) * (3 - len(grid))), 0, self.function, self.packed_metadata, None, None, None, *args
    )

  def launch_metadata(self, *args):
    return None

  def run_compiled(self, grid, args):
    """One launch with every parameter in order, pointers as tensors or addresses."""
    if len(args) != len(self.parameters):
      raise KernelError(
        f"kernel {self.name}: its launcher takes {len(self.parameters)} arguments, got {len(args)}"
      )
    values = dict(self.values)
    for p, value in zip(self.parameters, args):
      # Constants are compiled in, whatever is passed.
      if p.name not in self.constexprs and values.get(p.name) is not None:
        values[p.name] = self._check(p.name, _unwrap(value))
    self.execute(grid, values, fast=True)

  def _check(self, name, value):
    assumed = self.assumed.get(name)
    number = value.data_ptr() if isinstance(value, torch.Tensor) else value
    if assumed == "aligned" and number % 16:
      raise KernelError(
        f"kernel {self.name}: {name} was compiled as 16-byte aligned, the launcher passes {number:#x}"
      )
    if assumed == "divisible" and number % 16:
      raise KernelError(
        f"kernel {self.name}: {name} was compiled as a multiple of 16, the launcher passes {number}"
      )
    if assumed == "one" and number != 1:
      raise KernelError(f"kernel {self.name}: {name} was compiled as 1, the launcher passes {number}")
    return value

  def execute(self, grid, values, fast=False):
    arguments = {}
    for p in self.parameters:
      value = values[p.name]
      arguments[p.name] = value if p.name in self.constexprs else self._convert(p.name, value)
    self.session.run_programs(self.name, self.session.function(self.jitted.fn), grid, arguments, fast)

  def _convert(self, name, value):
    if isinstance(value, torch.Tensor):
      self.session.memory.add_tensor(value)
      return self._pointer(self.types[name], value.data_ptr())
    if name in self.types:  # an address in place of the tensor the entry was specialised on
      return self._pointer(self.types[name], value)
    if isinstance(value, tuple):
      return tuple(self._convert(name, v) for v in value)
    if isinstance(value, bool):
      return tl.tensor(TensorHandle(np.array([value]), tl.int1), tl.int1)
    if isinstance(value, int):
      ty = tl.int32 if -(2**31) <= value < 2**31 else tl.int64 if value < 2**63 else tl.uint64
      return tl.tensor(TensorHandle(np.array([value], dtype=ty.name), ty), ty)
    if isinstance(value, float):
      return tl.tensor(TensorHandle(np.array([value], dtype=np.float32), tl.float32), tl.float32)
    return value

  @staticmethod
  def _pointer(type_name, address):
    ty = tl.str_to_ty(type_name, None)
    return tl.tensor(TensorHandle(np.array([address], dtype=np.uint64), ty), ty)


class _NoDevice:
  """Answers for triton's active driver where there is no GPU: device 0, stream 0."""

  def get_current_device(self):
    return 0

  def get_current_stream(self, device=0):
    return 0

  def set_current_device(self, device):
    pass

  def get_current_target(self):
    return GPUTarget("cuda", 90, 32)

  def get_active_torch_device(self):
    return torch.device("cpu")

  def get_device_interface(self):
    return torch.cuda

  def get_benchmarker(self):
    return lambda fn, *args, **kwargs: (fn(), [0.0, 0.0, 0.0])[1]

  @property
  def utils(self):
    return SimpleNamespace(
      get_device_properties=lambda device: {
        "max_shared_mem": 232448,
        "multiprocessor_count": 132,
        "warpSize": 32,
        "max_num_regs": 65536,
      }
    )


@contextlib.contextmanager
def driver_without_device():
  """triton.runtime.driver.active answers even where there is no GPU: what generated modules ask when they are
  imported.
  """
  active = driver._active
  if not torch.cuda.is_available():
    driver._active = _NoDevice()
  try:
    yield
  finally:
    driver._active = active


@contextlib.contextmanager
def _patched_runtime(session):
  """Launches on CPU tensors go to the session; addresses handed out by data_ptr() stay known until the call
  ends.
  """
  saved = {
    (cls, name): cls.__dict__.get(name)
    for cls in (jit.JITFunction, InterpretedFunction)
    for name in ("run", "__call__")
  }
  saved[(autotuner.Autotuner, "run")] = autotuner.Autotuner.__dict__["run"]
  old_pointer = torch.Tensor.data_ptr

  def run(self, *args, grid, warmup=False, **kwargs):
    if any(isinstance(a, torch.Tensor) and a.is_cuda for a in (*args, *kwargs.values())):
      return saved[(type(self), "run")](self, *args, grid=grid, warmup=warmup, **kwargs)
    return None if warmup else session.launch(self, args, kwargs, grid)

  def call(self, *args, **kwargs):
    return session.call_device_function(self, args, kwargs)

  def tuned(self, *args, **kwargs):  # the first configuration: timing means nothing here
    config = self.configs[0]
    if config.pre_hook is not None:
      config.pre_hook({**dict(zip(self.arg_names, args)), **kwargs, **config.all_kwargs()})
    self.best_config = config
    return self.fn.run(*args, **kwargs, **config.all_kwargs())

  def data_ptr(self):
    if self.device.type == "cpu":
      session.memory.add_tensor(self)
    return old_pointer(self)

  for cls in (jit.JITFunction, InterpretedFunction):
    cls.run, cls.__call__ = run, call
  autotuner.Autotuner.run = tuned
  torch.Tensor.data_ptr = data_ptr
  try:
    with driver_without_device():
      yield
  finally:
    del torch.Tensor.data_ptr
    for (cls, name), old in saved.items():
      setattr(cls, name, old) if old is not None else delattr(cls, name)
