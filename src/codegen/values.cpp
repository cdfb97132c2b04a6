#include "codegen/values.h"

#include <bit>
#include <numeric>

namespace passnet::codegen {

bool ValueNode::operator<(const ValueNode& o) const {
  // By bits: 0.0 and -0.0 are two constants, a NaN equals itself.
  const auto key = [](const ValueNode& n) {
    return std::tuple(n.kind, n.type, n.fn, n.op, n.var, n.other, n.buffer, n.index, n.int_value,
                      std::bit_cast<uint64_t>(n.value));
  };
  const auto a = key(*this), b = key(o);
  return a != b ? a < b : args < o.args;
}

ValueId ValueGraph::intern(ValueNode node, uint64_t deps) {
  const auto [it, fresh] = interned_.emplace(node, static_cast<ValueId>(nodes_.size()));
  if (fresh) {
    nodes_.push_back(std::move(node));
    deps_.push_back(deps);
  }
  return it->second;
}

const std::string* ValueGraph::hint(ValueId v) const {
  const auto it = hints_.find(v);
  return it == hints_.end() ? nullptr : &it->second;
}

ValueId ValueGraph::load(int32_t buffer, DType type, IndexId offset, ValueId condition) {
  ValueNode n;
  n.kind = ValueNode::Kind::kLoad;
  n.type = type;
  n.buffer = buffer;
  n.index = offset;
  uint64_t d = pool_.deps(offset);
  if (condition != kNoValue) {
    n.args = {condition};
    d |= deps(condition);
  }
  return intern(std::move(n), d);
}

ValueId ValueGraph::integer(int64_t v, DType type) {
  ValueNode n;
  n.type = type;
  n.int_value = v;
  return intern(std::move(n), 0);
}

ValueId ValueGraph::real(double v, DType type) {
  ValueNode n;
  n.type = type;
  n.value = v;
  return intern(std::move(n), 0);
}

ValueId ValueGraph::index(IndexId i) {
  if (pool_.is_constant(i)) return integer(pool_.sum(i).constant, DType::kInt64);
  ValueNode n;
  n.kind = ValueNode::Kind::kIndex;
  n.type = DType::kInt64;
  n.index = i;
  return intern(std::move(n), pool_.deps(i));
}

ValueId ValueGraph::cast(ValueId v, DType type) {
  if (node(v).type == type) return v;
  ValueNode n;
  n.kind = ValueNode::Kind::kCast;
  n.type = type;
  n.args = {v};
  return intern(std::move(n), deps(v));
}

ValueId ValueGraph::select(ValueId c, ValueId a, ValueId b) {
  if (a == b) return a;
  ValueNode n;
  n.kind = ValueNode::Kind::kSelect;
  n.type = node(a).type;
  n.args = {c, a, b};
  return intern(std::move(n), deps(c) | deps(a) | deps(b));
}

ValueId ValueGraph::call(Fn fn, DType type, std::vector<ValueId> args) {
  // Conditions over constants vanish; nothing else is folded.
  const auto truth = [&](ValueId v) {
    const ValueNode& n = node(v);
    return n.kind == ValueNode::Kind::kConst && n.type == DType::kBool ? (n.int_value != 0 ? 1 : 0) : -1;
  };
  if (type == DType::kBool && (fn == Fn::kAnd || fn == Fn::kOr)) {
    const int absorbing = fn == Fn::kAnd ? 0 : 1;
    for (int i = 0; i < 2; ++i) {
      const int t = truth(args[static_cast<size_t>(i)]);
      if (t == absorbing) return args[static_cast<size_t>(i)];
      if (t == 1 - absorbing) return args[static_cast<size_t>(1 - i)];
    }
    if (args[0] == args[1]) return args[0];
  }
  if (type == DType::kBool && fn == Fn::kNot && truth(args[0]) >= 0)
    return integer(1 - truth(args[0]), DType::kBool);
  ValueNode n;
  n.kind = ValueNode::Kind::kCall;
  n.type = type;
  n.fn = fn;
  uint64_t d = 0;
  for (const ValueId a : args) d |= deps(a);
  n.args = std::move(args);
  return intern(std::move(n), d);
}

ValueId ValueGraph::reduce(ReduceOp op, DType type, VarId var, ValueId body) {
  ValueNode n;
  n.kind = ValueNode::Kind::kReduce;
  n.type = type;
  n.op = op;
  n.var = var;
  n.args = {body};
  return intern(std::move(n), deps(body) & ~IndexPool::bit(var));
}

ValueId ValueGraph::dot(VarId var, VarId other, ValueId a, ValueId b) {
  ValueNode n;
  n.kind = ValueNode::Kind::kDot;
  n.var = var;
  n.other = other;
  n.args = {a, b};
  return intern(std::move(n), (deps(a) | deps(b)) & ~(IndexPool::bit(var) | IndexPool::bit(other)));
}

// ---- substitution ----

DType Lowering::shown(DType type) const {
  return strip_casts_ && (type == DType::kFloat16 || type == DType::kBFloat16) ? DType::kFloat32 : type;
}

Result<ValueId> Lowering::element(ArrayId array, std::vector<IndexId> at) {
  return read(array, at, kNoValue);
}
Result<ValueId> Lowering::definition(ArrayId array, std::vector<IndexId> at) {
  return define(array, at, kNoValue);
}

bool Lowering::in_bounds(const std::vector<IndexId>& at, const std::vector<int64_t>& shape) const {
  for (size_t i = 0; i < at.size(); ++i) {
    if (!pool_.range(at[i]).within(0, shape[i] - 1)) return false;
  }
  return true;
}

Result<ValueId> Lowering::read(ArrayId array, const std::vector<IndexId>& at, ValueId condition) {
  const auto stored = in_memory_.find(array);
  if (stored == in_memory_.end()) return define(array, at, condition);
  const Buffer& buffer = buffers_[static_cast<size_t>(stored->second)];
  IndexId offset = pool_.constant(0);
  for (size_t i = 0; i < at.size(); ++i) {
    if (buffer.shape[i] != 1) offset = pool_.add(offset, pool_.scale(at[i], buffer.stride[i]));
  }
  const ValueId guard = in_bounds(at, buffer.shape) ? kNoValue : condition;
  return graph_.load(stored->second, shown(buffer.dtype), offset, guard);
}

Result<ValueId> Lowering::define(ArrayId array, const std::vector<IndexId>& at, ValueId condition) {
  const Array& a = program_.array(array);
  const auto key = std::tuple(array, at, condition);
  if (const auto it = elements_.find(key); it != elements_.end()) return it->second;
  ValueId v = kNoValue;
  if (a.kind == Array::Kind::kReduce) {
    PN_TRY(v, reduce(array, at, condition));
  } else if (a.kind == Array::Kind::kMap) {
    Frame frame{at, {}, {}};
    PN_TRY(const Operand o, lower(a.expr, frame, condition));
    v = value_of(o);
  } else {
    return internal_error("codegen.input", "input " + a.label + " has no buffer");
  }
  const size_t dot = a.label.rfind('.');
  graph_.hint(v, dot == std::string::npos ? a.label : a.label.substr(dot + 1));
  elements_.emplace(key, v);
  return v;
}

Result<ValueId> Lowering::reduce(ArrayId array, const std::vector<IndexId>& at, ValueId condition) {
  const Array& a = program_.array(array);
  PN_TRY(const ReducePlan plan, policy_(array, at));
  const int64_t size = std::accumulate(a.extents.begin(), a.extents.end(), int64_t{1}, std::multiplies<>());
  if (plan.how == ReducePlan::How::kOver) {
    // Under a select the reads of the body need its condition only if the position itself may be outside.
    ValueId guard = in_bounds(at, a.shape) ? kNoValue : condition;
    const uint64_t bit = IndexPool::bit(plan.var);
    bool clash = guard != kNoValue && (graph_.deps(guard) & bit) != 0;
    for (const IndexId i : at) clash = clash || (pool_.deps(i) & bit) != 0;
    if (clash)
      return internal_error("codegen.reduce", a.label + ": position depends on the axis it is folded over");
    Frame frame{at, pool_.delinearize(pool_.var(plan.var), a.extents), {}};
    PN_TRY(const Operand o, lower(a.expr, frame, guard));
    return graph_.reduce(a.op, shown(a.dtype), plan.var, value_of(o));
  }
  if (plan.how == ReducePlan::How::kDot) {
    ValueId factor[2] = {kNoValue, kNoValue};
    for (int side = 0; side < 2; ++side) {
      Frame frame{at, pool_.delinearize(pool_.var(side == 0 ? plan.var : plan.other), a.extents), {}};
      PN_TRY(const Operand o, lower(a.expr, frame, in_bounds(at, a.shape) ? kNoValue : condition));
      const ValueNode& product = graph_.node(value_of(o));
      if (product.kind != ValueNode::Kind::kCall || product.fn != Fn::kMul) {
        return internal_error("codegen.dot", a.label + ": no sum of products");
      }
      for (const ValueId f : product.args) {
        const uint64_t d = graph_.deps(f);
        if (side == 0 ? (d & plan.columns) == 0 && (d & plan.rows) != 0
                      : (d & plan.rows) == 0 && (d & plan.columns) != 0) {
          factor[side] = f;
        }
      }
      if (factor[side] == kNoValue)
        return internal_error("codegen.dot", a.label + ": factors of no matrix product");
    }
    return graph_.dot(plan.var, plan.other, factor[0], factor[1]);
  }
  ValueId total = kNoValue;
  for (int64_t k = 0; k < size; ++k) {
    Frame frame{at, pool_.delinearize(pool_.constant(k), a.extents), {}};
    PN_TRY(const Operand o, lower(a.expr, frame, condition));
    const ValueId v = value_of(o);
    if (total == kNoValue) {
      total = v;
      continue;
    }
    Fn fn = Fn::kAdd;
    switch (a.op) {
      case ReduceOp::kSum: fn = Fn::kAdd; break;
      case ReduceOp::kProd: fn = Fn::kMul; break;
      case ReduceOp::kMax: fn = Fn::kMax; break;
      case ReduceOp::kMin: fn = Fn::kMin; break;
      case ReduceOp::kAny: fn = Fn::kOr; break;
      case ReduceOp::kAll: fn = Fn::kAnd; break;
      default:
        return user_error("codegen.unrolled_argmax", a.label + ": a position of an extreme is not unrolled");
    }
    total = graph_.call(fn, shown(a.dtype), {total, v});
  }
  return total;
}

ValueId Lowering::value_of(const Operand& o) { return o.value != kNoValue ? o.value : graph_.index(o.index); }

IndexId Lowering::index_of(const Operand& o) {
  if (o.index != kNoIndex) return o.index;
  const ValueNode& n = graph_.node(o.value);
  if (n.kind == ValueNode::Kind::kIndex) return n.index;
  if (n.kind == ValueNode::Kind::kConst) return pool_.constant(n.int_value);
  const auto it = ranges_.find(o.value);
  return pool_.atom(o.value, it == ranges_.end() ? Interval::unbounded() : it->second, graph_.deps(o.value));
}

Interval Lowering::range_of(const Operand& o) const {
  if (o.index != kNoIndex) return pool_.range(o.index);
  const ValueNode& n = graph_.node(o.value);
  if (n.kind == ValueNode::Kind::kConst) return {n.int_value, n.int_value};
  const auto it = ranges_.find(o.value);
  return it == ranges_.end() ? Interval::unbounded() : it->second;
}

Result<Lowering::Operand> Lowering::lower(ExprId e, Frame& frame, ValueId condition) {
  const auto key = std::pair(e, condition);
  if (const auto it = frame.memo.find(key); it != frame.memo.end()) return it->second;
  PN_TRY(const Operand o, lower_fresh(e, frame, condition));
  frame.memo.emplace(key, o);
  return o;
}

Result<Lowering::Operand> Lowering::lower_fresh(ExprId id, Frame& frame, ValueId condition) {
  const Expr& e = program_.expr(id);
  switch (e.kind) {
    case Expr::Kind::kIndex: return Operand{frame.at[static_cast<size_t>(e.axis)], kNoValue};
    case Expr::Kind::kReduceIndex: return Operand{frame.reduce_at[static_cast<size_t>(e.axis)], kNoValue};
    case Expr::Kind::kConst:
      if (e.type == DType::kInt64) return Operand{pool_.constant(e.int_value), kNoValue};
      if (is_integral(e.type, true)) return Operand{kNoIndex, graph_.integer(e.int_value, e.type)};
      return Operand{kNoIndex, graph_.real(e.value, shown(e.type))};
    case Expr::Kind::kRead: {
      std::vector<IndexId> at;
      for (const ExprId arg : e.args) {
        PN_TRY(const Operand o, lower(arg, frame, condition));
        at.push_back(index_of(o));
      }
      PN_TRY(const ValueId v, read(e.array, at, condition));
      return Operand{kNoIndex, v};
    }
    case Expr::Kind::kCast: {
      PN_TRY(const Operand o, lower(e.args[0], frame, condition));
      const ValueId v = graph_.cast(value_of(o), shown(e.type));
      if (is_integral(e.type, false)) {
        const Interval r = range_of(o);
        if (r.bounded() &&
            (e.type == DType::kInt64 || r.within(-(int64_t{1} << 31), (int64_t{1} << 31) - 1))) {
          ranges_.emplace(v, r);
        }
      }
      return Operand{kNoIndex, v};
    }
    case Expr::Kind::kSelect: {
      PN_TRY(const Operand c, lower(e.args[0], frame, condition));
      const ValueId cv = value_of(c);
      if (const ValueNode& n = graph_.node(cv); n.kind == ValueNode::Kind::kConst) {
        return lower(e.args[n.int_value != 0 ? 1 : 2], frame, condition);
      }
      const ValueId yes = condition == kNoValue ? cv : graph_.call(Fn::kAnd, DType::kBool, {condition, cv});
      const ValueId not_c = graph_.call(Fn::kNot, DType::kBool, {cv});
      const ValueId no =
          condition == kNoValue ? not_c : graph_.call(Fn::kAnd, DType::kBool, {condition, not_c});
      PN_TRY(const Operand a, lower(e.args[1], frame, yes));
      PN_TRY(const Operand b, lower(e.args[2], frame, no));
      const ValueId v = graph_.select(cv, value_of(a), value_of(b));
      if (e.type == DType::kInt64) {
        const Interval ra = range_of(a), rb = range_of(b);
        if (ra.bounded() && rb.bounded())
          ranges_.emplace(v, Interval{std::min(ra.lo, rb.lo), std::max(ra.hi, rb.hi)});
      }
      return Operand{kNoIndex, v};
    }
    case Expr::Kind::kCall: return lower_call(e, frame, condition);
  }
  return internal_error("codegen.expr", "an expression of no kind");
}

Result<Lowering::Operand> Lowering::lower_call(const Expr& e, Frame& frame, ValueId condition) {
  std::vector<Operand> args;
  for (const ExprId arg : e.args) {
    PN_TRY(const Operand o, lower(arg, frame, condition));
    args.push_back(o);
  }
  const bool integral = program_.expr(e.args[0]).type == DType::kInt64;
  bool index_only = integral;
  for (const Operand& o : args) index_only = index_only && o.index != kNoIndex;
  if (index_only) {
    const IndexId a = args[0].index, b = args.size() > 1 ? args[1].index : kNoIndex;
    const bool b_const = b != kNoIndex && pool_.is_constant(b);
    const int64_t bv = b_const ? pool_.sum(b).constant : 0;
    switch (e.fn) {
      case Fn::kAdd: return Operand{pool_.add(a, b), kNoValue};
      case Fn::kSub: return Operand{pool_.sub(a, b), kNoValue};
      case Fn::kNeg: return Operand{pool_.scale(a, -1), kNoValue};
      case Fn::kMul:
        if (b_const) return Operand{pool_.scale(a, bv), kNoValue};
        if (pool_.is_constant(a)) return Operand{pool_.scale(b, pool_.sum(a).constant), kNoValue};
        break;
      case Fn::kFloorDiv:
        if (b_const && bv > 0) return Operand{pool_.floor_div(a, bv), kNoValue};
        break;
      case Fn::kTruncDiv:
        if (b_const && bv > 0 && pool_.range(a).lo >= 0) return Operand{pool_.floor_div(a, bv), kNoValue};
        break;
      case Fn::kMod:
        if (b_const && bv > 0) return Operand{pool_.mod(a, bv), kNoValue};
        break;
      default: break;
    }
    // Comparisons that the intervals decide.
    if (b != kNoIndex) {
      const Interval d = pool_.range(pool_.sub(a, b));
      const auto decided = [&](bool v) { return Operand{kNoIndex, graph_.integer(v, DType::kBool)}; };
      switch (e.fn) {
        case Fn::kLt:
          if (d.hi < 0) return decided(true);
          if (d.lo >= 0) return decided(false);
          break;
        case Fn::kLe:
          if (d.hi <= 0) return decided(true);
          if (d.lo > 0) return decided(false);
          break;
        case Fn::kGt:
          if (d.lo > 0) return decided(true);
          if (d.hi <= 0) return decided(false);
          break;
        case Fn::kGe:
          if (d.lo >= 0) return decided(true);
          if (d.hi < 0) return decided(false);
          break;
        case Fn::kEq:
          if (d.lo == 0 && d.hi == 0) return decided(true);
          if (d.lo > 0 || d.hi < 0) return decided(false);
          break;
        case Fn::kNe:
          if (d.lo == 0 && d.hi == 0) return decided(false);
          if (d.lo > 0 || d.hi < 0) return decided(true);
          break;
        default: break;
      }
    }
  }
  std::vector<ValueId> values;
  for (const Operand& o : args) values.push_back(value_of(o));
  const ValueId v = graph_.call(e.fn, shown(e.type), std::move(values));
  if (integral && e.type == DType::kInt64 &&
      (e.fn == Fn::kMin || e.fn == Fn::kMax || e.fn == Fn::kAdd || e.fn == Fn::kSub)) {
    const Interval a = range_of(args[0]), b = range_of(args[1]);
    switch (e.fn) {
      case Fn::kMin: ranges_.emplace(v, Interval{std::min(a.lo, b.lo), std::min(a.hi, b.hi)}); break;
      case Fn::kMax: ranges_.emplace(v, Interval{std::max(a.lo, b.lo), std::max(a.hi, b.hi)}); break;
      case Fn::kAdd:
        if (a.bounded() && b.bounded()) ranges_.emplace(v, Interval{a.lo + b.lo, a.hi + b.hi});
        break;
      default:
        if (a.bounded() && b.bounded()) ranges_.emplace(v, Interval{a.lo - b.hi, a.hi - b.lo});
        break;
    }
  }
  return Operand{kNoIndex, v};
}

}  // namespace passnet::codegen
