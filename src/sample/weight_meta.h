#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/capture.h"

namespace passnet {

// One class of weight_meta.py or input_meta.py: how the evaluator makes one input.
struct TensorSpec {
  std::string class_name;
  std::string name;  // the parameter of forward
  std::vector<int64_t> shape;
  DType dtype = DType::kFloat32;
  std::string device;          // as written; the evaluator moves everything to one device
  std::optional<double> mean;  // absent: None
  std::optional<double> std;
  std::optional<double> min_val, max_val;
  // Number of values given in `data`, -1 without; the first few of them.
  int64_t data_count = -1;
  std::vector<Value> data_head;
  // All of them, of tensors of integers: what a model computes of them decides shapes where it breaks the graph.
  std::shared_ptr<const std::vector<double>> integers;
  std::string file;
  Span span;  // of the class

  bool has_data() const { return data_count >= 0; }
};

inline constexpr std::size_t kDataHead = 16;
inline constexpr std::size_t kMaxIntegers = std::size_t{1} << 16;

// The tensors of a metadata file, in alphabetical order of their class names as the evaluator takes them; of two
// classes with one name the later counts. Errors name file and line: those of pysrc, "meta.missing_attribute",
// "meta.unknown_dtype", "meta.not_literal", "meta.bad_shape", "meta.data_count", "meta.duplicate_name".
Result<std::vector<TensorSpec>> read_tensor_specs(const pysrc::Module& module);

// What capture needs of them.
std::vector<InputMeta> input_metas(const std::vector<TensorSpec>& specs);

}  // namespace passnet
