#include "match/legality.h"

#include <gtest/gtest.h>

namespace passnet {
namespace {

Graph graph(std::string_view text) {
  Result<Graph> parsed = read_graph(text);
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  return std::move(parsed).value();
}

// The region of the nodes named, the last one being the root.
Legality judge(const Graph& g, std::vector<std::string> names, bool returns_argument = false) {
  std::vector<NodeId> nodes;
  for (const std::string& name : names) nodes.push_back(g.find(name)->id);
  const NodeId root = nodes.back();
  std::sort(nodes.begin(), nodes.end());
  return judge_region(g, {nodes, root, returns_argument});
}

std::string text(const Graph& g, std::vector<std::string> names, bool returns_argument = false) {
  return judge(g, std::move(names), returns_argument).verdict.to_text();
}

TEST(Legality, AChainIsLegal) {
  const Graph g = graph(R"(%a : f32[2]@0 = placeholder
%e : f32[2]@1 = call_method exp(%a)
%n : f32[2]@2 = call_method neg(%e)
%s : f32[2]@3 = call_method sin(%n)
output ((%s,))
)");
  const Legality legality = judge(g, {"e", "n"});
  EXPECT_EQ(legality.verdict.to_text(), "ok");
  EXPECT_EQ(g.node(legality.before).name, "s");
  EXPECT_TRUE(legality.notes.empty());
}

TEST(Legality, ContainmentNamesWhoReadsWhat) {
  const Graph g = graph(R"(%a : f32[2]@0 = placeholder
%e : f32[2]@1 = call_method exp(%a)
%n : f32[2]@2 = call_method neg(%e)
%s : f32[2]@3 = call_method sin(%e)
output ((%n, %s))
)");
  EXPECT_EQ(text(g, {"e", "n"}),
            "region.not_contained: e is not the region's value, but is read outside by s (e, s)");
}

TEST(Legality, TheRootsValueIsNotReadInside) {
  const Graph g = graph(R"(%a : f32[2]@0 = placeholder
%e : f32[2]@1 = call_method exp(%a)
%n : f32[2]@2 = call_method neg(%e)
output ((%e,))
)");
  const Legality legality = judge(g, {"n", "e"});
  EXPECT_TRUE(legality.verdict.refused_for("region.root_inside"));
  EXPECT_TRUE(legality.verdict.refused_for("region.dead_node"));
}

TEST(Legality, AValueThatNothingReadsIsNoEnd) {
  const Graph g = graph(R"(%a : f32[2]@0 = placeholder
%e : f32[2]@1 = call_method exp(%a)
output ((%a,))
)");
  EXPECT_EQ(text(g, {"e"}), "region.userless: nothing outside reads e: there is no place for the call (e)");
}

TEST(Legality, NoStoresRandomNumbersOrPlaceholdersInside) {
  const Graph g = graph(R"(%a : f32[2]@0 = placeholder
%b : f32[2]@2 = placeholder
%set : none = call_function operator.setitem(%b, 0, 1) writes [2]
%d : f32[2]@1 = call_function torch.nn.functional.dropout(%a, 0.1, True, False)
%n : f32[2]@2 = call_method neg(%d)
output ((%n,))
)");
  EXPECT_EQ(text(g, {"set", "n"}),
            "region.store: set stores into a subscript: it has no value that a call could replace (set)");
  EXPECT_EQ(text(g, {"d", "n"}), "region.random: d (torch.nn.functional.dropout) draws random numbers (d)");
  EXPECT_TRUE(judge(g, {"a", "d"}).verdict.refused_for("region.node_kind"));
  EXPECT_TRUE(judge_region(g, {{}, kNoNode, false}).verdict.refused_for("region.empty"));
}

TEST(Legality, RandomnessIsReadFromTheSwitch) {
  const Graph g = graph(R"(%a : f32[2]@0 = placeholder
%eval = call_function torch.nn.functional.dropout(%a, 0.1, False, False)
%kw = call_function torch.nn.functional.dropout(%a, p=0.1, training=False)
%left_out = call_function torch.nn.functional.dropout(%a, 0.1)
%bound = call_function torch.nn.functional.dropout(%a, 0.1, %a)
%alpha = call_function torch.nn.functional.alpha_dropout(%a, 0.1)
%rand = call_function torch.rand(2)
%bern = call_method bernoulli_(%a, 0.5)
%att = call_function torch.nn.functional.scaled_dot_product_attention(%a, %a, %a, dropout_p=0.0)
%att1 = call_function torch.nn.functional.scaled_dot_product_attention(%a, %a, %a, None, 0.1)
output ((%a,))
)");
  std::string random;
  for (const auto& node : g.nodes()) random += is_random(*node) ? node->name + " " : "";
  EXPECT_EQ(random, "left_out bound rand bern att1 ");
}

constexpr std::string_view kMutation = R"(%a : f32[2]@0 = placeholder
%b : f32[2]@1 = placeholder
%before : f32[2]@0 = call_method add_(%a, 1) writes [0]
%v : f32[2]@0 = call_method view(%a, 2)
%e : f32[2]@2 = call_method exp(%v)
%other : f32[2]@1 = call_method add_(%b, 1) writes [1]
%n : f32[2]@3 = call_method neg(%e)
%inside : f32[2]@0 = call_method mul_(%v, 2) writes [0]
%s : f32[2]@4 = call_method sin(%n)
%after : f32[2]@0 = call_method add_(%a, 1) writes [0]
output ((%s, %a, %b, %before, %other, %inside, %after))
)";

TEST(Legality, WritesBeforeAndAfterDoNotMatter) {
  const Graph g = graph(kMutation);
  EXPECT_EQ(text(g, {"e"}), "ok");       // `before` comes before its first node, `other` is other memory
  EXPECT_EQ(text(g, {"n", "s"}), "ok");  // reads only what nobody else has
}

TEST(Legality, WritesBetweenTheReadAndTheCallRefuse) {
  const Graph g = graph(kMutation);
  // The call sinks to just before sin, past mul_ on a view of what exp reads.
  EXPECT_EQ(
      text(g, {"e", "n"}),
      "region.read_clobbered: inside writes memory that e may read, before s, where the call would stand "
      "(inside, e)");
}

TEST(Legality, ANodeWithoutMetadataMayWriteAnything) {
  const Graph g = graph(R"(%a : f32[2]@0 = placeholder
%m = call_function torch.mystery(%a)
%e : f32[2]@1 = call_method exp(%a)
%w = call_method mul_(%m, 2)
%s : f32[2]@2 = call_method sin(%e)
output ((%s, %w))
)");
  EXPECT_EQ(
      text(g, {"e"}),
      "region.read_clobbered: w writes memory that e may read, before s, where the call would stand (w, e)");
}

TEST(Legality, AStoreBetweenRefusesToo) {
  const Graph g = graph(R"(%a : f32[2]@0 = placeholder
%e : f32[2]@1 = call_method exp(%a)
%w : none = call_function operator.setitem(%a, 0, 1) writes [0]
%s : f32[2]@2 = call_method sin(%e)
output ((%s,))
)");
  EXPECT_TRUE(judge(g, {"e"}).verdict.refused_for("region.read_clobbered"));
}

constexpr std::string_view kWrite = R"(%a : f32[2]@0 = placeholder
%b : f32[2]@1 = placeholder
%r : f32[2]@0 = call_method relu_(%a) writes [0]
%e : f32[2]@2 = call_method exp(%r)
%x : f32[2]@3 = call_method neg(%b)
%s : f32[2]@4 = call_method sin(%e)
output ((%s, %x))
)";

TEST(Legality, AVisibleWriteMustBePerformed) {
  const Graph g = graph(kWrite);
  const Legality legality = judge(g, {"r", "e"});
  EXPECT_EQ(legality.verdict.to_text(), "ok");
  EXPECT_EQ(legality.must_write, std::vector<StorageId>{0});
  ASSERT_EQ(legality.notes.size(), 1u);
  EXPECT_EQ(legality.notes[0].message,
            "r writes memory visible outside: the call must perform the same write");
}

TEST(Legality, NobodyMayTouchAVisibleWriteOnItsWay) {
  std::string changed(kWrite);
  changed.replace(changed.find("neg(%b)"), 7, "neg(%a)");
  EXPECT_EQ(
      text(graph(changed), {"r", "e"}),
      "region.write_observed: x touches memory that r writes, before s, where the call would stand (x, r)");
}

TEST(Legality, AWriteToTheRegionsOwnMemoryIsNobodysBusiness) {
  const Graph g = graph(R"(%a : f32[2]@0 = placeholder
%c : f32[2]@1 = call_method exp(%a)
%r : f32[2]@1 = call_method relu_(%c) writes [1]
%s : f32[2]@1 = call_method mul_(%r, 2) writes [1]
output ((%s,))
)");
  const Legality whole = judge(g, {"c", "r"});
  EXPECT_EQ(whole.verdict.to_text(), "ok");
  EXPECT_TRUE(whole.must_write.empty());
  EXPECT_TRUE(whole.notes.empty());
  // Without the producer the write is visible, and the value goes on being the producer's memory.
  const Legality tail = judge(g, {"r"});
  EXPECT_EQ(tail.must_write, std::vector<StorageId>{1});
}

TEST(Legality, AReturnedViewIsANoteUntilSomebodyWrites) {
  const Graph quiet = graph(R"(%a : f32[2,2]@0 = placeholder
%t : f32[2,2]{1,2}@0 = call_method transpose(%a, 0, 1)
%s : f32[2,2]@1 = call_method sin(%t)
output ((%s, %t))
)");
  const Legality legality = judge(quiet, {"t"});
  EXPECT_EQ(legality.verdict.to_text(), "ok");
  ASSERT_EQ(legality.notes.size(), 1u);
  EXPECT_EQ(legality.notes[0].code, "region.returns_view");
  const Graph written = graph(R"(%a : f32[2,2]@0 = placeholder
%t : f32[2,2]{1,2}@0 = call_method transpose(%a, 0, 1)
%s : f32[2,2]@1 = call_method sin(%t)
%w : f32[2,2]@0 = call_method mul_(%a, 2) writes [0]
output ((%s, %t, %w))
)");
  EXPECT_EQ(
      text(written, {"t"}),
      "region.alias_broken: t shares memory with a value outside, and w writes it: a copy would not see that "
      "(t, w)");
  EXPECT_EQ(text(written, {"t"}, true), "ok");  // a call that returns its argument keeps sharing
}

TEST(Legality, TuplesShareTheMemoryOfAllTheirItems) {
  const Graph g = graph(R"(%a : f32[2,2]@0 = placeholder
%c : (f32[2,1]{2,1}@0, f32[2,1]{2,1}@0+1) = call_method chunk(%a, 2, 1)
%w : f32[2,2]@0 = call_method mul_(%a, 2) writes [0]
%g : f32[2,1]{2,1}@0 = call_function operator.getitem(%c, 0)
%s : f32[2,1]@1 = call_method sin(%g)
output ((%s, %w))
)");
  const Legality legality = judge(g, {"c", "g"});
  EXPECT_TRUE(legality.verdict.refused_for("region.read_clobbered"));
}

}  // namespace
}  // namespace passnet
