#include "eval/entry.h"

#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include "base/strings.h"
#include "base/subprocess.h"
#include "score/log.h"
#include "score/record.h"

namespace passnet::eval {
namespace {

Json medians(const score::Medians& m) {
  Json out = Json::object();
  out["ok"] = true;
  out["e2e"] = m.e2e_us ? Json{{"median", *m.e2e_us / 1e3}} : Json();
  out["gpu"] = m.gpu_us ? Json{{"median", *m.gpu_us / 1e3}} : Json();
  return out;
}

Json numbers(const std::vector<double>& values) {
  Json out = Json::array();
  for (const double v : values) out.push_back(std::isfinite(v) ? Json(v) : Json(fmt::format("{}", v)));
  return out;
}

}  // namespace

Json record_of(const score::Measured& m) {
  Json record = {{"schema", score::kRecordSchema},
                 {"variant", m.variant},
                 {"compiler", "pass_mgr"},
                 {"kind", "pass_mgr"},
                 {"dtype", m.dtype},
                 {"device", "cuda"},
                 {"hardware", m.hardware},
                 {"protocol", "public"},
                 {"evaluator", "entry"},
                 {"comparable", true},
                 {"status", "failed"}};
  if (m.loaded) record["loaded"] = m.loaded_names;
  Json skipped = Json::array();
  for (const std::string& r : m.rejected) {
    const size_t colon = r.find(':');
    skipped.push_back({{"name", r.substr(0, colon)},
                       {"reason", "source rules: " + std::string(trim(std::string_view(r).substr(
                                                         colon == std::string::npos ? 0 : colon + 1)))}});
  }
  if (!skipped.empty()) record["skipped"] = std::move(skipped);
  Json passes = Json::array();
  for (const score::PassTrace& p : m.passes) {
    Json matches = Json::array();
    for (int i = 0; i < p.applied; ++i) matches.push_back(Json::object());
    passes.push_back({{"pass", p.name}, {"matches", matches}});
  }
  record["graphs"] = Json::array({{{"passes", passes}}});
  if (m.result == "success" && m.eager_types_seen && m.compiled_types_seen) {
    record["status"] = "success";
    record["compiled"] = medians(m.compiled);
    record["eager"] = medians(m.eager);
    record["eager"]["dtypes"] = m.eager_dtypes;
    record["compiled"]["dtypes"] = m.compiled_dtypes;
    if (m.types_match) record["type_match"] = *m.types_match;
    Json sweep = Json::array();
    for (const auto& [key, flags] : m.all_close) sweep.push_back({key, flags});
    record["correctness"] = {{"equal", m.equal},
                             {"allclose", sweep},
                             {"max_diff", numbers(m.max_diff)},
                             {"mean_diff", numbers(m.mean_diff)}};
    if (m.speedup_e2e) record["speedup_e2e"] = *m.speedup_e2e;
    if (m.speedup_gpu) record["speedup_gpu"] = *m.speedup_gpu;
  } else {
    const bool eager = m.eager_failed_line && !m.compiled_failed_line;
    Json error = {{"code", m.no_pass_line ? "no_match" : ""},
                  {"message", m.message},
                  {"type", m.exception},
                  {"traceback", ""}};
    record["failed_in"] = eager ? "eager" : "compiled";
    record[eager ? "eager" : "compiled"] = {{"ok", false}, {"error", std::move(error)}};
  }
  return record;
}

Result<std::vector<Json>> run_entry(FileSystem& files, const std::string& sample_root,
                                    const std::string& folder, Duration deadline) {
  const std::string script = join_path(sample_root, "entry.sh");
  if (!files.is_file(script))
    return user_error("eval.no_entry", "the sample has no entry.sh")
        .at(script)
        .with_hint(
            "--evaluator entry needs a sample of a public checkout; without it passnet measures by itself");
  PN_CHECK_OK(files.make_directory(folder));
  const std::string log = join_path(folder, "validation.log");
  PN_CHECK_OK(files.remove_all(log));
  ProcessSpec spec;
  spec.argv = {"bash", "entry.sh"};
  spec.directory = sample_root;
  spec.env["PASSNET_EVAL_OUTPUT"] = std::filesystem::absolute(folder).string();
  RunOptions options;
  options.deadline = deadline;
  PN_TRY(const ProcessOutput done, run_process(spec, options));
  if (!files.is_file(log))
    return user_error("eval.entry", fmt::format("entry.sh left no validation.log ({})", done.end.to_text()))
        .at(script)
        .with_hint(std::string(trim(tail_of(done.err.empty() ? done.out : done.err, 400))));
  PN_TRY(const std::string text, files.read(log, 1ull << 30));
  std::vector<Json> records;
  for (const score::Measured& m : score::parse_log(text).variants) records.push_back(record_of(m));
  return records;
}

}  // namespace passnet::eval
