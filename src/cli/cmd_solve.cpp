#include <algorithm>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cli/profile_option.h"
#include "sample/state_store.h"
#include "solve/preflight_worker.h"
#include "solve/solve.h"

namespace passnet {
namespace {

struct SolveArguments {
  SolveOptions options;
  PreflightOptions preflight;
  bool no_gpu = false;
  bool no_preflight_run = false;
  std::string restore;
};

CommandResult restore(CommandContext& context, const SolveArguments& arguments) {
  const std::string root = arguments.options.out.empty() ? arguments.options.sample : arguments.options.out;
  if (!context.files.is_directory(root)) {
    return CommandResult::error(user_error("sample.missing", "there is no such sample directory")
                                    .at(root)
                                    .with_hint("give the folder that solve was given"));
  }
  auto store = StateStore::open(context.files, context.clock, root);
  if (!store.ok()) return CommandResult::error(std::move(store).error());
  auto hash = store->restore(arguments.restore);
  if (!hash.ok()) return CommandResult::error(std::move(hash).error());
  CommandResult result;
  result.text = fmt::format("{} is now state {}\n", store->pass_dir(), *hash);
  result.document["restored"] = *hash;
  return result;
}

CommandResult solve(CommandContext& context, SolveArguments& arguments) {
  auto profile = chosen_profile(context);
  if (!profile.ok()) return CommandResult::error(std::move(profile).error());
  arguments.options.device = context.options.device;
  arguments.options.jobs = context.options.worker_count();
  // A worker holds torch and a variant's tensors, some hundred megabytes: more than four gain little.
  std::vector<std::unique_ptr<ProcessWorker>> processes;
  std::vector<Worker*> workers;
  const int count = std::clamp(arguments.options.jobs, 1, 4);
  for (int i = 0; i < count; ++i) {
    processes.push_back(std::make_unique<ProcessWorker>(shared_machine(count)));
    workers.push_back(processes.back().get());
  }
  arguments.preflight.progress = context.progress;
  arguments.preflight.run = !arguments.no_preflight_run;
  // Patience for all variants is patience for large ones.
  if (arguments.preflight.all_variants) arguments.preflight.most_elements *= 2;
  WorkerPreflight preflight(context.files, std::move(workers), arguments.preflight);
  SolveContext solve_context{context.files, context.clock, preflight, *profile, context.progress};
  auto report = solve_sample(solve_context, arguments.options);
  if (!report.ok()) return CommandResult::error(std::move(report).error());
  CommandResult result;
  result.outcome = report->green() ? Outcome::kGreen : Outcome::kRed;
  result.text = to_text(*report);
  result.document = to_json(*report);
  result.findings = std::move(report->findings);
  if (report->green()) {
    // What stood in no pass's way is worth knowing, and no error.
    for (Diagnostic& finding : result.findings) {
      if (finding.severity == Severity::kError) finding.severity = Severity::kWarning;
    }
  }
  return result;
}

}  // namespace

std::function<CommandResult(CommandContext&)> declare_solve(CLI::App& app) {
  auto arguments = std::make_shared<SolveArguments>();
  app.add_option("SAMPLE", arguments->options.sample, "Sample directory (it holds graph_list.txt)")
      ->required();
  app.add_flag(
      "--no-gpu", arguments->no_gpu,
      "Stop after the pre-flight and say what is predicted (always so for now: nothing is evaluated yet)");
  app.add_option("--out", arguments->options.out,
                 "Write pass_dir and .passnet below this folder, not into the sample");
  app.add_option(
      "--restore", arguments->restore,
      "Put a kept state back: its hash or the beginning of it, or `found` for what was there first");
  app.add_flag("--no-preflight-run", arguments->no_preflight_run,
               "Skip the interpreter: structure and source rules only, no PyTorch needed");
  app.add_flag("--all-variants", arguments->preflight.all_variants,
               "Run every variant in the interpreter, not only the smallest of each dtype (minutes)");
  return [arguments](CommandContext& context) {
    return arguments->restore.empty() ? solve(context, *arguments) : restore(context, *arguments);
  };
}

}  // namespace passnet
