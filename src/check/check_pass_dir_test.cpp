#include <gtest/gtest.h>

#include "check/check.h"

namespace passnet::check {
namespace {

// A pass_dir of two passes on one shared wrapper, and variants that differ in literals and in what fits.
std::map<std::string, std::string> pass_dir() {
  return {{"sorted_output_pass_rule_names.json", R"(["Large", "Small"])"},
          {"Large.py", R"(import inspect
import operator
import torch
from pass_dir._shared_kernels import dispatch_wrapper

def pattern():
    g = torch.fx.Graph()
    x, y, n = (g.placeholder(name) for name in ("x", "y", "n"))
    s = g.call_function(operator.add, (x, y))
    g.output(g.call_method("view", (s, n, 4)))
    m = torch.fx.GraphModule({}, g, "Large")
    m.__signature__ = inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("x", "y", "n")])
    return m

pattern = pattern()

def replacement_args(x, y, n):
    return (x, y, n, "large")

def replacement_func():
    return dispatch_wrapper
)"},
          {"Small.py", R"(import torch
from pass_dir._shared_kernels import dispatch_wrapper

def pattern(x):
    return torch.relu(x)

def replacement_args(x):
    return (x, "small")

def replacement_func():
    return dispatch_wrapper
)"},
          {"_shared_kernels.py", R"(import torch

@torch.fx.wrap
def dispatch_wrapper(*args):
    return torch.empty_like(args[0])
)"}};
}

Variant variant(std::string name, std::string_view text) {
  Variant out;
  out.name = std::move(name);
  Result<Graph> graph = read_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  out.graphs.push_back(std::move(graph).value());
  return out;
}

std::string body(int rows, std::string_view last) {
  const std::string n = std::to_string(rows);
  return "%a : f32[" + n + ",4]@0 = placeholder\n%b : f32[" + n + ",4]@1 = placeholder\n" + "%s : f32[" + n +
         ",4]@2 = call_function operator.add(%a, %b)\n" + "%v : f32[" + n + ",4]@2 = call_method view(%s, " +
         n + ", 4)\n" + "%r : f32[" + n + ",4]@3 = call_function " + std::string(last) +
         "(%v)\noutput ((%r,))\n";
}

TEST(CheckPassDir, AppliesThePassesInOrder) {
  std::vector<Variant> variants;
  variants.push_back(variant("float32/0", body(8, "torch.relu")));
  variants.push_back(variant("float32/1", body(16, "torch.relu")));
  const CheckReport report = check_pass_dir(pass_dir(), variants);
  EXPECT_TRUE(report.green()) << (report.findings.empty() ? "" : render_text(report.findings[0]));
  EXPECT_EQ(report.order, (std::vector<std::string>{"Large", "Small"}));
  ASSERT_EQ(report.variants.size(), 2u);
  const GraphReport& graph = report.variants[1].graphs[0];
  ASSERT_EQ(graph.passes.size(), 2u);
  EXPECT_EQ(graph.passes[0].matches[0].bindings, (std::vector<std::string>{"a", "b", "16"}));
  EXPECT_EQ(graph.passes[0].matches[0].nodes, (std::vector<std::string>{"s", "v"}));
  EXPECT_EQ(graph.passes[1].matches[0].bindings, (std::vector<std::string>{"dispatch_wrapper"}));
  EXPECT_EQ(print(graph.rewritten), R"(%a : f32[16,4]{4,1}@0 = placeholder
%b : f32[16,4]{4,1}@1 = placeholder
%dispatch_wrapper : f32[16,4]{4,1}@2 = call_function dispatch_wrapper(%a, %b, 16, 'large')
%dispatch_wrapper_1 : f32[16,4]{4,1}@3 = call_function dispatch_wrapper(%dispatch_wrapper, 'small')
output ((%dispatch_wrapper_1,))
)");
  EXPECT_EQ(report.subject("structure").proof, Proof::kGreen);
  EXPECT_EQ(report.subject("source").by, "native");
  EXPECT_EQ(report.subject("numerics").proof, Proof::kNotProven);
}

TEST(CheckPassDir, SaysWhichVariantsFailAndWhatWasNearest) {
  std::vector<Variant> variants;
  variants.push_back(variant("float32/0", body(8, "torch.relu")));
  variants.push_back(variant(
      "float32/1", "%a : f32[8]@0 = placeholder\n%r : f32[8]@1 = call_method relu(%a)\noutput ((%r,))\n"));
  const CheckReport report = check_pass_dir(pass_dir(), variants);
  EXPECT_FALSE(report.green());
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].code, "match.variant");
  EXPECT_EQ(report.findings[0].fields.at("variants"), "float32/1");
  const Json& misses = report.variants[1].graphs[0].passes[1].near_misses;
  ASSERT_EQ(misses.size(), 1u);
  EXPECT_EQ(misses[0]["message"],
            "the graph has no node call_function torch.relu, where the pattern ends (relu); it has "
            "call_method relu (r)");
  EXPECT_EQ(report.subject("structure").proof, Proof::kRed);
}

// A rejected file is not loaded: its matches do not count.
TEST(CheckPassDir, AFileThatTheSourceRulesRejectDoesNotMatch) {
  std::map<std::string, std::string> files = pass_dir();
  files["Large.py"] += "F = torch.nn.functional\n";
  std::vector<Variant> variants;
  variants.push_back(variant("float32/0", body(8, "torch.relu")));
  const CheckReport report = check_pass_dir(files, variants);
  EXPECT_EQ(report.variants[0].graphs[0].passes.size(), 1u);
  EXPECT_EQ(report.subject("source").proof, Proof::kRed);
  EXPECT_EQ(report.subject("structure").proof, Proof::kRed);
}

TEST(CheckPassDir, WhatIsNotInterpretedIsNotProven) {
  std::map<std::string, std::string> files = pass_dir();
  files["Small.py"] = R"(import torch
from pass_dir._shared_kernels import dispatch_wrapper

def pattern(x):
    with torch.no_grad():
        return torch.relu(x)

def replacement_args(x):
    return (x, "small")

def replacement_func():
    return dispatch_wrapper
)";
  std::vector<Variant> variants;
  variants.push_back(variant("float32/0", body(8, "torch.relu")));
  const CheckReport report = check_pass_dir(files, variants);
  EXPECT_EQ(report.subject("structure").proof, Proof::kNotProven);
  EXPECT_EQ(report.subject("structure").by, "");
}

TEST(CheckPassDir, TheDocumentHasEverySubject) {
  std::vector<Variant> variants;
  variants.push_back(variant("float32/0", body(8, "torch.relu")));
  const Json json = to_json(check_pass_dir(pass_dir(), variants));
  EXPECT_EQ(json["schema"], "passnet.check/1");
  EXPECT_EQ(json["status"], "green");
  EXPECT_EQ(json["subjects"].dump(),
            R"j({"structure":{"proof":"green","by":"native"},"source":{"proof":"green","by":"native"},)j"
            R"j("poison":{"proof":"not_proven","by":null},"numerics":{"proof":"not_proven","by":null},)j"
            R"j("speed":{"proof":"not_proven","by":null}})j");
  EXPECT_EQ(json["passes"][0]["arguments"].dump(), R"(["x","y","n","'large'"])");
}

}  // namespace
}  // namespace passnet::check
