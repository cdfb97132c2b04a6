#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "ops/product_rows.h"
#include "ops/row_args.h"
#include "ops/view_algebra.h"

namespace passnet {

namespace {

using Shape = std::vector<int64_t>;
using Labels =
    std::vector<int>;  // letters as themselves; axes under an ellipsis as negative numbers, -1 the last

struct Einsum {
  std::vector<TensorMeta> operands;
  std::vector<Labels> labels;  // of each operand's axes
  Labels result;
  Labels summed;
  std::map<int, int64_t> sizes;
};

Result<Labels> read_labels(const Call& call, std::string_view text, int rank, int* ellipsis_rank) {
  Labels out;
  size_t letters = 0;
  bool ellipsis = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    if (text[i] == '.') {
      if (text.substr(i, 3) != "..." || ellipsis) return bad_argument(call, "equation", "well formed");
      ellipsis = true;
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(text[i]))) {
      ++letters;
    } else {
      return bad_argument(call, "equation", "made of letters, '...', ',' and '->'");
    }
  }
  int under = ellipsis ? (rank < 0 ? *ellipsis_rank : rank - static_cast<int>(letters)) : 0;
  if (under < 0 || (rank >= 0 && static_cast<int>(letters) + under != rank))
    return bad_argument(call, "equation", fmt::format("one with {} labels for '{}'", rank, text));
  *ellipsis_rank = std::max(*ellipsis_rank, under);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    if (text[i] == '.') {
      for (int axis = under; axis > 0; --axis) out.push_back(-axis);
      i += 2;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

Result<Einsum> read_einsum(const Call& call) {
  Einsum e;
  PN_TRY(std::string equation, string_arg(call, "equation"));
  PN_TRY(e.operands, tensors_arg(call, "operands"));
  size_t arrow = equation.find("->");
  std::string_view left = std::string_view(equation).substr(0, arrow);
  int ellipsis_rank = 0;
  std::vector<std::string_view> terms;
  for (size_t start = 0; start <= left.size();) {
    size_t comma = std::min(left.find(',', start), left.size());
    terms.push_back(left.substr(start, comma - start));
    start = comma + 1;
  }
  if (terms.size() != e.operands.size())
    return bad_argument(call, "equation",
                        fmt::format("one with {} terms, as there are operands", e.operands.size()));
  std::map<int, int> count;
  for (size_t i = 0; i < terms.size(); ++i) {
    PN_TRY(Labels labels, read_labels(call, terms[i], e.operands[i].dim(), &ellipsis_rank));
    for (size_t axis = 0; axis < labels.size(); ++axis) {
      int64_t size = e.operands[i].shape[axis];
      int64_t& known = e.sizes.emplace(labels[axis], size).first->second;
      if (known == 1) known = size;
      if (size != 1 && size != known)
        return bad_argument(call, "operands", "tensors whose axes of one label have one size");
      ++count[labels[axis]];
    }
    e.labels.push_back(std::move(labels));
  }
  if (arrow != std::string::npos) {
    PN_TRY(e.result, read_labels(call, std::string_view(equation).substr(arrow + 2), -1, &ellipsis_rank));
  } else {  // the ellipsis, then letters that occur once, in alphabetical order (capitals first)
    for (int axis = ellipsis_rank; axis > 0; --axis) e.result.push_back(-axis);
    for (auto [label, times] : count)
      if (label > 0 && times == 1) e.result.push_back(label);
  }
  for (auto [label, size] : e.sizes)
    if (std::find(e.result.begin(), e.result.end(), label) == e.result.end()) e.summed.push_back(label);
  for (int label : e.result)
    if (!e.sizes.count(label))
      return bad_argument(call, "equation", "one whose result has labels of the operands only");
  return e;
}

Shape result_shape(const Einsum& e) {
  Shape shape;
  for (int label : e.result) shape.push_back(e.sizes.at(label));
  return shape;
}

bool has_repeats(const Labels& labels) {
  Labels sorted = labels;
  std::sort(sorted.begin(), sorted.end());
  return std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
}

// Two operands go through one bmm: (shared, left only, summed) x (shared, summed, right only), whose
// contiguous result is permuted into the equation's order. None where aten multiplies instead.
std::optional<Shape> pair_strides(const Einsum& e) {
  if (e.operands.size() != 2 || has_repeats(e.labels[0]) || has_repeats(e.labels[1])) return std::nullopt;
  auto size_in = [&](size_t operand, int label) {
    auto at = std::find(e.labels[operand].begin(), e.labels[operand].end(), label);
    if (at == e.labels[operand].end()) return int64_t{1};
    return e.operands[operand].shape[static_cast<size_t>(at - e.labels[operand].begin())];
  };
  bool any_summed_in_both = false;
  for (int label : e.summed) {
    bool both = size_in(0, label) != 1 && size_in(1, label) != 1;
    any_summed_in_both |= both;
  }
  if (!any_summed_in_both) return std::nullopt;
  // Axes in aten's order: those of the result, classified by which operand really has them.
  Labels shared, left, right, ones;
  for (int label : e.result) {
    bool in_left = size_in(0, label) != 1, in_right = size_in(1, label) != 1;
    (in_left && in_right ? shared : in_left ? left : in_right ? right : ones).push_back(label);
  }
  // With the left operand's axis last, versions of torch differ in which operand comes first.
  if (!left.empty() && !e.result.empty() && e.result.back() == left.back()) return std::nullopt;
  if (!ones.empty()) return std::nullopt;  // size-1 axes: their strides depend on which class they fell into
  Labels order = shared;
  order.insert(order.end(), left.begin(), left.end());
  order.insert(order.end(), right.begin(), right.end());
  std::map<int, int64_t> stride;
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0;) {
    stride[order[i]] = step;
    step *= e.sizes.at(order[i]);
  }
  Shape out;
  for (int label : e.result) out.push_back(stride[label]);
  return out;
}

Result<Inferred> meta_einsum(const Call& call) {
  PN_TRY(Einsum e, read_einsum(call));
  if (e.operands.size() == 1 && e.summed.empty() && !has_repeats(e.labels[0])) {  // a permutation: a view
    View view(e.operands[0]);
    Shape axes;
    for (int label : e.result)
      axes.push_back(std::find(e.labels[0].begin(), e.labels[0].end(), label) - e.labels[0].begin());
    view.permute(axes);
    return tensor_result(view.meta());
  }
  DType dtype = e.operands[0].dtype;
  for (const TensorMeta& operand : e.operands)
    if (operand.dtype != dtype) return bad_argument(call, "operands", "tensors of one type");
  return fresh(result_shape(e), dtype, pair_strides(e));
}

Result<std::vector<ArrayId>> lower_einsum(LowerContext& ctx, const Call& call) {
  PN_TRY(Einsum e, read_einsum(call));
  if (e.operands.size() > 2) return no_lowering(call, "more than two operands are contracted pair by pair");
  DType dtype = e.operands[0].dtype, sum = opmath(dtype);
  if (!is_floating(dtype)) return no_lowering(call, "operands are not floating");
  const Value& given = call.arg("operands");
  std::vector<ArrayId> arrays;
  for (size_t i = 0; i < e.operands.size(); ++i) {
    if (!given.is_sequence()) return no_lowering(call, "the operands come as one tuple value");
    PN_TRY(ArrayId array, ctx.array(given.items()[i]));
    arrays.push_back(array);
  }
  Program& p = ctx.program();
  Shape shape = result_shape(e), extents;
  for (int label : e.summed) extents.push_back(e.sizes.at(label));
  std::vector<ExprId> at = identity(p, shape);
  std::map<int, ExprId> index;
  for (size_t i = 0; i < e.result.size(); ++i) index[e.result[i]] = at[i];
  for (size_t i = 0; i < e.summed.size(); ++i)
    index[e.summed[i]] = p.reduce_index(static_cast<int>(i), extents[i]);
  E term{};
  for (size_t i = 0; i < arrays.size(); ++i) {
    std::vector<ExprId> in;
    for (size_t axis = 0; axis < e.labels[i].size(); ++axis)
      in.push_back(e.operands[i].shape[axis] == 1 ? p.integer(0) : index.at(e.labels[i][axis]));
    E factor = E{&p, p.read(arrays[i], in)}.cast(sum);
    term = i == 0 ? factor : term * factor;
  }
  ArrayId out;
  if (e.summed.empty()) {
    out = p.add_map(shape, sum, term.id, label_of(call, "product"), call.node->id);
  } else {
    out = p.add_reduce(shape, sum, ReduceOp::kSum, extents, term.id, label_of(call, "sum"), call.node->id);
  }
  if (sum == dtype) return std::vector<ArrayId>{out};
  return std::vector<ArrayId>{add_epilogue(
      p, out, dtype, [&](E v, std::span<const ExprId>) { return v.cast(dtype); }, label_of(call),
      call.node->id)};
}

OpCost cost_einsum(const Call& call) {
  Result<Einsum> e = read_einsum(call);
  double terms = 1;
  if (e.ok())
    for (int label : e->summed) terms *= static_cast<double>(e->sizes.at(label));
  return product_cost(call, 55, terms);
}

}  // namespace

std::vector<OpRow> einsum_rows() {
  return {
      {.name = "einsum",
       .cls = OpClass::kProduct,
       .spellings = {function("torch.einsum", "equation, operands..."),
                     function("torch.functional.einsum", "equation, operands...")},
       .meta = meta_einsum,
       .lower = lower_einsum,
       .cost = cost_einsum,
       .examples = {{"x=f32[2,3,4,5], y=f32[3,6,5]", "torch.functional.einsum('bhwc,hkc->bhwk', x, y)"},
                    {"x=f32[2,3,4,5], y=f32[4,6,5]", "torch.functional.einsum('bhwc,wkc->bhwk', x, y)"},
                    {"x=f32[2,3,4], y=f32[2,4,5]", "torch.einsum('bij,bjk->bik', [x, y])"},
                    {"x=f32[3,2,4], y=f32[5,2,4]", "torch.einsum('ibh,jbh->bij', x, y)"},
                    {"x=f32[2,3,4], y=f32[2,3,5]", "torch.einsum('...nd,...ng->...gd', x, y)"},
                    {"x=f32[2,3]", "torch.einsum('ij->ji', x)"},
                    {"x=f32[2,3]", "torch.einsum('ij->i', x)"}}},
  };
}

}  // namespace passnet
