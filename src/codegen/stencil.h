#pragma once

#include <optional>
#include <vector>

#include "codegen/space.h"

// Windows that slide over a tensor: loads of one buffer whose offsets differ by constants, as a depthwise convolution
// has them. Several neighbouring results computed by one lane share most of what they load.

namespace passnet::codegen {

// A window is one only from this many loads on. 3x3 taps one by one: 9.3 us in blocks of 256 against 13.4 in blocks of
// 1024.
inline constexpr size_t kStencilLoads = 8;

struct Window {
  int32_t buffer = -1;
  std::vector<IndexId> offsets;  // different ones, equal but for their constants
};

// The windows among the loads of these values.
std::vector<Window> windows_of(const ValueGraph& graph, const IndexPool& pool,
                               const std::set<ValueId>& values);

// The steps of sums over windows in the order in which memory is walked: each element is loaded, goes into every sum that
// it is part of, and is done with. One sum after the other would keep whole windows in registers.
std::vector<ValueId> walked_in_order(const ValueGraph& graph, const IndexPool& pool,
                                     const std::set<ValueId>& values);

// How a space is spread: `results` positions of the last axis but one in the registers of a lane, `cols` lanes along
// the last axis, `planes` positions of all axes before them.
struct StencilShape {
  int64_t results = 1, cols = 1, planes = 1;
  int num_warps = 1;
};

// Nothing where no window overlaps itself enough, or where too few programs would be left.
std::optional<StencilShape> stencil_shape(const Trial& trial);

}  // namespace passnet::codegen
