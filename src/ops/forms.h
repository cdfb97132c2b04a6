#pragma once

#include <span>
#include <vector>

#include "ops/row_args.h"
#include "ops/rows.h"

// Pointwise rows in few words: the first n parameters of the row are the operands (tensors, or numbers where torch takes
// them), a rule gives the result's type, and a formula the value in the operands' opmath.

namespace passnet {

enum class ResultRule : uint8_t {
  kPromoted,  // torch's result type over the operands
  kFloat,     // the same, but float32 where that would be an integer or bool
  kBool,      // computed in the promoted type, the result is a bool
  kFirst      // the first operand's own type (activations: integers are refused by torch)
};

// How numbers enter: cast to the opmath (add, mul, ...), or first to the common type (functors that take the element
// type itself: comparisons, remainder, maximum).
enum class NumberRule : uint8_t { kOpmath, kElement };

struct FormArgs {
  const Call& call;
  Program& program;
  std::span<const E> x;  // the operands, of type opmath(common); absent ones (None) have id kNoExpr
  DType common;          // the type the functor's operands have
  bool given(size_t i) const { return x[i].id != kNoExpr; }
  bool is_number(size_t i) const { return call.args[i].is_number(); }
};

// Shape and type of a pointwise call; strides as TensorIterator allocates. Operands that are None are left out. Where
// no operand is a tensor the value is a Python number: not known unless it can be computed here.
Result<Inferred> pointwise_meta(const Call& call, int operands, ResultRule rule);
Result<DType> common_type(const Call& call, int operands, ResultRule rule);

template <ResultRule kRule, int kOperands>
Result<Inferred> meta_form(const Call& call) {
  return pointwise_meta(call, kOperands, kRule);
}

using FormFunction = std::function<Result<E>(const FormArgs&)>;
Result<std::vector<ArrayId>> lower_formula(LowerContext& ctx, const Call& call, int operands, ResultRule rule,
                                           NumberRule numbers, const FormFunction& formula);

// kFormula: E or Result<E> of const FormArgs&.
template <ResultRule kRule, int kOperands, auto kFormula, NumberRule kNumbers = NumberRule::kOpmath>
Result<std::vector<ArrayId>> lower_form(LowerContext& ctx, const Call& call) {
  return lower_formula(ctx, call, kOperands, kRule, kNumbers,
                       [](const FormArgs& args) -> Result<E> { return kFormula(args); });
}

// ---- functions on E ----
inline E fma(E a, E b, E c) { return call(Fn::kFma, a, b, c); }
inline E exp(E a) { return call(Fn::kExp, a); }
inline E log(E a) { return call(Fn::kLog, a); }
inline E log1p(E a) { return call(Fn::kLog1p, a); }
inline E sqrt(E a) { return call(Fn::kSqrt, a); }
inline E rsqrt(E a) { return call(Fn::kRsqrt, a); }
inline E abs(E a) { return call(Fn::kAbs, a); }
inline E tanh(E a) { return call(Fn::kTanh, a); }
inline E maximum(E a, E b) { return call(Fn::kMax, a, b); }
inline E minimum(E a, E b) { return call(Fn::kMin, a, b); }
inline E less(E a, E b) { return call(Fn::kLt, a, b); }
inline E greater(E a, E b) { return call(Fn::kGt, a, b); }
inline E equal(E a, E b) { return call(Fn::kEq, a, b); }
inline E truth(E a) { return a.type() == DType::kBool ? a : call(Fn::kNe, a, a.constant(0)); }

}  // namespace passnet
