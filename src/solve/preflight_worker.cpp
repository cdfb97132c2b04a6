#include "solve/preflight_worker.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/scratch_folder.h"
#include "base/strings.h"
#include "codegen/pass_dir.h"
#include "plan/facts.h"
#include "plan/machine.h"
#include "sample/sample.h"
#include "solve/native_check.h"
#include "solve/shrink.h"
#include "solve/smoke_text.h"
#include "solve/specialise.h"

namespace passnet {
namespace {

constexpr std::string_view kInterpreter = "interpreter on the CPU";

Status write_pass_dir(FileSystem& files, const std::string& dir, const PassDirFiles& content) {
  PN_CHECK_OK(files.make_directory(dir));
  for (const auto& [name, text] : content) PN_CHECK_OK(files.write(join_path(dir, name), text));
  return ok_status();
}

// Kernel functions by name: the decorator, the head and the indented lines below it.
std::map<std::string, std::string> kernel_texts(const PassDirFiles& files) {
  std::map<std::string, std::string> texts;
  const auto it = files.find("_shared_kernels.py");
  if (it == files.end()) return texts;
  std::string name, text;
  bool inside = false;
  for (const std::string_view line : split_lines(it->second)) {
    const bool top = !line.empty() && line[0] != ' ' && line[0] != ')';
    if (top && !(inside && line.starts_with("def ") && name.empty())) {
      if (inside && !name.empty()) texts[name] = text;
      inside = line.starts_with("@triton.jit");
      name.clear();
      text.clear();
    }
    if (!inside) continue;
    if (name.empty() && line.starts_with("def ")) name = line.substr(4, line.find('(') - 4);
    text += std::string(line) + "\n";
  }
  if (inside && !name.empty()) texts[name] = text;
  return texts;
}

// Operations of all products of one call of the model.
double flops_of(const CapturedVariant& variant) {
  double sum = 0;
  const Profile profile;  // operations are the same on every machine
  for (const Graph& graph : variant.graphs) {
    const GraphFacts facts(graph, profile);
    for (size_t id = 0; id < facts.size(); ++id) {
      const NodeFacts& node = facts[static_cast<NodeId>(id)];
      if (node.call && node.call->row->cls == OpClass::kProduct) sum += node.cost.flops;
    }
  }
  return sum;
}

void put(VariantProof& variant, std::string subject, Proof::State state, std::string by, std::string why) {
  for (Proof& proof : variant.proofs) {
    if (proof.subject != subject) continue;
    proof = {std::move(subject), state, std::move(by), std::move(why)};
    return;
  }
  variant.proofs.push_back({std::move(subject), state, std::move(by), std::move(why)});
}

// What smoke said of the one variant that it was given; an empty object where the reply has none.
Json first_variant(const Json& reply) {
  if (!reply.contains("variants") || reply["variants"].empty()) return Json::object();
  return reply["variants"][0];
}

// Whether a pattern names a device other than that of the run.
bool moved_devices(const Json& result) {
  if (!result.contains("graphs")) return false;
  for (const Json& graph : result["graphs"]) {
    if (!graph.contains("passes")) continue;
    for (const Json& pass : graph["passes"]) {
      if (pass.contains("devices_moved")) return true;
    }
  }
  return false;
}

// Which passes are to blame: those the worker names, else every pass that launches kernels.
std::vector<std::string> blamed(const Json& result, const std::vector<PassSpec>& passes) {
  std::set<std::string> names;
  if (result.contains("graphs")) {
    for (const Json& graph : result["graphs"]) {
      if (graph.contains("error") && graph["error"].contains("pass"))
        names.insert(graph["error"]["pass"].get<std::string>());
    }
  }
  if (result.contains("calls")) {
    for (const Json& call : result["calls"]) {
      if (!call.contains("wrappers")) continue;
      for (const Json& wrapper : call["wrappers"]) {
        if (!wrapper.value("ok", true)) names.insert(wrapper.value("pass", ""));
      }
    }
  }
  if (!names.empty()) return {names.begin(), names.end()};
  std::vector<std::string> all;
  for (const PassSpec& pass : passes) {
    if (pass.kind == Region::Kind::kKernel) all.push_back(pass.name);
  }
  if (all.empty()) {
    for (const PassSpec& pass : passes) all.push_back(pass.name);
  }
  return all;
}

}  // namespace

// One variant to be run: whole, or a smaller self with a pass_dir of its own.
struct WorkerPreflight::Trial {
  size_t variant = 0;
  std::string pass_dir;
  Json meta = Json::object();
  Json programs = Json::object();
  std::string note;
};

struct WorkerPreflight::Compilation {
  std::vector<WorkerRequest> requests;
  std::vector<std::vector<std::string>> keys;  // by request, by kernel in it
  Json known = Json::array();                  // what was compiled for an earlier state
  size_t kernels = 0;
};

Result<PreflightReport> WorkerPreflight::run(const StateUnderTest& state) {
  PreflightReport report;
  check_natively(state, report);
  for (VariantProof& variant : report.variants) {
    for (const char* subject : {"poison", "numerics", "speed"})
      put(variant, subject, Proof::State::kNotProven, "", "not run");
    put(variant, "speed", Proof::State::kNotProven, "", "only a GPU measures speed");
  }
  if (!options_.run || !report.failures.empty()) return report;
  PN_CHECK_OK(run_trials(state, report));
  return report;
}

void WorkerPreflight::check_natively(const StateUnderTest& state, PreflightReport& report) {
  NativeCheck check = check_state(*state.generated, *state.variants);
  report.variants = std::move(check.variants);
  report.failures = std::move(check.failures);
  report.findings = std::move(check.findings);
}

Result<WorkerPreflight::Trial> WorkerPreflight::prepare(const StateUnderTest& state, size_t variant,
                                                        const std::string& scratch) {
  const CapturedVariant& full = (*state.variants)[variant];
  Trial trial;
  trial.variant = variant;
  PN_TRY(const VariantFiles files, read_variant(files_, state.variant_dirs[variant], full.name));
  const int64_t elements = input_elements(files.tensors);
  trial.note =
      "outputs, mutated inputs and aliasing equal eager's within t = -5; every wrapper within t = -5 of the "
      "CUDA reference";
  const CapturedVariant* at = &full;
  std::optional<Shrunk> shrunk;
  const double flops = flops_of(full);
  int64_t wanted = options_.run_elements;
  if (flops > options_.run_flops)  // products grow with their inputs, as a rule
    wanted =
        std::min(wanted, static_cast<int64_t>(static_cast<double>(elements) * options_.run_flops / flops));
  if (elements > wanted) shrunk = shrink_variant(files, full, wanted, options_.most_elements, {});
  if (!shrunk && elements > options_.most_elements) {
    return user_error(
        "preflight.too_large",
        fmt::format("{} has {} input elements and no smaller self was found", full.name, elements));
  }
  PassDirFiles pass_dir = state.generated->files;
  if (shrunk) {
    at = &shrunk->variant;
    trial.meta = shrunk->meta;
    for (const Shrunk::Change& change : shrunk->changes)
      trial.note += fmt::format("; run with {} in place of the extent {}", change.to, change.from);
  }
  PN_TRY(Specialised special, specialise(*state.passes, *at));
  for (size_t p = 0; p < state.passes->size(); ++p) {
    Json list = Json::array();
    for (Json& program : special.programs[p]) list.push_back(std::move(program));
    if ((*state.passes)[p].kind == Region::Kind::kKernel && !list.empty())
      trial.programs[(*state.passes)[p].name] = std::move(list);
  }
  if (shrunk) {
    PN_TRY(const GeneratedPassDir generated,
           generate_pass_dir(with_entries(*state.passes, std::move(special))));
    pass_dir = generated.files;
    std::set<std::string> mine;
    for (const auto& [name, text] : kernel_texts(state.generated->files))
      mine.insert(text.substr(text.find('(')));
    for (const auto& [name, text] : kernel_texts(pass_dir)) {
      if (!mine.contains(text.substr(text.find('(')))) {
        trial.note += "; a kernel of the smaller size has another text than the one written";
        break;
      }
    }
  }
  trial.pass_dir = join_path(scratch, fmt::format("trial_{}", variant));
  PN_CHECK_OK(write_pass_dir(files_, trial.pass_dir, pass_dir));
  return trial;
}

Status WorkerPreflight::run_trials(const StateUnderTest& state, PreflightReport& report) {
  const ScratchFolder scratch(files_, "passnet-");
  if (scratch.path().empty())
    return user_error("file.io", "no temporary folder could be made")
        .with_hint("set TMPDIR to a folder that can be written");
  const std::vector<size_t> chosen = variants_to_run(state);
  std::vector<Trial> trials;
  std::vector<std::string> names;
  for (const size_t v : chosen) {
    auto trial = prepare(state, v, scratch.path());
    if (!trial.ok()) {
      if (trial.error().kind == DiagnosticKind::kInternal) return std::move(trial).error();
      for (const char* subject : {"poison", "numerics"}) {
        put(report.variants[v], subject, Proof::State::kNotProven, "", trial.error().message);
      }
      report.findings.push_back(note("preflight.not_run", trial.error().message));
      continue;
    }
    names.push_back((*state.variants)[v].name);
    trials.push_back(std::move(*trial));
  }
  // The trials first: a state that fails one needs no machine code.
  std::vector<WorkerRequest> requests;
  for (const Trial& trial : trials) requests.push_back(smoke_request(state, trial, options_));
  Compilation compilation;
  if (options_.compile) {
    const std::string pass_dir = join_path(scratch.path(), "written");
    PN_CHECK_OK(write_pass_dir(files_, pass_dir, state.generated->files));
    compilation = plan_compilation(state, pass_dir);
    requests.insert(requests.end(), compilation.requests.begin(), compilation.requests.end());
  }
  if (options_.progress) {
    std::string text = fmt::format("  running {} in the interpreter", fmt::join(names, ", "));
    if (compilation.kernels > 0)
      text += fmt::format(", compiling {} kernels for sm_80, sm_86, sm_90", compilation.kernels);
    options_.progress(text);
  }
  auto replies = pool_.call(requests, [&](size_t request, const Result<Json>& reply) {
    return request < trials.size() && !(reply.ok() && first_variant(*reply).value("ok", false));
  });
  for (size_t i = 0; i < trials.size(); ++i) {
    if (replies[i]) PN_CHECK_OK(take_smoke(state, trials[i], std::move(*replies[i]), report));
  }
  // What ran for one size says something of the others of its dtype, and the report says what.
  for (const size_t ran : chosen) {
    const Proof* numerics = report.variants[ran].find("numerics");
    if (numerics == nullptr || numerics->state != Proof::State::kProven) continue;
    for (size_t v = 0; v < report.variants.size(); ++v) {
      if ((*state.variants)[v].dtype != (*state.variants)[ran].dtype || std::ranges::count(chosen, v) > 0)
        continue;
      for (const char* subject : {"poison", "numerics"}) {
        put(report.variants[v], subject, Proof::State::kNotProven, "",
            fmt::format("not run; {} of the same dtype was", report.variants[ran].name));
      }
    }
  }
  if (!options_.compile || !report.failures.empty()) return ok_status();
  replies.erase(replies.begin(), replies.begin() + static_cast<std::ptrdiff_t>(trials.size()));
  take_compilation(state, std::move(compilation), std::move(replies), report);
  return ok_status();
}

std::vector<size_t> WorkerPreflight::variants_to_run(const StateUnderTest& state) const {
  std::vector<size_t> chosen;
  if (options_.all_variants) {
    for (size_t v = 0; v < state.variants->size(); ++v) chosen.push_back(v);
    return chosen;
  }
  // One variant per dtype: the one with the least data.
  std::map<DType, std::pair<int64_t, size_t>> least;
  for (size_t v = 0; v < state.variants->size(); ++v) {
    auto files = read_variant(files_, state.variant_dirs[v]);
    if (!files.ok()) continue;
    const int64_t elements = input_elements(files->tensors);
    const auto [it, fresh] = least.try_emplace((*state.variants)[v].dtype, elements, v);
    if (!fresh && elements < it->second.first) it->second = {elements, v};
  }
  for (const auto& [dtype, smallest] : least) chosen.push_back(smallest.second);
  return chosen;
}

WorkerRequest WorkerPreflight::smoke_request(const StateUnderTest& state, const Trial& trial,
                                             const PreflightOptions& options) {
  const std::string& label = (*state.variants)[trial.variant].name;
  WorkerRequest request;
  request.cmd = "smoke";
  request.deadline = std::chrono::seconds(240);
  request.arguments = {
      {"sample", std::filesystem::absolute(state.sample_root).string()},
      {"labels", Json::array({label})},
      {"pass_dir", trial.pass_dir},
      {"options", {{"device", options.device}, {"repeats", 1}, {"max_elements", options.most_elements}}}};
  if (!trial.meta.empty()) request.arguments["meta"][label] = trial.meta;
  request.arguments["programs"][label] = trial.programs;
  return request;
}

Status WorkerPreflight::take_smoke(const StateUnderTest& state, const Trial& trial, Result<Json> reply,
                                   PreflightReport& report) {
  VariantProof& variant = report.variants[trial.variant];
  if (!reply.ok()) {
    const auto failure = worker_failure(reply.error());
    // Without Python nothing can be run; a worker that died over this state has judged it.
    if (!failure || failure == WorkerFailure::kStart || failure == WorkerFailure::kProtocol)
      return std::move(reply).error();
    put(variant, "numerics", Proof::State::kFailed, "", reply.error().message);
    for (const PassSpec& pass : *state.passes) {
      if (pass.kind == Region::Kind::kKernel)
        report.failures.push_back({pass.name, {"preflight_failed", reply.error().message, {}}});
    }
    return ok_status();
  }
  const Json result = first_variant(*reply);
  if (result.empty())
    return internal_error("preflight.reply", "the worker's reply to smoke names no variant");
  report.details["smoke"].push_back(result);
  if (result.value("ok", false)) {
    put(variant, "poison", Proof::State::kProven, std::string(kInterpreter),
        "one poisoned call on each input family");
    std::string said = trial.note;
    if (moved_devices(result)) said += "; devices that the model and the patterns name taken for the CPU";
    put(variant, "numerics", Proof::State::kProven, std::string(kInterpreter), std::move(said));
    for (Proof& proof : variant.proofs) {
      if (proof.subject == "structure") proof.by += " and torch.compile on the CPU";
    }
    return ok_status();
  }
  const std::string why = smoke_failure(result);
  if (is_eagers_own(result)) {
    for (const char* subject : {"poison", "numerics"})
      put(variant, subject, Proof::State::kNotProven, "", why);
    report.findings.push_back(note("preflight.not_run", fmt::format("{}: {}", variant.name, why)));
    return ok_status();
  }
  const bool poison = result.contains("violations") && !result["violations"].empty();
  put(variant, poison ? "poison" : "numerics", Proof::State::kFailed, "", why);
  for (const std::string& name : blamed(result, *state.passes))
    report.failures.push_back({name, {"preflight_failed", why, {}}});
  return ok_status();
}

WorkerPreflight::Compilation WorkerPreflight::plan_compilation(const StateUnderTest& state,
                                                               const std::string& pass_dir) const {
  // Small enough that two workers end at about the same time, large enough that the pass_dir is read rarely.
  constexpr size_t kKernelsPerRequest = 4;
  Compilation out;
  Json kernels = Json::array();
  std::vector<std::string> keys;
  const auto flush = [&] {
    if (kernels.empty()) return;
    WorkerRequest request;
    request.cmd = "compile";
    request.deadline = std::chrono::seconds(240);
    request.arguments = {{"pass_dir", pass_dir},
                         {"kernels", std::exchange(kernels, Json::array())},
                         {"targets", {80, 86, 90}}};
    out.requests.push_back(std::move(request));
    out.keys.push_back(std::exchange(keys, {}));
  };
  const std::map<std::string, std::string> texts = kernel_texts(state.generated->files);
  std::map<std::string, size_t> seen;
  for (const KernelEntry& entry : state.generated->kernels) {
    const std::string signature = fmt::format("{}({})", entry.kernel, fmt::join(entry.pointer_dtypes, ","));
    if (seen[signature]++ >= options_.kernels_per_signature) continue;
    Json constants = Json::array();
    for (const auto& [name, value] : entry.constants) constants.push_back({name, value});
    const auto text = texts.find(entry.kernel);
    std::string key = fmt::format("{}\n{}\n{} {} {}", text == texts.end() ? entry.kernel : text->second,
                                  signature, dump_json(constants), entry.num_warps, entry.num_stages);
    if (const auto known = compiled_.find(key); known != compiled_.end()) {
      Json again = known->second;
      again["pass"] = entry.pass;
      out.known.push_back(std::move(again));
      continue;
    }
    keys.push_back(std::move(key));
    kernels.push_back({{"kernel", entry.kernel},
                       {"route", entry.route},
                       {"pass", entry.pass},
                       {"entry", entry.entry},
                       {"pointer_dtypes", entry.pointer_dtypes},
                       {"constants", std::move(constants)},
                       {"num_warps", entry.num_warps},
                       {"num_stages", entry.num_stages}});
    ++out.kernels;
    if (kernels.size() == kKernelsPerRequest) flush();
  }
  flush();
  return out;
}

void WorkerPreflight::take_compilation(const StateUnderTest& state, Compilation compilation,
                                       std::vector<std::optional<Result<Json>>> replies,
                                       PreflightReport& report) {
  Json results = std::move(compilation.known);
  for (size_t r = 0; r < replies.size(); ++r) {
    if (!replies[r]) continue;
    if (!replies[r]->ok()) {
      report.findings.push_back(std::move(*replies[r]).error());
      continue;
    }
    const Json& answered = (**replies[r])["kernels"];
    for (size_t i = 0; i < answered.size() && i < compilation.keys[r].size(); ++i) {
      compiled_[compilation.keys[r][i]] = answered[i];
      results.push_back(answered[i]);
    }
  }
  report.details["compile"] = results;
  for (const Json& kernel : results) {
    for (const auto& [target, found] : kernel["targets"].items()) {
      const std::string name = kernel.value("kernel", "");
      if (!found.value("ok", false)) {
        const std::string why = fmt::format(
            "{} does not compile for {}: {}", name, target,
            found.contains("error") ? found["error"].value("message", "") : found.value("reason", "refused"));
        const size_t pass = kernel.value("pass", size_t{0});
        if (pass < state.passes->size())
          report.failures.push_back({(*state.passes)[pass].name, {"kernel_does_not_compile", why, {}}});
      } else if (found.value("spills", 0) > 0) {
        report.findings.push_back(note("preflight.spills", fmt::format("{} spills {} registers on {}", name,
                                                                       found.value("spills", 0), target)));
      }
    }
  }
}

}  // namespace passnet
