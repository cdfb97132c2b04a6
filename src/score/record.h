#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "score/measured.h"

namespace passnet::score {

inline constexpr std::string_view kRecordSchema = "passnet.record/1";

// The facts of one record. `score.record` where it is none.
Result<Measured> measured_of(const Json& record);

// Adds what was expected of the variant: `expected` as it stands in run.json, {compiler or "": {variant: ...}}.
void attach_expected(Measured& measured, const Json& expected);

// A file of records, one a line. A last line that was torn off is left out and said in `torn`; any other line that is no
// record is `score.record`, with its number.
struct RecordFile {
  std::vector<Json> records;
  bool torn = false;
};
Result<RecordFile> parse_records(std::string_view text, std::string_view file);

// The block of a public log that says what the record says: the lines that a public parser reads, byte for byte.
struct LogStyle {
  std::string prompt = "graph-net-test-compiler-log";
};
std::string public_log_block(const Json& record, const LogStyle& style = {});

}  // namespace passnet::score
