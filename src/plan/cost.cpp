#include "plan/cost.h"

#include <algorithm>

namespace passnet {

QueueTail QueueTail::before(const CallCost& call, const Profile& profile) const {
  QueueTail out = *this;
  out.after_host = call.host_us + after_host;
  if (call.kernels > 0) {
    out.after_host =
        std::max(out.after_host, call.host_us + profile.latency_us + call.device_us + after_device);
    out.after_device = call.device_us + after_device;
  }
  return out;
}

double QueueTail::total(double host_start, const Profile& profile) const {
  return std::max(host_start + after_host, after_device) + profile.sync_us;
}

namespace {

QueueTail tail_of(std::span<const CallCost> calls, const Profile& profile) {
  QueueTail tail;
  for (size_t i = calls.size(); i-- > 0;) tail = tail.before(calls[i], profile);
  return tail;
}

double bytes_of(const Meta& meta) {
  if (meta.is_tensor()) return static_cast<double>(meta.tensor.bytes());
  double sum = 0;
  for (const Meta& item : meta.items) sum += bytes_of(item);
  return sum;
}

}  // namespace

double eager_time_us(const QueueTail& tail, const Profile& profile) {
  return tail.total(profile.harness_us, profile);
}

double compiled_time_us(const QueueTail& tail, const Profile& profile) {
  return tail.total(profile.harness_us + profile.compiled_tax_us, profile);
}

double eager_time_us(std::span<const CallCost> calls, const Profile& profile) {
  return eager_time_us(tail_of(calls, profile), profile);
}

double compiled_time_us(std::span<const CallCost> calls, const Profile& profile) {
  return compiled_time_us(tail_of(calls, profile), profile);
}

std::vector<CallCost> eager_calls(const GraphFacts& facts) {
  std::vector<CallCost> calls;
  for (size_t i = 0; i < facts.size(); ++i) {
    const NodeFacts& node = facts[static_cast<NodeId>(i)];
    if (node.compute) calls.push_back(node.eager);
  }
  return calls;
}

CallCost wrapper_cost(Region::Kind kind, const ScheduleEstimate& estimate, int tensors, int outputs,
                      double tflops, const Profile& profile) {
  CallCost cost;
  if (kind == Region::Kind::kZeroLaunch) {
    cost.host_us = profile.zero_launch_us;
    return cost;
  }
  cost.kernels = std::max(1, estimate.kernels);
  // Every further kernel passes through a temporary of its own.
  const int allocations = outputs + cost.kernels - 1;
  cost.host_us = profile.wrapper_us + tensors * profile.tensor_argument_us +
                 allocations * profile.allocation_us + cost.kernels * profile.launch_us;
  cost.device_us = device_time_us(estimate.read_bytes + estimate.write_bytes, estimate.flops, tflops,
                                  cost.kernels, profile);
  return cost;
}

ScheduleEstimate ideal_estimate(const GraphFacts& facts, const Region& region) {
  ScheduleEstimate estimate;
  estimate.schedule = kIdealSchedule;
  for (NodeId input : region.inputs) estimate.read_bytes += bytes_of(facts.graph().node(input).meta);
  estimate.write_bytes = bytes_of(facts.graph().node(region.root).meta);
  for (NodeId id : region.nodes) estimate.flops += facts[id].cost.flops;
  return estimate;
}

double region_tflops(const GraphFacts& facts, const Region& region, bool matrix_units, bool perfect,
                     const Profile& profile) {
  const NodeFacts* heaviest = nullptr;
  for (NodeId id : region.nodes) {
    const NodeFacts& node = facts[id];
    if (heaviest == nullptr || node.cost.flops > heaviest->cost.flops) heaviest = &node;
  }
  const Call* call = heaviest != nullptr && heaviest->call ? &*heaviest->call : nullptr;
  const OpCost cost = heaviest != nullptr ? heaviest->cost : OpCost{};
  return perfect ? perfect_tflops(call, cost, profile) : generated_tflops(call, cost, matrix_units, profile);
}

}  // namespace passnet
