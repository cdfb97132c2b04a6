#include "plan/layouts.h"

#include <gtest/gtest.h>

#include "plan/plan.h"
#include "plan/test_graphs.h"

namespace passnet {
namespace {

using Strides = std::vector<int64_t>;

Strides strides_of(const Graph& graph, std::string_view name) {
  const Node* node = graph.find(name);
  if (node == nullptr || !node->meta.is_tensor() || !node->meta.tensor.stride) return {};
  return *node->meta.tensor.stride;
}

std::vector<PassCall> calls_of(const Graph& graph, std::initializer_list<std::string_view> names) {
  std::vector<PassCall> calls;
  for (const std::string_view name : names) calls.push_back({.node = graph.find(name)->id});
  return calls;
}

// Calls stand for the nodes of their names: only the metadata of a value counts here.
TEST(Layouts, WhatFollowsACallIsLaidOutAsTheCallIs) {
  Graph graph = graph_of(R"(
%x : f32[6,8]{8,1}@0 = placeholder
%a = call_function operator.getitem(%x, (slice(None, None, None), slice(None, None, 2)))
%b = call_function torch.sin(%a)
%c = call_method transpose(%a, 0, 1)
%d = call_function torch.exp(%x)
output ((%b, %c, %d))
)");
  ASSERT_EQ(strides_of(graph, "a"), (Strides{8, 2}));
  ASSERT_EQ(strides_of(graph, "c"), (Strides{2, 8}));
  EXPECT_FALSE(settle_layouts(graph, calls_of(graph, {"a"})));
  EXPECT_EQ(strides_of(graph, "a"), (Strides{4, 1}));
  EXPECT_EQ(strides_of(graph, "b"), (Strides{4, 1}));
  EXPECT_EQ(strides_of(graph, "c"), (Strides{1, 4}));
  EXPECT_EQ(strides_of(graph, "d"), (Strides{8, 1}));
}

TEST(Layouts, DenseValuesKeepEagersOrderOfAxes) {
  Graph graph = graph_of(R"(
%x : f32[2,3,4,5]{60,1,15,3}@0 = placeholder
%a = call_function torch.relu(%x)
%b = call_function torch.sin(%a)
output ((%b,))
)");
  EXPECT_FALSE(settle_layouts(graph, calls_of(graph, {"a", "b"})));
  EXPECT_EQ(strides_of(graph, "a"), (Strides{60, 1, 15, 3}));
  EXPECT_EQ(strides_of(graph, "b"), (Strides{60, 1, 15, 3}));
}

TEST(Layouts, ACallThatReturnsItsOperandHasItsLayout) {
  Graph graph = graph_of(R"(
%x : f32[6,8]{8,1}@0 = placeholder
%a = call_function operator.getitem(%x, (slice(None, None, None), slice(None, None, 2)))
%b = call_method detach(%a)
%c = call_function torch.sin(%b)
output ((%c,))
)");
  std::vector<PassCall> calls = calls_of(graph, {"a", "b"});
  calls[1].kernel = false;
  EXPECT_FALSE(settle_layouts(graph, calls));
  EXPECT_EQ(strides_of(graph, "b"), (Strides{4, 1}));
  EXPECT_EQ(strides_of(graph, "c"), (Strides{4, 1}));
}

TEST(Layouts, SharingThatDependsOnALayoutIsAProblem) {
  Graph graph = graph_of(R"(
%x : f32[6,8]{8,1}@0 = placeholder
%a = call_function operator.getitem(%x, (slice(None, None, None), slice(None, None, 2)))
%b = call_method contiguous(%a)
%c = call_method add_(%b, 1)
output ((%a, %c))
)");
  const auto problem = settle_layouts(graph, calls_of(graph, {"a"}));
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->call, 0u);
  EXPECT_EQ(problem->why.code, "layout");
  EXPECT_EQ(problem->why.message,
            "whether b shares memory with a depends on a layout that the call does not keep");
  EXPECT_EQ(strides_of(graph, "a"), (Strides{8, 2}));  // nothing is changed then
}

TEST(Layouts, ACopyInPlaceOfAViewIsAProblemOnlyIfItIsWritten) {
  const std::string_view kHead = R"(
%q : f32[1,2,8,4]{64,32,4,1}@0 = placeholder
%a = call_function torch.nn.functional.scaled_dot_product_attention(%q, %q, %q)
%b = call_method transpose(%a, 1, 2)
%c = call_method reshape(%b, 1, 8, 8)
)";
  Graph read_only = graph_of(std::string(kHead) + "output ((%c,))\n");
  EXPECT_FALSE(settle_layouts(read_only, calls_of(read_only, {"a"})));
  EXPECT_EQ(strides_of(read_only, "c"), (Strides{64, 8, 1}));
  Graph written = graph_of(std::string(kHead) + "%d = call_method add_(%c, 1)\noutput ((%d, %b))\n");
  EXPECT_TRUE(settle_layouts(written, calls_of(written, {"a"})));
}

// The whole planner: whatever it chooses, each call is written for what it will be given.
TEST(Layouts, EntriesAreWrittenForWhatOtherCallsGive) {
  std::vector<CapturedVariant> variants;
  variants.push_back(variant_of("float32/0", R"(
%x : f32[6,8]{8,1}@0 = placeholder
%r = call_function torch.relu(%x)
%a = call_function operator.getitem(%r, (slice(None, None, None), slice(None, None, 2)))
%b = call_function torch.sin(%a)
%c = call_function torch.exp(%a)
output ((%a, %b, %c))
)"));
  Profile profile = *builtin_profile("h200");
  profile.wrapper_us = profile.launch_us = profile.allocation_us = 0.01;
  profile.tensor_argument_us = profile.kernel_floor_us = 0;
  const PlanResult plan =
      plan_sample(variants, profile, [](const Program&) { return ScheduleEstimate{.schedule = "flat"}; });
  size_t readers = 0;
  for (const PassSpec& pass : plan.upside.passes) {
    if (pass.route != "sin" && pass.route != "exp") continue;
    ++readers;
    ASSERT_EQ(pass.entries.size(), 1u);
    EXPECT_EQ(pass.entries[0].bindings.at(0).tensor.stride, (Strides{4, 1}));
  }
  EXPECT_EQ(readers, 2u);
}

// batch_norm keeps the operand's layout by one route of the library and takes the suggested one by another.
TEST(Layouts, WhereTheLibraryHasAChoiceBothAreKnown) {
  const Graph graph = graph_of(R"(
%x : f32[5,5,2]{10,2,1}@0 = placeholder
%m : f32[5]{1}@1 = placeholder
%v : f32[5]{1}@2 = placeholder
%a = call_method transpose(%x, 2, 0)
%b = call_function torch.nn.functional.batch_norm(%a, %m, %v)
%c = call_method transpose(%b, 0, 1)
%d = call_function torch.cos(%c)
%e = call_function torch.sin(%d)
output ((%e,))
)");
  const LayoutAnswer answer = settle_all_layouts(graph, calls_of(graph, {"d"}));
  ASSERT_FALSE(answer.problem);
  EXPECT_EQ(strides_of(answer.graphs.settled, "b"), (Strides{1, 2, 10}));
  EXPECT_EQ(strides_of(answer.graphs.settled, "c"), (Strides{2, 1, 10}));
  ASSERT_TRUE(answer.graphs.otherwise);
  EXPECT_EQ(strides_of(*answer.graphs.otherwise, "b"), (Strides{25, 5, 1}));
  EXPECT_EQ(strides_of(*answer.graphs.otherwise, "c"), (Strides{5, 25, 1}));
  // What the call gives is ours, whatever it is given.
  EXPECT_EQ(strides_of(*answer.graphs.otherwise, "e"), strides_of(answer.graphs.settled, "e"));
  EXPECT_EQ(strides_of(answer.graphs.captured, "d"), (Strides{2, 1, 10}));
}

TEST(Layouts, NoChoiceWhereBothRoutesAgree) {
  const Graph graph = graph_of(R"(
%x : f32[2,3,4,5]{60,1,15,3}@0 = placeholder
%m : f32[3]{1}@1 = placeholder
%v : f32[3]{1}@2 = placeholder
%b = call_function torch.nn.functional.batch_norm(%x, %m, %v)
%d = call_function torch.cos(%b)
output ((%d,))
)");
  const LayoutAnswer answer = settle_all_layouts(graph, calls_of(graph, {"d"}));
  EXPECT_FALSE(answer.problem);
  EXPECT_FALSE(answer.graphs.otherwise);
}

// (A convolution takes them for channels_last or not.)
TEST(Layouts, StridesOfExtentsOf1AreFollowedToo) {
  Graph graph = graph_of(R"(
%x : f16[17,1,6]{6,6,1}@0 = placeholder
%w : f16[1,1,3]{3,3,1}@1 = placeholder
%v = call_method transpose(%w, 2, 1)
%a = call_function torch.conv_transpose1d(%x, %v, None, (2,), (1,), (0,), 1, (1,))
%b = call_function torch.cos(%a)
output ((%b,))
)");
  ASSERT_EQ(strides_of(graph, "a"), (Strides{27, 1, 3}));
  EXPECT_FALSE(settle_layouts(graph, calls_of(graph, {"v", "b"})));
  EXPECT_EQ(strides_of(graph, "v"), (Strides{3, 1, 1}));
  EXPECT_EQ(strides_of(graph, "a"), (Strides{27, 9, 1}));
}

}  // namespace
}  // namespace passnet
