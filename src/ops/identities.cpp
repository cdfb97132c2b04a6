#include "ops/identities.h"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>

#include "base/json.h"
#include "embedded/torch_identities.h"

namespace passnet {

namespace {

struct Function {
  std::optional<PySignature> signature;
  bool bool_dispatch = false;
};

// A part of the recorded file: lines `"key": <JSON>,` in the order of their keys. It is searched as it stands: parsing all of it
// would take longer than the capture of a model.
class Lines {
 public:
  // What follows the head line `"name": {` up to the closing brace.
  Lines(std::string_view file, std::string_view name) {
    const std::string head = "\n\"" + std::string(name) + "\": {\n";
    const std::size_t begin = file.find(head);
    if (begin == std::string_view::npos) broken();
    text_ = file.substr(begin + head.size());
    text_ = text_.substr(0, text_.find("\n}") + 1);
  }

  // The JSON behind a key; nothing where there is no such line.
  std::optional<std::string_view> find(std::string_view key) const {
    std::size_t low = 0, high = text_.size();
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      const std::size_t before = middle > low ? text_.rfind('\n', middle - 1) : std::string_view::npos;
      const std::size_t begin = before == std::string_view::npos || before < low ? low : before + 1;
      const std::size_t end = text_.find('\n', begin);
      const std::string_view line = text_.substr(begin, end - begin);
      const std::string_view own = line.substr(1, line.find('"', 1) - 1);
      if (own == key) {
        std::string_view value = line.substr(own.size() + 4);
        if (value.ends_with(',')) value.remove_suffix(1);
        return value;
      }
      if (own < key) {
        low = end + 1;
      } else {
        high = begin;
      }
    }
    return std::nullopt;
  }

  [[noreturn]] static void broken() {
    std::fprintf(stderr,
                 "torch identities: the file that was compiled in is not as tools/record_torch_identities "
                 "writes it\n");
    std::abort();
  }

 private:
  std::string_view text_;
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

// The version that graphs are captured for: the first that is embedded.
std::string_view file() { return embedded::torch_identities()[0].content; }

// Functions that were asked for, parsed once; they live as long as the program.
const Function* function(std::string_view canonical) {
  static const Lines functions(file(), "functions");
  static std::map<std::string, Function, std::less<>> known;
  static std::mutex guard;
  const std::lock_guard lock(guard);
  if (const auto it = known.find(canonical); it != known.end()) return &it->second;
  const std::optional<std::string_view> text = functions.find(canonical);
  if (!text) return nullptr;
  const Result<Json> parsed = parse_json(*text);
  if (!parsed) Lines::broken();
  return &known.emplace(canonical, parse_function(*parsed)).first->second;
}

}  // namespace

std::string_view canonical_target(std::string_view dotted) {
  static const Lines canonical(file(), "canonical");
  const std::optional<std::string_view> own = canonical.find(dotted);
  return own ? own->substr(1, own->size() - 2) : dotted;
}

bool is_known_function(std::string_view dotted) { return function(canonical_target(dotted)) != nullptr; }

const PySignature* signature_of(std::string_view canonical) {
  const Function* found = function(canonical);
  return found == nullptr || !found->signature ? nullptr : &*found->signature;
}

bool is_bool_dispatch(std::string_view canonical) {
  const Function* found = function(canonical);
  return found != nullptr && found->bool_dispatch;
}

Result<IdentityCheck> check_identities(const Json& theirs) {
  const auto wrong = [] {
    return internal_error("identities.form", "the worker's identities are not in the form that is recorded");
  };
  if (!theirs.contains("torch") || !theirs.contains("canonical") || !theirs.contains("functions"))
    return wrong();
  IdentityCheck out;
  out.torch = theirs["torch"].get<std::string>();
  std::string_view text = file();
  for (const EmbeddedFile& candidate : embedded::torch_identities()) {
    if (candidate.path != out.torch + ".json") continue;
    text = candidate.content;
    out.recorded = true;
  }
  PN_TRY(const Json ours, parse_json(text));
  // Names that only one of the two has are no contradiction: what matters is what a name stands for.
  for (const auto& [spelled, own] : ours.at("canonical").items()) {
    const auto it = theirs["canonical"].find(spelled);
    const bool known = it != theirs["canonical"].end();
    if (!known && !theirs["functions"].contains(spelled)) continue;
    ++out.names;
    const std::string found = known ? it->get<std::string>() : spelled;
    if (found != own.get<std::string>()) {
      out.other.push_back(spelled + " is " + found + ", recorded as " + own.get<std::string>());
    }
  }
  for (const auto& [name, entry] : ours.at("functions").items()) {
    const auto it = theirs["functions"].find(name);
    if (it == theirs["functions"].end()) continue;
    ++out.names;
    if (*it != entry) out.other.push_back("the signature of " + name + " is another one than recorded");
  }
  return out;
}

}  // namespace passnet
