#include "solve/expectations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/pass_dir.h"
#include "solve/test_sample.h"

namespace passnet {
namespace {

class ExpectationsTest : public testing::Test {
 protected:
  void SetUp() override {
    put_sample(files_);
    auto profile = builtin_profile("h200");
    ASSERT_TRUE(profile.ok());
    profile_ = std::move(*profile);
  }

  PlanResult plan(const PlanOptions& options = {}) {
    return plan_sample(captured(files_).variants, profile_, &estimate_schedule, options);
  }
  static std::map<std::string, std::string> files_of(const PlanState& state) {
    auto generated = generate_pass_dir(state.passes);
    EXPECT_TRUE(generated.ok());
    return {generated->files.begin(), generated->files.end()};
  }

  MemoryFiles files_;
  Profile profile_;
};

TEST_F(ExpectationsTest, WithoutPassesOnlyWhatTheSampleSays) {
  Expectations expectations(files_, profile_, "cuda");
  const auto got = expectations.of("s", {});
  ASSERT_EQ(got.size(), 2u);
  const PlanResult planned = plan();
  const score::Expected& e = got.at("float32/0");
  EXPECT_NEAR(*e.legal_ceiling, planned.variants[0].eager_us / planned.variants[0].ceiling_us, 1e-9);
  EXPECT_NEAR(*e.unchanged, planned.variants[0].eager_us / planned.variants[0].unchanged_us, 1e-9);
  EXPECT_FALSE(e.predicted);
  EXPECT_FALSE(e.family.empty());
}

TEST_F(ExpectationsTest, ThePlannersOwnBytesHaveAPrediction) {
  Expectations expectations(files_, profile_, "cuda");
  const PlanResult planned = plan();
  const auto upside = expectations.of("s", files_of(planned.upside));
  EXPECT_EQ(upside.at("float32/1").state, "upside");
  EXPECT_NEAR(*upside.at("float32/1").predicted, planned.variants[1].eager_us / planned.variants[1].upside_us,
              1e-9);
  EXPECT_GT(*upside.at("float32/1").device_share, 0);
  EXPECT_LT(*upside.at("float32/1").device_share, 1);
  const auto floor = expectations.of("s", files_of(planned.floor));
  EXPECT_EQ(floor.at("float32/0").state, "floor");
  EXPECT_NEAR(*floor.at("float32/0").predicted, planned.variants[0].eager_us / planned.variants[0].floor_us,
              1e-9);
}

TEST_F(ExpectationsTest, AnEditedByteEndsThePredictionAndNotTheCeiling) {
  Expectations expectations(files_, profile_, "cuda");
  auto passes = files_of(plan().upside);
  passes.begin()->second += "# slower\n";
  const auto got = expectations.of("s", passes);
  EXPECT_EQ(got.at("float32/0").state, "other");
  EXPECT_FALSE(got.at("float32/0").predicted);
  EXPECT_TRUE(got.at("float32/0").legal_ceiling);
}

TEST_F(ExpectationsTest, AStateWithoutARefusedPassIsThePlannersToo) {
  const PlanResult whole = plan();
  ASSERT_GT(whole.upside.passes.size(), 1u);
  PlanOptions options;
  options.refused.emplace(whole.upside.passes.front().key, Refusal{"preflight_failed", "it failed", {}});
  const PlanResult rest = plan(options);
  ASSERT_FALSE(rest.upside.passes.empty());
  Expectations expectations(files_, profile_, "cuda");
  const auto got = expectations.of("s", files_of(rest.upside));
  EXPECT_NE(got.at("float32/0").state, "other");
  EXPECT_TRUE(got.at("float32/0").predicted);
}

TEST_F(ExpectationsTest, WhatCannotBeCapturedHasNone) {
  files_.put("t/graph_list.txt", "float32/0\n");
  files_.put("t/float32/0/model.py", "import torch\n\nclass GraphModule(");
  files_.put("t/float32/0/weight_meta.py", "");
  Expectations expectations(files_, profile_, "cuda");
  EXPECT_TRUE(expectations.of("t", {}).empty());
}

}  // namespace
}  // namespace passnet
