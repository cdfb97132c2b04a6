"""The native matcher and rewriter against torch.fx's, on random pairs of pattern and target graphs.

Targets are matched by identity there and by canonical name here, so the operators are a small alphabet whose names
are known to both. Graphs are never run: any operator may get any arguments, which reaches far more forms than
runnable programs would.
"""
import argparse
import copy
import json
import operator
import os
import random
import subprocess
import sys
import types

import torch
import torch.fx
from torch.fx.passes.utils.matcher_utils import SubgraphMatcher
from torch.fx import subgraph_rewriter

FUNCTIONS = {
    "torch.relu": torch.relu,
    "torch.nn.functional.gelu": torch.nn.functional.gelu,
    "torch.cat": torch.cat,
    "operator.add": operator.add,
    "operator.getitem": operator.getitem,
    "operator.setitem": operator.setitem,
    "torch.rand": torch.rand,
}
NAMES = {function: name for name, function in FUNCTIONS.items()}
METHODS = ["view", "relu", "sum"]
KEYWORDS = ["dim", "keepdim"]
# Twice as many plain numbers as oddities: types and nesting matter, but values have to meet often enough.
LITERALS = [0, 1, 1, 1.0, True, False, None, 2, 2, -1, 0.5, 1e-05, "a", "b", torch.float32, torch.float16, Ellipsis,
            torch.device("cuda"), torch.device("cuda", 0), torch.strided, torch.contiguous_format, float("inf"),
            float("nan"), 0.0, -0.0, 1 + 0j, slice(None, 1, None), slice(None, True, None), slice(0, 2, 1), {"k": 1},
            {"k": True}, {"k": [1]}, {"k": (1,)}]


def dispatch_wrapper(*args):
    raise AssertionError("the graphs are never run")


NAMES[dispatch_wrapper] = "dispatch_wrapper"


def literal(rng):
    value = rng.choice(LITERALS)
    if rng.random() < 0.25:
        items = [rng.choice([1, 2, 1, True, 1.0, None]) for _ in range(rng.randint(0, 2))]
        if rng.random() < 0.2:
            items.append([1, 2])
        value = items if rng.random() < 0.5 else tuple(items)
    return value


# A graph under construction: placeholders by number, then nodes (op, target, args, kwargs) whose arguments refer to
# earlier values as Ref.
class Ref:
    def __init__(self, index):
        self.index = index


def mapped(value, function):
    if isinstance(value, Ref):
        return function(value)
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(item, function) for item in value)
    if isinstance(value, dict):
        return {key: mapped(item, function) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(mapped(value.start, function), mapped(value.stop, function), mapped(value.step, function))
    return value


def argument(rng, values):
    kind = rng.random()
    if kind < 0.6 and values:
        # Recent values make chains; old ones make sharing.
        return Ref(rng.choice(values[-3:] if rng.random() < 0.6 else values))
    if kind < 0.68 and values:
        items = [Ref(rng.choice(values)) if rng.random() < 0.7 else rng.choice([1, 2])
                 for _ in range(rng.randint(1, 3))]
        return items if rng.random() < 0.5 else tuple(items)
    if kind < 0.7 and values:
        return slice(None, Ref(rng.choice(values)), None)
    return literal(rng)


def random_node(rng, values):
    if rng.random() < 0.6:
        op, target = "call_function", rng.choices(list(FUNCTIONS), [4, 3, 2, 5, 2, 0.4, 0.3])[0]
    else:
        op, target = "call_method", rng.choice(METHODS)
    count = 2 if target in ("operator.add", "operator.getitem") else rng.randint(1, 3)
    args = [argument(rng, values) for _ in range(count)]
    if op == "call_method" or rng.random() < 0.9:
        if values and not isinstance(args[0], Ref):
            args[0] = Ref(rng.choice(values[-3:]))
    kwargs = {}
    if rng.random() < 0.25:
        for key in rng.sample(KEYWORDS, rng.randint(1, 2)):
            kwargs[key] = argument(rng, values) if rng.random() < 0.5 else literal(rng)
    return op, target, tuple(args), kwargs


def random_spec(rng, size):
    placeholders = rng.randint(1, 3)
    nodes = []
    for index in range(size):
        nodes.append(random_node(rng, list(range(placeholders + index))))
    return placeholders, nodes


def instances(rng, spec, template, count):
    """Appends copies of the template's nodes to a spec, on operands of the spec, with a few more nodes between."""
    placeholders, nodes = spec
    t_placeholders, t_nodes = template
    for _ in range(count):
        available = list(range(placeholders + len(nodes)))
        bound = {i: Ref(rng.choice(available[-4:])) if rng.random() < 0.8 else literal(rng)
                 for i in range(t_placeholders)}
        for index, (op, target, args, kwargs) in enumerate(t_nodes):
            move = lambda ref: bound[ref.index]
            nodes.append((op, target, mapped(args, move), mapped(kwargs, move)))
            bound[t_placeholders + index] = Ref(placeholders + len(nodes) - 1)
            if rng.random() < 0.15:
                nodes.append(random_node(rng, list(range(placeholders + len(nodes)))))


def perturbed(rng, value):
    """A literal that is nearly the same: another type, list for tuple, or other."""
    choice = rng.random()
    if isinstance(value, list) and choice < 0.7:
        return tuple(value)
    if isinstance(value, tuple) and choice < 0.7:
        return list(value)
    if isinstance(value, (bool, int, float)) and choice < 0.7:
        return rng.choice([bool, int, float])(value) if value == value and abs(value) != float("inf") else value
    return literal(rng)


def cone(nodes, placeholders, roots, rng, stop):
    """The nodes upward of the roots, each operand cut off with probability `stop`."""
    chosen, queue = set(roots), list(roots)
    while queue:
        _, _, args, kwargs = nodes[queue.pop() - placeholders]
        refs = []
        mapped((args, list(kwargs.values())), lambda ref: refs.append(ref.index))
        for index in refs:
            if index >= placeholders and index not in chosen and rng.random() >= stop:
                chosen.add(index)
                queue.append(index)
    return sorted(chosen)


def carve(rng, spec):
    """A pattern cut from a target: operands outside become placeholders, some literals too, with some accidents."""
    placeholders, nodes = spec
    values = list(range(placeholders, placeholders + len(nodes)))
    roots = rng.sample(values, 1 if rng.random() < 0.85 or len(values) < 2 else 2)
    chosen = cone(nodes, placeholders, roots, rng, rng.choice([0.2, 0.5, 0.8]))
    graph = torch.fx.Graph()
    made, outside, lent = {}, {}, []
    parameters = []

    body = []  # placeholders are made first, as torch demands; bodies are built once all are known

    class Hole:  # a placeholder to be
        pass

    def operand(ref):
        if ref.index in chosen:
            return ref
        split = rng.random() < 0.05  # the same value through a second placeholder: never matches
        if ref.index not in outside or split:
            hole = Hole()
            parameters.append(hole)
            outside[ref.index] = hole
        return outside[ref.index]

    def lend(value):
        if isinstance(value, (Ref, Hole)):
            return value
        if rng.random() < 0.08:
            if lent and rng.random() < 0.4:
                return rng.choice(lent)
            hole = Hole()
            parameters.append(hole)
            lent.append(hole)
            return hole
        if rng.random() < 0.03:
            return perturbed(rng, value)
        return value

    def walk(value):
        if isinstance(value, Ref):
            return operand(value)
        if isinstance(value, (list, tuple)) and rng.random() < 0.9:
            items = [walk(item) for item in value]
            kind = type(value) if rng.random() < 0.7 else rng.choice([list, tuple])
            return lend(kind(items)) if not any(isinstance(i, (Ref, Hole)) for i in items) else kind(items)
        if isinstance(value, slice):
            function = walk if rng.random() < 0.2 else lambda part: mapped(part, operand)
            return slice(function(value.start), function(value.stop), function(value.step))
        if isinstance(value, (list, tuple)):
            return mapped(value, operand)
        return lend(value)

    for index in chosen:
        op, target, args, kwargs = nodes[index - placeholders]
        args = tuple(walk(arg) for arg in args)
        kwargs = {key: walk(arg) for key, arg in kwargs.items()}
        accident = rng.random()
        if accident < 0.02:
            target = rng.choice(METHODS) if op == "call_method" else rng.choice(list(FUNCTIONS))
        elif accident < 0.04 and len(kwargs) > 1:
            kwargs = dict(reversed(list(kwargs.items())))
        elif accident < 0.05 and len(args) > 1 and op == "call_function":
            kwargs["dim"], args = args[-1], args[:-1]
        body.append((index, op, target, args, kwargs))

    def real(value):
        if isinstance(value, Hole):
            return made[value]
        if isinstance(value, Ref):
            return made[value.index]
        if isinstance(value, (list, tuple)):
            return type(value)(real(item) for item in value)
        if isinstance(value, dict):
            return {key: real(item) for key, item in value.items()}
        if isinstance(value, slice):
            return slice(real(value.start), real(value.stop), real(value.step))
        return value

    if rng.random() < 0.02:
        parameters.append(Hole())  # never read
    for number, hole in enumerate(parameters):
        made[hole] = graph.placeholder(f"p{number}")
    for index, op, target, args, kwargs in body:
        made[index] = add(graph, op, target, real(args), real(kwargs))
    if rng.random() < 0.03:
        add(graph, *random_node(rng, []))  # never read
    returned = [made[root] for root in roots]
    if parameters and rng.random() < 0.02:
        returned[0] = made[rng.choice(parameters)]
    if rng.random() < 0.05:
        returned.append(made[rng.choice(chosen)])
    graph.output(returned[0] if len(returned) == 1 and rng.random() < 0.5 else tuple(returned))
    return graph


def add(graph, op, target, args, kwargs):
    if op == "call_function":
        return graph.call_function(FUNCTIONS[target], args, kwargs)
    return graph.call_method(target, args, kwargs)


def build(rng, spec):
    placeholders, nodes = spec
    graph = torch.fx.Graph()
    made = [graph.placeholder(f"in_{i}") for i in range(placeholders)]
    for op, target, args, kwargs in nodes:
        real = lambda ref: made[ref.index]
        made.append(add(graph, op, target, mapped(args, real), mapped(kwargs, real)))
    unread = [value for value in made[placeholders:] if not value.users]
    outputs = [value for value in unread if rng.random() < 0.9]
    if rng.random() < 0.3:
        outputs.append(rng.choice(made))
    graph.output(tuple(outputs))
    return graph


def pair(rng):
    template = random_spec(rng, rng.randint(1, 4))
    spec = random_spec(rng, rng.randint(0, 5))
    instances(rng, spec, template, rng.randint(1, 3))
    target = build(rng, spec)
    kind = rng.random()
    if kind < 0.7:
        pattern = carve(rng, spec)
    elif kind < 0.9:
        pattern = carve(rng, template)
    else:
        pattern = carve(rng, random_spec(rng, rng.randint(1, 3)))
    return pattern, target


# ---- the exchange format ----

def encode(value):
    if isinstance(value, torch.fx.Node):
        return {"node": value.name}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if abs(value) < float("inf") else {"float": str(value)}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, tuple):
        return {"tuple": [encode(item) for item in value]}
    if isinstance(value, list):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        return {"dict": {key: encode(item) for key, item in value.items()}}
    if isinstance(value, slice):
        return {"slice": [encode(value.start), encode(value.stop), encode(value.step)]}
    if value is Ellipsis:
        return {"ellipsis": True}
    for kind, tag in ((torch.dtype, "dtype"), (torch.device, "device"), (torch.layout, "layout"),
                      (torch.memory_format, "memory_format")):
        if isinstance(value, kind):
            return {tag: str(value)}
    raise TypeError(f"cannot encode {value!r}")


def encode_graph(graph):
    nodes, outputs = [], []
    for node in graph.nodes:
        if node.op == "output":
            value = node.args[0]
            outputs = [encode(item) for item in value] if isinstance(value, (list, tuple)) else [encode(value)]
            continue
        target = NAMES[node.target] if node.op == "call_function" else node.target
        nodes.append({"name": node.name, "op": node.op, "target": target,
                      "args": [] if node.op == "placeholder" else [encode(arg) for arg in node.args],
                      "kwargs": {key: encode(arg) for key, arg in node.kwargs.items()}})
    return {"nodes": nodes, "outputs": outputs}


def text(value):
    """A literal as the native printer writes it."""
    if isinstance(value, torch.fx.Node):
        return value.name
    if isinstance(value, (tuple, list)):
        inner = ", ".join(text(item) for item in value)
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, slice):
        return f"slice({text(value.start)}, {text(value.stop)}, {text(value.step)})"
    if isinstance(value, float):
        return repr(value) if abs(value) < float("inf") else f"float('{value}')"
    if isinstance(value, complex):
        return f"complex({text(value.real)}, {text(value.imag)})"
    if isinstance(value, torch.device):
        return f"torch.device('{value}')"
    return "..." if value is Ellipsis else str(value) if not isinstance(value, str) else repr(value)


# ---- torch's answers ----

def torch_matches(pattern, target):
    try:
        matcher = SubgraphMatcher(pattern, match_output=False, match_placeholder=False,
                                  remove_overlapping_matches=True, ignore_literals=False)
    except AssertionError:
        return {"error": "match.dead_code"}
    try:
        found = matcher.match(target)
    except KeyError:
        return {"error": "match.unbound_placeholder"}
    binding = lambda value: {"node": value.name} if isinstance(value, torch.fx.Node) else text(value)
    return {"matches": [{
        "nodes": [[p.name, g.name] for p, g in match.nodes_map.items() if isinstance(g, torch.fx.Node)],
        "bindings": [binding(value) for value in match.placeholder_nodes],
        "returning": [value.name if isinstance(value, torch.fx.Node) else None for value in match.returning_nodes],
    } for match in found]}


def torch_rewrite(pattern, target):
    """The rewritten graph, or None where torch fails: what is expected then is decided by the caller."""
    placeholders = [node for node in pattern.nodes if node.op == "placeholder"]
    replacement = torch.fx.Graph()
    args = [replacement.placeholder(node.name) for node in placeholders]
    replacement.output(replacement.call_function(dispatch_wrapper, (*args, "route")))
    # In place of a GraphModule: most of these graphs have no source text that Python could compile.
    module = types.SimpleNamespace(graph=copy.deepcopy(target), recompile=lambda: None)
    try:
        subgraph_rewriter._replace_pattern(module, pattern, replacement)
    except (AssertionError, KeyError, RuntimeError):
        return None
    return encode_graph(module.graph)


def dangling(graph):
    """Whether an argument names a node that is gone: torch does not update nodes inside of bound containers."""
    known = {node["name"] for node in graph["nodes"]}

    def bad(value):
        if isinstance(value, dict):
            return any(item not in known if key == "node" else bad(item) for key, item in value.items())
        return isinstance(value, list) and any(bad(item) for item in value)

    return any(bad(node["args"]) or bad(node["kwargs"]) for node in graph["nodes"])


def renamed(graph):
    """Names replaced by positions: torch and we name inserted nodes alike only as long as no name is taken."""
    names = {node["name"]: f"%{i}" for i, node in enumerate(graph["nodes"])}

    def walk(value):
        if isinstance(value, dict):
            return {key: names[item] if key == "node" else walk(item) for key, item in value.items()}
        return [walk(item) for item in value] if isinstance(value, list) else value

    return [[names[n["name"]], n["op"], n["target"] if n["op"] != "placeholder" else "", walk(n["args"]),
             walk(n["kwargs"])] for n in graph["nodes"]] + [walk(graph["outputs"])]


def returned_are_read(target, matches):
    named = {node.name: node for node in target.nodes}
    return all(named[name].users for match in matches for name in match["returning"])


class Driver:
    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the driver ended")
        return json.loads(line)


def compare(driver, pattern, target, rewrite):
    """What differs, as text; None if nothing does. Also what happened, for the statistics."""
    expected = torch_matches(pattern, target)
    answer = driver.ask({"pattern": encode_graph(pattern), "target": encode_graph(target), "rewrite": rewrite})
    if "error" in expected:
        if answer.get("error") != expected["error"]:
            return f"torch: {expected}\nnative: {answer}", "error"
        return None, expected["error"]
    if answer.get("matches") != expected["matches"]:
        return f"torch: {json.dumps(expected['matches'])}\nnative: {json.dumps(answer)}", "match"
    count = len(expected["matches"])
    kind = "no match" if count == 0 else "one match" if count == 1 else "several matches"
    if rewrite and count > 0:
        returned = list(pattern.nodes)[-1].all_input_nodes
        if len(returned) != 1:
            return (None if answer.get("rewrite_error") == "rewrite.several_outputs" else f"{answer}"), "several outputs"
        if returned[0].op == "placeholder":
            return (None if answer.get("rewrite_error") == "rewrite.returns_placeholder" else f"{answer}"), "placeholder"
        if not returned_are_read(target, expected["matches"]):
            # torch 2.13 puts the call behind the dead node, earlier versions fail; we refuse.
            wanted = ("rewrite.no_users", "rewrite.unmatched_node", "rewrite.stale_binding")
            return (None if answer.get("rewrite_error") in wanted else f"expected no_users: {answer}"), "no users"
        rewritten = torch_rewrite(pattern, target)
        if rewritten is None:
            if "rewrite_error" in answer:
                return None, "rewrite refused by both"
            return f"torch cannot rewrite, native gives {json.dumps(answer['rewritten'])}", "rewrite"
        if dangling(rewritten):
            return (None if answer.get("rewrite_error") == "rewrite.stale_binding" else f"{answer}"), "dangling in torch"
        if "rewrite_error" in answer:
            return f"native refuses: {answer['rewrite_error']}", "rewrite"
        if json.dumps(renamed(rewritten)) != json.dumps(renamed(answer["rewritten"])):
            return f"torch: {json.dumps(rewritten)}\nnative: {json.dumps(answer['rewritten'])}", "rewrite"
        kind += ", rewritten"
    return None, kind


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--driver", required=True)
    parser.add_argument("--count", type=int, default=20000 if os.environ.get("PASSNET_SOAK") else 2000)
    parser.add_argument("--seed", type=int, default=20240229)
    args = parser.parse_args()
    print(f"seed {args.seed}, {args.count} pairs", flush=True)
    driver = Driver(args.driver)
    statistics = {}
    for number in range(args.count):
        rng = random.Random(args.seed * 1_000_003 + number)
        pattern, target = pair(rng)
        difference, kind = compare(driver, pattern, target, number % 2 == 0)
        statistics[kind] = statistics.get(kind, 0) + 1
        if difference:
            print(f"pair {number} of seed {args.seed} differs ({kind})\npattern:\n{pattern}\ntarget:\n{target}\n"
                  f"pattern JSON: {json.dumps(encode_graph(pattern))}\n"
                  f"target JSON: {json.dumps(encode_graph(target))}\n{difference}")
            return 1
    print(", ".join(f"{kind}: {count}" for kind, count in sorted(statistics.items())))
    for kind in ("no match", "one match", "several matches", "match.dead_code", "one match, rewritten"):
        if statistics.get(kind, 0) < args.count // 200:
            print(f"the generator makes too few pairs of the kind '{kind}'")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
