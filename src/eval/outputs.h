#pragma once

#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "base/result.h"
#include "eval/eval.h"

namespace passnet::eval {

// The folder of a sample's run: --out, or --out/SAMPLE of several, or PASSNET_EVAL_OUTPUT, or the next free
// SAMPLE/.passnet/runs/<n>; with `resume` the newest of those.
Result<std::string> output_folder(FileSystem& files, const EvalOptions& options, const std::string& root,
                                  const std::string& name, bool several);

// The files of one run. Records are appended as they come and are the truth; everything else is made from them.
class Outputs {
 public:
  Outputs(FileSystem& files, std::string folder) : files_(&files), folder_(std::move(folder)) {}

  // Begins the run: an empty folder, or with `resume` the records that are there, a torn last line mended. Results of an
  // earlier run that could be taken for this one's are removed. `eval.out_exists` without `resume`.
  Result<std::vector<Json>> open(bool resume, Json head);
  Status add(const Json& record);
  // The log, the score and the closing state, once all records are there. Of several compilers the log and score of
  // `pass_mgr` or `passnet` have the public names, the others their own.
  Status close(const std::vector<Json>& records, const score::ScoreReport& scored, const Json& machine,
               const Json& worker, const Json& expected, double wall);

 private:
  std::string path(std::string_view name) const { return join_path(folder_, name); }

  FileSystem* files_;
  std::string folder_;
  Json head_;
};

}  // namespace passnet::eval
