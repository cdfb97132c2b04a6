#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/verdict.h"
#include "ir/graph.h"
#include "ops/core.h"

namespace passnet {

// A set of nodes of one captured graph that becomes one wrapper call.
struct Region {
  enum class Kind : uint8_t {
    kKernel,     // the wrapper computes the value with generated kernels
    kZeroLaunch  // the wrapper returns one of its arguments: eval dropout, no-op contiguous/to/expand, tuple
                 // getitem
  };
  Kind kind = Kind::kKernel;
  std::vector<NodeId> nodes;   // graph order; the last one is not necessarily the root
  NodeId root = kNoNode;       // the one node whose value is used outside
  std::vector<NodeId> inputs;  // outside nodes read (tensors or tuples), in first-use order
};

// One tensor or literal that a placeholder of a pass receives.
struct Binding {
  bool is_tensor = true;
  TensorMeta tensor;                                    // shape, dtype, expected strides
  std::optional<std::vector<int64_t>> captured_stride;  // before other passes gave it another layout
  bool stride_known = true;
  Value literal;
};

// Numbers of one kernel that change its speed and, through the order of sums, last places: what `solve --tune` measures and
// pins. Zero: as the generator chose.
struct KernelConfig {
  std::string schedule;  // what it was made for; a kernel of another schedule leaves it alone
  int num_warps = 0, num_stages = 0;
  int64_t block = 0, rows = 0, cols = 0, inner = 0;
  bool operator==(const KernelConfig&) const = default;
};

// One situation a pass is compiled for: what its placeholders bind in one match on one variant. Entries of
// one pass differ in shapes, dtypes, strides or bound literals.
struct PassEntry {
  std::vector<Binding> bindings;    // by placeholder, in pattern order
  Program program;                  // kKernel: inputs are the tensor placeholders in order
  std::string where;                // "float16/0 graph 0 nodes relu..add", for comments and reports
  std::vector<KernelConfig> tuned;  // by kernel; those beyond its end are as the generator chose
};

// A pass as it will be written: one file, one route of the shared dispatcher.
struct PassSpec {
  std::string name;   // file stem, CamelCase, unique: "FuseAddLayerNorm"
  std::string route;  // snake_case: "add_layer_norm"
  std::string key;    // names the pattern for PlanOptions::refused
  Region::Kind kind = Region::Kind::kKernel;
  Graph pattern;    // placeholders, compute nodes, output; exactly the written forms of the captured graph
  int returns = 0;  // kZeroLaunch: index of the placeholder that is returned (or whose item is: item)
  int item = -1;    // kZeroLaunch tuple getitem: which item
  bool tuple_output = false;  // the root's value is a tuple of tensors
  std::vector<PassEntry> entries;
};

// What the generator says of a program before anything is chosen: whether it can be scheduled, and what a
// launch moves.
struct ScheduleEstimate {
  Verdict verdict;       // refusals name the arrays that have no schedule
  std::string schedule;  // "flat", "tile2d", "row", "segments", ...
  int kernels = 1;
  double read_bytes = 0, write_bytes = 0;  // device memory traffic, repeats included
  double flops = 0;
};
using ScheduleOracle = std::function<ScheduleEstimate(const Program&)>;

}  // namespace passnet
