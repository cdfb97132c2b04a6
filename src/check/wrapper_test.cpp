#include "check/wrapper.h"

#include <gtest/gtest.h>

#include "check/red_lines.h"
#include "pysrc/parse.h"

namespace passnet::check {
namespace {

constexpr std::string_view kKernels = R"(import torch
import triton
import triton.language as tl

@triton.jit
def _kernel(x, o, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    p = o + i
    tl.store(p, tl.load(x + i), mask=i < n)

)";

WrapperArgument tensor(std::vector<int64_t> shape, std::vector<int64_t> stride = {}) {
  WrapperArgument out;
  out.kind = WrapperArgument::Kind::kTensor;
  out.name = "x";
  out.tensor.shape = shape;
  out.tensor.stride = stride.empty() ? contiguous_strides(shape) : stride;
  out.tensor.dtype = DType::kFloat16;
  return out;
}

WrapperArgument literal(Value v) {
  WrapperArgument out;
  out.kind = WrapperArgument::Kind::kLiteral;
  out.literal = std::move(v);
  return out;
}

WrapperRun follow(std::string_view body, std::vector<WrapperArgument> arguments) {
  const Result<pysrc::Module> module =
      pysrc::parse_module(SourceBuffer("_shared_kernels.py", std::string(kKernels) + std::string(body)));
  EXPECT_TRUE(module.ok());
  VisitedCalls visited;
  return follow_wrapper({{"_shared_kernels", &*module}}, "pass_dir._shared_kernels.f", arguments, visited);
}

std::string finding(const WrapperRun& run) {
  return run.findings.empty() ? std::string() : run.findings[0].code + ": " + run.findings[0].message;
}

TEST(Wrapper, ShapesFlowToWhatIsReturned) {
  const WrapperRun run = follow(R"(def g(x, rows):
    b, c = x.shape
    o = torch.empty((rows, b * c // rows), dtype=x.dtype, device=x.device)
    _kernel[(triton.cdiv(b, 2),)](x, o, x.numel(), BLOCK=8)
    return o

@torch.fx.wrap
def f(*args):
    if args[-1] == "g" and len(args) == 3:
        return g(*args[:-1])
    raise ValueError(args[-1])
)",
                                {tensor({4, 6}), literal(Value::integer(8)), literal(Value::string("g"))});
  ASSERT_TRUE(run.followed) << run.stopped;
  ASSERT_EQ(run.outputs.size(), 1u);
  EXPECT_EQ(run.outputs[0].shape, (std::vector<int64_t>{8, 3}));
  EXPECT_EQ(run.outputs[0].dtype, DType::kFloat16);
  EXPECT_EQ(run.outputs[0].argument, -1);
  EXPECT_TRUE(run.effects_known);
  EXPECT_TRUE(run.written.empty());
}

TEST(Wrapper, TheGuardEndsIt) {
  EXPECT_EQ(finding(follow("def f(x):\n    return x + 1\n", {tensor({4})})),
            "wrapper.operation: f computes `+` on x, which the run-time guard refuses");
  EXPECT_EQ(finding(follow("def f(x):\n    return x.view(-1)\n", {tensor({4})})),
            "wrapper.operation: f calls .view() on x, which the run-time guard refuses");
  EXPECT_EQ(finding(follow("def f(x):\n    return x.contiguous()\n", {tensor({4, 2}, {1, 4})})),
            "wrapper.operation: f calls .contiguous() on the strided x, which the run-time guard refuses");
  EXPECT_EQ(finding(follow("def f(x):\n    if x:\n        return x\n    return x\n", {tensor({4})})),
            "wrapper.operation: f decides on the value of x, which the run-time guard refuses");
}

TEST(Wrapper, WhatTheGuardAllows) {
  for (const char* body :
       {"def f(x):\n    return x.contiguous()\n", "def f(x):\n    return x.to(torch.float32)\n",
        "def f(x):\n    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)\n    return y.permute(0) + "
        "1\n",
        "def f(x):\n    return torch.zeros_like(x) if x.dim() == 1 and x.is_contiguous() else None\n"}) {
    const WrapperRun run = follow(body, {tensor({4})});
    EXPECT_TRUE(run.followed) << body << run.stopped;
    EXPECT_EQ(finding(run), "") << body;
  }
}

TEST(Wrapper, WhatCannotBeFollowedIsSaidAndConcludesNothing) {
  const WrapperRun run =
      follow("def f(x):\n    if x.data_ptr() & 15:\n        return x\n    return x.exp()\n", {tensor({4})});
  EXPECT_FALSE(run.followed);
  EXPECT_EQ(run.stopped, "a condition that is not known before the call");
  EXPECT_TRUE(run.findings.empty());
}

TEST(Wrapper, ErrorsOfTheCallItself) {
  EXPECT_EQ(finding(follow("def f(x, y):\n    return x\n", {tensor({4})})),
            "wrapper.raises: the call of f does not give y");
  EXPECT_EQ(finding(follow("def f(x):\n    a, b, c = x.shape\n    return x\n", {tensor({4, 4})})),
            "wrapper.raises: f unpacks 2 values into 3 names");
  EXPECT_EQ(finding(follow("def f(x):\n    return torch.empty(x.shape[2])\n", {tensor({4, 4})})),
            "wrapper.raises: f takes item 2 of 2 values");
  EXPECT_EQ(finding(follow("def f(x):\n    return helper(x)\n", {tensor({4})})),
            "wrapper.raises: f uses the name helper, which is not defined");
}

TEST(Wrapper, StoresOfKernelsFollowPointersNotLoadedValues) {
  const Result<pysrc::Module> module = pysrc::parse_module(SourceBuffer("k.py", R"(
def k(x, idx, o, n, BLOCK):
    i = tl.arange(0, BLOCK)
    at = tl.load(idx + i)
    q = o
    for r in range(4):
        q += n
        tl.store(q + at, tl.load(x + i))
    helper(idx, n)
)"));
  ASSERT_TRUE(module.ok());
  const KernelStores stores = kernel_stores(*module->find_function("k"));
  EXPECT_TRUE(stores.known);
  EXPECT_TRUE(stores.stored.contains("o"));
  EXPECT_FALSE(stores.stored.contains("x"));
  EXPECT_FALSE(stores.stored.contains("idx"));
  EXPECT_TRUE(stores.handed_on.contains("idx"));
}

std::vector<std::string> lines_of(std::string_view text) {
  const Result<pysrc::SyntaxTree> tree =
      pysrc::SyntaxTree::parse(std::make_shared<SourceBuffer>("P.py", std::string(text)));
  EXPECT_TRUE(tree.ok());
  std::vector<std::string> out;
  for (const Diagnostic& d : red_lines(*tree)) out.push_back(d.code + ": " + d.message);
  return out;
}

TEST(RedLines, EachIsFoundWhereverItStands) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(lines_of("import torch as t\ndef f(x):\n    return getattr(t, 'relu')(x)\n"),
            (Lines{"red_line.laundering: getattr of torch"}));
  EXPECT_EQ(lines_of("def f():\n    import importlib\n    exec('1')\n"),
            (Lines{"red_line.laundering: import of importlib", "red_line.laundering: a call of exec"}));
  EXPECT_EQ(lines_of("import torch\nwith torch._C._DisableTorchDispatch():\n    pass\n"),
            (Lines{"red_line.no_dispatch: the attribute _DisableTorchDispatch"}));
  EXPECT_EQ(lines_of("from graph_net_bench.torch import backend\nimport inspect\ninspect.stack()\n"),
            (Lines{"red_line.harness: import of graph_net_bench.torch", "red_line.harness: inspect.stack"}));
  EXPECT_EQ(lines_of("import torch\nfrom triton import knobs\ntorch.manual_seed = None\nknobs.a.b = "
                     "1\nsetattr(torch, 'x', 1)\n"),
            (Lines{"red_line.monkeypatch: assignment to torch.manual_seed",
                   "red_line.monkeypatch: assignment to triton.knobs.a.b",
                   "red_line.monkeypatch: setattr on torch"}));
}

TEST(RedLines, OrdinaryCodeCrossesNone) {
  EXPECT_EQ(
      lines_of(
          "import inspect\nimport torch\nfrom triton.runtime import driver\ng = "
          "driver.active.get_current_stream\n"
          "def pattern():\n    m = torch.fx.GraphModule({}, g)\n    m.__signature__ = inspect.Signature([])\n"
          "    return getattr(m, 'graph')\n"),
      std::vector<std::string>{});
}

}  // namespace
}  // namespace passnet::check
