#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "ops/array_ir.h"

namespace passnet {

// Simplification of int64 index arithmetic and of the bool expressions over it, used by Program::call only.
// A sum is kept as a linear form over atoms (anything that is no sum or product with a constant), written in one
// canonical order, so that equal sums are equal expressions. Division and remainder by a positive constant are taken
// apart with the ranges of the atoms; (x / n) * n + x % n is x again. Every rule holds for all integers that the
// ranges allow; where 64 bits would not do, nothing is rewritten.
class IndexSimplifier {
 public:
  explicit IndexSimplifier(Program& program) : p_(program) {}
  ExprId call(Fn fn, std::vector<ExprId> args);

 private:
  struct Term {
    ExprId atom = kNoExpr;
    int64_t factor = 0;
  };
  struct Sum {
    std::vector<Term> terms;  // by atom, ascending; no zero factors
    int64_t constant = 0;
  };
  using Range = std::optional<std::pair<int64_t, int64_t>>;

  std::optional<int64_t> constant_of(ExprId e) const;
  Sum sum_of(ExprId e) const;
  // False where a factor would not fit into 64 bits.
  static bool add(Sum& to, const Sum& from, int64_t factor);
  ExprId build(Sum sum);
  void join_quotients(Sum& sum);
  Range range_of(const Sum& sum) const;

  ExprId linear(Fn fn, ExprId a, ExprId b);
  ExprId divide(ExprId a, int64_t by);
  ExprId remainder(ExprId a, int64_t by);
  ExprId compare(Fn fn, ExprId a, ExprId b);
  ExprId logic(Fn fn, std::vector<ExprId> args);

  Program& p_;
};

}  // namespace passnet
