#include <cmath>
#include <limits>
#include <numbers>

#include <fmt/format.h>

#include "ops/library.h"
#include "ops/product_rows.h"
#include "ops/row_args.h"
#include "ops/view_algebra.h"

namespace passnet {

namespace {

using Shape = std::vector<int64_t>;

struct Attention {
  const TensorMeta* query = nullptr;
  const TensorMeta* key = nullptr;
  const TensorMeta* value = nullptr;
  const TensorMeta* mask = nullptr;
  Shape batch;  // broadcast leading axes
  int64_t length = 0, keys = 0, depth = 0, value_depth = 0;
  int64_t heads_per_key = 1;  // grouped queries
  bool causal = false;
  double scale = 1, dropout = 0;
};

Result<Attention> read_attention(const Call& call) {
  Attention a;
  PN_TRY(a.query, tensor_arg(call, "query"));
  PN_TRY(a.key, tensor_arg(call, "key"));
  PN_TRY(a.value, tensor_arg(call, "value"));
  if (!is_none(call, "attn_mask")) {
    PN_TRY(a.mask, tensor_arg(call, "attn_mask"));
  }
  for (auto [meta, name] :
       {std::pair{a.query, "query"}, std::pair{a.key, "key"}, std::pair{a.value, "value"}})
    if (meta->dim() < 2) return bad_argument(call, name, "a tensor of at least 2 dimensions");
  auto from_end = [](const TensorMeta* meta, size_t i) { return meta->shape[meta->shape.size() - i]; };
  a.length = from_end(a.query, 2);
  a.keys = from_end(a.key, 2);
  a.depth = from_end(a.query, 1);
  a.value_depth = from_end(a.value, 1);
  if (from_end(a.key, 1) != a.depth)
    return bad_argument(call, "key", fmt::format("a tensor whose last axis has {}", a.depth));
  if (from_end(a.value, 2) != a.keys)
    return bad_argument(call, "value", fmt::format("{} rows, as `key` has", a.keys));
  PN_TRY(a.causal, bool_arg(call, "is_causal"));
  PN_TRY(a.dropout, real_arg(call, "dropout_p"));
  a.scale = 1 / std::sqrt(static_cast<double>(a.depth));
  if (!is_none(call, "scale") && !call.tensor("scale")) {
    PN_TRY(a.scale, real_arg(call, "scale"));
  }
  PN_TRY(bool grouped, bool_arg(call, "enable_gqa"));
  std::vector<Shape> batches;
  for (const TensorMeta* meta : {a.query, a.key, a.value})
    batches.emplace_back(meta->shape.begin(), meta->shape.end() - 2);
  if (grouped && a.query->dim() >= 3 && a.key->dim() >= 3) {
    int64_t query_heads = from_end(a.query, 3), key_heads = from_end(a.key, 3);
    if (key_heads <= 0 || query_heads % key_heads != 0 || from_end(a.value, 3) != key_heads)
      return bad_argument(call, "key", "a number of heads that divides the query's");
    a.heads_per_key = query_heads / key_heads;
    batches[1].back() = batches[2].back() = query_heads;
  }
  PN_TRY(a.batch, broadcast_shapes(call, batches));
  if (a.mask) {
    Shape scores = a.batch;
    scores.insert(scores.end(), {a.length, a.keys});
    PN_CHECK_OK(broadcasts_to(call, "attn_mask", scores));
  }
  return a;
}

// Which kernel runs, and so the strides, is decided by the library.
Result<Inferred> meta_attention(const Call& call) {
  PN_TRY(Attention a, read_attention(call));
  Shape shape = a.batch;
  shape.push_back(a.length);
  shape.push_back(a.value_depth);
  return fresh(std::move(shape), a.query->dtype, std::nullopt);
}

AttentionProblem problem_of(const Attention& a) {
  AttentionProblem out;
  out.dtype = a.query->dtype;
  out.rows = a.length;
  out.keys = a.keys;
  out.depth = a.depth;
  out.value_depth = a.value_depth;
  out.heads_per_key = a.heads_per_key;
  out.batch_rank = static_cast<int>(a.batch.size());
  out.own_mask = a.mask == nullptr || a.mask->dtype == DType::kBool || a.mask->dtype == a.query->dtype;
  return out;
}

// softmax(q kT * scale + mask) v. float32: every intermediate as it is. 16 bits: as the library's kernel writes it over one
// block of keys (attention_order.txt), whose weights are powers of two of scores times log2(e) (and the scale, where there
// is no mask), less the greatest so multiplied, two roundings; the sum is of the weights before they are rounded to the operands'
// type for the second product.
Result<std::vector<ArrayId>> lower_attention(LowerContext& ctx, const Call& call) {
  PN_TRY(Attention a, read_attention(call));
  if (a.dropout != 0) return no_lowering(call, "attention with dropout draws random numbers");
  if (!is_none(call, "scale") && call.tensor("scale")) return no_lowering(call, "the scale is a tensor");
  DType dtype = a.query->dtype, sum = opmath(dtype);
  if (!is_floating(dtype)) return no_lowering(call, "operands are not floating");
  PN_TRY(ArrayId q, ctx.array(call.arg("query")));
  PN_TRY(ArrayId k, ctx.array(call.arg("key")));
  PN_TRY(ArrayId v, ctx.array(call.arg("value")));
  ArrayId mask = -1;
  if (a.mask) {
    PN_TRY(mask, ctx.array(call.arg("attn_mask")));
  }
  Program& p = ctx.program();
  NodeId node = call.node->id;
  size_t batch_rank = a.batch.size();
  auto rows_of = [&](Program& prog, ArrayId array, std::span<const ExprId> at, bool is_query, ExprId row,
                     ExprId column) {
    std::vector<ExprId> in(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(batch_rank));
    if (!is_query && a.heads_per_key > 1)
      in.back() = prog.call(Fn::kFloorDiv, {in.back(), prog.integer(a.heads_per_key)});
    in.push_back(row);
    in.push_back(column);
    return read_broadcast(prog, array, in).cast(sum);
  };
  Shape score_shape = a.batch;
  score_shape.push_back(a.length);
  score_shape.push_back(a.keys);
  ArrayId product = add_product(
      p, score_shape, sum, {a.depth},
      [&](Program& prog, std::span<const ExprId> at, std::span<const ExprId> r) {
        return std::pair<E, E>{rows_of(prog, q, at, true, at[batch_rank], r[0]),
                               rows_of(prog, k, at, false, at[batch_rank + 1], r[0])};
      },
      label_of(call, "product"), node);
  double lowest = -std::numeric_limits<double>::infinity();
  const bool half = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  // The library multiplies scores by one float32 number where no mask stands between the scale and the exponent.
  const bool scaled_later = half && a.mask == nullptr;
  const auto log2e = static_cast<float>(std::numbers::log2e);
  const double exponent = scaled_later ? static_cast<float>(a.scale) * log2e : log2e;
  ArrayId scores = add_epilogue(
      p, product, sum,
      [&](E e, std::span<const ExprId> at) {
        E out = scaled_later ? e : e * a.scale;
        E minus_inf = out.constant(lowest);
        if (a.mask && a.mask->dtype == DType::kBool)
          out = select(read_broadcast(p, mask, at), out, minus_inf);
        else if (a.mask && half)
          out = passnet::call(Fn::kFma, e, e.constant(a.scale), read_broadcast(p, mask, at).cast(sum));
        else if (a.mask)
          out = out + read_broadcast(p, mask, at).cast(sum);
        if (a.causal)
          out = select({&p, p.call(Fn::kLe, {at[batch_rank + 1], at[batch_rank]})}, out, minus_inf);
        return out;
      },
      label_of(call, "scores"), node);
  Shape row_shape = a.batch;
  row_shape.push_back(a.length);
  std::vector<ExprId> row = identity(p, row_shape);
  std::vector<ExprId> along = row;
  along.push_back(p.reduce_index(0, a.keys));
  ArrayId top = p.add_reduce(row_shape, sum, ReduceOp::kMax, {a.keys}, p.read(scores, along),
                             label_of(call, "max"), node);
  ArrayId weights = add_epilogue(
      p, scores, sum,
      [&](E e, std::span<const ExprId> at) {
        E m{&p, p.read(top, {at.begin(), at.end() - 1})};
        // A row without any key weighs nothing.
        const E weight =
            half ? passnet::call(Fn::kExp2, e * exponent - m * exponent) : passnet::call(Fn::kExp, e - m);
        return select(passnet::call(Fn::kEq, m, m.constant(lowest)), m.constant(0), weight);
      },
      label_of(call, "weights"), node);
  ArrayId total = p.add_reduce(row_shape, sum, ReduceOp::kSum, {a.keys}, p.read(weights, along),
                               label_of(call, "sum"), node);
  ArrayId factors = weights;
  if (half)
    factors = add_epilogue(
        p, weights, dtype, [&](E e, std::span<const ExprId>) { return e.cast(dtype); },
        label_of(call, "rounded"), node);
  Shape out_shape = row_shape;
  out_shape.push_back(a.value_depth);
  ArrayId mixed = add_product(
      p, out_shape, sum, {a.keys},
      [&](Program& prog, std::span<const ExprId> at, std::span<const ExprId> r) {
        std::vector<ExprId> in(at.begin(), at.end() - 1);
        in.push_back(r[0]);
        return std::pair<E, E>{E{&prog, prog.read(factors, in)}.cast(sum),
                               rows_of(prog, v, at, false, r[0], at.back())};
      },
      label_of(call, "mixed"), node);
  return std::vector<ArrayId>{add_epilogue(
      p, mixed, dtype,
      [&](E e, std::span<const ExprId> at) {
        E l{&p, p.read(total, {at.begin(), at.end() - 1})};
        const E mean = half ? e * (l.constant(1) / l) : e / l;
        return select(passnet::call(Fn::kEq, l, l.constant(0)), l.constant(0), mean).cast(dtype);
      },
      label_of(call), node)};
}

OpCost cost_attention(const Call& call) {
  Result<Attention> a = read_attention(call);
  if (!a.ok()) return {};
  double terms =
      static_cast<double>(a->keys) *
      (1 + static_cast<double>(a->depth) / std::max<double>(1, static_cast<double>(a->value_depth)));
  return product_cost(call, 20, a->causal ? terms / 2 : terms);
}

// multi_head_attention_forward is kept whole in graphs: (output, weights averaged over the heads or None).
Result<Inferred> meta_multi_head(const Call& call) {
  PN_TRY(const TensorMeta* query, tensor_arg(call, "query"));
  PN_TRY(const TensorMeta* key, tensor_arg(call, "key"));
  PN_TRY(int64_t heads, int_arg(call, "num_heads"));
  PN_TRY(bool need_weights, bool_arg(call, "need_weights"));
  PN_TRY(bool average, bool_arg(call, "average_attn_weights"));
  if (query->dim() != 2 && query->dim() != 3)
    return bad_argument(call, "query", "a tensor of 2 or 3 dimensions");
  if (key->dim() != query->dim()) return bad_argument(call, "key", "a tensor of the query's rank");
  // [length, batch, embedding]; the fused spelling has the batch first.
  bool batch_first = call.row->name == "native_multi_head_attention";
  bool batched = query->dim() == 3;
  PN_TRY(const int64_t width, int_arg(call, batch_first ? "embed_dim" : "embed_dim_to_check"));
  if (query->shape.back() != width) return bad_argument(call, "query", fmt::format("of {} features", width));
  // Weights given one by one stand beside a joint one that nothing reads.
  bool joint = batch_first;
  if (!batch_first) {
    PN_TRY(const bool separate, bool_arg(call, "use_separate_proj_weight"));
    joint = !separate;
    if (separate) {
      PN_TRY(const TensorMeta* value, tensor_arg(call, "value"));
      PN_CHECK_OK(shape_of(call, "q_proj_weight", Shape{width, width}));
      PN_CHECK_OK(shape_of(call, "k_proj_weight", Shape{width, key->shape.back()}));
      PN_CHECK_OK(shape_of(call, "v_proj_weight", Shape{width, value->shape.back()}));
    }
  }
  if (joint)
    PN_CHECK_OK(shape_of(call, batch_first ? "qkv_weight" : "in_proj_weight", Shape{3 * width, width}));
  PN_CHECK_OK(shape_of(call, batch_first ? "qkv_bias" : "in_proj_bias", Shape{3 * width}));
  PN_CHECK_OK(shape_of(call, batch_first ? "proj_weight" : "out_proj_weight", Shape{width, width}));
  PN_CHECK_OK(shape_of(call, batch_first ? "proj_bias" : "out_proj_bias", Shape{width}));
  size_t length_axis = batched && batch_first ? 1 : 0;
  Shape weights;
  if (batched) weights.push_back(query->shape[batch_first ? 0 : 1]);
  if (!average) weights.push_back(heads);
  weights.push_back(query->shape[length_axis]);
  weights.push_back(key->shape[length_axis]);
  std::vector<Meta> items{Meta::of(fresh_meta(query->shape, query->dtype, std::nullopt))};
  if (need_weights) {
    items.push_back(Meta::of(fresh_meta(weights, query->dtype, std::nullopt)));
  } else {  // the fused function gives a tensor in any case
    items.push_back(batch_first ? Meta::of(fresh_meta({0}, query->dtype)) : Meta::none());
  }
  return tuple_result(std::move(items));
}

OpCost cost_multi_head(const Call& call) {
  const TensorMeta* query = call.tensor("query");
  OpCost cost = product_cost(call, 200, query ? 4.0 * static_cast<double>(query->shape.back()) : 0);
  cost.kernels = 8;
  return cost;
}

constexpr std::string_view kAttention =
    "query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False";

}  // namespace

std::optional<AttentionProblem> attention_problem(const Call& call) {
  if (call.row->name != "scaled_dot_product_attention") return std::nullopt;
  const Result<Attention> a = read_attention(call);
  if (!a.ok()) return std::nullopt;
  return problem_of(*a);
}

std::vector<OpRow> attention_rows() {
  return {
      {.name = "scaled_dot_product_attention",
       .cls = OpClass::kProduct,
       .spellings = {function("torch.nn.functional.scaled_dot_product_attention", kAttention),
                     function("torch._C._nn.scaled_dot_product_attention", kAttention)},
       .meta = meta_attention,
       .lower = lower_attention,
       .cost = cost_attention,
       .examples = {{"q=f32[1,2,5,4], k=f32[1,2,5,4], v=f32[1,2,5,4]",
                     "torch.nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=0.0)"},
                    {"q=f16[2,2,3,4], k=f16[2,2,6,4], v=f16[2,2,6,8], m=bool[2,1,3,6]",
                     "torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=m, dropout_p=0.0, "
                     "is_causal=False)"},
                    {"q=f32[1,2,5,4], k=f32[1,2,5,4], v=f32[1,2,5,4], m=f32[1,1,5,5]",
                     "torch.nn.functional.scaled_dot_product_attention(query=q, key=k, value=v, attn_mask=m, "
                     "scale=0.125)"},
                    {"q=f32[1,2,5,4], k=f32[1,2,5,4], v=f32[1,2,5,4]",
                     "torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)"},
                    {"q=f32[1,4,5,4], k=f32[1,2,5,4], v=f32[1,2,5,4]",
                     "torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)"},
                    {"q=f16[1,2,7,32], k=f16[1,2,9,32], v=f16[1,2,9,32]",
                     "torch.nn.functional.scaled_dot_product_attention(q, k, v)"},
                    {"q=bf16[1,2,7,32], k=bf16[1,2,9,32], v=bf16[1,2,9,32], m=bf16[1,1,7,9]",
                     "torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=m)"}}},
      {.name = "multi_head_attention_forward",
       .cls = OpClass::kProduct,
       .spellings = {function(
           "torch.nn.functional.multi_head_attention_forward",
           "query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v, "
           "add_zero_attn, dropout_p, out_proj_weight, out_proj_bias, training=True, key_padding_mask=None, "
           "need_weights=True, attn_mask=None, use_separate_proj_weight=False, q_proj_weight=None, "
           "k_proj_weight=None, "
           "v_proj_weight=None, static_k=None, static_v=None, average_attn_weights=True, is_causal=False")},
       .meta = meta_multi_head,
       .cost = cost_multi_head,
       .examples = {{"q=f32[5,2,8], w=f32[24,8], b=f32[24], o=f32[8,8], c=f32[8]",
                     "torch.nn.functional.multi_head_attention_forward(q, q, q, 8, 2, w, b, None, None, "
                     "False, 0.0, o, c, "
                     "training=False)"},
                    {"q=f32[5,2,8], e=f32[0], u=f32[8,8], b=f32[24], o=f32[8,8], c=f32[8]",
                     "torch.nn.functional.multi_head_attention_forward(q, q, q, 8, 2, e, b, None, None, "
                     "False, 0.0, o, c, "
                     "training=False, use_separate_proj_weight=True, q_proj_weight=u, k_proj_weight=u, "
                     "v_proj_weight=u)"}},
       .wall = "it is a whole layer in one node"},
      {.name = "native_multi_head_attention",
       .cls = OpClass::kProduct,
       .spellings = {function(
           "torch._native_multi_head_attention",
           "query, key, value, embed_dim, num_heads|num_head, qkv_weight, qkv_bias, proj_weight, "
           "proj_bias, mask=None, need_weights=True, average_attn_weights=True, mask_type=None")},
       .meta = meta_multi_head,
       .cost = cost_multi_head,
       .examples =
           {{"q=f32[2,5,8], w=f32[24,8], b=f32[24], o=f32[8,8], c=f32[8]",
             "torch._native_multi_head_attention(q, q, q, 8, 2, w, b, o, c, None, True, True, None)"}},
       .wall = "it is a whole layer in one node"},
  };
}

}  // namespace passnet
