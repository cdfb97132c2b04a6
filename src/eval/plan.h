#pragma once

#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "base/result.h"
#include "eval/eval.h"
#include "eval/passes.h"

namespace passnet::eval {

// One variant to measure, with everything that its child is told.
struct Job {
  std::string id;  // SAMPLE/LABEL
  std::string sample, label, dir;
  int round = 0;     // of the run's repeats
  double bytes = 0;  // of its inputs; 0 where they cannot be read
  std::string key;   // hash of all that its records depend on: a resumed record counts only with the same
  Json request;      // for the worker
  std::vector<std::string> compilers;
};

struct PlannedSample {
  std::string name, root, out;
  std::vector<Job> jobs;
  std::string setting;                         // hash of what the keys of all its jobs begin with
  std::map<std::string, JudgedPasses> passes;  // by compiler
  std::map<std::string, Diagnostic>
      refused;  // compilers whose pass_dir is none: each variant's record says so
};

struct Plan {
  std::vector<PlannedSample> samples;
  std::vector<Diagnostic> findings;
};

// Reads samples and passes, applies the shard, and writes the judged copies of the passes below `scratch`.
Result<Plan> plan_run(FileSystem& files, const EvalOptions& options, const std::string& scratch);

// The key of a variant as it lies on the disk now.
Result<std::string> job_key(FileSystem& files, const std::string& setting, const std::string& dir);

}  // namespace passnet::eval
