#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/plan.h"

namespace passnet {

/// What a list of passes does on one variant: for each pass the entries it needs there, and the programs of its
/// wrapper calls in the order in which they run.
struct Specialised {
  std::vector<std::vector<PassEntry>> entries;  ///< by pass; equal ones are not merged
  std::vector<std::vector<Json>>
      programs;                 ///< by pass, by call in execution order; null for zero-launch calls
  std::vector<size_t> matches;  ///< by graph
};

/// Applies the passes in order to the graphs of a variant that they were not written for (another size). Errors:
/// those of apply_pass and lower_region, and `specialise.no_match` if a graph is left without a match.
Result<Specialised> specialise(const std::vector<PassSpec>& passes, const CapturedVariant& variant);

/// The same passes with the entries of `at` in place of their own: what the generator writes for that variant alone.
std::vector<PassSpec> with_entries(const std::vector<PassSpec>& passes, Specialised at);

}  // namespace passnet
