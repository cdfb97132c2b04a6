@triton.jit
def _nan_max(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _nan_min(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _mul(a, b):
    return a * b


@triton.jit
def _div_by(a, b, r):
    # a / b with r = 1 / b: the quotient corrected by its remainder. Where that is no number (an infinity or zero is in
    # play) the plain product is the answer.
    q = a * r
    rest = tl.fma(-q, b, a)
    return tl.where(rest == rest, tl.fma(rest, r, q), q)


@triton.jit
def _round_tf32(a):
    # To 10 bits of mantissa, ties to even; the matrix units would cut off.
    u = a.to(tl.int32, bitcast=True)
    r = (u + 4095 + ((u >> 13) & 1)) & -8192
    return tl.where(a == a, r.to(tl.float32, bitcast=True), a)


@triton.jit
def _sign(a):
    return (a > 0).to(a.dtype) - (a < 0).to(a.dtype)


@triton.jit
def _mod_int(a, b):
    r = a % b
    return tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)


@triton.jit
def _floor_div_int(a, b):
    r = a % b
    return a // b - ((r != 0) & ((r < 0) != (b < 0))).to(a.dtype)


@triton.jit
def _mod_float(a, b):
    r = libdevice.fmod(a, b)
    return tl.where((r != 0.0) & ((r < 0.0) != (b < 0.0)), r + b, r)


@triton.jit
def _floor_div_float(a, b):
    # The quotient of what is left once the remainder is taken out, as torch computes it.
    r = libdevice.fmod(a, b)
    q = tl.div_rn(a - r, b)
    q = tl.where((r != 0.0) & ((b < 0.0) != (r < 0.0)), q - 1.0, q)
    whole = tl.floor(q)
    whole = tl.where(q - whole > 0.5, whole + 1.0, whole)
    exact = tl.div_rn(a, b)
    whole = tl.where(q == 0.0, libdevice.copysign(q * 0.0, exact), whole)
    return tl.where(b == 0.0, exact, whole)


@triton.jit
def _max_at(a, i, b, j):
    # The larger value, a NaN being the largest; of equals the earlier one.
    first = (a > b) | ((a != a) & (b == b)) | (((a == b) | ((a != a) & (b != b))) & (i < j))
    return tl.where(first, a, b), tl.where(first, i, j)


@triton.jit
def _min_at(a, i, b, j):
    first = (a < b) | ((a != a) & (b == b)) | (((a == b) | ((a != a) & (b != b))) & (i < j))
    return tl.where(first, a, b), tl.where(first, i, j)
