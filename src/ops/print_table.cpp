// Prints the operator table with its examples as JSON (tools/compare_operators reads it); --wide: see example.h.
// --check prints nothing: its exit status says whether every row has an example. The build runs it.
#include <cstdio>
#include <string>
#include <string_view>

#include "ops/core.h"
#include "ops/example.h"

int main(int argc, char** argv) {
  const std::string_view option = argc > 1 ? argv[1] : "";
  if (option == "--check") {
    int bad = 0;
    for (const passnet::OpRow& row : passnet::all_rows()) {
      if (!row.examples.empty()) continue;
      std::fprintf(stderr, "operator table: the row %s has no example\n", std::string(row.name).c_str());
      ++bad;
    }
    return bad > 0 ? 1 : 0;
  }
  std::puts(passnet::dump_json(passnet::table_to_json(option == "--wide")).c_str());
  return 0;
}
