#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/dtype.h"

namespace passnet {

using NodeId = int32_t;
inline constexpr NodeId kNoNode = -1;

// An argument as it stands in an FX graph: a literal, a reference to a node, or a container of both.
// Equality follows torch.fx's matcher: types differ means values differ (1, 1.0 and True are three values);
// lists and tuples are distinct here and made interchangeable by the matcher, not by ==.
class Value {
 public:
  enum class Kind : uint8_t {
    kNone,
    kBool,
    kInt,
    kFloat,
    kComplex,
    kString,
    kDType,
    kDevice,
    kLayout,
    kMemoryFormat,
    kEllipsis,
    kNode,
    kList,
    kTuple,
    kSlice,
    kDict,
    kConstant  // any other dotted global, e.g. torch.strided's relatives; text() is the dotted name
  };

  Value() = default;
  static Value none() { return Value(); }
  static Value boolean(bool v);
  static Value integer(int64_t v);
  static Value real(double v);
  static Value complex(double re, double im);
  static Value string(std::string v);
  static Value dtype(DType v);
  static Value device(std::string v);                    // "cuda:0", "cpu"
  static Value constant(Kind kind, std::string dotted);  // kLayout, kMemoryFormat, kConstant
  static Value ellipsis();
  static Value node(NodeId id);
  static Value list(std::vector<Value> items);
  static Value tuple(std::vector<Value> items);
  static Value slice(Value start, Value stop, Value step);
  static Value dict(std::vector<std::pair<std::string, Value>> items);

  Kind kind() const { return kind_; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_node() const { return kind_ == Kind::kNode; }
  bool is_sequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }
  bool is_number() const { return kind_ == Kind::kBool || kind_ == Kind::kInt || kind_ == Kind::kFloat; }

  bool as_bool() const { return int_ != 0; }
  int64_t as_int() const { return int_; }
  // kFloat's value; kInt and kBool converted.
  double as_double() const {
    return kind_ == Kind::kFloat || kind_ == Kind::kComplex ? real_ : static_cast<double>(int_);
  }
  double imag() const { return imag_; }
  const std::string& text() const { return text_; }
  DType as_dtype() const { return static_cast<DType>(int_); }
  NodeId as_node() const { return static_cast<NodeId>(int_); }
  // Elements of kList, kTuple; start, stop, step of kSlice; values of kDict (keys() beside it).
  const std::vector<Value>& items() const { return items_; }
  std::vector<Value>& items() { return items_; }
  const std::vector<std::string>& keys() const { return keys_; }

  bool operator==(const Value& other) const;

  // Calls fn(NodeId) for every node reference inside, in torch.fx's order (depth first, left to right).
  template <class Fn>
  void for_each_node(Fn&& fn) const {
    if (kind_ == Kind::kNode) fn(as_node());
    for (const Value& item : items_) item.for_each_node(fn);
  }
  // A copy with every node reference mapped.
  template <class Fn>
  Value map_nodes(Fn&& fn) const {
    Value out = *this;
    if (kind_ == Kind::kNode) return fn(as_node());
    for (Value& item : out.items_) item = item.map_nodes(fn);
    return out;
  }

 private:
  Kind kind_ = Kind::kNone;
  int64_t int_ = 0;
  double real_ = 0, imag_ = 0;
  std::string text_;
  std::vector<Value> items_;
  std::vector<std::string> keys_;
};

// Python's own text of a float ("1e-05", "0.1", "inf"): what repr() prints.
std::string python_float(double v);
// Python source of a literal without nodes: torch.float32, torch.device('cuda:0'), slice(None, 64, None), ...
// Nodes print through `name`, called with the id.
namespace detail {
std::string python_text(const Value& v, const std::function<std::string(NodeId)>& name);
std::string python_string(const std::string& s);
}  // namespace detail
template <class NameFn>
std::string python_text(const Value& v, NameFn&& name) {
  return detail::python_text(v, std::forward<NameFn>(name));
}
// Nodes print as %id.
std::string python_text(const Value& v);

}  // namespace passnet
