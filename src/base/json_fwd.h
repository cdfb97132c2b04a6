#pragma once

#include <nlohmann/json_fwd.hpp>

namespace passnet {

/// Object keys keep the order in which they were written, so that equal inputs give equal bytes.
using Json = nlohmann::ordered_json;

}  // namespace passnet
