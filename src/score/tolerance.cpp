#include "score/tolerance.h"

#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

namespace passnet::score {
namespace {

// The log prints .2E; parsing what was printed gives the very numbers that a reader of the log compares with.
double rounded(double value) { return std::strtod(fmt::format("{:.2E}", value).c_str(), nullptr); }

double slope(std::string_view dtype) {
  if (dtype == "float16") return 0.6;
  if (dtype == "bfloat16") return 0.3592;
  if (dtype == "float32") return 1.1772;
  if (dtype == "float64") return 1.4;
  return 0;
}

}  // namespace

bool is_judged_by_equality(std::string_view dtype) { return slope(dtype) == 0; }

Closeness closeness(std::string_view dtype, int t) {
  const double s = slope(dtype);
  if (s == 0) return {};
  const double rtol = rounded(std::pow(10.0, s * t));
  return {rtol, dtype == "float64" ? rtol : rounded(std::pow(10.0, t))};
}

std::string all_close_key(const Closeness& c) {
  return fmt::format("all_close_atol_{:.2E}_rtol_{:.2E}", c.atol, c.rtol);
}

std::string all_close_key(std::string_view dtype, int t) { return all_close_key(closeness(dtype, t)); }

const Weights& public_weights() {
  static const Weights weights = {0.001, 0.001, 0.001, 0.001,  0.001,   1,        1,    1,
                                  0.8,   0.64,  0.512, 0.4096, 0.32768, 0.262144, 0.001};
  return weights;
}

}  // namespace passnet::score
