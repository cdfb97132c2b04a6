#pragma once

#include <memory>
#include <vector>

#include "codegen/values.h"

// Looking at what a group of results reads, before a schedule is chosen.

namespace passnet::codegen {

// One result that a kernel writes. `order` lists its axes from the slowest to the fastest in memory.
struct Target {
  int32_t output = -1;
  int32_t scratch = -1;
  ArrayId array = -1;
  std::vector<int> order;
};

struct ReduceRead {
  ArrayId array = -1;
  std::vector<IndexId> at;
  int64_t size = 1;
  VarId var = -1;  // stands for the position in the reduction space, row-major
  ValueId value = kNoValue;
  uint64_t deps = 0;   // of the position it is read at
  uint64_t guard = 0;  // of the condition alone under which that position is inside
};

struct LoadRead {
  ValueId value = kNoValue;
  int32_t buffer = -1;
  IndexId offset = kNoIndex;
  uint64_t deps = 0;
};

// The targets' elements over a row-major space whose extents multiply to the number of elements.
struct Trial {
  std::unique_ptr<IndexPool> pool;
  std::unique_ptr<ValueGraph> graph;
  std::vector<int64_t> extents;
  std::vector<VarId> axes;
  uint64_t axis_mask = 0;
  std::vector<ValueId> values;
  std::vector<IndexId> offsets;  // where each target stores
  std::vector<LoadRead> loads;
  std::vector<ReduceRead> reduces;
};

struct TrialContext {
  const Program& program;
  const std::vector<Buffer>& buffers;
  const std::map<ArrayId, int32_t>& in_memory;
  bool strip_casts = false;
};

// Index expressions of a target's axes, given those of the space's linear position.
std::vector<IndexId> target_index(IndexPool& pool, const std::vector<int64_t>& shape,
                                  const std::vector<int>& order, IndexId linear);

Result<Trial> try_space(const TrialContext& context, const std::vector<Target>& targets,
                        const std::vector<int64_t>& extents);

// Splits axes at the digits that offsets and positions use, as far as the cuts divide each other.
std::vector<int64_t> refine(const Trial& trial);

// Joins neighbouring axes that every offset and condition walks as one.
std::vector<int64_t> collapse(const Trial& trial);

// Loads and reductions below a value, each once, in order of creation.
void reachable(const ValueGraph& graph, ValueId root, std::set<ValueId>& seen);

// The variable along which an offset moves by one element; -1 if none. `run`: how far before it jumps.
VarId unit_var(const IndexPool& pool, IndexId offset, int64_t* run);

}  // namespace passnet::codegen
