#include "solve/shrink.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace passnet {
namespace {

// An extent to be reduced: where it leads a shape (batches, as a rule), where it stands further inside, or both at once.
enum class Place { kLeading, kInner, kAnywhere };

struct Axis {
  int64_t extent = 0;
  Place place = Place::kLeading;
  // Vectors are weights: they have no leading axis of their own.
  bool holds(const TensorSpec& t, size_t axis) const {
    if (t.shape[axis] != extent) return false;
    return place == Place::kAnywhere || (place == Place::kLeading) == (axis == 0 && t.shape.size() > 1);
  }
  // An inner axis of 1 would be broadcast where it was not before.
  int64_t least() const { return place == Place::kLeading ? 1 : 2; }
};

// Batches first, and in each place the extent on most elements first.
std::vector<Axis> candidates(const std::vector<TensorSpec>& tensors) {
  std::vector<Axis> out;
  for (const Place place : {Place::kLeading, Place::kInner, Place::kAnywhere}) {
    std::map<int64_t, int64_t> weight;
    for (const TensorSpec& t : tensors) {
      for (size_t axis = 0; axis < t.shape.size(); ++axis) {
        if (t.shape[axis] >= 2 && Axis{t.shape[axis], place}.holds(t, axis))
          weight[t.shape[axis]] += input_elements({t});
      }
    }
    std::vector<std::pair<int64_t, int64_t>> order;
    for (const auto& [extent, elements] : weight) order.emplace_back(elements, extent);
    std::sort(order.rbegin(), order.rend());
    for (const auto& [elements, extent] : order) out.push_back({extent, place});
  }
  return out;
}

std::vector<TensorSpec> with_extent(const std::vector<TensorSpec>& tensors, const Axis& axis, int64_t to) {
  std::vector<TensorSpec> out = tensors;
  for (TensorSpec& t : out) {
    if (t.has_data()) continue;
    for (size_t k = 0; k < t.shape.size(); ++k) {
      if (axis.holds(t, k)) t.shape[k] = to;
    }
  }
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

namespace {

// The variant with other inputs, if it is the same graph then.
std::optional<Shrunk> captured_with(const VariantFiles& files, const CapturedVariant& full,
                                    const std::vector<TensorSpec>& tensors, const CaptureOptions& options) {
  const std::vector<InputMeta> inputs = input_metas(tensors);
  Result<Captured> captured = capture_model(files.model, &inputs, options);
  if (!captured.ok()) return std::nullopt;
  const bool clean = std::none_of(captured->findings.begin(), captured->findings.end(),
                                  [](const Diagnostic& d) { return d.severity == Severity::kError; });
  if (!clean || !same_structure(full.graphs, captured->graphs)) return std::nullopt;
  Shrunk out;
  out.variant.name = full.name;
  out.variant.dtype = full.dtype;
  out.variant.graphs = std::move(captured->graphs);
  out.elements = input_elements(tensors);
  out.meta = Json::object();
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].shape != files.tensors[i].shape) out.meta[tensors[i].name] = {{"shape", tensors[i].shape}};
  }
  return out;
}

}  // namespace

std::optional<Shrunk> shrink_variant(const VariantFiles& files, const CapturedVariant& full, int64_t elements,
                                     int64_t most, const CaptureOptions& options) {
  std::optional<Shrunk> best;
  std::vector<TensorSpec> tensors = files.tensors;
  std::vector<Shrunk::Change> changes;
  for (const Axis& axis : candidates(files.tensors)) {
    // Large to small, so that as much of the real size is run as time allows; the smallest one is the ground for the
    // next axis.
    std::vector<TensorSpec> least;
    int64_t to = 0;
    for (int64_t smaller = axis.extent / 2; smaller >= axis.least();
         smaller = smaller > 2 ? smaller / 2 : smaller - 1) {
      std::vector<TensorSpec> trial = with_extent(tensors, axis, smaller);
      // Not worth it: a vector of weights, say, and no tensor at all where all have data.
      if (smaller == axis.extent / 2 && 8 * input_elements(trial) > 7 * input_elements(tensors)) break;
      auto found = captured_with(files, full, trial, options);
      if (!found) continue;
      found->changes = changes;
      found->changes.push_back({axis.extent, smaller});
      if (found->elements <= elements) return found;
      if (found->elements <= most && (!best || found->elements < best->elements)) best = std::move(*found);
      least = std::move(trial);
      to = smaller;
    }
    if (to == 0) continue;
    tensors = std::move(least);
    changes.push_back({axis.extent, to});
  }
  return best;
}

}  // namespace passnet
