"""The clean parent of evaluations: everything slow is imported and run once, and no device is touched.

A child that is forked from it shares the imported modules (torch, Triton, dynamo and this package), dynamo's
rule tables and compiled regular expressions, and nothing that belongs to a variant or a device: no CUDA context, no
compiled graph, no random state that a child does not set itself. `proof` says by the process's own open files
and mappings that no device was opened; where that fails the caller starts a fresh interpreter per variant.
"""

import contextlib
import os
import sys

DEVICE_FILES = ("/dev/nvidia", "/dev/dri", "/dev/kfd")
CONTROL_FILE = "/dev/nvidiactl"  # NVML holds it open; it is no device


def _environment():
  os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # torch.cuda.is_available() then makes no context
  os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # no pool of workers, neither here nor in a child
  os.environ["TORCHINDUCTOR_WORKER_START"] = "subprocess"


@contextlib.contextmanager
def _no_device(torch):
  """While active torch is told that there is no GPU: dynamo would otherwise save the random state of one."""
  saved = [(torch.cuda, "is_available"), (torch.cuda, "device_count"), (torch._C, "_cuda_getDeviceCount")]
  saved = [(owner, name, getattr(owner, name)) for owner, name in saved if hasattr(owner, name)]
  for owner, name, _ in saved:
    setattr(owner, name, (lambda *a, **k: False) if name == "is_available" else (lambda *a, **k: 0))
  try:
    yield
  finally:
    for owner, name, value in saved:
      setattr(owner, name, value)


def prepare():
  """Imports and runs what every child needs. Safe to call again."""
  _environment()
  import torch

  with _no_device(torch):
    import torch._dynamo
    import triton  # noqa: F401

    from . import evaluate, interpreter, strict  # noqa: F401 - with all that they import

    def first(x, y):
      return torch.nn.functional.relu(x + y)

    x = torch.ones(2)
    torch.compile(first, backend=lambda gm, inputs: gm.forward)(x, x)
    torch._dynamo.reset()
  _forget_devices(torch)
  return proof()


def _forget_devices(torch):
  """Drops what torch concluded from there being no GPU."""
  import functools

  about_devices = ("torch.utils._triton", "torch._native", "torch._inductor", "torch.cuda", "triton")
  for name, module in list(sys.modules.items()):
    if module is not None and (name in about_devices or name.startswith(tuple(m + "." for m in about_devices))):
      for value in list(vars(module).values()):
        if type(value) is functools._lru_cache_wrapper:
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
