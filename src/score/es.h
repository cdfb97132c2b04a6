#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "score/status.h"

// ES(t) and the score. With b = 0.1 and p = 0, as the public harness runs:
//   t < 1:  the speedup if the variant is correct at t, else b;
//   t >= 1: the speedup if it is correct at 1; else 1 if its kind of failure is tolerated at t; else b.
// ES(t) of several variants is the geometric mean, the score the weighted geometric mean over t = -10..4.

namespace passnet::score {

struct EsOptions {
  double b = kFailed;
  double p = 0;  // a slowdown counts as s^(p+1)
  Interpretation interpretation = Interpretation::kDefault;
};

// A variant as the formula sees it.
struct EsInput {
  PublicStatus status = PublicStatus::kCorrect;
  std::array<bool, kLastExtendedT - kFirstT + 1> correct{};
  double speedup = 1;

  static EsInput of(const Judged& judged);
};

double es_of(const EsInput& v, int t, const EsOptions& options = {});
// Geometric mean over the variants; 0 for none.
double es_at(std::span<const EsInput> variants, int t, const EsOptions& options = {});
std::array<double, kTolerances> es_curve(std::span<const EsInput> variants, const EsOptions& options = {});
// 10 to the weighted mean of the logarithms. Weights need not be normalised.
double aggregate(const std::array<double, kTolerances>& curve, const Weights& weights = public_weights());
double score_of(std::span<const EsInput> variants, const EsOptions& options = {},
                const Weights& weights = public_weights());

// The same ES(t) from shares: alpha^lambda * beta^(lambda*eta*p) * gamma^(1-lambda). Equal to the micro form within
// rounding, which the public aggregator asserts to 1e-3.
struct Macro {
  double alpha = 1, beta = 1, lambda = 0, eta = 0, gamma = kFailed;
  double es = 0;
};
Macro macro_at(std::span<const EsInput> variants, int t, const EsOptions& options = {});

}  // namespace passnet::score
