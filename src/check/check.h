#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "base/json.h"
#include "check/pass_reader.h"
#include "check/repair.h"
#include "ir/graph.h"
#include "match/legality.h"
#include "match/matcher.h"

// The pre-flight: whether a pass_dir loads, keeps the rules, and matches what it is meant to match. Nothing
// of it is run. What can only be seen by running (poison, numerics, speed) is reported as not proven.

namespace passnet::check {

enum class SourceRules { kPublic, kStrict };

struct CheckOptions {
  SourceRules rules = SourceRules::kPublic;
  std::string file_prefix;                         // put before file names in findings: "pass_dir/"
  std::map<std::string, std::string> const_files;  // const_pass_dir, usually empty
  size_t pattern_limit = 100, replacement_func_limit = 1;
  size_t near_misses = 3;  // per pass and graph
  // Passes whose pattern or arguments were run elsewhere because they are not interpreted here, by name.
  std::map<std::string, std::shared_ptr<const ReadPass>> run_elsewhere;
};

// One captured variant: the graphs of one call, in call order.
struct Variant {
  std::string name;  // "float16/0"
  std::vector<Graph> graphs;
};

struct MatchReport {
  std::string pass;
  std::vector<std::string> nodes;  // covered, in graph order
  std::string returned;
  std::vector<std::string> bindings;  // a text for each parameter: a node's name or a literal
  Legality legality;
  bool wrapper_followed = false;  // the replacement function, to its end, with these arguments
  std::string wrapper_stopped;    // where it was not, and why
};

struct PassMatches {
  std::string pass;
  std::vector<MatchReport> matches;
  Json near_misses;  // an array, empty where the pass matched
};

struct GraphReport {
  std::vector<PassMatches> passes;  // in order of application
  bool matched = false;
  Graph rewritten;  // after all passes that applied
};

struct VariantReport {
  std::string name;
  std::vector<GraphReport> graphs;
  bool matched() const;  // at least one pass in every graph
};

enum class Proof { kGreen, kRed, kNotProven };

struct Subject {
  std::string name;  // structure, source, poison, numerics, speed
  Proof proof = Proof::kNotProven;
  std::string by;  // "native", "interpreter", "gpu", "evaluation"; "" where not proven
};

struct CheckReport {
  std::vector<std::string> order;  // passes in the order they run
  std::vector<ReadPass> passes;    // in that order
  std::vector<VariantReport> variants;
  std::vector<Diagnostic> findings;
  std::vector<Subject> subjects;
  // Files that the source rules keep from being loaded, by stem, with the reasons.
  std::map<std::string, std::vector<std::string>> rejected;
  // Of passes that match nowhere: the pattern in a form that matches in the graphs given, by name of the pass.
  std::map<std::string, Repair> repairs;

  bool green() const;  // no error, and every variant matches
  const Subject& subject(std::string_view name) const;
};

// `files` by name, without directories. A file in a sub-directory is `sub/name` and is a finding.
CheckReport check_pass_dir(const std::map<std::string, std::string>& files,
                           const std::vector<Variant>& variants, const CheckOptions& options = {});

// The document of `passnet check --json` but for what the command adds (sample, timings).
Json to_json(const CheckReport& report);

}  // namespace passnet::check
