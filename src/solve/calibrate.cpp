#include "solve/calibrate.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "plan/cost.h"

namespace passnet {
namespace {

// Beyond these a measured figure is a mistake of the measurement, not a machine.
constexpr double kLeastScale = 0.25, kMostScale = 8;
constexpr double kShare = 0.01;  // a change of less than a hundredth is none
constexpr double kProbe = 0.2;
constexpr double kHostBound = 0.5;  // share of a time beside the harness's that has to follow the host's
constexpr int kSteps = 30;

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

void change(Calibration& calibration, const char* field, double Profile::*member, double to) {
  double& value = calibration.profile.*member;
  if (std::abs(to - value) <= kShare * std::max(std::abs(value), 1e-9)) return;
  calibration.changes.push_back({field, value, to});
  value = to;
}

// Median over the variants of log(predicted / measured).
double error_at(const std::vector<CapturedVariant>& variants, const std::vector<std::optional<double>>& eager,
                Profile profile, double scale) {
  profile.host_scale = scale;
  const std::vector<double> predicted = predicted_eager_us(variants, profile);
  std::vector<double> errors;
  for (size_t v = 0; v < variants.size(); ++v)
    if (eager[v] && predicted[v] > 0) errors.push_back(std::log(predicted[v] / *eager[v]));
  return median(std::move(errors)).value_or(0);
}

}  // namespace

std::vector<double> predicted_eager_us(const std::vector<CapturedVariant>& variants, const Profile& profile) {
  std::vector<double> out;
  for (const CapturedVariant& variant : variants) {
    double sum = 0;
    for (const Graph& graph : variant.graphs) {
      const GraphFacts facts(graph, profile);
      sum += eager_time_us(eager_calls(facts), profile) - (sum > 0 ? profile.harness_us : 0);
    }
    out.push_back(sum);
  }
  return out;
}

Calibration calibrate(const Evaluation& evaluation, const std::vector<CapturedVariant>& variants,
                      const Profile& profile) {
  Calibration out;
  out.profile = profile;
  if (!evaluation.comparable) return out;
  std::vector<std::optional<double>> eager(variants.size());
  std::vector<double> tax, ready;
  bool any = false;
  for (size_t v = 0; v < variants.size(); ++v) {
    const Measurement* nope = evaluation.find(kNope, variants[v].name);
    const Measurement* outputs = evaluation.find(kReady, variants[v].name);
    if (nope != nullptr && nope->eager_us) {
      eager[v] = nope->eager_us;
      any = true;
      if (nope->time_us) tax.push_back(*nope->time_us - *nope->eager_us);
    }
    if (outputs != nullptr && outputs->time_us) ready.push_back(*outputs->time_us);
  }
  if (!any) return out;
  if (const auto measured = median(std::move(tax)))
    change(out, "compiled_tax_us", &Profile::compiled_tax_us, std::max(*measured, 0.0));
  if (const auto measured = median(std::move(ready)))
    change(out, "harness_us", &Profile::harness_us,
           std::max(*measured - out.profile.compiled_tax_us - out.profile.sync_us, 0.0));
  // Where the device takes the time, host time cannot be seen.
  Profile less = out.profile, more = out.profile;
  less.host_scale *= 1 - kProbe;
  more.host_scale *= 1 + kProbe;
  const std::vector<double> slow = predicted_eager_us(variants, more),
                            fast = predicted_eager_us(variants, less);
  for (size_t v = 0; v < variants.size(); ++v)
    if (slow[v] - fast[v] < kHostBound * 2 * kProbe * (slow[v] - out.profile.harness_us)) eager[v].reset();
  double low = kLeastScale, high = kMostScale;
  const double at_low = error_at(variants, eager, out.profile, low),
               at_high = error_at(variants, eager, out.profile, high);
  if (at_low >= 0 || at_high <= 0) return out;
  for (int step = 0; step < kSteps; ++step) {
    const double middle = std::sqrt(low * high);
    (error_at(variants, eager, out.profile, middle) < 0 ? low : high) = middle;
  }
  const double before = out.profile.host_scale;
  change(out, "host_scale", &Profile::host_scale, std::sqrt(low * high));
  // A host that is slow in one thing is slow in the other: what a wrapper costs is Python, too.
  const double factor = out.profile.host_scale / before;
  change(out, "wrapper_us", &Profile::wrapper_us, out.profile.wrapper_us * factor);
  change(out, "tensor_argument_us", &Profile::tensor_argument_us, out.profile.tensor_argument_us * factor);
  change(out, "allocation_us", &Profile::allocation_us, out.profile.allocation_us * factor);
  change(out, "launch_us", &Profile::launch_us, out.profile.launch_us * factor);
  change(out, "zero_launch_us", &Profile::zero_launch_us, out.profile.zero_launch_us * factor);
  return out;
}

}  // namespace passnet
