#pragma once

#include <vector>

#include "ops/forms.h"

namespace passnet {

// Which axes of an operand a reduction folds, and the index expressions of operand and result.
class Axes {
 public:
  Axes(std::vector<int64_t> shape, std::vector<bool> folded)
      : shape_(std::move(shape)), folded_(std::move(folded)) {}

  const std::vector<int64_t>& shape() const { return shape_; }
  bool folds(size_t axis) const { return folded_[axis]; }
  std::vector<int64_t> extents() const;  // of the reduction space: the folded axes in order
  std::vector<int64_t> result_shape(bool keep) const;
  int64_t count() const;  // elements folded into one

  // The operand's element at the point of the reduction space, for a result of result_shape(keep).
  std::vector<ExprId> point(Program& p, bool keep) const;
  // From an index of the operand to that of the result_shape(true).
  std::vector<ExprId> kept(Program& p, std::span<const ExprId> at) const;

 private:
  std::vector<int64_t> shape_;
  std::vector<bool> folded_;
};

// From a `dim` argument: None or an empty list folds all axes.
Result<Axes> axes_arg(const Call& call, std::string_view name, const TensorMeta& input);
Axes trailing_axes(const TensorMeta& input, size_t count);

// A reduction of `element` (at axes.point(p, true)) with the folded axes kept as size 1.
ArrayId fold(LowerContext& ctx, const Call& call, const Axes& axes, ReduceOp op, E element,
             std::string_view part);
// An array per element of `like`'s result_shape(true) from expressions at its identity.
ArrayId per_row(LowerContext& ctx, const Call& call, const Axes& axes, E value, std::string_view part);
E read_row(Program& p, ArrayId row, const Axes& axes, std::span<const ExprId> at);

// Mean and biased variance over the folded axes, in the opmath `wide`; both arrays have the kept shape. ATen computes
// them in one pass of Welford's recurrence; two passes give the same up to the rounding of sums.
struct Moments {
  ArrayId mean, variance;
};
using ElementAt = std::function<E(std::span<const ExprId>)>;
Moments moments(LowerContext& ctx, const Call& call, const Axes& axes, const ElementAt& element);

// The operand read at `at`, cast to `type` and widened to its opmath.
E read_wide(Program& p, ArrayId array, std::span<const ExprId> at, DType type);

}  // namespace passnet
