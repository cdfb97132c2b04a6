#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "plan/plan.h"
#include "solve/evaluator.h"

namespace passnet {

/// One kernel of one pass with other numbers in all entries of that pass: one contender of a round.
struct Variation {
  size_t pass = 0, kernel = 0;
  size_t choice = 0;  ///< which of each entry's other configurations
  std::string name;   ///< of the contender: "t1", "t2", ...
};

/// The numbers that one entry is to have for one of its kernels.
struct Pin {
  size_t pass = 0, entry = 0, kernel = 0;
  KernelConfig from, to;
  Interval ratio;  ///< time of the present numbers over these, over the variants that use the entry
  size_t variants = 0;
};

/// Which kernels are worth it and what is measured of them; decided from the passes alone, so that equal passes give equal
/// rounds.
class TunePlan {
 public:
  /// Kernels whose predicted time on the device is so short that nothing of it would be seen are left alone; the longest
  /// come first. Errors: those of the generator.
  static Result<TunePlan> make(const std::vector<PassSpec>& passes,
                               const std::vector<CapturedVariant>& variants, const Profile& profile);

  /// Variations by round, each round one evaluation.
  const std::vector<std::vector<Variation>>& rounds() const { return rounds_; }
  /// The passes with one variation. Entries that have no such choice stay as they are.
  std::vector<PassSpec> with(const Variation& variation) const;
  /// What a round's evaluation says: per entry the best variation whose interval lies above 1 and that is right on every
  /// variant that uses the entry. `base` names the contender with the present numbers.
  std::vector<Pin> winners(const std::vector<Variation>& round, const Evaluation& evaluation,
                           std::string_view base) const;
  /// The passes with all pins.
  std::vector<PassSpec> with(const std::vector<Pin>& pins) const;

 private:
  struct Kernel {
    size_t pass = 0, entry = 0, kernel = 0;
    KernelConfig now;
    std::vector<KernelConfig> others;
  };
  std::vector<PassSpec> passes_;
  std::vector<Kernel> kernels_;
  std::vector<std::vector<std::vector<std::string>>> users_;  // by pass, by entry: names of variants
  std::vector<std::vector<Variation>> rounds_;
};

Json to_json(const KernelConfig& config);
Json to_json(const Pin& pin, const std::vector<PassSpec>& passes);

}  // namespace passnet
