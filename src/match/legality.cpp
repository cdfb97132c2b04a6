#include "match/legality.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

namespace passnet {

namespace {

std::string_view last_component(std::string_view target) {
  const size_t dot = target.rfind('.');
  return dot == std::string_view::npos ? target : target.substr(dot + 1);
}

bool is_dunder(std::string_view name) { return name.starts_with("__") && name.ends_with("__"); }

bool is_call(const Node& node) { return node.op == NodeOp::kCallFunction || node.op == NodeOp::kCallMethod; }

// By the spelling alone, for nodes whose metadata is missing.
bool spelled_in_place(const Node& node) {
  if (!is_call(node)) return false;
  if (is_subscript_store(node)) return true;
  static constexpr std::array<std::string_view, 13> kInPlaceOperators = {
      "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod",   "ipow",
      "iand", "ior",  "ixor", "ilshift",  "irshift",   "imatmul"};
  std::string_view name = last_component(node.target);
  if (node.op == NodeOp::kCallFunction && node.target.starts_with("operator.")) {
    return std::find(kInPlaceOperators.begin(), kInPlaceOperators.end(), name) != kInPlaceOperators.end();
  }
  if (is_dunder(name)) {
    name = name.substr(2, name.size() - 4);
    return std::find(kInPlaceOperators.begin(), kInPlaceOperators.end(), name) != kInPlaceOperators.end();
  }
  if (name.ends_with("_")) return true;
  const Value* inplace = node.kwarg("inplace");
  return inplace != nullptr && !(inplace->kind() == Value::Kind::kBool && !inplace->as_bool());
}

// The argument is given and literally False, or left out where the default is False.
bool literally_false(const Node& node, size_t position, std::string_view name, bool default_value) {
  const Value* v = position < node.args.size() ? &node.args[position] : node.kwarg(name);
  if (v == nullptr) return !default_value;
  return v->kind() == Value::Kind::kBool && !v->as_bool();
}

struct RandomRule {
  std::string_view target;  // function
  size_t position;          // of the switch; npos: always random
  std::string_view name;
  bool default_value;
};
constexpr size_t kAlways = static_cast<size_t>(-1);

constexpr RandomRule kRandomFunctions[] = {
    {"torch.rand", kAlways, {}, true},
    {"torch.randn", kAlways, {}, true},
    {"torch.rand_like", kAlways, {}, true},
    {"torch.randn_like", kAlways, {}, true},
    {"torch.randint", kAlways, {}, true},
    {"torch.randint_like", kAlways, {}, true},
    {"torch.randperm", kAlways, {}, true},
    {"torch.bernoulli", kAlways, {}, true},
    {"torch.multinomial", kAlways, {}, true},
    {"torch.normal", kAlways, {}, true},
    {"torch.poisson", kAlways, {}, true},
    {"torch.nn.functional.gumbel_softmax", kAlways, {}, true},
    {"torch.nn.functional.dropout", 2, "training", true},
    {"torch.nn.functional.dropout1d", 2, "training", true},
    {"torch.nn.functional.dropout2d", 2, "training", true},
    {"torch.nn.functional.dropout3d", 2, "training", true},
    {"torch.nn.functional.alpha_dropout", 2, "training", false},
    {"torch.nn.functional.feature_alpha_dropout", 2, "training", false},
    {"torch.nn.functional.rrelu", 3, "training", false},
    {"torch.dropout", 2, "train", true},
    {"torch.alpha_dropout", 2, "train", true},
    {"torch.feature_dropout", 2, "train", true},
    {"torch.rrelu", 3, "training", false},
};

constexpr std::string_view kRandomMethods[] = {"bernoulli",   "bernoulli_", "normal_",    "uniform_",
                                               "random_",     "cauchy_",    "geometric_", "exponential_",
                                               "log_normal_", "multinomial"};

class Judge {
 public:
  Judge(const Graph& graph, const RegionView& region)
      : graph_(graph), region_(region), inside_(graph.size(), 0) {}

  Legality run() {
    if (!check_shape()) return std::move(out_);
    users_ = graph_.users();
    check_kinds();
    check_containment();
    if (out_.before == kNoNode) return std::move(out_);
    find_visible();
    check_reads();
    check_writes();
    check_alias();
    return std::move(out_);
  }

 private:
  const std::string& name(NodeId id) const { return graph_.node(id).name; }
  bool inside(NodeId id) const { return inside_[static_cast<size_t>(id)] != 0; }
  const std::vector<NodeId>& users(NodeId id) const { return users_[static_cast<size_t>(id)]; }

  bool check_shape() {
    for (const NodeId id : region_.nodes) inside_[static_cast<size_t>(id)] = 1;
    if (region_.nodes.empty() || region_.root == kNoNode || !inside(region_.root)) {
      out_.verdict.refuse("region.empty", "a region has nodes, and its root is one of them");
      return false;
    }
    return true;
  }

  void check_kinds() {
    for (const NodeId id : region_.nodes) {
      const Node& node = graph_.node(id);
      if (!is_call(node)) {
        out_.verdict.refuse(
            "region.node_kind",
            fmt::format("{} is a {}: only calls can be inside a region", node.name, name_of(node.op)),
            {node.name});
      } else if (is_subscript_store(node)) {
        out_.verdict.refuse(
            "region.store",
            fmt::format("{} stores into a subscript: it has no value that a call could replace", node.name),
            {node.name});
      } else if (is_random(node)) {
        out_.verdict.refuse("region.random",
                            fmt::format("{} ({}) draws random numbers", node.name, node.target), {node.name});
      }
    }
  }

  void check_containment() {
    for (const NodeId id : region_.nodes) {
      if (id == region_.root) continue;
      if (users(id).empty() && !is_subscript_store(graph_.node(id))) {
        out_.verdict.refuse("region.dead_node", fmt::format("nothing reads {}", name(id)), {name(id)});
      }
      std::vector<std::string> names = {name(id)};
      for (const NodeId user : users(id)) {
        if (!inside(user)) names.push_back(name(user));
      }
      if (names.size() > 1) {
        const std::string message =
            fmt::format("{} is not the region's value, but is read outside by {}", name(id), names[1]);
        out_.verdict.refuse("region.not_contained", message, std::move(names));
      }
    }
    std::vector<std::string> readers = {name(region_.root)};
    for (const NodeId user : users(region_.root)) {
      if (inside(user)) {
        readers.push_back(name(user));
      } else if (out_.before == kNoNode) {
        out_.before = user;
      }
    }
    if (readers.size() > 1) {
      const std::string message =
          fmt::format("{} is the region's value, but is also read inside by {}", readers[0], readers[1]);
      out_.verdict.refuse("region.root_inside", message, std::move(readers));
    }
    if (out_.before == kNoNode) {
      out_.verdict.refuse(
          "region.userless",
          fmt::format("nothing outside reads {}: there is no place for the call", name(region_.root)),
          {name(region_.root)});
    }
  }

  // Before P nothing outside has seen the root's value, so that every storage an outside value has there
  // exists independently of the region.
  void find_visible() {
    for (NodeId id = 0; id < out_.before; ++id) {
      if (!inside(id)) visible_.add(graph_.node(id).meta);
    }
  }

  void check_reads() {
    StorageSet reads;
    NodeId first = region_.nodes.front();
    for (const NodeId id : region_.nodes) {
      first = std::min(first, id);
      reads.add(reads_of(graph_, graph_.node(id)));
    }
    for (NodeId id = first; id < out_.before; ++id) {
      if (inside(id)) continue;
      const StorageSet writes = writes_of(graph_, graph_.node(id));
      if (!writes.may_alias(reads)) continue;
      std::vector<std::string> names = {name(id)};
      for (const NodeId reader : region_.nodes) {
        if (reads_of(graph_, graph_.node(reader)).may_alias(writes)) names.push_back(name(reader));
      }
      const std::string message =
          fmt::format("{} writes memory that {} may read, before {}, where the call would stand", names[0],
                      names.size() > 1 ? names[1] : "the region", name(out_.before));
      out_.verdict.refuse("region.read_clobbered", message, std::move(names));
    }
  }

  void check_writes() {
    std::vector<std::string> writers;
    for (const NodeId writer : region_.nodes) {
      const StorageSet writes = writes_of(graph_, graph_.node(writer));
      if (!writes.may_alias(visible_)) continue;
      writers.push_back(name(writer));
      for (const StorageId id : writes.ids) {
        StorageSet one;
        one.add(id);
        if (one.may_alias(visible_) &&
            std::find(out_.must_write.begin(), out_.must_write.end(), id) == out_.must_write.end()) {
          out_.must_write.push_back(id);
        }
      }
      for (NodeId id = writer + 1; id < out_.before; ++id) {
        if (inside(id)) continue;
        const Node& node = graph_.node(id);
        StorageSet touched = reads_of(graph_, node);
        touched.add(writes_of(graph_, node));
        if (!touched.may_alias(writes)) continue;
        out_.verdict.refuse(
            "region.write_observed",
            fmt::format("{} touches memory that {} writes, before {}, where the call would stand", node.name,
                        name(writer), name(out_.before)),
            {node.name, name(writer)});
      }
    }
    if (!writers.empty()) {
      out_.notes.push_back(
          {"region.must_write",
           fmt::format("{} writes memory visible outside: the call must perform the same write", writers[0]),
           writers});
    }
  }

  void check_alias() {
    StorageSet value;
    value.add(graph_.node(region_.root).meta);
    if (!value.may_alias(visible_) || region_.returns_argument) return;
    out_.notes.push_back(
        {"region.returns_view",
         fmt::format("{} may share memory with a value outside; the call returns a copy", name(region_.root)),
         {name(region_.root)}});
    for (NodeId id = out_.before; id < static_cast<NodeId>(graph_.size()); ++id) {
      if (inside(id)) continue;
      if (!writes_of(graph_, graph_.node(id)).may_alias(value)) continue;
      out_.verdict.refuse(
          "region.alias_broken",
          fmt::format("{} shares memory with a value outside, and {} writes it: a copy would not see "
                      "that",
                      name(region_.root), name(id)),
          {name(region_.root), name(id)});
    }
  }

  const Graph& graph_;
  const RegionView& region_;
  std::vector<char> inside_;
  std::vector<std::vector<NodeId>> users_;
  StorageSet visible_;
  Legality out_;
};

}  // namespace

Legality judge_region(const Graph& graph, const RegionView& region) { return Judge(graph, region).run(); }

void StorageSet::add(StorageId id) {
  if (id == kNoStorage) {
    any = true;
    return;
  }
  const auto at = std::lower_bound(ids.begin(), ids.end(), id);
  if (at == ids.end() || *at != id) ids.insert(at, id);
}

void StorageSet::add(const Meta& meta) {
  switch (meta.kind) {
    case Meta::Kind::kUnknown: any = true; break;
    case Meta::Kind::kTensor: add(meta.tensor.storage); break;
    case Meta::Kind::kTuple:
      for (const Meta& item : meta.items) add(item);
      break;
    case Meta::Kind::kScalar:
    case Meta::Kind::kNone: break;
  }
}

void StorageSet::add(const StorageSet& other) {
  any = any || other.any;
  for (const StorageId id : other.ids) add(id);
}

bool StorageSet::may_alias(const StorageSet& other) const {
  if (empty() || other.empty()) return false;
  if (any || other.any) return true;
  return std::any_of(ids.begin(), ids.end(), [&](StorageId id) {
    return std::binary_search(other.ids.begin(), other.ids.end(), id);
  });
}

StorageSet reads_of(const Graph& graph, const Node& node) {
  StorageSet out;
  if (node.op == NodeOp::kPlaceholder) return out;
  for (const NodeId input : graph.inputs_of(node.id)) out.add(graph.node(input).meta);
  return out;
}

StorageSet writes_of(const Graph& graph, const Node& node) {
  StorageSet out;
  for (const StorageId id : node.writes) out.add(id);
  if (!node.writes.empty() || !is_call(node)) return out;
  const auto add_operand = [&](const Value& v) {
    if (v.is_node()) out.add(graph.node(v.as_node()).meta);
  };
  if (spelled_in_place(node) && !node.args.empty()) add_operand(node.args[0]);
  if (const Value* result = node.kwarg("out"))
    result->for_each_node([&](NodeId id) { out.add(graph.node(id).meta); });
  return out;
}

bool is_subscript_store(const Node& node) {
  return (node.op == NodeOp::kCallFunction && node.target == "operator.setitem") ||
         (node.op == NodeOp::kCallMethod && node.target == "__setitem__");
}

bool is_random(const Node& node) {
  if (node.op == NodeOp::kCallMethod) {
    return std::find(std::begin(kRandomMethods), std::end(kRandomMethods), node.target) !=
           std::end(kRandomMethods);
  }
  if (node.op != NodeOp::kCallFunction) return false;
  for (const RandomRule& rule : kRandomFunctions) {
    if (rule.target != node.target) continue;
    return rule.position == kAlways || !literally_false(node, rule.position, rule.name, rule.default_value);
  }
  // Attention draws random numbers through a rate instead of a switch.
  if (node.target.ends_with("scaled_dot_product_attention")) {
    const Value* rate = node.args.size() > 4 ? &node.args[4] : node.kwarg("dropout_p");
    return rate != nullptr && !(rate->is_number() && rate->as_double() == 0.0);
  }
  return false;
}

}  // namespace passnet
