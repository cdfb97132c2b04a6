"""Every callable of the table of torch's functions, called by position, by keyword and mixed: the native reading of a
pattern against torch's tracer with the public normalisation.

  tests/differential/tracer_differential.py --driver build/tests/differential/check_driver [--only TEXT] [--every N] [-v]

A native reading is either the graph that the tracer gives, or a refusal, which sends the pattern to the worker; a third
thing is a failure. Callables that torch itself cannot trace with any of the calls tried are counted apart. Refusals are
counted by reason.
"""
import argparse
import collections
import io
import contextlib
import json
import math
import operator
import builtins
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
sys.path.insert(0, str(ROOT / "tests" / "differential"))

import torch
import torch.fx

from check_differential import native, traced

VERSION = ".".join(torch.__version__.split(".")[:2])
PLACES = {"torch": torch, "operator": operator, "math": math, "builtins": builtins}
# Literals tried for parameters that take no traced value, in this order.
LITERALS = ["2", "0.5", "None", "(2, 2)", "'mean'", "True", "torch.float32", "[0]"]


def find(name):
    place = PLACES[name.split(".")[0]]
    for part in name.split(".")[1:]:
        place = getattr(place, part)
    return place


def spell(name):
    return name.split(".", 1)[1] if name.startswith("builtins.") else name


def calls_of(name, signature):
    """Texts of calls: for a known signature required parameters by position, by keyword, and one more given; without one,
    by position and with the usual first keyword."""
    x = ["x", "y", "w", "x", "y", "w", "x", "y", "w"]
    out = []
    if signature is None:
        for n in (1, 2, 3):
            out.append(f"{spell(name)}({', '.join(x[:n])})")
        out += [f"{spell(name)}(x, 2)", f"{spell(name)}(x, dim=1)", f"{spell(name)}(input=x)", f"{spell(name)}(x, other=y)",
                f"{spell(name)}(x, 0, y)", f"{spell(name)}((x, y), 0)", f"{spell(name)}([x, y])", f"{spell(name)}(x, (2, 2))",
                f"{spell(name)}(x, y, w, 2)", f"{spell(name)}('ij,jk->ik', x, y)"]
        return out
    normal = [p for p in signature if p["kind"] in ("positional_only", "positional_or_keyword")]
    required = [p for p in normal if "default" not in p]
    optional = [p for p in signature if "default" in p and p["kind"] != "positional_only"]
    starred = any(p["kind"] == "var_positional" for p in signature)
    base = len(required) if not starred else max(1, len(required))
    if signature and all(p["kind"] in ("var_positional", "var_keyword") for p in signature):
        return [f"{spell(name)}(x, 2)", f"{spell(name)}(x, kernel_size=2)", f"{spell(name)}(x, 2, return_indices=True)", f"{spell(name)}(x, 2, stride=2)",
                f"{spell(name)}(x, (2, 2), padding=1, stride=2)", f"{spell(name)}(x, output_size=2)", f"{spell(name)}(x)", f"{spell(name)}(x, y)",
                f"{spell(name)}(x, 2, 2, 0, 1, False, False)"]
    values = [x[:base]] + [["x"] + [literal] * (base - 1) for literal in LITERALS if base > 1]
    for given in values:
        out.append(f"{spell(name)}({', '.join(given)})")
        named = [f"{p['name']}={v}" if p["kind"] != "positional_only" else v for p, v in zip(required, given)]
        out.append(f"{spell(name)}({', '.join(named) if required else ', '.join(given)})")
        half = [v if i < (len(named) + 1) // 2 else named[i] for i, v in enumerate(given[:len(named)])]
        out.append(f"{spell(name)}({', '.join(half or given)})")
        for p in (optional[0], optional[-1]) if optional else ():
            default = p["default"]
            if default != "...":
                out.append(f"{spell(name)}({', '.join(given + [p['name'] + '=' + default])})")
        if optional and optional[0]["default"] != "..." and optional[0]["kind"] != "keyword_only":
            out.append(f"{spell(name)}({', '.join(given + [optional[0]['default']])})")
    return list(dict.fromkeys(out))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--driver", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--every", type=int, default=1 if os.environ.get("PASSNET_SOAK") else 8,
                        help="every N-th callable only (default 8, all with PASSNET_SOAK set)")
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args()
    table = json.loads((ROOT / "src" / "ops" / "torch_identities" / f"{VERSION}.json").read_text())["functions"]
    args.driver = str(pathlib.Path(args.driver).resolve())
    scratch = tempfile.TemporaryDirectory()  # some of the callables write files
    os.chdir(scratch.name)
    process = subprocess.Popen([args.driver], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(body):
        source = (f"import torch, operator, math\nfrom pass_dir._shared_kernels import f\ndef pattern(x, y, w):\n    {body}\n"
                  "def replacement_args(x, y, w):\n    return (x, y, w)\ndef replacement_func():\n    return f\n")
        process.stdin.write(json.dumps({"pattern": source}) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    # One object has several names; torch's class of its C functions is reached by two.
    def same(name):
        for prefix, own in (("torch._C._nn.", "torch.nn.functional."), ("torch._VariableFunctionsClass.", "torch._C._VariableFunctions.")):
            if name.startswith(prefix):
                return own + name[len(prefix):]
        return name

    equal = calls = internal = tried = 0
    untraceable, refused, failures = [], collections.defaultdict(list), []
    # Functions that keep their form by a table of ours are always among them.
    kept = ("max_pool", "meshgrid", "torch.lu", "torch.unique", "cross_entropy", "triplet_margin_with")
    for number, (name, entry) in enumerate(table.items()):
        if args.only not in name or (number % args.every and not any(k in name for k in kept)):
            continue
        tried += 1
        if re.fullmatch(r"torch\._C\._\w+", name):  # the machinery of torch's Python side: no operators, and some crash on a traced value
            internal += 1
            continue
        if args.verbose:
            print(name, file=sys.stderr, flush=True)
        traceable = 0
        for call in calls_of(name, entry["signature"]):
            body = f"return {call}"
            try:
                with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    expected = traced(body)
            except BaseException:  # noqa: BLE001 - whatever torch raises, the call is no pattern
                continue
            if not any(node[0].startswith("call_") for node in expected[0]) or "object" in json.dumps(expected):
                continue  # run at once, or holds what no graph of ours can
            traceable += 1
            calls += 1
            answer = ask(body)
            if any(code.startswith("check.not_interpreted") for code in answer["codes"]):
                refused[name].append((call, answer["codes"][0]))
                continue
            got = native(answer["graph"])
            for nodes in (expected[0], got[0]):
                for node in nodes:
                    node[1] = same(node[1])
            if json.dumps(expected) == json.dumps(got):
                equal += 1
            else:
                failures.append(call)
                print(f"{call}\n  torch:  {json.dumps(expected)}\n  native: {json.dumps(got)} {answer['codes']}")
        if not traceable:
            untraceable.append(name)
        elif args.verbose and name in refused:
            print(f"{name}: refused: {refused[name][0]}")
    reasons = collections.Counter(codes.split(": ", 1)[1] if "name" not in codes else "a name" for r in refused.values() for _, codes in r)
    print(f"{tried} of {len(table)} callables, {internal} of them torch's own machinery, {tried - internal - len(untraceable)} traceable, {calls} calls: {equal} equal, "
          f"{sum(map(len, refused.values()))} left to the worker ({len(refused)} callables), {len(failures)} differ")
    if args.verbose:
        for reason, count in reasons.most_common(20):
            print(f"  {count:5d} {reason[:120]}")
        print("refused:", sorted(refused))
    return 1 if failures or equal == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
