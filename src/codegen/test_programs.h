#pragma once

#include <string>
#include <vector>

#include "plan/region.h"

// Passes built by hand, for the tests: each a pattern and, per element type, the arrays it means.

namespace passnet::codegen {

// `large`: at sizes that fill a GPU, for timing.
std::vector<PassSpec> test_passes(bool large = false);

}  // namespace passnet::codegen
