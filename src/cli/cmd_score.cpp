#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/subprocess.h"
#include "cli/command.h"
#include "cli/profile_option.h"
#include "eval/passes.h"
#include "score/record.h"
#include "score/report.h"
#include "solve/expectations.h"
#include "worker/worker.h"

namespace passnet {
namespace {

struct ScoreArguments {
  std::vector<std::string> files;
  bool compat = false;
  bool tables = false;
  bool markdown = false;
  std::string interpretation = "default";
  double b = score::kFailed, p = 0;
  std::string labels, run, command, samples;
  std::vector<std::string> compilers;
};

// What was read from all files.
struct Inputs {
  std::vector<score::Measured> measured;
  std::vector<score::LogFacts> logs;
  std::optional<double> service_score;
  Json machine = Json::object();
  // By sample and compiler, the hash of the passes that were measured.
  std::map<std::pair<std::string, std::string>, std::string> passes;
  std::vector<Diagnostic> findings;
};

// A run's folder, or the folders of one run's samples below it.
Result<std::vector<std::string>> expand(FileSystem& files, const std::vector<std::string>& given) {
  std::vector<std::string> out;
  for (const std::string& path : given) {
    if (!files.is_directory(path)) {
      out.push_back(path);
      continue;
    }
    const size_t before = out.size();
    const auto take = [&](const std::string& folder) {
      for (const char* name : {"records.jsonl", "validation.log"}) {
        if (!files.is_file(join_path(folder, name))) continue;
        out.push_back(join_path(folder, name));
        return true;
      }
      return false;
    };
    if (!take(path)) {
      PN_TRY(const std::vector<DirEntry> entries, files.list(path));
      for (const DirEntry& entry : entries)
        if (entry.info.type == FileType::kDirectory) take(join_path(path, entry.name));
    }
    if (out.size() == before)
      return user_error("score.no_records", "the folder holds neither records.jsonl nor validation.log")
          .at(path)
          .with_hint("name a folder that passnet eval wrote, a log, or a saved service response");
  }
  return out;
}

Status read_one(FileSystem& files, const std::string& path, bool several, Inputs& in) {
  PN_TRY(const std::string text, files.read(path, 1ull << 30));
  const size_t start = text.find_first_not_of(" \t\r\n");
  const bool json = start != std::string::npos && text[start] == '{';
  if (path.ends_with(".jsonl") ||
      (json && text.substr(start, 4096).find("passnet.record/") != std::string::npos)) {
    PN_TRY(score::RecordFile file, score::parse_records(text, path));
    if (file.torn)
      in.findings.push_back(user_warning("score.torn", "the last line is torn off and left out").at(path));
    for (const Json& record : file.records) {
      PN_TRY(in.measured.emplace_back(), score::measured_of(record));
    }
    const std::string run = join_path(dir_name(path), "run.json");
    if (files.is_file(run)) {
      PN_TRY(const std::string content, files.read(run));
      if (const auto parsed = parse_json(content, run); parsed.ok() && parsed->is_object()) {
        if (parsed->contains("machine")) in.machine = (*parsed)["machine"];
        for (size_t i = in.measured.size() - file.records.size(); i < in.measured.size(); ++i)
          score::attach_expected(in.measured[i], parsed->value("expected", Json::object()));
        for (const Json& c : parsed->value("compilers", Json::array()))
          if (c.contains("pass_dir_hash") && c["pass_dir_hash"].is_string())
            in.passes[{parsed->value("sample", ""), c.value("name", "")}] = c["pass_dir_hash"];
      }
    }
    return ok_status();
  }
  score::ParsedLog log;
  if (json) {
    PN_TRY(score::ServiceResponse response, score::parse_response(text, path));
    in.service_score = response.score;
    log = std::move(response.log);
  } else {
    if (start == std::string::npos)
      return user_error("score.no_evaluation", "the file is empty")
          .at(path)
          .with_hint("no evaluation was completed: run it again");
    log = score::parse_log(text);
  }
  if (log.variants.empty() && !in.service_score) {
    std::string why = log.facts.hints.empty() ? "it holds no [Processing] line"
                                              : "it holds no variant: " + log.facts.hints.front();
    return user_error("score.no_variants", why)
        .at(path)
        .with_hint(
            "an empty manifest, an import or syntax error in a pass, or a timeout ends a run before its "
            "first variant; passnet check says which");
  }
  const std::string name(base_name(dir_name(path)));
  for (score::Measured& m : log.variants) {
    if (several) m.sample = name.empty() || name == "." ? std::string(base_name(path)) : name;
    in.measured.push_back(std::move(m));
  }
  in.logs.push_back(std::move(log.facts));
  return ok_status();
}

// The weights of the file that PASSNET_CUSTOM_WEIGHT_FUNC_PATH names: its get_weights() gives them from t = -10 on, as a
// list or by t.
Result<std::optional<score::Weights>> custom_weights() {
  const char* path = std::getenv("PASSNET_CUSTOM_WEIGHT_FUNC_PATH");
  if (path == nullptr || *path == '\0') return std::optional<score::Weights>();
  PN_TRY(const PythonChoice python, find_python());
  ProcessSpec spec;
  spec.argv = {python.program, "-c",
               "import json, runpy, sys\nw = runpy.run_path(sys.argv[1])['get_weights']()\n"
               "print(json.dumps([float(w[t]) for t in range(-10, 5)] if isinstance(w, dict) else [float(x) "
               "for x in w]))",
               path};
  PN_TRY(const ProcessOutput done, run_process(spec));
  const auto parsed = parse_json(done.out);
  const auto bad = [&](std::string_view why) {
    return user_error("score.weights", fmt::format("PASSNET_CUSTOM_WEIGHT_FUNC_PATH: {}", why))
        .at(path)
        .with_hint("the file defines get_weights(), which returns 15 numbers for t = -10 to 4");
  };
  if (!done.end.success() || !parsed.ok())
    return bad(done.err.empty() ? "no weights" : done.err.substr(0, 400));
  if (!parsed->is_array() || parsed->size() != score::kTolerances)
    return bad(fmt::format("{} weights, 15 are needed", parsed->size()));
  score::Weights weights{};
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = (*parsed)[i].get<double>();
  return std::optional<score::Weights>(weights);
}

Result<std::map<std::string, score::SampleLabels>> read_labels(FileSystem& files, const std::string& path) {
  std::map<std::string, score::SampleLabels> out;
  if (path.empty()) return out;
  PN_TRY(const std::string text, files.read(path));
  PN_TRY(const Json json, parse_json(text, path));
  if (!json.is_object())
    return user_error("score.labels", "not an object of samples")
        .at(path)
        .with_hint("{\"SAMPLE\": {\"triage_family\": ...}}");
  for (const auto& [sample, entry] : json.items()) {
    score::SampleLabels l;
    const auto word = [&](const char* key) {
      return entry.contains(key) && entry[key].is_string() ? entry[key].get<std::string>() : std::string();
    };
    const auto flag = [&](const char* key) {
      return entry.contains(key) && entry[key].is_boolean() && entry[key].get<bool>();
    };
    l.triage_family = word("triage_family");
    l.worker_confirmed_family = word("worker_confirmed_family");
    l.actual_winning_region_family = word("actual_winning_region_family");
    l.numeric_preflight_blocked = flag("numeric_preflight_blocked");
    l.larger_region_attempted = flag("larger_region_attempted");
    l.larger_region_regressed = flag("correctness_regressed_on_larger_region");
    out[sample] = std::move(l);
  }
  return out;
}

// What the planner expects of variants whose run says nothing of it, from the samples themselves. The pass_dir counts as
// what was measured only where the run's hash says so.
Status add_expectations(CommandContext& context, const std::string& folder, Inputs& in) {
  PN_TRY(const Profile profile, chosen_profile(context));
  Expectations expectations(context.files, profile, "cuda");
  std::map<std::pair<std::string, std::string>, score::ExpectedOfSample> known;
  for (score::Measured& m : in.measured) {
    if (m.expected.legal_ceiling) continue;
    const auto key = std::pair(m.sample, m.kind == "pass_mgr" ? m.compiler : std::string());
    auto found = known.find(key);
    if (found == known.end()) {
      const std::string root = join_path(folder, m.sample);
      std::map<std::string, std::string> passes;
      if (const auto hash = in.passes.find(key); hash != in.passes.end()) {
        const auto judged = eval::judge_passes(context.files, join_path(root, "pass_dir"), false);
        if (judged.ok() && judged->hash == hash->second) passes = judged->files;
      }
      found = known.emplace(key, expectations.of(root, passes)).first;
    }
    const auto variant = found->second.find(m.variant);
    if (variant == found->second.end()) continue;
    m.expected = variant->second;
    if (m.kind == "nope") m.expected.predicted = m.expected.unchanged;
  }
  return ok_status();
}

CommandResult run_score(CommandContext& context, const ScoreArguments& a) {
  CommandResult result;
  if (a.tables) {
    result.text = score::tables_text();
    result.document["tables"] = score::tables_json();
    return result;
  }
  if (a.files.empty())
    return CommandResult::error(
        user_error("cli.usage", "no file is named")
            .with_hint("name a log, a run's folder or a saved service response; `passnet score --help`"));
  auto paths = expand(context.files, a.files);
  if (!paths.ok()) return CommandResult::error(std::move(paths).error());
  Inputs in;
  for (const std::string& path : *paths)
    if (const Status read = read_one(context.files, path, paths->size() > 1, in); !read.ok())
      return CommandResult::error(read.error());
  if (!a.compilers.empty())
    std::erase_if(in.measured, [&](const score::Measured& m) {
      return std::find(a.compilers.begin(), a.compilers.end(), m.compiler) == a.compilers.end();
    });
  if (!a.samples.empty())
    if (const Status added = add_expectations(context, a.samples, in); !added.ok())
      return CommandResult::error(added.error());
  score::ScoreOptions options;
  options.compat = a.compat;
  options.es = {a.b, a.p,
                a.interpretation == "default" ? score::Interpretation::kDefault
                                              : score::Interpretation::kMismatchExtended};
  auto weights = custom_weights();
  if (!weights.ok()) return CommandResult::error(std::move(weights).error());
  if (*weights) options.weights = **weights;
  auto labels = read_labels(context.files, a.labels);
  if (!labels.ok()) return CommandResult::error(std::move(labels).error());
  score::ScoreReport report = score::make_report(std::move(in.measured), options, *labels);
  report.logs = std::move(in.logs);
  report.service_score = in.service_score;
  result.outcome = report.green() ? Outcome::kGreen : Outcome::kRed;
  result.text = a.markdown ? score::to_markdown(report) : score::to_text(report);
  result.document = score::to_json(report);
  result.findings = std::move(in.findings);
  result.findings.insert(result.findings.end(), report.findings.begin(), report.findings.end());
  if (!a.run.empty()) {
    const std::string day = iso_time(context.clock.wall()).substr(0, 10);
    const Status written =
        context.files.write(a.run, dump_json(score::run_document(report, in.machine, a.command, day)) + "\n");
    if (!written.ok()) return CommandResult::error(written.error());
  }
  return result;
}

}  // namespace

std::function<CommandResult(CommandContext&)> declare_score(CLI::App& app) {
  auto a = std::make_shared<ScoreArguments>();
  app.add_option("FILE", a->files, "Logs, records.jsonl, saved service responses, or folders of runs");
  app.add_flag("--compat", a->compat, "The public number, its known defects included");
  app.add_flag("--markdown", a->markdown, "The text as Markdown");
  app.add_option("--compiler", a->compilers, "Only this compiler's variants (may be repeated)");
  app.add_option("--labels", a->labels, "JSON file of family labels by sample, for the counts by family");
  app.add_option("--interpretation", a->interpretation,
                 "From which tolerance on a kind of failure counts as 1")
      ->check(CLI::IsMember({"default", "mismatch_extended"}))
      ->capture_default_str();
  app.add_option("--fpdb", a->b, "What a variant counts where it is not correct")
      ->check(CLI::Range(1e-9, 1.0))
      ->capture_default_str();
  app.add_option("--negative-speedup-penalty", a->p, "A slowdown s counts as s^(p+1)")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  app.add_option("--write-run", a->run, "Also write a passnet.run/1 document of all that was read, merged");
  app.add_option("--samples", a->samples,
                 "Folder of the samples: what the planner expects of them, where a run does not say");
  app.add_option("--command", a->command, "The command that the document says it came from");
  app.add_flag("--tables", a->tables, "Print the tables instead: outcomes, failure classes, decision guide");
  return [a](CommandContext& context) { return run_score(context, *a); };
}

}  // namespace passnet
