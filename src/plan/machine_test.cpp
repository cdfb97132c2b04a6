#include "plan/machine.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace passnet {
namespace {

TEST(Profiles, BuiltInOnesReadAndWriteTheSame) {
  EXPECT_EQ(profile_names(), (std::vector<std::string>{"h200", "a100", "a30"}));
  for (const std::string& name : profile_names()) {
    const Result<Profile> profile = builtin_profile(name);
    ASSERT_TRUE(profile.ok()) << profile.error().message;
    EXPECT_EQ(profile->name, name);
    const std::string text = dump_json(to_json(*profile), 2);
    const Result<Profile> again = read_profile(text);
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(dump_json(to_json(*again), 2), text);
  }
  EXPECT_EQ(builtin_profile("h200")->bandwidth_gbps, 4190);
  EXPECT_EQ(builtin_profile("h200")->sm, 90);
}

TEST(Profiles, SayWhatIsWrong) {
  const Result<Profile> unknown = builtin_profile("b100");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, "profile.unknown");
  EXPECT_EQ(unknown.error().hint, "the built-in ones are h200, a100, a30; give a file for any other machine");

  Json json = to_json(*builtin_profile("a30"));
  json.erase("launch_us");
  EXPECT_EQ(read_profile(dump_json(json)).error().message,
            "the machine profile lacks the number 'launch_us'");
  json["launch_us"] = 5;
  json["bandwidth_gbps"] = 0;
  EXPECT_EQ(read_profile(dump_json(json)).error().code, "profile.value");
  json["schema"] = "passnet.profile/2";
  EXPECT_EQ(read_profile(dump_json(json)).error().code, "profile.schema");
  EXPECT_EQ(read_profile("{").error().code, "json.syntax");
}

}  // namespace
}  // namespace passnet
