#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "solve/native_check.h"
#include "solve/preflight.h"

// A pre-flight for tests of solve: the native check, changed as a test wants it.

namespace passnet {

using Names = std::vector<std::string>;

inline Names names_of(const std::vector<PassSpec>& passes) {
  Names out;
  for (const PassSpec& pass : passes) out.push_back(pass.name);
  return out;
}

// Answers with what the native check says, changed as a test wants it, and remembers what it was asked.
class FakePreflight final : public Preflight {
 public:
  Result<PreflightReport> run(const StateUnderTest& state) override {
    asked.push_back(names_of(*state.passes));
    NativeCheck native = check_state(*state.generated, *state.variants);
    PreflightReport report;
    report.variants = std::move(native.variants);
    report.failures = std::move(native.failures);
    report.findings = std::move(native.findings);
    for (const PassSpec& pass : *state.passes) {
      if (!bad.contains(pass.name)) continue;
      report.failures.push_back({pass.name, {"preflight_failed", "differs from eager", {}}});
      for (VariantProof& variant : report.variants) {
        variant.proofs.push_back({"numerics", Proof::State::kFailed, "", "differs from eager"});
      }
    }
    if (change) change(state, report);
    return report;
  }

  std::set<std::string> bad;  // passes that fail
  std::function<void(const StateUnderTest&, PreflightReport&)> change;
  std::vector<Names> asked;
};

inline void fail_variant(PreflightReport& report, size_t variant) {
  report.variants[variant].proofs.push_back({"numerics", Proof::State::kFailed, "", "differs from eager"});
}

}  // namespace passnet
