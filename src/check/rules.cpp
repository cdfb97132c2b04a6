#include "check/rules.h"

#include <cstdio>
#include <cstdlib>

namespace passnet::check {

namespace {

constexpr Rule kRules[] = {
#define PN_RULE(id, code, severity, statement, fails, passes, remedy) \
  {id, code, Severity::severity, statement, fails, passes, remedy},
#include "check/rules.def"
#undef PN_RULE
};

}  // namespace

std::span<const Rule> all_rules() { return kRules; }

const Rule& rule(std::string_view code) {
  for (const Rule& r : kRules) {
    if (r.code == code) return r;
  }
  std::fprintf(stderr, "passnet: no rule %.*s\n", static_cast<int>(code.size()), code.data());
  std::abort();
}

Diagnostic broken(std::string_view code, std::string_view message) {
  const Rule& r = rule(code);
  Diagnostic d = user_error(code, message);
  d.severity = r.severity;
  return std::move(d).with_hint(r.remedy).with("rule", r.id);
}

}  // namespace passnet::check
