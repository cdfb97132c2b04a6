#include "base/verdict.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace passnet {
namespace {

TEST(Verdict, YesHasNoReasons) {
  const Verdict yes = Verdict::yes();
  EXPECT_TRUE(yes.ok());
  EXPECT_EQ(yes.to_text(), "ok");
  EXPECT_EQ(dump_json(to_json(yes)), R"({"ok":true,"refusals":[]})");
}

TEST(Verdict, EveryReasonIsKept) {
  Verdict verdict = Verdict::no("region.write", "relu_ writes what the region reads", {"relu_", "add"});
  verdict &= Verdict::yes();
  verdict &= Verdict::no("region.wall", "conv2d stays in the library");
  EXPECT_FALSE(verdict);
  EXPECT_EQ(verdict.to_text(),
            "region.write: relu_ writes what the region reads (relu_, add)\n"
            "region.wall: conv2d stays in the library");
  EXPECT_TRUE(verdict.refused_for("region.wall"));
  EXPECT_FALSE(verdict.refused_for("region"));
  EXPECT_EQ(to_json(verdict)["refusals"][0]["nodes"], Json({"relu_", "add"}));
}

}  // namespace
}  // namespace passnet
