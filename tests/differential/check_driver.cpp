// Reads one JSON object a line and answers each with one. {"pattern": text of a pass file}: the pattern read
// from it,
// {"readable", "graph", "codes"}. {"source": text of a file}: what the public source rules say, {"messages":
// [...]} or
// {"error": code}.

#include <iostream>
#include <memory>
#include <string>

#include "base/json.h"
#include "check/pass_reader.h"
#include "check/public_rules.h"
#include "pysrc/parse.h"

namespace passnet {
namespace {

Result<Json> answer(std::string_view line) {
  PN_TRY(const Json question, parse_json(line));
  if (question.contains("source")) {
    PN_TRY(SourceBuffer source, SourceBuffer::checked("P.py", question["source"].get<std::string>()));
    PN_TRY(const pysrc::SyntaxTree tree,
           pysrc::SyntaxTree::parse(std::make_shared<SourceBuffer>(std::move(source))));
    Json messages = Json::array();
    for (const Diagnostic& d : check::public_violations(tree)) messages.push_back(d.message);
    return Json{{"messages", std::move(messages)}};
  }
  PN_TRY(const pysrc::Module module,
         pysrc::parse_module(SourceBuffer("P.py", question.at("pattern").get<std::string>())));
  const check::ReadPass pass = check::read_pass("P", module);
  Json codes = Json::array();
  for (const Diagnostic& d : pass.findings) codes.push_back(d.code + ": " + d.message);
  return Json{{"readable", pass.readable}, {"codes", std::move(codes)}, {"graph", to_json(pass.pattern)}};
}

}  // namespace
}  // namespace passnet

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const passnet::Result<passnet::Json> out = passnet::answer(line);
    std::cout << (out.ok() ? passnet::dump_json(*out) : passnet::dump_json({{"error", out.error().code}}))
              << std::endl;
  }
  return 0;
}
