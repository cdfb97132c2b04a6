"""The native reading of pass files against Python's: patterns against the tracer, source rules against CPython's parser."""
import argparse
import ast
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

import torch
import torch.fx

from passnet.worker import encode, tracer

# Bodies of patterns on x, y, w: each is traced here and read there.
BODIES = [
    "return x + y * w",
    "return 2 - x, ",
    "return -x / (1.0 + y) ** 2 // w % 3",
    "return x @ y",
    "return (x > 0) & (y <= w) | ~(x == y)",
    "x += y\n    x *= 2\n    return x - w",
    "return x[:, 1:3, ..., None] + y[0] + w[-1:]",
    "a, b, c = x.chunk(3, dim=-1)\n    return a * b + c",
    "a, b = torch.split(x, 4, dim=1)\n    return a - b",
    "return torch.cat([x, y, w], dim=1).contiguous()",
    "return torch.cat((x, y), 1)",
    "return torch.nn.functional.relu(x, inplace=True) + torch.nn.functional.silu(y)",
    "return torch.nn.functional.gelu(x, approximate='tanh') + torch.nn.functional.gelu(y)",
    "return torch.nn.functional.softmax(x, dim=-1, dtype=torch.float32).to(torch.float16)",
    "return torch.nn.functional.layer_norm(x, (8,), y, w, 1e-05)",
    "return torch.nn.functional.layer_norm(x, normalized_shape=(8, 4), eps=1e-06)",
    "return torch.nn.functional.batch_norm(x, y, w, None, None, False, 0.1, 1e-05)",
    "return torch.nn.functional.dropout(x, p=0.1, training=False)",
    "return torch.nn.functional.dropout(x, 0.0, False, False) + y",
    "return torch.nn.functional.linear(x, y, w)",
    "return torch.nn.functional.embedding(x, y, padding_idx=0)",
    "return torch.nn.functional.pad(x, (1, 1, 0, 0), 'constant', 0)",
    "return torch.nn.functional.interpolate(x, size=(4, 4), mode='bilinear', align_corners=False)",
    "return torch.nn.functional.adaptive_avg_pool2d(x, 1).flatten(1)",
    "return torch.nn.functional.avg_pool2d(x, 2, 2, 0, False, True, None)",
    "return torch.nn.functional.normalize(x, p=2.0, dim=1)",
    "return torch.nn.functional.group_norm(x, 4, y, w, 1e-05)",
    "return torch.nn.functional.hardtanh(x, 0.0, 6.0, False) + torch.nn.functional.hardsigmoid(y)",
    "return torch.nn.functional.leaky_relu(x, 0.1) + torch.nn.functional.elu(y) + torch.nn.functional.mish(w)",
    "return torch.nn.functional.scaled_dot_product_attention(x, y, w, attn_mask=None, dropout_p=0.0)",
    "return torch.nn.functional.sigmoid(x) + torch.nn.functional.tanh(y) + torch.tanh(w)",
    "return torch.nn.functional.one_hot(x, num_classes=4)",
    "return torch.conv2d(x, y, w, (1, 1), (0, 0), (1, 1), 1)",
    "return torch.einsum('bij,bjk->bik', x, y)",
    "return torch.matmul(x, y.transpose(-2, -1)).softmax(dim=-1)",
    "return x.view(-1, 4).permute(1, 0).reshape((2, 2)).expand(2, -1, [4][0])",
    "return x.mean((2, 3), keepdim=True) + torch.sum(y, dim=1) + w.max(dim=1)[0]",
    "return x.to(device=torch.device('cuda', 0), dtype=torch.float32) + y.float()",
    "return torch.where(x > 0, x, torch.exp(x) - 1)",
    "return torch.clamp(x, min=0, max=float('inf')) + x.masked_fill(y == 0, float('-inf'))",
    "t = (1, 2)\n    scale = 0.5 ** 2\n    for i in range(2):\n        x = x + t[i] * scale\n    return x",
    "return x.size(0) + y",
    "return x.shape[0] * y",
    "return torch.norm(x, p=2, dim=1, keepdim=True)",
]

SNIPPETS = [
    "import torch.nn as nn, os\nfrom torch.nn.functional import relu as r\nr(1)\nnn.Linear(1, 1)\n",
    "import torch as t\nfrom torch import ops\nt.add(1)\nops.aten.add(1)\nx = t.nn.functional\nx.relu(1)\n",
    "a = b = torch.autograd.Function\n(c) = (torch.ops)\nd: int = torch.ops\ne, f = torch.nn, 1\n",
    "class A(torch.nn.Module, metaclass=torch.meta()):\n    def pattern(self):\n        return torch.relu(self)\n",
    "def pattern(x):\n    import torch.autograd\n    y = torch.nn.functional.relu\n    return torch.relu(x)\n\nasync def replacement_args(x):\n    return torch.relu(x)\n",
    "@torch.jit.script(1)\n@torch.fx.wrap\ndef f(x=torch.add(1), *, y: torch.tensor(1) = 2) -> torch.tensor(2):\n    return x\n",
    "@torch.jit.script(1)\ndef pattern(x):\n    return torch.add(x)\n",
    "f'{torch.add(1)!r:{torch.mul(2)}}' f'{torch.sub(3)}'\n",
    "[torch.a(i) for i in torch.b() if torch.c(i) for j in torch.d(i)]\n{torch.e(1): torch.f(2)}\n{torch.g(1)}\n",
    "lambda x=torch.a(): torch.b(x)\nx = (yield) if False else torch.c()\n",
    "try:\n    torch.a()\nexcept torch.E() as e:\n    torch.b()\nelse:\n    torch.c()\nfinally:\n    torch.d()\n",
    "with torch.no_grad() as g, torch.b():\n    pass\nwhile torch.c():\n    torch.d()\nelse:\n    torch.e()\n",
    "match torch.a():\n    case torch.B(x) if torch.c():\n        torch.d()\n",
    "x[torch.a()](torch.b())\nkernel[(1,)](x)\ngetattr(torch, 'a')(torch.c())\n(torch.d)(1)\n((torch)).e(1)\ntorch.f(1)(2)\n",
    "(y := torch.nn)\nassert torch.a(), torch.b()\ndel x[torch.c()]\nraise torch.d() from torch.e()\nglobal_ = torch . nn . functional\n",
    "torchvision.ops.nms()\ntorch_helper()\ntorch()\ntorch.empty(torch.zeros(1), torch.empty_like(2))\ntorch.empty_strided(1)\n",
    "if torch.a():\n    torch.b()\nelif torch.c():\n    torch.d()\nelse:\n    torch.e()\nfor i in torch.f():\n    torch.g()\n",
    "from . import torch\nfrom .nn import x\nfrom ..torch.nn import y\nfrom torch import (add,\n    mul as m)\nadd(1)\nm(2)\n",
    "t = torch.add\nu = t\nt(1)\nu(2)\nt.x(3)\nt = torch.sub\n",
    "print(*torch.a(), **torch.b(), k=torch.c())\nnot torch.d() and torch.e() or torch.f() < torch.g() < 1\n-torch.h()\n",
]

BLOCKED = ("torch.nn", "torch.nn.functional", "torch.ops", "torch.autograd")
ALLOWED = {"torch." + name for name in ("empty", "empty_like", "zeros", "zeros_like", "ones", "ones_like", "full",
                                        "full_like", "as_tensor")}


def chain(node):
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id] + parts[::-1]) if isinstance(node, ast.Name) else None


def blocked(name):
    return any(name == b or name.startswith(b + ".") for b in BLOCKED)


def python_rules(source):
    """The public rules on CPython's syntax tree."""
    tree = ast.parse(source)
    out, aliases, exempt = [], {}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            out += [f"Line {node.lineno}: blocked import '{a.name}'" for a in node.names if blocked(a.name)]
        elif isinstance(node, ast.ImportFrom) and node.module and blocked(node.module):
            out.append(f"Line {node.lineno}: blocked from-import 'from {node.module} import ...'")
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute):
            name = chain(node.value)
            if name and blocked(name):
                out.append(f"Line {node.lineno}: blocked submodule alias '{name}'")
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            aliases.update({a.asname: a.name for a in node.names if a.asname})
        elif isinstance(node, ast.ImportFrom) and node.module:
            aliases.update({a.asname or a.name: f"{node.module}.{a.name}" for a in node.names})
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute) and chain(node.value):
            aliases.update({t.id: chain(node.value) for t in node.targets if isinstance(t, ast.Name)})
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in ("pattern", "replacement_args"):
            exempt.update(id(n) for n in ast.walk(node))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or id(node) in exempt:
            continue
        target = chain(node.func)
        if not target:
            continue
        first, dot, rest = target.partition(".")
        resolved = aliases.get(first, first) + dot + rest
        if resolved.startswith("torch") and resolved not in ALLOWED:
            out.append(f"Line {node.lineno}: blocked call '{target}' (resolves to '{resolved}')")
    return out


def traced(body):
    scope = {"torch": torch}
    exec(f"def pattern(x, y, w):\n    {body}\n", scope)
    graph = tracer.pattern_graph(scope["pattern"])
    names, nodes, outputs = {}, [], None

    def walk(value):
        if isinstance(value, dict):
            if "dict" in value and isinstance(value["dict"], list):
                return {"dict": {key: walk(item) for key, item in value["dict"]}}
            return {("tuple" if key == "size" else key): names[item] if key == "node" else walk(item)
                    for key, item in value.items()}
        return [walk(item) for item in value] if isinstance(value, list) else value

    for i, node in enumerate(graph.nodes):
        names[node.name] = f"%{i}"
        args = walk([encode.encode_arg(arg) for arg in node.args])
        if node.op == "output":
            value = node.args[0]
            outputs = walk([encode.encode_arg(v) for v in (value if isinstance(value, tuple) else (value,))])
        elif node.op == "placeholder":
            nodes.append([node.op, node.target])
        else:
            target = encode.canonical_target(node.target) if node.op == "call_function" else node.target
            nodes.append([node.op, target, args, walk({k: encode.encode_arg(v) for k, v in node.kwargs.items()})])
    return nodes, outputs


def native(graph):
    names, nodes = {}, []

    def walk(value):
        if isinstance(value, dict):
            return {key: names[item] if key == "node" else walk(item) for key, item in value.items()}
        return [walk(item) for item in value] if isinstance(value, list) else value

    for i, node in enumerate(graph["nodes"]):
        names[node["name"]] = f"%{i}"
        nodes.append([node["op"], node["target"]] if node["op"] == "placeholder" else
                     [node["op"], node["target"], walk(node["args"]), walk(node["kwargs"])])
    return nodes, walk(graph["outputs"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--driver", required=True)
    args = parser.parse_args()
    process = subprocess.Popen([args.driver], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(question):
        process.stdin.write(json.dumps(question) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    failures = 0
    # torch's names of one function differ between versions of the table; identity is what counts.
    same = lambda name: {"torch._C._nn.": "torch.nn.functional."}.get(name[:13], name[:13]) + name[13:]
    for body in BODIES:
        source = (f"import torch\nfrom pass_dir._shared_kernels import f\ndef pattern(x, y, w):\n    {body}\n"
                  "def replacement_args(x, y, w):\n    return (x, y, w)\ndef replacement_func():\n    return f\n")
        answer = ask({"pattern": source})
        expected, got = traced(body), native(answer["graph"])
        for nodes, _ in (expected, got):
            for node in nodes:
                node[1] = same(node[1])
        if json.dumps(expected) != json.dumps(got):
            failures += 1
            print(f"pattern: {body}\n  python: {json.dumps(expected)}\n  native: {json.dumps(got)} {answer['codes']}")
    files = sorted((ROOT / "python").rglob("*.py")) + sorted((ROOT / "tests").rglob("*.py"))
    sources = SNIPPETS + [path.read_text() for path in files]
    for source in sources:
        expected, got = python_rules(source), ask({"source": source})
        # The same violations; their order is Python's only up to how deep a level is.
        if sorted(expected) != sorted(got.get("messages", [got])):
            failures += 1
            print(f"source:\n{source[:300]}\n  python: {sorted(expected)}\n  native: {sorted(got.get('messages', [str(got)]))}")
    print(f"{len(BODIES)} patterns, {len(sources)} sources, {failures} differ")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
