#include "ops/identities.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>

#include "base/json.h"
#include "embedded/torch_identities.h"

namespace passnet {

namespace {

struct Function {
  std::optional<PySignature> signature;
  bool bool_dispatch = false;
};

struct Identities {
  std::map<std::string, std::string, std::less<>> canonical;
  std::map<std::string, Function, std::less<>> functions;
};

PyParameter::Kind parse_kind(std::string_view text) {
  if (text == "positional_only") return PyParameter::Kind::kPositionalOnly;
  if (text == "var_positional") return PyParameter::Kind::kVarPositional;
  if (text == "keyword_only") return PyParameter::Kind::kKeywordOnly;
  if (text == "var_keyword") return PyParameter::Kind::kVarKeyword;
  return PyParameter::Kind::kPositional;
}

Function parse_function(const Json& entry) {
  Function out;
  out.bool_dispatch = entry.value("bool_dispatch", false);
  const auto signature = entry.find("signature");
  if (signature == entry.end() || !signature->is_array()) return out;
  PySignature parameters;
  for (const Json& p : *signature) {
    PyParameter parameter;
    parameter.name = p.value("name", "");
    parameter.kind = parse_kind(p.value("kind", ""));
    if (const auto it = p.find("default"); it != p.end()) parameter.default_text = it->get<std::string>();
    parameters.push_back(std::move(parameter));
  }
  out.signature = std::move(parameters);
  return out;
}

const Identities& identities() {
  static const Identities table = [] {
    Identities out;
    const Result<Json> parsed = parse_json(embedded::torch_identities()[0].content);
    if (!parsed) {
      std::fprintf(stderr, "torch identities: %s\n", parsed.error().message.c_str());
      std::abort();  // the file was compiled in
    }
    for (const auto& [spelled, own] : parsed->at("canonical").items())
      out.canonical[spelled] = own.get<std::string>();
    for (const auto& [name, entry] : parsed->at("functions").items())
      out.functions[name] = parse_function(entry);
    return out;
  }();
  return table;
}

}  // namespace

std::string_view canonical_target(std::string_view dotted) {
  const auto it = identities().canonical.find(dotted);
  return it == identities().canonical.end() ? dotted : std::string_view(it->second);
}

bool is_known_function(std::string_view dotted) {
  return identities().functions.contains(canonical_target(dotted));
}

const PySignature* signature_of(std::string_view canonical) {
  const auto it = identities().functions.find(canonical);
  return it == identities().functions.end() || !it->second.signature ? nullptr : &*it->second.signature;
}

bool is_bool_dispatch(std::string_view canonical) {
  const auto it = identities().functions.find(canonical);
  return it != identities().functions.end() && it->second.bool_dispatch;
}

}  // namespace passnet
