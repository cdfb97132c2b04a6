#include "plan/archetypes.h"

#include <map>
#include <set>

#include "plan/test_graphs.h"

namespace passnet {
namespace {

std::vector<std::string> recognised(std::string_view text, double eager_us = 500) {
  const Graph graph = graph_of(text);
  const GraphFacts facts(graph, h200());
  const GraphFacts* all[] = {&facts};
  std::vector<std::string> ids;
  for (const ArchetypeMatch& match : recognise_archetypes(all, eager_us))
    ids.emplace_back(match.archetype->id);
  return ids;
}

bool has(const std::vector<std::string>& ids, std::string_view id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// A graph for each row that it must recognise.
const std::map<std::string, std::string> kExamples = {
    {"patch_convolution", R"(%x : f16[1,3,32,32]{3072,1024,32,1}@0 = placeholder
%w : f16[64,3,16,16]{768,256,16,1}@1 = placeholder
%c = call_function torch.conv2d(%x, %w, None, (16, 16), (0, 0), (1, 1), 1)
output ((%c,))
)"},
    {"broadcast_affine", R"(%x : f16[64,128,256]{32768,256,1}@0 = placeholder
%s : f16[256]{1}@1 = placeholder
%m = call_function operator.mul(%x, %s)
%g = call_function torch.nn.functional.gelu(%m)
output ((%g,))
)"},
    {"concat_norm", R"(%x : f16[8,64]{64,1}@0 = placeholder
%y : f16[8,64]{64,1}@1 = placeholder
%w : f16[128]{1}@2 = placeholder
%c = call_function torch.cat([%x, %y], dim=1)
%n = call_function torch.nn.functional.layer_norm(%c, (128,), %w, %w, 1e-05)
output ((%n,))
)"},
    {"attention", R"(%x : f16[8,64,64]{4096,64,1}@0 = placeholder
%y : f16[8,64,32]{2048,32,1}@1 = placeholder
%s = call_method softmax(%x, dim=-1)
%m = call_function torch.matmul(%s, %y)
output ((%m,))
)"},
    {"chain", R"(%x : f16[8,64]{64,1}@0 = placeholder
%a = call_function operator.mul(%x, 2.0)
%g = call_function torch.nn.functional.gelu(%a)
output ((%g,))
)"},
    {"linear_tail", R"(%x : f16[8,64]{64,1}@0 = placeholder
%w : f16[32,64]{64,1}@1 = placeholder
%l = call_function torch.nn.functional.linear(%x, %w, None)
%g = call_function torch.nn.functional.gelu(%l)
output ((%g,))
)"},
    {"convolution_tail", R"(%x : f16[1,3,32,32]{3072,1024,32,1}@0 = placeholder
%w : f16[64,3,1,1]{3,1,1,1}@1 = placeholder
%c = call_function torch.conv2d(%x, %w, None, (1, 1), (0, 0), (1, 1), 1)
%s = call_method sigmoid(%c)
output ((%s,))
)"},
    {"concatenation", R"(%x : f16[8,64]{64,1}@0 = placeholder
%c = call_function torch.cat([%x, %x], dim=1)
output ((%c,))
)"},
    {"reduction", R"(%x : f16[8,64]{64,1}@0 = placeholder
%m = call_method mean(%x, -1, keepdim=True)
%s = call_function operator.sub(%x, %m)
output ((%s,))
)"},
    {"broadcast_write", R"(%x : f16[64,128,256]{32768,256,1}@0 = placeholder
%s : f16[256]{1}@1 = placeholder
%m = call_function operator.mul(%x, %s)
output ((%m,))
)"},
    {"shared_producer", R"(%x : f16[8,64]{64,1}@0 = placeholder
%a = call_function operator.mul(%x, 2.0)
%g = call_function torch.nn.functional.gelu(%a)
output ((%a, %g))
)"},
    {"mostly_layout", R"(%x : f16[8,64]{64,1}@0 = placeholder
%v = call_method view(%x, 64, 8)
%t = call_method transpose(%v, 0, 1)
output ((%t,))
)"},
    {"single_heavy", R"(%x : f16[8,64]{64,1}@0 = placeholder
%w : f16[32,64]{64,1}@1 = placeholder
%l = call_function torch.nn.functional.linear(%x, %w, None)
%v = call_method view(%l, 16, 16)
output ((%v,))
)"},
    {"random", R"(%x : f16[8,64]{64,1}@0 = placeholder
%r = call_function torch.rand_like(%x)
%a = call_function operator.add(%x, %r)
output ((%a,))
)"},
    {"in_place", R"(%x : f16[8,64]{64,1}@0 = placeholder
%r = call_method relu_(%x)
output ((%r,))
)"},
    {"dead_duplicates", R"(%x : f16[8,64]{64,1}@0 = placeholder
%a = call_function operator.mul(%x, 2.0)
%d = call_function operator.mul(%x, 2.0)
output ((%a,))
)"},
    {"overhead_bound", R"(%x : f16[8,64]{64,1}@0 = placeholder
%a = call_function operator.mul(%x, 2.0)
output ((%a,))
)"},
    {"general", R"(%x : f16[8,64]{64,1}@0 = placeholder
%a = call_function operator.mul(%x, 2.0)
output ((%a,))
)"},
};

TEST(Archetypes, EachRowRecognisesItsExample) {
  for (const Archetype& archetype : archetypes()) {
    const auto example = kExamples.find(std::string(archetype.id));
    ASSERT_NE(example, kExamples.end()) << archetype.id << " has no example";
    const std::vector<std::string> ids =
        recognised(example->second, archetype.id == "overhead_bound" ? 60 : 500);
    EXPECT_TRUE(has(ids, archetype.id)) << archetype.id << " among " << testing::PrintToString(ids);
  }
  EXPECT_EQ(kExamples.size(), archetypes().size());
}

TEST(Archetypes, TableIsInOrder) {
  std::set<std::string_view> ids, families;
  int last = 0;
  for (const Archetype& archetype : archetypes()) {
    EXPECT_TRUE(ids.insert(archetype.id).second) << archetype.id;
    EXPECT_TRUE(families.insert(archetype.family).second) << archetype.family;
    EXPECT_GT(archetype.priority, last);
    last = archetype.priority;
  }
}

TEST(Archetypes, PaddingOrAPointwiseKernelIsNoPatchConvolution) {
  for (const char* form : {"(16, 16), (2, 2), (1, 1), 1", "(8, 8), (0, 0), (1, 1), 1"}) {
    EXPECT_FALSE(has(recognised("%x : f16[1,3,32,32]{3072,1024,32,1}@0 = placeholder\n"
                                "%w : f16[64,3,16,16]{768,256,16,1}@1 = placeholder\n"
                                "%c = call_function torch.conv2d(%x, %w, None, " +
                                std::string(form) +
                                ")\n"
                                "output ((%c,))\n"),
                     "patch_convolution"));
  }
}

}  // namespace
}  // namespace passnet
