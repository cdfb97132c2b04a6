#include "score/expected.h"

namespace passnet::score {

Json to_json(const Expected& e) {
  const auto maybe = [](const std::optional<double>& v) { return v ? Json(*v) : Json(); };
  return {{"legal_ceiling", maybe(e.legal_ceiling)},
          {"unchanged", maybe(e.unchanged)},
          {"predicted", maybe(e.predicted)},
          {"device_share", maybe(e.device_share)},
          {"state", e.state},
          {"family", e.family},
          {"blocked", e.blocked}};
}

Expected expected_of(const Json& json) {
  Expected e;
  const auto number = [&](const char* key) {
    return json.contains(key) && json[key].is_number() ? std::optional<double>(json[key].get<double>())
                                                       : std::nullopt;
  };
  e.legal_ceiling = number("legal_ceiling");
  e.unchanged = number("unchanged");
  e.predicted = number("predicted");
  e.device_share = number("device_share");
  const auto word = [&](const char* key) {
    return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : std::string();
  };
  e.state = word("state");
  e.family = word("family");
  if (json.contains("blocked") && json["blocked"].is_array())
    for (const Json& code : json["blocked"])
      if (code.is_string()) e.blocked.push_back(code.get<std::string>());
  return e;
}

}  // namespace passnet::score
