#include "eval/plan.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/hash.h"
#include "sample/sample.h"

namespace passnet::eval {
namespace {

std::string absolute(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

// The sample directories that a name stands for: itself, or those below it.
Result<std::vector<std::string>> sample_roots(FileSystem& files, const std::vector<std::string>& given) {
  std::vector<std::string> out;
  for (const std::string& path : given) {
    if (files.is_file(join_path(path, "graph_list.txt")) || !files.is_directory(path)) {
      out.push_back(path);
      continue;
    }
    PN_TRY(const std::vector<DirEntry> entries, files.list(path));
    const size_t before = out.size();
    for (const DirEntry& entry : entries) {
      const std::string below = join_path(path, entry.name);
      if (files.is_file(join_path(below, "graph_list.txt"))) out.push_back(below);
    }
    if (out.size() == before) out.push_back(path);  // read_sample says what is wrong with it
  }
  return out;
}

double input_bytes(FileSystem& files, const std::string& dir) {
  const auto variant = read_variant(files, dir);
  if (!variant.ok()) return 0;
  double bytes = 0;
  for (const TensorSpec& t : variant->tensors) {
    double n = 1;
    for (const int64_t extent : t.shape) n *= static_cast<double>(std::max<int64_t>(extent, 0));
    bytes += n * static_cast<double>(size_of(t.dtype));
  }
  return bytes;
}

// All files that a variant is made of, for the key of its records.
Status add_variant(FileSystem& files, const std::string& dir, Sha256& hash) {
  for (const char* name : {"model.py", "input_meta.py", "weight_meta.py"}) {
    const std::string path = join_path(dir, name);
    if (!files.is_file(path)) continue;
    PN_TRY(const std::string text, files.read(path));
    hash.field(name).field(text);
  }
  return ok_status();
}

// The variants of the sample that are asked for, as often as they are, with the number of the time.
std::vector<std::pair<const Variant*, int>> wanted(const Sample& sample, const EvalOptions& options) {
  std::vector<std::pair<const Variant*, int>> out;
  for (int round = 0; round < options.repeat; ++round)
    for (const Variant& v : sample.variants)
      if (options.only.empty() ||
          std::find(options.only.begin(), options.only.end(), v.label) != options.only.end())
        out.emplace_back(&v, round);
  return out;
}

}  // namespace

Result<std::string> job_key(FileSystem& files, const std::string& setting, const std::string& dir) {
  Sha256 key;
  key.field(setting);
  PN_CHECK_OK(add_variant(files, dir, key));
  return key.hex().substr(0, 32);
}

Result<Plan> plan_run(FileSystem& files, const EvalOptions& options, const std::string& scratch) {
  Plan plan;
  PN_TRY(std::vector<std::string> roots, sample_roots(files, options.samples));
  std::vector<std::string> mine;
  for (size_t i = 0; i < roots.size(); ++i)
    if (static_cast<int>(i % static_cast<size_t>(options.shards)) == options.shard) mine.push_back(roots[i]);
  for (const std::string& root : mine) {
    PN_TRY(const Sample sample, read_sample(files, root));
    PlannedSample planned;
    planned.name = sample.name;
    planned.root = absolute(root);
    plan.findings.insert(plan.findings.end(), sample.findings.begin(), sample.findings.end());
    Json compilers = Json::array();
    Sha256 setting;
    setting.field(options.protocol == Protocol::kStrict ? "strict" : "public").field(options.device);
    setting.field(fmt::format("{} {} {}", options.warmup, options.trials, options.interleave));
    if (options.side_by_side) setting.field("side by side");
    for (const CompilerSpec& c : options.compilers) {
      Json spec = {{"name", c.name}, {"kind", c.kind}};
      setting.field(c.name).field(c.kind);
      if (c.kind == "pass_mgr") {
        const std::string folder = c.pass_dir.empty() ? join_path(root, "pass_dir") : c.pass_dir;
        const bool rules =
            std::find(options.without.begin(), options.without.end(), "source") == options.without.end();
        auto read = judge_passes(files, folder, options.strict_rules);
        if (!read.ok() && read.error().code == "eval.pass_dir") {
          planned.refused.emplace(c.name, read.error());
          setting.field(read.error().message);
          compilers.push_back(std::move(spec));
          continue;
        }
        PN_TRY(JudgedPasses judged, std::move(read));
        if (!rules) judged.rejected.clear();
        plan.findings.insert(plan.findings.end(), judged.findings.begin(), judged.findings.end());
        const std::string copy =
            join_path(scratch, fmt::format("{}-{}/pass_dir", judged.hash, planned.passes.size()));
        if (!files.is_directory(copy)) PN_CHECK_OK(write_passes(files, copy, judged));
        setting.field(judged.hash);
        spec["pass_dir"] = copy;
        spec["rejected"] = judged.rejected;
        const std::string constant = join_path(root, "const_pass_dir");
        if (files.is_directory(constant)) spec["const_pass_dir"] = absolute(constant);
        planned.passes[c.name] = std::move(judged);
      }
      compilers.push_back(std::move(spec));
    }
    planned.setting = setting.hex();
    for (const auto& [v, round] : wanted(sample, options)) {
      Job job;
      job.sample = sample.name;
      job.label = round == 0 ? v->label : fmt::format("{}#{}", v->label, round + 1);
      job.id = sample.name + "/" + job.label;
      job.round = round;
      job.dir = absolute(v->dir);
      job.bytes = input_bytes(files, v->dir);
      PN_TRY(job.key, job_key(files, planned.setting, v->dir));
      for (const CompilerSpec& c : options.compilers) job.compilers.push_back(c.name);
      job.request = {{"id", job.id},
                     {"variant", job.dir},
                     {"label", job.label},
                     {"group", sample.name},
                     {"bytes", static_cast<long long>(job.bytes)},
                     {"compilers", compilers},
                     {"options",
                      {{"device", options.device},
                       {"warmup", options.warmup},
                       {"trials", options.trials},
                       {"without", options.without},
                       {"protocol", options.protocol == Protocol::kStrict ? "strict" : "public"},
                       {"interleave", options.interleave || options.compilers.size() > 1}}}};
      planned.jobs.push_back(std::move(job));
    }
    if (!planned.jobs.empty()) plan.samples.push_back(std::move(planned));
  }
  if (plan.samples.empty())
    return user_error("eval.nothing", "no variant is left to measure")
        .with_hint(options.shards > 1 ? "this shard has no sample: there are fewer samples than shards"
                                      : "name a sample, and variants that its graph_list.txt has");
  return plan;
}

}  // namespace passnet::eval
