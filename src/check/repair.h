#pragma once

#include <optional>
#include <string>
#include <vector>

#include "check/pass_reader.h"
#include "ir/graph.h"
#include "match/matcher.h"
#include "pysrc/ast.h"

// What to change where a pattern does not match: the edit for one near miss, and the whole pattern rewritten as a graph
// built by hand in the forms that the captured graph has.

namespace passnet::check {

struct Repair {
  Graph pattern;  // with the pattern's own parameters
  std::vector<std::string>
      literals;  // "args[4] of layer_norm: 1e-05 -> 1e-06": values that the kernel may depend on
};

// The pattern in the captured graph's forms, at the place that needs the fewest literals changed; it is shown to match
// there. Nothing where the operations themselves differ, where a value inside is used outside, or where it matches as it is.
std::optional<Repair> repair_pattern(const ReadPass& pass, const Graph& graph);

// How to write what the near miss stumbled over: "write `x.sum(dim=-1)`" and the like.
std::string edit_for(const NearMiss& miss, const ReadPass& pass, const Graph& graph);

// The file with its pattern replaced by one built by hand. Errors: those of pattern_text, `repair.place` where the
// definition of pattern is not found at the top of the module.
Result<std::string> with_built_pattern(const pysrc::Module& module, const ReadPass& pass,
                                       const Repair& repair);
// The definition alone, for people to read.
Result<std::string> built_text(const ReadPass& pass, const Repair& repair);

}  // namespace passnet::check
