#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <ostream>
#include <thread>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/source.h"
#include "base/strings.h"
#include "cli/command.h"
#include "cli/version.h"

namespace passnet {
namespace {

constexpr std::array<Command, 7> kCommands = {{
    {"solve", "From a sample directory to a checked pass_dir: the main job", declare_solve},
    {"analyze", "Nodes, regions, costs and the predicted ceiling of a sample", declare_analyze},
    {"check", "Pre-flight of a pass_dir: would it load, match and apply, and if not, why", declare_check},
    {"eval", "Measures passes and compilers on a sample: correctness, speed, score", declare_eval},
    {"score", "What evaluation logs and records say: table, failures with their fix, ES(t), score",
     declare_score},
    {"capture", "The graphs that torch.compile would hand to a backend", declare_capture},
    {"doctor", "What is installed and usable here, and what each command can therefore do", declare_doctor},
}};

std::string_view name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kGreen: return "green";
    case Outcome::kRed: return "red";
    case Outcome::kError: return "error";
  }
  return "error";
}

// Takes the document out of the result: that of a capture is megabytes.
Json envelope(std::string_view command, CommandResult& result) {
  Json document = {{"schema", fmt::format("passnet.{}/1", command)},
                   {"status", name_of(result.outcome)},
                   {"findings", findings_to_json(result.findings)}};
  for (auto& [key, value] : result.document.items()) document[key] = std::move(value);
  return document;
}

void print_findings(const CommandResult& result, FileSystem& files, std::ostream& err) {
  std::map<std::string, SourceBuffer> sources;
  for (const Diagnostic& finding : result.findings) {
    const SourceBuffer* source = nullptr;
    if (!finding.file.empty() && finding.span.known()) {
      auto it = sources.find(finding.file);
      if (it == sources.end()) {
        if (auto text = files.read(finding.file)) {
          if (auto buffer = SourceBuffer::checked(finding.file, std::move(*text))) {
            it = sources.emplace(finding.file, std::move(*buffer)).first;
          }
        }
      }
      if (it != sources.end()) source = &it->second;
    }
    err << render_text(finding, source);
  }
}

int finish(std::string_view command, const SharedOptions& options, CommandResult result, FileSystem& files,
           std::ostream& out, std::ostream& err) {
  if (options.json || result.as_json) {
    out << dump_json(envelope(command, result), 1) << "\n";
  } else {
    out << result.text;
  }
  out.flush();
  if (!options.json || result.outcome == Outcome::kError) print_findings(result, files, err);
  err.flush();
  return static_cast<int>(result.outcome);
}

std::optional<std::string> suggestion(const std::string& word) {
  std::vector<std::string> names;
  for (const Command& command : kCommands) names.emplace_back(command.name);
  return closest(word, names);
}

}  // namespace

int SharedOptions::worker_count() const {
  return jobs > 0 ? jobs : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

std::span<const Command> commands() { return kCommands; }

CommandResult CommandResult::error(Diagnostic diagnostic) {
  CommandResult result;
  result.outcome = Outcome::kError;
  result.findings.push_back(std::move(diagnostic));
  return result;
}

int run_cli(std::vector<std::string> args, FileSystem& files, Clock& clock, std::ostream& out,
            std::ostream& err) {
  CLI::App app("passnet finds, writes, checks and keeps compiler passes that make PyTorch graphs faster.",
               "passnet");
  app.set_version_flag("--version", std::string(kVersion));
  app.require_subcommand(1);
  app.footer(
      "Exit status: 0 done and all green, 1 done and something is red, 2 cannot run.\n"
      "`passnet COMMAND --help` tells the options of a command.");
  SharedOptions options;
  std::vector<std::pair<CLI::App*, std::function<CommandResult(CommandContext&)>>> declared;
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(std::string(command.name), std::string(command.summary));
    auto run = command.declare(*sub);
    const std::string group = "Shared options";
    sub->add_flag("--json", options.json, "One JSON document on stdout (docs/schemas/)")->group(group);
    sub->add_flag("--quiet", options.quiet, "No progress on stderr")->group(group);
    sub->add_option("--device", options.device, "Device that graphs, patterns and written files are for")
        ->check(CLI::IsMember({"cuda", "cpu"}))
        ->capture_default_str()
        ->group(group);
    sub->add_option("--jobs", options.jobs, "Variants worked on at once (0: one a core)")
        ->check(CLI::Range(0, 1024))
        ->capture_default_str()
        ->group(group);
    sub->add_option("--profile", options.profile, "Machine profile: h200, a100, a30 or a file")
        ->capture_default_str()
        ->group(group);
    sub->add_option("--log", options.log, "Least severity shown: error, warning, note")
        ->check(CLI::IsMember({"error", "warning", "note"}))
        ->capture_default_str()
        ->group(group);
    declared.emplace_back(sub, std::move(run));
  }
  const bool wants_json = std::find(args.begin(), args.end(), "--json") != args.end();
  const std::string first = args.empty() ? std::string() : args.front();
  std::reverse(args.begin(), args.end());  // CLI11 takes them from the back
  try {
    app.parse(args);
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app.get_subcommands();
    out << (chosen.empty() ? app.help() : chosen.front()->help(app.get_name()));
    return 0;
  } catch (const CLI::CallForVersion&) {
    out << kVersion << "\n";
    return 0;
  } catch (const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    std::string hint = chosen.empty()
                           ? "`passnet --help` lists the commands"
                           : fmt::format("`passnet {} --help` lists its options", chosen.front()->get_name());
    if (chosen.empty() && !first.empty() && first[0] != '-') {
      if (const auto meant = suggestion(first)) hint = fmt::format("did you mean `passnet {}`?", *meant);
    }
    options.json = wants_json;
    const bool unknown = chosen.empty() && !first.empty() && first[0] != '-';
    const std::string what =
        unknown ? fmt::format("there is no command `{}`", first) : std::string(error.what());
    return finish(chosen.empty() ? "usage" : chosen.front()->get_name(), options,
                  CommandResult::error(user_error("cli.usage", what).with_hint(hint)), files, out, err);
  }
  const auto talks = [&options, &err](std::string_view line) {
    if (!options.quiet && !options.json) err << line << "\n" << std::flush;
  };
  CommandContext context{files, clock, options, talks};
  for (const auto& [sub, run] : declared) {
    if (!sub->parsed()) continue;
    CommandResult result = run(context);
    const Severity least = options.log == "error"     ? Severity::kError
                           : options.log == "warning" ? Severity::kWarning
                                                      : Severity::kNote;
    std::erase_if(result.findings, [&](const Diagnostic& d) { return d.severity < least; });
    return finish(sub->get_name(), options, std::move(result), files, out, err);
  }
  return static_cast<int>(Outcome::kError);
}

}  // namespace passnet
