#include "ir/value.h"

#include <cmath>

#include <gtest/gtest.h>

namespace passnet {
namespace {

TEST(DType, PromotesAsTorchDoes) {
  EXPECT_EQ(promote_types(DType::kFloat16, DType::kBFloat16), DType::kFloat32);
  EXPECT_EQ(promote_types(DType::kUInt8, DType::kInt8), DType::kInt16);
  EXPECT_EQ(promote_types(DType::kInt64, DType::kFloat16), DType::kFloat16);
  EXPECT_EQ(promote_types(DType::kBool, DType::kInt8), DType::kInt8);
  EXPECT_EQ(promote_types(DType::kFloat64, DType::kComplex64), DType::kComplex128);
  EXPECT_EQ(promote_types(DType::kFloat32, DType::kComplex64), DType::kComplex64);
}

TEST(DType, ReadsTorchNamesAndAliases) {
  EXPECT_EQ(parse_dtype("torch.float32"), DType::kFloat32);
  EXPECT_EQ(parse_dtype("half"), DType::kFloat16);
  EXPECT_EQ(parse_dtype("torch.long"), DType::kInt64);
  EXPECT_FALSE(parse_dtype("torch.float31").has_value());
}

TEST(PythonFloat, IsRepr) {
  // Expected texts are CPython's repr().
  EXPECT_EQ(python_float(1e-05), "1e-05");
  EXPECT_EQ(python_float(0.1), "0.1");
  EXPECT_EQ(python_float(1.0), "1.0");
  EXPECT_EQ(python_float(-0.0), "-0.0");
  EXPECT_EQ(python_float(0.0001), "0.0001");
  EXPECT_EQ(python_float(1e16), "1e+16");
  EXPECT_EQ(python_float(123456789012345.0), "123456789012345.0");
  EXPECT_EQ(python_float(-3.4028234663852886e+38), "-3.4028234663852886e+38");
  EXPECT_EQ(python_float(0.7978845608028654), "0.7978845608028654");
  EXPECT_EQ(python_float(HUGE_VAL), "inf");
}

TEST(Value, EqualOnlyWithEqualType) {
  EXPECT_FALSE(Value::integer(1) == Value::real(1.0));
  EXPECT_FALSE(Value::integer(1) == Value::boolean(true));
  EXPECT_FALSE(Value::real(0.0) == Value::real(-0.0));
  EXPECT_TRUE(Value::real(std::nan("")) == Value::real(std::nan("")));
  EXPECT_FALSE(Value::list({Value::integer(1)}) == Value::tuple({Value::integer(1)}));
}

TEST(Value, PrintsAsPythonSource) {
  EXPECT_EQ(python_text(Value::tuple({Value::integer(1)})), "(1,)");
  EXPECT_EQ(python_text(Value::slice(Value::none(), Value::integer(64), Value::none())),
            "slice(None, 64, None)");
  EXPECT_EQ(python_text(Value::string("it's")), "\"it's\"");
  EXPECT_EQ(python_text(Value::string("a'b\"c\n")), "'a\\'b\"c\\n'");
  EXPECT_EQ(python_text(Value::real(-HUGE_VAL)), "float('-inf')");
  EXPECT_EQ(python_text(Value::dtype(DType::kBFloat16)), "torch.bfloat16");
}

TEST(Value, VisitsNodesInArgumentOrder) {
  const Value v = Value::list({Value::node(3), Value::slice(Value::node(1), Value::none(), Value::node(2))});
  std::vector<NodeId> seen;
  v.for_each_node([&](NodeId id) { seen.push_back(id); });
  EXPECT_EQ(seen, (std::vector<NodeId>{3, 1, 2}));
  const Value mapped = v.map_nodes([](NodeId id) { return Value::integer(id * 10); });
  EXPECT_EQ(python_text(mapped), "[30, slice(10, None, 20)]");
}

}  // namespace
}  // namespace passnet
