#include "score/slow.h"

#include <algorithm>

namespace passnet::score {
namespace {

template <class T>
bool has(const std::optional<T>& v) {
  return v.has_value();
}

constexpr SlowReason kReasons[] = {
#define PASSNET_SLOW(id, condition, meaning, action) \
  {id, meaning, action, []([[maybe_unused]] const SlowFacts& f) -> bool { return condition; }},
#include "score/slow.def"
#undef PASSNET_SLOW
};

SlowFacts facts_of(const Measured& m, const Judged& j) {
  SlowFacts f;
  f.passes = m.kind == "pass_mgr" || (m.kind.empty() && m.compiler == "pass_mgr");
  f.speedup = j.speedup.value_or(0);
  f.high_90 = m.high_90;
  f.unsteady = m.unsteady;
  f.predicted = m.expected.predicted;
  f.ceiling = m.expected.legal_ceiling;
  f.device_share = m.expected.device_share;
  for (const std::string& code : m.expected.blocked) {
    const bool gate =
        code.starts_with("product.") || code.starts_with("norm.") || code.starts_with("reduction.");
    (gate ? f.gate_refused : f.region_refused) = true;
  }
  return f;
}

}  // namespace

std::span<const SlowReason> slow_reasons() { return kReasons; }

const SlowReason& slow_reason(const SlowFacts& facts) {
  return *std::find_if(std::begin(kReasons), std::end(kReasons),
                       [&](const SlowReason& reason) { return reason.applies(facts); });
}

std::string_view reason_code(const Measured& measured, const Judged& judged) {
  if (judged.outcome != Outcome::kOk && judged.outcome != Outcome::kSlow) return row(judged.outcome).name;
  if (!judged.speedup || *judged.speedup >= 1) return {};
  return slow_reason(facts_of(measured, judged)).id;
}

std::string_view reason_meaning(std::string_view code) {
  for (const SlowReason& reason : kReasons)
    if (reason.id == code) return reason.meaning;
  for (const OutcomeRow& outcome : outcome_table())
    if (outcome.name == code) return outcome.text;
  return {};
}

}  // namespace passnet::score
