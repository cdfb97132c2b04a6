#include "solve/shrink.h"

#include <algorithm>
#include <map>

namespace passnet {
namespace {

// Leading extents of inputs, the one on most elements first: batches are leading.
std::vector<int64_t> candidates(const std::vector<TensorSpec>& tensors) {
  std::map<int64_t, int64_t> weight;
  for (const TensorSpec& t : tensors) {
    if (t.shape.empty() || t.shape[0] < 2) continue;
    int64_t numel = 1;
    for (const int64_t extent : t.shape) numel *= extent;
    weight[t.shape[0]] += numel;
  }
  std::vector<std::pair<int64_t, int64_t>> order;
  for (const auto& [extent, elements] : weight) order.emplace_back(elements, extent);
  std::sort(order.rbegin(), order.rend());
  std::vector<int64_t> out;
  for (const auto& [elements, extent] : order) out.push_back(extent);
  return out;
}

// The same operators in the same order with the same arguments, and every value of the same rank.
bool same_structure(const std::vector<Graph>& a, const std::vector<Graph>& b) {
  if (a.size() != b.size()) return false;
  for (size_t g = 0; g < a.size(); ++g) {
    if (a[g].size() != b[g].size()) return false;
    for (size_t n = 0; n < a[g].size(); ++n) {
      const Node& x = *a[g].nodes()[n];
      const Node& y = *b[g].nodes()[n];
      if (x.op != y.op || x.target != y.target || !(x.args == y.args) || x.kwargs.size() != y.kwargs.size())
        return false;
      if (x.meta.kind != y.meta.kind) return false;
      if (x.meta.is_tensor() &&
          (x.meta.tensor.dim() != y.meta.tensor.dim() || x.meta.tensor.dtype != y.meta.tensor.dtype)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

int64_t input_elements(const std::vector<TensorSpec>& tensors) {
  int64_t sum = 0;
  for (const TensorSpec& t : tensors) {
    int64_t numel = 1;
    for (const int64_t extent : t.shape) numel *= extent;
    sum += numel;
  }
  return sum;
}

std::optional<Shrunk> shrink_variant(const VariantFiles& files, const CapturedVariant& full, int64_t elements,
                                     const CaptureOptions& options) {
  for (const int64_t extent : candidates(files.tensors)) {
    // Large to small, so that as much of the real size is run as time allows.
    for (int64_t smaller = extent / 2; smaller >= 1; smaller = smaller > 2 ? smaller / 2 : smaller - 1) {
      std::vector<TensorSpec> tensors = files.tensors;
      Json meta = Json::object();
      for (TensorSpec& t : tensors) {
        if (t.shape.empty() || t.shape[0] != extent || t.has_data()) continue;
        t.shape[0] = smaller;
        meta[t.name] = {{"shape", t.shape}};
      }
      if (input_elements(tensors) > elements || meta.empty()) continue;
      const std::vector<InputMeta> inputs = input_metas(tensors);
      Result<Captured> captured = capture_model(files.model, &inputs, options);
      if (!captured.ok()) continue;
      const bool clean = std::none_of(captured->findings.begin(), captured->findings.end(),
                                      [](const Diagnostic& d) { return d.severity == Severity::kError; });
      if (!clean || !same_structure(full.graphs, captured->graphs)) continue;
      Shrunk out;
      out.variant.name = full.name;
      out.variant.dtype = full.dtype;
      out.variant.graphs = std::move(captured->graphs);
      out.meta = std::move(meta);
      out.from = extent;
      out.to = smaller;
      return out;
    }
  }
  return std::nullopt;
}

}  // namespace passnet
