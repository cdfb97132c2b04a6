#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/files.h"
#include "plan/machine.h"
#include "score/expected.h"
#include "solve/solve.h"

namespace passnet {

/// What the planner expects of samples and of passes, for the evaluation to set beside what it measures.
///
/// The legal ceiling is the sample's and holds whatever the passes are. A prediction belongs to bytes: it is given only
/// where the planner, asked again, writes exactly these files as its floor or its upside, passes that a pre-flight refused
/// left out; passes that somebody edited have none. Samples are captured and planned once each; what cannot be
/// captured has no expectations.
class Expectations {
 public:
  Expectations(FileSystem& files, const Profile& profile, std::string device)
      : files_(&files), profile_(&profile), device_(std::move(device)) {}

  /// `passes`: name to content of a pass_dir; empty: only what holds without any.
  score::ExpectedOfSample of(const std::string& root, const std::map<std::string, std::string>& passes);

 private:
  struct Known {
    std::vector<CapturedVariant> variants;
    PlanResult plan;
  };
  const Known* known(const std::string& root);

  FileSystem* files_;
  const Profile* profile_;
  std::string device_;
  std::map<std::string, std::optional<Known>> known_;
};

}  // namespace passnet
