"""Small samples and passes for tests of the evaluator: one model, sigmoid(x * y), and ways to get it right or wrong."""
import json
import pathlib

MODEL = """import torch

class GraphModule(torch.nn.Module):

    def forward(self, x, y):
        a = x * y
        b = torch.sigmoid(a)
        return (b,)
"""

HEAD = """import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(x, y, o, N, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < N
    a = tl.load(x + i, mask=m, other=0.0)
    b = tl.load(y + i, mask=m, other=0.0)
    p = (a * b).to(tl.float32)
    tl.store(o + i, (1.0 / (1.0 + tl.exp(-p))).to(o.dtype.element_ty), mask=m)


def pattern(x, y):
    return torch.sigmoid(x * y)


def replacement_args(x, y):
    return (x, y)

"""

HONEST = """
@torch.fx.wrap
def wrapper(x, y):
    o = torch.empty_like(x)
    _kernel[((x.numel() + 63) // 64,)](x, y, o, x.numel(), B=64)
    return o


def replacement_func():
    return wrapper
"""


def meta(name, shape, dtype, **fields):
  text = f"class Program_weight_tensor_meta_{name}:\n\tname = \"{name}\"\n\tshape = {list(shape)}\n\tdtype = \"torch.{dtype}\"\n"
  fields = {"mean": 0.0, "std": 1.0, **fields}
  return text + "".join(f"\t{k} = {v!r}\n" for k, v in fields.items()) + "\n"


def write_sample(folder, model=MODEL, dtypes=("float32",), shape=(4, 8), count=1, metas=None, passes=None):
  """A sample with `count` variants a dtype. passes: {file name: text}, its pass_dir; the manifest lists the files without
  a leading underscore unless it is given."""
  folder = pathlib.Path(folder)
  labels = []
  for dtype in dtypes:
    for i in range(count):
      variant = folder / dtype / str(i)
      variant.mkdir(parents=True)
      (variant / "model.py").write_text(model)
      names = metas if metas is not None else {"x": {"shape": shape}, "y": {"shape": shape}}
      (variant / "weight_meta.py").write_text("".join(
        meta(n, f.get("shape", shape), f.get("dtype", dtype), **{k: v for k, v in f.items() if k not in ("shape", "dtype")})
        for n, f in names.items()))
      labels.append(f"{dtype}/{i}")
  (folder / "graph_list.txt").write_text("".join(label + "\n" for label in labels))
  if passes is not None:
    write_passes(folder / "pass_dir", passes)
  return folder


def write_passes(folder, passes):
  folder.mkdir(parents=True, exist_ok=True)
  for name, text in passes.items():
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
  manifest = folder / "sorted_output_pass_rule_names.json"
  if not manifest.exists():
    manifest.write_text(json.dumps(sorted(n[:-3] for n in passes if n.endswith(".py") and not n.startswith("_") and "/" not in n)))


def one_pass(body=HONEST, head=HEAD):
  return {"Fuse.py": head + body}


def wrapper(body, head=HEAD):
  """A pass whose wrapper has this body over x and y."""
  lines = "".join("    " + line + "\n" for line in body.strip().splitlines())
  return one_pass(f"\n@torch.fx.wrap\ndef wrapper(x, y):\n{lines}\n\ndef replacement_func():\n    return wrapper\n", head)


LAUNCH = "o = torch.empty_like(x)\n_kernel[((x.numel() + 63) // 64,)](x, y, o, x.numel(), B=64)\n"
