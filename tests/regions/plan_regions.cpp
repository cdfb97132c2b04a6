// Solves samples natively, a folder a line of the standard input: capture, the plan that covers most calls, its pass_dir
// (written into the folder), the native check. Answers with a JSON line a folder: {"sample", "error"?: {"code",
// "message"}, "passes", "covered", "calls", "regions": [{"operators", "legal", "chosen", "schedule", "codes"}], "failures",
// "refused", "programs": {pass: [array program a call]}}.
//
// The machine planned for is one on which a call costs next to nothing, so that the largest legal regions win wherever
// they are; a real profile would leave out many that are legal.

#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "base/files.h"
#include "base/json.h"
#include "codegen/pass_dir.h"
#include "plan/plan.h"
#include "solve/native_check.h"
#include "solve/solve.h"
#include "solve/specialise.h"

namespace {

using namespace passnet;

Profile cheap_calls(Profile profile) {
  profile.kernel_floor_us = 0;
  profile.latency_us = 0;
  profile.wrapper_us = 0.1;
  profile.zero_launch_us = 0.1;
  profile.tensor_argument_us = 0;
  profile.allocation_us = 0;
  profile.launch_us = 0;
  profile.bandwidth_gbps = profile.l2_gbps = 1e9;
  profile.generated_efficiency = 1e6;
  return profile;
}

Json error_json(const Diagnostic& error) { return {{"code", error.code}, {"message", error.message}}; }

Json regions_json(const PlanResult& plan) {
  Json out = Json::array();
  for (const RegionRow& row : plan.regions) {
    Json codes = Json::array();
    for (const Refusal& refusal : row.verdict.refusals())
      codes.push_back({{"code", refusal.code}, {"message", refusal.message}});
    out.push_back({{"operators", row.operators},
                   {"kernel", row.kind == Region::Kind::kKernel},
                   {"legal", row.verdict.ok()},
                   {"chosen", row.in_upside},
                   {"schedule", row.estimate.schedule},
                   {"codes", std::move(codes)}});
  }
  return out;
}

// Not through FileSystem, whose fsync for each of thousands of files that live for a second takes longer than the rest.
void write_state(const std::filesystem::path& dir, const GeneratedPassDir& generated) {
  std::filesystem::remove_all(dir);
  std::filesystem::create_directories(dir);
  for (const auto& [name, text] : generated.files) std::ofstream(dir / name, std::ios::binary) << text;
}

Result<Json> solve(FileSystem& files, const Profile& profile, const std::string& folder) {
  PN_TRY(const CapturedSample sample, capture_sample(files, folder, "cuda", 1));
  Json out = Json::object();
  for (const Diagnostic& finding : sample.findings) {
    if (finding.severity == Severity::kError) return finding;
  }
  PlanOptions options;
  options.ceiling = false;
  const PlanResult plan = plan_sample(sample.variants, profile, &estimate_schedule, options);
  out["regions"] = regions_json(plan);
  out["refused"] = Json::array();
  for (const Diagnostic& finding : plan.findings)
    out["refused"].push_back({{"code", finding.code}, {"message", finding.message}});
  const PlanState& state = plan.upside.passes.empty() ? plan.floor : plan.upside;
  out["passes"] = Json::array();
  for (const PassSpec& pass : state.passes) out["passes"].push_back(pass.name);
  if (state.passes.empty()) return out;
  PN_TRY(const GeneratedPassDir generated, generate_pass_dir(state.passes));
  write_state(std::filesystem::path(folder) / "pass_dir", generated);
  const NativeCheck check = check_state(generated, sample.variants);
  Json failures = Json::array();
  for (const PassFailure& failure : check.failures)
    failures.push_back(failure.pass + ": " + failure.why.code + ": " + failure.why.message);
  for (const VariantProof& variant : check.variants) {
    if (variant.green()) continue;
    for (const Proof& proof : variant.proofs) {
      if (proof.state == Proof::State::kFailed) failures.push_back(proof.subject + ": " + proof.note);
    }
  }
  out["failures"] = std::move(failures);
  PN_TRY(const Specialised special, specialise(state.passes, sample.variants.front()));
  out["programs"] = Json::object();
  for (size_t p = 0; p < state.passes.size(); ++p) {
    if (state.passes[p].kind != Region::Kind::kKernel || special.programs[p].empty()) continue;
    out["programs"][state.passes[p].name] = Json::array();
    for (const Json& program : special.programs[p]) out["programs"][state.passes[p].name].push_back(program);
  }
  return out;
}

}  // namespace

int main() {
  const Result<Profile> profile = builtin_profile("h200");
  if (!profile.ok()) {
    std::cerr << profile.error().message << "\n";
    return 2;
  }
  const Profile cheap = cheap_calls(*profile);
  for (std::string folder; std::getline(std::cin, folder);) {
    Result<Json> answer = solve(real_files(), cheap, folder);
    Json line = answer.ok() ? std::move(*answer) : Json{{"error", error_json(answer.error())}};
    line["sample"] = folder;
    std::cout << dump_json(line) << "\n" << std::flush;
  }
  return 0;
}
