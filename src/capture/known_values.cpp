#include "capture/known_values.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string_view>

#include "ops/view_algebra.h"

namespace passnet {

namespace {

constexpr int64_t kMaxElements = int64_t{1} << 16;
constexpr double kExact = 9007199254740992.0;  // 2^53

int64_t product(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(n, size, &n)) return kMaxElements + 1;
  }
  return n;
}

bool is_number_type(DType dtype) { return is_integral(dtype, true) || dtype == DType::kFloat64; }

KnownTensorPtr made(std::vector<int64_t> shape, DType dtype, std::vector<double> values) {
  return std::make_shared<const KnownTensor>(KnownTensor{std::move(shape), dtype, std::move(values)});
}

using Function = double (*)(double, double);

Function binary_function(std::string_view name) {
  constexpr std::pair<std::string_view, Function> kFunctions[] = {
      {"add", [](double a, double b) { return a + b; }},
      {"sub", [](double a, double b) { return a - b; }},
      {"mul", [](double a, double b) { return a * b; }},
      {"eq", [](double a, double b) { return a == b ? 1.0 : 0.0; }},
      {"ne", [](double a, double b) { return a != b ? 1.0 : 0.0; }},
      {"lt", [](double a, double b) { return a < b ? 1.0 : 0.0; }},
      {"le", [](double a, double b) { return a <= b ? 1.0 : 0.0; }},
      {"gt", [](double a, double b) { return a > b ? 1.0 : 0.0; }},
      {"ge", [](double a, double b) { return a >= b ? 1.0 : 0.0; }}};
  for (const auto& [key, function] : kFunctions) {
    if (key == name) return function;
  }
  return nullptr;
}

// "add" of "operator.add", "torch.add" and the method; empty for other modules.
std::string_view bare_name(const Node& node) {
  const std::string_view target = node.target;
  if (node.op == NodeOp::kCallMethod) {
    if (target.size() > 4 && target.starts_with("__") && target.ends_with("__")) {
      return target.substr(2, target.size() - 4);
    }
    return target;
  }
  const std::size_t dot = target.rfind('.');
  if (dot == std::string_view::npos) return {};
  const std::string_view module = target.substr(0, dot);
  return module == "operator" || module == "torch" ? target.substr(dot + 1) : std::string_view();
}

// A conversion by name, if it is one: long(), bool(), ...
bool is_conversion(std::string_view name) {
  constexpr std::string_view kConversions[] = {"long", "int", "bool", "to", "double", "type"};
  return std::find(std::begin(kConversions), std::end(kConversions), name) != std::end(kConversions);
}

bool is_reshape(std::string_view name) {
  constexpr std::string_view kReshapes[] = {"view",  "reshape", "unsqueeze",  "squeeze",   "flatten",
                                            "clone", "detach",  "contiguous", "unflatten", "ravel"};
  return std::find(std::begin(kReshapes), std::end(kReshapes), name) != std::end(kReshapes);
}

// fold(all elements along `axis`, or all where there is none).
KnownTensorPtr reduced(const KnownTensor& x, const TensorMeta& out, std::optional<int64_t> axis, double start,
                       const std::function<double(double, double)>& fold) {
  if (!axis) {
    double total = start;
    for (const double v : x.values) total = fold(total, v);
    return product(out.shape) == 1 ? made(out.shape, out.dtype, {total}) : nullptr;
  }
  const int64_t rank = static_cast<int64_t>(x.shape.size());
  const int64_t at = *axis < 0 ? *axis + rank : *axis;
  if (at < 0 || at >= rank) return nullptr;
  int64_t outer = 1, inner = 1;
  for (int64_t i = 0; i < at; ++i) outer *= x.shape[static_cast<std::size_t>(i)];
  for (int64_t i = at + 1; i < rank; ++i) inner *= x.shape[static_cast<std::size_t>(i)];
  const int64_t length = x.shape[static_cast<std::size_t>(at)];
  std::vector<double> values(static_cast<std::size_t>(outer * inner), start);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t k = 0; k < length; ++k) {
      for (int64_t i = 0; i < inner; ++i) {
        double& total = values[static_cast<std::size_t>(o * inner + i)];
        total = fold(total, x.values[static_cast<std::size_t>((o * length + k) * inner + i)]);
      }
    }
  }
  if (product(out.shape) != outer * inner) return nullptr;
  return made(out.shape, out.dtype, std::move(values));
}

// x[i] with an integer, for each axis in turn.
KnownTensorPtr first_axes(const KnownTensor& x, const Value& index, const TensorMeta& out) {
  const std::vector<Value> single{index};
  const std::vector<Value>& parts = index.is_sequence() ? index.items() : single;
  int64_t offset = 0, rest = product(x.shape);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::optional<int64_t> given = index_of(parts[i]);
    if (!given || i >= x.shape.size() || x.shape[i] == 0) return nullptr;
    const int64_t at = *given < 0 ? *given + x.shape[i] : *given;
    if (at < 0 || at >= x.shape[i]) return nullptr;
    rest /= x.shape[i];
    offset += at * rest;
  }
  if (product(out.shape) != rest) return nullptr;
  const auto first = x.values.begin() + offset;
  return made(out.shape, out.dtype, std::vector<double>(first, first + rest));
}

}  // namespace

std::optional<Value> KnownTensor::item() const {
  if (values.size() != 1) return std::nullopt;
  if (dtype == DType::kBool) return Value::boolean(values[0] != 0);
  if (is_integral(dtype, false)) return Value::integer(static_cast<int64_t>(values[0]));
  return Value::real(values[0]);
}

bool KnownValues::written(const Node& node) const {
  if (!node.meta.is_tensor()) return true;
  const StorageId storage = node.meta.tensor.storage;
  for (const auto& other : graph_.nodes()) {
    if (std::find(other->writes.begin(), other->writes.end(), storage) != other->writes.end()) return true;
  }
  return false;
}

KnownTensorPtr KnownValues::find(NodeId id) {
  const auto it = known_.find(id);
  const Node& node = graph_.node(id);
  if (it != known_.end()) return it->second == nullptr || written(node) ? nullptr : it->second;
  known_[id] = nullptr;
  if (node.op == NodeOp::kPlaceholder || !node.meta.is_tensor() || written(node)) return nullptr;
  if (!is_number_type(node.meta.tensor.dtype) || product(node.meta.tensor.shape) > kMaxElements)
    return nullptr;
  constexpr int kDeepest = 200;
  if (depth_ == kDeepest) return nullptr;
  ++depth_;
  KnownTensorPtr value = compute(node);
  --depth_;
  if (value && std::any_of(value->values.begin(), value->values.end(),
                           [](double v) { return std::isnan(v) || std::fabs(v) > kExact; })) {
    value = nullptr;
  }
  known_[id] = value;
  return value;
}

KnownTensorPtr KnownValues::operand(const Value& v) {
  if (v.is_node()) return find(v.as_node());
  if (!v.is_number()) return nullptr;
  const DType dtype = v.kind() == Value::Kind::kBool    ? DType::kBool
                      : v.kind() == Value::Kind::kFloat ? DType::kFloat64
                                                        : DType::kInt64;
  return made({}, dtype, {v.as_double()});
}

bool KnownValues::is_literal(NodeId id) const {
  constexpr int kDeepest = 100;
  std::vector<NodeId> open{id};
  for (int i = 0; !open.empty(); ++i) {
    const Node& node = graph_.node(open.back());
    open.pop_back();
    if (node.op == NodeOp::kPlaceholder || !node.meta.is_tensor() || product(node.meta.tensor.shape) != 1)
      return false;
    if (i == kDeepest) return false;
    for (const Value& v : node.args) v.for_each_node([&](NodeId input) { open.push_back(input); });
    for (const auto& [key, v] : node.kwargs) v.for_each_node([&](NodeId input) { open.push_back(input); });
  }
  return true;
}

KnownTensorPtr KnownValues::compute(const Node& node) {
  const std::string_view name = bare_name(node);
  if (name.empty() || node.args.empty()) return nullptr;
  const TensorMeta& out = node.meta.tensor;
  if (name == "tensor" && product(out.shape) == 1) {
    const Value* literal = &node.args[0];
    while (literal->is_sequence() && literal->items().size() == 1) literal = &literal->items()[0];
    return literal->is_number() ? made(out.shape, out.dtype, {literal->as_double()}) : nullptr;
  }
  const KnownTensorPtr x = operand(node.args[0]);
  if (!x) return nullptr;
  if (const Function function = binary_function(name); function != nullptr) {
    if (node.args.size() != 2 || !node.kwargs.empty()) return nullptr;
    const KnownTensorPtr y = operand(node.args[1]);
    if (!y) return nullptr;
    const int64_t count = product(out.shape);
    // Equal shapes, or one element against many: masks are made of nothing else.
    const auto fits = [&](const KnownTensor& t) { return t.values.size() == 1 || t.shape == out.shape; };
    if (!fits(*x) || !fits(*y)) return nullptr;
    std::vector<double> values;
    values.reserve(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      values.push_back(
          function(x->values[x->values.size() == 1 ? 0 : i], y->values[y->values.size() == 1 ? 0 : i]));
    }
    return made(out.shape, out.dtype, std::move(values));
  }
  if (is_conversion(name)) {
    std::vector<double> values = x->values;
    for (double& v : values) {
      if (out.dtype == DType::kBool) v = v != 0 ? 1 : 0;
      if (is_integral(out.dtype, false)) v = std::trunc(v);
    }
    return out.shape == x->shape ? made(out.shape, out.dtype, std::move(values)) : nullptr;
  }
  if (is_reshape(name)) {
    return product(out.shape) == static_cast<int64_t>(x->values.size())
               ? made(out.shape, out.dtype, x->values)
               : nullptr;
  }
  if (name == "getitem" && node.args.size() == 2) return first_axes(*x, node.args[1], out);
  const Value* dim = node.args.size() > 1 ? &node.args[1] : node.kwarg("dim");
  std::optional<int64_t> axis;
  if (dim != nullptr) {
    axis = dim->is_sequence() && dim->items().size() == 1 ? index_of(dim->items()[0]) : index_of(*dim);
    if (!axis) return nullptr;
  }
  if (name == "sum") return reduced(*x, out, axis, 0, [](double a, double b) { return a + b; });
  if (name == "prod") return reduced(*x, out, axis, 1, [](double a, double b) { return a * b; });
  if (name == "any")
    return reduced(*x, out, axis, 0, [](double a, double b) { return a != 0 || b != 0 ? 1 : 0; });
  if (name == "all")
    return reduced(*x, out, axis, 1, [](double a, double b) { return a != 0 && b != 0 ? 1 : 0; });
  if (x->values.empty()) return nullptr;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (name == "max" || name == "amax") {
    return reduced(*x, out, axis, -kInfinity, [](double a, double b) { return std::max(a, b); });
  }
  if (name == "min" || name == "amin") {
    return reduced(*x, out, axis, kInfinity, [](double a, double b) { return std::min(a, b); });
  }
  return nullptr;
}

std::optional<KnownTensor> masked_subscript(const std::vector<int64_t>& shape, DType dtype,
                                            const KnownTensor* x, const KnownTensor& mask, int64_t axis) {
  const std::size_t first = static_cast<std::size_t>(axis), covered = mask.shape.size();
  if (mask.dtype != DType::kBool || first + covered > shape.size()) return std::nullopt;
  for (std::size_t i = 0; i < covered; ++i) {
    if (shape[first + i] != mask.shape[i]) return std::nullopt;
  }
  KnownTensor out;
  out.dtype = dtype;
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < mask.values.size(); ++i) {
    if (mask.values[i] != 0) chosen.push_back(i);
  }
  out.shape.assign(shape.begin(), shape.begin() + axis);
  out.shape.push_back(static_cast<int64_t>(chosen.size()));
  out.shape.insert(out.shape.end(), shape.begin() + static_cast<std::ptrdiff_t>(first + covered),
                   shape.end());
  if (x == nullptr) return out;
  int64_t outer = 1, inner = 1;
  for (std::size_t i = 0; i < first; ++i) outer *= shape[i];
  for (std::size_t i = first + covered; i < shape.size(); ++i) inner *= shape[i];
  for (std::size_t o = 0; o < static_cast<std::size_t>(outer); ++o) {
    for (const std::size_t c : chosen) {
      const std::size_t start = (o * mask.values.size() + c) * static_cast<std::size_t>(inner);
      for (std::size_t i = 0; i < static_cast<std::size_t>(inner); ++i)
        out.values.push_back(x->values[start + i]);
    }
  }
  return out;
}

}  // namespace passnet
