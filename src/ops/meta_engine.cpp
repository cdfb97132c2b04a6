#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "ops/rows.h"

namespace passnet {

Diagnostic bad_call(const Call& call, std::string code, std::string message, std::string hint) {
  Diagnostic d = user_error(code, fmt::format("`{}` ({}): {}", call.node->name, call.node->target, message))
                     .at(call.graph->file, call.node->span);
  d.hint = std::move(hint);
  return d;
}

Inferred fresh(std::vector<int64_t> shape, DType dtype) {
  std::vector<int64_t> stride = contiguous_strides(shape);
  return fresh(std::move(shape), dtype, std::move(stride));
}

Inferred fresh(std::vector<int64_t> shape, DType dtype, std::optional<std::vector<int64_t>> stride) {
  TensorMeta t;
  t.shape = std::move(shape);
  t.dtype = dtype;
  t.stride = std::move(stride);
  t.storage = kFresh;
  Inferred out;
  out.meta = Meta::of(std::move(t));
  return out;
}

Result<std::vector<int64_t>> broadcast_shapes(const Call& call,
                                              std::span<const std::vector<int64_t>> shapes) {
  size_t rank = 0;
  for (const auto& s : shapes) rank = std::max(rank, s.size());
  std::vector<int64_t> out(rank, 1);
  for (const auto& s : shapes) {
    for (size_t i = 0; i < s.size(); ++i) {
      int64_t& extent = out[rank - s.size() + i];
      if (s[i] == extent || s[i] == 1) continue;
      if (extent != 1) {
        return bad_call(
            call, "ops.bad_arguments",
            fmt::format("shapes [{}] do not broadcast: {} and {} meet at axis {}", fmt::join(s, ", "), extent,
                        s[i], static_cast<int64_t>(i) - static_cast<int64_t>(s.size())));
      }
      extent = s[i];
    }
  }
  return out;
}

namespace {

// torch's promotion has three levels; a lower one matters only where its category (bool, integer, float, complex) is
// higher than that of the level above.
std::optional<DType> combine(std::optional<DType> higher, std::optional<DType> lower) {
  if (!lower) return higher;
  if (!higher) return lower;
  if (is_complex(*higher)) return higher;
  if (is_floating(*higher)) {
    if (!is_complex(*lower)) return higher;
    return *higher == DType::kFloat64 ? DType::kComplex128 : DType::kComplex64;
  }
  if (*higher == DType::kBool || is_floating(*lower) || is_complex(*lower))
    return promote_types(*higher, *lower);
  return higher;
}

std::optional<DType> join(std::optional<DType> a, DType b) { return a ? promote_types(*a, b) : b; }

}  // namespace

DType result_type(std::span<const TensorMeta* const> tensors, std::span<const Value> scalars) {
  std::optional<DType> dimensioned, zero_dim, numbers;
  for (const TensorMeta* t : tensors) {
    auto& level = t->dim() > 0 ? dimensioned : zero_dim;
    level = join(level, t->dtype);
  }
  for (const Value& v : scalars) {
    switch (v.kind()) {
      case Value::Kind::kBool: numbers = join(numbers, DType::kBool); break;
      case Value::Kind::kInt: numbers = join(numbers, DType::kInt64); break;
      case Value::Kind::kFloat: numbers = join(numbers, DType::kFloat32); break;
      case Value::Kind::kComplex: numbers = join(numbers, DType::kComplex64); break;
      default: break;
    }
  }
  return combine(dimensioned, combine(zero_dim, numbers)).value_or(DType::kFloat32);
}

namespace {

bool is_channels_last_dense(const TensorMeta& t) {
  if (t.dim() != 4 || !t.stride) return false;
  int64_t expected = 1;
  for (const size_t axis : {1u, 3u, 2u, 0u}) {
    if (t.shape[axis] != 1) {
      if ((*t.stride)[axis] != expected) return false;
      expected *= t.shape[axis];
    }
  }
  return true;
}

bool is_dense(const TensorMeta& t) {
  if (!t.stride) return false;
  std::vector<size_t> order(t.shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (t.shape[a] < 2 || t.shape[b] < 2) return t.shape[a] >= 2 && t.shape[b] < 2;
    return (*t.stride)[a] < (*t.stride)[b];
  });
  int64_t expected = 1;
  for (const size_t axis : order) {
    if (t.shape[axis] < 2) return true;
    if ((*t.stride)[axis] != expected) return false;
    expected *= t.shape[axis];
  }
  return true;
}

// Whether unknown strides leave no choice: at most one axis that walks.
bool has_one_order(const std::vector<int64_t>& shape) {
  return std::count_if(shape.begin(), shape.end(), [](int64_t n) { return n > 1; }) <= 1;
}

}  // namespace

std::optional<std::vector<int64_t>> iterator_strides(const std::vector<int64_t>& shape,
                                                     std::span<const TensorMeta* const> operands) {
  const size_t rank = shape.size();
  // The shortcut for operands of one shape keeps their strides, those of size-1 axes included.
  const bool one_shape =
      std::all_of(operands.begin(), operands.end(), [&](const TensorMeta* t) { return t->shape == shape; });
  const bool known = std::all_of(operands.begin(), operands.end(),
                                 [](const TensorMeta* t) { return t->stride.has_value(); });
  if (operands.empty()) return contiguous_strides(shape);
  if (one_shape && known) {
    const auto all = [&](auto&& test) {
      return std::all_of(operands.begin(), operands.end(), [&](const TensorMeta* t) { return test(*t); });
    };
    if (all([](const TensorMeta& t) { return t.is_contiguous(); })) return contiguous_strides(shape);
    if (all(is_channels_last_dense)) {
      std::vector<int64_t> stride(4);
      int64_t next = 1;
      for (const size_t axis : {1u, 3u, 2u, 0u}) {
        stride[axis] = next;
        next *= std::max<int64_t>(shape[axis], 1);
      }
      return stride;
    }
    if (all(is_dense) && all([&](const TensorMeta& t) { return *t.stride == *operands[0]->stride; })) {
      return *operands[0]->stride;
    }
  }
  // Otherwise axes are sorted by the strides of the first operand that tells two of them apart; the result is dense in
  // that order. perm[0] is the fastest axis.
  bool undecided = false;
  const auto stride_at = [&](const TensorMeta& t, size_t axis) -> std::optional<int64_t> {
    const size_t offset = rank - t.shape.size();
    if (axis < offset) return 0;
    if (t.shape[axis - offset] == 1 && shape[axis] != 1) return 0;
    if (!t.stride) return std::nullopt;
    return (*t.stride)[axis - offset];
  };
  const auto should_swap = [&](size_t a, size_t b) {
    for (const TensorMeta* t : operands) {
      const auto sa = stride_at(*t, a), sb = stride_at(*t, b);
      if (!sa || !sb) {
        if ((sa && *sa == 0) || (sb && *sb == 0)) continue;
        // Strides of an axis of size 1 address nothing; taking the contiguous order there is as good as any.
        if (has_one_order(t->shape)) continue;
        undecided = true;
        return 0;
      }
      if (*sa == 0 || *sb == 0) continue;
      if (*sa < *sb) return -1;
      if (*sa > *sb) return 1;
      if (shape[a] > shape[b]) return 1;
    }
    return 0;
  };
  std::vector<size_t> perm(rank);
  std::iota(perm.rbegin(), perm.rend(), 0);
  for (size_t i = 1; i < rank; ++i) {
    size_t moving = i;
    for (size_t j = i; j-- > 0;) {
      const int comparison = should_swap(perm[j], perm[moving]);
      if (comparison > 0) {
        std::swap(perm[j], perm[moving]);
        moving = j;
      } else if (comparison < 0) {
        break;
      }
    }
  }
  if (undecided) return std::nullopt;
  bool in_order = true;
  for (size_t i = 0; i < rank; ++i) in_order = in_order && perm[i] == rank - i - 1;
  if (in_order) return contiguous_strides(shape);
  std::vector<int64_t> stride(rank, 1);
  int64_t next = 1;
  for (const size_t axis : perm) {
    stride[axis] = next;
    next *= shape[axis];
  }
  return stride;
}

Result<int64_t> normal_dim(const Call& call, int64_t dim, int64_t rank) {
  const int64_t span = std::max<int64_t>(rank, 1);  // a 0-dim tensor takes 0 and -1
  if (dim < -span || dim >= span) {
    return bad_call(call, "ops.bad_arguments",
                    fmt::format("dim {} is out of range for {} dimensions", dim, rank));
  }
  return dim < 0 ? dim + span : dim;
}

Result<std::vector<int64_t>> int_list(const Call& call, const Value& v) {
  std::vector<int64_t> out;
  const auto add = [&](const Value& item) {
    if (item.kind() == Value::Kind::kInt || item.kind() == Value::Kind::kBool) {
      out.push_back(item.as_int());
      return true;
    }
    if (!item.is_node()) return false;
    const Meta& meta = call.graph->node(item.as_node()).meta;
    if (meta.kind != Meta::Kind::kScalar || meta.scalar.kind() == Value::Kind::kFloat) return false;
    out.push_back(meta.scalar.as_int());
    return true;
  };
  bool fine = true;
  if (v.is_sequence()) {
    for (const Value& item : v.items()) fine = fine && add(item);
  } else {
    fine = add(v);
  }
  if (!fine)
    return bad_call(call, "ops.bad_arguments", fmt::format("{} is no list of integers", python_text(v)));
  return out;
}

}  // namespace passnet
