#pragma once

#include <string>
#include <vector>

#include "plan/region.h"

// Passes built by hand, for the tests: each a pattern and, per element type, the arrays it means.

namespace passnet::codegen {

std::vector<PassSpec> test_passes();

}  // namespace passnet::codegen
