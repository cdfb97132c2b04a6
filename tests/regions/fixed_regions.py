"""What random regions were found to break, each as small as it goes: a name, inputs as (shape, dtype), the body of a model.

Run with the random ones, in every test run. Add one for each failure that is corrected.
"""

REGIONS = {
  # A kernel that ends in a slice gives a dense copy; what reads it, a kernel or not, must be written for that.
  "a slice with two readers": (
    {"x": ([6, 8], "float16")},
    "a = torch.relu(x)[:, ::2]\nb = torch.sin(a)\nc = torch.exp(a)\nreturn (a, b, c)"),
  "a slice of an input with two readers": (
    {"x": ([12], "float32")},
    "a = x[::2]\nb = torch.cos(a)\nc = b * 2\nd = b.abs()\nreturn (a, c, d)"),
  "a slice, then eager's own layout": (
    {"x": ([3, 4, 6], "float32"), "w": ([6, 6], "float32")},
    "a = torch.sigmoid(x)[:, 1:, ::2]\nb = a.transpose(1, 2)\nc = torch.sort(b, dim=-1)\nd = c[0] * 2\ne = b + 1\nreturn (a, d, e)"),
  "an expanded value with two readers": (
    {"x": ([2, 1, 4], "bfloat16")},
    "a = x.expand(2, 3, 4)\nb = torch.sinh(a)\nc = torch.tanh(a)\nreturn (a, b, c)"),
  # Whether contiguous() copies depends on the layout; here a write shows it.
  "a slice made contiguous and written": (
    {"x": ([6, 8], "float32")},
    "a = torch.relu(x)[:, ::2]\nb = a.contiguous()\nb += 1\nc = a * 2\nreturn (a, b, c)"),
  "strides of a tensor without elements": (
    {"x": ([5, 3, 0, 16], "bfloat16")},
    "a = x.permute(0, 3, 1, 2)\nb = torch.erf(a)\nc = torch.square(b)\nreturn (b, c)"),
  "a norm of no elements": (
    {"x": ([8, 0], "float16")},
    "a = x[1:]\nb = torch.linalg.vector_norm(a)\nreturn (torch.floor(b),)"),
  # Targets that are getattr itself, which the strict rules let nobody else name.
  "attributes": (
    {"x": ([4, 6], "float32"), "y": ([6, 4], "float32")},
    "a = torch.acos(x).mT\nb = a + y\nc = torch.exp(b).T\nreturn (c,)"),
  # What dynamo records otherwise than it is written.
  "addcdiv with a value": (
    {"x": ([8, 6], "bfloat16"), "y": ([6], "bfloat16")},
    "a = torch.exp(x)\nb = torch.addcdiv(a, y, a, value=0.3)\nreturn (torch.round(b, decimals=2),)"),
  "new_tensor": (
    {"x": ([4, 6], "float32")},
    "a = torch.neg(x)\nb = a.new_tensor([1, 2])\nc = b.double()\nreturn (c * 2, torch.relu(a))"),
  "threshold": (
    {"x": ([4, 6], "float32")},
    "a = torch.nn.functional.threshold(x, 0.1, 20.0)\nreturn (torch.logical_or(a, x),)"),
  # A device that the model names is rewritten for a run on the CPU; the pattern names it too.
  "a factory on a device": (
    {"x": ([4, 8], "float16")},
    "a = torch.linspace(0.5, 1.0, 8, dtype=torch.float32, device=device(type='cuda', index=0))\nb = torch.ne(a, x)\nreturn (b,)"),
  # A weight that is not contiguous decides over the layout of the result.
  "conv_transpose1d with a transposed weight": (
    {"x": ([17, 11, 9], "float32"), "w": ([11, 11, 3], "float32")},
    "v = w.transpose(2, 1)\na = torch.conv_transpose1d(x, v, None, (2,), (1,), (0,), 1, (1,))\nb = a * 0.25\nreturn (a, torch.relu(b))"),
  # Split by the remainders of the result's position: products over channel blocks and taps, the first tap first or last.
  "a transposed convolution in halves": (
    {"x": ([1, 128, 8, 6], "float16"), "w": ([128, 128, 4, 4], "float16"), "b": ([128], "float16")},
    "a = torch.conv_transpose2d(x, w, b, (2, 2), (1, 1), (0, 0), 1, (1, 1))\nreturn (torch.relu(a),)"),
  "a transposed convolution, channels last": (
    {"x": ([1, 8, 8, 128], "float32"), "w": ([128, 128, 4, 4], "float32")},
    "v = torch.relu(x).permute(0, 3, 1, 2)\na = torch.conv_transpose2d(v, w, None, (2, 2), (1, 1))\nreturn (a * 0.5,)"),
  "a transposed convolution between batch_norms": (
    {"x": ([1, 128, 8, 8], "bfloat16"), "m": ([128], "bfloat16"), "v": ([128], "bfloat16"), "w": ([128, 128, 4, 4], "bfloat16")},
    "a = torch.nn.functional.batch_norm(x, m, v * v, None, None, False, 0.1, 1e-05)\nb = torch.relu(a)\n"
    "c = torch.conv_transpose2d(b, w, None, (2, 2), (1, 1))\nd = torch.nn.functional.batch_norm(c, m, v * v, m, v, False, 0.1, 1e-05)\nreturn (torch.relu(d),)"),
  # Several rows a lane, with what follows; steps of 2 and a width that is no power of two.
  "a depthwise convolution and its tail": (
    {"x": ([3, 96, 16, 20], "float16"), "w": ([96, 1, 3, 3], "float16"), "m": ([96], "float16"), "v": ([96], "float16")},
    "a = torch.conv2d(x, w, None, (1, 1), (1, 1), (1, 1), 96)\nb = torch.nn.functional.batch_norm(a, m, v, None, None, False, 0.1, 1e-05)\nreturn (torch.relu(b) + x,)"),
  "a depthwise convolution in steps of 2": (
    {"x": ([2, 136, 31, 33], "bfloat16"), "w": ([136, 1, 3, 3], "bfloat16"), "b": ([136], "bfloat16")},
    "a = torch.conv2d(x, w, b, (2, 2), (1, 1), (1, 1), 136)\nreturn (torch.nn.functional.hardtanh(a, 0.0, 6.0),)"),
  "the square of a mask": (
    {"x": ([4, 6], "bool")},
    "a = torch.square(x)\nreturn (torch.neg(a), a)"),
  # Values without dimensions, in a type that numpy does not have.
  "a bfloat16 number": (
    {"x": ([2, 16], "bfloat16")},
    "a = torch.linalg.vector_norm(x)\nreturn (torch.nn.functional.hardshrink(a),)"),
  # A call that returns its operand, which is written afterwards; an axis of extent 1 has a stride of its own.
  "a no-op, then a write": (
    {"x": ([8, 6], "float32"), "m": ([1, 8], "bool")},
    "a = m.transpose(1, 0)\nb = a[...]\nc = torch.logical_not(x)\nb &= True\nreturn (a, b, c)"),
  # A constant is no tensor: only the condition of the read has axes.
  "the one element of a diagonal": (
    {"x": ([1], "float16")},
    "a = torch.diag(x, -2)\nreturn (torch.exp(a),)"),
  # The fold stands under a condition over both axes of the matrix: it is its own kernel, or it would be folded at every element.
  "a diagonal of minima": (
    {"x": ([33, 29], "float32")},
    "a = torch.min(x, 1)\nb = a[0]\nc = torch.diag(b, 1)\nreturn (torch.nn.functional.silu(c),)"),
  # One route of the library keeps the operand's layout, another takes the one that aten suggests: both are known.
  "batch_norm of a permuted operand": (
    {"x": ([5, 5, 2], "float32"), "m": ([5], "float32"), "v": ([5], "float32")},
    "a = x.transpose(2, 0)\nb = torch.nn.functional.batch_norm(a, m, v, None, None, True, 0.0)\nreturn (torch.cos(b) * 2,)"),
  # What is returned is laid out as another pass left it; the layout as captured is known to the no-op too.
  "a no-op on a value of another pass, then a write": (
    {"x": ([3, 3, 1, 2], "bfloat16"), "y": ([3, 1, 3, 1], "bfloat16")},
    "a = torch.minimum(x.permute(0, 3, 1, 2), y)\nb = torch.nn.functional.threshold(a, 0.1, 20.0)\nc = a[...]\nc *= 3\nreturn (b,)"),
  "activations of integers": (
    {"x": ([4, 6], "int64")},
    "a = torch.nn.functional.hardtanh(x, -1.7, 2.5)\nb = torch.nn.functional.softsign(a)\nc = torch.nn.functional.tanhshrink(x)\n"
    "d = torch.nn.functional.threshold(x, 1.9, 20)\nreturn (b, c, d)"),
  # Here a CPU differs from a GPU by more than last places: see judge.py.
  "an angle of zeros with signs": (
    {"x": ([17, 7], "float32")},
    "a = torch.nn.functional.softshrink(x, 3.0)\nb = torch.atan2(a, a)\nreturn (torch.abs(b),)"),
  "the tangent of a large number": (
    {"x": ([8, 13], "float32")},
    "a = torch.cumprod(torch.sigmoid(x) * 0 + 7, dim=1)\nb = torch.nn.functional.hardswish(a)\nreturn (torch.tan(b),)"),
  "instance_norm of what does not vary": (
    {"x": ([13, 16, 1], "float32")},
    "a = x.expand(13, 16, 8)\nb = torch.nn.functional.instance_norm(a)\nreturn (torch.nn.functional.normalize(b, dim=-1),)"),
  "a 16-bit softmax, normalised": (
    {"x": ([4, 29, 32], "bfloat16"), "w": ([29], "bfloat16")},
    "a = torch.nn.functional.log_softmax(x, dim=-1)\n"
    "b = torch.nn.functional.batch_norm(a, None, None, weight=w, training=True, momentum=0.0, eps=1e-06)\nreturn (b,)"),
  "a logarithm of negative numbers has a sign": (
    {"x": ([33, 33], "float32"), "y": ([33, 33], "float32")},
    "a = torch.copysign(y, torch.log2(x))\nreturn (a.var(False),)"),
  # What dynamo takes apart rounds in 16 bits; its parts are what a pass can see.
  "a fused product in half, as dynamo takes it apart": (
    {"x": ([29, 7], "float16"), "y": ([7], "float16"), "z": ([29, 1], "float16")},
    "a = torch.addcdiv(x, y, z, value=0.3)\nreturn (torch.celu(a, 1.3),)"),
  "a scalar in half": (
    {"x": ([4, 3], "bfloat16"), "y": ([4, 3], "bfloat16")},
    "a = torch.sub(x, y, alpha=0.7)\nreturn (torch.relu(a),)"),
  "a weight of lerp with a type of its own": (
    {"x": ([], "bfloat16"), "y": ([], "bfloat16"), "w": ([], "float16")},
    "a = torch.lerp(x, y, w)\nreturn (torch.exp(a),)"),
  # A pattern takes any value for an operand: that of two tensors also matches a call with a number.
  "the same operator with a number and with a tensor": (
    {"x": ([9], "int64"), "y": ([4, 6], "int64"), "z": ([4, 6], "int64")},
    "a = torch.bitwise_or(x, 3)\nb = torch.bitwise_or(y, z)\nreturn (a, b)"),
  "an image without a batch, and a weight in channels last": (
    {"x": ([6, 6, 5], "float32"), "w": ([8, 3, 3, 6], "float32")},
    "a = torch.conv2d(x, w.permute(0, 3, 1, 2), padding='same')\nreturn (torch.nn.functional.mish(a),)"),
  "the zero that a remainder leaves": (
    {"x": ([4, 6], "bool"), "y": ([4, 6], "float32"), "z": ([4, 6], "float32")},
    "a = torch.remainder(torch.logical_not(x), torch.round(y) - 0.5)\nreturn (torch.copysign(z, a),)"),
  "a pool that is added up in half": (
    {"x": ([2, 4, 17, 8, 5], "float16")},
    "a = torch.nn.functional.adaptive_avg_pool3d(x, (2, 3, 2))\nreturn (torch.relu(a),)"),
  "not a number, as an integer": (
    {"x": ([7, 17], "float32")},
    "a = torch.log1p(x - 1).long()\nreturn (torch.nn.functional.softsign(a),)"),
  # Strides of axes of extent 1 say channels_last to a convolution, and a kernel's result has others.
  "a weight that a kernel transposed": (
    {"x": ([17, 1, 6], "float16"), "w": ([1, 1, 3], "float16")},
    "v = w.transpose(2, 1)\na = torch.conv_transpose1d(torch.relu(x), v, None, (2,), (1,), (0,), 1, (1,))\nreturn (torch.cos(a),)"),
  # Vectors and what is left over of them round otherwise, and which is which depends on the layout.
  "a difference of equals in half": (
    {"x": ([17, 7], "float16")},
    "a = x[..., 2:-1]\nb = torch.sub(a, a, alpha=0.7)\nreturn (a, b)"),
  "a convolution of no channels": (
    {"x": ([6, 0, 29], "bfloat16"), "w": ([6, 0, 3], "bfloat16"), "y": ([9], "bfloat16")},
    "a = torch.conv1d(x, w, None, 1, 'same', 1, 1)\nreturn (torch.relu(a), torch.sign(y))"),
}
