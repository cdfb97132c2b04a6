#include "cli/check_worker.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/json.h"
#include "check/traced_pass.h"
#include "solve/smoke_text.h"
#include "worker/sandbox.h"

namespace passnet {
namespace {

constexpr auto kDeadline = std::chrono::minutes(10);

Json rejected_of(const check::CheckReport& report) {
  Json out = Json::object();
  for (const auto& [stem, reasons] : report.rejected) out[stem] = reasons;
  return out;
}

WorkerRequest request_of(const std::string& cmd, const CheckPlaces& places,
                         const check::CheckReport& report) {
  WorkerRequest out;
  out.cmd = cmd;
  out.deadline = kDeadline;
  out.arguments = {{"pass_dir", places.pass_dir}, {"rejected", rejected_of(report)}};
  if (!places.const_pass_dir.empty()) out.arguments["const_pass_dir"] = places.const_pass_dir;
  return out;
}

Json labels_of(const RunRequest& request) {
  Json out = Json::array();
  for (const size_t i : request.chosen) out.push_back(request.sample.variants[i].name);
  return out;
}

void prove(check::CheckReport& report, std::string_view name, check::Proof proof, const std::string& by) {
  for (check::Subject& subject : report.subjects) {
    if (subject.name == name)
      subject = {std::string(name), proof, proof == check::Proof::kNotProven ? "" : by};
  }
}

std::string median_text(const Json& compilers, const char* name) {
  if (!compilers.contains(name)) return fmt::format("{} was not timed", name);
  const Json& c = compilers[name];
  if (!c.value("ok", false))
    return fmt::format("{} failed: {}", name, c.contains("error") ? c["error"].value("message", "") : "");
  return fmt::format("{} {:.1f} us", name, c["e2e_ms"]["median"].get<double>() * 1e3);
}

}  // namespace

WorkerOptions sandboxed_worker(FileSystem& files, const CheckPlaces& places, const std::string& scratch,
                               std::vector<Diagnostic>& findings) {
  WorkerOptions options;
  SandboxFolders folders;
  folders.readable = {places.sample, places.pass_dir};
  if (!places.const_pass_dir.empty()) folders.readable.push_back(places.const_pass_dir);
  auto inside = scratch.empty()
                    ? Result<WorkerOptions>(user_error("worker.sandbox", "no temporary folder could be made"))
                    : sandboxed(files, options, std::move(folders), scratch);
  if (!inside.ok()) {
    findings.push_back(
        user_warning("check.sandbox",
                     fmt::format("the passes run without a sandbox: {}", inside.error().message))
            .with_hint(
                "install bubblewrap where user namespaces are allowed, or check only passes that you trust"));
    return options;
  }
  inside->env["TRITON_CACHE_DIR"] = join_path(scratch, "triton");  // the one at home cannot be written inside
  inside->env["PYTHONDONTWRITEBYTECODE"] = "1";
  return std::move(*inside);
}

std::map<std::string, std::shared_ptr<const check::ReadPass>> run_elsewhere(
    Worker& worker, const CheckPlaces& places, const check::CheckReport& report,
    std::vector<Diagnostic>& findings) {
  std::map<std::string, std::shared_ptr<const check::ReadPass>> out;
  auto reply = worker.call(request_of("trace", places, report));
  if (!reply.ok()) {
    const bool refused = worker_failure(reply.error()) == WorkerFailure::kRefused;
    findings.push_back(
        (refused
             ? user_error("check.trace",
                          fmt::format("the pass_dir cannot be loaded: {}", reply.error().message))
             : user_warning("check.worker", fmt::format("what is not interpreted could not be run either: {}",
                                                        reply.error().message)))
            .at(places.pass_dir)
            .with_hint(reply.error().hint));
    return out;
  }
  for (const Json& entry : reply->value("passes", Json::array())) {
    const std::string name = entry.value("pass", "");
    const auto at = std::find_if(report.passes.begin(), report.passes.end(),
                                 [&](const check::ReadPass& pass) { return pass.name == name; });
    if (at == report.passes.end() || at->readable) continue;
    out.emplace(name, std::make_shared<const check::ReadPass>(check::traced_pass(entry)));
    std::string why;
    for (const Diagnostic& d : at->findings) {
      if (d.code == "check.not_interpreted") why = fmt::format(" ({})", d.message);
    }
    findings.push_back(
        note("check.run_in_worker",
             fmt::format("{} is not straight-line code{}: its pattern was traced by running it in the worker",
                         name, why))
            .at(join_path(places.pass_dir, name + ".py")));
  }
  return out;
}

std::vector<size_t> spread_over_dtypes(const std::vector<CapturedVariant>& variants, size_t most) {
  std::map<DType, std::vector<size_t>> by_dtype;
  std::vector<DType> order;
  for (size_t i = 0; i < variants.size(); ++i) {
    if (by_dtype[variants[i].dtype].empty()) order.push_back(variants[i].dtype);
    by_dtype[variants[i].dtype].push_back(i);
  }
  std::vector<size_t> out;
  for (size_t round = 0; out.size() < variants.size(); ++round) {
    for (const DType dtype : order) {
      if (round < by_dtype[dtype].size()) out.push_back(by_dtype[dtype][round]);
    }
  }
  if (most > 0 && out.size() > most) out.resize(most);
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<size_t> one_per_dtype(const std::vector<CapturedVariant>& variants) {
  std::set<DType> dtypes;
  for (const CapturedVariant& variant : variants) dtypes.insert(variant.dtype);
  return spread_over_dtypes(variants, std::max<size_t>(dtypes.size(), 1));
}

Result<bool> sees_gpu(Worker& worker) {
  WorkerRequest request;
  request.cmd = "versions";
  request.deadline = kDeadline;  // the first import of torch on a busy machine takes its time
  PN_TRY(const Json reply, worker.call(request));
  return reply.contains("gpus") && !reply["gpus"].empty();
}

Status run_smoke(Worker& worker, bool gpu, const RunRequest& request, check::CheckReport& report,
                 CommandResult& result) {
  const std::string device = gpu ? "cuda" : "cpu", by = gpu ? "gpu" : "interpreter";
  WorkerRequest call = request_of("smoke", request.places, report);
  call.arguments["sample"] = request.places.sample;
  call.arguments["labels"] = labels_of(request);
  call.arguments["options"] = {{"device", device}, {"repeats", 1}};
  Json programs = Json::object();
  for (const size_t i : request.chosen) {
    const CapturedVariant& variant = request.sample.variants[i];
    check::Variant graphs;
    graphs.name = variant.name;
    for (const Graph& graph : variant.graphs) graphs.graphs.push_back(graph.clone());
    // On a GPU eager itself is the reference; on the CPU it rounds differently, and the programs decide.
    if (!gpu) programs[variant.name] = check::reference_programs(report.passes, graphs);
  }
  call.arguments["programs"] = std::move(programs);
  PN_TRY(Json reply, worker.call(call));
  bool all = true, red = false, poison_red = false, numerics_red = false;
  for (const Json& variant : reply["variants"]) {
    const bool ok = variant.value("ok", false);
    const std::string label = variant.value("label", "");
    const std::string what =
        ok ? fmt::format(
                 "poisoned, plain and repeated calls agree ({})",
                 gpu ? "on the GPU, with eager" : "interpreter on the CPU, with eager and the CUDA reference")
           : smoke_failure(variant);
    result.text += fmt::format("smoke {}: {}\n", label, what);
    if (ok) continue;
    all = false;
    if (is_eagers_own(variant)) {
      result.findings.push_back(
          user_warning("check.eager", fmt::format("{}: {}", label, what))
              .at(request.places.sample)
              .with_hint("nothing can be proven of passes on a variant whose own model is not repeatable"));
      continue;
    }
    red = true;
    const bool violation = variant.contains("violations") && !variant["violations"].empty();
    (violation ? poison_red : numerics_red) = true;
    result.findings.push_back(
        user_error(violation ? "check.smoke_poison" : "check.smoke", fmt::format("{}: {}", label, what))
            .at(request.places.pass_dir)
            .with_hint(violation
                           ? "on arguments only metadata, allocation, to() and launches are allowed"
                           : "compare the kernel with what the matched operations compute, dtype by dtype"));
    if (variant.value("degenerate_only", false)) {
      result.findings.push_back(
          user_error("check.degenerate_only",
                     fmt::format("{}: right on the sample's own inputs and wrong on live ones", label))
              .at(request.places.pass_dir)
              .with_hint("the pass relies on constant data; compute what the operations compute"));
    }
  }
  using check::Proof;
  prove(report, "poison", poison_red ? Proof::kRed : all ? Proof::kGreen : Proof::kNotProven, by);
  prove(report, "numerics", numerics_red ? Proof::kRed : all ? Proof::kGreen : Proof::kNotProven, by);
  if (red) result.outcome = Outcome::kRed;
  result.document["smoke"] = std::move(reply);
  return ok_status();
}

Status run_bench(Worker& worker, const RunRequest& request, const check::CheckReport& report,
                 CommandResult& result) {
  WorkerRequest call = request_of("bench", request.places, report);
  call.arguments["sample"] = request.places.sample;
  call.arguments["labels"] = labels_of(request);
  Json mine = {{"name", "passes"}, {"pass_dir", request.places.pass_dir}};
  if (!request.places.const_pass_dir.empty()) mine["const_pass_dir"] = request.places.const_pass_dir;
  call.arguments["compilers"] = Json::array({"eager", "nope", std::move(mine)});
  call.arguments["options"] = {{"device", "cuda"}, {"warmup", 25}, {"trials", 200}, {"block", 20}};
  PN_TRY(Json reply, worker.call(call));
  for (const Json& variant : reply["variants"]) {
    const std::string label = variant.value("label", "");
    if (!variant.contains("compilers")) {
      result.text +=
          fmt::format("bench {}: {}\n", label,
                      variant.contains("error") ? variant["error"].value("message", "failed") : "failed");
      result.outcome = Outcome::kRed;
      continue;
    }
    const Json& compilers = variant["compilers"];
    std::string line = fmt::format("bench {}: {}, {}, {}", label, median_text(compilers, "eager"),
                                   median_text(compilers, "nope"), median_text(compilers, "passes"));
    if (compilers.contains("passes") && compilers["passes"].contains("speedup_e2e")) {
      const Json& p = compilers["passes"];
      line += fmt::format("; {:.3f} of eager's speed", p["speedup_e2e"].get<double>());
      if (p.contains("speedup_e2e_90") && p["speedup_e2e_90"].is_array() && p["speedup_e2e_90"].size() == 2)
        line += fmt::format(" (90%: {:.3f} to {:.3f})", p["speedup_e2e_90"][0].get<double>(),
                            p["speedup_e2e_90"][1].get<double>());
    }
    result.text += line + "\n";
    if (!compilers.contains("passes") || !compilers["passes"].value("ok", false))
      result.outcome = Outcome::kRed;
  }
  result.document["bench"] = std::move(reply);
  return ok_status();
}

}  // namespace passnet
