#include "codegen/schedule.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "codegen/space.h"
#include "codegen/stencil.h"
#include "ops/view_algebra.h"

namespace passnet::codegen {

namespace {

constexpr int64_t kUnrollLimit = 32;         // points of a reduction written out one by one
constexpr int64_t kSerialLimit = 128;        // points folded in a loop by each lane
constexpr int64_t kPersistentLimit = 32768;  // elements of a row held at once
constexpr int64_t kMultiprocessors = 132;    // of the machine the block sizes aim at
constexpr double kWindowReads =
    16;  // of one element by one load of a window: beyond, it is no window but a table
constexpr size_t kMaxKernels = 8;
constexpr double kScalarProducts =
    1 << 25;  // multiply-adds of one product that may go without the matrix units

int64_t product(const std::vector<int64_t>& v) {
  return std::accumulate(v.begin(), v.end(), int64_t{1}, std::multiplies<>());
}

int64_t pow2_at_least(int64_t n) {
  int64_t p = 1;
  while (p < n) p *= 2;
  return p;
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

enum class Mode : uint8_t { kUnroll, kSerial, kLane, kDot };

class Planner {
 public:
  Planner(const Program& program, const PlanOptions& options) : program_(program), options_(options) {}

  Result<ProgramPlan> run();

 private:
  struct Choice {
    std::map<ArrayId, Mode> modes;
    std::map<ArrayId, int64_t> sizes;
    uint64_t row_mask = 0;
    bool lanes = false;
    ArrayId dot = -1;                        // a sum of products over the whole space, and
    uint64_t dot_rows = 0, dot_columns = 0;  // the axes that only its left or right factor depends on
    ArrayId refused = -1;                    // a product too large to go without the matrix units
    ArrayId to_memory = -1;                  // must be computed by an earlier kernel first
  };

  Status plan_group(const std::vector<Target>& targets, int depth);
  Choice classify(const Trial& trial) const;
  // Whether a reduction is a matrix product worth the matrix units; the axes of either factor alone.
  bool is_product(const Trial& trial, const ReduceRead& read, uint64_t* rows, uint64_t* columns) const;
  // Whether what the factor of these axes reads lies in runs of neighbouring elements.
  bool in_runs(const Trial& trial, const ReduceRead& read, uint64_t axes) const;
  bool is_sum_of_products(const Trial& trial, const ReduceRead& read) const;
  Result<KernelPlan> products(const std::vector<Target>& targets, const Choice& choice, const Trial& trial);
  Result<KernelPlan> flat(const std::vector<Target>& targets, const Choice& choice, const Trial& trial);
  // `sliced`: for values that are the same along the fastest axis, not for two directions of memory.
  Result<KernelPlan> tiles(const std::vector<Target>& targets, const Choice& choice, const Trial& trial,
                           size_t row_axis, bool sliced);
  Result<KernelPlan> stencil(const std::vector<Target>& targets, const Choice& choice, const Trial& trial,
                             const StencilShape& shape);
  bool costly_per_slice(const Trial& trial) const;
  Result<KernelPlan> rows(const std::vector<Target>& targets, const Choice& choice, const Trial& trial);
  // Lowers the targets at the axes' positions `at`; lane variables by extent.
  Status lower(KernelPlan& plan, const std::vector<Target>& targets, const Choice& choice,
               const std::vector<int64_t>& extents, const std::vector<IndexId>& at) {
    return lower_each(plan, targets, choice, extents, {at});
  }
  // At several positions of one program, in the order of `positions`; equal loads are one load.
  Status lower_each(KernelPlan& plan, const std::vector<Target>& targets, const Choice& choice,
                    const std::vector<int64_t>& extents, const std::vector<std::vector<IndexId>>& positions);
  VarId lane_of(KernelPlan& plan, int64_t extent);
  void count(KernelPlan& plan) const;
  TrialContext context() const { return {program_, buffers_, in_memory_, options_.strip_casts}; }
  Diagnostic refuse(std::string_view code, ArrayId array, std::string_view why) const {
    return user_error(fmt::format("codegen.{}", code),
                      fmt::format("{}: {}", program_.array(array).label, why));
  }

  const Program& program_;
  PlanOptions options_;
  std::vector<Buffer> buffers_;
  std::map<ArrayId, int32_t> in_memory_;
  std::vector<KernelPlan> kernels_;
};

Result<ProgramPlan> Planner::run() {
  for (size_t i = 0; i < program_.arrays().size(); ++i) {
    const Array& a = program_.arrays()[i];
    if (is_complex(a.dtype))
      return refuse("complex", static_cast<ArrayId>(i), "complex numbers have no kernel");
    if (a.kind == Array::Kind::kReduce && product(a.extents) == 0 && product(a.shape) != 0)
      return refuse("empty_reduction", static_cast<ArrayId>(i), "it folds no elements");
    if (a.kind != Array::Kind::kInput) continue;
    const TensorMeta& meta = program_.inputs()[static_cast<size_t>(a.input)];
    Buffer b;
    b.number = a.input;
    b.shape = a.shape;
    const auto given = options_.input_strides.find(a.input);
    b.stride = given != options_.input_strides.end() ? given->second
               : meta.stride                         ? *meta.stride
                                                     : contiguous_strides(a.shape);
    b.dtype = a.dtype;
    b.name = a.label;
    in_memory_[static_cast<ArrayId>(i)] = static_cast<int32_t>(buffers_.size());
    buffers_.push_back(std::move(b));
  }
  // Outputs of one stored shape share a kernel.
  ProgramPlan out;
  std::vector<std::pair<std::vector<int64_t>, std::vector<Target>>> groups;
  for (size_t i = 0; i < program_.outputs.size(); ++i) {
    const ArrayId array = program_.outputs[i];
    const Array& a = program_.array(array);
    TensorMeta meta;
    meta.shape = a.shape;
    if (i < program_.output_metas.size()) meta.stride = program_.output_metas[i].stride;
    Target t;
    t.output = static_cast<int32_t>(i);
    t.array = array;
    t.order = storage_order(meta);
    std::vector<int64_t> stored;
    for (const int axis : t.order) stored.push_back(a.shape[static_cast<size_t>(axis)]);
    out.output_strides.push_back(stored_strides(meta));
    if (product(a.shape) == 0) continue;
    const auto group =
        std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == stored; });
    if (group == groups.end()) {
      groups.push_back({stored, {t}});
    } else {
      group->second.push_back(t);
    }
  }
  for (const auto& [shape, targets] : groups) PN_CHECK_OK(plan_group(targets, 0));
  if (kernels_.size() > kMaxKernels) {
    return refuse("too_many_kernels", program_.outputs[0],
                  fmt::format("would take {} kernels", kernels_.size()));
  }
  out.buffers = std::move(buffers_);
  out.kernels = std::move(kernels_);
  return out;
}

Status Planner::plan_group(const std::vector<Target>& targets, int depth) {
  if (depth > 6) return refuse("depth", targets[0].array, "needs more than 6 kernels in a row");
  for (int attempt = 0; attempt < 10; ++attempt) {
    std::vector<int64_t> extents;
    for (const int axis : targets[0].order) {
      const int64_t e = program_.array(targets[0].array).shape[static_cast<size_t>(axis)];
      if (e != 1) extents.push_back(e);
    }
    PN_TRY(Trial trial, try_space(context(), targets, extents));
    for (int round = 0; round < 3; ++round) {
      const std::vector<int64_t> finer = refine(trial);
      if (finer == trial.extents) break;
      PN_TRY(trial, try_space(context(), targets, finer));
    }
    Choice choice = classify(trial);
    if (choice.refused >= 0) {
      return refuse("dense_product", choice.refused,
                    "a product of this size that is no plain matrix product stays in the library");
    }
    if (choice.to_memory >= 0) {
      const Array& a = program_.array(choice.to_memory);
      Target t;
      t.array = choice.to_memory;
      t.scratch = static_cast<int32_t>(buffers_.size());
      t.order.resize(a.shape.size());
      std::iota(t.order.begin(), t.order.end(), 0);
      if (product(a.shape) == 0) return refuse("empty", t.array, "an intermediate without elements");
      PN_CHECK_OK(plan_group({t}, depth + 1));
      Buffer b;
      b.kind = Buffer::Kind::kScratch;
      b.number = choice.to_memory;
      b.shape = a.shape;
      b.stride = contiguous_strides(a.shape);
      b.dtype = a.dtype;
      b.name = a.label;
      // A nested group may have added buffers of its own.
      const auto number = static_cast<int32_t>(buffers_.size());
      for (StorePlan& s : kernels_.back().stores) {
        if (s.scratch == t.scratch && s.array == t.array) s.scratch = number;
      }
      in_memory_[choice.to_memory] = number;
      buffers_.push_back(std::move(b));
      continue;
    }
    if (choice.dot >= 0) {
      PN_TRY(KernelPlan plan, products(targets, choice, trial));
      kernels_.push_back(std::move(plan));
      return {};
    }
    if (choice.lanes) {
      PN_TRY(KernelPlan plan, rows(targets, choice, trial));
      kernels_.push_back(std::move(plan));
      return {};
    }
    const std::vector<int64_t> joined = collapse(trial);
    if (joined != trial.extents) {
      PN_TRY(trial, try_space(context(), targets, joined));
      choice = classify(trial);
    }
    // A tensor whose fastest axis is another than the result's, read by many bytes, asks for tiles over both.
    size_t best_axis = trial.axes.size();
    double best_bytes = 65536.0;
    if (trial.axes.size() >= 2) {
      const size_t fast = trial.axes.size() - 1;
      std::map<size_t, double> votes;
      for (const LoadRead& l : trial.loads) {
        int64_t run = 0;
        const VarId u = unit_var(*trial.pool, l.offset, &run);
        if (u < 0 || u == trial.axes[fast] ||
            (trial.pool->deps(l.offset) & IndexPool::bit(trial.axes[fast])) == 0)
          continue;
        const auto axis =
            static_cast<size_t>(std::find(trial.axes.begin(), trial.axes.end(), u) - trial.axes.begin());
        if (axis >= fast || trial.extents[axis] < 16 || trial.extents[fast] < 16 || run < 8) continue;
        votes[axis] += static_cast<double>(product(buffers_[static_cast<size_t>(l.buffer)].shape)) *
                       size_of(buffers_[static_cast<size_t>(l.buffer)].dtype);
      }
      for (const auto& [axis, bytes] : votes) {
        if (bytes > best_bytes) {
          best_axis = axis;
          best_bytes = bytes;
        }
      }
    }
    if (best_axis < trial.axes.size()) {
      PN_TRY(KernelPlan plan, tiles(targets, choice, trial, best_axis, false));
      kernels_.push_back(std::move(plan));
    } else if (const std::optional<StencilShape> shape = stencil_shape(trial)) {
      PN_TRY(KernelPlan plan, stencil(targets, choice, trial, *shape));
      kernels_.push_back(std::move(plan));
    } else if (costly_per_slice(trial)) {
      PN_TRY(KernelPlan plan, tiles(targets, choice, trial, trial.axes.size() - 2, true));
      kernels_.push_back(std::move(plan));
    } else {
      PN_TRY(KernelPlan plan, flat(targets, choice, trial));
      kernels_.push_back(std::move(plan));
    }
    return {};
  }
  return refuse("schedule", targets[0].array, "no order of kernels was found");
}

Planner::Choice Planner::classify(const Trial& t) const {
  Choice c;
  uint64_t reduce_vars = 0;
  for (const ReduceRead& r : t.reduces) reduce_vars |= IndexPool::bit(r.var);
  std::vector<const ReduceRead*> big;
  const VarId fast = t.axes.empty() ? -1 : t.axes.back();
  for (const ReduceRead& r : t.reduces) {
    c.sizes[r.array] = r.size;
    const bool position =
        program_.array(r.array).op == ReduceOp::kArgMax || program_.array(r.array).op == ReduceOp::kArgMin;
    if (r.size <= 4 && !position) {
      c.modes.emplace(r.array, Mode::kUnroll);
      continue;
    }
    uint64_t left = 0, right = 0;
    if (is_product(t, r, &left, &right)) {
      if ((r.deps & reduce_vars) == 0 && (r.deps & t.axis_mask) == t.axis_mask && c.dot < 0) {
        c.dot = r.array;
        c.dot_rows = left;
        c.dot_columns = right;
        if (!in_runs(t, r, right) && in_runs(t, r, left)) std::swap(c.dot_rows, c.dot_columns);
        c.modes.emplace(r.array, Mode::kDot);
        continue;
      }
      c.to_memory = r.array;
      return c;
    }
    if (r.size >= 32 && is_sum_of_products(t, r)) {
      const double terms =
          static_cast<double>(product(program_.array(r.array).shape)) * static_cast<double>(r.size);
      if (terms > kScalarProducts) {
        c.refused = r.array;
        return c;
      }
    }
    if (((r.deps | r.guard) & reduce_vars) != 0) {
      // Read inside another reduction at a position that moves with it.
      if (r.size <= 8 && !position) {
        c.modes.emplace(r.array, Mode::kUnroll);
        continue;
      }
      c.to_memory = r.array;
      return c;
    }
    bool along_lane = false, along_result = false;
    std::set<ValueId> body;
    reachable(*t.graph, t.graph->node(r.value).args[0], body);
    for (const ValueId v : body) {
      const ValueNode& n = t.graph->node(v);
      if (n.kind != ValueNode::Kind::kLoad || (t.pool->deps(n.index) & IndexPool::bit(r.var)) == 0) continue;
      int64_t run = 0;
      along_lane = along_lane || (unit_var(*t.pool, n.index, &run) == r.var && run >= 16);
      bool other = false;
      const int64_t step = fast < 0 ? 0 : t.pool->coefficient(n.index, fast, &other);
      along_result = along_result || (step != 0 && std::abs(step) <= 4);
    }
    const bool everywhere = (r.deps & t.axis_mask) == t.axis_mask;
    if (everywhere && r.size <= kSerialLimit && (along_result || !along_lane) && !position) {
      c.modes.emplace(r.array, r.size <= kUnrollLimit ? Mode::kUnroll : Mode::kSerial);
      continue;
    }
    if ((r.guard & t.axis_mask) != 0) {
      // Its elements are wanted under a condition over other axes (diag): folded for each element, not once a row.
      c.to_memory = r.array;
      return c;
    }
    big.push_back(&r);
    c.row_mask |= r.deps & t.axis_mask;
  }
  if (c.dot >= 0 && !big.empty()) {
    c.to_memory = c.dot;
    return c;
  }
  for (const ReduceRead* r : big) {
    int64_t again = 1, own = 1;
    for (size_t k = 0; k < t.axes.size(); ++k) {
      const uint64_t bit = IndexPool::bit(t.axes[k]);
      if ((r->deps & bit) != 0) {
        own *= t.extents[k];
      } else if ((c.row_mask & bit) != 0) {
        again *= t.extents[k];
      }
    }
    if (again > 1 && (again > 64 || static_cast<double>(again - 1) * static_cast<double>(own) *
                                            static_cast<double>(r->size) >
                                        65536.0)) {
      c.to_memory = r->array;
      return c;
    }
    c.modes[r->array] = Mode::kLane;
    c.lanes = true;
  }
  return c;
}

// Two different tensors multiplied and summed up, each element of either used by many results.
bool Planner::is_sum_of_products(const Trial& t, const ReduceRead& r) const {
  const ValueNode& fold = t.graph->node(r.value);
  if (fold.op != ReduceOp::kSum) return false;
  const ValueNode& body = t.graph->node(fold.args[0]);
  if (body.kind != ValueNode::Kind::kCall || body.fn != Fn::kMul || body.args[0] == body.args[1])
    return false;
  for (const ValueId f : body.args) {
    if ((t.graph->deps(f) & IndexPool::bit(r.var)) == 0 ||
        (t.graph->deps(f) & ~IndexPool::bit(r.var)) == r.deps)
      return false;
  }
  return true;
}

bool Planner::is_product(const Trial& t, const ReduceRead& r, uint64_t* rows, uint64_t* columns) const {
  const ValueNode& fold = t.graph->node(r.value);
  if (fold.op != ReduceOp::kSum || fold.type != DType::kFloat32 || r.size < 16) return false;
  const ValueNode& body = t.graph->node(fold.args[0]);
  if (body.kind != ValueNode::Kind::kCall || body.fn != Fn::kMul || body.args[0] == body.args[1])
    return false;
  uint64_t at[2];
  for (size_t k = 0; k < 2; ++k) {
    at[k] = t.graph->deps(body.args[k]);
    if ((at[k] & IndexPool::bit(r.var)) == 0) return false;
    // Both must stay cheap to read again by every block of the other: no folds of their own.
    std::set<ValueId> below;
    reachable(*t.graph, body.args[k], below);
    for (const ValueId v : below) {
      const ValueNode& n = t.graph->node(v);
      if (n.kind == ValueNode::Kind::kReduce) return false;
      // Windows that overlap or leave the tensor are a convolution proper: measured far slower than the library, but for
      // those whose row says how the library goes about them.
      if (n.kind == ValueNode::Kind::kLoad && !n.args.empty() && program_.array(r.array).inner_block == 0)
        return false;
    }
  }
  // The position may be that of another reduction's element: then its own axes are not the space's.
  if ((r.deps & ~t.axis_mask) != 0) return r.deps != 0 && r.size >= 64;
  *rows = at[0] & ~at[1] & t.axis_mask;
  *columns = at[1] & ~at[0] & t.axis_mask;
  int64_t m = 1, n = 1;
  for (size_t k = 0; k < t.axes.size(); ++k) {
    const uint64_t bit = IndexPool::bit(t.axes[k]);
    if ((*rows & bit) != 0) m *= t.extents[k];
    if ((*columns & bit) != 0) n *= t.extents[k];
  }
  return m >= 16 && n >= 16;
}

// Where no axis of a tile runs over neighbours, Triton lets the lanes of a warp run along the tile's first axis. In the right
// factor that is the inner axis, the longer step of the two; so such a factor is better the left one.
bool Planner::in_runs(const Trial& t, const ReduceRead& r, uint64_t axes) const {
  for (const ValueId factor : t.graph->node(t.graph->node(r.value).args[0]).args) {
    if ((t.graph->deps(factor) & axes) == 0) continue;
    std::set<ValueId> below;
    reachable(*t.graph, factor, below);
    for (const ValueId v : below) {
      const ValueNode& n = t.graph->node(v);
      int64_t run = 0;
      if (n.kind == ValueNode::Kind::kLoad && (t.pool->deps(n.index) & axes) != 0 &&
          unit_var(*t.pool, n.index, &run) >= 0 && run >= 4) {
        return true;
      }
    }
  }
  return false;
}

// Whether divisions, roots or other long functions are the same for whole runs along the fastest axis.
bool Planner::costly_per_slice(const Trial& t) const {
  if (t.axes.size() < 2 || t.extents.back() < 64 || product(t.extents) < 65536) return false;
  const uint64_t fast = IndexPool::bit(t.axes.back());
  std::set<ValueId> seen;
  for (const ValueId v : t.values) reachable(*t.graph, v, seen);
  for (const ValueId v : seen) {
    const ValueNode& n = t.graph->node(v);
    if (n.kind != ValueNode::Kind::kCall || (n.fn != Fn::kDiv && (n.fn < Fn::kSqrt || n.fn > Fn::kPow)))
      continue;
    if (is_floating(n.type) && t.graph->deps(v) != 0 && (t.graph->deps(v) & fast) == 0) return true;
  }
  return false;
}

VarId Planner::lane_of(KernelPlan& plan, int64_t extent) {
  for (const IterVar& v : plan.vars) {
    if (v.role == IterVar::Role::kLane && v.extent == extent) return v.id;
  }
  IterVar v;
  v.role = IterVar::Role::kLane;
  v.extent = extent;
  v.id = plan.pool->add_var(extent);
  int lanes = 0;
  for (const IterVar& other : plan.vars) lanes += other.role == IterVar::Role::kLane;
  v.name = lanes == 0 ? "r" : fmt::format("r{}", lanes + 1);
  plan.vars.push_back(v);
  return v.id;
}

Status Planner::lower_each(KernelPlan& plan, const std::vector<Target>& targets, const Choice& choice,
                           const std::vector<int64_t>& extents,
                           const std::vector<std::vector<IndexId>>& positions) {
  plan.graph = std::make_unique<ValueGraph>(*plan.pool);
  std::map<ArrayId, VarId> serial;
  const auto policy = [&](ArrayId array, const std::vector<IndexId>& where) -> Result<ReducePlan> {
    const auto mode = choice.modes.find(array);
    const int64_t size = product(program_.array(array).extents);
    Mode m = mode == choice.modes.end() ? (size <= 4 ? Mode::kUnroll : Mode::kSerial) : mode->second;
    if (m == Mode::kLane) {
      const VarId lane = lane_of(plan, size);
      bool clash = false;
      for (const IndexId i : where) clash = clash || (plan.pool->deps(i) & IndexPool::bit(lane)) != 0;
      if (!clash) return ReducePlan{ReducePlan::How::kOver, lane, -1, 0, 0};
      m = Mode::kSerial;
    }
    if (m == Mode::kDot) {
      for (const bool first : {false, true}) {
        IterVar v;
        v.role = IterVar::Role::kInner;
        v.extent = size;
        v.first = first;
        v.id = plan.pool->add_var(size);
        v.name = first ? "kt" : "k";
        plan.vars.push_back(v);
      }
      const size_t at_var = plan.vars.size();
      uint64_t row_bits = 0, column_bits = 0;
      for (const IterVar& v : plan.vars) {
        if (v.role == IterVar::Role::kRow) row_bits |= IndexPool::bit(v.id);
        if (v.role == IterVar::Role::kCol) column_bits |= IndexPool::bit(v.id);
      }
      return ReducePlan{ReducePlan::How::kDot, plan.vars[at_var - 2].id, plan.vars[at_var - 1].id, row_bits,
                        column_bits};
    }
    if (m == Mode::kUnroll) return ReducePlan{ReducePlan::How::kUnroll, -1, -1, 0, 0};
    if (size > kSerialLimit) {
      return refuse("reduction", array,
                    fmt::format("{} points are folded at a position that varies within a row", size));
    }
    if (!serial.count(array)) {
      IterVar v;
      v.role = IterVar::Role::kSerial;
      v.extent = size;
      v.id = plan.pool->add_var(size);
      v.name = serial.empty() ? "k" : fmt::format("k{}", serial.size() + 1);
      plan.vars.push_back(v);
      serial[array] = v.id;
    }
    const VarId var = serial[array];
    for (const IndexId i : where) {
      if (plan.pool->deps(i) & IndexPool::bit(var)) return refuse("reduction", array, "nested in itself");
    }
    return ReducePlan{ReducePlan::How::kOver, var, -1, 0, 0};
  };
  Lowering lowering(program_, *plan.graph, buffers_, in_memory_, policy, options_.strip_casts);
  for (const std::vector<IndexId>& at : positions) {
    const IndexId linear = plan.pool->linearize(at, extents);
    for (const Target& t : targets) {
      const Array& a = program_.array(t.array);
      StorePlan s;
      s.output = t.output;
      s.scratch = t.scratch;
      s.array = t.array;
      s.dtype =
          options_.strip_casts && size_of(a.dtype) == 2 && is_floating(a.dtype) ? DType::kFloat32 : a.dtype;
      s.offset = linear;
      PN_TRY(s.value, lowering.definition(t.array, target_index(*plan.pool, a.shape, t.order, linear)));
      plan.stores.push_back(s);
    }
  }
  if (plan.pool->var_count() > 60)
    return refuse("too_many_axes", targets[0].array, "more than 60 axes and loops");
  return {};
}

// Loads that one element takes, different ones.
size_t loads_of(const KernelPlan& plan) {
  std::set<ValueId> seen;
  for (const StorePlan& s : plan.stores) reachable(*plan.graph, s.value, seen);
  return static_cast<size_t>(std::ranges::count_if(
      seen, [&](ValueId v) { return plan.graph->node(v).kind == ValueNode::Kind::kLoad; }));
}

// Blocks of 1024 elements; fewer where the tensor would not give every multiprocessor work.
Result<KernelPlan> Planner::flat(const std::vector<Target>& targets, const Choice& choice,
                                 const Trial& trial) {
  KernelPlan plan;
  plan.schedule = "flat";
  plan.pool = std::make_unique<IndexPool>();
  const int64_t n = product(trial.extents);
  IterVar v;
  v.extent = n;
  v.id = plan.pool->add_var(n);
  v.name = "i";
  plan.vars.push_back(v);
  PN_CHECK_OK(lower(plan, targets, choice, trial.extents,
                    plan.pool->delinearize(plan.pool->var(v.id), trial.extents)));
  // A stencil: with more than two elements a thread its many loads and their conditions fill the registers.
  const bool stencil = loads_of(plan) >= kStencilLoads;
  int64_t block = stencil ? 256 : 1024;
  while (block > 128 && ceil_div(n, block) < 2 * kMultiprocessors) block /= 2;
  while (block > 32 && block / 2 >= n) block /= 2;
  plan.vars[0].block = block;
  plan.grid = ceil_div(n, block);
  plan.num_warps = static_cast<int>(std::clamp<int64_t>(block / (stencil ? 64 : 256), 1, 4));
  count(plan);
  return plan;
}

Result<KernelPlan> Planner::tiles(const std::vector<Target>& targets, const Choice& choice,
                                  const Trial& trial, size_t row_axis, bool sliced) {
  KernelPlan plan;
  plan.schedule = sliced ? "slices" : "tile2d";
  plan.pool = std::make_unique<IndexPool>();
  const size_t fast = trial.axes.size() - 1;
  std::vector<int64_t> outer;
  for (size_t k = 0; k < fast; ++k) {
    if (k != row_axis) outer.push_back(trial.extents[k]);
  }
  const auto add = [&](IterVar::Role role, int64_t extent, std::string name) {
    IterVar v;
    v.role = role;
    v.extent = extent;
    v.id = plan.pool->add_var(extent);
    v.name = std::move(name);
    plan.vars.push_back(v);
    return plan.pool->var(v.id);
  };
  std::vector<IndexId> outer_at;
  if (product(outer) > 1) {
    outer_at = plan.pool->delinearize(add(IterVar::Role::kOuter, product(outer), "z"), outer);
  } else {
    outer_at.assign(outer.size(), plan.pool->constant(0));
  }
  const IndexId y = add(IterVar::Role::kRow, trial.extents[row_axis], "y");
  const IndexId x = add(IterVar::Role::kCol, trial.extents[fast], "x");
  std::vector<IndexId> at;
  size_t next = 0;
  for (size_t k = 0; k < trial.axes.size(); ++k) {
    at.push_back(k == fast ? x : k == row_axis ? y : outer_at[next++]);
  }
  PN_CHECK_OK(lower(plan, targets, choice, trial.extents, at));
  const bool narrow =
      size_of(targets[0].array >= 0 ? program_.array(targets[0].array).dtype : DType::kFloat32) <= 2;
  int64_t by = narrow ? 64 : 32, bx = narrow ? 64 : 32;
  by = std::min(by, std::max<int64_t>(16, pow2_at_least(trial.extents[row_axis])));
  bx = std::min(bx, std::max<int64_t>(16, pow2_at_least(trial.extents[fast])));
  if (sliced) {
    // The longest block that wastes little of the axis, then rows to fill a program.
    const int64_t n = trial.extents[fast];
    bx = 64;
    for (const int64_t b : {128, 256, 512, 1024}) {
      const int64_t waste = ceil_div(n, b) * b - n, least = ceil_div(n, 64) * 64 - n;
      if ((waste - least) * 10 <= n) bx = b;
    }
    by = std::min<int64_t>(1024 / bx, pow2_at_least(trial.extents[row_axis]));
    while (by > 1 && product(trial.extents) / (bx * by) < 2 * kMultiprocessors) by /= 2;
  }
  plan.grid = 1;
  for (IterVar& v : plan.vars) {
    if (v.role == IterVar::Role::kRow) v.block = by;
    if (v.role == IterVar::Role::kCol) v.block = bx;
    if (v.role != IterVar::Role::kSerial) plan.grid *= ceil_div(v.extent, v.block);
  }
  plan.num_warps = static_cast<int>(std::clamp<int64_t>(by * bx / 256, 1, 8));
  count(plan);
  return plan;
}

// Whether a product's factors are rounded to tf32 before they are multiplied.
bool has_rounded_factors(const KernelPlan& plan) {
  std::set<ValueId> seen;
  for (const StorePlan& s : plan.stores) reachable(*plan.graph, s.value, seen);
  return std::ranges::any_of(seen, [&](ValueId v) {
    const ValueNode& n = plan.graph->node(v);
    return n.kind == ValueNode::Kind::kCall && n.fn == Fn::kTf32;
  });
}

// Several results of the last axis but one in the registers of a lane: what their windows share is loaded once. Each
// result is still computed tap after tap, in the order of its definition.
Result<KernelPlan> Planner::stencil(const std::vector<Target>& targets, const Choice& choice,
                                    const Trial& trial, const StencilShape& shape) {
  KernelPlan plan;
  plan.schedule = "stencil";
  plan.pool = std::make_unique<IndexPool>();
  const size_t row = trial.axes.size() - 2;
  const auto add = [&](IterVar::Role role, int64_t extent, int64_t block, std::string name) {
    IterVar v;
    v.role = role;
    v.extent = extent;
    v.block = block;
    v.id = plan.pool->add_var(extent);
    v.name = std::move(name);
    plan.vars.push_back(v);
    plan.grid *= role == IterVar::Role::kLane ? 1 : ceil_div(extent, block);
    return plan.pool->var(v.id);
  };
  const std::vector<int64_t> outer(trial.extents.begin(),
                                   trial.extents.begin() + static_cast<ptrdiff_t>(row));
  std::vector<IndexId> at(outer.size(), plan.pool->constant(0));
  if (product(outer) > 1)
    at = plan.pool->delinearize(add(IterVar::Role::kRow, product(outer), shape.planes, "plane"), outer);
  const int64_t blocks = trial.extents[row] / shape.results, cols = trial.extents[row + 1];
  const IndexId y = blocks > 1 ? add(IterVar::Role::kOuter, blocks, 1, "y") : plan.pool->constant(0);
  const IndexId x =
      add(shape.cols >= cols ? IterVar::Role::kLane : IterVar::Role::kCol, cols, shape.cols, "x");
  std::vector<std::vector<IndexId>> positions;
  for (int64_t r = 0; r < shape.results; ++r) {
    positions.push_back(at);
    positions.back().push_back(plan.pool->add(plan.pool->scale(y, shape.results), plan.pool->constant(r)));
    positions.back().push_back(x);
  }
  PN_CHECK_OK(lower_each(plan, targets, choice, trial.extents, positions));
  plan.num_warps = shape.num_warps;
  count(plan);
  return plan;
}

// A matrix product with whatever comes before and after it: blocks of the result over the grid.
Result<KernelPlan> Planner::products(const std::vector<Target>& targets, const Choice& choice,
                                     const Trial& trial) {
  KernelPlan plan;
  plan.schedule = "product";
  plan.pool = std::make_unique<IndexPool>();
  std::vector<int64_t> extents[3];
  std::vector<size_t> part;
  for (size_t k = 0; k < trial.axes.size(); ++k) {
    const uint64_t bit = IndexPool::bit(trial.axes[k]);
    part.push_back((choice.dot_rows & bit) != 0 ? 1 : (choice.dot_columns & bit) != 0 ? 2 : 0);
    extents[part.back()].push_back(trial.extents[k]);
  }
  std::vector<IndexId> digits[3];
  constexpr IterVar::Role kRoles[3] = {IterVar::Role::kOuter, IterVar::Role::kRow, IterVar::Role::kCol};
  constexpr const char* kNames[3] = {"z", "y", "x"};
  for (size_t g = 0; g < 3; ++g) {
    if (product(extents[g]) == 1) {
      digits[g].assign(extents[g].size(), plan.pool->constant(0));
      continue;
    }
    IterVar v;
    v.role = kRoles[g];
    v.extent = product(extents[g]);
    v.id = plan.pool->add_var(v.extent);
    v.name = kNames[g];
    plan.vars.push_back(v);
    digits[g] = plan.pool->delinearize(plan.pool->var(v.id), extents[g]);
  }
  std::vector<IndexId> at;
  size_t next[3] = {0, 0, 0};
  for (const size_t g : part) at.push_back(digits[g][next[g]++]);
  PN_CHECK_OK(lower(plan, targets, choice, trial.extents, at));
  const int64_t m = product(extents[1]), n = product(extents[2]), batch = product(extents[0]);
  const int64_t terms = product(program_.array(choice.dot).extents);
  const int64_t said = program_.array(choice.dot).inner_block;
  // Factors that are rounded on the way pass through registers: narrow tiles of few terms, so that several programs share a
  // multiprocessor (1x1 convolutions of 1 to 4 GB: 1500, 495, 320 us against 2045, 546, 567 for 128x128x32).
  const bool rounded = has_rounded_factors(plan);
  const auto blocks = [&](int64_t bm, int64_t bn) { return batch * ceil_div(m, bm) * ceil_div(n, bn); };
  int64_t bm = std::clamp<int64_t>(pow2_at_least(m), 16, 128),
          bn = std::clamp<int64_t>(pow2_at_least(n), 16, rounded ? 64 : 128);
  while (blocks(bm, bn) < kMultiprocessors && std::max(bm, bn) > 32) (bm >= bn ? bm : bn) /= 2;
  // Long sums of large tiles: 64 terms at a time (360, 551 us against 388, 600), 32 where there are few (124 against 142).
  const bool large = bm * bn > 4096;
  const int64_t most = !large ? 64 : rounded ? 16 : terms >= 256 ? 64 : 32;
  plan.grid = 1;
  for (IterVar& v : plan.vars) {
    if (v.role == IterVar::Role::kRow) v.block = bm;
    if (v.role == IterVar::Role::kCol) v.block = bn;
    if (v.role == IterVar::Role::kInner) {
      v.aligned = said > 0;
      v.block = said > 0 ? said : std::clamp<int64_t>(pow2_at_least(v.extent), 16, most);
    }
    if (!v.looped()) plan.grid *= ceil_div(v.extent, v.block);
  }
  plan.num_warps = bm * bn >= 16384 ? 8 : 4;
  plan.num_stages = rounded && large && said == 0 ? 4 : 3;
  count(plan);
  plan.flops += 2.0 * static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) *
                static_cast<double>(terms);
  return plan;
}

Result<KernelPlan> Planner::rows(const std::vector<Target>& targets, const Choice& choice,
                                 const Trial& trial) {
  KernelPlan plan;
  plan.schedule = "row";
  plan.pool = std::make_unique<IndexPool>();
  std::vector<int64_t> row_extents, col_extents;
  for (size_t k = 0; k < trial.axes.size(); ++k) {
    const bool row = (choice.row_mask & IndexPool::bit(trial.axes[k])) != 0;
    (row ? row_extents : col_extents).push_back(trial.extents[k]);
  }
  const int64_t n_rows = product(row_extents), n_cols = product(col_extents);
  IterVar y;
  y.role = IterVar::Role::kRow;
  y.extent = n_rows;
  y.id = plan.pool->add_var(n_rows);
  y.name = "y";
  plan.vars.push_back(y);
  std::vector<IndexId> row_at = plan.pool->delinearize(plan.pool->var(y.id), row_extents), col_at;
  if (n_cols > 1) {
    const VarId x = lane_of(plan, n_cols);
    plan.vars.back().name = "x";
    col_at = plan.pool->delinearize(plan.pool->var(x), col_extents);
  }
  std::vector<IndexId> at;
  size_t next_row = 0, next_col = 0;
  for (size_t k = 0; k < trial.axes.size(); ++k) {
    const bool row = (choice.row_mask & IndexPool::bit(trial.axes[k])) != 0;
    at.push_back(row ? row_at[next_row++] : col_at[next_col++]);
  }
  PN_CHECK_OK(lower(plan, targets, choice, trial.extents, at));

  // Memory that runs along the rows' axis wants enough rows in a program for whole sectors.
  bool across = false, along = false;
  const auto look = [&](IndexId offset, double bytes) {
    int64_t run = 0;
    const VarId u = unit_var(*plan.pool, offset, &run);
    if (u < 0) return;
    if (u == y.id) {
      bool lane = false;
      for (const IterVar& v : plan.vars) {
        lane =
            lane || (v.role == IterVar::Role::kLane && (plan.pool->deps(offset) & IndexPool::bit(v.id)) != 0);
      }
      across = across || (lane && run >= 8 && bytes >= 4096);
    } else {
      along = true;
    }
  };
  std::set<ValueId> seen;
  for (const StorePlan& s : plan.stores) {
    reachable(*plan.graph, s.value, seen);
    look(s.offset, 1e9);
  }
  for (const ValueId v : seen) {
    const ValueNode& n = plan.graph->node(v);
    if (n.kind != ValueNode::Kind::kLoad) continue;
    const Buffer& b = buffers_[static_cast<size_t>(n.buffer)];
    look(n.index, static_cast<double>(product(b.shape)) * size_of(b.dtype));
  }
  int64_t longest = 1;
  for (const IterVar& v : plan.vars) {
    if (v.role == IterVar::Role::kLane) longest = std::max(longest, v.extent);
  }
  int64_t block = pow2_at_least(longest), n_row_block = 1;
  if (across) {
    n_row_block = std::min<int64_t>(along ? 16 : 32, pow2_at_least(n_rows));
    while (n_row_block > 8 && ceil_div(n_rows, n_row_block) < kMultiprocessors) n_row_block /= 2;
    if (block * n_row_block > 8192) block = std::max<int64_t>(32, 8192 / n_row_block);
  } else {
    // What is read once need not be held.
    bool once = true;
    for (const StorePlan& st : plan.stores) once = once && plan.pool->deps(st.offset) == IndexPool::bit(y.id);
    for (const ValueId v : seen) {
      if (plan.graph->node(v).kind != ValueNode::Kind::kReduce) continue;
      std::set<ValueId> below;
      reachable(*plan.graph, plan.graph->node(v).args[0], below);
      for (const ValueId b : below) once = once && plan.graph->node(b).kind != ValueNode::Kind::kReduce;
    }
    if (block > (once ? 4096 : kPersistentLimit)) block = once ? 2048 : 4096;
    n_row_block = std::min<int64_t>(std::max<int64_t>(1, 1024 / block), pow2_at_least(n_rows));
    while (n_row_block > 1 && ceil_div(n_rows, n_row_block) < 2 * kMultiprocessors) n_row_block /= 2;
  }
  for (IterVar& v : plan.vars) {
    if (v.role == IterVar::Role::kRow) v.block = n_row_block;
    if (v.role == IterVar::Role::kLane) v.block = std::min(block, pow2_at_least(v.extent));
  }
  plan.grid = ceil_div(n_rows, n_row_block);
  // Where there are rows for everybody, few warps a row spend less on combining what they found (27.7 us against 36.1
  // for 12,800 rows of 1,600 halves); where there are not, many finish the row sooner.
  const bool plenty = !across && plan.grid >= 16 * kMultiprocessors && block <= 4096;
  plan.num_warps = static_cast<int>(std::clamp<int64_t>(n_row_block * block / (plenty ? 1024 : 256), 1,
                                                        block > 16384   ? 32
                                                        : block >= 4096 ? 16
                                                                        : 8));
  // Loops come after everything that is fixed for a program.
  std::stable_sort(plan.vars.begin(), plan.vars.end(),
                   [](const IterVar& a, const IterVar& b) { return a.looped() < b.looped(); });
  count(plan);
  return plan;
}

// Device memory moved and arithmetic done by one launch. Reads that several programs repeat come from the L2 cache:
// counted at a third. What the loads of a window repeat comes from the L1 cache, whose time goes by elements: counted as
// one byte each (3x3 in steps of 2, float16: 1252 us, of which 981 are the bytes; 7x7 tap by tap: 247 of which 18).
void Planner::count(KernelPlan& plan) const {
  std::set<ValueId> seen;
  double programs = static_cast<double>(plan.grid);
  std::set<std::pair<int32_t, int32_t>> written;
  for (const StorePlan& s : plan.stores) {
    reachable(*plan.graph, s.value, seen);
    if (!written.emplace(s.output, s.scratch).second) continue;
    plan.write_bytes +=
        static_cast<double>(product(program_.array(s.array).shape)) * size_of(program_.array(s.array).dtype);
  }
  int passes = 1;
  for (const ValueId v : seen) {
    const ValueNode& n = plan.graph->node(v);
    if (n.kind == ValueNode::Kind::kReduce) {
      for (const IterVar& var : plan.vars) {
        if (var.id == n.var && var.role == IterVar::Role::kLane && var.looped()) passes = 2;
      }
    }
  }
  std::map<std::pair<int32_t, IndexId>, size_t> window_of;
  const std::vector<Window> windows = windows_of(*plan.graph, *plan.pool, seen);
  for (size_t w = 0; w < windows.size(); ++w) {
    for (const IndexId i : windows[w].offsets) window_of[{windows[w].buffer, i}] = w;
  }
  std::vector<double> window_points(windows.size(), 0);
  for (const ValueId v : seen) {
    const ValueNode& n = plan.graph->node(v);
    double points = 1, executed = programs;
    for (const IterVar& var : plan.vars) {
      const uint64_t deps = n.kind == ValueNode::Kind::kLoad ? plan.pool->deps(n.index) : plan.graph->deps(v);
      if ((deps & IndexPool::bit(var.id)) == 0) continue;
      points *= static_cast<double>(var.extent);
      executed *=
          static_cast<double>(var.role == IterVar::Role::kLane || var.role == IterVar::Role::kSerial ||
                                      var.role == IterVar::Role::kInner
                                  ? var.extent
                              : var.role == IterVar::Role::kOuter ? 1
                                                                  : var.block);
    }
    if (n.kind == ValueNode::Kind::kLoad) {
      const Buffer& b = buffers_[static_cast<size_t>(n.buffer)];
      const double size = size_of(b.dtype);
      // Few elements for many results, as weights are, stay what they are: one element that many lanes ask for.
      if (const auto w = window_of.find({n.buffer, n.index});
          w != window_of.end() && points <= kWindowReads * static_cast<double>(product(b.shape))) {
        window_points[w->second] += points;
        continue;
      }
      const double once = std::min(points, static_cast<double>(product(b.shape))) * size;
      plan.read_bytes += once * passes + std::max(0.0, executed * size - once) / 3;
    } else if (n.kind == ValueNode::Kind::kCall || n.kind == ValueNode::Kind::kReduce) {
      double body = points;
      if (n.kind == ValueNode::Kind::kReduce) {
        for (const IterVar& var : plan.vars) body *= var.id == n.var ? static_cast<double>(var.extent) : 1.0;
      }
      plan.flops += body;
    }
  }
  for (size_t w = 0; w < windows.size(); ++w) {
    const Buffer& b = buffers_[static_cast<size_t>(windows[w].buffer)];
    const double once = std::min(window_points[w], static_cast<double>(product(b.shape)));
    plan.read_bytes += once * size_of(b.dtype) + (window_points[w] - once);
  }
}

}  // namespace

Result<ProgramPlan> plan_program(const Program& program, const PlanOptions& options) {
  return Planner(program, options).run();
}

}  // namespace passnet::codegen
