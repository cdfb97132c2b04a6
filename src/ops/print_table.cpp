// Prints the operator table with its examples as JSON (tools/compare_operators reads it); --wide: see example.h.
#include <cstdio>
#include <string_view>

#include "ops/example.h"

int main(int argc, char** argv) {
  const bool wide = argc > 1 && std::string_view(argv[1]) == "--wide";
  std::puts(passnet::dump_json(passnet::table_to_json(wide)).c_str());
  return 0;
}
