#include "capture/capture.h"

#include <gtest/gtest.h>

#include <memory>
#include <regex>
#include <string>

#include "base/json.h"
#include "capture/folding.h"

namespace passnet {
namespace {

InputMeta input(std::string name, std::vector<int64_t> shape, DType dtype = DType::kFloat32) {
  InputMeta meta;
  meta.name = std::move(name);
  meta.tensor.stride = contiguous_strides(shape);
  meta.tensor.shape = std::move(shape);
  meta.tensor.dtype = dtype;
  return meta;
}

std::string indented(const std::string& body) {
  std::string out = "        ";
  for (const char c : body) {
    out += c;
    if (c == '\n') out += "        ";
  }
  return out;
}

std::string model(const std::string& parameters, const std::string& body) {
  return "import torch\nfrom torch import device, inf\n\nclass GraphModule(torch.nn.Module):\n    def "
         "forward(self, " +
         parameters + "):\n" + indented(body) + "\n";
}

// The graphs' text without metadata, or the error's code.
std::string text_of(const Result<Captured>& captured) {
  if (!captured.ok()) return captured.error().code + ": " + captured.error().message;
  std::string out;
  for (const Graph& graph : captured->graphs) {
    for (const Diagnostic& d : verify(graph)) ADD_FAILURE() << d.message;
    if (!out.empty()) out += "--\n";
    out += std::regex_replace(print(graph), std::regex(" : [^=]*( = )"), "$1");
  }
  return out;
}

// forward(self, a, b) with a, b of shape [2, 8, 4].
std::string traced(const std::string& body) {
  const std::vector<InputMeta> inputs = {input("a", {2, 8, 4}), input("b", {2, 8, 4})};
  const Result<Captured> captured = capture_model(SourceBuffer("model.py", model("a, b", body)), &inputs);
  if (captured.ok()) {
    for (const Diagnostic& d : captured->findings)
      ADD_FAILURE() << body << ": " << d.code << ' ' << d.message;
  }
  return text_of(captured);
}

std::string traced_without_shapes(const std::string& body) {
  return text_of(capture_model(SourceBuffer("model.py", model("a, b", body)), nullptr));
}

constexpr const char* kA = "%a = placeholder\n";
constexpr const char* kB = "%b = placeholder\n";

TEST(Capture, AliasesAndFrees) {
  EXPECT_EQ(traced("t = a;  a = None\nu = t\nt = None\nc = u + b;  u = b = None\nreturn (c,)"),
            std::string(kA) + kB + "%c = call_function operator.add(%a, %b)\noutput ((%c,))\n");
  EXPECT_EQ(traced("return (a * 2,)"),
            std::string(kA) + "%mul = call_function operator.mul(%a, 2)\noutput ((%mul,))\n");
}

TEST(Capture, DeadCode) {
  EXPECT_EQ(traced("c = a * 2\nreturn (b + 1,)"),
            std::string(kA) + kB +
                "%c = call_function operator.mul(%a, 2)\n"
                "%add = call_function operator.add(%b, 1)\noutput ((%add,))\n");
  EXPECT_EQ(traced("c = a[0]\nd = c[1]\nreturn (b + 1,)"),
            std::string(kB) + "%add = call_function operator.add(%b, 1)\noutput ((%add,))\n");
}

TEST(Capture, GradMode) {
  EXPECT_EQ(
      traced("_ = torch._C._set_grad_enabled(False)\nc = a + b\n_ = torch._C._set_grad_enabled(True)\nreturn "
             "(c,)"),
      std::string(kA) + kB +
          "%_ = call_function torch._C._set_grad_enabled(False)\n"
          "%c = call_function operator.add(%a, %b)\n%__1 = call_function torch._C._set_grad_enabled(True)\n"
          "output ((%c,))\n");
  EXPECT_EQ(
      traced("_ = torch._C._set_grad_enabled(False)\n_ = torch._C._set_grad_enabled(True)\nreturn (a + b,)"),
      std::string(kA) + kB + "%add = call_function operator.add(%a, %b)\noutput ((%add,))\n");
}

TEST(Capture, Operators) {
  EXPECT_EQ(
      traced("c = -a\nc += 1\nn = 3\nn += b\nd = c\nd *= b\nreturn (c, d, n)"),
      std::string(kA) + kB +
          "%c = call_function operator.neg(%a)\n%c_1 = call_function operator.iadd(%c, 1) writes [2]\n"
          "%n = call_function operator.add(3, %b)\n%d = call_function operator.imul(%c_1, %b) writes [2]\n"
          "output ((%c_1, %d, %n))\n");
  EXPECT_EQ(traced("return (~(a > 0), 1 - a, a ** -0.5, a == 0)"),
            std::string(kA) +
                "%gt = call_function operator.gt(%a, 0)\n%invert = call_function operator.invert(%gt)\n"
                "%sub = call_function operator.sub(1, %a)\n%pow = call_function operator.pow(%a, -0.5)\n"
                "%eq = call_function operator.eq(%a, 0)\noutput ((%invert, %sub, %pow, %eq))\n");
}

TEST(Capture, Subscripts) {
  EXPECT_EQ(
      traced("a[:, slice(1, 3, None)] = b[:, 0:2]\nsetitem = a\na[..., 0] = 0.5\nreturn ()"),
      std::string(kA) + kB +
          "%getitem = call_function operator.getitem(%b, (slice(None, None, None), slice(0, 2, None)))\n"
          "%setitem = call_function operator.setitem(%a, (slice(None, None, None), slice(1, 3, None)), "
          "%getitem) writes [0]\n"
          "%setitem_1 = call_function operator.setitem(%a, (..., 0), 0.5) writes [0]\noutput (())\n");
  EXPECT_EQ(traced("a[0] += 1\nreturn (a,)"),
            std::string(kA) +
                "%getitem = call_function operator.getitem(%a, 0)\n"
                "%iadd = call_function operator.iadd(%getitem, 1) writes [0]\n"
                "%setitem = call_function operator.setitem(%a, 0, %iadd) writes [0]\noutput (())\n");
}

TEST(Capture, Tuples) {
  const std::string expected =
      std::string(kA) + kB +
      "%ch = call_method chunk(%a, 2, 1)\n%getitem = call_function operator.getitem(%ch, 1)\n"
      "%t = call_function operator.mul(%b, 2)\n%u = call_function operator.mul(%getitem, 3)\n"
      "output ((%u, %t))\n";
  EXPECT_EQ(traced("ch = a.chunk(2, 1)\nt = b * 2\nc = ch[-1]\nd = ch[0]\nu = c * 3\nreturn (u, t)"),
            std::regex_replace(expected, std::regex("getitem(?=[ )*,]| =)"), "getitem_1"));
  // Without shapes the items come into being when they are read, but stand in the same place.
  EXPECT_EQ(
      traced_without_shapes("ch = a.chunk(2, 1)\nt = b * 2\nc = ch[1]\nd = ch[0]\nu = c * 3\nreturn (u, t)"),
      std::regex_replace(expected, std::regex("getitem(?=[ )*,]| =)"), "c"));
}

TEST(Capture, TuplesPassedOnAndUnpacked) {
  EXPECT_EQ(
      traced("c, d = a.split(4, dim=1)\nreturn (torch.cat((d, c), 1), torch.cat(b.chunk(2, 1), 1))"),
      std::string(kA) + kB +
          "%split = call_method split(%a, 4, dim=1)\n%getitem = call_function operator.getitem(%split, 0)\n"
          "%getitem_1 = call_function operator.getitem(%split, 1)\n"
          "%cat = call_function torch.cat((%getitem_1, %getitem), 1)\n%chunk = call_method chunk(%b, 2, 1)\n"
          "%getitem_2 = call_function operator.getitem(%chunk, 0)\n"
          "%getitem_3 = call_function operator.getitem(%chunk, 1)\n"
          "%cat_1 = call_function torch.cat((%getitem_2, %getitem_3), 1)\noutput ((%cat, %cat_1))\n");
  EXPECT_EQ(traced("p, q = a\nreturn (p, q)"),
            std::string(kA) +
                "%getitem = call_function operator.getitem(%a, 0)\n"
                "%getitem_1 = call_function operator.getitem(%a, 1)\noutput ((%getitem, %getitem_1))\n");
  EXPECT_EQ(traced("p, q, r = a\nreturn p"), "capture.unpack: 2 values are unpacked into 3 names");
}

TEST(Capture, Numbers) {
  EXPECT_EQ(
      traced("s = a.shape\nn = a.size(0)\nm = s[1] * 2\nreturn (a.view(n, m // 2, -1), b.reshape(a.size()))"),
      std::string(kA) + kB +
          "%view = call_method view(%a, 2, 8, -1)\n"
          "%reshape = call_method reshape(%b, (2, 8, 4))\noutput ((%view, %reshape))\n");
  EXPECT_EQ(traced("x = a if a.dim() > 2 else b\nfor k in range(2):\n    x = x + k\nreturn (x * -inf,)"),
            std::string(kA) +
                "%x = call_function operator.add(%a, 0)\n%x_1 = call_function operator.add(%x, 1)\n"
                "%mul = call_function operator.mul(%x_1, float('-inf'))\noutput ((%mul,))\n");
  EXPECT_EQ(traced("return (torch.sym_sum([1, 2, a.shape[2]]) * a,)"),
            std::string(kA) + "%mul = call_function operator.mul(7, %a)\noutput ((%mul,))\n");
}

TEST(Capture, MethodsAndAttributes) {
  EXPECT_EQ(traced("return (a.__eq__(b), a.__getitem__(0).T)"),
            std::string(kA) + kB +
                "%__eq__ = call_method __eq__(%a, %b)\n%getitem = call_function operator.getitem(%a, 0)\n"
                "%getattr = call_function builtins.getattr(%getitem, 'T')\noutput ((%__eq__, %getattr))\n");
}

TEST(Capture, FunctionsTracedInto) {
  EXPECT_EQ(
      traced("return (torch.nn.functional.pad(a, (1, 1)), torch.nn.functional.pad(a, [1, 1], value=0.5))"),
      std::string(kA) +
          "%pad = call_function torch._C._nn.pad(%a, (1, 1), 'constant', None)\n"
          "%pad_1 = call_function torch._C._nn.pad(%a, [1, 1], 'constant', 0.5)\noutput ((%pad, %pad_1))\n");
}

TEST(Capture, SpellingsOfOneFunction) {
  EXPECT_EQ(traced("return (torch._C._nn.gelu(a),)"), traced("return (torch.nn.functional.gelu(a),)"));
  const std::string body = "return (F.gelu(a),)";
  EXPECT_EQ(
      text_of(capture_model(
          SourceBuffer("model.py", "import torch.nn.functional as F\n" + model("a, b", body)), nullptr)),
      traced_without_shapes("return (torch.nn.functional.gelu(a),)"));
}

TEST(Capture, Outputs) {
  const std::string nodes = std::string(kA) + kB + "%c = call_function operator.add(%a, %b)\n";
  EXPECT_EQ(traced("c = a + b\nreturn (c, c, a, [c], {'k': (b, c)}, 3, None)"), nodes + "output ((%c,))\n");
  EXPECT_EQ(traced("c = a + b\nreturn a"), nodes + "output ((%a,))\n");
  EXPECT_EQ(traced("c = a + b\nreturn (a,)"), nodes + "output (())\n");
  EXPECT_EQ(traced("c = a + b\nreturn c"), nodes + "output ((%c,))\n");
}

TEST(Capture, NothingToCompute) {
  EXPECT_EQ(traced("return (a, b)"), "");
  EXPECT_EQ(traced("c = a[0]\nreturn ()"), "");
}

// forward(self, a, b, n) with a, b of shape [2, 8, 4] and a single integer of value 3; tests/differential/dynamo_cases.py
// compares many more forms with what dynamo was recorded to do.
Result<Captured> broken(const std::string& body) {
  static std::vector<InputMeta> inputs = {input("a", {2, 8, 4}), input("b", {2, 8, 4}),
                                          input("n", {}, DType::kInt64), input("k", {4}, DType::kInt64)};
  inputs[2].item = Value::integer(3);
  inputs[3].integers = std::make_shared<const std::vector<double>>(std::vector<double>{1, 0, 2, 0});
  return capture_model(SourceBuffer("model.py", model("a, b, n, k", body)), &inputs);
}

TEST(Capture, GraphBreaks) {
  EXPECT_EQ(text_of(broken("k = n.item()\nreturn (a * k,)")),
            std::string(kA) + "%mul = call_function operator.mul(%a, 3)\noutput ((%mul,))\n");
  const Result<Captured> two =
      broken("c = a + b\nd = c * 2\nc = None\ni = n.item()\ne = d * i\nreturn (e, b + 1)");
  EXPECT_EQ(text_of(two), std::string(kA) + kB +
                              "%c = call_function operator.add(%a, %b)\n"
                              "%d = call_function operator.mul(%c, 2)\noutput ((%d,))\n--\n" +
                              kB +
                              "%d = placeholder\n%e = call_function operator.mul(%d, 3)\n"
                              "%add = call_function operator.add(%b, 1)\noutput ((%e, %add))\n");
  ASSERT_EQ(two->origins.size(), 2u);
  EXPECT_TRUE(two->origins[0].empty());
  ASSERT_EQ(two->origins[1].size(), 1u);  // b is a parameter
  EXPECT_EQ(two->origins[1].at("d").graph, 0);
  EXPECT_EQ(two->origins[1].at("d").node, "d");
  for (const Json& node : graph_json(*two, 1)["nodes"]) {
    EXPECT_EQ(node.contains("origin"), node["name"] == "d") << node.dump();
  }
}

TEST(Capture, ValuesBetweenGraphs) {
  // The mask's elements are known, so the shape behind it is.
  const Result<Captured> masked = broken("m = k > 0\nj = k[m]\nreturn (j + 1,)");
  ASSERT_TRUE(masked.ok()) << masked.error().message;
  ASSERT_EQ(masked->graphs.size(), 2u);
  EXPECT_EQ(masked->graphs[1].nodes()[0]->meta.tensor.shape, (std::vector<int64_t>{2}));
  EXPECT_EQ(masked->origins[1].begin()->second.graph, -1);
  EXPECT_EQ(text_of(broken("return (a[a > 0],)")).substr(0, 19), "capture.graph_break");
  EXPECT_EQ(text_of(broken("if a.sum().long() > 0:\n    b = b + 1\nreturn (b,)")).substr(0, 19),
            "capture.graph_break");
  EXPECT_EQ(text_of(broken("for i in range(2):\n    b = b * n.item()\nreturn (b,)")), "");
  // A float's value only stands in the graph: it is complete but for that.
  const Result<Captured> drawn = broken("return (b * a.sum().item(),)");
  ASSERT_TRUE(drawn.ok());
  ASSERT_EQ(drawn->findings.size(), 1u);
  EXPECT_EQ(drawn->findings[0].code, "capture.drawn_value");
  EXPECT_EQ(drawn->graphs.size(), 2u);
}

TEST(Capture, RestThatRunsUncompiled) {
  // A slice with a tensor cannot be carried over a break; a list times a tensor ends all at the statement before.
  EXPECT_EQ(text_of(broken("c = a * 2\nd = c[slice(n, None)]\nreturn (d + 1,)")),
            std::string(kA) + "%c = call_function operator.mul(%a, 2)\noutput ((%c,))\n");
  EXPECT_EQ(text_of(broken("c = a * 2\nd = c + 1\ne = [None] * n\nreturn (d + 1,)")),
            std::string(kA) +
                "%c = call_function operator.mul(%a, 2)\n"
                "%d = call_function operator.add(%c, 1)\noutput ((%d,))\n");
  EXPECT_EQ(text_of(broken("c = a * 2\ne = [None] * n\nreturn (c + 1,)")), "");
}

TEST(Capture, DevicesMoveAsTheEvaluatorMovesThem) {
  const std::string body =
      "z = torch.zeros((2, 4), device=device(type='cpu'))\nreturn (z, a.to(device(type='cuda', index=0)))";
  const std::vector<InputMeta> inputs = {input("a", {2, 8, 4}), input("b", {2, 8, 4})};
  CaptureOptions cpu;
  cpu.device = "cpu";
  EXPECT_EQ(text_of(capture_model(SourceBuffer("model.py", model("a, b", body)), &inputs, cpu)),
            std::string(kA) +
                "%z = call_function torch.zeros((2, 4), device=torch.device('cpu'))\n"
                "%to = call_method to(%a, torch.device('cpu'))\noutput ((%z, %to))\n");
  EXPECT_EQ(traced(body), std::string(kA) +
                              "%z = call_function torch.zeros((2, 4), device=torch.device('cuda'))\n"
                              "%to = call_method to(%a, torch.device('cuda:0'))\noutput ((%z, %to))\n");
}

TEST(Capture, SumsOfSizesThatAreInputs) {
  const std::vector<InputMeta> inputs = {input("a", {}, DType::kInt64), input("b", {})};
  const Result<Captured> sizes = capture_model(
      SourceBuffer("model.py", model("a, b", "c = torch.sym_sum([1, a // 16])\nreturn (c,)")), &inputs);
  ASSERT_TRUE(sizes.ok());
  EXPECT_TRUE(sizes->findings.empty());
  EXPECT_EQ(sizes->graphs.at(0).find("c")->meta.tensor.dtype, DType::kInt64);
  const Result<Captured> floats = capture_model(
      SourceBuffer("model.py", model("a, b", "c = torch.sym_sum([1, b])\nreturn (c,)")), &inputs);
  ASSERT_TRUE(floats.ok());
  EXPECT_EQ(floats->findings.size(), 1u);
}

TEST(Capture, FactoriesMakeTensorsOfTheCpu) {
  const std::vector<InputMeta> inputs = {input("a", {4}), input("b", {4})};
  const Result<Captured> captured = capture_model(
      SourceBuffer("model.py", model("a, b",
                                     "c = torch.arange(4)\nd = torch.zeros(4, device=device(type='cpu'))\n"
                                     "e = c.to(device(type='cuda', index=0))\nf = torch.zeros_like(a)\n"
                                     "return (c, d, e, f)")),
      &inputs);
  ASSERT_TRUE(captured.ok());
  const Graph& graph = captured->graphs.at(0);
  EXPECT_EQ(graph.find("c")->meta.tensor.device, "cpu");
  EXPECT_EQ(graph.find("d")->meta.tensor.device, "cuda:0");  // moved with the graph
  EXPECT_EQ(graph.find("e")->meta.tensor.device, "cuda:0");
  EXPECT_NE(graph.find("e")->meta.tensor.storage, graph.find("c")->meta.tensor.storage);
  EXPECT_EQ(graph.find("f")->meta.tensor.device, "cuda:0");
}

TEST(Capture, MetadataFollowsTheNodes) {
  const std::vector<InputMeta> inputs = {input("a", {2, 8, 4}), input("b", {4})};
  const Result<Captured> captured = capture_model(
      SourceBuffer("model.py", model("a, b", "c = a.transpose(1, 2)\nd = c + 1\nreturn (c, d)")), &inputs);
  ASSERT_TRUE(captured.ok());
  ASSERT_TRUE(captured->findings.empty()) << captured->findings.front().message;
  const Graph& graph = captured->graphs.at(0);
  const TensorMeta& c = graph.find("c")->meta.tensor;
  EXPECT_EQ(c.shape, (std::vector<int64_t>{2, 4, 8}));
  EXPECT_EQ(c.stride, (std::vector<int64_t>{32, 1, 4}));
  EXPECT_EQ(c.storage, graph.find("a")->meta.tensor.storage);
  EXPECT_NE(graph.find("d")->meta.tensor.storage, c.storage);
  EXPECT_EQ(graph.find("d")->span.line, 7);
}

TEST(Capture, ContradictionsPointAtTheLine) {
  const std::vector<InputMeta> inputs = {input("a", {2, 8, 4}), input("b", {3})};
  const Result<Captured> captured = capture_model(
      SourceBuffer("v/model.py", model("a, b", "c = a * 2\nd = c + b\nreturn (d + 1,)")), &inputs);
  ASSERT_TRUE(captured.ok());
  ASSERT_EQ(captured->findings.size(), 1u);  // what follows from it is not reported again
  EXPECT_EQ(captured->findings[0].file, "v/model.py");
  EXPECT_EQ(captured->findings[0].span.line, 7);
  EXPECT_EQ(captured->graphs.at(0).size(), 6u);
}

TEST(Capture, UnknownFunctionsAreAFindingAndANode) {
  const std::vector<InputMeta> inputs = {input("a", {2}), input("b", {2})};
  const Result<Captured> captured =
      capture_model(SourceBuffer("model.py", model("a, b", "return (torch.no_such_thing(a) + b,)")), &inputs);
  ASSERT_TRUE(captured.ok());
  ASSERT_EQ(captured->findings.size(), 1u);
  EXPECT_EQ(captured->findings[0].span.line, 6);
  EXPECT_NE(captured->graphs.at(0).find("no_such_thing"), nullptr);
}

TEST(Capture, ParametersWithoutMetadata) {
  const std::vector<InputMeta> inputs = {input("a", {2})};
  const Result<Captured> captured =
      capture_model(SourceBuffer("model.py", model("a, b", "return (a + b,)")), &inputs);
  ASSERT_TRUE(captured.ok());
  ASSERT_EQ(captured->findings.size(), 1u);
  EXPECT_EQ(captured->findings[0].code, "capture.input_without_meta");
  EXPECT_EQ(captured->findings[0].message, "parameter 'b' has no entry in weight_meta.py");
}

TEST(Capture, RefusalsNameTheConstruct) {
  EXPECT_EQ(traced("c = [x for x in a]\nreturn (c,)"),
            "capture.unsupported: a list comprehension is not interpreted here");
  EXPECT_EQ(traced("while True:\n    pass"),
            "capture.unsupported: a while statement is not interpreted here");
  EXPECT_EQ(traced("return (self.w * a,)"), "capture.self_attribute: forward reads self.w");
  EXPECT_EQ(traced("return (q,)"), "capture.undefined_name: the name 'q' is not defined");
  EXPECT_EQ(traced("c = a;  a = None\nreturn (a + c,)"), "capture.value: '+' between a tensor and None");
  EXPECT_EQ(traced("return (numpy_like(a),)"),
            "capture.undefined_name: the name 'numpy_like' is not defined");
  EXPECT_EQ(text_of(capture_model(SourceBuffer("m.py", "x = 1\n"), nullptr)),
            "capture.no_model: there is no class GraphModule");
}

TEST(Folding, FollowsPython) {
  const auto fold = [](const char* op, Value a, Value b) {
    const Folded f = fold_binary(op, a, b);
    return f.value ? python_text(*f.value) : f.problem;
  };
  EXPECT_EQ(fold("//", Value::integer(-7), Value::integer(2)), "-4");
  EXPECT_EQ(fold("%", Value::integer(-7), Value::integer(2)), "1");
  EXPECT_EQ(fold("%", Value::real(-1.5), Value::integer(1)), "0.5");
  EXPECT_EQ(fold("/", Value::integer(1), Value::integer(2)), "0.5");
  EXPECT_EQ(fold("**", Value::integer(2), Value::integer(-1)), "0.5");
  EXPECT_EQ(fold("**", Value::integer(10), Value::integer(30)), "the integer result does not fit 64 bits");
  EXPECT_EQ(fold("//", Value::integer(1), Value::integer(0)), "division by zero");
  EXPECT_EQ(fold("+", Value::boolean(true), Value::integer(1)), "2");
  EXPECT_EQ(fold("*", Value::tuple({Value::integer(1)}), Value::integer(2)), "(1, 1)");
  const std::string too_long = "the sequence gets too long";
  EXPECT_EQ(fold("*", Value::tuple({Value::integer(1)}), Value::integer(1'000'000)), too_long);
  // What is nested counts: a million million of them were copied until no memory was left.
  const Value thousand = Value::tuple(std::vector<Value>(1000, Value::integer(1)));
  EXPECT_EQ(fold("*", Value::tuple({thousand}), Value::integer(1000)), too_long);
  EXPECT_EQ(fold("+", Value::list({thousand, thousand, thousand}), Value::list({thousand, thousand})),
            too_long);
  EXPECT_EQ(fold("+", Value::string(std::string(40000, 'x')), Value::string(std::string(40000, 'x'))),
            too_long);
  EXPECT_EQ(fold("*", Value::tuple({}), Value::integer(1'000'000'000)), "()");
  const Value seven =
      Value::tuple({Value::integer(0), Value::integer(1), Value::integer(2), Value::integer(3)});
  const auto at = [&](Value start, Value stop, Value step) {
    return python_text(*fold_subscript(seven, Value::slice(start, stop, step)).value);
  };
  EXPECT_EQ(at(Value::integer(-3), Value::none(), Value::integer(2)), "(1, 3)");
  EXPECT_EQ(at(Value::none(), Value::none(), Value::integer(-2)), "(3, 1)");
  EXPECT_EQ(at(Value::integer(9), Value::integer(-9), Value::integer(-1)), "(3, 2, 1, 0)");
}

// Whatever the source becomes, the answer is graphs that verify, or a diagnostic.
TEST(Capture, DamagedModelsNeverCrash) {
  const std::string base =
      model("a, b",
            "t = a\nc = t.view(2, -1, b.shape[0])[..., 1:]\nc += 1.5;  t = None\n"
            "d, e = torch.functional.split(b, [2, 6], dim=1)\nb[:, 0] = d[:, 0] * (3 // 2)\n"
            "f = torch.cat([d, e], dim=1).permute(0, 2, 1)\nreturn (c, f, (d, a))");
  const std::vector<InputMeta> inputs = {input("a", {2, 8, 4}), input("b", {2, 8, 4})};
  unsigned seed = 7;
  const auto next = [&] { return seed = seed * 1664525u + 1013904223u, seed >> 8; };
  const std::string alphabet = "()[]{}:,.=+-*'\\ \nabcdef0123456789None";
  int good = 0, refused = 0;
  for (int round = 0; round < 1500; ++round) {
    std::string text = base;
    for (unsigned n = next() % 3 + 1; n > 0; --n) {
      const std::size_t at = next() % text.size();
      switch (next() % 4) {
        case 0: text.erase(at, next() % 4 + 1); break;
        case 1: text.insert(at, 1, alphabet[next() % alphabet.size()]); break;
        case 2: {
          const std::size_t from = next() % text.size();
          text.insert(at, text.substr(from, next() % 12));
          break;
        }
        default: text[at] = alphabet[next() % alphabet.size()];
      }
    }
    const Result<Captured> captured = capture_model(SourceBuffer("model.py", text), &inputs);
    if (!captured.ok()) {
      EXPECT_FALSE(captured.error().hint.empty()) << captured.error().message;
      ++refused;
      continue;
    }
    ++good;
    for (const Graph& graph : captured->graphs) {
      for (const Diagnostic& d : verify(graph)) ADD_FAILURE() << d.message << '\n' << text;
    }
  }
  EXPECT_GT(good, 50);
  EXPECT_GT(refused, 200);
}

}  // namespace
}  // namespace passnet
