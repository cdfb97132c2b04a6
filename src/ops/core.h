#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "ops/array_ir.h"

// One row is the whole operator: its spellings, how arguments are named, metadata, aliasing and mutation, cost, the
// CUDA formula (as a lowering into the array IR, from which reference and kernel are both made) and examples that the
// tests run. Rows are plain data in explicit lists (rows_*.cpp), no registration at static initialisation.

namespace passnet {

enum class OpClass : uint8_t {
  kPointwise,  // one result element from one element of each (broadcast) operand
  kView,       // result shares the operand's storage (or may: reshape, contiguous, to, eval dropout)
  kCopy,       // moves elements: cat, stack, pad, roll, gather-like
  kReduction,  // sum, mean, amax, norm, ...
  kNorm,       // softmax, layer_norm, ...: a reduction and what follows per row
  kTuple,      // getitem on a tuple; chunk, split, unbind are views with tuple results
  kFactory,    // arange, zeros, full, tensor
  kProduct,    // conv, linear, matmul, bmm, SDPA, einsum: anchors, walls unless a schedule exists
  kStencil,    // pooling, interpolate
  kScan,       // cumsum
  kRandom,     // never inside a region
  kOther       // metadata only
};
std::string_view name_of(OpClass cls);

struct OpRow;

// A node seen through its row: arguments by the row's parameter order, defaults filled in.
struct Call {
  const OpRow* row = nullptr;
  const Graph* graph = nullptr;
  const Node* node = nullptr;
  std::vector<Value> args;
  bool in_place = false;  // add_, iadd, relu(inplace=True): the result is the first operand, written

  // By parameter name; aborts on a name the row does not have (a bug in the row, caught by the table's own test).
  const Value& arg(std::string_view name) const;
  // The tensor metadata an argument stands for; null if it is no tensor node.
  const TensorMeta* tensor(std::string_view name) const;
  const TensorMeta* tensor(const Value& v) const;
};

// Result of a metadata rule. Fresh results take storage kFresh and get an id from the caller; views name the operand's.
inline constexpr StorageId kFresh = -2;
struct Inferred {
  Meta meta;
  std::vector<StorageId> writes;  // beyond what in_place implies
};
using MetaFn = Result<Inferred> (*)(const Call&);

class LowerContext {
 public:
  virtual ~LowerContext() = default;
  virtual Program& program() = 0;
  // The array a tensor operand stands for (an input of the region or an inner node's result).
  virtual Result<ArrayId> array(const Value& operand) = 0;
  // The arrays of a tuple-valued operand (chunk, split).
  virtual Result<std::vector<ArrayId>> arrays(const Value& operand) = 0;
};
// One array per tensor of the result (tuples in order). A refusal names why this call cannot be fused.
using LowerFn = Result<std::vector<ArrayId>> (*)(LowerContext&, const Call&);

// What eager pays. Bytes are derived from the metadata of operands and results unless the row says otherwise.
struct OpCost {
  double host_us = 11.0;     // host time of one eager call
  double flops = 0;          // multiply-adds count two
  bool tensor_core = false;  // flops run on the matrix units for 16-bit (tf32 for conv) types
  int kernels = 1;           // launches; 0 for views
  double bytes = -1;         // moved by eager; -1: operands once and results once
};
using CostFn = OpCost (*)(const Call&);

struct Spelling {
  enum class Kind : uint8_t { kFunction, kMethod };
  Kind kind = Kind::kFunction;
  std::string_view target;  // canonical dotted name or method name
  // Python-like parameter list in the row's parameter names: "input, dim=None, keepdim=False, *, dtype=None". A
  // trailing "..." takes the rest of the positional arguments as one tuple, or one sequence ("input, size..."). A "|"
  // gives an alternative keyword: "dim|axis=None". A kind after a colon selects between spellings of one target:
  // "input, other:tensor" and "input, dim:int" (kinds: tensor, tensors, int, ints, number, bool, str, dtype, device).
  // A parameter of the row that a spelling lacks takes the row's default, or None. Parameters of several spellings
  // are matched by name; one whose name starts with "_" is accepted and ignored (_stacklevel).
  std::string_view signature;
  bool in_place =
      false;             // always in place (add_, operator.iadd); an `inplace` parameter is handled by itself
  bool swapped = false;  // operands reversed (__radd__-like spellings)
};

// Source text of a call on the inputs, e.g. {"x=f32[2,3,8], w=f32[8]", "torch.nn.functional.rms_norm(x, (8,), w)"}.
// Inputs: name=dtype[shape] with the array IR's type names, strides in braces behind it ("x=f32[2,3]{1,2}"), or a
// literal ("y=0.1"). An empty call is the first spelling on the inputs in order. Ranges of values are the tests' affair.
struct Example {
  std::string_view inputs;
  std::string_view call;
};

struct OpRow {
  std::string_view name;  // unique: "gelu"
  OpClass cls = OpClass::kOther;
  std::vector<Spelling> spellings;  // parameters of the row are those of the first spelling, in order
  MetaFn meta = nullptr;
  LowerFn lower = nullptr;        // null: never inside a region
  CostFn cost = nullptr;          // null: the class's default
  std::vector<Example> examples;  // at least one
  std::string_view wall = {};     // why it has no lowering, for reports
  // Which of the library's routes runs decides over the strides of the result: those that the metadata says (the
  // operand's, where it is dense), or those of the memory format that aten suggests for the operand.
  bool suggested_layout = false;
};

// Every row, in a fixed order.
std::span<const OpRow> all_rows();

// The row and normalised call of a call_function or call_method node. Errors: "ops.unknown_target",
// "ops.bad_arguments" (names the parameter), "ops.wrong_operand".
Result<Call> resolve(const Graph& graph, const Node& node);

// Computes and stores meta and writes of one node from its operands' metadata; the graph hands out storage ids.
// In-place calls return the first operand's own metadata and write its storage.
Status infer(Graph& graph, Node& node);

// The strides that the node's result may have instead of those of its metadata (OpRow::suggested_layout); none where
// there is no such choice or both are the same.
std::optional<std::vector<int64_t>> other_strides(const Graph& graph, const Node& node);

// Eager's cost of one node, views included.
OpCost cost_of(const Call& call);

// Lowers the nodes of a region (graph order) whose outside operands are `inputs` (tensors, in order) and whose value is
// `root` (a tensor or a tuple of tensors) into one program. Literal arguments are constants of the program.
Result<Program> lower_region(const Graph& graph, std::span<const NodeId> nodes, NodeId root,
                             std::span<const NodeId> inputs);

// Names of the row's parameters, in the order of Call::args.
std::vector<std::string_view> parameters_of(const OpRow& row);

// True if the value of `node` may share memory with an operand's (views, no-op conversions, eval dropout).
bool may_alias_operand(const Call& call);

}  // namespace passnet
