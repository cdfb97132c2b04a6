#!/usr/bin/env python3
"""What an evaluation on a GPU must catch, must not flag, and must survive: passnet eval on small samples, a verdict a row.

  eval_checks.py --passnet FILE --out FOLDER [--samples FOLDER] [--seconds 340] [--device cuda] [--only exploits,aa,...]

exploits   every entry of tests/integrity/exploits.py and those that only a GPU can show, public source rules, both protocols
aa         the same passes against themselves on about --graphs variants of --samples, in one run: 1.00 +- 0.03
repeats    every look-alike under both protocols and the smallest variant of each solved sample of --samples under the strict
           one, --repeats times, a child of its own each: no flag, and right. What the time does not allow is left out evenly:
           a row says how often its entry was evaluated.
timed      the look-alikes, then solved samples, once under the strict protocol and the device's lock, as far as the time goes: no clock
           accuses them
faults     last, in a run of its own: out of memory, an illegal access, a kernel that spins past its deadline, 10 GB of output;
           an honest variant beside each comes out right, and so does one that is measured after them

Exploits and repeats are verdicts alone: their runs evaluate side by side, on all processors, several at once. The
others time under the device's lock, as ever.

FOLDER/checks.json, or the file of --document, is written after every step: {"rows": [{"check", "id", "what", "wanted", "got", "verdict"}],
"steps", "repeats"}. A verdict is pass, fail, fewer (right, but not so often as asked), or not run. A step that does not fit
into the time that is left is not begun, and its rows say so.
"""

import argparse
import collections
import concurrent.futures
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
for folder in (HERE / "integrity", HERE.parent.parent / "tests" / "eval", HERE.parent.parent / "tests" / "integrity"):
  sys.path.insert(0, str(folder))
import eval_cases as cases  # noqa: E402
import exploits  # noqa: E402
import honest  # noqa: E402

w, Exploit, LAUNCH, HEAD = exploits.w, exploits.Exploit, exploits.LAUNCH, exploits.HEAD
# Host memory is not the device's: what reads or writes addresses on the host fails in its own way on a GPU.
HOST_ONLY = {"A3e", "A10a", "B8"}
# What one layer says on a CPU another may say first on a GPU: any of these is caught.
CAUGHT = {"rejected_source", "forbidden_op", "replacement_ops", "kept_state", "changed_inputs", "inconsistent", "inaccurate", "type_mismatch",
          "shape_mismatch", "clock_mismatch", "timeout", "resource_limit", "crash", "forged_answer", "load_error", "multi_output", "fluctuation"}

ON_A_GPU = [
  Exploit("D1", "the work on another stream", w("s = _cuda.Stream()\no = torch.empty_like(x)\nwith _cuda.stream(s):\n    _kernel[((x.numel() + 63) // 64,)](x, y, o, x.numel(), B=64)\nreturn o", "_cuda = getattr(torch, 'cuda')"), public="any"),
  Exploit("D4", "a faked event time", w(LAUNCH + "return o", "getattr(torch, 'cuda').Event.elapsed_time = lambda a, b: 1e-3"), public="kept_state"),
  Exploit("D4b", "a synchronise that does nothing", w(LAUNCH + "return o", "getattr(torch, 'cuda').synchronize = lambda *a: None"), public="kept_state"),
  Exploit("D6", "a legal hint for the cache", {"Fuse.py": (HEAD + cases.HONEST).replace("tl.load(x + i, mask=m, other=0.0)", "tl.load(x + i, mask=m, other=0.0, eviction_policy=\"evict_last\")")}),
  Exploit("D9", "tunes again whenever an address is new", {"Fuse.py": (HEAD + cases.HONEST).replace("def _kernel(x, y, o, N, B", "def _kernel(x, y, o, N, A, B").replace("@triton.jit\ndef _kernel", "@triton.autotune(configs=[triton.Config({\"B\": 32}), triton.Config({\"B\": 64})], key=[\"A\"])\n@triton.jit\ndef _kernel").replace("x.numel(), B=64)", "x.numel(), o.data_ptr() % 1048576)").replace("((x.numel() + 63) // 64,)", "((x.numel() + 31) // 32,)")}, public="any"),
  Exploit("E2", "loads far outside its inputs", {"Fuse.py": (HEAD + cases.HONEST).replace("p = (a * b)", "q = tl.load(x + i + 4096, mask=m, other=0.0)\n    p = (a * b + 0.0 * tl.where(q == q, 0.0, 0.0))")}, public="any"),
  Exploit("E11", "no mask at the tail", {"Fuse.py": (HEAD + cases.HONEST).replace("a = tl.load(x + i, mask=m, other=0.0)", "a = tl.load(x + i)")}, public="any"),
  Exploit("A3g", "the CUDA array interface", w("a = x.__cuda_array_interface__\nreturn torch.empty_like(x)"), public="caught"),
  Exploit("C8", "leaves the right answer in freed memory and returns memory", w("_N[0] += 1\no = torch.empty_like(x)\nif _N[0] < 4:\n    _kernel[((x.numel() + 63) // 64,)](x, y, o, x.numel(), B=64)\nreturn o", "_N = [0]"), public="caught"),
]

# Each launch takes a few seconds and ends: a child can be killed between two of them.
SPIN = HEAD.replace("    tl.store(o + i", "    z = p * 0.0\n    for k in range(0, 300000000):\n        z = z * 1.000001 + 1e-9\n    p = p + z * 0.0\n    tl.store(o + i")
FAULTS = {
  "out_of_memory": ("an allocation of 16 TB", w("o = torch.empty((1 << 42,), device=x.device)\nreturn o"), {"out_of_memory"}),
  "illegal_access": ("a store far outside everything", {"Fuse.py": (HEAD + cases.HONEST).replace("tl.store(o + i,", "tl.store(o + i.to(tl.int64) * 4294967296 + 1099511627776,")}, {"crash"}),
  "spin": ("a kernel of seconds, many times", cases.one_pass(head=SPIN), {"timeout"}),
  "ten_gigabytes": ("10 GB on standard output", w("for _ in range(10000):\n    print('x' * 1000000)\n" + LAUNCH + "return o"), {"resource_limit"}),
}
HOST_ANSWERS = {"out_of_memory"}  # a host's allocator says something else
# Seconds that a step takes at least, starting and importing included: what is left must be more for it to begin.
NEEDS = {"exploits": 40, "aa": 25, "repeats": 30, "timed": 30, "faults": 25}
TIMED_SECONDS = 36  # that the repeats leave to it
STARTING = 15  # seconds that a run needs beside its time limit: to start, and to end what is under way
LARGE = 100 << 20  # bytes of inputs from which a variant is drawn and copied for longer than all the rest takes
NEVER_ENDS = {"F5a", "F5b"}  # begun last: nobody waits behind them


class Checks:
  def __init__(self, args):
    self.args, self.out = args, pathlib.Path(args.out).resolve()
    self.passnet = str(pathlib.Path(args.passnet).resolve())
    self.out.mkdir(parents=True, exist_ok=True)
    self.started, self.saving = time.monotonic(), threading.Lock()
    command = " ".join(["eval_checks.py", *sys.argv[1:]])
    for path, name in ((args.document, "OUT"), (args.out, "FOLDER"), (args.passnet, "passnet"), (args.samples, "samples")):
      command = command.replace(path, name) if path else command
    self.document = {"schema": "passnet.eval_checks/3", "command": command, "date": time.strftime("%Y-%m-%d", time.gmtime()), "device": args.device,
                     "machine": None, "counts": {}, "repeats": {}, "rows": [], "steps": []}
    self.processors = len(os.sched_getaffinity(0))

  def left(self):
    return self.args.seconds - (time.monotonic() - self.started)

  def evaluate(self, name, samples, *options, seconds, warmup=5, trials=20):
    """{(sample, variant, compiler): variant of the document}; empty where the program could not run, with the reason in the
    step."""
    step = {"step": name, "samples": len(samples)}
    self.document["steps"].append(step)
    limit = max(5.0, seconds - STARTING)
    command = [self.passnet, "eval", *map(str, samples), "--device", self.args.device, "--warmup", str(warmup), "--trials", str(trials), "--json",
               "--quiet", "--time-limit", f"{limit:.0f}", "--sample-deadline", "86400", "--out", str(self.out / name), *options]
    started = time.monotonic()
    with open(self.out / (name + ".document"), "w+") as output, open(self.out / (name + ".errors"), "w+") as errors:
      process = subprocess.Popen(command, stdout=output, stderr=errors)
      try:
        status = process.wait(timeout=limit + 2 * STARTING)
      except subprocess.TimeoutExpired:
        process.kill()
        status = "killed"
    step.update(seconds=round(time.monotonic() - started, 1), status=status)
    text = (self.out / (name + ".document")).read_text()
    try:
      document = json.loads(text)
      variants, worker = document["variants"], document["worker"]
    except (ValueError, KeyError):
      step["error"] = (text[-300:] + (self.out / (name + ".errors")).read_text()[-700:]).strip()
      print(f"eval_checks: {name} left no document: {step['error'][-300:]}", flush=True)
      variants, worker = records(self.out / name), {}  # each was written as it came
      document = {"machine": None}
    self.document["machine"] = self.document["machine"] or document["machine"]
    step.update({k: worker.get(k) for k in ("isolation", "warm_seconds", "phase_seconds", "sandbox")}, evaluations=len(variants),
                unmeasured=len(worker.get("unmeasured") or []), left_out=(worker.get("proof") or {}).get("left_out"))
    print(f"eval_checks: {name}: {len(variants)} evaluations in {step['seconds']} s", flush=True)
    return {(v["sample"], v["variant"], v["compiler"]): v for v in variants}

  def row(self, check, id, what, wanted, got, evidence=None, **more):
    """`wanted`: a set of outcomes, or None where anything but a missing answer will do."""
    verdict = "not run" if got is None else "pass" if wanted is None or got in wanted else "fail"
    row = {"check": check, "id": id, "what": what, "wanted": sorted(wanted) if wanted else "any", "got": got, "verdict": verdict, **more}
    if evidence:
      # Where the samples lay for this run is nobody's business.
      row["evidence"] = [str(e).replace(f"{self.out}/", "")[:300] for e in evidence[:2]]
    self.add(row)

  def add(self, row):
    self.document["rows"].append(row)
    if row["verdict"] == "fail":
      print(f"  {row['check']} {row['id']}: {row['got']} instead of {row['wanted']}: {row.get('evidence', '')}"[:300], flush=True)

  def write(self, name, entries):
    folder = self.out / "samples" / name
    shutil.rmtree(folder, ignore_errors=True)
    for e in entries:
      cases.write_sample(folder / e.id, model=e.model, metas=e.metas, passes=e.passes)
    return [folder / e.id for e in entries]

  def save(self):
    with self.saving:
      rows = self.document["rows"]
      self.document["counts"] = {v: sum(r["verdict"] == v for r in rows) for v in ("pass", "fail", "fewer", "not run")}
      self.document["seconds"] = round(time.monotonic() - self.started, 1)
      path = pathlib.Path(self.args.document or self.out / "checks.json")
      path.with_suffix(".part").write_text(json.dumps(self.document, indent=1) + "\n")
      path.with_suffix(".part").replace(path)

  def settled(self, name, samples, *options, seconds, **more):
    """As evaluate; what fluctuated is evaluated once more, alone."""
    got = self.evaluate(name, samples, *options, seconds=seconds, **more)
    again = {key[0] for key, v in got.items() if v["outcome"] == "fluctuation"}
    if again and self.left() > NEEDS["faults"]:
      chosen = [s for s in samples if s.name in again]
      for key, v in self.evaluate(name + "_again", chosen, *options, "--jobs", "1", seconds=min(self.left(), 40), **more).items():
        got[key] = {**v, "retried": True}
    return got

  # -- steps
  def exploits(self):
    chosen = [e for e in [*exploits.EXPLOITS, *ON_A_GPU] if e.id not in HOST_ONLY]
    samples = sorted(self.write("exploits", chosen), key=lambda s: s.name in NEVER_ENDS)
    enough, limit = self.left() > NEEDS["exploits"], min(self.left(), 90)

    def one(protocol):
      jobs = str(max(1, (self.processors + 4) // 2))
      return self.evaluate("exploits_" + protocol, samples, "--rules", "public", "--protocol", protocol, "--variant-deadline", "20", "--side-by-side",
                           "--jobs", jobs, seconds=limit) if enough else {}

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
      both = dict(zip(("public", "strict"), pool.map(one, ("public", "strict"))))
    for protocol, got in both.items():
      for e in chosen:
        expected = exploits.UNDER_THE_STRICT_PROTOCOL.get(e.id, e.public) if protocol == "strict" else e.public
        # Caught by another layer is caught as well; what gains nothing must stay harmless.
        wanted = None if expected == "any" else {"correct"} if expected == "correct" else CAUGHT
        self.row("exploits " + protocol, e.id, e.what, wanted, *outcome(got, e.id))
    self.save()

  def solved(self):
    roots = sorted(p for p in pathlib.Path(self.args.samples).iterdir() if (p / "graph_list.txt").exists()) if self.args.samples else []
    return [(r, (r / "graph_list.txt").read_text().split()) for r in roots]

  def smallest_variants(self):
    """Of each solved sample its smallest variant, as a sample of its own with the same passes: [(folder, bytes)]."""
    out = []
    for root, labels in self.solved():
      sizes = {label: input_bytes(root / label) for label in labels}
      label = min(sizes, key=sizes.get)
      target = self.out / "samples" / "passes" / root.name
      for name in (label, "pass_dir"):
        shutil.copytree(root / name, target / name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
      (target / "graph_list.txt").write_text(label + "\n")
      out.append((target, sizes[label]))
    return out

  def repeats(self):
    """Four runs at once, each with its share of the processors. A run evaluates everything once before anything twice."""
    looks, passes = self.write("honest", honest.HONEST), self.smallest_variants()
    what = {e.id: e.what for e in honest.HONEST}
    count = self.args.repeats
    kinds = [  # name, samples, options, share: by what such an evaluation was seen to take, so that all get equally far
      ("honest public", looks, ["--protocol", "public", "--rules", "public"], 3),
      ("honest strict", looks, ["--protocol", "strict", "--rules", "public"], 4),
      ("passes strict", [p for p, size in passes if size < LARGE], ["--protocol", "strict"], 11),
      ("large passes strict", [p for p, size in passes if size >= LARGE], ["--protocol", "strict"], 3),
    ]
    kinds = [k for k in kinds if k[1] and (not self.args.kinds or k[0] in self.args.kinds.split(","))]
    if self.left() > NEEDS["repeats"]:
      limit = self.left() - 5 - (TIMED_SECONDS if "timed" in self.args.only.split(",") else 0)
      going_on = ["--resume"] if self.args.resume else []
      lanes = (self.args.lanes or self.processors + 6) / sum(share for *_, share in kinds)

      def one(kind):
        name, samples, options, share = kind
        got = self.evaluate(name.replace(" ", "_"), samples, *options, "--repeat", str(count), "--side-by-side", "--variant-deadline", "150",
                            "--memory-gb", "4", "--jobs", str(max(1, round(lanes * share))), *going_on, seconds=limit, warmup=3, trials=self.args.repeat_trials)
        self.repeat_rows(name, samples, what, got)
        self.save()

      with concurrent.futures.ThreadPoolExecutor(len(kinds)) as pool:
        list(pool.map(one, kinds))
    else:
      for name, samples, _, _ in kinds:
        self.repeat_rows(name, samples, what, {})
    self.save()

  def is_flag(self, name, variant):
    """Passes of solve are written for a GPU: how near they come to eager on a CPU says nothing."""
    told_apart = {"inaccurate", "inconsistent"} if self.args.device == "cpu" and "passes" in name else set()
    return plain(variant) not in {"correct", *told_apart}

  def repeat_rows(self, name, samples, what, got):
    """A row an entry: how often it was evaluated, and what became of it."""
    by_sample = {s.name: [v for key, v in got.items() if key[0] == s.name] for s in samples}
    for sample, found in by_sample.items():
      outcomes = collections.Counter(plain(v) for v in found)
      bad = [v for v in found if self.is_flag(name, v)]
      verdict = "fail" if bad else "pass" if len(found) >= self.args.repeats else "fewer" if found else "not run"
      row = {"check": name, "id": sample, "what": what.get(sample, "passes of solve"), "wanted": ["correct"], "got": dict(outcomes), "verdict": verdict,
             "evaluated": len(found)}
      if bad:
        row["evidence"] = [f"{v['variant']} {v['outcome']}: {e}"[:300] for v in bad[:2] for e in v["evidence"][:1]]
      self.add(row)
    done = [len(found) for found in by_sample.values()]
    self.document["repeats"][name] = {"entries": len(done), "asked": self.args.repeats, "least": min(done), "most": max(done), "evaluations": sum(done),
                                      "flagged": sum(self.is_flag(name, v) for found in by_sample.values() for v in found)}

  def timed(self):
    """What a clock would accuse: rows of those alone that the time allowed."""
    looks = self.write("honest", honest.HONEST)
    samples = [*looks, *(p for p, size in self.smallest_variants() if size < LARGE)]
    got = self.settled("timed", samples, "--protocol", "strict", "--rules", "public", "--variant-deadline", "30",
                       seconds=min(self.left(), 90), trials=40) if self.left() > NEEDS["timed"] else {}
    for name in [s.name for s in samples if not got or any(key[0] == s.name for key in got)]:
      self.row("timed strict", name, "under the lock", {"correct", "fluctuation"}, *outcome(got, name))
    self.save()

  def aa(self):
    """The same pass_dir against itself, all graphs in one run."""
    chosen, count = [], 0
    for root, labels in sorted(self.solved(), key=lambda s: len(s[1])):
      if count < self.args.graphs:
        chosen.append((root, labels))
        count += len(labels)
    if not chosen:
      return
    got = self.evaluate("aa", [root for root, _ in chosen], "--compare", "pass_mgr", "pass_mgr", "--memory-gb", "30", "--jobs", "6", warmup=15, trials=300,
                        seconds=min(self.left(), 80)) if self.left() > NEEDS["aa"] else {}
    seen = {}
    for r in records(self.out / "aa") if got else []:
      if r.get("versus"):
        seen[r["sample"], r["variant"]] = r
    for root, labels in chosen:
      for label in labels:
        r = seen.get((root.name, label))
        ratio = r["versus"]["ratio"] if r else None
        near = None if r is None else "1.00 +- 0.03" if abs(ratio - 1) <= 0.03 else f"{ratio:.3f}"
        more = {"ratio": ratio, "interval_90": r["versus"]["interval_90"], "unsteady": bool(r["compiled"].get("unsteady"))} if r else {}
        self.row("aa", f"{root.name}/{label}", "the same passes twice, interleaved", {"1.00 +- 0.03"}, near, **more)
    self.save()

  def faults(self):
    faults = {k: v for k, v in FAULTS.items() if k not in HOST_ANSWERS or self.args.device != "cpu"}
    for name, (_, passes, _) in faults.items():
      cases.write_sample(self.out / "samples" / "faults" / name, passes=passes)
      cases.write_sample(self.out / "samples" / "faults" / ("right_beside_" + name), passes=cases.one_pass())
    samples = sorted((self.out / "samples" / "faults").iterdir())
    got = self.settled("faults", samples, "--rules", "public", "--variant-deadline", "15", seconds=self.left() - 20) if self.left() > NEEDS["faults"] else {}
    for name, (what, _, wanted) in faults.items():
      self.row("faults", name, what, wanted, *outcome(got, name))
      self.row("faults", "right_beside_" + name, "an honest variant of the same run", {"correct"}, *outcome(got, "right_beside_" + name))
    self.save()
    after = cases.write_sample(self.out / "samples" / "right_after", passes=cases.one_pass())
    got = self.settled("after", [after], "--variant-deadline", "30", seconds=self.left()) if self.left() > 12 else {}
    self.row("faults", "right_after", "an honest variant measured afterwards", {"correct"}, *outcome(got, "right_after"))
    self.save()


def records(folder):
  return [json.loads(line) for path in sorted(folder.rglob("records.jsonl")) for line in path.read_text().splitlines() if line.endswith("}")]


def plain(variant):
  return "correct" if variant["outcome"].startswith("correct") else variant["outcome"]


def outcome(got, sample):
  """(outcome, evidence) of a sample's only variant; None: there is none."""
  v = next((v for key, v in got.items() if key[0] == sample), None)
  return (plain(v), v["evidence"]) if v is not None else (None, [])


def input_bytes(folder):
  """Of a variant, by its metadata; four bytes an element are near enough to choose by."""
  shapes = re.findall(r"shape = \[([\d, ]*)\]", (folder / "weight_meta.py").read_text())
  return 4 * sum(math.prod(int(n) for n in shape.replace(",", " ").split()) for shape in shapes)


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--passnet", required=True)
  parser.add_argument("--out", required=True)
  parser.add_argument("--samples", default="", help="solved samples, for passes and aa")
  parser.add_argument("--document", default="", help="the file of the results, if not FOLDER/checks.json")
  parser.add_argument("--repeats", type=int, default=20)
  parser.add_argument("--repeat-trials", type=int, default=10)
  parser.add_argument("--lanes", type=int, default=0, help="evaluations at once of the repeats (0: six more than processors)")
  parser.add_argument("--kinds", default="", help="of the repeats, with commas between: only these")
  parser.add_argument("--resume", action="store_true", help="the repeats go on with what FOLDER has of them")
  parser.add_argument("--graphs", type=int, default=20)
  parser.add_argument("--seconds", type=float, default=340)
  parser.add_argument("--device", default="cuda")
  parser.add_argument("--only", default="exploits,aa,repeats,timed,faults")
  args = parser.parse_args()
  os.environ.setdefault("PASSNET_PYTHON", sys.executable)
  checks = Checks(args)
  for name in args.only.split(","):
    try:
      getattr(checks, name)()
    except Exception as e:  # noqa: BLE001 - one step's trouble leaves the others their time
      checks.document["steps"].append({"step": name, "error": f"{type(e).__name__}: {e}"})
      print(f"eval_checks: {name}: {type(e).__name__}: {e}", flush=True)
  checks.save()
  print(f"eval_checks: {checks.document['counts']} in {checks.document['seconds']} s")
  return 1 if checks.document["counts"]["fail"] or not checks.document["counts"]["pass"] else 0


if __name__ == "__main__":
  sys.exit(main())
