#include <algorithm>

#include <fmt/format.h>

#include "ops/copy_rows.h"
#include "ops/row_args.h"
#include "ops/view_algebra.h"

// Rows in which an index tensor decides what is read. Eager stops at an index outside its range (a device
// assertion), so the lowerings read without a check.

namespace passnet {

namespace {

using Shape = std::vector<int64_t>;

Result<const TensorMeta*> index_arg(const Call& call, std::string_view name) {
  PN_TRY(const TensorMeta* index, tensor_arg(call, name));
  if (index->dtype != DType::kInt64 && index->dtype != DType::kInt32)
    return bad_argument(call, name, "an integer tensor");
  return index;
}

ExprId read_index(Program& p, ArrayId array, std::span<const ExprId> at) {
  return p.cast(p.read(array, {at.begin(), at.end()}), DType::kInt64);
}

Result<Inferred> meta_gather(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(const TensorMeta* index, index_arg(call, "index"));
  PN_TRY(const int axis, axis_arg(call, "dim", input->dim()));
  PN_CHECK_OK(index_fits(call, *index, *input, axis));
  return fresh(index->shape, input->dtype);
}

Result<std::vector<ArrayId>> lower_gather_along(LowerContext& ctx, const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(const TensorMeta* index, index_arg(call, "index"));
  if (input->dim() == 0 || index->dim() == 0) return no_lowering(call, "gather of 0-dim tensors");
  PN_TRY(int axis, axis_arg(call, "dim", input->dim()));
  PN_TRY(ArrayId source, ctx.array(call.arg("input")));
  PN_TRY(ArrayId indices, ctx.array(call.arg("index")));
  Program& p = ctx.program();
  std::vector<ExprId> at = identity(p, index->shape);
  std::vector<ExprId> in = at;
  in[static_cast<size_t>(axis)] = read_index(p, indices, at);
  ExprId value = p.read(source, in);
  return std::vector<ArrayId>{p.add_map(index->shape, input->dtype, value, label_of(call), call.node->id)};
}

// take_along_dim broadcasts both operands outside the axis and wraps nothing.
struct Along {
  View input, index;
  int axis;
  Shape shape;
};

Result<Along> read_take_along(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(const TensorMeta* index, index_arg(call, "indices"));
  if (input->dim() != index->dim()) return bad_argument(call, "indices", "a tensor of `input`'s rank");
  PN_TRY(int axis, axis_arg(call, "dim", input->dim()));
  size_t a = static_cast<size_t>(axis);
  Shape input_outer = input->shape, index_outer = index->shape;
  input_outer[a] = index_outer[a] = 1;
  std::vector<Shape> shapes{input_outer, index_outer};
  PN_TRY(Shape outer, broadcast_shapes(call, shapes));
  Along out{View(*input), View(*index), axis, outer};
  Shape full = outer;
  full[a] = input->shape[a];
  out.input.expand(full);
  out.shape[a] = index->shape[a];
  out.index.expand(out.shape);
  return out;
}

Result<Inferred> meta_take_along(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  if (is_none(call, "dim")) {
    PN_TRY(const TensorMeta* index, index_arg(call, "indices"));
    return fresh({index->numel()}, input->dtype);
  }
  PN_TRY(Along along, read_take_along(call));
  return fresh(along.shape, input->dtype);
}

Result<std::vector<ArrayId>> lower_take_along(LowerContext& ctx, const Call& call) {
  PN_TRY(ArrayId source, ctx.array(call.arg("input")));
  PN_TRY(ArrayId indices, ctx.array(call.arg("indices")));
  Program& p = ctx.program();
  DType dtype = p.array(source).dtype;
  if (is_none(call, "dim")) {
    Shape shape = {call.tensor("indices")->numel()};
    std::vector<ExprId> at = identity(p, shape);
    std::vector<ExprId> in_index = delinearize(p, call.tensor("indices")->shape, at[0]);
    ExprId value =
        p.read(source, delinearize(p, call.tensor("input")->shape, read_index(p, indices, in_index)));
    return std::vector<ArrayId>{p.add_map(shape, dtype, value, label_of(call), call.node->id)};
  }
  PN_TRY(Along along, read_take_along(call));
  std::vector<ExprId> at = identity(p, along.shape);
  std::vector<ExprId> in_index = along.index.map(p, at);
  std::vector<ExprId> in = at;
  in[static_cast<size_t>(along.axis)] = read_index(p, indices, in_index);
  ExprId value = p.read(source, along.input.map(p, in));
  return std::vector<ArrayId>{p.add_map(along.shape, dtype, value, label_of(call), call.node->id)};
}

Result<Inferred> meta_index_select(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(const TensorMeta* index, index_arg(call, "index"));
  if (index->dim() > 1) return bad_argument(call, "index", "a tensor of at most 1 dimension");
  PN_TRY(int axis, axis_arg(call, "dim", input->dim()));
  Shape shape = input->shape;
  if (!shape.empty()) shape[static_cast<size_t>(axis)] = index->numel();
  return fresh(std::move(shape), input->dtype);
}

Result<std::vector<ArrayId>> lower_index_select(LowerContext& ctx, const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  if (input->dim() == 0) return no_lowering(call, "index_select of a 0-dim tensor");
  PN_TRY(int axis, axis_arg(call, "dim", input->dim()));
  PN_TRY(ArrayId indices, ctx.array(call.arg("index")));
  size_t a = static_cast<size_t>(axis);
  return lower_gather(ctx, call, "input", [&](Program& p, std::span<const ExprId> at) {
    std::vector<ExprId> out(at.begin(), at.end());
    std::vector<ExprId> in_index;
    if (!p.array(indices).shape.empty()) in_index.push_back(at[a]);
    out[a] = read_index(p, indices, in_index);
    return out;
  });
}

// embedding(input, weight): rows of `weight`, one for each index. padding_idx and scale_grad_by_freq concern
// gradients.
Result<Inferred> meta_embedding(const Call& call) {
  PN_TRY(const TensorMeta* index, index_arg(call, "input"));
  PN_TRY(const TensorMeta* weight, tensor_arg(call, "weight"));
  if (weight->dim() != 2) return bad_argument(call, "weight", "a matrix");
  Shape shape = index->shape;
  shape.push_back(weight->shape[1]);
  Inferred out = fresh(std::move(shape), weight->dtype);
  if (!is_none(call, "max_norm")) out.writes.push_back(weight->storage);
  return out;
}

Result<std::vector<ArrayId>> lower_embedding(LowerContext& ctx, const Call& call) {
  if (!is_none(call, "max_norm")) return no_lowering(call, "max_norm rescales the weight in place");
  PN_TRY(ArrayId indices, ctx.array(call.arg("input")));
  return lower_gather(ctx, call, "weight", [&](Program& p, std::span<const ExprId> at) {
    return std::vector<ExprId>{read_index(p, indices, at.first(at.size() - 1)), at.back()};
  });
}

Result<Inferred> meta_one_hot(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  if (input->dtype != DType::kInt64) return bad_argument(call, "input", "an int64 tensor");
  PN_TRY(int64_t classes, int_arg(call, "num_classes"));
  if (classes == -1)
    return bad_call(call, "ops.data_dependent_shape", "the number of classes is the largest element plus one",
                    "give `num_classes`");
  if (classes <= 0) return bad_argument(call, "num_classes", "positive, or -1");
  Shape shape = input->shape;
  shape.push_back(classes);
  return fresh(std::move(shape), DType::kInt64);
}

Result<std::vector<ArrayId>> lower_one_hot(LowerContext& ctx, const Call& call) {
  PN_TRY(ArrayId source, ctx.array(call.arg("input")));
  Program& p = ctx.program();
  const Shape& shape = call.node->meta.tensor.shape;
  std::vector<ExprId> at = identity(p, shape);
  ExprId hot = p.call(Fn::kEq, {p.read(source, {at.begin(), at.end() - 1}), at.back()});
  ExprId value = p.select(hot, p.integer(1), p.integer(0));
  return std::vector<ArrayId>{p.add_map(shape, DType::kInt64, value, label_of(call), call.node->id)};
}

// diag: a matrix of a vector, or (a copy of) the diagonal of a matrix.
Result<Inferred> meta_diag(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(int64_t diagonal, int_arg(call, "diagonal"));
  if (input->dim() == 1) {
    int64_t n = input->shape[0] + (diagonal < 0 ? -diagonal : diagonal);
    return fresh({n, n}, input->dtype);
  }
  if (input->dim() != 2) return bad_argument(call, "input", "a vector or a matrix");
  View view(*input);
  view.diagonal(diagonal, 0, 1);
  return fresh(view.shape(), input->dtype);
}

Result<std::vector<ArrayId>> lower_diag(LowerContext& ctx, const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  PN_TRY(int64_t diagonal, int_arg(call, "diagonal"));
  if (input->dim() == 2) {
    View view(*input);
    view.diagonal(diagonal, 0, 1);
    return lower_gather(ctx, call, "input",
                        [&](Program& p, std::span<const ExprId> at) { return view.map(p, at); });
  }
  PN_TRY(ArrayId source, ctx.array(call.arg("input")));
  Program& p = ctx.program();
  const Shape& shape = call.node->meta.tensor.shape;
  std::vector<ExprId> at = identity(p, shape);
  ExprId on = p.call(Fn::kEq, {p.call(Fn::kSub, {at[1], at[0]}), p.integer(diagonal)});
  ExprId element = p.read(source, {diagonal >= 0 ? at[0] : at[1]});
  ExprId zero = is_floating(input->dtype) ? p.real(0, input->dtype) : p.integer(0, input->dtype);
  return std::vector<ArrayId>{
      p.add_map(shape, input->dtype, p.select(on, element, zero), label_of(call), call.node->id)};
}

Result<Inferred> refuse_data_dependent(const Call& call) {
  return bad_call(call, "ops.data_dependent_shape", "the size of the result depends on the values",
                  "such a call ends the graph");
}

OpRow unsized_row(std::string_view name, std::vector<Spelling> spellings, std::vector<Example> examples) {
  return {.name = name,
          .cls = OpClass::kOther,
          .spellings = std::move(spellings),
          .meta = refuse_data_dependent,
          .cost = fixed_cost<500, 3>,
          .examples = std::move(examples),
          .wall = "the size of the result depends on the values"};
}

constexpr std::string_view kUnique =
    "input, sorted=True, return_inverse=False, return_counts=False, dim=None";

}  // namespace

std::vector<OpRow> gather_rows() {
  return {
      {.name = "gather",
       .cls = OpClass::kCopy,
       .spellings = {function("torch.gather", "input, dim, index, *, sparse_grad=False"),
                     method("gather", "input, dim, index, *, sparse_grad=False")},
       .meta = meta_gather,
       .lower = lower_gather_along,
       .cost = fixed_cost<120, 1>,
       .examples = {{"x=f32[4,5], i=i64[4,2]", "torch.gather(x, 1, i)"},
                    {"x=f32[4,5], i=i64[2,5]", "x.gather(dim=0, index=i)"}}},
      {.name = "take_along_dim",
       .cls = OpClass::kCopy,
       .spellings = {function("torch.take_along_dim", "input, indices, dim=None"),
                     method("take_along_dim", "input, indices, dim=None")},
       .meta = meta_take_along,
       .lower = lower_take_along,
       .cost = fixed_cost<180, 1>,
       .examples = {{"x=f32[4,5], i=i64[1,2]", "torch.take_along_dim(x, i, dim=1)"},
                    {"x=f32[4,5], i=i64[3]", "torch.take_along_dim(x, i)"}}},
      {.name = "index_select",
       .cls = OpClass::kCopy,
       .spellings = {function("torch.index_select", "input, dim, index"),
                     method("index_select", "input, dim, index")},
       .meta = meta_index_select,
       .lower = lower_index_select,
       .cost = fixed_cost<150, 1>,
       .examples = {{"x=f32[4,5], i=i64[3]", "torch.index_select(x, 0, i)"},
                    {"x=f32[2,4,5], i=i32[3]", "x.index_select(-1, i)"}}},
      {.name = "embedding",
       .cls = OpClass::kCopy,
       .spellings =
           {function(
                "torch.nn.functional.embedding",
                "input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, "
                "sparse=False"),
            function("torch.embedding",
                     "weight, input|indices, padding_idx=-1, scale_grad_by_freq=False, "
                     "sparse=False")},
       .meta = meta_embedding,
       .lower = lower_embedding,
       .cost = fixed_cost<220, 1>,
       .examples = {{"i=i64[2,3], w=f32[10,4]",
                     "torch.nn.functional.embedding(i, w, 1, None, 2.0, False, False)"},
                    {"i=i32[2,3], w=f16[10,4]", "torch.nn.functional.embedding(i, w, padding_idx=-1)"},
                    {"i=i64[], w=f32[10,4]", "torch.nn.functional.embedding(i, w)"}}},
      {.name = "one_hot",
       .cls = OpClass::kCopy,
       .spellings = {function("torch.nn.functional.one_hot", "input, num_classes=-1"),
                     function("torch._C._nn.one_hot", "input, num_classes=-1")},
       .meta = meta_one_hot,
       .lower = lower_one_hot,
       .cost = fixed_cost<400, 2>,
       .examples = {{"i=i64[2,3]", "torch.nn.functional.one_hot(i, num_classes=12)"}}},
      {.name = "diag",
       .cls = OpClass::kCopy,
       .spellings = {function("torch.diag", "input, diagonal=0"), method("diag", "input, diagonal=0")},
       .meta = meta_diag,
       .lower = lower_diag,
       .cost = fixed_cost<120, 1>,
       .examples = {{"x=f32[3]", "torch.diag(x, 1)"},
                    {"x=f32[3]", "torch.diag(x, -2)"},
                    {"x=f32[3,4]", "torch.diag(x)"}}},
      unsized_row("nonzero",
                  {function("torch.nonzero", "input, *, as_tuple=False"),
                   method("nonzero", "input, *, as_tuple=False")},
                  {{"x=bool[3]", "torch.nonzero(x)"}}),
      unsized_row("masked_select",
                  {function("torch.masked_select", "input, mask"), method("masked_select", "input, mask")},
                  {{"x=f32[3], m=bool[3]", "torch.masked_select(x, m)"}}),
      unsized_row("unique", {function("torch.unique", kUnique), method("unique", kUnique)},
                  {{"x=i64[3]", "torch.unique(x)"}}),
      unsized_row("bincount",
                  {function("torch.bincount", "input, weights=None, minlength=0"),
                   method("bincount", "input, weights=None, minlength=0")},
                  {{"x=i64[3]", "torch.bincount(x)"}}),
  };
}

}  // namespace passnet
