#pragma once

#include <array>
#include <string>
#include <string_view>

namespace passnet::score {

// Tolerances t = -10..4 of the score; 5 exists in logs and in the extended interpretation only.
inline constexpr int kFirstT = -10, kLastT = 4, kLastExtendedT = 5;
inline constexpr int kTolerances = kLastT - kFirstT + 1;
inline constexpr int kBaseT = -5;       // what "correct" means without further words
inline constexpr double kFailed = 0.1;  // b: what a variant counts where it is not correct

// rtol and atol as the log prints them: three significant digits. Zero for every dtype but the four float ones: such
// outputs are judged by equality.
struct Closeness {
  double rtol = 0, atol = 0;
};
Closeness closeness(std::string_view dtype, int t);
bool is_judged_by_equality(std::string_view dtype);

// `all_close_atol_1.00E-05_rtol_1.30E-06`: the key of a log line.
std::string all_close_key(const Closeness& closeness);
std::string all_close_key(std::string_view dtype, int t);

// The four dtypes in the order in which the log prints the keys of one t.
inline constexpr std::array<std::string_view, 4> kFloatDtypes = {"float16", "bfloat16", "float32", "float64"};

// Raw weights by t, and their sum: the score divides by it.
using Weights = std::array<double, kTolerances>;
const Weights& public_weights();

}  // namespace passnet::score
