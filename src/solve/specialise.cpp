#include "solve/specialise.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/json.h"
#include "match/rewrite.h"
#include "ops/core.h"
#include "plan/pass_specs.h"

namespace passnet {
namespace {

struct CallAt {
  size_t pass = 0;
  PassCall at;      // its node is that of the graph as rewritten so far
  PassEntry entry;  // without its bindings
  Json program;
};

std::vector<DType> dtypes_of(const std::vector<Binding>& bindings) {
  std::vector<DType> out;
  for (const Binding& b : bindings)
    if (b.is_tensor) out.push_back(b.tensor.dtype);
  return out;
}

// The numbers pinned for the entry of the full size: that of the same place, else of the same types.
std::vector<KernelConfig> tuned_for(const PassSpec& pass, const PassEntry& entry) {
  for (const PassEntry& full : pass.entries)
    if (full.where == entry.where) return full.tuned;
  for (const PassEntry& full : pass.entries)
    if (dtypes_of(full.bindings) == dtypes_of(entry.bindings)) return full.tuned;
  return {};
}

}  // namespace

Result<Specialised> specialise(const std::vector<PassSpec>& passes, const CapturedVariant& variant) {
  Specialised out;
  out.entries.resize(passes.size());
  out.programs.resize(passes.size());
  for (size_t g = 0; g < variant.graphs.size(); ++g) {
    const Graph& captured = variant.graphs[g];
    Graph rewritten;
    const Graph* graph = &captured;
    std::vector<NodeId> original(captured.size());
    for (size_t n = 0; n < original.size(); ++n) original[n] = static_cast<NodeId>(n);
    std::vector<CallAt> calls;
    size_t matches = 0;
    for (size_t p = 0; p < passes.size(); ++p) {
      const PassSpec& pass = passes[p];
      RewriteRule rule = rule_with_route(pass.pattern, pass.route);
      rule.name = pass.name;
      rule.returns_argument = pass.kind == Region::Kind::kZeroLaunch;
      PN_TRY(PassResult applied, apply_pass(*graph, pass.pattern, rule));
      if (applied.replaced.empty()) continue;
      std::vector<NodeId> now(applied.graph.size(), kNoNode);  // original ids of the new graph's nodes
      std::vector<NodeId> moved(graph->size(), kNoNode);       // where the old graph's nodes went
      for (size_t n = 0; n < now.size(); ++n) {
        if (applied.origin[n] == kNoNode) continue;
        now[n] = original[static_cast<size_t>(applied.origin[n])];
        moved[static_cast<size_t>(applied.origin[n])] = static_cast<NodeId>(n);
      }
      for (CallAt& call : calls) call.at.node = moved[static_cast<size_t>(call.at.node)];
      for (const Replaced& replaced : applied.replaced) {
        ++matches;
        PassEntry entry;
        std::vector<NodeId> inputs, nodes;
        for (const Value& bound : replaced.match.placeholder_bindings) {
          if (bound.is_node()) inputs.push_back(original[static_cast<size_t>(bound.as_node())]);
        }
        for (const NodeId id : replaced.covered) nodes.push_back(original[static_cast<size_t>(id)]);
        std::sort(nodes.begin(), nodes.end());
        const NodeId root = original[static_cast<size_t>(replaced.match.returned)];
        entry.where = fmt::format("{} graph {} nodes {}..{}", variant.name, g,
                                  captured.node(nodes.front()).name, captured.node(root).name);
        CallAt call{p,
                    {.node = replaced.wrapper,
                     .kernel = pass.kind == Region::Kind::kKernel,
                     .returns = pass.returns,
                     .item = pass.item},
                    {},
                    nullptr};
        if (pass.kind == Region::Kind::kKernel) {
          PN_TRY(entry.program, lower_region(captured, nodes, root, inputs));
          call.program = entry.program.to_json();
        }
        now[static_cast<size_t>(replaced.wrapper)] = root;
        call.entry = std::move(entry);
        calls.push_back(std::move(call));
      }
      rewritten = std::move(applied.graph);
      graph = &rewritten;
      original = std::move(now);
    }
    out.matches.push_back(matches);
    if (matches == 0) {
      return user_error("specialise.no_match", fmt::format("{} graph {}: no pass matches", variant.name, g));
    }
    std::vector<PassCall> all;
    for (const CallAt& call : calls) all.push_back(call.at);
    const LayoutAnswer layouts = settle_all_layouts(rewritten, all);
    if (layouts.problem) {
      return user_error("specialise.layout",
                        fmt::format("{} graph {}: {}", variant.name, g, layouts.problem->why.message));
    }
    for (const CallAt& call : calls) {
      for (std::vector<Binding>& bindings : bindings_of(layouts.graphs, call.at.node)) {
        PassEntry entry = call.entry;
        entry.bindings = std::move(bindings);
        out.entries[call.pass].push_back(std::move(entry));
      }
    }
    std::stable_sort(calls.begin(), calls.end(),
                     [](const CallAt& a, const CallAt& b) { return a.at.node < b.at.node; });
    for (CallAt& call : calls) out.programs[call.pass].push_back(std::move(call.program));
  }
  return out;
}

std::vector<PassSpec> with_entries(const std::vector<PassSpec>& passes, Specialised at) {
  std::vector<PassSpec> out;
  for (size_t p = 0; p < passes.size(); ++p) {
    if (at.entries[p].empty()) continue;  // it does not match here
    PassSpec copy = clone(passes[p]);
    for (PassEntry& entry : at.entries[p]) entry.tuned = tuned_for(passes[p], entry);
    copy.entries = std::move(at.entries[p]);
    out.push_back(std::move(copy));
  }
  return out;
}

}  // namespace passnet
