#include "plan/facts.h"

#include <algorithm>

namespace passnet {

namespace {

// Half of the cache: the other half holds what the neighbours in time read.
constexpr double kCacheShare = 0.5;
// Convolutions of images as they come: colours, perhaps with a mask.
constexpr int64_t kStemChannels = 4;
// A call without a tensor result (profiler marks, grad mode) or without a row.
constexpr double kBookkeepingUs = 1.0;

void collect_storages(const Meta& meta, std::vector<StorageId>& out) {
  if (meta.is_tensor()) {
    if (meta.tensor.storage >= 0 && std::find(out.begin(), out.end(), meta.tensor.storage) == out.end()) {
      out.push_back(meta.tensor.storage);
    }
  }
  for (const Meta& item : meta.items) collect_storages(item, out);
}

double bytes_of(const Meta& meta) {
  if (meta.is_tensor()) return static_cast<double>(meta.tensor.bytes());
  double sum = 0;
  for (const Meta& item : meta.items) sum += bytes_of(item);
  return sum;
}

// A tensor operand of an expanded (stride 0) view is read once an element of its own, not of the view.
double read_bytes_of(const Meta& meta) {
  if (!meta.is_tensor() || !meta.tensor.stride) return bytes_of(meta);
  double elements = 1;
  for (size_t i = 0; i < meta.tensor.shape.size(); ++i) {
    if ((*meta.tensor.stride)[i] != 0) elements *= static_cast<double>(meta.tensor.shape[i]);
  }
  return elements * size_of(meta.tensor.dtype);
}

DType first_dtype(const Meta& meta) {
  if (meta.is_tensor()) return meta.tensor.dtype;
  return meta.items.empty() ? DType::kFloat32 : first_dtype(meta.items.front());
}

bool is_half(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

bool is_convolution(const Call& call) { return call.row->name.find("conv") != std::string_view::npos; }

bool same_layout(const TensorMeta& a, const TensorMeta& b) {
  return a.shape == b.shape && a.dtype == b.dtype && a.offset == b.offset && a.device == b.device;
}

// Operators that return their argument itself whatever its strides, once dtype and shape are unchanged.
bool returns_argument(const OpRow& row) {
  return row.name == "dropout" || row.name == "to" || row.name == "identity";
}

NodeId find_no_op_operand(const Graph& graph, const Call& call) {
  const Node& node = *call.node;
  if (!node.meta.is_tensor() || !node.writes.empty() || call.in_place) return kNoNode;
  if (node.meta.tensor.storage < 0 || !may_alias_operand(call)) return kNoNode;
  for (NodeId input : graph.inputs_of(node.id)) {
    const Meta& meta = graph.node(input).meta;
    if (!meta.is_tensor() || meta.tensor.storage != node.meta.tensor.storage) continue;
    if (!same_layout(meta.tensor, node.meta.tensor)) continue;
    const bool known = meta.tensor.stride && node.meta.tensor.stride;
    if (known ? *meta.tensor.stride == *node.meta.tensor.stride
              : !meta.tensor.stride && !node.meta.tensor.stride && returns_argument(*call.row)) {
      return input;
    }
  }
  return kNoNode;
}

bool is_transposed(const Call& call) { return call.row->name.starts_with("conv_transpose"); }

// The matrix units' own rate for a product's type.
double unit_tflops(const Call& call, const Profile& profile) {
  if (is_half(first_dtype(call.node->meta))) return profile.tensor16_tflops;
  return is_convolution(call) ? profile.tf32_tflops : profile.tf32_tflops / 3;
}

}  // namespace

bool is_tensor_tuple(const Meta& meta) {
  return meta.kind == Meta::Kind::kTuple && !meta.items.empty() &&
         std::all_of(meta.items.begin(), meta.items.end(), [](const Meta& m) { return m.is_tensor(); });
}

double library_tflops(const Call* call, const OpCost& cost, const Profile& profile) {
  const double fp32 = profile.fp32_tflops * profile.product_efficiency;
  if (call == nullptr || call->row->cls != OpClass::kProduct) return fp32;
  const bool half = is_half(first_dtype(call->node->meta));
  if (!is_convolution(*call))
    return half && cost.tensor_core ? profile.tensor16_tflops * profile.product_efficiency : fp32;
  if (!cost.tensor_core) return profile.depthwise_tflops;
  if (is_transposed(*call)) return profile.transposed_tflops;
  // weight: [out, in / groups, kernel...]
  const TensorMeta* weight = call->args.size() > 1 ? call->tensor(call->args[1]) : nullptr;
  if (weight != nullptr && weight->dim() > 2 && weight->shape[1] <= kStemChannels) return profile.stem_tflops;
  return half ? profile.conv16_tflops : profile.conv32_tflops;
}

double generated_tflops(const Call* call, const OpCost& cost, bool matrix_units, const Profile& profile) {
  const double fp32 = profile.fp32_tflops;
  if (call == nullptr || call->row->cls != OpClass::kProduct) return fp32 * profile.product_efficiency;
  if (!matrix_units || !cost.tensor_core) return fp32 * profile.generated_efficiency;
  if (is_transposed(*call))
    return is_half(first_dtype(call->node->meta)) ? profile.windowed16_tflops : profile.windowed32_tflops;
  return unit_tflops(*call, profile) * profile.generated_efficiency;
}

double perfect_tflops(const Call* call, const OpCost& cost, const Profile& profile) {
  if (call == nullptr || call->row->cls != OpClass::kProduct || !cost.tensor_core)
    return profile.fp32_tflops * profile.product_efficiency;
  return unit_tflops(*call, profile) * profile.product_efficiency;
}

double device_time_us(double bytes, double flops, double tflops, int kernels, const Profile& profile) {
  if (kernels == 0) return 0;
  const double gbps = bytes <= profile.l2_bytes * kCacheShare ? profile.l2_gbps : profile.bandwidth_gbps;
  return std::max({bytes / gbps * 1e-3, flops / tflops * 1e-6, kernels * profile.kernel_floor_us});
}

GraphFacts::GraphFacts(const Graph& graph, const Profile& profile) : graph_(&graph), nodes_(graph.size()) {
  const std::vector<std::vector<NodeId>> users = graph.users();
  for (const auto& pointer : graph.nodes()) {
    const Node& node = *pointer;
    NodeFacts& facts = nodes_[static_cast<size_t>(node.id)];
    facts.inputs = graph.inputs_of(node.id);
    facts.users = users[static_cast<size_t>(node.id)];
    facts.compute = node.op == NodeOp::kCallFunction || node.op == NodeOp::kCallMethod;
    for (StorageId storage : storages_of(node.id)) {
      if (static_cast<size_t>(storage) >= holders_.size()) holders_.resize(static_cast<size_t>(storage) + 1);
      holders_[static_cast<size_t>(storage)].push_back(node.id);
    }
    if (!facts.compute) continue;
    ++compute_nodes_;
    facts.dead = facts.users.empty();

    const bool tensors = node.meta.is_tensor() || is_tensor_tuple(node.meta);
    Result<Call> call = resolve(graph, node);
    if (!call) {
      facts.wall = {"unknown_operator", "the operator is unknown: " + call.error().message, {node.name}};
      facts.hard_wall = true;
      facts.cost.host_us = tensors ? facts.cost.host_us : kBookkeepingUs;
      facts.cost.kernels = tensors ? 1 : 0;
    } else {
      facts.call = *call;
      facts.cost = cost_of(*call);
      facts.no_op_of = find_no_op_operand(graph, *call);
      if (call->row->cls == OpClass::kRandom) {
        facts.wall = {"random", "random numbers stay outside of every kernel", {node.name}};
        facts.hard_wall = true;
      } else if (!tensors) {
        facts.wall = {"not_tensor", "the value is neither a tensor nor a tuple of tensors", {node.name}};
        facts.hard_wall = true;
      } else if (call->row->lower == nullptr) {
        const std::string why =
            call->row->wall.empty() ? "no kernel is generated for it" : std::string(call->row->wall);
        facts.wall = {call->row->cls == OpClass::kProduct ? "library_product" : "no_lowering",
                      std::string(call->row->name) + ": " + why,
                      {node.name}};
      }
    }
    if (node.target == "operator.getitem" && node.args.size() == 2 && node.args[0].is_node() &&
        node.args[1].kind() == Value::Kind::kInt) {
      const Meta& source = graph.node(node.args[0].as_node()).meta;
      if (source.kind == Meta::Kind::kTuple) {
        const int64_t count = static_cast<int64_t>(source.items.size());
        const int64_t index = node.args[1].as_int() + (node.args[1].as_int() < 0 ? count : 0);
        if (index >= 0 && index < count) {
          facts.tuple = node.args[0].as_node();
          facts.item = static_cast<int>(index);
        }
      }
    }
    double bytes = facts.cost.bytes;
    if (bytes < 0) {
      bytes = bytes_of(node.meta);
      for (NodeId input : facts.inputs) bytes += read_bytes_of(graph.node(input).meta);
    }
    facts.eager.host_us = facts.cost.host_us * profile.host_scale;
    facts.eager.kernels = facts.cost.kernels;
    facts.eager.device_us = device_time_us(
        bytes, facts.cost.flops, library_tflops(facts.call ? &*facts.call : nullptr, facts.cost, profile),
        facts.cost.kernels, profile);
  }
}

NodeId GraphFacts::creator(StorageId storage) const {
  const std::vector<NodeId>& all = holders(storage);
  return all.empty() ? kNoNode : all.front();
}

const std::vector<NodeId>& GraphFacts::holders(StorageId storage) const {
  static const std::vector<NodeId> kNone;
  if (storage < 0 || static_cast<size_t>(storage) >= holders_.size()) return kNone;
  return holders_[static_cast<size_t>(storage)];
}

std::vector<StorageId> GraphFacts::storages_of(NodeId id) const {
  std::vector<StorageId> out;
  collect_storages(graph_->node(id).meta, out);
  return out;
}

std::string GraphFacts::operator_name(NodeId id) const {
  const NodeFacts& facts = (*this)[id];
  if (facts.call) return std::string(facts.call->row->name);
  return graph_->node(id).target;
}

}  // namespace passnet
