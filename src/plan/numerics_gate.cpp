#include "plan/numerics_gate.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

namespace passnet {

namespace {

constexpr double kOrderBound = 5e-6;     // half of the absolute tolerance at t = -5
constexpr double kInputDeviation = 0.5;  // of the live inputs on which products are judged
constexpr int64_t kSinglePositionElements = 1
                                            << 13;  // of 1x1 convolutions of one position, as far as measured
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

bool is_convolution(const Call& call) { return call.row->name.find("conv") != std::string_view::npos; }

// One input channel a group: the library runs these without the matrix units.
bool is_depthwise(const Call& call) {
  const TensorMeta* weight = call.tensor("weight");
  return weight != nullptr && weight->dim() >= 3 && weight->shape[1] == 1 &&
         call.row->name.find("transpose") == std::string_view::npos;
}

// A 1x1 convolution that gives one position a channel.
bool is_single_position(const Call& call, const TensorMeta& result) {
  if (!is_convolution(call) || is_depthwise(call)) return false;
  const TensorMeta* weight = call.tensor("weight");
  if (weight == nullptr || weight->dim() < 3) return false;
  for (size_t axis = 2; axis < weight->shape.size(); ++axis) {
    if (weight->shape[axis] != 1 || result.shape[axis] != 1) return false;
  }
  return result.numel() <= kSinglePositionElements;
}

// Averages over many elements, so that single last places do not matter.
bool averages(const GraphFacts& facts, NodeId id) {
  if (!facts[id].call) return false;
  const OpClass cls = facts[id].call->row->cls;
  return cls == OpClass::kProduct || cls == OpClass::kReduction;
}

// Whether everything that the value goes through afterwards, to the end of the graph, is exact.
bool only_moved_afterwards(const GraphFacts& facts, NodeId from, bool averaging_is_fine) {
  std::vector<NodeId> open = {from};
  std::vector<bool> seen(facts.size(), false);
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    for (const NodeId user : facts[id].users) {
      if (seen[static_cast<size_t>(user)]) continue;
      seen[static_cast<size_t>(user)] = true;
      if (averaging_is_fine && averages(facts, user)) continue;
      if (!is_exact(facts, user)) return false;
      open.push_back(user);
    }
  }
  return true;
}

// Sums, means, norms, softmax: rounded once from float32 sums.
bool is_rounded_reduction(const GraphFacts& facts, NodeId id) {
  if (!facts[id].call) return false;
  const OpRow& row = *facts[id].call->row;
  // The inference form of batch_norm, the only one that is lowered, sums nothing.
  if (row.name == "batch_norm") return false;
  return row.cls == OpClass::kNorm || row.cls == OpClass::kReduction;
}

// Products summed for one element of the result.
double terms(const NodeFacts& node, const TensorMeta& result) {
  return result.numel() > 0 ? node.cost.flops / (2.0 * static_cast<double>(result.numel())) : 0;
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
    if (!is_product(facts, id)) continue;
    const Call& call = *facts[id].call;
    if (call.row->name.find("attention") != std::string_view::npos) {
      verdict.refuse("product.attention",
                     fmt::format("{}: the library's attention rounds its weights in its own way", node.name),
                     {node.name});
      continue;
    }
    if (!node.meta.is_tensor()) continue;
    const TensorMeta& result = node.meta.tensor;
    if (result.dtype == DType::kFloat32) {
      if (is_convolution(call) && !is_depthwise(call) && !is_single_position(call, result)) {
        verdict.refuse(
            "product.tf32",
            fmt::format("{}: the library's float32 convolution rounds its operands to tf32", node.name),
            {node.name});
        continue;
      }
      const double error =
          std::ldexp(1.0, -24) * terms(facts[id], result) * kInputDeviation * kInputDeviation;
      if (error >= kOrderBound) {
        verdict.refuse("product.order",
                       fmt::format("{}: {:.0f} terms a sum: another order of summation may differ by {:.1e}",
                                   node.name, terms(facts[id], result), error),
                       {node.name});
      }
    } else if (!is_single_position(call, result) && !only_moved_afterwards(facts, id, false)) {
      verdict.refuse(
          "product.rounding",
          fmt::format("{}: a 16-bit product may differ in its last place, and what follows rounds again",
                      node.name),
          {node.name});
    }
  }
  return verdict;
}

}  // namespace passnet
