// Prints the operator table with its examples as JSON (tools/compare_operators reads it).
#include <cstdio>

#include "ops/example.h"

int main() {
  std::puts(passnet::dump_json(passnet::table_to_json()).c_str());
  return 0;
}
