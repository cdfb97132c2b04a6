#include "eval/eval.h"

#include <unistd.h>

#include <algorithm>
#include <future>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/scratch_folder.h"
#include "base/strings.h"
#include "eval/entry.h"
#include "eval/outputs.h"
#include "eval/plan.h"
#include "eval/surroundings.h"
#include "score/record.h"

namespace passnet::eval {
namespace {

constexpr int kServerAttempts = 3;

// What is still to be measured of a job, by compiler.
struct Pending {
  Job* job = nullptr;
  PlannedSample* sample = nullptr;
  std::set<std::string> left;
  int lost = 0;  // workers that died with it under way
};

class Evaluation {
 public:
  Evaluation(EvalContext& context, const EvalOptions& options) : context_(context), options_(options) {}

  Result<EvalReport> run() {
    const ScratchFolder scratch(context_.files, "passnet-eval-");
    if (scratch.path().empty())
      return user_error("eval.scratch", "no folder for temporary files could be made")
          .with_hint("set TMPDIR to a folder that can be written");
    started_ = context_.clock.monotonic();
    PN_TRY(plan_, plan_run(context_.files, options_, scratch.path()));
    report_.findings = plan_.findings;
    PN_CHECK_OK(open_outputs());
    std::future<std::vector<Json>> expected =
        std::async(std::launch::async, [this] { return expectations(); });
    PN_CHECK_OK(measure(scratch.path()));
    expected_ = expected.get();
    report_.seconds = std::chrono::duration<double>(context_.clock.monotonic() - started_).count();
    PN_CHECK_OK(close_outputs());
    return std::move(report_);
  }

 private:
  Status open_outputs() {
    for (PlannedSample& sample : plan_.samples) {
      PN_TRY(sample.out,
             output_folder(context_.files, options_, sample.root, sample.name, plan_.samples.size() > 1));
      Outputs& out = outputs_.emplace_back(context_.files, sample.out);
      PN_TRY(std::vector<Json> found, out.open(options_.resume, run_head(sample)));
      EvalRun& run = report_.runs.emplace_back(EvalRun{sample.name, sample.out, {}});
      for (Job& job : sample.jobs) {
        Pending p{&job, &sample, {job.compilers.begin(), job.compilers.end()}, 0};
        for (const Json& record : found) {
          if (record.value("key", "") != job.key || record.value("variant", "") != job.label) continue;
          // What the surroundings spoiled is measured again.
          const auto m = score::measured_of(record);
          if (!m.ok() || score::row(score::judge(*m, false).outcome).verdict == "infra_error") continue;
          if (p.left.erase(record.value("compiler", "")) > 0) {
            run.records.push_back(record);
            ++report_.resumed;
          }
        }
        total_ += job.compilers.size();
        for (const auto& [compiler, why] : sample.refused) {
          if (p.left.erase(compiler) == 0) continue;
          PN_CHECK_OK(take(
              p, failed_record(job, compiler, "load", "rejected_pass_dir", why.file + ": " + why.message)));
        }
        if (!p.left.empty()) pending_.push_back(std::move(p));
      }
    }
    // Everything once before anything twice: a run that is cut off has done all of it equally often.
    std::stable_sort(pending_.begin(), pending_.end(),
                     [](const Pending& a, const Pending& b) { return a.job->round < b.job->round; });
    done_ = report_.resumed;
    report_.out = plan_.samples.size() > 1 ? options_.out : plan_.samples.front().out;
    if (report_.resumed > 0)
      context_.progress(fmt::format("{} of {} records are there already", report_.resumed, total_));
    return ok_status();
  }

  Json run_head(const PlannedSample& sample) const {
    Json compilers = Json::array();
    for (const CompilerSpec& c : options_.compilers) {
      const auto it = sample.passes.find(c.name);
      compilers.push_back({{"name", c.name},
                           {"kind", c.kind},
                           {"pass_dir_hash", it == sample.passes.end() ? Json() : Json(it->second.hash)}});
    }
    return {{"schema", "passnet.eval_run/1"},
            {"state", "running"},
            {"sample", sample.name},
            {"started", iso_time(context_.clock.wall())},
            {"command", options_.command},
            {"protocol", options_.protocol == Protocol::kStrict ? "strict" : "public"},
            {"device", options_.device},
            {"warmup", options_.warmup},
            {"trials", options_.trials},
            {"repeat", options_.repeat},
            {"side_by_side", options_.side_by_side},
            {"shard",
             options_.shards > 1 ? Json(fmt::format("{}/{}", options_.shard + 1, options_.shards)) : Json()},
            {"compilers", compilers}};
  }

  // Of every sample, what the planner expects: {compiler that loads passes, "" for any other: {variant: ...}}.
  std::vector<Json> expectations() const {
    std::vector<Json> out;
    for (const PlannedSample& sample : plan_.samples) {
      Json& by_compiler = out.emplace_back(Json::object());
      if (!context_.expect) continue;
      const auto add = [&](const std::string& compiler, const std::map<std::string, std::string>& passes) {
        for (const auto& [variant, expected] : context_.expect(sample.root, passes))
          by_compiler[compiler][variant] = score::to_json(expected);
      };
      add("", {});
      for (const auto& [compiler, passes] : sample.passes) add(compiler, passes.files);
    }
    return out;
  }

  // The public harness, sample by sample. A variant that its log does not hold has a record that says so.
  Status measure_by_entry(const std::string& scratch) {
    for (const PlannedSample& sample : plan_.samples) {
      context_.progress(fmt::format("{}: entry.sh", sample.name));
      PN_TRY(std::vector<Json> records,
             run_entry(context_.files, sample.root, join_path(scratch, "entry-" + sample.name),
                       std::chrono::duration_cast<Duration>(
                           std::chrono::duration<double>(options_.sample_seconds))));
      for (Pending& p : pending_) {
        if (p.sample != &sample) continue;
        const auto found = std::find_if(records.begin(), records.end(), [&](const Json& r) {
          const std::string name = r.value("variant", "");
          return name == p.job->label || name.ends_with("/" + p.job->label);
        });
        Json record = found != records.end()
                          ? *found
                          : failed_record(*p.job, p.job->compilers.front(), "load", "load",
                                          "the log of entry.sh does not hold this variant");
        record["compiler"] = p.job->compilers.front();
        PN_CHECK_OK(take(p, std::move(record)));
        p.left.clear();
      }
    }
    pending_.clear();
    return ok_status();
  }

  Status measure(const std::string& scratch) {
    if (options_.entry) return measure_by_entry(scratch);
    while (!pending_.empty()) {
      WorkerOptions worker_options;
      PN_TRY(const Surroundings around, surroundings(context_.files, options_, plan_, scratch));
      worker_options.env = around.env;
      worker_options.argv = around.argv;
      const std::unique_ptr<Worker> worker = context_.worker(worker_options);
      WorkerRequest request;
      request.cmd = "evaluate_all";
      Json jobs = Json::array();
      for (const Pending& p : pending_) {
        Json job = p.job->request;
        Json wanted = Json::array();
        for (const Json& c : job["compilers"])
          if (p.left.contains(c["name"].get<std::string>())) wanted.push_back(c);
        job["compilers"] = std::move(wanted);
        job["lock_dir"] = around.lock_dir;
        if (options_.compare) job["options"]["compare"] = {options_.compare->first, options_.compare->second};
        jobs.push_back(std::move(job));
      }
      const double compilers = static_cast<double>(options_.compilers.size());
      request.arguments = {{"jobs", jobs},
                           {"options",
                            {{"slots", options_.slots},
                             {"isolation", options_.isolation},
                             {"variant_seconds", options_.variant_seconds * compilers},
                             {"group_seconds", options_.sample_seconds * compilers},
                             {"memory", options_.memory_bytes},
                             {"time_limit", time_left()},
                             {"sandbox_level", around.level},
                             {"sandbox", around.sandbox}}}};
      if (options_.side_by_side) request.arguments["options"]["side_by_side"] = true;
      under_way_.clear();
      Status failed_write = ok_status();
      request.on_event = [&](const Json& event) {
        if (failed_write.ok()) failed_write = on_event(event);
      };
      context_.progress(fmt::format("starting the worker for {} variants", pending_.size()));
      auto reply = worker->call(request);
      PN_CHECK_OK(std::move(failed_write));
      std::erase_if(pending_, [](const Pending& p) { return p.left.empty(); });
      if (reply.ok()) {
        report_.worker = *reply;
        if (reply->contains("machine") && (*reply)["machine"].is_object())
          report_.machine = (*reply)["machine"];
        // Which processors were set apart belongs to what a run's times were taken on.
        if (reply->contains("cores")) report_.machine["processors"] = (*reply)["cores"];
        const Json unmeasured = reply->value("unmeasured", Json::array());
        for (const Json& id : unmeasured) {
          std::erase_if(pending_, [&](const Pending& p) { return p.job->id == id; });
          report_.findings.push_back(
              user_warning("eval.unmeasured",
                           fmt::format("{}: the time limit came first", id.get<std::string>()))
                  .with_hint("go on by --resume"));
        }
        if (!pending_.empty())
          return internal_error("eval.lost_jobs", fmt::format("the worker ended without an answer for {}",
                                                              pending_.front().job->id));
        break;
      }
      PN_CHECK_OK(after_death(reply.error()));
    }
    return ok_status();
  }

  // What is left of the run's time limit, at least a second; 0: no limit.
  double time_left() const {
    if (options_.time_limit <= 0) return 0;
    return std::max(1.0, options_.time_limit -
                             std::chrono::duration<double>(context_.clock.monotonic() - started_).count());
  }

  // The worker itself died, or could not start. Jobs that were under way are tried again, a few times.
  Status after_death(const Diagnostic& error) {
    const auto failure = worker_failure(error);
    if (failure != WorkerFailure::kDied && failure != WorkerFailure::kTimeout &&
        failure != WorkerFailure::kProtocol)
      return error;
    ++deaths_;
    report_.findings.push_back(
        user_warning("eval.worker_died", fmt::format("the worker was started again: {}", error.message)));
    context_.progress(fmt::format("the worker ended ({}); starting it again", error.message));
    if (under_way_.empty() && deaths_ >= kServerAttempts) return error;
    for (Pending& p : pending_) {
      if (!under_way_.contains(p.job->id) || ++p.lost < kServerAttempts) continue;
      for (const std::string& compiler : p.left) {
        PN_CHECK_OK(take(p, failed_record(*p.job, compiler, "process", "worker_died", error.message)));
      }
      p.left.clear();
    }
    std::erase_if(pending_, [](const Pending& p) { return p.left.empty(); });
    return ok_status();
  }

  // A record of what never came to run.
  Json failed_record(const Job& job, const std::string& compiler, std::string_view failed_in,
                     std::string_view code, std::string_view message) const {
    std::string kind = compiler;
    for (const CompilerSpec& c : options_.compilers)
      if (c.name == compiler) kind = c.kind;
    return {{"schema", score::kRecordSchema},
            {"sample", job.sample},
            {"variant", job.label},
            {"path", job.dir},
            {"compiler", compiler},
            {"kind", kind},
            {"status", "failed"},
            {"failed_in", failed_in},
            {"device", options_.device},
            {"warmup", options_.warmup},
            {"trials", options_.trials},
            {"hardware", nullptr},
            {"error", {{"code", code}, {"message", message}, {"type", ""}, {"traceback", ""}}}};
  }

  Status on_event(const Json& event) {
    const std::string id = event.value("job", "");
    if (event.value("phase", "") == "started") under_way_.insert(id);
    if (!event.contains("records")) return ok_status();
    for (Pending& p : pending_) {
      if (p.job->id != id) continue;
      for (const Json& record : event["records"]) {
        if (!p.left.contains(record.value("compiler", ""))) continue;
        PN_CHECK_OK(take(p, record));
        p.left.erase(record.value("compiler", ""));
      }
      if (p.left.empty()) under_way_.erase(id);
    }
    return ok_status();
  }

  // One record, written before anything else is made of it.
  Status take(const Pending& p, Json record) {
    record["sample"] = p.job->sample;
    record["variant"] = p.job->label;
    record["key"] = p.job->key;
    if (record.value("dtype", Json()).is_null()) {
      for (const char* dtype : {"bfloat16", "float16", "float32", "float64"})
        if (("/" + p.job->label + "/").find(fmt::format("/{}/", dtype)) != std::string::npos) {
          record["dtype"] = dtype;
          break;
        }
    }
    PN_TRY(const score::Measured measured, score::measured_of(record));
    const score::Judged judged = score::judge(measured, false);
    const score::OutcomeRow& row = score::row(judged.outcome);
    record["verdict"] = row.verdict;
    record["outcome"] = row.name;
    record["evidence"] = judged.evidence;
    const size_t index = static_cast<size_t>(p.sample - plan_.samples.data());
    PN_CHECK_OK(outputs_[index].add(record));
    ++done_;
    context_.progress(fmt::format("[{}/{}] {} {}: {}{}", done_, total_, p.job->id, measured.compiler,
                                  row.name,
                                  judged.speedup            ? fmt::format(", {:.3f}", *judged.speedup)
                                  : judged.evidence.empty() ? std::string()
                                                            : ": " + judged.evidence.front().substr(0, 160)));
    report_.runs[index].records.push_back(std::move(record));
    return ok_status();
  }

  // Whether the samples are what they were when the run began: a pass may have had the right to write them.
  void look_again() {
    for (const PlannedSample& sample : plan_.samples) {
      for (const Job& job : sample.jobs) {
        const auto now = job_key(context_.files, sample.setting, job.dir);
        if (now.ok() && *now == job.key) continue;
        report_.complete = false;
        report_.findings.push_back(
            user_error("eval.sample_changed", fmt::format("{} was changed during the run", job.id))
                .at(job.dir)
                .with_hint("its records say nothing: restore the sample, and look at what the passes write"));
      }
    }
  }

  // Logs and scores of every sample, from the records alone.
  Status close_outputs() {
    std::vector<score::Measured> all;
    look_again();
    for (size_t i = 0; i < plan_.samples.size(); ++i) {
      const PlannedSample& sample = plan_.samples[i];
      std::vector<Json>& records = report_.runs[i].records;
      in_order(records, sample);
      std::vector<score::Measured> measured;
      for (const Json& record : records) {
        PN_TRY(measured.emplace_back(), score::measured_of(record));
        score::attach_expected(measured.back(), expected_[i]);
      }
      all.insert(all.end(), measured.begin(), measured.end());
      const score::ScoreReport scored = score::make_report(std::move(measured), {});
      PN_CHECK_OK(outputs_[i].close(records, scored, report_.machine, report_.worker, expected_[i],
                                    context_.clock.wall()));
      report_.complete = report_.complete && records.size() == sample.jobs.size() * options_.compilers.size();
    }
    report_.score = score::make_report(std::move(all), {});
    report_.findings.insert(report_.findings.end(), report_.score.findings.begin(),
                            report_.score.findings.end());
    if (plan_.samples.size() > 1) {
      const std::string path = join_path(options_.out, "run.json");
      PN_CHECK_OK(context_.files.write(
          path, dump_json(score::run_document(report_.score, report_.machine, options_.command,
                                              iso_time(context_.clock.wall()).substr(0, 10))) +
                    "\n"));
    }
    return ok_status();
  }

  void in_order(std::vector<Json>& records, const PlannedSample& sample) const {
    std::map<std::pair<std::string, std::string>, size_t> rank;
    for (const Job& job : sample.jobs)
      for (const CompilerSpec& c : options_.compilers)
        rank.emplace(std::pair(job.label, c.name), rank.size());
    const auto of = [&](const Json& r) {
      const auto it = rank.find({r.value("variant", ""), r.value("compiler", "")});
      return it == rank.end() ? rank.size() : it->second;
    };
    std::stable_sort(records.begin(), records.end(),
                     [&](const Json& a, const Json& b) { return of(a) < of(b); });
  }

  EvalContext& context_;
  const EvalOptions& options_;
  Plan plan_;
  EvalReport report_;
  std::vector<Outputs> outputs_;
  std::vector<Pending> pending_;
  std::vector<Json> expected_;  // by sample
  std::set<std::string> under_way_;
  Duration started_{0};
  size_t total_ = 0, done_ = 0;
  int deaths_ = 0;
};

}  // namespace

// Two cores are kept for timing where there are enough; a child that compiles needs one core and some gigabytes.
void take_defaults(EvalOptions& options, int cores) {
  const bool cuda = options.device == "cuda";
  options.slots = cuda ? std::clamp(cores - 2, 1, 12) : std::clamp(cores, 1, 4);
  options.memory_bytes = cuda ? 16e9 : 1e9;
}

Result<EvalReport> evaluate(EvalContext& context, const EvalOptions& options) {
  return Evaluation(context, options).run();
}

Json to_json(const EvalReport& report) {
  Json document = score::to_json(report.score);
  Json runs = Json::array();
  for (const EvalRun& run : report.runs)
    runs.push_back({{"sample", run.sample}, {"out", run.out}, {"records", run.records.size()}});
  document["runs"] = std::move(runs);
  document["machine"] = report.machine;
  document["worker"] = report.worker;
  document["resumed"] = report.resumed;
  document["seconds"] = report.seconds;
  document["complete"] = report.complete;
  return document;
}

std::string to_text(const EvalReport& report) {
  std::string out = score::to_text(report.score);
  const bool comparable =
      std::all_of(report.score.variants.begin(), report.score.variants.end(),
                  [](const score::ScoredVariant& v) { return v.measured.comparable != false; });
  if (!comparable) out += "Times were taken without a GPU: they are not comparable with anything.\n";
  for (const EvalRun& run : report.runs)
    if (report.runs.size() == 1) out += fmt::format("Records, log and score: {}\n", run.out);
  if (report.runs.size() > 1)
    out += fmt::format("Records, logs and scores of {} samples: {}\n", report.runs.size(), report.out);
  return out;
}

}  // namespace passnet::eval
