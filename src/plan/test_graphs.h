#pragma once

#include <string_view>

#include <gtest/gtest.h>

#include "ops/core.h"
#include "plan/plan.h"

// What the planner's tests share: graphs from text, with the metadata of calls worked out by the operator
// rows.

namespace passnet {

inline Graph graph_of(std::string_view text) {
  Result<Graph> graph = read_graph(text);
  if (!graph) {
    ADD_FAILURE() << graph.error().message << " in line " << graph.error().span.line;
    return {};
  }
  for (size_t i = 0; i < graph->size(); ++i) {
    Node& node = graph->node(static_cast<NodeId>(i));
    const bool call = node.op == NodeOp::kCallFunction || node.op == NodeOp::kCallMethod;
    if (!call || node.meta.kind != Meta::Kind::kUnknown) continue;
    if (Status status = infer(*graph, node); !status)
      ADD_FAILURE() << node.name << ": " << status.error().message;
  }
  return std::move(*graph);
}

inline CapturedVariant variant_of(std::string name, std::string_view text) {
  CapturedVariant variant;
  variant.name = std::move(name);
  variant.graphs.push_back(graph_of(text));
  return variant;
}

inline double bytes_of(const std::vector<TensorMeta>& metas) {
  double sum = 0;
  for (const TensorMeta& meta : metas) sum += static_cast<double>(meta.bytes());
  return sum;
}

/// A generator that can do everything in one kernel that reads and writes each byte once.
inline ScheduleEstimate perfect_generator(const Program& program) {
  ScheduleEstimate estimate;
  estimate.schedule = "perfect";
  estimate.read_bytes = bytes_of(program.inputs());
  estimate.write_bytes = bytes_of(program.output_metas);
  return estimate;
}

inline ScheduleEstimate no_generator(const Program&) {
  ScheduleEstimate estimate;
  estimate.verdict = Verdict::no("schedule.none", "this generator can do nothing");
  return estimate;
}

/// One kernel for programs without a reduction; refuses the rest.
inline ScheduleEstimate flat_generator(const Program& program) {
  ScheduleEstimate estimate = perfect_generator(program);
  estimate.schedule = "flat";
  for (const Array& array : program.arrays()) {
    if (array.kind == Array::Kind::kReduce) {
      estimate.verdict = Verdict::no("schedule.reduction", "no schedule for " + array.label, {array.label});
    }
  }
  return estimate;
}

inline Profile h200() { return builtin_profile("h200").value(); }

}  // namespace passnet
