#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/diagnostic.h"

namespace passnet::check {

// One rule of a pass_dir. The table is rules.def; tests run both examples of every row.
struct Rule {
  std::string_view
      id;  // "H1".."H10" hard rules, "L" loading, "G" graph, "P" public source, "S" strict source
  std::string_view code;  // of its diagnostics
  Severity severity;
  std::string_view statement;  // what must hold
  std::string_view fails;      // an example that breaks it, in the form that read_example() takes
  std::string_view passes;     // a near example that keeps it
  std::string_view remedy;
};

std::span<const Rule> all_rules();
// Aborts on a code that is not in the table: a bug, caught by any test that breaks the rule.
const Rule& rule(std::string_view code);
// A finding of the rule's severity with its remedy as hint.
Diagnostic broken(std::string_view code, std::string_view message);

}  // namespace passnet::check
