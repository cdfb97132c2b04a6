#include "check/rules.h"

#include <gtest/gtest.h>

#include <set>

#include "base/strings.h"
#include "check/check.h"

namespace passnet::check {
namespace {

struct Example {
  std::map<std::string, std::string> files;
  std::vector<Variant> variants;
};

// The form that rules.def describes. A later part replaces an earlier one of the same name.
Example read_example(std::string_view text) {
  Example out;
  out.files["sorted_output_pass_rule_names.json"] = "[\"P\"]";
  std::string name = "P.py", graph;
  for (const std::string_view line : split_lines(text)) {
    if (line.starts_with("=== ")) {
      name = std::string(line.substr(4));
      if (name.starts_with("-")) {
        out.files.erase(name.substr(1));
      } else if (name == "graph") {
        graph.clear();
      } else {
        out.files[name].clear();
      }
      continue;
    }
    (name == "graph" ? graph : out.files[name]) += std::string(line) + "\n";
  }
  if (!graph.empty()) {
    Result<Graph> read = read_graph(graph);
    EXPECT_TRUE(read.ok()) << read.error().message << "\n" << graph;
    Variant variant;
    variant.name = "float32/0";
    variant.graphs.push_back(std::move(read).value());
    out.variants.push_back(std::move(variant));
  }
  return out;
}

std::vector<Diagnostic> findings(const Rule& r, std::string_view text) {
  const Example example = read_example(text);
  CheckOptions options;
  options.rules = r.id.starts_with("S") ? SourceRules::kStrict : SourceRules::kPublic;
  return check_pass_dir(example.files, example.variants, options).findings;
}

std::string texts(const std::vector<Diagnostic>& found) {
  std::string out;
  for (const Diagnostic& d : found) out += render_text(d);
  return out;
}

const Diagnostic* find(const std::vector<Diagnostic>& found, std::string_view code) {
  for (const Diagnostic& d : found) {
    if (d.code == code) return &d;
  }
  return nullptr;
}

TEST(Rules, EveryFailingExampleBreaksItsRule) {
  for (const Rule& r : all_rules()) {
    if (r.fails.empty()) continue;  // needs more than files: tested by itself
    const std::vector<Diagnostic> found = findings(r, r.fails);
    const Diagnostic* d = find(found, r.code);
    EXPECT_NE(d, nullptr) << r.code << " is not found; there is\n" << texts(found);
    if (d == nullptr) continue;
    EXPECT_EQ(d->severity, r.severity) << r.code;
    EXPECT_FALSE(d->hint.empty()) << r.code;
  }
}

TEST(Rules, EveryPassingExampleBreaksNothing) {
  for (const Rule& r : all_rules()) {
    const std::vector<Diagnostic> found = findings(r, r.passes);
    EXPECT_TRUE(found.empty()) << r.code << "\n" << texts(found);
  }
}

TEST(Rules, CodesAreUniqueAndEveryHardRuleIsThere) {
  std::set<std::string_view> codes, ids;
  for (const Rule& r : all_rules()) {
    EXPECT_TRUE(codes.insert(r.code).second) << r.code;
    ids.insert(r.id);
  }
  for (const char* id :
       {"H1", "H2", "H3", "H4", "H5", "H6", "H7", "H8", "H10", "P0", "P1", "P2", "P3", "P4"}) {
    EXPECT_TRUE(ids.contains(id)) << id;
  }
}

TEST(Rules, LimitsAreThoseOfTheOptions) {
  const Example example = read_example(rule("manifest.limit").passes);
  CheckOptions options;
  options.pattern_limit = 0;
  EXPECT_NE(find(check_pass_dir(example.files, example.variants, options).findings, "manifest.limit"),
            nullptr);
}

TEST(Rules, AVariantWithoutGraphsIsTold) {
  const Example example = read_example(rule("match.no_graph").passes);
  const std::vector<Variant> none = [] {
    std::vector<Variant> out;
    out.push_back({"float32/0", {}});
    return out;
  }();
  EXPECT_NE(find(check_pass_dir(example.files, none).findings, "match.no_graph"), nullptr);
}

}  // namespace
}  // namespace passnet::check
