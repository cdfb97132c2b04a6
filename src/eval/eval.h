#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/diagnostic.h"
#include "base/files.h"
#include "base/json.h"
#include "base/result.h"
#include "score/expected.h"
#include "score/report.h"
#include "worker/worker.h"

// The evaluator's driver. It decides what is measured and by which rules, hands the judged bytes of the passes to the
// worker, and alone writes results: a record a variant and compiler as they come, the public log and the scores at the
// end. The worker's clean parent starts a child per variant and bounds it (python/passnet/worker/eval_server.py).

namespace passnet::eval {

enum class Protocol { kPublic, kStrict };

// What a variant is compiled with. `name` is what records and tables call it.
struct CompilerSpec {
  std::string name;
  std::string kind;      // of python/passnet/worker/compilers.py
  std::string pass_dir;  // of pass_mgr; empty: the sample's own
};

struct EvalOptions {
  std::vector<std::string> samples;  // sample directories, or folders of them
  std::vector<CompilerSpec> compilers;
  std::string out;  // empty: SAMPLE/.passnet/runs/<n>
  std::string device = "cuda";
  Protocol protocol = Protocol::kPublic;
  bool strict_rules = false;  // source rules of the passes; the strict protocol asks for them
  bool interleave = false;
  bool resume = false;
  int shard = 0, shards = 1;      // by sample
  std::vector<std::string> only;  // variants whose label is one of these; empty: all
  int slots = 1;
  bool entry = false;  // the sample's own entry.sh instead of our worker
  std::string isolation = "fork";
  std::string sandbox = "auto";  // auto, none, bwrap
  double variant_seconds = 300, sample_seconds = 600;
  int warmup = 25, trials = 100;
  int repeat = 1;  // evaluations of every variant, each in a child of its own; the second is called LABEL#2
  // Children time while others use the device: for verdicts alone, quicker by far. The times are comparable
  // with nothing.
  bool side_by_side = false;
  double memory_bytes = 0;
  double time_limit = 0;  // seconds of the whole run after which nothing more is started; 0: none
  std::optional<std::pair<std::string, std::string>> compare;  // names of two compilers
  // Layers of integrity left out, to test the others: source, graph, plain, kept, audit, outputs.
  std::vector<std::string> without;
  std::string command;  // for run.json
};

// Children and bytes at once on a machine of so many cores, by the device of the options.
void take_defaults(EvalOptions& options, int cores);

// Where a run's files go, and what it came to.
struct EvalRun {
  std::string sample;  // name of the folder
  std::string out;
  std::vector<Json> records;  // in the order of the list, compilers within a variant
};

struct EvalReport {
  std::vector<EvalRun> runs;  // one a sample
  score::ScoreReport score;   // over all records
  Json machine = Json::object();
  Json worker = Json::object();  // isolation, proof, seconds
  std::vector<Diagnostic> findings;
  std::string out;     // the folder of all, where several samples were evaluated
  size_t resumed = 0;  // records that an earlier run had made
  double seconds = 0;
  bool complete = true;  // every variant has its records
};

struct EvalContext {
  FileSystem& files;
  Clock& clock;
  // Makes the worker: environment changes and, with a sandbox, a command line. Called again after it died.
  std::function<std::unique_ptr<Worker>(const WorkerOptions&)> worker;
  std::function<void(std::string_view)> progress;
  // What the planner expects of the variants of the sample at `root` and of these passes (name to content, empty for none). May
  // be null. Asked on a thread of its own while the worker starts.
  std::function<score::ExpectedOfSample(const std::string& root,
                                        const std::map<std::string, std::string>& passes)>
      expect;
};

// Errors: those of reading the samples and passes, `eval.out_exists` (a folder of another run), `eval.nothing`
// (no variant is left to measure), and those of the worker that no retry mends. What is wrong with a variant is its record.
Result<EvalReport> evaluate(EvalContext& context, const EvalOptions& options);

Json to_json(const EvalReport& report);
std::string to_text(const EvalReport& report);

}  // namespace passnet::eval
