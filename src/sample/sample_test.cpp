#include "sample/sample.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

#include "base/json.h"
#include "pysrc/parse.h"
#include "sample/plain_meta.h"

namespace passnet {
namespace {

constexpr const char* kModel =
    "import torch\n\nclass GraphModule(torch.nn.Module):\n\n    def forward(self, in_0, in_1):\n"
    "        tmp_0 = in_0 + in_1\n        return (tmp_0,)\n";
constexpr const char* kMeta =
    "class Program_weight_tensor_meta_b:\n\tname = \"in_0\"\n\toriginal_name = \"b\"\n\tshape = [2, 3]\n"
    "\tdtype = \"torch.float16\"\n\tdevice = \"cuda:0\"\n\tmean = -0.5\n\tstd = 0.25\n\n\n"
    "class Program_weight_tensor_meta_a:\n\tname = \"in_1\"\n\tshape = []\n\tdtype = \"torch.int64\"\n"
    "\tdevice = \"cpu\"\n\tmean = None\n\tstd = None\n\tdata = [7]\n\tmin_val = 0\n\tmax_val = 9\n";

Result<std::vector<TensorSpec>> specs(std::string text) {
  Result<pysrc::Module> module = pysrc::parse_module(SourceBuffer("weight_meta.py", std::move(text)));
  if (!module) return module.error();
  return read_tensor_specs(*module);
}

std::string refusal(std::string text) {
  const auto r = specs(std::move(text));
  if (r.ok()) return "read";
  const Diagnostic& d = r.error();
  EXPECT_FALSE(d.hint.empty());
  return d.code + " " + d.file + ":" + std::to_string(d.span.line) + " " + d.message;
}

TEST(WeightMeta, ReadsInTheOrderOfClassNames) {
  const auto r = specs(kMeta);
  ASSERT_TRUE(r.ok()) << r.error().message;
  ASSERT_EQ(r->size(), 2u);
  const TensorSpec& a = (*r)[0];
  EXPECT_EQ(a.name, "in_1");
  EXPECT_TRUE(a.shape.empty());
  EXPECT_EQ(a.data_count, 1);
  EXPECT_FALSE(a.mean.has_value());
  EXPECT_EQ(a.max_val, 9.0);
  const TensorSpec& b = (*r)[1];
  EXPECT_EQ(b.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(b.dtype, DType::kFloat16);
  EXPECT_EQ(b.mean, -0.5);
  EXPECT_FALSE(b.has_data());
  const std::vector<InputMeta> inputs = input_metas(*r);
  ASSERT_TRUE(inputs[0].item.has_value());
  EXPECT_EQ(inputs[0].item->as_int(), 7);
  EXPECT_FALSE(inputs[1].item.has_value());
}

TEST(WeightMeta, HowLargeTheElementsAre) {
  const auto magnitude = [](const std::string& fields) {
    const auto r = specs("class A:\n  name = 'x'\n  shape = [2]\n" + fields);
    EXPECT_TRUE(r.ok());
    return input_metas(*r)[0].magnitude;
  };
  EXPECT_DOUBLE_EQ(*magnitude("  dtype = 'torch.float16'\n  mean = 0.3\n  std = 0.4\n"), 0.5);
  EXPECT_DOUBLE_EQ(*magnitude("  dtype = 'torch.float32'\n  mean = 0.0\n  std = 0.0\n"),
                   0.5);  // judged as drawn anew
  EXPECT_FALSE(magnitude("  dtype = 'torch.float32'\n  mean = -3e38\n  std = 0.0\n").has_value());
  EXPECT_FALSE(magnitude("  dtype = 'torch.float32'\n  mean = None\n  std = None\n").has_value());
  EXPECT_FALSE(
      magnitude("  dtype = 'torch.float32'\n  mean = 0.0\n  std = 1.0\n  data = [1.0, 2.0]\n").has_value());
  EXPECT_FALSE(magnitude("  dtype = 'torch.int64'\n  mean = 1.0\n  std = 1.0\n").has_value());
}

TEST(WeightMeta, SingleNumbersThatAreFixed) {
  const auto item = [](const std::string& fields) {
    const auto r = specs("class A:\n  name = 'x'\n  shape = []\n" + fields);
    EXPECT_TRUE(r.ok());
    const std::optional<Value> v = input_metas(*r)[0].item;
    return v ? python_text(*v) : std::string("drawn");
  };
  EXPECT_EQ(item("  dtype = 'torch.float64'\n  mean = 0.177\n  std = 0.0\n"), "0.177");
  EXPECT_EQ(item("  dtype = 'torch.float32'\n  mean = 0.1\n  std = 0.0\n"), "0.10000000149011612");
  EXPECT_EQ(item("  dtype = 'torch.float64'\n  mean = -3e38\n  std = 0.0\n"), "-100.0");  // clamped
  EXPECT_EQ(item("  dtype = 'torch.float64'\n  mean = 0.1\n  std = 0.5\n"), "drawn");
  EXPECT_EQ(item("  dtype = 'torch.int64'\n  mean = 3.0\n  std = 0.0\n"), "3");
  EXPECT_EQ(item("  dtype = 'torch.int64'\n  mean = 3\n  std = 0\n  min_val = 0\n  max_val = 9\n"), "drawn");
  // Beyond every range.
  EXPECT_EQ(item("  dtype = 'torch.int64'\n  data = [" + std::string(500, '9') + "]\n"), "drawn");
}

// The two readers agree on whatever the quick one takes; what it leaves to the other is not decided here.
TEST(WeightMeta, PlainTextsAreReadAlike) {
  const std::string own =
      "class Program_weight_tensor_meta_b:\n    name = \"b\"\n    shape = [2, 3]\n    dtype = "
      "\"torch.float16\"\n"
      "    device = \"cuda:0\"\n    mean = -0.5\n    std = 2.5e-05\n    data = None\n\n\n"
      "class Program_weight_tensor_meta_a:\n    name = (\n        \"a\"\n    )\n    shape = [3]\n    dtype = "
      "\"torch.int64\"\n"
      "    mean = None\n    std = None\n    data = [\n        1,\n        -2,\n        3,\n    ]\n"
      "\nclass Program_c:\n    name = \"c\"\n    shape = []\n    dtype = \"torch.float32\"\n    data = [1, "
      "2.5][0]\n";
  const auto text_of_specs = [](const std::vector<TensorSpec>& all) {
    std::string out;
    for (const TensorSpec& t : all) {
      out += fmt::format("{} {} [{}] {} {} {} {} {} {} {} {} {}:{}:{}\n", t.class_name, t.name,
                         fmt::join(t.shape, ","), name_of(t.dtype), t.device, t.mean.value_or(-9),
                         t.std.value_or(-9), t.min_val.value_or(-9), t.max_val.value_or(-9), t.data_count,
                         t.integers ? t.integers->size() : 0, t.file, t.span.line, t.span.end_col);
      for (const Value& v : t.data_head) out += python_text(v) + " ";
    }
    return out;
  };
  int quick = 0;
  unsigned seed = 3;
  const auto next = [&] { return seed = seed * 1664525u + 1013904223u, seed >> 8; };
  const std::string alphabet = "[](),=\"\n .-+e0123abN:#_\t";
  for (int round = 0; round < 4000; ++round) {
    std::string text = own.substr(0, round % 3 == 0 ? own.size() : own.find("\nclass Program_c"));
    for (unsigned n = round == 1 ? 0 : next() % 3; n > 0; --n) {
      const std::size_t at = next() % text.size();
      if (next() % 2 == 0) {
        text[at] = alphabet[next() % alphabet.size()];
      } else {
        text.insert(at, 1, alphabet[next() % alphabet.size()]);
      }
    }
    const auto plain = read_plain_specs(SourceBuffer("weight_meta.py", text));
    if (!plain) continue;
    ++quick;
    const auto slow = specs(text);
    ASSERT_TRUE(slow.ok()) << slow.error().message << '\n' << text;
    EXPECT_EQ(text_of_specs(*plain), text_of_specs(*slow)) << text;
  }
  EXPECT_GT(quick, 500);
}

TEST(WeightMeta, UnusualLiterals) {
  const auto r = specs(
      "class A:\n  name = 'x'\n  shape = (1,)\n  dtype = torch.half\n  std = float('nan')\n  mean = -inf\n");
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_EQ((*r)[0].dtype, DType::kFloat16);
  EXPECT_TRUE(std::isnan(*(*r)[0].std));
  EXPECT_EQ(*(*r)[0].mean, -std::numeric_limits<double>::infinity());
}

TEST(WeightMeta, RefusalsNameFileAndLine) {
  const std::string head = "class A:\n  name = 'x'\n";
  EXPECT_EQ(refusal(head + "  shape = [1]\n"),
            "meta.missing_attribute weight_meta.py:1 class A has no dtype");
  EXPECT_EQ(refusal(head + "  dtype = 'torch.float32'\n"),
            "meta.missing_attribute weight_meta.py:1 class A has no shape");
  EXPECT_EQ(refusal("class A:\n  shape = [1]\n"),
            "meta.missing_attribute weight_meta.py:1 class A has no name");
  EXPECT_EQ(refusal(head + "  shape = [1]\n  dtype = 'torch.float7'\n"),
            "meta.unknown_dtype weight_meta.py:4 'torch.float7' is no dtype that is supported");
  EXPECT_EQ(refusal(head + "  shape = [n]\n  dtype = 'torch.bool'\n"),
            "meta.not_literal weight_meta.py:3 shape of class A is no list of sizes");
  EXPECT_EQ(refusal(head + "  shape = [-1]\n  dtype = 'torch.bool'\n"),
            "meta.bad_shape weight_meta.py:3 the size -1 is negative");
  EXPECT_EQ(refusal(head + "  shape = [9999999999, 9999999999]\n  dtype = 'torch.bool'\n"),
            "meta.bad_shape weight_meta.py:3 tensor 'x' has too many elements");
  EXPECT_EQ(refusal(head + "  shape = [2]\n  dtype = 'torch.bool'\n  data = [1]\n"),
            "meta.data_count weight_meta.py:5 tensor 'x' has 2 elements, its data 1");
  EXPECT_EQ(refusal(head + "  shape = [2]\n  dtype = 'torch.bool'\n  data = 'q'\n"),
            "meta.not_literal weight_meta.py:5 data of class A is no flat list of numbers");
  const std::string whole = head + "  shape = []\n  dtype = 'torch.bool'\n";
  EXPECT_EQ(refusal(whole + "class B" + whole.substr(7)),
            "meta.duplicate_name weight_meta.py:5 two classes describe the tensor 'x'");
  EXPECT_EQ(refusal("class A\n").substr(0, 12), "pysrc.syntax");
}

std::map<std::string, std::string> good_files() {
  return {{"/s/graph_list.txt", "float16/1\r\nbfloat16/v0\n\n"},
          {"/s/float16/1/model.py", kModel},
          {"/s/float16/1/weight_meta.py", kMeta},
          {"/s/bfloat16/v0/model.py", kModel},
          {"/s/bfloat16/v0/weight_meta.py", kMeta},
          {"/s/bfloat16/v0/input_meta.py", ""},
          {"/s/pass_dir/.ignore", ""}};
}

TEST(Sample, ListsItsVariants) {
  MemoryFiles files(good_files());
  const Result<Sample> sample = read_sample(files, "/s");
  ASSERT_TRUE(sample.ok()) << sample.error().message;
  EXPECT_EQ(sample->name, "s");
  ASSERT_EQ(sample->variants.size(), 2u);
  EXPECT_EQ(sample->variants[0].label, "float16/1");
  EXPECT_EQ(sample->variants[0].dtype, DType::kFloat16);
  EXPECT_EQ(sample->variants[1].dtype, DType::kBFloat16);
  EXPECT_EQ(sample->variants[1].line, 2);
  EXPECT_TRUE(sample->findings.empty());
}

TEST(Sample, WhatIsWrongWithIt) {
  MemoryFiles none(std::map<std::string, std::string>{{"/s/x", ""}});
  EXPECT_EQ(read_sample(none, "/s").error().code, "sample.no_graph_list");
  EXPECT_EQ(read_sample(none, "/t").error().code, "sample.missing");
  EXPECT_EQ(read_sample(none, "/s/x").error().code, "sample.not_a_directory");
  auto changed = good_files();
  changed["/s/graph_list.txt"] = "float16/1\nfloat16/2\nbfloat16/v0\nbfloat16/v0\n";
  changed.erase("/s/bfloat16/v0/model.py");
  MemoryFiles files(changed);
  const Result<Sample> sample = read_sample(files, "/s");
  ASSERT_TRUE(sample.ok());
  EXPECT_EQ(sample->variants.size(), 1u);
  ASSERT_EQ(sample->findings.size(), 3u);
  EXPECT_EQ(sample->findings[0].code, "sample.variant_missing");
  EXPECT_EQ(sample->findings[0].message, "'float16/2' is listed, but there is no such folder");
  EXPECT_EQ(sample->findings[0].file, "/s/graph_list.txt");
  EXPECT_EQ(sample->findings[0].span.line, 2);
  EXPECT_EQ(sample->findings[1].code, "sample.no_model");
  EXPECT_EQ(sample->findings[2].code, "sample.listed_twice");
  for (const Diagnostic& d : sample->findings) EXPECT_FALSE(d.hint.empty());
  changed["/s/graph_list.txt"] = "nothing/here\n";
  MemoryFiles empty(changed);
  EXPECT_EQ(read_sample(empty, "/s").error().code, "sample.no_variants");
  changed["/s/graph_list.txt"] = "\n";
  MemoryFiles blank(changed);
  EXPECT_EQ(read_sample(blank, "/s").error().message, "graph_list.txt lists nothing");
}

TEST(Sample, LinksThatLoop) {
  const std::filesystem::path root = std::filesystem::path(testing::TempDir()) / "passnet_sample_links";
  std::filesystem::remove_all(root);
  std::filesystem::create_directories(root / "float32" / "1");
  std::filesystem::create_symlink("loop", root / "float32" / "loop");
  std::filesystem::create_symlink("model.py", root / "float32" / "1" / "model.py");
  ASSERT_TRUE(real_files().write((root / "graph_list.txt").string(), "float32/loop\nfloat32/1\n").ok());
  const Result<Sample> sample = read_sample(real_files(), root.string());
  ASSERT_FALSE(sample.ok());
  EXPECT_EQ(sample.error().code, "sample.no_variants");
  EXPECT_EQ(sample.error().span.line, 1);
  const auto variant = read_variant(real_files(), (root / "float32" / "1").string());
  ASSERT_FALSE(variant.ok());
  EXPECT_EQ(variant.error().code, "file.loop");
  std::filesystem::remove_all(root);
}

TEST(Sample, VariantFilesThatAreMissingOrBinary) {
  auto changed = good_files();
  changed.erase("/s/float16/1/weight_meta.py");
  changed["/s/bfloat16/v0/model.py"] = std::string("\0\1\2", 3);
  MemoryFiles files(changed);
  const auto captured = capture_variant(files, "/s/float16/1");
  ASSERT_TRUE(captured.ok());
  ASSERT_EQ(captured->findings.size(), 1u);
  EXPECT_EQ(captured->findings[0].code, "sample.no_weight_meta");
  EXPECT_EQ(captured->graphs.at(0).size(), 4u);
  const auto binary = read_variant(files, "/s/bfloat16/v0", "bfloat16/v0");
  ASSERT_FALSE(binary.ok());
  EXPECT_EQ(binary.error().file, "bfloat16/v0/model.py");
  EXPECT_FALSE(binary.error().hint.empty());
  EXPECT_EQ(read_variant(files, "/s").error().code, "sample.no_model");
}

TEST(Sample, CaptureDocument) {
  MemoryFiles files(good_files());
  const Json document = capture_json(files, "/s/float16/1");
  EXPECT_EQ(document["schema"], "passnet.capture/1");
  EXPECT_EQ(document["status"], "green") << dump_json(document);
  const Json& nodes = document["graphs"][0]["nodes"];
  EXPECT_EQ(nodes[2]["target"], "operator.add");
  EXPECT_EQ(nodes[2]["dtype"], "torch.float16");
  EXPECT_EQ(nodes[2]["shape"], Json::array({2, 3}));
  const Json error = capture_json(files, "/s/float16");
  EXPECT_EQ(error["status"], "error");
  EXPECT_EQ(error["findings"][0]["code"], "sample.no_model");
}

TEST(Sample, MetadataThatNoParameterTakes) {
  auto changed = good_files();
  changed["/s/float16/1/model.py"] =
      "import torch\nclass GraphModule(torch.nn.Module):\n    def forward(self, in_0):\n        return (in_0 "
      "* 2,)\n";
  MemoryFiles files(changed);
  const auto captured = capture_variant(files, "/s/float16/1");
  ASSERT_TRUE(captured.ok());
  ASSERT_EQ(captured->findings.size(), 1u);
  EXPECT_EQ(captured->findings[0].code, "sample.unused_meta");
  EXPECT_EQ(captured->findings[0].severity, Severity::kWarning);
}

}  // namespace
}  // namespace passnet
