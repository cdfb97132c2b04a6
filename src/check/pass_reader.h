#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "ir/graph.h"
#include "match/rewrite.h"
#include "pysrc/ast.h"

// A pass file read without running it: its pattern as the graph that the harness would match, and what
// replaces it.

namespace passnet::check {

struct ReadPass {
  enum class Form { kUnknown, kHandBuilt, kTraced };
  std::string name;
  Form form = Form::kUnknown;
  Graph pattern;
  std::vector<std::string> parameters;  // of the pattern's signature
  RewriteRule rule;
  // The object that replacement_func returns, by where it is defined:
  // "pass_dir._shared_kernels.dispatch_wrapper".
  std::string function;
  // The pattern and replacement_args were understood: matches can be computed.
  bool readable = false;
  bool run_elsewhere = false;  // the pattern comes from running the file in the worker
  // Broken rules (errors) and what was not understood (`check.not_interpreted`, a warning: nothing is proven
  // of it).
  std::vector<Diagnostic> findings;
};

// `stem` is the file's name without .py.
ReadPass read_pass(const std::string& stem, const pysrc::Module& module);

}  // namespace passnet::check
