#include "plan/archetypes.h"

#include <algorithm>
#include <functional>

namespace passnet {

namespace {

// Below this an eager call is mostly the cost of calling (the strategy's own bound).
constexpr double kSmallEagerUs = 150;
// A result large enough that its bytes count, not its launch.
constexpr int64_t kLargeElements = 1 << 20;

using Test = std::function<bool(const GraphFacts&, NodeId)>;

bool any_node(const SampleShape& shape, const Test& test) {
  for (const GraphFacts* facts : shape.graphs) {
    for (size_t i = 0; i < facts->size(); ++i) {
      const NodeId id = static_cast<NodeId>(i);
      if ((*facts)[id].compute && test(*facts, id)) return true;
    }
  }
  return false;
}

size_t count_nodes(const SampleShape& shape, const Test& test) {
  size_t most = 0;
  for (const GraphFacts* facts : shape.graphs) {
    size_t count = 0;
    for (size_t i = 0; i < facts->size(); ++i) {
      const NodeId id = static_cast<NodeId>(i);
      count += (*facts)[id].compute && test(*facts, id);
    }
    most = std::max(most, count);
  }
  return most;
}

OpClass class_of(const GraphFacts& facts, NodeId id) {
  return facts[id].call ? facts[id].call->row->cls : OpClass::kOther;
}

bool is_class(const GraphFacts& facts, NodeId id, OpClass cls) {
  return facts[id].call && class_of(facts, id) == cls;
}

bool named(const GraphFacts& facts, NodeId id, std::string_view part) {
  return facts.operator_name(id).find(part) != std::string::npos;
}

// Kernels of the pointwise kind: what a chain is made of.
bool light(const GraphFacts& facts, NodeId id) {
  return is_class(facts, id, OpClass::kPointwise) || is_class(facts, id, OpClass::kNorm);
}

bool affine_norm(const GraphFacts& facts, NodeId id) {
  return named(facts, id, "batch_norm") || named(facts, id, "layer_norm") || named(facts, id, "group_norm") ||
         named(facts, id, "instance_norm");
}

bool convolution(const GraphFacts& facts, NodeId id) {
  return is_class(facts, id, OpClass::kProduct) && named(facts, id, "conv") && !named(facts, id, "transpose");
}

// Views read through: does a value for which `test` holds reach `id`?
bool reached_by(const GraphFacts& facts, NodeId id, const Test& test, int depth = 0) {
  if (depth > 8) return false;
  for (NodeId input : facts[id].inputs) {
    if (!facts[input].compute) continue;
    if (test(facts, input)) return true;
    if (is_class(facts, input, OpClass::kView) && reached_by(facts, input, test, depth + 1)) return true;
  }
  return false;
}

int64_t elements(const GraphFacts& facts, NodeId id) {
  const Meta& meta = facts.graph().node(id).meta;
  return meta.is_tensor() ? meta.tensor.numel() : 0;
}

// An operand smaller than the result: it is broadcast.
bool broadcasts(const GraphFacts& facts, NodeId id) {
  return is_class(facts, id, OpClass::kPointwise) &&
         std::any_of(facts[id].inputs.begin(), facts[id].inputs.end(), [&](NodeId input) {
           const Meta& meta = facts.graph().node(input).meta;
           if (!meta.is_tensor() || meta.tensor.numel() == 0) return false;
           if (meta.tensor.numel() < elements(facts, id)) return true;
           if (!meta.tensor.stride) return false;
           for (size_t d = 0; d < meta.tensor.shape.size(); ++d) {
             if ((*meta.tensor.stride)[d] == 0 && meta.tensor.shape[d] > 1) return true;
           }
           return false;
         });
}

// Integer elements of an argument (an int or a list); empty if there are none.
std::vector<int64_t> integers(const Value& value) {
  std::vector<int64_t> out;
  if (value.kind() == Value::Kind::kInt) out.push_back(value.as_int());
  for (const Value& item : value.items()) {
    if (item.kind() == Value::Kind::kInt) out.push_back(item.as_int());
  }
  return out;
}

// Disjoint windows: stride equals the kernel, which is larger than one, without padding. Parameters of every
// convolution: input, weight, bias, stride, padding, dilation, groups.
bool non_overlapping(const GraphFacts& facts, NodeId id) {
  if (!convolution(facts, id) || facts[id].call->args.size() < 5) return false;
  const Call& call = *facts[id].call;
  if (!call.args[1].is_node()) return false;
  const Meta& weight = facts.graph().node(call.args[1].as_node()).meta;
  if (!weight.is_tensor() || weight.tensor.dim() < 3) return false;
  const std::vector<int64_t> stride = integers(call.args[3]), padding = integers(call.args[4]);
  if (stride.empty() || padding.empty()) return false;
  for (size_t d = 2; d < weight.tensor.shape.size(); ++d) {
    const size_t axis = d - 2;
    const int64_t kernel = weight.tensor.shape[d];
    if (kernel <= 1 || stride[std::min(axis, stride.size() - 1)] != kernel ||
        padding[std::min(axis, padding.size() - 1)] != 0) {
      return false;
    }
  }
  return true;
}

bool chain(const SampleShape& s) {
  return any_node(s, [](const GraphFacts& f, NodeId id) { return light(f, id) && reached_by(f, id, light); });
}

bool broadcast_affine(const SampleShape& s) {
  return any_node(s, [](const GraphFacts& f, NodeId id) {
    return broadcasts(f, id) && elements(f, id) >= kLargeElements &&
           std::any_of(f[id].users.begin(), f[id].users.end(), [&](NodeId user) { return light(f, user); });
  });
}

bool concat_norm(const SampleShape& s) {
  return any_node(s, [](const GraphFacts& f, NodeId id) {
    return affine_norm(f, id) && reached_by(f, id, [](const GraphFacts& g, NodeId n) {
             return named(g, n, "cat") || named(g, n, "stack");
           });
  });
}

bool linear_tail(const SampleShape& s) {
  return any_node(s, [](const GraphFacts& f, NodeId id) {
    return light(f, id) && reached_by(f, id, [](const GraphFacts& g, NodeId n) {
             return is_class(g, n, OpClass::kProduct) && (named(g, n, "linear") || named(g, n, "addmm"));
           });
  });
}

bool patch_convolution(const SampleShape& s) { return any_node(s, non_overlapping); }

bool convolution_tail(const SampleShape& s) {
  return any_node(s, [](const GraphFacts& f, NodeId id) {
    return light(f, id) && reached_by(f, id, [](const GraphFacts& g, NodeId n) {
             return convolution(g, n) && !non_overlapping(g, n);
           });
  });
}

bool attention(const SampleShape& s) {
  return any_node(s, [](const GraphFacts& f, NodeId id) {
    if (named(f, id, "attention")) return true;
    return is_class(f, id, OpClass::kProduct) && reached_by(f, id, [](const GraphFacts& g, NodeId n) {
             return named(g, n, "softmax") ||
                    (named(g, n, "dropout") &&
                     reached_by(g, n, [](const GraphFacts& h, NodeId m) { return named(h, m, "softmax"); }));
           });
  });
}

bool concatenation(const SampleShape& s) {
  return any_node(
      s, [](const GraphFacts& f, NodeId id) { return named(f, id, "cat") || named(f, id, "stack"); });
}

bool reduction(const SampleShape& s) {
  return any_node(s, [](const GraphFacts& f, NodeId id) {
    return is_class(f, id, OpClass::kReduction) || is_class(f, id, OpClass::kNorm);
  });
}

bool broadcast_write(const SampleShape& s) {
  return any_node(s, [](const GraphFacts& f, NodeId id) {
    return broadcasts(f, id) && elements(f, id) >= kLargeElements;
  });
}

bool mostly_layout(const SampleShape& s) {
  const size_t views = count_nodes(s, [](const GraphFacts& f, NodeId id) {
    return is_class(f, id, OpClass::kView) || is_class(f, id, OpClass::kTuple);
  });
  const size_t others = count_nodes(s, [](const GraphFacts& f, NodeId id) {
    return !is_class(f, id, OpClass::kView) && !is_class(f, id, OpClass::kTuple);
  });
  return views > 0 && others <= 1;
}

bool single_heavy(const SampleShape& s) {
  const size_t heavy = count_nodes(s, [](const GraphFacts& f, NodeId id) {
    return is_class(f, id, OpClass::kProduct) && !non_overlapping(f, id);
  });
  const size_t other = count_nodes(s, [](const GraphFacts& f, NodeId id) {
    return !is_class(f, id, OpClass::kProduct) && f[id].eager.kernels > 0;
  });
  return heavy == 1 && other == 0;
}

bool has_random(const SampleShape& s) {
  return any_node(s, [](const GraphFacts& f, NodeId id) { return f[id].wall.code == "random"; });
}

bool shared_producer(const SampleShape& s) {
  return any_node(s, [](const GraphFacts& f, NodeId id) {
    if (!light(f, id) || f[id].users.size() < 2) return false;
    const Node* output = f.graph().output();
    return output != nullptr &&
           std::find(f[id].users.begin(), f[id].users.end(), output->id) != f[id].users.end();
  });
}

bool in_place_boundary(const SampleShape& s) {
  return any_node(s, [](const GraphFacts& f, NodeId id) { return !f.graph().node(id).writes.empty(); });
}

bool dead_duplicates(const SampleShape& s) {
  return any_node(
      s, [](const GraphFacts& f, NodeId id) { return f[id].dead && f.graph().node(id).meta.is_tensor(); });
}

bool small(const SampleShape& s) { return s.eager_us < kSmallEagerUs; }

bool always(const SampleShape&) { return true; }

constexpr Archetype kArchetypes[] = {
    {"patch_convolution", "graph shapes 4; heavy operators 0",
     "a convolution with stride == kernel_size, kernel_size > 1 and no padding",
     "its windows are disjoint, so that it is a product of patches: anchor the region on it and fold "
     "flatten, transpose and "
     "tail into the kernel, after a floor on the tail",
     "patch_conv", 1, patch_convolution},
    {"broadcast_affine", "graph shapes 2; regions 2",
     "a broadcast or layout producer whose affine, activation or residual consumers write a large result",
     "one legal single-output kernel over all of them, unless a view that is returned would be copied",
     "broadcast_affine", 2, broadcast_affine},
    {"concat_norm", "graph shapes 3; regions 2",
     "concatenation or several branches, then inference normalisation and affine",
     "end the region at the normalised or affine value; an in-place activation that others see stays outside",
     "concat_norm", 3, concat_norm},
    {"attention", "graph shapes 7", "a product, softmax, a product; or the library's attention",
     "a row kernel for the softmax with scale, mask and dropout folded in; large products stay in the "
     "library",
     "attention", 4, attention},
    {"chain", "graph shapes 1", "a chain of elementwise and normalisation operators",
     "one elementwise or row kernel over the largest legal region", "elementwise_chain", 5, chain},
    {"linear_tail", "graph shapes 5", "linear, then activation or dropout",
     "keep the library's product and fuse its tail where it is big, absorb both where it is small; measure "
     "both",
     "linear_tail", 6, linear_tail},
    {"convolution_tail", "graph shapes 6",
     "an overlapping, grouped or 1x1 convolution, then norm, activation or addition",
     "fuse the tail into one kernel; absorb the convolution only where a schedule and a measurement say so",
     "conv_tail", 7, convolution_tail},
    {"concatenation", "graph shapes 8", "cat or stack with elementwise work or repeated producers",
     "write the result directly, a segment for each source", "cat_stack", 8, concatenation},
    {"reduction", "graph shapes 9", "mean, sum or norm and arithmetic that broadcasts it back",
     "one row kernel that produces the final value", "reduction", 9, reduction},
    {"broadcast_write", "graph shapes 10; regions 6", "an expanded or broadcast operand and a large result",
     "worth a kernel even alone: the erased layout calls come for free", "broadcast_write", 10,
     broadcast_write},
    {"shared_producer", "regions 2 and containment", "a value that is returned or shared and also consumed",
     "leave the producer outside and make it an input of a consumer-side region; one pass for each consumer "
     "worth it",
     "shared_producer", 11, shared_producer},
    {"mostly_layout", "graph shapes 11; regions 6",
     "views, permutes and contiguous with at most one computation",
     "replace the computation, reading through the source's strides; a region of views alone is a floor only",
     "layout", 12, mostly_layout},
    {"single_heavy", "graph shapes 12", "one generic product or convolution and nothing else that launches",
     "a floor on an auxiliary call; about 1.0 is what there is", "single_heavy", 13, single_heavy},
    {"random", "graph shapes 13; hard rule 8", "random numbers or dropout in training mode",
     "they stay outside of every pattern; work around them", "rng", 14, has_random},
    {"in_place", "hard rules; side effects", "calls that write one of their operands",
     "absorb them only where the written memory was made inside the region", "in_place", 15,
     in_place_boundary},
    {"dead_duplicates", "regions 2", "calls whose value nobody reads",
     "anchor regions on values that are read: a match on a dead one cannot be replaced", "dead_work", 16,
     dead_duplicates},
    {"overhead_bound", "sanity check 3; decision guide 1", "the whole eager call takes less than 150 us",
     "the fixed tax decides: fewest launches and calls; ship the safest matching pass and stop there if no "
     "larger region "
     "exists",
     "overhead_bound", 17, small},
    {"general", "default", "anything else", "floor first, then the largest legal regions by predicted gain",
     "general", 18, always},
};

}  // namespace

std::span<const Archetype> archetypes() { return kArchetypes; }

std::vector<ArchetypeMatch> recognise_archetypes(std::span<const GraphFacts* const> graphs, double eager_us) {
  const SampleShape shape{graphs, eager_us};
  std::vector<ArchetypeMatch> out;
  for (const Archetype& archetype : kArchetypes) {
    if (archetype.recognise == always && !out.empty()) continue;
    if (archetype.recognise(shape)) out.push_back({&archetype});
  }
  std::stable_sort(out.begin(), out.end(), [](const ArchetypeMatch& a, const ArchetypeMatch& b) {
    return a.archetype->priority < b.archetype->priority;
  });
  return out;
}

}  // namespace passnet
