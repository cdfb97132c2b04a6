#include "solve/native_check.h"

#include <fmt/format.h>

namespace passnet {
namespace {

// Errors of one rule set; the text of the first, or nothing.
std::string first_error(const check::CheckReport& report) {
  for (const Diagnostic& finding : report.findings) {
    if (finding.severity == Severity::kError) return fmt::format("{}: {}", finding.code, finding.message);
  }
  return {};
}

}  // namespace

std::vector<check::Variant> as_check_variants(const std::vector<CapturedVariant>& variants, size_t most) {
  std::vector<check::Variant> out;
  for (const CapturedVariant& variant : variants) {
    if (most > 0 && out.size() >= most) break;
    check::Variant copy;
    copy.name = variant.name;
    for (const Graph& graph : variant.graphs) copy.graphs.push_back(graph.clone());
    out.push_back(std::move(copy));
  }
  return out;
}

NativeCheck check_state(const GeneratedPassDir& generated, const std::vector<CapturedVariant>& variants) {
  NativeCheck out;
  check::CheckOptions options;
  options.file_prefix = "pass_dir/";
  const check::CheckReport judged =
      check::check_pass_dir(generated.files, as_check_variants(variants), options);
  // The second rule set reads the sources alone.
  options.rules = check::SourceRules::kStrict;
  const check::CheckReport strict = check::check_pass_dir(generated.files, {}, options);
  std::string source_error = first_error(strict);
  if (source_error.empty() && judged.subject("source").proof == check::Proof::kRed)
    source_error = first_error(judged);

  for (const check::VariantReport& variant : judged.variants) {
    VariantProof proof;
    proof.name = variant.name;
    proof.matched = variant.matched();
    std::string trouble;
    for (size_t g = 0; g < variant.graphs.size(); ++g) {
      for (const check::PassMatches& pass : variant.graphs[g].passes) {
        proof.matches += pass.matches.size();
        for (const check::MatchReport& match : pass.matches) {
          if (match.legality.verdict.ok()) continue;
          trouble =
              fmt::format("{} matches where it must not: {}", pass.pass, match.legality.verdict.to_text());
          out.failures.push_back({pass.pass, match.legality.verdict.refusals().front()});
        }
      }
      if (!variant.graphs[g].matched) trouble = fmt::format("no pass matches graph {}", g);
    }
    const bool good = proof.matched && trouble.empty();
    proof.proofs.push_back(
        {"structure", good ? Proof::State::kProven : Proof::State::kFailed, good ? "native" : "", trouble});
    const bool clean = source_error.empty();
    proof.proofs.push_back({"source_rules", clean ? Proof::State::kProven : Proof::State::kFailed,
                            clean ? "native" : "", clean ? "public and strict rules" : source_error});
    out.variants.push_back(std::move(proof));
  }
  for (const Diagnostic& finding : judged.findings) out.findings.push_back(finding);
  if (!source_error.empty())
    out.findings.push_back(
        internal_error("solve.source_rules", "a written pass_dir breaks a source rule: " + source_error));
  return out;
}

}  // namespace passnet
