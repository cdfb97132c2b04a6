#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/index.h"
#include "ops/array_ir.h"

namespace passnet::codegen {

using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;

// What one element of the result is computed from, as a shared graph over iteration variables.
struct ValueNode {
  enum class Kind : uint8_t { kLoad, kConst, kIndex, kCast, kSelect, kCall, kReduce, kDot };
  Kind kind = Kind::kConst;
  DType type = DType::kFloat32;
  Fn fn = Fn::kAdd;              // kCall
  ReduceOp op = ReduceOp::kSum;  // kReduce: folds args[0] over `var`
  VarId var = -1;                // kReduce; kDot: the inner axis as seen by args[0]
  VarId other = -1;              // kDot: the same axis as seen by args[1]
  int32_t buffer = -1;           // kLoad
  IndexId index = kNoIndex;      // kLoad: element offset; kIndex: the number itself
  int64_t int_value = 0;         // kConst
  double value = 0;              // kConst
  std::vector<ValueId> args;     // kLoad: none, or the condition under which it may be read
  bool operator<(const ValueNode& other) const;
};

// A tensor in memory that kernels read: an argument of the region or an intermediate of an earlier kernel.
struct Buffer {
  enum class Kind : uint8_t { kInput, kScratch };
  Kind kind = Kind::kInput;
  int32_t number = 0;  // which input; which array (kScratch)
  std::vector<int64_t> shape;
  std::vector<int64_t> stride;
  DType dtype = DType::kFloat32;
  std::string name;
};

class ValueGraph {
 public:
  explicit ValueGraph(IndexPool& pool) : pool_(pool) {}

  ValueId load(int32_t buffer, DType type, IndexId offset, ValueId condition);
  ValueId integer(int64_t v, DType type);
  ValueId real(double v, DType type);
  ValueId index(IndexId i);
  ValueId cast(ValueId v, DType type);
  ValueId select(ValueId c, ValueId a, ValueId b);
  ValueId call(Fn fn, DType type, std::vector<ValueId> args);
  ValueId reduce(ReduceOp op, DType type, VarId var, ValueId body);
  // Matrix product of a (rows, var) and b (other, columns).
  ValueId dot(VarId var, VarId other, ValueId a, ValueId b);

  const ValueNode& node(ValueId v) const { return nodes_[static_cast<size_t>(v)]; }
  uint64_t deps(ValueId v) const { return deps_[static_cast<size_t>(v)]; }
  size_t size() const { return nodes_.size(); }
  IndexPool& pool() { return pool_; }

  // A word about where a value came from ("mean"), for names in the text.
  void hint(ValueId v, const std::string& word) { hints_.emplace(v, word); }
  const std::string* hint(ValueId v) const;

 private:
  ValueId intern(ValueNode node, uint64_t deps);
  IndexPool& pool_;
  std::vector<ValueNode> nodes_;
  std::vector<uint64_t> deps_;
  std::map<ValueNode, ValueId> interned_;
  std::map<ValueId, std::string> hints_;
};

// How a read of a reduction is carried out in the kernel at hand.
struct ReducePlan {
  enum class How : uint8_t { kUnroll, kOver, kDot };
  How how = How::kUnroll;
  VarId var = -1;    // kOver, kDot: a variable whose extent is the size of the reduction space
  VarId other = -1;  // kDot: a second one for the right factor
  uint64_t rows = 0,
           columns = 0;  // kDot: what the left and only the left factor may depend on, and the right
};

// Substitutes arrays into each other down to loads. `buffers` maps the arrays that are read from memory to their
// buffer; every other array is computed in place. Equal reads at equal indices are computed once.
class Lowering {
 public:
  using Policy = std::function<Result<ReducePlan>(ArrayId, const std::vector<IndexId>& at)>;

  Lowering(const Program& program, ValueGraph& graph, const std::vector<Buffer>& buffers,
           const std::map<ArrayId, int32_t>& in_memory, Policy policy, bool strip_casts = false)
      : program_(program),
        graph_(graph),
        pool_(graph.pool()),
        buffers_(buffers),
        in_memory_(in_memory),
        policy_(std::move(policy)),
        strip_casts_(strip_casts) {}

  // The element of an array at an index.
  Result<ValueId> element(ArrayId array, std::vector<IndexId> at);
  // The same, computed from its expression although the array itself is kept in memory.
  Result<ValueId> definition(ArrayId array, std::vector<IndexId> at);

 private:
  struct Operand {
    IndexId index = kNoIndex;  // an integer of the index algebra, or
    ValueId value = kNoValue;  // anything else
  };
  struct Frame {
    std::vector<IndexId> at, reduce_at;
    std::map<std::pair<ExprId, ValueId>, Operand> memo;
  };

  Result<ValueId> read(ArrayId array, const std::vector<IndexId>& at, ValueId condition);
  Result<ValueId> define(ArrayId array, const std::vector<IndexId>& at, ValueId condition);
  Result<ValueId> reduce(ArrayId array, const std::vector<IndexId>& at, ValueId condition);
  Result<Operand> lower(ExprId e, Frame& frame, ValueId condition);
  Result<Operand> lower_fresh(ExprId e, Frame& frame, ValueId condition);
  Result<Operand> lower_call(const Expr& e, Frame& frame, ValueId condition);
  ValueId value_of(const Operand& o);
  IndexId index_of(const Operand& o);
  Interval range_of(const Operand& o) const;
  bool in_bounds(const std::vector<IndexId>& at, const std::vector<int64_t>& shape) const;
  DType shown(DType type) const;

  const Program& program_;
  ValueGraph& graph_;
  IndexPool& pool_;
  const std::vector<Buffer>& buffers_;
  const std::map<ArrayId, int32_t>& in_memory_;
  Policy policy_;
  bool strip_casts_;
  std::map<std::tuple<ArrayId, std::vector<IndexId>, ValueId>, ValueId> elements_;
  std::map<ValueId, Interval> ranges_;  // of integer values, where known
};

}  // namespace passnet::codegen
