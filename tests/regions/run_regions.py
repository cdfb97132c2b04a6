#!/usr/bin/env python3
"""Random legal regions through the real path: samples made of the operator table, solved natively with the largest legal
regions, then run by torch.compile with interpreted kernels, poisoned and plain, against eager and the CUDA reference.

  run_regions.py --planner plan_regions --table print_operator_table [--count 200] [--seed N] [--jobs 2] [--out FILE]
  run_regions.py ... --only SEED [--keep FOLDER]      one graph again, with all that is known of it (or a name of fixed_regions.py)

--count is of graphs that ran with at least one pass; graphs without a legal region are counted by the reasons. A third at
least of those that ran hold a write before, inside or between a region and its first user. Exit status 1 if anything failed.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))

import torch  # noqa: E402

import fixed_regions  # noqa: E402
import judge  # noqa: E402
import region_maker  # noqa: E402
from passnet.worker import replay, samples, smoke  # noqa: E402

BATCH = 25
FIRST_SEED = 20261130


def load_table(text):
  if text.endswith(".json"):
    return json.loads(pathlib.Path(text).read_text(encoding="utf-8"))
  return json.loads(subprocess.run([text], check=True, capture_output=True, text=True).stdout)


class Planner:
  """The native program, kept running: a folder in, what became of it out."""

  def __init__(self, program):
    self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

  def solve(self, folders):
    answers = []
    for folder in folders:
      if self.process.poll() is None:
        try:
          self.process.stdin.write(folder + "\n")
          self.process.stdin.flush()
          line = self.process.stdout.readline()
        except BrokenPipeError:
          line = ""
      else:
        line = ""
      if not line:
        answers.append({"error": {"code": "planner.died", "message": f"the planner ended with {self.process.wait()}"}})
        self.process = subprocess.Popen(self.process.args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
      else:
        answers.append(json.loads(line))
    return answers

  def close(self):
    self.process.stdin.close()
    self.process.wait()


def runs_in_eager(path):
  """Whether the model runs on inputs of both families: what the maker had at hand were others of the same kinds."""
  try:
    variant = samples.load_variant(path)
    model = samples.build_model(variant, "cpu")
    order = [m.name for m in samples.ordered_metas(variant, model)]
    for named in (replay.public_inputs(variant), replay.live_inputs(variant, 1)):
      model(*(named[n] for n in order))
    return True
  except Exception:  # noqa: BLE001 - an index out of range, a division by zero
    return False


def failures_of(reply):
  """What is wrong with the answer of smoke, in a line each."""
  if "error" in reply:
    return [f"smoke: {reply['error']}"]
  result = reply["variants"][0]
  if result["ok"]:
    return []
  if "error" in result:
    return [f"{result['error'].get('code')}: {result['error'].get('message')}"]
  out = [f"violation: {v}" for v in result.get("violations", [])]
  for call in result["calls"]:
    where = f"{call['family']} {call['mode']}"
    if "error" in call:
      out.append(f"{where}: {call['error'].get('code')}: {call['error'].get('message', '')}"[:600])
    for wrapper in call.get("wrappers", []):
      if wrapper.get("ok", True):
        continue
      why = wrapper.get("error") or [{k: o.get(k) for k in ("reason", "first_bad")} for o in wrapper.get("outputs", []) if not o["ok"]]
      out.append(f"{where}: {wrapper['pass']} against the reference: {why}")
    for i, o in enumerate(call.get("outputs", [])):
      if not o["ok"]:
        out.append(f"{where}: output {i}: {o.get('reason')} {o.get('first_bad', '')}")
    for o in call.get("inputs", []):
      out.append(f"{where}: input {o['name']}: {o.get('reason')} {o.get('first_bad', '')}")
    out += [f"{where}: {why}" for why in call.get("settling", [])]
    if call.get("alias_added"):
      out.append(f"{where}: shares memory that eager does not share: {call['alias_added']}")
  return out or ["not ok, without a reason"]


def not_compiled(reply):
  """Eager runs it, dynamo does not trace it (a shift of booleans): no backend is asked, and there is nothing to judge."""
  result = reply.get("variants", [{}])[0]
  errors = [c["error"].get("code") for c in result.get("calls", []) if "error" in c]
  return errors[:1] == ["TorchRuntimeError"]


def run_sample(folder, label, answer, families):
  request = {"sample": folder, "pass_dir": os.path.join(folder, "pass_dir"), "programs": {label: answer["programs"]},
             "options": {"repeats": 0, "families": families}}
  try:
    return smoke.command(request, lambda progress: None, judge.JudgedRun)
  except Exception as e:  # noqa: BLE001 - whatever it is, it is this region's failure
    return {"error": f"{type(e).__name__}: {e}"}


class Tally:
  def __init__(self):
    self.ran = self.written = self.unusable = 0
    self.failed = []
    self.counts = {k: collections.Counter() for k in ("dtypes", "mutations", "schedules", "rows", "layouts", "refused", "notes")}

  def to_json(self):
    return {"ran": self.ran, "with_writes": self.written, "unusable": self.unusable, "failed": self.failed,
            **{k: dict(v.most_common()) for k, v in self.counts.items()}}

  def add(self, other):
    self.ran += other["ran"]
    self.written += other["with_writes"]
    self.unusable += other["unusable"]
    self.failed += other["failed"]
    for k, counter in self.counts.items():
      counter.update(other[k])


def refusals_of(answer):
  """Why nothing came of a graph: the codes of all its regions."""
  codes = {c["code"] for r in answer["regions"] if not r["legal"] for c in r["codes"]}
  codes |= {"unusable: " + f["message"].split(": ")[1] for f in answer["refused"] if f["code"] == "plan.pass_refused"}
  return codes or {"nothing to compute"}


class Runner:
  def __init__(self, options):
    self.options, self.tally = options, Tally()
    self.table = region_maker.Table(load_table(options.table))
    self.planner = Planner(options.planner)

  def make(self, seed, folder):
    # Of graphs with writes fewer have a legal region, and the write often decides over it.
    rng = random.Random(f"write {seed}")
    mutation = rng.choice(region_maker.MODES) if rng.random() < 0.5 else None
    region = region_maker.make_region(self.table, seed, mutation)
    if region is None:
      return None
    label = region_maker.write_sample(folder, region)
    return (region, label) if runs_in_eager(os.path.join(folder, label)) else None

  def judge(self, region, label, folder, answer):
    tally, counts = self.tally, self.tally.counts
    if "error" in answer:
      # A construct that native capture leaves to dynamo is no failure of the planner, but worth a line.
      code = answer["error"]["code"]
      if code == "planner.died" or answer["error"].get("code", "").startswith(("codegen", "specialise", "solve")):
        self.fail(region, folder, [f"{code}: {answer['error']['message']}"], answer)
      else:
        counts["refused"]["capture: " + code + ": " + answer["error"]["message"][:80]] += 1
      return
    if not answer["passes"]:
      counts["refused"].update(refusals_of(answer))
      return
    families = ["live", "sample"] if self.options.full else ["live"]
    reply = run_sample(folder, label, answer, families)
    problems = answer["failures"] + failures_of(reply)
    if not_compiled(reply):
      counts["refused"]["torch.compile: the model cannot be traced"] += 1
      return
    tally.ran += 1
    tally.written += region.mutation is not None
    counts["dtypes"].update({e["dtype"] for e in region.inputs})
    counts["mutations"][str(region.mutation)] += 1
    chosen = [r for r in answer["regions"] if r["chosen"]]
    counts["schedules"].update(r["schedule"] for r in chosen if r["kernel"])
    counts["rows"].update({op for r in chosen for op in r["operators"]})
    counts["layouts"].update(region.layouts)
    if problems:
      self.fail(region, folder, problems, answer)
    else:
      result = reply["variants"][0]
      counts["notes"]["CPU eager differs by its arithmetic alone"] += any("note" in c for c in result["calls"])
      counts["notes"]["an element is undetermined by the arithmetic"] += result["undetermined"] > 0
    if self.options.only is not None:
      print(json.dumps(reply, indent=1, default=str)[:20000])

  def fail(self, region, folder, problems, answer):
    self.tally.failed.append({"seed": region.seed, "problems": problems[:6], "passes": answer.get("passes"), "model": region.source,
                              "inputs": region.inputs})
    print(f"FAILED seed {region.seed}\n  " + "\n  ".join(problems[:6]) + "\n" + region.source, flush=True)

  def run_batch(self, seeds, limit):
    with tempfile.TemporaryDirectory() as scratch:
      made = []
      for seed in seeds:
        folder = os.path.join(self.options.keep or scratch, f"region_{seed}")
        found = self.make(seed, folder)
        if found is None:
          self.tally.unusable += 1
        else:
          made.append((*found, folder))
      answers = self.planner.solve([folder for _, _, folder in made])
      for (region, label, folder), answer in zip(made, answers):
        if self.tally.ran < limit:
          self.judge(region, label, folder, answer)

  def run_fixed(self, names):
    """Every one of them must have a pass and be right."""
    with tempfile.TemporaryDirectory() as scratch:
      for number, name in enumerate(names):
        region = region_maker.fixed_region(name, *fixed_regions.REGIONS[name])
        folder = os.path.join(self.options.keep or scratch, f"fixed_{number}")
        label = region_maker.write_sample(folder, region)
        before = self.tally.ran
        self.judge(region, label, folder, self.planner.solve([folder])[0])
        if self.tally.ran == before:
          self.fail(region, folder, ["no pass was made for it"], {})

  def run(self, count, seeds):
    while self.tally.ran < count:
      self.run_batch([next(seeds) for _ in range(BATCH)], count)
    self.planner.close()
    return self.tally


def share(options, part):
  """One of several processes: every jobs-th seed."""
  def seeds():
    seed = options.seed + part
    while True:
      yield seed
      seed += options.jobs

  count = options.count // options.jobs + (part < options.count % options.jobs)
  runner = Runner(options)
  runner.run_fixed(sorted(fixed_regions.REGIONS)[part::options.jobs])
  runner.tally = fixed_only_failures(runner.tally)
  return runner.run(count, seeds()).to_json()


def fixed_only_failures(tally):
  """The fixed ones are no part of the figures."""
  fresh = Tally()
  fresh.failed = tally.failed
  return fresh


def run_parts(options):
  """Each part as a process of its own: a fork of one that has used torch is none that may use it again."""
  with tempfile.TemporaryDirectory() as folder:
    parts = []
    for part in range(options.jobs):
      out = os.path.join(folder, f"part_{part}.json")
      parts.append((out, subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--part", str(part), "--out", out])))
    statuses = [process.wait() for _, process in parts]
    tally = Tally()
    for (out, _), status in zip(parts, statuses):
      if status not in (0, 1) or not os.path.exists(out):
        tally.failed.append({"seed": None, "problems": [f"a process ended with {status}"]})
        continue
      with open(out, encoding="utf-8") as f:
        tally.add(json.load(f))
  return tally


def shortcomings(tally, count):
  """What the run did not contain though it must: otherwise it would show less than it says."""
  out = []
  if tally.written * 3 < tally.ran:
    out.append(f"only {tally.written} of {tally.ran} graphs hold a write")
  for dtype in ("float32", "float16", "bfloat16", "int64", "bool"):
    if not tally.counts["dtypes"][dtype]:
      out.append(f"no graph has an input of {dtype}")
  if count >= 200 and len(tally.counts["rows"]) < 100:
    out.append(f"only {len(tally.counts['rows'])} operators were inside a region")
  return out


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--planner", required=True)
  parser.add_argument("--table", required=True, help="the program that prints the operator table, or what it printed")
  parser.add_argument("--count", type=int, default=2000 if os.environ.get("PASSNET_SOAK") else 200)
  parser.add_argument("--seed", type=int, default=FIRST_SEED)
  parser.add_argument("--jobs", type=int, default=2)
  parser.add_argument("--full", action="store_true", default=bool(os.environ.get("PASSNET_SOAK")), help="both input families")
  parser.add_argument("--only", help="one seed, or one of the fixed ones, alone")
  parser.add_argument("--keep", help="leave the samples in this folder")
  parser.add_argument("--out")
  parser.add_argument("--part", type=int, help=argparse.SUPPRESS)
  options = parser.parse_args()
  torch.set_num_threads(1)
  if options.only is not None:
    runner = Runner(options)
    if options.only in fixed_regions.REGIONS:
      runner.run_fixed([options.only])
    else:
      runner.run_batch([int(options.only)], 1)
    print(json.dumps(runner.tally.to_json(), indent=1))
    return 1 if runner.tally.failed else 0
  if options.part is not None:
    document = share(options, options.part)
    pathlib.Path(options.out).write_text(json.dumps(document), encoding="utf-8")
    return 1 if document["failed"] else 0
  started = time.monotonic()
  tally = run_parts(options)
  missing = shortcomings(tally, options.count)
  document = {"schema": "passnet.regions/1", "seed": options.seed, "torch": torch.__version__, "families": 2 if options.full else 1,
              "seconds": round(time.monotonic() - started, 1), "operators": len(tally.counts["rows"]), **tally.to_json(), "missing": missing}
  if options.out:
    pathlib.Path(options.out).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
  for text in missing:
    print("MISSING", text)
  print(f"regions: seed {options.seed}: {tally.ran} graphs ran, {tally.written} of them with writes, {len(tally.counts['rows'])} operators inside "
        f"regions, {len(tally.failed)} failures; {sum(tally.counts['refused'].values())} reasons against regions of graphs without any, "
        f"{document['seconds']} s")
  return 1 if tally.failed or missing else 0


if __name__ == "__main__":
  sys.exit(main())
