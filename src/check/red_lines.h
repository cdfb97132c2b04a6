#pragma once

#include <vector>

#include "base/diagnostic.h"
#include "pysrc/tree.h"

namespace passnet::check {

// What no evaluation forgives, whatever rules it loads by: reaching torch past the source rules, switching the run-time
// guard off, reading or changing the harness, changing what others import. Code that does it counts as an attempt to
// evade, so that these are errors under both rule sets and in helpers too.
std::vector<Diagnostic> red_lines(const pysrc::SyntaxTree& tree);

}  // namespace passnet::check
