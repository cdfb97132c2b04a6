#include "codegen/space.h"

#include <algorithm>
#include <numeric>

namespace passnet::codegen {

namespace {

int64_t product(const std::vector<int64_t>& v) {
  return std::accumulate(v.begin(), v.end(), int64_t{1}, std::multiplies<>());
}

// Every index sum that decides how the space is walked: offsets, positions, numbers used as values.
std::vector<IndexId> walked(const Trial& t) {
  std::vector<IndexId> out = t.offsets;
  for (const LoadRead& l : t.loads) out.push_back(l.offset);
  for (const ReduceRead& r : t.reduces) out.insert(out.end(), r.at.begin(), r.at.end());
  std::set<ValueId> seen;
  for (const ValueId v : t.values) reachable(*t.graph, v, seen);
  for (const ValueId v : seen) {
    if (t.graph->node(v).kind == ValueNode::Kind::kIndex) out.push_back(t.graph->node(v).index);
  }
  return out;
}

void collect_cuts(const IndexPool& pool, IndexId id, VarId var, std::set<int64_t>& cuts) {
  for (const IndexTerm& t : pool.sum(id).terms) {
    if (t.kind == IndexTerm::Kind::kDigit) {
      if (t.ref != var) continue;
      cuts.insert(t.div);
      if (t.mod != 0) cuts.insert(t.div * t.mod);
    } else if (t.kind != IndexTerm::Kind::kAtom) {
      collect_cuts(pool, t.ref, var, cuts);
    }
  }
}

}  // namespace

void reachable(const ValueGraph& graph, ValueId root, std::set<ValueId>& seen) {
  std::vector<ValueId> todo{root};
  while (!todo.empty()) {
    const ValueId v = todo.back();
    todo.pop_back();
    if (!seen.insert(v).second) continue;
    const ValueNode& n = graph.node(v);
    for (const ValueId a : n.args) todo.push_back(a);
    // Offsets and numbers may be made of loaded integers.
    if (n.index != kNoIndex) {
      std::vector<IndexId> sums{n.index};
      while (!sums.empty()) {
        const IndexId s = sums.back();
        sums.pop_back();
        for (const IndexTerm& t : const_cast<ValueGraph&>(graph).pool().sum(s).terms) {
          if (t.kind == IndexTerm::Kind::kAtom) todo.push_back(t.ref);
          if (t.kind == IndexTerm::Kind::kQuotient || t.kind == IndexTerm::Kind::kRemainder)
            sums.push_back(t.ref);
        }
      }
    }
  }
}

std::vector<IndexId> target_index(IndexPool& pool, const std::vector<int64_t>& shape,
                                  const std::vector<int>& order, IndexId linear) {
  std::vector<int64_t> stored;
  for (const int axis : order) stored.push_back(shape[static_cast<size_t>(axis)]);
  const std::vector<IndexId> digits = pool.delinearize(linear, stored);
  std::vector<IndexId> at(shape.size());
  for (size_t k = 0; k < order.size(); ++k) at[static_cast<size_t>(order[k])] = digits[k];
  return at;
}

Result<Trial> try_space(const TrialContext& context, const std::vector<Target>& targets,
                        const std::vector<int64_t>& extents) {
  Trial t;
  t.pool = std::make_unique<IndexPool>();
  t.graph = std::make_unique<ValueGraph>(*t.pool);
  t.extents = extents;
  std::vector<IndexId> at;
  for (const int64_t e : extents) {
    t.axes.push_back(t.pool->add_var(e));
    t.axis_mask |= IndexPool::bit(t.axes.back());
    at.push_back(t.pool->var(t.axes.back()));
  }
  const IndexId linear = t.pool->linearize(at, extents);
  const auto policy = [&](ArrayId array, const std::vector<IndexId>& where) -> Result<ReducePlan> {
    ReduceRead r;
    r.array = array;
    r.at = where;
    r.size = product(context.program.array(array).extents);
    r.var = t.pool->add_var(r.size);
    if (t.pool->var_count() > 60) {
      return user_error("codegen.too_many_reductions", "more than 50 reductions in one kernel");
    }
    for (const IndexId i : where) r.deps |= t.pool->deps(i);
    t.reduces.push_back(r);
    return ReducePlan{ReducePlan::How::kOver, r.var};
  };
  Lowering lowering(context.program, *t.graph, context.buffers, context.in_memory, policy,
                    context.strip_casts);
  for (const Target& target : targets) {
    const Array& a = context.program.array(target.array);
    PN_TRY(const ValueId v,
           lowering.definition(target.array, target_index(*t.pool, a.shape, target.order, linear)));
    t.values.push_back(v);
    t.offsets.push_back(linear);
  }
  std::set<ValueId> seen;
  for (const ValueId v : t.values) reachable(*t.graph, v, seen);
  for (const ValueId v : seen) {
    const ValueNode& n = t.graph->node(v);
    if (n.kind == ValueNode::Kind::kLoad) t.loads.push_back({v, n.buffer, n.index, t.pool->deps(n.index)});
    if (n.kind != ValueNode::Kind::kReduce) continue;
    for (ReduceRead& r : t.reduces) {
      if (r.var != n.var) continue;
      r.value = v;
      r.guard = t.graph->deps(v) & ~r.deps;
    }
  }
  // Reads that folded away (an untaken branch) need no plan.
  std::erase_if(t.reduces, [](const ReduceRead& r) { return r.value == kNoValue; });
  return t;
}

std::vector<int64_t> refine(const Trial& t) {
  std::vector<int64_t> out;
  const std::vector<IndexId> sums = walked(t);
  for (size_t k = 0; k < t.axes.size(); ++k) {
    std::set<int64_t> cuts;
    for (const IndexId s : sums) collect_cuts(*t.pool, s, t.axes[k], cuts);
    std::vector<int64_t> chain{1};
    for (const int64_t c : cuts) {
      if (c > 1 && c < t.extents[k] && t.extents[k] % c == 0 && c % chain.back() == 0 && c != chain.back()) {
        chain.push_back(c);
      }
    }
    chain.push_back(t.extents[k]);
    for (size_t i = chain.size() - 1; i > 0; --i) out.push_back(chain[i] / chain[i - 1]);
  }
  return out;
}

std::vector<int64_t> collapse(const Trial& t) {
  const std::vector<IndexId> sums = walked(t);
  std::vector<int64_t> out;
  for (size_t k = 0; k < t.extents.size(); ++k) {
    bool join = k > 0;
    for (size_t i = 0; join && i < sums.size(); ++i) {
      bool other_a = false, other_b = false;
      const int64_t a = t.pool->coefficient(sums[i], t.axes[k - 1], &other_a);
      const int64_t b = t.pool->coefficient(sums[i], t.axes[k], &other_b);
      join = !other_a && !other_b && a == b * t.extents[k];
    }
    if (join) {
      out.back() *= t.extents[k];
    } else {
      out.push_back(t.extents[k]);
    }
  }
  return out;
}

VarId unit_var(const IndexPool& pool, IndexId offset, int64_t* run) {
  for (const IndexTerm& t : pool.sum(offset).terms) {
    if (t.kind == IndexTerm::Kind::kDigit && t.div == 1 && (t.coefficient == 1 || t.coefficient == -1)) {
      *run = t.mod == 0 ? pool.extent(t.ref) : t.mod;
      return t.ref;
    }
  }
  *run = 0;
  return -1;
}

}  // namespace passnet::codegen
