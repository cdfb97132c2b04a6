#include "codegen/test_programs.h"

#include <fmt/format.h>
#include <numeric>

namespace passnet::codegen {

namespace {

using Shape = std::vector<int64_t>;

TensorMeta tensor(Shape shape, DType dtype) {
  TensorMeta t;
  t.stride = contiguous_strides(shape);
  t.shape = std::move(shape);
  t.dtype = dtype;
  return t;
}

struct Builder {
  Program p;
  std::vector<ExprId> at;  // index of the array being defined

  ArrayId input(const TensorMeta& t, const char* name) { return p.add_input(t, name); }
  void over(const Shape& shape) {
    at.clear();
    for (size_t i = 0; i < shape.size(); ++i) at.push_back(p.index(static_cast<int>(i), shape[i]));
  }
  E read(ArrayId a, std::vector<ExprId> index) {
    const ExprId r = p.read(a, std::move(index));
    return E{&p, r}.cast(opmath(p.expr(r).type));
  }
  E read(ArrayId a) { return read(a, at); }
  E f(double v) { return {&p, p.real(v, DType::kFloat32)}; }
  ArrayId map(const Shape& shape, DType dtype, E e, const char* label) {
    return p.add_map(shape, dtype, e.cast(dtype).id, label);
  }
  Program done(std::vector<ArrayId> outputs, std::vector<TensorMeta> metas = {}) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      p.output_metas.push_back(
          i < metas.size() ? metas[i] : tensor(p.array(outputs[i]).shape, p.array(outputs[i]).dtype));
    }
    p.outputs = std::move(outputs);
    return std::move(p);
  }
};

PassEntry entry(Program program, const std::string& where) {
  PassEntry e;
  for (const TensorMeta& t : program.inputs()) {
    Binding b;
    b.tensor = t;
    e.bindings.push_back(b);
  }
  e.program = std::move(program);
  e.where = where;
  return e;
}

template <class Make>
PassSpec pass(const char* name, const char* route, const char* pattern, const Make& make) {
  PassSpec s;
  s.name = name;
  s.route = route;
  s.key = route;
  Result<Graph> g = read_graph(pattern);
  if (g.ok()) s.pattern = std::move(g).value();
  for (const DType t : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    s.entries.push_back(entry(make(t), std::string(name_of(t))));
  }
  return s;
}

Program gelu(DType t, const Shape& shape) {
  Builder b;
  const ArrayId x = b.input(tensor(shape, t), "x");
  b.over(shape);
  const E v = b.read(x);
  const ArrayId y = b.map(shape, t, v * 0.5 * (1.0 + call(Fn::kErf, v * 0.7071067811865476)), "gelu");
  return b.done({y});
}

// add, layer_norm over the last axis, permute(0, 2, 1), contiguous
Program add_layer_norm_permute(DType t, int64_t batch, int64_t rows, int64_t c) {
  Builder b;
  const Shape shape{batch, rows, c};
  const ArrayId x = b.input(tensor(shape, t), "x"), y = b.input(tensor(shape, t), "y");
  const ArrayId w = b.input(tensor({c}, t), "w"), bias = b.input(tensor({c}, t), "b");
  b.over(shape);
  const ArrayId sum = b.map(shape, t, b.read(x) + b.read(y), "add");
  const Shape row{batch, rows};
  b.over(row);
  std::vector<ExprId> inner{b.at[0], b.at[1], b.p.reduce_index(0, c)};
  const ArrayId total =
      b.p.add_reduce(row, DType::kFloat32, ReduceOp::kSum, {c}, b.read(sum, inner).id, "layer_norm.sum");
  const ArrayId mean = b.map(row, DType::kFloat32, b.read(total) / static_cast<double>(c), "layer_norm.mean");
  b.over(row);
  const E d = b.read(sum, inner) - b.read(mean);
  const ArrayId squares =
      b.p.add_reduce(row, DType::kFloat32, ReduceOp::kSum, {c}, (d * d).id, "layer_norm.squares");
  const ArrayId rstd =
      b.map(row, DType::kFloat32, call(Fn::kRsqrt, b.read(squares) / static_cast<double>(c) + 1e-5),
            "layer_norm.rstd");
  b.over(shape);
  const std::vector<ExprId> at{b.at[0], b.at[1]};
  const ArrayId norm = b.map(
      shape, t,
      (b.read(sum) - b.read(mean, at)) * b.read(rstd, at) * b.read(w, {b.at[2]}) + b.read(bias, {b.at[2]}),
      "layer_norm");
  const Shape swapped{batch, c, rows};
  b.over(swapped);
  const ArrayId out = b.map(swapped, t, E{&b.p, b.p.read(norm, {b.at[0], b.at[2], b.at[1]})}, "contiguous");
  return b.done({out});
}

Program batch_norm_silu(DType t, const Shape& shape) {
  Builder b;
  const int64_t n = shape[1];
  const ArrayId x = b.input(tensor(shape, t), "x");
  const ArrayId mean = b.input(tensor({n}, t), "mean"), var = b.input(tensor({n}, t), "var");
  const ArrayId w = b.input(tensor({n}, t), "w"), bias = b.input(tensor({n}, t), "b");
  b.over(shape);
  const std::vector<ExprId> c{b.at[1]};
  const E invstd = 1.0 / call(Fn::kSqrt, b.read(var, c) + 1e-5);
  const ArrayId norm =
      b.map(shape, t, b.read(w, c) * (b.read(x) - b.read(mean, c)) * invstd + b.read(bias, c), "batch_norm");
  b.over(shape);
  const E v = b.read(norm);
  return b.done({b.map(shape, t, v / (1.0 + call(Fn::kExp, -v)), "silu")});
}

// softmax(x.view(6, 33, 70) + mask, -1)
Program masked_softmax(DType t, int64_t rows, int64_t cols) {
  Builder b;
  const Shape four{2, 3, rows, cols}, three{6, rows, cols};
  const ArrayId x = b.input(tensor(four, t), "x"), m = b.input(tensor({2, 1, rows, cols}, t), "mask");
  b.over(four);
  const ArrayId sum =
      b.map(four, t, b.read(x) + b.read(m, {b.at[0], b.p.integer(0), b.at[2], b.at[3]}), "add");
  b.over(three);
  const ExprId n3 = b.p.integer(3);
  const ArrayId view = b.map(three, t,
                             E{&b.p, b.p.read(sum, {b.p.call(Fn::kFloorDiv, {b.at[0], n3}),
                                                    b.p.call(Fn::kMod, {b.at[0], n3}), b.at[1], b.at[2]})},
                             "view");
  const Shape row{6, rows};
  b.over(row);
  const std::vector<ExprId> inner{b.at[0], b.at[1], b.p.reduce_index(0, cols)};
  const ArrayId top =
      b.p.add_reduce(row, DType::kFloat32, ReduceOp::kMax, {cols}, b.read(view, inner).id, "softmax.max");
  const ArrayId total = b.p.add_reduce(row, DType::kFloat32, ReduceOp::kSum, {cols},
                                       call(Fn::kExp, b.read(view, inner) - b.read(top)).id, "softmax.sum");
  b.over(three);
  const std::vector<ExprId> at{b.at[0], b.at[1]};
  return b.done(
      {b.map(three, t, call(Fn::kExp, b.read(view) - b.read(top, at)) / b.read(total, at), "softmax")});
}

// cat((sigmoid(x) * x, y), 1)
Program silu_cat(DType t, int64_t batch, int64_t inner) {
  Builder b;
  const Shape sx{batch, 5, inner}, sy{batch, 3, inner}, so{batch, 8, inner};
  const ArrayId x = b.input(tensor(sx, t), "x"), y = b.input(tensor(sy, t), "y");
  b.over(sx);
  const ArrayId gate = b.map(sx, t, 1.0 / (1.0 + call(Fn::kExp, -b.read(x))), "sigmoid");
  const ArrayId prod = b.map(sx, t, b.read(x) * b.read(gate), "mul");
  b.over(so);
  const ExprId five = b.p.integer(5);
  const E c{&b.p, b.p.call(Fn::kLt, {b.at[1], five})};
  const E left{&b.p, b.p.read(prod, b.at)};
  const E right{&b.p, b.p.read(y, {b.at[0], b.p.call(Fn::kSub, {b.at[1], five}), b.at[2]})};
  return b.done({b.map(so, t, select(c, left, right), "cat")});
}

// x[2, 4, 48, 40].permute(0, 3, 1, 2).contiguous() + 1
Program permuted_copy(DType t, int64_t n) {
  Builder b;
  const Shape sx{n, 16, 48, 40}, so{n, 40, 16, 48};
  const ArrayId x = b.input(tensor(sx, t), "x");
  b.over(so);
  return b.done({b.map(so, t, b.read(x, {b.at[0], b.at[2], b.at[3], b.at[1]}) + 1.0, "add")});
}

// The same, where eager keeps the argument's layout: the result is a permuted dense tensor.
Program kept_layout(DType t) {
  Builder b;
  const Shape sx{2, 16, 6, 40}, so{2, 40, 16, 6};
  const ArrayId x = b.input(tensor(sx, t), "x");
  b.over(so);
  TensorMeta out = tensor(so, t);
  out.stride = Shape{16 * 6 * 40, 1, 6 * 40, 40};
  return b.done({b.map(so, t, b.read(x, {b.at[0], b.at[2], b.at[3], b.at[1]}) * 2.0, "mul")}, {out});
}

// x * sigmoid(w2 @ relu(w1 @ mean(x, (2, 3)))): three reductions at three places, two of them in memory.
Program squeeze_excite(DType t, int64_t n, int64_t c, int64_t j) {
  Builder b;
  const Shape sx{n, c, 10, 11};
  const ArrayId x = b.input(tensor(sx, t), "x"), w1 = b.input(tensor({j, c}, t), "w1"),
                w2 = b.input(tensor({c, j}, t), "w2");
  b.over({n, c});
  const ArrayId total = b.p.add_reduce(
      {n, c}, DType::kFloat32, ReduceOp::kSum, {10, 11},
      b.read(x, {b.at[0], b.at[1], b.p.reduce_index(0, 10), b.p.reduce_index(1, 11)}).id, "mean.sum");
  const ArrayId mean = b.map({n, c}, t, b.read(total) / 110.0, "mean");
  b.over({n, j});
  const ExprId k = b.p.reduce_index(0, c);
  const ArrayId h = b.p.add_reduce({n, j}, DType::kFloat32, ReduceOp::kSum, {c},
                                   (b.read(mean, {b.at[0], k}) * b.read(w1, {b.at[1], k})).id, "linear.sum");
  const ArrayId act = b.map({n, j}, t, call(Fn::kMax, b.read(h), b.f(0.0)), "relu");
  b.over({n, c});
  const ExprId l = b.p.reduce_index(0, j);
  const ArrayId g = b.p.add_reduce({n, c}, DType::kFloat32, ReduceOp::kSum, {j},
                                   (b.read(act, {b.at[0], l}) * b.read(w2, {b.at[1], l})).id, "linear_1.sum");
  const ArrayId gate = b.map({n, c}, t, 1.0 / (1.0 + call(Fn::kExp, -b.read(g))), "sigmoid");
  b.over(sx);
  return b.done({b.map(sx, t, b.read(x) * b.read(gate, {b.at[0], b.at[1]}), "mul")});
}

// max_pool2d(x, 3, 1, 1)
Program max_pool(DType t, const Shape& s) {
  Builder b;
  const ArrayId x = b.input(tensor(s, t), "x");
  b.over(s);
  const E r{&b.p, b.p.reduce_index(0, 3)}, q{&b.p, b.p.reduce_index(1, 3)};
  const auto shifted = [&](size_t axis, E by) {
    return b.p.call(Fn::kSub, {b.p.call(Fn::kAdd, {b.at[axis], by.id}), b.p.integer(1)});
  };
  const ExprId row = shifted(2, r), col = shifted(3, q), zero = b.p.integer(0);
  const auto both = [&](ExprId m, ExprId n) { return b.p.call(Fn::kAnd, {m, n}); };
  const ExprId inside =
      both(both(b.p.call(Fn::kGe, {row, zero}), b.p.call(Fn::kLt, {row, b.p.integer(s[2])})),
           both(b.p.call(Fn::kGe, {col, zero}), b.p.call(Fn::kLt, {col, b.p.integer(s[3])})));
  const E v = select(E{&b.p, inside}, b.read(x, {b.at[0], b.at[1], row, col}),
                     b.f(-std::numeric_limits<double>::infinity()));
  const ArrayId m = b.p.add_reduce(s, DType::kFloat32, ReduceOp::kMax, {3, 3}, v.id, "max_pool2d.max");
  b.over(s);
  return b.done({b.map(s, t, b.read(m), "max_pool2d")});
}

struct Depthwise {
  Shape in;
  int64_t kernel = 3, step = 1;
  bool bias = false, channels_last = false;
  const char* name;
  const char* route;
};

// A depthwise convolution tap after tap, with a bias and a clamp behind it: half the kernel is left out at each edge.
Program depthwise(DType t, const Depthwise& c) {
  Builder b;
  TensorMeta x_meta = tensor(c.in, t);
  const int64_t k = c.kernel, pad = k / 2;
  const Shape out{c.in[0], c.in[1], (c.in[2] + 2 * pad - k) / c.step + 1,
                  (c.in[3] + 2 * pad - k) / c.step + 1};
  TensorMeta out_meta = tensor(out, t);
  if (c.channels_last) {
    x_meta.stride = Shape{c.in[1] * c.in[2] * c.in[3], 1, c.in[1] * c.in[3], c.in[1]};
    out_meta.stride = Shape{out[1] * out[2] * out[3], 1, out[1] * out[3], out[1]};
  }
  const ArrayId x = b.input(x_meta, "x"), w = b.input(tensor({c.in[1], 1, k, k}, t), "w");
  const ArrayId bias = c.bias ? b.input(tensor({c.in[1]}, t), "b") : -1;
  b.over(out);
  E total = b.f(0.0);
  const ExprId zero = b.p.integer(0);
  const auto both = [&](ExprId m, ExprId n) { return b.p.call(Fn::kAnd, {m, n}); };
  for (int64_t tap = 0; tap < k * k; ++tap) {
    const auto position = [&](size_t axis, int64_t at) {
      const ExprId scaled = c.step == 1 ? b.at[axis] : b.p.call(Fn::kMul, {b.at[axis], b.p.integer(c.step)});
      return b.p.call(Fn::kAdd, {scaled, b.p.integer(at - pad)});
    };
    const ExprId row = position(2, tap / k), col = position(3, tap % k);
    const ExprId inside =
        both(both(b.p.call(Fn::kGe, {row, zero}), b.p.call(Fn::kLt, {row, b.p.integer(c.in[2])})),
             both(b.p.call(Fn::kGe, {col, zero}), b.p.call(Fn::kLt, {col, b.p.integer(c.in[3])})));
    const E v = select(E{&b.p, inside}, b.read(x, {b.at[0], b.at[1], row, col}), b.f(0.0));
    total = call(Fn::kFma, v, b.read(w, {b.at[1], zero, b.p.integer(tap / k), b.p.integer(tap % k)}), total);
  }
  ArrayId y = b.map(out, t, total, "conv2d");
  if (c.bias) {
    b.over(out);
    y = b.map(out, t, call(Fn::kMax, b.read(y) + b.read(bias, {b.at[1]}), b.f(0.0)), "relu");
  }
  return b.done({y}, {out_meta});
}

// x.mean(1) over 200 rows: folded across what is contiguous.
Program column_mean(DType t, const Shape& s) {
  Builder b;
  const ArrayId x = b.input(tensor(s, t), "x");
  b.over({s[0], s[2]});
  const ArrayId total =
      b.p.add_reduce({s[0], s[2]}, DType::kFloat32, ReduceOp::kSum, {s[1]},
                     b.read(x, {b.at[0], b.p.reduce_index(0, s[1]), b.at[1]}).id, "mean.sum");
  return b.done({b.map({s[0], s[2]}, t, b.read(total) / static_cast<double>(s[1]), "mean")});
}

// group_norm without affine: groups of 4 channels
Program group_norm(DType t, const Shape& s) {
  Builder b;
  const int64_t g = s[1] / 4;
  const double n = static_cast<double>(4 * s[2] * s[3]);
  const ArrayId x = b.input(tensor(s, t), "x");
  b.over({s[0], g});
  const ExprId ch =
      b.p.call(Fn::kAdd, {b.p.call(Fn::kMul, {b.at[1], b.p.integer(4)}), b.p.reduce_index(0, 4)});
  const std::vector<ExprId> inner{b.at[0], ch, b.p.reduce_index(1, s[2]), b.p.reduce_index(2, s[3])};
  const ArrayId total = b.p.add_reduce({s[0], g}, DType::kFloat32, ReduceOp::kSum, {4, s[2], s[3]},
                                       b.read(x, inner).id, "group_norm.sum");
  const ArrayId mean = b.map({s[0], g}, DType::kFloat32, b.read(total) / n, "group_norm.mean");
  const E d = b.read(x, inner) - b.read(mean);
  const ArrayId squares = b.p.add_reduce({s[0], g}, DType::kFloat32, ReduceOp::kSum, {4, s[2], s[3]},
                                         (d * d).id, "group_norm.squares");
  const ArrayId rstd =
      b.map({s[0], g}, DType::kFloat32, call(Fn::kRsqrt, b.read(squares) / n + 1e-5), "group_norm.rstd");
  b.over(s);
  const std::vector<ExprId> at{b.at[0], b.p.call(Fn::kFloorDiv, {b.at[1], b.p.integer(4)})};
  return b.done({b.map(s, t, (b.read(x) - b.read(mean, at)) * b.read(rstd, at), "group_norm")});
}

// embedding(ids, w) + x, with ids of 64 bits
Program embedding_add(DType t) {
  Builder b;
  const Shape s{2, 6, 20};
  const ArrayId ids = b.input(tensor({2, 6}, DType::kInt64), "ids"), w = b.input(tensor({50, 20}, t), "w"),
                x = b.input(tensor(s, t), "x");
  b.over(s);
  const ExprId row = b.p.read(ids, {b.at[0], b.at[1]});
  return b.done({b.map(s, t, b.read(w, {row, b.at[2]}) + b.read(x), "add")});
}

// gelu(x) @ w.T + b over [2, rows, k]
Program gelu_linear(DType t, int64_t rows, int64_t n, int64_t k) {
  Builder b;
  const Shape sx{2, rows, k}, so{2, rows, n};
  const ArrayId x = b.input(tensor(sx, t), "x"), w = b.input(tensor({n, k}, t), "w"),
                bias = b.input(tensor({n}, t), "b");
  b.over(sx);
  const ArrayId act = b.map(sx, t, call(Fn::kMax, b.read(x), b.f(0.25)), "clamp");
  b.over(so);
  const ExprId i = b.p.reduce_index(0, k);
  const ArrayId sum =
      b.p.add_reduce(so, DType::kFloat32, ReduceOp::kSum, {k},
                     (b.read(act, {b.at[0], b.at[1], i}) * b.read(w, {b.at[2], i})).id, "linear.sum");
  b.over(so);
  return b.done({b.map(so, t, b.read(sum) + b.read(bias, {b.at[2]}), "linear")});
}

// argmax over the last axis
Program argmax(DType t) {
  Builder b;
  const ArrayId x = b.input(tensor({7, 45}, t), "x");
  b.over({7});
  return b.done({b.p.add_reduce({7}, DType::kInt64, ReduceOp::kArgMax, {45},
                                b.read(x, {b.at[0], b.p.reduce_index(0, 45)}).id, "argmax")});
}

// chunk(2, 1) of relu, both halves kept
Program relu_chunk(DType t) {
  Builder b;
  const Shape s{3, 8, 10}, half{3, 4, 10};
  const ArrayId x = b.input(tensor(s, t), "x");
  b.over(s);
  const ArrayId r = b.map(s, t, call(Fn::kMax, b.read(x), b.f(0.0)), "relu");
  b.over(half);
  const ArrayId first = b.map(half, t, E{&b.p, b.p.read(r, b.at)}, "chunk");
  const ArrayId second =
      b.map(half, t, E{&b.p, b.p.read(r, {b.at[0], b.p.call(Fn::kAdd, {b.at[1], b.p.integer(4)}), b.at[2]})},
            "chunk");
  return b.done({first, second});
}

}  // namespace

std::vector<PassSpec> test_passes(bool large) {
  std::vector<PassSpec> out;
  constexpr const char* kUnary =
      "%x = placeholder\n%r = call_function torch.nn.functional.gelu(%x)\noutput (%r)\n";
  constexpr const char* kTwo =
      "%x = placeholder\n%y = placeholder\n%r = call_function operator.add(%x, %y)\noutput (%r)\n";
  constexpr const char* kThree =
      "%x = placeholder\n%y = placeholder\n%z = placeholder\n%a = call_function operator.add(%x, %y)\n"
      "%r = call_function operator.mul(%a, %z)\noutput (%r)\n";
  constexpr const char* kNorm =
      "%x = placeholder\n%y = placeholder\n%w = placeholder\n%b = placeholder\n%add = call_function "
      "operator.add(%x, %y)\n"
      "%ln = call_function torch.nn.functional.layer_norm(%add, (96,), %w, %b, 1e-05)\n"
      "%p = call_method permute(%ln, 0, 2, 1)\n%c = call_method contiguous(%p)\noutput (%c)\n";
  constexpr const char* kBatchNorm =
      "%x = placeholder\n%mean = placeholder\n%var = placeholder\n%w = placeholder\n%b = placeholder\n"
      "%bn = call_function torch.nn.functional.batch_norm(%x, %mean, %var, %w, %b, False, 0.1, 1e-05)\n"
      "%r = call_function torch.nn.functional.silu(%bn, inplace=False)\noutput (%r)\n";
  const auto pick = [&](Shape small, Shape big) { return large ? big : small; };
  const auto number = [&](int64_t small, int64_t big) { return large ? big : small; };
  out.push_back(pass("FuseGelu", "gelu", kUnary, [&](DType t) {
    return gelu(t, pick({2, 37, 64}, {64, 1024, 1024}));
  }));
  out.push_back(pass("FuseAddLayerNormPermute", "add_layer_norm_permute", kNorm, [&](DType t) {
    return add_layer_norm_permute(t, number(2, 32), number(50, 3136), number(96, 256));
  }));
  out.push_back(pass("FuseLongLayerNorm", "long_layer_norm", kNorm,
                     [&](DType t) { return add_layer_norm_permute(t, 2, 3, number(1100, 4100)); }));
  out.push_back(pass("FuseBatchNormSilu", "batch_norm_silu", kBatchNorm, [&](DType t) {
    return batch_norm_silu(t, pick({2, 12, 7, 9}, {64, 256, 56, 56}));
  }));
  out.push_back(pass("FuseMaskedSoftmax", "masked_softmax", kTwo,
                     [&](DType t) { return masked_softmax(t, number(33, 1600), number(70, 1600)); }));
  out.push_back(pass("FuseLoopedSoftmax", "looped_softmax", kTwo,
                     [&](DType t) { return masked_softmax(t, number(1, 200), 17000); }));
  out.push_back(pass("FuseSiluCat", "silu_cat", kTwo,
                     [&](DType t) { return silu_cat(t, number(2, 64), number(12, 65536)); }));
  out.push_back(pass("FusePermutedCopy", "permuted_copy", kUnary,
                     [&](DType t) { return permuted_copy(t, number(2, 1024)); }));
  out.push_back(pass("FuseKeptLayout", "kept_layout", kUnary, kept_layout));
  out.push_back(pass("FuseSqueezeExcite", "squeeze_excite", kThree, [&](DType t) {
    return squeeze_excite(t, number(2, 64), number(24, 480), number(9, 120));
  }));
  out.push_back(pass("FuseMaxPool", "max_pool", kUnary, [&](DType t) {
    return max_pool(t, pick({2, 3, 9, 10}, {64, 64, 112, 112}));
  }));
  // Rows in steps of 1 and 2, of widths that are no power of two, planes that do not fill a block; too few programs to
  // share, or no number that divides the rows: tap by tap.
  for (const Depthwise& c :
       {Depthwise{pick({3, 67, 28, 22}, {64, 256, 56, 56}), 3, 1, true, false, "FuseDepthwise", "depthwise"},
        Depthwise{pick({4, 135, 31, 17}, {512, 256, 112, 112}), 3, 2, false, false, "FuseDepthwiseSteps",
                  "depthwise_steps"},
        Depthwise{pick({1, 601, 10, 9}, {64, 256, 56, 56}), 5, 1, true, false, "FuseDepthwiseFive",
                  "depthwise_five"},
        Depthwise{pick({5, 67, 14, 14}, {128, 192, 28, 28}), 7, 1, false, false, "FuseDepthwiseSeven",
                  "depthwise_seven"},
        Depthwise{pick({8, 70, 16, 12}, {64, 256, 56, 56}), 3, 1, false, true, "FuseDepthwiseLast",
                  "depthwise_last"},
        Depthwise{{1, 3, 12, 23}, 3, 1, true, false, "FuseDepthwiseSmall", "depthwise_small"},
        Depthwise{{1, 900, 17, 7}, 3, 1, false, false, "FuseDepthwisePrime", "depthwise_prime"}}) {
    out.push_back(pass(c.name, c.route, c.bias ? kThree : kTwo, [&](DType t) { return depthwise(t, c); }));
  }
  out.push_back(pass("FuseColumnMean", "column_mean", kUnary, [&](DType t) {
    return column_mean(t, pick({3, 200, 40}, {128, 1024, 768}));
  }));
  out.push_back(pass("FuseGroupNorm", "group_norm", kUnary, [&](DType t) {
    return group_norm(t, pick({2, 12, 5, 6}, {32, 128, 64, 64}));
  }));
  out.push_back(pass("FuseEmbeddingAdd", "embedding_add", kThree, embedding_add));
  out.push_back(pass("FuseClampLinear", "clamp_linear", kThree, [&](DType t) {
    return gelu_linear(t, number(19, 1576), number(40, 768), number(70, 768));
  }));
  out.push_back(pass("FuseArgmax", "argmax", kUnary, argmax));
  out.push_back(pass("FuseReluChunk", "relu_chunk", kUnary, relu_chunk));
  out.back().tuple_output = true;
  return out;
}

}  // namespace passnet::codegen
