#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "plan/plan.h"
#include "sample/sample.h"

namespace passnet {

/// A variant made smaller so that it can be run without a GPU: one extent that all large inputs share (the batch,
/// as a rule) is reduced. Everything else stays.
struct Shrunk {
  CapturedVariant variant;
  Json meta;                 ///< per input {"shape": [...]}: the worker's overrides
  int64_t from = 0, to = 0;  ///< the extent and what it became
};

/// Elements of all inputs.
int64_t input_elements(const std::vector<TensorSpec>& tensors);

/// The smallest change that brings the inputs to at most `elements`, found by trying: the model is captured again
/// with the smaller inputs and must give the same nodes, with results of the same shapes but for that extent. Empty
/// if nothing does.
std::optional<Shrunk> shrink_variant(const VariantFiles& files, const CapturedVariant& full, int64_t elements,
                                     const CaptureOptions& options);

}  // namespace passnet
