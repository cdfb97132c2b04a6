#include "ops/signature.h"

#include <cmath>

#include <gtest/gtest.h>

namespace passnet {
namespace {

TEST(Signature, ReadsParametersDefaultsAndKinds) {
  const Result<Signature> s =
      parse_signature("input, dim|axis:ints=None, keepdim=False, *, p=-1e-05, mode='a, b'");
  ASSERT_TRUE(s.ok());
  ASSERT_EQ(s->parameters.size(), 5u);
  EXPECT_FALSE(s->parameters[0].default_value.has_value());
  EXPECT_EQ(s->parameters[1].kind, ArgKind::kInts);
  EXPECT_EQ(s->find("axis"), 1);
  EXPECT_EQ(s->find("nothing"), -1);
  EXPECT_FALSE(s->parameters[2].keyword_only);
  EXPECT_TRUE(s->parameters[3].keyword_only);
  EXPECT_EQ(*s->parameters[3].default_value, Value::real(-1e-05));
  EXPECT_EQ(s->parameters[4].default_value->text(), "a, b");
}

TEST(Signature, RestAndErrors) {
  const Result<Signature> s = parse_signature("input, size...");
  ASSERT_TRUE(s.ok());
  EXPECT_TRUE(s->parameters[1].rest);
  EXPECT_FALSE(parse_signature("input, input").ok());
  EXPECT_FALSE(parse_signature("input, dim:colour").ok());
  EXPECT_FALSE(parse_signature("input dim").ok());
  EXPECT_FALSE(parse_signature("input, x=").ok());
}

TEST(Signature, Literals) {
  const auto read = [](std::string_view text) {
    size_t at = 0;
    const Result<Value> v = parse_literal(text, &at);
    EXPECT_TRUE(v.ok()) << text;
    EXPECT_EQ(at, text.size()) << text;
    return v.ok() ? *v : Value::none();
  };
  EXPECT_EQ(read("(8,)"), Value::tuple({Value::integer(8)}));
  EXPECT_EQ(read("(8)"), Value::integer(8));
  EXPECT_EQ(read("[1, -2.5, True, None]"),
            Value::list({Value::integer(1), Value::real(-2.5), Value::boolean(true), Value::none()}));
  EXPECT_EQ(read("torch.float16"), Value::dtype(DType::kFloat16));
  EXPECT_EQ(read("torch.device('cuda:0')"), Value::device("cuda:0"));
  EXPECT_EQ(read("slice(None, 3)"), Value::slice(Value::none(), Value::integer(3), Value::none()));
  EXPECT_EQ(read("..."), Value::ellipsis());
  EXPECT_EQ(read("-inf").as_double(), -INFINITY);
  EXPECT_EQ(read("torch.channels_last").kind(), Value::Kind::kMemoryFormat);
}

}  // namespace
}  // namespace passnet
