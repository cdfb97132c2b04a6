#include <algorithm>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cli/profile_option.h"
#include "codegen/pass_dir.h"
#include "ops/core.h"
#include "plan/explain.h"
#include "plan/facts.h"
#include "plan/plan.h"
#include "sample/sample.h"
#include "solve/solve.h"

namespace passnet {
namespace {

struct AnalyzeArguments {
  std::string directory;
  bool refused = false;
};

// How a node can be matched by a pattern that a person writes: hand-built graphs match every form.
struct Matchability {
  std::string code, meaning;
};

Matchability matchability(const GraphFacts& facts, const Node& node) {
  const NodeFacts& f = facts[node.id];
  if (node.op == NodeOp::kCallMethod) return {"mirror", "a method: write the same call, keywords included"};
  if (!f.wall.code.empty() && f.hard_wall) return {"no", f.wall.message};
  return {"graph", "a hand-built pattern graph matches it as written"};
}

Json node_json(const GraphFacts& facts, const Graph& graph, const Node& node) {
  const auto name = [&](NodeId id) { return graph.node(id).name; };
  std::string form;
  for (const Value& arg : node.args) form += (form.empty() ? "" : ", ") + python_text(arg, name);
  for (const auto& [key, arg] : node.kwargs)
    form += (form.empty() ? "" : ", ") + key + "=" + python_text(arg, name);
  Json json = {{"name", node.name}, {"kind", name_of(node.op)}, {"target", node.target}, {"form", form}};
  const NodeFacts& f = facts[node.id];
  const Matchability match = matchability(facts, node);
  json["matchable"] = match.code;
  json["matchable_because"] = match.meaning;
  json["operator"] = facts.operator_name(node.id);
  json["shape"] = node.meta.is_tensor() ? Json(node.meta.tensor.shape) : Json(nullptr);
  json["dtype"] =
      node.meta.is_tensor() ? Json(fmt::format("torch.{}", name_of(node.meta.tensor.dtype))) : Json(nullptr);
  json["host_us"] = f.eager.host_us;
  json["device_us"] = f.eager.device_us;
  json["flops"] = f.cost.flops;
  json["wall"] = f.wall.code.empty() ? Json(nullptr) : to_json(f.wall);
  json["writes"] = node.writes;
  return json;
}

std::string node_line(const Json& node) {
  std::string shape = "?";
  if (node["shape"].is_array())
    shape = node["shape"].dump() + ":" + node["dtype"].get<std::string>().substr(6);
  std::string form = node["form"];
  if (form.size() > 46) form = form.substr(0, 43) + "...";
  std::string target = node["target"];
  if (node["kind"] == "call_method") target.insert(0, 1, '.');
  return fmt::format("  {:<16} {:<36} ({:<46}) {:<28} {:>6.1f} {:>8.1f}  {}\n",
                     node["name"].get<std::string>(), target, form, shape, node["host_us"].get<double>(),
                     node["device_us"].get<double>(),
                     node["wall"].is_null() ? std::string() : node["wall"]["code"].get<std::string>());
}

CommandResult analyze(CommandContext& context, const AnalyzeArguments& arguments) {
  auto profile = chosen_profile(context);
  if (!profile.ok()) return CommandResult::error(std::move(profile).error());
  CommandResult result;
  CapturedSample sample;
  if (context.files.is_file(join_path(arguments.directory, "graph_list.txt"))) {
    auto captured = capture_sample(context.files, arguments.directory, context.options.device,
                                   context.options.worker_count());
    if (!captured.ok()) return CommandResult::error(std::move(captured).error());
    sample = std::move(*captured);
  } else {
    // A folder with only a model.py: structure without shapes.
    CaptureOptions options;
    options.device = context.options.device;
    auto captured = capture_folder(context.files, arguments.directory, options);
    if (!captured.ok()) return CommandResult::error(std::move(captured).error());
    sample.name = sample.root = arguments.directory;
    sample.findings = std::move(captured->findings);
    CapturedVariant& variant = sample.variants.emplace_back();
    variant.name = arguments.directory;
    variant.graphs = std::move(captured->graphs);
  }
  const PlanResult plan = plan_sample(sample.variants, *profile, &estimate_schedule);
  Json variants = Json::array();
  std::string last;
  for (const CapturedVariant& variant : sample.variants) {
    Json graphs = Json::array();
    for (size_t g = 0; g < variant.graphs.size(); ++g) {
      const Graph& graph = variant.graphs[g];
      const GraphFacts facts(graph, *profile);
      Json nodes = Json::array();
      std::string table;
      for (const auto& node : graph.nodes()) {
        if (node->op == NodeOp::kPlaceholder || node->op == NodeOp::kOutput) continue;
        nodes.push_back(node_json(facts, graph, *node));
        table += node_line(nodes.back());
      }
      result.text += fmt::format("{}{}\n  {:<16} {:<36} {:<48} {:<28} {:>6} {:>8}  wall\n{}\n", variant.name,
                                 variant.graphs.size() > 1 ? fmt::format(" graph {}", g) : "", "node",
                                 "target", "arguments", "result", "host us", "dev us", table);
      graphs.push_back({{"nodes", std::move(nodes)}});
    }
    variants.push_back({{"name", variant.name}, {"graphs", std::move(graphs)}});
  }
  result.text += to_text(plan, arguments.refused);
  result.text +=
      "\nThe ceiling is optimistic: perfect kernels, and the fixed tax as measured on small graphs.\n";
  result.document = {{"sample", sample.name}, {"variants", std::move(variants)}, {"plan", to_json(plan)}};
  const auto red = [](const Diagnostic& d) { return d.severity == Severity::kError; };
  result.findings = std::move(sample.findings);
  result.findings.insert(result.findings.end(), plan.findings.begin(), plan.findings.end());
  result.outcome =
      std::any_of(result.findings.begin(), result.findings.end(), red) ? Outcome::kRed : Outcome::kGreen;
  return result;
}

}  // namespace

std::function<CommandResult(CommandContext&)> declare_analyze(CLI::App& app) {
  auto arguments = std::make_shared<AnalyzeArguments>();
  app.add_option("SAMPLE", arguments->directory, "Sample directory, or a folder with a model.py")->required();
  app.add_flag("--refused", arguments->refused, "List the refused regions too, with their reasons");
  return [arguments](CommandContext& context) { return analyze(context, *arguments); };
}

}  // namespace passnet
