#include "codegen/pass_dir.h"

#include <gtest/gtest.h>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "codegen/test_programs.h"

namespace passnet {
namespace {

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// Golden files; PASSNET_ACCEPT=1 rewrites them.
TEST(PassDir, HandBuiltPassesAreWrittenAsAccepted) {
  const Result<GeneratedPassDir> made = generate_pass_dir(codegen::test_passes());
  ASSERT_TRUE(made.ok()) << made.error().message;
  for (const std::string name :
       {"_shared_kernels.py", "FuseAddLayerNormPermute.py", "sorted_output_pass_rule_names.json"}) {
    const std::string path = std::string(PASSNET_SOURCE_DIR) + "/tests/golden/codegen/" + name + ".txt";
    if (std::getenv("PASSNET_ACCEPT") != nullptr)
      std::ofstream(path, std::ios::binary) << made->files.at(name);
    EXPECT_EQ(made->files.at(name), read(path)) << name;
  }
}

TEST(PassDir, TheSameSpecsGiveTheSameBytes) {
  const Result<GeneratedPassDir> a = generate_pass_dir(codegen::test_passes());
  const Result<GeneratedPassDir> b = generate_pass_dir(codegen::test_passes());
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->files, b->files);
}

TEST(PassDir, OneKernelServesAllElementTypes) {
  const std::vector<PassSpec> passes = codegen::test_passes();
  const Result<GeneratedPassDir> made = generate_pass_dir(passes);
  ASSERT_TRUE(made.ok());
  std::map<std::string, std::set<std::string>> kernels;
  for (const KernelEntry& k : made->kernels) kernels[k.route].insert(k.kernel);
  for (const char* route :
       {"gelu", "add_layer_norm_permute", "batch_norm_silu", "masked_softmax", "silu_cat"}) {
    EXPECT_EQ(kernels[route].size(), 1U) << route;
  }
  EXPECT_EQ(kernels["squeeze_excite"].size(), 3U);
}

TEST(PassDir, EveryConstantOfAKernelIsAParameter) {
  const Result<GeneratedPassDir> made = generate_pass_dir(codegen::test_passes());
  ASSERT_TRUE(made.ok());
  const std::string& text = made->files.at("_shared_kernels.py");
  for (const KernelEntry& k : made->kernels) {
    const size_t at = text.find("def " + k.kernel + "(");
    ASSERT_NE(at, std::string::npos) << k.kernel;
    const std::string head = text.substr(at, text.find("):", at) - at);
    size_t parameters = 0;
    for (size_t p = head.find("tl.constexpr"); p != std::string::npos; p = head.find("tl.constexpr", p + 1))
      ++parameters;
    EXPECT_EQ(parameters, k.constants.size()) << k.kernel;
    for (const auto& [name, value] : k.constants)
      EXPECT_NE(head.find(name + ": tl.constexpr"), std::string::npos) << name;
  }
}

TEST(PassDir, TwoPassesOfOneNameAreRefused) {
  std::vector<PassSpec> passes = codegen::test_passes();
  passes[1].name = passes[0].name;
  const Result<GeneratedPassDir> made = generate_pass_dir(passes);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message, "two passes are named FuseGelu");
}

TEST(Estimate, CountsWhatALaunchMoves) {
  const std::vector<PassSpec> passes = codegen::test_passes();
  const ScheduleEstimate gelu = estimate_schedule(passes[0].entries[1].program);
  EXPECT_TRUE(gelu.verdict.ok());
  EXPECT_EQ(gelu.schedule, "flat");
  EXPECT_EQ(gelu.kernels, 1);
  EXPECT_EQ(gelu.read_bytes, 2 * 37 * 64 * 2);
  EXPECT_EQ(gelu.write_bytes, 2 * 37 * 64 * 2);
}

TEST(Estimate, RefusesComplexNumbersByName) {
  Program p;
  TensorMeta t;
  t.shape = {4};
  t.stride = std::vector<int64_t>{1};
  t.dtype = DType::kComplex64;
  const ArrayId x = p.add_input(t, "z");
  p.outputs = {x};
  p.output_metas = {t};
  const ScheduleEstimate e = estimate_schedule(p);
  ASSERT_FALSE(e.verdict.ok());
  EXPECT_EQ(e.verdict.refusals()[0].code, "codegen.complex");
  EXPECT_EQ(e.verdict.refusals()[0].message, "z: complex numbers have no kernel");
}

}  // namespace
}  // namespace passnet
