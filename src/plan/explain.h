#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/json_fwd.h"

namespace passnet {

struct PlanResult;

/// Every reason that can keep a region from being replaced or the upside from its ceiling.
struct PlanReason {
  std::string_view code;
  std::string_view meaning;
  std::string_view remedy;  ///< what would have to change
};
/// The closed list: every code of a row's verdict, of `blocked` and of the walls is in it.
std::span<const PlanReason> plan_reasons();
const PlanReason* find_reason(std::string_view code);

/// The `plan` element of `analyze --json` and of solve's report.
Json to_json(const PlanResult& plan);
/// Tables for people: variants with predicted times, regions (refused ones only if `refused`), what blocks,
/// strategy.
std::string to_text(const PlanResult& plan, bool refused = false);
/// The region table alone, one line a region: for goldens.
std::string region_table_text(const PlanResult& plan, bool refused = true);
/// One paragraph: what kind of graph, what is fused, what is left, what to expect.
std::string strategy_text(const PlanResult& plan);

}  // namespace passnet
