#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "base/json_fwd.h"
#include "base/result.h"
#include "ir/value.h"

namespace passnet {

// Identity of a piece of memory within one graph: two tensors may share bytes only if the ids are equal, or if
// both are inputs (unrelated by default). Ids are dense from 0.
using StorageId = int32_t;
inline constexpr StorageId kNoStorage = -1;

// Shape in elements, strides in elements (absent where a library chooses them: conv, SDPA), offset in elements.
struct TensorMeta {
  std::vector<int64_t> shape;
  DType dtype = DType::kFloat32;
  std::optional<std::vector<int64_t>> stride;
  int64_t offset = 0;
  StorageId storage = kNoStorage;
  std::string device = "cuda:0";

  int64_t numel() const;
  int dim() const { return static_cast<int>(shape.size()); }
  int64_t bytes() const;
  bool is_contiguous() const;  // false where strides are unknown
};

// Sizes that a graph computes may be anything; beyond 64 bits they stay at the greatest, or least, number.
int64_t saturating_product(int64_t a, int64_t b);
int64_t elements_of(const std::vector<int64_t>& shape);
// Empty extents counted as 1: no product of some of the extents is greater.
int64_t span_of(const std::vector<int64_t>& shape);

// Of one tensor, an input or computed, empty extents counted as 1: beyond it sizes and offsets no longer fit 64 bits everywhere.
inline constexpr int64_t kMostElements = int64_t{1} << 48;

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& shape);
// Whether both stand for one layout of `shape`: the stride of an axis of extent 1 says nothing.
bool same_strides(const std::vector<int64_t>& shape, const std::vector<int64_t>& a,
                  const std::vector<int64_t>& b);

// What a node evaluates to.
struct Meta {
  enum class Kind : uint8_t { kUnknown, kTensor, kTuple, kScalar, kNone };
  Kind kind = Kind::kUnknown;
  TensorMeta tensor;        // kTensor
  std::vector<Meta> items;  // kTuple (lists too)
  Value scalar;             // kScalar: a Python number known at capture time

  static Meta unknown() { return {}; }
  static Meta of(TensorMeta t);
  static Meta tuple(std::vector<Meta> items);
  static Meta number(Value v);
  static Meta none();
  bool is_tensor() const { return kind == Kind::kTensor; }
};

enum class NodeOp : uint8_t { kPlaceholder, kCallFunction, kCallMethod, kGetAttr, kOutput };
std::string_view name_of(NodeOp op);  // torch.fx's names: "call_function", ...

struct Node {
  NodeId id = kNoNode;
  NodeOp op = NodeOp::kPlaceholder;
  std::string name;    // unique in the graph
  std::string target;  // canonical dotted name for functions ("torch.nn.functional.gelu", "_operator" ones as
      // "operator.add"), the method's name for methods, the parameter's name for placeholders
  std::vector<Value> args;
  std::vector<std::pair<std::string, Value>> kwargs;
  Meta meta;
  std::vector<StorageId> writes;  // storages this node writes (in-place results, subscript stores)
  Span span;                      // where model.py or the pass file says it; line 0 if nowhere
  std::optional<double>
      magnitude;  // of a placeholder: root mean square of its elements as the sample draws them

  const Value* kwarg(std::string_view key) const;
};

// One FX graph as a dynamo backend receives it: nodes in execution order, the single output node last.
class Graph {
 public:
  Node& add(NodeOp op, std::string target, std::vector<Value> args = {},
            std::vector<std::pair<std::string, Value>> kwargs = {}, std::string name_hint = {});

  const std::vector<std::unique_ptr<Node>>& nodes() const { return nodes_; }
  Node& node(NodeId id) { return *nodes_[static_cast<size_t>(id)]; }
  const Node& node(NodeId id) const { return *nodes_[static_cast<size_t>(id)]; }
  size_t size() const { return nodes_.size(); }
  const Node* find(std::string_view name) const;
  const Node* output() const;
  std::vector<NodeId> placeholders() const;
  // Ids of nodes read by `id`, in argument order, each once (torch.fx's all_input_nodes).
  std::vector<NodeId> inputs_of(NodeId id) const;
  // users()[id]: nodes that read it, in graph order, each once.
  std::vector<std::vector<NodeId>> users() const;
  // Position in execution order equals the id: nodes are only ever appended; rewriting makes a new graph.

  std::string file;  // where it was captured from, for diagnostics
  int storages = 0;  // number of storage ids handed out

  Graph() = default;
  Graph(Graph&&) = default;
  Graph& operator=(Graph&&) = default;
  Graph clone() const;

 private:
  std::vector<std::unique_ptr<Node>> nodes_;
  std::unordered_map<std::string, NodeId> names_;
  std::unordered_map<std::string, int> next_suffix_;
};

// One line a node: `%gelu : f16[8,64]{512,8,1} = call_function torch.nn.functional.gelu(%in_0, approximate='none')`.
std::string print(const Graph& graph);
// Reads what print() prints; for tests and golden files.
Result<Graph> read_graph(std::string_view text);
// The `graphs` element of `passnet capture --json`.
Json to_json(const Graph& graph);
Result<Graph> graph_from_json(const Json& json);

// The specification of a well-formed graph; every broken rule is one diagnostic whose message states the rule.
std::vector<Diagnostic> verify(const Graph& graph);

}  // namespace passnet
