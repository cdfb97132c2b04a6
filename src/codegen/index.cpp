#include "codegen/index.h"

#include <algorithm>
#include <numeric>

namespace passnet::codegen {

namespace {

__extension__ using Wide = __int128;

int64_t clamp_far(Wide v) {
  if (v > Interval::kFar) return Interval::kFar;
  if (v < -Interval::kFar) return -Interval::kFar;
  return static_cast<int64_t>(v);
}

int64_t floor_of(int64_t a, int64_t d) {
  const int64_t q = a / d;
  return a % d != 0 && (a < 0) != (d < 0) ? q - 1 : q;
}

int64_t modulo_of(int64_t a, int64_t m) { return a - floor_of(a, m) * m; }

Interval times(Interval r, int64_t k) {
  const Wide a = static_cast<Wide>(r.lo) * k, b = static_cast<Wide>(r.hi) * k;
  return {clamp_far(std::min(a, b)), clamp_far(std::max(a, b))};
}

Interval plus(Interval a, Interval b) {
  return {clamp_far(static_cast<Wide>(a.lo) + b.lo), clamp_far(static_cast<Wide>(a.hi) + b.hi)};
}

}  // namespace

bool IndexPool::Less::operator()(const IndexSum& a, const IndexSum& b) const {
  if (a.constant != b.constant) return a.constant < b.constant;
  return std::lexicographical_compare(a.terms.begin(), a.terms.end(), b.terms.begin(), b.terms.end(),
                                      [](const IndexTerm& x, const IndexTerm& y) {
                                        return std::tuple(x.key(), x.coefficient) <
                                               std::tuple(y.key(), y.coefficient);
                                      });
}

VarId IndexPool::add_var(int64_t extent) {
  extents_.push_back(extent);
  return static_cast<VarId>(extents_.size() - 1);
}

IndexId IndexPool::constant(int64_t value) { return intern({{}, value}); }

IndexId IndexPool::var(VarId v) { return intern({{IndexTerm{IndexTerm::Kind::kDigit, v, 1, 0, 1}}, 0}); }

IndexId IndexPool::atom(int32_t number, Interval range, uint64_t deps) {
  atoms_.emplace(number, std::pair(range, deps));
  return intern({{IndexTerm{IndexTerm::Kind::kAtom, number, 1, 0, 1}}, 0});
}

Interval IndexPool::term_range(const IndexTerm& t) const {
  switch (t.kind) {
    case IndexTerm::Kind::kDigit: {
      const int64_t top = (extent(t.ref) - 1) / t.div;
      return {0, std::max<int64_t>(0, t.mod == 0 ? top : std::min(top, t.mod - 1))};
    }
    case IndexTerm::Kind::kQuotient: {
      const Interval in = range(t.ref);
      return {in.lo <= -Interval::kFar ? in.lo : floor_of(in.lo, t.div),
              in.hi >= Interval::kFar ? in.hi : floor_of(in.hi, t.div)};
    }
    case IndexTerm::Kind::kRemainder: return {0, t.mod - 1};
    case IndexTerm::Kind::kAtom: return atoms_.at(t.ref).first;
  }
  return Interval::unbounded();
}

Interval IndexPool::sum_range(const IndexSum& s) const {
  Interval r{s.constant, s.constant};
  for (const IndexTerm& t : s.terms) r = plus(r, times(term_range(t), t.coefficient));
  return r;
}

void IndexPool::normalize(IndexSum& s) const {
  for (IndexTerm& t : s.terms) {
    if (t.kind != IndexTerm::Kind::kDigit) continue;
    const int64_t n = extent(t.ref);
    if (t.div >= n || t.mod == 1) {
      t.coefficient = 0;
    } else if (t.mod != 0 && static_cast<Wide>(t.div) * t.mod >= n) {
      t.mod = 0;
    }
  }
  bool again = true;
  while (again) {
    again = false;
    std::sort(s.terms.begin(), s.terms.end(),
              [](const IndexTerm& a, const IndexTerm& b) { return a.key() < b.key(); });
    std::vector<IndexTerm> merged;
    for (const IndexTerm& t : s.terms) {
      if (!merged.empty() && merged.back().key() == t.key()) {
        merged.back().coefficient += t.coefficient;
      } else {
        merged.push_back(t);
      }
    }
    std::erase_if(merged, [](const IndexTerm& t) { return t.coefficient == 0; });
    s.terms = std::move(merged);
    // c * digit(d, m) + c * m * digit(d * m, m2) is c * digit(d, m * m2).
    for (size_t i = 0; i < s.terms.size() && !again; ++i) {
      IndexTerm& low = s.terms[i];
      if (low.kind != IndexTerm::Kind::kDigit || low.mod == 0) continue;
      for (size_t j = 0; j < s.terms.size(); ++j) {
        const IndexTerm high = s.terms[j];
        if (high.kind != IndexTerm::Kind::kDigit || high.ref != low.ref || high.div != low.div * low.mod ||
            high.coefficient != low.coefficient * low.mod) {
          continue;
        }
        low.mod = high.mod == 0 ? 0 : low.mod * high.mod;
        s.terms.erase(s.terms.begin() + static_cast<ptrdiff_t>(j));
        again = true;
        break;
      }
    }
  }
}

IndexId IndexPool::intern(IndexSum s) {
  normalize(s);
  if (auto it = interned_.find(s); it != interned_.end()) return it->second;
  const auto id = static_cast<IndexId>(sums_.size());
  uint64_t deps = 0;
  for (const IndexTerm& t : s.terms) {
    switch (t.kind) {
      case IndexTerm::Kind::kDigit: deps |= bit(t.ref); break;
      case IndexTerm::Kind::kAtom: deps |= atoms_.at(t.ref).second; break;
      default: deps |= deps_[static_cast<size_t>(t.ref)];
    }
  }
  ranges_.push_back(sum_range(s));
  deps_.push_back(deps);
  interned_.emplace(s, id);
  sums_.push_back(std::move(s));
  return id;
}

IndexId IndexPool::add(IndexId a, IndexId b) {
  IndexSum s = sum(a);
  const IndexSum& other = sum(b);
  s.terms.insert(s.terms.end(), other.terms.begin(), other.terms.end());
  s.constant += other.constant;
  return intern(std::move(s));
}

IndexId IndexPool::sub(IndexId a, IndexId b) { return add(a, scale(b, -1)); }

IndexId IndexPool::scale(IndexId a, int64_t factor) {
  IndexSum s = sum(a);
  for (IndexTerm& t : s.terms) t.coefficient *= factor;
  s.constant *= factor;
  return intern(std::move(s));
}

bool IndexPool::split_scale(const IndexSum& rest, int64_t d, int64_t* c, IndexSum* big,
                            IndexSum* small) const {
  std::vector<int64_t> candidates;
  for (const IndexTerm& t : rest.terms) candidates.push_back(std::gcd(std::abs(t.coefficient), d));
  std::sort(candidates.rbegin(), candidates.rend());
  for (const int64_t k : candidates) {
    if (k <= 1) break;
    IndexSum b, s;
    for (const IndexTerm& t : rest.terms) {
      if (t.coefficient % k == 0) {
        b.terms.push_back(t);
        b.terms.back().coefficient /= k;
      } else {
        s.terms.push_back(t);
      }
    }
    s.constant = modulo_of(rest.constant, k);
    b.constant = (rest.constant - s.constant) / k;
    if (!sum_range(s).within(0, k - 1)) continue;
    *c = k;
    *big = std::move(b);
    *small = std::move(s);
    return true;
  }
  return false;
}

IndexId IndexPool::floor_div(IndexId a, int64_t d) {
  if (d == 1) return a;
  IndexSum whole, rest;
  const IndexSum& s = sum(a);
  for (const IndexTerm& t : s.terms) {
    IndexSum& side = t.coefficient % d == 0 ? whole : rest;
    side.terms.push_back(t);
    if (&side == &whole) side.terms.back().coefficient /= d;
  }
  rest.constant = modulo_of(s.constant, d);
  whole.constant = (s.constant - rest.constant) / d;
  const IndexId q = divide_rest(std::move(rest), d);
  return add(intern(std::move(whole)), q);
}

// floor(rest / d) where no coefficient is a multiple of d.
IndexId IndexPool::divide_rest(IndexSum rest, int64_t d) {
  const Interval r = sum_range(rest);
  if (r.bounded() && floor_of(r.lo, d) == floor_of(r.hi, d)) return constant(floor_of(r.lo, d));
  int64_t c = 1;
  IndexSum big, small;
  if (split_scale(rest, d, &c, &big, &small)) return floor_div(intern(std::move(big)), d / c);
  if (rest.terms.size() == 1 && rest.constant == 0 && rest.terms[0].coefficient == 1) {
    IndexTerm t = rest.terms[0];
    if (t.kind == IndexTerm::Kind::kDigit && (t.mod == 0 || t.mod % d == 0)) {
      t.div *= d;
      if (t.mod != 0) t.mod /= d;
      return intern({{t}, 0});
    }
    if (t.kind == IndexTerm::Kind::kQuotient) {
      t.div *= d;
      return intern({{t}, 0});
    }
  }
  const IndexId inner = intern(std::move(rest));
  return intern({{IndexTerm{IndexTerm::Kind::kQuotient, inner, d, 0, 1}}, 0});
}

IndexId IndexPool::mod(IndexId a, int64_t m) {
  if (m == 1) return constant(0);
  if (range(a).within(0, m - 1)) return a;
  IndexSum rest;
  const IndexSum& s = sum(a);
  for (const IndexTerm& t : s.terms) {
    if (t.coefficient % m != 0) rest.terms.push_back(t);
  }
  rest.constant = modulo_of(s.constant, m);
  return modulo_rest(std::move(rest), m);
}

IndexId IndexPool::modulo_rest(IndexSum rest, int64_t m) {
  const Interval r = sum_range(rest);
  if (r.bounded() && floor_of(r.lo, m) == floor_of(r.hi, m)) {
    rest.constant -= floor_of(r.lo, m) * m;
    return intern(std::move(rest));
  }
  int64_t c = 1;
  IndexSum big, small;
  if (split_scale(rest, m, &c, &big, &small)) {
    return add(scale(mod(intern(std::move(big)), m / c), c), intern(std::move(small)));
  }
  if (rest.terms.size() == 1 && rest.constant == 0 && rest.terms[0].coefficient == 1) {
    IndexTerm t = rest.terms[0];
    if (t.kind == IndexTerm::Kind::kDigit && (t.mod == 0 || t.mod % m == 0)) {
      t.mod = m;
      return intern({{t}, 0});
    }
    if (t.kind == IndexTerm::Kind::kRemainder && t.mod % m == 0) {
      t.mod = m;
      return intern({{t}, 0});
    }
  }
  const IndexId inner = intern(std::move(rest));
  return intern({{IndexTerm{IndexTerm::Kind::kRemainder, inner, 1, m, 1}}, 0});
}

IndexId IndexPool::linearize(std::span<const IndexId> at, std::span<const int64_t> shape) {
  IndexId out = constant(0);
  for (size_t i = 0; i < shape.size(); ++i) out = add(scale(out, shape[i]), at[i]);
  return out;
}

std::vector<IndexId> IndexPool::delinearize(IndexId linear, std::span<const int64_t> shape) {
  std::vector<IndexId> out(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    const IndexId q = floor_div(linear, stride);
    out[i] = i == 0 ? q : mod(q, shape[i]);
    stride *= shape[i];
  }
  return out;
}

int64_t IndexPool::coefficient(IndexId a, VarId v, bool* other) const {
  int64_t c = 0;
  *other = false;
  for (const IndexTerm& t : sum(a).terms) {
    if (t.kind == IndexTerm::Kind::kDigit) {
      if (t.ref != v) continue;
      if (t.div == 1 && t.mod == 0) {
        c = t.coefficient;
      } else {
        *other = true;
      }
    } else {
      const uint64_t d = t.kind == IndexTerm::Kind::kAtom ? atoms_.at(t.ref).second : deps(t.ref);
      if (d & bit(v)) *other = true;
    }
  }
  return c;
}

int64_t IndexPool::evaluate(IndexId a, std::span<const int64_t> vars, std::span<const int64_t> atoms) const {
  const IndexSum& s = sum(a);
  int64_t total = s.constant;
  for (const IndexTerm& t : s.terms) {
    int64_t v = 0;
    switch (t.kind) {
      case IndexTerm::Kind::kDigit:
        v = vars[static_cast<size_t>(t.ref)] / t.div;
        if (t.mod != 0) v %= t.mod;
        break;
      case IndexTerm::Kind::kQuotient: v = floor_of(evaluate(t.ref, vars, atoms), t.div); break;
      case IndexTerm::Kind::kRemainder: v = modulo_of(evaluate(t.ref, vars, atoms), t.mod); break;
      case IndexTerm::Kind::kAtom: v = atoms[static_cast<size_t>(t.ref)]; break;
    }
    total += t.coefficient * v;
  }
  return total;
}

}  // namespace passnet::codegen
