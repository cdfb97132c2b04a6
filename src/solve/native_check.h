#pragma once

#include <vector>

#include "check/check.h"
#include "codegen/pass_dir.h"
#include "solve/preflight.h"

namespace passnet {

struct NativeCheck {
  std::vector<VariantProof> variants;  ///< structure and source_rules, by variant
  std::vector<PassFailure> failures;
  std::vector<Diagnostic> findings;
};

/// The captured variants as the check takes them, at most `most` of them (0: all).
std::vector<check::Variant> as_check_variants(const std::vector<CapturedVariant>& variants, size_t most = 0);

/// What the native check says of a written state: the files are read back as the harness would read them, judged by
/// the loading rules and both source-rule sets, and matched on every graph of every variant.
NativeCheck check_state(const GeneratedPassDir& generated, const std::vector<CapturedVariant>& variants);

}  // namespace passnet
