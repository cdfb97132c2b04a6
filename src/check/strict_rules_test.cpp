#include "check/strict_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

namespace passnet::check {
namespace {

std::vector<std::string> violations(std::string_view text) {
  const auto tree =
      pysrc::SyntaxTree::parse(std::make_shared<SourceBuffer>("_shared_kernels.py", std::string(text)));
  EXPECT_TRUE(tree.ok()) << tree.error().message;
  std::vector<std::string> out;
  for (const Diagnostic& d : strict_violations(*tree)) {
    out.push_back(std::to_string(d.span.line) + ": " + d.code + ": " + d.message);
  }
  return out;
}

using Strings = std::vector<std::string>;

// The shape of what is generated: a cache of launchers keyed by shapes, pointers as integers, an ordinary
// first launch.
TEST(StrictRules, ALauncherWithItsCacheIsFine) {
  EXPECT_EQ(violations(R"(
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.runtime import driver

_READY = {}
_SIZES = {(2, 3): (((2, 3), torch.float32),)}
_READY["relu"] = [None]
_stream = driver.active.get_current_stream

@triton.jit
def _relu(x, o, N: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    while i < N:
        i += 1
    tl.store(o + i, tl.maximum(tl.load(x + i, mask=i < N), 0.0), mask=i < N)

def _run(x):
    shape = x.shape
    o = torch.empty(shape, dtype=x.dtype, device=x.device)
    entry = _READY.get((shape, (x.data_ptr() | o.data_ptr()) & 15))
    if entry is None:
        k = _relu[(triton.cdiv(x.numel(), 1024),)](x, o, x.numel(), B=1024)
        try:
            hooks = triton.knobs.runtime.launch_enter_hook
        except AttributeError:
            return o
        run = k.run
        _READY[(shape, 0)] = (run, k.function, k.packed_metadata, len(shape))
        return o
    run, function, metadata, n = entry
    run(n, 1, 1, _stream(0), function, metadata, None, None, None, x.data_ptr(), o.data_ptr())
    return o

@torch.fx.wrap
def dispatch_wrapper(*args):
    if args[-1] == "relu":
        return _run(args[0])
    raise ValueError(f"unknown route {args[-1]}")
)"),
            Strings{});
}

TEST(StrictRules, AllowsNothingThatIsNotNamed) {
  EXPECT_EQ(
      violations("import os\nfrom torch import nn\nfrom pass_dir import helper\nfrom triton import *\n"),
      (Strings{"1: strict.import: import of os", "2: strict.import: import from torch",
               "3: strict.import: import from pass_dir",
               "4: strict.import: import from triton of everything"}));
  EXPECT_EQ(violations("def f(x):\n    import math\n    return x\n"),
            Strings{"2: strict.import: an import that is not at the top of the module"});
  EXPECT_EQ(violations("def f(x):\n    return x.__class__\n"),
            Strings{"2: strict.attribute: the attribute __class__"});
  EXPECT_EQ(violations("def f(x):\n    return type(x)\n"), Strings{"2: strict.name: the name type"});
  EXPECT_EQ(violations("def f(x):\n    return eval\n"), Strings{"2: strict.name: the name eval"});
  EXPECT_EQ(violations("import torch\ng = torch.matmul\n"),
            Strings{"2: strict.attribute: torch.matmul outside pattern"});
  EXPECT_EQ(
      violations("class A:\n    pass\n"),
      Strings{
          "1: strict.statement: the module does more than import, define functions and assign constants"});
}

TEST(StrictRules, AttributesAreNodesOfAPattern) {
  EXPECT_EQ(violations("def pattern(g, x):\n    return g.call_function(getattr, (x, 'T'))\n"), Strings{});
  const Strings refused = {"2: strict.name: the name getattr"};
  EXPECT_EQ(violations("def pattern(g, x):\n    return g.call_function(x, (getattr, 'T'))\n"), refused);
  EXPECT_EQ(violations("def pattern(g, x):\n    return getattr(x, 'T')\n"), refused);
  EXPECT_EQ(violations("def pattern(g, x):\n    return g.other(getattr, (x, 'T'))\n"), refused);
  const Strings elsewhere = violations("def wrapper(g, x):\n    return g.call_function(getattr, (x, 'T'))\n");
  EXPECT_NE(std::find(elsewhere.begin(), elsewhere.end(), refused[0]), elsewhere.end());
}

TEST(StrictRules, HandlersNameWhatTheyTake) {
  EXPECT_EQ(
      violations("def f(x):\n    try:\n        return x.shape\n    except Exception:\n        return 0\n"),
      Strings{"4: strict.statement: a handler of other exceptions than lookups that fail"});
  EXPECT_EQ(violations("def f(x):\n    try:\n        return x.shape\n    except:\n        return 0\n"),
            Strings{"4: strict.statement: a handler of other exceptions than lookups that fail"});
}

TEST(StrictRules, CachesKeepNoTensors) {
  EXPECT_EQ(
      violations("import torch\n_C = {}\ndef f(x):\n    o = torch.empty_like(x)\n    _C[1] = (0, [o])\n    "
                 "_C[2] = x\n"
                 "    _C[3] = o.data_ptr()\n    return o\n"),
      (Strings{"5: strict.state: o may be a tensor; a cache keeps kernels, functions and integers only",
               "6: strict.state: x may be a tensor; a cache keeps kernels, functions and integers only"}));
  EXPECT_EQ(violations("def f(x, cache={}):\n    f.last = x\n    return x\n"),
            (Strings{"1: strict.state: a default value that keeps state from call to call",
                     "2: strict.state: assignment to the attribute f.last"}));
  EXPECT_EQ(violations("def f(x):\n    global y\n    y = x\n    return x\n"),
            Strings{"2: strict.statement: a global statement"});
}

TEST(StrictRules, PatternsAndArgumentsAreFree) {
  EXPECT_EQ(
      violations("import torch, inspect\ndef pattern(x):\n    return torch.nn.functional.relu(x).sum()\n"
                 "def replacement_args(x):\n    return (x, 'r')\n"),
      Strings{});
}

}  // namespace
}  // namespace passnet::check
