#include "codegen/index.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace passnet::codegen {
namespace {

TEST(IndexPool, ReshapeOfAPermutedViewIsStrided) {
  // [2, 12, 64, 32] -> permute(0, 2, 1, 3) -> reshape(2, 64, 384): element (b, t, c) lies at a sum of digits.
  IndexPool p;
  const VarId b = p.add_var(2), t = p.add_var(64), c = p.add_var(384);
  const std::vector<int64_t> flat{2, 64, 384}, split{2, 64, 12, 32};
  const std::vector<IndexId> at{p.var(b), p.var(t), p.var(c)};
  const std::vector<IndexId> four = p.delinearize(p.linearize(at, flat), split);
  EXPECT_EQ(four[0], p.var(b));
  EXPECT_EQ(four[1], p.var(t));
  EXPECT_EQ(four[2], p.floor_div(p.var(c), 32));
  EXPECT_EQ(four[3], p.mod(p.var(c), 32));
  EXPECT_EQ(p.linearize(std::vector<IndexId>{four[0], four[1], four[2], four[3]}, split),
            p.linearize(at, flat));
}

TEST(IndexPool, DigitsOfOneVariableRecombine) {
  IndexPool p;
  const VarId v = p.add_var(24);
  const std::vector<int64_t> shape{2, 3, 4};
  const std::vector<IndexId> at = p.delinearize(p.var(v), shape);
  EXPECT_EQ(p.linearize(at, shape), p.var(v));
}

TEST(IndexPool, RangesDecideBounds) {
  IndexPool p;
  const VarId v = p.add_var(10);
  const IndexId shifted = p.add(p.var(v), p.constant(-3));
  EXPECT_EQ(p.range(shifted), (Interval{-3, 6}));
  EXPECT_EQ(p.range(p.mod(shifted, 10)), (Interval{0, 9}));
}

// Random expressions, built at once as an index and as a number for every point of the space.
TEST(IndexPool, SimplificationIsExact) {
  rc::check("index algebra equals arithmetic", [] {
    IndexPool p;
    const auto extents = *rc::gen::container<std::vector<int>>(3, rc::gen::inRange(1, 13));
    std::vector<IndexId> ids;
    int points = 1;
    for (const int e : extents) {
      ids.push_back(p.var(p.add_var(e)));
      points *= e;
    }
    std::vector<std::vector<int64_t>> vars, values;
    for (int k = 0; k < points; ++k) {
      const int64_t a = k / (extents[1] * extents[2]), b = k / extents[2] % extents[1], c = k % extents[2];
      vars.push_back({a, b, c});
      values.push_back({a, b, c});
    }
    const int steps = *rc::gen::inRange(1, 14);
    for (int s = 0; s < steps; ++s) {
      const auto i = static_cast<size_t>(*rc::gen::inRange<int>(0, static_cast<int>(ids.size())));
      const auto j = static_cast<size_t>(*rc::gen::inRange<int>(0, static_cast<int>(ids.size())));
      const int op = *rc::gen::inRange(0, 5);
      const int64_t k = *rc::gen::element<int64_t>(1, 2, 3, 4, 6, 8, 12, 24, 5);
      const int64_t offset = *rc::gen::inRange(-9, 10);
      const IndexId made = op == 0   ? p.add(ids[i], ids[j])
                           : op == 1 ? p.scale(ids[i], k)
                           : op == 2 ? p.floor_div(ids[i], k)
                           : op == 3 ? p.mod(ids[i], k)
                                     : p.add(ids[i], p.constant(offset));
      ids.push_back(made);
      for (size_t n = 0; n < values.size(); ++n) {
        const int64_t x = values[n][i], y = values[n][j];
        const int64_t m = ((x % k) + k) % k;
        const int64_t v = op == 0   ? x + y
                          : op == 1 ? x * k
                          : op == 2 ? (x - m) / k
                          : op == 3 ? m
                                    : x + offset;
        values[n].push_back(v);
        RC_ASSERT(p.evaluate(made, vars[n]) == v);
        RC_ASSERT(p.range(made).lo <= v && v <= p.range(made).hi);
      }
    }
  });
}

}  // namespace
}  // namespace passnet::codegen
