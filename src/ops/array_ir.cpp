#include "ops/array_ir.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <utility>

#include "ops/index_simplify.h"

namespace passnet {

namespace {

constexpr std::string_view kFnNames[] = {
    "add",  "sub",   "mul",   "div",   "floordiv", "mod",  "truncdiv", "fma",      "neg",  "abs",   "min",
    "max",  "floor", "ceil",  "trunc", "rint",     "sqrt", "rsqrt",    "exp",      "exp2", "expm1", "log",
    "log2", "log10", "log1p", "tanh",  "erf",      "erfc", "sin",      "cos",      "tan",  "asin",  "acos",
    "atan", "atan2", "sinh",  "cosh",  "pow",      "sign", "tf32",     "copysign", "lt",   "le",    "gt",
    "ge",   "eq",    "ne",    "isnan", "isinf",    "and",  "or",       "xor",      "not",  "shl",   "shr"};
static_assert(std::size(kFnNames) == static_cast<size_t>(Fn::kShr) + 1);

constexpr std::string_view kReduceNames[] = {"sum", "prod", "max", "min", "any", "all", "argmax", "argmin"};

size_t arity_of(Fn fn) {
  switch (fn) {
    case Fn::kFma: return 3;
    case Fn::kAdd:
    case Fn::kSub:
    case Fn::kMul:
    case Fn::kDiv:
    case Fn::kFloorDiv:
    case Fn::kMod:
    case Fn::kTruncDiv:
    case Fn::kMin:
    case Fn::kMax:
    case Fn::kAtan2:
    case Fn::kPow:
    case Fn::kCopysign:
    case Fn::kLt:
    case Fn::kLe:
    case Fn::kGt:
    case Fn::kGe:
    case Fn::kEq:
    case Fn::kNe:
    case Fn::kAnd:
    case Fn::kOr:
    case Fn::kXor:
    case Fn::kShl:
    case Fn::kShr: return 2;
    default: return 1;
  }
}

bool gives_bool(Fn fn) { return fn >= Fn::kLt && fn <= Fn::kIsInf; }

// What operand types a function takes; the rest of the rules is that all operands have one type.
std::string_view operand_rule(Fn fn, DType type) {
  if (type == DType::kFloat16 || type == DType::kBFloat16) {
    return gives_bool(fn) ? "" : "arithmetic on a 16-bit float";
  }
  if (is_complex(type)) return "arithmetic on a complex number";
  switch (fn) {
    case Fn::kAnd:
    case Fn::kOr:
    case Fn::kXor:
    case Fn::kNot:
    case Fn::kShl:
    case Fn::kShr: return is_floating(type) ? "a bitwise function of a float" : "";
    case Fn::kTruncDiv:
      return is_integral(type, false) ? "" : "a truncating division of a type that is no integer";
    case Fn::kLt:
    case Fn::kLe:
    case Fn::kGt:
    case Fn::kGe:
    case Fn::kEq:
    case Fn::kNe: return "";
    case Fn::kAdd:
    case Fn::kSub:
    case Fn::kMul:
    case Fn::kFloorDiv:
    case Fn::kMod:
    case Fn::kNeg:
    case Fn::kAbs:
    case Fn::kMin:
    case Fn::kMax:
    case Fn::kPow:
    case Fn::kSign: return type == DType::kBool ? "arithmetic on a bool" : "";
    default: return is_floating(type) ? "" : "a float function of an integer";
  }
}

int64_t wrap_to(int64_t v, DType type) {
  switch (type) {
    case DType::kBool: return v != 0;
    case DType::kUInt8: return static_cast<uint8_t>(v);
    case DType::kInt8: return static_cast<int8_t>(v);
    case DType::kInt16: return static_cast<int16_t>(v);
    case DType::kInt32: return static_cast<int32_t>(v);
    default: return v;
  }
}

// Rounds to a binary float of `mantissa` explicit bits and exponents from `low` (the smallest normal one), ties to even.
double round_mantissa(double v, int mantissa, int low, double largest) {
  if (v == 0 || !std::isfinite(v)) return v;
  int exponent = 0;
  std::frexp(v, &exponent);  // |v| in [2^(exponent-1), 2^exponent)
  const int unit = std::max(exponent - 1, low) - mantissa;
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(v, -unit)), unit);
  return std::abs(rounded) > largest ? std::copysign(std::numeric_limits<double>::infinity(), v) : rounded;
}

// Whether every value of `from` is a value of `to`, so that a cast there and back changes nothing.
bool holds_all_of(DType to, DType from) {
  if (from == to || from == DType::kBool) return true;
  if (is_complex(to) || is_complex(from)) return false;
  if (is_floating(from)) {
    if (!is_floating(to)) return false;
    return to == DType::kFloat64 || (to == DType::kFloat32 && from != DType::kFloat64);
  }
  if (to == DType::kBool) return false;
  const int from_bits = size_of(from) * 8 - (from == DType::kUInt8 ? 0 : 1);
  if (is_floating(to)) {
    const int digits = to == DType::kFloat64   ? 53
                       : to == DType::kFloat32 ? 24
                       : to == DType::kFloat16 ? 11
                                               : 8;
    return from_bits <= digits;
  }
  if (to == DType::kUInt8) return false;
  return size_of(to) > size_of(from) || (from != DType::kUInt8 && size_of(to) == size_of(from));
}

void mix(size_t& seed, size_t v) { seed ^= v + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2); }

size_t hash_of(const Expr& e) {
  size_t seed = static_cast<size_t>(e.kind);
  mix(seed, static_cast<size_t>(e.type));
  mix(seed, static_cast<size_t>(e.fn));
  mix(seed, static_cast<size_t>(e.axis));
  mix(seed, static_cast<size_t>(e.extent));
  mix(seed, static_cast<size_t>(e.int_value));
  mix(seed, static_cast<size_t>(std::bit_cast<uint64_t>(e.value)));
  mix(seed, static_cast<size_t>(e.array));
  for (const ExprId arg : e.args) mix(seed, static_cast<size_t>(arg));
  return seed;
}

// Equality by bits: 0.0 and -0.0 are two constants, one NaN is one.
bool same(const Expr& a, const Expr& b) {
  return a.kind == b.kind && a.type == b.type && a.fn == b.fn && a.axis == b.axis && a.extent == b.extent &&
         a.int_value == b.int_value && std::bit_cast<uint64_t>(a.value) == std::bit_cast<uint64_t>(b.value) &&
         a.array == b.array && a.args == b.args;
}

}  // namespace

std::string_view name_of(Fn fn) { return kFnNames[static_cast<size_t>(fn)]; }
std::string_view name_of(ReduceOp op) { return kReduceNames[static_cast<size_t>(op)]; }

std::string_view short_name_of(DType dtype) {
  switch (dtype) {
    case DType::kBool: return "bool";
    case DType::kUInt8: return "u8";
    case DType::kInt8: return "i8";
    case DType::kInt16: return "i16";
    case DType::kInt32: return "i32";
    case DType::kInt64: return "i64";
    case DType::kFloat16: return "f16";
    case DType::kBFloat16: return "bf16";
    case DType::kFloat32: return "f32";
    case DType::kFloat64: return "f64";
    case DType::kComplex64: return "c64";
    case DType::kComplex128: return "c128";
  }
  return "?";
}

double round_to(double v, DType type) {
  switch (type) {
    case DType::kFloat16: return round_mantissa(v, 10, -14, 65504.0);
    case DType::kBFloat16: return round_mantissa(v, 7, -126, 3.3895313892515355e38);
    case DType::kFloat32: return static_cast<double>(static_cast<float>(v));
    default: return v;
  }
}

// ---- definitions of arrays ----

void Program::broken(std::string rule) {
  if (misuse_.empty()) misuse_ = std::move(rule);
}

ArrayId Program::add_input(const TensorMeta& meta, std::string label) {
  Array array;
  array.kind = Array::Kind::kInput;
  array.shape = meta.shape;
  array.dtype = meta.dtype;
  array.input = static_cast<int32_t>(inputs_.size());
  array.label = std::move(label);
  inputs_.push_back(meta);
  arrays_.push_back(std::move(array));
  return static_cast<ArrayId>(arrays_.size() - 1);
}

ArrayId Program::add_map(std::vector<int64_t> shape, DType dtype, ExprId e, std::string label, NodeId node) {
  if (expr(e).type != dtype) {
    broken(label + ": defined as " + std::string(short_name_of(expr(e).type)) + ", declared as " +
           std::string(short_name_of(dtype)));
  }
  Array array;
  array.shape = std::move(shape);
  array.dtype = dtype;
  array.expr = e;
  array.label = std::move(label);
  array.node = node;
  arrays_.push_back(std::move(array));
  return static_cast<ArrayId>(arrays_.size() - 1);
}

ArrayId Program::add_reduce(std::vector<int64_t> shape, DType dtype, ReduceOp op,
                            std::vector<int64_t> extents, ExprId e, std::string label, NodeId node) {
  const DType element = expr(e).type;
  const bool position = op == ReduceOp::kArgMax || op == ReduceOp::kArgMin;
  if (position ? dtype != DType::kInt64 : element != dtype) {
    broken(label + ": a " + std::string(name_of(op)) + " of " + std::string(short_name_of(element)) +
           " declared as " + std::string(short_name_of(dtype)));
  }
  if ((op == ReduceOp::kAny || op == ReduceOp::kAll) && element != DType::kBool)
    broken(label + ": any, all of no bool");
  if (!position && (element == DType::kFloat16 || element == DType::kBFloat16) && op != ReduceOp::kMax &&
      op != ReduceOp::kMin) {
    broken(label + ": a fold in a 16-bit float");
  }
  Array array;
  array.kind = Array::Kind::kReduce;
  array.shape = std::move(shape);
  array.dtype = dtype;
  array.op = op;
  array.extents = std::move(extents);
  array.expr = e;
  array.label = std::move(label);
  array.node = node;
  arrays_.push_back(std::move(array));
  return static_cast<ArrayId>(arrays_.size() - 1);
}

// ---- expressions ----

ExprId Program::intern(Expr e) {
  const size_t hash = hash_of(e);
  const auto [first, last] = interned_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (same(expr(it->second), e)) return it->second;
  }
  const auto id = static_cast<ExprId>(exprs_.size());
  ranges_.push_back(computed_range(e));
  exprs_.push_back(std::move(e));
  interned_.emplace(hash, id);
  return id;
}

ExprId Program::index(int axis, int64_t extent) {
  if (extent == 1) return integer(0);
  Expr e;
  e.kind = Expr::Kind::kIndex;
  e.axis = axis;
  e.extent = extent;
  return intern(std::move(e));
}

ExprId Program::reduce_index(int axis, int64_t extent) {
  if (extent == 1) return integer(0);
  Expr e;
  e.kind = Expr::Kind::kReduceIndex;
  e.axis = axis;
  e.extent = extent;
  return intern(std::move(e));
}

ExprId Program::integer(int64_t v, DType type) {
  if (!is_integral(type, true)) return real(static_cast<double>(v), type);
  Expr e;
  e.type = type;
  e.int_value = wrap_to(v, type);
  return intern(std::move(e));
}

ExprId Program::real(double v, DType type) {
  if (type == DType::kBool) return integer(v != 0, type);
  // A float outside the integers' range has no value there; the saturated one keeps this defined.
  if (is_integral(type, false)) {
    const double cut =
        std::isnan(v) ? 0.0 : std::clamp(std::trunc(v), -9223372036854774784.0, 9223372036854774784.0);
    return integer(static_cast<int64_t>(cut), type);
  }
  Expr e;
  e.type = type;
  e.value = round_to(v, type);
  return intern(std::move(e));
}

ExprId Program::boolean(bool v) { return integer(v, DType::kBool); }

ExprId Program::read(ArrayId from, std::vector<ExprId> indices) {
  Expr e;
  e.kind = Expr::Kind::kRead;
  e.array = from;
  e.type = array(from).dtype;
  if (indices.size() != array(from).shape.size()) {
    broken(array(from).label + ": read with " + std::to_string(indices.size()) + " indices");
  }
  for (const ExprId i : indices) {
    if (expr(i).type != DType::kInt64) broken(array(from).label + ": an index that is no int64");
  }
  e.args = std::move(indices);
  return intern(std::move(e));
}

ExprId Program::cast(ExprId id, DType type) {
  const Expr e = expr(id);
  if (e.type == type) return id;
  if (e.kind == Expr::Kind::kConst) {
    if (is_integral(e.type, true)) {
      return is_floating(type) ? real(static_cast<double>(e.int_value), type) : integer(e.int_value, type);
    }
    // The value of an out-of-range float as an integer is the device's affair: not folded.
    if (is_floating(type)) return real(e.value, type);
  }
  if (e.kind == Expr::Kind::kCast) {
    const ExprId inner = e.args[0];
    const DType source = expr(inner).type;
    if (holds_all_of(e.type, source)) {
      if (source == type) return inner;
      // Between floats the wider step in the middle changes nothing; between integers neither.
      if (is_floating(source) == is_floating(type) && type != DType::kBool &&
          is_floating(e.type) == is_floating(type)) {
        return cast(inner, type);
      }
    }
  }
  Expr out;
  out.kind = Expr::Kind::kCast;
  out.type = type;
  out.args = {id};
  return intern(std::move(out));
}

ExprId Program::select(ExprId condition, ExprId then_value, ExprId else_value) {
  if (expr(condition).type != DType::kBool) broken("a select whose condition is no bool");
  if (expr(then_value).type != expr(else_value).type) broken("a select between two types");
  if (then_value == else_value) return then_value;
  const Expr& c = expr(condition);
  if (c.kind == Expr::Kind::kConst) return c.int_value != 0 ? then_value : else_value;
  Expr out;
  out.kind = Expr::Kind::kSelect;
  out.type = expr(then_value).type;
  out.args = {condition, then_value, else_value};
  return intern(std::move(out));
}

ExprId Program::plain_call(Fn fn, std::vector<ExprId> args) {
  Expr out;
  out.kind = Expr::Kind::kCall;
  out.fn = fn;
  out.type = gives_bool(fn) ? DType::kBool : expr(args[0]).type;
  out.args = std::move(args);
  return intern(std::move(out));
}

ExprId Program::call(Fn fn, std::vector<ExprId> args) {
  if (args.size() != arity_of(fn)) {
    broken(std::string(name_of(fn)) + " of " + std::to_string(args.size()) + " operands");
    args.resize(arity_of(fn), args.empty() ? integer(0) : args[0]);
  }
  const DType type = expr(args[0]).type;
  for (const ExprId arg : args) {
    if (expr(arg).type != type) {
      broken(std::string(name_of(fn)) + " of " + std::string(short_name_of(type)) + " and " +
             std::string(short_name_of(expr(arg).type)));
      break;
    }
  }
  if (const std::string_view rule = operand_rule(fn, type); !rule.empty()) {
    broken(std::string(name_of(fn)) + ": " + std::string(rule));
  }
  if (type == DType::kInt64 || type == DType::kBool) {
    if (misuse_.empty()) return IndexSimplifier(*this).call(fn, std::move(args));
  }
  return plain_call(fn, std::move(args));
}

// ---- the worker's form ----

namespace {

class JsonWriter {
 public:
  explicit JsonWriter(const Program& program)
      : program_(program), uses_(program.exprs().size(), 0), depth_(program.exprs().size(), 0) {
    for (const Array& a : program.arrays()) {
      if (a.expr != kNoExpr) count(a.expr);
    }
  }

  Json write() {
    Json arrays = Json::array();
    for (size_t i = 0; i < program_.arrays().size(); ++i) arrays.push_back(array(static_cast<ArrayId>(i)));
    Json out = Json::object();
    out["arrays"] = std::move(arrays);
    out["exprs"] = std::move(table_);
    out["outputs"] = program_.outputs;
    return out;
  }

 private:
  void count(ExprId root) {
    std::vector<ExprId> stack = {root};
    while (!stack.empty()) {
      const ExprId id = stack.back();
      stack.pop_back();
      if (++uses_[static_cast<size_t>(id)] > 1) continue;
      for (const ExprId arg : program_.expr(id).args) stack.push_back(arg);
    }
  }

  // Entries of the table below the place that refers to them: operands are written before their expression.
  Json reference(ExprId id) {
    const Expr& e = program_.expr(id);
    if (e.args.empty()) return text(e);
    auto it = entry_.find(id);
    if (it == entry_.end()) {
      Json body = text(e);
      // A long chain is cut as well: readers of JSON limit its nesting.
      int depth = 1;
      for (const ExprId arg : e.args) depth = std::max(depth, depth_[static_cast<size_t>(arg)] + 1);
      const bool listed = uses_[static_cast<size_t>(id)] > 1 || depth > kMaxDepth;
      depth_[static_cast<size_t>(id)] = listed ? 0 : depth;
      if (!listed) return body;
      it = entry_.emplace(id, table_.size()).first;
      table_.push_back(std::move(body));
    }
    return Json::array({"e", it->second});
  }

  Json text(const Expr& e) {
    switch (e.kind) {
      case Expr::Kind::kIndex: return Json::array({"iv", e.axis});
      case Expr::Kind::kReduceIndex: return Json::array({"rv", e.axis});
      case Expr::Kind::kConst: return Json::array({"c", constant(e), short_name_of(e.type)});
      case Expr::Kind::kRead: {
        Json indices = Json::array();
        for (const ExprId arg : e.args) indices.push_back(reference(arg));
        return Json::array({"read", e.array, std::move(indices)});
      }
      case Expr::Kind::kCast: return Json::array({"cast", reference(e.args[0]), short_name_of(e.type)});
      case Expr::Kind::kSelect:
      case Expr::Kind::kCall: {
        Json out = Json::array({e.kind == Expr::Kind::kSelect ? std::string_view("select") : name_of(e.fn)});
        for (const ExprId arg : e.args) out.push_back(reference(arg));
        return out;
      }
    }
    return {};
  }

  static Json constant(const Expr& e) {
    if (e.type == DType::kBool) return e.int_value != 0;
    if (is_integral(e.type, false)) return e.int_value;
    if (std::isnan(e.value)) return "nan";
    if (std::isinf(e.value)) return e.value > 0 ? "inf" : "-inf";
    return e.value;
  }

  Json array(ArrayId id) {
    const Array& a = program_.array(id);
    Json out = Json::object();
    out["id"] = id;
    out["kind"] = a.kind == Array::Kind::kInput ? "input" : a.kind == Array::Kind::kMap ? "map" : "reduce";
    out["shape"] = a.shape;
    out["dtype"] = short_name_of(a.dtype);
    out["label"] = a.label;
    if (a.kind == Array::Kind::kInput) out["input"] = a.input;
    if (a.kind == Array::Kind::kReduce) {
      out["op"] = name_of(a.op);
      out["extents"] = a.extents;
    }
    if (a.kind != Array::Kind::kInput) out["expr"] = reference(a.expr);
    return out;
  }

  static constexpr int kMaxDepth = 32;

  const Program& program_;
  std::vector<int> uses_;
  std::vector<int> depth_;  // nesting of an expression's text where it is not in the table
  std::unordered_map<ExprId, size_t> entry_;
  Json table_ = Json::array();
};

}  // namespace

Json Program::to_json() const { return JsonWriter(*this).write(); }

// ---- operators ----

E E::constant(double v) const { return {program, program->real(v, type())}; }

E call(Fn fn, E a) { return {a.program, a.program->call(fn, {a.id})}; }
E call(Fn fn, E a, E b) { return {a.program, a.program->call(fn, {a.id, b.id})}; }
E call(Fn fn, E a, E b, E c) { return {a.program, a.program->call(fn, {a.id, b.id, c.id})}; }
E select(E condition, E then_value, E else_value) {
  return {condition.program, condition.program->select(condition.id, then_value.id, else_value.id)};
}
E operator+(E a, E b) { return call(Fn::kAdd, a, b); }
E operator-(E a, E b) { return call(Fn::kSub, a, b); }
E operator*(E a, E b) { return call(Fn::kMul, a, b); }
E operator/(E a, E b) { return call(Fn::kDiv, a, b); }
E operator-(E a) { return call(Fn::kNeg, a); }
E operator+(E a, double b) { return a + a.constant(b); }
E operator-(E a, double b) { return a - a.constant(b); }
E operator*(E a, double b) { return a * a.constant(b); }
E operator/(E a, double b) { return a / a.constant(b); }
E operator+(double a, E b) { return b.constant(a) + b; }
E operator-(double a, E b) { return b.constant(a) - b; }
E operator*(double a, E b) { return b.constant(a) * b; }
E operator/(double a, E b) { return b.constant(a) / b; }

}  // namespace passnet
