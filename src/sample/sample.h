#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "capture/capture.h"
#include "sample/weight_meta.h"

namespace passnet {

// One line of graph_list.txt.
struct Variant {
  std::string label;           // the line: "float16/8"
  std::string dir;             // the folder, below the sample's root as that was given
  std::optional<DType> dtype;  // what the path says: `/float16/` and the like
  int line = 0;                // of graph_list.txt

  std::string model_path() const { return join_path(dir, "model.py"); }
};

struct Sample {
  std::string root;
  std::string name;  // of the folder
  std::vector<Variant> variants;
  // Lines of graph_list.txt that are no variant, with the reason; the evaluator skips those silently.
  std::vector<Diagnostic> findings;

  std::string pass_dir() const { return join_path(root, "pass_dir"); }
};

// Errors: "sample.missing", "sample.not_a_directory", "sample.no_graph_list", "sample.no_variants" (every line of the
// list is refused: the first reason is in the message), and those of FileSystem::read.
Result<Sample> read_sample(FileSystem& files, const std::string& root);

// The files of one variant, parsed.
struct VariantFiles {
  std::shared_ptr<const SourceBuffer> model_source;
  pysrc::Module model;
  std::vector<TensorSpec> tensors;  // input_meta first, then weight_meta, as the evaluator draws them
  bool has_metadata = true;         // false: no weight_meta.py, which is a finding; no shapes are known then
  std::vector<Diagnostic> findings;
};

// `name` is what messages call the folder, `dir` itself if empty. A missing model.py is an error ("sample.no_model"), a
// missing weight_meta.py a finding ("sample.no_weight_meta"), a missing input_meta.py nothing.
Result<VariantFiles> read_variant(FileSystem& files, const std::string& dir, const std::string& name = {});

// Files and capture of one variant. Inputs that no parameter takes are a finding ("sample.unused_meta").
Result<Captured> capture_variant(FileSystem& files, const std::string& dir,
                                 const CaptureOptions& options = {});

// The document of `passnet capture --json`, whatever the folder holds: status "green", "red" (captured with findings)
// or "error" (not captured).
Json capture_json(FileSystem& files, const std::string& dir, const CaptureOptions& options = {});

}  // namespace passnet
