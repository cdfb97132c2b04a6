"""One lock per device, shared by every passnet process of a machine: flock on a file named by the GPU's UUID.

Held shared while a variant compiles and warms up on the device, exclusively while one is timed. The kernel
releases it with the process, however that ends.
"""

import contextlib
import fcntl
import os


def device_name(device):
  """The name of a device across processes and CUDA_VISIBLE_DEVICES."""
  if device.type != "cuda":
    return device.type
  import torch

  p = torch.cuda.get_device_properties(device)
  return "gpu-" + (str(getattr(p, "uuid", "")) or f"{p.name}-{device.index or 0}".replace(" ", "-"))


class NamedLock:
  def __init__(self, folder, name):
    os.makedirs(folder, mode=0o700, exist_ok=True)
    self.path = os.path.join(folder, name + ".lock")
    self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

  @contextlib.contextmanager
  def held(self, exclusive):
    fcntl.flock(self.fd, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
    try:
      yield
    finally:
      fcntl.flock(self.fd, fcntl.LOCK_UN)

  def keep(self):
    """Shared until the process is gone: nothing gives it back before."""
    fcntl.flock(self.fd, fcntl.LOCK_SH)


class DeviceLock(NamedLock):
  def __init__(self, folder, device):
    super().__init__(folder, device_name(device))


class NoLock:
  @contextlib.contextmanager
  def held(self, exclusive):
    yield
