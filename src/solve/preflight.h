#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "codegen/pass_dir.h"
#include "plan/plan.h"

namespace passnet {

/// What is claimed of a variant, one by one. The closed list of interfaces: structure, source_rules, poison,
/// numerics, speed.
struct Proof {
  enum class State { kProven, kFailed, kNotProven };
  std::string subject;
  State state = State::kNotProven;
  std::string by;    ///< native, interpreter on the CPU, GPU, completed evaluation; empty if not proven
  std::string note;  ///< what was compared, or why not
};
std::string_view to_string(Proof::State state);
Json to_json(const Proof& proof);

struct VariantProof {
  std::string name;
  size_t matches = 0;  ///< over all graphs; 0 in any one graph means the variant fails
  bool matched = false;
  std::vector<Proof> proofs;

  const Proof* find(std::string_view subject) const;
  /// Structure and source rules proven, and nothing failed.
  bool green() const;
};

/// A pass that must not stay in the state, and why: the planner is asked again without it.
struct PassFailure {
  std::string pass;
  Refusal why;
};

struct PreflightReport {
  std::vector<VariantProof> variants;
  std::vector<PassFailure> failures;
  std::vector<Diagnostic> findings;
  Json details = Json::object();  ///< what the worker answered, for the record of the state

  bool green() const;
};

/// One state to be judged.
struct StateUnderTest {
  const std::vector<PassSpec>* passes = nullptr;
  const GeneratedPassDir* generated = nullptr;
  const std::vector<CapturedVariant>* variants = nullptr;
  std::string sample_root;                ///< of the variants' folders
  std::vector<std::string> variant_dirs;  ///< by variant
};

/// Judges a state before any evaluation. The native part needs nothing; numerics need the worker.
class Preflight {
 public:
  virtual ~Preflight() = default;
  virtual Result<PreflightReport> run(const StateUnderTest& state) = 0;
};

}  // namespace passnet
