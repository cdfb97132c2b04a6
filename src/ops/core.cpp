#include "ops/core.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <unordered_map>

#include <fmt/format.h>

#include "ops/identities.h"
#include "ops/rows.h"
#include "ops/signature.h"
#include "ops/view_algebra.h"

namespace passnet {

std::string_view name_of(OpClass cls) {
  switch (cls) {
    case OpClass::kPointwise: return "pointwise";
    case OpClass::kView: return "view";
    case OpClass::kCopy: return "copy";
    case OpClass::kReduction: return "reduction";
    case OpClass::kNorm: return "norm";
    case OpClass::kTuple: return "tuple";
    case OpClass::kFactory: return "factory";
    case OpClass::kProduct: return "product";
    case OpClass::kStencil: return "stencil";
    case OpClass::kScan: return "scan";
    case OpClass::kRandom: return "random";
    case OpClass::kOther: return "other";
  }
  return "other";
}

std::span<const OpRow> all_rows() {
  static const std::vector<OpRow> rows = [] {
    std::vector<OpRow> all;
    for (auto* list : {pointwise_rows, activation_rows, reduction_rows, norm_rows, view_rows, copy_rows,
                       factory_rows, product_rows, stencil_rows}) {
      std::vector<OpRow> part = list();
      all.insert(all.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
    }
    return all;
  }();
  return rows;
}

namespace {

[[noreturn]] void broken_table(const std::string& what) {
  std::fprintf(stderr, "operator table: %s\n", what.c_str());
  std::abort();
}

// One spelling, parsed, with where each of its parameters goes in the row.
struct Form {
  const OpRow* row = nullptr;
  const Spelling* spelling = nullptr;
  Signature signature;
  std::vector<int> slots;  // index into Call::args; -1 for ignored parameters
};

struct FormTable {
  std::unordered_map<std::string, std::vector<Form>> functions, methods;
  std::unordered_map<const OpRow*, Signature> rows;  // of the first spelling

  FormTable() {
    for (const OpRow& row : all_rows()) {
      if (row.spellings.empty()) broken_table(std::string(row.name) + " has no spelling");
      Result<Signature> own = parse_signature(row.spellings[0].signature);
      if (!own) broken_table(std::string(row.name) + ": " + own.error().message);
      const Signature& parameters = rows.emplace(&row, std::move(*own)).first->second;
      for (const Spelling& spelling : row.spellings) {
        Result<Signature> parsed = parse_signature(spelling.signature);
        if (!parsed) broken_table(std::string(row.name) + ": " + parsed.error().message);
        Form form{&row, &spelling, std::move(*parsed), {}};
        for (const Parameter& p : form.signature.parameters) {
          const int slot = parameters.find(p.name());
          if (slot < 0 && !p.name().starts_with("_")) {
            broken_table(fmt::format("{}: `{}` has a parameter `{}` that the first spelling lacks", row.name,
                                     spelling.target, p.name()));
          }
          form.slots.push_back(slot);
        }
        const bool is_function = spelling.kind == Spelling::Kind::kFunction;
        auto& list = is_function ? functions[std::string(canonical_target(spelling.target))]
                                 : methods[std::string(spelling.target)];
        list.push_back(std::move(form));
      }
    }
  }
};

const FormTable& forms() {
  static const FormTable table;
  return table;
}

const Meta* meta_of_node(const Graph& graph, const Value& v) {
  return v.is_node() ? &graph.node(v.as_node()).meta : nullptr;
}

// A bool is none here, so that var(x, False) is not taken for var(x, 0).
bool is_integer(const Graph& graph, const Value& v) {
  if (v.kind() == Value::Kind::kInt) return true;
  const Meta* meta = meta_of_node(graph, v);
  return meta && (meta->kind == Meta::Kind::kUnknown ||
                  (meta->kind == Meta::Kind::kScalar && meta->scalar.kind() != Value::Kind::kFloat));
}

// Nodes whose value is unknown pass for anything: the metadata rule says what is missing.
bool fits(const Graph& graph, const Value& v, const Parameter& p) {
  if (p.default_value && v == *p.default_value) return true;
  const Meta* meta = meta_of_node(graph, v);
  if (meta && meta->kind == Meta::Kind::kUnknown) return true;
  switch (p.kind) {
    case ArgKind::kAny: return true;
    case ArgKind::kTensor: return meta && meta->is_tensor();
    case ArgKind::kTensors:
      if (meta) return meta->kind == Meta::Kind::kTuple;
      return v.is_sequence() &&
             std::all_of(v.items().begin(), v.items().end(), [&](const Value& x) { return x.is_node(); });
    case ArgKind::kInt: return is_integer(graph, v);
    case ArgKind::kInts:
      if (meta && meta->kind == Meta::Kind::kTuple) return true;
      if (v.is_sequence()) {
        return std::all_of(v.items().begin(), v.items().end(),
                           [&](const Value& x) { return is_integer(graph, x); });
      }
      return is_integer(graph, v);
    case ArgKind::kNumber: return v.is_number() || (meta && meta->kind == Meta::Kind::kScalar);
    case ArgKind::kBool: return v.kind() == Value::Kind::kBool;
    case ArgKind::kString: return v.kind() == Value::Kind::kString;
    case ArgKind::kDType: return v.kind() == Value::Kind::kDType;
    case ArgKind::kDevice: return v.kind() == Value::Kind::kDevice || v.kind() == Value::Kind::kString;
  }
  return false;
}

// view(2, 3) and view((2, 3)) are one call: the rest of the positional arguments, or the one sequence that stands there.
Value rest_of(const Graph& graph, const std::vector<Value>& args, size_t from) {
  if (args.size() == from + 1) {
    const Value& only = args[from];
    const Meta* meta = meta_of_node(graph, only);
    if (only.is_sequence() || (meta && meta->kind == Meta::Kind::kTuple)) return only;
  }
  return Value::tuple(std::vector<Value>(args.begin() + static_cast<std::ptrdiff_t>(from), args.end()));
}

// Values by the spelling's parameters, or why this spelling does not take the arguments.
Result<std::vector<Value>> bind(const Graph& graph, const Node& node, const Form& form) {
  const auto& parameters = form.signature.parameters;
  std::vector<std::optional<Value>> given(parameters.size());
  const auto refuse = [&](std::string message) {
    return user_error("ops.bad_arguments", fmt::format("`{}`: {}", node.target, message))
        .at(graph.file, node.span);
  };
  size_t positional = 0;
  for (; positional < node.args.size(); ++positional) {
    if (positional >= parameters.size() || parameters[positional].keyword_only) {
      return refuse(fmt::format("takes {} positional arguments, {} are given", positional, node.args.size()));
    }
    if (parameters[positional].rest) {
      given[positional] = rest_of(graph, node.args, positional);
      break;
    }
    given[positional] = node.args[positional];
  }
  for (const auto& [key, value] : node.kwargs) {
    const int at = form.signature.find(key);
    if (at < 0) {
      if (key == "out" && value.is_none()) continue;
      return refuse(fmt::format("has no parameter `{}`", key));
    }
    if (given[static_cast<size_t>(at)]) return refuse(fmt::format("`{}` is given twice", key));
    given[static_cast<size_t>(at)] = value;
  }
  std::vector<Value> out;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& p = parameters[i];
    if (!given[i]) {
      if (!p.default_value && !p.rest) return refuse(fmt::format("`{}` is missing", p.name()));
      out.push_back(p.rest && !p.default_value ? Value::tuple({}) : *p.default_value);
      continue;
    }
    if (!fits(graph, *given[i], p))
      return refuse(fmt::format("`{}` should be of kind {}", p.name(), name_of(p.kind)));
    out.push_back(std::move(*given[i]));
  }
  return out;
}

}  // namespace

std::vector<std::string_view> parameters_of(const OpRow& row) {
  std::vector<std::string_view> names;
  for (const Parameter& p : forms().rows.at(&row).parameters) names.push_back(p.name());
  return names;
}

const Value& Call::arg(std::string_view name) const {
  const int at = forms().rows.at(row).find(name);
  if (at < 0) broken_table(fmt::format("{} has no parameter `{}`", row->name, name));
  return args[static_cast<size_t>(at)];
}

const TensorMeta* Call::tensor(std::string_view name) const { return tensor(arg(name)); }

const TensorMeta* Call::tensor(const Value& v) const {
  const Meta* meta = meta_of_node(*graph, v);
  return meta && meta->is_tensor() ? &meta->tensor : nullptr;
}

Result<Call> resolve(const Graph& graph, const Node& node) {
  if (node.op != NodeOp::kCallFunction && node.op != NodeOp::kCallMethod) {
    return internal_error("ops.no_call", fmt::format("`{}` is no call", node.name)).at(graph.file, node.span);
  }
  const bool is_function = node.op == NodeOp::kCallFunction;
  const auto& table = is_function ? forms().functions : forms().methods;
  const auto found = table.find(is_function ? std::string(canonical_target(node.target)) : node.target);
  if (found == table.end()) {
    return user_error("ops.unknown_target", fmt::format("no operator row knows the {} `{}`",
                                                        is_function ? "function" : "method", node.target))
        .at(graph.file, node.span)
        .with("target", node.target);
  }
  std::optional<Diagnostic> first_error;
  for (const Form& form : found->second) {
    Result<std::vector<Value>> bound = bind(graph, node, form);
    if (!bound) {
      if (!first_error) first_error = std::move(bound).error();
      continue;
    }
    const Signature& parameters = forms().rows.at(form.row);
    Call call;
    call.row = form.row;
    call.graph = &graph;
    call.node = &node;
    for (const Parameter& p : parameters.parameters)
      call.args.push_back(p.default_value.value_or(Value::none()));
    for (size_t i = 0; i < form.slots.size(); ++i) {
      if (form.slots[i] >= 0) call.args[static_cast<size_t>(form.slots[i])] = std::move((*bound)[i]);
    }
    if (form.spelling->swapped) std::swap(call.args[0], call.args[1]);
    call.in_place = form.spelling->in_place;
    if (const int at = parameters.find("inplace"); at >= 0) {
      const Value& flag = call.args[static_cast<size_t>(at)];
      call.in_place = call.in_place || (flag.kind() == Value::Kind::kBool && flag.as_bool());
    }
    return call;
  }
  return *std::move(first_error);
}

namespace {

// The device that an operation's fresh results live on: that of its first tensor, dimensioned ones first.
std::optional<std::string> operand_device(const Graph& graph, const Node& node) {
  const TensorMeta* chosen = nullptr;
  for (const NodeId id : graph.inputs_of(node.id)) {
    const Meta& meta = graph.node(id).meta;
    const TensorMeta* candidate = meta.is_tensor() ? &meta.tensor : nullptr;
    if (meta.kind == Meta::Kind::kTuple && !meta.items.empty() && meta.items[0].is_tensor()) {
      candidate = &meta.items[0].tensor;
    }
    if (candidate && (!chosen || (chosen->dim() == 0 && candidate->dim() > 0))) chosen = candidate;
  }
  if (!chosen) return std::nullopt;
  return chosen->device;
}

void settle(Graph& graph, Meta& meta, const std::optional<std::string>& device) {
  for (Meta& item : meta.items) settle(graph, item, device);
  if (!meta.is_tensor() || meta.tensor.storage != kFresh) return;
  meta.tensor.storage = graph.storages++;
  if (device) meta.tensor.device = *device;
}

}  // namespace

namespace {

// What is wrong with the sizes of a result that a rule computed; empty if nothing.
std::string_view wrong_sizes(const Meta& meta) {
  if (meta.is_tensor()) {
    const std::vector<int64_t>& shape = meta.tensor.shape;
    if (std::any_of(shape.begin(), shape.end(), [](int64_t n) { return n < 0; }))
      return "the result would have a negative extent";
    if (span_of(shape) > kMostElements) return "the result would have more elements than any memory holds";
  }
  for (const Meta& item : meta.items) {
    if (const std::string_view wrong = wrong_sizes(item); !wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace

Status infer(Graph& graph, Node& node) {
  PN_TRY(const Call call, resolve(graph, node));
  if (!call.row->meta) {
    return user_error("ops.no_metadata", fmt::format("`{}` has no metadata rule", node.target))
        .at(graph.file, node.span);
  }
  PN_TRY(Inferred result, call.row->meta(call));
  if (const std::string_view wrong = wrong_sizes(result.meta); !wrong.empty()) {
    return user_error("ops.bad_arguments", fmt::format("`{}`: {}", node.target, wrong))
        .at(graph.file, node.span);
  }
  node.writes = std::move(result.writes);
  if (call.in_place) {
    const TensorMeta* written = call.tensor(call.args[0]);
    if (!written) {
      return user_error("ops.wrong_operand",
                        fmt::format("`{}` writes into something that is no tensor", node.target))
          .at(graph.file, node.span);
    }
    if (result.meta.is_tensor() && result.meta.tensor.shape != written->shape) {
      return user_error("ops.bad_arguments",
                        fmt::format("`{}` in place: the result's shape is not that of the written tensor",
                                    node.target))
          .at(graph.file, node.span);
    }
    node.meta = Meta::of(*written);
    if (written->storage != kNoStorage) node.writes.push_back(written->storage);
    return {};
  }
  // A row with a `device` parameter has set the device itself.
  std::optional<std::string> device;
  if (forms().rows.at(call.row).find("device") < 0) device = operand_device(graph, node);
  settle(graph, result.meta, device);
  node.meta = std::move(result.meta);
  return {};
}

std::optional<std::vector<int64_t>> other_strides(const Graph& graph, const Node& node) {
  if (!node.meta.is_tensor() || !node.meta.tensor.stride || node.meta.tensor.numel() <= 1)
    return std::nullopt;
  const Result<Call> call = resolve(graph, node);
  if (!call.ok() || !call->row->suggested_layout || call->in_place) return std::nullopt;
  const TensorMeta* operand = call->tensor(call->args[0]);
  if (operand == nullptr) return std::nullopt;
  const TensorMeta& result = node.meta.tensor;
  std::optional<std::vector<int64_t>> other = suggested_strides(*operand, result.shape);
  if (!other || same_strides(result.shape, *other, *result.stride)) return std::nullopt;
  return other;
}

namespace {

double bytes_of(const Meta& meta) {
  double total = 0;
  if (meta.is_tensor()) {
    // Broadcast axes (stride 0) hold one element.
    double n = size_of(meta.tensor.dtype);
    for (size_t i = 0; i < meta.tensor.shape.size(); ++i) {
      if (!meta.tensor.stride || (*meta.tensor.stride)[i] != 0)
        n *= static_cast<double>(meta.tensor.shape[i]);
    }
    total += n;
  }
  for (const Meta& item : meta.items) total += bytes_of(item);
  return total;
}

// Host time of one eager call by class, where the row has no better figure (median of the class's measured ones).
OpCost class_cost(OpClass cls) {
  OpCost cost;
  switch (cls) {
    case OpClass::kPointwise: cost.host_us = 11.0; break;
    case OpClass::kView:
    case OpClass::kTuple: cost.host_us = 3.0, cost.kernels = 0, cost.bytes = 0; break;
    case OpClass::kCopy: cost.host_us = 12.3; break;
    case OpClass::kReduction: cost.host_us = 12.9; break;
    case OpClass::kNorm: cost.host_us = 17.5; break;
    case OpClass::kFactory: cost.host_us = 8.0; break;
    case OpClass::kProduct: cost.host_us = 30.0; break;
    case OpClass::kStencil: cost.host_us = 14.0; break;
    case OpClass::kScan: cost.host_us = 13.0; break;
    case OpClass::kRandom: cost.host_us = 12.0; break;
    case OpClass::kOther: cost.host_us = 15.0; break;
  }
  return cost;
}

}  // namespace

OpCost cost_of(const Call& call) {
  OpCost cost = call.row->cost ? call.row->cost(call) : class_cost(call.row->cls);
  if (cost.bytes < 0) {
    cost.bytes = bytes_of(call.node->meta);
    for (const NodeId id : call.graph->inputs_of(call.node->id))
      cost.bytes += bytes_of(call.graph->node(id).meta);
  }
  return cost;
}

namespace {

void storages_of(const Meta& meta, std::vector<StorageId>& out) {
  if (meta.is_tensor() && meta.tensor.storage >= 0) out.push_back(meta.tensor.storage);
  for (const Meta& item : meta.items) storages_of(item, out);
}

}  // namespace

bool may_alias_operand(const Call& call) {
  if (call.in_place) return true;
  std::vector<StorageId> own, others;
  storages_of(call.node->meta, own);
  for (const NodeId id : call.graph->inputs_of(call.node->id)) storages_of(call.graph->node(id).meta, others);
  // Without metadata only the class is known.
  if (own.empty()) return call.row->cls == OpClass::kView || call.row->cls == OpClass::kTuple;
  return std::any_of(own.begin(), own.end(),
                     [&](StorageId s) { return std::find(others.begin(), others.end(), s) != others.end(); });
}

// ---- regions ----

namespace {

class RegionContext : public LowerContext {
 public:
  explicit RegionContext(const Graph& graph) : graph_(graph) {}

  Program& program() override { return program_; }

  Result<ArrayId> array(const Value& operand) override {
    PN_TRY(const std::vector<ArrayId>* found, find(operand));
    if (graph_.node(operand.as_node()).meta.kind == Meta::Kind::kTuple || found->size() != 1) {
      return internal_error("ops.wrong_operand", fmt::format("`{}` is a tuple, a tensor is needed",
                                                             graph_.node(operand.as_node()).name));
    }
    return (*found)[0];
  }

  Result<std::vector<ArrayId>> arrays(const Value& operand) override {
    PN_TRY(const std::vector<ArrayId>* found, find(operand));
    return *found;
  }

  void define(NodeId node, std::vector<ArrayId> arrays) { values_[node] = std::move(arrays); }
  Program& take() { return program_; }

 private:
  Result<const std::vector<ArrayId>*> find(const Value& operand) const {
    if (!operand.is_node()) return internal_error("ops.wrong_operand", "a literal where a tensor is needed");
    const auto it = values_.find(operand.as_node());
    if (it == values_.end()) {
      return internal_error("ops.outside_operand",
                            fmt::format("`{}` is neither in the region nor one of its inputs",
                                        graph_.node(operand.as_node()).name));
    }
    return &it->second;
  }

  const Graph& graph_;
  Program program_;
  std::map<NodeId, std::vector<ArrayId>> values_;
};

Status add_input(RegionContext& context, const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  std::vector<ArrayId> arrays;
  const auto add = [&](const Meta& meta, const std::string& label) -> Status {
    if (!meta.is_tensor()) {
      return user_error("ops.no_lowering", fmt::format("the input `{}` is no tensor of known shape", label))
          .at(graph.file, node.span);
    }
    arrays.push_back(context.program().add_input(meta.tensor, label));
    return {};
  };
  if (node.meta.kind == Meta::Kind::kScalar || node.meta.kind == Meta::Kind::kNone) return {};
  if (node.meta.kind == Meta::Kind::kTuple) {
    for (size_t i = 0; i < node.meta.items.size(); ++i) {
      PN_CHECK_OK(add(node.meta.items[i], fmt::format("{}_{}", node.name, i)));
    }
  } else {
    PN_CHECK_OK(add(node.meta, node.name));
  }
  context.define(id, std::move(arrays));
  return {};
}

}  // namespace

Result<Program> lower_region(const Graph& graph, std::span<const NodeId> nodes, NodeId root,
                             std::span<const NodeId> inputs) {
  RegionContext context(graph);
  for (const NodeId id : inputs) PN_CHECK_OK(add_input(context, graph, id));
  for (const TensorMeta& input : context.program().inputs()) {
    if (input.device != context.program().inputs()[0].device) {
      return user_error("ops.mixed_devices", fmt::format("the region's inputs lie on {} and {}",
                                                         context.program().inputs()[0].device, input.device))
          .at(graph.file, graph.node(root).span);
    }
  }
  std::vector<ArrayId> root_arrays;
  for (const NodeId id : nodes) {
    const Node& node = graph.node(id);
    PN_TRY(const Call call, resolve(graph, node));
    if (!call.row->lower) {
      std::string why =
          call.row->wall.empty() ? std::string("it has no formula") : std::string(call.row->wall);
      return user_error("ops.no_lowering",
                        fmt::format("`{}` ({}) cannot be inside a kernel: {}", node.name, node.target, why))
          .at(graph.file, node.span)
          .with("node", node.name);
    }
    if (!node.meta.is_tensor() && node.meta.kind != Meta::Kind::kTuple) {
      return user_error("ops.no_lowering", fmt::format("the shape of `{}` is not known", node.name))
          .at(graph.file, node.span)
          .with("node", node.name);
    }
    PN_TRY(std::vector<ArrayId> arrays, call.row->lower(context, call));
    if (!context.program().misuse().empty()) {
      return internal_error("ops.row_misuse", fmt::format("the formula of `{}`: {}", call.row->name,
                                                          context.program().misuse()))
          .at(graph.file, node.span)
          .with("node", node.name);
    }
    if (id == root) root_arrays = arrays;
    // Whoever reads the written operand's node later sees the new value.
    if (call.in_place && call.args[0].is_node()) context.define(call.args[0].as_node(), arrays);
    context.define(id, std::move(arrays));
  }
  if (root_arrays.empty()) return internal_error("ops.no_root", "the region's root is none of its nodes");
  Program program = std::move(context.take());
  program.outputs = root_arrays;
  const Meta& meta = graph.node(root).meta;
  if (meta.kind == Meta::Kind::kTuple) {
    for (const Meta& item : meta.items) program.output_metas.push_back(item.tensor);
  } else {
    program.output_metas.push_back(meta.tensor);
  }
  if (program.output_metas.size() != program.outputs.size()) {
    return internal_error("ops.row_misuse",
                          fmt::format("`{}` lowers to {} arrays and has {} results", graph.node(root).name,
                                      program.outputs.size(), program.output_metas.size()));
  }
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const Array& array = program.array(program.outputs[i]);
    if (array.shape != program.output_metas[i].shape || array.dtype != program.output_metas[i].dtype) {
      return internal_error("ops.row_misuse",
                            fmt::format("the formula of `{}` gives another shape or type than its "
                                        "metadata",
                                        graph.node(root).name));
    }
  }
  return program;
}

}  // namespace passnet
