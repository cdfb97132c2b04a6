#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "ops/copy_rows.h"
#include "ops/row_args.h"
#include "ops/view_algebra.h"

// Operators that put elements elsewhere: joins, rotations, repeats, rearrangements. Padding and what an index
// tensor decides have files of their own.

namespace passnet {

namespace {

using Shape = std::vector<int64_t>;

// ---- joins ----

struct Join {
  std::vector<TensorMeta> tensors;  // what takes part, legacy empties included
  std::vector<bool> skipped;        // shape [0] beside tensors of another rank: torch's old empty tensor
  Shape shape;
  int axis = 0;
  DType dtype = DType::kFloat32;
};

DType joined_type(const std::vector<TensorMeta>& tensors) {
  std::vector<const TensorMeta*> all;
  for (const TensorMeta& tensor : tensors) all.push_back(&tensor);
  return result_type(all, {});
}

Result<Join> join_along(const Call& call, std::vector<TensorMeta> tensors, int64_t dim) {
  Join out;
  out.tensors = std::move(tensors);
  if (out.tensors.empty()) return bad_argument(call, "tensors", "at least one tensor");
  const TensorMeta* model = nullptr;
  for (const TensorMeta& tensor : out.tensors) {
    out.skipped.push_back(tensor.shape == Shape{0});
    if (!out.skipped.back() && !model) model = &tensor;
  }
  if (!model) {
    model = &out.tensors.front();
    out.skipped.assign(out.tensors.size(), false);
  }
  if (model->dim() == 1) out.skipped.assign(out.tensors.size(), false);
  if (model->dim() == 0) return bad_argument(call, "tensors", "tensors with dimensions");
  PN_TRY(int64_t axis, normal_dim(call, dim, model->dim()));
  out.axis = static_cast<int>(axis);
  out.shape = model->shape;
  size_t a = static_cast<size_t>(axis);
  out.shape[a] = 0;
  for (size_t i = 0; i < out.tensors.size(); ++i) {
    if (out.skipped[i]) continue;
    const Shape& shape = out.tensors[i].shape;
    bool fits = shape.size() == out.shape.size();
    for (size_t d = 0; fits && d < shape.size(); ++d) fits = d == a || shape[d] == out.shape[d];
    if (!fits)
      return bad_argument(call, "tensors",
                          fmt::format("tensors that differ along axis {} alone, and ({}) is not one of "
                                      "them",
                                      axis, fmt::join(shape, ", ")));
    out.shape[a] += shape[a];
  }
  out.dtype = joined_type(out.tensors);
  return out;
}

// channels_last only if every operand suggests it; unknown if that hangs on unknown strides.
std::optional<Shape> joined_strides(const Join& join) {
  Shape plain = contiguous_strides(join.shape);
  if (join.shape.size() != 4 && join.shape.size() != 5) return plain;
  bool unknown = false;
  for (size_t i = 0; i < join.tensors.size(); ++i) {
    const TensorMeta& tensor = join.tensors[i];
    if (join.skipped[i]) return plain;
    if (!tensor.stride)
      unknown = true;
    else if (!suggests_channels_last(tensor.shape, *tensor.stride))
      return plain;
  }
  if (unknown) return std::nullopt;
  return channels_last_strides(join.shape);
}

// How the operands of a join are seen before they are joined.
using Prepare = void (*)(View& view, int axis);
void as_is(View&, int) {}
void at_least_1d(View& view, int) {
  if (view.rank() == 0) view.unsqueeze(0);
}
void as_rows(View& view, int) {
  at_least_1d(view, 0);
  if (view.rank() == 1) view.unsqueeze(0);
}
void as_columns(View& view, int) {
  at_least_1d(view, 0);
  if (view.rank() == 1) view.unsqueeze(1);
}
void as_sheets(View& view, int) {
  as_rows(view, 0);
  if (view.rank() == 2) view.unsqueeze(2);
}
void with_new_axis(View& view, int axis) { view.unsqueeze(axis); }

struct Prepared {
  Join join;
  std::vector<View> views;
};

using JoinFn = Result<Prepared> (*)(const Call&);

Result<Prepared> prepared(const Call& call, Prepare prepare, int64_t dim, int new_axis = 0) {
  PN_TRY(std::vector<TensorMeta> tensors, tensors_arg(call, "tensors"));
  std::vector<View> views;
  for (TensorMeta& tensor : tensors) {
    views.emplace_back(tensor);
    prepare(views.back(), new_axis);
    tensor = views.back().meta();
  }
  PN_TRY(Join join, join_along(call, std::move(tensors), dim));
  return Prepared{std::move(join), std::move(views)};
}

Result<Prepared> join_cat(const Call& call) {
  PN_TRY(int64_t dim, int_arg(call, "dim"));
  return prepared(call, as_is, dim);
}
Result<Prepared> join_stack(const Call& call) {
  PN_TRY(std::vector<TensorMeta> tensors, tensors_arg(call, "tensors"));
  if (tensors.empty()) return bad_argument(call, "tensors", "at least one tensor");
  for (const TensorMeta& tensor : tensors)
    if (tensor.shape != tensors[0].shape) return bad_argument(call, "tensors", "tensors of one shape");
  PN_TRY(int axis, axis_arg(call, "dim", tensors[0].dim() + 1));
  PN_TRY(Prepared out, prepared(call, with_new_axis, axis, axis));
  out.join.skipped.assign(out.join.tensors.size(), false);
  return out;
}
Result<Prepared> join_hstack(const Call& call) {
  PN_TRY(std::vector<TensorMeta> tensors, tensors_arg(call, "tensors"));
  return prepared(call, at_least_1d, tensors.empty() || tensors[0].dim() <= 1 ? 0 : 1);
}
Result<Prepared> join_vstack(const Call& call) { return prepared(call, as_rows, 0); }
Result<Prepared> join_dstack(const Call& call) { return prepared(call, as_sheets, 2); }
Result<Prepared> join_columns(const Call& call) { return prepared(call, as_columns, 1); }

template <JoinFn kJoin>
Result<Inferred> meta_join(const Call& call) {
  PN_TRY(Prepared p, kJoin(call));
  return fresh(p.join.shape, p.join.dtype, joined_strides(p.join));
}

Result<Inferred> meta_stack(const Call& call) {
  PN_TRY(Prepared p, join_stack(call));
  // Through cat, whose memory format may follow operands of rank 4 and 5: only plain operands are certain.
  PN_TRY(std::vector<TensorMeta> tensors, tensors_arg(call, "tensors"));
  for (const TensorMeta& tensor : tensors)
    if (tensor.dim() >= 3 && !tensor.is_contiguous()) return fresh(p.join.shape, p.join.dtype, std::nullopt);
  return fresh(p.join.shape, p.join.dtype);
}

template <JoinFn kJoin>
Result<std::vector<ArrayId>> lower_join(LowerContext& ctx, const Call& call) {
  PN_TRY(Prepared in, kJoin(call));
  const Value& tensors = call.arg("tensors");
  std::vector<ArrayId> sources;
  if (tensors.is_sequence()) {
    for (const Value& tensor : tensors.items()) {
      PN_TRY(ArrayId source, ctx.array(tensor));
      sources.push_back(source);
    }
  } else {
    PN_TRY(sources, ctx.arrays(tensors));
  }
  Program& p = ctx.program();
  std::vector<ExprId> at = identity(p, in.join.shape);
  size_t axis = static_cast<size_t>(in.join.axis);
  // From the last segment backwards: select(i < end of segment 0, segment 0, select(i < end of segment 1,
  // ...)).
  ExprId value = kNoExpr;
  int64_t end = in.join.shape[axis];
  for (size_t i = sources.size(); i-- > 0;) {
    int64_t size = in.join.skipped[i] ? 0 : in.join.tensors[i].shape[axis];
    if (size == 0) continue;
    int64_t start = end - size;
    std::vector<ExprId> inside = at;
    inside[axis] = index_add(p, at[axis], -start);
    ExprId element = p.cast(p.read(sources[i], in.views[i].map(p, inside)), in.join.dtype);
    value =
        value == kNoExpr ? element : p.select(p.call(Fn::kLt, {at[axis], p.integer(end)}), element, value);
    end = start;
  }
  if (value == kNoExpr) return no_lowering(call, "nothing is joined: all operands are empty");
  return std::vector<ArrayId>{p.add_map(in.join.shape, in.join.dtype, value, label_of(call), call.node->id)};
}

// ---- rearrangements of one tensor ----

Result<Inferred> contiguous_like_input(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  return fresh(input->shape, input->dtype);
}

struct Roll {
  Shape by;  // per axis of the rolled tensor
  bool flat = false;
};

Result<Roll> read_roll(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(Shape shifts, ints_arg(call, "shifts"));
  Shape dims;
  if (!is_none(call, "dims")) {
    PN_TRY(dims, ints_arg(call, "dims"));
  }
  Roll roll;
  if (dims.empty()) {
    if (shifts.size() != 1) return bad_argument(call, "shifts", "one integer, as no `dims` are given");
    roll.flat = true;
    roll.by = {input->numel() == 0 ? 0 : shifts[0]};
    return roll;
  }
  if (dims.size() != shifts.size()) return bad_argument(call, "dims", "as many axes as `shifts` has");
  roll.by.assign(input->shape.size(), 0);
  for (size_t i = 0; i < dims.size(); ++i) {
    PN_TRY(int64_t axis, normal_dim(call, dims[i], input->dim()));
    if (input->dim() > 0) roll.by[static_cast<size_t>(axis)] += shifts[i];
  }
  return roll;
}

// The CUDA kernel makes its operand contiguous first (the CPU's does not).
Result<Inferred> meta_roll(const Call& call) {
  PN_CHECK_OK(read_roll(call));
  return contiguous_like_input(call);
}

// (e - by) mod size, without a division.
ExprId rolled(Program& p, ExprId e, int64_t by, int64_t size) {
  if (size <= 0) return e;
  int64_t back = ((by % size) + size) % size;
  if (back == 0) return e;
  ExprId wraps = p.call(Fn::kLt, {e, p.integer(back)});
  return p.select(wraps, index_add(p, e, size - back), index_add(p, e, -back));
}

Result<std::vector<ArrayId>> lower_roll(LowerContext& ctx, const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(Roll roll, read_roll(call));
  return lower_gather(ctx, call, "input", [&](Program& p, std::span<const ExprId> at) {
    if (roll.flat)
      return delinearize(p, input->shape,
                         rolled(p, linearize(p, input->shape, at), roll.by[0], input->numel()));
    std::vector<ExprId> out;
    for (size_t i = 0; i < at.size(); ++i) out.push_back(rolled(p, at[i], roll.by[i], input->shape[i]));
    return out;
  });
}

using FlipAxes = Result<Shape> (*)(const Call&);
Result<Shape> flip_dims(const Call& call) { return ints_arg(call, "dims"); }
Result<Shape> flip_first(const Call&) { return Shape{0}; }
Result<Shape> flip_second(const Call&) { return Shape{1}; }

template <FlipAxes kAxes>
Result<std::vector<bool>> read_flip(const Call& call, const TensorMeta& input) {
  PN_TRY(Shape dims, kAxes(call));
  std::vector<bool> flipped(input.shape.size());
  for (int64_t dim : dims) {
    PN_TRY(int64_t axis, normal_dim(call, dim, input.dim()));
    if (input.dim() > 0) flipped[static_cast<size_t>(axis)] = true;
  }
  return flipped;
}

template <FlipAxes kAxes>
Result<Inferred> meta_flip(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_CHECK_OK(read_flip<kAxes>(call, *input));
  return fresh(input->shape, input->dtype, preserved_strides(*input));
}

template <FlipAxes kAxes>
Result<std::vector<ArrayId>> lower_flip(LowerContext& ctx, const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(std::vector<bool> flipped, read_flip<kAxes>(call, *input));
  return lower_gather(ctx, call, "input", [&](Program& p, std::span<const ExprId> at) {
    std::vector<ExprId> out(at.begin(), at.end());
    for (size_t i = 0; i < out.size(); ++i)
      if (flipped[i]) out[i] = p.call(Fn::kSub, {p.integer(input->shape[i] - 1), at[i]});
    return out;
  });
}

// repeat: at least as many factors as axes; tile: any number.
template <bool kTile>
Result<Shape> repeats_of(const Call& call, const TensorMeta& input) {
  PN_TRY(Shape repeats, ints_arg(call, "repeats"));
  while (kTile && repeats.size() < input.shape.size()) repeats.insert(repeats.begin(), 1);
  if (repeats.size() < input.shape.size())
    return bad_argument(call, "repeats",
                        fmt::format("at least {} factors, one for each dimension", input.dim()));
  for (int64_t r : repeats)
    if (r < 0) return bad_argument(call, "repeats", "at least 0");
  return repeats;
}

template <bool kTile>
Result<Inferred> meta_repeat(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(Shape shape, repeats_of<kTile>(call, *input));
  size_t fresh_axes = shape.size() - input->shape.size();
  for (size_t i = 0; i < input->shape.size(); ++i) {
    int64_t& extent = shape[fresh_axes + i];
    extent = saturating_product(extent, input->shape[i]);
  }
  return fresh(std::move(shape), input->dtype);
}

template <bool kTile>
Result<std::vector<ArrayId>> lower_repeat(LowerContext& ctx, const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  return lower_gather(ctx, call, "input", [&](Program& p, std::span<const ExprId> at) {
    std::vector<ExprId> out;
    size_t fresh_axes = at.size() - input->shape.size();
    for (size_t i = 0; i < input->shape.size(); ++i)
      out.push_back(p.call(Fn::kMod, {at[fresh_axes + i], p.integer(input->shape[i])}));
    return out;
  });
}

Result<Inferred> meta_repeat_interleave(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(std::optional<int64_t> output_size, optional_int_arg(call, "output_size"));
  Shape shape = is_none(call, "dim") ? Shape{input->numel()} : input->shape;
  int axis = 0;
  if (!is_none(call, "dim")) {
    PN_TRY(axis, axis_arg(call, "dim", input->dim()));
    if (shape.empty()) shape = {1};
  }
  size_t a = static_cast<size_t>(axis);
  if (call.tensor("repeats")) {
    if (!output_size)
      return bad_call(call, "ops.data_dependent_shape",
                      "the size of the result is the sum of the tensor `repeats`", "`output_size=` tells it");
    shape[a] = *output_size;
    return fresh(std::move(shape), input->dtype);
  }
  PN_TRY(Shape repeats, ints_arg(call, "repeats"));
  if (repeats.size() != 1 || repeats[0] < 0)
    return bad_argument(call, "repeats", "one integer of at least 0");
  shape[a] = saturating_product(shape[a], repeats[0]);
  return fresh(std::move(shape), input->dtype);
}

Result<std::vector<ArrayId>> lower_repeat_interleave(LowerContext& ctx, const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  if (call.tensor("repeats")) return no_lowering(call, "a tensor says how often each element is repeated");
  PN_TRY(int64_t repeats, int_arg(call, "repeats"));
  if (repeats == 0) return no_lowering(call, "the result is empty");
  bool flat = is_none(call, "dim");
  int axis = 0;
  if (!flat) {
    PN_TRY(axis, axis_arg(call, "dim", input->dim()));
  }
  return lower_gather(ctx, call, "input", [&](Program& p, std::span<const ExprId> at) {
    std::vector<ExprId> out(at.begin(), at.end());
    size_t a = static_cast<size_t>(axis);
    out[a] = p.call(Fn::kFloorDiv, {at[a], p.integer(repeats)});
    if (flat) return delinearize(p, input->shape, out[0]);
    if (input->shape.empty()) out.clear();
    return out;
  });
}

// ---- triangles ----

template <bool kUpper>
Result<std::vector<ArrayId>> lower_triangle(LowerContext& ctx, const Call& call) {
  PN_TRY(ArrayId source, ctx.array(call.arg("input")));
  PN_TRY(int64_t diagonal, int_arg(call, "diagonal"));
  Program& p = ctx.program();
  const Array input = p.array(source);
  std::vector<ExprId> at = identity(p, input.shape);
  // Kept: upper where column - row >= diagonal, lower where column - row <= diagonal.
  ExprId shifted = index_add(p, at[at.size() - 2], diagonal);
  ExprId kept = p.call(kUpper ? Fn::kGe : Fn::kLe, {at.back(), shifted});
  ExprId element = p.read(source, at);
  ExprId zero = is_floating(input.dtype)      ? p.real(0, input.dtype)
                : input.dtype == DType::kBool ? p.boolean(false)
                                              : p.integer(0, input.dtype);
  return std::vector<ArrayId>{
      p.add_map(input.shape, input.dtype, p.select(kept, element, zero), label_of(call), call.node->id)};
}

Result<Inferred> meta_triangle(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  if (input->dim() < 2) return bad_argument(call, "input", "a tensor of at least 2 dimensions");
  return contiguous_like_input(call);
}

// ---- pixel and channel shuffles: reshape, permute, reshape ----

Result<Inferred> meta_pixel_shuffle(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(int64_t r, int_arg(call, "upscale_factor"));
  size_t rank = input->shape.size();
  if (rank < 3 || r <= 0 || input->shape[rank - 3] % (r * r) != 0)
    return bad_argument(call, "upscale_factor", "a number whose square divides the channels");
  Shape shape = input->shape;
  shape[rank - 3] /= r * r;
  shape[rank - 2] *= r;
  shape[rank - 1] *= r;
  std::optional<Shape> stride = plain_strides(*input, shape);
  return fresh(std::move(shape), input->dtype, std::move(stride));
}

Result<std::vector<ArrayId>> lower_pixel_shuffle(LowerContext& ctx, const Call& call) {
  PN_TRY(int64_t r, int_arg(call, "upscale_factor"));
  return lower_gather(ctx, call, "input", [&](Program& p, std::span<const ExprId> at) {
    std::vector<ExprId> out(at.begin(), at.end());
    size_t n = out.size();
    auto div = [&](ExprId e) { return p.call(Fn::kFloorDiv, {e, p.integer(r)}); };
    auto mod = [&](ExprId e) { return p.call(Fn::kMod, {e, p.integer(r)}); };
    ExprId within = p.call(Fn::kAdd, {index_mul(p, mod(at[n - 2]), r), mod(at[n - 1])});
    out[n - 3] = p.call(Fn::kAdd, {index_mul(p, at[n - 3], r * r), within});
    out[n - 2] = div(at[n - 2]);
    out[n - 1] = div(at[n - 1]);
    return out;
  });
}

Result<Inferred> meta_pixel_unshuffle(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(int64_t r, int_arg(call, "downscale_factor"));
  size_t rank = input->shape.size();
  if (rank < 3 || r <= 0 || input->shape[rank - 2] % r != 0 || input->shape[rank - 1] % r != 0)
    return bad_argument(call, "downscale_factor", "a divisor of height and width");
  Shape shape = input->shape;
  shape[rank - 3] *= r * r;
  shape[rank - 2] /= r;
  shape[rank - 1] /= r;
  std::optional<Shape> stride = plain_strides(*input, shape);
  return fresh(std::move(shape), input->dtype, std::move(stride));
}

Result<std::vector<ArrayId>> lower_pixel_unshuffle(LowerContext& ctx, const Call& call) {
  PN_TRY(int64_t r, int_arg(call, "downscale_factor"));
  return lower_gather(ctx, call, "input", [&](Program& p, std::span<const ExprId> at) {
    std::vector<ExprId> out(at.begin(), at.end());
    size_t n = out.size();
    ExprId within = p.call(Fn::kMod, {at[n - 3], p.integer(r * r)});
    out[n - 3] = p.call(Fn::kFloorDiv, {at[n - 3], p.integer(r * r)});
    out[n - 2] =
        p.call(Fn::kAdd, {index_mul(p, at[n - 2], r), p.call(Fn::kFloorDiv, {within, p.integer(r)})});
    out[n - 1] = p.call(Fn::kAdd, {index_mul(p, at[n - 1], r), p.call(Fn::kMod, {within, p.integer(r)})});
    return out;
  });
}

Result<Inferred> meta_channel_shuffle(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(int64_t groups, int_arg(call, "groups"));
  if (input->dim() < 3 || groups <= 0 || input->shape[1] % groups != 0)
    return bad_argument(call, "groups", "a divisor of the channels");
  return fresh(input->shape, input->dtype, plain_strides(*input, input->shape));
}

Result<std::vector<ArrayId>> lower_channel_shuffle(LowerContext& ctx, const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(int64_t groups, int_arg(call, "groups"));
  int64_t per_group = input->shape[1] / groups;
  return lower_gather(ctx, call, "input", [&](Program& p, std::span<const ExprId> at) {
    std::vector<ExprId> out(at.begin(), at.end());
    ExprId group = p.call(Fn::kMod, {at[1], p.integer(groups)});
    out[1] =
        p.call(Fn::kAdd, {index_mul(p, group, per_group), p.call(Fn::kFloorDiv, {at[1], p.integer(groups)})});
    return out;
  });
}

constexpr std::string_view kJoinSignature = "tensors, dim|axis=0";

std::vector<OpRow> join_rows() {
  auto row = [](std::string_view name, std::vector<Spelling> spellings, MetaFn meta, LowerFn lower,
                std::vector<Example> examples) {
    return OpRow{.name = name,
                 .cls = OpClass::kCopy,
                 .spellings = std::move(spellings),
                 .meta = meta,
                 .lower = lower,
                 .cost = fixed_cost<123, 1>,
                 .examples = std::move(examples)};
  };
  return {
      row("cat",
          {function("torch.cat", kJoinSignature), function("torch.concat", kJoinSignature),
           function("torch.concatenate", kJoinSignature)},
          meta_join<join_cat>, lower_join<join_cat>,
          {{"x=f32[2,3], y=f32[2,5]", "torch.cat((x, y), dim=-1)"},
           {"x=f16[2,3], y=f32[4,3]", "torch.cat([x, y], 0)"},
           {"x=f32[2,3,4,4], y=f32[2,5,4,4]", "torch.cat((x, y, x), dim=1)"},
           {"x=f32[0], y=f32[2,3]", "torch.cat([x, y], 1)"},
           {"x=i64[2], y=f32[3]", "torch.concat([x, y])"},
           {"x=f32[2,3]", "torch.concatenate([x, x], axis=1)"}}),
      row("stack", {function("torch.stack", kJoinSignature)}, meta_stack, lower_join<join_stack>,
          {{"x=f32[2,3], y=f32[2,3]", "torch.stack([x, y], dim=-1)"},
           {"x=f32[2,3], y=f16[2,3]", "torch.stack((x, y), 0)"},
           {"x=f32[]", "torch.stack([x, x])"}}),
      row("hstack", {function("torch.hstack", "tensors")}, meta_join<join_hstack>, lower_join<join_hstack>,
          {{"x=f32[2,3], y=f32[2,4]", "torch.hstack((x, y))"},
           {"x=f32[3], y=f32[4]", "torch.hstack([x, y])"}}),
      row("vstack", {function("torch.vstack", "tensors"), function("torch.row_stack", "tensors")},
          meta_join<join_vstack>, lower_join<join_vstack>,
          {{"x=f32[3], y=f32[2,3]", "torch.vstack((x, y))"}}),
      row("dstack", {function("torch.dstack", "tensors")}, meta_join<join_dstack>, lower_join<join_dstack>,
          {{"x=f32[2,3], y=f32[2,3]", "torch.dstack((x, y))"}}),
      row("column_stack", {function("torch.column_stack", "tensors")}, meta_join<join_columns>,
          lower_join<join_columns>, {{"x=f32[3], y=f32[3,2]", "torch.column_stack((x, y))"}}),
  };
}

std::vector<OpRow> rearranging_rows() {
  auto row = [](std::string_view name, std::vector<Spelling> spellings, MetaFn meta, LowerFn lower,
                std::vector<Example> examples) {
    return OpRow{.name = name,
                 .cls = OpClass::kCopy,
                 .spellings = std::move(spellings),
                 .meta = meta,
                 .lower = lower,
                 .cost = fixed_cost<130, 1>,
                 .examples = std::move(examples)};
  };
  return {
      row("roll",
          {function("torch.roll", "input, shifts, dims=None"), method("roll", "input, shifts, dims=None")},
          meta_roll, lower_roll,
          {{"x=f32[1,8,6,2]", "torch.roll(x, shifts=(3, -2), dims=(1, 2))"},
           {"x=f32[3,4]", "torch.roll(x, 5)"},
           {"x=f32[3,4]", "x.t().roll(1, 0)"}}),
      row("flip", {function("torch.flip", "input, dims"), method("flip", "input, dims...")},
          meta_flip<flip_dims>, lower_flip<flip_dims>,
          {{"x=f32[3,4]", "torch.flip(x, [1])"},
           {"x=f32[3,4,2]", "x.flip(0, -1)"},
           {"x=f32[3,4]", "x.t().flip(0)"}}),
      row("fliplr", {function("torch.fliplr", "input"), method("fliplr", "input")}, meta_flip<flip_second>,
          lower_flip<flip_second>, {{"x=f32[3,4]", "torch.fliplr(x)"}}),
      row("flipud", {function("torch.flipud", "input"), method("flipud", "input")}, meta_flip<flip_first>,
          lower_flip<flip_first>, {{"x=f32[3,4]", "torch.flipud(x)"}}),
      row("repeat", {method("repeat", "input, repeats...")}, meta_repeat<false>, lower_repeat<false>,
          {{"x=f32[2,3]", "x.repeat(2, 1, 3)"},
           {"x=f32[2,3]", "x.repeat([1, 2])"},
           {"x=f32[3]", "x.repeat(4)"}}),
      row("tile", {method("tile", "input, repeats|dims..."), function("torch.tile", "input, repeats|dims")},
          meta_repeat<true>, lower_repeat<true>,
          {{"x=f32[2,3]", "x.tile([2])"}, {"x=f32[3]", "torch.tile(x, (2, 2))"}}),
      row("repeat_interleave",
          {method("repeat_interleave", "input, repeats, dim=None, *, output_size=None"),
           function("torch.repeat_interleave", "input, repeats, dim=None, *, output_size=None")},
          meta_repeat_interleave, lower_repeat_interleave,
          {{"x=f32[2,3]", "x.repeat_interleave(2, dim=1)"},
           {"x=f32[2,3]", "torch.repeat_interleave(x, 3)"},
           {"x=f32[2,3]", "torch.repeat_interleave(x, repeats=2, dim=0)"}}),
      row("tril", {function("torch.tril", "input, diagonal=0"), method("tril", "input, diagonal=0")},
          meta_triangle, lower_triangle<false>,
          {{"x=f32[4,5]", "torch.tril(x)"},
           {"x=f32[2,4,5]", "x.tril(diagonal=-1)"},
           {"x=bool[4,4]", "torch.tril(x)"}}),
      row("triu", {function("torch.triu", "input, diagonal=0"), method("triu", "input, diagonal=0")},
          meta_triangle, lower_triangle<true>,
          {{"x=f32[4,5]", "torch.triu(x, diagonal=1)"}, {"x=i64[4,5]", "x.triu(-1)"}}),
      row("pixel_shuffle", {function("torch.pixel_shuffle", "input, upscale_factor")}, meta_pixel_shuffle,
          lower_pixel_shuffle, {{"x=f32[2,8,3,5]", "torch.pixel_shuffle(x, 2)"}}),
      row("pixel_unshuffle", {function("torch.pixel_unshuffle", "input, downscale_factor")},
          meta_pixel_unshuffle, lower_pixel_unshuffle, {{"x=f32[2,2,6,4]", "torch.pixel_unshuffle(x, 2)"}}),
      row("channel_shuffle",
          {function("torch.channel_shuffle", "input, groups"),
           function("torch.native_channel_shuffle", "input, groups")},
          meta_channel_shuffle, lower_channel_shuffle, {{"x=f32[2,6,3,5]", "torch.channel_shuffle(x, 3)"}}),
  };
}

}  // namespace

std::vector<OpRow> copy_rows() {
  std::vector<OpRow> rows = join_rows();
  for (auto part : {rearranging_rows, pad_rows, gather_rows, write_rows}) {
    std::vector<OpRow> more = part();
    std::move(more.begin(), more.end(), std::back_inserter(rows));
  }
  return rows;
}

}  // namespace passnet
