#pragma once

#include <functional>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/diagnostic.h"
#include "base/files.h"
#include "base/json.h"

namespace CLI {
class App;
}

namespace passnet {

/// Exit status of every command.
enum class Outcome : int {
  kGreen = 0,  ///< done, all green
  kRed = 1,    ///< done, something is red
  kError = 2   ///< cannot run: usage, missing file, unreadable input
};

/// Options that every command takes.
struct SharedOptions {
  bool json = false;
  bool quiet = false;
  std::string device = "cuda";   ///< what captured graphs, patterns and written files are for
  int jobs = 0;                  ///< 0: as many as the machine has cores
  std::string profile = "h200";  ///< name of a shipped machine profile, or a file
  std::string log = "warning";

  /// `jobs`, or the number of cores.
  int worker_count() const;
};

/// What a command works with; tests hand in memory and a standing clock.
struct CommandContext {
  FileSystem& files;
  Clock& clock;
  SharedOptions options;
  /// One line for people about what is being done, on stderr; nothing with --quiet, nor with --json.
  std::function<void(std::string_view)> progress;
};

/// What a command found. The text goes to stdout without --json; the document, with schema, status and findings
/// put in front, with it. Findings go to stderr as text, with the source line where the file can be read.
struct CommandResult {
  Outcome outcome = Outcome::kGreen;
  std::string text;
  Json document = Json::object();
  std::vector<Diagnostic> findings;
  bool as_json = false;  ///< print the document although --json was not given

  static CommandResult error(Diagnostic diagnostic);
};

/// One row of the table of commands. `declare` adds the command's own options to its app and returns what runs
/// it; whatever it captures lives as long as the function.
struct Command {
  std::string_view name;
  std::string_view summary;  ///< one line of --help
  std::function<CommandResult(CommandContext&)> (*declare)(CLI::App& app);
};

std::span<const Command> commands();

std::function<CommandResult(CommandContext&)> declare_analyze(CLI::App& app);
std::function<CommandResult(CommandContext&)> declare_capture(CLI::App& app);
std::function<CommandResult(CommandContext&)> declare_check(CLI::App& app);
std::function<CommandResult(CommandContext&)> declare_doctor(CLI::App& app);
std::function<CommandResult(CommandContext&)> declare_eval(CLI::App& app);
std::function<CommandResult(CommandContext&)> declare_score(CLI::App& app);
std::function<CommandResult(CommandContext&)> declare_solve(CLI::App& app);

/// The whole program: parses, runs, prints, and returns the exit status. `args` without the program's name.
int run_cli(std::vector<std::string> args, FileSystem& files, Clock& clock, std::ostream& out,
            std::ostream& err);

}  // namespace passnet
