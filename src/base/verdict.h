#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_fwd.h"

namespace passnet {

/// One reason why something is not matched, not fused or not legal. `nodes` names the graph nodes (or other
/// subjects) it rests on; a person must be able to act on `message`.
struct Refusal {
  std::string code;
  std::string message;
  std::vector<std::string> nodes;

  bool operator==(const Refusal&) const = default;
};

/// Yes, or no with every reason found. There is no way to say no without one.
class [[nodiscard]] Verdict {
 public:
  Verdict() = default;
  Verdict(Refusal refusal) { refusals_.push_back(std::move(refusal)); }

  static Verdict yes() { return {}; }
  static Verdict no(std::string_view code, std::string_view message, std::vector<std::string> nodes = {}) {
    return Refusal{std::string(code), std::string(message), std::move(nodes)};
  }

  bool ok() const { return refusals_.empty(); }
  explicit operator bool() const { return ok(); }

  const std::vector<Refusal>& refusals() const { return refusals_; }
  /// Whether one of the refusals has this code.
  bool refused_for(std::string_view code) const;

  void refuse(Refusal refusal) { refusals_.push_back(std::move(refusal)); }
  void refuse(std::string_view code, std::string_view message, std::vector<std::string> nodes = {}) {
    refusals_.push_back({std::string(code), std::string(message), std::move(nodes)});
  }
  /// Takes over the other's refusals: both must be ok for the whole to be.
  Verdict& operator&=(Verdict other);

  /// `ok`, or one line a refusal: `code: message (a, b)`.
  std::string to_text() const;

  bool operator==(const Verdict&) const = default;

 private:
  std::vector<Refusal> refusals_;
};

Json to_json(const Refusal& refusal);
/// `{"ok": bool, "refusals": [...]}`
Json to_json(const Verdict& verdict);

}  // namespace passnet
