#include "base/verdict.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json.h"

namespace passnet {

bool Verdict::refused_for(std::string_view code) const {
  return std::any_of(refusals_.begin(), refusals_.end(), [&](const Refusal& r) { return r.code == code; });
}

Verdict& Verdict::operator&=(Verdict other) {
  std::move(other.refusals_.begin(), other.refusals_.end(), std::back_inserter(refusals_));
  return *this;
}

std::string Verdict::to_text() const {
  if (ok()) return "ok";
  std::string out;
  for (const auto& refusal : refusals_) {
    if (!out.empty()) out += '\n';
    out += fmt::format("{}: {}", refusal.code, refusal.message);
    if (!refusal.nodes.empty()) out += fmt::format(" ({})", fmt::join(refusal.nodes, ", "));
  }
  return out;
}

Json to_json(const Refusal& refusal) {
  Json out = Json::object();
  out["code"] = refusal.code;
  out["message"] = refusal.message;
  out["nodes"] = refusal.nodes;
  return out;
}

Json to_json(const Verdict& verdict) {
  Json out = Json::object();
  out["ok"] = verdict.ok();
  out["refusals"] = Json::array();
  for (const auto& refusal : verdict.refusals()) out["refusals"].push_back(to_json(refusal));
  return out;
}

}  // namespace passnet
