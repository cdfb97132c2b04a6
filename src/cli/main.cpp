#include <iostream>
#include <string>
#include <vector>

#include "cli/command.h"

int main(int argc, char** argv) {
  passnet::SystemClock clock;
  std::vector<std::string> args(argv + 1, argv + argc);
  return passnet::run_cli(std::move(args), passnet::real_files(), clock, std::cout, std::cerr);
}
