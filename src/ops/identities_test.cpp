#include "ops/identities.h"

#include <gtest/gtest.h>

namespace passnet {
namespace {

TEST(Identities, ManyNamesOneObject) {
  EXPECT_EQ(canonical_target("torch._C._nn.gelu"), "torch.nn.functional.gelu");
  EXPECT_EQ(canonical_target("torch.nn.functional.conv2d"), "torch.conv2d");
  EXPECT_EQ(canonical_target("torch.functional.norm"), "torch.norm");
  EXPECT_EQ(canonical_target("_operator.add"), "operator.add");
  EXPECT_EQ(canonical_target("torch._C._special.special_logit"), "torch.special.logit");
  EXPECT_EQ(canonical_target("torch.relu"), "torch.relu");
  EXPECT_EQ(canonical_target("no.such.function"), "no.such.function");
}

TEST(Identities, SignaturesArePythons) {
  const PySignature* relu = signature_of("torch.nn.functional.relu");
  ASSERT_NE(relu, nullptr);
  ASSERT_EQ(relu->size(), 2u);
  EXPECT_EQ((*relu)[1].name, "inplace");
  EXPECT_EQ((*relu)[1].default_text, "False");
  EXPECT_EQ((*relu)[0].default_text, std::nullopt);
  EXPECT_EQ(signature_of("torch.relu"), nullptr);  // written in C
  EXPECT_TRUE(is_known_function("torch.relu"));
  EXPECT_FALSE(is_known_function("torch.no_such_function"));
  EXPECT_TRUE(is_bool_dispatch("torch.nn.functional.max_pool2d"));
  EXPECT_FALSE(is_bool_dispatch("torch.nn.functional.relu"));
}

}  // namespace
}  // namespace passnet
