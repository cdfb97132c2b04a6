#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/strings.h"
#include "cli/command.h"
#include "cli/profile_option.h"
#include "eval/eval.h"
#include "solve/expectations.h"
#include "worker/worker.h"

namespace passnet {
namespace {

constexpr std::array kCompilers = {"pass_mgr", "inductor", "inductor_eager", "nope", "ceiling", "eager"};

struct EvalArguments {
  eval::EvalOptions options;
  std::string compiler = "pass_mgr";
  std::string pass_dir;
  bool all = false;
  std::vector<std::string> compare;
  std::string protocol = "public", rules, evaluator = "passnet";
  std::string shard;
  double memory_gb = 0;
};

// A compiler by name, or a folder of passes.
eval::CompilerSpec compiler_of(FileSystem& files, const std::string& word, const std::string& name) {
  if (std::find(kCompilers.begin(), kCompilers.end(), word) != kCompilers.end()) return {name, word, ""};
  return {name, "pass_mgr",
          files.is_directory(join_path(word, "pass_dir")) ? join_path(word, "pass_dir") : word};
}

Result<std::pair<int, int>> shard_of(const std::string& text) {
  const size_t slash = text.find('/');
  const auto bad = user_error("cli.usage", fmt::format("--shard takes I/N with 1 <= I <= N, not '{}'", text))
                       .with_hint("--shard 1/4 is the first quarter of the samples");
  if (slash == std::string::npos) return bad;
  const auto i = parse_int(text.substr(0, slash)), n = parse_int(text.substr(slash + 1));
  if (!i || !n || *i < 1 || *n < 1 || *i > *n || *n > 100000) return bad;
  return std::pair{static_cast<int>(*i) - 1, static_cast<int>(*n)};
}

CommandResult run_eval(CommandContext& context, EvalArguments a) {
  eval::EvalOptions& o = a.options;
  o.device = context.options.device;
  o.protocol = a.protocol == "strict" ? eval::Protocol::kStrict : eval::Protocol::kPublic;
  o.strict_rules = a.rules.empty() ? o.protocol == eval::Protocol::kStrict : a.rules == "strict";
  if (!a.shard.empty()) {
    auto shard = shard_of(a.shard);
    if (!shard.ok()) return CommandResult::error(std::move(shard).error());
    std::tie(o.shard, o.shards) = *shard;
  }
  if (!a.compare.empty()) {
    o.compilers = {compiler_of(context.files, a.compare[0], "A"),
                   compiler_of(context.files, a.compare[1], "B")};
    o.compare = {"A", "B"};
    o.interleave = true;
  } else if (a.all) {
    for (const char* name : {"eager", "nope", "ceiling", "inductor", "inductor_eager"})
      o.compilers.push_back({name, name, ""});
    o.compilers.push_back({"passnet", "pass_mgr", a.pass_dir});
  } else {
    o.compilers = {compiler_of(context.files, a.compiler, a.compiler)};
    if (a.compiler == "pass_mgr") o.compilers[0].pass_dir = a.pass_dir;
  }
  o.entry = a.evaluator == "entry";
  if (o.entry && (o.compilers.size() != 1 || o.compilers[0].kind != "pass_mgr" || !a.pass_dir.empty()))
    return CommandResult::error(
        user_error("cli.usage", "--evaluator entry measures the sample's own pass_dir and nothing else")
            .with_hint("leave --compiler, --compare, --all-compilers and --pass-dir out"));
  if (o.entry && (o.repeat > 1 || o.side_by_side))
    return CommandResult::error(
        user_error("cli.usage", "--evaluator entry has neither --repeat nor --side-by-side")
            .with_hint("start it again, or measure with --evaluator passnet"));
  eval::take_defaults(o, context.options.worker_count());
  if (context.options.jobs > 0) o.slots = context.options.jobs;
  if (a.memory_gb > 0) o.memory_bytes = a.memory_gb * 1e9;
  auto profile = chosen_profile(context);
  if (!profile.ok()) return CommandResult::error(std::move(profile).error());
  // Passes are written for a GPU whatever they are measured on, and their predictions are of one.
  Expectations expectations(context.files, *profile, "cuda");
  eval::EvalContext eval_context{
      context.files, context.clock,
      [](const WorkerOptions& options) { return std::make_unique<ProcessWorker>(options); }, context.progress,
      [&](const std::string& root, const std::map<std::string, std::string>& passes) {
        return expectations.of(root, passes);
      }};
  auto report = eval::evaluate(eval_context, o);
  if (!report.ok()) return CommandResult::error(std::move(report).error());
  CommandResult result;
  bool green = report->complete;
  for (const score::ScoredVariant& v : report->score.variants) {
    // Baselines may be wrong or slow: what is asked about is the passes, or the one compiler that was named.
    const bool asked = o.compilers.size() == 1 || v.measured.kind == "pass_mgr";
    const score::Outcome outcome = v.judged.outcome;
    if (asked && outcome != score::Outcome::kOk && outcome != score::Outcome::kSlow) green = false;
  }
  result.outcome = green ? Outcome::kGreen : Outcome::kRed;
  result.text = eval::to_text(*report);
  result.document = eval::to_json(*report);
  result.findings = std::move(report->findings);
  return result;
}

}  // namespace

std::function<CommandResult(CommandContext&)> declare_eval(CLI::App& app) {
  auto a = std::make_shared<EvalArguments>();
  eval::EvalOptions& o = a->options;
  app.add_option("SAMPLE", o.samples, "Sample directories, or folders of samples")->required();
  app.add_option("--compiler", a->compiler,
                 "pass_mgr, inductor, inductor_eager, nope, ceiling, eager, or a folder of passes")
      ->capture_default_str();
  app.add_flag("--all-compilers", a->all,
               "All of them interleaved in one child per variant; not for passes that are not trusted");
  app.add_option("--compare", a->compare,
                 "Two compilers or folders of passes, interleaved, with the interval of their ratio")
      ->expected(2);
  app.add_option("--pass-dir", a->pass_dir, "The passes, if not SAMPLE/pass_dir");
  app.add_option("--protocol", a->protocol,
                 "public: order and formula of the public harness; strict: see docs/evaluation.md")
      ->check(CLI::IsMember({"public", "strict"}))
      ->capture_default_str();
  app.add_option("--rules", a->rules, "Source rules of the passes, if not the protocol's")
      ->check(CLI::IsMember({"public", "strict"}));
  app.add_option("--evaluator", a->evaluator,
                 "entry: the sample's own entry.sh of a public checkout, its log read as records")
      ->check(CLI::IsMember({"passnet", "entry"}))
      ->capture_default_str();
  app.add_flag("--interleave", o.interleave, "Eager and compiled trials in turn, in blocks");
  app.add_option("--variant", o.only, "Only this line of graph_list.txt (may be repeated)");
  app.add_option("--shard", a->shard, "I/N: the I-th of N parts of the samples");
  app.add_option("--out", o.out, "Folder of the run, if not SAMPLE/.passnet/runs/<n>");
  app.add_flag("--resume", o.resume, "Go on with the run of that folder: records that are there are kept");
  app.add_option("--warmup", o.warmup, "Calls before the trials")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--trials", o.trials, "Timed calls")->check(CLI::Range(1, 100000))->capture_default_str();
  app.add_option("--repeat", o.repeat, "Every variant so often, in a child of its own each time")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--side-by-side", o.side_by_side,
               "Time variants beside each other: for verdicts alone, the times say nothing");
  app.add_option("--variant-deadline", o.variant_seconds, "Seconds for one variant and compiler")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  app.add_option("--sample-deadline", o.sample_seconds, "Seconds for one sample and compiler")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  app.add_option("--time-limit", o.time_limit,
                 "Seconds after which nothing more is started, for a machine lent by the hour (0: none)")
      ->check(CLI::Range(0.0, 1e7))
      ->capture_default_str();
  app.add_option("--isolation", o.isolation,
                 "fork: children of a clean parent; spawn: a fresh interpreter each")
      ->check(CLI::IsMember({"fork", "spawn"}))
      ->capture_default_str();
  app.add_option("--sandbox", o.sandbox,
                 "auto: bubblewrap for the strict protocol, where it works; bwrap: or nothing; none")
      ->check(CLI::IsMember({"auto", "bwrap", "none"}))
      ->capture_default_str();
  app.add_option("--without", o.without,
                 "Leave a layer of integrity out, to test the others (may be repeated)")
      ->check(CLI::IsMember({"source", "graph", "plain", "kept", "audit", "outputs"}));
  app.add_option("--memory-gb", a->memory_gb,
                 "Inputs of variants under way at once, in gigabytes (0: 16 on a GPU, 1 without)")
      ->check(CLI::Range(0.0, 100000.0))
      ->capture_default_str();
  return [a](CommandContext& context) { return run_eval(context, *a); };
}

}  // namespace passnet
