#include "ops/reduce_forms.h"

namespace passnet {

std::vector<int64_t> Axes::extents() const {
  std::vector<int64_t> out;
  for (size_t i = 0; i < shape_.size(); ++i) {
    if (folded_[i]) out.push_back(shape_[i]);
  }
  return out;
}

std::vector<int64_t> Axes::result_shape(bool keep) const {
  std::vector<int64_t> out;
  for (size_t i = 0; i < shape_.size(); ++i) {
    if (!folded_[i]) {
      out.push_back(shape_[i]);
    } else if (keep) {
      out.push_back(1);
    }
  }
  return out;
}

int64_t Axes::count() const {
  int64_t n = 1;
  for (const int64_t extent : extents()) n *= extent;
  return n;
}

std::vector<ExprId> Axes::point(Program& p, bool keep) const {
  std::vector<ExprId> at;
  int result_axis = 0, folded_axis = 0;
  for (size_t i = 0; i < shape_.size(); ++i) {
    if (folded_[i]) {
      at.push_back(p.reduce_index(folded_axis++, shape_[i]));
      result_axis += keep;
    } else {
      at.push_back(p.index(result_axis++, shape_[i]));
    }
  }
  return at;
}

std::vector<ExprId> Axes::kept(Program& p, std::span<const ExprId> at) const {
  std::vector<ExprId> out(at.begin(), at.end());
  for (size_t i = 0; i < out.size(); ++i) {
    if (folded_[i]) out[i] = p.integer(0);
  }
  return out;
}

Result<Axes> axes_arg(const Call& call, std::string_view name, const TensorMeta& input) {
  std::vector<bool> folded(input.shape.size(), false);
  std::vector<int64_t> dims;
  if (!is_none(call, name)) {
    PN_TRY(dims, ints_arg(call, name));
  }
  if (dims.empty()) folded.assign(input.shape.size(), true);
  for (const int64_t dim : dims) {
    PN_TRY(const int64_t axis, normal_dim(call, dim, input.dim()));
    if (input.dim() == 0) continue;
    if (folded[static_cast<size_t>(axis)]) return bad_argument(call, name, "axes that are all different");
    folded[static_cast<size_t>(axis)] = true;
  }
  return Axes(input.shape, std::move(folded));
}

Axes trailing_axes(const TensorMeta& input, size_t count) {
  std::vector<bool> folded(input.shape.size(), false);
  for (size_t i = 0; i < count; ++i) folded[folded.size() - 1 - i] = true;
  return Axes(input.shape, std::move(folded));
}

ArrayId fold(LowerContext& ctx, const Call& call, const Axes& axes, ReduceOp op, E element,
             std::string_view part) {
  return ctx.program().add_reduce(axes.result_shape(true), element.type(), op, axes.extents(), element.id,
                                  label_of(call, part), call.node->id);
}

ArrayId per_row(LowerContext& ctx, const Call& call, const Axes& axes, E value, std::string_view part) {
  return ctx.program().add_map(axes.result_shape(true), value.type(), value.id, label_of(call, part),
                               call.node->id);
}

E read_row(Program& p, ArrayId row, const Axes& axes, std::span<const ExprId> at) {
  return {&p, p.read(row, axes.kept(p, at))};
}

Moments moments(LowerContext& ctx, const Call& call, const Axes& axes, const ElementAt& element) {
  Program& p = ctx.program();
  const auto point = axes.point(p, true);
  const auto row = identity(p, axes.result_shape(true));
  const double n = static_cast<double>(axes.count());
  const ArrayId sum = fold(ctx, call, axes, ReduceOp::kSum, element(point), "sum");
  const ArrayId mean = per_row(ctx, call, axes, E{&p, p.read(sum, row)} / n, "mean");
  const E distance = element(point) - read_row(p, mean, axes, point);
  const ArrayId squares = fold(ctx, call, axes, ReduceOp::kSum, distance * distance, "squares");
  const ArrayId variance = per_row(ctx, call, axes, E{&p, p.read(squares, row)} / n, "variance");
  return {mean, variance};
}

E read_wide(Program& p, ArrayId array, std::span<const ExprId> at, DType type) {
  return E{&p, p.read(array, std::vector<ExprId>(at.begin(), at.end()))}.cast(type).cast(opmath(type));
}

}  // namespace passnet
