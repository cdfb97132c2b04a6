#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "ops/array_ir.h"

// Shapes and strides of views as ATen computes them, and the same views as index maps of the array IR.

namespace passnet {

// Strides that make `shape` a view of a tensor of (`old_shape`, `old_stride`); none if only a copy can
// (aten's computeStride).
std::optional<std::vector<int64_t>> reshape_strides(const std::vector<int64_t>& old_shape,
                                                    const std::vector<int64_t>& old_stride,
                                                    const std::vector<int64_t>& shape);

// channels_last for rank 4, channels_last_3d for rank 5.
std::vector<int64_t> channels_last_strides(const std::vector<int64_t>& shape);
// Whether a tensor counts as contiguous in channels_last (strides of size-1 axes are free).
bool is_channels_last(const std::vector<int64_t>& shape, const std::vector<int64_t>& stride);
// Whether aten's suggest_memory_format() answers channels_last for these strides.
bool suggests_channels_last(const std::vector<int64_t>& shape, const std::vector<int64_t>& stride);
bool is_non_overlapping_and_dense(const std::vector<int64_t>& shape, const std::vector<int64_t>& stride);
// Strides of empty_like(preserve_format): the tensor's own where it is dense, else dense ones in the same
// order.
std::vector<int64_t> preserved_strides(const std::vector<int64_t>& shape, const std::vector<int64_t>& stride);
std::optional<std::vector<int64_t>> preserved_strides(const TensorMeta& like);
// Dense strides for `shape` with the axes nested as in `stride` (TensorIterator's order), or as in the first
// of several operands that tells two axes apart.
std::vector<int64_t> dense_strides_in_order(const std::vector<int64_t>& shape,
                                            const std::vector<int64_t>& stride);
std::vector<int64_t> dense_strides_in_order(const std::vector<int64_t>& shape,
                                            std::span<const std::vector<int64_t>> operands);
// Strides of a fresh result of `shape` in the memory format that `like` suggests (pools, pad, interpolate);
// none where the operand's strides are unknown and the rank leaves a choice.
std::optional<std::vector<int64_t>> suggested_strides(const TensorMeta& like,
                                                      const std::vector<int64_t>& shape);

// Contiguous strides, or none where the operand suggests channels_last (or may) and only the kernel says what
// becomes of it.
std::optional<std::vector<int64_t>> plain_strides(const TensorMeta& like, const std::vector<int64_t>& shape);

// How a kernel's own memory for a value is laid out. Axes from slowest to fastest where the value's strides are those of a
// dense tensor, else the given order.
std::vector<int> storage_order(const TensorMeta& meta);
// Strides in that order.
std::vector<int64_t> stored_strides(const TensorMeta& meta);

// A strided view under construction: a sequence of aten's view primitives on one tensor. Keeps shape, strides
// and offset as aten gives them, and for every axis which source axes it walks and how far. Arguments are
// checked by the caller: axes in range, slices clamped.
class View {
 public:
  explicit View(const TensorMeta& source);

  const std::vector<int64_t>& shape() const { return meta_.shape; }
  int rank() const { return meta_.dim(); }

  void select(int axis, int64_t index);
  void slice(int axis, int64_t start, int64_t length, int64_t step);
  void unsqueeze(int axis);
  void squeeze(int axis);  // nothing unless the axis has size 1
  void permute(std::span<const int64_t> axes);
  void transpose(int a, int b);
  // Sizes as given to Tensor.expand with -1 resolved; leading axes are new.
  void expand(const std::vector<int64_t>& shape);
  void diagonal(int64_t offset, int axis1, int axis2);
  void unfold(int axis, int64_t size, int64_t step);

  // Shares the source's storage.
  const TensorMeta& meta() const { return meta_; }
  // The source's index for the view's element `at`.
  std::vector<ExprId> map(Program& p, std::span<const ExprId> at) const;

 private:
  struct Walk {
    int source;
    int64_t step;
  };
  struct Axis {
    std::vector<Walk> walks;  // empty: broadcast or new
  };
  void advance(const Axis& axis, int64_t by);

  TensorMeta meta_;
  std::vector<Axis> axes_;
  std::vector<int64_t> base_;  // per source axis
};

// e + v, e * v on int64 expressions.
ExprId index_add(Program& p, ExprId e, int64_t v);
ExprId index_mul(Program& p, ExprId e, int64_t v);

}  // namespace passnet
