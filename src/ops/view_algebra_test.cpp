#include "ops/view_algebra.h"

#include <gtest/gtest.h>

namespace passnet {
namespace {

using Shape = std::vector<int64_t>;

TensorMeta tensor(Shape shape, Shape stride = {}) {
  TensorMeta meta;
  meta.stride = stride.empty() ? contiguous_strides(shape) : stride;
  meta.shape = std::move(shape);
  meta.storage = 7;
  return meta;
}

// Expected values are those of torch.

TEST(ReshapeStrides, ViewsWhereMemoryIsRegular) {
  EXPECT_EQ(reshape_strides({2, 3, 4}, {12, 4, 1}, {6, 4}), (Shape{4, 1}));
  EXPECT_EQ(reshape_strides({12, 2}, {1, 12}, {3, 4, 2}), (Shape{4, 1, 12}));
  EXPECT_EQ(reshape_strides({2, 3, 4}, {24, 8, 1}, {6, 2, 2}), (Shape{8, 2, 1}));
  EXPECT_EQ(reshape_strides({4, 1, 3}, {3, 99, 1}, {12}), (Shape{1}));
  EXPECT_EQ(reshape_strides({}, {}, {1, 1}), (Shape{1, 1}));
  EXPECT_EQ(reshape_strides({0, 3}, {3, 1}, {3, 0}), (Shape{1, 1}));
}

TEST(ReshapeStrides, NoneWhereOnlyACopyCan) {
  EXPECT_EQ(reshape_strides({2, 3}, {1, 2}, {6}), std::nullopt);
  EXPECT_EQ(reshape_strides({2, 3, 4}, {12, 1, 3}, {2, 12}), std::nullopt);
  EXPECT_EQ(reshape_strides({2, 3}, {0, 1}, {6}), std::nullopt);
}

TEST(MemoryFormat, SuggestedAsAtenDoes) {
  EXPECT_TRUE(suggests_channels_last({2, 3, 4, 5}, channels_last_strides({2, 3, 4, 5})));
  EXPECT_FALSE(suggests_channels_last({2, 3, 4, 5}, contiguous_strides({2, 3, 4, 5})));
  EXPECT_FALSE(suggests_channels_last({2, 1, 1, 1}, {1, 1, 1, 1}));   // N111: ambiguous, so contiguous
  EXPECT_FALSE(suggests_channels_last({8, 4, 1, 1}, {4, 1, 1, 1}));   // a 1x1 filter
  EXPECT_FALSE(suggests_channels_last({2, 3, 4, 5}, {0, 1, 15, 3}));  // a broadcast batch
  EXPECT_EQ(channels_last_strides({2, 3, 4, 5}), (Shape{60, 1, 15, 3}));
}

TEST(PreservedStrides, DenseKeepsOthersAreOrdered) {
  EXPECT_EQ(preserved_strides({2, 3, 4}, {1, 2, 6}), (Shape{1, 2, 6}));
  EXPECT_EQ(preserved_strides({2, 3}, {10, 1}), (Shape{3, 1}));
  EXPECT_EQ(preserved_strides({3, 2}, {1, 10}), (Shape{1, 3}));
  EXPECT_EQ(preserved_strides({2, 3}, {0, 1}), (Shape{3, 1}));
}

TEST(DenseStridesInOrder, NextOperandDecidesWhereOneBroadcasts) {
  const std::vector<Shape> operands{{0, 0, 20}, {1, 2, 0}};
  EXPECT_EQ(dense_strides_in_order({2, 2, 3}, operands), (Shape{3, 6, 1}));
}

TEST(View, TracksStridesAndOffset) {
  View view(tensor({4, 5, 6}));
  view.select(0, 2);
  view.slice(1, 1, 3, 2);
  view.unsqueeze(1);
  EXPECT_EQ(view.shape(), (Shape{5, 1, 3}));
  EXPECT_EQ(view.meta().stride, (Shape{6, 6, 2}));
  EXPECT_EQ(view.meta().offset, 61);
  EXPECT_EQ(view.meta().storage, 7);
}

TEST(View, ExpandGivesNewAxesTheStridesOfUnsqueeze) {
  View view(tensor({3, 2}, {1, 3}));
  view.expand({1, 4, 3, 2});
  EXPECT_EQ(view.meta().stride, (Shape{0, 0, 1, 3}));
  View same(tensor({3}));
  same.expand({1, 3});
  EXPECT_EQ(same.meta().stride, (Shape{3, 1}));
}

TEST(View, UnknownStridesStayUnknown) {
  TensorMeta meta = tensor({2, 3});
  meta.stride.reset();
  View view(meta);
  view.transpose(0, 1);
  view.expand({4, 3, 2});
  view.unsqueeze(0);
  EXPECT_EQ(view.shape(), (Shape{1, 4, 3, 2}));
  EXPECT_FALSE(view.meta().stride.has_value());
}

// The index map and the strides say the same: both lead to the same place in the source's memory.
int64_t address(const Program& p, ExprId e, const std::vector<int64_t>& at) {
  const Expr& expr = p.expr(e);
  switch (expr.kind) {
    case Expr::Kind::kConst: return expr.int_value;
    case Expr::Kind::kIndex: return at[static_cast<size_t>(expr.axis)];
    default: break;
  }
  const int64_t a = address(p, expr.args[0], at), b = address(p, expr.args[1], at);
  return expr.fn == Fn::kAdd ? a + b : expr.fn == Fn::kSub ? a - b : a * b;
}

void expect_same_memory(const TensorMeta& source, const View& view) {
  Program p;
  std::vector<ExprId> index;
  for (int i = 0; i < view.rank(); ++i) index.push_back(p.index(i, view.shape()[static_cast<size_t>(i)]));
  const std::vector<ExprId> map = view.map(p, index);
  ASSERT_EQ(map.size(), source.shape.size());
  std::vector<int64_t> at(view.shape().size(), 0);
  for (bool more = view.meta().numel() > 0; more;) {
    int64_t by_strides = view.meta().offset, by_map = source.offset;
    for (size_t i = 0; i < at.size(); ++i) by_strides += at[i] * (*view.meta().stride)[i];
    for (size_t i = 0; i < map.size(); ++i) by_map += address(p, map[i], at) * (*source.stride)[i];
    ASSERT_EQ(by_strides, by_map);
    more = false;
    for (size_t i = at.size(); i-- > 0 && !more;) {
      more = ++at[i] < view.shape()[i];
      if (!more) at[i] = 0;
    }
  }
}

TEST(View, IndexMapAgreesWithStrides) {
  const TensorMeta source = tensor({4, 5, 6});
  View view(source);
  view.permute(std::vector<int64_t>{2, 0, 1});
  view.slice(0, 1, 2, 2);
  view.select(1, 3);
  view.unsqueeze(1);
  view.expand({3, 2, 7, 5});
  expect_same_memory(source, view);

  View diagonal(source);
  diagonal.diagonal(-1, 1, 2);
  expect_same_memory(source, diagonal);

  View windows(source);
  windows.unfold(1, 3, 2);
  windows.squeeze(0);
  EXPECT_EQ(windows.shape(), (Shape{4, 2, 6, 3}));
  expect_same_memory(source, windows);
}

TEST(StoredStrides, DenseValuesKeepTheirOrderOfAxesOthersGetTheirs) {
  TensorMeta t;
  t.shape = {2, 3, 4};
  const auto stored = [&](std::optional<std::vector<int64_t>> stride) {
    t.stride = std::move(stride);
    return stored_strides(t);
  };
  using Strides = std::vector<int64_t>;
  EXPECT_EQ(stored(std::nullopt), (Strides{12, 4, 1}));
  EXPECT_EQ(stored(Strides{1, 8, 2}), (Strides{1, 8, 2}));
  EXPECT_EQ(stored(Strides{24, 8, 2}), (Strides{12, 4, 1}));  // every second element of something
  EXPECT_EQ(stored(Strides{0, 4, 1}), (Strides{12, 4, 1}));   // expanded
  t.shape = {2, 1, 4};
  EXPECT_EQ(stored(Strides{1, 7, 2})[0], 1);  // the stride of an axis of extent 1 is free
  t.shape = {2, 0, 4};
  EXPECT_EQ(stored(std::nullopt), (Strides{4, 4, 1}));
}

}  // namespace
}  // namespace passnet
