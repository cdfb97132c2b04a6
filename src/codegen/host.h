#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/emit.h"
#include "codegen/pass_dir.h"

// The host side of a pass_dir: _shared_kernels.py around the kernels, and a file a pass.

namespace passnet::codegen {

// One entry of a route, planned and written.
struct WrittenEntry {
  ProgramPlan plan;
  std::vector<KernelText> kernels;
  std::vector<std::string> names;  // of the kernels in _shared_kernels.py
};

// What becomes of one pass in _shared_kernels.py.
struct RouteText {
  std::string name;       // "add_layer_norm"
  std::string tables;     // module-level literals
  std::string functions;  // the route's function
  std::string call;       // the expression dispatch_wrapper returns
};

// Table, function and call of a route. `written` is parallel to `entries` (both empty for a zero-launch pass).
Result<RouteText> write_route(const PassSpec& spec, const std::vector<PassEntry>& entries,
                              const std::vector<WrittenEntry>& written);

// The text of <Name>.py.
Result<std::string> write_pass_file(const PassSpec& spec);

// Fixed texts.
std::string template_text(std::string_view name);
// The functions of templates/device.py by name, with what they call.
std::string device_helpers(const std::set<std::string>& names);

// A name that Python code may bind: no keyword, no module of ours.
std::string python_name(const std::string& wish);

}  // namespace passnet::codegen
