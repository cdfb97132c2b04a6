#pragma once

#include <string>
#include <utility>
#include <vector>

#include "codegen/schedule.h"

namespace passnet::codegen {

// The text of one Triton kernel with every size hoisted into a parameter, and the parameters' values. Kernels with
// equal texts are one kernel.
struct KernelText {
  std::string body;            // from "(": parameters and statements, without the name
  std::vector<int32_t> reads;  // buffers in parameter order
  std::vector<std::pair<int32_t, int32_t>>
      writes;                               // (output, -1) or (-1, scratch buffer), in parameter order
  std::vector<std::string> pointer_dtypes;  // "*fp32", reads then writes
  std::vector<std::pair<std::string, std::string>> constants;  // parameter name and Python literal
  bool uses_libdevice = false;
  std::vector<std::string> helpers;  // names of the fixed device functions it calls, sorted
};

Result<KernelText> write_kernel(const ProgramPlan& program, const KernelPlan& plan);

// "tl.float32"
std::string triton_dtype(DType dtype);

}  // namespace passnet::codegen
