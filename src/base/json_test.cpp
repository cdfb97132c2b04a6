#include "base/json.h"

#include <gtest/gtest.h>

namespace passnet {
namespace {

TEST(Json, KeysKeepTheirOrder) {
  const auto parsed = parse_json(R"({"z": 1, "a": [true, null, 2.5]})");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(dump_json(*parsed), R"({"z":1,"a":[true,null,2.5]})");
}

TEST(Json, SyntaxErrorNamesFileLineAndColumn) {
  const auto parsed = parse_json("{\n  \"a\": 1,\n  oops\n}", "meta.json");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().code, "json.syntax");
  EXPECT_EQ(parsed.error().file, "meta.json");
  EXPECT_EQ(parsed.error().span.line, 3);
  EXPECT_EQ(parsed.error().span.col, 3);
}

TEST(Json, EmptyTextIsAnError) { EXPECT_EQ(parse_json("").error().code, "json.syntax"); }

TEST(Json, DeepNestingIsRefusedBeforeItCanExhaustTheStack) {
  EXPECT_TRUE(parse_json(std::string(500, '[') + std::string(500, ']')).ok());
  EXPECT_EQ(parse_json(std::string(1000000, '[')).error().code, "json.depth");
  EXPECT_TRUE(parse_json('"' + std::string(1000, '[') + "\\\"" + std::string(1000, '[') + '"').ok());
}

TEST(Json, BytesThatAreNoUtf8AreReplaced) { EXPECT_EQ(dump_json(Json("a\xFF")), "\"a\xEF\xBF\xBD\""); }

}  // namespace
}  // namespace passnet
