#include "plan/pass_specs.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "match/rewrite.h"

namespace passnet {

namespace {

// A graph on its way through the passes. Values keep their number in the captured graph; a wrapper's value
// has that of the root it stands for.
struct Progress {
  Graph rewritten;  // empty until a pass has matched
  const Graph* graph = nullptr;
  std::vector<NodeId> original;                  // by node of *graph
  std::vector<std::optional<CallCost>> wrapper;  // by node of *graph: set for the calls of our passes
  // The calls so far, in the order of their making, with the draft and the entry that each stands for.
  struct Call {
    size_t draft = 0;
    PassEntry entry;
    PassCall at;
  };
  std::vector<Call> calls;
};

// Equal for what a compiled entry depends on: not the storage, which only names memory within one graph.
bool same_binding(const Binding& a, const Binding& b) {
  if (a.is_tensor != b.is_tensor) return false;
  if (!a.is_tensor) return a.literal == b.literal;
  return a.tensor.shape == b.tensor.shape && a.tensor.dtype == b.tensor.dtype &&
         a.tensor.stride == b.tensor.stride && a.tensor.device == b.tensor.device;
}

bool same_kinds(const std::vector<Binding>& a, const std::vector<Binding>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Binding& x, const Binding& y) { return x.is_tensor == y.is_tensor; });
}

std::string camel(std::string_view snake) {
  std::string out;
  bool upper = true;
  for (char c : snake) {
    if (!std::isalnum(static_cast<unsigned char>(c))) {
      upper = true;
      continue;
    }
    out += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    upper = false;
  }
  return out;
}

}  // namespace

Binding binding_of(const Graph& graph, const Value& bound) {
  Binding binding;
  if (!bound.is_node()) {
    binding.is_tensor = false;
    binding.literal = bound;
    return binding;
  }
  const Meta& meta = graph.node(bound.as_node()).meta;
  binding.is_tensor = meta.is_tensor();
  if (meta.is_tensor()) {
    binding.tensor = meta.tensor;
    binding.stride_known = meta.tensor.stride.has_value();
  }
  return binding;
}

std::vector<std::vector<Binding>> bindings_of(const SettledLayouts& layouts, NodeId node) {
  // All placeholders in order, then the route (rule_with_route).
  const std::vector<Value>& args = layouts.captured.node(node).args;
  const auto in = [&](const Graph& graph) {
    std::vector<Binding> bindings;
    for (size_t i = 0; i + 1 < args.size(); ++i) {
      bindings.push_back(binding_of(graph, args[i]));
      if (bindings.back().is_tensor)
        bindings.back().captured_stride = binding_of(layouts.captured, args[i]).tensor.stride;
    }
    return bindings;
  };
  std::vector<std::vector<Binding>> out = {in(layouts.settled)};
  if (layouts.otherwise) out.push_back(in(*layouts.otherwise));
  if (out.size() > 1 && same_bindings(out[0], out[1])) out.pop_back();
  return out;
}

PassDraft draft_pass(const Instance& instance, const RegionCandidate& candidate,
                     const std::set<LiteralPath>& holes) {
  const GraphFacts& facts = *instance.facts;
  PassDraft draft;
  draft.pattern = slice_pattern(*instance.graph, candidate.region, holes);
  draft.kind = candidate.region.kind;
  // The same slice can be a call that returns its operand or a kernel that copies it: two different passes.
  draft.pattern.key =
      (draft.kind == Region::Kind::kZeroLaunch ? "zero-launch\n" : "kernel\n") + draft.pattern.key;
  draft.returns = candidate.returns;
  draft.item = candidate.item;
  draft.tuple_output = instance.graph->node(candidate.region.root).meta.kind == Meta::Kind::kTuple;
  draft.description = candidate.description;
  for (NodeId id : candidate.region.nodes) {
    draft.operators.push_back(facts.operator_name(id));
    if (facts[id].call && facts[id].call->row->cls != OpClass::kView)
      draft.spoken.push_back(draft.operators.back());
  }
  if (draft.spoken.empty()) draft.spoken = draft.operators;
  return draft;
}

std::pair<std::string, std::string> name_pass(const PassDraft& draft, std::vector<std::string>& taken) {
  // Long chains are named by how they begin and end.
  constexpr size_t kWords = 5;
  std::vector<std::string> words = draft.spoken;
  words.erase(std::unique(words.begin(), words.end()), words.end());
  if (words.size() > kWords) words.erase(words.begin() + 3, words.end() - 2);
  std::string route = fmt::format("{}", fmt::join(words, "_"));
  std::string verb = "Fuse";
  if (draft.kind == Region::Kind::kZeroLaunch) {
    verb = draft.item >= 0 ? "Take" : "Skip";
    route = draft.item >= 0 ? fmt::format("take_item_{}", draft.item) : "skip_" + route;
  }
  for (char& c : route) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  const std::string stem = route;
  for (int i = 2; std::find(taken.begin(), taken.end(), route) != taken.end(); ++i)
    route = fmt::format("{}_{}", stem, i);
  taken.push_back(route);
  const std::string tail =
      camel(draft.kind == Region::Kind::kZeroLaunch ? route.substr(route.find('_') + 1) : route);
  return {verb + tail, route};
}

bool same_bindings(const std::vector<Binding>& a, const std::vector<Binding>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_binding);
}

PassSpec clone(const PassSpec& spec) {
  PassSpec copy;
  copy.name = spec.name;
  copy.route = spec.route;
  copy.key = spec.key;
  copy.kind = spec.kind;
  copy.pattern = spec.pattern.clone();
  copy.returns = spec.returns;
  copy.item = spec.item;
  copy.tuple_output = spec.tuple_output;
  copy.entries = spec.entries;
  return copy;
}

std::vector<PassSpec> clone(const std::vector<PassSpec>& specs) {
  std::vector<PassSpec> copies;
  for (const PassSpec& spec : specs) copies.push_back(clone(spec));
  return copies;
}

size_t replaced_nodes(const PassSpec& spec) {
  return spec.pattern.size() - spec.pattern.placeholders().size() - 1;
}

Realised realise(const std::vector<Instance>& instances, const std::vector<std::string>& variant_names,
                 const std::vector<const PassDraft*>& drafts, Assessor& assessor) {
  Realised out;
  out.matches.assign(instances.size(), 0);
  out.roots.resize(drafts.size());
  std::vector<Progress> progress(instances.size());
  for (size_t i = 0; i < instances.size(); ++i) {
    progress[i].graph = instances[i].graph;
    progress[i].original.resize(instances[i].graph->size());
    for (size_t n = 0; n < progress[i].original.size(); ++n) progress[i].original[n] = static_cast<NodeId>(n);
    progress[i].wrapper.resize(instances[i].graph->size());
  }

  std::vector<std::string> routes;
  std::vector<PassSpec> specs(drafts.size());
  for (size_t d = 0; d < drafts.size(); ++d) {
    const PassDraft& draft = *drafts[d];
    PassSpec& spec = specs[d];
    bool matched = false;
    std::tie(spec.name, spec.route) = name_pass(draft, routes);
    spec.key = draft.pattern.key;
    spec.kind = draft.kind;
    spec.returns = std::max(0, draft.returns);
    spec.item = draft.item;
    spec.tuple_output = draft.tuple_output;
    RewriteRule rule = rule_with_route(draft.pattern.graph, spec.route);
    rule.name = spec.name;
    rule.returns_argument = draft.kind == Region::Kind::kZeroLaunch;

    for (size_t i = 0; i < instances.size(); ++i) {
      Progress& at = progress[i];
      const Graph& captured = *instances[i].graph;
      Result<PassResult> applied = apply_pass(*at.graph, draft.pattern.graph, rule);
      if (!applied) {
        out.problems.push_back({d, Verdict::no("rewrite", applied.error().message)});
        return out;
      }
      if (applied->replaced.empty()) continue;
      std::vector<std::optional<CallCost>> wrapper(applied->graph.size());
      std::vector<NodeId> original(applied->graph.size(), kNoNode);
      std::vector<NodeId> moved(at.original.size(), kNoNode);
      for (size_t n = 0; n < original.size(); ++n) {
        const NodeId before = applied->origin[n];
        if (before == kNoNode) continue;
        moved[static_cast<size_t>(before)] = static_cast<NodeId>(n);
        original[n] = at.original[static_cast<size_t>(before)];
        wrapper[n] = at.wrapper[static_cast<size_t>(before)];
      }
      for (Progress::Call& call : at.calls) call.at.node = moved[static_cast<size_t>(call.at.node)];
      for (const Replaced& replaced : applied->replaced) {
        Region region;
        region.kind = draft.kind;
        region.root = at.original[static_cast<size_t>(replaced.match.returned)];
        for (NodeId id : replaced.covered) region.nodes.push_back(at.original[static_cast<size_t>(id)]);
        std::sort(region.nodes.begin(), region.nodes.end());
        for (const Value& bound : replaced.match.placeholder_bindings) {
          if (bound.is_node()) region.inputs.push_back(at.original[static_cast<size_t>(bound.as_node())]);
        }
        const Assessment& assessment = assessor.assess(i, region);
        Verdict verdict = assessment.verdict;
        if (!replaced.legality.verdict.ok()) verdict &= replaced.legality.verdict;
        const std::string place = fmt::format(
            "{} graph {} nodes {}..{}", variant_names[instances[i].variant], instances[i].graph_index,
            captured.node(region.nodes.front()).name, captured.node(region.root).name);
        if (!verdict.ok()) {
          verdict.refuse("match_cannot_run",
                         fmt::format("the pattern also fits where its call cannot run: {}", place),
                         {captured.node(region.root).name});
          out.problems.push_back({d, std::move(verdict)});
          return out;
        }
        original[static_cast<size_t>(replaced.wrapper)] = region.root;
        wrapper[static_cast<size_t>(replaced.wrapper)] = assessment.cost;
        out.roots[d].emplace_back(i, region.root);
        ++out.matches[i];
        matched = true;
        PassEntry entry;
        entry.where = place;
        if (draft.kind == Region::Kind::kKernel) {
          Result<Program> program = lower_region(captured, region.nodes, region.root, region.inputs);
          if (!program) {
            out.problems.push_back({d, Verdict::no("lowering", program.error().message)});
            return out;
          }
          entry.program = std::move(*program);
        }
        at.calls.push_back({d,
                            std::move(entry),
                            {.node = replaced.wrapper,
                             .kernel = draft.kind == Region::Kind::kKernel,
                             .returns = spec.returns,
                             .item = spec.item}});
      }
      at.rewritten = std::move(applied->graph);
      at.graph = &at.rewritten;
      at.original = std::move(original);
      at.wrapper = std::move(wrapper);
    }
    // The passes before it (equal slices at other places among them) have taken all it could match: it is not
    // needed.
    if (!matched) {
      routes.pop_back();
      continue;
    }
    spec.pattern = draft.pattern.graph.clone();
    out.kept.push_back(d);
  }

  // Only now is it known what every call is given: a call may stand behind one of a later pass.
  std::vector<SettledLayouts> layouts(progress.size());
  for (size_t i = 0; i < progress.size(); ++i) {
    const Progress& at = progress[i];
    std::vector<PassCall> calls;
    for (const Progress::Call& call : at.calls) calls.push_back(call.at);
    if (calls.empty()) continue;
    LayoutAnswer answer = settle_all_layouts(at.rewritten, calls);
    if (answer.problem) {
      out.problems.push_back({at.calls[answer.problem->call].draft, Verdict(answer.problem->why)});
      return out;
    }
    layouts[i] = std::move(answer.graphs);
  }
  for (const size_t d : out.kept) {
    PassSpec& spec = specs[d];
    for (size_t i = 0; i < progress.size(); ++i) {
      for (Progress::Call& call : progress[i].calls) {
        if (call.draft != d) continue;
        for (std::vector<Binding>& bindings : bindings_of(layouts[i], call.at.node)) {
          const bool known =
              std::any_of(spec.entries.begin(), spec.entries.end(),
                          [&](const PassEntry& other) { return same_bindings(other.bindings, bindings); });
          if (known) continue;
          if (!spec.entries.empty() && !same_kinds(spec.entries.front().bindings, bindings)) {
            out.problems.push_back(
                {d, Verdict::no("mixed_operands",
                                "an operand is a tensor at one place that its pattern matches and a "
                                "number at another")});
            return out;
          }
          PassEntry entry = call.entry;
          entry.bindings = std::move(bindings);
          spec.entries.push_back(std::move(entry));
        }
      }
    }
    out.specs.push_back(std::move(spec));
  }

  if (out.specs.empty() && !drafts.empty()) {
    out.problems.push_back({0, Verdict::no("no_match", "its pattern matches nowhere")});
    return out;
  }

  for (size_t i = 0; i < instances.size(); ++i) {
    std::vector<CallCost>& calls = out.calls.emplace_back();
    const Progress& at = progress[i];
    for (size_t n = 0; n < at.original.size(); ++n) {
      if (at.wrapper[n]) {
        calls.push_back(*at.wrapper[n]);
      } else if (const NodeFacts& node = (*instances[i].facts)[at.original[n]]; node.compute) {
        calls.push_back(node.eager);
      }
    }
  }
  return out;
}

}  // namespace passnet
