#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

namespace passnet::codegen {

using IndexId = int32_t;
using VarId = int32_t;
inline constexpr IndexId kNoIndex = -1;

// Closed interval; saturated at +-kFar, which stands for "no bound".
struct Interval {
  static constexpr int64_t kFar = int64_t{1} << 61;
  int64_t lo = 0, hi = 0;
  static Interval unbounded() { return {-kFar, kFar}; }
  bool within(int64_t a, int64_t b) const { return lo >= a && hi <= b; }
  bool bounded() const { return lo > -kFar && hi < kFar; }
  bool operator==(const Interval&) const = default;
};

// One summand: coefficient times a digit of an iteration variable, or times something without a closed form.
struct IndexTerm {
  enum class Kind : uint8_t {
    kDigit,      // (variable / div) % mod; mod 0: no modulus
    kQuotient,   // floor(sum / div), sum being another index
    kRemainder,  // sum mod `mod`, in [0, mod)
    kAtom        // an integer that is computed at run time
  };
  Kind kind = Kind::kDigit;
  int32_t ref = 0;  // VarId, IndexId or the caller's number of the atom
  int64_t div = 1, mod = 0;
  int64_t coefficient = 1;
  auto key() const { return std::tuple(kind, ref, div, mod); }
  bool operator==(const IndexTerm&) const = default;
};

struct IndexSum {
  std::vector<IndexTerm> terms;  // sorted by key, no two alike, no zero coefficient
  int64_t constant = 0;
  bool operator==(const IndexSum&) const = default;
};

// Integer expressions over iteration variables of known extent, kept in a normal form in which composed views (reshape,
// permute, slice, expand) of an iteration space become sums of coefficient times digit. Equal forms have equal ids.
// All simplifications are exact for every value of the variables in [0, extent).
class IndexPool {
 public:
  VarId add_var(int64_t extent);
  int64_t extent(VarId v) const { return extents_[static_cast<size_t>(v)]; }
  size_t var_count() const { return extents_.size(); }

  IndexId constant(int64_t value);
  IndexId var(VarId v);
  // `deps` is the set of variables the run-time value depends on.
  IndexId atom(int32_t number, Interval range, uint64_t deps);

  IndexId add(IndexId a, IndexId b);
  IndexId sub(IndexId a, IndexId b);
  IndexId scale(IndexId a, int64_t factor);
  // Rounds toward minus infinity; divisor and modulus are positive.
  IndexId floor_div(IndexId a, int64_t divisor);
  IndexId mod(IndexId a, int64_t modulus);

  // Row-major composition and its inverse.
  IndexId linearize(std::span<const IndexId> at, std::span<const int64_t> shape);
  std::vector<IndexId> delinearize(IndexId linear, std::span<const int64_t> shape);

  const IndexSum& sum(IndexId a) const { return sums_[static_cast<size_t>(a)]; }
  Interval range(IndexId a) const { return ranges_[static_cast<size_t>(a)]; }
  // Set of variables (bit v) the value depends on. Variables beyond 63 share the last bit.
  uint64_t deps(IndexId a) const { return deps_[static_cast<size_t>(a)]; }
  bool is_constant(IndexId a) const { return sum(a).terms.empty(); }
  // Coefficient of the whole variable; 0 if absent. `other` is set if the variable also occurs in another way.
  int64_t coefficient(IndexId a, VarId v, bool* other) const;

  // Value at given variables and atoms; for tests and point checks.
  int64_t evaluate(IndexId a, std::span<const int64_t> vars, std::span<const int64_t> atoms = {}) const;

  static uint64_t bit(VarId v) { return uint64_t{1} << (v < 63 ? v : 63); }

 private:
  struct Less {
    bool operator()(const IndexSum& a, const IndexSum& b) const;
  };
  IndexId intern(IndexSum sum);
  void normalize(IndexSum& sum) const;
  Interval term_range(const IndexTerm& term) const;
  Interval sum_range(const IndexSum& sum) const;
  IndexId divide_rest(IndexSum rest, int64_t divisor);
  IndexId modulo_rest(IndexSum rest, int64_t modulus);
  // Splits rest = c * big + small with small in [0, c) for the largest such c > 1 that divides d; false if none.
  bool split_scale(const IndexSum& rest, int64_t d, int64_t* c, IndexSum* big, IndexSum* small) const;

  std::vector<int64_t> extents_;
  std::map<int32_t, std::pair<Interval, uint64_t>> atoms_;
  std::vector<IndexSum> sums_;
  std::vector<Interval> ranges_;
  std::vector<uint64_t> deps_;
  std::map<IndexSum, IndexId, Less> interned_;
};

}  // namespace passnet::codegen
