#include "codegen/tuning.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "codegen/pass_dir.h"
#include "codegen/test_programs.h"
#include "plan/pass_specs.h"

namespace passnet {
namespace {

std::vector<TunableKernel> kernels(const std::vector<PassSpec>& passes) {
  const Result<std::vector<TunableKernel>> made = tunable_kernels(passes, 6);
  if (!made.ok()) {
    ADD_FAILURE() << made.error().message;
    return {};
  }
  return *made;
}

TEST(Tuning, ConfigurationsAreOthersAndFewAndDiffer) {
  const std::vector<PassSpec> passes = codegen::test_passes(true);
  std::set<std::string> schedules;
  size_t with_choice = 0;
  for (const TunableKernel& kernel : kernels(passes)) {
    EXPECT_LE(kernel.others.size(), 6U);
    with_choice += !kernel.others.empty();
    schedules.insert(kernel.now.schedule);
    for (size_t i = 0; i < kernel.others.size(); ++i) {
      EXPECT_NE(kernel.others[i], kernel.now);
      EXPECT_EQ(kernel.others[i].schedule, kernel.now.schedule);
      EXPECT_GE(kernel.others[i].num_warps, 1);
      for (size_t k = 0; k < i; ++k) EXPECT_NE(kernel.others[i], kernel.others[k]);
    }
  }
  EXPECT_GT(with_choice, 10U);
  EXPECT_TRUE(schedules.contains("flat"));
  EXPECT_TRUE(schedules.contains("row"));
}

TEST(Tuning, AConfigurationIsWhatIsLaunched) {
  std::vector<PassSpec> passes = codegen::test_passes(true);
  const Result<GeneratedPassDir> before = generate_pass_dir(passes);
  ASSERT_TRUE(before.ok());
  size_t changed = 0;
  for (const TunableKernel& kernel : kernels(passes)) {
    for (const KernelConfig& config : kernel.others) {
      PassEntry& entry = passes[kernel.pass].entries[kernel.entry];
      entry.tuned.assign(kernel.kernel + 1, {});
      entry.tuned[kernel.kernel] = config;
      std::vector<PassSpec> alone;
      alone.push_back(clone(passes[kernel.pass]));
      const std::vector<TunableKernel> now = kernels(alone);
      const auto it = std::find_if(now.begin(), now.end(), [&](const TunableKernel& k) {
        return k.entry == kernel.entry && k.kernel == kernel.kernel;
      });
      ASSERT_NE(it, now.end());
      EXPECT_EQ(it->now, config);
      ++changed;
    }
    passes[kernel.pass].entries[kernel.entry].tuned.clear();
  }
  EXPECT_GT(changed, 30U);
  // And without them nothing is left of it.
  const Result<GeneratedPassDir> after = generate_pass_dir(passes);
  ASSERT_TRUE(after.ok());
  EXPECT_EQ(after->files, before->files);
}

TEST(Tuning, GridAndWarpsAreInTheTableOfEntries) {
  std::vector<PassSpec> passes = codegen::test_passes(true);
  const std::vector<TunableKernel> all = kernels(passes);
  const auto flat = std::find_if(all.begin(), all.end(), [](const TunableKernel& k) {
    return k.now.schedule == "flat" && !k.others.empty() && k.others[0].block == 2 * k.now.block;
  });
  ASSERT_NE(flat, all.end());
  const auto launched = [&](const GeneratedPassDir& made) {
    for (const KernelEntry& k : made.kernels)
      if (k.pass == flat->pass && k.entry == flat->entry) return k;
    return KernelEntry{};
  };
  const GeneratedPassDir before = generate_pass_dir(passes).value();
  passes[flat->pass].entries[flat->entry].tuned = {flat->others[0]};
  const GeneratedPassDir after = generate_pass_dir(passes).value();
  EXPECT_EQ(launched(after).grid, (launched(before).grid + 1) / 2);
  EXPECT_EQ(launched(after).num_warps, launched(before).num_warps);
  EXPECT_NE(after.files.at("_shared_kernels.py"), before.files.at("_shared_kernels.py"));
  EXPECT_EQ(generate_pass_dir(passes).value().files, after.files);
}

TEST(Tuning, WhatWasMadeForAnotherScheduleChangesNothing) {
  std::vector<PassSpec> passes = codegen::test_passes();
  const GeneratedPassDir before = generate_pass_dir(passes).value();
  KernelConfig config;
  config.schedule = "another";
  config.num_warps = 32;
  config.block = 4096;
  for (PassSpec& pass : passes)
    for (PassEntry& entry : pass.entries) entry.tuned = {config};
  EXPECT_EQ(generate_pass_dir(passes).value().files, before.files);
}

}  // namespace
}  // namespace passnet
