#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/verdict.h"
#include "codegen/values.h"

namespace passnet::codegen {

// How a variable of the iteration space is spread over the machine.
struct IterVar {
  enum class Role : uint8_t {
    kFlat,    // one lane an element, blocks over the grid; the only variable of a one-dimensional kernel
    kRow,     // first axis of a two-dimensional tile, blocks over the grid
    kCol,     // second axis of the tile, blocks over the grid
    kOuter,   // one value a program
    kLane,    // second axis of the tile, the whole extent within one program: at once, or block after block
    kSerial,  // a loop, one value an iteration
    kInner    // the inner axis of a matrix product, block after block
  };
  VarId id = -1;
  Role role = Role::kFlat;
  int64_t extent = 1;
  int64_t block = 1;
  bool first = false;  // kInner: along the first axis of its tile
  bool aligned =
      false;  // kInner: what counts whole blocks is one number a block, and the lanes within a block always matter
  std::string name;

  bool looped() const {
    return role == Role::kSerial || role == Role::kInner || (role == Role::kLane && block < extent);
  }
  // Whether lanes beyond the extent exist.
  bool masked() const { return role != Role::kOuter && role != Role::kSerial && extent % block != 0; }
};

struct StorePlan {
  int32_t output = -1;   // which output of the program, or
  int32_t scratch = -1;  // the buffer of an intermediate
  ArrayId array = -1;
  DType dtype = DType::kFloat32;
  ValueId value = kNoValue;
  IndexId offset = kNoIndex;
};

// One kernel launch, decided but not yet written.
struct KernelPlan {
  std::string schedule;
  std::unique_ptr<IndexPool> pool;
  std::unique_ptr<ValueGraph> graph;
  std::vector<IterVar> vars;  // grid order: the last runs fastest over the programs
  std::vector<StorePlan> stores;
  int64_t grid = 1;
  int num_warps = 4, num_stages = 1;
  double read_bytes = 0, write_bytes = 0, flops = 0;
};

struct ScratchPlan {
  std::vector<int64_t> shape;
  DType dtype = DType::kFloat32;
};

// The kernels of one program in launch order, with the memory between them.
struct ProgramPlan {
  std::vector<Buffer> buffers;  // inputs first, then intermediates
  std::vector<KernelPlan> kernels;
  std::vector<std::vector<int64_t>> output_strides;  // as stored
};

struct PlanOptions {
  bool strip_casts = false;  // write 16-bit programs as if they were float32; to find kernels that serve both
  std::map<int32_t, std::vector<int64_t>> input_strides;  // by input, in place of the program's
};

// Chooses schedules. Errors: "codegen.*", naming the array that has none.
Result<ProgramPlan> plan_program(const Program& program, const PlanOptions& options = {});

}  // namespace passnet::codegen
