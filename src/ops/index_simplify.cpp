#include "ops/index_simplify.h"

#include <algorithm>

namespace passnet {

namespace {

int64_t floor_div(int64_t a, int64_t b) { return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0); }
int64_t floor_mod(int64_t a, int64_t b) { return a - floor_div(a, b) * b; }

std::optional<std::pair<int64_t, int64_t>> times(std::pair<int64_t, int64_t> a,
                                                 std::pair<int64_t, int64_t> b) {
  int64_t low = 0, high = 0;
  bool first = true;
  for (const int64_t x : {a.first, a.second}) {
    for (const int64_t y : {b.first, b.second}) {
      int64_t v = 0;
      if (__builtin_mul_overflow(x, y, &v)) return std::nullopt;
      low = first ? v : std::min(low, v);
      high = first ? v : std::max(high, v);
      first = false;
    }
  }
  return std::pair(low, high);
}

std::optional<std::pair<int64_t, int64_t>> plus(std::pair<int64_t, int64_t> a,
                                                std::pair<int64_t, int64_t> b) {
  std::pair<int64_t, int64_t> out;
  if (__builtin_add_overflow(a.first, b.first, &out.first)) return std::nullopt;
  if (__builtin_add_overflow(a.second, b.second, &out.second)) return std::nullopt;
  return out;
}

}  // namespace

Program::Range Program::range(ExprId e) const { return ranges_[static_cast<size_t>(e)]; }

// The range of one expression from those of its operands; int64 (and bool as 0, 1) only.
Program::Range Program::computed_range(const Expr& e) const {
  if (e.type != DType::kInt64) {
    if (e.type != DType::kBool) return std::nullopt;
    if (e.kind == Expr::Kind::kConst) return std::pair(e.int_value, e.int_value);
    return std::pair<int64_t, int64_t>(0, 1);
  }
  switch (e.kind) {
    case Expr::Kind::kIndex:
    case Expr::Kind::kReduceIndex: return std::pair<int64_t, int64_t>(0, std::max<int64_t>(e.extent - 1, 0));
    case Expr::Kind::kConst: return std::pair(e.int_value, e.int_value);
    case Expr::Kind::kRead: return std::nullopt;
    case Expr::Kind::kCast: return expr(e.args[0]).type == DType::kBool ? range(e.args[0]) : std::nullopt;
    case Expr::Kind::kSelect: {
      const Range a = range(e.args[1]), b = range(e.args[2]);
      if (!a || !b) return std::nullopt;
      return std::pair(std::min(a->first, b->first), std::max(a->second, b->second));
    }
    case Expr::Kind::kCall: break;
  }
  const Range a = range(e.args[0]);
  const Range b = e.args.size() > 1 ? range(e.args[1]) : std::nullopt;
  switch (e.fn) {
    // A remainder is bounded whatever is divided.
    case Fn::kMod:
      if (!b || b->first <= 0) return std::nullopt;
      if (a && a->first >= 0) return std::pair<int64_t, int64_t>(0, std::min(a->second, b->second - 1));
      return std::pair<int64_t, int64_t>(0, b->second - 1);
    case Fn::kMin:
    case Fn::kMax:
      if (!a || !b) return std::nullopt;
      if (e.fn == Fn::kMin) return std::pair(std::min(a->first, b->first), std::min(a->second, b->second));
      return std::pair(std::max(a->first, b->first), std::max(a->second, b->second));
    default: break;
  }
  if (!a) return std::nullopt;
  if (e.fn == Fn::kNeg) return times(*a, {-1, -1});
  if (e.fn == Fn::kAbs) {
    if (a->first >= 0) return a;
    const Range negative = times(*a, {-1, -1});
    if (!negative) return std::nullopt;
    return std::pair(a->second < 0 ? negative->first : 0, std::max(a->second, negative->second));
  }
  if (!b) return std::nullopt;
  switch (e.fn) {
    case Fn::kAdd: return plus(*a, *b);
    case Fn::kSub: {
      const Range negative = times(*b, {-1, -1});
      return negative ? plus(*a, *negative) : std::nullopt;
    }
    case Fn::kMul: return times(*a, *b);
    case Fn::kFloorDiv:
      if (b->first <= 0 || b->first != b->second) return std::nullopt;
      return std::pair(floor_div(a->first, b->first), floor_div(a->second, b->first));
    case Fn::kTruncDiv:
      if (b->first <= 0 || b->first != b->second) return std::nullopt;
      return std::pair(a->first / b->first, a->second / b->first);
    default: return std::nullopt;
  }
}

std::optional<int64_t> IndexSimplifier::constant_of(ExprId e) const {
  const Expr& x = p_.expr(e);
  if (x.kind != Expr::Kind::kConst) return std::nullopt;
  return x.int_value;
}

bool IndexSimplifier::add(Sum& to, const Sum& from, int64_t factor) {
  int64_t scaled = 0;
  if (__builtin_mul_overflow(from.constant, factor, &scaled)) return false;
  if (__builtin_add_overflow(to.constant, scaled, &to.constant)) return false;
  for (const Term& t : from.terms) {
    if (__builtin_mul_overflow(t.factor, factor, &scaled)) return false;
    const auto at = std::lower_bound(to.terms.begin(), to.terms.end(), t.atom,
                                     [](const Term& x, ExprId id) { return x.atom < id; });
    if (at != to.terms.end() && at->atom == t.atom) {
      if (__builtin_add_overflow(at->factor, scaled, &at->factor)) return false;
      if (at->factor == 0) to.terms.erase(at);
    } else if (scaled != 0) {
      to.terms.insert(at, {t.atom, scaled});
    }
  }
  return true;
}

// Reads a canonical sum back; everything else is an atom.
IndexSimplifier::Sum IndexSimplifier::sum_of(ExprId id) const {
  const Expr& e = p_.expr(id);
  Sum out;
  if (e.kind == Expr::Kind::kConst) {
    out.constant = e.int_value;
    return out;
  }
  if (e.kind == Expr::Kind::kCall) {
    if (e.fn == Fn::kAdd || e.fn == Fn::kSub) {
      out = sum_of(e.args[0]);
      if (add(out, sum_of(e.args[1]), e.fn == Fn::kAdd ? 1 : -1)) return out;
    } else if (e.fn == Fn::kMul) {
      if (const auto c = constant_of(e.args[1]); c && add(out, sum_of(e.args[0]), *c)) return out;
    }
    out = {};
  }
  out.terms.push_back({id, 1});
  return out;
}

IndexSimplifier::Range IndexSimplifier::range_of(const Sum& sum) const {
  Range total = std::pair(sum.constant, sum.constant);
  for (const Term& t : sum.terms) {
    const Range atom = p_.range(t.atom);
    if (!atom) return std::nullopt;
    const Range scaled = times(*atom, {t.factor, t.factor});
    if (!scaled) return std::nullopt;
    total = plus(*total, *scaled);
    if (!total) return std::nullopt;
  }
  return total;
}

// c * (x % n) + (c * n) * (x / n) becomes c * x, until no pair is left.
void IndexSimplifier::join_quotients(Sum& sum) {
  for (bool again = true; again;) {
    again = false;
    for (const Term& t : sum.terms) {
      const Expr e = p_.expr(t.atom);
      if (e.kind != Expr::Kind::kCall || e.fn != Fn::kMod) continue;
      const auto n = constant_of(e.args[1]);
      int64_t wanted = 0;
      if (!n || *n <= 0 || __builtin_mul_overflow(t.factor, *n, &wanted)) continue;
      const ExprId quotient = divide(e.args[0], *n);
      const Sum form = sum_of(quotient);
      if (form.terms.size() != 1 || form.constant != 0 || form.terms[0].factor != 1) continue;
      const auto other = std::find_if(sum.terms.begin(), sum.terms.end(), [&](const Term& x) {
        return x.atom == quotient && x.factor == wanted;
      });
      if (other == sum.terms.end()) continue;
      Sum joined = sum;
      const Term remainder_term = t;
      std::erase_if(joined.terms,
                    [&](const Term& x) { return x.atom == quotient || x.atom == remainder_term.atom; });
      if (!add(joined, sum_of(e.args[0]), remainder_term.factor)) continue;
      sum = std::move(joined);
      again = true;
      break;
    }
  }
}

// The canonical text of a sum: large factors first (as an address is written), then the older atom, the constant last.
ExprId IndexSimplifier::build(Sum sum) {
  join_quotients(sum);
  std::stable_sort(sum.terms.begin(), sum.terms.end(), [](const Term& a, const Term& b) {
    if ((a.factor > 0) != (b.factor > 0)) return a.factor > 0;
    return a.factor > 0 ? a.factor > b.factor : a.factor < b.factor;
  });
  ExprId out = kNoExpr;
  for (const Term& t : sum.terms) {
    const bool minus = t.factor < 0 && t.factor != INT64_MIN;
    if (out == kNoExpr && minus && sum.constant != 0) {
      out = p_.integer(sum.constant);
      sum.constant = 0;
    }
    const int64_t size = minus && out != kNoExpr ? -t.factor : t.factor;
    const ExprId term = size == 1 ? t.atom : p_.plain_call(Fn::kMul, {t.atom, p_.integer(size)});
    out = out == kNoExpr ? term : p_.plain_call(minus ? Fn::kSub : Fn::kAdd, {out, term});
  }
  if (out == kNoExpr) return p_.integer(sum.constant);
  if (sum.constant == 0) return out;
  if (sum.constant < 0 && sum.constant != INT64_MIN) {
    return p_.plain_call(Fn::kSub, {out, p_.integer(-sum.constant)});
  }
  return p_.plain_call(Fn::kAdd, {out, p_.integer(sum.constant)});
}

ExprId IndexSimplifier::linear(Fn fn, ExprId a, ExprId b) {
  if (fn == Fn::kMul) {
    if (constant_of(a)) std::swap(a, b);
    const auto c = constant_of(b);
    Sum out;
    if (c && add(out, sum_of(a), *c)) return build(std::move(out));
    if (a > b) std::swap(a, b);
    return p_.plain_call(Fn::kMul, {a, b});
  }
  Sum out = sum_of(a);
  if (add(out, sum_of(b), fn == Fn::kAdd ? 1 : -1)) return build(std::move(out));
  return p_.plain_call(fn, {a, b});
}

// a // by for by > 0. With a = by * q + r: q + r // by, and r // by is 0 where r is known to lie in [0, by).
ExprId IndexSimplifier::divide(ExprId a, int64_t by) {
  if (by == 1) return a;
  const Sum form = sum_of(a);
  if (!range_of(form)) {
    // Operands read from memory may be anything, so only whole terms that cannot overflow are looked at.
    if (form.terms.empty()) return p_.integer(floor_div(form.constant, by));
    return p_.plain_call(Fn::kFloorDiv, {a, p_.integer(by)});
  }
  Sum whole, rest;
  for (const Term& t : form.terms) {
    if (t.factor % by == 0) {
      whole.terms.push_back({t.atom, t.factor / by});
    } else {
      rest.terms.push_back(t);
    }
  }
  whole.constant = floor_div(form.constant, by);
  rest.constant = floor_mod(form.constant, by);
  const Range r = range_of(rest);
  if (r && floor_div(r->first, by) == floor_div(r->second, by)) {
    whole.constant += floor_div(r->first, by);
    return build(std::move(whole));
  }
  // A common part g of by and of some factors: (g * x + y) // (g * k) = x // k where y lies in [0, g).
  for (const Term& candidate : rest.terms) {
    const int64_t g = candidate.factor < 0 ? -candidate.factor : candidate.factor;
    if (g <= 1 || by % g != 0) continue;
    Sum upper, lower;
    for (const Term& t : rest.terms) {
      if (t.factor % g == 0) {
        upper.terms.push_back({t.atom, t.factor / g});
      } else {
        lower.terms.push_back(t);
      }
    }
    upper.constant = floor_div(rest.constant, g);
    lower.constant = floor_mod(rest.constant, g);
    const Range low = range_of(lower);
    if (!low || low->first < 0 || low->second >= g) continue;
    Sum out = whole;
    if (add(out, sum_of(divide(build(std::move(upper)), by / g)), 1)) return build(std::move(out));
  }
  // (x // m) // by = x // (m * by); (x % (by * k)) // by = (x // by) % k.
  if (rest.terms.size() == 1 && rest.constant == 0 && rest.terms[0].factor == 1) {
    const Expr e = p_.expr(rest.terms[0].atom);
    const auto m = e.kind == Expr::Kind::kCall && e.args.size() == 2 ? constant_of(e.args[1]) : std::nullopt;
    int64_t joined = 0;
    Sum inner;
    bool found = false;
    if (m && *m > 0 && e.fn == Fn::kFloorDiv && !__builtin_mul_overflow(*m, by, &joined)) {
      inner = sum_of(divide(e.args[0], joined));
      found = true;
    } else if (m && *m > 0 && e.fn == Fn::kMod && *m % by == 0) {
      inner = sum_of(remainder(divide(e.args[0], by), *m / by));
      found = true;
    }
    if (found && add(inner, whole, 1)) return build(std::move(inner));
  }
  const ExprId left = p_.plain_call(Fn::kFloorDiv, {build(std::move(rest)), p_.integer(by)});
  if (!add(whole, sum_of(left), 1)) return p_.plain_call(Fn::kFloorDiv, {a, p_.integer(by)});
  return build(std::move(whole));
}

// a % by for by > 0: multiples of by drop out; a value known to lie in one period needs no remainder.
ExprId IndexSimplifier::remainder(ExprId a, int64_t by) {
  if (by == 1) return p_.integer(0);
  const Sum form = sum_of(a);
  if (form.terms.empty()) return p_.integer(floor_mod(form.constant, by));
  if (!range_of(form)) return p_.plain_call(Fn::kMod, {a, p_.integer(by)});
  Sum rest;
  for (const Term& t : form.terms) {
    if (t.factor % by != 0) rest.terms.push_back(t);
  }
  rest.constant = floor_mod(form.constant, by);
  const Range r = range_of(rest);
  if (r && floor_div(r->first, by) == floor_div(r->second, by)) {
    rest.constant -= floor_div(r->first, by) * by;
    return build(std::move(rest));
  }
  // (g * x + y) % (g * k) = g * (x % k) + y where y lies in [0, g).
  for (const Term& candidate : rest.terms) {
    const int64_t g = candidate.factor < 0 ? -candidate.factor : candidate.factor;
    if (g <= 1 || by % g != 0) continue;
    Sum upper, lower;
    for (const Term& t : rest.terms) {
      if (t.factor % g == 0) {
        upper.terms.push_back({t.atom, t.factor / g});
      } else {
        lower.terms.push_back(t);
      }
    }
    upper.constant = floor_div(rest.constant, g);
    lower.constant = floor_mod(rest.constant, g);
    const Range low = range_of(lower);
    if (!low || low->first < 0 || low->second >= g) continue;
    if (add(lower, sum_of(remainder(build(std::move(upper)), by / g)), g)) return build(std::move(lower));
  }
  if (rest.terms.size() == 1 && rest.constant == 0 && rest.terms[0].factor == 1) {
    const Expr e = p_.expr(rest.terms[0].atom);
    if (e.kind == Expr::Kind::kCall && e.fn == Fn::kMod) {
      const auto m = constant_of(e.args[1]);
      if (m && *m > 0 && *m % by == 0) return remainder(e.args[0], by);
    }
  }
  return p_.plain_call(Fn::kMod, {build(std::move(rest)), p_.integer(by)});
}

ExprId IndexSimplifier::compare(Fn fn, ExprId a, ExprId b) {
  Sum difference = sum_of(a);
  if (add(difference, sum_of(b), -1)) {
    // Whether a - b is always or never what the comparison asks; the difference of unbounded operands may wrap.
    const Range r = p_.range(a) && p_.range(b) ? range_of(difference) : std::nullopt;
    if (a == b || r) {
      const int64_t low = r ? r->first : 0, high = r ? r->second : 0;
      switch (fn) {
        case Fn::kLt:
          if (high < 0) return p_.boolean(true);
          if (low >= 0) return p_.boolean(false);
          break;
        case Fn::kLe:
          if (high <= 0) return p_.boolean(true);
          if (low > 0) return p_.boolean(false);
          break;
        case Fn::kGt:
          if (low > 0) return p_.boolean(true);
          if (high <= 0) return p_.boolean(false);
          break;
        case Fn::kGe:
          if (low >= 0) return p_.boolean(true);
          if (high < 0) return p_.boolean(false);
          break;
        default:
          if (low == 0 && high == 0) return p_.boolean(fn == Fn::kEq);
          if (low > 0 || high < 0) return p_.boolean(fn == Fn::kNe);
          break;
      }
    }
  }
  return p_.plain_call(fn, {a, b});
}

// Bool operands only; integers keep their bitwise functions as written.
ExprId IndexSimplifier::logic(Fn fn, std::vector<ExprId> args) {
  if (fn == Fn::kNot) {
    if (const auto c = constant_of(args[0])) return p_.boolean(*c == 0);
    const Expr& e = p_.expr(args[0]);
    if (e.kind == Expr::Kind::kCall && e.fn == Fn::kNot) return e.args[0];
    return p_.plain_call(fn, std::move(args));
  }
  if (constant_of(args[0])) std::swap(args[0], args[1]);
  const auto c = constant_of(args[1]);
  switch (fn) {
    case Fn::kAnd:
      if (c) return *c != 0 ? args[0] : args[1];
      if (args[0] == args[1]) return args[0];
      break;
    case Fn::kOr:
      if (c) return *c != 0 ? args[1] : args[0];
      if (args[0] == args[1]) return args[0];
      break;
    case Fn::kXor:
      if (c) return *c != 0 ? logic(Fn::kNot, {args[0]}) : args[0];
      if (args[0] == args[1]) return p_.boolean(false);
      break;
    default: break;
  }
  return p_.plain_call(fn, std::move(args));
}

ExprId IndexSimplifier::call(Fn fn, std::vector<ExprId> args) {
  if (p_.expr(args[0]).type == DType::kBool) {
    switch (fn) {
      case Fn::kAnd:
      case Fn::kOr:
      case Fn::kXor:
      case Fn::kNot: return logic(fn, std::move(args));
      default: return p_.plain_call(fn, std::move(args));
    }
  }
  switch (fn) {
    case Fn::kAdd:
    case Fn::kSub:
    case Fn::kMul: return linear(fn, args[0], args[1]);
    case Fn::kNeg: return linear(Fn::kMul, args[0], p_.integer(-1));
    case Fn::kFloorDiv:
      if (const auto by = constant_of(args[1]); by && *by > 0) return divide(args[0], *by);
      break;
    case Fn::kMod:
      if (const auto by = constant_of(args[1]); by && *by > 0) return remainder(args[0], *by);
      break;
    case Fn::kTruncDiv:
      // The same as the floor where nothing is negative.
      if (const auto by = constant_of(args[1]); by && *by > 0) {
        if (const Range r = p_.range(args[0]); r && r->first >= 0) return divide(args[0], *by);
        if (const auto c = constant_of(args[0])) return p_.integer(*c / *by);
      }
      break;
    case Fn::kMin:
    case Fn::kMax: {
      if (args[0] == args[1]) return args[0];
      const Range a = p_.range(args[0]), b = p_.range(args[1]);
      if (a && b && a->second <= b->first) return args[fn == Fn::kMin ? 0 : 1];
      if (a && b && b->second <= a->first) return args[fn == Fn::kMin ? 1 : 0];
      break;
    }
    case Fn::kAbs:
      if (const Range r = p_.range(args[0]); r && r->first >= 0) return args[0];
      break;
    case Fn::kLt:
    case Fn::kLe:
    case Fn::kGt:
    case Fn::kGe:
    case Fn::kEq:
    case Fn::kNe: return compare(fn, args[0], args[1]);
    default: break;
  }
  return p_.plain_call(fn, std::move(args));
}

}  // namespace passnet
