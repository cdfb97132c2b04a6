#include "plan/checklist.h"

#include <gtest/gtest.h>

namespace passnet {
namespace {

Profile profile() {
  Result<Profile> p = builtin_profile("h200");
  EXPECT_TRUE(p.ok());
  return std::move(p).value();
}

Graph graph_of(std::string_view text) {
  Result<Graph> graph = read_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  return std::move(graph).value();
}

constexpr std::string_view kGraph =
    "%a : f32[8,8]@0 = placeholder\n%s : f32[8,8]@1 = call_function torch.sigmoid(%a)\n"
    "%e : f32[8,8]@2 = call_method exp(%s)\n%r : f32[8,8]@3 = call_function torch.nn.functional.relu(%e, "
    "inplace=False)\n"
    "%q : f32[8,8]@4 = call_function torch.nn.functional.relu(%r, False)\n%d : f32[8,8]@5 = call_function "
    "torch.rand_like(%q)\n"
    "%v : f32[8,8]{1,8}@4 = call_method t(%q)\noutput ((%e, %d, %v))\n";

TEST(Checklist, MatchabilityOfEveryForm) {
  const Graph graph = graph_of(kGraph);
  const Profile p = profile();
  const GraphFacts facts(graph, p);
  const auto code = [&](const char* name) { return matchability(facts, *graph.find(name)).code; };
  EXPECT_EQ(code("s"), "yes");
  EXPECT_EQ(code("e"), "yes");
  EXPECT_EQ(code("r"), "graph");  // a keyword of a Python function
  EXPECT_EQ(code("q"), "yes");    // all parameters by position
  EXPECT_EQ(code("d"), "random");
}

std::string answers(const std::vector<ChecklistItem>& items) {
  std::string out;
  for (const ChecklistItem& item : items)
    out += (item.good ? "+" : "-") + std::string(item.id) + ": " + item.answer + "\n";
  return out;
}

TEST(Checklist, ALeakIsNamedWithItsReader) {
  const Graph graph = graph_of(kGraph);
  const Profile p = profile();
  const GraphFacts facts(graph, p);
  const auto id = [&](const char* name) { return graph.find(name)->id; };
  EXPECT_EQ(answers(containment_checklist(facts, {id("s"), id("e"), id("r")}, id("r"))),
            "-one_value: no: r and e\n-contained: no: e is returned\n-no_other_observer: leave e outside, or "
            "split into passes that end there\n"
            "+not_layout: 3 calls compute, 0 are layout\n+no_materialised_view: no view becomes a copy\n"
            "+one_wrapper: let this pass return the dispatch wrapper that all others return\n");
  EXPECT_EQ(
      answers(containment_checklist(facts, {id("s"), id("e")}, id("e"))),
      "+one_value: yes: e\n+contained: yes: what is hidden is read inside only\n+no_other_observer: none\n"
      "+not_layout: 2 calls compute, 0 are layout\n+no_materialised_view: no view becomes a copy\n"
      "+one_wrapper: let this pass return the dispatch wrapper that all others return\n");
}

TEST(Checklist, LiteralsThatDifferAreListedByVariant) {
  std::vector<CapturedVariant> variants;
  for (const char* rows : {"8", "8", "16"}) {
    CapturedVariant& v = variants.emplace_back();
    v.name = "float32/" + std::to_string(variants.size());
    v.graphs.push_back(graph_of("%a : f32[" + std::string(rows) + ",4]@0 = placeholder\n%v : f32[" + rows +
                                ",4]@0 = call_method view(%a, " + rows + ", 4)\noutput ((%v,))\n"));
  }
  const std::vector<DifferingLiteral> found = differing_literals(variants);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].node + " " + found[0].place, "v args[1]");
  EXPECT_EQ(found[0].values, (std::vector<std::pair<std::string, std::string>>{{"8", "float32/1, float32/2"},
                                                                               {"16", "float32/3"}}));
}

}  // namespace
}  // namespace passnet
