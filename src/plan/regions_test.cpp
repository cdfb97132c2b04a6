#include "plan/regions.h"

#include <gtest/gtest.h>

#include "plan/structure.h"
#include "plan/test_graphs.h"

namespace passnet {
namespace {

std::string table_of(std::string_view text, bool ideal = false, const RegionLimits& limits = {}) {
  const Graph graph = graph_of(text);
  const GraphFacts facts(graph, h200());
  std::string out;
  for (const RegionCandidate& candidate : enumerate_regions(facts, limits, ideal).candidates) {
    out += candidate.description;
    if (candidate.copies_view) out += " (copies a view)";
    for (const Refusal& refusal : candidate.verdict.refusals()) out += " !" + refusal.code;
    out += "\n";
  }
  return out;
}

TEST(Regions, WholeConeThenItsTruncations) {
  EXPECT_EQ(table_of(R"(%x : f16[8,64]{64,1}@0 = placeholder
%y : f16[8,64]{64,1}@1 = placeholder
%add = call_function operator.add(%x, %y)
%gelu = call_function torch.nn.functional.gelu(%add)
%mul = call_function operator.mul(%gelu, %x)
output ((%mul,))
)"),
            "cone of add\n"
            "cone of gelu\n"
            "cone of gelu without add\n"
            "cone of mul\n"
            "cone of mul without add\n"
            "cone of mul without add, gelu\n");
}

TEST(Regions, SharedValueIsAnInputOfItsConsumers) {
  // add is returned as well: it ends a region, but is in no other.
  EXPECT_EQ(table_of(R"(%x : f16[8,64]{64,1}@0 = placeholder
%y : f16[8,64]{64,1}@1 = placeholder
%add = call_function operator.add(%x, %y)
%gelu = call_function torch.nn.functional.gelu(%add)
output ((%add, %gelu))
)"),
            "cone of add\n"
            "cone of gelu\n");
}

TEST(Regions, EvalDropoutLaunchesNothing) {
  EXPECT_EQ(table_of(R"(%x : f16[8,64]{64,1}@0 = placeholder
%a = call_function torch.nn.functional.dropout(%x, 0.1, False, False)
%b = call_function torch.nn.functional.dropout(%a, 0.1, False, False)
output ((%b,))
)"),
            "no-op a\n"
            "cone of a (copies a view)\n"
            "no-op a, b\n"
            "no-op b\n"
            "cone of b (copies a view)\n"
            "cone of b without a (copies a view)\n");
}

TEST(Regions, TupleEndsARegionAndItsItemsAreZeroLaunch) {
  EXPECT_EQ(table_of(R"(%x : f16[8,64]{64,1}@0 = placeholder
%relu = call_function torch.nn.functional.relu(%x, inplace=False)
%chunk = call_method chunk(%relu, 2, dim=1)
%first = call_function operator.getitem(%chunk, 0)
%last = call_function operator.getitem(%chunk, -1)
output ((%first, %last))
)"),
            "cone of relu\n"
            "cone of chunk\n"
            "cone of chunk without relu (copies a view)\n"
            "item 0 of chunk\n"
            "cone of first (copies a view) !input_kind\n"
            "item 1 of chunk\n"
            "cone of last (copies a view) !input_kind\n");
}

TEST(Regions, InPlaceCallsOnlyWhereTheirWriteCannotBeSeen) {
  // On a value made inside, or made outside and read by nobody else, it is fine; on an input it is not.
  EXPECT_EQ(table_of(R"(%x : f16[8,64]{64,1}@0 = placeholder
%y : f16[8,64]{64,1}@1 = placeholder
%own = call_function operator.add(%x, %y)
%fine = call_method relu_(%own)
output ((%fine,))
)"),
            "cone of own\n"
            "cone of fine\n"
            "cone of fine without own\n");
  EXPECT_EQ(table_of(R"(%y : f16[8,64]{64,1}@0 = placeholder
%seen = call_method relu_(%y)
output ((%seen,))
)"),
            "cone of seen !visible_write\n");
}

TEST(Regions, ACallDoesNotSinkPastAWriteToWhatItReads) {
  EXPECT_EQ(table_of(R"(%x : f16[8,64]{64,1}@0 = placeholder
%y : f16[8,64]{64,1}@1 = placeholder
%sum = call_function operator.add(%x, %y)
%seen = call_method relu_(%y)
output ((%sum, %seen))
)"),
            "cone of sum !region.read_clobbered\n"
            "cone of seen !visible_write\n");
}

TEST(Regions, AWriteThatAnotherReaderSeesIsAWall) {
  const std::string table = table_of(R"(%x : f16[8,64]{64,1}@0 = placeholder
%y : f16[8,64]{64,1}@1 = placeholder
%own = call_function operator.add(%x, %y)
%view = call_method view(%own, 64, 8)
%written = call_method relu_(%own)
%later = call_function operator.neg(%view)
output ((%written, %later))
)");
  EXPECT_NE(table.find("cone of written !region.write_observed !visible_write"), std::string::npos) << table;
}

TEST(Regions, StaleReadInsideIsRefused) {
  const std::string table = table_of(R"(%x : f16[8,64]{64,1}@0 = placeholder
%y : f16[8,64]{64,1}@1 = placeholder
%own = call_function operator.add(%x, %y)
%written = call_method relu_(%own)
%both = call_function operator.add(%written, %own)
output ((%both,))
)");
  EXPECT_NE(table.find("cone of both !stale_read"), std::string::npos) << table;
}

TEST(Regions, NothingReadsADeadCall) {
  const Graph graph = graph_of(R"(%x : f16[8,64]{64,1}@0 = placeholder
%twice = call_function operator.mul(%x, 2.0)
%dead = call_function operator.mul(%x, 2.0)
output ((%twice,))
)");
  const GraphFacts facts(graph, h200());
  const RegionTable table = enumerate_regions(facts, {});
  ASSERT_EQ(table.candidates.size(), 1u);
  ASSERT_EQ(table.walls.size(), 1u);
  EXPECT_EQ(table.walls[0].code, "dead");
  EXPECT_EQ(table.walls[0].nodes, std::vector<std::string>{"dead"});
}

TEST(Regions, BoundsAreKeptAndSaid) {
  std::string text = "%x : f16[8,64]{64,1}@0 = placeholder\n%y : f16[8,64]{64,1}@1 = placeholder\n";
  text += "%n0 = call_function operator.add(%x, %y)\n";
  for (int i = 1; i < 200; ++i) {
    text += "%n" + std::to_string(i) + " = call_function operator.mul(%n" + std::to_string(i - 1) + ", %y)\n";
  }
  text += "output ((%n199,))\n";
  const Graph graph = graph_of(text);
  const GraphFacts facts(graph, h200());
  RegionLimits limits;
  const RegionTable table = enumerate_regions(facts, limits);
  EXPECT_TRUE(table.capped);
  EXPECT_LE(table.candidates.size(), 200 * limits.per_root_large);
  limits.total = 10;
  EXPECT_LE(enumerate_regions(facts, limits).candidates.size(), 10 + limits.per_root_large);
}

TEST(Structure, SizesThatDifferBecomePlaceholders) {
  const auto text = [](int rows) {
    const std::string n = std::to_string(rows);
    return "%x : f16[" + n + ",64]{64,1}@0 = placeholder\n%y : f16[" + n + ",64]{64,1}@1 = placeholder\n" +
           "%add = call_function operator.add(%x, %y)\n%view = call_method view(%add, 1, -1, " + n + ")\n" +
           "%out = call_function operator.mul(%view, 2)\noutput ((%out,))\n";
  };
  const Graph a = graph_of(text(8)), b = graph_of(text(16));
  std::vector<Instance> instances;
  for (const Graph* graph : {&a, &b}) {
    Instance& instance = instances.emplace_back();
    instance.graph = graph;
    instance.facts = std::make_unique<GraphFacts>(*graph, h200());
  }
  const std::vector<GraphClass> classes = classify(instances);
  ASSERT_EQ(classes.size(), 1u);
  ASSERT_EQ(classes[0].holes.size(), 1u);
  Region region;
  region.nodes = {2, 3, 4};
  region.root = 4;
  region.inputs = {0, 1};
  const Pattern first = slice_pattern(a, region, classes[0].holes),
                second = slice_pattern(b, region, classes[0].holes);
  EXPECT_EQ(first.key, second.key);
  EXPECT_EQ(first.key,
            "placeholder\nplaceholder\nplaceholder\n"
            "call_function operator.add(%0,%1,)\n"
            "call_method view(%3,1,-1,%2,)\n"
            "call_function operator.mul(%4,2,)\n"
            "output output(%5,)\n");
}

TEST(Structure, WhatTheMeaningDependsOnStaysLiteral) {
  // An added number is no size, nor is a subscript: two classes.
  const auto classes_of = [](std::string_view call_a, std::string_view call_b) {
    std::vector<Graph> graphs;
    std::vector<Instance> instances;
    for (std::string_view call : {call_a, call_b}) {
      graphs.push_back(graph_of("%x : f32[8,64]{64,1}@0 = placeholder\n%y = call_function " +
                                std::string(call) + "\noutput ((%y,))\n"));
    }
    for (const Graph& graph : graphs) {
      Instance& instance = instances.emplace_back();
      instance.graph = &graph;
      instance.facts = std::make_unique<GraphFacts>(graph, h200());
    }
    return classify(instances).size();
  };
  EXPECT_EQ(classes_of("operator.add(%x, 1)", "operator.add(%x, 2)"), 2u);
  EXPECT_EQ(classes_of("operator.add(%x, 1)", "operator.add(%x, 1.0)"), 2u);
  EXPECT_EQ(classes_of("operator.getitem(%x, 1)", "operator.getitem(%x, 2)"), 2u);
  EXPECT_EQ(classes_of("operator.add(%x, 1)", "operator.add(%x, 1)"), 1u);
}

}  // namespace
}  // namespace passnet
