#include <algorithm>

#include <fmt/format.h>

#include "ops/library.h"
#include "ops/product_rows.h"
#include "ops/row_args.h"
#include "ops/view_algebra.h"

namespace passnet {

namespace {

using Shape = std::vector<int64_t>;

struct Conv {
  const TensorMeta* input = nullptr;
  const TensorMeta* weight = nullptr;
  const TensorMeta* bias = nullptr;
  size_t spatial = 2;
  bool batched = true;
  Shape stride, before, dilation, kernel, in_size, out_size;
  int64_t groups = 1, in_channels = 0, out_channels = 0;
  bool transposed = false;

  Shape result_shape() const {
    Shape shape;
    if (batched) shape.push_back(input->shape[0]);
    shape.push_back(in_channels == 0 ? 0 : out_channels);  // aten gives none where it reads none
    shape.insert(shape.end(), out_size.begin(), out_size.end());
    return shape;
  }
};

Result<Conv> read_operands(const Call& call, size_t spatial) {
  Conv c;
  c.spatial = spatial;
  PN_TRY(c.input, tensor_arg(call, "input"));
  PN_TRY(c.weight, tensor_arg(call, "weight"));
  if (!is_none(call, "bias")) {
    PN_TRY(c.bias, tensor_arg(call, "bias"));
  }
  size_t rank = c.input->shape.size();
  if (rank != spatial + 1 && rank != spatial + 2)
    return bad_argument(call, "input",
                        fmt::format("a tensor of {} or {} dimensions", spatial + 1, spatial + 2));
  if (c.weight->shape.size() != spatial + 2)
    return bad_argument(call, "weight", fmt::format("a tensor of {} dimensions", spatial + 2));
  c.batched = rank == spatial + 2;
  c.in_channels = c.input->shape[rank - spatial - 1];
  c.in_size.assign(c.input->shape.end() - static_cast<std::ptrdiff_t>(spatial), c.input->shape.end());
  c.kernel.assign(c.weight->shape.begin() + 2, c.weight->shape.end());
  PN_TRY(c.groups, int_arg(call, "groups"));
  PN_TRY(c.stride, spread_arg(call, "stride", spatial));
  PN_TRY(c.dilation, spread_arg(call, "dilation", spatial));
  if (c.groups <= 0 || c.in_channels % c.groups != 0)
    return bad_argument(call, "groups", fmt::format("a divisor of the {} channels", c.in_channels));
  for (size_t i = 0; i < spatial; ++i) {
    if (c.stride[i] <= 0) return bad_argument(call, "stride", "positive");
    if (c.dilation[i] <= 0) return bad_argument(call, "dilation", "positive");
  }
  return c;
}

// `n` steps of a window, small enough that sums of a few still fit.
int64_t spread(int64_t n, int64_t step) { return std::min(saturating_product(n, step), int64_t{1} << 60); }

// From a kernel's first tap to its last.
int64_t reach(const Conv& c, size_t axis) { return spread(c.kernel[axis] - 1, c.dilation[axis]); }

template <int kSpatial>
Result<Conv> read_conv(const Call& call) {
  PN_TRY(Conv c, read_operands(call, kSpatial));
  c.out_channels = c.weight->shape[0];
  if (saturating_product(c.weight->shape[1], c.groups) != c.in_channels)
    return bad_argument(call, "weight", fmt::format("for {} channels in {} groups", c.in_channels, c.groups));
  if (c.out_channels < c.groups || c.out_channels % c.groups != 0)
    return bad_argument(call, "weight",
                        fmt::format("a multiple of {} filters, one or more a group", c.groups));
  Shape both(kSpatial, 0);
  bool named = call.arg("padding").kind() == Value::Kind::kString;
  if (named) {
    const std::string& mode = call.arg("padding").text();
    if (mode != "same" && mode != "valid")
      return bad_argument(call, "padding", "integers, 'same' or 'valid'");
    for (size_t i = 0; mode == "same" && i < both.size(); ++i) both[i] = reach(c, i);
    for (int64_t total : both) c.before.push_back(total / 2);
  } else {
    PN_TRY(c.before, spread_arg(call, "padding", kSpatial));
    for (size_t i = 0; i < both.size(); ++i) both[i] = 2 * c.before[i];
  }
  for (size_t i = 0; i < both.size(); ++i) {
    int64_t room = c.in_size[i] + both[i] - reach(c, i) - 1;
    if (room < 0) return bad_argument(call, "weight", "a kernel no larger than the padded input");
    c.out_size.push_back(room / c.stride[i] + 1);
  }
  return c;
}

template <int kSpatial>
Result<Conv> read_conv_transpose(const Call& call) {
  PN_TRY(Conv c, read_operands(call, kSpatial));
  c.transposed = true;
  if (c.weight->shape[0] != c.in_channels)
    return bad_argument(call, "weight", fmt::format("for {} channels", c.in_channels));
  c.out_channels = saturating_product(c.weight->shape[1], c.groups);
  PN_TRY(c.before, spread_arg(call, "padding", kSpatial));
  PN_TRY(Shape extra, spread_arg(call, "output_padding", kSpatial));
  for (size_t i = 0; i < kSpatial; ++i) {
    int64_t size = spread(c.in_size[i] - 1, c.stride[i]) - 2 * c.before[i] + reach(c, i) + extra[i] + 1;
    if (size <= 0) return bad_argument(call, "padding", "such that something is left of the result");
    c.out_size.push_back(size);
  }
  return c;
}

// Two factors as the library multiplies them.
std::pair<E, E> multiplied(const LibraryProduct& library, E a, E b) {
  if (library.factors != LibraryProduct::Factors::kTf32) return {a, b};
  return {call(Fn::kTf32, a), call(Fn::kTf32, b)};
}

using ReadConv = Result<Conv> (*)(const Call&);

// One dimension is two, the first of extent 1; there aten makes the input contiguous, but not the weight.
Shape with_second_axis(Shape v, int64_t value) {
  v.insert(v.begin() + 2, value);
  return v;
}

std::optional<Shape> result_strides_1d(const Conv& c, const Shape& shape) {
  if (!c.batched) return contiguous_strides(shape);
  if (!c.weight->stride) return std::nullopt;
  const int64_t step = c.weight->shape[2] * (*c.weight->stride)[2];
  if (!suggests_channels_last(with_second_axis(c.weight->shape, 1),
                              with_second_axis(*c.weight->stride, step))) {
    return contiguous_strides(shape);
  }
  Shape stride = channels_last_strides(with_second_axis(shape, 1));
  stride.erase(stride.begin() + 2);
  return stride;
}

// aten allocates the result in the memory format that an operand suggests before the library runs. Confirmed on all convolutions of the recorded samples
// (cuDNN 9, H200).
std::optional<Shape> result_strides(const Conv& c, const Shape& shape) {
  if (c.input->dtype == DType::kFloat64) return contiguous_strides(shape);
  if (c.spatial == 1) return result_strides_1d(c, shape);
  if (!c.input->stride || !c.weight->stride) return std::nullopt;
  // Without a batch there is one of extent 1.
  TensorMeta image = *c.input;
  Shape full = shape;
  if (!c.batched) {
    image.stride->insert(image.stride->begin(), image.shape[0] * (*image.stride)[0]);
    image.shape.insert(image.shape.begin(), 1);
    full.insert(full.begin(), 1);
  }
  std::optional<Shape> stride = suggests_channels_last(c.weight->shape, *c.weight->stride)
                                    ? channels_last_strides(full)
                                    : suggested_strides(image, full);
  if (stride && !c.batched) stride->erase(stride->begin());
  return stride;
}

template <ReadConv kRead>
Result<Inferred> meta_conv(const Call& call) {
  PN_TRY(Conv c, kRead(call));
  if (c.bias && c.bias->numel() != c.out_channels)
    return bad_argument(call, "bias", fmt::format("a vector of {}", c.out_channels));
  Shape shape = c.result_shape();
  std::optional<Shape> stride = result_strides(c, shape);
  return fresh(std::move(shape), c.input->dtype, std::move(stride));
}

ConvProblem problem_of(const Conv& c) {
  ConvProblem p;
  p.dtype = c.input->dtype;
  p.batch = c.batched ? c.input->shape[0] : 1;
  p.in_channels = c.in_channels;
  p.out_channels = c.out_channels;
  p.groups = c.groups;
  p.in_size = c.in_size;
  p.out_size = c.out_size;
  p.kernel = c.kernel;
  p.stride = c.stride;
  p.dilation = c.dilation;
  p.padding = c.before;
  p.transposed = c.transposed;
  p.contiguous = c.batched && c.input->is_contiguous() && c.weight->is_contiguous();
  p.channels_last = c.batched && !p.contiguous && c.weight->is_contiguous() && c.spatial == 2 &&
                    c.input->stride && *c.input->stride == channels_last_strides(c.input->shape);
  return p;
}

ExprId both_of(Program& p, ExprId a, ExprId b) { return a == kNoExpr ? b : p.call(Fn::kAnd, {a, b}); }

// The input's position for output position `o` and kernel tap `k`, and when it exists.
ExprId source_position(Program& p, const Conv& c, size_t i, ExprId o, ExprId k, ExprId* inside) {
  ExprId tap = index_mul(p, k, c.dilation[i]);
  if (!c.transposed) {
    ExprId e = index_add(p, p.call(Fn::kAdd, {index_mul(p, o, c.stride[i]), tap}), -c.before[i]);
    int64_t last = spread(c.out_size[i] - 1, c.stride[i]) + reach(c, i) - c.before[i];
    if (c.before[i] > 0) *inside = both_of(p, *inside, p.call(Fn::kGe, {e, p.integer(0)}));
    if (last >= c.in_size[i]) *inside = both_of(p, *inside, p.call(Fn::kLt, {e, p.integer(c.in_size[i])}));
    return e;
  }
  ExprId shifted = p.call(Fn::kSub, {index_add(p, o, c.before[i]), tap});
  ExprId e = p.call(Fn::kFloorDiv, {shifted, p.integer(c.stride[i])});
  if (c.stride[i] > 1)
    *inside = both_of(p, *inside,
                      p.call(Fn::kEq, {p.call(Fn::kMod, {shifted, p.integer(c.stride[i])}), p.integer(0)}));
  *inside = both_of(p, *inside, p.call(Fn::kGe, {shifted, p.integer(0)}));
  *inside = both_of(p, *inside, p.call(Fn::kLt, {e, p.integer(c.in_size[i])}));
  return e;
}

int64_t product_of(const Shape& extents) {
  int64_t n = 1;
  for (int64_t e : extents) n *= e;
  return n;
}

// Taps that are written out one by one; beyond them a sum of no said order stands for the convolution.
constexpr int64_t kMostTaps = 64;

// A depthwise convolution as ATen and cuDNN compute it: one tap after the other into one sum, which begins with the
// bias unless that is added to the rounded result. On 16-bit types this gives eager's own bits (see library.h).
ArrayId lower_taps(Program& p, const Conv& c, const LibraryProduct& library, ArrayId bias,
                   const Factors& factors, std::string label, NodeId node) {
  const Shape shape = c.result_shape();
  const DType dtype = c.input->dtype, sum = opmath(dtype);
  const size_t channel = c.batched ? 1 : 0;
  std::vector<ExprId> at;
  for (size_t axis = 0; axis < shape.size(); ++axis)
    at.push_back(p.index(static_cast<int>(axis), shape[axis]));
  const auto bias_at = [&] { return E{&p, p.read(bias, {at[channel]})}.cast(sum); };
  E total{&p, p.real(0, sum)};
  if (bias >= 0 && !library.bias_rounds) total = bias_at();
  for (int64_t tap = 0; tap < product_of(c.kernel); ++tap) {
    std::vector<ExprId> k{p.integer(0)};
    int64_t rest = tap;
    for (size_t axis = c.kernel.size(); axis-- > 0; rest /= c.kernel[axis])
      k.insert(k.begin() + 1, p.integer(rest % c.kernel[axis]));
    const auto [x, w] = factors(p, at, k);
    total = call(Fn::kFma, x, w, total);
  }
  E result = total.cast(dtype);
  if (bias >= 0 && library.bias_rounds) result = (result.cast(sum) + bias_at()).cast(dtype);
  return p.add_map(shape, dtype, result.id, std::move(label), node);
}

// A transposed convolution whose taps are a multiple of the stride: of every `stride` taps along an axis one meets a given
// result, and which one depends on the result's remainder alone. So the results of each remainder are a matrix product, over
// channel blocks, taps, channels of a block: the library's own order (see library.h).
ArrayId lower_transposed(Program& p, const Conv& c, const LibraryProduct& library, ArrayId x, ArrayId w,
                         std::string label, NodeId node) {
  const DType dtype = c.input->dtype, sum = opmath(dtype);
  Shape split{c.input->shape[0], c.out_channels}, extents{c.in_channels / library.channel_block};
  for (size_t i = 0; i < c.spatial; ++i) {
    split.insert(split.end(), {c.out_size[i] / c.stride[i], c.stride[i]});
    extents.push_back(c.kernel[i] / c.stride[i]);
  }
  extents.push_back(library.channel_block);
  const Factors factors = [&](Program& q, std::span<const ExprId> at, std::span<const ExprId> k) {
    const ExprId channel = q.call(Fn::kAdd, {index_mul(q, k.front(), library.channel_block), k.back()});
    std::vector<ExprId> in{at[0], channel}, in_weight{channel, at[1]};
    ExprId inside = kNoExpr;
    for (size_t i = 0; i < c.spatial; ++i) {
      const ExprId remainder = index_add(q, at[3 + 2 * i], c.before[i]), stride = q.integer(c.stride[i]);
      ExprId tap = k[1 + i];
      if (library.last_tap_first) tap = q.call(Fn::kSub, {q.integer(c.kernel[i] / c.stride[i] - 1), tap});
      const ExprId from = q.call(
          Fn::kSub, {q.call(Fn::kAdd, {at[2 + 2 * i], q.call(Fn::kFloorDiv, {remainder, stride})}), tap});
      inside = both_of(q, inside, q.call(Fn::kGe, {from, q.integer(0)}));
      inside = both_of(q, inside, q.call(Fn::kLt, {from, q.integer(c.in_size[i])}));
      in.push_back(from);
      in_weight.push_back(
          q.call(Fn::kAdd, {q.call(Fn::kMod, {remainder, stride}), index_mul(q, tap, c.stride[i])}));
    }
    // Chosen before it is widened: 16-bit factors go to the matrix units as they are.
    E value = E{&q, q.select(inside, q.read(x, in), q.real(0, dtype))}.cast(sum);
    E weight = E{&q, q.read(w, in_weight)}.cast(sum);
    return multiplied(library, value, weight);
  };
  const ArrayId product = add_product(p, split, sum, extents, factors, label, node);
  p.set_inner_block(product, library.channel_block);
  const Shape shape = c.result_shape();
  std::vector<ExprId> at{p.index(0, shape[0]), p.index(1, shape[1])};
  for (size_t i = 0; i < c.spatial; ++i) {
    const ExprId o = p.index(static_cast<int>(2 + i), shape[2 + i]), stride = p.integer(c.stride[i]);
    at.insert(at.end(), {p.call(Fn::kFloorDiv, {o, stride}), p.call(Fn::kMod, {o, stride})});
  }
  return p.add_map(shape, sum, p.read(product, at), std::move(label), node);
}

template <ReadConv kRead>
Result<std::vector<ArrayId>> lower_conv(LowerContext& ctx, const Call& call) {
  PN_TRY(Conv c, kRead(call));
  DType dtype = c.input->dtype;
  if (!is_floating(dtype) || c.weight->dtype != dtype)
    return no_lowering(call, "operands are not of one floating type");
  PN_TRY(ArrayId x, ctx.array(call.arg("input")));
  PN_TRY(ArrayId w, ctx.array(call.arg("weight")));
  Program& p = ctx.program();
  DType sum = opmath(dtype);
  size_t channel = c.batched ? 1 : 0;
  const ConvProblem problem = problem_of(c);
  const LibraryProduct library = library_conv(problem);
  int64_t in_per_group = c.in_channels / c.groups, out_per_group = c.out_channels / c.groups;
  Shape extents{in_per_group};
  extents.insert(extents.end(), c.kernel.begin(), c.kernel.end());
  Factors factors = [&](Program& q, std::span<const ExprId> at, std::span<const ExprId> k) {
    ExprId group = q.call(Fn::kFloorDiv, {at[channel], q.integer(out_per_group)});
    ExprId in_channel = q.call(Fn::kAdd, {index_mul(q, group, in_per_group), k[0]});
    std::vector<ExprId> in;
    if (c.batched) in.push_back(at[0]);
    in.push_back(in_channel);
    std::vector<ExprId> in_weight{at[channel], k[0]};
    if (c.transposed) in_weight = {in_channel, q.call(Fn::kMod, {at[channel], q.integer(out_per_group)})};
    ExprId inside = kNoExpr;
    for (size_t i = 0; i < c.spatial; ++i) {
      in.push_back(source_position(q, c, i, at[channel + 1 + i], k[1 + i], &inside));
      in_weight.push_back(k[1 + i]);
    }
    ExprId value = q.cast(q.read(x, in), sum);
    if (inside != kNoExpr) value = q.select(inside, value, q.real(0, sum));
    return multiplied(library, {&q, value}, {&q, q.cast(q.read(w, in_weight), sum)});
  };
  ArrayId bias = -1;
  if (c.bias) {
    PN_TRY(bias, ctx.array(call.arg("bias")));
  }
  if (problem.depthwise() && product_of(c.kernel) <= kMostTaps)
    return std::vector<ArrayId>{lower_taps(p, c, library, bias, factors, label_of(call), call.node->id)};
  const ArrayId out =
      library.channel_block > 0
          ? lower_transposed(p, c, library, x, w, label_of(call, "sum"), call.node->id)
          : add_product(p, c.result_shape(), sum, extents, factors, label_of(call, "sum"), call.node->id);
  if (!c.bias && sum == dtype) return std::vector<ArrayId>{out};
  bool one_rounding = !library.bias_rounds;
  return std::vector<ArrayId>{add_epilogue(
      p, out, dtype,
      [&](E e, std::span<const ExprId> at) {
        if (!c.bias) return e.cast(dtype);
        E b = E{&p, p.read(bias, {at[channel]})}.cast(sum);
        return one_rounding ? (e + b).cast(dtype) : (e.cast(dtype).cast(sum) + b).cast(dtype);
      },
      label_of(call), call.node->id)};
}

template <ReadConv kRead>
OpCost cost_conv(const Call& call) {
  Result<Conv> c = kRead(call);
  if (!c.ok()) return {};
  double terms = static_cast<double>(c->in_channels / c->groups);
  for (int64_t k : c->kernel) terms *= static_cast<double>(k);
  // A transposed convolution multiplies every input with every tap.
  for (size_t i = 0; c->transposed && i < c->spatial; ++i) terms /= static_cast<double>(c->stride[i]);
  OpCost cost = product_cost(call, c->transposed ? 30 : 20.6, terms);
  const ConvProblem problem = problem_of(*c);
  if (c->bias && library_conv(problem).bias_rounds) cost.kernels = 2, cost.host_us += 6;
  // The library turns operands and result around, and clears the result first.
  if (c->transposed && problem.contiguous) cost.kernels = 5;
  if (problem.depthwise()) cost.tensor_core = false;
  return cost;
}

template <ReadConv kRead>
OpRow conv_row(std::string_view name, std::vector<Spelling> spellings, std::vector<Example> examples) {
  return {.name = name,
          .cls = OpClass::kProduct,
          .spellings = std::move(spellings),
          .meta = meta_conv<kRead>,
          .lower = lower_conv<kRead>,
          .cost = cost_conv<kRead>,
          .examples = std::move(examples)};
}

constexpr std::string_view kConv = "input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1";
constexpr std::string_view kTransposed =
    "input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1";

}  // namespace

std::optional<ConvProblem> conv_problem(const Call& call) {
  using Read = Result<Conv> (*)(const Call&);
  static constexpr std::pair<std::string_view, Read> kReaders[] = {
      {"conv1d", read_conv<1>},
      {"conv2d", read_conv<2>},
      {"conv3d", read_conv<3>},
      {"conv_transpose1d", read_conv_transpose<1>},
      {"conv_transpose2d", read_conv_transpose<2>},
      {"conv_transpose3d", read_conv_transpose<3>}};
  for (const auto& [name, read] : kReaders) {
    if (call.row->name != name) continue;
    const Result<Conv> conv = read(call);
    return conv.ok() ? std::optional(problem_of(*conv)) : std::nullopt;
  }
  return std::nullopt;
}

std::vector<OpRow> conv_rows() {
  return {
      conv_row<read_conv<1>>(
          "conv1d", {function("torch.conv1d", kConv)},
          {{"x=f32[2,4,9], w=f32[6,2,3], b=f32[6]", "torch.conv1d(x, w, b, (2,), (1,), (1,), 2)"},
           {"x=f32[2,4,9], w=f32[6,4,2]", "torch.conv1d(x, w, None, 1, 'same', 1, 1)"}}),
      conv_row<read_conv<2>>(
          "conv2d", {function("torch.conv2d", kConv)},
          {{"x=f32[2,4,6,5], w=f32[8,4,1,1], b=f32[8]", "torch.conv2d(x, w, b, (1, 1), (0, 0), (1, 1), 1)"},
           {"x=f32[2,4,6,5], w=f32[8,2,3,3]", "torch.conv2d(x, w, None, (2, 1), (1, 2), (1, 2), 2)"},
           {"x=f32[2,4,6,5], w=f32[4,1,3,3], b=f32[4]", "torch.conv2d(x, w, b, (1, 1), (1, 1), (1, 1), 4)"},
           {"x=f16[1,3,8,8], w=f16[5,3,4,4], b=f16[5]", "torch.conv2d(x, w, b, (4, 4))"},
           {"x=f32[4,6,5], w=f32[8,4,3,2]", "torch.conv2d(x, w, padding='same')"}}),
      conv_row<read_conv<3>>("conv3d", {function("torch.conv3d", kConv)},
                             {{"x=f32[1,2,4,5,6], w=f32[3,2,2,3,3], b=f32[3]",
                               "torch.conv3d(x, w, b, (1, 2, 2), (0, 1, 1), (1, 1, 1), 1)"}}),
      conv_row<read_conv_transpose<1>>(
          "conv_transpose1d", {function("torch.conv_transpose1d", kTransposed)},
          {{"x=f32[2,4,5], w=f32[4,3,4]", "torch.conv_transpose1d(x, w, None, (2,), (1,), (0,), 1, (1,))"}}),
      conv_row<read_conv_transpose<2>>(
          "conv_transpose2d", {function("torch.conv_transpose2d", kTransposed)},
          {{"x=f32[2,4,3,5], w=f32[4,3,2,2], b=f32[3]",
            "torch.conv_transpose2d(x, w, b, (2, 2), (0, 0), (0, 0), 1, (1, 1))"},
           {"x=f32[2,4,3,5], w=f32[4,3,3,3]", "torch.conv_transpose2d(x, w, None, 2, 1, 1, 2, 1)"}}),
      conv_row<read_conv_transpose<3>>(
          "conv_transpose3d", {function("torch.conv_transpose3d", kTransposed)},
          {{"x=f32[1,2,2,3,3], w=f32[2,3,2,2,2]", "torch.conv_transpose3d(x, w, None, (2, 2, 2))"}}),
  };
}

}  // namespace passnet
