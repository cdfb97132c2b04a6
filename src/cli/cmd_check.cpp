#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "check/check.h"
#include "cli/command.h"
#include "sample/state_store.h"
#include "solve/native_check.h"
#include "solve/solve.h"
#include "worker/worker.h"

namespace passnet {
namespace {

struct CheckArguments {
  std::string sample;
  std::string pass_dir;
  std::string rules = "public";
  int max_variants = 0;
  bool smoke = false;
};

// The files of a folder by relative path, compiled Python left out.
Result<std::map<std::string, std::string>> read_folder(FileSystem& files, const std::string& folder) {
  if (!files.is_directory(folder)) {
    return user_error("check.no_pass_dir", "there is no such folder")
        .at(folder)
        .with_hint("a sample's pass_dir holds the passes; name another with --pass-dir");
  }
  PN_TRY(const std::vector<std::string> names, files.list_recursive(folder));
  std::map<std::string, std::string> out;
  for (const std::string& name : names) {
    if (name == ".ignore" || name.ends_with(".pyc")) continue;
    PN_TRY(out[name], files.read(join_path(folder, name)));
  }
  return out;
}

std::string_view word(check::Proof proof) {
  switch (proof) {
    case check::Proof::kGreen: return "proven";
    case check::Proof::kRed: return "FAILED";
    case check::Proof::kNotProven: return "not proven";
  }
  return "not proven";
}

std::string check_text(const check::CheckReport& report) {
  std::string text =
      fmt::format("passes in order: {}\n",
                  report.order.empty() ? "none" : fmt::format("{}", fmt::join(report.order, ", ")));
  for (const check::VariantReport& variant : report.variants) {
    for (size_t g = 0; g < variant.graphs.size(); ++g) {
      const check::GraphReport& graph = variant.graphs[g];
      text += fmt::format("{}{}: {}\n", variant.name,
                          variant.graphs.size() > 1 ? fmt::format(" graph {}", g) : "",
                          graph.matched ? "MATCH" : "NO MATCH -> variant would score 0.1");
      for (const check::PassMatches& pass : graph.passes) {
        for (const check::MatchReport& match : pass.matches) {
          text += fmt::format("  {} takes {}{}\n", pass.pass, fmt::join(match.nodes, ", "),
                              match.legality.verdict.ok() ? "" : "; but " + match.legality.verdict.to_text());
        }
      }
    }
  }
  for (const check::Subject& subject : report.subjects) {
    text += fmt::format("{:<10} {}{}\n", subject.name, word(subject.proof),
                        subject.by.empty() ? "" : " by " + subject.by);
  }
  return text;
}

Status add_smoke(CommandContext& context, const CheckArguments& arguments, const std::string& pass_dir,
                 const CapturedSample& sample, CommandResult& result) {
  std::map<DType, std::string> one_per_dtype;
  for (const CapturedVariant& variant : sample.variants)
    one_per_dtype.try_emplace(variant.dtype, variant.name);
  Json labels = Json::array();
  for (const auto& [dtype, name] : one_per_dtype) labels.push_back(name);
  WorkerRequest request;
  request.cmd = "smoke";
  request.deadline = std::chrono::minutes(10);
  request.arguments = {{"sample", std::filesystem::absolute(arguments.sample).string()},
                       {"pass_dir", std::filesystem::absolute(pass_dir).string()},
                       {"labels", labels},
                       {"options", {{"device", "cpu"}, {"repeats", 1}}}};
  context.progress("running one variant per dtype in the interpreter");
  ProcessWorker worker;
  PN_TRY(Json reply, worker.call(request));
  for (const Json& variant : reply["variants"]) {
    const bool ok = variant.value("ok", false);
    std::string what =
        ok ? "poisoned, plain and repeated calls agree with eager (interpreter on the CPU)" : "failed";
    if (!ok && variant.contains("error")) what = variant["error"].value("message", "failed");
    if (!ok && variant.contains("calls")) {
      for (const Json& call : variant["calls"]) {
        if (call.value("ok", true)) continue;
        if (call.contains("error"))
          what = call["error"].value("message", what);
        else if (call.contains("outputs")) {
          for (const Json& output : call["outputs"]) {
            if (!output.value("ok", true)) what = output.value("reason", what);
          }
        }
        what = fmt::format("{} inputs, {} call: {}", call.value("family", ""), call.value("mode", ""), what);
        break;
      }
    }
    result.text += fmt::format("smoke {}: {}\n", variant.value("label", ""), what);
    if (!ok) {
      result.outcome = Outcome::kRed;
      result.findings.push_back(
          user_error("check.smoke", fmt::format("{}: {}", variant.value("label", ""), what)).at(pass_dir));
    }
  }
  result.document["smoke"] = std::move(reply);
  return ok_status();
}

CommandResult run_check(CommandContext& context, const CheckArguments& arguments) {
  auto sample =
      capture_sample(context.files, arguments.sample, context.options.device, context.options.worker_count());
  if (!sample.ok()) return CommandResult::error(std::move(sample).error());
  if (auto reason = unusable(*sample)) return CommandResult::error(std::move(*reason));
  const std::string folder =
      arguments.pass_dir.empty() ? join_path(arguments.sample, "pass_dir") : arguments.pass_dir;
  auto files = read_folder(context.files, folder);
  if (!files.ok()) return CommandResult::error(std::move(files).error());
  const std::vector<check::Variant> variants =
      as_check_variants(sample->variants, static_cast<size_t>(arguments.max_variants));
  check::CheckOptions options;
  options.rules = arguments.rules == "strict" ? check::SourceRules::kStrict : check::SourceRules::kPublic;
  options.file_prefix = folder + "/";
  const std::string constant = join_path(arguments.sample, "const_pass_dir");
  if (context.files.is_directory(constant)) {
    auto read = read_folder(context.files, constant);
    if (!read.ok()) return CommandResult::error(std::move(read).error());
    options.const_files = std::move(*read);
  }
  const check::CheckReport report = check::check_pass_dir(*files, variants, options);
  CommandResult result;
  result.text = check_text(report);
  result.document = to_json(report);
  result.document["sample"] = sample->name;
  result.document["pass_dir"] = folder;
  result.findings = std::move(sample->findings);
  result.findings.insert(result.findings.end(), report.findings.begin(), report.findings.end());
  result.outcome = report.green() ? Outcome::kGreen : Outcome::kRed;
  if (arguments.smoke && report.green()) {
    const Status smoked = add_smoke(context, arguments, folder, *sample, result);
    if (!smoked.ok()) return CommandResult::error(smoked.error());
  }
  const auto blocking = std::count_if(result.findings.begin(), result.findings.end(),
                                      [](const Diagnostic& d) { return d.severity == Severity::kError; });
  result.text += result.outcome == Outcome::kGreen
                     ? "PRE-FLIGHT GREEN\n"
                     : fmt::format("PRE-FLIGHT: {} blocking issue(s)\n", blocking);
  return result;
}

}  // namespace

std::function<CommandResult(CommandContext&)> declare_check(CLI::App& app) {
  auto arguments = std::make_shared<CheckArguments>();
  app.add_option("SAMPLE", arguments->sample, "Sample directory")->required();
  app.add_option("--pass-dir", arguments->pass_dir, "The passes, if not SAMPLE/pass_dir");
  app.add_option("--rules", arguments->rules, "Which source rules an evaluation would load by")
      ->check(CLI::IsMember({"public", "strict"}))
      ->capture_default_str();
  app.add_option("--max-variants", arguments->max_variants, "Check only so many variants (0: all)")
      ->check(CLI::Range(0, 100000))
      ->capture_default_str();
  app.add_flag("--smoke", arguments->smoke,
               "Also run one variant per dtype: poisoned, plain and repeated calls");
  return [arguments](CommandContext& context) { return run_check(context, *arguments); };
}

}  // namespace passnet
