#include <algorithm>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cli/profile_option.h"
#include "eval/eval.h"
#include "sample/state_store.h"
#include "solve/device_evaluator.h"
#include "solve/evaluator.h"
#include "solve/preflight_worker.h"
#include "solve/solve.h"

namespace passnet {
namespace {

struct SolveArguments {
  SolveOptions options;
  PreflightOptions preflight;
  bool no_gpu = false;
  bool no_preflight_run = false;
  bool evaluate = false;
  std::string answers;
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

// For planning again with other costs: little beside a pre-flight, much beside the rest.
constexpr double kSensitivitySeconds = 1;

// What measures the states: a file of answers, the device, or nothing.
Result<std::unique_ptr<Evaluator>> chosen_evaluator(CommandContext& context,
                                                    const SolveArguments& arguments) {
  if (!arguments.answers.empty()) {
    PN_TRY(ScriptedEvaluator scripted, ScriptedEvaluator::read(context.files, arguments.answers));
    return std::unique_ptr<Evaluator>(std::make_unique<ScriptedEvaluator>(std::move(scripted)));
  }
  const bool cuda = context.options.device == "cuda";
  if (arguments.no_gpu || !(arguments.evaluate || (cuda && gpu_in_sight())))
    return std::unique_ptr<Evaluator>();
  eval::EvalOptions options;
  options.samples = {arguments.options.sample};
  options.device = context.options.device;
  eval::take_defaults(options, context.options.worker_count());
  if (!cuda) options.warmup = 1, options.trials = 2;  // interpreted, and the times say nothing
  options.command = "passnet solve";
  const std::string root = arguments.options.out.empty() ? arguments.options.sample : arguments.options.out;
  eval::EvalContext eval_context{
      context.files, context.clock,
      [](const WorkerOptions& worker) { return std::make_unique<ProcessWorker>(worker); }, context.progress};
  return std::unique_ptr<Evaluator>(
      std::make_unique<DeviceEvaluator>(std::move(eval_context), options, join_path(root, ".passnet/runs")));
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
  auto evaluator = chosen_evaluator(context, arguments);
  if (!evaluator.ok()) return CommandResult::error(std::move(evaluator).error());
  SolveContext solve_context{context.files, context.clock,    preflight,
                             *profile,      context.progress, evaluator->get()};
  if (!arguments.no_preflight_run) arguments.options.sensitivity_seconds = kSensitivitySeconds;
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
  app.add_flag("--no-gpu", arguments->no_gpu,
               "Stop after the pre-flight and say what is predicted, although there is a GPU");
  app.add_flag("--evaluate", arguments->evaluate,
               "Evaluate although no GPU is seen: with --device cpu interpreted, where times decide nothing");
  app.add_option("--max-evals", arguments->options.max_evaluations,
                 "Evaluations at most, all states together")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app.add_option("--time-limit", arguments->options.total_seconds,
                 "Seconds after which no evaluation is started (0: 600 for every 30 variants)")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app.add_flag(
      "--tune", arguments->options.tune,
      "Measure other block sizes, warps and stages of the chosen passes' kernels, and pin what is faster");
  app.add_option(
      "--answers", arguments->answers,
      "A file of answers in place of evaluations: .passnet/evaluations.json of an earlier run, or a test's");
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
