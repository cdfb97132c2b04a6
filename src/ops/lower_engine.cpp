#include <fmt/format.h>

#include "ops/rows.h"

namespace passnet {

std::vector<ExprId> identity(Program& p, const std::vector<int64_t>& shape) {
  std::vector<ExprId> at;
  for (size_t i = 0; i < shape.size(); ++i) at.push_back(p.index(static_cast<int>(i), shape[i]));
  return at;
}

E read_broadcast(Program& p, ArrayId array, std::span<const ExprId> at) {
  const std::vector<int64_t>& shape = p.array(array).shape;
  std::vector<ExprId> indices;
  const size_t offset = at.size() - shape.size();
  for (size_t i = 0; i < shape.size(); ++i) indices.push_back(shape[i] == 1 ? p.integer(0) : at[offset + i]);
  return {&p, p.read(array, std::move(indices))};
}

Result<std::vector<ArrayId>> lower_pointwise(LowerContext& ctx, const Call& call,
                                             std::span<const std::string_view> operands,
                                             const Formula& formula, std::optional<DType> compute) {
  Program& p = ctx.program();
  const TensorMeta& result = call.node->meta.tensor;
  std::vector<const TensorMeta*> tensors;
  std::vector<Value> scalars;
  for (const std::string_view name : operands) {
    const Value& v = call.arg(name);
    if (const TensorMeta* t = call.tensor(v)) {
      tensors.push_back(t);
    } else {
      const Meta* meta = v.is_node() ? &call.graph->node(v.as_node()).meta : nullptr;
      scalars.push_back(meta && meta->kind == Meta::Kind::kScalar ? meta->scalar : v);
    }
  }
  const DType common = compute.value_or(result_type(tensors, scalars));
  const DType wide = opmath(common);
  if (is_complex(common) || is_complex(result.dtype)) {
    return bad_call(call, "ops.no_lowering", "complex numbers have no kernels");
  }
  const std::vector<ExprId> at = identity(p, result.shape);
  std::vector<E> values;
  size_t next_scalar = 0;
  for (const std::string_view name : operands) {
    const Value& v = call.arg(name);
    if (call.tensor(v)) {
      PN_TRY(const ArrayId array, ctx.array(v));
      if (is_complex(p.array(array).dtype))
        return bad_call(call, "ops.no_lowering", "complex numbers have no kernels");
      // The loader casts an operand of another type to the common one before the functor widens it.
      values.push_back(read_broadcast(p, array, at).cast(common).cast(wide));
      continue;
    }
    const Value& scalar = scalars[next_scalar++];
    if (!scalar.is_number()) {
      return bad_call(call, "ops.no_lowering", fmt::format("`{}` is neither a tensor nor a number", name));
    }
    values.push_back({&p, scalar.kind() == Value::Kind::kFloat ? p.real(scalar.as_double(), wide)
                                                               : p.integer(scalar.as_int(), wide)});
  }
  const E value = formula(values).cast(result.dtype);
  const ArrayId out = p.add_map(result.shape, result.dtype, value.id,
                                fmt::format("{}.{}", call.node->name, call.row->name), call.node->id);
  return std::vector<ArrayId>{out};
}

Result<std::vector<ArrayId>> lower_gather(LowerContext& ctx, const Call& call, std::string_view operand,
                                          const IndexMap& index_map) {
  Program& p = ctx.program();
  PN_TRY(const ArrayId source, ctx.array(call.arg(operand)));
  const TensorMeta& result = call.node->meta.tensor;
  const std::vector<ExprId> at = identity(p, result.shape);
  const ExprId value = p.read(source, index_map(p, at));
  const ArrayId out = p.add_map(result.shape, result.dtype, p.cast(value, result.dtype),
                                fmt::format("{}.{}", call.node->name, call.row->name), call.node->id);
  return std::vector<ArrayId>{out};
}

ExprId linearize(Program& p, const std::vector<int64_t>& shape, std::span<const ExprId> at) {
  ExprId out = p.integer(0);
  for (size_t i = 0; i < shape.size(); ++i) {
    out = p.call(Fn::kAdd, {p.call(Fn::kMul, {out, p.integer(shape[i])}), at[i]});
  }
  return out;
}

std::vector<ExprId> delinearize(Program& p, const std::vector<int64_t>& shape, ExprId linear) {
  std::vector<ExprId> at(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    const ExprId above = p.call(Fn::kFloorDiv, {linear, p.integer(stride)});
    // The leading axis needs no remainder: the index is in range.
    at[i] = i == 0 ? above : p.call(Fn::kMod, {above, p.integer(std::max<int64_t>(shape[i], 1))});
    if (shape[i] == 1) at[i] = p.integer(0);
    stride *= std::max<int64_t>(shape[i], 1);
  }
  return at;
}

}  // namespace passnet
