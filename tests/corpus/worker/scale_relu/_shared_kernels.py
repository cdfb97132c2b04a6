import torch
import triton
import triton.language as tl
from triton.runtime import driver


@triton.jit
def _scale_relu(x, y, o, N: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < N
    a = tl.load(x + i, mask=m, other=0.0).to(tl.float32)
    b = tl.load(y + i, mask=m, other=0.0).to(tl.float32)
    v = (a * b).to(o.dtype.element_ty).to(tl.float32)
    tl.store(o + i, tl.maximum(v, 0.0).to(o.dtype.element_ty), mask=m)


_entries = {}
_stream = driver.active.get_current_stream


def _run_scale_relu(x, y):
    o = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    px, py, po = x.data_ptr(), y.data_ptr(), o.data_ptr()
    key = (x.shape, x.dtype, x.get_device(), (px | py | po) & 15)
    entry = _entries.get(key)
    if entry is None:
        n = x.numel()
        k = _scale_relu[((n + 1023) // 1024,)](x, y, o, N=n, B=1024, num_warps=4)
        _entries[key] = (k.run, k.function, k.packed_metadata, (n + 1023) // 1024, n)
        return o
    run, function, metadata, grid, n = entry
    run(grid, 1, 1, _stream(0), function, metadata, None, None, None, px, py, po, n, 1024)
    return o


@torch.fx.wrap
def dispatch_wrapper(*args):
    return _run_scale_relu(args[0], args[1])
