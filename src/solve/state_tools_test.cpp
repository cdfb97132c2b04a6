// The tools that judge a state: the native check, the smaller self of a variant, passes at another size.

#include <algorithm>
#include <set>

#include "sample/sample.h"
#include "solve/native_check.h"
#include "solve/shrink.h"
#include "solve/specialise.h"
#include "solve/test_sample.h"

namespace passnet {
namespace {

class StateToolsTest : public ::testing::Test {
 protected:
  StateToolsTest() {
    put_sample(files_);
    sample_ = captured(files_);
    plan_ = planned(sample_);
    generated_ = generate_pass_dir(plan_.upside.passes).value();
  }

  static const Proof& proof(const NativeCheck& check, size_t variant, std::string_view subject) {
    const Proof* found = check.variants.at(variant).find(subject);
    EXPECT_NE(found, nullptr) << subject;
    return *found;
  }
  std::string first_pass() const { return plan_.upside.passes.front().name + ".py"; }

  MemoryFiles files_;
  CapturedSample sample_;
  PlanResult plan_;
  GeneratedPassDir generated_;
};

TEST_F(StateToolsTest, AGeneratedStateIsProvenOnEveryVariant) {
  const NativeCheck check = check_state(generated_, sample_.variants);
  ASSERT_EQ(check.variants.size(), 2u);
  for (size_t v = 0; v < 2; ++v) {
    EXPECT_EQ(check.variants[v].name, sample_.variants[v].name);
    EXPECT_TRUE(check.variants[v].matched);
    EXPECT_EQ(check.variants[v].matches, plan_.upside.passes.size());
    EXPECT_EQ(proof(check, v, "structure").state, Proof::State::kProven);
    EXPECT_EQ(proof(check, v, "structure").by, "native");
    EXPECT_EQ(proof(check, v, "source_rules").state, Proof::State::kProven);
    EXPECT_TRUE(check.variants[v].green());
  }
  EXPECT_TRUE(check.failures.empty());
}

TEST_F(StateToolsTest, AManifestThatNamesNothingMatchesNothing) {
  generated_.files["sorted_output_pass_rule_names.json"] = "[]";
  const NativeCheck check = check_state(generated_, sample_.variants);
  for (size_t v = 0; v < 2; ++v) {
    EXPECT_FALSE(check.variants[v].matched);
    EXPECT_EQ(proof(check, v, "structure").state, Proof::State::kFailed);
    EXPECT_EQ(proof(check, v, "structure").note, "no pass matches graph 0");
    EXPECT_FALSE(check.variants[v].green());
  }
}

TEST_F(StateToolsTest, AForbiddenImportIsSeenByTheSourceRules) {
  generated_.files[first_pass()].insert(0, "import subprocess\n");
  const NativeCheck check = check_state(generated_, sample_.variants);
  EXPECT_EQ(proof(check, 0, "source_rules").state, Proof::State::kFailed);
  EXPECT_FALSE(check.variants[0].green());
  const bool internal = std::any_of(check.findings.begin(), check.findings.end(), [](const Diagnostic& d) {
    return d.code == "solve.source_rules" && d.kind == DiagnosticKind::kInternal;
  });
  EXPECT_TRUE(internal) << "passnet broke its own promise, and says so";
}

TEST_F(StateToolsTest, AnotherModelIsNotMatched) {
  files_.put("s/float32/1/model.py", model_text("a, b, w, bias", "\n        return (torch.sigmoid(a),)\n"));
  const NativeCheck check = check_state(generated_, captured(files_).variants);
  EXPECT_TRUE(check.variants[0].green());
  EXPECT_FALSE(check.variants[1].matched);
}

class ShrinkTest : public ::testing::Test {
 protected:
  std::optional<Shrunk> shrink(const std::string& body, const std::string& meta, int64_t elements,
                               int64_t most = 0) {
    put_variant(files_, "v", model_text("x, w", body), meta);
    files_.put("s/graph_list.txt", "v\n");
    put_variant(files_, "s/v", model_text("x, w", body), meta);
    sample_ = captured(files_);
    const Result<VariantFiles> files = read_variant(files_, "v");
    if (!files.ok() || sample_.variants.empty()) {
      ADD_FAILURE() << "the variant cannot be read";
      return std::nullopt;
    }
    full_ = input_elements(files->tensors);
    return shrink_variant(*files, sample_.variants[0], elements, std::max(elements, most), {});
  }

  MemoryFiles files_;
  CapturedSample sample_;
  int64_t full_ = 0;
};

TEST_F(ShrinkTest, TheBatchIsHalvedUntilItFits) {
  const std::string meta = tensor_class("x", "[64, 32]") + tensor_class("w", "[32]");
  const auto shrunk = shrink("\n        return (torch.relu(x + w),)\n", meta, 600);
  EXPECT_EQ(full_, 64 * 32 + 32);
  ASSERT_TRUE(shrunk.has_value());
  ASSERT_EQ(shrunk->changes.size(), 1u);
  EXPECT_EQ(shrunk->changes[0].from, 64);
  EXPECT_EQ(shrunk->changes[0].to, 16)
      << "16 rows and the weight are 544 elements, 32 rows would be too many";
  EXPECT_EQ(shrunk->meta, Json({{"x", {{"shape", {16, 32}}}}}));
  const Graph& graph = shrunk->variant.graphs.at(0);
  EXPECT_EQ(graph.size(), sample_.variants[0].graphs[0].size());
  EXPECT_EQ(graph.node(static_cast<NodeId>(0)).meta.tensor.shape, (std::vector<int64_t>{16, 32}));
}

TEST_F(ShrinkTest, AModelThatNamesItsBatchIsLeftWhole) {
  const std::string meta = tensor_class("x", "[64, 32]") + tensor_class("w", "[32]");
  EXPECT_FALSE(shrink("\n        return (torch.relu(x + w).view(64, 8, 4),)\n", meta, 600).has_value());
}

TEST_F(ShrinkTest, WhatCannotBecomeSmallEnoughIsLeftWhole) {
  const std::string meta = tensor_class("x", "[64, 32]") + tensor_class("w", "[32]");
  EXPECT_FALSE(shrink("\n        return (torch.relu(x + w).view(-1, 8, 32),)\n", meta, 40).has_value());
}

TEST_F(ShrinkTest, TheInnerAxesFollowWhereTheBatchIsNotEnough) {
  const std::string meta = tensor_class("x", "[2, 3, 64, 64]") + tensor_class("w", "[3, 1, 1]");
  const auto shrunk = shrink("\n        return (torch.relu(x + w),)\n", meta, 1000);
  ASSERT_TRUE(shrunk.has_value());
  ASSERT_EQ(shrunk->changes.size(), 2u);
  EXPECT_EQ(shrunk->changes[0].from, 2);
  EXPECT_EQ(shrunk->changes[1].from, 64);
  EXPECT_EQ(shrunk->meta, Json({{"x", {{"shape", {1, 3, 16, 16}}}}}));
  EXPECT_EQ(shrunk->elements, 3 * 16 * 16 + 3);
}

TEST_F(ShrinkTest, AnAxisOfTwoTensorsShrinksInBoth) {
  const std::string meta = tensor_class("x", "[2, 512]") + tensor_class("w", "[512]");
  const auto shrunk = shrink("\n        return (torch.relu(x + w),)\n", meta, 300);
  ASSERT_TRUE(shrunk.has_value());
  EXPECT_EQ(shrunk->meta, Json({{"w", {{"shape", {128}}}}, {"x", {{"shape", {1, 128}}}}}));
}

TEST_F(ShrinkTest, TheSmallestSelfServesUpToTheSecondLimit) {
  const std::string meta = tensor_class("x", "[64, 32]") + tensor_class("w", "[32]");
  const std::string body = "\n        return (torch.relu(x + w).view(-1, 8, 32),)\n";
  const auto shrunk = shrink(body, meta, 40, 300);
  ASSERT_TRUE(shrunk.has_value());
  EXPECT_EQ(shrunk->changes.back().to, 8) << "the view needs eight rows";
  EXPECT_FALSE(shrink(body, meta, 40, 200).has_value());
}

TEST_F(StateToolsTest, PassesAtAnotherSize) {
  files_.put("s/float32/1/weight_meta.py", block_meta(8));
  const CapturedSample smaller = captured(files_);
  const std::vector<PassSpec>& passes = plan_.upside.passes;
  Result<Specialised> special = specialise(passes, smaller.variants[1]);
  ASSERT_TRUE(special.ok()) << special.error().message;
  EXPECT_EQ(special->matches, std::vector<size_t>{passes.size()});
  for (size_t p = 0; p < passes.size(); ++p) {
    ASSERT_EQ(special->entries[p].size(), 1u);
    EXPECT_EQ(special->programs[p].size(), 1u);
    EXPECT_EQ(special->entries[p][0].bindings.size(), passes[p].entries[0].bindings.size());
  }
  const std::vector<PassSpec> at = with_entries(passes, std::move(*special));
  ASSERT_EQ(at.size(), passes.size());
  // Written for that size, they match there as the whole state does.
  const GeneratedPassDir generated = generate_pass_dir(at).value();
  std::vector<CapturedVariant> variants;
  variants.push_back({smaller.variants[1].name, DType::kFloat32, {}});
  variants[0].graphs.push_back(smaller.variants[1].graphs[0].clone());
  EXPECT_TRUE(check_state(generated, variants).variants.at(0).green());
  EXPECT_NE(generated.files.at("_shared_kernels.py"), generated_.files.at("_shared_kernels.py"));
}

TEST_F(StateToolsTest, PassesOnAGraphWithoutTheirPattern) {
  files_.put("s/float32/1/model.py", model_text("a, b, w, bias", "\n        return (torch.sigmoid(a),)\n"));
  const Result<Specialised> special = specialise(plan_.upside.passes, captured(files_).variants[1]);
  ASSERT_FALSE(special.ok());
  EXPECT_EQ(special.error().code, "specialise.no_match");
  EXPECT_NE(special.error().message.find("float32/1 graph 0"), std::string::npos);
}

TEST_F(StateToolsTest, APassThatDoesNotMatchAtThatSizeIsLeftOut) {
  // The sum alone is there, what follows it is not.
  files_.put("s/float32/1/model.py",
             model_text("a, b, w, bias", "\n        c = a + b\n        return (c,)\n"));
  const std::vector<PassSpec>& passes = plan_.upside.passes;
  Result<Specialised> special = specialise(passes, captured(files_).variants[1]);
  ASSERT_TRUE(special.ok()) << special.error().message;
  const std::vector<PassSpec> at = with_entries(passes, std::move(*special));
  ASSERT_EQ(at.size(), 1u);
  EXPECT_EQ(at[0].name, passes.back().name);
}

}  // namespace
}  // namespace passnet
