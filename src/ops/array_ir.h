#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "ir/dtype.h"
#include "ir/graph.h"

// The functional array IR: what the elements of an array *are*, with nothing said about how they are computed.
// Operator rows lower into it once; from the same program come the executable CUDA reference (serialised as JSON,
// evaluated in the worker) and the generated kernel (codegen chooses a schedule). Semantics:
//  * An array is an input, a map (one expression per element) or a reduction (one expression per element and point of
//    the reduction space, folded with an operation). Arrays refer only to arrays with smaller ids.
//  * Every function computes in the type of its operands, which are equal; there is no implicit promotion. A float32
//    function is rounded to float32 (no contraction: a fused multiply-add is written kFma). Transcendental functions
//    are the correctly rounded or libdevice ones. 16-bit floats are only ever read, cast and stored: arithmetic on
//    them is a cast to float32, the function, and a cast back where eager rounds.
//  * Index arithmetic is int64 expressions over the index variables; a read outside the array's shape is allowed only
//    inside the untaken branch of a select.
//  * A sum over float32 is a float32 sum of unspecified order; a mean is a sum and a multiplication or division as
//    the operator's row says. A maximum or minimum is NaN if any element is. An argmax or argmin is the row-major
//    position in the reduction space of the first such element (of the first NaN, if there is one).
//
// The worker's JSON (Program::to_json; python/passnet/worker/reference.py evaluates it):
//   {"arrays": [A...], "exprs": [E...], "outputs": [array id...]}
//   A: {"id": int, "kind": "input"|"map"|"reduce", "shape": [int...], "dtype": T, "label": str} and
//      input:  "input": k, the position among the region's tensor inputs; its expression is missing
//      map:    "expr": E, an element at iv 0, iv 1, ...
//      reduce: "op": "sum"|"prod"|"max"|"min"|"any"|"all"|"argmax"|"argmin", "extents": [int...], "expr": E
//   T: "f32" "f16" "bf16" "f64" "i64" "i32" "i16" "i8" "u8" "bool" ("c64", "c128" only as the type of an input)
//   E: ["iv", axis] | ["rv", axis]             index of the element / point of the reduction space, i64
//      ["c", value, T]                         value a number, true, false, or "inf", "-inf", "nan"
//      ["read", array id, [E...]]              one i64 index a dimension
//      ["cast", E, T] | ["select", condition, then, else]
//      [fn, E...]                              fn is name_of(Fn): "add", "div", "rsqrt", "lt", ...
//      ["e", k]                                the k-th entry of "exprs", with the meaning of its text standing here
// "exprs" holds every subexpression that is used more than once (in one array or in several), so that shared
// expressions are not written out again, and cuts deep ones: entry k refers only to entries below k. An entry's "iv" and "rv" are those
// of the array that refers to it, so an evaluator keeps one memo an array. An evaluator must accept reads outside an
// array's shape in the untaken branch of a select (clamp the index, or evaluate lazily).

namespace passnet {

using ExprId = int32_t;
using ArrayId = int32_t;
inline constexpr ExprId kNoExpr = -1;

enum class Fn : uint8_t {
  // arithmetic (int or float); kDiv is IEEE division on floats, kFloorDiv/kMod round toward minus infinity on ints and
  // floats, kTruncDiv on ints
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kTruncDiv,
  kFma,
  kNeg,
  kAbs,
  kMin,
  kMax,  // NaN if either is NaN (torch's)
  kFloor,
  kCeil,
  kTrunc,
  kRint,
  kSqrt,
  kRsqrt,
  kExp,
  kExp2,
  kExpm1,
  kLog,
  kLog2,
  kLog10,
  kLog1p,
  kTanh,
  kErf,
  kErfc,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kAtan2,
  kSinh,
  kCosh,
  kPow,
  kSign,
  kTf32,  // float32: rounded to tf32's 10 bits of mantissa, to nearest even
  kCopysign,
  // comparisons give kBool
  kLt,
  kLe,
  kGt,
  kGe,
  kEq,
  kNe,
  kIsNan,
  kIsInf,
  // kBool operands: logical; integers: bitwise
  kAnd,
  kOr,
  kXor,
  kNot,
  kShl,
  kShr
};
// The name in the worker's JSON ("add", "div", "rsqrt", ...).
std::string_view name_of(Fn fn);

enum class ReduceOp : uint8_t { kSum, kProd, kMax, kMin, kAny, kAll, kArgMax, kArgMin };
std::string_view name_of(ReduceOp op);

struct Expr {
  enum class Kind : uint8_t { kIndex, kReduceIndex, kConst, kRead, kCast, kSelect, kCall };
  Kind kind = Kind::kConst;
  DType type = DType::kInt64;
  Fn fn = Fn::kAdd;    // kCall
  int32_t axis = 0;    // kIndex: axis of the array being defined; kReduceIndex: axis of its reduction space
  int64_t extent = 0;  // kIndex, kReduceIndex: values are in [0, extent)
  int64_t int_value = 0;  // kConst of integer or bool type
  double value = 0;       // kConst of floating type, already rounded to `type` by the reader of the program
  ArrayId array = -1;     // kRead
  std::vector<ExprId>
      args;  // kRead: one int64 index a dimension; kCast: 1; kSelect: condition, then, else; kCall
  bool operator==(const Expr&) const = default;
};

struct Array {
  enum class Kind : uint8_t { kInput, kMap, kReduce };
  Kind kind = Kind::kMap;
  std::vector<int64_t> shape;
  DType dtype = DType::kFloat32;
  int32_t input = -1;            // kInput: which tensor argument of the region
  ReduceOp op = ReduceOp::kSum;  // kReduce
  std::vector<int64_t> extents;  // kReduce: the reduction space
  // kReduce of products: its terms go to the matrix units in blocks of so many, in their order, although they are read through
  // windows, because that is how the library adds them. 0: nothing is said.
  int64_t inner_block = 0;
  ExprId expr = kNoExpr;  // kMap, kReduce
  std::string label;      // the node and operator it came from, for names and comments: "layer_norm.mean"
  NodeId node = kNoNode;
};

// A region as arrays. Expressions are shared (equal ones have equal ids) across all arrays of the program.
class Program {
 public:
  // `meta` tells shape, dtype and, for the schedules, the strides the tensor will have (absent: read at run time).
  ArrayId add_input(const TensorMeta& meta, std::string label);
  ArrayId add_map(std::vector<int64_t> shape, DType dtype, ExprId expr, std::string label,
                  NodeId node = kNoNode);
  ArrayId add_reduce(std::vector<int64_t> shape, DType dtype, ReduceOp op, std::vector<int64_t> extents,
                     ExprId expr, std::string label, NodeId node = kNoNode);

  void set_inner_block(ArrayId array, int64_t terms) {
    arrays_[static_cast<size_t>(array)].inner_block = terms;
  }

  ExprId index(int axis, int64_t extent);
  ExprId reduce_index(int axis, int64_t extent);
  ExprId integer(int64_t v, DType type = DType::kInt64);
  ExprId real(double v, DType type);
  ExprId boolean(bool v);
  ExprId read(ArrayId array, std::vector<ExprId> indices);
  ExprId cast(ExprId e, DType type);  // the identity where the type is already right
  ExprId select(ExprId condition, ExprId then_value, ExprId else_value);
  // Integer index arithmetic is folded and simplified with the extents of the index variables: (i + 0), i / 1, i % n
  // with i < n, constants. Float arithmetic is never folded.
  ExprId call(Fn fn, std::vector<ExprId> args);

  const std::vector<Array>& arrays() const { return arrays_; }
  const std::vector<Expr>& exprs() const { return exprs_; }
  const Array& array(ArrayId id) const { return arrays_[static_cast<size_t>(id)]; }
  const Expr& expr(ExprId id) const { return exprs_[static_cast<size_t>(id)]; }
  const std::vector<TensorMeta>& inputs() const { return inputs_; }

  // Smallest and largest value of an int64 expression, if bounded by extents and constants alone.
  std::optional<std::pair<int64_t, int64_t>> range(ExprId e) const;
  // The first broken rule of this program's construction (operand types that differ, arithmetic on 16-bit floats, an
  // index that is no int64, a definition whose type is not its array's): a bug of an operator row. Empty if none.
  // lower_region() turns it into an internal error, so that no caller has to check.
  const std::string& misuse() const { return misuse_; }

  std::vector<ArrayId> outputs;          // in the order the region's value holds them
  std::vector<TensorMeta> output_metas;  // eager's shape, dtype and strides of each

  // The worker's form: {"arrays": [...], "outputs": [...]} with S-expressions.
  Json to_json() const;

 private:
  friend class IndexSimplifier;
  using Range = std::optional<std::pair<int64_t, int64_t>>;
  ExprId intern(Expr e);
  ExprId plain_call(Fn fn, std::vector<ExprId> args);  // interned as it stands
  Range computed_range(const Expr& e) const;
  void broken(std::string rule);
  std::vector<Array> arrays_;
  std::vector<Expr> exprs_;
  std::vector<Range> ranges_;  // of exprs_
  std::vector<TensorMeta> inputs_;
  std::unordered_multimap<size_t, ExprId> interned_;
  std::string misuse_;
};

// "f32": the names of element types in the worker's JSON.
std::string_view short_name_of(DType dtype);
// The value nearest to `v` that `type` holds, as a double: how constants are rounded. 16-bit floats included.
double round_to(double v, DType type);

// An expression with operators, for the rows: E a, b; a * b + 1.0. A C++ double or int literal takes the other
// operand's type.
struct E {
  Program* program = nullptr;
  ExprId id = kNoExpr;
  DType type() const { return program->expr(id).type; }
  E cast(DType t) const { return {program, program->cast(id, t)}; }
  E constant(double v) const;  // of this expression's type
};
E call(Fn fn, E a);
E call(Fn fn, E a, E b);
E call(Fn fn, E a, E b, E c);
E select(E condition, E then_value, E else_value);
E operator+(E a, E b);
E operator-(E a, E b);
E operator*(E a, E b);
E operator/(E a, E b);  // kDiv
E operator-(E a);
E operator+(E a, double b);
E operator-(E a, double b);
E operator*(E a, double b);
E operator/(E a, double b);
E operator+(double a, E b);
E operator-(double a, E b);
E operator*(double a, E b);
E operator/(double a, E b);

}  // namespace passnet
