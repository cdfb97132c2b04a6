// Plans a sample from recorded graphs and writes the passes, with the programs they were made from beside them.
// Reads {"variants": [{"name", "dtype", "graphs": [...]}]}; writes FOLDER/pass_dir and FOLDER/cases.json as
// write_test_passes does.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/json.h"
#include "codegen/pass_dir.h"
#include "plan/plan.h"

namespace {

using namespace passnet;

Json meta_json(const TensorMeta& t) {
  return {{"shape", t.shape},
          {"dtype", name_of(t.dtype)},
          {"stride", t.stride ? *t.stride : contiguous_strides(t.shape)}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: write_planned_passes floor|upside GRAPHS.json FOLDER\n");
    return 2;
  }
  std::ifstream in(argv[2]);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const Result<Json> document = parse_json(text, argv[2]);
  if (!document.ok()) {
    std::fprintf(stderr, "%s\n", document.error().message.c_str());
    return 2;
  }
  std::vector<CapturedVariant> variants;
  for (const Json& v : document->at("variants")) {
    CapturedVariant variant;
    variant.name = v.at("name").get<std::string>();
    variant.dtype = parse_dtype(v.at("dtype").get<std::string>()).value_or(DType::kFloat32);
    for (const Json& g : v.at("graphs")) {
      Result<Graph> graph = graph_from_json(g);
      if (!graph.ok()) {
        std::fprintf(stderr, "%s: %s\n", variant.name.c_str(), graph.error().message.c_str());
        return 2;
      }
      for (const auto& node : graph->nodes()) {
        if (node->op == NodeOp::kCallFunction || node->op == NodeOp::kCallMethod)
          (void)infer(*graph, *node).ok();
      }
      variant.graphs.push_back(std::move(graph).value());
    }
    variants.push_back(std::move(variant));
  }
  const Result<Profile> profile = builtin_profile("h200");
  if (!profile.ok()) {
    std::fprintf(stderr, "%s\n", profile.error().message.c_str());
    return 2;
  }
  const PlanResult plan = plan_sample(variants, *profile, &estimate_schedule);
  const PlanState& state = std::string(argv[1]) == "floor" ? plan.floor : plan.upside;
  Json refused = Json::array();
  for (const RegionRow& r : plan.regions) {
    if (r.verdict.ok()) continue;
    for (const Refusal& why : r.verdict.refusals()) {
      if (why.code.rfind("codegen", 0) == 0)
        refused.push_back(r.description + ": " + why.code + ": " + why.message);
    }
  }
  const Result<GeneratedPassDir> made = generate_pass_dir(state.passes);
  if (!made.ok()) {
    std::fprintf(stderr, "%s: %s\n", made.error().code.c_str(), made.error().message.c_str());
    return 1;
  }
  const std::filesystem::path folder = argv[3];
  std::filesystem::create_directories(folder / "pass_dir");
  for (const auto& [name, content] : made->files)
    std::ofstream(folder / "pass_dir" / name, std::ios::binary) << content;
  Json cases = Json::array();
  for (const PassSpec& s : state.passes) {
    if (s.kind != Region::Kind::kKernel) continue;
    for (const PassEntry& e : s.entries) {
      Json inputs = Json::array(), outputs = Json::array();
      for (const Binding& b : e.bindings) {
        inputs.push_back(b.is_tensor ? meta_json(b.tensor) : Json{{"literal", python_text(b.literal)}});
      }
      for (const TensorMeta& t : e.program.output_metas) outputs.push_back(meta_json(t));
      const ScheduleEstimate estimate = estimate_schedule(e.program);
      cases.push_back({{"route", s.route},
                       {"pass", s.name},
                       {"where", e.where},
                       {"inputs", inputs},
                       {"outputs", outputs},
                       {"tuple", s.tuple_output},
                       {"schedule", estimate.schedule},
                       {"kernels", estimate.kernels},
                       {"program", e.program.to_json()}});
    }
  }
  Json kernels = Json::array();
  for (const KernelEntry& k : made->kernels) {
    Json constants = Json::array();
    for (const auto& [n, v] : k.constants) constants.push_back({n, v});
    kernels.push_back({{"kernel", k.kernel},
                       {"pointers", k.pointer_dtypes},
                       {"constants", constants},
                       {"num_warps", k.num_warps},
                       {"grid", k.grid}});
  }
  std::ofstream(folder / "cases.json") << dump_json(
      Json{{"cases", cases}, {"kernels", kernels}, {"refused", refused}, {"predicted", state.gmean_speedup}},
      1);
  return 0;
}
