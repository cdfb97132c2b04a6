#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "ops/row_args.h"
#include "ops/stencil_rows.h"
#include "ops/view_algebra.h"

// Pooling. Interpolation and scans have files of their own.

namespace passnet {

namespace {

using Shape = std::vector<int64_t>;

struct Window {
  const TensorMeta* input = nullptr;
  size_t spatial = 2;
  Shape kernel, stride, padding, dilation, in_size, out_size;

  size_t first() const { return input->shape.size() - spatial; }
  Shape result_shape() const {
    Shape shape(input->shape.begin(), input->shape.begin() + static_cast<std::ptrdiff_t>(first()));
    shape.insert(shape.end(), out_size.begin(), out_size.end());
    return shape;
  }
};

Result<const TensorMeta*> pooled_input(const Call& call, size_t spatial) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  size_t rank = input->shape.size();
  if (rank != spatial + 1 && rank != spatial + 2)
    return bad_argument(call, "input",
                        fmt::format("a tensor of {} or {} dimensions", spatial + 1, spatial + 2));
  return input;
}

Result<Window> read_window(const Call& call, size_t spatial, bool dilated) {
  Window w;
  w.spatial = spatial;
  PN_TRY(w.input, pooled_input(call, spatial));
  PN_TRY(w.kernel, spread_arg(call, "kernel_size", spatial));
  const Value& stride = call.arg("stride");
  if (stride.is_none() || (stride.is_sequence() && stride.items().empty())) {
    w.stride = w.kernel;
  } else {
    PN_TRY(w.stride, spread_arg(call, "stride", spatial));
  }
  PN_TRY(w.padding, spread_arg(call, "padding", spatial));
  w.dilation.assign(spatial, 1);
  if (dilated) {
    PN_TRY(w.dilation, spread_arg(call, "dilation", spatial));
  }
  PN_TRY(bool ceil_mode, bool_arg(call, "ceil_mode"));
  w.in_size.assign(w.input->shape.begin() + static_cast<std::ptrdiff_t>(w.first()), w.input->shape.end());
  for (size_t i = 0; i < spatial; ++i) {
    int64_t k = w.kernel[i], s = w.stride[i], pad = w.padding[i], d = w.dilation[i];
    if (k <= 0 || s <= 0 || d <= 0)
      return bad_argument(call, "kernel_size", "positive, with positive stride and dilation");
    if (pad < 0 || 2 * pad > d * (k - 1) + 1)
      return bad_argument(call, "padding", "at least 0 and at most half of the kernel");
    int64_t room = w.in_size[i] + 2 * pad - d * (k - 1) - 1;
    if (room < 0 && !ceil_mode) return bad_argument(call, "kernel_size", "no larger than the padded input");
    int64_t size = (room + (ceil_mode ? s - 1 : 0)) / s + 1;
    // The last window has to start inside the input or its left padding.
    if (ceil_mode && (size - 1) * s >= w.in_size[i] + pad) --size;
    w.out_size.push_back(size);
  }
  return w;
}

// What pooling kernels return: the memory format that the operand suggests; in three dimensions only the
// plain one is certain.
std::optional<Shape> pooled_strides(const TensorMeta& input, const Shape& shape, size_t spatial) {
  if (spatial == 1 && input.dim() == 3 && input.stride) {
    // In one dimension aten pools a tensor of two, [batch, channels, 1, length].
    TensorMeta image = input;
    image.shape.insert(image.shape.begin() + 2, 1);
    image.stride->insert(image.stride->begin() + 2, input.shape[2] * (*input.stride)[2]);
    Shape out = shape;
    out.insert(out.begin() + 2, 1);
    std::optional<Shape> pooled = suggested_strides(image, out);
    if (pooled) pooled->erase(pooled->begin() + 2);
    return pooled;
  }
  std::optional<Shape> stride = suggested_strides(input, shape);
  if (spatial == 3 && stride && *stride != contiguous_strides(shape)) return std::nullopt;
  return stride;
}

// One reduction over the window: `outside` where it leaves the input.
ArrayId add_window(Program& p, const Window& w, ArrayId source, ReduceOp op, DType type, ExprId outside,
                   std::string label, NodeId node) {
  Shape shape = w.result_shape();
  std::vector<ExprId> at = identity(p, shape),
                      in(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(w.first()));
  ExprId inside = kNoExpr;
  auto require = [&](ExprId e) { inside = inside == kNoExpr ? e : p.call(Fn::kAnd, {inside, e}); };
  for (size_t i = 0; i < w.spatial; ++i) {
    ExprId tap = index_mul(p, p.reduce_index(static_cast<int>(i), w.kernel[i]), w.dilation[i]);
    ExprId e = p.call(Fn::kAdd, {index_mul(p, at[w.first() + i], w.stride[i]), tap});
    e = index_add(p, e, -w.padding[i]);
    in.push_back(e);
    int64_t last = (w.out_size[i] - 1) * w.stride[i] - w.padding[i] + (w.kernel[i] - 1) * w.dilation[i];
    if (w.padding[i] > 0) require(p.call(Fn::kGe, {e, p.integer(0)}));
    if (last >= w.in_size[i]) require(p.call(Fn::kLt, {e, p.integer(w.in_size[i])}));
  }
  ExprId value = p.cast(p.read(source, in), type);
  if (inside != kNoExpr) value = p.select(inside, value, outside);
  return p.add_reduce(shape, type, op, w.kernel, value, std::move(label), node);
}

// ---- max pooling ----

template <int kSpatial>
Result<Inferred> meta_max_pool(const Call& call) {
  PN_TRY(Window w, read_window(call, kSpatial, true));
  PN_TRY(bool indices, bool_arg(call, "return_indices"));
  Shape shape = w.result_shape();
  std::optional<Shape> stride = pooled_strides(*w.input, shape, kSpatial);
  if (!indices) return fresh(shape, w.input->dtype, std::move(stride));
  return tuple_result({Meta::of(fresh_meta(shape, w.input->dtype, stride)),
                       Meta::of(fresh_meta(shape, DType::kInt64, stride))});
}

template <int kSpatial>
Result<std::vector<ArrayId>> lower_max_pool(LowerContext& ctx, const Call& call) {
  PN_TRY(Window w, read_window(call, kSpatial, true));
  PN_TRY(bool indices, bool_arg(call, "return_indices"));
  if (indices) return no_lowering(call, "the positions of the maxima are returned too");
  DType dtype = w.input->dtype;
  if (!is_floating(dtype)) return no_lowering(call, "the operand is not floating");
  PN_TRY(ArrayId source, ctx.array(call.arg("input")));
  Program& p = ctx.program();
  DType wide = opmath(dtype);
  ExprId lowest = p.real(-std::numeric_limits<double>::infinity(), wide);
  ArrayId top = add_window(p, w, source, ReduceOp::kMax, wide, lowest, label_of(call, "max"), call.node->id);
  if (wide == dtype) return std::vector<ArrayId>{top};
  ExprId rounded = p.cast(p.read(top, identity(p, w.result_shape())), dtype);
  return std::vector<ArrayId>{p.add_map(w.result_shape(), dtype, rounded, label_of(call), call.node->id)};
}

// ---- average pooling ----

// How many positions of window `i` count along one axis.
struct Counted {
  int64_t least, most;
};
int64_t window_count(const Window& w, size_t axis, int64_t i, bool include_pad) {
  int64_t start = i * w.stride[axis] - w.padding[axis];
  int64_t end = std::min(start + w.kernel[axis], w.in_size[axis] + w.padding[axis]);
  if (include_pad) return end - start;
  return std::min(end, w.in_size[axis]) - std::max<int64_t>(start, 0);
}

template <int kSpatial>
Result<Inferred> meta_avg_pool(const Call& call) {
  PN_TRY(Window w, read_window(call, kSpatial, false));
  Shape shape = w.result_shape();
  std::optional<Shape> stride = pooled_strides(*w.input, shape, kSpatial);
  return fresh(std::move(shape), w.input->dtype, std::move(stride));
}

// The window's count as an int64 expression of the output index.
ExprId count_expression(Program& p, const Window& w, size_t axis, ExprId at, bool include_pad) {
  Counted c{std::numeric_limits<int64_t>::max(), 0};
  for (int64_t i = 0; i < w.out_size[axis]; ++i) {
    int64_t n = window_count(w, axis, i, include_pad);
    c = {std::min(c.least, n), std::max(c.most, n)};
  }
  if (c.least == c.most) return p.integer(c.least);
  ExprId start = index_add(p, index_mul(p, at, w.stride[axis]), -w.padding[axis]);
  ExprId end = index_add(p, start, w.kernel[axis]);
  end = p.call(Fn::kMin, {end, p.integer(w.in_size[axis] + (include_pad ? w.padding[axis] : 0))});
  if (!include_pad) start = p.call(Fn::kMax, {start, p.integer(0)});
  return p.call(Fn::kSub, {end, start});
}

template <int kSpatial>
Result<std::vector<ArrayId>> lower_avg_pool(LowerContext& ctx, const Call& call) {
  PN_TRY(Window w, read_window(call, kSpatial, false));
  PN_TRY(bool include_pad, bool_arg(call, "count_include_pad"));
  std::optional<int64_t> divisor;
  if (kSpatial > 1) {
    PN_TRY(divisor, optional_int_arg(call, "divisor_override"));
  }
  DType dtype = w.input->dtype, wide = opmath(dtype);
  if (!is_floating(dtype)) return no_lowering(call, "the operand is not floating");
  PN_TRY(ArrayId source, ctx.array(call.arg("input")));
  Program& p = ctx.program();
  ArrayId sum =
      add_window(p, w, source, ReduceOp::kSum, wide, p.real(0, wide), label_of(call, "sum"), call.node->id);
  Shape shape = w.result_shape();
  std::vector<ExprId> at = identity(p, shape);
  ExprId count = p.integer(divisor.value_or(1));
  for (size_t i = 0; !divisor && i < w.spatial; ++i)
    count = p.call(Fn::kMul, {count, count_expression(p, w, i, at[w.first() + i], include_pad)});
  E mean = E{&p, p.read(sum, at)} / E{&p, p.cast(count, wide)};
  return std::vector<ArrayId>{p.add_map(shape, dtype, mean.cast(dtype).id, label_of(call), call.node->id)};
}

// ---- adaptive pooling ----

// Sizes with None standing for the operand's.
Result<Shape> adaptive_size(const Call& call, const TensorMeta& input, size_t spatial) {
  Value size = known_value(call, call.arg("output_size"));
  std::vector<Value> given = size.is_sequence() ? size.items() : std::vector<Value>(spatial, size);
  if (given.size() == 1) given.resize(spatial, given[0]);
  if (given.size() != spatial)
    return bad_argument(call, "output_size", fmt::format("one integer or {}", spatial));
  Shape out;
  for (size_t i = 0; i < spatial; ++i) {
    Value v = known_value(call, given[i]);
    if (!v.is_none() && (v.kind() != Value::Kind::kInt || v.as_int() < 0))
      return bad_argument(call, "output_size", "integers of at least 0, or None");
    out.push_back(v.is_none() ? input.shape[input.shape.size() - spatial + i] : v.as_int());
  }
  return out;
}

template <int kSpatial>
Result<Inferred> meta_adaptive_avg(const Call& call) {
  PN_TRY(const TensorMeta* input, pooled_input(call, kSpatial));
  PN_TRY(Shape out_size, adaptive_size(call, *input, kSpatial));
  return adaptive_avg_meta(*input, out_size);
}

template <int kSpatial>
Result<std::vector<ArrayId>> lower_adaptive(LowerContext& ctx, const Call& call) {
  PN_TRY(const TensorMeta* input, pooled_input(call, kSpatial));
  PN_TRY(Shape out_size, adaptive_size(call, *input, kSpatial));
  return lower_adaptive_avg(ctx, call, out_size);
}

template <int kSpatial>
Result<Inferred> meta_adaptive_max(const Call& call) {
  PN_TRY(const TensorMeta* input, pooled_input(call, kSpatial));
  PN_TRY(Shape out_size, adaptive_size(call, *input, kSpatial));
  PN_TRY(bool indices, bool_arg(call, "return_indices"));
  Shape shape(input->shape.begin(), input->shape.end() - kSpatial);
  shape.insert(shape.end(), out_size.begin(), out_size.end());
  std::optional<Shape> stride = plain_strides(*input, shape);
  if (!indices) return fresh(shape, input->dtype, std::move(stride));
  return tuple_result({Meta::of(fresh_meta(shape, input->dtype, stride)),
                       Meta::of(fresh_meta(shape, DType::kInt64, stride))});
}

OpCost cost_pool(const Call& call) {
  OpCost cost;
  cost.host_us = 13.4;
  Result<Shape> kernel = ints_arg(call, "kernel_size");
  const Meta& out = call.node->meta;
  if (kernel.ok() && out.is_tensor()) {
    cost.flops = static_cast<double>(out.tensor.numel());
    for (int64_t k : *kernel) cost.flops *= static_cast<double>(k);
  }
  return cost;
}

constexpr std::string_view kMaxPool =
    "input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False";
constexpr std::string_view kMaxPoolAten =
    "input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False";
constexpr std::string_view kMaxPoolIndices =
    "input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=True";
constexpr std::string_view kAvgPool =
    "input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, "
    "divisor_override=None";
constexpr std::string_view kAvgPool1d =
    "input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True";

template <int kSpatial>
OpRow max_row(std::string_view name, std::vector<Spelling> spellings, std::vector<Example> examples) {
  return {.name = name,
          .cls = OpClass::kStencil,
          .spellings = std::move(spellings),
          .meta = meta_max_pool<kSpatial>,
          .lower = lower_max_pool<kSpatial>,
          .cost = cost_pool,
          .examples = std::move(examples)};
}

template <int kSpatial>
OpRow avg_row(std::string_view name, std::vector<Spelling> spellings, std::vector<Example> examples) {
  return {.name = name,
          .cls = OpClass::kStencil,
          .spellings = std::move(spellings),
          .meta = meta_avg_pool<kSpatial>,
          .lower = lower_avg_pool<kSpatial>,
          .cost = cost_pool,
          .examples = std::move(examples)};
}

template <int kSpatial>
OpRow adaptive_row(std::string_view name, std::vector<Spelling> spellings, std::vector<Example> examples) {
  return {.name = name,
          .cls = OpClass::kStencil,
          .spellings = std::move(spellings),
          .meta = meta_adaptive_avg<kSpatial>,
          .lower = lower_adaptive<kSpatial>,
          .cost = fixed_cost<140, 1>,
          .examples = std::move(examples)};
}

template <int kSpatial>
OpRow adaptive_max_row(std::string_view name, std::vector<Spelling> spellings,
                       std::vector<Example> examples) {
  return {.name = name,
          .cls = OpClass::kStencil,
          .spellings = std::move(spellings),
          .meta = meta_adaptive_max<kSpatial>,
          .cost = fixed_cost<160, 1>,
          .examples = std::move(examples),
          .wall = "no schedule"};
}

std::vector<OpRow> pool_rows() {
  return {
      max_row<1>(
          "max_pool1d",
          {function("torch.nn.functional.max_pool1d", kMaxPool), function("torch.max_pool1d", kMaxPoolAten)},
          {{"x=f32[2,3,9]",
            "torch.nn.functional.max_pool1d(x, 3, 2, 1, 1, ceil_mode=False, return_indices=False)"}}),
      max_row<2>(
          "max_pool2d",
          {function("torch.nn.functional.max_pool2d", kMaxPool), function("torch.max_pool2d", kMaxPoolAten)},
          {{"x=f32[2,3,9,8]",
            "torch.nn.functional.max_pool2d(x, 3, 2, 1, 1, ceil_mode=False, return_indices=False)"},
           {"x=f16[2,3,9,8]", "torch.nn.functional.max_pool2d(x, kernel_size=2, stride=2)"},
           {"x=f32[2,3,10,10]", "torch.nn.functional.max_pool2d(x, 3, 2, 0, 1, ceil_mode=True)"},
           {"x=f32[2,3,9,8]", "torch.max_pool2d(x, (3, 2), (2, 1), (1, 0), (2, 1))"},
           {"x=f32[2,3,8,8]", "torch.nn.functional.max_pool2d(x, 2, return_indices=True)"}}),
      max_row<3>(
          "max_pool3d",
          {function("torch.nn.functional.max_pool3d", kMaxPool), function("torch.max_pool3d", kMaxPoolAten)},
          {{"x=f32[1,2,4,6,6]", "torch.nn.functional.max_pool3d(x, 2)"}}),
      max_row<1>("max_pool1d_with_indices",
                 {function("torch.nn.functional.max_pool1d_with_indices", kMaxPoolIndices),
                  function("torch.max_pool1d_with_indices", kMaxPoolAten)},
                 {{"x=f32[2,3,8]", "torch.nn.functional.max_pool1d_with_indices(x, 2)"}}),
      max_row<2>("max_pool2d_with_indices",
                 {function("torch.nn.functional.max_pool2d_with_indices", kMaxPoolIndices),
                  function("torch._C._nn.max_pool2d_with_indices", kMaxPoolAten)},
                 {{"x=f32[2,3,8,8]", "torch.nn.functional.max_pool2d_with_indices(x, 2)"}}),
      avg_row<1>("avg_pool1d", {function("torch.avg_pool1d", kAvgPool1d)},
                 {{"x=f32[2,3,9]", "torch.avg_pool1d(x, (3,), (2,), (1,), False, True)"}}),
      avg_row<2>(
          "avg_pool2d",
          {function("torch.nn.functional.avg_pool2d", kAvgPool),
           function("torch._C._nn.avg_pool2d", kAvgPool)},
          {{"x=f32[2,3,9,8]", "torch._C._nn.avg_pool2d(x, 3, 2, 1, False, True, None)"},
           {"x=f16[2,3,9,8]", "torch.nn.functional.avg_pool2d(x, 3, 2, 1, False, False)"},
           {"x=f32[2,3,10,7]", "torch.nn.functional.avg_pool2d(x, kernel_size=2, stride=2, ceil_mode=True)"},
           {"x=f32[2,3,8,8]", "torch.nn.functional.avg_pool2d(x, 2, 2, 0, True, True, 3)"}}),
      avg_row<3>("avg_pool3d",
                 {function("torch.nn.functional.avg_pool3d", kAvgPool),
                  function("torch._C._nn.avg_pool3d", kAvgPool)},
                 {{"x=f32[1,2,4,6,6]", "torch.nn.functional.avg_pool3d(x, 2)"}}),
      adaptive_row<1>("adaptive_avg_pool1d", {function("torch.adaptive_avg_pool1d", "input, output_size")},
                      {{"x=f32[2,3,8]", "torch.adaptive_avg_pool1d(x, 1)"},
                       {"x=f32[2,3,8]", "torch.adaptive_avg_pool1d(x, 3)"}}),
      adaptive_row<2>("adaptive_avg_pool2d",
                      {function("torch.nn.functional.adaptive_avg_pool2d", "input, output_size"),
                       function("torch._C._nn.adaptive_avg_pool2d", "input, output_size")},
                      {{"x=f32[2,3,7,5]", "torch.nn.functional.adaptive_avg_pool2d(x, 1)"},
                       {"x=f16[2,3,7,5]", "torch.nn.functional.adaptive_avg_pool2d(x, (3, 2))"},
                       {"x=f32[2,3,8,6]", "torch.nn.functional.adaptive_avg_pool2d(x, (4, None))"}}),
      adaptive_row<3>("adaptive_avg_pool3d",
                      {function("torch.nn.functional.adaptive_avg_pool3d", "input, output_size"),
                       function("torch._C._nn.adaptive_avg_pool3d", "input, output_size")},
                      {{"x=f32[1,2,4,6,5]", "torch.nn.functional.adaptive_avg_pool3d(x, (1, 1, 1))"},
                       {"x=f32[1,2,4,6,5]", "torch.nn.functional.adaptive_avg_pool3d(x, (2, 3, 2))"}}),
      adaptive_max_row<1>(
          "adaptive_max_pool1d",
          {function("torch.nn.functional.adaptive_max_pool1d", "input, output_size, return_indices=False")},
          {{"x=f32[2,3,7]", "torch.nn.functional.adaptive_max_pool1d(x, 2)"}}),
      adaptive_max_row<2>(
          "adaptive_max_pool2d",
          {function("torch.nn.functional.adaptive_max_pool2d", "input, output_size, return_indices=False")},
          {{"x=f32[2,3,7,5]", "torch.nn.functional.adaptive_max_pool2d(x, (2, 3))"},
           {"x=f32[2,3,7,5]", "torch.nn.functional.adaptive_max_pool2d(x, 2, return_indices=True)"}}),
      adaptive_max_row<3>(
          "adaptive_max_pool3d",
          {function("torch.nn.functional.adaptive_max_pool3d", "input, output_size, return_indices=False")},
          {{"x=f32[1,2,4,7,5]", "torch.nn.functional.adaptive_max_pool3d(x, 2)"}}),
  };
}

}  // namespace

int64_t adaptive_start(int64_t i, int64_t out, int64_t in) { return (i / out) * in + ((i % out) * in) / out; }
int64_t adaptive_end(int64_t i, int64_t out, int64_t in) { return 1 + ((i + 1) * in - 1) / out; }

Result<Inferred> adaptive_avg_meta(const TensorMeta& input, const Shape& out_size) {
  Shape shape(input.shape.begin(), input.shape.end() - std::ssize(out_size));
  shape.insert(shape.end(), out_size.begin(), out_size.end());
  bool to_one = std::all_of(out_size.begin(), out_size.end(), [](int64_t n) { return n == 1; });
  // To one element it is a mean with kept axes, whose layout only a plain operand makes certain.
  if (to_one && input.dim() == 4 && input.stride && suggests_channels_last(input.shape, *input.stride))
    return fresh(shape, input.dtype, Shape{shape[1], 1, shape[1], shape[1]});
  if (to_one && !input.is_contiguous()) return fresh(std::move(shape), input.dtype, std::nullopt);
  if (to_one || out_size.size() != 2) {
    if (!input.is_contiguous()) return fresh(std::move(shape), input.dtype, std::nullopt);
    return fresh(std::move(shape), input.dtype);
  }
  std::optional<Shape> stride = suggested_strides(input, shape);
  return fresh(std::move(shape), input.dtype, std::move(stride));
}

Result<std::vector<ArrayId>> lower_adaptive_avg(LowerContext& ctx, const Call& call, const Shape& out_size) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  DType dtype = input->dtype, wide = opmath(dtype);
  if (!is_floating(dtype)) return no_lowering(call, "the operand is not floating");
  PN_TRY(ArrayId source, ctx.array(call.arg("input")));
  Program& p = ctx.program();
  size_t first = input->shape.size() - out_size.size();
  Shape shape(input->shape.begin(), input->shape.begin() + static_cast<std::ptrdiff_t>(first)), extents;
  shape.insert(shape.end(), out_size.begin(), out_size.end());
  std::vector<ExprId> at = identity(p, shape),
                      in(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(first));
  std::vector<ExprId> counts;
  ExprId inside = kNoExpr;
  bool to_one = true;
  double elements = 1;
  for (size_t i = 0; i < out_size.size(); ++i) {
    int64_t n = input->shape[first + i], out = out_size[i], widest = 0;
    if (out == 0 || n == 0) return no_lowering(call, "the operand or the result is empty");
    to_one &= out == 1;
    elements *= static_cast<double>(n);
    for (int64_t o = 0; o < out; ++o)
      widest = std::max(widest, adaptive_end(o, out, n) - adaptive_start(o, out, n));
    extents.push_back(widest);
    ExprId k = p.reduce_index(static_cast<int>(i), widest), o = at[first + i];
    if (n % out == 0) {
      in.push_back(p.call(Fn::kAdd, {index_mul(p, o, n / out), k}));
      counts.push_back(p.integer(n / out));
      continue;
    }
    ExprId start = p.call(Fn::kFloorDiv, {index_mul(p, o, n), p.integer(out)});
    ExprId last = index_add(p, index_mul(p, index_add(p, o, 1), n), -1);
    ExprId end = index_add(p, p.call(Fn::kFloorDiv, {last, p.integer(out)}), 1);
    ExprId e = p.call(Fn::kAdd, {start, k});
    in.push_back(e);
    counts.push_back(p.call(Fn::kSub, {end, start}));
    ExprId fits = p.call(Fn::kLt, {e, end});
    inside = inside == kNoExpr ? fits : p.call(Fn::kAnd, {inside, fits});
  }
  ExprId value = p.cast(p.read(source, in), wide);
  if (inside != kNoExpr) value = p.select(inside, value, p.real(0, wide));
  ArrayId sum =
      p.add_reduce(shape, wide, ReduceOp::kSum, extents, value, label_of(call, "sum"), call.node->id);
  E mean{&p, p.read(sum, at)};
  if (to_one) {
    // mean(): a multiplication by the float32 quotient of the element counts.
    double factor =
        wide == DType::kFloat64 ? 1.0 / elements : static_cast<double>(1.0f / static_cast<float>(elements));
    mean = mean * factor;
  } else {
    for (ExprId count : counts) mean = mean / E{&p, p.cast(count, wide)};
  }
  return std::vector<ArrayId>{p.add_map(shape, dtype, mean.cast(dtype).id, label_of(call), call.node->id)};
}

std::vector<OpRow> stencil_rows() {
  std::vector<OpRow> rows = pool_rows();
  for (auto part : {interpolate_rows, scan_rows}) {
    std::vector<OpRow> more = part();
    std::move(more.begin(), more.end(), std::back_inserter(rows));
  }
  return rows;
}

}  // namespace passnet
