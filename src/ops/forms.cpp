#include "ops/forms.h"

#include <cmath>

#include <fmt/format.h>

namespace passnet {

namespace {

struct Operands {
  std::vector<const TensorMeta*> tensors;
  std::vector<Value> numbers;
  std::vector<const TensorMeta*> iterated;  // tensors in order, a 0-dim stand-in where a number is wrapped
};

const TensorMeta& wrapped_number() {
  static const TensorMeta meta = [] {
    TensorMeta m;
    m.stride.emplace();
    return m;
  }();
  return meta;
}

Result<Operands> operands_of(const Call& call, int count) {
  Operands out;
  for (int i = 0; i < count; ++i) {
    const Value& given = call.args[static_cast<size_t>(i)];
    if (const TensorMeta* t = call.tensor(given)) {
      out.tensors.push_back(t);
      out.iterated.push_back(t);
      continue;
    }
    const Value v = known_value(call, given);
    if (v.is_none()) continue;
    if (v.is_number() || v.kind() == Value::Kind::kComplex) {
      out.numbers.push_back(v);
      out.iterated.push_back(&wrapped_number());
      continue;
    }
    const std::string name(parameters_of(*call.row)[static_cast<size_t>(i)]);
    const Meta* meta = meta_of(call, given);
    if (meta && meta->kind == Meta::Kind::kUnknown) {
      return bad_call(call, "ops.unknown_value",
                      fmt::format("`{}` is `{}`, which is only known at run time", name,
                                  call.graph->node(given.as_node()).name));
    }
    return bad_call(call, "ops.bad_arguments", fmt::format("`{}` is neither a tensor nor a number", name));
  }
  return out;
}

DType ruled(DType common, ResultRule rule) {
  return rule == ResultRule::kFloat && is_integral(common, true) ? DType::kFloat32 : common;
}

}  // namespace

Result<DType> common_type(const Call& call, int operands, ResultRule rule) {
  PN_TRY(const Operands all, operands_of(call, operands));
  if (rule == ResultRule::kFirst && !all.tensors.empty()) return all.tensors[0]->dtype;
  return ruled(result_type(all.tensors, all.numbers), rule);
}

Result<Inferred> pointwise_meta(const Call& call, int operands, ResultRule rule) {
  PN_TRY(const Operands all, operands_of(call, operands));
  if (all.tensors.empty()) {
    Inferred unknown;  // arithmetic of Python numbers inside the graph
    return unknown;
  }
  std::vector<std::vector<int64_t>> shapes;
  for (const TensorMeta* t : all.tensors) shapes.push_back(t->shape);
  PN_TRY(std::vector<int64_t> shape, broadcast_shapes(call, shapes));
  PN_TRY(const DType common, common_type(call, operands, rule));
  auto stride = iterator_strides(shape, all.iterated);
  return fresh(std::move(shape), rule == ResultRule::kBool ? DType::kBool : common, std::move(stride));
}

Result<std::vector<ArrayId>> lower_formula(LowerContext& ctx, const Call& call, int operands, ResultRule rule,
                                           NumberRule numbers, const FormFunction& formula) {
  Program& p = ctx.program();
  if (!call.node->meta.is_tensor()) return no_lowering(call, "its value is no tensor");
  const TensorMeta& result = call.node->meta.tensor;
  PN_TRY(const DType common, common_type(call, operands, rule));
  const DType wide = opmath(common);
  if (is_complex(common) || is_complex(result.dtype))
    return no_lowering(call, "complex numbers have no kernels");
  const std::vector<ExprId> at = identity(p, result.shape);
  std::vector<E> values;
  for (int i = 0; i < operands; ++i) {
    const Value& given = call.args[static_cast<size_t>(i)];
    if (call.tensor(given)) {
      PN_TRY(const ArrayId array, ctx.array(given));
      if (is_complex(p.array(array).dtype)) return no_lowering(call, "complex numbers have no kernels");
      // An operand of another type is cast to the common type by the loader, then widened by the functor.
      values.push_back(read_broadcast(p, array, at).cast(common).cast(wide));
      continue;
    }
    const Value v = known_value(call, given);
    if (v.is_none()) {
      values.push_back({&p, kNoExpr});
      continue;
    }
    const DType type = numbers == NumberRule::kElement ? common : wide;
    const ExprId number =
        v.kind() == Value::Kind::kFloat ? p.real(v.as_double(), type) : p.integer(v.as_int(), type);
    values.push_back(E{&p, number}.cast(wide));
  }
  PN_TRY(const E value, formula(FormArgs{call, p, values, common}));
  const ArrayId out =
      p.add_map(result.shape, result.dtype, value.cast(result.dtype).id, label_of(call), call.node->id);
  return std::vector<ArrayId>{out};
}

}  // namespace passnet
