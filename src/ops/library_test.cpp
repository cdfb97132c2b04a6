#include "ops/library.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace passnet {
namespace {

constexpr const char* kTable = PASSNET_SOURCE_DIR "/tests/data/product_order.txt";

struct Row {
  std::string kind, letters;
  int64_t batch = 0, side = 0, channels = 0, results = 0;
};

std::vector<Row> rows() {
  std::ifstream file(kTable);
  std::vector<Row> out;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream text(line);
    Row r;
    text >> r.kind >> r.batch >> r.side >> r.channels >> r.results >> r.letters;
    out.push_back(r);
  }
  return out;
}

ConvProblem conv(const Row& r, DType dtype) {
  ConvProblem p;
  p.dtype = dtype;
  p.batch = r.batch;
  p.in_channels = r.channels;
  p.out_channels = r.results;
  p.in_size = p.out_size = {r.side, r.side};
  p.kernel = p.stride = p.dilation = {1, 1};
  p.padding = {0, 0};
  return p;
}

ConvProblem depthwise(const Row& r, DType dtype) {
  ConvProblem p = conv(r, dtype);
  p.out_channels = p.groups = r.channels;
  p.kernel = {r.results, r.results};
  const int64_t stride = r.kind.back() - '0', pad = r.results / 2;
  p.stride = {stride, stride};
  p.padding = {pad, pad};
  const int64_t out = (r.side + 2 * pad - r.results) / stride + 1;
  p.out_size = {out, out};
  return p;
}

std::string name(const Row& r) {
  return r.kind + " " + std::to_string(r.batch) + " " + std::to_string(r.side) + " " +
         std::to_string(r.channels) + " " + std::to_string(r.results);
}

TEST(Library, WhatIsSaidToBeEagersBitsIsSoOnEveryMeasuredProblem) {
  std::map<std::string, int> held;
  for (const Row& r : rows()) {
    if (r.kind == "conv") {
      for (const auto& [dtype, column] :
           {std::pair{DType::kFloat32, 0}, std::pair{DType::kFloat16, 2}, std::pair{DType::kBFloat16, 3}}) {
        const LibraryProduct product = library_conv(conv(r, dtype));
        if (!product.same_bits) continue;
        EXPECT_EQ(product.factors, dtype == DType::kFloat32 ? LibraryProduct::Factors::kTf32
                                                            : LibraryProduct::Factors::kExact);
        EXPECT_EQ(r.letters[static_cast<size_t>(column)], 'B') << name(r) << " " << r.letters;
        ++held["conv " + std::to_string(column)];
      }
    } else if (r.kind == "linear" || r.kind == "bmm") {
      for (const auto& [dtype, column] : {std::pair{DType::kFloat16, 2}, std::pair{DType::kBFloat16, 3}}) {
        const bool batched = r.kind == "bmm";
        const LibraryProduct product = library_matmul(dtype, r.results, r.channels, batched);
        if (!product.same_bits) continue;
        EXPECT_EQ(r.letters[static_cast<size_t>(column)], 'B') << name(r) << " " << r.letters;
        ++held[r.kind];
      }
    } else {
      for (const auto& [dtype, column] : {std::pair{DType::kFloat16, 0}, std::pair{DType::kBFloat16, 3}}) {
        const LibraryProduct product = library_conv(depthwise(r, dtype));
        if (!product.same_bits) continue;
        const size_t bias = static_cast<size_t>(column) + (product.bias_rounds ? 2 : 1);
        EXPECT_EQ(r.letters[static_cast<size_t>(column)], 'B') << name(r) << " " << r.letters;
        EXPECT_EQ(r.letters[bias], 'B') << name(r) << " " << r.letters;
        ++held["depthwise"];
      }
    }
  }
  // The rules say something: they hold on a good part of the grid.
  EXPECT_GT(held["conv 0"], 600);
  EXPECT_GT(held["conv 2"], 1400);
  EXPECT_GT(held["conv 3"], 1400);
  EXPECT_GT(held["linear"], 1900);
  EXPECT_GT(held["bmm"], 300);
  EXPECT_GT(held["depthwise"], 1000);
}

TEST(Library, ExactFactorsAreWithinToleranceOnEveryMeasuredProblem) {
  int seen = 0;
  for (const Row& r : rows()) {
    if (r.kind != "conv" || r.letters[1] == '-') continue;
    const LibraryProduct product = library_conv(conv(r, DType::kFloat32));
    // Sums of more terms are judged by their length, not here.
    if (product.factors != LibraryProduct::Factors::kExact || r.channels > 256) continue;
    EXPECT_NE(r.letters[1], 'X') << name(r) << " " << r.letters;
    ++seen;
  }
  EXPECT_GT(seen, 300);
}

// Kernel 4, stride 2, padding 1; letters for float32, float16 and bfloat16 (see the table's head).
TEST(Library, TheOrderOfTransposedConvolutionsIsEagersOnEveryMeasuredProblem) {
  std::ifstream file(PASSNET_SOURCE_DIR "/tests/data/transposed_order.txt");
  int held[3] = {0, 0, 0}, last[3] = {0, 0, 0};
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream text(line);
    ConvProblem p;
    int64_t height = 0, width = 0, channels_last = 0;
    std::string letters;
    text >> p.batch >> p.in_channels >> p.out_channels >> height >> width >> channels_last >> letters;
    p.transposed = true;
    p.in_size = {height, width};
    p.out_size = {2 * height, 2 * width};
    p.kernel = {4, 4};
    p.stride = {2, 2};
    p.padding = p.dilation = {1, 1};
    p.contiguous = channels_last == 0;
    p.channels_last = channels_last == 1;
    for (size_t k = 0; k < 3; ++k) {
      p.dtype = k == 0 ? DType::kFloat32 : k == 1 ? DType::kFloat16 : DType::kBFloat16;
      const LibraryProduct product = library_conv(p);
      EXPECT_EQ(product.same_bits, product.channel_block > 0) << line;
      if (!product.same_bits) continue;
      EXPECT_EQ(letters[k], product.last_tap_first ? 'L' : 'F') << line;
      EXPECT_EQ(p.batch, 1) << line;
      ++held[k];
      last[k] += product.last_tap_first;
    }
  }
  EXPECT_GT(held[0], 100);
  EXPECT_GT(held[1], 250);
  EXPECT_GT(held[2], 250);
  // Both orders are met.
  EXPECT_GT(last[1], 50);
  EXPECT_GT(held[1] - last[1], 50);
}

TEST(Library, WhatWasNotMeasuredIsUnknown) {
  Row r{"conv", "", 8, 28, 64, 256};
  ConvProblem p = conv(r, DType::kFloat32);
  EXPECT_EQ(library_conv(p).factors, LibraryProduct::Factors::kTf32);
  p.contiguous = false;
  EXPECT_EQ(library_conv(p).factors, LibraryProduct::Factors::kUnknown);
  p = conv(r, DType::kFloat32);
  p.stride = {2, 2};
  EXPECT_EQ(library_conv(p).factors, LibraryProduct::Factors::kUnknown);
  p = conv(r, DType::kFloat32);
  p.kernel = {3, 3};
  EXPECT_EQ(library_conv(p).factors, LibraryProduct::Factors::kUnknown);
}

TEST(Library, AttentionIsWithinToleranceOnEveryMeasuredProblemItIsSaidToBe) {
  std::ifstream file(PASSNET_SOURCE_DIR "/tests/data/attention_order.txt");
  std::map<DType, int> held;
  int others = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream text(line);
    std::string type, mask, letter;
    int64_t heads = 0;
    AttentionProblem p;
    text >> type >> p.depth >> mask >> heads >> p.rows >> p.keys >> letter;
    p.value_depth = p.depth;
    p.dtype = type == "float32" ? DType::kFloat32 : type == "float16" ? DType::kFloat16 : DType::kBFloat16;
    if (!attention_within_tolerance(p)) {
      ++others;
      continue;
    }
    EXPECT_NE(letter, "X") << line;
    ++held[p.dtype];
  }
  EXPECT_GT(held[DType::kFloat32], 300);
  EXPECT_GT(held[DType::kFloat16], 200);
  EXPECT_GT(held[DType::kBFloat16], 200);
  EXPECT_GT(others, 0);
}

TEST(Library, AttentionThatWasNotMeasuredIsNotSaidToAgree) {
  AttentionProblem p;
  p.dtype = DType::kFloat16;
  p.rows = p.keys = p.depth = p.value_depth = 64;
  ASSERT_TRUE(attention_within_tolerance(p));
  const auto changed = [&](auto change) {
    AttentionProblem other = p;
    change(other);
    return attention_within_tolerance(other);
  };
  EXPECT_FALSE(changed([](AttentionProblem& o) { o.keys = 129; }));
  EXPECT_FALSE(changed([](AttentionProblem& o) { o.depth = o.value_depth = 80; }));
  EXPECT_FALSE(changed([](AttentionProblem& o) { o.value_depth = 32; }));
  EXPECT_FALSE(changed([](AttentionProblem& o) { o.heads_per_key = 2; }));
  EXPECT_FALSE(changed([](AttentionProblem& o) { o.own_mask = false; }));
  EXPECT_FALSE(changed([](AttentionProblem& o) { o.batch_rank = 3; }));
  EXPECT_FALSE(changed([](AttentionProblem& o) { o.dtype = DType::kFloat64; }));
}

}  // namespace
}  // namespace passnet
