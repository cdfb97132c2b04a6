#pragma once

#include <vector>

#include "codegen/schedule.h"
#include "plan/region.h"

// Numbers of a planned kernel that may be changed without planning it again.

namespace passnet::codegen {

// What the plan has now, every number of its schedule filled in.
KernelConfig config_of(const KernelPlan& plan);

// Changes the plan: blocks, grid, warps, stages. A config of another schedule, and a zero, change nothing.
void configure(KernelPlan& plan, const KernelConfig& config);

// Others that may be faster, most promising first, each differing from the plan's in one or two numbers and within what a
// multiprocessor holds.
std::vector<KernelConfig> configurations(const KernelPlan& plan, size_t most);

}  // namespace passnet::codegen
