#include <set>

#include <gtest/gtest.h>

#include "ops/example.h"
#include "ops/identities.h"
#include "ops/rows.h"
#include "ops/signature.h"

namespace passnet {
namespace {

std::string text_of(const Diagnostic& d) { return d.code + ": " + d.message; }

// The nodes of an example between its placeholders and its output.
std::vector<NodeId> calls_of(const Graph& graph) {
  std::vector<NodeId> out;
  for (const auto& node : graph.nodes()) {
    if (node->op == NodeOp::kCallFunction || node->op == NodeOp::kCallMethod) out.push_back(node->id);
  }
  return out;
}

TEST(OperatorTable, NamesAreUniqueAndRowsComplete) {
  std::set<std::string_view> names;
  for (const OpRow& row : all_rows()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.spellings.empty()) << row.name;
    EXPECT_FALSE(row.examples.empty()) << row.name;
    EXPECT_NE(row.meta, nullptr) << row.name;
    EXPECT_TRUE(row.lower != nullptr || !row.wall.empty())
        << row.name << " has neither a formula nor a reason";
    for (const Spelling& s : row.spellings) {
      const Result<Signature> signature = parse_signature(s.signature);
      ASSERT_TRUE(signature.ok()) << row.name << ": " << text_of(signature.error());
    }
  }
  EXPECT_GT(names.size(), 100u);
}

// A misspelt target would never be found in a graph.
TEST(OperatorTable, SpelledFunctionsExist) {
  for (const OpRow& row : all_rows()) {
    for (const Spelling& s : row.spellings) {
      if (s.kind != Spelling::Kind::kFunction || s.target.starts_with("torch.ops.")) continue;
      EXPECT_TRUE(is_known_function(s.target)) << row.name << ": " << s.target;
    }
  }
}

// Every spelling of a row is found again by name, whatever other rows share the target.
TEST(OperatorTable, ExamplesResolveToTheirRow) {
  for (const OpRow& row : all_rows()) {
    for (const Example& example : row.examples) {
      const Result<Graph> graph = example_graph(row, example);
      if (!graph.ok() && graph.error().code == "ops.data_dependent_shape") continue;
      ASSERT_TRUE(graph.ok()) << row.name << " `" << example.call << "`: " << text_of(graph.error());
      for (const Diagnostic& d : verify(*graph))
        ADD_FAILURE() << row.name << " `" << example.call << "`: " << text_of(d);
      bool found = false;
      for (const NodeId id : calls_of(*graph)) {
        const Result<Call> call = resolve(*graph, graph->node(id));
        ASSERT_TRUE(call.ok());
        found = found || call->row == &row;
        const OpCost cost = cost_of(*call);
        EXPECT_GT(cost.host_us, 0) << row.name;
        EXPECT_GE(cost.bytes, 0) << row.name;
        EXPECT_GE(cost.kernels, 0) << row.name;
      }
      EXPECT_TRUE(found) << row.name << " `" << example.call << "` resolves to another row";
    }
  }
}

TEST(OperatorTable, AResultThatNoMemoryHoldsIsRefused) {
  Result<Graph> graph = read_graph(
      "%x : f32[1,32,28,28]@0 = placeholder\n%w : f32[64,32,3,3]@1 = placeholder\n"
      "%c = call_function torch.conv2d(%x, %w, None, (1, 1), (999999999999999999, 1), (1, 1), 1)\noutput "
      "((%c,))\n");
  ASSERT_TRUE(graph.ok());
  const Status status = infer(*graph, graph->node(graph->find("c")->id));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, "ops.bad_arguments");
}

TEST(OperatorTable, NumbersThatNoSizeHoldsAreRefused) {
  for (const char* call :
       {"torch.arange(9223372036854775807)", "torch.arange(-9223372036854775807, 9223372036854775807)",
        "torch.arange(9007199254740993, 9007199254740999)", "torch.arange(0, 1000000000000000)",
        "torch.arange(0.0, 1e300)", "torch.arange(0.0, float('inf'))", "torch.arange(float('nan'))",
        "torch.arange(0.0, 1.0, 5e-324)", "torch.nn.functional.interpolate(%x, None, 1e300)",
        "torch.nn.functional.interpolate(%x, None, float('nan'))", "torch.sym_int(1e300)",
        "torch.sym_int(float('inf'))", "torch.reshape(%x, (64, 4611686018427387904))",
        "torch.tile(%x, (64, 4611686018427387904))", "torch.repeat_interleave(%x, 4611686018427387904, 1)",
        "torch.max_pool2d(%x, 4611686018427387904)"}) {
    Result<Graph> graph = read_graph("%x : f32[1,32,28,28]@0 = placeholder\n%c = call_function " +
                                     std::string(call) + "\noutput ((%c,))\n");
    ASSERT_TRUE(graph.ok()) << call << ": " << graph.error().message;
    const Status status = infer(*graph, graph->node(graph->find("c")->id));
    ASSERT_FALSE(status.ok()) << call;
    EXPECT_EQ(status.error().code, "ops.bad_arguments") << call << ": " << status.error().message;
  }
}

TEST(OperatorTable, ExamplesLowerToWellTypedPrograms) {
  int lowered = 0;
  for (const OpRow& row : all_rows()) {
    if (!row.lower) continue;
    bool any = false;
    for (const Example& example : row.examples) {
      const Result<Graph> graph = example_graph(row, example);
      if (!graph.ok()) continue;  // reported above
      const std::vector<NodeId> nodes = calls_of(*graph);
      const Meta& value = graph->node(nodes.back()).meta;
      if (!value.is_tensor() && value.kind != Meta::Kind::kTuple) continue;  // a number
      const Result<Program> program = lower_region(*graph, nodes, nodes.back(), graph->placeholders());
      if (!program.ok()) {
        // A refusal is an answer; a broken formula is not.
        EXPECT_EQ(program.error().kind, DiagnosticKind::kUser)
            << row.name << " `" << example.call << "` on " << example.inputs << ": "
            << text_of(program.error());
        continue;
      }
      any = true;
      ++lowered;
      EXPECT_EQ(program->outputs.size(), value.is_tensor() ? 1u : value.items.size());
    }
    // Pools that return positions share the formula of those that do not, and refuse.
    if (row.name.ends_with("_with_indices")) continue;
    EXPECT_TRUE(any) << row.name << ": none of its examples has a formula";
  }
  EXPECT_GT(lowered, 150);
}

}  // namespace
}  // namespace passnet
