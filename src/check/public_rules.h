#pragma once

#include <vector>

#include "base/diagnostic.h"
#include "pysrc/tree.h"

namespace passnet::check {

// The source rules of the public harness, to the letter: what it rejects is rejected with its message, and
// what it lets through passes. One diagnostic a violation, in its order: `source.import`,
// `source.from_import`, `source.alias`, `source.call`. The message is the public one, "Line N: blocked ...".
std::vector<Diagnostic> public_violations(const pysrc::SyntaxTree& tree);

}  // namespace passnet::check
