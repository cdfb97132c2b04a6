#include "match/matcher.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/json.h"

namespace passnet {

namespace {

using Kind = Value::Kind;

bool is_real_number(const Value& v) { return v.is_number(); }

// Comparing an int64 with a double is exact in 64 bits of mantissa, as Python's is.
bool numbers_equal(const Value& a, const Value& b) {
  const auto real = [](const Value& v) {
    return v.kind() == Kind::kFloat || v.kind() == Kind::kComplex ? static_cast<long double>(v.as_double())
                                                                  : static_cast<long double>(v.as_int());
  };
  const auto imag = [](const Value& v) { return v.kind() == Kind::kComplex ? v.imag() : 0.0; };
  return real(a) == real(b) && imag(a) == imag(b);
}

bool literals_equal(const Value& a, const Value& b, bool nodes_comparable) {
  const bool a_number = is_real_number(a) || a.kind() == Kind::kComplex;
  const bool b_number = is_real_number(b) || b.kind() == Kind::kComplex;
  if (a_number && b_number) return numbers_equal(a, b);
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kNone:
    case Kind::kEllipsis: return true;
    case Kind::kNode: return nodes_comparable && a.as_node() == b.as_node();
    case Kind::kDType: return a.as_dtype() == b.as_dtype();
    case Kind::kString:
    case Kind::kDevice:
    case Kind::kLayout:
    case Kind::kMemoryFormat:
    case Kind::kConstant: return a.text() == b.text();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kSlice:
      return std::equal(
          a.items().begin(), a.items().end(), b.items().begin(), b.items().end(),
          [&](const Value& x, const Value& y) { return literals_equal(x, y, nodes_comparable); });
    case Kind::kDict: {
      if (a.keys().size() != b.keys().size()) return false;
      for (size_t i = 0; i < a.keys().size(); ++i) {
        const auto at = std::find(b.keys().begin(), b.keys().end(), a.keys()[i]);
        if (at == b.keys().end()) return false;
        const size_t j = static_cast<size_t>(at - b.keys().begin());
        if (!literals_equal(a.items()[i], b.items()[j], nodes_comparable)) return false;
      }
      return true;
    }
    default: return false;
  }
}

bool is_compute(const Node& node) { return node.op != NodeOp::kPlaceholder && node.op != NodeOp::kOutput; }

// Functions that torch.fx keeps even if nothing reads them, so that a pattern may hold them unread.
bool kept_unread(const Node& node) {
  static constexpr std::array<std::string_view, 14> kImpure = {
      "operator.setitem", "torch._assert",  "torch._assert_async", "torch.rand",       "torch.randn",
      "torch.randint",    "torch.randperm", "torch.rand_like",     "torch.randn_like", "torch.randint_like",
      "torch.normal",     "torch.poisson",  "torch.bernoulli",     "torch.multinomial"};
  return node.op == NodeOp::kCallFunction &&
         std::find(kImpure.begin(), kImpure.end(), node.target) != kImpure.end();
}

std::string_view last_component(std::string_view target) {
  const size_t dot = target.rfind('.');
  return dot == std::string_view::npos ? target : target.substr(dot + 1);
}

std::string value_text(const Value& v, const Graph& graph) {
  // Containers are rare and short; the printer of values numbers nodes, people know them by name.
  const auto join = [&](std::string_view open, std::string_view close) {
    std::string out(open);
    for (size_t i = 0; i < v.items().size(); ++i) {
      if (i > 0) out += ", ";
      out += value_text(v.items()[i], graph);
    }
    if (v.kind() == Kind::kTuple && v.items().size() == 1) out += ",";
    return out + std::string(close);
  };
  switch (v.kind()) {
    case Kind::kNode: return graph.node(v.as_node()).name;
    case Kind::kList: return join("[", "]");
    case Kind::kTuple: return join("(", ")");
    case Kind::kSlice: return join("slice(", ")");
    default: return python_text(v);
  }
}

std::string signature_text(const Node& node) {
  std::string out = fmt::format("{} arguments", node.args.size());
  if (node.args.size() == 1) out = "1 argument";
  if (!node.kwargs.empty()) {
    out += " and ";
    for (size_t i = 0; i < node.kwargs.size(); ++i) out += (i > 0 ? ", " : "") + node.kwargs[i].first + "=";
  }
  return out;
}

std::string operation_text(const Node& node) { return fmt::format("{} {}", name_of(node.op), node.target); }

class Search {
 public:
  Search(const Graph& pattern, const Graph& target) : pattern_(pattern), target_(target) {
    placeholders_ = pattern.placeholders();
    returning_ = pattern.inputs_of(pattern.output()->id);
    pattern_users_ = pattern.users();
    target_users_ = target.users();
    for (const NodeId id : returning_) {
      if (pattern_users_[static_cast<size_t>(id)].size() == 1) anchors_.push_back(id);
    }
  }

  Status run() {
    // As in torch, an anchor without any candidate is left out of the search instead of ending it.
    for (const NodeId anchor : anchors_) {
      std::vector<NodeId> candidates;
      for (const auto& node : target_.nodes()) {
        if (nodes_equal(pattern_.node(anchor), *node)) candidates.push_back(node->id);
      }
      if (candidates.empty()) {
        note_no_candidate(anchor);
      } else {
        candidates_.emplace_back(anchor, std::move(candidates));
      }
    }
    if (!candidates_.empty()) {
      Attempt attempt;
      attempt.bound.resize(pattern_.size());
      PN_CHECK_OK(backtrack(0, attempt));
    }
    std::erase_if(matches_, [&](const Match& m) { return !contained(m); });
    std::erase_if(matches_, [&](const Match& m) { return forms_cycle(m); });
    remove_overlaps();
    return {};
  }

  std::vector<Match> take_matches() { return std::move(matches_); }

  std::vector<NearMiss> take_misses(size_t limit) {
    std::stable_sort(misses_.begin(), misses_.end(),
                     [](const NearMiss& a, const NearMiss& b) { return a.matched > b.matched; });
    if (misses_.size() > limit) misses_.resize(limit);
    return std::move(misses_);
  }

 private:
  struct Attempt {
    std::vector<std::optional<Value>>
        bound;                  // by pattern id: a node of the target or a placeholder's literal
    std::vector<NodeId> order;  // pattern ids in the order bound
  };

  bool nodes_equal(const Node& p, const Node& g) const {
    if (p.op == NodeOp::kPlaceholder) return true;
    if (p.op != g.op) return false;
    // torch compares the types of attributes only; a dynamo graph's attributes are tensors.
    if (p.op == NodeOp::kGetAttr) return true;
    return p.target == g.target;
  }

  bool miss(const Attempt& attempt, NodeId p, NodeId g, std::string_view code, std::string field,
            std::string expected, std::string actual) {
    misses_.push_back({p, g, std::string(code), std::move(field), std::move(expected), std::move(actual),
                       static_cast<int>(attempt.order.size())});
    return false;
  }

  void note_no_candidate(NodeId anchor) {
    const Node& p = pattern_.node(anchor);
    NodeId like = kNoNode;
    for (const auto& node : target_.nodes()) {
      if (is_compute(*node) && last_component(node->target) == last_component(p.target)) {
        like = node->id;
        break;
      }
    }
    misses_.push_back({anchor, like, "no_candidate", "target", operation_text(p),
                       like == kNoNode ? "no such node" : operation_text(target_.node(like)), 0});
  }

  // The owner is the pair whose argument `field` led here, for the message only.
  bool match_nodes(Attempt& attempt, NodeId p, NodeId g) {
    const Node& pn = pattern_.node(p);
    const Node& gn = target_.node(g);
    std::optional<Value>& bound = attempt.bound[static_cast<size_t>(p)];
    if (bound) {
      if (bound->is_node() && bound->as_node() == g) return true;
      return miss(attempt, p, g, "shared_value", "", value_text(*bound, target_), gn.name);
    }
    for (const NodeId other : attempt.order) {
      const Value& taken = *attempt.bound[static_cast<size_t>(other)];
      if (taken.is_node() && taken.as_node() == g) {
        return miss(attempt, p, g, "same_node", "",
                    fmt::format("a node other than the one of {}", pattern_.node(other).name), gn.name);
      }
    }
    if (!nodes_equal(pn, gn))
      return miss(attempt, p, g, "target", "target", operation_text(pn), operation_text(gn));
    bound = Value::node(g);
    attempt.order.push_back(p);
    if (pn.op == NodeOp::kPlaceholder) return true;

    const bool same_form = pn.args.size() == gn.args.size() &&
                           std::equal(pn.kwargs.begin(), pn.kwargs.end(), gn.kwargs.begin(), gn.kwargs.end(),
                                      [](const auto& a, const auto& b) { return a.first == b.first; });
    if (!same_form) {
      const bool count = pn.args.size() != gn.args.size();
      return miss(attempt, p, g, "arguments", count ? "args" : "kwargs", signature_text(pn),
                  signature_text(gn));
    }
    for (size_t i = 0; i < pn.args.size(); ++i) {
      if (!match_values(attempt, p, g, pn.args[i], gn.args[i], fmt::format("args[{}]", i))) return false;
    }
    for (size_t i = 0; i < pn.kwargs.size(); ++i) {
      const std::string field = fmt::format("kwargs[{}]", pn.kwargs[i].first);
      if (!match_values(attempt, p, g, pn.kwargs[i].second, gn.kwargs[i].second, field)) return false;
    }
    return true;
  }

  bool match_values(Attempt& attempt, NodeId p, NodeId g, const Value& a, const Value& b,
                    const std::string& field) {
    if (a.is_node() && b.is_node()) return match_nodes(attempt, a.as_node(), b.as_node());
    if (a.is_sequence() && b.is_sequence()) {
      if (a.items().size() != b.items().size()) {
        return miss(attempt, p, g, "literal", field, value_text(a, pattern_), value_text(b, target_));
      }
      for (size_t i = 0; i < a.items().size(); ++i) {
        if (!match_values(attempt, p, g, a.items()[i], b.items()[i], fmt::format("{}[{}]", field, i)))
          return false;
      }
      return true;
    }
    if (a.is_node()) {
      const NodeId inner = a.as_node();
      if (pattern_.node(inner).op != NodeOp::kPlaceholder) {
        return miss(attempt, p, g, "literal_for_node", field, pattern_.node(inner).name,
                    value_text(b, target_));
      }
      std::optional<Value>& bound = attempt.bound[static_cast<size_t>(inner)];
      if (!bound) {
        bound = b;
        attempt.order.push_back(inner);
        return true;
      }
      // A literal met twice is compared with Python's ==, without the types: 1 and True are one value here.
      if (python_equal(*bound, b)) return true;
      return miss(attempt, inner, g, "shared_value", field, value_text(*bound, target_),
                  value_text(b, target_));
    }
    if (b.is_node()) {
      return miss(attempt, p, g, "node_for_literal", field, value_text(a, pattern_), value_text(b, target_));
    }
    if (!literals_equal(a, b, false)) {
      return miss(attempt, p, g, "literal", field, value_text(a, pattern_), value_text(b, target_));
    }
    if (a.kind() != b.kind()) {
      return miss(attempt, p, g, "literal_type", field, value_text(a, pattern_), value_text(b, target_));
    }
    return true;
  }

  Status backtrack(size_t depth, const Attempt& attempt) {
    if (depth == candidates_.size()) return record(attempt);
    const auto& [anchor, nodes] = candidates_[depth];
    for (const NodeId candidate : nodes) {
      Attempt next = attempt;
      if (match_nodes(next, anchor, candidate)) PN_CHECK_OK(backtrack(depth + 1, next));
    }
    return {};
  }

  Status record(const Attempt& attempt) {
    Match match;
    for (const NodeId p : attempt.order) {
      const Value& v = *attempt.bound[static_cast<size_t>(p)];
      if (v.is_node()) match.nodes.emplace_back(p, v.as_node());
    }
    for (const NodeId p : placeholders_) {
      const std::optional<Value>& v = attempt.bound[static_cast<size_t>(p)];
      if (!v) return unbound(p);
      match.placeholder_bindings.push_back(*v);
    }
    for (const NodeId p : returning_) {
      const std::optional<Value>& v = attempt.bound[static_cast<size_t>(p)];
      if (!v) return unbound(p);
      match.returning.push_back(v->is_node() ? v->as_node() : kNoNode);
    }
    match.returned = match.returning.empty() ? kNoNode : match.returning.front();
    matches_.push_back(std::move(match));
    return {};
  }

  Status unbound(NodeId p) const {
    const Node& node = pattern_.node(p);
    return user_error(
               "match.unbound_placeholder",
               fmt::format("the pattern's {} is never reached from what the pattern returns", node.name))
        .with_hint("drop the parameter, or use it in the pattern");
  }

  bool contained(const Match& match) {
    std::vector<char> inside(target_.size(), 0);
    for (const auto& [p, g] : match.nodes) {
      if (pattern_.node(p).op != NodeOp::kPlaceholder) inside[static_cast<size_t>(g)] = 1;
    }
    for (const auto& [p, g] : match.nodes) {
      if (pattern_.node(p).op == NodeOp::kPlaceholder) continue;
      if (std::find(returning_.begin(), returning_.end(), p) != returning_.end()) continue;
      for (const NodeId user : target_users_[static_cast<size_t>(g)]) {
        if (inside[static_cast<size_t>(user)]) continue;
        misses_.push_back({p, g, "not_contained", "users", "used inside the pattern only",
                           fmt::format("used by {}", target_.node(user).name),
                           static_cast<int>(match.nodes.size())});
        return false;
      }
    }
    return true;
  }

  // Whether a value that leaves the match comes back into it: the graph would have a cycle once it is one
  // node.
  bool forms_cycle(const Match& match) {
    std::vector<char> inside(target_.size(), 0), visited(target_.size(), 0);
    for (const NodeId g : covered_nodes(pattern_, match)) inside[static_cast<size_t>(g)] = 1;
    std::vector<std::pair<NodeId, NodeId>> stack;  // node, where its value left the match
    for (const NodeId g : covered_nodes(pattern_, match)) {
      for (const NodeId user : target_users_[static_cast<size_t>(g)]) {
        if (!inside[static_cast<size_t>(user)]) stack.emplace_back(user, g);
      }
    }
    while (!stack.empty()) {
      const auto [node, from] = stack.back();
      stack.pop_back();
      if (inside[static_cast<size_t>(node)]) {
        NodeId p = kNoNode;
        for (const auto& [pn, gn] : match.nodes) p = gn == from ? pn : p;
        misses_.push_back({p, from, "cycle", "users", "no way back into the pattern",
                           fmt::format("reaches {} from outside", target_.node(node).name),
                           static_cast<int>(match.nodes.size())});
        return true;
      }
      if (std::exchange(visited[static_cast<size_t>(node)], 1)) continue;
      for (const NodeId user : target_users_[static_cast<size_t>(node)]) stack.emplace_back(user, from);
    }
    return false;
  }

  void remove_overlaps() {
    std::vector<char> taken(target_.size(), 0);
    std::vector<Match> kept;
    for (Match& match : matches_) {
      const std::vector<NodeId> covered = covered_nodes(pattern_, match);
      const auto clash = std::find_if(covered.begin(), covered.end(),
                                      [&](NodeId g) { return taken[static_cast<size_t>(g)] != 0; });
      if (clash != covered.end()) {
        NodeId p = kNoNode;
        for (const auto& [pn, gn] : match.nodes) p = gn == *clash ? pn : p;
        misses_.push_back({p, *clash, "overlap", "", "a node of no earlier match", target_.node(*clash).name,
                           static_cast<int>(match.nodes.size())});
        continue;
      }
      for (const NodeId g : covered) taken[static_cast<size_t>(g)] = 1;
      kept.push_back(std::move(match));
    }
    matches_ = std::move(kept);
  }

  const Graph& pattern_;
  const Graph& target_;
  std::vector<NodeId> placeholders_, returning_, anchors_;
  std::vector<std::vector<NodeId>> pattern_users_, target_users_;
  std::vector<std::pair<NodeId, std::vector<NodeId>>> candidates_;
  std::vector<Match> matches_;
  std::vector<NearMiss> misses_;
};

}  // namespace

bool python_equal(const Value& a, const Value& b) { return literals_equal(a, b, true); }

NodeId Match::target_of(NodeId pattern_node) const {
  for (const auto& [p, g] : nodes) {
    if (p == pattern_node) return g;
  }
  return kNoNode;
}

std::vector<NodeId> covered_nodes(const Graph& pattern, const Match& match) {
  std::vector<NodeId> ids;
  for (const auto& [p, g] : match.nodes) {
    if (is_compute(pattern.node(p))) ids.push_back(g);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

Status check_pattern(const Graph& pattern) {
  if (pattern.output() == nullptr) {
    return user_error("match.no_output", "the pattern has no output node")
        .at(pattern.file)
        .with_hint("end the pattern's graph with g.output(value)");
  }
  const std::vector<std::vector<NodeId>> users = pattern.users();
  for (const auto& node : pattern.nodes()) {
    if (!is_compute(*node) || !users[static_cast<size_t>(node->id)].empty() || kept_unread(*node)) continue;
    return user_error(
               "match.dead_code",
               fmt::format("the pattern's {} ({}) is used by nothing; torch's matcher refuses patterns with "
                           "dead code",
                           node->name, node->target))
        .at(pattern.file, node->span)
        .with_hint("remove the node, or end the pattern at it");
  }
  return {};
}

Result<std::vector<Match>> find_matches(const Graph& pattern, const Graph& target) {
  PN_CHECK_OK(check_pattern(pattern));
  Search search(pattern, target);
  PN_CHECK_OK(search.run());
  return search.take_matches();
}

std::vector<Match> match_all(const Graph& pattern, const Graph& target) {
  Result<std::vector<Match>> found = find_matches(pattern, target);
  return found ? std::move(found).value() : std::vector<Match>{};
}

std::vector<NearMiss> near_misses(const Graph& pattern, const Graph& target, size_t limit) {
  if (!check_pattern(pattern)) return {};
  Search search(pattern, target);
  (void)search.run();
  return search.take_misses(limit);
}

std::string describe(const NearMiss& miss, const Graph& pattern, const Graph& target) {
  const std::string p = miss.pattern_node == kNoNode ? "the pattern" : pattern.node(miss.pattern_node).name;
  const std::string g = miss.target_node == kNoNode ? "" : target.node(miss.target_node).name;
  if (miss.code == "no_candidate") {
    if (g.empty())
      return fmt::format("the graph has no node {}, where the pattern ends ({})", miss.expected, p);
    return fmt::format("the graph has no node {}, where the pattern ends ({}); it has {} ({})", miss.expected,
                       p, miss.actual, g);
  }
  if (miss.code == "target") {
    return fmt::format("{} of the pattern is {}, the graph has {} there ({})", p, miss.expected, miss.actual,
                       g);
  }
  if (miss.code == "arguments") {
    return fmt::format("{} is called with {} in the pattern and with {} in the graph ({})", p, miss.expected,
                       miss.actual, g);
  }
  if (miss.code == "literal_type") {
    return fmt::format(
        "{} of {}: the pattern has {}, the graph {} ({}); equal values of different types do not match",
        miss.field, p, miss.expected, miss.actual, g);
  }
  if (miss.code == "shared_value") {
    return fmt::format("{} of the pattern stands for one value, the graph has two: {} and {}", p,
                       miss.expected, miss.actual);
  }
  if (miss.code == "same_node") {
    return fmt::format(
        "{} of the pattern should be {}, but the graph has {} in both places; use one placeholder twice", p,
        miss.expected, miss.actual);
  }
  if (miss.code == "not_contained") {
    return fmt::format("{} ({} in the graph) lies inside the pattern, but is also {}", p, g, miss.actual);
  }
  if (miss.code == "cycle") return fmt::format("the value of {} ({} in the graph) {}", p, g, miss.actual);
  if (miss.code == "overlap") {
    return fmt::format("{} ({} in the graph) belongs to an earlier match of the same pattern", p, g);
  }
  return fmt::format("{} of {}: the pattern has {}, the graph {} ({})", miss.field, p, miss.expected,
                     miss.actual, g);
}

Json to_json(const NearMiss& miss, const Graph& pattern, const Graph& target) {
  const auto name = [](const Graph& graph, NodeId id) {
    return id == kNoNode ? Json(nullptr) : Json(graph.node(id).name);
  };
  const auto line = [](const Graph& graph, NodeId id) {
    return id == kNoNode || !graph.node(id).span.known() ? Json(nullptr) : Json(graph.node(id).span.line);
  };
  return Json{{"code", miss.code},
              {"pattern_node", name(pattern, miss.pattern_node)},
              {"target_node", name(target, miss.target_node)},
              {"pattern_line", line(pattern, miss.pattern_node)},
              {"target_file", target.file.empty() ? Json(nullptr) : Json(target.file)},
              {"target_line", line(target, miss.target_node)},
              {"field", miss.field},
              {"expected", miss.expected},
              {"actual", miss.actual},
              {"matched", miss.matched},
              {"message", describe(miss, pattern, target)}};
}

}  // namespace passnet
