#include "plan/plan.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "match/rewrite.h"
#include "plan/explain.h"
#include "plan/test_graphs.h"

namespace passnet {
namespace {

constexpr std::string_view kNormTail = R"(%x : f16[8,64]{64,1}@0 = placeholder
%y : f16[8,64]{64,1}@1 = placeholder
%w : f16[64]{1}@2 = placeholder
%b : f16[64]{1}@3 = placeholder
%drop = call_function torch.nn.functional.dropout(%x, 0.1, False, False)
%add = call_function operator.add(%drop, %y)
%norm = call_function torch.nn.functional.layer_norm(%add, (64,), %w, %b, 1e-05)
output ((%norm,))
)";

std::vector<std::string> names_of(const PlanState& state) {
  std::vector<std::string> names;
  for (const PassSpec& spec : state.passes) names.push_back(spec.name);
  return names;
}

// What every plan must keep: each pass applies to the graphs it was planned on, each graph is matched, every
// code that is reported is in the closed list.
void expect_sound(const PlanResult& plan, const std::vector<CapturedVariant>& variants) {
  for (const PlanState* state : {&plan.floor, &plan.upside}) {
    for (const CapturedVariant& variant : variants) {
      for (const Graph& captured : variant.graphs) {
        Graph graph = captured.clone();
        size_t matches = 0;
        for (const PassSpec& spec : state->passes) {
          RewriteRule rule = rule_with_route(spec.pattern, spec.route);
          rule.returns_argument = spec.kind == Region::Kind::kZeroLaunch;
          Result<PassResult> result = apply_pass(graph, spec.pattern, rule);
          ASSERT_TRUE(result.ok()) << result.error().message;
          matches += result->replaced.size();
          graph = std::move(result->graph);
        }
        EXPECT_GT(matches, 0u) << variant.name;
      }
    }
    for (const PassSpec& spec : state->passes) {
      EXPECT_FALSE(spec.entries.empty()) << spec.name;
      for (const PassEntry& entry : spec.entries) {
        EXPECT_EQ(entry.bindings.size(), spec.pattern.placeholders().size()) << spec.name;
        size_t tensors = 0;
        for (const Binding& binding : entry.bindings) tensors += binding.is_tensor;
        if (spec.kind == Region::Kind::kKernel)
          EXPECT_EQ(entry.program.inputs().size(), tensors) << spec.name;
      }
    }
  }
  for (const RegionRow& row : plan.regions) {
    for (const Refusal& refusal : row.verdict.refusals()) {
      EXPECT_NE(find_reason(refusal.code), nullptr) << refusal.code;
    }
  }
  for (const Refusal& refusal : plan.blocked) EXPECT_NE(find_reason(refusal.code), nullptr) << refusal.code;
}

std::vector<CapturedVariant> one(std::string_view text) {
  std::vector<CapturedVariant> variants;
  variants.push_back(variant_of("float16/0", text));
  return variants;
}

TEST(Plan, FloorIsZeroLaunchAndUpsideTheWholeChain) {
  const std::vector<CapturedVariant> variants = one(kNormTail);
  const PlanResult plan = plan_sample(variants, h200(), perfect_generator);
  expect_sound(plan, variants);
  EXPECT_EQ(names_of(plan.floor), std::vector<std::string>{"SkipDropout"});
  EXPECT_EQ(plan.floor.passes[0].route, "skip_dropout");
  EXPECT_EQ(plan.floor.passes[0].kind, Region::Kind::kZeroLaunch);
  EXPECT_EQ(names_of(plan.upside), std::vector<std::string>{"FuseAddLayerNorm"});
  EXPECT_EQ(plan.upside.passes[0].pattern.size(), 4u + 3u + 1u);
  EXPECT_GT(plan.upside.gmean_speedup, plan.floor.gmean_speedup);
  EXPECT_GE(plan.gmean_ceiling, plan.upside.gmean_speedup - 1e-9);
  EXPECT_TRUE(plan.exhaustive);
  EXPECT_TRUE(plan.findings.empty());
}

TEST(Plan, AWeakGeneratorGetsTheLargestRegionThatItCanDo) {
  const std::vector<CapturedVariant> variants = one(kNormTail);
  const PlanResult plan = plan_sample(variants, h200(), flat_generator);
  expect_sound(plan, variants);
  EXPECT_EQ(names_of(plan.upside), std::vector<std::string>{"FuseAdd"});
  EXPECT_NE(plan.strategy.find("no_schedule"), std::string::npos) << plan.strategy;
}

TEST(Plan, WithoutAGeneratorTheFloorStands) {
  const std::vector<CapturedVariant> variants = one(kNormTail);
  const PlanResult plan = plan_sample(variants, h200(), no_generator);
  expect_sound(plan, variants);
  EXPECT_EQ(names_of(plan.floor), std::vector<std::string>{"SkipDropout"});
  EXPECT_EQ(names_of(plan.upside), std::vector<std::string>{"SkipDropout"});
}

TEST(Plan, NoLegalRegionIsAFinding) {
  const std::vector<CapturedVariant> variants = one(R"(%x : f16[8,64]{64,1}@0 = placeholder
%y : f16[8,64]{64,1}@1 = placeholder
%sum = call_function operator.iadd(%x, %y)
output ((%sum,))
)");
  const PlanResult plan = plan_sample(variants, h200(), perfect_generator);
  EXPECT_TRUE(plan.floor.passes.empty());
  EXPECT_TRUE(plan.upside.passes.empty());
  ASSERT_EQ(plan.findings.size(), 1u);
  EXPECT_EQ(plan.findings[0].code, "plan.no_region");
  EXPECT_EQ(plan.findings[0].message, "float16/0 has no region that a pass could legally replace");
}

std::string view_text(int rows) {
  const std::string n = std::to_string(rows);
  return "%x : f16[1," + n + ",64]{" + std::to_string(rows * 64) + ",64,1}@0 = placeholder\n" +
         "%y : f16[1," + n + ",64]{" + std::to_string(rows * 64) + ",64,1}@1 = placeholder\n" +
         "%add = call_function operator.add(%x, %y)\n%view = call_method view(%add, " + n + ", 64)\n" +
         "%gelu = call_function torch.nn.functional.gelu(%view)\noutput ((%gelu,))\n";
}

TEST(Plan, OnePassServesAllSizes) {
  std::vector<CapturedVariant> variants;
  for (int rows : {8, 16, 32})
    variants.push_back(variant_of("float16/" + std::to_string(rows), view_text(rows)));
  const PlanResult plan = plan_sample(variants, h200(), perfect_generator);
  expect_sound(plan, variants);
  ASSERT_EQ(names_of(plan.upside), std::vector<std::string>{"FuseAddGelu"});
  const PassSpec& spec = plan.upside.passes[0];
  ASSERT_EQ(spec.entries.size(), 3u);
  ASSERT_EQ(spec.entries[1].bindings.size(), 3u);
  EXPECT_FALSE(spec.entries[1].bindings[2].is_tensor);
  EXPECT_EQ(spec.entries[1].bindings[2].literal, Value::integer(16));
  EXPECT_EQ(spec.entries[1].where, "float16/16 graph 0 nodes add..gelu");
}

TEST(Plan, LiteralsWithAMeaningGetAPassEach) {
  std::vector<CapturedVariant> variants;
  for (const char* factor : {"2.0", "3.0"}) {
    variants.push_back(variant_of(std::string("float16/") + factor,
                                  "%x : f16[8,64]{64,1}@0 = placeholder\n"
                                  "%m = call_function operator.mul(%x, " +
                                      std::string(factor) +
                                      ")\n"
                                      "%g = call_function torch.nn.functional.gelu(%m)\noutput ((%g,))\n"));
  }
  const PlanResult plan = plan_sample(variants, h200(), perfect_generator);
  expect_sound(plan, variants);
  EXPECT_EQ(plan.graph_classes, 2u);
  EXPECT_EQ(names_of(plan.upside), (std::vector<std::string>{"FuseMulGelu", "FuseMulGelu2"}));
  // One pattern (the gelu alone) covers both: the floor is one pass.
  EXPECT_EQ(names_of(plan.floor), std::vector<std::string>{"FuseGelu"});
}

TEST(Plan, EqualRegionsAreOnePassWithManyMatches) {
  const std::vector<CapturedVariant> variants = one(R"(%x : f16[8,64]{64,1}@0 = placeholder
%y : f16[8,64]{64,1}@1 = placeholder
%a = call_function torch.sigmoid(%x)
%b = call_function operator.mul(%a, %x)
%c = call_function torch.sigmoid(%y)
%d = call_function operator.mul(%c, %y)
output ((%b, %d))
)");
  const PlanResult plan = plan_sample(variants, h200(), perfect_generator);
  expect_sound(plan, variants);
  EXPECT_EQ(names_of(plan.upside), std::vector<std::string>{"FuseSigmoidMul"});
  EXPECT_EQ(plan.variants[0].upside_matches, 2u);
  EXPECT_EQ(plan.upside.passes[0].entries.size(), 1u);
}

TEST(Plan, APassThatMatchesWhereItCannotRunIsReplaced) {
  // The generator can do sigmoid on [8,64] only; alone its pattern would match the [4,4] one as well. With
  // its reader in the pattern only the meant place is left.
  const std::vector<CapturedVariant> variants = one(R"(%x : f16[8,64]{64,1}@0 = placeholder
%y : f16[4,4]{4,1}@1 = placeholder
%a = call_function torch.sigmoid(%x)
%b = call_function operator.mul(%a, 2.0)
%c = call_function torch.sigmoid(%y)
%d = call_function torch.nn.functional.dropout(%c, 0.1, False, False)
output ((%b, %d))
)");
  const ScheduleOracle oracle = [](const Program& program) {
    ScheduleEstimate estimate = perfect_generator(program);
    if (program.output_metas[0].shape == std::vector<int64_t>{4, 4}) {
      estimate.verdict = Verdict::no("schedule.shape", "not this shape");
    }
    return estimate;
  };
  const PlanResult plan = plan_sample(variants, h200(), oracle);
  expect_sound(plan, variants);
  EXPECT_EQ(names_of(plan.upside).front(), "FuseSigmoidMul");
  for (const PassSpec& spec : plan.upside.passes) EXPECT_NE(spec.name, "FuseSigmoid");
}

TEST(Plan, WithoutAttemptsLeftItDropsWhatIsRefused) {
  // Both sigmoids have the same pattern, one of them has no kernel: without context to add, only the gelu is
  // left.
  const std::vector<CapturedVariant> variants = one(R"(%x : f16[8,64]{64,1}@0 = placeholder
%y : f16[4,4]{4,1}@1 = placeholder
%a = call_function torch.sigmoid(%x)
%c = call_function torch.sigmoid(%y)
%g = call_function torch.nn.functional.gelu(%x)
output ((%a, %c, %g))
)");
  const ScheduleOracle oracle = [](const Program& program) {
    ScheduleEstimate estimate = perfect_generator(program);
    if (program.output_metas[0].shape == std::vector<int64_t>{4, 4}) {
      estimate.verdict = Verdict::no("schedule.shape", "not this shape");
    }
    return estimate;
  };
  PlanOptions options;
  options.attempts = 1;
  const PlanResult plan = plan_sample(variants, h200(), oracle, options);
  EXPECT_EQ(names_of(plan.upside), std::vector<std::string>{"FuseGelu"});
}

TEST(Plan, ProductsCanBeLeftToTheLibrary) {
  const std::vector<CapturedVariant> variants = one(R"(%x : f32[8,64]{64,1}@0 = placeholder
%w : f32[32,64]{64,1}@1 = placeholder
%l = call_function torch.nn.functional.linear(%x, %w, None)
%g = call_function torch.nn.functional.gelu(%l)
output ((%g,))
)");
  EXPECT_EQ(names_of(plan_sample(variants, h200(), perfect_generator).upside),
            std::vector<std::string>{"FuseLinearGelu"});
  EXPECT_EQ(names_of(plan_sample(variants, h200(), perfect_generator).floor),
            std::vector<std::string>{"FuseGelu"});
  PlanOptions options;
  options.products = false;
  const PlanResult plan = plan_sample(variants, h200(), perfect_generator, options);
  expect_sound(plan, variants);
  EXPECT_EQ(names_of(plan.upside), std::vector<std::string>{"FuseGelu"});
}

TEST(Plan, EveryGraphOfAVariantIsMatched) {
  std::vector<CapturedVariant> variants;
  CapturedVariant& variant = variants.emplace_back();
  variant.name = "float16/0";
  variant.graphs.push_back(graph_of(kNormTail));
  variant.graphs.push_back(
      graph_of("%x : f16[8,64]{64,1}@0 = placeholder\n"
               "%g = call_function torch.nn.functional.gelu(%x)\noutput ((%g,))\n"));
  const PlanResult plan = plan_sample(variants, h200(), perfect_generator);
  expect_sound(plan, variants);
  EXPECT_EQ(plan.floor.passes.size(), 2u);
}

TEST(Plan, RegionTable) {
  const PlanResult plan = plan_sample(one(kNormTail), h200(), perfect_generator);
  EXPECT_EQ(
      region_table_text(plan),
      "F.. zero-launch no-op drop | none | 0 kernels, 0 bytes | host 3.9 -> 1.0 us\n"
      "... kernel      cone of drop | perfect | 1 kernel, 2048 bytes | host 3.9 -> 10.1 us | copies a view\n"
      "... kernel      cone of add | perfect | 1 kernel, 3072 bytes | host 14.9 -> 10.4 us\n"
      "... kernel      cone of add without drop | perfect | 1 kernel, 3072 bytes | host 11.0 -> 10.4 us\n"
      ".UC kernel      cone of norm | perfect | 1 kernel, 3328 bytes | host 32.4 -> 11.1 us\n"
      "... kernel      cone of norm without drop | perfect | 1 kernel, 3328 bytes | host 28.5 -> 11.1 us\n"
      "... kernel      cone of norm without drop, add | perfect | 1 kernel, 2304 bytes | host 17.5 -> 10.8 "
      "us\n");
}

TEST(Plan, JsonSaysWhatTheTextSays) {
  const PlanResult plan = plan_sample(one(kNormTail), h200(), flat_generator);
  const Json json = to_json(plan);
  EXPECT_EQ(json["floor"]["passes"][0]["name"], "SkipDropout");
  EXPECT_EQ(json["regions"].size(), plan.regions.size());
  EXPECT_EQ(json["variants"][0]["name"], "float16/0");
  EXPECT_EQ(json["strategy"], plan.strategy);
  EXPECT_FALSE(json["blocked"].empty());
  EXPECT_NE(to_text(plan, true).find("refused: "), std::string::npos);
}

TEST(Explain, ReasonsAreNamedOnce) {
  std::set<std::string_view> codes;
  for (const PlanReason& reason : plan_reasons()) {
    EXPECT_TRUE(codes.insert(reason.code).second) << reason.code;
    EXPECT_FALSE(reason.meaning.empty());
    EXPECT_FALSE(reason.remedy.empty());
  }
}

}  // namespace
}  // namespace passnet
