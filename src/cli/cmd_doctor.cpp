#include <thread>

#include <fmt/format.h>

#include "base/subprocess.h"
#include "cli/command.h"
#include "cli/version.h"
#include "ops/identities.h"
#include "worker/worker.h"

namespace passnet {
namespace {

struct Line {
  std::string what, found, needed_for;
  bool usable = false;
};

Line program(const std::string& name, const std::string& needed_for) {
  const auto path = find_program(name);
  return {name, path ? "found" : "missing", needed_for, path.has_value()};
}

}  // namespace

std::function<CommandResult(CommandContext&)> declare_doctor(CLI::App&) {
  return [](CommandContext& context) {
    CommandResult result;
    std::vector<Line> lines;
    lines.push_back(
        {"passnet", std::string(kVersion), "analyze, capture, check: everything without PyTorch", true});
    lines.push_back({"cores", std::to_string(std::thread::hardware_concurrency()), "", true});
    lines.push_back(program("bwrap", "running passes that are not trusted"));
    context.progress("asking the worker for its versions");
    ProcessWorker worker;
    WorkerRequest request;
    request.cmd = "versions";
    auto reply = worker.call(request);
    bool torch = false, gpu = false;
    Json versions = nullptr;
    if (reply.ok()) {
      versions = *reply;
      const auto version = [&](const char* key) {
        return versions.contains(key) && versions[key].is_string() ? versions[key].get<std::string>()
                                                                   : std::string();
      };
      const auto add = [&](const char* key, const char* needed_for) {
        lines.push_back(
            {key, version(key).empty() ? "missing" : version(key), needed_for, !version(key).empty()});
      };
      add("python", "the worker");
      add("torch", "solve's pre-flight, check --smoke, capture --engine dynamo");
      add("triton", "running and compiling the written kernels");
      torch = !version("torch").empty();
      const Json& gpus = versions.contains("gpus") ? versions["gpus"] : Json::array();
      gpu = !gpus.empty();
      if (torch) {
        context.progress("asking torch what its names stand for");
        WorkerRequest identities;
        identities.cmd = "identities";
        const auto answer = worker.call(identities);
        const Result<IdentityCheck> check = answer.ok() ? check_identities(*answer) : answer.error();
        if (!check.ok()) {
          result.findings.push_back(check.error());
        } else {
          for (const std::string& difference : check->other) {
            result.findings.push_back(
                user_warning("doctor.identity", difference)
                    .with_hint("capture names targets as the recorded torch does; compare with `capture "
                               "--engine dynamo`"));
          }
          lines.push_back(
              {"names",
               fmt::format("{} of {} as recorded{}", check->names - static_cast<int>(check->other.size()),
                           check->names, check->recorded ? "" : ", of another version"),
               "capture's targets", check->other.empty()});
        }
      }
      lines.push_back(
          {"gpu", gpu ? gpus[0].value("name", "found") : "none", "numerics and speed on the device", gpu});
    } else {
      result.findings.push_back(reply.error());
    }
    if (versions.is_null()) lines.push_back({"torch", "worker does not answer", "solve's pre-flight", false});
    for (const Line& line : lines) {
      result.text += fmt::format("{:4} {:9} {:28} {}\n", line.usable ? "ok" : "--", line.what, line.found,
                                 line.needed_for);
    }
    result.text += torch ? (gpu ? "Every command works here.\n"
                                : "No GPU: solve stops after its pre-flight and says what it predicts (as "
                                  "with --no-gpu).\n")
                         : "No PyTorch: capture, analyze and check work; solve needs it for the pre-flight "
                           "(make setup).\n";
    Json items = Json::array();
    for (const Line& line : lines) {
      items.push_back({{"what", line.what},
                       {"found", line.found},
                       {"usable", line.usable},
                       {"needed_for", line.needed_for}});
    }
    result.document["items"] = std::move(items);
    result.document["versions"] = versions;
    result.outcome = torch ? Outcome::kGreen : Outcome::kRed;
    return result;
  };
}

}  // namespace passnet
