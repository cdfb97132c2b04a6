#!/usr/bin/env python3
"""Compares native capture of full-model graphs with what torch.compile made of them, as recorded.

  capture_vs_oracle.py --driver build/tests/differential/capture_driver [--graphs ARCHIVE|FOLDER] [--oracle FILE] [--only TEXT]
                       [--rederive PERCENT] [--seed N] [--list]

Of every model: the graphs (their number, the compute nodes with target, arguments and keywords, in order; the outputs) have
to be equal, and per node shape, dtype and storage, and the strides where native capture claims to know them. An id of a storage
says "may share", so native capture may name more sharing and more writes than there are. Where native capture knows no
metadata, the node counts as not agreed.

--rederive records that share of the models again with the torch that is installed, if it is the recording's, and compares with the
recording; all of them where PASSNET_SOAK is set (make soak).

Exit status 1 if fewer than 99% of the models have equal graphs, fewer than 99.5% of the nodes equal metadata, or a model that is derived
again differs from its record; 77 (skipped) where there are no graphs here.
"""

import argparse
import collections
import importlib.machinery
import importlib.util
import os
import pathlib
import random
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(HERE), str(ROOT / "python")]

import canonical_graphs as canonical  # noqa: E402
import tool_common  # noqa: E402

SKIPPED = 77
MODELS, NODES = 0.99, 0.995


def recorder():
  """tools/record_graph_oracle as a module."""
  loader = importlib.machinery.SourceFileLoader("record_graph_oracle", str(ROOT / "tools" / "record_graph_oracle"))
  module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
  loader.exec_module(module)
  return module


def native_lines(driver, questions, jobs):
  """{folder: (state, lines, findings)}"""
  done = subprocess.run([driver, "--jobs", str(jobs)], input="".join(f"{d} {f}\n" for d, f in questions), capture_output=True, text=True)
  if done.returncode:
    raise SystemExit(f"{driver} died with {done.returncode}: {done.stderr[-300:]}")
  out = {}
  for line in done.stdout.splitlines():
    if line.startswith("= "):
      folder, state, _ = line[2:].rsplit(" ", 2)
      out[folder] = current = (state, [], [])
    elif line.startswith("! "):
      current[2].append(line[2:])
    else:
      current[1].append(line)
  return out


TENSOR = re.compile(r"^(?P<dtype>\w+)(?P<shape>\[[^\]]*\])(?P<stride>\{[^}]*\})?( @(?P<storage>\S+))?$")
REFERENCE = re.compile(r"%(\d+)|\$([+-]\d+)|(&\S+)")


class Storages:
  """Which values of one graph share memory, by the links of its lines: `@` names the first value of a storage."""

  def __init__(self):
    self.position, self.last, self.first = -1, -1, {}

  def next(self, call):
    """The node of the next line begins; `call` is its text."""
    self.position += 1
    for match in REFERENCE.finditer(call):
      self.absolute(match.group(0))

  def absolute(self, reference):
    match = REFERENCE.match(reference)
    if match.group(1):
      return self.position - int(match.group(1))
    if match.group(2):
      self.last += int(match.group(2))
      return f"${self.last}"
    return match.group(0)

  def link(self, reference):
    """The storage of the present node; its own without a reference."""
    target = self.absolute(reference) if reference else self.position
    self.first.setdefault(self.position, self.first.get(target, target))
    return target

  def of(self, target):
    return self.first.get(target, target)


def items_of(text):
  """The tensors in a text of metadata and the storages that are written."""
  text, *writes = text.split(" !")
  if text.startswith("("):
    return re.split(r", (?=[a-z]+\d*\[|\?|=|\()", text.replace("(", "").replace(")", "")), writes
  return [text], writes


def same_metadata(mine, theirs, storages, counts):
  """Whether they agree; what native capture leaves open is counted. `storages`: of both sides."""
  (a, writes), (b, recorded_writes) = items_of(mine), items_of(theirs)
  parsed = [[TENSOR.match(x) for x in side] for side in (a, b)]
  links = [[s.link(m["storage"]) if m else None for m in side] for s, side in zip(storages, parsed)]
  written = [{s.of(s.absolute(w)) for w in side} for s, side in zip(storages, (writes, recorded_writes))]
  if mine == theirs and links[0] == links[1]:
    return True
  if mine == "unknown":
    counts["nodes without metadata"] += 1
    return False
  if len(a) != len(b):
    return False
  for x, y, p, q, m, t in zip(a, b, *parsed, *links):
    if not p or not q:
      if x != y:
        return False
      continue
    if p["dtype"] != q["dtype"] or p["shape"] != q["shape"]:
      return False
    if p["stride"] == "{?}":
      counts["strides left open"] += 1
    elif p["stride"] != q["stride"]:
      return False
    if q["storage"] and storages[0].of(m) != storages[0].of(t):
      return False  # what shares memory has to share an id
    if p["storage"] and not q["storage"]:
      counts["sharing that may be"] += 1
  return {storages[0].of(w) for w in written[1]} <= {storages[0].of(w) for w in written[0]}


def compare(name, native, recorded, counts, reasons):
  """(graphs are equal, nodes, nodes with equal metadata)."""
  state, mine, findings = native
  theirs = recorded["lines"]
  nodes = sum(" | " in line for line in theirs)
  if state == "error":
    reasons.append(f"{name}: not captured: {findings[0]}")
    return False, nodes, 0
  equal, agreed, shown, storages = True, 0, 0, None
  for i in range(max(len(mine), len(theirs))):
    a = mine[i] if i < len(mine) else "(nothing)"
    b = theirs[i] if i < len(theirs) else "(nothing)"
    graph_a, _, meta_a = a.partition(" | ")
    graph_b, _, meta_b = b.partition(" | ")
    if graph_a != graph_b:
      reasons.append(f"{name}: line {i}: {a[:300]} instead of {b[:300]}")
      equal = False
      break
    if not meta_b:
      storages = (Storages(), Storages())
      continue
    for side, text in zip(storages, (graph_a, graph_b)):
      side.next(text)
    if same_metadata(meta_a, meta_b, storages, counts):
      agreed += 1
    elif shown < 3:
      shown += 1
      why = f" ({findings[0]})" if findings and meta_a == "unknown" else ""
      reasons.append(f"{name}: metadata of line {i}, {graph_a[:120]}: {meta_a} instead of {meta_b}{why}")
  return equal, nodes, agreed


def rederive(models, folders, percent, seed, jobs):
  """Names of models whose record the installed torch does not give again, and how many were tried."""
  record = recorder()
  count = max(1, round(len(models) * percent / 100))
  # Graph breaks take torch a second each: a small share is drawn of the models with few.
  names = [n for n in sorted(models) if n in folders and (percent >= 100 or record.effort(folders[n])[0] < 10)]
  chosen = random.Random(seed).sample(names, min(count, len(names)))
  workers = [record.Child(3000) for _ in range(jobs)]
  bad = []
  import concurrent.futures
  import queue
  free = queue.Queue()
  for w in workers:
    free.put(w)

  def one(name):
    worker = free.get()
    try:
      return name, worker.record(folders[name], 1800)
    finally:
      free.put(worker)

  with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
    for name, result in pool.map(one, chosen):
      if result.get("lines") != models[name]["lines"]:
        bad.append(name)
        print(f"{name}: torch now gives something else: {result.get('error') or 'other lines'}")
  for w in workers:
    w.close()
  return bad, len(chosen)


def graphs_folder(given):
  """--graphs, PASSNET_GRAPHS, or the archive beside the checkout; unpacked once into .cache. None where there is none."""
  path = given or os.environ.get("PASSNET_GRAPHS") or ROOT.parent / "shared" / "data" / "graphnet-graphs.tar.gz"
  if not pathlib.Path(path).exists():
    return None
  return recorder().unpacked(path, ROOT / ".cache")


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--driver", required=True)
  parser.add_argument("--graphs")
  parser.add_argument("--oracle", default=str(ROOT / "tests" / "data" / "graph_oracle_2.13.txt.xz"))
  parser.add_argument("--only", default="")
  parser.add_argument("--jobs", type=int, default=2)
  parser.add_argument("--rederive", type=float, default=0, help="percent of the models")
  parser.add_argument("--seed", type=int, default=None, help="of the models that are derived again; the day, if left out")
  parser.add_argument("--list", action="store_true", help="every disagreement, not the first thirty")
  args = parser.parse_args()
  if args.rederive and os.environ.get("PASSNET_SOAK"):
    args.rederive = 100
  root = graphs_folder(args.graphs)
  if root is None:
    print("skipped: no full-model graphs here; name the archive or folder with PASSNET_GRAPHS")
    return SKIPPED
  head, models = canonical.read_archive(args.oracle)
  folders = {n: f for n, f in recorder().model_folders(root).items() if args.only in n}
  missing = sorted(n for n in models if args.only in n and n not in folders)
  models = {n: m for n, m in models.items() if n in folders}
  changed = [n for n in sorted(models) if canonical.digest_of(folders[n]) != models[n]["digest"]]
  for name in changed:
    print(f"{name}: its files are not those that were recorded")
    del models[name]
  device = {"cuda": "cuda", "cpu": "cpu", "real": "cpu"}
  natives = native_lines(args.driver, [(device[m["how"]], str(folders[n])) for n, m in sorted(models.items())], args.jobs)
  counts, reasons = collections.Counter(), []
  equal = nodes = agreed = 0
  for name, model in sorted(models.items()):
    same, n, ok = compare(name, natives[str(folders[name])], model, counts, reasons)
    equal, nodes, agreed = equal + same, nodes + n, agreed + ok
  for text in reasons if args.list else reasons[:30]:
    print(text)
  if len(reasons) > 30 and not args.list:
    print(f"... and {len(reasons) - 30} more (--list)")
  print(f"torch {head['torch']}: graphs equal for {equal} of {len(models)} models ({equal / max(1, len(models)):.2%}), metadata for {agreed} of "
        f"{nodes} nodes ({agreed / max(1, nodes):.3%}); {dict(sorted(counts.items()))}"
        + (f"; {len(missing)} recorded models are not here" if missing else ""))
  bad = not models or equal < MODELS * len(models) or agreed < NODES * nodes or bool(changed)
  if args.rederive:
    from importlib.metadata import version
    installed = version("torch").split("+")[0]
    if installed != head["torch"]:
      print(f"torch {installed} is installed, not {head['torch']}: nothing was derived again")
    else:
      import datetime
      seed = args.seed if args.seed is not None else datetime.date.today().toordinal()
      wrong, tried = rederive(models, folders, args.rederive, seed, args.jobs)
      print(f"{tried} models derived again (seed {seed}), {len(wrong)} differ")
      bad = bad or bool(wrong)
  return 1 if bad else 0


if __name__ == "__main__":
  sys.exit(main())
