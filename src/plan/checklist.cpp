#include "plan/checklist.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json.h"
#include "check/tracer_forms.h"
#include "match/legality.h"
#include "ops/identities.h"

namespace passnet {

namespace {

constexpr double kFixedTaxUs = 70;
constexpr double kKernelShare = 0.30;

bool is_layout(const GraphFacts& facts, NodeId id) {
  if (!facts[id].call) return false;
  const OpClass cls = facts[id].call->row->cls;
  return cls == OpClass::kView || cls == OpClass::kTuple;
}

// Whether the tracer gives this very call for some way of writing it.
bool traced_form(const Node& node) {
  if (const check::KeptForm* form = check::kept_form(node.target)) {
    const size_t positional =
        1 + static_cast<size_t>(std::count(form->positional.begin(), form->positional.end(), ','));
    const size_t keywords =
        static_cast<size_t>(std::count(form->keywords.begin(), form->keywords.end(), '='));
    return (node.args.size() == positional || form->positional.starts_with("*")) &&
           node.kwargs.size() == keywords;
  }
  const PySignature* signature = signature_of(node.target);
  if (signature == nullptr) return true;
  if (!node.kwargs.empty() || is_bool_dispatch(node.target)) return false;
  for (const PyParameter& p : *signature) {
    if (p.kind != PyParameter::Kind::kPositional && p.kind != PyParameter::Kind::kPositionalOnly)
      return false;
  }
  return node.args.size() == signature->size();
}

std::vector<std::string> names_of(const GraphFacts& facts, const std::vector<NodeId>& ids) {
  std::vector<std::string> out;
  for (const NodeId id : ids) out.push_back(facts.graph().node(id).name);
  return out;
}

bool same_structure(const Graph& a, const Graph& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    const Node &x = a.node(static_cast<NodeId>(i)), &y = b.node(static_cast<NodeId>(i));
    if (x.op != y.op || (x.op != NodeOp::kPlaceholder && x.target != y.target) ||
        x.args.size() != y.args.size() || x.kwargs.size() != y.kwargs.size())
      return false;
  }
  return true;
}

}  // namespace

Matchability matchability(const GraphFacts& facts, const Node& node) {
  if (is_random(node)) return {"random", "it draws random numbers: it stays outside of every pattern"};
  if (is_subscript_store(node))
    return {"no", "a subscript store has no value that a pattern could end at or pass on"};
  if (node.op == NodeOp::kGetAttr) return {"no", "a pattern cannot hold an attribute of the module"};
  const NodeFacts& f = facts[node.id];
  if (f.dead) return {"no", "nothing reads its value: a match on it cannot be replaced"};
  if (node.op == NodeOp::kCallMethod) return {"yes", "a method: write the same call, keywords included"};
  if (node.target.starts_with("operator.i") && node.target != "operator.invert" &&
      node.target != "operator.inv")
    return {"graph", "an in-place operator: a traced pattern gives the plain one"};
  if (signature_of(node.target) == nullptr)
    return {"yes", "a C function: write the same call, keywords included"};
  if (traced_form(node))
    return {"yes", "all parameters by position: any way of writing the call is traced to this form"};
  return {"graph", "the tracer writes this function in another form than the model does"};
}

std::vector<ChecklistItem> containment_checklist(const GraphFacts& facts, const std::vector<NodeId>& nodes,
                                                 NodeId root) {
  const std::set<NodeId> inside(nodes.begin(), nodes.end());
  const Graph& graph = facts.graph();
  const Node* output = graph.output();
  std::vector<NodeId> leaks;
  std::vector<std::string> observers;
  for (const NodeId id : nodes) {
    if (id == root) continue;
    bool leaks_here = false;
    for (const NodeId user : facts[id].users) {
      if (inside.contains(user)) continue;
      leaks_here = true;
      observers.push_back(output != nullptr && user == output->id
                              ? graph.node(id).name + " is returned"
                              : fmt::format("{} reads {}", graph.node(user).name, graph.node(id).name));
    }
    if (leaks_here) leaks.push_back(id);
  }
  std::vector<NodeId> layout, compute;
  for (const NodeId id : nodes) (is_layout(facts, id) ? layout : compute).push_back(id);
  bool copies = false;
  judge(facts, Region{Region::Kind::kKernel, nodes, root, region_inputs(facts, nodes)}, copies);

  std::vector<ChecklistItem> out;
  const bool several = is_tensor_tuple(graph.node(root).meta);
  out.push_back({"one_value", leaks.empty(),
                 leaks.empty() ? fmt::format("yes: {}{}", graph.node(root).name, several ? ", a tuple" : "")
                               : fmt::format("no: {} and {}", graph.node(root).name,
                                             fmt::join(names_of(facts, leaks), ", "))});
  out.push_back({"contained", leaks.empty(),
                 leaks.empty() ? "yes: what is hidden is read inside only"
                               : fmt::format("no: {}", fmt::join(observers, "; "))});
  out.push_back({"no_other_observer", leaks.empty(),
                 leaks.empty() ? "none"
                               : fmt::format("leave {} outside, or split into passes that end there",
                                             fmt::join(names_of(facts, leaks), ", "))});
  const bool mostly =
      layout.size() > compute.size() && compute.size() <= 1 && (compute.empty() || layout.size() > 1);
  out.push_back(
      {"not_layout", !mostly,
       mostly ? fmt::format("mainly layout ({} of {} calls): a floor, no target", layout.size(), nodes.size())
              : fmt::format("{} calls compute, {} are layout", compute.size(), layout.size())});
  out.push_back({"no_materialised_view", !copies,
                 copies ? fmt::format("{} is a view in eager and would become a copy", graph.node(root).name)
                        : "no view becomes a copy"});
  out.push_back({"one_wrapper", true, "let this pass return the dispatch wrapper that all others return"});
  return out;
}

std::vector<DifferingLiteral> differing_literals(const std::vector<CapturedVariant>& variants) {
  std::vector<DifferingLiteral> out;
  if (variants.empty()) return out;
  const CapturedVariant& first = variants.front();
  std::vector<const CapturedVariant*> alike;
  for (const CapturedVariant& v : variants) {
    if (v.graphs.size() != first.graphs.size()) continue;
    bool same = true;
    for (size_t g = 0; g < v.graphs.size(); ++g) same = same && same_structure(first.graphs[g], v.graphs[g]);
    if (same) alike.push_back(&v);
  }
  for (size_t g = 0; g < first.graphs.size(); ++g) {
    for (const auto& node : first.graphs[g].nodes()) {
      if (node->op == NodeOp::kPlaceholder || node->op == NodeOp::kOutput) continue;
      const auto compare = [&](const std::string& place,
                               const std::function<const Value&(const Node&)>& pick) {
        DifferingLiteral entry{node->name, place, {}};
        for (const CapturedVariant* v : alike) {
          const Graph& graph = v->graphs[g];
          const std::string text =
              python_text(pick(graph.node(node->id)), [&](NodeId id) { return graph.node(id).name; });
          const auto at = std::find_if(entry.values.begin(), entry.values.end(),
                                       [&](const auto& e) { return e.first == text; });
          if (at == entry.values.end())
            entry.values.emplace_back(text, v->name);
          else
            at->second += ", " + v->name;
        }
        if (entry.values.size() > 1) out.push_back(std::move(entry));
      };
      for (size_t i = 0; i < node->args.size(); ++i)
        compare(fmt::format("args[{}]", i), [i](const Node& n) -> const Value& { return n.args[i]; });
      for (size_t i = 0; i < node->kwargs.size(); ++i)
        compare(fmt::format("kwargs[{}]", node->kwargs[i].first),
                [i](const Node& n) -> const Value& { return n.kwargs[i].second; });
    }
  }
  return out;
}

bool lies_in(const Graph& graph, const RegionRow& row) {
  return std::all_of(row.nodes.begin(), row.nodes.end(),
                     [&](const std::string& name) { return graph.find(name) != nullptr; });
}

Absorbable absorbable_time(const GraphFacts& facts, const std::vector<RegionRow>& regions, double eager_us) {
  std::set<std::string> names;
  for (const RegionRow& row : regions) {
    if (row.verdict.ok() && lies_in(facts.graph(), row)) names.insert(row.nodes.begin(), row.nodes.end());
  }
  Absorbable out;
  for (const auto& node : facts.graph().nodes()) {
    if (names.contains(node->name))
      out.us += std::max(facts[node->id].eager.host_us, facts[node->id].eager.device_us);
  }
  const double rest = std::max(eager_us - out.us, 0.0) + kFixedTaxUs + kKernelShare * out.us;
  out.ceiling = eager_us > 0 ? eager_us / rest : 0;
  return out;
}

Json to_json(const std::vector<ChecklistItem>& items) {
  Json out = Json::array();
  for (const ChecklistItem& item : items)
    out.push_back({{"id", item.id}, {"good", item.good}, {"answer", item.answer}});
  return out;
}

Json to_json(const std::vector<DifferingLiteral>& literals) {
  Json out = Json::array();
  for (const DifferingLiteral& l : literals) {
    Json values = Json::array();
    for (const auto& [text, names] : l.values) values.push_back({{"literal", text}, {"variants", names}});
    out.push_back({{"node", l.node}, {"place", l.place}, {"values", std::move(values)}});
  }
  return out;
}

}  // namespace passnet
