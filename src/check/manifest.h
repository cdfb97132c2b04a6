#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/diagnostic.h"

namespace passnet::check {

inline constexpr std::string_view kOutputManifest = "sorted_output_pass_rule_names.json";
inline constexpr std::string_view kInputManifest = "sorted_input_pass_rule_names.json";

struct Listed {
  std::string stem;
  bool input = false;  // from const_pass_dir
};

// The passes in the order in which they run: input passes first, an output pass of the same name in its
// place.
struct Manifest {
  std::vector<Listed> order;
  std::vector<Diagnostic> findings;
};

using FileTexts = std::map<std::string, std::string>;

// Reads both lists and compares the output list with the files that are there.
Manifest read_manifest(const FileTexts& files, const FileTexts& const_files);

}  // namespace passnet::check
