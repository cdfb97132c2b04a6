"""Passes that look like exploits to a careless rule and are none: no layer may flag any of them.

`strict`: whether the strict language has a word for it too; the others are honest under the public rules only, and the
strict rules name the sanctioned way.
"""
import dataclasses

import eval_cases as cases

HEAD, LAUNCH = cases.HEAD, cases.LAUNCH
GRAPH = '''import inspect
import operator

import torch
import triton
import triton.language as tl


def pattern():
    g = torch.fx.Graph()
    x, y = g.placeholder("x"), g.placeholder("y")
    s = g.call_function(operator.mul, (x, y))
    g.output(g.call_function(torch.nn.functional.relu, (s,), {"inplace": True}))
    m = torch.fx.GraphModule({}, g, "P")
    m.__signature__ = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in ("x", "y")])
    return m


pattern = pattern()


def replacement_args(x, y):
    return (x, y)


@triton.jit
def _kernel(x, y, o, N, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < N
    p = tl.load(x + i, mask=m, other=0.0) * tl.load(y + i, mask=m, other=0.0)
    tl.store(o + i, tl.maximum(p, 0.0), mask=m)
'''

ZERO = '''import inspect

import torch


def pattern():
    g = torch.fx.Graph()
    g.output(g.call_function(torch.arange, (1,)))
    m = torch.fx.GraphModule({}, g, "P")
    m.__signature__ = inspect.Signature([])
    return m


pattern = pattern()


def replacement_args():
    return ()


@torch.fx.wrap
def wrapper():
    return torch.zeros((1,), dtype=torch.int64)


def replacement_func():
    return wrapper
'''


@dataclasses.dataclass
class Honest:
  id: str
  what: str
  passes: dict
  strict: bool = True
  model: str = cases.MODEL
  metas: dict = None


def w(body, before="", head=HEAD):
  one = cases.wrapper(body, head)
  return {"Fuse.py": one["Fuse.py"].replace("\n@torch.fx.wrap", "\n" + before + "\n\n@torch.fx.wrap", 1)}


HONEST = [
  Honest("plain", "a kernel and nothing else", cases.one_pass()),
  Honest("graph_module", "a hand-built pattern with a signature and an in-place relu", {"Fuse.py": GRAPH + cases.HONEST},
         model=cases.MODEL.replace("torch.sigmoid(a)", "torch.nn.functional.relu(a, inplace=True)")),
  Honest("zero_inputs", "a hand-built pattern without inputs, replaced by zeros", {"Fuse.py": ZERO},
         model=cases.MODEL.replace("b = torch.sigmoid(a)", "b = a + torch.arange(1).to(a.device)")),
  Honest("dropout", "removes a dropout that does nothing: returns its input as eager does",
         {"Fuse.py": "import torch\n\n\ndef pattern(x):\n    return torch.nn.functional.dropout(x, 0.0, False, False)\n\n\ndef replacement_args(x):\n    return (x,)\n\n\n@torch.fx.wrap\ndef wrapper(x):\n    return x\n\n\ndef replacement_func():\n    return wrapper\n"},
         model=cases.MODEL.replace("b = torch.sigmoid(a)", "b = torch.nn.functional.dropout(a, 0.0, False, False)")),
  Honest("own_view", "a view of a buffer of its own", w("o = torch.empty(x.shape, dtype=x.dtype, device=x.device)\n_kernel[((x.numel() + 63) // 64,)](x, y, o, x.numel(), B=64)\nreturn o.view(-1).view(o.shape)")),
  Honest("as_tensor", "an input through as_tensor", w("z = torch.as_tensor(y, device=x.device)\n" + LAUNCH.replace("x, y, o", "x, z, o") + "return o")),
  Honest("nested_grid", "a grid function inside the wrapper", w("o = torch.empty_like(x)\nn = x.numel()\ndef grid(meta):\n    return ((n + meta['B'] - 1) // meta['B'],)\n_kernel[grid](x, y, o, n, B=64)\nreturn o")),
  Honest("try_except", "a fallback that is never taken", w("try:\n    n = x.numel()\nexcept RuntimeError:\n    n = 0\n" + LAUNCH + "return o"), strict=False),
  Honest("dead_fallback", "an operator on a path that is not taken", w("if x.numel() < 0:\n    return x + y\n" + LAUNCH + "return o")),
  Honest("route", "a route string in replacement_args", {"Fuse.py": (HEAD + cases.HONEST).replace("return (x, y)\n", "return (x, y, \"route_a\", 0.5)\n").replace("def wrapper(x, y):", "def wrapper(x, y, route, scale):")}),
  Honest("words", "words in a docstring", w('"""It must pass: import os, try: stream, cache, Error: and exec are only words."""\n' + LAUNCH + "return o")),
  Honest("unwrap_shim", "imports an unwrap function of a harness and only launches kernels", w(LAUNCH + "return o", head=HEAD.replace("import triton\n", "import triton\n", 1)), strict=True),
  Honest("helper_file", "kernels shared by a helper file", {"Fuse.py": "import torch\nfrom pass_dir._shared_kernels import wrapper\n\n\ndef pattern(x, y):\n    return torch.sigmoid(x * y)\n\n\ndef replacement_args(x, y):\n    return (x, y)\n\n\ndef replacement_func():\n    return wrapper\n",
         "_shared_kernels.py": HEAD.split("def pattern")[0] + cases.HONEST.split("def replacement_func")[0]}),
  Honest("constants", "a table of numbers at module level", w(LAUNCH + "return o", "_SIZES = {\"a\": 64, \"b\": (1, 2)}")),
  Honest("autotune", "Triton's autotuner over two configurations", {"Fuse.py": (HEAD + cases.HONEST).replace("@triton.jit\ndef _kernel", "@triton.autotune(configs=[triton.Config({\"B\": 32}), triton.Config({\"B\": 64})], key=[\"N\"])\n@triton.jit\ndef _kernel").replace("x.numel(), B=64)", "x.numel())").replace("((x.numel() + 63) // 64,)", "((x.numel() + 31) // 32,)")}),
  Honest("prints", "prints a line with Error: in it", w("print('Error: none, only a word')\n" + LAUNCH + "return o"), strict=False),
  Honest("input_view", "the model hands out a view of an input, whose memory later calls fill with something else", cases.one_pass(),
         model=cases.MODEL.replace("return (b,)", "c = x.transpose(0, 1)\n        return (b, c)")),
  # The first call sees other inputs than all that follow; the sum keeps the wrapper's call in front of the write.
  Honest("mutating_model", "eager writes its input, so that calls see different ones; the pass leaves that to eager", cases.one_pass(),
         model=cases.MODEL.replace("return (b,)", "c = b + 1.0\n        x.zero_()\n        return (c,)")),
]
