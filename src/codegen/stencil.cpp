#include "codegen/stencil.h"

#include <algorithm>
#include <numeric>

namespace passnet::codegen {

namespace {

constexpr int64_t kMostTaps = 420;  // of one lane, written out: 7 results of 7x7
constexpr int64_t kFewResults = 8, kMostResults = 14;
constexpr int64_t kShortestRow = 7, kLongestRow = 1024;
constexpr int64_t kLeastPrograms = 4 * 132;  // fewer do not fill the machine: less to share, more programs
constexpr double kNearlyBest =
    1.1;  // more results a lane must save more loads than this: 3x3 in steps of 2 took
          // 1252 us with 4 results a lane, 1292 with 7, 1310 with 8

bool slides(const IndexPool& pool, const Window& w, VarId y, VarId x) {
  bool other_y = false, other_x = false;
  return pool.coefficient(w.offsets[0], y, &other_y) != 0 && !other_y &&
         pool.coefficient(w.offsets[0], x, &other_x) != 0 && !other_x;
}

// Different loads that so many neighbouring results make.
size_t loads_for(const IndexPool& pool, const Window& w, VarId y, int64_t results) {
  bool other = false;
  const int64_t step = pool.coefficient(w.offsets[0], y, &other);
  std::set<int64_t> seen;
  for (const IndexId i : w.offsets) {
    for (int64_t r = 0; r < results; ++r) seen.insert(pool.sum(i).constant + r * step);
  }
  return seen.size();
}

// Lanes along an axis: few idle ones, then few blocks.
int64_t lanes_for(int64_t n) {
  int64_t out = 8;
  while (out < n && out < 32) out *= 2;
  if (n <= 32) return out;
  const auto waste = [&](int64_t b) { return (n + b - 1) / b * b - n; };
  const int64_t least = std::min({waste(32), waste(64), waste(128), waste(256)});
  for (const int64_t b : {64, 128, 256}) {
    if (b < 2 * n && waste(b) <= least + n / 6) out = b;
  }
  return out;
}

}  // namespace

std::vector<Window> windows_of(const ValueGraph& graph, const IndexPool& pool,
                               const std::set<ValueId>& values) {
  std::map<std::pair<int32_t, std::vector<std::pair<decltype(IndexTerm{}.key()), int64_t>>>,
           std::set<IndexId>>
      groups;
  for (const ValueId v : values) {
    const ValueNode& n = graph.node(v);
    if (n.kind != ValueNode::Kind::kLoad) continue;
    std::vector<std::pair<decltype(IndexTerm{}.key()), int64_t>> terms;
    for (const IndexTerm& t : pool.sum(n.index).terms) terms.emplace_back(t.key(), t.coefficient);
    groups[{n.buffer, std::move(terms)}].insert(n.index);
  }
  std::vector<Window> out;
  for (const auto& [key, offsets] : groups) {
    if (offsets.size() >= kStencilLoads && !key.second.empty())
      out.push_back({key.first, {offsets.begin(), offsets.end()}});
  }
  return out;
}

std::vector<ValueId> walked_in_order(const ValueGraph& graph, const IndexPool& pool,
                                     const std::set<ValueId>& values) {
  std::map<std::pair<int32_t, IndexId>, size_t> rank;
  for (Window& w : windows_of(graph, pool, values)) {
    std::ranges::sort(w.offsets, {}, [&](IndexId i) { return pool.sum(i).constant; });
    for (size_t k = 0; k < w.offsets.size(); ++k) rank[{w.buffer, w.offsets[k]}] = k;
  }
  // When the last of its loads has come. Ids grow from operands to users.
  std::map<ValueId, size_t> ready;
  std::vector<ValueId> out;
  for (const ValueId v : values) {
    const ValueNode& n = graph.node(v);
    size_t when = 0;
    for (const ValueId a : n.args) when = std::max(when, ready[a]);
    if (n.kind == ValueNode::Kind::kLoad) {
      if (const auto it = rank.find({n.buffer, n.index}); it != rank.end()) when = std::max(when, it->second);
    }
    ready[v] = when;
    if (n.kind == ValueNode::Kind::kCall && n.fn == Fn::kFma) out.push_back(v);
  }
  std::ranges::stable_sort(out, {}, [&](ValueId v) { return ready[v]; });
  return out;
}

std::optional<StencilShape> stencil_shape(const Trial& t) {
  const size_t n = t.axes.size();
  if (n < 2 || !t.reduces.empty()) return std::nullopt;
  const int64_t rows = t.extents[n - 2], cols = t.extents[n - 1];
  if (cols < kShortestRow || cols > kLongestRow) return std::nullopt;
  const VarId y = t.axes[n - 2], x = t.axes[n - 1];
  std::set<ValueId> values;
  for (const ValueId v : t.values) reachable(*t.graph, v, values);
  std::vector<Window> windows = windows_of(*t.graph, *t.pool, values);
  std::erase_if(windows, [&](const Window& w) { return !slides(*t.pool, w, y, x); });
  if (windows.empty()) return std::nullopt;
  StencilShape shape;
  shape.cols = lanes_for(cols);
  shape.planes = std::max<int64_t>(1, 64 / shape.cols);
  shape.num_warps = static_cast<int>(std::max<int64_t>(1, shape.planes * shape.cols / 64));
  int64_t planes = 1, taps = 0;
  for (size_t k = 0; k + 2 < n; ++k) planes *= t.extents[k];
  while (shape.planes >= 2 * planes) shape.planes /= 2;
  for (const Window& w : windows) taps += static_cast<int64_t>(w.offsets.size());
  const auto loads_a_result = [&](int64_t results) {
    size_t loads = 0;
    for (const Window& w : windows) loads += loads_for(*t.pool, w, y, results);
    return static_cast<double>(loads) / static_cast<double>(results);
  };
  const int64_t blocks = (planes + shape.planes - 1) / shape.planes * ((cols + shape.cols - 1) / shape.cols);
  // The fewest results that come near to the best, among numbers that divide the axis: no lane is ever idle there.
  std::vector<int64_t> possible;
  for (int64_t r = 2; r <= kMostResults; ++r) {
    if (rows % r != 0 || r * taps > kMostTaps || blocks * (rows / r) < kLeastPrograms) continue;
    if (r > kFewResults && !possible.empty() && possible.back() >= 4) break;
    possible.push_back(r);
  }
  double best = 0.75 * static_cast<double>(taps);
  for (const int64_t r : possible) best = std::min(best, loads_a_result(r));
  for (const int64_t r : possible) {
    const double loads = loads_a_result(r);
    if (loads > best * kNearlyBest || loads > 0.75 * static_cast<double>(taps)) continue;
    shape.results = r;
    return shape;
  }
  return std::nullopt;
}

}  // namespace passnet::codegen
