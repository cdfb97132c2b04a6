#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "plan/machine.h"
#include "solve/solve.h"

// What the tests of solve share: a small sample in memory with a floor of one pass and an upside of two.

namespace passnet {

inline constexpr std::string_view kBlock = R"(
        c = a + b
        d = torch.nn.functional.layer_norm(c, (64,), w, bias, 1e-05)
        e = torch.nn.functional.dropout(d, 0.1, False, False)
        f = e.permute(1, 0)
        g = torch.matmul(d, f)
        h = g * 2.0
        i = torch.nn.functional.gelu(h)
        return (c, i)
)";

inline std::string model_text(std::string_view parameters, std::string_view body) {
  return fmt::format("import torch\n\nclass GraphModule(torch.nn.Module):\n\n    def forward(self, {}):{}",
                     parameters, body);
}

inline std::string tensor_class(std::string_view name, std::string_view shape) {
  return fmt::format(
      "class Meta_{0}:\n    name = \"{0}\"\n    shape = {1}\n    dtype = \"torch.float32\"\n\n", name, shape);
}

inline std::string block_meta(int rows) {
  return tensor_class("a", fmt::format("[{}, 64]", rows)) + tensor_class("b", fmt::format("[{}, 64]", rows)) +
         tensor_class("w", "[64]") + tensor_class("bias", "[64]");
}

inline void put_variant(MemoryFiles& files, const std::string& dir, const std::string& model,
                        const std::string& meta) {
  files.put(join_path(dir, "model.py"), model);
  files.put(join_path(dir, "weight_meta.py"), meta);
}

/// Two variants of the block above, and somebody's work in pass_dir.
inline void put_sample(MemoryFiles& files) {
  files.put("s/graph_list.txt", "float32/0\nfloat32/1\n");
  put_variant(files, "s/float32/0", model_text("a, b, w, bias", kBlock), block_meta(32));
  put_variant(files, "s/float32/1", model_text("a, b, w, bias", kBlock), block_meta(16));
  files.put("s/pass_dir/Theirs.py", "# theirs\n");
  files.put("s/pass_dir/.ignore", "x");
}

inline CapturedSample captured(FileSystem& files) {
  Result<CapturedSample> sample = capture_sample(files, "s", "cuda", 1);
  if (!sample.ok()) {
    ADD_FAILURE() << sample.error().message;
    return {};
  }
  return std::move(*sample);
}

inline PlanResult planned(const CapturedSample& sample) {
  return plan_sample(sample.variants, builtin_profile("h200").value(), &estimate_schedule);
}

}  // namespace passnet
