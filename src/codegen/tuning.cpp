#include "codegen/tuning.h"

#include <algorithm>

namespace passnet::codegen {
namespace {

constexpr int64_t kSharedBytes = 160 << 10;  // what the stages of a product may take, of the smallest target
constexpr int64_t kMostLanes = 64;           // elements of a tile a thread: beyond, registers spill
constexpr int kLanesOfAWarp = 32;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The member of a config that a variable's block is, if any.
int64_t KernelConfig::*block_member(IterVar::Role role) {
  switch (role) {
    case IterVar::Role::kFlat: return &KernelConfig::block;
    case IterVar::Role::kRow: return &KernelConfig::rows;
    case IterVar::Role::kCol: return &KernelConfig::cols;
    case IterVar::Role::kInner: return &KernelConfig::inner;
    default: return nullptr;
  }
}

// Elements that the threads of a program hold at once, by the axes that a config names and those it leaves alone.
int64_t tile_of(const KernelPlan& plan, const KernelConfig& config) {
  int64_t tile = 1, lanes = 1;
  for (const IterVar& v : plan.vars) {
    if (v.role == IterVar::Role::kLane) lanes = std::max(lanes, v.block);
    if (v.role == IterVar::Role::kInner) continue;
    if (int64_t KernelConfig::*member = block_member(v.role)) tile *= std::max<int64_t>(1, config.*member);
  }
  return tile * lanes;
}

bool fits(const KernelPlan& plan, const KernelConfig& c) {
  if (c.num_warps < 1 || c.num_warps > 32 || c.num_stages < 1 || c.num_stages > 5) return false;
  for (const IterVar& v : plan.vars) {
    int64_t KernelConfig::*member = block_member(v.role);
    if (member == nullptr) continue;
    const int64_t block = c.*member;
    const int64_t least = plan.schedule == "product" ? 16 : plan.schedule == "flat" ? 32 : 1;
    if (block < least) return false;
    // Twice the axis is idle lanes and nothing else.
    if (block > least && block >= 2 * v.extent) return false;
  }
  if (plan.schedule == "product")
    return c.rows <= 256 && c.cols <= 256 && c.inner <= 128 &&
           c.num_stages * (c.rows + c.cols) * c.inner * 4 <= kSharedBytes &&
           c.rows * c.cols <= 256 * kLanesOfAWarp * c.num_warps;
  const int64_t threads = int64_t{kLanesOfAWarp} * c.num_warps;
  const int64_t tile = tile_of(plan, c);
  return tile >= threads / 4 && tile <= kMostLanes * threads;
}

}  // namespace

KernelConfig config_of(const KernelPlan& plan) {
  KernelConfig config;
  config.schedule = plan.schedule;
  config.num_warps = plan.num_warps;
  config.num_stages = plan.num_stages;
  for (const IterVar& v : plan.vars)
    if (int64_t KernelConfig::*member = block_member(v.role)) config.*member = v.block;
  return config;
}

void configure(KernelPlan& plan, const KernelConfig& config) {
  if (config.schedule != plan.schedule) return;
  if (config.num_warps > 0) plan.num_warps = config.num_warps;
  if (config.num_stages > 0) plan.num_stages = config.num_stages;
  plan.grid = 1;
  for (IterVar& v : plan.vars) {
    int64_t KernelConfig::*member = block_member(v.role);
    if (member != nullptr && config.*member > 0) v.block = config.*member;
    if (v.role != IterVar::Role::kLane && !v.looped()) plan.grid *= ceil_div(v.extent, v.block);
  }
}

std::vector<KernelConfig> configurations(const KernelPlan& plan, size_t most) {
  const KernelConfig now = config_of(plan);
  std::vector<KernelConfig> out;
  const auto propose = [&](auto change) {
    KernelConfig config = now;
    change(config);
    if (out.size() < most && config != now && std::find(out.begin(), out.end(), config) == out.end() &&
        fits(plan, config))
      out.push_back(std::move(config));
  };
  using C = KernelConfig;
  if (plan.schedule == "flat") {
    propose([](C& c) { c.block *= 2; });
    propose([](C& c) { c.block /= 2; });
    propose([](C& c) { c.num_warps *= 2; });
    propose([](C& c) { c.num_warps /= 2; });
    propose([](C& c) { c.block /= 2, c.num_warps /= 2; });
    propose([](C& c) { c.block *= 2, c.num_warps *= 2; });
  } else if (plan.schedule == "product") {
    propose([](C& c) { c.num_warps = c.num_warps == 4 ? 8 : 4; });
    propose([](C& c) { c.inner *= 2; });
    propose([](C& c) { c.rows *= 2; });
    propose([](C& c) { c.cols *= 2; });
    propose([](C& c) { c.inner /= 2; });
    propose([](C& c) { c.rows /= 2; });
    propose([](C& c) { c.cols /= 2; });
    propose([](C& c) { c.num_stages = 4; });
    propose([](C& c) { c.num_stages = 2; });
  } else {
    // Rows, tiles and slices: more or fewer rows a program, more or fewer threads for them.
    propose([](C& c) { c.num_warps *= 2; });
    propose([](C& c) { c.num_warps /= 2; });
    propose([](C& c) { c.rows *= 2; });
    propose([](C& c) { c.rows /= 2; });
    propose([](C& c) { c.rows *= 2, c.num_warps *= 2; });
    propose([](C& c) { c.rows *= 2, c.cols /= 2; });
    propose([](C& c) { c.rows /= 2, c.cols *= 2; });
  }
  return out;
}

}  // namespace passnet::codegen
