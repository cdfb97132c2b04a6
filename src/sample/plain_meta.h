#pragma once

#include <optional>
#include <vector>

#include "base/source.h"
#include "sample/weight_meta.h"

namespace passnet {

// Metadata as the extractor writes it, read without a syntax tree, which takes most of the time of a capture: classes
// `Program_...` of lines `name = literal`, strings without escapes, lists of numbers over any number of lines. Nothing for
// every other text, right or wrong: read_tensor_specs(parse_module(...)) reads it then, or says what is wrong.
std::optional<std::vector<TensorSpec>> read_plain_specs(const SourceBuffer& source);

}  // namespace passnet
