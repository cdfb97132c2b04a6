"""A kernel of our own that the clean parent compiles, without a device, so that its children find Triton's compiler ready."""

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from . import interpreter

ARCH = 90  # any: what is kept of it is what the compiler found out about its own files


@triton.jit
def _twice(x, o, N, B: tl.constexpr):
  i = tl.program_id(0) * B + tl.arange(0, B)
  tl.store(o + i, tl.load(x + i, mask=i < N, other=0.0) * 2.0, mask=i < N)


def compile_it():
  source = ASTSource(_twice, {"x": "*fp32", "o": "*fp32", "N": "i32", "B": "constexpr"}, {"B": 64})
  with interpreter.driver_without_device():
    triton.compile(source, target=GPUTarget("cuda", ARCH, 32))
