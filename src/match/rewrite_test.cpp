#include "match/rewrite.h"

#include <gtest/gtest.h>

namespace passnet {
namespace {

Graph graph(std::string_view text) {
  Result<Graph> parsed = read_graph(text);
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  return std::move(parsed).value();
}

constexpr std::string_view kAddRelu = R"(%x = placeholder
%y = placeholder
%add = call_function operator.add(%x, %y)
%relu = call_function torch.relu(%add)
output (%relu)
)";

TEST(Rewrite, PutsTheCallBeforeTheFirstUser) {
  const Graph pattern = graph(kAddRelu);
  const Graph target = graph(R"(%a = placeholder
%b = placeholder
%s = call_function operator.add(%a, %b)
%r = call_function torch.relu(%s)
%other = call_method exp(%b)
%t = call_function operator.add(%r, %other)
%q = call_function torch.relu(%t)
output ((%q, %r))
)");
  const Result<PassResult> result = apply_pass(target, pattern, rule_with_route(pattern, "add_relu"));
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(print(result->graph), R"(%a = placeholder
%b = placeholder
%other = call_method exp(%b)
%dispatch_wrapper = call_function dispatch_wrapper(%a, %b, 'add_relu')
%dispatch_wrapper_1 = call_function dispatch_wrapper(%dispatch_wrapper, %other, 'add_relu')
output ((%dispatch_wrapper_1, %dispatch_wrapper))
)");
  EXPECT_TRUE(verify(result->graph).empty());
  ASSERT_EQ(result->replaced.size(), 2u);
  EXPECT_EQ(result->replaced[0].wrapper, 3);
  EXPECT_EQ(result->replaced[1].wrapper, 4);
  EXPECT_EQ(result->replaced[1].covered, (std::vector<NodeId>{5, 6}));
  EXPECT_EQ(result->origin, (std::vector<NodeId>{0, 1, 4, kNoNode, kNoNode, 7}));
}

TEST(Rewrite, KeepsGetitemsAndNamesOfAnEarlierPass) {
  const Graph pattern =
      graph("%x = placeholder\n%n = placeholder\n%c = call_method chunk(%x, %n, dim=1)\noutput (%c)\n");
  const Graph target = graph(R"(%a : f32[2,4]@0 = placeholder
%dispatch_wrapper : f32[2,4]@1 = call_function dispatch_wrapper(%a, 'first')
%chunk : (f32[2,2]{4,1}@1, f32[2,2]{4,1}@1) = call_method chunk(%dispatch_wrapper, 2, dim=1)
%g0 = call_function operator.getitem(%chunk, 0)
%g1 = call_function operator.getitem(%chunk, 1)
output ((%g0, %g1))
)");
  RewriteRule rule = rule_with_route(pattern, "chunk");
  rule.arguments = {Value::node(1), Value::tuple({Value::node(0)}), Value::string("chunk")};
  const Result<PassResult> result = apply_pass(target, pattern, rule);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(print(result->graph), R"(%a : f32[2,4]{4,1}@0 = placeholder
%dispatch_wrapper : f32[2,4]{4,1}@1 = call_function dispatch_wrapper(%a, 'first')
%dispatch_wrapper_1 : (f32[2,2]{4,1}@1, f32[2,2]{4,1}@1) = call_function dispatch_wrapper(2, (%dispatch_wrapper,), 'chunk')
%g0 = call_function operator.getitem(%dispatch_wrapper_1, 0)
%g1 = call_function operator.getitem(%dispatch_wrapper_1, 1)
output ((%g0, %g1))
)");
}

TEST(Rewrite, TheCallWritesWhatItsNodesWrote) {
  const Graph pattern = graph("%x = placeholder\n%r = call_method relu_(%x)\noutput (%r)\n");
  const Graph target = graph(R"(%a : f32[2]@0 = placeholder
%r : f32[2]@0 = call_method relu_(%a) writes [0]
output ((%r,))
)");
  const Result<PassResult> result = apply_pass(target, pattern, rule_with_route(pattern, "r"));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->graph.node(1).writes, std::vector<StorageId>{0});
  EXPECT_TRUE(result->replaced[0].legality.verdict.ok());
  EXPECT_EQ(result->replaced[0].legality.must_write, std::vector<StorageId>{0});
}

TEST(Rewrite, NoMatchLeavesTheGraph) {
  const Graph pattern = graph(kAddRelu);
  const Graph target = graph("%a = placeholder\n%e = call_method exp(%a)\noutput ((%e,))\n");
  const Result<PassResult> result = apply_pass(target, pattern, rule_with_route(pattern, "r"));
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->replaced.empty());
  EXPECT_EQ(print(result->graph), print(target));
}

std::string error_of(const Graph& target, const Graph& pattern, const RewriteRule& rule) {
  const Result<PassResult> result = apply_pass(target, pattern, rule);
  return result.ok() ? "ok" : result.error().code;
}

TEST(Rewrite, ErrorsAreValues) {
  const Graph pattern = graph(kAddRelu);
  const Graph dead = graph(R"(%a = placeholder
%b = placeholder
%s = call_function operator.add(%a, %b)
%r = call_function torch.relu(%s)
output ((%a,))
)");
  EXPECT_EQ(error_of(dead, pattern, rule_with_route(pattern, "r")), "rewrite.no_users");

  const Graph live = graph(R"(%a = placeholder
%b = placeholder
%s = call_function operator.add(%a, %b)
%r = call_function torch.relu(%s)
output ((%r,))
)");
  RewriteRule rule = rule_with_route(pattern, "r");
  rule.parameters = 1;
  EXPECT_EQ(error_of(live, pattern, rule), "rewrite.parameter_count");
  rule = rule_with_route(pattern, "r");
  rule.arguments = {Value::node(2)};
  EXPECT_EQ(error_of(live, pattern, rule), "rewrite.bad_argument");

  const Graph two = graph(R"(%x = placeholder
%r = call_function torch.relu(%x)
%e = call_method exp(%x)
output ((%r, %e))
)");
  EXPECT_EQ(error_of(graph("%a = placeholder\n%r = call_function torch.relu(%a)\n%e = call_method exp(%a)\n"
                           "output ((%r, %e))\n"),
                     two, rule_with_route(two, "r")),
            "rewrite.several_outputs");
  const Graph identity = graph("%x = placeholder\noutput (%x)\n");
  EXPECT_EQ(error_of(live, identity, rule_with_route(identity, "r")), "rewrite.returns_placeholder");
  const Graph store = graph(R"(%x = placeholder
%s = call_function operator.setitem(%x, 0, 1)
%r = call_function torch.relu(%x)
output (%r)
)");
  EXPECT_EQ(error_of(graph("%a = placeholder\n%s = call_function operator.setitem(%a, 0, 1)\n"
                           "%r = call_function torch.relu(%a)\noutput ((%r,))\n"),
                     store, rule_with_route(store, "r")),
            "rewrite.unmatched_node");
}

// Found by the differential test: torch updates bindings that are nodes, but not containers of nodes.
TEST(Rewrite, AContainerOfAReplacedValueIsRefused) {
  const Graph pattern = graph(
      "%x = placeholder\n%y = placeholder\n%a = call_function operator.add(%x, %y)\n"
      "output (%a)\n");
  const Graph target = graph(R"(%a = placeholder
%b = placeholder
%c = call_function operator.add(%a, 1)
%d = call_function operator.add(%b, slice(None, %c, None))
output ((%d,))
)");
  const Result<PassResult> result = apply_pass(target, pattern, rule_with_route(pattern, "r"));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message,
            "a parameter binds a list, tuple or slice that holds c, which an earlier match of the same pass "
            "replaces; "
            "torch.fx leaves it pointing at the node that is gone");
}

// The first pass moves its call down to the first user of what it returns; what the second one may do depends
// on it.
TEST(Rewrite, LegalityIsJudgedInTheGraphOfItsTurn) {
  const Graph target = graph(R"(%a : f32[2]@0 = placeholder
%b : f32[2]@1 = placeholder
%e : f32[2]@2 = call_method exp(%a)
%n : f32[2]@3 = call_method neg(%e)
%w : f32[2]@0 = call_method add_(%a, 1) writes [0]
%s : f32[2]@4 = call_method add(%n, %w)
output ((%s, %w))
)");
  const Graph exp = graph("%x = placeholder\n%e = call_method exp(%x)\noutput (%e)\n");
  const Graph neg = graph("%x = placeholder\n%n = call_method neg(%x)\noutput (%n)\n");
  const Result<PassResult> first = apply_pass(target, exp, rule_with_route(exp, "exp"));
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(first->replaced[0].legality.verdict.ok()) << first->replaced[0].legality.verdict.to_text();

  const Result<PassResult> moved = apply_pass(target, neg, rule_with_route(neg, "neg"));
  ASSERT_TRUE(moved.ok());
  EXPECT_TRUE(moved->replaced[0].legality.verdict.ok()) << moved->replaced[0].legality.verdict.to_text();
  const Result<PassResult> second = apply_pass(moved->graph, exp, rule_with_route(exp, "exp"));
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(second->replaced[0].legality.verdict.refused_for("region.read_clobbered"));
}

}  // namespace
}  // namespace passnet
