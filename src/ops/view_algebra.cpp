#include "ops/view_algebra.h"

#include <algorithm>
#include <numeric>

namespace passnet {

namespace {

int64_t product(const std::vector<int64_t>& v) {
  return std::accumulate(v.begin(), v.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

std::vector<int> storage_order(const TensorMeta& meta) {
  std::vector<int> order(meta.shape.size());
  std::iota(order.begin(), order.end(), 0);
  if (!meta.stride) return order;
  const auto& stride = *meta.stride;
  // Axes of extent 1 may have any stride: they stand first.
  std::vector<int> sorted;
  for (const int axis : order) {
    if (meta.shape[static_cast<size_t>(axis)] == 1) sorted.push_back(axis);
  }
  const auto ones = static_cast<ptrdiff_t>(sorted.size());
  for (const int axis : order) {
    if (meta.shape[static_cast<size_t>(axis)] != 1) sorted.push_back(axis);
  }
  std::stable_sort(sorted.begin() + ones, sorted.end(), [&](int a, int b) {
    return stride[static_cast<size_t>(a)] > stride[static_cast<size_t>(b)];
  });
  int64_t expected = 1;
  for (size_t k = sorted.size(); k-- > 0;) {
    const auto axis = static_cast<size_t>(sorted[k]);
    if (meta.shape[axis] == 1) continue;
    if (stride[axis] != expected) return order;
    expected *= meta.shape[axis];
  }
  // A contiguous tensor keeps the order of its axes.
  return std::is_sorted(sorted.begin() + ones, sorted.end()) ? order : sorted;
}

std::vector<int64_t> stored_strides(const TensorMeta& meta) {
  std::vector<int64_t> stride(meta.shape.size());
  const std::vector<int> order = storage_order(meta);
  int64_t step = 1;
  for (size_t k = order.size(); k-- > 0;) {
    const auto axis = static_cast<size_t>(order[k]);
    stride[axis] = step;
    step *= std::max<int64_t>(meta.shape[axis], 1);
  }
  return stride;
}

std::optional<std::vector<int64_t>> reshape_strides(const std::vector<int64_t>& old_shape,
                                                    const std::vector<int64_t>& old_stride,
                                                    const std::vector<int64_t>& shape) {
  if (old_shape == shape) return old_stride;
  if (product(old_shape) == 0) return contiguous_strides(shape);
  if (old_shape.empty()) return std::vector<int64_t>(shape.size(), 1);
  std::vector<int64_t> out(shape.size());
  int64_t view_d = static_cast<int64_t>(shape.size()) - 1;
  int64_t chunk_base_stride = old_stride.back();
  int64_t tensor_numel = 1, view_numel = 1;
  for (int64_t d = static_cast<int64_t>(old_shape.size()) - 1; d >= 0; --d) {
    size_t i = static_cast<size_t>(d);
    tensor_numel *= old_shape[i];
    // A chunk ends where memory stops being regular.
    if (d != 0 && (old_shape[i - 1] == 1 || old_stride[i - 1] == tensor_numel * chunk_base_stride)) continue;
    while (view_d >= 0 && (view_numel < tensor_numel || shape[static_cast<size_t>(view_d)] == 1)) {
      out[static_cast<size_t>(view_d)] = view_numel * chunk_base_stride;
      view_numel *= shape[static_cast<size_t>(view_d)];
      --view_d;
    }
    if (view_numel != tensor_numel) return std::nullopt;
    if (d > 0) {
      chunk_base_stride = old_stride[i - 1];
      tensor_numel = view_numel = 1;
    }
  }
  if (view_d != -1) return std::nullopt;
  return out;
}

std::vector<int64_t> channels_last_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> out(shape.size());
  int64_t step = 1;
  auto place = [&](size_t axis) {
    out[axis] = step;
    step *= std::max<int64_t>(shape[axis], 1);
  };
  if (shape.size() < 3) return contiguous_strides(shape);
  place(1);
  for (size_t axis = shape.size() - 1; axis >= 2; --axis) place(axis);
  place(0);
  return out;
}

bool is_channels_last(const std::vector<int64_t>& shape, const std::vector<int64_t>& stride) {
  if (shape.size() != 4 && shape.size() != 5) return false;
  std::vector<int64_t> expected = channels_last_strides(shape);
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] != 1 && stride[i] != expected[i]) return false;
  return true;
}

bool suggests_channels_last(const std::vector<int64_t>& shape, const std::vector<int64_t>& stride) {
  if (shape.size() != 4 && shape.size() != 5) return false;
  // Strides alone decide: ascending in the order C, innermost spatial, ..., N, with aten's two ambiguities
  // resolved toward contiguous (N111 and the like).
  if (stride[1] == 0) return false;
  std::vector<size_t> order{1};
  for (size_t axis = shape.size() - 1; axis >= 2; --axis) order.push_back(axis);
  order.push_back(0);
  int64_t min = 0;
  for (size_t axis : order) {
    if (shape[axis] == 0 || stride[axis] < min) return false;
    if (axis == 0 && min == stride[1]) return false;
    min = stride[axis];
    if (shape[axis] > 1) min *= shape[axis];
  }
  return true;
}

bool is_non_overlapping_and_dense(const std::vector<int64_t>& shape, const std::vector<int64_t>& stride) {
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (shape[a] < 2) return false;  // free axes last
    if (shape[b] < 2) return true;
    return stride[a] < stride[b];
  });
  int64_t expected = 1;
  for (size_t axis : order) {
    if (shape[axis] < 2) return true;
    if (stride[axis] != expected) return false;
    expected *= shape[axis];
  }
  return true;
}

std::vector<int64_t> preserved_strides(const std::vector<int64_t>& shape,
                                       const std::vector<int64_t>& stride) {
  return is_non_overlapping_and_dense(shape, stride) ? stride : dense_strides_in_order(shape, stride);
}

std::vector<int64_t> dense_strides_in_order(const std::vector<int64_t>& shape,
                                            const std::vector<int64_t>& stride) {
  return dense_strides_in_order(shape, std::span(&stride, 1));
}

std::vector<int64_t> dense_strides_in_order(const std::vector<int64_t>& shape,
                                            std::span<const std::vector<int64_t>> operands) {
  // aten's insertion sort of the axes, innermost first; axes broadcast in an operand leave the choice to the
  // next one.
  std::vector<size_t> perm(shape.size());
  std::iota(perm.rbegin(), perm.rend(), size_t{0});
  auto should_swap = [&](size_t a, size_t b) {
    for (const std::vector<int64_t>& stride : operands) {
      if (stride[a] == 0 || stride[b] == 0) continue;
      if (stride[a] != stride[b]) return stride[a] < stride[b] ? -1 : 1;
      if (shape[a] > shape[b]) return 1;
    }
    return 0;
  };
  for (size_t i = 1; i < perm.size(); ++i) {
    size_t dim1 = i;
    for (size_t dim0 = i; dim0-- > 0;) {
      int comparison = should_swap(perm[dim0], perm[dim1]);
      if (comparison > 0) {
        std::swap(perm[dim0], perm[dim1]);
        dim1 = dim0;
      } else if (comparison < 0) {
        break;
      }
    }
  }
  std::vector<int64_t> out(shape.size());
  int64_t step = 1;
  for (size_t axis : perm) {
    out[axis] = step;
    step *= std::max<int64_t>(shape[axis], 1);
  }
  return out;
}

std::optional<std::vector<int64_t>> preserved_strides(const TensorMeta& like) {
  if (!like.stride) return std::nullopt;
  return preserved_strides(like.shape, *like.stride);
}

namespace {

// The fake tensors that dynamo traces a CPU model with keep the stride of a batch of one through a reshape, where eager
// (and CUDA) makes it that of the next axis: what follows takes the tensor for channels_last there, and not here.
bool traced_channels_last(const TensorMeta& like) {
  std::vector<int64_t> stride = *like.stride;
  if (like.device == "cpu" && like.shape[0] == 1) {
    int64_t end = 1;
    for (std::size_t i = 1; i < stride.size(); ++i) end = std::max(end, like.shape[i] * stride[i]);
    stride[0] = end;
  }
  return suggests_channels_last(like.shape, stride);
}

}  // namespace

std::optional<std::vector<int64_t>> suggested_strides(const TensorMeta& like,
                                                      const std::vector<int64_t>& shape) {
  if (like.dim() != 4 && like.dim() != 5) return contiguous_strides(shape);
  if (!like.stride) return std::nullopt;
  return traced_channels_last(like) ? channels_last_strides(shape) : contiguous_strides(shape);
}

std::optional<std::vector<int64_t>> plain_strides(const TensorMeta& like, const std::vector<int64_t>& shape) {
  if (like.dim() != 4 && like.dim() != 5) return contiguous_strides(shape);
  if (!like.stride || suggests_channels_last(like.shape, *like.stride)) return std::nullopt;
  return contiguous_strides(shape);
}

View::View(const TensorMeta& source) : meta_(source), base_(source.shape.size(), 0) {
  for (int i = 0; i < source.dim(); ++i) axes_.push_back(Axis{{Walk{i, 1}}});
}

void View::advance(const Axis& axis, int64_t by) {
  for (const Walk& walk : axis.walks) base_[static_cast<size_t>(walk.source)] += by * walk.step;
}

void View::select(int axis, int64_t index) {
  size_t a = static_cast<size_t>(axis);
  advance(axes_[a], index);
  axes_.erase(axes_.begin() + axis);
  if (meta_.stride) {
    meta_.offset += index * (*meta_.stride)[a];
    meta_.stride->erase(meta_.stride->begin() + axis);
  }
  meta_.shape.erase(meta_.shape.begin() + axis);
}

void View::slice(int axis, int64_t start, int64_t length, int64_t step) {
  size_t a = static_cast<size_t>(axis);
  advance(axes_[a], start);
  for (Walk& walk : axes_[a].walks) walk.step *= step;
  if (meta_.stride) {
    meta_.offset += start * (*meta_.stride)[a];
    (*meta_.stride)[a] *= step;
  }
  meta_.shape[a] = length;
}

void View::unsqueeze(int axis) {
  size_t a = static_cast<size_t>(axis);
  if (meta_.stride) {
    int64_t stride = a < meta_.shape.size() ? meta_.shape[a] * (*meta_.stride)[a] : 1;
    meta_.stride->insert(meta_.stride->begin() + axis, stride);
  }
  meta_.shape.insert(meta_.shape.begin() + axis, 1);
  axes_.insert(axes_.begin() + axis, Axis{});
}

void View::squeeze(int axis) {
  size_t a = static_cast<size_t>(axis);
  if (meta_.shape[a] != 1) return;
  if (meta_.stride) meta_.stride->erase(meta_.stride->begin() + axis);
  meta_.shape.erase(meta_.shape.begin() + axis);
  axes_.erase(axes_.begin() + axis);
}

void View::permute(std::span<const int64_t> axes) {
  std::vector<int64_t> shape, stride;
  std::vector<Axis> walked;
  for (int64_t axis : axes) {
    size_t a = static_cast<size_t>(axis);
    shape.push_back(meta_.shape[a]);
    if (meta_.stride) stride.push_back((*meta_.stride)[a]);
    walked.push_back(axes_[a]);
  }
  meta_.shape = std::move(shape);
  if (meta_.stride) meta_.stride = std::move(stride);
  axes_ = std::move(walked);
}

void View::transpose(int a, int b) {
  std::vector<int64_t> axes(static_cast<size_t>(rank()));
  std::iota(axes.begin(), axes.end(), int64_t{0});
  std::swap(axes[static_cast<size_t>(a)], axes[static_cast<size_t>(b)]);
  permute(axes);
}

void View::expand(const std::vector<int64_t>& shape) {
  size_t fresh = shape.size() - meta_.shape.size();
  std::vector<Axis> axes(shape.size());
  std::vector<int64_t> stride(shape.size(), 0);
  for (size_t i = shape.size(); i-- > 0;) {
    bool is_new = i < fresh;
    int64_t old_size = is_new ? 1 : meta_.shape[i - fresh];
    if (!is_new && old_size == shape[i]) axes[i] = axes_[i - fresh];
    if (!meta_.stride || old_size != shape[i]) continue;
    // A new axis of size 1 gets the stride an unsqueeze would give it.
    stride[i] = !is_new                ? (*meta_.stride)[i - fresh]
                : i + 1 < shape.size() ? shape[i + 1] * stride[i + 1]
                                       : 1;
  }
  axes_ = std::move(axes);
  meta_.shape = shape;
  if (meta_.stride) meta_.stride = std::move(stride);
}

void View::diagonal(int64_t offset, int axis1, int axis2) {
  size_t a = static_cast<size_t>(axis1), b = static_cast<size_t>(axis2);
  int64_t length = offset >= 0 ? std::min(meta_.shape[a], meta_.shape[b] - offset)
                               : std::min(meta_.shape[a] + offset, meta_.shape[b]);
  length = std::max<int64_t>(length, 0);
  size_t shifted = offset >= 0 ? b : a;
  int64_t by = length == 0 ? 0 : offset >= 0 ? offset : -offset;
  advance(axes_[shifted], by);
  Axis both = axes_[a];
  both.walks.insert(both.walks.end(), axes_[b].walks.begin(), axes_[b].walks.end());
  int64_t stride = 0;
  if (meta_.stride) {
    meta_.offset += by * (*meta_.stride)[shifted];
    stride = (*meta_.stride)[a] + (*meta_.stride)[b];
  }
  for (size_t axis : {std::max(a, b), std::min(a, b)}) {
    std::ptrdiff_t at = static_cast<std::ptrdiff_t>(axis);
    axes_.erase(axes_.begin() + at);
    meta_.shape.erase(meta_.shape.begin() + at);
    if (meta_.stride) meta_.stride->erase(meta_.stride->begin() + at);
  }
  axes_.push_back(std::move(both));
  meta_.shape.push_back(length);
  if (meta_.stride) meta_.stride->push_back(stride);
}

void View::unfold(int axis, int64_t size, int64_t step) {
  size_t a = static_cast<size_t>(axis);
  if (meta_.shape.empty()) {  // a 0-dim tensor unfolds as one of one element
    meta_.shape = {size};
    if (meta_.stride) meta_.stride = std::vector<int64_t>{1};
    axes_.push_back({});
    return;
  }
  axes_.push_back(axes_[a]);
  for (Walk& walk : axes_[a].walks) walk.step *= step;
  if (meta_.stride) {
    meta_.stride->push_back((*meta_.stride)[a]);
    (*meta_.stride)[a] *= step;
  }
  meta_.shape[a] = (meta_.shape[a] - size) / step + 1;
  meta_.shape.push_back(size);
}

std::vector<ExprId> View::map(Program& p, std::span<const ExprId> at) const {
  std::vector<ExprId> out(base_.size(), kNoExpr);
  for (size_t i = 0; i < axes_.size(); ++i) {
    for (const Walk& walk : axes_[i].walks) {
      ExprId& e = out[static_cast<size_t>(walk.source)];
      ExprId term = index_mul(p, at[i], walk.step);
      e = e == kNoExpr ? term : p.call(Fn::kAdd, {e, term});
    }
  }
  for (size_t d = 0; d < out.size(); ++d)
    out[d] = out[d] == kNoExpr ? p.integer(base_[d]) : index_add(p, out[d], base_[d]);
  return out;
}

ExprId index_add(Program& p, ExprId e, int64_t v) { return v == 0 ? e : p.call(Fn::kAdd, {e, p.integer(v)}); }
ExprId index_mul(Program& p, ExprId e, int64_t v) { return v == 1 ? e : p.call(Fn::kMul, {e, p.integer(v)}); }

}  // namespace passnet
