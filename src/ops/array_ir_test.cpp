#include "ops/array_ir.h"

#include <cmath>
#include <functional>
#include <random>

#include <gtest/gtest.h>

namespace passnet {
namespace {

TensorMeta meta(std::vector<int64_t> shape, DType dtype = DType::kFloat32) {
  TensorMeta m;
  m.shape = std::move(shape);
  m.dtype = dtype;
  return m;
}

int64_t floor_div(int64_t a, int64_t b) { return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0); }

// Value of an int64 or bool expression over index variables.
int64_t evaluate(const Program& p, ExprId id, const std::vector<int64_t>& at) {
  const Expr& e = p.expr(id);
  const auto arg = [&](size_t i) { return evaluate(p, e.args[i], at); };
  switch (e.kind) {
    case Expr::Kind::kIndex: return at[static_cast<size_t>(e.axis)];
    case Expr::Kind::kConst: return e.int_value;
    case Expr::Kind::kSelect: return arg(0) != 0 ? arg(1) : arg(2);
    case Expr::Kind::kCast: return arg(0);
    case Expr::Kind::kCall: break;
    default: ADD_FAILURE() << "no index expression"; return 0;
  }
  switch (e.fn) {
    case Fn::kAdd: return arg(0) + arg(1);
    case Fn::kSub: return arg(0) - arg(1);
    case Fn::kMul: return arg(0) * arg(1);
    case Fn::kNeg: return -arg(0);
    case Fn::kAbs: return std::abs(arg(0));
    case Fn::kFloorDiv: return floor_div(arg(0), arg(1));
    case Fn::kMod: return arg(0) - floor_div(arg(0), arg(1)) * arg(1);
    case Fn::kTruncDiv: return arg(0) / arg(1);
    case Fn::kMin: return std::min(arg(0), arg(1));
    case Fn::kMax: return std::max(arg(0), arg(1));
    case Fn::kLt: return arg(0) < arg(1);
    case Fn::kLe: return arg(0) <= arg(1);
    case Fn::kGt: return arg(0) > arg(1);
    case Fn::kGe: return arg(0) >= arg(1);
    case Fn::kEq: return arg(0) == arg(1);
    case Fn::kNe: return arg(0) != arg(1);
    case Fn::kAnd: return arg(0) & arg(1);
    case Fn::kOr: return arg(0) | arg(1);
    case Fn::kNot: return arg(0) == 0;
    default: ADD_FAILURE() << "unexpected " << name_of(e.fn); return 0;
  }
}

TEST(ArrayIr, EqualExpressionsHaveEqualIds) {
  Program p;
  const ExprId i = p.index(0, 8), j = p.index(1, 4);
  EXPECT_EQ(i, p.index(0, 8));
  EXPECT_NE(i, p.index(0, 9));
  EXPECT_EQ(p.call(Fn::kAdd, {i, j}), p.call(Fn::kAdd, {j, i}));
  EXPECT_NE(p.real(0.0, DType::kFloat32), p.real(-0.0, DType::kFloat32));
  const double nan = std::nan("");
  EXPECT_EQ(p.real(nan, DType::kFloat32), p.real(nan, DType::kFloat32));
}

TEST(ArrayIr, ConstantsAreRoundedToTheirType) {
  EXPECT_EQ(round_to(0.1, DType::kFloat32), static_cast<double>(0.1f));
  EXPECT_EQ(round_to(0.1, DType::kFloat16), 0.0999755859375);
  EXPECT_EQ(round_to(0.1, DType::kBFloat16), 0.10009765625);
  EXPECT_EQ(round_to(65519.0, DType::kFloat16), 65504.0);
  EXPECT_EQ(round_to(65520.0, DType::kFloat16), INFINITY);
  EXPECT_EQ(round_to(std::ldexp(1.0, -24), DType::kFloat16), std::ldexp(1.0, -24));
  EXPECT_EQ(round_to(std::ldexp(1.0, -25), DType::kFloat16), 0.0);
  EXPECT_EQ(round_to(2049.0, DType::kFloat16), 2048.0);  // a tie goes to the even mantissa
  Program p;
  EXPECT_EQ(p.expr(p.integer(300, DType::kUInt8)).int_value, 44);
  EXPECT_EQ(p.expr(p.real(2.9, DType::kInt32)).int_value, 2);
}

TEST(ArrayIr, IndexArithmeticIsSimplified) {
  Program p;
  const ExprId i = p.index(0, 6), j = p.index(1, 4), zero = p.integer(0), four = p.integer(4);
  const ExprId linear = p.call(Fn::kAdd, {p.call(Fn::kMul, {i, four}), j});
  EXPECT_EQ(p.call(Fn::kAdd, {i, zero}), i);
  EXPECT_EQ(p.call(Fn::kFloorDiv, {linear, four}), i);
  EXPECT_EQ(p.call(Fn::kMod, {linear, four}), j);
  EXPECT_EQ(p.call(Fn::kMod, {j, four}), j);
  EXPECT_EQ(p.call(Fn::kFloorDiv, {linear, p.integer(24)}), zero);
  EXPECT_EQ(p.call(Fn::kFloorDiv, {linear, p.integer(8)}), p.call(Fn::kFloorDiv, {i, p.integer(2)}));
  EXPECT_EQ(p.index(2, 1), zero);
  EXPECT_EQ(p.range(linear), (std::pair<int64_t, int64_t>(0, 23)));
  EXPECT_EQ(p.call(Fn::kLt, {linear, p.integer(24)}), p.boolean(true));
  EXPECT_EQ(p.call(Fn::kSub, {linear, linear}), zero);
}

TEST(ArrayIr, SplittingAndJoiningAnIndexIsTheIdentity) {
  Program p;
  const ExprId x = p.index(0, 120);
  const auto n = [&](int64_t v) { return p.integer(v); };
  const ExprId a = p.call(Fn::kFloorDiv, {x, n(12)});
  const ExprId b = p.call(Fn::kMod, {p.call(Fn::kFloorDiv, {x, n(4)}), n(3)});
  const ExprId c = p.call(Fn::kMod, {x, n(4)});
  const ExprId back =
      p.call(Fn::kAdd, {p.call(Fn::kAdd, {p.call(Fn::kMul, {a, n(12)}), p.call(Fn::kMul, {b, n(4)})}), c});
  EXPECT_EQ(back, x);
}

TEST(ArrayIr, SimplificationKeepsTheValue) {
  std::mt19937 random(20240229);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int round = 0; round < 4000; ++round) {
    Program p;
    // The same expression twice: simplified in the program, and as a closure.
    using Value = std::function<int64_t(const std::vector<int64_t>&)>;
    const std::vector<int64_t> extents = {pick(1, 7), pick(1, 6), pick(1, 5)};
    const std::function<std::pair<ExprId, Value>(int)> make = [&](int depth) -> std::pair<ExprId, Value> {
      if (depth == 0 || pick(0, 5) == 0) {
        if (pick(0, 3) == 0) {
          const int64_t c = pick(-9, 9);
          return {p.integer(c), [c](const auto&) { return c; }};
        }
        const auto axis = static_cast<size_t>(pick(0, 2));
        return {p.index(static_cast<int>(axis), extents[axis]), [axis](const auto& at) { return at[axis]; }};
      }
      auto [a, va] = make(depth - 1);
      const int64_t c = pick(1, 12);
      switch (pick(0, 9)) {
        case 0:
        case 1: {
          auto [b, vb] = make(depth - 1);
          return {p.call(Fn::kAdd, {a, b}), [=](const auto& at) { return va(at) + vb(at); }};
        }
        case 2: {
          auto [b, vb] = make(depth - 1);
          return {p.call(Fn::kSub, {a, b}), [=](const auto& at) { return va(at) - vb(at); }};
        }
        case 3: return {p.call(Fn::kMul, {a, p.integer(c)}), [=](const auto& at) { return va(at) * c; }};
        case 4:
        case 5:
          return {p.call(Fn::kFloorDiv, {a, p.integer(c)}),
                  [=](const auto& at) { return floor_div(va(at), c); }};
        case 6:
        case 7:
          return {p.call(Fn::kMod, {a, p.integer(c)}),
                  [=](const auto& at) { return va(at) - floor_div(va(at), c) * c; }};
        case 8: {
          auto [b, vb] = make(depth - 1);
          return {p.call(Fn::kMin, {a, b}), [=](const auto& at) { return std::min(va(at), vb(at)); }};
        }
        default: {
          auto [b, vb] = make(depth - 1);
          const ExprId condition = p.call(Fn::kLt, {a, b});
          return {p.select(condition, a, b),
                  [=](const auto& at) { return va(at) < vb(at) ? va(at) : vb(at); }};
        }
      }
    };
    const auto [id, value] = make(4);
    const auto range = p.range(id);
    for (int64_t i = 0; i < extents[0]; ++i) {
      for (int64_t j = 0; j < extents[1]; ++j) {
        for (int64_t k = 0; k < extents[2]; ++k) {
          const std::vector<int64_t> at = {i, j, k};
          const int64_t expected = value(at);
          ASSERT_EQ(evaluate(p, id, at), expected) << "round " << round;
          if (range) {
            ASSERT_LE(range->first, expected);
            ASSERT_GE(range->second, expected);
          }
        }
      }
    }
  }
}

TEST(ArrayIr, CastsThatChangeNothingDisappear) {
  Program p;
  const ArrayId x = p.add_input(meta({4}, DType::kFloat16), "x");
  const ExprId value = p.read(x, {p.index(0, 4)});
  const ExprId wide = p.cast(value, DType::kFloat32);
  EXPECT_EQ(p.cast(wide, DType::kFloat16), value);
  EXPECT_NE(p.cast(wide, DType::kBFloat16), value);
  const ExprId narrow = p.cast(p.read(p.add_input(meta({4}), "y"), {p.index(0, 4)}), DType::kFloat16);
  EXPECT_EQ(p.expr(p.cast(narrow, DType::kFloat32)).kind, Expr::Kind::kCast);  // a rounding stays
}

TEST(ArrayIr, BrokenRulesAreRemembered) {
  Program p;
  const ArrayId x = p.add_input(meta({4}, DType::kFloat16), "x");
  const ExprId value = p.read(x, {p.index(0, 4)});
  EXPECT_EQ(p.misuse(), "");
  p.call(Fn::kAdd, {value, value});
  EXPECT_EQ(p.misuse(), "add: arithmetic on a 16-bit float");
}

TEST(ArrayIr, JsonWritesSharedExpressionsOnce) {
  Program p;
  const ArrayId x = p.add_input(meta({4}), "x");
  E v{&p, p.read(x, {p.index(0, 4)})};
  for (int i = 0; i < 40; ++i) v = v * v + 1.0;  // 2^40 nodes as a tree
  p.outputs = {p.add_map({4}, DType::kFloat32, v.id, "y")};
  const Json json = p.to_json();
  EXPECT_LT(dump_json(json).size(), 6000u);
  EXPECT_EQ(json["arrays"][0],
            Json::parse(R"({"id":0,"kind":"input","shape":[4],"dtype":"f32","label":"x","input":0})"));
  // Entries refer to earlier ones only.
  for (size_t k = 0; k < json["exprs"].size(); ++k) {
    const std::function<void(const Json&)> walk = [&](const Json& e) {
      if (!e.is_array() || e.empty()) return;
      if (e[0] == "e") {
        EXPECT_LT(e[1].get<size_t>(), k);
      }
      for (const Json& item : e) walk(item);
    };
    walk(json["exprs"][k]);
  }
  EXPECT_EQ(json["outputs"], Json::array({1}));
}

TEST(ArrayIr, JsonTexts) {
  Program p;
  const ArrayId x = p.add_input(meta({2, 3}, DType::kBFloat16), "x");
  const E v{&p, p.cast(p.read(x, {p.index(0, 2), p.reduce_index(0, 3)}), DType::kFloat32)};
  p.outputs = {p.add_reduce({2}, DType::kFloat32, ReduceOp::kMax, {3},
                            select(call(Fn::kLt, v, v.constant(-INFINITY)), v, v.constant(0.5)).id, "m")};
  EXPECT_EQ(dump_json(p.to_json()["arrays"][1]["expr"]),
            R"(["select",["lt",["e",0],["c","-inf","f32"]],["e",0],["c",0.5,"f32"]])");
  EXPECT_EQ(dump_json(p.to_json()["exprs"]), R"([["cast",["read",0,[["iv",0],["rv",0]]],"f32"]])");
  EXPECT_EQ(p.to_json()["arrays"][1]["op"], "max");
}

}  // namespace
}  // namespace passnet
