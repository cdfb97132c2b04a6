#include "codegen/stencil.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "codegen/emit.h"
#include "codegen/schedule.h"
#include "codegen/test_programs.h"

namespace passnet::codegen {
namespace {

const PassEntry& entry_of(const std::vector<PassSpec>& passes, const std::string& route, DType t) {
  const auto spec = std::ranges::find_if(passes, [&](const PassSpec& s) { return s.route == route; });
  return *std::ranges::find_if(spec->entries, [&](const PassEntry& e) { return e.where == name_of(t); });
}

ProgramPlan planned(const std::vector<PassSpec>& passes, const std::string& route,
                    DType t = DType::kFloat16) {
  Result<ProgramPlan> plan = plan_program(entry_of(passes, route, t).program);
  EXPECT_TRUE(plan.ok()) << route;
  return std::move(plan).value();
}

size_t count(const std::string& text, const std::string& word) {
  size_t n = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

std::string text_of(const ProgramPlan& plan) {
  const Result<KernelText> text = write_kernel(plan, plan.kernels[0]);
  EXPECT_TRUE(text.ok());
  return text.ok() ? text->body : "";
}

TEST(Stencil, ResultsOfALaneShareTheirLoads) {
  const std::vector<PassSpec> passes = test_passes(true);
  struct Expected {
    const char* route;
    size_t results, loads, sums;
  };
  // Loads: rows times columns of what the windows cover together, the weights, the bias.
  for (const Expected& e :
       {Expected{"depthwise", 7, 9 * 3 + 9 + 1, 63}, Expected{"depthwise_steps", 4, 9 * 3 + 9, 36},
        Expected{"depthwise_five", 7, 11 * 5 + 25 + 1, 175},
        Expected{"depthwise_seven", 7, 13 * 7 + 49, 343}}) {
    const ProgramPlan plan = planned(passes, e.route);
    ASSERT_EQ(plan.kernels.size(), 1U) << e.route;
    EXPECT_EQ(plan.kernels[0].schedule, "stencil") << e.route;
    EXPECT_EQ(plan.kernels[0].stores.size(), e.results) << e.route;
    const std::string text = text_of(plan);
    EXPECT_EQ(count(text, "tl.load("), e.loads) << e.route;
    EXPECT_EQ(count(text, "tl.fma("), e.sums) << e.route;
    EXPECT_EQ(count(text, "tl.store(out_ptr"), e.results) << e.route;
    EXPECT_EQ(count(text, "out2_ptr"), 0U) << e.route;
  }
}

TEST(Stencil, NothingIsLoadedAfterAStore) {
  const std::vector<PassSpec> passes = test_passes();
  for (const char* route :
       {"depthwise", "depthwise_steps", "depthwise_five", "depthwise_seven", "depthwise_last"}) {
    const ProgramPlan plan = planned(passes, route);
    ASSERT_EQ(plan.kernels[0].schedule, "stencil") << route;
    const std::string text = text_of(plan);
    EXPECT_LT(text.rfind("tl.load("), text.find("tl.store(")) << route;
  }
}

TEST(Stencil, ElementsAreWalkedInTheOrderOfMemory) {
  const ProgramPlan plan = planned(test_passes(true), "depthwise");
  const KernelPlan& k = plan.kernels[0];
  std::set<ValueId> values;
  for (const StorePlan& s : k.stores) reachable(*k.graph, s.value, values);
  const std::vector<ValueId> order = walked_in_order(*k.graph, *k.pool, values);
  ASSERT_EQ(order.size(), 63U);
  // Each sum's own steps keep their order, whatever stands between them.
  std::set<ValueId> done;
  for (const ValueId v : order) {
    const ValueNode& before = k.graph->node(k.graph->node(v).args[2]);
    if (before.kind == ValueNode::Kind::kCall) {
      EXPECT_TRUE(done.contains(k.graph->node(v).args[2]));
    }
    done.insert(v);
  }
  // The second result begins before the first is done.
  const auto begins = std::ranges::count_if(order.begin(), order.begin() + 9, [&](ValueId v) {
    return k.graph->node(k.graph->node(v).args[2]).kind == ValueNode::Kind::kConst;
  });
  EXPECT_EQ(begins, 2);
}

TEST(Stencil, GridAndLanes) {
  const std::vector<PassSpec> passes = test_passes(true);
  const ProgramPlan steps = planned(passes, "depthwise_steps");
  EXPECT_EQ(steps.kernels[0].grid, 512 * 256 * 14);
  EXPECT_EQ(steps.kernels[0].num_warps, 1);
  const ProgramPlan seven = planned(passes, "depthwise_seven");  // 28 of 32 lanes, two planes a warp
  EXPECT_EQ(seven.kernels[0].grid, 128 * 192 / 2 * 4);
  EXPECT_EQ(seven.kernels[0].num_warps, 1);
  const ProgramPlan last = planned(passes, "depthwise_last");
  EXPECT_EQ(last.kernels[0].num_warps, 4);
}

TEST(Stencil, TooFewProgramsOrNoDivisorGoTapByTap) {
  const std::vector<PassSpec> passes = test_passes();
  EXPECT_EQ(planned(passes, "depthwise_small").kernels[0].schedule, "flat");
  EXPECT_EQ(planned(passes, "depthwise_prime").kernels[0].schedule, "flat");
  // Windows that are folded by a reduction are no sums over taps.
  EXPECT_EQ(planned(passes, "max_pool").kernels[0].schedule, "flat");
}

TEST(Stencil, EstimatesComeNearTheMeasuredTimes) {
  const std::vector<PassSpec> passes = test_passes(true);
  const auto time_us = [&](const char* route, DType t) {
    const ProgramPlan plan = planned(passes, route, t);
    return (plan.kernels[0].read_bytes + plan.kernels[0].write_bytes) / 4.19e6;
  };
  EXPECT_NEAR(time_us("depthwise_steps", DType::kFloat16), 1252, 60);
  // What is written counts once, however many stores it takes.
  EXPECT_EQ(planned(passes, "depthwise_steps").kernels[0].write_bytes, 512.0 * 256 * 56 * 56 * 2);
  EXPECT_LT(time_us("depthwise_seven", DType::kFloat16), 100);
}

}  // namespace
}  // namespace passnet::codegen
