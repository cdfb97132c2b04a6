#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "ir/graph.h"
#include "plan/archetypes.h"
#include "plan/machine.h"
#include "plan/pass_specs.h"
#include "plan/region.h"
#include "plan/regions.h"

namespace passnet {

/// One variant of a sample as captured: one graph per dynamo graph, in call order.
struct CapturedVariant {
  std::string name;  ///< "float16/0"
  DType dtype = DType::kFloat32;
  std::vector<Graph> graphs;
};

struct PlanOptions {
  RegionLimits limits;
  size_t width = 1024;   ///< partial solutions of the choice (choose.h)
  size_t attempts = 16;  ///< choices made anew after a pass turned out not to be usable
  bool products = true;  ///< false: convolutions, linear and attention stay in the library (the narrower try)
  bool ceiling = true;   ///< also compute the legal ceiling
  std::map<std::string, Refusal>
      refused;  ///< passes (PassSpec::key) that a pre-flight or an evaluation refused
};

/// Predicted times of one variant in microseconds, the harness's own share included on both sides.
struct VariantPrediction {
  std::string name;
  double eager_us = 0;
  double unchanged_us = 0;                             ///< compiled with no pass applied
  double floor_us = 0, upside_us = 0, ceiling_us = 0;  ///< 0: there is no such state
  double floor_device_us = 0, upside_device_us = 0;    ///< what the device is predicted to work of that
  size_t floor_matches = 0, upside_matches = 0;
};

/// A list of passes in order of application, and what it is predicted to do.
struct PlanState {
  std::vector<PassSpec> passes;
  std::vector<std::string> descriptions;  ///< by pass
  double gmean_speedup = 0;               ///< predicted, over the variants; 0 without passes
};

/// One line of the region table.
struct RegionRow {
  size_t graph_class = 0;
  std::string description;
  Region::Kind kind = Region::Kind::kKernel;
  std::vector<std::string> nodes, inputs;  ///< names in the first graph of the class
  std::string root;
  std::vector<std::string> operators;
  Verdict verdict;            ///< over all graphs of the class
  ScheduleEstimate estimate;  ///< in the first graph
  double eager_host_us = 0;   ///< host time of the calls that go away, in the first graph
  double call_host_us = 0;    ///< and of the call that comes
  double gmean_us = 0;  ///< compiled time with this region alone, geometric mean over the class; 0 if refused
  bool copies_view = false;
  bool in_floor = false, in_upside = false, in_ceiling = false;
};

struct PlanResult {
  PlanState floor, upside;
  std::vector<VariantPrediction> variants;
  double gmean_ceiling = 0;  ///< speedup of the best legal choice with perfect kernels
  std::vector<RegionRow> regions;
  std::vector<Refusal> blocked;            ///< what keeps the upside from the ceiling, a reason a region
  std::vector<ArchetypeMatch> archetypes;  ///< by priority
  std::vector<Diagnostic> findings;
  std::string strategy;    ///< a paragraph for a person
  bool exhaustive = true;  ///< every legal set of regions was considered
  size_t graph_classes = 0;
};

/// Plans one sample: regions, floor, upside, ceiling. Graphs must have metadata on their nodes. Without any
/// legal region the states are empty and a finding `plan.no_region` names each graph. Does not fail.
PlanResult plan_sample(const std::vector<CapturedVariant>& variants, const Profile& profile,
                       const ScheduleOracle& oracle, const PlanOptions& options = {});

}  // namespace passnet
