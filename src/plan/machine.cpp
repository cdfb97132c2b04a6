#include "plan/machine.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/embedded.h"
#include "base/json.h"
#include "embedded/profiles.h"

namespace passnet {

namespace {

constexpr std::string_view kSchema = "passnet.profile/1";

struct NumberField {
  std::string_view name;
  double Profile::*member;
  bool may_be_zero;
};

constexpr NumberField kNumbers[] = {
    {"bandwidth_gbps", &Profile::bandwidth_gbps, false},
    {"l2_bytes", &Profile::l2_bytes, false},
    {"l2_gbps", &Profile::l2_gbps, false},
    {"fp32_tflops", &Profile::fp32_tflops, false},
    {"tf32_tflops", &Profile::tf32_tflops, false},
    {"tensor16_tflops", &Profile::tensor16_tflops, false},
    {"product_efficiency", &Profile::product_efficiency, false},
    {"generated_efficiency", &Profile::generated_efficiency, false},
    {"conv32_tflops", &Profile::conv32_tflops, false},
    {"conv16_tflops", &Profile::conv16_tflops, false},
    {"depthwise_tflops", &Profile::depthwise_tflops, false},
    {"stem_tflops", &Profile::stem_tflops, false},
    {"transposed_tflops", &Profile::transposed_tflops, false},
    {"windowed16_tflops", &Profile::windowed16_tflops, false},
    {"windowed32_tflops", &Profile::windowed32_tflops, false},
    {"kernel_floor_us", &Profile::kernel_floor_us, true},
    {"latency_us", &Profile::latency_us, true},
    {"sync_us", &Profile::sync_us, true},
    {"harness_us", &Profile::harness_us, true},
    {"compiled_tax_us", &Profile::compiled_tax_us, true},
    {"wrapper_us", &Profile::wrapper_us, true},
    {"tensor_argument_us", &Profile::tensor_argument_us, true},
    {"allocation_us", &Profile::allocation_us, true},
    {"launch_us", &Profile::launch_us, true},
    {"zero_launch_us", &Profile::zero_launch_us, true},
    {"host_scale", &Profile::host_scale, false},
};

std::string stem(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash != std::string_view::npos) path.remove_prefix(slash + 1);
  return std::string(path.substr(0, path.rfind('.')));
}

}  // namespace

std::vector<std::string> profile_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded::profiles()) names.push_back(stem(file.path));
  return names;
}

Result<Profile> builtin_profile(std::string_view name) {
  for (const EmbeddedFile& file : embedded::profiles()) {
    if (stem(file.path) == name) return read_profile(file.content, file.path);
  }
  return user_error("profile.unknown", fmt::format("there is no machine profile '{}'", name))
      .with_hint(fmt::format("the built-in ones are {}; give a file for any other machine",
                             fmt::join(profile_names(), ", ")));
}

Result<Profile> read_profile(std::string_view text, std::string_view file) {
  PN_TRY(const Json json, parse_json(text, file));
  if (!json.is_object() || !json.contains("schema") || json["schema"] != kSchema) {
    return user_error("profile.schema", fmt::format("a machine profile says \"schema\": \"{}\"", kSchema))
        .at(std::string(file));
  }
  const auto missing = [&](std::string_view field, std::string_view kind) {
    return user_error("profile.missing", fmt::format("the machine profile lacks the {} '{}'", kind, field))
        .at(std::string(file));
  };
  Profile profile;
  for (auto [field, member] :
       {std::pair{"name", &Profile::name}, {"gpu", &Profile::gpu}, {"source", &Profile::source}}) {
    if (!json.contains(field) || !json[field].is_string()) return missing(field, "text");
    profile.*member = json[field].get<std::string>();
  }
  if (!json.contains("sm") || !json["sm"].is_number_integer()) return missing("sm", "integer");
  profile.sm = json["sm"].get<int>();
  for (const NumberField& field : kNumbers) {
    const std::string key(field.name);
    if (!json.contains(key) || !json[key].is_number()) return missing(field.name, "number");
    const double value = json[key].get<double>();
    if (!(value > 0 || (field.may_be_zero && value == 0))) {
      return user_error("profile.value",
                        fmt::format("'{}' of a machine profile must be positive, not {}", key, value))
          .at(std::string(file));
    }
    profile.*field.member = value;
  }
  return profile;
}

Json to_json(const Profile& profile) {
  Json json = Json::object();
  json["schema"] = kSchema;
  json["name"] = profile.name;
  json["gpu"] = profile.gpu;
  json["source"] = profile.source;
  json["sm"] = profile.sm;
  for (const NumberField& field : kNumbers) json[std::string(field.name)] = profile.*field.member;
  return json;
}

}  // namespace passnet
