#pragma once

#include "base/json_fwd.h"
#include "check/pass_reader.h"

namespace passnet::check {

// A pass as the worker's trace command has it: the file was run, its pattern traced by torch. What is wrong with it is
// among the findings, as if it had been read.
ReadPass traced_pass(const Json& entry);

// The array programs of every call that the passes leave in the graphs of a variant, for the smoke command: by pass, by
// call in execution order; null where an operator of the region has no lowering.
struct Variant;
Json reference_programs(const std::vector<ReadPass>& passes, const Variant& variant);

}  // namespace passnet::check
