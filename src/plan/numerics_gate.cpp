#include "plan/numerics_gate.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "ops/library.h"

namespace passnet {

namespace {

constexpr double kOrderBound = 5e-6;       // half of the absolute tolerance at t = -5
constexpr double kUnknownMagnitude = 0.5;  // of a factor that is computed, or an input without a distribution
constexpr double kOrderedTerms = 384;  // of a 16-bit sum, whatever its order; more were outside now and then
constexpr int64_t kReworkedElements =
    1 << 15;  // of a float16 reduction: at most a third of an element is expected outside

bool is_product(const GraphFacts& facts, NodeId id) {
  return facts[id].call && facts[id].call->row->cls == OpClass::kProduct;
}

// Moves elements or renames them: no rounding.
bool is_exact(const GraphFacts& facts, NodeId id) {
  if (!facts[id].call) return facts.graph().node(id).op == NodeOp::kOutput;
  const OpClass cls = facts[id].call->row->cls;
  return cls == OpClass::kView || cls == OpClass::kCopy || cls == OpClass::kTuple;
}

// Averages what `from` gives over many elements, so that single last places do not matter: a reduction, and a product
// with the weights of a softmax, which add up to 1. A product with other weights can cancel.
bool averages(const GraphFacts& facts, NodeId from, NodeId id) {
  if (!facts[id].call) return false;
  const OpClass cls = facts[id].call->row->cls;
  return cls == OpClass::kReduction || (cls == OpClass::kProduct && facts[from].call->row->name == "softmax");
}

enum class Step { kFollow, kLeave, kStop };

// Visits everything that depends on `from`, once; `visit` says whether to go on behind a node. The node it stopped at.
template <typename Visit>
std::optional<NodeId> walk_users(const GraphFacts& facts, NodeId from, const Visit& visit) {
  std::vector<NodeId> open = {from};
  std::vector<bool> seen(facts.size(), false);
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    for (const NodeId user : facts[id].users) {
      if (seen[static_cast<size_t>(user)]) continue;
      seen[static_cast<size_t>(user)] = true;
      const Step step = visit(user);
      if (step == Step::kStop) return user;
      if (step == Step::kFollow) open.push_back(user);
    }
  }
  return std::nullopt;
}

// A call, anywhere after `from`, that rounds float32 operands to tf32, or may: what differs in the last place before
// it can differ by 2^-11 of a factor after it.
std::optional<NodeId> tf32_afterwards(const GraphFacts& facts, NodeId from) {
  return walk_users(facts, from, [&](NodeId user) {
    if (!facts[user].call) return Step::kFollow;
    const std::optional<ConvProblem> problem = conv_problem(*facts[user].call);
    const bool rounds = problem && problem->dtype == DType::kFloat32 &&
                        library_conv(*problem).factors != LibraryProduct::Factors::kExact;
    return rounds ? Step::kStop : Step::kFollow;
  });
}

// Whether everything that the value goes through afterwards, to the end of the graph, is exact.
bool only_moved_afterwards(const GraphFacts& facts, NodeId from, bool averaging_is_fine) {
  const auto inexact = walk_users(facts, from, [&](NodeId user) {
    if (averaging_is_fine && averages(facts, from, user)) return Step::kLeave;
    return is_exact(facts, user) ? Step::kFollow : Step::kStop;
  });
  return !inexact;
}

// Sums, means, norms, softmax: rounded once from float32 sums.
bool is_rounded_reduction(const GraphFacts& facts, NodeId id) {
  if (!facts[id].call) return false;
  const OpRow& row = *facts[id].call->row;
  // The inference form of batch_norm, the only one that is lowered, sums nothing.
  if (row.name == "batch_norm") return false;
  return row.cls == OpClass::kNorm || row.cls == OpClass::kReduction;
}

// float32, and channels last, say.
bool is_strided_batch_norm(const GraphFacts& facts, NodeId id) {
  if (!facts[id].call || facts[id].call->row->name != "batch_norm") return false;
  const TensorMeta* input = facts[id].call->tensor("input");
  return input != nullptr && input->dtype == DType::kFloat32 && !input->is_contiguous();
}

// Products summed for one element of the result.
double terms(const NodeFacts& node, const TensorMeta& result) {
  return result.numel() > 0 ? node.cost.flops / (2.0 * static_cast<double>(result.numel())) : 0;
}

// The two tensors that are multiplied.
std::vector<NodeId> factors_of(const GraphFacts& facts, NodeId id) {
  std::vector<NodeId> out;
  for (const Value& argument : facts[id].call->args) {
    if (argument.kind() == Value::Kind::kNode && facts.graph().node(argument.as_node()).meta.is_tensor())
      out.push_back(argument.as_node());
    if (out.size() == 2) break;
  }
  if (out.size() < 2) out.resize(2, kNoNode);  // einsum's list of operands, say
  return out;
}

// Root mean square of a value's elements, or more: an input's as its metadata says, behind what moves or shrinks them.
double magnitude(const GraphFacts& facts, NodeId id) {
  while (id != kNoNode) {
    const Node& node = facts.graph().node(id);
    if (node.op == NodeOp::kPlaceholder) return node.magnitude.value_or(kUnknownMagnitude);
    if (!facts[id].call) break;
    const OpRow& row = *facts[id].call->row;
    const bool same = row.cls == OpClass::kView || row.cls == OpClass::kTuple || row.name == "dropout";
    const bool smaller = row.name == "relu" || row.name == "gelu" || row.name == "silu" || row.name == "tanh";
    const std::vector<NodeId> inputs = facts.graph().inputs_of(id);
    if (!(same || smaller) || inputs.empty()) break;
    id = inputs.front();
  }
  return kUnknownMagnitude;
}

// A float32 result that may differ from eager's in its last places must not reach a convolution in tf32.
void refuse_before_tf32(const GraphFacts& facts, NodeId id, Verdict& verdict) {
  const Node& node = facts.graph().node(id);
  if (!node.meta.is_tensor() || node.meta.tensor.dtype != DType::kFloat32) return;
  if (const auto user = tf32_afterwards(facts, id)) {
    verdict.refuse("reduction.tf32",
                   fmt::format("{} may differ in its last places, and {} rounds what comes of it to tf32",
                               node.name, facts.graph().node(*user).name),
                   {node.name});
  }
}

void judge_product(const GraphFacts& facts, NodeId id, Verdict& verdict) {
  const Node& node = facts.graph().node(id);
  const Call& call = *facts[id].call;
  if (call.row->name.find("attention") != std::string_view::npos) {
    const std::optional<AttentionProblem> problem = attention_problem(call);
    if (!problem || !attention_within_tolerance(*problem)) {
      verdict.refuse(
          "product.attention",
          fmt::format("{}: how the library rounds attention of this type and size is not known", node.name),
          {node.name});
    } else if (problem->dtype == DType::kFloat32) {
      refuse_before_tf32(facts, id, verdict);
    } else if (!only_moved_afterwards(facts, id, false)) {
      verdict.refuse(
          "product.rounding",
          fmt::format("{}: attention in 16 bits may differ in its last place, and what follows rounds "
                      "again",
                      node.name),
          {node.name});
    }
    return;
  }
  if (!node.meta.is_tensor()) return;
  const TensorMeta& result = node.meta.tensor;
  const double count = terms(facts[id], result);
  const LibraryProduct library = library_product(call, result, static_cast<int64_t>(count));
  if (library.same_bits) return;
  if (library.factors == LibraryProduct::Factors::kUnknown) {
    verdict.refuse(
        "product.tf32",
        fmt::format("{}: whether the library rounds this convolution's float32 operands to tf32 is "
                    "not known",
                    node.name),
        {node.name});
    return;
  }
  if (result.dtype == DType::kFloat32) {
    refuse_before_tf32(facts, id, verdict);
    // 2^-24 sqrt(terms) rms(y), and rms(y) is sqrt(terms) times those of the factors.
    double error = std::ldexp(1.0, -24) * count;
    for (const NodeId factor : factors_of(facts, id)) error *= magnitude(facts, factor);
    // What follows may scale the result up to 1, a normalisation for one.
    if (!only_moved_afterwards(facts, id, false))
      error = std::max(error, std::ldexp(1.0, -24) * std::sqrt(count));
    if (error >= kOrderBound) {
      verdict.refuse("product.order",
                     fmt::format("{}: {:.0f} terms a sum: another order of summation may differ by {:.1e}",
                                 node.name, count, error),
                     {node.name});
    }
  } else if (conv_problem(call) && count > kOrderedTerms) {
    verdict.refuse("product.order",
                   fmt::format("{}: {:.0f} terms a sum, which the library adds in an order of its own",
                               node.name, count),
                   {node.name});
  } else if (!only_moved_afterwards(facts, id, false)) {
    verdict.refuse(
        "product.rounding",
        fmt::format("{}: a 16-bit product may differ in its last place, and what follows rounds again",
                    node.name),
        {node.name});
  }
}

}  // namespace

Verdict judge_numerics(const GraphFacts& facts, const Region& region) {
  Verdict verdict;
  for (const NodeId id : region.nodes) {
    const Node& node = facts.graph().node(id);
    if (is_rounded_reduction(facts, id) && node.meta.is_tensor() &&
        node.meta.tensor.dtype == DType::kFloat16 && node.meta.tensor.numel() > kReworkedElements &&
        !only_moved_afterwards(facts, id, true)) {
      verdict.refuse(
          "reduction.rounding",
          fmt::format(
              "{}: {} float16 elements that may differ in the last place, and what follows rounds again",
              node.name, node.meta.tensor.numel()),
          {node.name});
    }
    if (is_strided_batch_norm(facts, id)) {
      verdict.refuse("norm.layout",
                     fmt::format("{}: for layouts other than the contiguous one the library normalises by "
                                 "another formula",
                                 node.name),
                     {node.name});
    }
    if (is_rounded_reduction(facts, id)) refuse_before_tf32(facts, id, verdict);
    if (is_product(facts, id)) judge_product(facts, id, verdict);
  }
  return verdict;
}

}  // namespace passnet
