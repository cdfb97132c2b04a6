#include <cmath>

#include <fmt/format.h>

#include "ops/row_args.h"
#include "ops/rows.h"
#include "ops/view_algebra.h"

// Tensors made of literals. Their device argument is not followed: a captured graph lives on one device.

namespace passnet {

namespace {

using Shape = std::vector<int64_t>;

E constant_of(Program& p, double value, DType dtype) { return {&p, p.real(value, dtype)}; }

Result<std::vector<ArrayId>> filled(LowerContext& ctx, const Call& call, double value) {
  const TensorMeta& out = call.node->meta.tensor;
  if (is_complex(out.dtype)) return no_lowering(call, "complex numbers are not generated");
  Program& p = ctx.program();
  return std::vector<ArrayId>{
      p.add_map(out.shape, out.dtype, constant_of(p, value, out.dtype).id, label_of(call), call.node->id)};
}

DType type_of_number(const Value& v) {
  if (v.kind() == Value::Kind::kBool) return DType::kBool;
  return v.kind() == Value::Kind::kInt ? DType::kInt64 : DType::kFloat32;
}

// ---- by size ----

Result<Inferred> sized(const Call& call, DType fallback) {
  PN_TRY(Shape shape, ints_arg(call, "size"));
  PN_TRY(DType dtype, dtype_arg(call, "dtype", fallback));
  for (int64_t size : shape)
    if (size < 0) return bad_argument(call, "size", "sizes of at least 0");
  return fresh(std::move(shape), dtype);
}

Result<Inferred> meta_sized(const Call& call) { return sized(call, DType::kFloat32); }

Result<Inferred> meta_full(const Call& call) {
  Value fill = known_value(call, call.arg("fill_value"));
  if (const TensorMeta* tensor = call.tensor(fill)) return sized(call, tensor->dtype);
  if (!fill.is_number()) return bad_argument(call, "fill_value", "a number");
  return sized(call, type_of_number(fill));
}

// new_zeros and the like: the type of the tensor they are called on.
Result<Inferred> meta_new(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  return sized(call, input->dtype);
}

// zeros_like and the like: shape and, where it is dense, layout of the tensor.
Result<Inferred> meta_like(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(DType dtype, dtype_arg(call, "dtype", input->dtype));
  PN_TRY(std::string format, format_arg(call, "memory_format", "preserve_format"));
  if (format == "preserve_format") return fresh(input->shape, dtype, preserved_strides(*input));
  if (format == "contiguous_format") return fresh(input->shape, dtype);
  return fresh(input->shape, dtype, channels_last_strides(input->shape));
}

template <int kValue>
Result<std::vector<ArrayId>> lower_constant(LowerContext& ctx, const Call& call) {
  return filled(ctx, call, kValue);
}

Result<std::vector<ArrayId>> lower_full(LowerContext& ctx, const Call& call) {
  if (call.tensor("fill_value")) return no_lowering(call, "the value is a tensor");
  PN_TRY(double value, real_arg(call, "fill_value"));
  return filled(ctx, call, value);
}

// ---- sequences ----

constexpr double kMostExact = 9007199254740992.0;  // 2^53

struct Sequence {
  double start = 0, step = 1;
  int64_t length = 0;
  bool integral = true;  // all arguments are integers
};

// arange(end), arange(start, end), arange(start, end, step): the first parameter's meaning depends on the
// count.
Result<Sequence> read_arange(const Call& call) {
  Sequence out;
  auto number = [&](std::string_view name, double* v) -> Status {
    PN_TRY(*v, real_arg(call, name));
    const bool whole = known_value(call, call.arg(name)).kind() != Value::Kind::kFloat;
    // Torch counts integers as such; beyond 53 bits the arithmetic here would not.
    if (whole && std::fabs(*v) > kMostExact) return bad_argument(call, name, "within 2^53");
    out.integral &= whole;
    return ok_status();
  };
  double end = 0;
  if (is_none(call, "end")) {
    PN_CHECK_OK(number("start", &end));
  } else if (is_none(call, "start")) {
    PN_CHECK_OK(number("end", &end));
  } else {
    PN_CHECK_OK(number("start", &out.start));
    PN_CHECK_OK(number("end", &end));
  }
  PN_CHECK_OK(number("step", &out.step));
  if (out.step == 0 || (end - out.start) / out.step < 0)
    return bad_argument(call, "step", "a step from `start` toward `end`");
  const double length = std::ceil((end - out.start) / out.step);
  if (!(length <= static_cast<double>(kMostElements)))
    return bad_argument(call, "end", "so near to `start` that memory holds the steps");
  out.length = static_cast<int64_t>(length);
  return out;
}

Result<Inferred> meta_arange(const Call& call) {
  PN_TRY(Sequence s, read_arange(call));
  PN_TRY(DType dtype, dtype_arg(call, "dtype", s.integral ? DType::kInt64 : DType::kFloat32));
  return fresh({s.length}, dtype);
}

Result<std::vector<ArrayId>> lower_arange(LowerContext& ctx, const Call& call) {
  PN_TRY(Sequence s, read_arange(call));
  const TensorMeta& out = call.node->meta.tensor;
  Program& p = ctx.program();
  ExprId i = p.index(0, s.length);
  ExprId value = kNoExpr;
  if (s.integral) {
    value = index_add(p, index_mul(p, i, static_cast<int64_t>(s.step)), static_cast<int64_t>(s.start));
    value = p.cast(value, out.dtype);
  } else if (is_floating(out.dtype)) {
    // start + step * i in the type of the accumulation, which aten's kernel contracts into one rounding.
    DType wide = opmath(out.dtype);
    value =
        p.cast(p.call(Fn::kFma, {p.real(s.step, wide), p.cast(i, wide), p.real(s.start, wide)}), out.dtype);
  } else {
    return no_lowering(call, "an integer sequence with fractional steps");
  }
  return std::vector<ArrayId>{p.add_map(out.shape, out.dtype, value, label_of(call), call.node->id)};
}

Result<Inferred> meta_linspace(const Call& call) {
  PN_TRY(int64_t steps, int_arg(call, "steps"));
  PN_TRY(DType dtype, dtype_arg(call, "dtype", DType::kFloat32));
  if (steps < 0) return bad_argument(call, "steps", "at least 0");
  return fresh({steps}, dtype);
}

Result<std::vector<ArrayId>> lower_linspace(LowerContext& ctx, const Call& call) {
  PN_TRY(double start, real_arg(call, "start"));
  PN_TRY(double end, real_arg(call, "end"));
  const TensorMeta& out = call.node->meta.tensor;
  int64_t steps = out.shape[0];
  if (out.dtype != DType::kFloat32) return no_lowering(call, "linspace in another type than float32");
  if (steps < 2) return filled(ctx, call, start);
  // From both ends toward the middle, each a multiply-add, as aten's kernel computes it in float32.
  Program& p = ctx.program();
  ExprId i = p.index(0, steps);
  float first = static_cast<float>(start), last = static_cast<float>(end);
  float step = (last - first) / static_cast<float>(steps - 1);
  auto fma = [&](float factor, ExprId by, float term) {
    return p.call(Fn::kFma, {p.real(factor, DType::kFloat32), p.cast(by, DType::kFloat32),
                             p.real(term, DType::kFloat32)});
  };
  ExprId from_end = fma(-step, p.call(Fn::kSub, {p.integer(steps - 1), i}), last);
  ExprId value = p.select(p.call(Fn::kLt, {i, p.integer(steps / 2)}), fma(step, i, first), from_end);
  return std::vector<ArrayId>{p.add_map(out.shape, out.dtype, value, label_of(call), call.node->id)};
}

Result<Inferred> meta_eye(const Call& call) {
  PN_TRY(int64_t n, int_arg(call, "n"));
  PN_TRY(std::optional<int64_t> m, optional_int_arg(call, "m"));
  PN_TRY(DType dtype, dtype_arg(call, "dtype", DType::kFloat32));
  if (n < 0 || m.value_or(0) < 0) return bad_argument(call, "n", "at least 0");
  return fresh({n, m.value_or(n)}, dtype);
}

Result<std::vector<ArrayId>> lower_eye(LowerContext& ctx, const Call& call) {
  const TensorMeta& out = call.node->meta.tensor;
  if (is_complex(out.dtype)) return no_lowering(call, "complex numbers are not generated");
  Program& p = ctx.program();
  std::vector<ExprId> at = identity(p, out.shape);
  ExprId value = p.select(p.call(Fn::kEq, {at[0], at[1]}), constant_of(p, 1, out.dtype).id,
                          constant_of(p, 0, out.dtype).id);
  return std::vector<ArrayId>{p.add_map(out.shape, out.dtype, value, label_of(call), call.node->id)};
}

// tril_indices and triu_indices: [2, count] in row-major order.
template <bool kUpper>
Result<Inferred> meta_triangle_indices(const Call& call) {
  PN_TRY(int64_t rows, int_arg(call, "row"));
  PN_TRY(int64_t columns, int_arg(call, "col"));
  PN_TRY(int64_t offset, int_arg(call, "offset"));
  PN_TRY(DType dtype, dtype_arg(call, "dtype", DType::kInt64));
  if (rows < 0 || columns < 0) return bad_argument(call, "row", "at least 0");
  int64_t count = 0;
  for (int64_t r = 0; r < rows; ++r) {
    int64_t split = std::clamp<int64_t>(kUpper ? r + offset : r + offset + 1, 0, columns);
    count += kUpper ? columns - split : split;
  }
  return fresh({2, count}, dtype);
}

// ---- literals ----

// Shape and type of nested lists of numbers; tensors inside count as numbers.
Status measure(const Call& call, const Value& raw, size_t depth, Shape& shape, DType& dtype, bool& any) {
  Value v = known_value(call, raw);
  if (v.is_sequence()) {
    int64_t size = static_cast<int64_t>(v.items().size());
    if (shape.size() == depth) shape.push_back(size);
    if (shape.size() < depth || shape[depth] != size)
      return bad_argument(call, "data", "lists of equal lengths");
    for (const Value& item : v.items()) PN_CHECK_OK(measure(call, item, depth + 1, shape, dtype, any));
    return ok_status();
  }
  DType own;
  if (const TensorMeta* tensor = call.tensor(v)) {
    own = tensor->dtype;
  } else if (v.is_number()) {
    own = type_of_number(v);
  } else if (const Meta* meta = meta_of(call, v); meta && meta->kind == Meta::Kind::kUnknown) {
    own = DType::kInt64;  // a number of the run: only `dtype=` says more
  } else {
    return bad_argument(call, "data", "numbers, or lists of them");
  }
  if (shape.size() > depth) return bad_argument(call, "data", "lists of equal depth");
  dtype = any ? promote_types(dtype, own) : own;
  any = true;
  return ok_status();
}

Result<Inferred> meta_tensor(const Call& call) {
  if (const TensorMeta* tensor = call.tensor("data")) {
    PN_TRY(DType dtype, dtype_arg(call, "dtype", tensor->dtype));
    bool shares = call.row->name == "as_tensor" && dtype == tensor->dtype;
    return shares ? tensor_result(*tensor) : fresh(tensor->shape, dtype, preserved_strides(*tensor));
  }
  Shape shape;
  DType natural = DType::kFloat32;
  bool any = false;
  PN_CHECK_OK(measure(call, call.arg("data"), 0, shape, natural, any));
  PN_TRY(DType dtype, dtype_arg(call, "dtype", natural));
  return fresh(std::move(shape), dtype);
}

Result<std::vector<ArrayId>> lower_tensor(LowerContext& ctx, const Call& call) {
  if (call.tensor("data")) return no_lowering(call, "it copies a tensor, perhaps from another device");
  Shape shape;
  if (call.node->meta.is_tensor()) shape = call.node->meta.tensor.shape;
  if (shape.empty()) {
    PN_TRY(double value, real_arg(call, "data"));
    return filled(ctx, call, value);
  }
  constexpr int64_t kMostLiterals = 16;  // each is one select
  if (shape.size() != 1 || shape[0] == 0 || shape[0] > kMostLiterals)
    return no_lowering(call, "the list of literals is long or nested");
  const TensorMeta& out = call.node->meta.tensor;
  if (is_complex(out.dtype)) return no_lowering(call, "complex numbers are not generated");
  Program& p = ctx.program();
  ExprId i = p.index(0, shape[0]), value = kNoExpr;
  for (size_t at = static_cast<size_t>(shape[0]); at-- > 0;) {
    Value item = known_value(call, call.arg("data").items()[at]);
    if (!item.is_number()) return no_lowering(call, "the list holds values of the run");
    ExprId e = constant_of(p, item.as_double(), out.dtype).id;
    value =
        value == kNoExpr ? e : p.select(p.call(Fn::kEq, {i, p.integer(static_cast<int64_t>(at))}), e, value);
  }
  return std::vector<ArrayId>{p.add_map(out.shape, out.dtype, value, label_of(call), call.node->id)};
}

Result<Inferred> meta_scalar_tensor(const Call& call) {
  PN_TRY(DType dtype, dtype_arg(call, "dtype", DType::kFloat32));
  return fresh({}, dtype);
}

Result<std::vector<ArrayId>> lower_scalar_tensor(LowerContext& ctx, const Call& call) {
  PN_TRY(double value, real_arg(call, "s"));
  return filled(ctx, call, value);
}

// ---- random ----

constexpr std::string_view kDraws = "it draws random numbers";

Result<Inferred> meta_randint(const Call& call) {
  PN_TRY(Shape shape, ints_arg(call, is_none(call, "size") ? "high" : "size"));
  PN_TRY(DType dtype, dtype_arg(call, "dtype", DType::kInt64));
  return fresh(std::move(shape), dtype);
}

Result<Inferred> meta_randperm(const Call& call) {
  PN_TRY(int64_t n, int_arg(call, "n"));
  PN_TRY(DType dtype, dtype_arg(call, "dtype", DType::kInt64));
  return fresh({n}, dtype);
}

Result<Inferred> meta_same_shape(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  return fresh(input->shape, input->dtype, preserved_strides(*input));
}

OpRow factory_row(std::string_view name, std::vector<Spelling> spellings, MetaFn meta, LowerFn lower,
                  std::vector<Example> examples) {
  return {
      .name = name,
      .cls = OpClass::kFactory,
      .spellings = std::move(spellings),
      .meta = meta,
      .lower = lower,
      .cost = fixed_cost<80, 1>,
      .examples = std::move(examples),
      .wall = lower ? std::string_view() : std::string_view("its contents are not a formula of the index")};
}

OpRow random_row(std::string_view name, std::vector<Spelling> spellings, MetaFn meta,
                 std::vector<Example> examples) {
  return {.name = name,
          .cls = OpClass::kRandom,
          .spellings = std::move(spellings),
          .meta = meta,
          .cost = fixed_cost<120, 1>,
          .examples = std::move(examples),
          .wall = kDraws};
}

#define PN_OPTIONS_ "dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False"
constexpr std::string_view kSized = "size..., *, out=None, memory_format=None, " PN_OPTIONS_;
constexpr std::string_view kRandomSized = "size..., *, generator=None, out=None, " PN_OPTIONS_;
constexpr std::string_view kNew = "input, size..., *, " PN_OPTIONS_;
constexpr std::string_view kLike = "input, *, memory_format=None, " PN_OPTIONS_;

}  // namespace

std::vector<OpRow> factory_rows() {
  return {
      factory_row("arange",
                  {function("torch.arange", "start, end=None, step=1, *, out=None, " PN_OPTIONS_),
                   function("torch.arange", "end, *, out=None, " PN_OPTIONS_)},
                  meta_arange, lower_arange,
                  {{"", "torch.arange(5)"},
                   {"", "torch.arange(2, 9, 3)"},
                   {"", "torch.arange(0.0, 2.0, 0.5)"},
                   {"", "torch.arange(3, dtype=torch.float32)"},
                   {"", "torch.arange(end=4)"},
                   {"", "torch.arange(0, 7, dtype=torch.int32)"},
                   {"", "torch.arange(6, 0, -2)"}}),
      factory_row("zeros", {function("torch.zeros", kSized)}, meta_sized, lower_constant<0>,
                  {{"", "torch.zeros((2, 3))"},
                   {"", "torch.zeros(size=(2,), dtype=torch.int64)"},
                   {"", "torch.zeros(2, 3)"}}),
      factory_row("ones", {function("torch.ones", kSized)}, meta_sized, lower_constant<1>,
                  {{"", "torch.ones(3)"}, {"", "torch.ones((2, 3), dtype=torch.bool)"}}),
      factory_row("empty", {function("torch.empty", kSized)}, meta_sized, nullptr,
                  {{"", "torch.empty([2, 3])"}, {"", "torch.empty((2,), dtype=torch.float16)"}}),
      factory_row("full", {function("torch.full", "size, fill_value, *, out=None, names=None, " PN_OPTIONS_)},
                  meta_full, lower_full,
                  {{"", "torch.full((2, 3), 1.5)"},
                   {"", "torch.full((2,), fill_value=-1, dtype=torch.float16)"},
                   {"", "torch.full((), True)"}}),
      factory_row("new_zeros", {method("new_zeros", kNew)}, meta_new, lower_constant<0>,
                  {{"x=f16[2]", "x.new_zeros((2, 3))"}, {"x=f16[2]", "x.new_zeros(4, dtype=torch.int64)"}}),
      factory_row("new_ones", {method("new_ones", kNew)}, meta_new, lower_constant<1>,
                  {{"x=f16[2]", "x.new_ones((), dtype=torch.bool)"}, {"x=f16[2]", "x.new_ones(3)"}}),
      factory_row("new_empty", {method("new_empty", kNew)}, meta_new, nullptr,
                  {{"x=f16[2]", "x.new_empty((2, 3))"}}),
      factory_row("new_full", {method("new_full", "input, size, fill_value, *, " PN_OPTIONS_)}, meta_new,
                  lower_full, {{"x=f16[2]", "x.new_full((2, 3), 2.5)"}}),
      factory_row("new_tensor", {method("new_tensor", "input, data, *, " PN_OPTIONS_)}, meta_tensor, nullptr,
                  {{"x=i64[2]", "x.new_tensor([1, 2])"}}),
      factory_row("zeros_like", {function("torch.zeros_like", kLike)}, meta_like, lower_constant<0>,
                  {{"x=f32[2,3]", "torch.zeros_like(x)"},
                   {"x=f32[2,3]", "torch.zeros_like(x.t(), dtype=torch.int32)"}}),
      factory_row("ones_like", {function("torch.ones_like", kLike)}, meta_like, lower_constant<1>,
                  {{"x=f32[2,3]", "torch.ones_like(x, dtype=torch.bool)"}}),
      factory_row("empty_like", {function("torch.empty_like", kLike)}, meta_like, nullptr,
                  {{"x=f32[2,3]", "torch.empty_like(x.t())"}}),
      factory_row("full_like",
                  {function("torch.full_like", "input, fill_value, *, memory_format=None, " PN_OPTIONS_)},
                  meta_like, lower_full, {{"x=f32[2,3]", "torch.full_like(x, 7)"}}),
      factory_row("eye", {function("torch.eye", "n, m=None, *, out=None, " PN_OPTIONS_)}, meta_eye, lower_eye,
                  {{"", "torch.eye(3)"}, {"", "torch.eye(2, 4, dtype=torch.int64)"}}),
      factory_row("linspace", {function("torch.linspace", "start, end, steps, *, out=None, " PN_OPTIONS_)},
                  meta_linspace, lower_linspace,
                  {{"", "torch.linspace(-1.0, 1.0, 7)"},
                   {"", "torch.linspace(0, 5, steps=4)"},
                   {"", "torch.linspace(0.5, 1.0, 1, dtype=torch.float32)"}}),
      factory_row("tril_indices", {function("torch.tril_indices", "row, col, offset=0, *, " PN_OPTIONS_)},
                  meta_triangle_indices<false>, nullptr, {{"", "torch.tril_indices(3, 4, -1)"}}),
      factory_row("triu_indices", {function("torch.triu_indices", "row, col, offset=0, *, " PN_OPTIONS_)},
                  meta_triangle_indices<true>, nullptr, {{"", "torch.triu_indices(3, 4, 1)"}}),
      factory_row("tensor", {function("torch.tensor", "data, *, " PN_OPTIONS_)}, meta_tensor, lower_tensor,
                  {{"", "torch.tensor(1.0, dtype=torch.float32)"},
                   {"", "torch.tensor([1, 2, 3])"},
                   {"", "torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float16)"},
                   {"", "torch.tensor(True)"}}),
      factory_row(
          "as_tensor",
          {function("torch.as_tensor", "data, dtype=None, device=None, *, copy=None, requires_grad=False"),
           function("torch.asarray", "data, *, dtype=None, device=None, copy=None, requires_grad=False")},
          meta_tensor, lower_tensor, {{"", "torch.as_tensor([1, 2], dtype=torch.int32)"}}),
      factory_row("scalar_tensor", {function("torch.scalar_tensor", "s, *, " PN_OPTIONS_)},
                  meta_scalar_tensor, lower_scalar_tensor, {{"", "torch.scalar_tensor(2.5)"}}),
      random_row("rand", {function("torch.rand", kRandomSized), function("torch.randn", kRandomSized)},
                 meta_sized, {{"", "torch.rand((2, 3))"}, {"", "torch.rand([])"}, {"", "torch.randn(2, 3)"}}),
      random_row("rand_like", {function("torch.rand_like", kLike), function("torch.randn_like", kLike)},
                 meta_like, {{"x=f32[2,3]", "torch.rand_like(x)"}}),
      random_row(
          "randint_like",
          {function("torch.randint_like", "input, low, high=None, *, memory_format=None, " PN_OPTIONS_)},
          meta_like, {{"x=f32[2,3]", "torch.randint_like(x, 5)"}}),
      random_row(
          "randint",
          {function("torch.randint", "low, high=None, size=None, *, generator=None, out=None, " PN_OPTIONS_)},
          meta_randint,
          {{"", "torch.randint(5, (2, 3))"},
           {"", "torch.randint(0, 5, (2,))"},
           {"", "torch.randint(low=0, high=5, size=(2,))"}}),
      random_row("randperm", {function("torch.randperm", "n, *, generator=None, out=None, " PN_OPTIONS_)},
                 meta_randperm, {{"", "torch.randperm(5)"}}),
      random_row("bernoulli",
                 {function("torch.bernoulli", "input, p=None, *, generator=None, out=None"),
                  method("bernoulli", "input, p=None, *, generator=None"),
                  in_place(method("bernoulli_", "input, p=0.5, *, generator=None"))},
                 meta_same_shape, {{"x=f32[2,3]", "x.bernoulli_(0.5)"}}),
      random_row("uniform_", {in_place(method("uniform_", "input, low|from=0.0, to=1.0, *, generator=None"))},
                 meta_same_shape, {{"x=f32[2,3]", "x.uniform_(0.0, 2.0)"}}),
      random_row("normal_", {in_place(method("normal_", "input, mean=0.0, std=1.0, *, generator=None"))},
                 meta_same_shape, {{"x=f32[2,3]", "x.normal_()"}}),
  };
}

#undef PN_OPTIONS_

}  // namespace passnet
