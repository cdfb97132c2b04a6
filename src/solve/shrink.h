#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "plan/plan.h"
#include "sample/sample.h"

namespace passnet {

/// A variant made smaller so that it can be run without a GPU: an extent that large inputs share (the batch, as a
/// rule; then, where that is not enough, one of the other axes) is reduced. Everything else stays.
struct Shrunk {
  CapturedVariant variant;
  Json meta;  ///< per input {"shape": [...]}: the worker's overrides
  struct Change {
    int64_t from = 0, to = 0;  ///< the extent and what it became
  };
  std::vector<Change> changes;
  int64_t elements = 0;  ///< of all inputs, afterwards
};

/// Elements of all inputs.
int64_t input_elements(const std::vector<TensorSpec>& tensors);

/// The smallest change that brings the inputs to at most `elements`, found by trying: the model is captured again
/// with the smaller inputs and must give the same nodes. Where nothing gets so far, the smallest self that was found,
/// if it has at most `most`. Empty if nothing does.
std::optional<Shrunk> shrink_variant(const VariantFiles& files, const CapturedVariant& full, int64_t elements,
                                     int64_t most, const CaptureOptions& options);

}  // namespace passnet
