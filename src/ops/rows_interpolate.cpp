#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ops/row_args.h"
#include "ops/stencil_rows.h"
#include "ops/view_algebra.h"

// Interpolation, with source positions and weights in float32 as the CUDA kernels compute them. nvcc
// contracts those kernels' multiply-adds; the fused ones are written out.

namespace passnet {

namespace {

using Shape = std::vector<int64_t>;

struct Resize {
  const TensorMeta* input = nullptr;
  std::string mode;
  bool align_corners = false;
  bool antialias = false;
  Shape in_size, out_size;
  std::vector<std::optional<double>> scales;  // given and passed on to the kernel
};

Result<std::vector<double>> factors_arg(const Call& call, std::string_view name, size_t n) {
  Value v = known_value(call, call.arg(name));
  std::vector<Value> items = v.is_sequence() ? v.items() : std::vector<Value>(n, v);
  if (items.size() == 1) items.resize(n, items[0]);
  if (items.size() != n) return bad_argument(call, name, fmt::format("one number or {}", n));
  std::vector<double> out;
  for (const Value& item : items) {
    Value known = known_value(call, item);
    if (!known.is_number()) return bad_argument(call, name, "numbers");
    out.push_back(known.as_double());
  }
  return out;
}

Status read_sizes(const Call& call, Resize& r, bool recompute) {
  size_t n = r.in_size.size();
  r.scales.assign(n, std::nullopt);
  if (!is_none(call, "size")) {
    PN_TRY(r.out_size, spread_arg(call, "size", n));
  } else if (!is_none(call, "scale_factor")) {
    PN_TRY(std::vector<double> factors, factors_arg(call, "scale_factor", n));
    for (size_t i = 0; i < n; ++i) {
      const double size = static_cast<double>(r.in_size[i]) * factors[i];
      if (!(std::fabs(size) <= static_cast<double>(kMostElements)))
        return bad_argument(call, "scale_factor", "factors whose result memory holds");
      r.out_size.push_back(static_cast<int64_t>(size));
      if (!recompute) r.scales[i] = factors[i];
    }
  } else {
    return bad_argument(call, "size", "given, or `scale_factor`");
  }
  for (int64_t size : r.out_size)
    if (size <= 0) return bad_argument(call, "size", "positive");
  return ok_status();
}

Result<Resize> read_interpolate(const Call& call) {
  Resize r;
  PN_TRY(r.input, tensor_arg(call, "input"));
  if (r.input->dim() < 3 || r.input->dim() > 5)
    return bad_argument(call, "input", "a tensor of 3 to 5 dimensions");
  r.in_size.assign(r.input->shape.begin() + 2, r.input->shape.end());
  PN_TRY(r.mode, string_arg(call, "mode"));
  struct Mode {
    std::string_view name;
    int rank;  // 0: any
  };
  static constexpr Mode kModes[] = {{"nearest", 0},  {"nearest-exact", 0}, {"area", 0},    {"linear", 3},
                                    {"bilinear", 4}, {"trilinear", 5},     {"bicubic", 4}, {"lanczos", 4}};
  auto mode =
      std::find_if(std::begin(kModes), std::end(kModes), [&](const Mode& m) { return m.name == r.mode; });
  if (mode == std::end(kModes)) return bad_argument(call, "mode", "one of torch's interpolation modes");
  if (mode->rank != 0 && mode->rank != r.input->dim())
    return bad_argument(call, "input",
                        fmt::format("a tensor of {} dimensions for mode '{}'", mode->rank, r.mode));
  PN_TRY(r.align_corners, bool_arg(call, "align_corners"));
  PN_TRY(r.antialias, bool_arg(call, "antialias"));
  PN_TRY(bool recompute, bool_arg(call, "recompute_scale_factor"));
  PN_CHECK_OK(read_sizes(call, r, recompute || r.mode == "area"));
  return r;
}

// upsample_nearest2d and relatives: sizes or factors, the mode in the name.
template <int kRank, bool kNearest>
Result<Resize> read_upsample(const Call& call) {
  Resize r;
  PN_TRY(r.input, tensor_arg(call, "input"));
  if (r.input->dim() != kRank)
    return bad_argument(call, "input", fmt::format("a tensor of {} dimensions", kRank));
  r.in_size.assign(r.input->shape.begin() + 2, r.input->shape.end());
  r.mode = kNearest ? "nearest" : kRank == 3 ? "linear" : kRank == 4 ? "bilinear" : "trilinear";
  if (!kNearest) {
    PN_TRY(r.align_corners, bool_arg(call, "align_corners"));
  }
  PN_CHECK_OK(read_sizes(call, r, false));
  return r;
}

using ReadResize = Result<Resize> (*)(const Call&);

template <ReadResize kRead>
Result<Inferred> meta_resize(const Call& call) {
  PN_TRY(Resize r, kRead(call));
  if (r.mode == "area") return adaptive_avg_meta(*r.input, r.out_size);
  Shape shape{r.input->shape[0], r.input->shape[1]};
  shape.insert(shape.end(), r.out_size.begin(), r.out_size.end());
  std::optional<Shape> stride = suggested_strides(*r.input, shape);
  return fresh(std::move(shape), r.input->dtype, std::move(stride));
}

template <class Real>
Real kernel_scale(const Resize& r, size_t i) {
  if (r.align_corners)
    return r.out_size[i] > 1 ? static_cast<Real>(r.in_size[i] - 1) / static_cast<Real>(r.out_size[i] - 1)
                             : Real{0};
  if (r.scales[i] && *r.scales[i] > 0) return static_cast<Real>(1.0 / *r.scales[i]);
  return static_cast<Real>(r.in_size[i]) / static_cast<Real>(r.out_size[i]);
}

// Nearest source position; integer arithmetic where it gives what the kernel's float32 product gives for
// every index.
ExprId nearest_position(Program& p, const Resize& r, size_t i, ExprId o) {
  int64_t n = r.in_size[i], out = r.out_size[i];
  float scale = kernel_scale<float>(r, i);
  float shift = r.mode == "nearest-exact" ? 0.5f : 0.0f;
  auto exact = [&](auto position) {
    for (int64_t j = 0; j < out; ++j) {
      int64_t by_kernel =
          std::min(static_cast<int64_t>(std::floor((static_cast<float>(j) + shift) * scale)), n - 1);
      if (by_kernel != position(j)) return false;
    }
    return true;
  };
  if (exact([](int64_t j) { return j; })) return o;
  int64_t up = std::max<int64_t>(out / n, 1), down = std::max<int64_t>(n / out, 1);
  if (exact([&](int64_t j) { return j / up; })) return p.call(Fn::kFloorDiv, {o, p.integer(up)});
  if (exact([&](int64_t j) { return j * down; })) return index_mul(p, o, down);
  if (exact([&](int64_t j) { return j * n / out; }))
    return p.call(Fn::kFloorDiv, {index_mul(p, o, n), p.integer(out)});
  E position = E{&p, p.cast(o, DType::kFloat32)};
  if (shift != 0) position = position + static_cast<double>(shift);
  ExprId floor = p.cast(call(Fn::kFloor, position * static_cast<double>(scale)).id, DType::kInt64);
  return p.call(Fn::kMin, {floor, p.integer(n - 1)});
}

struct Tap {
  ExprId low, high;  // positions
  E low_weight, high_weight;
};

Tap linear_tap(Program& p, const Resize& r, size_t i, ExprId o, DType wide) {
  double scale =
      wide == DType::kFloat64 ? kernel_scale<double>(r, i) : static_cast<double>(kernel_scale<float>(r, i));
  E dst{&p, p.cast(o, wide)};
  E src = dst * scale;
  if (!r.align_corners) {
    src = call(Fn::kFma, dst.constant(scale), dst + 0.5, dst.constant(-0.5));
    src = select(call(Fn::kLt, src, src.constant(0)), src.constant(0), src);
  }
  Tap tap;
  tap.low = p.cast(src.id, DType::kInt64);
  tap.high = p.call(Fn::kMin, {index_add(p, tap.low, 1), p.integer(r.in_size[i] - 1)});
  tap.high_weight = src - E{&p, p.cast(tap.low, wide)};
  tap.low_weight = 1.0 - tap.high_weight;
  return tap;
}

E blend(Program& p, ArrayId source, const std::vector<Tap>& taps, std::vector<ExprId>& in, size_t axis,
        DType wide) {
  if (axis == taps.size()) return E{&p, p.read(source, in)}.cast(wide);
  const Tap& tap = taps[axis];
  in.push_back(tap.low);
  E low = blend(p, source, taps, in, axis + 1, wide);
  in.back() = tap.high;
  E high = blend(p, source, taps, in, axis + 1, wide);
  in.pop_back();
  return call(Fn::kFma, tap.low_weight, low, tap.high_weight * high);
}

template <ReadResize kRead>
Result<std::vector<ArrayId>> lower_resize(LowerContext& ctx, const Call& call) {
  PN_TRY(Resize r, kRead(call));
  if (r.antialias) return no_lowering(call, "the antialiasing filter is not generated");
  if (r.mode == "area") return lower_adaptive_avg(ctx, call, r.out_size);
  bool nearest = r.mode == "nearest" || r.mode == "nearest-exact";
  bool linear = r.mode == "linear" || r.mode == "bilinear" || r.mode == "trilinear";
  if (!nearest && !linear) return no_lowering(call, fmt::format("mode '{}' is not generated", r.mode));
  DType dtype = r.input->dtype;
  if (linear && !is_floating(dtype)) return no_lowering(call, "the operand is not floating");
  PN_TRY(ArrayId source, ctx.array(call.arg("input")));
  Program& p = ctx.program();
  Shape shape{r.input->shape[0], r.input->shape[1]};
  shape.insert(shape.end(), r.out_size.begin(), r.out_size.end());
  std::vector<ExprId> at = identity(p, shape);
  std::vector<ExprId> in{at[0], at[1]};
  ExprId value = kNoExpr;
  if (nearest || r.in_size == r.out_size) {  // of equal size, the kernels copy
    for (size_t i = 0; i < r.in_size.size(); ++i)
      in.push_back(nearest ? nearest_position(p, r, i, at[2 + i]) : at[2 + i]);
    value = p.read(source, in);
  } else {
    DType wide = opmath(dtype);
    std::vector<Tap> taps;
    for (size_t i = 0; i < r.in_size.size(); ++i) taps.push_back(linear_tap(p, r, i, at[2 + i], wide));
    value = blend(p, source, taps, in, 0, wide).cast(dtype).id;
  }
  return std::vector<ArrayId>{p.add_map(shape, dtype, value, label_of(call), call.node->id)};
}

Result<Inferred> meta_grid_sample(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(const TensorMeta* grid, tensor_arg(call, "grid"));
  if (input->dim() < 4 || input->dim() > 5)
    return bad_argument(call, "input", "a tensor of 4 or 5 dimensions");
  if (grid->dim() != input->dim() || grid->shape.back() != input->dim() - 2 ||
      grid->shape[0] != input->shape[0])
    return bad_argument(call, "grid",
                        fmt::format("a tensor of {} dimensions that ends in axis of size {}", input->dim(),
                                    input->dim() - 2));
  Shape shape{input->shape[0], input->shape[1]};
  shape.insert(shape.end(), grid->shape.begin() + 1, grid->shape.end() - 1);
  return fresh(std::move(shape), input->dtype);
}

Result<Inferred> meta_affine_grid(const Call& call) {
  PN_TRY(const TensorMeta* theta, tensor_arg(call, "theta"));
  PN_TRY(Shape size, ints_arg(call, "size"));
  if (size.size() != 4 && size.size() != 5) return bad_argument(call, "size", "4 or 5 sizes");
  const auto spatial = static_cast<int64_t>(size.size()) - 2;
  PN_CHECK_OK(shape_of(call, "theta", Shape{size[0], spatial, spatial + 1}));
  Shape shape{size[0]};
  shape.insert(shape.end(), size.begin() + 2, size.end());
  shape.push_back(static_cast<int64_t>(size.size()) - 2);
  return fresh(std::move(shape), theta->dtype);
}

template <ReadResize kRead>
OpRow resize_row(std::string_view name, std::vector<Spelling> spellings, std::vector<Example> examples) {
  return {.name = name,
          .cls = OpClass::kStencil,
          .spellings = std::move(spellings),
          .meta = meta_resize<kRead>,
          .lower = lower_resize<kRead>,
          .cost = fixed_cost<147, 1>,
          .examples = std::move(examples)};
}

constexpr std::string_view kNearest = "input, size|output_size=None, scale_factor|scale_factors=None";
constexpr std::string_view kLinear =
    "input, size|output_size=None, align_corners=False, scale_factor|scale_factors=None";

}  // namespace

std::vector<OpRow> interpolate_rows() {
  return {
      resize_row<read_interpolate>(
          "interpolate",
          {function("torch.nn.functional.interpolate",
                    "input, size=None, scale_factor=None, mode='nearest', align_corners=None, "
                    "recompute_scale_factor=None, antialias=False"),
           function("torch.nn.functional.upsample",
                    "input, size=None, scale_factor=None, mode='nearest', align_corners=None")},
          {{"x=f32[2,3,4,5]", "torch.nn.functional.interpolate(x, (8, 7), None, 'bilinear', False)"},
           {"x=f16[2,3,4,5]",
            "torch.nn.functional.interpolate(x, size=(12, 10), mode='bilinear', align_corners=True)"},
           {"x=f32[2,3,4,5]", "torch.nn.functional.interpolate(x, scale_factor=2, mode='nearest')"},
           {"x=f32[2,3,4,5]",
            "torch.nn.functional.interpolate(x, None, 2.5, 'bilinear', None, recompute_scale_factor=None)"},
           {"x=f32[2,3,4,5]",
            "torch.nn.functional.interpolate(x, scale_factor=1.7, mode='bilinear', "
            "recompute_scale_factor=True)"},
           {"x=f32[2,3,7]", "torch.nn.functional.interpolate(x, size=3)"},
           {"x=f32[2,3,7]", "torch.nn.functional.interpolate(x, size=(11,), mode='linear')"},
           {"x=f32[2,3,7,5]", "torch.nn.functional.interpolate(x, size=(3, 9), mode='nearest-exact')"},
           {"x=f32[2,3,7,5]", "torch.nn.functional.interpolate(x, size=(3, 2), mode='area')"},
           {"x=f32[2,3,7,5]",
            "torch.nn.functional.interpolate(x, size=(9, 9), mode='bicubic', align_corners=False)"},
           {"x=f32[1,2,3,4,5]",
            "torch.nn.functional.interpolate(x, scale_factor=(2, 1, 2), mode='trilinear')"}}),
      resize_row<read_upsample<4, true>>(
          "upsample_nearest2d", {function("torch._C._nn.upsample_nearest2d", kNearest)},
          {{"x=f32[2,3,4,5]", "torch._C._nn.upsample_nearest2d(x, (8, 10), None)"}}),
      resize_row<read_upsample<3, true>>(
          "upsample_nearest1d", {function("torch._C._nn.upsample_nearest1d", kNearest)},
          {{"x=f32[2,3,4]", "torch._C._nn.upsample_nearest1d(x, (8,), None)"}}),
      resize_row<read_upsample<4, false>>(
          "upsample_bilinear2d", {function("torch._C._nn.upsample_bilinear2d", kLinear)},
          {{"x=f32[2,3,4,5]", "torch._C._nn.upsample_bilinear2d(x, (8, 10), False, None)"}}),
      {.name = "grid_sample",
       .cls = OpClass::kStencil,
       .spellings = {function("torch.nn.functional.grid_sample",
                              "input, grid, mode='bilinear', padding_mode='zeros', align_corners=None")},
       .meta = meta_grid_sample,
       .cost = fixed_cost<200, 1>,
       .examples = {{"x=f32[2,3,4,5], g=f32[2,6,7,2]",
                     "torch.nn.functional.grid_sample(x, g, mode='bilinear', padding_mode='zeros', "
                     "align_corners=False)"}},
       .wall = "no schedule for positions that are data"},
      {.name = "affine_grid",
       .cls = OpClass::kStencil,
       .spellings = {function("torch.nn.functional.affine_grid", "theta, size, align_corners=None")},
       .meta = meta_affine_grid,
       .cost = fixed_cost<600, 5>,
       .examples = {{"t=f32[2,2,3]",
                     "torch.nn.functional.affine_grid(t, (2, 3, 4, 5), align_corners=False)"}},
       .wall = "no schedule"},
  };
}

}  // namespace passnet
