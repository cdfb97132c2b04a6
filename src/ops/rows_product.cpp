#include "ops/product_rows.h"

#include <algorithm>

#include <fmt/format.h>

#include "ops/row_args.h"
#include "ops/view_algebra.h"

// Matrix products. Convolution, attention and einsum have files of their own.

namespace passnet {

ArrayId add_product(Program& p, const std::vector<int64_t>& shape, DType sum_type,
                    const std::vector<int64_t>& extents, const Factors& factors, std::string label,
                    NodeId node) {
  std::vector<ExprId> at = identity(p, shape);
  std::vector<ExprId> k;
  for (size_t i = 0; i < extents.size(); ++i) k.push_back(p.reduce_index(static_cast<int>(i), extents[i]));
  auto [a, b] = factors(p, at, k);
  return p.add_reduce(shape, sum_type, ReduceOp::kSum, extents, (a * b).id, std::move(label), node);
}

ArrayId add_epilogue(Program& p, ArrayId array, DType dtype,
                     const std::function<E(E, std::span<const ExprId>)>& formula, std::string label,
                     NodeId node) {
  std::vector<int64_t> shape = p.array(array).shape;
  std::vector<ExprId> at = identity(p, shape);
  E value = formula({&p, p.read(array, at)}, at);
  return p.add_map(std::move(shape), dtype, value.id, std::move(label), node);
}

OpCost product_cost(const Call& call, double host_us, double terms) {
  OpCost cost;
  cost.host_us = host_us;
  cost.tensor_core = true;
  const Meta& out = call.node->meta;
  const Meta* first = out.kind == Meta::Kind::kTuple && !out.items.empty() ? &out.items[0] : &out;
  if (first->is_tensor()) cost.flops = 2.0 * terms * static_cast<double>(first->tensor.numel());
  return cost;
}

namespace {

using Shape = std::vector<int64_t>;

Status same_type(const Call& call, const TensorMeta& a, const TensorMeta& b, std::string_view name) {
  if (a.dtype == b.dtype) return ok_status();
  return bad_argument(call, name, fmt::format("of type {}, as the other operand is", name_of(a.dtype)));
}

// ---- matmul: any ranks ----

struct Matmul {
  const TensorMeta* a = nullptr;
  const TensorMeta* b = nullptr;
  Shape batch;  // broadcast
  int64_t m = 1, n = 1, k = 1;
  bool vector_a = false, vector_b = false;
  Shape result_shape() const {
    Shape shape = batch;
    if (!vector_a) shape.push_back(m);
    if (!vector_b) shape.push_back(n);
    return shape;
  }
};

// `rank`: what both operands must have, 0 for matmul's freedom.
Result<Matmul> read_matmul(const Call& call, std::string_view first, std::string_view second, int rank_a,
                           int rank_b) {
  Matmul out;
  PN_TRY(out.a, tensor_arg(call, first));
  PN_TRY(out.b, tensor_arg(call, second));
  for (auto [meta, name, rank] : {std::tuple{out.a, first, rank_a}, std::tuple{out.b, second, rank_b}}) {
    if (rank != 0 && meta->dim() != rank)
      return bad_argument(call, name, fmt::format("a tensor of {} dimensions", rank));
    if (meta->dim() == 0) return bad_argument(call, name, "a tensor with dimensions");
  }
  PN_CHECK_OK(same_type(call, *out.a, *out.b, second));
  const Shape &a = out.a->shape, &b = out.b->shape;
  out.vector_a = a.size() == 1;
  out.vector_b = b.size() == 1;
  out.k = a.back();
  out.m = out.vector_a ? 1 : a[a.size() - 2];
  out.n = out.vector_b ? 1 : b.back();
  int64_t b_k = out.vector_b ? b[0] : b[b.size() - 2];
  if (b_k != out.k)
    return bad_argument(
        call, second,
        fmt::format("a factor for ({}), and ({}) is not", fmt::join(a, ", "), fmt::join(b, ", ")));
  std::vector<Shape> batches{Shape(a.begin(), a.end() - std::min<std::ptrdiff_t>(2, std::ssize(a))),
                             Shape(b.begin(), b.end() - std::min<std::ptrdiff_t>(2, std::ssize(b)))};
  PN_TRY(out.batch, broadcast_shapes(call, batches));
  return out;
}

ArrayId matmul_sum(Program& p, const Call& call, const Matmul& mm, ArrayId a, ArrayId b, DType sum) {
  Factors factors = [&](Program& q, std::span<const ExprId> at, std::span<const ExprId> k) {
    std::vector<ExprId> batch(at.begin(), at.begin() + std::ssize(mm.batch));
    size_t next = batch.size();
    std::vector<ExprId> in_a = batch, in_b = batch;
    if (!mm.vector_a) in_a.push_back(at[next++]);
    in_a.push_back(k[0]);
    in_b.push_back(k[0]);
    if (!mm.vector_b) in_b.push_back(at[next]);
    if (mm.vector_a) in_a.erase(in_a.begin(), in_a.end() - 1);
    if (mm.vector_b) in_b.erase(in_b.begin(), in_b.end() - 1);
    return std::pair<E, E>{read_broadcast(q, a, in_a).cast(sum), read_broadcast(q, b, in_b).cast(sum)};
  };
  return add_product(p, mm.result_shape(), sum, {mm.k}, factors, label_of(call, "sum"), call.node->id);
}

using ReadMatmul = Result<Matmul> (*)(const Call&);
Result<Matmul> any_matmul(const Call& call) { return read_matmul(call, "input", "other", 0, 0); }
Result<Matmul> mm_matmul(const Call& call) { return read_matmul(call, "input", "mat2", 2, 2); }
Result<Matmul> bmm_matmul(const Call& call) {
  PN_TRY(Matmul mm, read_matmul(call, "input", "mat2", 3, 3));
  if (mm.a->shape[0] != mm.b->shape[0]) return bad_argument(call, "mat2", "of the same batch size");
  return mm;
}
Result<Matmul> mv_matmul(const Call& call) { return read_matmul(call, "input", "vec", 2, 1); }
Result<Matmul> dot_matmul(const Call& call) { return read_matmul(call, "input", "tensor", 1, 1); }

template <ReadMatmul kRead>
Result<Inferred> meta_matmul(const Call& call) {
  PN_TRY(Matmul mm, kRead(call));
  return fresh(mm.result_shape(), mm.a->dtype);
}

Result<std::vector<ArrayId>> lower_read_matmul(LowerContext& ctx, const Call& call, const Matmul& mm,
                                               std::string_view second) {
  DType dtype = mm.a->dtype;
  if (!is_floating(dtype)) return no_lowering(call, "operands are not floating");
  PN_TRY(ArrayId a, ctx.array(call.arg("input")));
  PN_TRY(ArrayId b, ctx.array(call.arg(second)));
  Program& p = ctx.program();
  ArrayId out = matmul_sum(p, call, mm, a, b, opmath(dtype));
  if (opmath(dtype) == dtype) return std::vector<ArrayId>{out};
  return std::vector<ArrayId>{add_epilogue(
      p, out, dtype, [&](E e, std::span<const ExprId>) { return e.cast(dtype); }, label_of(call),
      call.node->id)};
}

Result<std::vector<ArrayId>> lower_matmul(LowerContext& ctx, const Call& call) {
  PN_TRY(Matmul mm, any_matmul(call));
  return lower_read_matmul(ctx, call, mm, "other");
}
template <ReadMatmul kRead>
Result<std::vector<ArrayId>> lower_mat2(LowerContext& ctx, const Call& call) {
  PN_TRY(Matmul mm, kRead(call));
  return lower_read_matmul(ctx, call, mm, "mat2");
}
Result<std::vector<ArrayId>> lower_mv(LowerContext& ctx, const Call& call) {
  PN_TRY(Matmul mm, mv_matmul(call));
  return lower_read_matmul(ctx, call, mm, "vec");
}
Result<std::vector<ArrayId>> lower_dot(LowerContext& ctx, const Call& call) {
  PN_TRY(Matmul mm, dot_matmul(call));
  return lower_read_matmul(ctx, call, mm, "tensor");
}

template <ReadMatmul kRead, int kHost>
OpCost cost_matmul(const Call& call) {
  Result<Matmul> mm = kRead(call);
  return product_cost(call, kHost, mm.ok() ? static_cast<double>(mm->k) : 0);
}

// ---- linear ----

struct Linear {
  const TensorMeta* input = nullptr;
  const TensorMeta* weight = nullptr;
  const TensorMeta* bias = nullptr;
  Shape shape;
  bool vector_weight = false;
};

Result<Linear> read_linear(const Call& call) {
  Linear out;
  PN_TRY(out.input, tensor_arg(call, "input"));
  PN_TRY(out.weight, tensor_arg(call, "weight"));
  if (!is_none(call, "bias")) {
    PN_TRY(out.bias, tensor_arg(call, "bias"));
  }
  if (out.weight->dim() < 1 || out.weight->dim() > 2)
    return bad_argument(call, "weight", "a matrix or a vector");
  if (out.input->dim() == 0 || out.input->shape.back() != out.weight->shape.back())
    return bad_argument(
        call, "weight",
        fmt::format("a matrix with rows of {}", out.input->dim() == 0 ? 0 : out.input->shape.back()));
  PN_CHECK_OK(same_type(call, *out.input, *out.weight, "weight"));
  out.vector_weight = out.weight->dim() == 1;
  out.shape.assign(out.input->shape.begin(), out.input->shape.end() - 1);
  if (!out.vector_weight) out.shape.push_back(out.weight->shape[0]);
  PN_CHECK_OK(broadcasts_to(call, "bias", out.shape));
  return out;
}

Result<Inferred> meta_linear(const Call& call) {
  PN_TRY(Linear linear, read_linear(call));
  return fresh(linear.shape, linear.input->dtype);
}

Result<std::vector<ArrayId>> lower_linear(LowerContext& ctx, const Call& call) {
  PN_TRY(Linear linear, read_linear(call));
  DType dtype = linear.input->dtype, sum = opmath(dtype);
  if (!is_floating(dtype)) return no_lowering(call, "operands are not floating");
  PN_TRY(ArrayId x, ctx.array(call.arg("input")));
  PN_TRY(ArrayId w, ctx.array(call.arg("weight")));
  ArrayId bias = -1;
  if (linear.bias) {
    PN_TRY(bias, ctx.array(call.arg("bias")));
  }
  Program& p = ctx.program();
  Factors factors = [&](Program& q, std::span<const ExprId> at, std::span<const ExprId> k) {
    std::vector<ExprId> in(at.begin(), linear.vector_weight ? at.end() : at.end() - 1);
    in.push_back(k[0]);
    std::vector<ExprId> in_weight;
    if (!linear.vector_weight) in_weight.push_back(at.back());
    in_weight.push_back(k[0]);
    return std::pair<E, E>{E{&q, q.read(x, in)}.cast(sum), E{&q, q.read(w, in_weight)}.cast(sum)};
  };
  ArrayId out = add_product(p, linear.shape, sum, {linear.input->shape.back()}, factors,
                            label_of(call, "sum"), call.node->id);
  if (!linear.bias && sum == dtype) return std::vector<ArrayId>{out};
  // addmm adds the bias before it rounds; a strided operand of rank 3 and more goes through matmul and an
  // addition.
  bool strided = linear.input->stride && !linear.input->is_contiguous();
  bool one_rounding = linear.input->dim() <= 2 || !strided;
  return std::vector<ArrayId>{add_epilogue(
      p, out, dtype,
      [&](E e, std::span<const ExprId> at) {
        if (!linear.bias) return e.cast(dtype);
        E b = read_broadcast(p, bias, at).cast(sum);
        return one_rounding ? (e + b).cast(dtype) : (e.cast(dtype).cast(sum) + b).cast(dtype);
      },
      label_of(call), call.node->id)};
}

OpCost cost_linear(const Call& call) {
  const TensorMeta* input = call.tensor("input");
  return product_cost(call, 33, input && input->dim() > 0 ? static_cast<double>(input->shape.back()) : 0);
}

// ---- addmm and baddbmm: beta * input + alpha * (a @ b), rounded once ----

template <int kRank>
Result<Matmul> added_matmul(const Call& call) {
  Result<Matmul> mm =
      kRank == 2 ? read_matmul(call, "mat1", "mat2", 2, 2) : read_matmul(call, "batch1", "batch2", 3, 3);
  if (mm.ok() && kRank == 3 && mm->a->shape[0] != mm->b->shape[0])
    return bad_argument(call, "batch2", "of the same batch size");
  return mm;
}

template <int kRank>
Result<Inferred> meta_added(const Call& call) {
  PN_TRY(Matmul mm, added_matmul<kRank>(call));
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  std::vector<Shape> shapes{input->shape, mm.result_shape()};
  PN_TRY(Shape shape, broadcast_shapes(call, shapes));
  if (shape != mm.result_shape()) return bad_argument(call, "input", "a tensor that expands to the product");
  return fresh(std::move(shape), mm.a->dtype);
}

template <int kRank>
Result<std::vector<ArrayId>> lower_added(LowerContext& ctx, const Call& call) {
  PN_TRY(Matmul mm, added_matmul<kRank>(call));
  PN_TRY(double beta, real_arg(call, "beta"));
  PN_TRY(double alpha, real_arg(call, "alpha"));
  DType dtype = mm.a->dtype, sum = opmath(dtype);
  if (!is_floating(dtype)) return no_lowering(call, "operands are not floating");
  PN_TRY(ArrayId a, ctx.array(call.arg(kRank == 2 ? "mat1" : "batch1")));
  PN_TRY(ArrayId b, ctx.array(call.arg(kRank == 2 ? "mat2" : "batch2")));
  PN_TRY(ArrayId input, ctx.array(call.arg("input")));
  Program& p = ctx.program();
  ArrayId out = matmul_sum(p, call, mm, a, b, sum);
  return std::vector<ArrayId>{add_epilogue(
      p, out, dtype,
      [&](E e, std::span<const ExprId> at) {
        E scaled = alpha == 1 ? e : e * alpha;
        if (beta == 0) return scaled.cast(dtype);  // NaN in an input that is not read does not spread
        E c = read_broadcast(p, input, at).cast(sum);
        return ((beta == 1 ? c : c * beta) + scaled).cast(dtype);
      },
      label_of(call), call.node->id)};
}

template <int kRank>
OpCost cost_added(const Call& call) {
  Result<Matmul> mm = added_matmul<kRank>(call);
  return product_cost(call, kRank == 2 ? 25 : 22, mm.ok() ? static_cast<double>(mm->k) : 0);
}

// ---- products without a sum, and rarer ones ----

Result<Inferred> meta_outer(const Call& call) {
  PN_TRY(const TensorMeta* a, tensor_arg(call, "input"));
  PN_TRY(const TensorMeta* b, tensor_arg(call, "vec2"));
  if (a->dim() != 1) return bad_argument(call, "input", "a vector");
  if (b->dim() != 1) return bad_argument(call, "vec2", "a vector");
  const TensorMeta* both[] = {a, b};
  return fresh({a->shape[0], b->shape[0]}, result_type(both, {}));
}

Result<std::vector<ArrayId>> lower_outer(LowerContext& ctx, const Call& call) {
  PN_TRY(ArrayId a, ctx.array(call.arg("input")));
  PN_TRY(ArrayId b, ctx.array(call.arg("vec2")));
  const TensorMeta& out = call.node->meta.tensor;
  if (out.dtype == DType::kBool || is_complex(out.dtype))
    return no_lowering(call, "operands are not numbers");
  DType sum = opmath(out.dtype);
  Program& p = ctx.program();
  std::vector<ExprId> at = identity(p, out.shape);
  E x = E{&p, p.read(a, {at[0]})}.cast(out.dtype).cast(sum),
    y = E{&p, p.read(b, {at[1]})}.cast(out.dtype).cast(sum);
  return std::vector<ArrayId>{
      p.add_map(out.shape, out.dtype, (x * y).cast(out.dtype).id, label_of(call), call.node->id)};
}

Result<Inferred> meta_inner(const Call& call) {
  PN_TRY(const TensorMeta* a, tensor_arg(call, "input"));
  PN_TRY(const TensorMeta* b, tensor_arg(call, "other"));
  PN_CHECK_OK(same_type(call, *a, *b, "other"));
  if (a->dim() == 0 || b->dim() == 0) return bad_argument(call, "input", "a tensor with dimensions");
  if (a->shape.back() != b->shape.back())
    return bad_argument(call, "other", "a tensor whose last axis has the same size");
  Shape shape(a->shape.begin(), a->shape.end() - 1);
  shape.insert(shape.end(), b->shape.begin(), b->shape.end() - 1);
  return fresh(std::move(shape), a->dtype);
}

Result<Inferred> meta_tensordot(const Call& call) {
  PN_TRY(const TensorMeta* a, tensor_arg(call, "a"));
  PN_TRY(const TensorMeta* b, tensor_arg(call, "b"));
  Shape axes_a, axes_b;
  Value dims = known_value(call, call.arg("dims"));
  if (dims.kind() == Value::Kind::kInt) {
    for (int64_t i = 0; i < dims.as_int(); ++i) {
      axes_a.push_back(a->dim() - dims.as_int() + i);
      axes_b.push_back(i);
    }
  } else if (dims.is_sequence() && dims.items().size() == 2 && dims.items()[0].is_sequence()) {
    PN_TRY(axes_a, int_list(call, dims.items()[0]));
    PN_TRY(axes_b, int_list(call, dims.items()[1]));
  } else {
    return bad_argument(call, "dims", "a number of axes, or the axes of both operands");
  }
  auto contracted = [&](const TensorMeta& meta, const Shape& axes, Shape& sizes) -> Status {
    for (int64_t axis : axes) {
      PN_TRY(int64_t i, normal_dim(call, axis, meta.dim()));
      if (meta.dim() > 0) sizes.push_back(meta.shape[static_cast<size_t>(i)]);
    }
    return ok_status();
  };
  auto rest = [&](const TensorMeta& meta, const Shape& axes, Shape& shape) -> Status {
    std::vector<bool> used(meta.shape.size());
    for (int64_t axis : axes) {
      PN_TRY(int64_t i, normal_dim(call, axis, meta.dim()));
      if (static_cast<size_t>(i) < used.size()) used[static_cast<size_t>(i)] = true;
    }
    for (size_t i = 0; i < used.size(); ++i)
      if (!used[i]) shape.push_back(meta.shape[i]);
    return ok_status();
  };
  Shape shape, contracted_a, contracted_b;
  PN_CHECK_OK(contracted(*a, axes_a, contracted_a));
  PN_CHECK_OK(contracted(*b, axes_b, contracted_b));
  if (contracted_a != contracted_b)
    return bad_argument(call, "b",
                        fmt::format("with [{}] along the summed axes", fmt::join(contracted_a, ", ")));
  PN_CHECK_OK(rest(*a, axes_a, shape));
  PN_CHECK_OK(rest(*b, axes_b, shape));
  return fresh(std::move(shape), a->dtype);
}

Result<Inferred> meta_cdist(const Call& call) {
  PN_TRY(const TensorMeta* a, tensor_arg(call, "x1"));
  PN_TRY(const TensorMeta* b, tensor_arg(call, "x2"));
  if (a->dim() < 2 || b->dim() < 2 || a->shape.back() != b->shape.back())
    return bad_argument(call, "x2", "vectors of the size of `x1`'s");
  std::vector<Shape> batches{Shape(a->shape.begin(), a->shape.end() - 2),
                             Shape(b->shape.begin(), b->shape.end() - 2)};
  PN_TRY(Shape shape, broadcast_shapes(call, batches));
  shape.push_back(a->shape[a->shape.size() - 2]);
  shape.push_back(b->shape[b->shape.size() - 2]);
  return fresh(std::move(shape), a->dtype);
}

OpCost cost_other(const Call& call) { return product_cost(call, 25, 1); }

std::vector<OpRow> matmul_rows() {
  return {
      {.name = "linear",
       .cls = OpClass::kProduct,
       .spellings = {function("torch.nn.functional.linear", "input, weight, bias=None"),
                     function("torch._C._nn.linear", "input, weight, bias=None")},
       .meta = meta_linear,
       .lower = lower_linear,
       .cost = cost_linear,
       .examples = {{"x=f32[2,3,8], w=f32[5,8], b=f32[5]", "torch.nn.functional.linear(x, w, b)"},
                    {"x=f16[3,8], w=f16[5,8]", "torch._C._nn.linear(x, w, None)"},
                    {"x=bf16[2,3,8], w=bf16[5,8], b=bf16[5]",
                     "torch.nn.functional.linear(input=x, weight=w, bias=b)"},
                    {"x=f32[8], w=f32[5,8], b=f32[5]", "torch.nn.functional.linear(x, w, b)"}}},
      {.name = "matmul",
       .cls = OpClass::kProduct,
       .spellings = {function("operator.matmul", "input, other"), function("torch.matmul", "input, other"),
                     method("matmul", "input, other"), method("__matmul__", "input, other"),
                     function("torch.linalg.matmul", "input, other"),
                     function("torch._C._linalg.linalg_matmul", "input, other")},
       .meta = meta_matmul<any_matmul>,
       .lower = lower_matmul,
       .cost = cost_matmul<any_matmul, 30>,
       .examples = {{"x=f32[2,3,4,5], y=f32[2,3,5,6]", "torch.matmul(x, y)"},
                    {"x=f32[4,5], y=f32[5,6]", "x @ y"},
                    {"x=f32[5], y=f32[2,5,6]", "torch.matmul(x, y)"},
                    {"x=f32[2,4,5], y=f32[5]", "x.matmul(y)"},
                    {"x=f32[5], y=f32[5]", "torch.matmul(x, y)"},
                    {"x=f16[2,1,4,5], y=f16[3,5,6]", "torch.matmul(x, y)"},
                    {"x=f32[4,5], y=f32[3,5,6]", "x @ y"},
                    {"x=f32[3,4,5], y=f32[6,5]", "x @ y.t()"}}},
      {.name = "mm",
       .cls = OpClass::kProduct,
       .spellings = {function("torch.mm", "input, mat2"), method("mm", "input, mat2")},
       .meta = meta_matmul<mm_matmul>,
       .lower = lower_mat2<mm_matmul>,
       .cost = cost_matmul<mm_matmul, 15>,
       .examples = {{"x=f32[4,5], y=f32[5,6]", "torch.mm(x, y)"}}},
      {.name = "bmm",
       .cls = OpClass::kProduct,
       .spellings = {function("torch.bmm", "input, mat2"), method("bmm", "input, mat2")},
       .meta = meta_matmul<bmm_matmul>,
       .lower = lower_mat2<bmm_matmul>,
       .cost = cost_matmul<bmm_matmul, 17>,
       .examples = {{"x=f32[2,4,5], y=f32[2,5,6]", "torch.bmm(x, y)"},
                    {"x=f16[2,4,5], y=f16[2,6,5]", "x.bmm(y.transpose(1, 2))"}}},
      {.name = "mv",
       .cls = OpClass::kProduct,
       .spellings = {function("torch.mv", "input, vec"), method("mv", "input, vec")},
       .meta = meta_matmul<mv_matmul>,
       .lower = lower_mv,
       .cost = cost_matmul<mv_matmul, 15>,
       .examples = {{"x=f32[4,5], y=f32[5]", "torch.mv(x, y)"}}},
      {.name = "dot",
       .cls = OpClass::kProduct,
       .spellings = {function("torch.dot", "input, tensor|other"), method("dot", "input, tensor|other"),
                     function("torch.vdot", "input, tensor|other"), method("vdot", "input, tensor|other")},
       .meta = meta_matmul<dot_matmul>,
       .lower = lower_dot,
       .cost = cost_matmul<dot_matmul, 15>,
       .examples = {{"x=f32[5], y=f32[5]", "torch.dot(x, y)"}}},
      {.name = "addmm",
       .cls = OpClass::kProduct,
       .spellings = {function("torch.addmm", "input, mat1, mat2, *, beta=1, alpha=1"),
                     method("addmm", "input, mat1, mat2, *, beta=1, alpha=1")},
       .meta = meta_added<2>,
       .lower = lower_added<2>,
       .cost = cost_added<2>,
       .examples = {{"b=f32[6], x=f32[4,5], y=f32[5,6]", "torch.addmm(b, x, y)"},
                    {"b=f16[4,6], x=f16[4,5], y=f16[5,6]", "torch.addmm(b, x, y, beta=0.5, alpha=2)"}}},
      {.name = "baddbmm",
       .cls = OpClass::kProduct,
       .spellings = {function("torch.baddbmm", "input, batch1, batch2, *, beta=1, alpha=1"),
                     method("baddbmm", "input, batch1, batch2, *, beta=1, alpha=1")},
       .meta = meta_added<3>,
       .lower = lower_added<3>,
       .cost = cost_added<3>,
       .examples = {{"b=f32[2,1,6], x=f32[2,4,5], y=f32[2,5,6]",
                     "b.baddbmm(batch1=x, batch2=y, beta=1.0, alpha=0.5)"}}},
      {.name = "outer",
       .cls = OpClass::kPointwise,
       .spellings = {function("torch.outer", "input, vec2"), method("outer", "input, vec2"),
                     function("torch.ger", "input, vec2"), method("ger", "input, vec2")},
       .meta = meta_outer,
       .lower = lower_outer,
       .cost = fixed_cost<140, 1>,
       .examples = {{"x=f32[3], y=f32[4]", "torch.outer(x, y)"}}},
      {.name = "inner",
       .cls = OpClass::kProduct,
       .spellings = {function("torch.inner", "input, other"), method("inner", "input, other")},
       .meta = meta_inner,
       .cost = cost_other,
       .examples = {{"x=f32[2,4], y=f32[3,4]", "torch.inner(x, y)"}},
       .wall = "no schedule"},
      {.name = "tensordot",
       .cls = OpClass::kProduct,
       .spellings = {function("torch.tensordot", "a, b, dims=2, out=None"),
                     function("torch.functional.tensordot", "a, b, dims=2, out=None")},
       .meta = meta_tensordot,
       .cost = cost_other,
       .examples = {{"a=f32[2,3,4], b=f32[3,4,5]", "torch.tensordot(a, b, dims=2)"},
                    {"a=f32[2,3,4], b=f32[4,2,5]", "torch.tensordot(a, b, dims=([0, 2], [1, 0]))"}},
       .wall = "no schedule"},
      {.name = "cdist",
       .cls = OpClass::kProduct,
       .spellings = {function("torch.cdist",
                              "x1, x2, p=2.0, compute_mode='use_mm_for_euclid_dist_if_necessary'"),
                     function("torch.functional.cdist",
                              "x1, x2, p=2.0, compute_mode='use_mm_for_euclid_dist_if_necessary'")},
       .meta = meta_cdist,
       .cost = cost_other,
       .examples = {{"x=f32[2,3,4], y=f32[2,5,4]", "torch.cdist(x, y)"}},
       .wall = "the library decides between products and differences"},
  };
}

}  // namespace

std::vector<OpRow> product_rows() {
  std::vector<OpRow> rows = conv_rows();
  for (auto part : {matmul_rows, attention_rows, einsum_rows}) {
    std::vector<OpRow> more = part();
    std::move(more.begin(), more.end(), std::back_inserter(rows));
  }
  return rows;
}

}  // namespace passnet
