#pragma once

#include <vector>

#include "base/diagnostic.h"
#include "pysrc/tree.h"

namespace passnet::check {

// The small language that a pass_dir may be written in under the strict rules, the same for listed files and
// helpers: named imports, functions, kernels, allocators, metadata of tensors, launches, and one kind of
// state (a cache of compiled kernels, bound functions and integers). One diagnostic a violation in source
// order, with the rule's remedy.
std::vector<Diagnostic> strict_violations(const pysrc::SyntaxTree& tree);

// What the run-time guard would stop, as far as it can be seen (`wrapper.operation`, a warning): computing
// methods in functions that are neither kernels nor patterns.
std::vector<Diagnostic> wrapper_findings(const pysrc::SyntaxTree& tree);

}  // namespace passnet::check
