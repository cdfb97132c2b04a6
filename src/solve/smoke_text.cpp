#include "solve/smoke_text.h"

#include <fmt/format.h>

#include "base/json.h"

namespace passnet {

std::string smoke_failure(const Json& result) {
  if (result.contains("error")) return result["error"].value("message", "the run failed");
  if (!result.contains("calls")) return "the run failed";
  for (const Json& call : result["calls"]) {
    if (call.value("ok", false)) continue;
    const std::string where =
        fmt::format("{} inputs, {} call: ", call.value("family", ""), call.value("mode", ""));
    if (call.contains("error")) return where + call["error"].value("message", "failed");
    if (call.contains("violations") && !call["violations"].empty()) {
      return where + fmt::format("the wrapper used {}", call["violations"][0].get<std::string>());
    }
    for (const char* list : {"outputs", "inputs"}) {
      if (!call.contains(list)) continue;
      for (const Json& output : call[list]) {
        if (!output.value("ok", true)) return where + output.value("reason", "differs from eager");
      }
    }
    if (call.contains("alias_added") && !call["alias_added"].empty())
      return where + "outputs share memory with other tensors than eager's do";
    if (call.contains("wrappers")) {
      for (const Json& wrapper : call["wrappers"]) {
        if (!wrapper.value("ok", true))
          return where + fmt::format("{} differs from the CUDA reference", wrapper.value("pass", ""));
      }
    }
  }
  return "the run failed";
}

bool is_eagers_own(const Json& result) {
  if (!result.contains("calls")) return false;
  for (const Json& call : result["calls"]) {
    if (call.value("ok", false)) continue;
    const std::string code = call.contains("error") ? call["error"].value("code", "") : "";
    return code == "eager_failed" || code == "eager_unstable";
  }
  return false;
}

}  // namespace passnet
