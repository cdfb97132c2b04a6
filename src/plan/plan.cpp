#include "plan/plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "plan/choose.h"
#include "plan/explain.h"

namespace passnet {

namespace {

// A region that may be chosen, with the pass it would become.
struct Option {
  size_t row = 0;  // of the region table
  PassDraft draft;
  Region region;  // in the first graph of the class
  std::vector<CallCost> cost;
  double mean_log = 0;  // compiled time with it alone
  int tier = 0;         // of the floor's order
};

struct ClassPlan {
  GraphClass graphs;
  std::vector<Option> options;
};

// The floor's order: what launches nothing and returns its operand, the item of a tuple, a kernel, a kernel
// that copies what eager only views; last a kernel that takes a product over from the library, whose rounding
// it has to meet.
int floor_tier(const RegionCandidate& candidate, bool copies_view, bool product) {
  if (candidate.region.kind == Region::Kind::kZeroLaunch) return candidate.item >= 0 ? 1 : 0;
  return product ? 4 : copies_view ? 3 : 2;
}

class Planner {
 public:
  Planner(const std::vector<CapturedVariant>& variants, const Profile& profile, const ScheduleOracle& oracle,
          const PlanOptions& options)
      : variants_(variants), profile_(profile), options_(options), assessor_(instances_, profile_, oracle) {}

  PlanResult run() {
    make_instances();
    for (GraphClass& cls : classify(instances_)) classes_.push_back({std::move(cls), {}});
    result_.graph_classes = classes_.size();
    for (size_t c = 0; c < classes_.size(); ++c) enumerate(c);
    report_missing();
    predict_eager();
    const std::optional<Realised> floor = plan_floor();
    plan_upside(floor);
    if (options_.ceiling) plan_ceiling();
    finish();
    return std::move(result_);
  }

 private:
  void make_instances() {
    for (size_t v = 0; v < variants_.size(); ++v) {
      names_.push_back(variants_[v].name);
      for (size_t g = 0; g < variants_[v].graphs.size(); ++g) {
        Instance& instance = instances_.emplace_back();
        instance.variant = v;
        instance.graph_index = g;
        instance.graph = &variants_[v].graphs[g];
        instance.facts = std::make_unique<GraphFacts>(*instance.graph, profile_);
      }
    }
  }

  const GraphFacts& facts(size_t instance) const { return *instances_[instance].facts; }

  // Compiled calls of a graph in which one region is replaced.
  std::vector<CallCost> calls_with(size_t instance, const Region& region, const CallCost& cost) const {
    std::vector<CallCost> calls;
    for (size_t n = 0; n < facts(instance).size(); ++n) {
      const NodeId id = static_cast<NodeId>(n);
      if (id == region.root) {
        calls.push_back(cost);
      } else if (facts(instance)[id].compute &&
                 !std::binary_search(region.nodes.begin(), region.nodes.end(), id)) {
        calls.push_back(facts(instance)[id].eager);
      }
    }
    return calls;
  }

  void enumerate(size_t c) {
    ClassPlan& cls = classes_[c];
    const size_t first = cls.graphs.instances.front();
    RegionTable table = enumerate_regions(facts(first), options_.limits);
    if (table.capped) {
      result_.exhaustive = false;
      result_.findings.push_back(note(
          "plan.capped", fmt::format("the graph of {} has more regions than are looked at", place(first))));
    }
    for (RegionCandidate& candidate : table.candidates) {
      Option option;
      option.row = result_.regions.size();
      bool copies_view = false;
      Verdict verdict = candidate.verdict;
      double sum = 0;
      if (!options_.products && candidate.region.kind == Region::Kind::kKernel &&
          has_product(facts(first), candidate.region)) {
        verdict.refuse("product_excluded", "products were to stay in the library");
      }
      for (size_t i : cls.graphs.instances) {
        if (!verdict.ok()) break;
        const Assessment& assessment = assessor_.assess(i, candidate.region);
        if (!assessment.verdict.ok()) {
          verdict = assessment.verdict;
          if (i != first) verdict.refuse("other_variant", fmt::format("not possible in {}", place(i)));
        }
        copies_view |= assessment.copies_view;
        option.cost.push_back(assessment.cost);
        sum += std::log(compiled_time_us(calls_with(i, candidate.region, assessment.cost), profile_));
      }
      RegionRow& row = add_row(c, first, candidate, std::move(verdict));
      if (!row.verdict.ok()) continue;
      const Assessment& here = assessor_.assess(first, candidate.region);
      option.mean_log = sum / static_cast<double>(cls.graphs.instances.size());
      option.tier = floor_tier(candidate, copies_view, has_product(facts(first), candidate.region));
      option.region = candidate.region;
      option.draft = draft_pass(instances_[first], candidate, cls.graphs.holes);
      if (const auto refused = options_.refused.find(option.draft.pattern.key);
          refused != options_.refused.end()) {
        row.verdict.refuse(refused->second);
        continue;
      }
      row.estimate = here.estimate;
      row.call_host_us = here.cost.host_us;
      row.copies_view = copies_view;
      row.gmean_us = std::exp(option.mean_log);
      cls.options.push_back(std::move(option));
    }
  }

  RegionRow& add_row(size_t c, size_t first, const RegionCandidate& candidate, Verdict verdict) {
    const Graph& graph = *instances_[first].graph;
    RegionRow row;
    row.graph_class = c;
    row.description = candidate.description;
    row.kind = candidate.region.kind;
    row.root = graph.node(candidate.region.root).name;
    for (NodeId id : candidate.region.nodes) {
      row.nodes.push_back(graph.node(id).name);
      row.operators.push_back(facts(first).operator_name(id));
      row.eager_host_us += facts(first)[id].eager.host_us;
    }
    for (NodeId id : candidate.region.inputs) row.inputs.push_back(graph.node(id).name);
    row.verdict = std::move(verdict);
    row.copies_view = candidate.copies_view;
    result_.regions.push_back(std::move(row));
    return result_.regions.back();
  }

  std::string place(size_t instance) const {
    const Instance& at = instances_[instance];
    if (variants_[at.variant].graphs.size() == 1) return names_[at.variant];
    return fmt::format("{} graph {}", names_[at.variant], at.graph_index);
  }

  void report_missing() {
    for (const ClassPlan& cls : classes_) {
      if (!cls.options.empty()) continue;
      for (size_t i : cls.graphs.instances) {
        result_.findings.push_back(
            user_error("plan.no_region",
                       fmt::format("{} has no region that a pass could legally replace", place(i)))
                .with_hint(
                    "the region table names what stands in the way of each; such a variant scores 0.1"));
      }
    }
  }

  // Sum over the graphs of each variant; the harness's share counts once.
  std::vector<double> by_variant(const std::vector<double>& by_instance) const {
    std::vector<double> out(variants_.size(), 0.0);
    for (size_t i = 0; i < instances_.size(); ++i) {
      double& sum = out[instances_[i].variant];
      sum += by_instance[i] - (sum > 0 ? profile_.harness_us : 0);
    }
    return out;
  }

  void predict_eager() {
    std::vector<double> eager, unchanged;
    for (const Instance& instance : instances_) {
      const std::vector<CallCost> calls = eager_calls(*instance.facts);
      eager.push_back(eager_time_us(calls, profile_));
      unchanged.push_back(compiled_time_us(calls, profile_));
    }
    const std::vector<double> eager_sum = by_variant(eager), unchanged_sum = by_variant(unchanged);
    for (size_t v = 0; v < variants_.size(); ++v) {
      VariantPrediction& prediction = result_.variants.emplace_back();
      prediction.name = names_[v];
      prediction.eager_us = eager_sum[v];
      prediction.unchanged_us = unchanged_sum[v];
    }
  }

  std::vector<double> times_of(const Realised& realised) const {
    std::vector<double> times;
    for (const std::vector<CallCost>& calls : realised.calls)
      times.push_back(compiled_time_us(calls, profile_));
    return by_variant(times);
  }

  // Of each variant, what its calls keep the device busy for.
  void device_times(const Realised& realised, double VariantPrediction::*field) {
    for (size_t i = 0; i < realised.calls.size(); ++i)
      for (const CallCost& call : realised.calls[i])
        result_.variants[instances_[i].variant].*field += call.device_us;
  }

  double gmean_speedup(const std::vector<double>& times) const {
    if (times.empty()) return 0;
    double sum = 0;
    for (size_t v = 0; v < times.size(); ++v) sum += std::log(result_.variants[v].eager_us / times[v]);
    return std::exp(sum / static_cast<double>(times.size()));
  }

  void ban(const PassDraft& draft, const Verdict& why) {
    banned_.insert(draft.pattern.key);
    result_.findings.push_back(note("plan.pass_refused", fmt::format("a pass for the {} is not usable: {}",
                                                                     draft.description, why.to_text())));
    for (const ClassPlan& cls : classes_) {
      for (const Option& option : cls.options) {
        if (option.draft.pattern.key == draft.pattern.key) result_.regions[option.row].verdict &= why;
      }
    }
  }

  // One pass, or as few as it takes: the option that covers most graphs not yet covered, then by the floor's
  // order, then by predicted time.
  std::optional<Realised> plan_floor() {
    // A sample without a floor scores 0.1, so that more is tried here than for the upside; every attempt
    // rules one out.
    for (size_t attempt = 0; attempt < 8 * options_.attempts; ++attempt) {
      std::vector<const Option*> chosen;
      std::set<size_t> open;
      for (size_t c = 0; c < classes_.size(); ++c) open.insert(c);
      while (!open.empty()) {
        const Option* best = nullptr;
        size_t best_cover = 0;
        std::map<std::string, std::set<size_t>> cover;
        for (size_t c : open) {
          for (const Option& option : classes_[c].options) cover[option.draft.pattern.key].insert(c);
        }
        for (size_t c : open) {
          for (const Option& option : classes_[c].options) {
            if (banned_.count(option.draft.pattern.key)) continue;
            const size_t covers = cover[option.draft.pattern.key].size();
            const bool better = best == nullptr || covers > best_cover ||
                                (covers == best_cover && std::tie(option.tier, option.mean_log) <
                                                             std::tie(best->tier, best->mean_log));
            if (better) best = &option, best_cover = covers;
          }
        }
        if (best == nullptr) break;
        chosen.push_back(best);
        for (size_t c : cover[best->draft.pattern.key]) open.erase(c);
      }
      if (chosen.empty()) return std::nullopt;
      std::optional<Realised> realised = try_state(chosen, result_.floor);
      if (!realised) continue;
      mark(chosen, *realised, &RegionRow::in_floor);
      const std::vector<double> times = times_of(*realised);
      for (size_t v = 0; v < times.size(); ++v) result_.variants[v].floor_us = times[v];
      device_times(*realised, &VariantPrediction::floor_device_us);
      count_matches(*realised, &VariantPrediction::floor_matches);
      result_.floor.gmean_speedup = gmean_speedup(times);
      floor_chosen_ = chosen;
      return realised;
    }
    return std::nullopt;
  }

  void plan_upside(const std::optional<Realised>& floor) {
    for (size_t attempt = 0; attempt < options_.attempts; ++attempt) {
      std::vector<const Option*> chosen;
      for (const ClassPlan& cls : classes_) {
        const std::vector<const Option*> part = choose(cls);
        chosen.insert(chosen.end(), part.begin(), part.end());
      }
      if (chosen.empty()) break;
      PlanState state;
      std::optional<Realised> realised = try_state(chosen, state);
      // The last attempt does without what is refused instead of choosing anew.
      while (!realised && attempt + 1 == options_.attempts && !chosen.empty()) {
        std::erase_if(chosen,
                      [&](const Option* option) { return banned_.count(option->draft.pattern.key) > 0; });
        if (!chosen.empty()) realised = try_state(chosen, state);
      }
      if (!realised) continue;
      const std::vector<double> times = times_of(*realised);
      state.gmean_speedup = gmean_speedup(times);
      // A graph that the upside leaves without a match, or a worse prediction: the floor stands.
      const bool all_matched =
          std::all_of(realised->matches.begin(), realised->matches.end(), [](size_t n) { return n > 0; });
      if (floor && (state.gmean_speedup < result_.floor.gmean_speedup || !all_matched)) break;
      accept_upside(chosen, *realised, std::move(state));
      return;
    }
    if (!floor) return;
    PlanState state;
    std::optional<Realised> realised = try_state(floor_chosen_, state);
    if (!realised) return;
    state.gmean_speedup = result_.floor.gmean_speedup;
    accept_upside(floor_chosen_, *realised, std::move(state));
  }

  void accept_upside(const std::vector<const Option*>& chosen, const Realised& realised, PlanState state) {
    mark(chosen, realised, &RegionRow::in_upside);
    const std::vector<double> times = times_of(realised);
    for (size_t v = 0; v < times.size(); ++v) result_.variants[v].upside_us = times[v];
    device_times(realised, &VariantPrediction::upside_device_us);
    count_matches(realised, &VariantPrediction::upside_matches);
    result_.upside = std::move(state);
  }

  std::vector<const Option*> choose(const ClassPlan& cls) {
    ChoiceProblem problem;
    problem.profile = &profile_;
    problem.width = options_.width;
    for (size_t i : cls.graphs.instances) problem.eager.push_back(node_costs(i));
    std::vector<const Option*> usable;
    for (const Option& option : cls.options) {
      if (banned_.count(option.draft.pattern.key)) continue;
      usable.push_back(&option);
      problem.options.push_back({option.region.root, option.region.nodes, option.cost});
    }
    const ChoiceResult choice = choose_regions(problem);
    result_.exhaustive &= choice.exhaustive;
    std::vector<const Option*> chosen;
    if (choice.best.empty()) return chosen;
    for (size_t index : choice.best.front().options) chosen.push_back(usable[index]);
    return chosen;
  }

  std::vector<CallCost> node_costs(size_t instance) const {
    std::vector<CallCost> costs(facts(instance).size());
    for (size_t n = 0; n < costs.size(); ++n) {
      const NodeFacts& node = facts(instance)[static_cast<NodeId>(n)];
      if (node.compute) costs[n] = node.eager;
    }
    return costs;
  }

  // Drafts of the options, equal patterns once, largest first and of those the ones with the fewest operands (a pattern
  // takes any value for an operand, so that `x | y` would also match `x | 3`); realised, or the pass that is not usable
  // banned.
  std::optional<Realised> try_state(const std::vector<const Option*>& chosen, PlanState& state) {
    std::vector<const PassDraft*> drafts;
    std::set<std::string> keys;
    for (const Option* option : chosen) {
      if (keys.insert(option->draft.pattern.key).second) drafts.push_back(&option->draft);
    }
    std::stable_sort(drafts.begin(), drafts.end(), [](const PassDraft* a, const PassDraft* b) {
      if (a->operators.size() != b->operators.size()) return a->operators.size() > b->operators.size();
      return a->pattern.graph.placeholders().size() < b->pattern.graph.placeholders().size();
    });
    Realised realised = realise(instances_, names_, drafts, assessor_);
    if (!realised.problems.empty()) {
      for (const Realised::Problem& problem : realised.problems) ban(*drafts[problem.draft], problem.why);
      return std::nullopt;
    }
    state.passes = std::move(realised.specs);
    state.descriptions.clear();
    for (size_t d : realised.kept) state.descriptions.push_back(drafts[d]->description);
    return realised;
  }

  void mark(const std::vector<const Option*>& chosen, const Realised& realised, bool RegionRow::*flag) {
    std::set<std::string> keys;
    for (const Option* option : chosen) keys.insert(option->draft.pattern.key);
    std::set<std::pair<size_t, NodeId>> roots;
    for (const auto& matched : realised.roots) roots.insert(matched.begin(), matched.end());
    for (const ClassPlan& cls : classes_) {
      for (const Option& option : cls.options) {
        if (keys.count(option.draft.pattern.key) &&
            roots.count({cls.graphs.instances.front(), option.region.root})) {
          result_.regions[option.row].*flag = true;
        }
      }
    }
  }

  void count_matches(const Realised& realised, size_t VariantPrediction::*member) {
    for (size_t i = 0; i < instances_.size(); ++i)
      result_.variants[instances_[i].variant].*member += realised.matches[i];
  }

  // The same choice with perfect kernels: every legal region costs one launch and moves each byte once.
  void plan_ceiling() {
    std::vector<double> times(instances_.size());
    for (const ClassPlan& cls : classes_) {
      const size_t first = cls.graphs.instances.front();
      const RegionTable table = enumerate_regions(facts(first), options_.limits, true);
      ChoiceProblem problem;
      problem.profile = &profile_;
      problem.width = options_.width;
      for (size_t i : cls.graphs.instances) problem.eager.push_back(node_costs(i));
      std::vector<const RegionCandidate*> usable;
      for (const RegionCandidate& candidate : table.candidates) {
        if (!candidate.verdict.ok()) continue;
        ChoiceOption option{candidate.region.root, candidate.region.nodes, {}};
        bool ok = true;
        for (size_t i : cls.graphs.instances) {
          const Assessment assessment = assessor_.assess_ideal(i, candidate.region);
          ok &= assessment.verdict.ok();
          option.cost.push_back(assessment.cost);
        }
        if (!ok) continue;
        usable.push_back(&candidate);
        problem.options.push_back(std::move(option));
      }
      const ChoiceResult choice = choose_regions(problem);
      for (size_t k = 0; k < cls.graphs.instances.size(); ++k) {
        const size_t i = cls.graphs.instances[k];
        times[i] = choice.best.empty() ? compiled_time_us(eager_calls(facts(i)), profile_)
                                       : choice.best.front().time_us[k];
      }
      if (choice.best.empty()) continue;
      for (size_t index : choice.best.front().options) explain_block(cls, *usable[index]);
    }
    const std::vector<double> sums = by_variant(times);
    for (size_t v = 0; v < sums.size(); ++v) result_.variants[v].ceiling_us = sums[v];
    result_.gmean_ceiling = gmean_speedup(sums);
  }

  // Why a region of the ceiling is not one of the upside's: nothing (it is one), what refused it, or its
  // price.
  void explain_block(const ClassPlan& cls, const RegionCandidate& ideal) {
    const size_t first = cls.graphs.instances.front();
    const Graph& graph = *instances_[first].graph;
    std::vector<std::string> nodes;
    for (NodeId id : ideal.region.nodes) nodes.push_back(graph.node(id).name);
    for (RegionRow& row : result_.regions) {
      if (&classes_[row.graph_class] != &cls || row.kind != ideal.region.kind || row.nodes != nodes) continue;
      row.in_ceiling = true;
      if (row.in_upside) return;
      if (row.verdict.ok()) {
        result_.blocked.push_back(
            {"kernel_cost", fmt::format("the {} pays only with a better kernel", row.description), nodes});
      }
      for (const Refusal& refusal : row.verdict.refusals()) result_.blocked.push_back(refusal);
      return;
    }
    for (NodeId id : ideal.region.nodes) {
      if (!facts(first)[id].wall.code.empty()) result_.blocked.push_back(facts(first)[id].wall);
    }
  }

  void finish() {
    if (!result_.exhaustive) {
      result_.findings.push_back(
          note("plan.not_exhaustive", "not every set of regions was compared: the graph is too large"));
    }
    std::vector<const GraphFacts*> all;
    for (const Instance& instance : instances_) all.push_back(instance.facts.get());
    double eager = 0;
    for (const VariantPrediction& prediction : result_.variants) eager = std::max(eager, prediction.eager_us);
    result_.archetypes = recognise_archetypes(all, eager - profile_.harness_us);
    std::stable_sort(result_.blocked.begin(), result_.blocked.end(), [](const Refusal& a, const Refusal& b) {
      return std::tie(a.code, a.nodes) < std::tie(b.code, b.nodes);
    });
    result_.blocked.erase(std::unique(result_.blocked.begin(), result_.blocked.end()), result_.blocked.end());
    result_.strategy = strategy_text(result_);
  }

  const std::vector<CapturedVariant>& variants_;
  const Profile& profile_;
  const PlanOptions& options_;
  std::vector<Instance> instances_;
  std::vector<std::string> names_;
  std::vector<ClassPlan> classes_;
  Assessor assessor_;
  std::set<std::string> banned_;
  std::vector<const Option*> floor_chosen_;
  PlanResult result_;
};

}  // namespace

PlanResult plan_sample(const std::vector<CapturedVariant>& variants, const Profile& profile,
                       const ScheduleOracle& oracle, const PlanOptions& options) {
  return Planner(variants, profile, oracle, options).run();
}

}  // namespace passnet
