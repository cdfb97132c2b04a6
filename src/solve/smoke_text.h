#pragma once

#include <string>

#include "base/json_fwd.h"

namespace passnet {

/// The first thing that went wrong in one variant's entry of the worker's reply to smoke, in words.
std::string smoke_failure(const Json& result);
/// The model itself fails on these inputs, or does not equal itself: that says nothing of the passes.
bool is_eagers_own(const Json& result);

}  // namespace passnet
