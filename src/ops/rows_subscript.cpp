#include <algorithm>

#include <fmt/format.h>

#include "ops/row_args.h"
#include "ops/view_algebra.h"
#include "ops/view_rows.h"

// x[...] and x[...] = y. A subscript is a view by its integers, slices, None and Ellipsis, then, if it holds
// tensors or lists, a gather over the axes of that view ("advanced indexing").

namespace passnet {

namespace {

using Shape = std::vector<int64_t>;

struct Advanced {
  int axis = 0;                   // of the view
  Value tensor;                   // an integer tensor's node, or nothing
  std::vector<int64_t> literals;  // a list of integers, as a 1-d tensor
  Shape shape;
  std::optional<Shape> stride;
};

struct Subscript {
  explicit Subscript(const TensorMeta& source) : view(source) {}
  View view;
  std::vector<Advanced> advanced;
  bool run_time_select = false;  // indexed by a 0-dim tensor: a view whose offset only the run knows

  Shape index_shape;  // of the broadcast index tensors
  int first = 0;      // result axis at which index_shape stands
};

Result<std::optional<int64_t>> slice_bound(const Call& call, const Value& v) {
  Value known = known_value(call, v);
  if (known.is_none()) return std::optional<int64_t>();
  if (known.kind() == Value::Kind::kInt || known.kind() == Value::Kind::kBool)
    return std::optional<int64_t>(known.as_int());
  return bad_call(call, "ops.unknown_value", "a slice bound is only known at run time");
}

// Python's slice.indices for a positive step, which is all that torch allows.
Status apply_slice(const Call& call, View& view, int axis, const Value& slice) {
  PN_TRY(std::optional<int64_t> start, slice_bound(call, slice.items()[0]));
  PN_TRY(std::optional<int64_t> stop, slice_bound(call, slice.items()[1]));
  PN_TRY(std::optional<int64_t> step, slice_bound(call, slice.items()[2]));
  int64_t size = view.shape()[static_cast<size_t>(axis)];
  int64_t by = step.value_or(1);
  if (by <= 0) return bad_argument(call, "index", "a subscript whose slice steps are positive");
  auto clamp = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + size : v, 0, size); };
  int64_t from = clamp(start.value_or(0)), to = stop ? clamp(*stop) : size;
  int64_t length = to > from ? (to - from + by - 1) / by : 0;
  if (from == 0 && length == size && by == 1) return ok_status();
  view.slice(axis, from, length, by);
  return ok_status();
}

bool is_int_list(const Value& v) {
  return v.is_sequence() && std::all_of(v.items().begin(), v.items().end(),
                                        [](const Value& item) { return item.kind() == Value::Kind::kInt; });
}

// Axes of the operand that one item takes.
Result<int> axes_taken(const Call& call, const Value& item) {
  switch (item.kind()) {
    case Value::Kind::kNone:
    case Value::Kind::kEllipsis: return 0;
    case Value::Kind::kInt:
    case Value::Kind::kSlice: return 1;
    default: break;
  }
  if (is_int_list(item)) return 1;
  if (const TensorMeta* tensor = call.tensor(item)) {
    if (tensor->dtype == DType::kBool || tensor->dtype == DType::kUInt8)
      return bad_call(call, "ops.data_dependent_shape",
                      "a mask as a subscript gives a result whose size depends on the mask's values",
                      "torch.where or masked_fill keep the shape");
    if (!is_integral(tensor->dtype, false))
      return bad_argument(call, "index", "made of integers, slices, None, Ellipsis and integer tensors");
    return 1;
  }
  Value known = known_value(call, item);
  if (known.kind() == Value::Kind::kInt) return 1;
  if (const Meta* meta = meta_of(call, item); meta && meta->kind == Meta::Kind::kUnknown)
    return bad_call(call, "ops.unknown_value", "an index is only known at run time");
  return bad_argument(call, "index", "made of integers, slices, None, Ellipsis and integer tensors");
}

Status broadcast_indices(const Call& call, Subscript& s) {
  if (s.advanced.empty()) return ok_status();
  std::vector<Shape> shapes;
  for (const Advanced& index : s.advanced) shapes.push_back(index.shape);
  PN_TRY(s.index_shape, broadcast_shapes(call, shapes));
  bool adjacent = s.advanced.back().axis - s.advanced.front().axis + 1 == static_cast<int>(s.advanced.size());
  s.first = adjacent ? s.advanced.front().axis : 0;
  return ok_status();
}

Result<Subscript> parse_items(const Call& call, const TensorMeta& source, const std::vector<Value>& items) {
  int taken = 0, ellipses = 0;
  for (const Value& item : items) {
    PN_TRY(int axes, axes_taken(call, item));
    taken += axes;
    ellipses += item.kind() == Value::Kind::kEllipsis;
  }
  if (taken > source.dim())
    return bad_argument(call, "index", fmt::format("a subscript of at most {} axes", source.dim()));
  if (ellipses > 1) return bad_argument(call, "index", "a subscript with at most one Ellipsis");
  Subscript s(source);
  int axis = 0;
  for (const Value& raw : items) {
    Value item = known_value(call, raw);
    if (item.is_none()) {
      s.view.unsqueeze(axis++);
    } else if (item.kind() == Value::Kind::kEllipsis) {
      axis += source.dim() - taken;
    } else if (item.kind() == Value::Kind::kSlice) {
      PN_CHECK_OK(apply_slice(call, s.view, axis++, item));
    } else if (item.kind() == Value::Kind::kInt) {
      int64_t size = s.view.shape()[static_cast<size_t>(axis)], index = item.as_int();
      if (index < -size || index >= size)
        return bad_argument(call, "index",
                            fmt::format("within the axis of size {}, which {} is not", size, index));
      s.view.select(axis, index < 0 ? index + size : index);
    } else if (const TensorMeta* tensor = call.tensor(item); tensor && tensor->dim() == 0) {
      s.run_time_select = true;
      s.view.select(axis, 0);
    } else if (tensor) {
      s.advanced.push_back({axis++, item, {}, tensor->shape, tensor->stride});
    } else {
      Advanced index{axis, Value(), {}, {static_cast<int64_t>(item.items().size())}, Shape{1}};
      int64_t size = s.view.shape()[static_cast<size_t>(axis++)];
      for (const Value& element : item.items()) {
        int64_t i = element.as_int();
        if (i < -size || i >= size)
          return bad_argument(call, "index",
                              fmt::format("within the axis of size {}, which {} is not", size, i));
        index.literals.push_back(i < 0 ? i + size : i);
      }
      s.advanced.push_back(std::move(index));
    }
  }
  PN_CHECK_OK(broadcast_indices(call, s));
  return s;
}

Result<Subscript> parse_subscript(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  const Value& index = call.arg("index");
  std::vector<Value> items = index.kind() == Value::Kind::kTuple ? index.items() : std::vector<Value>{index};
  // An old form: a list that holds slices is a tuple.
  if (index.kind() == Value::Kind::kList && !is_int_list(index)) items = index.items();
  return parse_items(call, *input, items);
}

// aten's index takes [index or None, ...].
Result<Subscript> parse_index_list(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  const Value& indices = call.arg("indices");
  if (!indices.is_sequence()) return bad_argument(call, "indices", "a list of tensors and None");
  std::vector<Value> items = indices.items();
  for (Value& item : items)
    if (item.is_none()) item = Value::slice(Value::none(), Value::none(), Value::none());
  return parse_items(call, *input, items);
}

bool is_indexed(const Subscript& s, int axis) {
  return std::any_of(s.advanced.begin(), s.advanced.end(), [&](const Advanced& a) { return a.axis == axis; });
}

Inferred subscript_result(const Subscript& s) {
  TensorMeta view = s.view.meta();
  if (s.run_time_select) view.stride.reset();
  if (s.advanced.empty()) return tensor_result(std::move(view));
  Shape shape, stride;
  auto place_indices = [&] {
    shape.insert(shape.end(), s.index_shape.begin(), s.index_shape.end());
    stride.insert(stride.end(), s.index_shape.size(), 0);
  };
  bool placed = false;
  for (int axis = 0; axis <= view.dim(); ++axis) {
    if (!placed && static_cast<int>(shape.size()) == s.first) place_indices(), placed = true;
    if (axis == view.dim() || is_indexed(s, axis)) continue;
    shape.push_back(view.shape[static_cast<size_t>(axis)]);
    stride.push_back(view.stride ? (*view.stride)[static_cast<size_t>(axis)] : 0);
  }
  if (!view.stride) return fresh(std::move(shape), view.dtype, std::nullopt);
  if (view.numel() == 0) return fresh(std::move(shape), view.dtype);
  std::vector<Shape> operands{stride};
  for (const Advanced& index : s.advanced) {
    if (!index.stride) continue;
    Shape own(shape.size(), 0);
    size_t end = static_cast<size_t>(s.first) + s.index_shape.size();
    for (size_t i = 0; i < index.shape.size(); ++i)
      if (index.shape[i] != 1) own[end - index.shape.size() + i] = (*index.stride)[i];
    operands.push_back(std::move(own));
  }
  Shape dense = dense_strides_in_order(shape, operands);
  return fresh(std::move(shape), view.dtype, std::move(dense));
}

Result<ExprId> index_expression(LowerContext& ctx, const Subscript& s, const Advanced& index,
                                std::span<const ExprId> at) {
  Program& p = ctx.program();
  std::span<const ExprId> own = at.subspan(static_cast<size_t>(s.first), s.index_shape.size());
  if (index.tensor.is_none()) {
    ExprId position = own.back();
    ExprId out = p.integer(index.literals.back());
    for (size_t i = index.literals.size() - 1; i-- > 0;)
      out = p.select(p.call(Fn::kEq, {position, p.integer(static_cast<int64_t>(i))}),
                     p.integer(index.literals[i]), out);
    return out;
  }
  PN_TRY(ArrayId array, ctx.array(index.tensor));
  ExprId value = p.cast(read_broadcast(p, array, own).id, DType::kInt64);
  int64_t size = s.view.shape()[static_cast<size_t>(index.axis)];
  return p.select(p.call(Fn::kLt, {value, p.integer(0)}), index_add(p, value, size), value);
}

Result<std::vector<ArrayId>> lower_subscript(LowerContext& ctx, const Call& call, const Subscript& s) {
  if (s.run_time_select) return no_lowering(call, "an axis is selected by the value of a 0-dim tensor");
  if (s.advanced.empty())
    return lower_gather(ctx, call, "input",
                        [&](Program& p, std::span<const ExprId> at) { return s.view.map(p, at); });
  PN_TRY(ArrayId source, ctx.array(call.arg("input")));
  for (const Advanced& index : s.advanced)
    if (index.tensor.is_none() && index.literals.empty())
      return no_lowering(call, "an empty list as a subscript");
  Program& p = ctx.program();
  const Shape& shape = call.node->meta.tensor.shape;
  std::vector<ExprId> at = identity(p, shape);
  std::vector<ExprId> in_view(static_cast<size_t>(s.view.rank()));
  size_t next = 0;
  for (int axis = 0; axis < s.view.rank(); ++axis) {
    if (is_indexed(s, axis)) continue;
    if (static_cast<int>(next) == s.first) next += s.index_shape.size();
    in_view[static_cast<size_t>(axis)] = at[next++];
  }
  for (const Advanced& index : s.advanced) {
    PN_TRY(in_view[static_cast<size_t>(index.axis)], index_expression(ctx, s, index, at));
  }
  ExprId element = p.read(source, s.view.map(p, in_view));
  return std::vector<ArrayId>{
      p.add_map(shape, p.array(source).dtype, element, label_of(call), call.node->id)};
}

// ---- a tuple's element, or a slice of it ----

Result<std::vector<size_t>> tuple_elements(const Call& call, size_t size, bool& single) {
  Value index = known_value(call, call.arg("index"));
  int64_t n = static_cast<int64_t>(size);
  single = index.kind() == Value::Kind::kInt;
  if (single) {
    int64_t i = index.as_int();
    if (i < -n || i >= n) return bad_argument(call, "index", fmt::format("within the tuple of {}", n));
    return std::vector<size_t>{static_cast<size_t>(i < 0 ? i + n : i)};
  }
  if (index.kind() != Value::Kind::kSlice)
    return bad_argument(call, "index", "an integer or a slice, for a tuple");
  PN_TRY(std::optional<int64_t> start, slice_bound(call, index.items()[0]));
  PN_TRY(std::optional<int64_t> stop, slice_bound(call, index.items()[1]));
  PN_TRY(std::optional<int64_t> step, slice_bound(call, index.items()[2]));
  int64_t by = step.value_or(1);
  if (by == 0) return bad_argument(call, "index", "a slice whose step is not 0");
  int64_t low = by < 0 ? -1 : 0, high = by < 0 ? n - 1 : n;
  auto clamp = [&](int64_t v) { return std::clamp(v < 0 ? v + n : v, low, high); };
  int64_t from = start ? clamp(*start) : by < 0 ? high : low;
  int64_t to = stop ? clamp(*stop) : by < 0 ? low : high;
  std::vector<size_t> out;
  for (int64_t i = from; by > 0 ? i < to : i > to; i += by) out.push_back(static_cast<size_t>(i));
  return out;
}

Result<Inferred> meta_getitem(const Call& call) {
  const Meta* operand = meta_of(call, call.arg("input"));
  if (operand && operand->kind == Meta::Kind::kTuple) {
    bool single = false;
    PN_TRY(std::vector<size_t> elements, tuple_elements(call, operand->items.size(), single));
    Inferred out;
    if (single) {
      out.meta = operand->items[elements[0]];
      return out;
    }
    std::vector<Meta> items;
    for (size_t i : elements) items.push_back(operand->items[i]);
    return tuple_result(std::move(items));
  }
  PN_TRY(Subscript s, parse_subscript(call));
  return subscript_result(s);
}

Result<std::vector<ArrayId>> lower_getitem(LowerContext& ctx, const Call& call) {
  const Meta* operand = meta_of(call, call.arg("input"));
  if (operand && operand->kind == Meta::Kind::kTuple) {
    for (const Meta& item : operand->items)
      if (!item.is_tensor()) return no_lowering(call, "the tuple holds more than tensors");
    bool single = false;
    PN_TRY(std::vector<size_t> elements, tuple_elements(call, operand->items.size(), single));
    PN_TRY(std::vector<ArrayId> arrays, ctx.arrays(call.arg("input")));
    std::vector<ArrayId> out;
    for (size_t i : elements) out.push_back(arrays.at(i));
    return out;
  }
  PN_TRY(Subscript s, parse_subscript(call));
  return lower_subscript(ctx, call, s);
}

OpCost cost_getitem(const Call& call) {
  OpCost cost;
  const Meta* operand = meta_of(call, call.arg("input"));
  cost.kernels = 0;
  cost.bytes = 0;
  if (operand && operand->kind == Meta::Kind::kTuple) {
    cost.host_us = 0.1;
    return cost;
  }
  const Value& index = call.arg("index");
  double views = 0;
  for (const Value& item : index.kind() == Value::Kind::kTuple ? index.items() : std::vector<Value>{index}) {
    bool whole = item.kind() == Value::Kind::kSlice && item == Value::slice(Value(), Value(), Value());
    if (!whole && item.kind() != Value::Kind::kEllipsis) ++views;
  }
  cost.host_us = 2.5 + 1.5 * std::max(views, 1.0);
  const Meta& out = call.node->meta;
  if (operand && operand->is_tensor() && out.is_tensor() && out.tensor.storage != operand->tensor.storage) {
    cost.host_us = 25;
    cost.kernels = 1;
    cost.bytes = 2.0 * static_cast<double>(out.tensor.bytes());
  }
  return cost;
}

Result<Inferred> meta_index(const Call& call) {
  PN_TRY(Subscript s, parse_index_list(call));
  return subscript_result(s);
}

Result<std::vector<ArrayId>> lower_index(LowerContext& ctx, const Call& call) {
  PN_TRY(Subscript s, parse_index_list(call));
  return lower_subscript(ctx, call, s);
}

Result<Inferred> meta_setitem(const Call& call) {
  PN_TRY(const TensorMeta* input, tensor_arg(call, "input"));
  Inferred out;
  out.meta = Meta::none();
  out.writes.push_back(input->storage);
  return out;
}

OpCost cost_setitem(const Call& call) {
  OpCost cost;
  cost.host_us = 15;
  const TensorMeta* value = call.tensor("value");
  if (value) cost.bytes = 2.0 * static_cast<double>(value->bytes());
  return cost;
}

}  // namespace

std::vector<OpRow> subscript_rows() {
  return {
      {.name = "getitem",
       .cls = OpClass::kView,
       .spellings = {function("operator.getitem", "input, index"), method("__getitem__", "input, index")},
       .meta = meta_getitem,
       .lower = lower_getitem,
       .cost = cost_getitem,
       .examples = {{"x=f32[4,5,6]", "x[0]"},
                    {"x=f32[4,5,6]", "x[-1, :, 2:5]"},
                    {"x=f32[4,5,6]", "x[..., 1:]"},
                    {"x=f32[4,5,6]", "x[:, None, 1::2]"},
                    {"x=f32[4,5,6]", "x[:, :, -3:100:2]"},
                    {"x=f32[4,5,6]", "x[None]"},
                    {"x=f32[4,5,6]", "x[..., 0, :]"},
                    {"x=f32[4,5,6], i=i64[3]", "x[i]"},
                    {"x=f32[4,5,6], i=i64[3]", "x[:, i]"},
                    {"x=f32[4,5,6], i=i64[3,1], j=i64[2]", "x[i, :, j]"},
                    {"x=f32[4,5,6], i=i64[2,2]", "x.permute(2, 0, 1)[:, i]"},
                    {"x=f32[4,5,6]", "x[..., [2, -1, 0], :]"},
                    {"x=f32[4,6]", "x.chunk(2, 1)[-1]"}}},
      {.name = "index",
       .cls = OpClass::kCopy,
       .spellings = {function("torch.ops.aten.index", "input, indices"),
                     function("torch.ops.aten.index.Tensor", "input, indices")},
       .meta = meta_index,
       .lower = lower_index,
       .cost = fixed_cost<250, 1>,
       .examples = {{"x=f32[4,5], i=i64[3]", "torch.ops.aten.index(x, [None, i])"}}},
      {.name = "setitem",
       .cls = OpClass::kOther,
       .spellings = {function("operator.setitem", "input, index, value"),
                     method("__setitem__", "input, index, value")},
       .meta = meta_setitem,
       .cost = cost_setitem,
       .examples = {{"x=f32[4,5]", "operator.setitem(x, (slice(None), slice(1, 3)), 0.0)"}},
       .wall = "a subscript store writes its operand and has no value"},
  };
}

}  // namespace passnet
