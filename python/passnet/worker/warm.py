"""The clean parent of evaluations: everything slow is imported and run once, and no device is touched.

A child that is forked from it shares the imported modules (torch, Triton, dynamo and this package), dynamo's
rule tables and compiled regular expressions, and nothing that belongs to a variant or a device: no CUDA context, no
compiled graph, no random state that a child does not set itself. `proof` says by the process's own open files
and mappings that no device was opened; where that fails the caller starts a fresh interpreter per variant.
"""

import contextlib
import glob
import os
import signal
import sys

PROBE_SECONDS = 60  # after which a step that was tried counts as one that does not work
DEVICE_FILES = ("/dev/nvidia", "/dev/dri", "/dev/kfd")
CONTROL_FILE = "/dev/nvidiactl"  # NVML holds it open; it is no device


def _environment():
  os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # torch.cuda.is_available() then makes no context
  os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # no pool of workers, neither here nor in a child
  os.environ["TORCHINDUCTOR_WORKER_START"] = "subprocess"


def _no_gpu(*args, **kwargs):
  raise RuntimeError("the clean parent of evaluations opens no device")


@contextlib.contextmanager
def _no_device(torch):
  """While active torch is told that there is no GPU, and cannot open one: dynamo would otherwise save its random state."""
  instead = {
    (torch.cuda, "is_available"): lambda *a, **k: False,
    (torch.cuda, "device_count"): lambda *a, **k: 0,
    (torch.cuda, "_lazy_init"): _no_gpu,
    (torch._C, "_cuda_getDeviceCount"): lambda *a, **k: 0,
    (torch._C, "_cuda_init"): _no_gpu,
    (torch._C, "_accelerator_isAvailable"): lambda *a, **k: False,
    (torch._C, "_accelerator_getAccelerator"): lambda *a, **k: None,
    (torch._C, "_get_accelerator"): lambda *a, **k: torch.device("cpu"),
    # Fake tensors call it where there is no GPU; it counts the devices, and so opens them.
    (torch._C, "_ensureCUDADeviceGuardSet"): lambda *a, **k: None,
  }
  saved = [(owner, name, getattr(owner, name)) for owner, name in instead if hasattr(owner, name)]
  for owner, name, _ in saved:
    setattr(owner, name, instead[owner, name])
  try:
    yield
  finally:
    for owner, name, value in saved:
      setattr(owner, name, value)


def _import_torch():
  import torch  # noqa: F401


def _import_triton():
  import triton  # noqa: F401


def _import_dynamo():
  import torch._dynamo  # noqa: F401


def _import_own():
  from . import evaluate, interpreter, strict  # noqa: F401 - with all that they import


def _import_inductor():
  import torch._inductor.compile_fx  # noqa: F401 - and with it what a first compilation would import


def _compile_a_kernel():
  from . import warm_kernel

  warm_kernel.compile_it()


def _first_compilation():
  import torch

  def first(x, y):
    return torch.nn.functional.relu(x + y)

  x = torch.ones(2)
  torch.compile(first, backend=lambda gm, inputs: gm.forward)(x, x)
  torch._dynamo.reset()


IMPORTS = (
  ("torch", _import_torch),
  ("triton", _import_triton),
  ("dynamo", _import_dynamo),
  ("evaluator", _import_own),
)
INDUCTOR = ("inductor", _import_inductor)  # where something is compiled with it: every child would take seconds for it
# Where kernels will be compiled: Triton reads and hashes hundreds of megabytes of its own before the first one.
COMPILER = ("triton's compiler", _compile_a_kernel)
COMPILATION = ("first compilation", _first_compilation)
STEPS = (*IMPORTS, COMPILATION)


built = {}  # Triton's compiled helper by its name in a cache
_done = set()  # names of the steps that this process has behind it


def finish():
  """In a child: what its parent left out."""
  for name, function in STEPS:
    if name not in _done:
      function()
      _done.add(name)


def _step(function):
  if "torch" not in sys.modules:
    return function()
  with _no_device(sys.modules["torch"]):
    function()


def clean_steps(steps):
  """How many of the steps leave no device open, tried in a child: what opens one there is left out here, and the last one
  as well where the device cannot be used behind it. Imports alone are not tried, which would take as long as they do:
  where one opens a device the proof fails and nothing is forked.
  """
  if not os.path.exists(CONTROL_FILE):
    return len(steps)  # there is no device to open
  reader, writer = os.pipe()
  pid = os.fork()
  if pid == 0:
    try:
      os.close(reader)
      signal.alarm(PROBE_SECONDS)
      for number, (_, function) in enumerate(steps, 1):
        _step(function)
        if not proof()["clean"] or number == len(steps) and not _device_works():
          break
        os.write(writer, b".")
    finally:
      os._exit(0)
  os.close(writer)
  done = 0
  while os.read(reader, 1):
    done += 1
  os.close(reader)
  os.waitpid(pid, 0)
  return done


def _device_works():
  """What every child will do, in the throw-away one: opens the device and compiles for it."""
  import torch

  _forget_devices(torch)
  try:
    torch.cuda.init()
    x = torch.ones(2, device="cuda")
    works = torch.compile(lambda v: v * 2.0, backend=lambda gm, inputs: gm.forward)(x).sum().item() == 4.0
    with contextlib.suppress(Exception):  # leaves Triton's own module in the cache, for all children
      import triton

      triton.runtime.driver.active.utils  # noqa: B018
    return works
  except Exception:  # noqa: BLE001 - whatever it is, the children do better without the step
    return False


def prepare(probe=True, inductor=False, kernels=False):
  """Imports and runs what every child needs, as far as no device is touched by it. Safe to call again. `inductor`: some
  child will compile with it; `kernels`: for a device, with Triton.
  """
  _environment()
  left_out = []

  def run(steps):
    for name, function in steps:
      try:
        _step(function)
        _done.add(name)
      except Exception as e:  # noqa: BLE001 - something insisted on a device: the children do this step themselves
        left_out.append(f"{name}: {e}")

  run([*IMPORTS, COMPILER] if kernels else IMPORTS)
  steps = [INDUCTOR, COMPILATION] if inductor else [COMPILATION]
  count = clean_steps(steps) if probe and COMPILATION[0] not in _done else len(steps)
  left_out += [name for name, _ in steps[count:]]
  run(steps[:count])
  if "torch" in sys.modules:
    _forget_devices(sys.modules["torch"])
  _keep_built()
  return {**proof(), "left_out": left_out}


def _keep_built():
  folder = os.environ.get("TRITON_CACHE_DIR", "")
  for path in glob.glob(os.path.join(glob.escape(folder), "*", "cuda_utils*.so")) if folder else []:
    with open(path, "rb") as f:
      built[os.path.relpath(path, folder)] = f.read()


def write_built(folder):
  """Into a cache that is still empty: what was built before anything of a pass was loaded, from memory."""
  for name, content in built.items():
    os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
    with open(os.path.join(folder, name), "wb") as f:
      f.write(content)


# Modules whose cached answers are about files of the installation.
ABOUT_FILES = ("triton.runtime.cache", "triton.backends.nvidia.compiler", "triton.knobs")


def _forget_devices(torch):
  """Drops what torch concluded from there being no GPU."""
  import functools

  about_devices = ("torch.utils._triton", "torch._native", "torch._inductor", "torch.cuda", "triton")
  for name, module in list(sys.modules.items()):
    if module is not None and (name in about_devices or name.startswith(tuple(m + "." for m in about_devices))):
      for value in list(vars(module).values()):
        if type(value) is functools._lru_cache_wrapper and value.__module__ not in ABOUT_FILES:
          value.cache_clear()
  interface = sys.modules.get("torch._dynamo.device_interface")
  if interface is not None and hasattr(interface, "_device_initialized"):
    interface._device_initialized = False
    interface.device_interfaces.clear()


def open_devices():
  """Device files that this process holds open."""
  found = set()
  for fd in os.listdir("/proc/self/fd"):
    with contextlib.suppress(OSError):
      target = os.readlink(f"/proc/self/fd/{fd}")
      if target.startswith(DEVICE_FILES) and target != CONTROL_FILE:
        found.add(target)
  return sorted(found)


def driver_initialised():
  """Whether the CUDA driver library is mapped: nothing can have made a context without it."""
  with open("/proc/self/maps", encoding="utf-8", errors="replace") as f:
    return any("libcuda.so" in line for line in f)


def proof():
  devices = open_devices()
  return {
    "clean": not devices,
    "open_devices": devices,
    "driver_loaded": driver_initialised(),
    "threads": len(os.listdir("/proc/self/task")),
  }
