// Calls inside a wrapper: functions of the pass_dir, launches, allocators, and the methods of tensors.

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "capture/folding.h"
#include "check/rules.h"
#include "check/wrapper_follower.h"
#include "ops/view_algebra.h"

namespace passnet::check {

namespace {

using pysrc::ExprKind;

constexpr size_t kMaxDepth = 24;

template <size_t N>
bool among(const std::string_view (&table)[N], std::string_view name) {
  return std::find(std::begin(table), std::end(table), name) != std::end(table);
}

// Methods that answer without touching elements.
constexpr std::string_view kMetadata[] = {
    "data_ptr", "element_size",    "get_device", "storage_offset", "is_floating_point", "is_complex",
    "is_cuda",  "untyped_storage", "nelement",   "has_names",      "requires_grad_",    "is_pinned",
    "type",     "__len__"};
// Conversions, all of them aten._to_copy, which the guard lets through.
struct Conversion {
  std::string_view method;
  std::optional<DType> dtype;
};
constexpr Conversion kConversions[] = {{"to", {}},
                                       {"type_as", {}},
                                       {"float", DType::kFloat32},
                                       {"half", DType::kFloat16},
                                       {"bfloat16", DType::kBFloat16},
                                       {"double", DType::kFloat64},
                                       {"int", DType::kInt32},
                                       {"long", DType::kInt64},
                                       {"bool", DType::kBool},
                                       {"cuda", {}},
                                       {"cpu", {}}};
// Attributes that are data about a tensor; every other one of torch.Tensor is an operation or unknown.
constexpr std::string_view kOperations[] = {"T", "mT", "H", "mH", "real", "imag", "data", "grad"};
// Views, and how to do without.
constexpr std::string_view kViews[] = {
    "view",    "reshape", "permute",  "transpose", "t",       "unsqueeze",  "squeeze",  "expand",
    "flatten", "select",  "narrow",   "expand_as", "view_as", "unflatten",  "chunk",    "split",
    "unbind",  "movedim", "swapaxes", "swapdims",  "ravel",   "as_strided", "diagonal", "unfold"};

std::optional<std::vector<int64_t>> sizes_of(const Value& v) {
  std::vector<int64_t> out;
  if (const std::optional<int64_t> one = index_of(v)) return std::vector<int64_t>{*one};
  if (!v.is_sequence()) return std::nullopt;
  for (const Value& item : v.items()) {
    const std::optional<int64_t> n = index_of(item);
    if (!n) return std::nullopt;
    out.push_back(*n);
  }
  return out;
}

// torch.empty(2, 3), torch.empty((2, 3)), torch.empty(size=(2, 3)); the first `skip` positions are something else.
template <class Arguments>
std::optional<std::vector<int64_t>> shape_argument(const Arguments& arguments, size_t most) {
  const Thing* first = arguments.find(0, "size");
  if (first == nullptr) return std::nullopt;
  const std::optional<Value> v = first->literal();
  if (!v) return std::nullopt;
  if (v->is_sequence()) return sizes_of(*v);
  std::vector<int64_t> out;
  for (size_t i = 0; i < std::min(arguments.args.size(), most); ++i) {
    const std::optional<Value> each = arguments.args[i].literal();
    const std::optional<int64_t> n = each ? index_of(*each) : std::nullopt;
    if (!n) return std::nullopt;
    out.push_back(*n);
  }
  return out;
}

template <class Arguments>
std::optional<DType> dtype_argument(const Arguments& arguments, bool* given) {
  for (const auto& [key, thing] : arguments.kwargs) {
    if (key != "dtype") continue;
    *given = true;
    if (thing.kind == Thing::Kind::kLiteral && thing.value.kind() == Value::Kind::kDType)
      return thing.value.as_dtype();
    if (thing.kind == Thing::Kind::kLiteral && thing.value.is_none()) *given = false;
    return std::nullopt;
  }
  *given = false;
  return std::nullopt;
}

}  // namespace

std::optional<WrapperFollower::Arguments> WrapperFollower::arguments_of(const Expr& e, Frame& frame) {
  Arguments out;
  for (const Expr* item : e.items) {
    if (item->kind != ExprKind::kStarred) {
      out.args.push_back(eval(*item, frame));
      continue;
    }
    const std::optional<std::vector<Thing>> more = items_of(*item, eval(*item->value, frame));
    if (!more) return std::nullopt;
    out.args.insert(out.args.end(), more->begin(), more->end());
  }
  for (const pysrc::Keyword& keyword : e.keywords) {
    if (keyword.name.empty()) return std::nullopt;
    out.kwargs.emplace_back(keyword.name, eval(*keyword.value, frame));
  }
  return out;
}

Thing WrapperFollower::call(const Expr& e, Frame& frame) {
  visited_.insert({file(), e.span.line, e.span.col});
  if (++steps_ > 20000) {
    stop(e.span, "a computation that runs too long to be followed");
    return {};
  }
  const Expr& callee = *e.value;
  Thing function;
  std::optional<size_t> tensor;
  if (callee.kind == ExprKind::kAttribute) {
    const Thing object = eval(*callee.value, frame);
    if (object.kind == Thing::Kind::kTensor) {
      tensor = object.tensor;
    } else if (object.kind == Thing::Kind::kLiteral || object.kind == Thing::Kind::kSequence ||
               object.kind == Thing::Kind::kDict) {
      function.kind = Thing::Kind::kMethod;
      function.items = {object};
      function.text = callee.text;
    } else {
      function = attribute(callee, frame);
    }
  } else {
    function = eval(callee, frame);
  }
  std::optional<Arguments> arguments = arguments_of(e, frame);
  if (halted()) return {};
  if (!arguments) {
    stop(e.span, "arguments that are not known before the call");
    return {};
  }
  if (tensor) return tensor_method(e, *tensor, callee.text, *arguments);
  switch (function.kind) {
    case Thing::Kind::kFunction: return call_function(e, function, *arguments);
    case Thing::Kind::kLaunch: return launch(e, function, *arguments);
    case Thing::Kind::kGlobal: return global_call(e, function.text, *arguments);
    case Thing::Kind::kMethod: return method_call(e, function.items[0], function.text, *arguments);
    default: break;
  }
  // Something unknown: it may be a launcher.
  out_.effects_known = false;
  return {};
}

Thing WrapperFollower::call_function(const Expr& e, const Thing& function, const Arguments& arguments) {
  const Stmt& s = *function.function;
  if (s.is_async || frames_.size() > kMaxDepth) {
    stop(e.span, fmt::format("the call of {} is not followed", s.text));
    return {};
  }
  Frame frame;
  frame.stem = function.text;
  frame.function = &s;
  size_t position = 0;
  const auto missing = [&](const std::string& what) {
    raise(e.span, "wrapper.raises", fmt::format("the call of {} {}", s.text, what),
          "give the function what its parameters name; replacement_args decides what the wrapper gets");
  };
  std::set<std::string> used;
  bool takes_any = false;
  for (const pysrc::Parameter& p : s.parameters) {
    if (p.kind == pysrc::Parameter::Kind::kDoubleStar) {
      takes_any = true;
      frame.locals[p.name] = Thing::unknown();
      continue;
    }
    if (p.kind == pysrc::Parameter::Kind::kStar) {
      std::vector<Thing> rest(
          arguments.args.begin() + static_cast<std::ptrdiff_t>(std::min(position, arguments.args.size())),
          arguments.args.end());
      position = arguments.args.size();
      if (!p.name.empty()) frame.locals[p.name] = Thing::sequence(std::move(rest), false);
      continue;
    }
    const auto keyword = std::find_if(arguments.kwargs.begin(), arguments.kwargs.end(),
                                      [&](const auto& entry) { return entry.first == p.name; });
    if (!p.keyword_only && position < arguments.args.size()) {
      frame.locals[p.name] = arguments.args[position++];
    } else if (keyword != arguments.kwargs.end()) {
      frame.locals[p.name] = keyword->second;
      used.insert(p.name);
    } else if (p.default_value != nullptr) {
      Frame outside;
      outside.stem = function.text;
      frame.locals[p.name] = eval(*p.default_value, outside);
    } else {
      missing(fmt::format("does not give {}", p.name));
      return {};
    }
  }
  if (position < arguments.args.size()) {
    missing(fmt::format("gives {} arguments to {} parameters", arguments.args.size(), s.parameters.size()));
    return {};
  }
  if (!takes_any && used.size() < arguments.kwargs.size()) {
    missing("names a parameter that is not there");
    return {};
  }
  frames_.push_back(&frame);
  block(s.body, frame);
  frames_.pop_back();
  if (halted()) return {};
  return frame.returned ? std::move(*frame.returned) : Thing::of(Value::none());
}

Thing WrapperFollower::launch(const Expr&, const Thing& kernel, const Arguments& arguments) {
  const Stmt& s = *kernel.function;
  const KernelStores stores = kernel_stores(s);
  if (!stores.known) out_.effects_known = false;
  size_t position = 0;
  const auto note = [&](const Thing& thing, const std::string& parameter) {
    if (thing.kind != Thing::Kind::kTensor) return;
    const int argument = tensors_[thing.tensor].argument;
    if (argument < 0) return;
    if (stores.stored.contains(parameter)) out_.written.insert(static_cast<size_t>(argument));
    if (stores.handed_on.contains(parameter) || !stores.known)
      out_.maybe_written.insert(static_cast<size_t>(argument));
  };
  for (const pysrc::Parameter& p : s.parameters) {
    if (position < arguments.args.size()) note(arguments.args[position], p.name);
    ++position;
  }
  for (const auto& [key, thing] : arguments.kwargs) note(thing, key);
  return {};
}

Thing WrapperFollower::converted(size_t tensor, std::optional<DType> dtype) {
  WrapperTensor out = tensors_[tensor];
  // Where nothing changes the tensor itself comes back.
  if (dtype && out.dtype == dtype) {
    Thing same;
    same.kind = Thing::Kind::kTensor;
    same.tensor = tensor;
    return same;
  }
  out.dtype = dtype;
  out.argument = -1;
  if (out.shape && out.stride) out.stride = preserved_strides(*out.shape, *out.stride);
  return make(std::move(out));
}

Thing WrapperFollower::allocate_like(const Expr& e, const std::string& name, const Arguments& arguments) {
  const Thing* like = arguments.find(0, "input");
  if (like == nullptr || like->kind != Thing::Kind::kTensor)
    return make({{}, {}, {}, false, -1, "its own buffer"});
  WrapperTensor out = tensors_[like->tensor];
  bool given = false;
  const std::optional<DType> dtype = dtype_argument(arguments, &given);
  if (given && out.poisoned && dtype && out.dtype && *dtype != *out.dtype) {
    raise(e.span, "wrapper.dtype_dropped",
          fmt::format("{} of {} with dtype={}: the run-time guard drops the keyword, the buffer is {} and a "
                      "kernel writes past it",
                      name, out.name, name_of(*dtype), name_of(*out.dtype)),
          fmt::format("allocate with torch.empty({}.shape, dtype=torch.{}, device={}.device)", out.name,
                      name_of(*dtype), out.name));
    return {};
  }
  if (given) out.dtype = dtype;
  const bool layout = std::any_of(arguments.kwargs.begin(), arguments.kwargs.end(),
                                  [](const auto& entry) { return entry.first == "memory_format"; });
  if (layout) out.stride.reset();
  if (out.shape && out.stride) out.stride = preserved_strides(*out.shape, *out.stride);
  out.argument = -1;
  out.name = "its own buffer";
  return make(std::move(out));
}

Thing WrapperFollower::torch_call(const Expr& e, const std::string& name, const Arguments& arguments) {
  const std::string_view last = std::string_view(name).substr(6);
  if (last == "empty_like" || last == "zeros_like" || last == "ones_like" || last == "full_like")
    return allocate_like(e, name, arguments);
  if (last == "as_tensor") {
    if (const Thing* data = arguments.find(0, "data");
        data != nullptr && data->kind == Thing::Kind::kTensor) {
      bool given = false;
      const std::optional<DType> dtype = dtype_argument(arguments, &given);
      return given ? converted(data->tensor, dtype) : *data;
    }
    return make({{}, {}, {}, false, -1, "its own buffer"});
  }
  const bool fill = last == "full";
  if (last == "empty" || last == "zeros" || last == "ones" || fill || last == "empty_strided") {
    WrapperTensor out;
    out.name = "its own buffer";
    out.shape = shape_argument(arguments, fill ? 1 : arguments.args.size());
    bool given = false;
    out.dtype = dtype_argument(arguments, &given);
    if (!given && !fill) out.dtype = DType::kFloat32;
    if (last == "empty_strided") {
      const Thing* strides = arguments.find(1, "stride");
      const std::optional<Value> v = strides == nullptr ? std::nullopt : strides->literal();
      if (v) out.stride = sizes_of(*v);
    } else if (out.shape && std::none_of(arguments.kwargs.begin(), arguments.kwargs.end(),
                                         [](const auto& entry) { return entry.first == "memory_format"; })) {
      out.stride = contiguous_strides(*out.shape);
    }
    return make(std::move(out));
  }
  for (const Thing* thing : arguments.all()) {
    if (thing->kind == Thing::Kind::kTensor && tensors_[thing->tensor].poisoned)
      return operation(e, thing->tensor, fmt::format("calls {} on", name), "compute in a Triton kernel");
  }
  for (const Thing* thing : arguments.all()) {
    if (thing->kind == Thing::Kind::kTensor) return operation(e, thing->tensor, "", "");
  }
  return {};
}

Thing WrapperFollower::global_call(const Expr& e, const std::string& name, const Arguments& arguments) {
  if (name.starts_with("torch.")) return torch_call(e, name, arguments);
  const auto number = [&](size_t i) -> std::optional<int64_t> {
    if (i >= arguments.args.size()) return std::nullopt;
    const std::optional<Value> v = arguments.args[i].literal();
    return v ? index_of(*v) : std::nullopt;
  };
  const Thing* first = arguments.args.empty() ? nullptr : &arguments.args[0];
  if (name == "triton.cdiv") {
    const std::optional<int64_t> a = number(0), b = number(1);
    return a && b && *b > 0 ? Thing::of(Value::integer((*a + *b - 1) / *b)) : Thing::unknown();
  }
  if (name == "triton.next_power_of_2") {
    const std::optional<int64_t> a = number(0);
    return a && *a > 0
               ? Thing::of(Value::integer(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(*a)))))
               : Thing::unknown();
  }
  if (name == "len" && first != nullptr) {
    if (first->kind == Thing::Kind::kSequence)
      return Thing::of(Value::integer(static_cast<int64_t>(first->items.size())));
    if (first->kind == Thing::Kind::kTensor && tensors_[first->tensor].shape &&
        !tensors_[first->tensor].shape->empty())
      return Thing::of(Value::integer(tensors_[first->tensor].shape->front()));
    if (first->kind == Thing::Kind::kLiteral && first->value.is_sequence())
      return Thing::of(Value::integer(static_cast<int64_t>(first->value.items().size())));
    return {};
  }
  if ((name == "int" || name == "float" || name == "bool") && first != nullptr) {
    if (first->kind == Thing::Kind::kTensor)
      return operation(e, first->tensor, fmt::format("takes {}() of", name), "load the value in the kernel");
    const std::optional<Value> v = first->literal();
    if (!v || !v->is_number()) return {};
    if (name == "float") return Thing::of(Value::real(v->as_double()));
    if (name == "bool") return Thing::of(Value::boolean(v->as_double() != 0));
    return v->kind() == Value::Kind::kFloat ? Thing::of(Value::integer(static_cast<int64_t>(v->as_double())))
                                            : Thing::of(Value::integer(v->as_int()));
  }
  if ((name == "min" || name == "max") && arguments.args.size() > 1) {
    std::optional<int64_t> best = number(0);
    for (size_t i = 1; best && i < arguments.args.size(); ++i) {
      const std::optional<int64_t> next = number(i);
      best = !next ? std::nullopt
                   : std::optional(name == "min" ? std::min(*best, *next) : std::max(*best, *next));
    }
    return best ? Thing::of(Value::integer(*best)) : Thing::unknown();
  }
  if ((name == "tuple" || name == "list") && first != nullptr) {
    const std::optional<std::vector<Thing>> items = items_of(e, *first);
    return items ? Thing::sequence(*items, name == "list") : Thing::unknown();
  }
  if (name == "range" && first != nullptr) {
    const int64_t from = arguments.args.size() > 1 ? number(0).value_or(0) : 0;
    const std::optional<int64_t> to = number(arguments.args.size() > 1 ? 1 : 0);
    if (!to || *to - from > 4096 || arguments.args.size() > 2) return {};
    std::vector<Thing> items;
    for (int64_t i = from; i < *to; ++i) items.push_back(Thing::of(Value::integer(i)));
    return Thing::sequence(std::move(items), true);
  }
  if (name == "isinstance" || name == "hasattr" || name == "print" || name == "str" || name == "id" ||
      name == "repr")
    return {};
  if (name == "abs" || name == "round" || name == "sum" || name == "sorted" || name.starts_with("math.") ||
      name.starts_with("triton."))
    return {};
  // Another library, or a binding that was not followed: it may launch or compute anything.
  out_.effects_known = false;
  for (const Thing* thing : arguments.all()) {
    if (thing->kind == Thing::Kind::kTensor && name.starts_with("operator."))
      return operation(e, thing->tensor, fmt::format("calls {} on", name), "compute in a Triton kernel");
  }
  return {};
}

Thing WrapperFollower::method_call(const Expr& e, const Thing& object, const std::string& name,
                                   const Arguments& arguments) {
  if (object.kind == Thing::Kind::kDict) {
    if (name == "get") {
      const Thing* key = arguments.find(0, "key");
      const std::optional<Value> v = key == nullptr ? std::nullopt : key->literal();
      for (size_t i = 0; v && i < object.keys.size(); ++i) {
        if (object.keys[i] == *v) return object.items[i];
      }
      if (!v && !object.keys.empty()) return {};
      const Thing* otherwise = arguments.find(1, "default");
      return otherwise == nullptr ? Thing::of(Value::none()) : *otherwise;
    }
    return {};
  }
  if (object.kind == Thing::Kind::kLiteral && object.value.is_sequence() && name == "numel") {
    int64_t product = 1;
    for (const Value& v : object.value.items()) product *= v.as_int();
    return Thing::of(Value::integer(product));
  }
  // A list that grows is not tracked.
  if (object.kind == Thing::Kind::kSequence && object.is_list)
    stop(e.span, fmt::format("a list that changes (.{})", name));
  return {};
}

Thing WrapperFollower::tensor_attribute(const Expr& e, size_t tensor, const std::string& name) {
  const WrapperTensor& t = tensors_[tensor];
  const auto tuple_of = [](const std::vector<int64_t>& sizes) {
    std::vector<Value> items;
    for (const int64_t n : sizes) items.push_back(Value::integer(n));
    return Thing::of(Value::tuple(std::move(items)));
  };
  if (name == "shape") return t.shape ? tuple_of(*t.shape) : Thing::unknown();
  if (name == "dtype") return t.dtype ? Thing::of(Value::dtype(*t.dtype)) : Thing::unknown();
  if (name == "ndim")
    return t.shape ? Thing::of(Value::integer(static_cast<int64_t>(t.shape->size()))) : Thing::unknown();
  if (name == "itemsize")
    return t.dtype ? Thing::of(Value::integer(static_cast<int64_t>(size_of(*t.dtype)))) : Thing::unknown();
  if (among(kOperations, name) && name != "grad")
    return operation(e, tensor, fmt::format("reads .{} of", name), "read through x.stride() in the kernel");
  return {};
}

// A view of a buffer that the wrapper made itself; only what shapes it gives is followed.
Thing WrapperFollower::own_view(size_t tensor, const std::string& name, const Arguments& arguments) {
  WrapperTensor out = tensors_[tensor];
  std::vector<int64_t> numbers;
  bool known = out.shape && out.stride;
  for (const Thing& thing : arguments.args) {
    const std::optional<Value> v = thing.literal();
    const std::optional<std::vector<int64_t>> some = v ? sizes_of(*v) : std::nullopt;
    known = known && some;
    if (some) numbers.insert(numbers.end(), some->begin(), some->end());
  }
  known = known && arguments.kwargs.empty();
  if (known) {
    TensorMeta meta;
    meta.shape = *out.shape;
    meta.stride = out.stride;
    View view(meta);
    const int rank = view.rank();
    const auto axis = [&](int64_t a, int extra = 0) {
      return static_cast<int>(a < 0 ? a + rank + extra : a);
    };
    const auto good = [&](int64_t a, int extra = 0) {
      return axis(a, extra) >= 0 && axis(a, extra) < rank + extra;
    };
    const bool two = numbers.size() == 2 && good(numbers[0]) && good(numbers[1]);
    if (name == "permute" && numbers.size() == static_cast<size_t>(rank)) {
      for (int64_t& n : numbers) n = axis(n);
      std::vector<int64_t> sorted = numbers;
      std::sort(sorted.begin(), sorted.end());
      for (size_t i = 0; i < sorted.size(); ++i) known = known && sorted[i] == static_cast<int64_t>(i);
      if (known) view.permute(numbers);
    } else if (name == "transpose" && two) {
      view.transpose(axis(numbers[0]), axis(numbers[1]));
    } else if (name == "t" && numbers.empty() && rank == 2) {
      view.transpose(0, 1);
    } else if (name == "unsqueeze" && numbers.size() == 1 && good(numbers[0], 1)) {
      view.unsqueeze(axis(numbers[0], 1));
    } else if ((name == "view" || name == "reshape") && !numbers.empty()) {
      int64_t total = 1, given = 1;
      for (const int64_t n : meta.shape) total *= n;
      for (const int64_t n : numbers) given *= n == -1 ? 1 : n;
      for (int64_t& n : numbers) {
        if (n == -1 && given > 0) n = total / given;
      }
      const std::optional<std::vector<int64_t>> strides = reshape_strides(meta.shape, *meta.stride, numbers);
      known = strides.has_value();
      if (known) {
        out.shape = numbers;
        out.stride = strides;
        return make(std::move(out));
      }
    } else {
      known = false;
    }
    if (known) {
      out.shape = view.meta().shape;
      out.stride = view.meta().stride;
      return make(std::move(out));
    }
  }
  out.shape.reset();
  out.stride.reset();
  return make(std::move(out));
}

Thing WrapperFollower::tensor_method(const Expr& e, size_t tensor, const std::string& name,
                                     const Arguments& arguments) {
  const WrapperTensor& t = tensors_[tensor];
  Thing self;
  self.kind = Thing::Kind::kTensor;
  self.tensor = tensor;
  if (name == "size" || name == "stride") {
    const std::optional<std::vector<int64_t>>& list = name == "size" ? t.shape : t.stride;
    if (!list) return {};
    const Thing* dim = arguments.find(0, "dim");
    if (dim == nullptr) {
      std::vector<Value> items;
      for (const int64_t n : *list) items.push_back(Value::integer(n));
      return Thing::of(Value::tuple(std::move(items)));
    }
    const std::optional<Value> v = dim->literal();
    const std::optional<int64_t> at = v ? index_of(*v) : std::nullopt;
    const int64_t rank = static_cast<int64_t>(list->size());
    if (!at) return {};
    if (*at >= -rank && *at < rank)
      return Thing::of(Value::integer((*list)[static_cast<size_t>(*at < 0 ? *at + rank : *at)]));
    raise(e.span, "wrapper.raises",
          fmt::format("{} asks for axis {} of {}, which has {}", frames_.back()->function->text, *at, t.name,
                      rank),
          "the rank of the tensor is another than the code expects");
    return {};
  }
  if (name == "dim" || name == "ndimension") return tensor_attribute(e, tensor, "ndim");
  if (name == "numel" || name == "nelement") {
    if (!t.shape) return {};
    int64_t product = 1;
    for (const int64_t n : *t.shape) product *= n;
    return Thing::of(Value::integer(product));
  }
  if (name == "is_contiguous") {
    if (!t.shape || !t.stride || !arguments.args.empty() || !arguments.kwargs.empty()) return {};
    TensorMeta meta;
    meta.shape = *t.shape;
    meta.stride = t.stride;
    return Thing::of(Value::boolean(meta.is_contiguous()));
  }
  if (name == "element_size") return tensor_attribute(e, tensor, "itemsize");
  if (among(kMetadata, name)) return {};
  for (const Conversion& c : kConversions) {
    if (c.method != name) continue;
    if (c.dtype) return converted(tensor, c.dtype);
    for (const Thing* thing : arguments.all()) {
      if (thing->kind == Thing::Kind::kLiteral && thing->value.kind() == Value::Kind::kDType)
        return converted(tensor, thing->value.as_dtype());
      if (thing->kind == Thing::Kind::kTensor) return converted(tensor, tensors_[thing->tensor].dtype);
    }
    return make({t.shape, {}, {}, t.poisoned, -1, t.name});
  }
  if (name == "contiguous") {
    // Of a contiguous tensor it is the tensor itself and the guard sees nothing.
    if (!t.shape || !t.stride) return t.poisoned ? Thing::unknown() : self;
    TensorMeta meta;
    meta.shape = *t.shape;
    meta.stride = t.stride;
    if (meta.is_contiguous() && arguments.kwargs.empty() && arguments.args.empty()) return self;
    return operation(e, tensor, "calls .contiguous() on the strided",
                     fmt::format("pass {}.stride() to the kernel and read through the strides", t.name));
  }
  if (among(kViews, name) && !t.poisoned) return own_view(tensor, name, arguments);
  if (among(kViews, name)) {
    return operation(
        e, tensor, fmt::format("calls .{}() on", name),
        "pass the tensor as it is and compute the index in the kernel, from its shape and strides");
  }
  if (name == "item" || name == "tolist" || name == "numpy")
    return operation(e, tensor, fmt::format("calls .{}() on", name), "load the value in the kernel");
  if (name == "new_empty" || name == "new_zeros" || name == "new_ones" || name == "new_full" ||
      name == "clone" || name == "detach") {
    return operation(e, tensor, fmt::format("calls .{}() on", name),
                     fmt::format("allocate with torch.empty({}.shape, dtype={}.dtype, device={}.device)",
                                 t.name, t.name, t.name));
  }
  return operation(e, tensor, fmt::format("calls .{}() on", name), "compute in the kernel");
}

}  // namespace passnet::check
