// Writes the hand-built passes of test_programs.cpp as a pass_dir, with the programs they were made from beside it:
// what tests/codegen/run_passes.py checks.

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "codegen/pass_dir.h"
#include "codegen/test_programs.h"

int main(int argc, char** argv) {
  using namespace passnet;
  if (argc < 2) {
    std::fprintf(stderr, "usage: write_test_passes FOLDER [large]\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder / "pass_dir");
  const std::vector<PassSpec> passes = codegen::test_passes(argc > 2);
  const Result<GeneratedPassDir> made = generate_pass_dir(passes);
  if (!made.ok()) {
    std::fprintf(stderr, "%s\n", made.error().message.c_str());
    return 1;
  }
  for (const auto& [name, text] : made->files)
    std::ofstream(folder / "pass_dir" / name, std::ios::binary) << text;
  Json cases = Json::array();
  for (const PassSpec& s : passes) {
    for (const PassEntry& e : s.entries) {
      Json inputs = Json::array();
      for (const TensorMeta& t : e.program.inputs()) {
        inputs.push_back({{"shape", t.shape}, {"dtype", name_of(t.dtype)}, {"stride", *t.stride}});
      }
      Json outputs = Json::array();
      for (const TensorMeta& t : e.program.output_metas) {
        outputs.push_back({{"shape", t.shape}, {"dtype", name_of(t.dtype)}, {"stride", *t.stride}});
      }
      cases.push_back({{"route", s.route},
                       {"pass", s.name},
                       {"where", e.where},
                       {"inputs", inputs},
                       {"outputs", outputs},
                       {"tuple", s.tuple_output},
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
  std::ofstream(folder / "cases.json") << dump_json(Json{{"cases", cases}, {"kernels", kernels}}, 1);
  return 0;
}
