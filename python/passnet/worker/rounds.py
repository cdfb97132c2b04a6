"""Timed trials in rounds: who runs when, which round counts, and which of its trials.

In the public order a side has rounds to itself and the first quiet one counts. In turn, a round is a row of turns; in a
turn every side makes one short block of calls, so that a machine that becomes slow does so for all of them. One round
counts for all sides, and of it the turns in which the machine was in one state: the largest set of turns that look
alike on every side. Turns are kept or dropped for all sides together, so that nobody can be favoured by it; on a
quiet machine all of them are kept and the ratio is that of the public formula.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from . import timing

# How far a side's block may be from the same side's block in another turn, as a factor, for the machine to be in the same
# state. Times scatter by a tenth; the states that hosts of GPUs were seen to switch between are a factor of 1.6 to 2 apart.
ALIKE = 1.25
LEAST = 0.5  # share of the turns that have to be alike before a round is steady


def turns(names, trials, block):
  """(turn, name, first trial, count) in the order of measuring: blocks forwards and backwards."""
  for turn, first in enumerate(range(0, trials, block)):
    for name in names if turn % 2 == 0 else list(names)[::-1]:
      yield turn, name, first, min(block, trials - first)


def new_round():
  return {"e2e_ms": [], "gpu_ms": []}


def fluctuation(times):
  """The larger one of the host's and the device's."""
  return max(timing.fluctuation(times["e2e_ms"]), timing.fluctuation(times["gpu_ms"]))


def own_round(rounds, limit, slowest=False):
  """Of one side by itself: index of the first round under the limit, or of the slowest such; None: no round is."""
  good = [i for i, r in enumerate(rounds) if r["e2e_ms"] and fluctuation(r) <= limit]
  if not good:
    return None
  return max(good, key=lambda i: np.median(rounds[i]["e2e_ms"])) if slowest else good[0]


def blocks(values, block):
  return [values[i : i + block] for i in range(0, len(values), block)]


def alike_turns(sides, block):
  """Numbers of the turns in which the machine was in one state. sides: the same round's times, a list a side.

  Every turn is held against every other; of sets of equal size the faster one.
  """
  logs = np.log(np.array([[max(np.median(b), 1e-9) for b in blocks(values, block)] for values in sides]))
  near = np.abs(logs[:, :, None] - logs[:, None, :]).max(axis=0) <= math.log(ALIKE)
  best = max(range(logs.shape[1]), key=lambda turn: (near[turn].sum(), -logs[:, near[turn]].mean()))
  return np.flatnonzero(near[best]).tolist()


def of_turns(values, used, block):
  return [v for turn in used for v in values[turn * block : (turn + 1) * block]]


@dataclass
class Common:
  """The round that counts for all sides, and the turns of it."""

  index: int
  used: list
  steady: bool
  turns: int
  fluctuations: list = field(default_factory=list)  # of the used trials, by side

  def facts(self, block):
    return {"block": block, "round": self.index, "turns": self.turns, "used": self.used, "steady": self.steady}


def _look(sides, block, limit):
  """One round of all sides as a Common without its number."""
  count = -(-len(sides[0]["e2e_ms"]) // block)
  # Where no limit holds nothing is comparable, and nothing is left out.
  used = list(range(count)) if math.isinf(limit) else alike_turns([s["e2e_ms"] for s in sides], block)
  few = len(used) < LEAST * count
  kept = [{key: of_turns(s[key], used, block) for key in s} for s in sides]
  got = [fluctuation(k) for k in kept]
  return Common(-1, used, not few and max(got) <= limit, count, got)


def common_round(sides, block, limit, slowest=False):
  """sides: [rounds of a side], all measured in turn and to their end. The first steady round, or with `slowest` the
  slowest; where none is steady the one whose worst side is calmest. None: nothing was measured."""
  looks = []
  for i in range(min((len(rounds) for rounds in sides), default=0)):
    look = _look([rounds[i] for rounds in sides], block, limit)
    look.index = i
    looks.append(look)
  if not looks:
    return None
  steady = [look for look in looks if look.steady]
  if not steady:
    return min(looks, key=lambda look: (len(look.used) < LEAST * look.turns, max(look.fluctuations)))
  if not slowest:
    return steady[0]
  return max(steady, key=lambda look: sum(np.log(np.median(of_turns(r[look.index]["e2e_ms"], look.used, block))) for r in sides))
