#pragma once

#include <map>
#include <vector>

#include "plan/cost.h"
#include "plan/regions.h"
#include "plan/structure.h"

namespace passnet {

/// What one region is in one graph: legal, lowered, scheduled, and its price.
struct Assessment {
  Verdict verdict;
  ScheduleEstimate estimate;  ///< of the generated kernel (kKernel), or of a perfect one
  CallCost cost;
  bool copies_view = false;
};

/// Whether a product (convolution, linear, attention) is computed inside, rather than left to the library.
bool has_product(const GraphFacts& facts, const Region& region);

/// Judges regions in graphs, each only once. Lowering and the oracle are the expensive part.
class Assessor {
 public:
  Assessor(const std::vector<Instance>& instances, const Profile& profile, const ScheduleOracle& oracle)
      : instances_(&instances), profile_(&profile), oracle_(&oracle) {}

  /// `region.inputs` in the order of the kernel's arguments. The memory belongs to the assessor.
  const Assessment& assess(size_t instance, const Region& region);
  /// The same region with a perfect kernel: legality and the cost of moving each byte once.
  Assessment assess_ideal(size_t instance, const Region& region) const;

 private:
  using Key = std::tuple<size_t, Region::Kind, std::vector<NodeId>, std::vector<NodeId>>;
  const std::vector<Instance>* instances_;
  const Profile* profile_;
  const ScheduleOracle* oracle_;
  std::map<Key, Assessment> done_;
};

}  // namespace passnet
