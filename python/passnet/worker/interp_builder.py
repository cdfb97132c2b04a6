"""A Triton builder on numpy arrays that runs many programs of a grid at once.

Every handle holds an array with one leading batch axis of size 1 (the same for all programs) or P (one per
program); a scalar has the batch axis only. Control flow that differs between the programs of a batch raises
NeedSerial: the executor then runs that batch program by program.
"""

import numpy as np
import triton.language as tl
from triton._C.libtriton import interpreter as _native
from triton._C.libtriton import ir as _ir
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle, _get_np_dtype

from . import interp_extern, numeric
from .interp_extern import Unsupported


class NeedSerial(Exception):
  """Programs of one batch would take different paths."""


class _Options:
  """What the semantic layer asks of a backend; the values of the CUDA backend, overflow asserts off as in a
  launch.
  """

  extern_libs = None
  debug = False
  sanitize_overflow = False
  arch = None
  supported_fp8_dtypes = ("fp8e5", "fp8e4b15")
  deprecated_fp8_dot_operand_dtypes = ()
  default_dot_input_precision = "tf32"
  allowed_dot_input_precisions = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
  max_num_imprecise_acc_default = 0
  backend_name = "cuda"


def _elem(dtype):
  return dtype.scalar if isinstance(dtype, tl.dtype) else dtype


def wide(handle):
  """The handle's floats ready for arithmetic: bf16 and fp16 as fp32."""
  dtype = _elem(handle.dtype)
  if dtype == tl.bfloat16:
    return numeric.bf16_to_f32(handle.data)
  if dtype == tl.float16:
    return handle.data.astype(np.float32)
  return handle.data


def narrow(data, dtype):
  dtype = _elem(dtype)
  if dtype == tl.bfloat16:
    return TensorHandle(numeric.f32_to_bf16(data), dtype)
  return TensorHandle(data.astype(_get_np_dtype(dtype), copy=False), dtype)


def unsigned(data):
  return data.view(np.dtype(f"u{data.dtype.itemsize}")) if data.dtype.kind == "i" else data


def signed(data):
  return data.view(np.dtype(f"i{data.dtype.itemsize}")) if data.dtype.kind == "u" else data


class BatchedBuilder(InterpreterBuilder):
  def __init__(self, memory):
    super().__init__()
    self.options = _Options()
    self.memory = memory
    self.largest = 1  # elements per program of the largest value made
    self.branched = False  # a tensor was asked for its truth or as an index
    self.grid_dim = (1, 1, 1)
    self.programs = None  # (x, y, z) arrays of the batch

  # -- values of the batch
  def set_programs(self, x, y, z):
    self.programs = (x, y, z)

  def create_get_program_id(self, axis):
    return TensorHandle(self.programs[axis].astype(np.int32), tl.int32)

  def create_get_num_programs(self, axis):
    return TensorHandle(np.array([self.grid_dim[axis]], dtype=np.int32), tl.int32)

  def uniform(self, data):
    """The one value that every program of the batch holds."""
    self.branched = True
    first = data.flat[0]
    if data.size > 1 and not (data == first).all():
      raise NeedSerial
    return first

  def get_bf16(self, value):
    return TensorHandle(numeric.f32_to_bf16(np.array([value], dtype=np.float32)), tl.bfloat16)

  def get_fp16(self, value):
    return TensorHandle(np.array([value], dtype=np.float32).astype(np.float16), tl.float16)

  def get_null_value(self, type):
    return TensorHandle(
      np.zeros(
        (1,) + tuple(getattr(type, "shape", ()) if type.is_block() else ()), dtype=_get_np_dtype(type)
      ),
      type.scalar,
    )

  # -- memory
  def _track(self, data):
    size = int(np.prod(data.shape[1:])) if data.ndim > 1 else 1
    if size > self.largest:
      self.largest = size
    return data

  def create_load(self, ptr, _0, _1, is_volatile):
    return self.create_masked_load(ptr, None, None, _0, _1, is_volatile)

  def create_store(self, ptr, val, _0, _1):
    return self.create_masked_store(ptr, val, None, None, None)

  def create_masked_load(self, ptrs, mask, other, cache_modifier, eviction_policy, is_volatile):
    dtype = ptrs.get_element_ty()
    data = self.memory.load(
      ptrs.data,
      None if mask is None else mask.data,
      None if other is None else other.data,
      _get_np_dtype(dtype),
    )
    return TensorHandle(self._track(data), dtype)

  def create_masked_store(self, ptrs, value, mask, cache_modifier, eviction_policy):
    self.memory.store(
      ptrs.data, value.data, None if mask is None else mask.data, _get_np_dtype(ptrs.get_element_ty())
    )

  def _every_program(self, shape):
    """An atomic happens once per program, also where all programs say the same."""
    return (len(self.programs[0]),) + tuple(shape[1:])

  def create_atomic_rmw(self, rmwOp, ptr, val, mask, sem, scope):
    if _elem(val.dtype) == tl.bfloat16:
      raise Unsupported("atomics on bf16")
    if self.memory.undo is not None:
      raise NeedSerial
    shape = self._every_program(np.broadcast_shapes(ptr.data.shape, val.data.shape, mask.data.shape))
    pointers, values, active = (
      np.ascontiguousarray(np.broadcast_to(h.data, shape)) for h in (ptr, val, mask)
    )
    self.memory.check(pointers, active, val.data.dtype.itemsize, "atomic")
    old = _native.atomic_rmw(
      self.ir_rmw_op_to_interpreter_rmw_op[rmwOp],
      pointers,
      values,
      active,
      self.ir_sem_to_interpreter_sem[sem],
    )
    return TensorHandle(old, val.dtype.scalar)

  def create_atomic_cas(self, ptr, cmp, val, sem, scope):
    if self.memory.undo is not None:
      raise NeedSerial
    shape = self._every_program(np.broadcast_shapes(ptr.data.shape, cmp.data.shape, val.data.shape))
    pointers, compare, values = (
      np.ascontiguousarray(np.broadcast_to(h.data, shape)) for h in (ptr, cmp, val)
    )
    self.memory.check(pointers, None, val.data.dtype.itemsize, "atomic")
    return TensorHandle(
      _native.atomic_cas(pointers, compare, values, self.ir_sem_to_interpreter_sem[sem]), cmp.dtype.scalar
    )

  # -- casts
  def cast_impl(self, src, dst_type):
    source, target = _elem(src.dtype), _elem(dst_type)
    data = src.data
    if source == target:
      return TensorHandle(data, target)
    if source.is_floating():
      if source == tl.float64 and target == tl.bfloat16:
        return TensorHandle(numeric.f64_to_bf16(data), target)
      data = wide(src)
      if target.is_floating():
        with np.errstate(all="ignore"):
          return (
            narrow(data, target) if target != tl.float64 else TensorHandle(data.astype(np.float64), target)
          )
      np_target = _get_np_dtype(target)
      if np_target == np.bool_:
        return TensorHandle(data != 0, target)
      return TensorHandle(numeric.float_to_int(data, np_target.type), target)
    if target.is_floating():
      if target in (tl.float16, tl.bfloat16):
        with np.errstate(all="ignore"):
          return narrow(data.astype(np.float32), target)
      return TensorHandle(data.astype(_get_np_dtype(target)), target)
    return TensorHandle(data.astype(_get_np_dtype(target)), target)

  create_si_to_fp = create_ui_to_fp = create_fp_to_si = create_fp_to_ui = cast_impl
  create_fp_ext = create_fp_trunc = cast_impl

  def create_int_cast(self, src, dst_type, is_signed):
    data = src.data
    if data.dtype.kind in "iu":  # the source's signedness, not the array's, says how to extend
      data = signed(data) if is_signed and _elem(src.dtype).is_int_signed() else data
    return TensorHandle(data.astype(_get_np_dtype(_elem(dst_type))), _elem(dst_type))

  def create_fp_to_fp(self, src, dst_type, rounding_mode):
    target = _elem(dst_type)
    if rounding_mode == _ir.ROUNDING_MODE.RTNE or rounding_mode is None:
      return self.cast_impl(src, dst_type)
    if target == tl.bfloat16 and _elem(src.dtype) == tl.float32:
      return TensorHandle(numeric.f32_to_bf16_toward_zero(src.data), target)
    if target == tl.float16:
      value = wide(src)
      with np.errstate(all="ignore"):
        near = value.astype(np.float16)
        back = near.astype(value.dtype)
        toward = np.nextafter(near, np.float16(0))
        return TensorHandle(np.where(np.abs(back) > np.abs(value), toward, near).astype(np.float16), target)
    raise Unsupported(f"rounding {rounding_mode} to {target}")

  def create_bitcast(self, src, dst_type):
    return TensorHandle(np.ascontiguousarray(src.data).view(_get_np_dtype(_elem(dst_type))), _elem(dst_type))

  create_int_to_ptr = create_ptr_to_int = create_bitcast

  # -- arithmetic
  def float_binary(self, lhs, rhs, op):
    dtype = _elem(lhs.dtype)
    with np.errstate(all="ignore"):
      return narrow(op(wide(lhs), wide(rhs)), dtype)

  def int_binary(self, lhs, rhs, op):
    with np.errstate(all="ignore"):
      out = op(lhs.data, rhs.data)
    return TensorHandle(out.astype(_get_np_dtype(_elem(lhs.dtype)), copy=False), _elem(lhs.dtype))

  def compare(self, lhs, rhs, op):
    floating = _elem(lhs.dtype).is_floating()
    return TensorHandle(op(wide(lhs), wide(rhs)) if floating else op(lhs.data, rhs.data), tl.int1)

  def compare_unsigned(self, lhs, rhs, op):
    return TensorHandle(op(unsigned(lhs.data), unsigned(rhs.data)), tl.int1)

  def create_idiv(self, lhs, rhs):
    with np.errstate(all="ignore"):
      rest = np.fmod(lhs.data, rhs.data)
      out = (lhs.data - rest) // rhs.data
    return TensorHandle(out.astype(lhs.data.dtype, copy=False), _elem(lhs.dtype))

  def create_ashr(self, lhs, rhs):
    return TensorHandle(
      np.right_shift(signed(lhs.data), rhs.data.astype(signed(lhs.data).dtype)).view(lhs.data.dtype),
      _elem(lhs.dtype),
    )

  def create_lshr(self, lhs, rhs):
    left = unsigned(lhs.data)
    return TensorHandle(
      np.right_shift(left, rhs.data.astype(left.dtype)).view(lhs.data.dtype), _elem(lhs.dtype)
    )

  def create_umulhi(self, lhs, rhs):
    if lhs.data.dtype.itemsize == 8:
      return TensorHandle(
        _umulhi64(unsigned(lhs.data), unsigned(rhs.data)).view(lhs.data.dtype), _elem(lhs.dtype)
      )
    out = (unsigned(lhs.data).astype(np.uint64) * unsigned(rhs.data).astype(np.uint64)) >> np.uint64(
      8 * lhs.data.dtype.itemsize
    )
    return TensorHandle(out.astype(unsigned(lhs.data).dtype).view(lhs.data.dtype), _elem(lhs.dtype))

  def create_select(self, cond, lhs, rhs):
    return TensorHandle(
      np.where(cond.data, lhs.data, rhs.data).astype(lhs.data.dtype, copy=False), _elem(lhs.dtype)
    )

  def create_clampf(self, arg, lo, hi, propagate_nans):
    x, low, high = wide(arg), wide(lo), wide(hi)
    with np.errstate(all="ignore"):
      if propagate_nans == _ir.PROPAGATE_NAN.ALL:
        out = np.minimum(np.maximum(x, low), high)
      else:
        out = np.fmin(np.fmax(x, low), high)
    return narrow(out, arg.dtype)

  def create_fma(self, x, y, z):
    if _elem(z.dtype) in (tl.bfloat16, tl.float16):
      with np.errstate(all="ignore"):
        exact = wide(x).astype(np.float64) * wide(y).astype(np.float64) + wide(z).astype(np.float64)
      if _elem(z.dtype) == tl.bfloat16:
        return TensorHandle(numeric.f64_to_bf16(exact), tl.bfloat16)
      return TensorHandle(exact.astype(np.float16), tl.float16)
    return TensorHandle(numeric.fma(x.data, y.data, z.data), _elem(z.dtype))

  def float_unary(self, arg, name):
    return narrow(numeric.unary(name, wide(arg)), arg.dtype)

  def create_fabs(self, arg):
    return narrow(np.abs(wide(arg)), arg.dtype)

  def create_iabs(self, arg):
    return TensorHandle(np.abs(arg.data), _elem(arg.dtype))

  # -- shapes: the batch axis stays first
  def create_splat(self, ret_ty, arg):
    shape = tuple(int(s) for s in ret_ty.shape)
    data = arg.data.reshape(arg.data.shape[0], *([1] * len(shape)))
    return TensorHandle(self._track(np.broadcast_to(data, (data.shape[0],) + shape)), _elem(arg.dtype))

  def create_unsplat(self, arg):
    return TensorHandle(arg.data.reshape(arg.data.shape[0], -1)[:, 0], _elem(arg.dtype))

  def create_make_range(self, ret_ty, start, stop):
    return TensorHandle(self._track(np.arange(start, stop, dtype=np.int32)[None]), tl.int32)

  def create_expand_dims(self, arg, axis):
    return TensorHandle(np.expand_dims(arg.data, axis + 1), _elem(arg.dtype))

  def create_broadcast(self, arg, shape):
    return TensorHandle(
      self._track(np.broadcast_to(arg.data, (arg.data.shape[0],) + tuple(shape))), _elem(arg.dtype)
    )

  def create_reshape(self, arg, shape, allow_reorder):
    return TensorHandle(arg.data.reshape((arg.data.shape[0],) + tuple(shape)), _elem(arg.dtype))

  def create_trans(self, arg, perm):
    return TensorHandle(np.transpose(arg.data, (0,) + tuple(p + 1 for p in perm)), _elem(arg.dtype))

  def _same_batch(self, *arrays):
    n = max(a.shape[0] for a in arrays)
    return [np.broadcast_to(a, (n,) + a.shape[1:]) for a in arrays]

  def create_cat(self, lhs, rhs):
    return TensorHandle(np.concatenate(self._same_batch(lhs.data, rhs.data), axis=1), _elem(lhs.dtype))

  def create_join(self, lhs, rhs):
    return TensorHandle(np.stack(self._same_batch(lhs.data, rhs.data), axis=-1), _elem(lhs.dtype))

  def create_split(self, val):
    return TensorHandle(val.data[..., 0], _elem(val.dtype)), TensorHandle(val.data[..., 1], _elem(val.dtype))

  def create_gather(self, src, indices, axis):
    data, index = self._same_batch(src.data, indices.data)
    return TensorHandle(np.take_along_axis(data, index, axis=axis + 1), _elem(src.dtype))

  def create_histogram(self, data, bins, mask):
    counts = np.zeros((data.data.shape[0], bins), dtype=np.int32)
    active = (
      np.ones_like(data.data, dtype=bool) if mask is None else np.broadcast_to(mask.data, data.data.shape)
    )
    for row in range(data.data.shape[0]):
      chosen = data.data[row][active[row]]
      counts[row] = np.bincount(chosen[(chosen >= 0) & (chosen < bins)], minlength=bins)[:bins]
    return TensorHandle(counts, tl.int32)

  def create_addptr(self, ptr, offset):
    bits = ptr.get_element_ty().primitive_bitwidth
    step = np.uint64(max(1, bits // 8))
    return TensorHandle(ptr.data + step * offset.data.astype(np.uint64), ptr.dtype)

  def create_dot(self, a, b, d, input_precision, max_num_imprecise_acc):
    left, right = self._same_batch(wide(a), wide(b))
    if _elem(a.dtype).is_int():
      return TensorHandle(np.matmul(left.astype(np.int32), right.astype(np.int32)) + d.data, _elem(d.dtype))
    if _elem(a.dtype) == tl.float32 and input_precision == _ir.INPUT_PRECISION.TF32:
      left, right = numeric.tf32_toward_zero(left), numeric.tf32_toward_zero(right)
    with np.errstate(all="ignore"):
      product = np.matmul(left.astype(np.float64), right.astype(np.float64)) + wide(d).astype(np.float64)
      return (
        narrow(product, d.dtype)
        if _elem(d.dtype) != tl.bfloat16
        else TensorHandle(numeric.f64_to_bf16(product), tl.bfloat16)
      )

  # -- the rest
  def create_extern_elementwise(self, lib_name, lib_path, symbol, args, ret_type, is_pure):
    return narrow_result(interp_extern.function(symbol)(*(wide(a) for a in args)), ret_type)

  def create_inline_asm(self, asm, constraints, values, types, is_pure, pack):
    key = " ".join(asm.split())
    if key not in interp_extern.INLINE_ASM:
      raise Unsupported(f"inline assembly '{key}'")
    out = interp_extern.INLINE_ASM[key](*(v.data for v in values))
    return TensorHandle(out, _elem(types[0] if isinstance(types, (list, tuple)) else types))

  def create_assert(self, condition, message):
    assert condition.data.all(), f"{message}"

  def create_assume(self, condition):
    assert condition.data.all(), "assume failed"

  def create_print(self, prefix, hex, values, isSigned):
    pass

  def create_make_block_ptr(self, *args):
    raise Unsupported("block pointers")

  def create_make_tensor_descriptor(self, *args, **kwargs):
    raise Unsupported("tensor descriptors")


def _umulhi64(a, b):
  mask = np.uint64(0xFFFFFFFF)
  half = np.uint64(32)
  al, ah, bl, bh = a & mask, a >> half, b & mask, b >> half
  with np.errstate(all="ignore"):
    low = al * bl
    mid = ah * bl + (low >> half)
    mid2 = al * bh + (mid & mask)
    return ah * bh + (mid >> half) + (mid2 >> half)


def _install(names, method, functions):
  for name, function in zip(names, functions):
    setattr(BatchedBuilder, "create_" + name, method(function))


def _binary(kind):
  def make(function):
    return lambda self, lhs, rhs: getattr(self, kind)(lhs, rhs, function)

  return make


_install(
  "fadd fsub fmul fdiv precise_divf frem minimumf minnumf maximumf maxnumf".split(),
  _binary("float_binary"),
  [np.add, np.subtract, np.multiply, np.divide, np.divide, np.fmod, np.minimum, np.fmin, np.maximum, np.fmax],
)
_install(
  "add sub mul shl and or xor minsi minui maxsi maxui srem urem".split(),
  _binary("int_binary"),
  [
    np.add,
    np.subtract,
    np.multiply,
    np.left_shift,
    np.bitwise_and,
    np.bitwise_or,
    np.bitwise_xor,
    np.minimum,
    np.minimum,
    np.maximum,
    np.maximum,
    np.fmod,
    np.fmod,
  ],
)
for _prefix, _kind in (
  ("icmpS", "compare"),
  ("icmpU", "compare_unsigned"),
  ("fcmpO", "compare"),
  ("fcmpU", "compare"),
):
  _install(
    [_prefix + n for n in ("LE", "LT", "GE", "GT", "EQ", "NE")],
    _binary(_kind),
    [np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal],
  )
_install(("icmpEQ", "icmpNE"), _binary("compare"), (np.equal, np.not_equal))


def _unary(name):
  return lambda self, arg: self.float_unary(arg, name)


for _name, _function in {
  "exp": "exp",
  "exp2": "exp2",
  "log": "log",
  "log2": "log2",
  "sin": "sin",
  "cos": "cos",
  "sqrt": "sqrt",
  "precise_sqrt": "sqrt",
  "rsqrt": "rsqrt",
  "erf": "erf",
  "floor": "floor",
  "ceil": "ceil",
}.items():
  setattr(BatchedBuilder, "create_" + _name, _unary(_function))
BatchedBuilder.create_sdiv = BatchedBuilder.create_udiv = lambda self, lhs, rhs: self.create_idiv(lhs, rhs)


def narrow_result(data, ret_type):
  dtype = _elem(ret_type)
  return (
    narrow(data, dtype)
    if dtype.is_floating()
    else TensorHandle(np.asarray(data).astype(_get_np_dtype(dtype)), dtype)
  )
