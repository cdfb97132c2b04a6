#include "check/public_rules.h"

#include <gtest/gtest.h>

#include <memory>

namespace passnet::check {
namespace {

std::vector<std::string> messages(std::string_view text) {
  const auto tree = pysrc::SyntaxTree::parse(std::make_shared<SourceBuffer>("P.py", std::string(text)));
  EXPECT_TRUE(tree.ok()) << tree.error().message;
  std::vector<std::string> out;
  for (const Diagnostic& d : public_violations(*tree)) out.push_back(d.message);
  return out;
}

using Strings = std::vector<std::string>;

TEST(PublicRules, ImportsOfBlockedModulesAnywhere) {
  EXPECT_EQ(messages("import torch, triton\nimport torch.nn\nimport torch.ops.aten as a\nimport torch.nnx\n"),
            (Strings{"Line 2: blocked import 'torch.nn'", "Line 3: blocked import 'torch.ops.aten'"}));
  EXPECT_EQ(messages("def pattern(x):\n    import torch.nn.functional as F\n    return F.relu(x)\n"),
            Strings{"Line 2: blocked import 'torch.nn.functional'"});
}

TEST(PublicRules, FromImportsAreJudgedByTheModuleAlone) {
  EXPECT_EQ(
      messages(
          "from torch import nn\nfrom torch.nn import functional\nfrom torch.autograd.function import *\n"),
      (Strings{"Line 2: blocked from-import 'from torch.nn import ...'",
               "Line 3: blocked from-import 'from torch.autograd.function import ...'"}));
  EXPECT_EQ(messages("from . import nn\nfrom .x import y\n"), Strings{});
}

TEST(PublicRules, PlainAssignmentsOfBlockedChains) {
  EXPECT_EQ(
      messages("import torch\nF = torch.nn.functional\ndef pattern(x):\n    f = (torch.nn.functional.relu)\n"
               "    return f(x)\n"),
      (Strings{"Line 2: blocked submodule alias 'torch.nn.functional'",
               "Line 4: blocked submodule alias 'torch.nn.functional.relu'"}));
  // Aliases of torch, annotations, walrus and tuples are not seen.
  EXPECT_EQ(
      messages(
          "import torch as t\nF = t.nn\nG: object = torch.nn\n(H := torch.nn)\na, b = torch.nn, torch.ops\n"),
      Strings{});
  EXPECT_EQ(messages("a = b = torch.ops\n"), Strings{"Line 1: blocked submodule alias 'torch.ops'"});
}

TEST(PublicRules, CallsAreResolvedOneLevel) {
  EXPECT_EQ(
      messages("import torch as t\nfrom torch import add as plus\nmm = torch.matmul\ng = mm\ndef run(x):\n"
               "    t.relu(x)\n    plus(x, x)\n    mm(x, x)\n    g(x, x)\n    t.empty(1)\n    "
               "torch.empty_like(x)\n"),
      (Strings{"Line 6: blocked call 't.relu' (resolves to 'torch.relu')",
               "Line 7: blocked call 'plus' (resolves to 'torch.add')",
               "Line 8: blocked call 'mm' (resolves to 'torch.matmul')"}));
}

TEST(PublicRules, TheNamePrefixNeedsNoDot) {
  EXPECT_EQ(messages("def torch_helper(): pass\ntorch_helper()\nimport torchvision\ntorchvision.ops.nms()\n"),
            (Strings{"Line 2: blocked call 'torch_helper' (resolves to 'torch_helper')",
                     "Line 4: blocked call 'torchvision.ops.nms' (resolves to 'torchvision.ops.nms')"}));
}

TEST(PublicRules, AllowedCallsAreNineAndExact) {
  EXPECT_EQ(
      messages("torch.empty(1)\ntorch.empty_like(x)\ntorch.zeros(1)\ntorch.zeros_like(x)\ntorch.ones(1)\n"
               "torch.ones_like(x)\ntorch.full((1,), 0)\ntorch.full_like(x, 0)\ntorch.as_tensor(1)\n"),
      Strings{});
  EXPECT_EQ(
      messages(
          "torch.empty_strided((1,), (1,))\ntorch.tensor(1)\ntorch.device('cuda')\ntorch.fx.wrap('f')\n"),
      (Strings{"Line 1: blocked call 'torch.empty_strided' (resolves to 'torch.empty_strided')",
               "Line 2: blocked call 'torch.tensor' (resolves to 'torch.tensor')",
               "Line 3: blocked call 'torch.device' (resolves to 'torch.device')",
               "Line 4: blocked call 'torch.fx.wrap' (resolves to 'torch.fx.wrap')"}));
}

TEST(PublicRules, OnlyPlainTopLevelPatternIsExempt) {
  EXPECT_EQ(messages("@torch.jit.ignore(x)\ndef pattern(x):\n    return torch.relu(x)\n"
                     "def replacement_args(x):\n    return (torch.relu(x),)\n"),
            Strings{});
  EXPECT_EQ(messages("async def pattern(x):\n    return torch.relu(x)\n"),
            Strings{"Line 2: blocked call 'torch.relu' (resolves to 'torch.relu')"});
  EXPECT_EQ(
      messages("class A:\n    def pattern(x):\n        return torch.relu(x)\nif True:\n    def pattern(x):\n"
               "        return torch.exp(x)\n"),
      (Strings{"Line 3: blocked call 'torch.relu' (resolves to 'torch.relu')",
               "Line 6: blocked call 'torch.exp' (resolves to 'torch.exp')"}));
}

TEST(PublicRules, DecoratorsLambdasDefaultsAndFormattedStringsAreExamined) {
  EXPECT_EQ(messages("@torch.fx.wrap\ndef f(x): pass\n"), Strings{});
  EXPECT_EQ(messages("@torch.jit.script('x')\ndef f(x=torch.add(1, 1)):\n    return lambda: f'{torch.mul(x, "
                     "x):>{torch.sub(1, 1)}}'\n"),
            (Strings{"Line 1: blocked call 'torch.jit.script' (resolves to 'torch.jit.script')",
                     "Line 2: blocked call 'torch.add' (resolves to 'torch.add')",
                     "Line 3: blocked call 'torch.mul' (resolves to 'torch.mul')",
                     "Line 3: blocked call 'torch.sub' (resolves to 'torch.sub')"}));
}

TEST(PublicRules, WhatItDoesNotSee) {
  EXPECT_EQ(messages("import torch\ndef run(x):\n    kernel[(1,)](x)\n    getattr(torch, 'relu')(x)\n    "
                     "(lambda: torch)().add(x)\n"
                     "    x.contiguous()\n    x + x\n    f = torch.add\n    return f\n"),
            Strings{});
}

// Breadth first, as Python's own walk: shallow calls come before deep ones above them.
TEST(PublicRules, OrderIsBreadthFirst) {
  EXPECT_EQ(messages("def f():\n    if True:\n        torch.a()\n    torch.b(torch.c())\ntorch.d()\n"),
            (Strings{"Line 5: blocked call 'torch.d' (resolves to 'torch.d')",
                     "Line 4: blocked call 'torch.b' (resolves to 'torch.b')",
                     "Line 3: blocked call 'torch.a' (resolves to 'torch.a')",
                     "Line 4: blocked call 'torch.c' (resolves to 'torch.c')"}));
}

}  // namespace
}  // namespace passnet::check
