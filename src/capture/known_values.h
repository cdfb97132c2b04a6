#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "capture/folding.h"
#include "ir/graph.h"

namespace passnet {

// Elements of a small tensor of numbers, in row-major order. Integers above 2^53 do not occur: they are given up.
struct KnownTensor {
  std::vector<int64_t> shape;
  DType dtype = DType::kInt64;
  std::vector<double> values;

  std::optional<Value> item() const;  // of a tensor with one element
};
using KnownTensorPtr = std::shared_ptr<const KnownTensor>;

// What the code between two graphs learns of tensors: `.item()`, a shape that a mask decides. Values are computed on
// demand, of inputs whose elements the metadata fixes, through the few operations that lengths and masks are made with
// (comparisons, arithmetic, sums, subscripts); everything else is unknown, and so is what anything was written into.
class KnownValues {
 public:
  explicit KnownValues(const Graph& graph) : graph_(graph) {}

  void fix(NodeId node, KnownTensor value) {
    known_[node] = std::make_shared<const KnownTensor>(std::move(value));
  }
  // Null where it is not known.
  KnownTensorPtr find(NodeId node);
  // Whether it was made of literals alone, one element at a time: torch's fake tensors know such values while dynamo
  // traces.
  bool is_literal(NodeId node) const;

 private:
  KnownTensorPtr compute(const Node& node);
  KnownTensorPtr operand(const Value& v);
  bool written(const Node& node) const;

  const Graph& graph_;
  std::map<NodeId, KnownTensorPtr> known_;
  int depth_ = 0;
};

// The shape of x[index] where index holds one mask of known elements, and its elements where those of x are known
// (`x` may be null). Nothing for other subscripts.
std::optional<KnownTensor> masked_subscript(const std::vector<int64_t>& shape, DType dtype,
                                            const KnownTensor* x, const KnownTensor& mask, int64_t axis);

}  // namespace passnet
