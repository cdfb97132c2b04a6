#include "codegen/emit.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "codegen/fn_text.h"
#include "codegen/space.h"
#include "codegen/stencil.h"
#include "ir/value.h"

namespace passnet::codegen {

namespace {

constexpr int64_t kInt32Max = (int64_t{1} << 31) - 1;

std::string identifier(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    out += word ? c : '_';
  }
  if (out.empty() || (out[0] >= '0' && out[0] <= '9') || out[0] == '_') out = "v" + out;
  return out;
}

// The shortest literal that a reader of the type takes for this value.
std::string float_literal(double v, DType t) {
  if (t != DType::kFloat32 || !std::isfinite(v)) return python_float(v);
  char digits[64];
  const auto end = std::to_chars(digits, digits + sizeof digits, static_cast<float>(v)).ptr;
  return python_float(std::strtod(std::string(digits, end).c_str(), nullptr));
}

bool is_half(DType t) { return t == DType::kFloat16 || t == DType::kBFloat16; }

std::string pointer_dtype(DType t) {
  switch (t) {
    case DType::kBool: return "*i1";
    case DType::kUInt8: return "*u8";
    case DType::kInt8: return "*i8";
    case DType::kInt16: return "*i16";
    case DType::kInt32: return "*i32";
    case DType::kInt64: return "*i64";
    case DType::kFloat16: return "*fp16";
    case DType::kBFloat16: return "*bf16";
    case DType::kFloat64: return "*fp64";
    default: return "*fp32";
  }
}

struct Scope {
  uint64_t bound = 0;  // loop variables that have a value here
  std::string head;    // the line that opens it
  int indent = 1;
  std::vector<std::string> lines;
  std::map<ValueId, std::string> values;
  std::map<std::tuple<VarId, int64_t, int64_t>, std::string> digits;
};

class Emitter {
 public:
  Emitter(const ProgramPlan& program, const KernelPlan& plan)
      : program_(program), plan_(plan), pool_(*plan.pool), graph_(*plan.graph) {}

  Result<KernelText> run();

 private:
  void survey();
  void bind_grid();
  Status stores(uint64_t loop_bit);
  Result<std::string> value(ValueId v);
  Result<std::string> expression(ValueId v);
  Result<std::string> load(ValueId v);
  Result<std::string> call(ValueId v);
  Result<std::string> shared_division(ValueId v);
  Status reduction(ValueId v);
  Status loop(ValueId v, const IterVar& var);
  Status product(ValueId v);
  Result<std::string> folded(const ValueNode& n, const std::string& body, const std::string& position);
  // A constant as an operand: bare where the other operand fixes the type.
  std::string constant(const ValueNode& n, bool bare);
  Result<std::string> index(IndexId id);
  Result<std::string> term(const IndexTerm& t);
  std::string digit(VarId v, int64_t div, int64_t mod);
  std::string hoist(const char* prefix, int64_t value);
  std::string name(const std::string& wish);
  std::string dtype(DType t);
  std::string identity(ReduceOp op, DType t);
  std::string combine(const ValueNode& n, const std::string& acc, const std::string& body);
  std::string shape_of(uint64_t deps);
  std::string lanes_in(uint64_t deps) const;
  void open(const IterVar& var);
  void close();
  void line(size_t scope, const std::string& text) {
    scopes_[scope].lines.push_back(std::string(static_cast<size_t>(scopes_[scope].indent) * 4, ' ') + text);
  }
  size_t scope_for(uint64_t deps) const;
  uint64_t row_bits() const;
  uint64_t column_bits() const;
  const IterVar* var_of(VarId id) const;
  bool reads_zero_outside(const ValueNode& choice) const;
  std::string pointer(int32_t buffer);
  void need(const std::string& helper);

  const ProgramPlan& program_;
  const KernelPlan& plan_;
  IndexPool& pool_;
  ValueGraph& graph_;
  std::vector<Scope> scopes_;
  uint64_t loop_mask_ = 0;
  bool two_dimensional_ = false;
  bool wide_ = false;
  DType half_ = DType::kFloat32;  // the one 16-bit type, if there is one
  std::map<ValueId, int> uses_;
  std::map<ValueId, int> level_;
  std::set<ValueId> reached_;
  std::map<VarId, std::string> var_text_, block_text_;
  std::map<std::pair<std::string, int64_t>, std::string> hoisted_;
  std::map<std::string, int> prefix_count_;
  std::set<std::string> taken_;
  std::map<int32_t, std::string> pointers_;
  std::map<ValueId, std::string> reciprocals_;  // by divisor; none varies within a loop
  std::set<std::string> helpers_;
  KernelText out_;
};

void Emitter::survey() {
  for (const StorePlan& s : plan_.stores) {
    reachable(graph_, s.value, reached_);
    ++uses_[s.value];
  }
  std::set<DType> halves;
  const auto see_type = [&](DType t) {
    if (is_half(t)) halves.insert(t);
  };
  int64_t farthest = 0;
  const auto see_index = [&](IndexId id) {
    const Interval r = pool_.range(id);
    if (r.bounded()) farthest = std::max({farthest, r.hi, -r.lo});
  };
  for (const ValueId v : reached_) {
    const ValueNode& n = graph_.node(v);
    see_type(n.type);
    for (const ValueId a : n.args) ++uses_[a];
    if (n.index != kNoIndex) see_index(n.index);
    int level = 0;
    // Ids grow from operands to users, and reached_ is sorted: operands have their level.
    for (const ValueId a : n.args) level = std::max(level, level_[a]);
    level_[v] = level + (n.kind == ValueNode::Kind::kReduce ? 1 : 0);
  }
  for (const StorePlan& s : plan_.stores) {
    see_type(s.dtype);
    see_index(s.offset);
  }
  if (halves.size() == 1) half_ = *halves.begin();
  for (const IterVar& v : plan_.vars) {
    if (v.looped()) loop_mask_ |= IndexPool::bit(v.id);
    if (v.role != IterVar::Role::kFlat && v.role != IterVar::Role::kSerial) two_dimensional_ = true;
    farthest = std::max(farthest, v.extent + v.block);
    var_text_[v.id] = v.name;
    taken_.insert(v.name);
  }
  wide_ = farthest > kInt32Max - 65536;
  for (const char* word :
       {"tl",     "triton",   "torch", "libdevice", "pid",    "float", "range", "int",   "bool",
        "abs",    "max",      "min",   "sum",       "pow",    "round", "any",   "all",   "and",
        "or",     "not",      "is",    "in",        "if",     "else",  "for",   "while", "def",
        "return", "lambda",   "None",  "True",      "False",  "pass",  "with",  "as",    "from",
        "import", "global",   "del",   "try",       "except", "raise", "class", "yield", "assert",
        "break",  "continue", "print", "len",       "type",   "DT"}) {
    taken_.insert(word);
  }
}

std::string Emitter::name(const std::string& wish) {
  const std::string base = identifier(wish);
  std::string out = base;
  for (int k = 2; !taken_.insert(out).second; ++k) out = fmt::format("{}_{}", base, k);
  return out;
}

std::string Emitter::dtype(DType t) {
  if (is_half(t) && t == half_) return "DT";
  return triton_dtype(t);
}

std::string Emitter::hoist(const char* prefix, int64_t value) {
  const auto key = std::pair(std::string(prefix), value);
  if (const auto it = hoisted_.find(key); it != hoisted_.end()) return it->second;
  const std::string n = fmt::format("{}{}", prefix, prefix_count_[prefix]++);
  taken_.insert(n);
  out_.constants.emplace_back(n, std::to_string(value));
  hoisted_.emplace(key, n);
  return n;
}

const IterVar* Emitter::var_of(VarId id) const {
  for (const IterVar& v : plan_.vars) {
    if (v.id == id) return &v;
  }
  return nullptr;
}

size_t Emitter::scope_for(uint64_t deps) const {
  const uint64_t needed = deps & loop_mask_;
  for (size_t s = 0; s < scopes_.size(); ++s) {
    if ((needed & ~scopes_[s].bound) == 0) return s;
  }
  return scopes_.size() - 1;
}

uint64_t Emitter::row_bits() const {
  uint64_t out = 0;
  for (const IterVar& v : plan_.vars) out |= v.role == IterVar::Role::kRow ? IndexPool::bit(v.id) : 0;
  return out;
}

uint64_t Emitter::column_bits() const {
  uint64_t out = 0;
  for (const IterVar& v : plan_.vars) out |= v.role == IterVar::Role::kCol ? IndexPool::bit(v.id) : 0;
  return out;
}

std::string Emitter::pointer(int32_t buffer) { return pointers_.at(buffer); }

void Emitter::need(const std::string& helper) {
  if (helper.empty()) return;
  helpers_.insert(helper);
  if (helper == "_mod_float" || helper == "_floor_div_float") out_.uses_libdevice = true;
}

void Emitter::bind_grid() {
  std::vector<const IterVar*> grid;
  for (const IterVar& v : plan_.vars) {
    switch (v.role) {
      case IterVar::Role::kFlat: block_text_[v.id] = "BLOCK"; break;
      case IterVar::Role::kRow: block_text_[v.id] = "ROWS"; break;
      case IterVar::Role::kCol: block_text_[v.id] = "COLS"; break;
      case IterVar::Role::kLane: block_text_[v.id] = "BLOCK_" + v.name; break;
      case IterVar::Role::kInner: block_text_[v.id] = "INNER"; break;
      default: break;
    }
    if (block_text_.count(v.id) && !v.first) {
      for (char& c : block_text_[v.id]) c = static_cast<char>(std::toupper(c));
      out_.constants.emplace_back(block_text_[v.id], std::to_string(v.block));
    }
    if (v.role != IterVar::Role::kLane && !v.looped()) grid.push_back(&v);
  }
  line(0, wide_ ? "pid = tl.program_id(0).to(tl.int64)" : "pid = tl.program_id(0)");
  int64_t below = 1;
  for (size_t k = grid.size(); k-- > 0;) {
    const IterVar& v = *grid[k];
    const int64_t blocks = (v.extent + v.block - 1) / v.block;
    std::string at = "pid";
    if (below > 1) at += " // " + hoist("G", below);
    if (k > 0) at += " % " + hoist("G", blocks);
    below *= blocks;
    if (v.role == IterVar::Role::kOuter) {
      line(0, fmt::format("{} = {}", v.name, at));
      continue;
    }
    const std::string& block = block_text_[v.id];
    const char* side = !two_dimensional_ ? "" : v.role == IterVar::Role::kRow ? "[:, None]" : "[None, :]";
    line(0, fmt::format("{} = {} * {} + tl.arange(0, {}){}", v.name, at, block, block, side));
    if (v.masked()) line(0, fmt::format("{}_in = {} < {}", v.name, v.name, hoist("N", v.extent)));
  }
  for (const IterVar& v : plan_.vars) {
    if (v.role != IterVar::Role::kLane || v.looped()) continue;
    line(0, fmt::format("{} = tl.arange(0, {})[None, :]", v.name, block_text_[v.id]));
    if (v.masked()) line(0, fmt::format("{}_in = {} < {}", v.name, v.name, hoist("N", v.extent)));
  }
}

void Emitter::open(const IterVar& v) {
  Scope s;
  s.bound = scopes_.back().bound | IndexPool::bit(v.id);
  s.indent = scopes_.back().indent + 1;
  const std::string n = hoist("N", v.extent);
  if (v.role == IterVar::Role::kSerial) {
    s.head = fmt::format("for {}_at in tl.static_range({}):", v.name, n);
    scopes_.push_back(std::move(s));
    line(scopes_.size() - 1,
         fmt::format("{} = tl.full([], {}_at, {})", v.name, v.name, wide_ ? "tl.int64" : "tl.int32"));
    return;
  }
  const std::string& block = block_text_[v.id];
  s.head = fmt::format("for {}_at in range(0, {}, {}):", v.name, n, block);
  scopes_.push_back(std::move(s));
  line(scopes_.size() - 1, fmt::format("{} = {}_at + tl.arange(0, {})[None, :]", v.name, v.name, block));
  if (v.masked()) line(scopes_.size() - 1, fmt::format("{}_in = {} < {}", v.name, v.name, n));
}

void Emitter::close() {
  Scope inner = std::move(scopes_.back());
  scopes_.pop_back();
  // Written only now: what the loop does not change has meanwhile gone before it.
  line(scopes_.size() - 1, inner.head);
  auto& lines = scopes_.back().lines;
  lines.insert(lines.end(), inner.lines.begin(), inner.lines.end());
}

std::string Emitter::lanes_in(uint64_t deps) const {
  std::string out;
  for (const IterVar& v : plan_.vars) {
    if (!v.masked() || (deps & IndexPool::bit(v.id)) == 0) continue;
    out += (out.empty() ? "" : " & ") + v.name + "_in";
  }
  return out;
}

std::string Emitter::shape_of(uint64_t deps) {
  std::string first = two_dimensional_ ? "1" : "", second = "1";
  for (const IterVar& v : plan_.vars) {
    if ((deps & IndexPool::bit(v.id)) == 0 || !block_text_.count(v.id)) continue;
    (v.role == IterVar::Role::kRow || v.role == IterVar::Role::kFlat || v.first ? first : second) =
        block_text_[v.id];
  }
  return two_dimensional_ ? fmt::format("[{}, {}]", first, second) : fmt::format("[{}]", first);
}

// ---- index expressions ----

std::string Emitter::digit(VarId v, int64_t div, int64_t mod) {
  const std::string& var = var_text_.at(v);
  if (div == 1 && mod == 0) return var;
  const size_t s = scope_for(IndexPool::bit(v));
  const auto key = std::tuple(v, div, mod);
  if (const auto it = scopes_[s].digits.find(key); it != scopes_[s].digits.end()) return it->second;
  std::string text = var;
  const IterVar* iter = var_of(v);
  if (iter != nullptr && iter->aligned && div % iter->block == 0) {
    // Counted once for the whole block, not by every lane.
    for (const IterVar& k : plan_.vars) {
      if (k.role == IterVar::Role::kInner && !k.first) text = k.name + "_at";
    }
  }
  if (div != 1) text += " // " + hoist("D", div);
  if (mod != 0) text += " % " + hoist("D", mod);
  const std::string n = name(var + "_d");
  line(s, fmt::format("{} = {}", n, text));
  scopes_[s].digits.emplace(key, n);
  return n;
}

Result<std::string> Emitter::term(const IndexTerm& t) {
  switch (t.kind) {
    case IndexTerm::Kind::kDigit: return digit(t.ref, t.div, t.mod);
    case IndexTerm::Kind::kAtom: return value(t.ref);
    case IndexTerm::Kind::kQuotient:
    case IndexTerm::Kind::kRemainder: {
      // Triton divides toward zero, so the dividend is first made non-negative.
      const bool quotient = t.kind == IndexTerm::Kind::kQuotient;
      const int64_t d = quotient ? t.div : t.mod;
      const Interval r = pool_.range(t.ref);
      int64_t lift = 0;
      if (r.lo > -Interval::kFar && r.lo < 0) lift = (-r.lo + d - 1) / d;
      PN_TRY(const std::string inner, index(lift == 0 ? t.ref : pool_.add(t.ref, pool_.constant(lift * d))));
      const std::string by = hoist("D", d);
      if (r.lo <= -Interval::kFar) {
        const std::string rest = fmt::format("(({}) % {} + {}) % {}", inner, by, by, by);
        return quotient ? fmt::format("((({}) - {}) // {})", inner, rest, by) : fmt::format("({})", rest);
      }
      if (!quotient) return fmt::format("(({}) % {})", inner, by);
      if (lift == 0) return fmt::format("(({}) // {})", inner, by);
      return fmt::format("(({}) // {} - {})", inner, by, hoist("A", lift));
    }
  }
  return internal_error("codegen.term", "an index term of no kind");
}

Result<std::string> Emitter::index(IndexId id) {
  const IndexSum& sum = pool_.sum(id);
  std::vector<IndexTerm> terms = sum.terms;
  // Large steps first, as people write offsets.
  std::stable_sort(terms.begin(), terms.end(), [](const IndexTerm& a, const IndexTerm& b) {
    return std::abs(a.coefficient) > std::abs(b.coefficient);
  });
  std::string out;
  for (const IndexTerm& t : terms) {
    PN_TRY(std::string one, term(t));
    const int64_t c = std::abs(t.coefficient);
    if (c != 1) one += " * " + hoist("S", c);
    if (out.empty()) {
      out = t.coefficient < 0 ? "-" + one : one;
    } else {
      out += (t.coefficient < 0 ? " - " : " + ") + one;
    }
  }
  const int64_t k = sum.constant;
  if (out.empty()) return k == 0 ? std::string("0") : k < 0 ? "-" + hoist("A", -k) : hoist("A", k);
  if (k != 0) out += (k < 0 ? " - " : " + ") + hoist("A", std::abs(k));
  return out;
}

// ---- values ----

std::string Emitter::constant(const ValueNode& n, bool bare) {
  std::string literal;
  if (is_floating(n.type)) {
    const double a = std::abs(n.value);
    literal = a <= 1.7976931348623157e308 ? float_literal(n.value, n.type)
                                          : fmt::format("float(\"{}\")", python_float(n.value));
    // Triton reads a float literal as float32 only in this range.
    const bool plain = n.value == 0 || !(a <= 1.7976931348623157e308) ||
                       (a >= 1.1754943508222875e-38 && a <= 3.4028234663852886e38);
    bare = bare && n.type == DType::kFloat32 && plain;
  } else if (n.type == DType::kBool) {
    literal = n.int_value != 0 ? "True" : "False";
    bare = false;
  } else {
    literal = std::to_string(n.int_value);
  }
  if (bare) return n.value < 0 || n.int_value < 0 ? "(" + literal + ")" : literal;
  return fmt::format("tl.full([], {}, {})", literal, dtype(n.type));
}

Result<std::string> Emitter::value(ValueId v) {
  const ValueNode& n = graph_.node(v);
  if (n.kind == ValueNode::Kind::kConst) return constant(n, false);
  for (const Scope& s : scopes_) {
    if (const auto it = s.values.find(v); it != s.values.end()) return it->second;
  }
  if (n.kind == ValueNode::Kind::kSelect && reads_zero_outside(n)) return value(n.args[1]);
  if (n.kind == ValueNode::Kind::kIndex) {
    PN_TRY(const std::string text, index(n.index));
    return "(" + text + ")";
  }
  if (n.kind == ValueNode::Kind::kReduce || n.kind == ValueNode::Kind::kDot) {
    PN_CHECK_OK(n.kind == ValueNode::Kind::kDot ? product(v) : reduction(v));
    for (const Scope& s : scopes_) {
      if (const auto it = s.values.find(v); it != s.values.end()) return it->second;
    }
    return internal_error("codegen.emit", "a reduction was not written");
  }
  PN_TRY(const std::string text, expression(v));
  // Conversions used once stand where they are used.
  if (n.kind == ValueNode::Kind::kCast && uses_[v] <= 1 && text.size() < 90) return text;
  if (n.kind == ValueNode::Kind::kCall && uses_[v] <= 1 && text.size() < 36 && n.type != DType::kBool)
    return "(" + text + ")";
  const size_t s = scope_for(graph_.deps(v));
  std::string wish = "t";
  if (n.kind == ValueNode::Kind::kLoad) {
    wish = program_.buffers[static_cast<size_t>(n.buffer)].name + "_v";
  } else if (const std::string* hint = graph_.hint(v)) {
    wish = *hint;
  }
  const std::string out = name(wish);
  line(s, fmt::format("{} = {}", out, text));
  scopes_[s].values.emplace(v, out);
  return out;
}

// A choice between a read under a condition, perhaps widened, and zero: the read alone is zero where the condition is false.
bool Emitter::reads_zero_outside(const ValueNode& choice) const {
  const ValueNode& otherwise = graph_.node(choice.args[2]);
  if (otherwise.kind != ValueNode::Kind::kConst || otherwise.int_value != 0 || otherwise.value != 0 ||
      std::signbit(otherwise.value)) {
    return false;
  }
  const ValueNode* read = &graph_.node(choice.args[1]);
  if (read->kind == ValueNode::Kind::kCast && is_floating(read->type)) read = &graph_.node(read->args[0]);
  return read->kind == ValueNode::Kind::kLoad && is_floating(read->type) &&
         read->args == std::vector{choice.args[0]};
}

Result<std::string> Emitter::load(ValueId v) {
  const ValueNode& n = graph_.node(v);
  PN_TRY(std::string offset, index(n.index));
  uint64_t deps = pool_.deps(n.index);
  std::string mask;
  if (!n.args.empty()) {
    PN_TRY(mask, value(n.args[0]));
    const uint64_t more = graph_.deps(n.args[0]);
    if ((more & ~deps) != 0 && shape_of(more | deps) != shape_of(deps)) {
      // The condition spans more axes than the position: one address a lane all the same.
      // A constant is no tensor yet.
      offset = pool_.is_constant(n.index)
                   ? fmt::format("tl.full({}, {}, {})", shape_of(more | deps), offset,
                                 wide_ ? "tl.int64" : "tl.int32")
                   : fmt::format("tl.broadcast_to({}, {})", offset, shape_of(more | deps));
    }
    deps |= more;
  }
  const std::string lanes = lanes_in(deps);
  if (!lanes.empty()) mask = mask.empty() ? lanes : fmt::format("{} & {}", mask, lanes);
  const std::string address =
      offset == "0" ? pointer(n.buffer) : fmt::format("{} + {}", pointer(n.buffer), offset);
  if (mask.empty()) return fmt::format("tl.load({})", address);
  return fmt::format("tl.load({}, mask={}, other={})", address, mask, is_floating(n.type) ? "0.0" : "0");
}

// A division whose divisor many lanes share costs one reciprocal for all of them and a correction for each; empty where
// it does not apply.
Result<std::string> Emitter::shared_division(ValueId v) {
  const ValueNode& n = graph_.node(v);
  const ValueNode& divisor = graph_.node(n.args[1]);
  uint64_t fast = 0;
  for (const IterVar& var : plan_.vars) {
    if (var.role == IterVar::Role::kFlat || var.role == IterVar::Role::kCol ||
        var.role == IterVar::Role::kLane) {
      fast |= IndexPool::bit(var.id);
    }
  }
  if ((graph_.deps(n.args[1]) & (fast | loop_mask_)) != 0 || (graph_.deps(n.args[0]) & fast) == 0)
    return std::string();
  PN_TRY(const std::string a, value(n.args[0]));
  if (divisor.kind == ValueNode::Kind::kConst) {
    int exponent = 0;
    if (std::abs(std::frexp(divisor.value, &exponent)) == 0.5 && std::abs(exponent) < 100) {
      return fmt::format("{} * {}", a, float_literal(1.0 / divisor.value, DType::kFloat32));
    }
  }
  PN_TRY(const std::string b, value(n.args[1]));
  auto it = reciprocals_.find(n.args[1]);
  if (it == reciprocals_.end()) {
    const std::string r = name("inverse");
    line(scope_for(graph_.deps(n.args[1])),
         fmt::format("{} = tl.div_rn(1.0, {})", r, without_parentheses(b)));
    it = reciprocals_.emplace(n.args[1], r).first;
  }
  need("_div_by");
  const std::string plain =
      divisor.kind == ValueNode::Kind::kConst ? constant(divisor, true) : without_parentheses(b);
  return fmt::format("_div_by({}, {}, {})", without_parentheses(a), plain, it->second);
}

Result<std::string> Emitter::call(ValueId v) {
  const ValueNode& n = graph_.node(v);
  bool fixed = false;  // some operand carries the type
  bool counted = false;
  for (const ValueId a : n.args) {
    fixed = fixed || graph_.node(a).kind != ValueNode::Kind::kConst;
    counted = counted || graph_.node(a).kind == ValueNode::Kind::kIndex;
  }
  if (n.fn == Fn::kDiv && n.type == DType::kFloat32 && fixed) {
    PN_TRY(std::string shared, shared_division(v));
    if (!shared.empty()) return shared;
  }
  std::vector<std::string> args;
  for (const ValueId a : n.args) {
    const ValueNode& arg = graph_.node(a);
    if (arg.kind == ValueNode::Kind::kConst) {
      if (counted && arg.type == DType::kInt64) {
        // A bound that an index is compared with changes with the sizes.
        args.push_back(arg.int_value == 0  ? "0"
                       : arg.int_value < 0 ? "(-" + hoist("L", -arg.int_value) + ")"
                                           : hoist("L", arg.int_value));
      } else {
        args.push_back(constant(arg, fixed));
      }
      continue;
    }
    PN_TRY(std::string text, value(a));
    args.push_back(std::move(text));
  }
  PN_TRY(const FnText text, fn_text(n.fn, graph_.node(n.args[0]).type, args));
  out_.uses_libdevice = out_.uses_libdevice || text.libdevice;
  need(text.helper);
  return text.text;
}

Result<std::string> Emitter::expression(ValueId v) {
  const ValueNode& n = graph_.node(v);
  switch (n.kind) {
    case ValueNode::Kind::kLoad: return load(v);
    case ValueNode::Kind::kCall: return call(v);
    case ValueNode::Kind::kCast: {
      PN_TRY(const std::string a, value(n.args[0]));
      if (n.type == DType::kBool) return fmt::format("({} != 0)", a);
      return fmt::format("{}.to({})", a, dtype(n.type));
    }
    case ValueNode::Kind::kSelect: {
      PN_TRY(const std::string c, value(n.args[0]));
      std::vector<std::string> sides;
      for (size_t k = 1; k < 3; ++k) {
        const ValueNode& side = graph_.node(n.args[k]);
        if (side.kind == ValueNode::Kind::kConst) {
          sides.push_back(constant(side, side.type == DType::kFloat32));
        } else {
          PN_TRY(std::string text, value(n.args[k]));
          sides.push_back(std::move(text));
        }
      }
      return fmt::format("tl.where({}, {}, {})", without_parentheses(c), without_parentheses(sides[0]),
                         without_parentheses(sides[1]));
    }
    default: return internal_error("codegen.emit", "a value of no kind");
  }
}

// ---- reductions ----

std::string Emitter::identity(ReduceOp op, DType t) {
  const bool low = op == ReduceOp::kMax || op == ReduceOp::kArgMax;
  switch (op) {
    case ReduceOp::kSum: return is_floating(t) ? "0.0" : "0";
    case ReduceOp::kProd: return is_floating(t) ? "1.0" : "1";
    case ReduceOp::kAny: return "False";
    case ReduceOp::kAll: return "True";
    default: break;
  }
  if (is_floating(t)) return low ? "float(\"-inf\")" : "float(\"inf\")";
  const int bits = t == DType::kBool ? 1 : size_of(t) * 8;
  if (t == DType::kUInt8) return low ? "0" : "255";
  if (bits == 64) return low ? "-9223372036854775808" : "9223372036854775807";
  const int64_t top = (int64_t{1} << (bits - 1)) - 1;
  return std::to_string(low ? -top - 1 : top);
}

std::string Emitter::combine(const ValueNode& n, const std::string& acc, const std::string& body) {
  const DType t = graph_.node(n.args[0]).type;
  switch (n.op) {
    case ReduceOp::kSum: return fmt::format("{} + {}", acc, body);
    case ReduceOp::kProd: return fmt::format("{} * {}", acc, body);
    case ReduceOp::kAny: return fmt::format("{} | {}", acc, body);
    case ReduceOp::kAll: return fmt::format("{} & {}", acc, body);
    default: break;
  }
  const char* fn = n.op == ReduceOp::kMax ? "maximum" : "minimum";
  return is_floating(t) ? fmt::format("tl.{}({}, {}, propagate_nan=tl.PropagateNan.ALL)", fn, acc, body)
                        : fmt::format("tl.{}({}, {})", fn, acc, body);
}

// The tile folded along its second axis.
Result<std::string> Emitter::folded(const ValueNode& n, const std::string& body,
                                    const std::string& position) {
  const DType t = graph_.node(n.args[0]).type;
  switch (n.op) {
    case ReduceOp::kSum: return fmt::format("tl.sum({}, 1, keep_dims=True)", body);
    case ReduceOp::kProd: need("_mul"); return fmt::format("tl.reduce({}, 1, _mul, keep_dims=True)", body);
    case ReduceOp::kAny: return fmt::format("tl.max(({}).to(tl.int32), 1, keep_dims=True) != 0", body);
    case ReduceOp::kAll: return fmt::format("tl.min(({}).to(tl.int32), 1, keep_dims=True) != 0", body);
    case ReduceOp::kArgMax:
    case ReduceOp::kArgMin: {
      const char* fn = n.op == ReduceOp::kArgMax ? "_max_at" : "_min_at";
      need(fn);
      return fmt::format("tl.reduce(({}, {}), 1, {}, keep_dims=True)", body, position, fn);
    }
    default: break;
  }
  const bool max = n.op == ReduceOp::kMax;
  if (!is_floating(t)) return fmt::format("tl.{}({}, 1, keep_dims=True)", max ? "max" : "min", body);
  need(max ? "_nan_max" : "_nan_min");
  return fmt::format("tl.reduce({}, 1, {}, keep_dims=True)", body, max ? "_nan_max" : "_nan_min");
}

Status Emitter::reduction(ValueId v) {
  const ValueNode& n = graph_.node(v);
  const IterVar* var = var_of(n.var);
  if (var == nullptr) return internal_error("codegen.emit", "a reduction over no variable");
  if (var->looped()) return loop(v, *var);
  const ValueNode& b = graph_.node(n.args[0]);
  const size_t s = scope_for(graph_.deps(v));
  PN_TRY(std::string body, value(n.args[0]));
  if (is_half(b.type)) body = fmt::format("{}.to(tl.float32)", body);  // exact, and the fold has one type
  const uint64_t body_deps = graph_.deps(n.args[0]);
  if ((body_deps & IndexPool::bit(var->id)) == 0) {
    body = fmt::format("tl.broadcast_to({}, {})", body, shape_of(body_deps | IndexPool::bit(var->id)));
  }
  if (var->masked())
    body =
        fmt::format("tl.where({}_in, {}, {})", var->name, without_parentheses(body), identity(n.op, b.type));
  const std::string out = name(graph_.hint(v) != nullptr ? *graph_.hint(v) : std::string(name_of(n.op)));
  if (n.op == ReduceOp::kArgMax || n.op == ReduceOp::kArgMin) {
    const std::string at = name("at");
    const uint64_t deps = body_deps | IndexPool::bit(var->id);
    line(s, fmt::format("{} = tl.broadcast_to({}, {})", at, var->name, shape_of(deps)));
    PN_TRY(const std::string fold, folded(n, body, at));
    line(s, fmt::format("{}_best, {} = {}", out, out, fold));
    line(s, fmt::format("{} = {}.to(tl.int64)", out, out));
  } else {
    PN_TRY(const std::string fold, folded(n, body, ""));
    line(s,
         fmt::format("{} = {}{}", out, fold, is_half(b.type) ? fmt::format(".to({})", dtype(b.type)) : ""));
  }
  scopes_[s].values.emplace(v, out);
  return {};
}

// One loop for all reductions over the same variable that are ready at the same time.
Status Emitter::loop(ValueId v, const IterVar& var) {
  std::vector<ValueId> group;
  const uint64_t outside = graph_.deps(v) & loop_mask_;
  for (const ValueId r : reached_) {
    const ValueNode& n = graph_.node(r);
    if (n.kind == ValueNode::Kind::kReduce && n.var == var.id && level_[r] == level_[v] &&
        (graph_.deps(r) & loop_mask_) == outside) {
      group.push_back(r);
    }
  }
  // What the bodies need from earlier loops is written before this one opens.
  for (const ValueId r : group) {
    std::set<ValueId> below;
    reachable(graph_, graph_.node(r).args[0], below);
    for (const ValueId b : below) {
      if (graph_.node(b).kind == ValueNode::Kind::kReduce && (graph_.deps(b) & IndexPool::bit(var.id)) == 0) {
        PN_TRY(const std::string ignored, value(b));
      }
    }
  }
  const size_t s = scope_for(outside);
  std::vector<std::string> accs;
  const bool lane = var.role == IterVar::Role::kLane;
  for (const ValueId r : group) {
    const ValueNode& n = graph_.node(r);
    const DType t = graph_.node(n.args[0]).type;
    const std::string acc = name((graph_.hint(r) != nullptr ? *graph_.hint(r) : std::string(name_of(n.op))) +
                                 (lane ? "_acc" : ""));
    const uint64_t deps = graph_.deps(r) | (lane ? IndexPool::bit(var.id) : 0);
    accs.push_back(acc);
    line(s, fmt::format("{} = tl.full({}, {}, {})", acc, shape_of(deps), identity(n.op, t),
                        is_half(t) ? "tl.float32" : dtype(t)));
    if (n.op == ReduceOp::kArgMax || n.op == ReduceOp::kArgMin) {
      line(s, fmt::format("{}_at = tl.full({}, {}, {})", acc, shape_of(deps), hoist("N", var.extent),
                          wide_ ? "tl.int64" : "tl.int32"));
    }
  }
  if (s + 1 != scopes_.size())
    return internal_error("codegen.emit", "a loop inside a loop it does not depend on");
  open(var);
  for (size_t k = 0; k < group.size(); ++k) {
    const ValueNode& n = graph_.node(group[k]);
    const DType t = graph_.node(n.args[0]).type;
    PN_TRY(std::string body, value(n.args[0]));
    if (is_half(t)) body = fmt::format("{}.to(tl.float32)", body);
    const bool masked = lane && var.masked();
    if (masked)
      body = fmt::format("tl.where({}_in, {}, {})", var.name, without_parentheses(body), identity(n.op, t));
    if (n.op == ReduceOp::kArgMax || n.op == ReduceOp::kArgMin) {
      const char* fn = n.op == ReduceOp::kArgMax ? "_max_at" : "_min_at";
      need(fn);
      line(scopes_.size() - 1, fmt::format("{}, {}_at = {}({}, {}_at, {}, {})", accs[k], accs[k], fn, accs[k],
                                           accs[k], body, var.name));
    } else {
      line(scopes_.size() - 1, fmt::format("{} = {}", accs[k], combine(n, accs[k], body)));
    }
  }
  close();
  for (size_t k = 0; k < group.size(); ++k) {
    const ValueNode& n = graph_.node(group[k]);
    const DType t = graph_.node(n.args[0]).type;
    const bool position = n.op == ReduceOp::kArgMax || n.op == ReduceOp::kArgMin;
    std::string out = accs[k];
    if (lane) {
      out = name(graph_.hint(group[k]) != nullptr ? *graph_.hint(group[k]) : std::string(name_of(n.op)));
      PN_TRY(const std::string fold, folded(n, accs[k], accs[k] + "_at"));
      if (position) {
        line(s, fmt::format("{}_best, {} = {}", out, out, fold));
      } else {
        line(s, fmt::format("{} = {}", out, fold));
      }
    }
    if (position)
      line(s, fmt::format("{} = {}.to(tl.int64)", lane ? out : accs[k], lane ? out : accs[k] + "_at"));
    if (!position && is_half(t)) line(s, fmt::format("{} = {}.to({})", out, out, dtype(t)));
    scopes_[s].values.emplace(group[k], out);
  }
  return {};
}

// A loop over blocks of the inner axis; the factors are tiles of what they are computed from.
Status Emitter::product(ValueId v) {
  const ValueNode& n = graph_.node(v);
  const IterVar* k = var_of(n.var);
  const IterVar* kt = var_of(n.other);
  if (k == nullptr || kt == nullptr || scopes_.size() != 1)
    return internal_error("codegen.emit", "a product inside a loop");
  const std::string acc = name(graph_.hint(v) != nullptr ? *graph_.hint(v) : std::string("product"));
  line(0, fmt::format("{} = tl.full({}, 0.0, tl.float32)", acc, shape_of(graph_.deps(v))));
  open(*k);
  scopes_.back().bound |= IndexPool::bit(kt->id);
  line(1, fmt::format("{} = {}_at + tl.arange(0, {})[:, None]", kt->name, k->name, block_text_[k->id]));
  if (kt->masked()) line(1, fmt::format("{}_in = {} < {}", kt->name, kt->name, hoist("N", kt->extent)));
  ValueId factor[2] = {n.args[0], n.args[1]};
  // What was only widened from a 16-bit type goes to the matrix units as it was.
  const auto narrow = [&](ValueId f) {
    const ValueNode& node = graph_.node(f);
    return node.kind == ValueNode::Kind::kCast && is_half(graph_.node(node.args[0]).type) ? node.args[0]
                                                                                          : kNoValue;
  };
  const ValueId a16 = narrow(factor[0]), b16 = narrow(factor[1]);
  const bool half = a16 != kNoValue && b16 != kNoValue && graph_.node(a16).type == graph_.node(b16).type;
  if (half) {
    factor[0] = a16;
    factor[1] = b16;
  }
  std::string tiles[2];
  for (size_t side = 0; side < 2; ++side) {
    const IterVar& inner = side == 0 ? *k : *kt;
    PN_TRY(std::string text, value(factor[side]));
    const uint64_t outer = side == 0 ? row_bits() : column_bits();
    if ((graph_.deps(factor[side]) & outer) == 0) {
      text = fmt::format("tl.broadcast_to({}, {})", text, shape_of(outer | IndexPool::bit(inner.id)));
    }
    // A masked load is zero beyond the end; what is computed from it may not be.
    if (inner.masked() && graph_.node(factor[side]).kind != ValueNode::Kind::kLoad) {
      text = fmt::format("tl.where({}_in, {}, {})", inner.name, without_parentheses(text),
                         half ? fmt::format("tl.full([], 0.0, {})", dtype(graph_.node(factor[side]).type))
                              : std::string("0.0"));
    }
    tiles[side] = without_parentheses(text);
  }
  const auto in_tf32 = [&](ValueId f) {
    const ValueNode& node = graph_.node(f);
    return node.kind == ValueNode::Kind::kCall && node.fn == Fn::kTf32;
  };
  // Named also where 16-bit factors make it idle: the same text may serve float32.
  line(1, fmt::format("{0} = tl.dot({1}, {2}, {0}, input_precision=\"{3}\")", acc, tiles[0], tiles[1],
                      in_tf32(n.args[0]) && in_tf32(n.args[1]) ? "tf32" : "tf32x3"));
  close();
  scopes_[0].values.emplace(v, acc);
  return {};
}

// ---- the whole ----

Status Emitter::stores(uint64_t loop_bit) {
  // Nothing is loaded across a store, which may have changed it: where results share loads, all stores come last.
  if (plan_.schedule == "stencil") {
    std::vector<ValueId> first = walked_in_order(graph_, pool_, reached_);
    for (const StorePlan& s : plan_.stores) first.push_back(s.value);
    for (const ValueId v : first) {
      PN_TRY(const std::string ignored, value(v));
    }
  }
  for (size_t k = 0; k < plan_.stores.size(); ++k) {
    const StorePlan& s = plan_.stores[k];
    if ((pool_.deps(s.offset) & loop_mask_) != loop_bit) continue;
    PN_TRY(const std::string offset, index(s.offset));
    PN_TRY(const std::string text, value(s.value));
    const std::string& p = pointers_.at(-1 - static_cast<int32_t>(k));
    const std::string address = offset == "0" ? p : fmt::format("{} + {}", p, offset);
    const std::string mask = lanes_in(pool_.deps(s.offset));
    const std::string stored = without_parentheses(text);
    // A single element out of a tile of one.
    const bool scalar = pool_.deps(s.offset) == 0;
    const size_t at = scopes_.size() - 1;
    if (scalar && two_dimensional_) {
      line(at, fmt::format("tl.store({} + tl.zeros([1, 1], tl.int32), {})", address, stored));
      continue;
    }
    if (scalar && !two_dimensional_) {
      line(at, fmt::format("tl.store({} + tl.zeros([BLOCK], tl.int32), {}, mask=tl.arange(0, BLOCK) == 0)",
                           address, stored));
      continue;
    }
    line(at, mask.empty() ? fmt::format("tl.store({}, {})", address, stored)
                          : fmt::format("tl.store({}, {}, mask={})", address, stored, mask));
  }
  return {};
}

Result<KernelText> Emitter::run() {
  survey();
  std::set<int32_t> read;
  for (const ValueId v : reached_) {
    if (graph_.node(v).kind == ValueNode::Kind::kLoad) read.insert(graph_.node(v).buffer);
  }
  std::vector<std::string> pointer_names;
  const auto add_pointer = [&](int32_t key, const std::string& wish, DType type) {
    std::string n = identifier(wish) + "_ptr";
    for (int k = 2; !taken_.insert(n).second; ++k) n = fmt::format("{}{}_ptr", identifier(wish), k);
    pointers_[key] = n;
    pointer_names.push_back(n);
    out_.pointer_dtypes.push_back(pointer_dtype(type));
  };
  for (const int32_t b : read) {
    out_.reads.push_back(b);
    add_pointer(b, program_.buffers[static_cast<size_t>(b)].name,
                program_.buffers[static_cast<size_t>(b)].dtype);
  }
  for (size_t k = 0; k < plan_.stores.size(); ++k) {
    const StorePlan& s = plan_.stores[k];
    const auto same =
        std::find_if(plan_.stores.begin(), plan_.stores.begin() + static_cast<ptrdiff_t>(k),
                     [&](const StorePlan& o) { return o.output == s.output && o.scratch == s.scratch; });
    if (const auto first = same - plan_.stores.begin(); first < static_cast<ptrdiff_t>(k)) {
      pointers_[-1 - static_cast<int32_t>(k)] = pointers_.at(-1 - static_cast<int32_t>(first));
      continue;
    }
    out_.writes.emplace_back(s.output, s.scratch);
    add_pointer(-1 - static_cast<int32_t>(k),
                s.output >= 0 ? "out" : program_.buffers[static_cast<size_t>(s.scratch)].name, s.dtype);
  }
  scopes_.push_back({});
  if (half_ != DType::kFloat32) out_.constants.emplace_back("DT", triton_dtype(half_));
  bind_grid();
  // What only the tail reads is loaded after the product's loop: held through it, it takes the registers of the sums (1x1
  // convolutions with an addition: 124 us against 195, 551 against 742).
  for (const ValueId v : reached_) {
    if (graph_.node(v).kind != ValueNode::Kind::kDot) continue;
    PN_TRY(const std::string ignored, value(v));
  }
  PN_CHECK_OK(stores(0));
  for (const IterVar& v : plan_.vars) {
    if (!v.looped() || v.role != IterVar::Role::kLane) continue;
    const uint64_t bit = IndexPool::bit(v.id);
    bool any = false;
    for (const StorePlan& s : plan_.stores) {
      if ((pool_.deps(s.offset) & loop_mask_) != bit) continue;
      any = true;
      // Reductions that the loop needs are finished before it opens.
      std::set<ValueId> below;
      reachable(graph_, s.value, below);
      for (const ValueId b : below) {
        if (graph_.node(b).kind == ValueNode::Kind::kReduce && (graph_.deps(b) & loop_mask_) == 0) {
          PN_TRY(const std::string ignored, value(b));
        }
      }
    }
    if (!any) continue;
    open(v);
    PN_CHECK_OK(stores(bit));
    close();
  }
  std::string parameters;
  size_t column = 0;
  const auto add_parameter = [&](const std::string& p) {
    if (!parameters.empty()) {
      parameters += ",";
      column += 1;
      if (column + p.size() > 96) {
        parameters += "\n        ";
        column = 8;
      } else {
        parameters += " ";
        column += 1;
      }
    } else {
      column = 30;
    }
    parameters += p;
    column += p.size();
  };
  for (const std::string& p : pointer_names) add_parameter(p);
  for (const auto& [n, value] : out_.constants) add_parameter(n + ": tl.constexpr");
  out_.body = "(" + parameters + "):\n";
  for (const std::string& l : scopes_[0].lines) out_.body += l + "\n";
  out_.helpers.assign(helpers_.begin(), helpers_.end());
  return std::move(out_);
}

}  // namespace

std::string triton_dtype(DType t) {
  switch (t) {
    case DType::kBool: return "tl.int1";
    case DType::kUInt8: return "tl.uint8";
    case DType::kInt8: return "tl.int8";
    case DType::kInt16: return "tl.int16";
    case DType::kInt32: return "tl.int32";
    case DType::kInt64: return "tl.int64";
    case DType::kFloat16: return "tl.float16";
    case DType::kBFloat16: return "tl.bfloat16";
    case DType::kFloat64: return "tl.float64";
    default: return "tl.float32";
  }
}

Result<KernelText> write_kernel(const ProgramPlan& program, const KernelPlan& plan) {
  return Emitter(program, plan).run();
}

}  // namespace passnet::codegen
