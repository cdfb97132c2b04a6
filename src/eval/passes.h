#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "base/files.h"
#include "base/result.h"

namespace passnet::eval {

// A pass_dir as it was judged: its bytes, read once. What is evaluated is a copy of exactly these.
struct JudgedPasses {
  std::map<std::string, std::string> files;  // by name
  std::string hash;                          // of names and contents
  std::map<std::string, std::vector<std::string>>
      rejected;  // listed stems that the source rules leave out, with reasons
  std::vector<Diagnostic> findings;
};

// Reads a folder of passes and applies the source rules: the public ones to listed files, or the strict ones to every
// Python file, where a violation in a helper leaves out all. Folders other than __pycache__, links, and more than 64
// files or 256 KiB each are refused: `eval.pass_dir`.
Result<JudgedPasses> judge_passes(FileSystem& files, const std::string& folder, bool strict);

// Writes the judged bytes to a folder that does not exist yet and takes the right to change them away.
Status write_passes(FileSystem& files, const std::string& folder, const JudgedPasses& passes);

}  // namespace passnet::eval
