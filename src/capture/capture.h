#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "base/source.h"
#include "ir/graph.h"
#include "pysrc/ast.h"

namespace passnet {

// What is known of one parameter of forward before the model runs.
struct InputMeta {
  std::string name;
  TensorMeta tensor;
  // The value of a 0-dim input that the metadata fixes: what `.item()` on it gives.
  std::optional<Value> item;
  // The elements of an input of integers or bools, in row-major order, where the metadata fixes them.
  std::shared_ptr<const std::vector<double>> integers;
  // Root mean square of the elements, where the metadata says how they are distributed.
  std::optional<double> magnitude;
};

struct CaptureOptions {
  // Device type that `device(type=...)` in a device argument becomes, and where inputs live ("cuda:0" for "cuda"); the
  // evaluator rewrites the source the same way before it runs it.
  std::string device = "cuda";
  std::string class_name = "GraphModule";
  std::string method = "forward";
};

// The graphs that dynamo hands to a backend for one call of the model, in call order (empty if the model computes
// nothing), and what was noticed on the way: operators without a rule for metadata, inputs without metadata. A graph
// with findings is complete in nodes and arguments; values whose metadata could not be derived are kUnknown.
struct Captured {
  std::vector<Graph> graphs;
  // Where the placeholders of graphs behind a break come from: another graph's node (by its name there), or the code
  // between two graphs (graph -1). Parameters of forward have no entry. Per graph, keyed by the placeholder's name.
  struct Origin {
    int graph = -1;
    std::string node;
  };
  std::vector<std::map<std::string, Origin>> origins;
  std::vector<Diagnostic> findings;
};

// One element of `graphs` of `passnet capture --json`: to_json(Graph), with the `origin` of inputs that are no parameters,
// {"graph", "node"}; both null for what ran between two graphs.
Json graph_json(const Captured& captured, std::size_t index);

// Interprets the model's forward. `inputs` may be null (no shapes known); every parameter of forward that is missing in
// it is a finding. Errors are those of pysrc and "capture.*": what the model does that is not interpreted, each with
// file, line and the construct's name. DYNAMO.md lists the behaviour of dynamo that is followed here.
Result<Captured> capture_model(const pysrc::Module& module, const std::vector<InputMeta>* inputs,
                               const CaptureOptions& options = {});
Result<Captured> capture_model(SourceBuffer source, const std::vector<InputMeta>* inputs,
                               const CaptureOptions& options = {});

}  // namespace passnet
