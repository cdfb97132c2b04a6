#include "eval/passes.h"

#include <sys/stat.h>

#include <fmt/format.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/source.h"
#include "check/manifest.h"
#include "check/public_rules.h"
#include "check/strict_rules.h"
#include "pysrc/tree.h"
#include "sample/state_store.h"

namespace passnet::eval {
namespace {

constexpr size_t kMaxFiles = 64;
constexpr std::uint64_t kMaxBytes = 256u << 10;

Diagnostic refused(const std::string& path, std::string_view why) {
  return user_error("eval.pass_dir", why)
      .at(path)
      .with_hint("a pass_dir holds plain .py and .json files and nothing else");
}

std::vector<std::string> listed_stems(const std::map<std::string, std::string>& files) {
  std::vector<std::string> out;
  const auto it = files.find(std::string(check::kOutputManifest));
  if (it == files.end()) return out;
  const auto parsed = parse_json(it->second, it->first);
  if (!parsed.ok() || !parsed->is_array()) return out;
  for (const Json& name : *parsed)
    if (name.is_string()) out.push_back(name.get<std::string>());
  return out;
}

// What the rules say of one file, a line each.
std::vector<std::string> violations(const std::string& name, const std::string& text, bool strict) {
  auto source = SourceBuffer::checked(name, text);
  if (!source.ok()) return {source.error().message};
  auto tree = pysrc::SyntaxTree::parse(std::make_shared<SourceBuffer>(std::move(source).value()));
  // A file that does not parse fails when it is loaded, with Python's own message; the strict rules do not let it come
  // to that.
  if (!tree.ok()) return strict ? std::vector<std::string>{tree.error().message} : std::vector<std::string>{};
  std::vector<std::string> out;
  for (const Diagnostic& d : strict ? check::strict_violations(*tree) : check::public_violations(*tree)) {
    if (d.severity != Severity::kError) continue;
    out.push_back(d.message.starts_with("Line ") ? d.message
                                                 : fmt::format("Line {}: {}", d.span.line, d.message));
  }
  return out;
}

}  // namespace

Result<JudgedPasses> judge_passes(FileSystem& files, const std::string& folder, bool strict) {
  JudgedPasses out;
  if (!files.is_directory(folder))
    return user_error("eval.no_pass_dir", "there is no such folder")
        .at(folder)
        .with_hint("passnet solve writes the passes; another folder is named by --pass-dir");
  PN_TRY(const std::vector<DirEntry> entries, files.list(folder));
  for (const DirEntry& entry : entries) {
    const std::string path = join_path(folder, entry.name);
    if (entry.name == ".ignore") continue;
    if (entry.name == "__pycache__") {
      out.findings.push_back(
          note("eval.pycache", "compiled Python is never loaded and was left out").at(path));
      continue;
    }
    if (entry.info.is_link) return refused(path, "a link");
    if (entry.info.type != FileType::kFile) return refused(path, "no plain file");
    if (!entry.name.ends_with(".py") && !entry.name.ends_with(".json")) continue;
    if (entry.info.size > kMaxBytes)
      return refused(path, fmt::format("{} bytes, the limit is {}", entry.info.size, kMaxBytes));
    if (out.files.size() >= kMaxFiles) return refused(path, fmt::format("more than {} files", kMaxFiles));
    PN_TRY(out.files[entry.name], files.read(path));
  }
  out.hash = state_hash(out.files);
  const std::vector<std::string> listed = listed_stems(out.files);
  for (const std::string& stem : listed) {
    const bool plain = !stem.empty() && stem.find_first_of("/\\") == std::string::npos && stem.front() != '.';
    if (!plain)
      return refused(folder, fmt::format("the manifest names '{}', which is no name of a file here", stem));
    if (!out.files.contains(stem + ".py"))
      out.findings.push_back(user_error("eval.pass_missing", fmt::format("{} is listed and not there", stem))
                                 .at(folder)
                                 .with_hint("remove it from the list or add the file"));
  }
  for (const auto& [name, text] : out.files) {
    if (!name.ends_with(".py")) continue;
    const std::string stem = name.substr(0, name.size() - 3);
    const bool is_listed = std::find(listed.begin(), listed.end(), stem) != listed.end();
    if (!is_listed && !strict) continue;
    const std::vector<std::string> found = violations(name, text, strict);
    if (found.empty()) continue;
    for (const std::string& of : is_listed ? std::vector<std::string>{stem} : listed) {
      for (const std::string& line : found) out.rejected[of].push_back(is_listed ? line : name + ": " + line);
    }
    out.findings.push_back(
        user_warning("eval.rejected_source", fmt::format("left out by the source rules: {}", found.front()))
            .at(join_path(folder, name)));
  }
  return out;
}

Status write_passes(FileSystem& files, const std::string& folder, const JudgedPasses& passes) {
  PN_CHECK_OK(files.make_directory(folder));
  for (const auto& [name, text] : passes.files) {
    const std::string path = join_path(folder, name);
    PN_CHECK_OK(files.write(path, text));
    ::chmod(path.c_str(), 0444);
  }
  ::chmod(folder.c_str(), 0555);
  return ok_status();
}

}  // namespace passnet::eval
