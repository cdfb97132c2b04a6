#include "plan/choose.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace passnet {

namespace {

struct Partial {
  std::vector<NodeId> covered;   // ascending, below the node at hand
  std::vector<QueueTail> tails;  // by graph
  std::vector<size_t> chosen;
  double mean_log = 0;  // with what is still open below as its own calls
};

// Clock sums of the nodes below each node, as their own calls.
struct Prefix {
  std::vector<std::vector<double>> host, device;  // by graph, by node: sums of all nodes below it
};

// A partial solution that has paid for a region early must not lose to one whose nodes are still to be paid
// for: both are ranked with all that is open computed by its own calls.
double ranking(const ChoiceProblem& problem, const Prefix& prefix, const Partial& partial, size_t node) {
  double sum = 0;
  for (size_t g = 0; g < partial.tails.size(); ++g) {
    double host = prefix.host[g][node], device = prefix.device[g][node];
    for (NodeId id : partial.covered) {
      host -= problem.eager[g][static_cast<size_t>(id)].host_us;
      device -= problem.eager[g][static_cast<size_t>(id)].device_us;
    }
    const QueueTail all{partial.tails[g].after_host + host, partial.tails[g].after_device + device};
    sum += std::log(std::max(1e-3, compiled_time_us(all, *problem.profile)));
  }
  return sum / static_cast<double>(std::max<size_t>(1, partial.tails.size()));
}

bool dominates(const Partial& a, const Partial& b) {
  for (size_t i = 0; i < a.tails.size(); ++i) {
    if (a.tails[i].after_host > b.tails[i].after_host || a.tails[i].after_device > b.tails[i].after_device)
      return false;
  }
  return true;
}

// Fewer regions first among equals, then the regions named first: the same input gives the same choice.
bool better(const Partial& a, const Partial& b) {
  if (a.mean_log != b.mean_log) return a.mean_log < b.mean_log;
  if (a.chosen.size() != b.chosen.size()) return a.chosen.size() < b.chosen.size();
  return a.chosen < b.chosen;
}

void advance(Partial& partial, size_t graphs, const Profile& profile, const auto& cost_in) {
  for (size_t g = 0; g < graphs; ++g) partial.tails[g] = partial.tails[g].before(cost_in(g), profile);
}

// Drops dominated partial solutions and, beyond `width`, the worst. A solution without any region is kept
// apart from those with one, and so are the few best complete alternatives (`spare` per set of covered
// nodes).
bool prune(std::vector<Partial>& partials, size_t width, size_t spare) {
  std::sort(partials.begin(), partials.end(), better);
  std::map<std::pair<std::vector<NodeId>, bool>, std::vector<size_t>> by_cover;
  std::vector<Partial> kept;
  for (Partial& partial : partials) {
    std::vector<size_t>& same = by_cover[{partial.covered, partial.chosen.empty()}];
    const size_t above = static_cast<size_t>(
        std::count_if(same.begin(), same.end(), [&](size_t i) { return dominates(kept[i], partial); }));
    if (above >= spare) continue;
    same.push_back(kept.size());
    kept.push_back(std::move(partial));
  }
  const bool all = kept.size() <= width;
  if (!all) kept.resize(width);
  partials = std::move(kept);
  return all;
}

}  // namespace

ChoiceResult choose_regions(const ChoiceProblem& problem) {
  ChoiceResult result;
  const size_t graphs = problem.eager.size();
  if (graphs == 0 || problem.options.empty()) return result;
  const Profile& profile = *problem.profile;
  const size_t nodes = problem.eager.front().size();

  std::vector<std::vector<size_t>> by_root(nodes);
  for (size_t i = 0; i < problem.options.size(); ++i) {
    by_root[static_cast<size_t>(problem.options[i].root)].push_back(i);
  }

  Prefix prefix;
  for (const std::vector<CallCost>& calls : problem.eager) {
    std::vector<double>& host = prefix.host.emplace_back(nodes + 1, 0.0);
    std::vector<double>& device = prefix.device.emplace_back(nodes + 1, 0.0);
    for (size_t n = 0; n < nodes; ++n) {
      host[n + 1] = host[n] + calls[n].host_us;
      device[n + 1] = device[n] + calls[n].device_us;
    }
  }

  std::vector<Partial> partials(1);
  partials.front().tails.resize(graphs);
  for (size_t n = nodes; n-- > 0;) {
    const NodeId id = static_cast<NodeId>(n);
    std::vector<Partial> next;
    for (Partial& partial : partials) {
      if (!partial.covered.empty() && partial.covered.back() == id) {
        partial.covered.pop_back();
        partial.mean_log = ranking(problem, prefix, partial, n);
        next.push_back(std::move(partial));
        continue;
      }
      for (size_t index : by_root[n]) {
        const ChoiceOption& option = problem.options[index];
        // `option.nodes` without the root, which is the node at hand.
        std::vector<NodeId> inner(option.nodes.begin(), option.nodes.end() - 1);
        std::vector<NodeId> overlap;
        std::set_intersection(inner.begin(), inner.end(), partial.covered.begin(), partial.covered.end(),
                              std::back_inserter(overlap));
        if (!overlap.empty()) continue;
        Partial with = partial;
        with.covered.clear();
        std::merge(partial.covered.begin(), partial.covered.end(), inner.begin(), inner.end(),
                   std::back_inserter(with.covered));
        with.chosen.push_back(index);
        advance(with, graphs, profile, [&](size_t g) -> const CallCost& { return option.cost[g]; });
        with.mean_log = ranking(problem, prefix, with, n);
        next.push_back(std::move(with));
      }
      const auto own = [&](size_t g) -> const CallCost& { return problem.eager[g][n]; };
      advance(partial, graphs, profile, own);
      partial.mean_log = ranking(problem, prefix, partial, n);
      next.push_back(std::move(partial));
    }
    result.exhaustive &= prune(next, problem.width, problem.keep);
    partials = std::move(next);
  }

  for (const Partial& partial : partials) {
    if (partial.chosen.empty()) continue;
    Choice choice;
    choice.options = partial.chosen;
    for (const QueueTail& tail : partial.tails) choice.time_us.push_back(compiled_time_us(tail, profile));
    choice.mean_log = partial.mean_log;
    result.best.push_back(std::move(choice));
    if (result.best.size() >= problem.keep) break;
  }
  return result;
}

}  // namespace passnet
