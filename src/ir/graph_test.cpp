#include "ir/graph.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/json.h"

namespace passnet {
namespace {

constexpr std::string_view kText =
    R"(%in_0 : f16[8,64]{64,1}@0 = placeholder
%in_1 : bf16[64]{1}@1+64/cpu = placeholder
%gelu : f16[8,64]{64,1}@2 = call_function torch.nn.functional.gelu(%in_0, approximate='none')
%split : (f16[8,32]{64,1}@2, f16[8,32]{64,1}@2+32) = call_method split(%gelu, [32, 32], dim=1)
%getitem : f16[8,32]{64,1}@2+32 = call_function operator.getitem(%split, 1)
%conv : f32[1,2]{?}@3 = call_function torch.conv2d(%in_0, %in_1, None, (1, 1), 'same')
%item : number(3) = call_method dim(%gelu)
%relu_ : f16[8,32]{64,1}@2+32 = call_method relu_(%getitem) writes [2]
%sub : f16[8]{64}@2 = call_function operator.getitem(%gelu, (slice(None, None, None), 0, ..., None))
%mystery = call_function torch.ops.aten.mystery.default(%gelu, -1e-05, float('inf'), True, torch.float32, torch.device('cuda:0'), torch.contiguous_format, {'a': 1})
output ((%relu_, [%getitem, %conv], None))
)";

TEST(GraphText, RoundTrips) {
  const Result<Graph> graph = read_graph(kText);
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  EXPECT_EQ(print(*graph), kText);
  EXPECT_TRUE(verify(*graph).empty());
  EXPECT_EQ(graph->storages, 4);
}

TEST(GraphText, SaysWhereAndWhat) {
  const Result<Graph> graph = read_graph("%a : f32[2] = placeholder\n%b = call_function torch.add(%a, %c)\n");
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.error().message, "no node named 'c' before this line");
  EXPECT_EQ(graph.error().span.line, 2);
}

TEST(GraphText, RefusesDeepNestingInsteadOfOverflowing) {
  const std::string deep(100000, '[');
  const Result<Graph> graph = read_graph("%b = call_function torch.add(" + deep);
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.error().message, "values are nested more than 200 deep");
}

TEST(GraphJson, RoundTripsNodesArgumentsAndMetadata) {
  const Result<Graph> graph = read_graph(kText);
  ASSERT_TRUE(graph.ok());
  const Json first = to_json(*graph);
  const Result<Graph> again = graph_from_json(first);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(to_json(*again).dump(), first.dump());
  EXPECT_EQ(again->size(), graph->size());
}

TEST(GraphJson, RefusesWhatIsNoGraph) {
  for (const char* text :
       {R"(1)", R"({"nodes": [1]})", R"({"nodes": [{"name": "a", "op": "x", "target": "t"}]})",
        R"({"nodes": [{"name": "a", "op": "call_function", "target": "t", "args": [{"node": "b"}]}]})",
        R"({"nodes": [{"name": "a", "op": "call_function", "target": "t", "args": [{"slice": [1]}]}]})"}) {
    const Result<Graph> graph = graph_from_json(*parse_json(text));
    ASSERT_FALSE(graph.ok()) << text;
    EXPECT_EQ(graph.error().code, "ir.json") << text;
  }
}

TEST(TensorMeta, SizesBeyond64BitsStayAtTheGreatestNumber) {
  TensorMeta meta;
  meta.shape = {1, 64, 2'000'000'000'000'000'024, 28};
  EXPECT_EQ(meta.numel(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(meta.bytes(), std::numeric_limits<int64_t>::max());
  meta.stride = contiguous_strides(meta.shape);
  EXPECT_EQ((*meta.stride)[0], std::numeric_limits<int64_t>::max());
  EXPECT_TRUE(meta.is_contiguous());
  meta.shape.push_back(0);
  EXPECT_EQ(meta.numel(), 0);
}

TEST(Graph, NamesAreUniqueLikeTorchFx) {
  Graph graph;
  Node& x = graph.add(NodeOp::kPlaceholder, "x");
  EXPECT_EQ(graph.add(NodeOp::kCallFunction, "torch.add", {Value::node(x.id)}).name, "add");
  EXPECT_EQ(graph.add(NodeOp::kCallFunction, "operator.add", {Value::node(x.id)}).name, "add_1");
  EXPECT_EQ(graph.add(NodeOp::kCallFunction, "operator.add", {Value::node(x.id)}).name, "add_2");
}

TEST(Graph, UsersAreListedOnceInOrder) {
  const Result<Graph> graph = read_graph(kText);
  ASSERT_TRUE(graph.ok());
  const auto users = graph->users();
  const NodeId gelu = graph->find("gelu")->id;
  std::vector<std::string> names;
  for (const NodeId user : users[static_cast<size_t>(gelu)]) names.push_back(graph->node(user).name);
  EXPECT_EQ(names, (std::vector<std::string>{"split", "item", "sub", "mystery"}));
}

TEST(Verify, StatesEachBrokenRule) {
  Graph graph;
  graph.add(NodeOp::kCallFunction, "torch.add", {Value::node(5)});
  graph.add(NodeOp::kPlaceholder, "late");
  Node& method = graph.add(NodeOp::kCallMethod, "view");
  method.writes = {7};
  std::vector<std::string> messages;
  for (const Diagnostic& d : verify(graph)) messages.push_back(d.message);
  EXPECT_EQ(
      messages,
      (std::vector<std::string>{
          "add (torch.add): arguments name nodes of the same graph",
          "late (late): placeholders come before all other nodes",
          "view (view): a method call has a receiver as first argument and a plain method name as target",
          "view (view): written storages are known to the graph", "a graph ends with its output node"}));
}

TEST(TensorMeta, ContiguityIgnoresAxesOfSizeOne) {
  TensorMeta t;
  t.shape = {1, 8, 1, 4};
  t.stride = std::vector<int64_t>{7, 4, 99, 1};
  EXPECT_TRUE(t.is_contiguous());
  t.stride = std::vector<int64_t>{32, 1, 1, 8};
  EXPECT_FALSE(t.is_contiguous());
  t.stride.reset();
  EXPECT_FALSE(t.is_contiguous());
}

}  // namespace
}  // namespace passnet
