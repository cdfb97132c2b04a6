#include <algorithm>

#include <fmt/format.h>

#include "ops/row_args.h"
#include "ops/view_algebra.h"
#include "ops/view_rows.h"

namespace passnet {

namespace {

using Sizes = std::vector<int64_t>;
// The views that make up the result; each row says how to build them.
using BuildPieces = Result<std::vector<View>> (*)(const Call&);

template <BuildPieces kBuild>
Result<Inferred> meta_pieces(const Call& call) {
  PN_TRY(std::vector<View> pieces, kBuild(call));
  std::vector<Meta> items;
  for (const View& piece : pieces) items.push_back(Meta::of(piece.meta()));
  return tuple_result(std::move(items));
}

template <BuildPieces kBuild>
Result<std::vector<ArrayId>> lower_pieces(LowerContext& ctx, const Call& call) {
  PN_TRY(std::vector<View> pieces, kBuild(call));
  PN_TRY(ArrayId source, ctx.array(call.arg("input")));
  Program& p = ctx.program();
  std::vector<ArrayId> out;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::vector<int64_t>& shape = pieces[i].shape();
    std::vector<ExprId> at = identity(p, shape);
    ExprId element = p.read(source, pieces[i].map(p, at));
    out.push_back(
        p.add_map(shape, p.array(source).dtype, element, label_of(call, std::to_string(i)), call.node->id));
  }
  return out;
}

struct Axis {
  const TensorMeta* input = nullptr;
  int axis = 0;
  int64_t size = 0;
};

Result<Axis> split_axis(const Call& call, std::string_view parameter = "dim") {
  Axis out;
  PN_TRY(out.input, tensor_arg(call, "input"));
  if (out.input->dim() == 0) return bad_argument(call, "input", "a tensor with dimensions");
  PN_TRY(out.axis, axis_arg(call, parameter, out.input->dim()));
  out.size = out.input->shape[static_cast<size_t>(out.axis)];
  return out;
}

std::vector<View> cut(const Axis& from, const Sizes& sizes) {
  std::vector<View> out;
  int64_t start = 0;
  for (int64_t size : sizes) {
    View piece(*from.input);
    piece.slice(from.axis, start, size, 1);
    out.push_back(std::move(piece));
    start += size;
  }
  return out;
}

// Pieces of `step` elements, the last one shorter; one empty piece of an empty axis.
Sizes even_sizes(int64_t size, int64_t step) {
  Sizes out;
  for (int64_t start = 0; start < size || out.empty(); start += step)
    out.push_back(std::min(step, size - start));
  return out;
}

Result<std::vector<View>> chunks(const Call& call) {
  PN_TRY(Axis axis, split_axis(call));
  PN_TRY(int64_t n, int_arg(call, "chunks"));
  if (n <= 0) return bad_argument(call, "chunks", "positive");
  int64_t step = (axis.size + n - 1) / n;
  // An empty axis still gives the number asked for.
  return step == 0 ? cut(axis, Sizes(static_cast<size_t>(n), 0)) : cut(axis, even_sizes(axis.size, step));
}

Result<std::vector<View>> listed(const Call& call, const Axis& axis, const Sizes& sizes,
                                 std::string_view parameter) {
  int64_t total = 0;
  for (int64_t size : sizes) {
    if (size < 0) return bad_argument(call, parameter, "sizes of at least 0");
    total += size;
  }
  if (total != axis.size)
    return bad_argument(call, parameter, fmt::format("sizes that sum to {}", axis.size));
  return cut(axis, sizes);
}

Result<std::vector<View>> splits(const Call& call) {
  PN_TRY(Axis axis, split_axis(call));
  PN_TRY(Sizes sizes, ints_arg(call, "split_size"));
  if (known_value(call, call.arg("split_size")).kind() != Value::Kind::kInt)
    return listed(call, axis, sizes, "split_size");
  if (sizes[0] < 0 || (sizes[0] == 0 && axis.size != 0)) return bad_argument(call, "split_size", "positive");
  return cut(axis, sizes[0] == 0 ? Sizes{0} : even_sizes(axis.size, sizes[0]));
}

std::vector<View> tensor_splits(const Axis& axis, const Sizes& places, bool by_count) {
  Sizes sizes;
  if (by_count) {
    int64_t n = places[0], longer = axis.size % n;
    for (int64_t i = 0; i < n; ++i) sizes.push_back(axis.size / n + (i < longer ? 1 : 0));
    return cut(axis, sizes);
  }
  std::vector<View> out;
  int64_t start = 0;
  for (size_t i = 0; i <= places.size(); ++i) {
    int64_t end = axis.size;
    if (i < places.size()) end = places[i] < 0 ? places[i] + axis.size : places[i];
    end = std::clamp<int64_t>(end, 0, axis.size);
    int64_t from = std::clamp<int64_t>(start, 0, axis.size);
    View piece(*axis.input);
    piece.slice(axis.axis, from, std::max<int64_t>(end - from, 0), 1);
    out.push_back(std::move(piece));
    start = end;
  }
  return out;
}

Result<std::vector<View>> tensor_splits_along(const Call& call, const Axis& axis,
                                              std::string_view parameter) {
  PN_TRY(Sizes places, ints_arg(call, parameter));
  bool by_count = known_value(call, call.arg(parameter)).kind() == Value::Kind::kInt;
  if (by_count && places[0] <= 0) return bad_argument(call, parameter, "positive");
  return tensor_splits(axis, places, by_count);
}

Result<std::vector<View>> tensor_splits(const Call& call) {
  PN_TRY(Axis axis, split_axis(call));
  return tensor_splits_along(call, axis, "indices_or_sections");
}

// hsplit, vsplit, dsplit: tensor_split along a fixed axis; a count has to divide.
Result<std::vector<View>> fixed_splits(const Call& call, int axis_number, int min_rank) {
  Axis axis;
  PN_TRY(axis.input, tensor_arg(call, "input"));
  if (axis.input->dim() < min_rank)
    return bad_argument(call, "input", fmt::format("a tensor of at least {} dimensions", min_rank));
  axis.axis = axis_number == 1 && axis.input->dim() == 1 ? 0 : axis_number;
  axis.size = axis.input->shape[static_cast<size_t>(axis.axis)];
  Value sections = known_value(call, call.arg("sections"));
  if (sections.kind() == Value::Kind::kInt && (sections.as_int() <= 0 || axis.size % sections.as_int() != 0))
    return bad_argument(call, "sections", fmt::format("a divisor of {}", axis.size));
  return tensor_splits_along(call, axis, "sections");
}
Result<std::vector<View>> hsplits(const Call& call) { return fixed_splits(call, 1, 1); }
Result<std::vector<View>> vsplits(const Call& call) { return fixed_splits(call, 0, 2); }
Result<std::vector<View>> dsplits(const Call& call) { return fixed_splits(call, 2, 3); }

Result<std::vector<View>> unbound(const Call& call) {
  PN_TRY(Axis axis, split_axis(call));
  std::vector<View> out;
  for (int64_t i = 0; i < axis.size; ++i) {
    View piece(*axis.input);
    piece.select(axis.axis, i);
    out.push_back(std::move(piece));
  }
  return out;
}

// meshgrid and broadcast_tensors: every tensor seen in the shape of all.
Result<std::vector<View>> grid_views(const Call& call) {
  PN_TRY(std::vector<TensorMeta> tensors, tensors_arg(call, "tensors"));
  std::string indexing = "ij";
  if (!is_none(call, "indexing")) {
    PN_TRY(indexing, string_arg(call, "indexing"));
  }
  if (indexing != "ij" && indexing != "xy") return bad_argument(call, "indexing", "'ij' or 'xy'");
  bool swapped = indexing == "xy" && tensors.size() >= 2;
  if (swapped) std::swap(tensors[0], tensors[1]);
  Sizes shape;
  for (const TensorMeta& tensor : tensors) {
    if (tensor.dim() > 1) return bad_argument(call, "tensors", "tensors of at most 1 dimension");
    shape.push_back(tensor.numel());
  }
  std::vector<View> out;
  for (size_t i = 0; i < tensors.size(); ++i) {
    View view(tensors[i]);
    if (tensors[i].dim() == 0) view.unsqueeze(0);
    // A view of shape [1, ..., n, ..., 1], expanded.
    for (size_t before = 0; before < i; ++before) view.unsqueeze(0);
    while (view.rank() < static_cast<int>(shape.size())) view.unsqueeze(view.rank());
    view.expand(shape);
    out.push_back(std::move(view));
  }
  if (swapped) std::swap(out[0], out[1]);
  return out;
}

Result<std::vector<View>> broadcast_views(const Call& call) {
  PN_TRY(std::vector<TensorMeta> tensors, tensors_arg(call, "tensors"));
  std::vector<Sizes> shapes;
  for (const TensorMeta& tensor : tensors) shapes.push_back(tensor.shape);
  PN_TRY(Sizes shape, broadcast_shapes(call, shapes));
  std::vector<View> out;
  for (const TensorMeta& tensor : tensors) {
    out.emplace_back(tensor);
    out.back().expand(shape);
  }
  return out;
}

template <BuildPieces kBuild>
Result<std::vector<ArrayId>> lower_each(LowerContext& ctx, const Call& call) {
  PN_TRY(std::vector<View> pieces, kBuild(call));
  const Value& tensors = call.arg("tensors");
  if (!tensors.is_sequence()) return no_lowering(call, "the tensors come as one tuple value");
  Program& p = ctx.program();
  std::vector<ArrayId> out;
  for (size_t i = 0; i < pieces.size(); ++i) {
    PN_TRY(ArrayId source, ctx.array(tensors.items()[i]));
    const Sizes& shape = pieces[i].shape();
    std::vector<ExprId> at = identity(p, shape);
    out.push_back(p.add_map(shape, p.array(source).dtype, p.read(source, pieces[i].map(p, at)),
                            label_of(call, std::to_string(i)), call.node->id));
  }
  return out;
}

template <BuildPieces kBuild, int kHostTenths>
OpRow split_row(std::string_view name, std::vector<Spelling> spellings, std::vector<Example> examples) {
  return {.name = name,
          .cls = OpClass::kView,
          .spellings = std::move(spellings),
          .meta = meta_pieces<kBuild>,
          .lower = lower_pieces<kBuild>,
          .cost = fixed_cost<kHostTenths, 0>,
          .examples = std::move(examples)};
}

template <BuildPieces kBuild>
OpRow each_row(std::string_view name, std::vector<Spelling> spellings, std::vector<Example> examples) {
  return {.name = name,
          .cls = OpClass::kView,
          .spellings = std::move(spellings),
          .meta = meta_pieces<kBuild>,
          .lower = lower_each<kBuild>,
          .cost = fixed_cost<120, 0>,
          .examples = std::move(examples)};
}

}  // namespace

std::vector<OpRow> split_rows() {
  return {
      split_row<chunks, 54>(
          "chunk", {method("chunk", "input, chunks, dim=0"), function("torch.chunk", "input, chunks, dim=0")},
          {{"x=f32[2,6]", "x.chunk(3, dim=1)"},
           {"x=f32[2,7]", "x.chunk(3, -1)"},
           {"x=f32[5,2]", "torch.chunk(x, 4, dim=0)"}}),
      split_row<splits, 77>(
          "split",
          {method("split", "input, split_size, dim=0"),
           function("torch.split", "input, split_size|split_size_or_sections, dim=0"),
           function("torch.functional.split", "input, split_size|split_size_or_sections, dim=0"),
           method("split_with_sizes", "input, split_size|split_sizes, dim=0"),
           function("torch.split_with_sizes", "input, split_size|split_sizes, dim=0")},
          {{"x=f32[2,8]", "x.split(3, 1)"},
           {"x=f32[2,8]", "x.split([3, 5], dim=-1)"},
           {"x=f32[7,8]", "torch.functional.split(x, [2, 5], dim=0)"},
           {"x=f32[2,8]", "torch.split(x, (4, 4), dim=1)"},
           {"x=f32[7,2]", "torch.split_with_sizes(x, [3, 4])"}}),
      split_row<tensor_splits, 90>(
          "tensor_split",
          {method("tensor_split", "input, indices_or_sections|indices|sections, dim=0"),
           function("torch.tensor_split", "input, indices_or_sections|indices|sections, dim=0")},
          {{"x=f32[7,2]", "x.tensor_split(3, 0)"}, {"x=f32[2,7]", "torch.tensor_split(x, (1, 4), dim=1)"}}),
      split_row<hsplits, 90>(
          "hsplit",
          {method("hsplit", "input, sections|indices"), function("torch.hsplit", "input, sections|indices")},
          {{"x=f32[2,6]", "torch.hsplit(x, 2)"}, {"x=f32[6]", "x.hsplit((2, 3))"}}),
      split_row<vsplits, 90>(
          "vsplit",
          {method("vsplit", "input, sections|indices"), function("torch.vsplit", "input, sections|indices")},
          {{"x=f32[4,6]", "torch.vsplit(x, 2)"}}),
      split_row<dsplits, 90>(
          "dsplit",
          {method("dsplit", "input, sections|indices"), function("torch.dsplit", "input, sections|indices")},
          {{"x=f32[2,3,4]", "torch.dsplit(x, [1])"}}),
      split_row<unbound, 60>("unbind",
                             {method("unbind", "input, dim=0"), function("torch.unbind", "input, dim=0")},
                             {{"x=f32[3,2,4]", "x.unbind(0)"}, {"x=f32[2,3]", "torch.unbind(x, dim=-1)"}}),
      each_row<grid_views>("meshgrid",
                           {function("torch.meshgrid", "tensors..., *, indexing=None"),
                            function("torch.functional.meshgrid", "tensors..., *, indexing=None")},
                           {{"x=f32[3], y=f32[4]", "torch.meshgrid(x, y, indexing='ij')"},
                            {"x=f32[3], y=f32[4]", "torch.functional.meshgrid(x, y, indexing='xy')"},
                            {"x=i64[2], y=i64[3], z=i64[4]", "torch.meshgrid([x, y, z], indexing='ij')"}}),
      each_row<broadcast_views>("broadcast_tensors",
                                {function("torch.broadcast_tensors", "tensors..."),
                                 function("torch.functional.broadcast_tensors", "tensors...")},
                                {{"x=f32[3,1], y=f32[2,1,4]", "torch.broadcast_tensors(x, y)"}}),
  };
}

}  // namespace passnet
