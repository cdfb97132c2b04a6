#include "eval/outputs.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include <fmt/format.h>

#include "base/strings.h"
#include "score/record.h"

namespace passnet::eval {
namespace {

constexpr std::string_view kRecords = "records.jsonl", kLog = "validation.log",
                           kScore = "aggregated_score.json", kRun = "run.json";

// The compiler whose log and score carry the public names.
std::string main_compiler(const score::ScoreReport& scored) {
  for (const char* name : {"pass_mgr", "passnet"})
    if (scored.find(name) != nullptr) return name;
  return scored.compilers.empty() ? std::string() : scored.compilers.front().compiler;
}

std::string safe_name(std::string_view name) {
  std::string out;
  for (const char c : name)
    out += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' ? c : '_';
  return out;
}

}  // namespace

Result<std::string> output_folder(FileSystem& files, const EvalOptions& options, const std::string& root,
                                  const std::string& name, bool several) {
  std::string base = options.out;
  if (base.empty()) {
    if (const char* env = std::getenv("PASSNET_EVAL_OUTPUT"); env != nullptr && *env != '\0') base = env;
  }
  if (!base.empty()) return several ? join_path(base, name) : base;
  const std::string runs = join_path(root, ".passnet/runs");
  long long newest = 0;
  if (files.is_directory(runs)) {
    PN_TRY(const std::vector<DirEntry> entries, files.list(runs));
    for (const DirEntry& entry : entries)
      if (const auto n = parse_int(entry.name)) newest = std::max(newest, *n);
  }
  return join_path(runs, std::to_string(options.resume && newest > 0 ? newest : newest + 1));
}

Result<std::vector<Json>> Outputs::open(bool resume, Json head) {
  head_ = std::move(head);
  PN_CHECK_OK(files_->make_directory(folder_));
  std::vector<Json> found;
  if (files_->is_file(path(kRecords))) {
    if (!resume)
      return user_error("eval.out_exists", "the folder holds the records of another run")
          .at(folder_)
          .with_hint("go on with it by --resume, or name an empty folder");
    PN_TRY(const std::string text, files_->read(path(kRecords), 4ull << 30));
    PN_TRY(score::RecordFile file, score::parse_records(text, path(kRecords)));
    if (file.torn) {
      std::string whole;
      for (const Json& r : file.records) whole += dump_json(r) + "\n";
      PN_CHECK_OK(files_->write(path(kRecords), whole));
    }
    found = std::move(file.records);
  }
  // A score that is left over must never be read as this run's.
  PN_TRY(const std::vector<DirEntry> entries, files_->list(folder_));
  for (const DirEntry& entry : entries) {
    if (entry.name.starts_with("aggregated_score") || entry.name.starts_with("validation"))
      PN_CHECK_OK(files_->remove_all(path(entry.name)));
  }
  PN_CHECK_OK(files_->write(path(kRun), dump_json(head_, 1) + "\n"));
  return found;
}

Status Outputs::add(const Json& record) { return files_->append(path(kRecords), dump_json(record) + "\n"); }

Status Outputs::close(const std::vector<Json>& records, const score::ScoreReport& scored, const Json& machine,
                      const Json& worker, const Json& expected, double wall) {
  const std::string main = main_compiler(scored);
  Json scores = Json::object();
  for (const score::CompilerScore& c : scored.compilers) {
    std::string log;
    for (const Json& r : records)
      if (r.value("compiler", "") == c.compiler) log += score::public_log_block(r);
    for (int t = score::kFirstT; t <= score::kLastT; ++t)
      log += fmt::format("  - ESt={:.3f} for tolerance={}.\n",
                         c.curve[static_cast<size_t>(t - score::kFirstT)], t);
    log += fmt::format("aggregated_speedup={}\n", c.score);
    const std::string suffix = c.compiler == main ? "" : "." + safe_name(c.compiler);
    PN_CHECK_OK(files_->write(path(fmt::format("validation{}.log", suffix)), log));
    PN_CHECK_OK(files_->write(path(fmt::format("aggregated_score{}.json", suffix)),
                              dump_json({{"id", 1}, {"score", c.score}}) + "\n"));
    scores[c.compiler] = {{"score", c.score},
                          {"public_score", c.public_score},
                          {"correct", c.correct},
                          {"variants", c.variants.size()}};
  }
  Json run = head_;
  run["state"] = "done";
  run["ended"] = iso_time(wall);
  run["machine"] = machine;
  run["worker"] = worker;
  run["expected"] = expected;
  run["scores"] = std::move(scores);
  return files_->write(path(kRun), dump_json(run, 1) + "\n");
}

}  // namespace passnet::eval
