#include "check/pass_reader.h"

#include <gtest/gtest.h>

#include "pysrc/parse.h"

namespace passnet::check {
namespace {

ReadPass read(std::string_view text) {
  const Result<pysrc::Module> module = pysrc::parse_module(SourceBuffer("P.py", std::string(text)));
  EXPECT_TRUE(module.ok()) << module.error().message;
  return read_pass("P", *module);
}

std::string texts(const ReadPass& pass) {
  std::string out;
  for (const Diagnostic& d : pass.findings) out += render_text(d);
  return out;
}

constexpr std::string_view kTail = R"(
def replacement_args(x, y):
    return (y, x, "route", 3)

def replacement_func():
    return dispatch_wrapper
)";

std::string with_tail(std::string_view text) {
  return "import inspect, operator\nimport torch\nfrom pass_dir._shared_kernels import dispatch_wrapper\n" +
         std::string(text) + std::string(kTail);
}

TEST(PassReader, HandBuiltGraphs) {
  const ReadPass pass = read(with_tail(R"(
def pattern():
    g = torch.fx.Graph()
    x, y = (g.placeholder(n) for n in ("x", "y"))
    s = g.call_function(operator.iadd, (x, y))
    n = g.call_function(torch.nn.functional.layer_norm, args=(s, (8,), None, None, 1e-05), kwargs={})
    h = g.call_function(torch._C._nn.gelu, (n,), {"approximate": "none"})
    t = g.call_method("to", (h,), {"dtype": torch.float16, "device": torch.device("cuda", 0)})
    g.output(g.call_function(operator.getitem, (g.call_function(getattr, (t, "T")), (slice(None, 2), ...))))
    m = torch.fx.GraphModule({}, g, "P")
    m.__signature__ = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in ("x", "y")])
    return m

pattern = pattern()
)"));
  EXPECT_EQ(texts(pass), "");
  ASSERT_TRUE(pass.readable);
  EXPECT_EQ(pass.form, ReadPass::Form::kHandBuilt);
  EXPECT_EQ(print(pass.pattern), R"(%x = placeholder
%y = placeholder
%iadd = call_function operator.iadd(%x, %y)
%layer_norm = call_function torch.nn.functional.layer_norm(%iadd, (8,), None, None, 1e-05)
%gelu = call_function torch.nn.functional.gelu(%layer_norm, approximate='none')
%to = call_method to(%gelu, dtype=torch.float16, device=torch.device('cuda:0'))
%getattr = call_function builtins.getattr(%to, 'T')
%getitem = call_function operator.getitem(%getattr, (slice(None, 2, None), ...))
output (%getitem)
)");
  EXPECT_EQ(pass.parameters, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(pass.rule.arguments,
            (std::vector<Value>{Value::node(1), Value::node(0), Value::string("route"), Value::integer(3)}));
  EXPECT_EQ(pass.function, "pass_dir._shared_kernels.dispatch_wrapper");
  EXPECT_EQ(pass.rule.wrapper, "dispatch_wrapper");
}

// As the public tracer does: signatures that Python shows are written out by position, others stay as they
// are.
TEST(PassReader, FunctionsAreTraced) {
  const ReadPass pass = read(with_tail(R"(
def pattern(x, y):
    n = torch.nn.functional.layer_norm(x, (8,), eps=1e-06)
    d = torch.nn.functional.dropout(n, training=False)
    a, b = d.chunk(2, dim=-1)
    g = torch.nn.functional.gelu(a, approximate="tanh")
    y += 1 - g
    return (y[:, None] * b,)
)"));
  EXPECT_EQ(texts(pass), "");
  ASSERT_TRUE(pass.readable);
  EXPECT_EQ(pass.form, ReadPass::Form::kTraced);
  EXPECT_EQ(print(pass.pattern), R"(%x = placeholder
%y = placeholder
%layer_norm = call_function torch.nn.functional.layer_norm(%x, (8,), None, None, 1e-06)
%dropout = call_function torch.nn.functional.dropout(%layer_norm, 0.5, False, False)
%chunk = call_method chunk(%dropout, 2, dim=-1)
%getitem = call_function operator.getitem(%chunk, 0)
%getitem_1 = call_function operator.getitem(%chunk, 1)
%gelu = call_function torch.nn.functional.gelu(%getitem, approximate='tanh')
%sub = call_function operator.sub(1, %gelu)
%add = call_function operator.add(%y, %sub)
%getitem_2 = call_function operator.getitem(%add, (slice(None, None, None), None))
%mul = call_function operator.mul(%getitem_2, %getitem_1)
output ((%mul,))
)");
}

TEST(PassReader, WhatIsNotInterpretedIsSaidWithItsPlace) {
  const ReadPass pass = read(with_tail(R"(
def pattern(x, y):
    while True:
        return x + y
)"));
  EXPECT_FALSE(pass.readable);
  ASSERT_EQ(pass.findings.size(), 1u);
  EXPECT_EQ(pass.findings[0].code, "check.not_interpreted");
  EXPECT_EQ(pass.findings[0].severity, Severity::kWarning);
  EXPECT_EQ(pass.findings[0].span.line, 6);
}

TEST(PassReader, ControlFlowOnValuesIsNotInterpreted) {
  EXPECT_FALSE(
      read(with_tail("\ndef pattern(x, y):\n    if x.sum() > 0:\n        return x + y\n    return x - y\n"))
          .readable);
  EXPECT_FALSE(read(with_tail("\ndef pattern(x, y):\n    return x + y + torch.rand(2)\n")).readable);
}

TEST(PassReader, HelpersAndConstantsOfTheFileAreFollowed) {
  const ReadPass pass = read(with_tail(R"(
EPS = 1e-6
def norm(v, eps):
    return v / (v.norm() + eps)
def pattern(x, y):
    return norm(x, EPS) + y
)"));
  EXPECT_EQ(texts(pass), "");
  ASSERT_TRUE(pass.readable);
  EXPECT_EQ(pass.pattern.size(), 7u);
}

}  // namespace
}  // namespace passnet::check
