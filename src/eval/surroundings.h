#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "base/result.h"
#include "eval/eval.h"
#include "eval/plan.h"

namespace passnet::eval {

// In what the worker runs: an environment built from a list of names, private caches, the folder of device locks, and
// with bubblewrap a file system, processes and network of its own.
struct Surroundings {
  std::map<std::string, std::optional<std::string>> env;
  std::vector<std::string> argv;  // empty: the worker's own command line
  std::string lock_dir;
  std::string level;              // "process" or "bwrap"
  Json sandbox = Json::object();  // for each child
};

Result<Surroundings> surroundings(FileSystem& files, const EvalOptions& options, const Plan& plan,
                                  const std::string& scratch);

// Whether a variable of this name reaches the worker.
bool environment_allowed(std::string_view name);

}  // namespace passnet::eval
