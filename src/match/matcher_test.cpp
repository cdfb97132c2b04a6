#include "match/matcher.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace passnet {
namespace {

Graph graph(std::string_view text) {
  Result<Graph> parsed = read_graph(text);
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  return std::move(parsed).value();
}

// "relu=relu_1 x=in_0": the pairs of a match by name.
std::string pairs(const Graph& pattern, const Graph& target, const Match& match) {
  std::string out;
  for (const auto& [p, g] : match.nodes) {
    out += (out.empty() ? "" : " ") + pattern.node(p).name + "=" + target.node(g).name;
  }
  return out;
}

std::vector<std::string> found(const Graph& pattern, const Graph& target) {
  std::vector<std::string> out;
  for (const Match& match : match_all(pattern, target)) out.push_back(pairs(pattern, target, match));
  return out;
}

std::vector<std::string> codes(const Graph& pattern, const Graph& target) {
  std::vector<std::string> out;
  for (const NearMiss& miss : near_misses(pattern, target)) out.push_back(miss.code);
  return out;
}

using Strings = std::vector<std::string>;

constexpr std::string_view kAddRelu = R"(%x = placeholder
%y = placeholder
%add = call_function operator.add(%x, %y)
%relu = call_function torch.relu(%add)
output (%relu)
)";

TEST(Matcher, FindsEveryPlaceInGraphOrder) {
  const Graph target = graph(R"(%a = placeholder
%b = placeholder
%s = call_function operator.add(%a, %b)
%r = call_function torch.relu(%s)
%t = call_function operator.add(%r, %b)
%q = call_function torch.relu(%t)
output ((%q,))
)");
  EXPECT_EQ(found(graph(kAddRelu), target), (Strings{"relu=r add=s x=a y=b", "relu=q add=t x=r y=b"}));
}

TEST(Matcher, TwoPlaceholdersNeverBindOneNode) {
  const Graph target = graph(R"(%a = placeholder
%s = call_function operator.add(%a, %a)
%r = call_function torch.relu(%s)
output ((%r,))
)");
  const Graph pattern = graph(kAddRelu);
  EXPECT_EQ(found(pattern, target), Strings{});
  EXPECT_EQ(codes(pattern, target), Strings{"same_node"});
  const Graph twice = graph(R"(%x = placeholder
%add = call_function operator.add(%x, %x)
%relu = call_function torch.relu(%add)
output (%relu)
)");
  EXPECT_EQ(found(twice, target), Strings{"relu=r add=s x=a"});
}

TEST(Matcher, PlaceholdersBindLiteralsPositionallyAndByKeyword) {
  const Graph pattern = graph(R"(%x = placeholder
%c = placeholder
%d = placeholder
%sum = call_method sum(%x, %c, keepdim=%d)
output (%sum)
)");
  const Graph target = graph(R"(%a = placeholder
%sum = call_method sum(%a, [1, 2], keepdim=True)
output ((%sum,))
)");
  const std::vector<Match> matches = match_all(pattern, target);
  ASSERT_EQ(matches.size(), 1u);
  EXPECT_EQ(matches[0].placeholder_bindings,
            (std::vector<Value>{Value::node(0), Value::list({Value::integer(1), Value::integer(2)}),
                                Value::boolean(true)}));
  EXPECT_EQ(target.node(matches[0].returned).name, "sum");
}

TEST(Matcher, TwoPlaceholdersMayBindEqualLiterals) {
  const Graph pattern = graph(
      "%x = placeholder\n%c = placeholder\n%d = placeholder\n"
      "%v = call_method view(%x, %c, %d)\noutput (%v)\n");
  const Graph target = graph("%a = placeholder\n%v = call_method view(%a, 4, 4)\noutput ((%v,))\n");
  EXPECT_EQ(match_all(pattern, target).size(), 1u);
}

// One placeholder used twice compares its literals with Python's ==, unlike literals of the pattern.
TEST(Matcher, OnePlaceholderTakesEqualLiteralsOfAnyType) {
  const Graph pattern = graph(
      "%x = placeholder\n%c = placeholder\n"
      "%v = call_method view(%x, %c, %c)\noutput (%v)\n");
  EXPECT_EQ(
      match_all(pattern, graph("%a = placeholder\n%v = call_method view(%a, 1, True)\noutput ((%v,))\n"))
          .size(),
      1u);
  EXPECT_EQ(match_all(pattern, graph("%a = placeholder\n%v = call_method view(%a, 1, 1.0)\noutput ((%v,))\n"))
                .size(),
            1u);
  EXPECT_EQ(
      match_all(pattern, graph("%a = placeholder\n%v = call_method view(%a, 1, 2)\noutput ((%v,))\n")).size(),
      0u);
  EXPECT_EQ(
      match_all(pattern, graph("%a = placeholder\n%v = call_method view(%a, [1], (1,))\noutput ((%v,))\n"))
          .size(),
      0u);
}

struct LiteralCase {
  std::string_view pattern, target;
  bool equal;
};

TEST(Matcher, LiteralsNeedEqualTypesAndSequencesDoNot) {
  const LiteralCase cases[] = {
      {"1", "1", true},
      {"1", "1.0", false},
      {"1", "True", false},
      {"0.0", "-0.0", true},
      {"None", "None", true},
      {"None", "False", false},
      {"[1, 2]", "(1, 2)", true},
      {"(1,)", "[1]", true},
      {"[1, [2]]", "(1, (2,))", true},
      {"[1, 2]", "[1, 2, 3]", false},
      {"[1]", "[True]", false},
      {"[1]", "1", false},
      {"'a'", "'a'", true},
      {"'a'", "'b'", false},
      {"torch.float32", "torch.float32", true},
      {"torch.float32", "torch.float16", false},
      {"torch.device('cuda')", "torch.device('cuda:0')", false},
      {"slice(None, 1, None)", "slice(None, 1, None)", true},
      {"slice(None, 1, None)", "slice(None, True, None)", true},  // slices compare with Python's == inside
      {"slice(None, 1, None)", "slice(None, 2, None)", false},
      {"...", "...", true},
      {"float('nan')", "float('nan')", false},
      {"float('inf')", "float('inf')", true},
      {"{'a': [1]}", "{'a': [True]}", true},
      {"{'a': [1]}", "{'a': (1,)}", false},
  };
  for (const LiteralCase& c : cases) {
    const auto text = [](std::string_view literal) {
      return "%x = placeholder\n%v = call_function torch.f(%x, " + std::string(literal) + ")\noutput (%v)\n";
    };
    const Graph pattern = graph(text(c.pattern)), target = graph(text(c.target));
    EXPECT_EQ(match_all(pattern, target).size(), c.equal ? 1u : 0u) << c.pattern << " against " << c.target;
  }
}

TEST(Matcher, SlicesWithNodesNeverMatch) {
  const Graph pattern = graph(
      "%x = placeholder\n%n = placeholder\n"
      "%v = call_function operator.getitem(%x, slice(None, %n, None))\noutput (%v)\n");
  EXPECT_EQ(match_all(pattern, pattern).size(), 0u);
}

TEST(Matcher, KeywordsCountWithTheirOrder) {
  const auto text = [](std::string_view args) {
    return "%x = placeholder\n%v = call_function torch.f(%x, " + std::string(args) + ")\noutput (%v)\n";
  };
  EXPECT_EQ(match_all(graph(text("a=1, b=2")), graph(text("a=1, b=2"))).size(), 1u);
  EXPECT_EQ(match_all(graph(text("a=1, b=2")), graph(text("b=2, a=1"))).size(), 0u);
  EXPECT_EQ(codes(graph(text("1")), graph(text("a=1"))), Strings{"arguments"});
}

TEST(Matcher, MethodsAndFunctionsDiffer) {
  const Graph pattern = graph("%x = placeholder\n%v = call_method relu(%x)\noutput (%v)\n");
  const Graph target = graph("%x = placeholder\n%v = call_function torch.relu(%x)\noutput (%v)\n");
  const std::vector<NearMiss> misses = near_misses(pattern, target);
  ASSERT_EQ(misses.size(), 1u);
  EXPECT_EQ(describe(misses[0], pattern, target),
            "the graph has no node call_method relu, where the pattern ends (v); it has call_function "
            "torch.relu (v)");
}

TEST(Matcher, InnerValuesMayNotBeUsedOutside) {
  const Graph target = graph(R"(%a = placeholder
%b = placeholder
%s = call_function operator.add(%a, %b)
%r = call_function torch.relu(%s)
%s2 = call_function operator.add(%r, %b)
%r2 = call_function torch.relu(%s2)
output ((%r2, %s))
)");
  const Graph pattern = graph(kAddRelu);
  EXPECT_EQ(found(pattern, target),
            Strings{"relu=r2 add=s2 x=r y=b"});  // an uncontained candidate comes first
  const std::vector<NearMiss> misses = near_misses(pattern, target);
  ASSERT_EQ(misses.size(), 1u);
  EXPECT_EQ(describe(misses[0], pattern, target),
            "add (s in the graph) lies inside the pattern, but is also used by output");
}

TEST(Matcher, AReturnedNodeThatIsUsedInsideIsNoAnchor) {
  const Graph target = graph(R"(%a = placeholder
%r = call_function torch.relu(%a)
%e = call_method exp(%r)
output ((%r, %e))
)");
  const Graph both = graph(R"(%x = placeholder
%r = call_function torch.relu(%x)
%e = call_method exp(%r)
output ((%r, %e))
)");
  const std::vector<Match> matches = match_all(both, target);
  ASSERT_EQ(matches.size(), 1u);
  EXPECT_EQ(pairs(both, target, matches[0]), "e=e r=r x=a");
  EXPECT_EQ(matches[0].returning, (std::vector<NodeId>{1, 2}));
}

TEST(Matcher, SeveralAnchorsAreCombined) {
  const Graph pattern = graph(R"(%x = placeholder
%r = call_function torch.relu(%x)
%e = call_method exp(%x)
output ((%r, %e))
)");
  const Graph target = graph(R"(%a = placeholder
%b = placeholder
%r = call_function torch.relu(%a)
%e = call_method exp(%b)
%f = call_method exp(%a)
output ((%r, %e, %f))
)");
  EXPECT_EQ(found(pattern, target), Strings{"r=r x=a e=f"});
  // torch drops an anchor without candidates, and then fails to say what it returned.
  const Graph no_exp = graph("%a = placeholder\n%r = call_function torch.relu(%a)\noutput ((%r,))\n");
  const auto result = find_matches(pattern, no_exp);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, "match.unbound_placeholder");
}

TEST(Matcher, EarlierMatchesWinOverlaps) {
  const Graph pattern = graph(R"(%x = placeholder
%a = call_method exp(%x)
%b = call_method exp(%a)
output (%b)
)");
  const Graph target = graph(R"(%x = placeholder
%e1 = call_method exp(%x)
%e2 = call_method exp(%e1)
%e3 = call_method exp(%e2)
%e4 = call_method exp(%e3)
output ((%e4,))
)");
  EXPECT_EQ(found(pattern, target), (Strings{"b=e2 a=e1 x=x", "b=e4 a=e3 x=e2"}));
  EXPECT_EQ(codes(pattern, target), (Strings{"overlap", "target"}));
}

TEST(Matcher, AMatchThatDependsOnItsOwnResultIsDropped) {
  const Graph pattern = graph(R"(%x = placeholder
%y = placeholder
%r = call_function torch.relu(%x)
%e = call_method exp(%y)
output ((%r, %e))
)");
  const Graph target = graph(R"(%a = placeholder
%r = call_function torch.relu(%a)
%n = call_method neg(%r)
%e = call_method exp(%n)
output ((%e,))
)");
  EXPECT_EQ(found(pattern, target), Strings{});
  EXPECT_EQ(codes(pattern, target), Strings{"cycle"});
}

TEST(Matcher, RefusesDeadCodeAndUnboundParameters) {
  const auto dead = find_matches(
      graph("%x = placeholder\n%d = call_method exp(%x)\n%r = call_method relu(%x)\noutput (%r)\n"), Graph{});
  ASSERT_FALSE(dead.ok());
  EXPECT_EQ(dead.error().code, "match.dead_code");
  const Graph target = graph("%x = placeholder\n%r = call_method relu(%x)\noutput (%r)\n");
  const auto unused = find_matches(
      graph("%x = placeholder\n%y = placeholder\n%r = call_method relu(%x)\noutput (%r)\n"), target);
  ASSERT_FALSE(unused.ok());
  EXPECT_EQ(unused.error().message, "the pattern's y is never reached from what the pattern returns");
}

TEST(Matcher, NearMissesComeNearestFirst) {
  const Graph pattern = graph(R"(%x = placeholder
%w = placeholder
%n = call_function torch.nn.functional.layer_norm(%x, (8,), %w, None, 1e-05)
%r = call_function torch.relu(%n)
output (%r)
)");
  const Graph target = graph(R"(%a = placeholder
%w = placeholder
%g = call_function torch.relu(%a)
%n = call_function torch.nn.functional.layer_norm(%g, (8,), %w, None, 1e-06)
%r = call_function torch.relu(%n)
output ((%r,))
)");
  const std::vector<NearMiss> misses = near_misses(pattern, target);
  ASSERT_EQ(misses.size(), 2u);
  EXPECT_EQ(describe(misses[0], pattern, target), "args[4] of n: the pattern has 1e-05, the graph 1e-06 (n)");
  EXPECT_EQ(
      to_json(misses[0], pattern, target).dump(),
      R"j({"code":"literal","pattern_node":"n","target_node":"n","pattern_line":null,"target_file":null,)j"
      R"j("target_line":null,"field":"args[4]","expected":"1e-05",)j"
      R"j("actual":"1e-06","matched":4,"message":"args[4] of n: the pattern has 1e-05, the graph 1e-06 (n)"})j");
  EXPECT_EQ(describe(misses[1], pattern, target),
            "n of the pattern is call_function torch.nn.functional.layer_norm, the graph has placeholder a "
            "there (a)");
}

}  // namespace
}  // namespace passnet
