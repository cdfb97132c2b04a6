"""Memory of an interpreted kernel: every access is checked against the storages the kernel was given.

An access outside all of them is an error with the address, never a crash of this process.
"""

import ctypes

import numpy as np


class OutOfBounds(Exception):
  pass


class Region:
  def __init__(self, base, size, keep):
    self.base, self.size, self.keep = base, size, keep
    self.bytes = (
      np.frombuffer((ctypes.c_uint8 * size).from_address(base), dtype=np.uint8)
      if size
      else np.zeros(0, np.uint8)
    )
    self.bytes.flags.writeable = True
    self.written = None  # one flag a byte, when stores are recorded
    self._views = {}

  def view(self, dtype, offset):
    """Elements of `dtype` whose first one starts at byte `offset` (smaller than the itemsize)."""
    key = (dtype, offset)
    if key not in self._views:
      count = (self.size - offset) // dtype.itemsize
      self._views[key] = np.ndarray((max(count, 0),), dtype, self.bytes.data, offset)
    return self._views[key]


class Memory:
  def __init__(self):
    self._regions = {}  # base -> Region
    self.record_stores = False
    self.undo = None  # list of (view, indices, old values) while a batch may have to be taken back
    self.stores = self.loads = 0

  def add_tensor(self, tensor):
    """Makes the whole storage of a CPU tensor accessible; keeps it alive until clear()."""
    storage = tensor.untyped_storage()
    base, size = storage.data_ptr(), storage.nbytes()
    known = self._regions.get(base)
    if base and (known is None or known.size < size):
      self._regions[base] = Region(base, size, storage)
    return self._regions.get(base)

  def clear(self):
    self._regions.clear()

  def region_of(self, tensor):
    return self._regions.get(tensor.untyped_storage().data_ptr())

  def written_mask(self, tensor):
    """Which elements of a tensor were stored (all of their bytes), as a boolean array of its shape; None if
    not recorded.
    """
    region = self.region_of(tensor)
    if region is None or region.written is None:
      return np.zeros(tuple(tensor.shape), dtype=bool)
    item = tensor.element_size()
    strides = tuple(s * item for s in tensor.stride())
    offset = tensor.data_ptr() - region.base
    first = np.lib.stride_tricks.as_strided(region.written[offset:], tuple(tensor.shape), strides)
    return first.astype(bool)

  def _locate(self, addresses, itemsize, what):
    """(region, byte offsets) for addresses that all lie in one region, else None; raises when one lies in
    none.
    """
    low, high = int(addresses.min()), int(addresses.max())
    for region in self._regions.values():
      if region.base <= low < region.base + region.size:
        if high + itemsize <= region.base + region.size:
          return region
        break
    return None

  def _groups(self, addresses, itemsize, what):
    """[(region, selector)] covering all addresses."""
    one = self._locate(addresses, itemsize, what)
    if one is not None:
      return [(one, None)]
    left = np.ones(addresses.shape, dtype=bool)
    groups = []
    for region in self._regions.values():
      inside = (
        left
        & (addresses >= np.uint64(region.base))
        & (addresses + np.uint64(itemsize) <= np.uint64(region.base + region.size))
      )
      if inside.any():
        groups.append((region, inside))
        left &= ~inside
    if left.any():
      bad = int(addresses[left][0])
      near = min(
        self._regions.values(), key=lambda r: min(abs(bad - r.base), abs(bad - r.base - r.size)), default=None
      )
      hint = (
        f"; {bad - near.base} bytes from the start of the nearest buffer of {near.size} bytes" if near else ""
      )
      raise OutOfBounds(
        f"{what} outside every tensor: {int(left.sum())} of {left.size} accesses, first at {bad:#x}{hint}"
      )
    return groups

  def load(self, pointers, mask, other, dtype):
    """Values at `pointers` where `mask`; `other` (or zero) elsewhere. Shapes broadcast."""
    self.loads += 1
    if mask is None:
      flat = pointers.ravel()
      return self._gather(flat, dtype).reshape(pointers.shape)
    shape = np.broadcast_shapes(pointers.shape, mask.shape, () if other is None else other.shape)
    mask = np.broadcast_to(mask, shape)
    if mask.all():
      if pointers.shape == shape:
        return self._gather(pointers.ravel(), dtype).reshape(shape)
      return np.broadcast_to(self._gather(pointers.ravel(), dtype).reshape(pointers.shape), shape)
    pointers = np.broadcast_to(pointers, shape)
    out = np.zeros(shape, dtype) if other is None else np.array(np.broadcast_to(other, shape), dtype=dtype)
    if mask.any():
      out[mask] = self._gather(pointers[mask], dtype)
    return out

  def _gather(self, flat, dtype):
    if flat.size == 0:
      return np.zeros(0, dtype)
    groups = self._groups(flat, dtype.itemsize, "load")
    if groups[0][1] is None:
      return self._take(groups[0][0], flat, dtype)
    out = np.empty(flat.shape, dtype)
    for region, chosen in groups:
      out[chosen] = self._take(region, flat[chosen], dtype)
    return out

  def _split(self, region, flat, dtype):
    offsets = flat - np.uint64(region.base)
    if dtype.itemsize == 1:
      return offsets.view(np.int64), 0
    shift, mask = np.uint64(dtype.itemsize.bit_length() - 1), np.uint64(dtype.itemsize - 1)
    first = int(offsets.flat[0] & mask)
    if (
      int(np.bitwise_or.reduce(offsets) & mask) != first
      or int(np.bitwise_and.reduce(offsets) & mask) != first
    ):
      raise OutOfBounds("accesses of one instruction have different alignment within their elements")
    return (offsets >> shift).view(np.int64), first

  def _take(self, region, flat, dtype):
    index, rest = self._split(region, flat, dtype)
    return region.view(dtype, rest)[index]

  def store(self, pointers, values, mask, dtype):
    self.stores += 1
    shape = np.broadcast_shapes(pointers.shape, values.shape, () if mask is None else mask.shape)
    pointers = np.broadcast_to(pointers, shape)
    values = np.broadcast_to(values, shape)
    if mask is not None:
      mask = np.broadcast_to(mask, shape)
      if mask.all():
        mask = None
    flat = pointers.ravel() if mask is None else pointers[mask]
    data = (values.ravel() if mask is None else values[mask]).astype(dtype, copy=False)
    if flat.size == 0:
      return
    for region, chosen in self._groups(flat, dtype.itemsize, "store"):
      index, rest = self._split(region, flat if chosen is None else flat[chosen], dtype)
      view = region.view(dtype, rest)
      if self.undo is not None:
        self.undo.append((view, index, view[index].copy()))
      view[index] = data if chosen is None else data[chosen]
      if self.record_stores:
        if region.written is None:
          region.written = np.zeros(region.size, dtype=np.uint8)
        np.ndarray((view.shape[0], dtype.itemsize), np.uint8, region.written.data, rest)[index] = 1

  def take_back(self):
    """Undoes the stores recorded since `undo` was set, newest first."""
    for view, index, old in reversed(self.undo):
      view[index] = old
    self.undo = []

  def check(self, pointers, mask, itemsize, what):
    """Bounds check alone, for instructions that are carried out elsewhere (atomics)."""
    flat = np.broadcast_to(pointers, mask.shape)[mask] if mask is not None else pointers.ravel()
    if flat.size:
      self._groups(flat, itemsize, what)
