#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/json.h"
#include "cli/check_worker.h"
#include "cli/command.h"
#include "cli/profile_option.h"
#include "codegen/pass_dir.h"
#include "ops/core.h"
#include "plan/checklist.h"
#include "plan/explain.h"
#include "plan/facts.h"
#include "plan/plan.h"
#include "sample/sample.h"
#include "solve/solve.h"
#include "worker/worker.h"

namespace passnet {
namespace {

struct AnalyzeArguments {
  std::string directory;
  bool refused = false, bench = false;
  int max_variants = 0;
};

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
  return fmt::format("  {:<16} {:<36} ({:<46}) {:<28} {:>6.1f} {:>8.1f}  {:<6} {}\n",
                     node["name"].get<std::string>(), target, form, shape, node["host_us"].get<double>(),
                     node["device_us"].get<double>(), node["matchable"].get<std::string>(),
                     node["wall"].is_null() ? std::string() : node["wall"]["code"].get<std::string>());
}

// The checklist of every region, in the first graph that has its nodes. Text for the regions that the plan takes, for all
// with `all`.
Json checklists(const CapturedSample& sample, const PlanResult& plan, const Profile& profile, bool all,
                std::string& text) {
  Json out = Json::array();
  std::string lines;
  std::map<const Graph*, std::unique_ptr<GraphFacts>> facts;
  for (const RegionRow& row : plan.regions) {
    const Graph* graph = nullptr;
    for (const CapturedVariant& variant : sample.variants) {
      for (const Graph& g : variant.graphs) {
        if (graph == nullptr && lies_in(g, row)) graph = &g;
      }
    }
    if (graph == nullptr || graph->find(row.root) == nullptr) continue;
    auto& known = facts[graph];
    if (!known) known = std::make_unique<GraphFacts>(*graph, profile);
    std::vector<NodeId> nodes;
    for (const std::string& name : row.nodes) nodes.push_back(graph->find(name)->id);
    std::sort(nodes.begin(), nodes.end());
    const std::vector<ChecklistItem> items = containment_checklist(*known, nodes, graph->find(row.root)->id);
    out.push_back({{"region", row.description},
                   {"class", row.graph_class},
                   {"root", row.root},
                   {"items", to_json(items)}});
    if (!all && !row.in_floor && !row.in_upside && !row.in_ceiling) continue;
    lines += fmt::format("  {}\n", row.description);
    for (const ChecklistItem& item : items)
      lines += fmt::format("    [{}] {:<20} {}\n", item.good ? "x" : " ", item.id, item.answer);
  }
  if (!lines.empty()) text += "\ncontainment checklist of the chosen regions\n" + lines;
  return out;
}

Json literals(const CapturedSample& sample, std::string& text) {
  const std::vector<DifferingLiteral> found = differing_literals(sample.variants);
  if (!found.empty())
    text += "\nliterals that differ between variants: a pattern for all takes a parameter there\n";
  for (const DifferingLiteral& l : found) {
    text += fmt::format("  {} {}:", l.node, l.place);
    for (const auto& [literal, names] : l.values) text += fmt::format(" {} ({})", literal, names);
    text += "\n";
  }
  return to_json(found);
}

// Eager time of each node as the GPU takes it, one variant per dtype. Without a GPU that is said and nothing is timed.
Status add_bench(CommandContext& context, const CapturedSample& sample, int max_variants,
                 CommandResult& result) {
  ProcessWorker worker;
  PN_TRY(const bool gpu, sees_gpu(worker));
  result.document["bench"] = nullptr;
  if (!gpu) {
    result.findings.push_back(
        user_warning("analyze.no_gpu",
                     "--bench needs a GPU and torch sees none here: the times above are the cost model's")
            .with_hint("run it on a machine with a GPU"));
    return ok_status();
  }
  const std::vector<size_t> chosen =
      max_variants > 0 ? spread_over_dtypes(sample.variants, static_cast<size_t>(max_variants))
                       : one_per_dtype(sample.variants);
  WorkerRequest request;
  request.cmd = "bench";
  request.deadline = std::chrono::minutes(10);
  Json labels = Json::array();
  for (const size_t i : chosen) labels.push_back(sample.variants[i].name);
  request.arguments = {
      {"sample", std::filesystem::absolute(sample.root).string()},
      {"labels", std::move(labels)},
      {"compilers", {"eager"}},
      {"options", {{"device", "cuda"}, {"warmup", 25}, {"trials", 200}, {"block", 20}, {"nodes", true}}}};
  context.progress("timing each node on the GPU");
  PN_TRY(Json reply, worker.call(request));
  for (const Json& variant : reply["variants"]) {
    result.text += fmt::format("\nmeasured, {}", variant.value("label", ""));
    if (variant.contains("error")) {
      result.text += fmt::format(": {}\n", variant["error"].value("message", "failed"));
      continue;
    }
    const double whole = variant["compilers"]["eager"]["e2e_ms"]["median"].get<double>() * 1e3;
    double sum = 0;
    result.text += "\n";
    for (const Json& node : variant.value("nodes", Json::array())) {
      sum += node.value("us", 0.0);
      result.text +=
          fmt::format("  {:<24} {:<40} {:>8.1f} us, on the device {:>8.1f}\n", node.value("name", ""),
                      node.value("target", ""), node.value("us", 0.0), node.value("gpu_us", 0.0));
    }
    result.text += fmt::format(
        "  all nodes {:.1f} us; the eager call {:.1f} us, seed and synchronisation included\n", sum, whole);
  }
  result.document["bench"] = std::move(reply);
  return ok_status();
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
  if (arguments.max_variants > 0 && sample.variants.size() > static_cast<size_t>(arguments.max_variants)) {
    std::vector<CapturedVariant> kept;
    for (const size_t i : spread_over_dtypes(sample.variants, static_cast<size_t>(arguments.max_variants)))
      kept.push_back(std::move(sample.variants[i]));
    sample.variants = std::move(kept);
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
      result.text += fmt::format("{}{}\n  {:<16} {:<36} {:<48} {:<28} {:>6} {:>8}  match  wall\n{}\n",
                                 variant.name, variant.graphs.size() > 1 ? fmt::format(" graph {}", g) : "",
                                 "node", "target", "arguments", "result", "host us", "dev us", table);
      const auto predicted = std::find_if(plan.variants.begin(), plan.variants.end(),
                                          [&](const VariantPrediction& v) { return v.name == variant.name; });
      const double eager = predicted == plan.variants.end() ? 0 : predicted->eager_us;
      const Absorbable absorbable = absorbable_time(facts, plan.regions, eager);
      result.text += fmt::format(
          "  legal regions hold {:.1f} us of {:.1f} us eager; bound of the public formula {:.2f} "
          "(optimistic)\n\n",
          absorbable.us, eager, absorbable.ceiling);
      graphs.push_back({{"nodes", std::move(nodes)},
                        {"absorbable_us", absorbable.us},
                        {"public_ceiling", absorbable.ceiling}});
    }
    variants.push_back({{"name", variant.name}, {"graphs", std::move(graphs)}});
  }
  result.text += to_text(plan, arguments.refused);
  Json lists = checklists(sample, plan, *profile, arguments.refused, result.text);
  Json differing = literals(sample, result.text);
  result.text +=
      "\nThe ceiling is optimistic: perfect kernels, and the fixed tax as measured on small graphs.\n";
  result.document = {{"sample", sample.name},
                     {"variants", std::move(variants)},
                     {"plan", to_json(plan)},
                     {"checklists", std::move(lists)},
                     {"differing_literals", std::move(differing)}};
  const auto red = [](const Diagnostic& d) { return d.severity == Severity::kError; };
  result.findings = std::move(sample.findings);
  result.findings.insert(result.findings.end(), plan.findings.begin(), plan.findings.end());
  if (arguments.bench) {
    const Status status = add_bench(context, sample, arguments.max_variants, result);
    if (!status.ok()) return CommandResult::error(status.error());
  }
  result.outcome =
      std::any_of(result.findings.begin(), result.findings.end(), red) ? Outcome::kRed : Outcome::kGreen;
  return result;
}

}  // namespace

std::function<CommandResult(CommandContext&)> declare_analyze(CLI::App& app) {
  auto arguments = std::make_shared<AnalyzeArguments>();
  app.add_option("SAMPLE", arguments->directory, "Sample directory, or a folder with a model.py")->required();
  app.add_flag("--refused", arguments->refused, "List the refused regions too, with their reasons");
  app.add_flag("--bench", arguments->bench, "Also time every node of one variant per dtype, on a GPU");
  app.add_option("--max-variants", arguments->max_variants,
                 "Only so many variants, each dtype first (0: all)")
      ->check(CLI::Range(0, 100000))
      ->capture_default_str();
  return [arguments](CommandContext& context) { return analyze(context, *arguments); };
}

}  // namespace passnet
