#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"

namespace passnet::check {

// A pattern as Python that builds it by hand, which matches every way of writing a call.
struct PatternText {
  std::string definition;         // from `def pattern():` to `pattern = pattern()`, two empty lines between
  std::set<std::string> modules;  // what it needs imported besides inspect and torch
  std::vector<std::string> parameters;
};

// `names` by node id: Python names, each once. Errors: "pattern.target" (a function that a pass file may not import),
// "pattern.get_attr".
Result<PatternText> pattern_text(const Graph& pattern, const std::string& title,
                                 const std::vector<std::string>& names);

// The statement that builds one node.
Result<std::string> node_text(const Node& node, const std::vector<std::string>& names,
                              std::set<std::string>& modules);

}  // namespace passnet::check
