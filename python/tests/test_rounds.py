"""Which round and which turns count, on times made by a host that switches between a fast and a slow state."""
import math
import random

import numpy as np
import pytest

from passnet.worker import rounds, timing

TRUE = {"eager": 0.40, "nope": 0.46, "ceiling": 0.34, "inductor": 0.45, "inductor_eager": 0.46, "passnet": 0.41}  # ms
LIMIT = 0.2


class Host:
  """Times of calls on a host that is `slow` times slower for a while now and then. Scripted by its seed."""

  def __init__(self, seed, slow=1.9, fast_ms=60.0, slow_ms=30.0, noise=0.05):
    self.rng, self.slow, self.noise = random.Random(seed), slow, noise
    self.mean = {False: fast_ms, True: slow_ms}
    self.state, self.now, self.until = False, 0.0, self.rng.expovariate(1 / fast_ms)

  def call(self, cost):
    while self.now > self.until:
      self.state = not self.state
      self.until += self.rng.expovariate(1 / self.mean[self.state])
    t = cost * (self.slow if self.state else 1.0) * self.rng.lognormvariate(0, self.noise)
    self.now += t + 0.02
    return t


def measure(host, costs, block, count=3, trials=100):
  """{name: rounds}: `count` rounds in turn."""
  sides = {name: [] for name in costs}
  for _ in range(count):
    for name in costs:
      sides[name].append(rounds.new_round())
    for _, name, _, calls in rounds.turns(list(costs), trials, block):
      sides[name][-1]["e2e_ms"] += [host.call(costs[name]) for _ in range(calls)]
  return sides


def ratios(sides, common, block):
  median = {n: np.median(rounds.of_turns(r[common.index]["e2e_ms"], common.used, block)) for n, r in sides.items()}
  return {n: (median["eager"] / m) / (TRUE["eager"] / TRUE[n]) for n, m in median.items()}


def each_its_own(sides):
  """How it was done before: every side takes its first quiet round, or its calmest."""
  median = {}
  for name, r in sides.items():
    index = rounds.own_round(r, LIMIT)
    index = min(range(len(r)), key=lambda i: timing.fluctuation(r[i]["e2e_ms"])) if index is None else index
    median[name] = np.median(r[index]["e2e_ms"])
  return {n: (median["eager"] / m) / (TRUE["eager"] / TRUE[n]) for n, m in median.items()}


def worst(errors):
  return max(abs(math.log(e)) for e in errors.values())


def test_the_order_of_turns():
  got = list(rounds.turns(["a", "b"], 12, 5))
  assert got == [(0, "a", 0, 5), (0, "b", 0, 5), (1, "b", 5, 5), (1, "a", 5, 5), (2, "a", 10, 2), (2, "b", 10, 2)]


def test_a_switching_host_hits_all_sides_alike():
  """States of tens of milliseconds to seconds: the ratio stays right to a few percent where a round of one's own is off by
  a factor."""
  now, before = [], []
  for seed in range(40):
    for fast, slow in ((60, 30), (400, 200), (3000, 2000), (40, 40)):
      sides = measure(Host(seed, fast_ms=fast, slow_ms=slow), TRUE, 5)
      now.append(worst(ratios(sides, rounds.common_round(list(sides.values()), 5, LIMIT), 5)))
      before.append(worst(each_its_own(measure(Host(seed, fast_ms=fast, slow_ms=slow), TRUE, 10))))
  assert max(now) < 0.08 and np.median(now) < 0.03
  assert max(before) > 0.4 and sum(b > 0.1 for b in before) > 10


def test_the_slow_state_in_one_round_only_for_one_side():
  """Eager quiet in the third round alone, a candidate in the first alone: no pair exists but the calmest round's."""
  quiet, noisy = [0.4] * 100, [0.4, 0.8] * 50
  eager = [{"e2e_ms": t, "gpu_ms": []} for t in ([2 * v for v in noisy], noisy, quiet)]
  candidate = [{"e2e_ms": t, "gpu_ms": []} for t in ([2 * v for v in quiet], noisy, [1.01 * v for v in quiet])]
  got = rounds.common_round([eager, candidate], 5, LIMIT)
  assert got.index == 2 and got.steady and got.used == list(range(20))
  assert each_its_own({"eager": eager, "passnet": candidate})["passnet"] * TRUE["eager"] / TRUE["passnet"] == pytest.approx(0.5)


def test_turns_of_the_other_state_are_left_out_for_all():
  a, b = [1.0] * 100, [2.0] * 100
  a[20:40], b[20:40] = [1.9] * 20, [3.8] * 20  # slow for both
  b[60:65] = [4.0] * 5  # the switch fell into this turn: slow for the second side only
  got = rounds.common_round([[{"e2e_ms": a, "gpu_ms": []}], [{"e2e_ms": b, "gpu_ms": []}]], 5, LIMIT)
  assert got.steady and got.used == [k for k in range(20) if k not in (4, 5, 6, 7, 12)]
  facts = got.facts(5)
  assert facts["turns"] == 20 and facts["block"] == 5 and facts["round"] == 0


def test_of_two_states_of_equal_length_the_faster_counts():
  a = [1.9] * 50 + [1.0] * 50
  got = rounds.common_round([[{"e2e_ms": a, "gpu_ms": []}]], 5, LIMIT)
  assert got.used == list(range(10, 20)) and got.steady


def test_a_quiet_machine_keeps_every_turn():
  sides = measure(Host(1, slow=1.0), TRUE, 5, count=1)
  got = rounds.common_round(list(sides.values()), 5, LIMIT)
  assert got.steady and got.index == 0 and len(got.used) >= 19


def test_without_a_steady_round_the_calmest_by_its_worst_side():
  rng = random.Random(3)

  def noise(share):
    return {"e2e_ms": [1.0 + share * rng.random() for _ in range(100)], "gpu_ms": []}

  first = [noise(0.1), noise(1.2), noise(1.0)]
  second = [noise(2.5), noise(1.3), noise(0.1)]
  got = rounds.common_round([first, second], 5, LIMIT)
  assert not got.steady and got.index in (1, 2) and max(got.fluctuations) < rounds.fluctuation(second[0])


def test_where_no_limit_holds_nothing_is_left_out():
  a = [1.0] * 50 + [9.0] * 50
  got = rounds.common_round([[{"e2e_ms": a, "gpu_ms": []}]], 5, math.inf)
  assert got.steady and got.used == list(range(20))
  assert rounds.common_round([], 5, LIMIT) is None and rounds.common_round([[]], 5, LIMIT) is None


def test_a_round_of_ones_own():
  r = [{"e2e_ms": [1.0, 2.0] * 50, "gpu_ms": []}, {"e2e_ms": [1.0] * 100, "gpu_ms": [1.0, 3.0] * 50},
       {"e2e_ms": [1.1] * 100, "gpu_ms": []}, {"e2e_ms": [1.2] * 100, "gpu_ms": []}]
  assert rounds.own_round(r, LIMIT) == 2 and rounds.own_round(r, LIMIT, slowest=True) == 3
  assert rounds.own_round(r[:2], LIMIT) is None
