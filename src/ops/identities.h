#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"

// Names of torch's functions (torch_identities/<version>.json, recorded by tools/record_torch_identities): many names
// stand for one object, and a graph's targets go by one of them.

namespace passnet {

struct PyParameter {
  enum class Kind : uint8_t { kPositionalOnly, kPositional, kVarPositional, kKeywordOnly, kVarKeyword };
  std::string name;
  Kind kind = Kind::kPositional;
  std::optional<std::string> default_text;  // Python source; "..." if it is nothing that a graph could hold
};
using PySignature = std::vector<PyParameter>;

// "torch.nn.functional.gelu" for "torch._C._nn.gelu"; a name that is not listed is its own.
std::string_view canonical_target(std::string_view dotted);
// Whether torch has a function of this name (canonical or not).
bool is_known_function(std::string_view dotted);
// What inspect.signature gives; null where it fails (functions written in C) or the function is not known.
const PySignature* signature_of(std::string_view canonical);
// Functions that choose between two by a flag (max_pool2d by return_indices); their signature is (*args, **kwargs).
bool is_bool_dispatch(std::string_view canonical);

// What a torch says of itself (the worker's command `identities`) beside what was recorded of its version.
struct IdentityCheck {
  std::string torch;      // the version, "2.13"
  bool recorded = false;  // false: nothing is recorded of this version; the newest one was compared
  int names = 0;          // compared
  std::vector<std::string>
      other;  // what differs, a line each: "torch.foo is torch.bar, recorded as torch.baz"
};
Result<IdentityCheck> check_identities(const Json& theirs);

}  // namespace passnet
