#include "sample/weight_meta.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>

#include <fmt/format.h>

namespace passnet {

namespace {

using pysrc::Expr;
using pysrc::ExprKind;
using pysrc::Stmt;
using pysrc::StmtKind;

constexpr int64_t kMaxRank = 64;

// A number or boolean as metadata files write it: with a sign, or as float('nan').
std::optional<Value> literal(const Expr& e) {
  switch (e.kind) {
    case ExprKind::kNone: return Value::none();
    case ExprKind::kTrue: return Value::boolean(true);
    case ExprKind::kFalse: return Value::boolean(false);
    case ExprKind::kInt:
      // Beyond 64 bits only the size matters: a bound or a value of a float.
      return e.overflow ? Value::real(std::strtod(e.text.c_str(), nullptr)) : Value::integer(e.integer);
    case ExprKind::kFloat: return Value::real(e.real);
    case ExprKind::kString: return Value::string(e.text);
    case ExprKind::kName:
      if (e.text == "inf") return Value::real(std::numeric_limits<double>::infinity());
      if (e.text == "nan") return Value::real(std::numeric_limits<double>::quiet_NaN());
      return std::nullopt;
    case ExprKind::kUnary: {
      const std::optional<Value> inner = literal(*e.value);
      if (!inner || (e.op() != "-" && e.op() != "+")) return std::nullopt;
      if (e.op() == "+") return inner;
      if (inner->kind() == Value::Kind::kInt && inner->as_int() != std::numeric_limits<int64_t>::min()) {
        return Value::integer(-inner->as_int());
      }
      if (inner->kind() == Value::Kind::kFloat) return Value::real(-inner->as_double());
      return std::nullopt;
    }
    case ExprKind::kCall: {
      if (e.value->kind != ExprKind::kName || e.value->text != "float" || e.items.size() != 1)
        return std::nullopt;
      const Expr& text = *e.items.front();
      if (text.kind != ExprKind::kString) return literal(text);
      const bool minus = text.text.starts_with('-');
      const std::string_view word =
          std::string_view(text.text).substr(minus || text.text.starts_with('+') ? 1 : 0);
      const double magnitude = word == "nan" ? std::numeric_limits<double>::quiet_NaN()
                               : word == "inf" || word == "infinity" ? std::numeric_limits<double>::infinity()
                                                                     : 0;
      if (magnitude == 0) return std::nullopt;
      return Value::real(minus ? -magnitude : magnitude);
    }
    default: return std::nullopt;
  }
}

class SpecReader {
 public:
  SpecReader(const pysrc::Module& module, const Stmt& cls) : module_(module), cls_(cls) {}

  Result<std::optional<TensorSpec>> read() {
    TensorSpec spec;
    spec.class_name = cls_.text;
    spec.file = module_.file();
    spec.span = {cls_.span.line, cls_.span.col, cls_.span.line, cls_.span.col + 5};  // the word `class`
    for (const Stmt* s : cls_.body) {
      if (s->kind != StmtKind::kAssign || s->value == nullptr) continue;
      for (const Expr* target : s->exprs) {
        if (target->kind == ExprKind::kName) PN_CHECK_OK(attribute(spec, target->text, *s->value));
      }
    }
    if (!any_) return std::optional<TensorSpec>();  // a class of something else
    if (!has_name_) return missing("name", "name = \"<parameter of forward>\"");
    if (!has_shape_) return missing("shape", "shape = [<sizes>]");
    if (!has_dtype_) return missing("dtype", "dtype = \"torch.float32\"");
    PN_CHECK_OK(check(spec));
    return std::optional<TensorSpec>(std::move(spec));
  }

 private:
  Diagnostic error(std::string_view code, const std::string& message, const Span& span) const {
    return user_error(code, message).at(module_.file(), span);
  }

  Diagnostic missing(std::string_view attribute, std::string_view example) const {
    return error("meta.missing_attribute", fmt::format("class {} has no {}", cls_.text, attribute),
                 {cls_.span.line, cls_.span.col, cls_.span.line, cls_.span.col + 5})
        .with_hint(fmt::format("Add the line `{}` to it.", example));
  }

  Diagnostic not_literal(std::string_view attribute, const Expr& e, std::string_view expected) const {
    return error("meta.not_literal", fmt::format("{} of class {} is no {}", attribute, cls_.text, expected),
                 e.span)
        .with_hint("Metadata holds literals only; nothing in it is executed.");
  }

  Status attribute(TensorSpec& spec, const std::string& name, const Expr& e) {
    any_ |= name == "name" || name == "shape" || name == "dtype";
    if (name == "name") {
      if (e.kind != ExprKind::kString) return not_literal(name, e, "string");
      spec.name = e.text;
      has_name_ = true;
    } else if (name == "dtype") {
      // Quoted or not.
      const std::string text = e.kind == ExprKind::kString ? e.text : dotted_name(e);
      if (text.empty()) return not_literal(name, e, "string");
      const std::optional<DType> dtype = parse_dtype(text);
      if (!dtype) {
        return error("meta.unknown_dtype", fmt::format("'{}' is no dtype that is supported", text), e.span)
            .with_hint(
                "Write torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool or the like.");
      }
      spec.dtype = *dtype;
      has_dtype_ = true;
    } else if (name == "shape") {
      if (e.kind != ExprKind::kList && e.kind != ExprKind::kTuple)
        return not_literal(name, e, "list of sizes");
      spec.shape.clear();
      for (const Expr* item : e.items) {
        const std::optional<Value> v = literal(*item);
        if (!v || v->kind() != Value::Kind::kInt) return not_literal(name, *item, "list of sizes");
        if (v->as_int() < 0) {
          return error("meta.bad_shape", fmt::format("the size {} is negative", v->as_int()), item->span)
              .with_hint("Write the sizes that the tensor has.");
        }
        spec.shape.push_back(v->as_int());
      }
      has_shape_ = true;
      shape_span_ = e.span;
    } else if (name == "device") {
      if (e.kind == ExprKind::kString) spec.device = e.text;
    } else if (name == "mean" || name == "std" || name == "min_val" || name == "max_val") {
      const std::optional<Value> v = literal(e);
      if (!v || (!v->is_none() && !v->is_number())) return not_literal(name, e, "number");
      std::optional<double>& field = name == "mean"      ? spec.mean
                                     : name == "std"     ? spec.std
                                     : name == "min_val" ? spec.min_val
                                                         : spec.max_val;
      field = v->is_none() ? std::nullopt : std::optional(v->as_double());
      if (name == "mean") has_mean_ = true;
      if (name == "std") has_std_ = true;
    } else if (name == "data") {
      if (e.kind == ExprKind::kNone) return ok_status();
      if (e.kind != ExprKind::kList && e.kind != ExprKind::kTuple)
        return not_literal(name, e, "flat list of numbers");
      spec.data_count = static_cast<int64_t>(e.items.size());
      std::vector<double> values;
      for (const Expr* item : e.items) {
        const std::optional<Value> v = literal(*item);
        if (!v || !v->is_number()) return not_literal(name, *item, "flat list of numbers");
        if (spec.data_head.size() < kDataHead) spec.data_head.push_back(*v);
        if (values.size() < kMaxIntegers && v->kind() != Value::Kind::kFloat)
          values.push_back(v->as_double());
      }
      if (values.size() == e.items.size()) {
        spec.integers = std::make_shared<const std::vector<double>>(std::move(values));
      }
      data_span_ = {e.span.line, e.span.col, e.span.line, e.span.col + 1};
    }
    return ok_status();
  }

  Status check(TensorSpec& spec) const {
    // The evaluator's defaults.
    if (!has_mean_) spec.mean = 0.0;
    if (!has_std_) spec.std = 1.0;
    const int64_t numel = elements_of(spec.shape);
    if (static_cast<int64_t>(spec.shape.size()) > kMaxRank || span_of(spec.shape) > kMostElements) {
      return error("meta.bad_shape", fmt::format("tensor '{}' has too many elements", spec.name), shape_span_)
          .with_hint("Correct the shape.");
    }
    if (spec.has_data() && spec.data_count != numel) {
      return error("meta.data_count",
                   fmt::format("tensor '{}' has {} elements, its data {}", spec.name, numel, spec.data_count),
                   data_span_)
          .with_hint("Make the two agree, or leave `data` out.");
    }
    return ok_status();
  }

  const pysrc::Module& module_;
  const Stmt& cls_;
  bool any_ = false, has_name_ = false, has_shape_ = false, has_dtype_ = false, has_mean_ = false,
       has_std_ = false;
  Span shape_span_, data_span_;
};

}  // namespace

Result<std::vector<TensorSpec>> read_tensor_specs(const pysrc::Module& module) {
  std::map<std::string, TensorSpec> by_class;
  for (const Stmt* s : module.body()) {
    if (s->kind != StmtKind::kClass) continue;
    PN_TRY(std::optional<TensorSpec> spec, SpecReader(module, *s).read());
    if (spec) by_class.insert_or_assign(s->text, std::move(*spec));
  }
  std::vector<TensorSpec> out;
  std::map<std::string_view, const TensorSpec*> by_name;
  for (auto& [name, spec] : by_class) {
    const auto [it, added] = by_name.emplace(spec.name, &spec);
    if (!added) {
      const TensorSpec& later = it->second->span.line < spec.span.line ? spec : *it->second;
      return user_error("meta.duplicate_name", fmt::format("two classes describe the tensor '{}'", spec.name))
          .at(module.file(), later.span)
          .with_hint("Remove one of them.");
    }
  }
  out.reserve(by_class.size());
  for (auto& [name, spec] : by_class) out.push_back(std::move(spec));
  return out;
}

namespace {

// The value of a 0-dim tensor where the description fixes it, in its dtype, as the evaluator makes it.
std::optional<Value> only_value(const TensorSpec& spec) {
  double v = 0;
  if (spec.data_count == 1) {
    const Value& given = spec.data_head.front();
    if (given.kind() != Value::Kind::kFloat && is_integral(spec.dtype, false)) {
      return Value::integer(given.as_int());
    }
    v = given.as_double();
  } else if (spec.std == 0.0 && !(is_integral(spec.dtype, false) && spec.min_val && spec.max_val)) {
    v = std::max(spec.mean.value_or(0.0), spec.min_val.value_or(-std::numeric_limits<double>::infinity()));
    v = std::min(v, spec.max_val.value_or(std::numeric_limits<double>::infinity()));
    if (is_floating(spec.dtype)) v = std::min(std::max(v, -100.0), 100.0);
    if (std::isnan(v)) return std::nullopt;  // a random number takes its place
  } else {
    return std::nullopt;  // drawn
  }
  if (spec.dtype == DType::kBool) return Value::boolean(v != 0);
  if (is_integral(spec.dtype, false)) {
    return std::fabs(v) < 9.2e18 ? std::optional(Value::integer(static_cast<int64_t>(v))) : std::nullopt;
  }
  if (spec.dtype == DType::kFloat64) return Value::real(v);
  if (spec.dtype == DType::kFloat32) return Value::real(static_cast<double>(static_cast<float>(v)));
  return std::nullopt;  // what 16 bits make of it is not computed here
}

// Root mean square of what is drawn for a tensor; of a constant one, of the numbers of deviation 0.5 around its mean that
// passes are judged on beside it.
std::optional<double> magnitude_of(const TensorSpec& spec) {
  constexpr double kLargestMean = 100;  // beyond it the constants are those of masks
  if (!is_floating(spec.dtype) || spec.has_data() || (!spec.mean && !spec.std)) return std::nullopt;
  const double mean = spec.mean.value_or(0);
  const double deviation = spec.std && *spec.std > 0 ? *spec.std : 0.5;
  if (!(std::abs(mean) <= kLargestMean) || !std::isfinite(deviation)) return std::nullopt;
  return std::hypot(mean, deviation);
}

}  // namespace

std::vector<InputMeta> input_metas(const std::vector<TensorSpec>& specs) {
  std::vector<InputMeta> out;
  out.reserve(specs.size());
  for (const TensorSpec& spec : specs) {
    InputMeta input;
    input.name = spec.name;
    input.tensor.shape = spec.shape;
    input.tensor.dtype = spec.dtype;
    input.tensor.stride = contiguous_strides(spec.shape);
    if (is_integral(spec.dtype, true)) input.integers = spec.integers;
    if (spec.shape.empty()) input.item = only_value(spec);
    input.magnitude = magnitude_of(spec);
    out.push_back(std::move(input));
  }
  return out;
}

}  // namespace passnet
