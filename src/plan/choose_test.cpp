#include "plan/choose.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "plan/test_graphs.h"

namespace passnet {
namespace {

// Every set of disjoint options, tried one by one.
double best_by_brute_force(const ChoiceProblem& problem) {
  double best = INFINITY;
  for (size_t mask = 1; mask < (size_t{1} << problem.options.size()); ++mask) {
    std::set<NodeId> covered;
    size_t wanted = 0;
    std::vector<const ChoiceOption*> by_root(problem.eager.front().size(), nullptr);
    for (size_t i = 0; i < problem.options.size(); ++i) {
      if (!(mask >> i & 1)) continue;
      covered.insert(problem.options[i].nodes.begin(), problem.options[i].nodes.end());
      wanted += problem.options[i].nodes.size();
      by_root[static_cast<size_t>(problem.options[i].root)] = &problem.options[i];
    }
    if (covered.size() != wanted) continue;
    double sum = 0;
    for (size_t g = 0; g < problem.eager.size(); ++g) {
      std::vector<CallCost> calls;
      for (size_t n = 0; n < by_root.size(); ++n) {
        if (by_root[n] != nullptr) {
          calls.push_back(by_root[n]->cost[g]);
        } else if (!covered.count(static_cast<NodeId>(n))) {
          calls.push_back(problem.eager[g][n]);
        }
      }
      sum += std::log(compiled_time_us(calls, *problem.profile));
    }
    best = std::min(best, sum / static_cast<double>(problem.eager.size()));
  }
  return best;
}

ChoiceProblem random_problem(std::mt19937& random, const Profile& profile) {
  std::uniform_real_distribution<double> time(0, 60);
  const auto call = [&] {
    const int kernels = static_cast<int>(random() % 2);
    return CallCost{time(random), kernels == 0 ? 0 : time(random), kernels};
  };
  ChoiceProblem problem;
  problem.profile = &profile;
  const size_t nodes = 3 + random() % 6, graphs = 1 + random() % 3;
  problem.eager.resize(graphs);
  for (auto& calls : problem.eager) {
    for (size_t n = 0; n < nodes; ++n) calls.push_back(call());
  }
  const size_t options = 1 + random() % 9;
  for (size_t i = 0; i < options; ++i) {
    ChoiceOption option;
    option.root = static_cast<NodeId>(random() % nodes);
    for (NodeId n = 0; n < option.root; ++n) {
      if (random() % 3 == 0) option.nodes.push_back(n);
    }
    option.nodes.push_back(option.root);
    for (size_t g = 0; g < graphs; ++g) option.cost.push_back(call());
    problem.options.push_back(std::move(option));
  }
  return problem;
}

TEST(Choice, IsTheBestOfAllSets) {
  const Profile profile = h200();
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    const ChoiceProblem problem = random_problem(random, profile);
    const ChoiceResult result = choose_regions(problem);
    ASSERT_TRUE(result.exhaustive);
    ASSERT_FALSE(result.best.empty());
    EXPECT_NEAR(result.best.front().mean_log, best_by_brute_force(problem), 1e-9) << "round " << round;
    for (size_t i = 1; i < result.best.size(); ++i) {
      EXPECT_GE(result.best[i].mean_log, result.best[i - 1].mean_log);
    }
  }
}

TEST(Choice, SaysWhenItCouldNotCompareEverything) {
  const Profile profile = h200();
  ChoiceProblem problem;
  problem.profile = &profile;
  problem.width = 4;
  problem.eager.emplace_back(60, CallCost{10, 3, 1});
  for (NodeId n = 0; n < 60; ++n) {
    for (NodeId from = std::max(0, n - 3); from < n; ++from) {
      problem.options.push_back({n, {from, n}, {CallCost{12, 2, 1}}});
    }
  }
  const ChoiceResult result = choose_regions(problem);
  EXPECT_FALSE(result.exhaustive);
  ASSERT_FALSE(result.best.empty());
  EXPECT_GE(result.best.front().options.size(), 20u);  // of 30 pairs at most
}

TEST(Choice, WithoutOptionsThereIsNone) {
  const Profile profile = h200();
  ChoiceProblem problem;
  problem.profile = &profile;
  problem.eager.emplace_back(3, CallCost{10, 3, 1});
  EXPECT_TRUE(choose_regions(problem).best.empty());
}

}  // namespace
}  // namespace passnet
