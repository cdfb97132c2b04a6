#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "ops/row_args.h"
#include "ops/view_algebra.h"
#include "ops/view_rows.h"

namespace passnet {

namespace {

using Shape = std::vector<int64_t>;

// ---- views that walk strides: one function builds the view, metadata and lowering follow ----

using BuildView = Result<View> (*)(const Call&);

template <BuildView kBuild>
Result<Inferred> meta_view(const Call& call) {
  PN_TRY(View view, kBuild(call));
  return tensor_result(view.meta());
}

template <BuildView kBuild>
Result<std::vector<ArrayId>> lower_view(LowerContext& ctx, const Call& call) {
  PN_TRY(View view, kBuild(call));
  return lower_gather(ctx, call, "input",
                      [&](Program& p, std::span<const ExprId> at) { return view.map(p, at); });
}

Result<View> source_view(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  return View(*input);
}

Result<View> build_transpose(const Call& call) {
  PN_TRY(View view, source_view(call));
  PN_TRY(int a, axis_arg(call, "dim0", view.rank()));
  PN_TRY(int b, axis_arg(call, "dim1", view.rank()));
  if (view.rank() > 0) view.transpose(a, b);
  return view;
}

Result<View> build_permute(const Call& call) {
  PN_TRY(View view, source_view(call));
  PN_TRY(Shape dims, ints_arg(call, "dims"));
  if (static_cast<int>(dims.size()) != view.rank())
    return bad_argument(call, "dims", fmt::format("{} axes, as many as the tensor has", view.rank()));
  std::vector<bool> seen(dims.size());
  for (int64_t& dim : dims) {
    PN_TRY(dim, normal_dim(call, dim, view.rank()));
    if (seen[static_cast<size_t>(dim)]) return bad_argument(call, "dims", "axes that are all different");
    seen[static_cast<size_t>(dim)] = true;
  }
  view.permute(dims);
  return view;
}

Result<View> build_t(const Call& call) {
  PN_TRY(View view, source_view(call));
  if (view.rank() > 2) return bad_argument(call, "input", "a tensor of at most 2 dimensions");
  if (view.rank() == 2) view.transpose(0, 1);
  return view;
}

Result<View> build_adjoint(const Call& call) {
  PN_TRY(View view, source_view(call));
  if (view.rank() < 2) return bad_argument(call, "input", "a tensor of at least 2 dimensions");
  view.transpose(view.rank() - 2, view.rank() - 1);
  return view;
}

Result<View> build_movedim(const Call& call) {
  PN_TRY(View view, source_view(call));
  PN_TRY(Shape from, ints_arg(call, "source"));
  PN_TRY(Shape to, ints_arg(call, "destination"));
  if (from.size() != to.size()) return bad_argument(call, "destination", "as many axes as `source`");
  size_t rank = static_cast<size_t>(view.rank());
  Shape order(rank, -1);
  std::vector<bool> moved(rank);
  for (size_t i = 0; i < from.size(); ++i) {
    PN_TRY(int64_t s, normal_dim(call, from[i], view.rank()));
    PN_TRY(int64_t d, normal_dim(call, to[i], view.rank()));
    if (moved[static_cast<size_t>(s)] || order[static_cast<size_t>(d)] >= 0)
      return bad_argument(call, "source", "axes that are all different");
    moved[static_cast<size_t>(s)] = true;
    order[static_cast<size_t>(d)] = s;
  }
  size_t next = 0;
  for (int64_t& axis : order) {
    if (axis >= 0) continue;
    while (moved[next]) ++next;
    axis = static_cast<int64_t>(next++);
  }
  view.permute(order);
  return view;
}

Result<View> build_unsqueeze(const Call& call) {
  PN_TRY(View view, source_view(call));
  PN_TRY(int axis, axis_arg(call, "dim", view.rank() + 1));
  view.unsqueeze(axis);
  return view;
}

Result<View> build_squeeze(const Call& call) {
  PN_TRY(View view, source_view(call));
  std::vector<bool> chosen(static_cast<size_t>(view.rank()), is_none(call, "dim"));
  if (!is_none(call, "dim")) {
    PN_TRY(Shape dims, ints_arg(call, "dim"));
    for (int64_t dim : dims) {
      PN_TRY(int64_t axis, normal_dim(call, dim, view.rank()));
      if (view.rank() > 0) chosen[static_cast<size_t>(axis)] = true;
    }
  }
  for (int axis = view.rank() - 1; axis >= 0; --axis)
    if (chosen[static_cast<size_t>(axis)]) view.squeeze(axis);
  return view;
}

Result<View> expanded(const Call& call, Shape shape, std::string_view parameter) {
  PN_TRY(View view, source_view(call));
  int fresh = static_cast<int>(shape.size()) - view.rank();
  if (fresh < 0)
    return bad_argument(call, parameter,
                        fmt::format("at least {} sizes, one for each dimension", view.rank()));
  for (size_t i = 0; i < shape.size(); ++i) {
    bool is_new = static_cast<int>(i) < fresh;
    int64_t old_size = is_new ? 1 : view.shape()[i - static_cast<size_t>(fresh)];
    if (shape[i] == -1 && !is_new) shape[i] = old_size;
    if (shape[i] < 0 || (old_size != 1 && old_size != shape[i]))
      return bad_argument(call, parameter,
                          fmt::format("sizes that {} can be expanded to", fmt::join(view.shape(), "x")));
  }
  view.expand(shape);
  return view;
}

Result<View> build_expand(const Call& call) {
  PN_TRY(Shape shape, ints_arg(call, "size"));
  return expanded(call, std::move(shape), "size");
}

Result<View> build_expand_as(const Call& call) {
  PN_TRY(const TensorMeta* other, tensor_arg(call, "other"));
  return expanded(call, other->shape, "other");
}

Result<View> build_narrow(const Call& call) {
  PN_TRY(View view, source_view(call));
  PN_TRY(int axis, axis_arg(call, "dim", view.rank()));
  PN_TRY(int64_t start, int_arg(call, "start"));
  PN_TRY(int64_t length, int_arg(call, "length"));
  int64_t size = view.rank() == 0 ? 0 : view.shape()[static_cast<size_t>(axis)];
  if (start < 0) start += size;
  if (start < 0 || length < 0 || start + length > size)
    return bad_argument(call, "length", fmt::format("within the axis of size {}", size));
  view.slice(axis, start, length, 1);
  return view;
}

Result<View> build_select(const Call& call) {
  PN_TRY(View view, source_view(call));
  PN_TRY(int axis, axis_arg(call, "dim", view.rank()));
  PN_TRY(int64_t index, int_arg(call, "index"));
  int64_t size = view.rank() == 0 ? 0 : view.shape()[static_cast<size_t>(axis)];
  if (index < -size || index >= size)
    return bad_argument(call, "index", fmt::format("within the axis of size {}", size));
  view.select(axis, index < 0 ? index + size : index);
  return view;
}

Result<View> build_unfold(const Call& call) {
  PN_TRY(View view, source_view(call));
  PN_TRY(int axis, axis_arg(call, "dimension", std::max(view.rank(), 1)));
  PN_TRY(int64_t size, int_arg(call, "size"));
  PN_TRY(int64_t step, int_arg(call, "step"));
  int64_t extent = view.rank() == 0 ? 1 : view.shape()[static_cast<size_t>(axis)];
  if (size < 0 || size > extent)
    return bad_argument(call, "size", fmt::format("at most the axis' size, {}", extent));
  if (step <= 0) return bad_argument(call, "step", "positive");
  view.unfold(axis, size, step);
  return view;
}

Result<View> build_diagonal(const Call& call) {
  PN_TRY(View view, source_view(call));
  PN_TRY(int64_t offset, int_arg(call, "offset"));
  PN_TRY(int a, axis_arg(call, "dim1", view.rank()));
  PN_TRY(int b, axis_arg(call, "dim2", view.rank()));
  if (a == b || view.rank() < 2) return bad_argument(call, "dim2", "an axis other than `dim1`");
  view.diagonal(offset, a, b);
  return view;
}

Result<View> build_atleast(const Call& call, int rank) {
  PN_TRY(View view, source_view(call));
  if (view.rank() >= rank) return view;
  if (rank == 1) view.unsqueeze(0);
  if (rank == 2) {
    if (view.rank() == 0) view.unsqueeze(0);
    view.unsqueeze(0);
  }
  if (rank == 3) {
    if (view.rank() == 0) view.unsqueeze(0);
    if (view.rank() == 1) view.unsqueeze(0);
    view.unsqueeze(view.rank());
  }
  return view;
}
Result<View> build_atleast_1d(const Call& call) { return build_atleast(call, 1); }
Result<View> build_atleast_2d(const Call& call) { return build_atleast(call, 2); }
Result<View> build_atleast_3d(const Call& call) { return build_atleast(call, 3); }

// ---- reshapes: a view where strides allow, a copy (or, with unknown strides, perhaps one) elsewhere ----

using TargetShape = Result<Shape> (*)(const Call&);

Result<Shape> with_inferred_size(const Call& call, Shape shape, int64_t numel, std::string_view parameter) {
  int64_t known = 1;
  std::optional<size_t> open;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1) {
      if (open) return bad_argument(call, parameter, "sizes of which at most one is -1");
      open = i;
    } else if (shape[i] < 0) {
      return bad_argument(call, parameter, "sizes of at least 0, or -1");
    } else {
      known = saturating_product(known, shape[i]);
    }
  }
  if (open && known > 0 && numel % known == 0) {
    shape[*open] = numel / known;
    return shape;
  }
  if (open || known != numel)
    return bad_argument(call, parameter, fmt::format("sizes whose product is {}", numel));
  return shape;
}

Result<Shape> shape_argument(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(Shape shape, ints_arg(call, "shape"));
  return with_inferred_size(call, std::move(shape), input->numel(), "shape");
}

Result<Shape> shape_of_other(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(const TensorMeta* other, tensor_arg(call, "other"));
  return with_inferred_size(call, other->shape, input->numel(), "other");
}

Result<Shape> flat_shape(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(int start, axis_arg(call, "start_dim", input->dim()));
  PN_TRY(int end, axis_arg(call, "end_dim", input->dim()));
  if (start > end) return bad_argument(call, "end_dim", "an axis that is not before `start_dim`");
  if (input->dim() == 0) return Shape{1};
  Shape shape(input->shape.begin(), input->shape.begin() + start);
  int64_t joined = 1;
  for (int axis = start; axis <= end; ++axis) joined *= input->shape[static_cast<size_t>(axis)];
  shape.push_back(joined);
  shape.insert(shape.end(), input->shape.begin() + end + 1, input->shape.end());
  return shape;
}

Result<Shape> unflat_shape(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(int axis, axis_arg(call, "dim", input->dim()));
  PN_TRY(Shape sizes, ints_arg(call, "sizes"));
  if (input->dim() == 0) return bad_argument(call, "input", "a tensor with dimensions");
  PN_TRY(sizes, with_inferred_size(call, std::move(sizes), input->shape[static_cast<size_t>(axis)], "sizes"));
  Shape shape(input->shape.begin(), input->shape.begin() + axis);
  shape.insert(shape.end(), sizes.begin(), sizes.end());
  shape.insert(shape.end(), input->shape.begin() + axis + 1, input->shape.end());
  return shape;
}

Result<Shape> raveled_shape(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  return Shape{input->numel()};
}

// `may_copy`: reshape's freedom; a view with unknown strides is taken to be legal, as the graph ran.
Result<Inferred> reshaped(const Call& call, const TensorMeta& input, Shape shape, bool may_copy) {
  TensorMeta out = input;
  out.shape = std::move(shape);
  if (!input.stride) return tensor_result(std::move(out));
  std::optional<Shape> stride = reshape_strides(input.shape, *input.stride, out.shape);
  if (!stride && !may_copy)
    return bad_call(call, "ops.not_a_view",
                    fmt::format("no view of shape ({}) exists for strides ({})", fmt::join(out.shape, ", "),
                                fmt::join(*input.stride, ", ")),
                    "use reshape, or make the operand contiguous first");
  if (!stride) return fresh(std::move(out.shape), input.dtype);
  out.stride = std::move(stride);
  return tensor_result(std::move(out));
}

template <TargetShape kShape, bool kMayCopy = true>
Result<Inferred> meta_reshape(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(Shape shape, kShape(call));
  return reshaped(call, *input, std::move(shape), kMayCopy);
}

Result<std::vector<ArrayId>> lower_reshape(LowerContext& ctx, const Call& call) {
  const Meta& result = call.node->meta;
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  if (!result.is_tensor() || result.tensor.dtype != input->dtype)
    return no_lowering(call, "the bits of the elements are read as another type");
  if (result.tensor.shape == input->shape) {
    PN_TRY(ArrayId same, ctx.array(call.arg("input")));
    return std::vector<ArrayId>{same};
  }
  return lower_gather(ctx, call, "input", [&](Program& p, std::span<const ExprId> at) {
    return delinearize(p, input->shape, linearize(p, result.tensor.shape, at));
  });
}

Result<Inferred> meta_view_op(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  const Value& shape_value = call.arg("shape");
  bool is_dtype = shape_value.kind() == Value::Kind::kDType ||
                  (shape_value.is_sequence() && shape_value.items().size() == 1 &&
                   shape_value.items()[0].kind() == Value::Kind::kDType);
  if (!is_dtype) {
    PN_TRY(Shape shape, shape_argument(call));
    return reshaped(call, *input, std::move(shape), false);
  }
  TensorMeta out = *input;
  out.dtype = shape_value.is_sequence() ? shape_value.items()[0].as_dtype() : shape_value.as_dtype();
  int64_t from = size_of(input->dtype), to = size_of(out.dtype);
  if (from == to) return tensor_result(std::move(out));
  if (out.shape.empty())
    return bad_argument(call, "input", "a tensor with dimensions, as the element size changes");
  int64_t last = out.shape.back() * from;
  if (last % to != 0 || (out.stride && out.stride->back() != 1))
    return bad_argument(call, "shape", "a type whose size divides the bytes of a dense last axis");
  out.shape.back() = last / to;
  if (out.stride)
    for (size_t i = 0; i + 1 < out.stride->size(); ++i) (*out.stride)[i] = (*out.stride)[i] * from / to;
  out.offset = out.offset * from / to;
  return tensor_result(std::move(out));
}

template <BuildView kBuild>
OpRow view_row(std::string_view name, std::vector<Spelling> spellings, std::vector<Example> examples) {
  return {.name = name,
          .cls = OpClass::kView,
          .spellings = std::move(spellings),
          .meta = meta_view<kBuild>,
          .lower = lower_view<kBuild>,
          .cost = fixed_cost<30, 0>,
          .examples = std::move(examples)};
}

template <TargetShape kShape, bool kMayCopy = true>
OpRow reshape_row(std::string_view name, std::vector<Spelling> spellings, std::vector<Example> examples) {
  return {.name = name,
          .cls = OpClass::kView,
          .spellings = std::move(spellings),
          .meta = meta_reshape<kShape, kMayCopy>,
          .lower = lower_reshape,
          .cost = view_or_copy_cost,
          .examples = std::move(examples)};
}

std::vector<OpRow> strided_rows() {
  return {
      view_row<build_transpose>(
          "transpose",
          {method("transpose", "input, dim0, dim1"), function("torch.transpose", "input, dim0, dim1"),
           method("swapaxes", "input, dim0|axis0, dim1|axis1"),
           function("torch.swapaxes", "input, dim0|axis0, dim1|axis1"),
           method("swapdims", "input, dim0, dim1"), function("torch.swapdims", "input, dim0, dim1")},
          {{"x=f32[2,3,4]", "x.transpose(1, 2)"},
           {"x=f16[2,3,4]", "torch.transpose(x, -1, 0)"},
           {"x=f32[2,3]", "torch.swapaxes(x, 0, 1)"},
           {"x=f32[2,3]", "x.swapdims(0, 1)"}}),
      view_row<build_permute>("permute",
                              {method("permute", "input, dims..."), function("torch.permute", "input, dims")},
                              {{"x=f32[2,3,4,5]", "x.permute(0, 2, 3, 1)"},
                               {"x=f32[2,3,4]", "x.permute((2, 0, -2))"},
                               {"x=f32[2,3,4]", "torch.permute(x, [2, 0, 1])"}}),
      view_row<build_t>("t", {method("t", "input"), function("torch.t", "input")},
                        {{"x=f32[2,3]", "x.t()"}, {"x=f32[3]", "torch.t(x)"}}),
      view_row<build_adjoint>("adjoint", {method("adjoint", "input"), function("torch.adjoint", "input")},
                              {{"x=f32[2,3,4]", "torch.adjoint(x)"}}),
      view_row<build_movedim>(
          "movedim",
          {method("movedim", "input, source, destination"),
           function("torch.movedim", "input, source, destination"),
           method("moveaxis", "input, source, destination"),
           function("torch.moveaxis", "input, source, destination")},
          {{"x=f32[2,3,4]", "x.movedim(0, -1)"}, {"x=f32[2,3,4,5]", "torch.movedim(x, (0, 1), (2, 0))"}}),
      view_row<build_unsqueeze>(
          "unsqueeze", {method("unsqueeze", "input, dim|axis"), function("torch.unsqueeze", "input, dim")},
          {{"x=f32[2,3]", "x.unsqueeze(-1)"},
           {"x=f32[2,3]", "x.unsqueeze(dim=0)"},
           {"x=f32[2,3]", "torch.unsqueeze(x, 1)"},
           {"x=f32[4,6]", "x.t().unsqueeze(1)"}}),
      view_row<build_squeeze>(
          "squeeze",
          {method("squeeze", "input, dim|axis=None"), function("torch.squeeze", "input, dim|axis=None")},
          {{"x=f32[2,1,3,1]", "x.squeeze(-1)"},
           {"x=f32[2,1,3,1]", "x.squeeze()"},
           {"x=f32[2,3]", "x.squeeze(dim=0)"},
           {"x=f32[2,1,3,1]", "torch.squeeze(x, dim=(1, 3))"}}),
      view_row<build_expand>(
          "expand",
          {method("expand", "input, size..., *, implicit=False"),
           function("torch.broadcast_to", "input, size"), method("broadcast_to", "input, size")},
          {{"x=f32[2,1,3]", "x.expand(-1, 4, -1)"},
           {"x=f32[3]", "x.expand(2, 1, 3)"},
           {"x=f32[1,3]", "x.expand([5, 3])"},
           {"x=f32[1,3]", "torch.broadcast_to(x, (2, 3))"},
           {"x=f32[3,2]", "x.t().expand(1, 2, 3)"}}),
      view_row<build_expand_as>("expand_as", {method("expand_as", "input, other")},
                                {{"x=f32[2,1], y=f32[3,2,4]", "x.expand_as(y)"}}),
      view_row<build_narrow>(
          "narrow",
          {method("narrow", "input, dim, start, length"),
           function("torch.narrow", "input, dim, start, length")},
          {{"x=f32[2,8]", "x.narrow(1, 2, 3)"}, {"x=f32[2,8]", "torch.narrow(x, -1, -4, 2)"}}),
      view_row<build_select>(
          "select", {method("select", "input, dim, index"), function("torch.select", "input, dim, index")},
          {{"x=f32[2,3,4]", "x.select(1, -1)"}, {"x=f32[2,3,4]", "torch.select(x, 2, 0)"}}),
      view_row<build_unfold>(
          "unfold_window", {method("unfold", "input, dimension, size, step")},
          {{"x=f32[2,9]", "x.unfold(1, 3, 2)"}, {"x=f32[7,2]", "x.unfold(dimension=0, size=2, step=1)"}}),
      view_row<build_diagonal>("diagonal",
                               {method("diagonal", "input, offset=0, dim1=0, dim2=1"),
                                function("torch.diagonal", "input, offset=0, dim1=0, dim2=1")},
                               {{"x=f32[3,4]", "x.diagonal()"},
                                {"x=f32[2,5,4]", "torch.diagonal(x, -1, 1, 2)"},
                                {"x=f32[2,5,4]", "torch.diagonal(x, offset=2, dim1=-2, dim2=-1)"}}),
      view_row<build_atleast_1d>("atleast_1d", {function("torch.atleast_1d", "input")},
                                 {{"x=f32[]", "torch.atleast_1d(x)"}, {"x=f32[2]", "torch.atleast_1d(x)"}}),
      view_row<build_atleast_2d>("atleast_2d", {function("torch.atleast_2d", "input")},
                                 {{"x=f32[]", "torch.atleast_2d(x)"}, {"x=f32[2]", "torch.atleast_2d(x)"}}),
      view_row<build_atleast_3d>(
          "atleast_3d", {function("torch.atleast_3d", "input")},
          {{"x=f32[2]", "torch.atleast_3d(x)"}, {"x=f32[2,3]", "torch.atleast_3d(x)"}}),
  };
}

std::vector<OpRow> reshape_rows() {
  return {
      {.name = "view",
       .cls = OpClass::kView,
       .spellings = {method("view", "input, shape...")},
       .meta = meta_view_op,
       .lower = lower_reshape,
       .cost = fixed_cost<30, 0>,
       .examples = {{"x=f32[2,3,4]", "x.view(6, 4)"},
                    {"x=f32[2,3,4]", "x.view([-1, 2, 2])"},
                    {"x=f32[2,12]", "x.view((2, 3, 4))"},
                    {"x=f32[2,12]", "x.transpose(0, 1).view(3, 4, 2)"},
                    {"x=f32[2,4]", "x.view(torch.int32)"},
                    {"x=f32[2,4]", "x.view(torch.float16)"}}},
      reshape_row<shape_argument>(
          "reshape", {method("reshape", "input, shape..."), function("torch.reshape", "input, shape")},
          {{"x=f32[2,3,4]", "x.reshape(6, 4)"},
           {"x=f32[2,3,4]", "x.transpose(1, 2).reshape(2, -1)"},
           {"x=f32[2,3,4]", "torch.reshape(x, (-1,))"},
           {"x=f32[2,3,4]", "x.permute(1, 0, 2).reshape([3, 2, 2, 2])"}}),
      reshape_row<shape_of_other, false>("view_as", {method("view_as", "input, other")},
                                         {{"x=f32[2,6], y=f32[3,4]", "x.view_as(y)"}}),
      reshape_row<shape_of_other>("reshape_as", {method("reshape_as", "input, other")},
                                  {{"x=f32[2,6], y=f32[3,4]", "x.t().reshape_as(y)"}}),
      reshape_row<flat_shape>("flatten",
                              {method("flatten", "input, start_dim=0, end_dim=-1"),
                               function("torch.flatten", "input, start_dim=0, end_dim=-1")},
                              {{"x=f32[2,3,4,5]", "x.flatten(2)"},
                               {"x=f32[2,3,4]", "torch.flatten(x, 1)"},
                               {"x=f32[2,3,4,5]", "x.flatten(1, -2)"},
                               {"x=f32[2,3,4]", "x.transpose(1, 2).flatten(start_dim=1)"},
                               {"x=f32[]", "x.flatten()"}}),
      reshape_row<unflat_shape>(
          "unflatten",
          {method("unflatten", "input, dim, sizes"), function("torch.unflatten", "input, dim, sizes")},
          {{"x=f32[2,12]", "x.unflatten(1, (3, -1))"},
           {"x=f32[2,12,5]", "torch.unflatten(x, -2, (3, 2, 2))"}}),
      reshape_row<raveled_shape>("ravel", {method("ravel", "input"), function("torch.ravel", "input")},
                                 {{"x=f32[2,3]", "x.ravel()"}, {"x=f32[2,3]", "torch.ravel(x.t())"}}),
  };
}

}  // namespace

OpCost view_or_copy_cost(const Call& call) {
  OpCost cost;
  cost.host_us = 3.0;
  cost.kernels = 0;
  cost.bytes = 0;
  const TensorMeta* input = call.tensor("input");
  const Meta& out = call.node->meta;
  if (!input || !out.is_tensor() || out.tensor.storage == input->storage) return cost;
  cost.host_us = 15.7;
  cost.kernels = 1;
  cost.bytes = static_cast<double>(input->bytes() + out.tensor.bytes());
  return cost;
}

std::vector<OpRow> view_rows() {
  std::vector<OpRow> rows = strided_rows();
  for (auto part : {reshape_rows, identity_rows, split_rows, subscript_rows, attribute_rows}) {
    std::vector<OpRow> more = part();
    std::move(more.begin(), more.end(), std::back_inserter(rows));
  }
  return rows;
}

}  // namespace passnet
