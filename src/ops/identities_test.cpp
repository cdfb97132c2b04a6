#include "ops/identities.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "embedded/torch_identities.h"

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

// The search takes every line of the file, the first and the last too.
TEST(Identities, EveryLineIsFound) {
  const std::string_view text = embedded::torch_identities()[0].content;
  const Result<Json> parsed = parse_json(text);
  ASSERT_TRUE(parsed.ok());
  for (const auto& [spelled, own] : parsed->at("canonical").items()) {
    EXPECT_EQ(canonical_target(spelled), own.get<std::string>());
  }
  for (const auto& [name, entry] : parsed->at("functions").items()) {
    EXPECT_TRUE(is_known_function(name)) << name;
    EXPECT_EQ(signature_of(name) != nullptr, entry.at("signature").is_array()) << name;
  }
  EXPECT_FALSE(is_known_function(""));
  EXPECT_EQ(canonical_target("zzz"), "zzz");
  EXPECT_EQ(canonical_target("A"), "A");
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

TEST(Identities, AnotherTorchIsToldApart) {
  Json theirs = *parse_json(embedded::torch_identities()[0].content);
  Result<IdentityCheck> same = check_identities(theirs);
  ASSERT_TRUE(same.ok());
  EXPECT_TRUE(same->recorded);
  EXPECT_GT(same->names, 3000);
  EXPECT_TRUE(same->other.empty());
  theirs["canonical"]["torch._C._nn.gelu"] = "torch.gelu";
  theirs["functions"]["torch.nn.functional.relu"]["signature"][1]["default"] = "True";
  theirs["torch"] = "9.9";
  const Result<IdentityCheck> other = check_identities(theirs);
  ASSERT_TRUE(other.ok());
  EXPECT_FALSE(other->recorded);
  EXPECT_EQ(other->other, (std::vector<std::string>{
                              "torch._C._nn.gelu is torch.gelu, recorded as torch.nn.functional.gelu",
                              "the signature of torch.nn.functional.relu is another one than recorded"}));
  EXPECT_FALSE(check_identities(Json::object()).ok());
}

}  // namespace
}  // namespace passnet
