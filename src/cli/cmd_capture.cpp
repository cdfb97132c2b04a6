#include <filesystem>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "sample/sample.h"
#include "worker/worker.h"

namespace passnet {
namespace {

struct CaptureArguments {
  std::vector<std::string> directories;
  std::string engine = "native";
  std::string format = "text";
};

// A sample stands for its variants; any other folder is taken as one variant.
Result<std::vector<Variant>> variants_of(FileSystem& files, const std::string& directory,
                                         CommandResult& result) {
  if (!files.is_file(join_path(directory, "graph_list.txt"))) {
    if (!files.exists(directory)) {
      return user_error("sample.missing", "there is no such folder")
          .at(directory)
          .with_hint("name the folder of a variant (it holds model.py) or of a sample (graph_list.txt)");
    }
    Variant variant;
    variant.label = variant.dir = directory;
    return std::vector<Variant>{variant};
  }
  PN_TRY(Sample sample, read_sample(files, directory));
  for (Diagnostic& finding : sample.findings) result.findings.push_back(std::move(finding));
  return std::move(sample.variants);
}

CommandResult native(CommandContext& context, const CaptureArguments& arguments) {
  CommandResult result;
  // Either of the two takes as long as a good part of the capture itself, and one is all that is shown.
  const bool as_json = context.options.json || arguments.format == "json";
  Json variants = Json::array();
  for (const std::string& directory : arguments.directories) {
    auto listed = variants_of(context.files, directory, result);
    if (!listed.ok()) return CommandResult::error(std::move(listed).error());
    for (const Variant& variant : *listed) {
      CaptureOptions options;
      options.device = context.options.device;
      auto captured = capture_variant(context.files, variant.dir, options);
      if (!captured.ok()) return CommandResult::error(std::move(captured).error());
      Json graphs = Json::array();
      for (size_t g = 0; g < captured->graphs.size(); ++g) {
        if (as_json) {
          graphs.push_back(graph_json(*captured, g));
          continue;
        }
        result.text += fmt::format("# {}{}\n{}", variant.label,
                                   captured->graphs.size() > 1 ? fmt::format(" graph {}", g) : "",
                                   print(captured->graphs[g]));
      }
      for (Diagnostic& finding : captured->findings) result.findings.push_back(std::move(finding));
      variants.push_back({{"name", variant.label}});
      variants.back()["graphs"] = std::move(graphs);
    }
  }
  // One variant: its graphs stand at the top of the document, as the interface names them.
  if (variants.size() == 1) result.document["graphs"] = std::move(variants[0]["graphs"]);
  if (variants.size() > 1) result.document["variants"] = std::move(variants);
  result.document["engine"] = "native";
  // Lines of graph_list.txt that are no variant count as well as what is wrong with one.
  for (const Diagnostic& finding : result.findings) {
    if (finding.severity == Severity::kError) result.outcome = Outcome::kRed;
  }
  return result;
}

CommandResult dynamo(CommandContext& context, const CaptureArguments& arguments) {
  CommandResult result;
  ProcessWorker worker;
  Json directories = Json::array();
  std::vector<std::string> labels;
  for (const std::string& directory : arguments.directories) {
    auto listed = variants_of(context.files, directory, result);
    if (!listed.ok()) return CommandResult::error(std::move(listed).error());
    for (const Variant& variant : *listed) {
      directories.push_back(std::filesystem::absolute(variant.dir).string());  // the worker works elsewhere
      labels.push_back(variant.label);
    }
  }
  WorkerRequest request;
  request.cmd = "capture";
  request.arguments = {{"variants", directories}, {"device", "cpu"}};
  context.progress("asking the worker; importing torch takes some seconds");
  auto reply = worker.call(request);
  if (!reply.ok()) return CommandResult::error(std::move(reply).error());
  result.document = std::move(*reply);
  for (size_t i = 0; i < result.document["variants"].size(); ++i) {
    Json& variant = result.document["variants"][i];
    if (i < labels.size()) variant["label"] = labels[i];
    result.text += fmt::format("# {}\n", variant.value("label", ""));
    if (variant.contains("error")) {
      result.outcome = Outcome::kRed;
      result.findings.push_back(
          user_error("capture.dynamo", variant["error"].value("message", "dynamo failed"))
              .at(variant.value("label", ""))
              .with_hint("`passnet capture` without --engine reads the model itself and names the line"));
      continue;
    }
    for (const Json& graph : variant["graphs"]) {
      auto read = graph_from_json(graph);
      result.text += read.ok() ? print(*read) : dump_json(graph, 1) + "\n";
    }
  }
  result.document["engine"] = "dynamo";
  return result;
}

}  // namespace

std::function<CommandResult(CommandContext&)> declare_capture(CLI::App& app) {
  auto arguments = std::make_shared<CaptureArguments>();
  app.add_option("DIRECTORY", arguments->directories, "Variant or sample directories")->required();
  app.add_option("--engine", arguments->engine, "native reads model.py itself; dynamo asks PyTorch")
      ->check(CLI::IsMember({"native", "dynamo"}))
      ->capture_default_str();
  app.add_option("--format", arguments->format, "text, or json (the same as --json)")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  return [arguments](CommandContext& context) {
    CommandResult result =
        arguments->engine == "native" ? native(context, *arguments) : dynamo(context, *arguments);
    if (arguments->format == "json") result.as_json = true;
    return result;
  };
}

}  // namespace passnet
