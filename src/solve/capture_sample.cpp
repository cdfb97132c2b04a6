#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include <fmt/format.h>

#include "sample/sample.h"
#include "solve/solve.h"

namespace passnet {
namespace {

DType dtype_of(const Variant& variant, const std::vector<Graph>& graphs) {
  if (variant.dtype) return *variant.dtype;
  // Without a dtype in the path: that of the first floating input.
  for (const Graph& graph : graphs) {
    for (const NodeId id : graph.placeholders()) {
      const Meta& meta = graph.node(id).meta;
      if (meta.is_tensor() && is_floating(meta.tensor.dtype)) return meta.tensor.dtype;
    }
  }
  return DType::kFloat32;
}

}  // namespace

Result<Captured> capture_folder(FileSystem& files, const std::string& dir, const CaptureOptions& options) {
  if (files.is_file(join_path(dir, "weight_meta.py"))) return capture_variant(files, dir, options);
  const std::string path = join_path(dir, "model.py");
  const auto folder = files.stat(dir);
  if (!folder.ok()) {
    Diagnostic error = folder.error();
    if (error.code == "file.missing") {
      error = user_error("sample.missing", "there is no such folder");
      error.hint = "give a sample directory (it holds graph_list.txt) or a folder that holds a model.py";
    }
    return std::move(error).at(dir);
  }
  if (!files.is_file(path)) {
    return user_error("sample.no_model", "there is neither a graph_list.txt nor a model.py in this folder")
        .at(dir)
        .with_hint("give a sample directory (it holds graph_list.txt) or a folder that holds a model.py");
  }
  PN_TRY(std::string text, files.read(path));
  PN_TRY(SourceBuffer source, SourceBuffer::checked(path, std::move(text)));
  return capture_model(std::move(source), nullptr, options);
}

std::optional<Diagnostic> unusable(const CapturedSample& sample) {
  constexpr std::array<std::string_view, 6> kUnusable = {
      "sample.variant_missing", "sample.variant_unreadable",  "sample.no_model",
      "sample.no_weight_meta",  "capture.input_without_meta", "ops.bad_arguments"};
  for (const Diagnostic& finding : sample.findings) {
    if (finding.severity != Severity::kError) continue;
    if (std::find(kUnusable.begin(), kUnusable.end(), finding.code) == kUnusable.end()) continue;
    Diagnostic error = finding;
    if (error.hint.empty() && error.code == "ops.bad_arguments") {
      error.hint = "correct the shapes in weight_meta.py, or this line of the model";
    }
    if (error.hint.empty()) error.hint = "write a class for it, with name, shape and dtype";
    return error;
  }
  return std::nullopt;
}

Result<CapturedSample> capture_sample(FileSystem& files, const std::string& root, const std::string& device,
                                      int jobs) {
  PN_TRY(Sample sample, read_sample(files, root));
  CapturedSample out;
  out.name = sample.name;
  out.root = sample.root;
  out.findings = sample.findings;
  const size_t count = sample.variants.size();
  std::vector<std::optional<Result<Captured>>> captured(count);
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < count;) {
      CaptureOptions options;
      options.device = device;
      captured[i].emplace(capture_variant(files, sample.variants[i].dir, options));
    }
  };
  {
    std::vector<std::jthread> threads;
    const size_t wanted = std::min<size_t>(count, static_cast<size_t>(std::max(1, jobs)));
    for (size_t t = 1; t < wanted; ++t) threads.emplace_back(work);
    work();
  }
  for (size_t i = 0; i < count; ++i) {
    Result<Captured>& result = *captured[i];
    const Variant& variant = sample.variants[i];
    if (!result.ok()) {
      Diagnostic error = std::move(result).error();
      if (error.file.empty()) error.file = variant.model_path();
      return error;
    }
    for (Diagnostic& finding : result->findings) out.findings.push_back(std::move(finding));
    if (result->graphs.empty()) {
      out.findings.push_back(
          user_error("capture.no_graph",
                     fmt::format("{} computes nothing: there is no graph to match", variant.label))
              .at(variant.model_path())
              .with_hint("a model that only returns its inputs cannot be matched by any pass"));
    }
    CapturedVariant captured_variant;
    captured_variant.name = variant.label;
    captured_variant.dtype = dtype_of(variant, result->graphs);
    captured_variant.graphs = std::move(result->graphs);
    out.variants.push_back(std::move(captured_variant));
    out.dirs.push_back(variant.dir);
  }
  return out;
}

}  // namespace passnet
