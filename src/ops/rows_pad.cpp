#include <algorithm>

#include <fmt/format.h>

#include "ops/copy_rows.h"
#include "ops/row_args.h"
#include "ops/view_algebra.h"

namespace passnet {

namespace {

using Shape = std::vector<int64_t>;

struct Padding {
  Shape before, after;  // per axis
  Shape shape;          // of the result
  std::string mode;
  bool pads = false;  // some amount is positive
};

Result<Padding> read_padding(const Call& call, std::string mode) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(Shape amounts, ints_arg(call, "pad"));
  size_t rank = input->shape.size();
  if (amounts.size() % 2 != 0 || amounts.size() / 2 > rank)
    return bad_argument(call, "pad", fmt::format("pairs for at most {} axes, the last axis first", rank));
  Padding out;
  out.mode = std::move(mode);
  out.before.assign(rank, 0);
  out.after.assign(rank, 0);
  out.shape = input->shape;
  for (size_t i = 0; i < amounts.size() / 2; ++i) {
    size_t axis = rank - 1 - i;
    out.before[axis] = amounts[2 * i];
    out.after[axis] = amounts[2 * i + 1];
    out.pads |= out.before[axis] > 0 || out.after[axis] > 0;
    int64_t size = input->shape[axis];
    out.shape[axis] += out.before[axis] + out.after[axis];
    bool fits = out.shape[axis] >= 0;
    int64_t most = std::max(out.before[axis], out.after[axis]);
    if (out.mode == "reflect") fits &= most < size;
    if (out.mode == "circular") fits &= most <= size;
    if (!fits)
      return bad_argument(call, "pad", fmt::format("amounts that axis {} of size {} allows", axis, size));
  }
  static constexpr std::string_view kModes[] = {"constant", "reflect", "replicate", "circular"};
  if (std::find(std::begin(kModes), std::end(kModes), out.mode) == std::end(kModes))
    return bad_argument(call, "mode", "'constant', 'reflect', 'replicate' or 'circular'");
  return out;
}

Result<Padding> mode_padding(const Call& call) {
  PN_TRY(std::string mode, string_arg(call, "mode"));
  return read_padding(call, std::move(mode));
}

Result<Padding> constant_padding(const Call& call) { return read_padding(call, "constant"); }

using ReadPadding = Result<Padding> (*)(const Call&);

template <ReadPadding kRead>
Result<Inferred> meta_pad(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(Padding padding, kRead(call));
  if (padding.mode != "constant")
    return fresh(padding.shape, input->dtype, plain_strides(*input, padding.shape));
  if (padding.pads) {
    std::optional<Shape> stride = suggested_strides(*input, padding.shape);
    return fresh(padding.shape, input->dtype, std::move(stride));
  }
  // Cropping alone is a clone of narrowed views.
  View view(*input);
  for (int axis = 0; axis < view.rank(); ++axis) {
    size_t a = static_cast<size_t>(axis);
    if (padding.shape[a] != view.shape()[a]) view.slice(axis, -padding.before[a], padding.shape[a], 1);
  }
  return fresh(padding.shape, input->dtype, preserved_strides(view.meta()));
}

// The source index for `i`, already shifted by the padding before, by the modes that repeat elements.
ExprId repeated_index(Program& p, const std::string& mode, ExprId i, int64_t before, int64_t after,
                      int64_t size) {
  ExprId last = p.integer(size - 1);
  if (mode == "replicate") {
    if (before > 0) i = p.call(Fn::kMax, {i, p.integer(0)});
    if (after > 0) i = p.call(Fn::kMin, {i, last});
    return i;
  }
  ExprId below = mode == "reflect" ? p.call(Fn::kNeg, {i}) : index_add(p, i, size);
  ExprId above =
      mode == "reflect" ? p.call(Fn::kSub, {p.integer(2 * (size - 1)), i}) : index_add(p, i, -size);
  ExprId out = i;
  if (after > 0) out = p.select(p.call(Fn::kGt, {i, last}), above, out);
  if (before > 0) out = p.select(p.call(Fn::kLt, {i, p.integer(0)}), below, out);
  return out;
}

template <ReadPadding kRead>
Result<std::vector<ArrayId>> lower_pad(LowerContext& ctx, const Call& call) {
  PN_TRY(Padding padding, kRead(call));
  PN_TRY(ArrayId source, ctx.array(call.arg("input")));
  Program& p = ctx.program();
  const Shape shape = p.array(source).shape;
  DType dtype = p.array(source).dtype;
  std::vector<ExprId> at = identity(p, padding.shape);
  ExprId inside = kNoExpr;
  auto require = [&](ExprId condition) {
    inside = inside == kNoExpr ? condition : p.call(Fn::kAnd, {inside, condition});
  };
  for (size_t i = 0; i < at.size(); ++i) {
    int64_t before = padding.before[i], after = padding.after[i];
    at[i] = index_add(p, at[i], -before);
    if (padding.mode != "constant") {
      at[i] = repeated_index(p, padding.mode, at[i], before, after, shape[i]);
    } else {
      if (before > 0) require(p.call(Fn::kGe, {at[i], p.integer(0)}));
      if (after > 0) require(p.call(Fn::kLt, {at[i], p.integer(shape[i])}));
    }
  }
  ExprId value = p.read(source, at);
  if (inside != kNoExpr) {
    double fill = 0;
    if (!is_none(call, "value")) {
      PN_TRY(fill, real_arg(call, "value"));
    }
    value = p.select(inside, value, p.real(fill, dtype));
  }
  return std::vector<ArrayId>{p.add_map(padding.shape, dtype, value, label_of(call), call.node->id)};
}

// ---- unfold (im2col): [N, C, H, W] to [N, C * kernel, positions]; fold is its transpose, a sum ----

struct Patches {
  Shape image;  // H, W
  Shape kernel, dilation, padding, stride, positions;
};

Result<Patches> read_patches(const Call& call, Shape image) {
  Patches out;
  out.image = std::move(image);
  PN_TRY(out.kernel, spread_arg(call, "kernel_size", 2));
  PN_TRY(out.dilation, spread_arg(call, "dilation", 2));
  PN_TRY(out.padding, spread_arg(call, "padding", 2));
  PN_TRY(out.stride, spread_arg(call, "stride", 2));
  for (size_t i = 0; i < 2; ++i) {
    if (out.kernel[i] <= 0 || out.stride[i] <= 0 || out.dilation[i] <= 0 || out.padding[i] < 0)
      return bad_argument(call, "kernel_size", "positive, with positive stride and dilation");
    int64_t room = out.image[i] + 2 * out.padding[i] - out.dilation[i] * (out.kernel[i] - 1) - 1;
    if (room < 0) return bad_argument(call, "kernel_size", "no larger than the padded image");
    out.positions.push_back(room / out.stride[i] + 1);
  }
  return out;
}

Result<Patches> unfold_patches(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  if (input->dim() != 3 && input->dim() != 4)
    return bad_argument(call, "input", "a tensor of 3 or 4 dimensions");
  return read_patches(call, Shape(input->shape.end() - 2, input->shape.end()));
}

Result<Inferred> meta_unfold(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(Patches patches, unfold_patches(call));
  Shape shape(input->shape.begin(), input->shape.end() - 2);
  shape.back() *= patches.kernel[0] * patches.kernel[1];
  shape.push_back(patches.positions[0] * patches.positions[1]);
  return fresh(std::move(shape), input->dtype);
}

Result<std::vector<ArrayId>> lower_unfold(LowerContext& ctx, const Call& call) {
  PN_TRY(Patches patches, unfold_patches(call));
  PN_TRY(ArrayId source, ctx.array(call.arg("input")));
  Program& p = ctx.program();
  DType dtype = p.array(source).dtype;
  const Shape& shape = call.node->meta.tensor.shape;
  std::vector<ExprId> at = identity(p, shape);
  size_t channel = at.size() - 2;
  int64_t kernel_size = patches.kernel[0] * patches.kernel[1];
  ExprId within = p.call(Fn::kMod, {at[channel], p.integer(kernel_size)});
  std::vector<ExprId> kernel = delinearize(p, patches.kernel, within);
  std::vector<ExprId> position = delinearize(p, patches.positions, at.back());
  std::vector<ExprId> in(at.begin(), at.end() - 2);
  in.push_back(p.call(Fn::kFloorDiv, {at[channel], p.integer(kernel_size)}));
  ExprId inside = kNoExpr;
  for (size_t i = 0; i < 2; ++i) {
    ExprId e = p.call(Fn::kAdd, {index_mul(p, position[i], patches.stride[i]),
                                 index_mul(p, kernel[i], patches.dilation[i])});
    e = index_add(p, e, -patches.padding[i]);
    in.push_back(e);
    if (patches.padding[i] == 0) continue;
    ExprId fits = p.call(
        Fn::kAnd, {p.call(Fn::kGe, {e, p.integer(0)}), p.call(Fn::kLt, {e, p.integer(patches.image[i])})});
    inside = inside == kNoExpr ? fits : p.call(Fn::kAnd, {inside, fits});
  }
  ExprId value = p.read(source, in);
  if (inside != kNoExpr) value = p.select(inside, value, p.real(0, dtype));
  return std::vector<ArrayId>{p.add_map(shape, dtype, value, label_of(call), call.node->id)};
}

Result<Inferred> meta_fold(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(Shape image, spread_arg(call, "output_size", 2));
  PN_TRY(Patches patches, read_patches(call, image));
  if (input->dim() != 2 && input->dim() != 3)
    return bad_argument(call, "input", "a tensor of 2 or 3 dimensions");
  Shape shape(input->shape.begin(), input->shape.end() - 1);
  int64_t kernel_size = patches.kernel[0] * patches.kernel[1];
  if (shape.back() % kernel_size != 0 || input->shape.back() != patches.positions[0] * patches.positions[1])
    return bad_argument(call, "input", "what unfold gives for an image of `output_size`");
  shape.back() /= kernel_size;
  shape.insert(shape.end(), image.begin(), image.end());
  return fresh(std::move(shape), input->dtype);
}

}  // namespace

std::vector<OpRow> pad_rows() {
  return {
      {.name = "pad",
       .cls = OpClass::kCopy,
       .spellings = {function("torch.nn.functional.pad", "input, pad, mode='constant', value=None"),
                     function("torch._C._nn.pad", "input, pad, mode='constant', value=None")},
       .meta = meta_pad<mode_padding>,
       .lower = lower_pad<mode_padding>,
       .cost = fixed_cost<150, 1>,
       .examples = {{"x=f32[2,3,5]", "torch.nn.functional.pad(x, [0, 1], 'constant', None)"},
                    {"x=f16[2,3,4,5]", "torch.nn.functional.pad(x, (1, 2, 0, 3), 'constant', 1.5)"},
                    {"x=f32[2,3,5]", "torch._C._nn.pad(x, (-1, 2), 'constant', 0)"},
                    {"x=f32[2,3,5]", "torch.nn.functional.pad(x, (-1, -2))"},
                    {"x=f32[2,3,4,5]", "torch.nn.functional.pad(x, (2, 1, 1, 0), mode='reflect')"},
                    {"x=f32[2,3,4,5]", "torch.nn.functional.pad(x, (2, 1, 1, 0), mode='replicate')"},
                    {"x=f32[2,3,5]", "torch.nn.functional.pad(x, (2, 1), mode='circular')"},
                    {"x=i64[2,5]", "torch.nn.functional.pad(x, (1, 1), value=-1)"}}},
      {.name = "constant_pad_nd",
       .cls = OpClass::kCopy,
       .spellings = {function("torch.constant_pad_nd", "input, pad, value=0")},
       .meta = meta_pad<constant_padding>,
       .lower = lower_pad<constant_padding>,
       .cost = fixed_cost<140, 1>,
       .examples = {{"x=f32[2,5]", "torch.constant_pad_nd(x, [1, 0], 2.0)"}}},
      {.name = "unfold",
       .cls = OpClass::kCopy,
       .spellings = {function("torch.nn.functional.unfold",
                              "input, kernel_size, dilation=1, padding=0, stride=1")},
       .meta = meta_unfold,
       .lower = lower_unfold,
       .cost = fixed_cost<150, 1>,
       .examples = {{"x=f32[2,3,6,5]", "torch.nn.functional.unfold(x, kernel_size=(3, 2), stride=(2, 1))"},
                    {"x=f32[2,3,6,5]", "torch.nn.functional.unfold(x, (3, 3), (1, 2), (1, 2), (2, 2))"}}},
      {.name = "fold",
       .cls = OpClass::kOther,
       .spellings = {function("torch.nn.functional.fold",
                              "input, output_size, kernel_size, dilation=1, padding=0, stride=1")},
       .meta = meta_fold,
       .cost = fixed_cost<150, 1>,
       .examples = {{"x=f32[2,12,4]",
                     "torch.nn.functional.fold(x, output_size=(4, 4), kernel_size=(2, 2), stride=(2, 2))"}},
       .wall = "overlapping windows are summed in an order of their own"},
  };
}

}  // namespace passnet
