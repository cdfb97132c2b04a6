#include "check/manifest.h"

#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "base/json.h"
#include "check/rules.h"

namespace passnet::check {

namespace {

class ManifestReader {
 public:
  ManifestReader(const FileTexts& files, const FileTexts& const_files)
      : files_(files), const_files_(const_files) {}

  Manifest run() {
    const std::vector<std::string> input = input_names();
    std::vector<std::string> output;
    if (!files_.contains(std::string(kOutputManifest))) {
      add("manifest.missing", fmt::format("there is no {}", kOutputManifest), kOutputManifest);
    } else if (std::optional<std::vector<std::string>> names = list(files_, kOutputManifest)) {
      output = std::move(*names);
      if (output.empty()) add("manifest.empty", "the list names no pass", kOutputManifest);
    }
    for (const std::string& stem : input) {
      if (!const_files_.contains(stem + ".py")) {
        add("manifest.file_missing",
            fmt::format("{} is listed, but there is no const_pass_dir/{}.py", stem, stem), kInputManifest);
        continue;
      }
      out_.order.push_back({stem, true});
    }
    for (const std::string& stem : output) {
      if (!files_.contains(stem + ".py")) {
        add("manifest.file_missing", fmt::format("{} is listed, but there is no {}.py", stem, stem),
            kOutputManifest);
        continue;
      }
      const auto same = std::find_if(out_.order.begin(), out_.order.end(),
                                     [&](const Listed& listed) { return listed.stem == stem; });
      if (same == out_.order.end()) {
        out_.order.push_back({stem, false});
      } else if (same->input) {
        same->input = false;
      } else {
        add("manifest.duplicate", fmt::format("{} is listed twice", stem), kOutputManifest);
      }
    }
    for (const auto& [name, text] : files_) {
      if (!name.ends_with(".py") || name.starts_with("_")) continue;
      const std::string stem = name.substr(0, name.size() - 3);
      if (std::find(output.begin(), output.end(), stem) != output.end()) continue;
      add("manifest.unlisted",
          fmt::format("{} is not in {}: it would never be loaded", name, kOutputManifest), name);
    }
    return std::move(out_);
  }

 private:
  void add(std::string_view code, const std::string& message, std::string_view file) {
    out_.findings.push_back(broken(code, message).at(file));
  }

  std::optional<std::vector<std::string>> list(const FileTexts& files, std::string_view name) {
    const Result<Json> json = parse_json(files.at(std::string(name)), name);
    if (!json.ok()) {
      out_.findings.push_back(broken("manifest.json", json.error().message).at(name, json.error().span));
      return std::nullopt;
    }
    if (!json->is_array()) {
      add("manifest.not_list", "the file does not hold a list", name);
      return std::nullopt;
    }
    std::vector<std::string> out;
    for (const Json& item : *json) {
      if (!item.is_string()) {
        add("manifest.entry", fmt::format("{} is no file name", dump_json(item)), name);
        continue;
      }
      const std::string stem = item.get<std::string>();
      if (stem.empty() || stem.find_first_of("/\\") != std::string::npos || stem.front() == '.' ||
          stem.ends_with(".py")) {
        add("manifest.entry", fmt::format("'{}' is no stem of a file in the pass_dir", stem), name);
        continue;
      }
      out.push_back(stem);
    }
    return out;
  }

  std::vector<std::string> input_names() {
    std::vector<std::string> names;
    if (const_files_.contains(std::string(kInputManifest))) {
      names = list(const_files_, kInputManifest).value_or(std::vector<std::string>());
    }
    if (!files_.contains(std::string(kInputManifest))) return names;
    const std::optional<std::vector<std::string>> own = list(files_, kInputManifest);
    if (!own) return names;
    if (std::set<std::string>(own->begin(), own->end()) !=
        std::set<std::string>(names.begin(), names.end())) {
      add("manifest.input_order",
          "the list of input passes of pass_dir does not name the same passes as const_pass_dir's",
          kInputManifest);
      return names;
    }
    return *own;
  }

  const FileTexts& files_;
  const FileTexts& const_files_;
  Manifest out_;
};

}  // namespace

Manifest read_manifest(const FileTexts& files, const FileTexts& const_files) {
  return ManifestReader(files, const_files).run();
}

}  // namespace passnet::check
