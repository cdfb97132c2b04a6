"""One lock per device, shared by every passnet process of a machine: flock on a file named by the GPU's UUID.

Held shared while a variant uses the device, exclusively while one is timed. Who asks goes through a gate first, one after
the other, and who waits to be alone keeps it shut: otherwise those who share, of whom there is always one, would keep it
waiting. Who shares for longer than PATIENCE seconds, in an endless loop perhaps, holds nobody up any more. The kernel
releases both with the process, however that ends.
"""

import contextlib
import fcntl
import os
import threading
import time

PATIENCE = 20.0
waited = {"shared": 0.0, "exclusive": 0.0}  # seconds that this process waited for locks
# Called with True when this process begins to wait for a lock and with False when it has it: who bounds its time does not
# count what others use.
on_wait = None


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
    self.timer = None
    self.gate = os.open(os.path.join(folder, name + ".gate"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

  def _take(self, exclusive):
    kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    started = time.monotonic()
    told = False

    def flock(fd, kind):
      nonlocal told
      try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
      except BlockingIOError:
        if on_wait is not None and not told:
          told = True
          on_wait(True)
        fcntl.flock(fd, kind)

    flock(self.gate, fcntl.LOCK_EX)
    try:
      flock(self.fd, kind)
    finally:
      fcntl.flock(self.gate, fcntl.LOCK_UN)
    if told:
      on_wait(False)
    waited["exclusive" if exclusive else "shared"] += time.monotonic() - started
    if not exclusive:
      self.timer = threading.Timer(PATIENCE, self._unlock)
      self.timer.daemon = True
      self.timer.start()

  def _unlock(self):
    fcntl.flock(self.fd, fcntl.LOCK_UN)

  def _give_back(self):
    if self.timer is not None:
      self.timer.cancel()
      self.timer = None
    self._unlock()

  @contextlib.contextmanager
  def held(self, exclusive):
    self._take(exclusive)
    try:
      yield
    finally:
      self._give_back()

  @contextlib.contextmanager
  def released(self):
    """Inside a shared hold: a stretch of work that leaves the device alone."""
    self._give_back()
    try:
      yield
    finally:
      self._take(exclusive=False)

  def keep(self):
    """Shared until the process is gone: nothing gives it back before."""
    self._take(exclusive=False)


class DeviceLock(NamedLock):
  def __init__(self, folder, device):
    super().__init__(folder, device_name(device))


class TimingLock(NamedLock):
  """Without a device to disturb: alone for timing, and nothing to share."""

  @contextlib.contextmanager
  def held(self, exclusive):
    if exclusive:
      with super().held(exclusive):
        yield
    else:
      yield

  @contextlib.contextmanager
  def released(self):
    yield

  def keep(self):
    pass


def lock_of(folder, device):
  return DeviceLock(folder, device) if device.type == "cuda" else TimingLock(folder, device_name(device))


class NoLock:
  @contextlib.contextmanager
  def held(self, exclusive):
    yield

  @contextlib.contextmanager
  def released(self):
    yield
