#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "plan/facts.h"
#include "plan/machine.h"
#include "plan/region.h"

namespace passnet {

/// The queue: two clocks. For each call h += host; for a call that launches, d = max(d, h + latency) +
/// device; the time is max(h, d) + sync. Seen from its end a sequence of calls is the pair of what is still
/// to come after a given h and after a given d, so that a search from the last node to the first costs each
/// prefix exactly.
struct QueueTail {
  double after_host = 0;    ///< the end lies at least this long after the host clock
  double after_device = 0;  ///< and at least this long after the device clock

  /// This tail with one more call in front of it.
  QueueTail before(const CallCost& call, const Profile& profile) const;
  /// End of a sequence whose clocks start at h = d = 0 and h = `host_start`.
  double total(double host_start, const Profile& profile) const;
};

/// One timed call of eager (`calls` in order): microseconds, the harness's own share included.
double eager_time_us(std::span<const CallCost> calls, const Profile& profile);
/// The same for the compiled path: the fixed tax comes on top.
double compiled_time_us(std::span<const CallCost> calls, const Profile& profile);
double eager_time_us(const QueueTail& tail, const Profile& profile);
double compiled_time_us(const QueueTail& tail, const Profile& profile);

/// Calls of a whole graph in eager.
std::vector<CallCost> eager_calls(const GraphFacts& facts);

/// Cost of the wrapper call that a region becomes. `tensors`: tensor arguments; `outputs`: tensors allocated;
/// `tflops`: rate at which the estimate's flops are done.
CallCost wrapper_cost(Region::Kind kind, const ScheduleEstimate& estimate, int tensors, int outputs,
                      double tflops, const Profile& profile);
inline constexpr std::string_view kIdealSchedule = "ideal";
/// A perfect kernel: one launch that reads each input and writes each output once.
ScheduleEstimate ideal_estimate(const GraphFacts& facts, const Region& region);
/// Rate at which a region's kernel does its flops, most of which are its products'; `matrix_units`: its
/// schedule uses them; `perfect`: as the library does at its best.
double region_tflops(const GraphFacts& facts, const Region& region, bool matrix_units, bool perfect,
                     const Profile& profile);

}  // namespace passnet
