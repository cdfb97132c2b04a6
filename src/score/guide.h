#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace passnet::score {

// What the decision guide looks at. Empty: not measured, and no row that needs it speaks.
struct GuideFacts {
  std::optional<double> eager_us;       // end to end
  std::optional<double> nodes_us;       // sum over the nodes
  std::optional<int> cheap_nodes;       // matchable nodes that are cheap
  std::optional<double> heavy_share;    // of the most expensive node, in eager's time
  std::optional<bool> heavy_matchable;  // by a function pattern
  std::optional<bool> heavy_is_conv, heavy_is_library, conv_disjoint;
  std::optional<double> speedup_e2e, speedup_gpu;
  std::optional<int> dtypes_failing, dtypes_total;
  std::optional<bool> timed_out, fluctuation, others_correct;
};

struct GuideRow {
  std::string_view id, signal, diagnosis, action;
  bool (*applies)(const GuideFacts& f);
};

std::span<const GuideRow> decision_guide();
std::vector<const GuideRow*> advice(const GuideFacts& facts);

}  // namespace passnet::score
