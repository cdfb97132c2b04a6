#include "plan/numerics_gate.h"

#include <gtest/gtest.h>

#include <map>

namespace passnet {
namespace {

// The verdict on a region of every compute node but those named in `outside`.
Verdict judge(std::string_view text, std::vector<std::string_view> inside,
              const std::map<std::string_view, double>& magnitudes = {}) {
  Result<Graph> graph = read_graph(text);
  EXPECT_TRUE(graph.ok());
  for (const auto& [name, value] : magnitudes) graph->node(graph->find(name)->id).magnitude = value;
  const Profile profile = *builtin_profile("h200");
  const GraphFacts facts(*graph, profile);
  Region region;
  for (const std::string_view name : inside) region.nodes.push_back(graph->find(name)->id);
  region.root = region.nodes.back();
  return judge_numerics(facts, region);
}

constexpr std::string_view kConvFp32 =
    "%x : f32[2,8,4,4]@0 = placeholder\n%w : f32[8,8,1,1]@1 = placeholder\n"
    "%c : f32[2,8,4,4]@2 = call_function torch.conv2d(%x, %w, None, (1, 1), (0, 0), (1, 1), 1)\noutput "
    "((%c,))\n";

TEST(NumericsGate, Float32ConvolutionsAreTf32InTheLibrary) {
  EXPECT_TRUE(judge(kConvFp32, {"c"}).refused_for("product.tf32"));
  EXPECT_TRUE(
      judge("%x : f32[2,8,4,4]@0 = placeholder\n%w : f32[8,1,3,3]@1 = placeholder\n"
            "%c : f32[2,8,4,4]@2 = call_function torch.conv2d(%x, %w, None, (1, 1), (1, 1), (1, 1), 8)\n"
            "output ((%c,))\n",
            {"c"})
          .ok());
}

// A 1x1 convolution and what follows it.
std::string pointwise(std::string_view dtype, const std::string& batch, const std::string& channels,
                      const std::string& results, const std::string& side, std::string_view after) {
  const std::string t(dtype), out = t + "[" + batch + "," + results + "," + side + "," + side + "]";
  return "%x : " + t + "[" + batch + "," + channels + "," + side + "," + side +
         "]@0 = placeholder\n%w : " + t + "[" + results + "," + channels +
         ",1,1]@1 = placeholder\n%c : " + out +
         "@2 = call_function torch.conv2d(%x, %w, None, (1, 1), (0, 0), (1, 1), 1)\n%s : " + out +
         "@3 = call_function " + std::string(after) + "(%c)\noutput ((%s,))\n";
}

TEST(NumericsGate, WhatHasTheLibrarysBitsMayBeWorkedOn) {
  EXPECT_TRUE(judge(pointwise("f32", "8", "256", "96", "56", "torch.sigmoid"), {"c", "s"}).ok());
  EXPECT_TRUE(judge(pointwise("f16", "8", "256", "96", "56", "torch.sigmoid"), {"c", "s"}).ok());
  EXPECT_TRUE(judge(pointwise("f16", "8", "2048", "96", "7", "torch.sigmoid"), {"c", "s"})
                  .refused_for("product.order"))
      << "long sums are split";
  EXPECT_TRUE(judge(pointwise("f16", "8", "24", "20", "7", "torch.sigmoid"), {"c", "s"})
                  .refused_for("product.rounding"))
      << "an odd number of positions";
}

TEST(NumericsGate, ShortProductsOfOnePositionPass) {
  EXPECT_TRUE(judge(pointwise("f32", "4", "64", "16", "1", "torch.sigmoid"), {"c", "s"}).ok());
  EXPECT_TRUE(judge(pointwise("f32", "1", "16", "64", "1", "torch.sigmoid"), {"c", "s"}).ok());
  EXPECT_TRUE(judge(pointwise("f16", "4", "16", "64", "1", "torch.sigmoid"), {"c", "s"}).ok());
}

TEST(NumericsGate, LastPlacesMustNotReachAConvolutionInTf32) {
  const auto norm_before = [](std::string_view kernel) {
    const std::string k(kernel);
    return "%x : f32[2,64,16,16]@0 = placeholder\n%w : f32[64,64," + k +
           "]@1 = placeholder\n%n : f32[2,64,16,16]@2 = call_function "
           "torch.nn.functional.layer_norm(%x, (16, 16))\n%r : f32[2,64,16,16]@3 = call_function "
           "torch.relu(%n)\n%c : f32[2,64,16,16]@4 = call_function torch.conv2d(%r, %w, None, (1, 1), (" +
           (k == "1,1" ? "0, 0" : "1, 1") + "), (1, 1), 1)\noutput ((%c,))\n";
  };
  EXPECT_TRUE(judge(norm_before("1,1"), {"n"}).refused_for("reduction.tf32"));
  EXPECT_TRUE(judge(norm_before("3,3"), {"n", "r"}).refused_for("reduction.tf32")) << "it may use tf32";
  EXPECT_TRUE(judge(norm_before("1,1"), {"r"}).ok());
}

TEST(NumericsGate, AProductWithoutAWeightIsJudgedToo) {
  EXPECT_TRUE(
      judge("%x : f16[2,8,4,4]@0 = placeholder\n%w : f16[8,8,1,1]@1 = placeholder\n%b : f16[2,8,4,4]@2 = "
            "placeholder\n"
            "%c : f16[2,8,4,4]@3 = call_function torch.conv2d(%x, %w, None, (1, 1), (0, 0), (1, 1), 1)\n"
            "%m : f16[2,8,4,4]@4 = call_function torch.matmul(%c, %b)\noutput ((%m,))\n",
            {"c", "m"})
          .refused_for("product.rounding"))
      << "the convolution is worked on by the product";
}

std::string linear(int64_t k) {
  const std::string n = std::to_string(k);
  return "%x : f32[4," + n + "]@0 = placeholder\n%w : f32[16," + n +
         "]@1 = placeholder\n"
         "%y : f32[4,16]@2 = call_function torch.nn.functional.linear(%x, %w, None)\noutput ((%y,))\n";
}

TEST(NumericsGate, LongFloat32SumsMayDifferByTheirOrder) {
  EXPECT_TRUE(judge(linear(256), {"y"}).ok());
  EXPECT_TRUE(judge(linear(4096), {"y"}).refused_for("product.order"));
}

TEST(NumericsGate, SmallFactorsAllowLongerSums) {
  EXPECT_TRUE(judge(linear(4096), {"y"}, {{"x", 0.05}, {"w", 0.02}}).ok());
  EXPECT_TRUE(judge(linear(4096), {"y"}, {{"x", 1}, {"w", 0.02}}).ok()) << "2^-24 * 4096 * 0.02 = 4.9e-6";
  EXPECT_TRUE(judge(linear(4096), {"y"}, {{"x", 1.1}, {"w", 0.02}}).refused_for("product.order"));
  EXPECT_TRUE(judge(linear(4096), {"y"}, {{"x", 0.05}}).refused_for("product.order"))
      << "0.5 where it is unknown";
  EXPECT_TRUE(judge(linear(256), {"y"}, {{"x", 1}, {"w", 1}}).refused_for("product.order"));
  // A normalisation scales small results up again, with their errors.
  const auto then = [](int64_t terms) {
    const std::string n = std::to_string(terms);
    return "%x : f32[4," + n + "]@0 = placeholder\n%w : f32[16," + n +
           "]@1 = placeholder\n%y : f32[4,16]@2 = call_function torch.nn.functional.linear(%x, %w, None)\n"
           "%z : f32[4,16]@3 = call_function torch.nn.functional.layer_norm(%y, (16,))\noutput ((%z,))\n";
  };
  EXPECT_TRUE(judge(then(4096), {"y"}, {{"x", 0.05}, {"w", 0.02}}).ok()) << "2^-24 * sqrt(4096) = 3.8e-6";
  EXPECT_TRUE(judge(then(16384), {"y"}, {{"x", 0.01}, {"w", 0.01}}).refused_for("product.order"));
}

std::string attention(const std::string& type, const std::string& keys, const std::string& after) {
  const std::string q = type + "[1,4,32,64]", k = type + "[1,4," + keys + ",64]";
  return "%q : " + q + "@0 = placeholder\n%k : " + k + "@1 = placeholder\n%v : " + k +
         "@2 = placeholder\n%a : " + q +
         "@3 = call_function torch.nn.functional.scaled_dot_product_attention(%q, %k, %v)\n" + after;
}

TEST(NumericsGate, AttentionIsFusedWhereTheLibrarysWayIsKnown) {
  const std::string moved = "%t : f16[1,32,4,64]@3 = call_method transpose(%a, 1, 2)\noutput ((%t,))\n";
  EXPECT_TRUE(judge(attention("f16", "64", moved), {"a", "t"}).ok());
  EXPECT_TRUE(judge(attention("f16", "192", moved), {"a", "t"}).refused_for("product.attention"));
  const std::string worked = "%t : f16[1,4,32,64]@4 = call_function torch.tanh(%a)\noutput ((%t,))\n";
  EXPECT_TRUE(judge(attention("f16", "64", worked), {"a"}).refused_for("product.rounding"));
  EXPECT_TRUE(judge(attention("f32", "192", "output ((%a,))\n"), {"a"}).ok());
  EXPECT_TRUE(judge(attention("f32", "512", "output ((%a,))\n"), {"a"}).refused_for("product.attention"));
}

constexpr std::string_view kHalf =
    "%a : f16[2,4,8]@0 = placeholder\n%b : f16[2,8,4]@1 = placeholder\n"
    "%m : f16[2,4,4]@2 = call_function torch.matmul(%a, %b)\n%v : f16[2,16]@2 = call_method view(%m, 2, "
    "16)\n";

TEST(NumericsGate, SixteenBitProductsMayOnlyBeMovedAfterwards) {
  EXPECT_TRUE(judge(std::string(kHalf) + "output ((%v,))\n", {"m", "v"}).ok());
  const std::string then_rounded =
      std::string(kHalf) + "%e : f16[2,16]@3 = call_function torch.tanh(%v)\noutput ((%e,))\n";
  EXPECT_TRUE(judge(then_rounded, {"m", "v", "e"}).refused_for("product.rounding"));
  EXPECT_TRUE(judge(then_rounded, {"m", "v"}).refused_for("product.rounding"))
      << "what follows outside rounds as well";
}

std::string norm_then(std::string_view dtype, int64_t rows, std::string_view after) {
  const std::string shape = std::string(dtype) + "[" + std::to_string(rows) + ",512]";
  return "%x : " + shape + "@0 = placeholder\n%n : " + shape +
         "@1 = call_function torch.nn.functional.layer_norm(%x, (512,))\n%e : " + shape +
         "@2 = " + std::string(after) + "\noutput ((%e,))\n";
}

TEST(NumericsGate, LargeFloat16NormalisationsMayOnlyBeMovedAfterwards) {
  constexpr std::string_view kTanh = "call_function torch.tanh(%n)";
  EXPECT_TRUE(judge(norm_then("f16", 1024, kTanh), {"n", "e"}).refused_for("reduction.rounding"));
  EXPECT_TRUE(judge(norm_then("f16", 1024, kTanh), {"n"}).refused_for("reduction.rounding"));
  EXPECT_TRUE(judge(norm_then("f16", 16, kTanh), {"n", "e"}).ok()) << "few elements";
  EXPECT_TRUE(judge(norm_then("bf16", 1024, kTanh), {"n", "e"}).ok()) << "a tolerance of two units";
  EXPECT_TRUE(judge(norm_then("f32", 1024, kTanh), {"n", "e"}).ok());
  EXPECT_TRUE(judge(norm_then("f16", 1024, "call_method contiguous(%n)"), {"n", "e"}).ok());
}

TEST(NumericsGate, InferenceBatchNormSumsNothing) {
  EXPECT_TRUE(
      judge(
          "%x : f16[8,64,32,32]@0 = placeholder\n%m : f16[64]@1 = placeholder\n%v : f16[64]@2 = placeholder\n"
          "%n : f16[8,64,32,32]@3 = call_function torch.nn.functional.batch_norm(%x, %m, %v, None, None, "
          "False, 0.1, 1e-05)\n"
          "%e : f16[8,64,32,32]@4 = call_function torch.tanh(%n)\noutput ((%e,))\n",
          {"n", "e"})
          .ok());
}

TEST(NumericsGate, BatchNormOfChannelsLastStaysOutsideInFloat32) {
  const auto norm = [](std::string_view dtype, std::string_view stride) {
    const std::string t(dtype), s(stride);
    return "%x : " + t + "[2,8,4,4]" + s +
           "@0 = placeholder\n%m : f32[8]@1 = placeholder\n%v : f32[8]@2 = " + "placeholder\n%n : " + t +
           "[2,8,4,4]" + s +
           "@3 = call_function torch.nn.functional.batch_norm(%x, %m, %v, None, None, False, 0.1, 1e-05)\n"
           "output ((%n,))\n";
  };
  EXPECT_TRUE(judge(norm("f32", "{128,1,32,8}"), {"n"}).refused_for("norm.layout"));
  EXPECT_TRUE(judge(norm("f16", "{128,1,32,8}"), {"n"}).ok());
  EXPECT_TRUE(judge(norm("f32", ""), {"n"}).ok());
}

TEST(NumericsGate, RegionsWithoutProductsPass) {
  EXPECT_TRUE(
      judge("%x : f16[4]@0 = placeholder\n%y : f16[4]@1 = call_function torch.tanh(%x)\noutput ((%y,))\n",
            {"y"})
          .ok());
}

}  // namespace
}  // namespace passnet
