#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "base/scratch_folder.h"
#include "check/check.h"
#include "cli/check_worker.h"
#include "cli/command.h"
#include "pysrc/parse.h"
#include "sample/state_store.h"
#include "solve/native_check.h"
#include "solve/solve.h"

namespace passnet {
namespace {

struct CheckArguments {
  std::string sample;
  std::string pass_dir;
  std::string rules = "public";
  int max_variants = -1;  // not given
  bool smoke = false, bench = false, fix = false, no_worker = false;
};

using Files = std::map<std::string, std::string>;

// The files of a folder by relative path, compiled Python left out.
Result<Files> read_folder(FileSystem& files, const std::string& folder) {
  if (!files.is_directory(folder)) {
    return user_error("check.no_pass_dir", "there is no such folder")
        .at(folder)
        .with_hint("a sample's pass_dir holds the passes; name another with --pass-dir");
  }
  PN_TRY(const std::vector<std::string> names, files.list_recursive(folder));
  Files out;
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

std::string matches_text(const check::CheckReport& report) {
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
  for (const auto& [name, repair] : report.repairs) {
    for (const check::ReadPass& pass : report.passes) {
      if (pass.name != name) continue;
      const Result<std::string> built = built_text(pass, repair);
      if (!built.ok()) continue;
      text += fmt::format("{} would match as this graph built by hand{}:\n\n{}\n", name,
                          repair.literals.empty() ? " (--fix writes it)"
                                                  : fmt::format(", if the kernel is right for {}",
                                                                fmt::join(repair.literals, ", ")),
                          *built);
    }
  }
  return text;
}

std::string subjects_text(const check::CheckReport& report) {
  std::string text;
  for (const check::Subject& subject : report.subjects) {
    text += fmt::format("{:<10} {}{}\n", subject.name, word(subject.proof),
                        subject.by.empty() ? "" : " by " + subject.by);
  }
  return text;
}

// Everything the native check needs, so that it can be run again on other files.
struct Subjected {
  CheckPlaces places;
  Files files;
  std::vector<check::Variant> variants;
  check::CheckOptions options;

  check::CheckReport run() const { return check_pass_dir(files, variants, options); }
};

// The files with every repairable pattern built by hand; only where nothing but the form of calls changes and the pass
// then matches. What is left alone is said.
Result<std::vector<std::string>> repair_files(const Subjected& subject, const check::CheckReport& report,
                                              Files& files, CommandResult& result) {
  std::vector<std::string> written;
  for (const auto& [name, repair] : report.repairs) {
    const auto pass =
        std::find_if(report.passes.begin(), report.passes.end(),
                     [&, &wanted = name](const check::ReadPass& p) { return p.name == wanted; });
    const auto file = files.find(name + ".py");
    if (pass == report.passes.end() || file == files.end()) continue;
    const std::string path = join_path(subject.places.pass_dir, name + ".py");
    if (!repair.literals.empty()) {
      result.findings.push_back(
          note("fix.literal",
               fmt::format("{} is left as it is: a literal differs ({}), and the kernel may depend on it",
                           name, fmt::join(repair.literals, ", ")))
              .at(path)
              .with_hint("write the literal by hand and see that the kernel computes with it"));
      continue;
    }
    PN_TRY(const pysrc::Module module, pysrc::parse_module(SourceBuffer(name + ".py", file->second)));
    auto text = check::with_built_pattern(module, *pass, repair);
    if (!text.ok()) {
      result.findings.push_back(std::move(text).error());
      continue;
    }
    Subjected again{subject.places, files, {}, subject.options};
    again.files[name + ".py"] = *text;
    for (const check::Variant& variant : subject.variants) {
      check::Variant copy;
      copy.name = variant.name;
      for (const Graph& graph : variant.graphs) copy.graphs.push_back(graph.clone());
      again.variants.push_back(std::move(copy));
    }
    const check::CheckReport after = again.run();
    const bool matches =
        std::any_of(after.variants.begin(), after.variants.end(), [&](const check::VariantReport& v) {
          return std::any_of(v.graphs.begin(), v.graphs.end(), [&](const check::GraphReport& g) {
            return std::any_of(g.passes.begin(), g.passes.end(), [&](const check::PassMatches& p) {
              return p.pass == pass->name && !p.matches.empty();
            });
          });
        });
    if (!matches) continue;
    files[name + ".py"] = std::move(*text);
    written.push_back(name);
  }
  return written;
}

// Puts the repaired files in force; the state before is kept in the history first.
Status write_fix(CommandContext& context, const CheckPlaces& places, const Files& before, const Files& after,
                 const std::vector<std::string>& written, CommandResult& result) {
  std::string folder = places.pass_dir;
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  const std::filesystem::path path(folder);
  PN_TRY(StateStore store, StateStore::open(context.files, context.clock, path.parent_path().string()));
  PN_TRY(const std::string kept, store.keep(before, "found"));
  if (path.filename() == "pass_dir") {
    PN_TRY(const std::string now, store.install(after));
    (void)now;
  } else {
    for (const std::string& name : written) {
      const std::string file = join_path(folder, name + ".py"), fresh = file + ".new";
      PN_CHECK_OK(context.files.write(fresh, after.at(name + ".py")));
      PN_CHECK_OK(context.files.rename(fresh, file));
    }
  }
  for (const std::string& name : written) {
    result.findings.push_back(
        note("fix.written",
             fmt::format("{}: the pattern is a graph built by hand now; the file as it was is kept in {}",
                         name, join_path(path.parent_path().string(), ".passnet/history/" + kept + "/files")))
            .at(join_path(folder, name + ".py")));
  }
  result.document["fixed"] = written;
  result.document["kept_state"] = kept;
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
  Subjected subject;
  subject.files = std::move(*files);
  subject.places = {
      std::filesystem::absolute(arguments.sample).string(), std::filesystem::absolute(folder).string(), {}};
  const std::vector<size_t> chosen = spread_over_dtypes(
      sample->variants, arguments.max_variants < 0 ? 0 : static_cast<size_t>(arguments.max_variants));
  for (const size_t i : chosen) {
    check::Variant variant;
    variant.name = sample->variants[i].name;
    for (const Graph& graph : sample->variants[i].graphs) variant.graphs.push_back(graph.clone());
    subject.variants.push_back(std::move(variant));
  }
  subject.options.rules =
      arguments.rules == "strict" ? check::SourceRules::kStrict : check::SourceRules::kPublic;
  subject.options.file_prefix = folder + "/";
  const std::string constant = join_path(arguments.sample, "const_pass_dir");
  if (context.files.is_directory(constant)) {
    auto read = read_folder(context.files, constant);
    if (!read.ok()) return CommandResult::error(std::move(read).error());
    subject.options.const_files = std::move(*read);
    subject.places.const_pass_dir = std::filesystem::absolute(constant).string();
  }

  CommandResult result;
  check::CheckReport report = subject.run();
  std::optional<ScratchFolder> scratch;  // outlives the worker
  std::optional<ProcessWorker> worker;
  const auto start_worker = [&] {
    scratch.emplace(context.files, "passnet-check-");
    worker.emplace(sandboxed_worker(context.files, subject.places, scratch->path(), result.findings));
  };
  // A pass that breaks a rule as it stands need not be run to know that.
  const bool unread =
      std::any_of(report.passes.begin(), report.passes.end(), [](const check::ReadPass& pass) {
        const auto has = [&](const auto& test) {
          return std::any_of(pass.findings.begin(), pass.findings.end(), test);
        };
        return !pass.readable && has([](const Diagnostic& d) { return d.code == "check.not_interpreted"; }) &&
               !has([](const Diagnostic& d) { return d.severity == Severity::kError; });
      });
  if (unread && !arguments.no_worker) {
    context.progress("a pattern is not straight-line code: running it in the worker");
    start_worker();
    subject.options.run_elsewhere = run_elsewhere(*worker, subject.places, report, result.findings);
    if (!subject.options.run_elsewhere.empty()) report = subject.run();
  }
  if (arguments.fix && !report.repairs.empty()) {
    Files repaired = subject.files;
    auto written = repair_files(subject, report, repaired, result);
    if (!written.ok()) return CommandResult::error(std::move(written).error());
    if (!written->empty()) {
      const Status status = write_fix(context, subject.places, subject.files, repaired, *written, result);
      if (!status.ok()) return CommandResult::error(status.error());
      subject.files = std::move(repaired);
      report = subject.run();
    }
  }
  std::string first;
  for (const Diagnostic& d : result.findings) {
    if (d.code == "check.run_in_worker" || d.code == "fix.written") first += d.message + "\n";
  }
  result.text = first + matches_text(report);
  const bool red =
      !report.green() || std::any_of(result.findings.begin(), result.findings.end(),
                                     [](const Diagnostic& d) { return d.severity == Severity::kError; });
  result.outcome = red ? Outcome::kRed : Outcome::kGreen;
  if (arguments.smoke || arguments.bench) {
    if (red) {
      result.findings.push_back(note("check.not_run", "nothing was run: the native check is red"));
    } else {
      if (!worker) start_worker();
      const auto gpu = sees_gpu(*worker);
      if (!gpu.ok()) return CommandResult::error(gpu.error());
      const std::vector<size_t> to_run =
          arguments.max_variants < 0 ? one_per_dtype(sample->variants) : chosen;
      const RunRequest request{subject.places, *sample, to_run};
      context.progress(*gpu ? "running variants on the GPU" : "running variants in the interpreter");
      Status ran = run_smoke(*worker, *gpu, request, report, result);
      if (ran.ok() && arguments.bench && *gpu) ran = run_bench(*worker, request, report, result);
      if (!ran.ok()) return CommandResult::error(ran.error());
      if (arguments.bench && !*gpu) {
        result.findings.push_back(
            user_warning("check.no_gpu", "--bench needs a GPU and torch sees none here: nothing was timed")
                .with_hint("run it on a machine with a GPU; the smoke run above stands"));
        result.document["bench"] = nullptr;
      }
    }
  }
  result.text += subjects_text(report);
  const Json document = to_json(report);
  for (const auto& [key, value] : document.items()) result.document[key] = value;
  result.document["sample"] = sample->name;
  result.document["pass_dir"] = folder;
  std::vector<Diagnostic> findings = std::move(sample->findings);
  findings.insert(findings.end(), report.findings.begin(), report.findings.end());
  findings.insert(findings.end(), result.findings.begin(), result.findings.end());
  result.findings = std::move(findings);
  result.document.erase("findings");
  result.document.erase("status");
  result.document.erase("schema");
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
  app.add_option(
         "--max-variants", arguments->max_variants,
         "Only so many variants, each dtype first (0: all; not given: all are checked, one per dtype is run)")
      ->check(CLI::Range(0, 100000));
  app.add_flag("--smoke", arguments->smoke,
               "Also run variants: poisoned, plain and repeated calls, by the interpreter or on the GPU");
  app.add_flag("--bench", arguments->bench, "Also time them against eager, on a GPU (implies --smoke)");
  app.add_flag(
      "--fix", arguments->fix,
      "Write patterns that match in no form of a function as graphs built by hand; the old file is kept");
  app.add_flag("--no-worker", arguments->no_worker,
               "Never start Python: what is not interpreted stays not proven");
  return [arguments](CommandContext& context) { return run_check(context, *arguments); };
}

}  // namespace passnet
