#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "base/result.h"
#include "score/measured.h"

namespace passnet::eval {

// The public harness in place of our worker: runs the sample's own entry.sh with its output in `folder` and reads the log
// that it leaves as records, one a variant that the log holds. Errors: `eval.no_entry`, `eval.entry` (it left no log).
Result<std::vector<Json>> run_entry(FileSystem& files, const std::string& sample_root,
                                    const std::string& folder, Duration deadline);

// A record with what a log says of a variant; the rest of a record's fields stay out.
Json record_of(const score::Measured& measured);

}  // namespace passnet::eval
