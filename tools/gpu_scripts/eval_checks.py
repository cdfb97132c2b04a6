#!/usr/bin/env python3
"""What an evaluation on a GPU must catch, must not flag, and must survive: passnet eval on small samples, a verdict a row.

  eval_checks.py --passnet FILE --out FOLDER [--samples FOLDER] [--seconds 340] [--device cuda] [--only honest,exploits,...]

honest     every look-alike under both protocols, as often as --repeats and the time allow: no flag
exploits   every entry of tests/integrity/exploits.py and those that only a GPU can show, public source rules, both protocols
passes     one variant of each solved sample of --samples, strict protocol: no flag, and right
aa         the same passes against themselves on about --graphs variants of --samples, in one run: 1.00 +- 0.03
faults     last, in a run of its own: out of memory, an illegal access, a kernel that spins past its deadline, 10 GB of output;
           an honest variant beside each comes out right, and so does one that is measured after them

FOLDER/checks.json is written after every step: {"rows": [{"check", "id", "what", "wanted", "got", "verdict"}], "steps"}. A verdict is
pass, fail, or not run. A step that does not fit into the time that is left is not begun, and its rows say so.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
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
# Seconds that a step takes at most, starting and importing included: what is left must be more for it to begin.
NEEDS = {"honest": 40, "exploits": 70, "passes": 60, "aa": 45, "faults": 60}
FAULT_SECONDS = 90  # kept for the faults, which come last


class Checks:
  def __init__(self, args):
    self.args, self.out = args, pathlib.Path(args.out)
    self.out.mkdir(parents=True, exist_ok=True)
    self.started = time.monotonic()
    self.document = {"schema": "passnet.eval_checks/2", "device": args.device, "machine": None, "counts": {}, "rows": [], "steps": []}

  def left(self, last=False):
    return self.args.seconds - (time.monotonic() - self.started) - (0 if last else FAULT_SECONDS)

  def evaluate(self, name, samples, *options, seconds, trials=20):
    """{(sample, compiler): variant of the document}; empty where the program could not run, with the reason in the step."""
    step = {"step": name, "samples": len(samples)}
    self.document["steps"].append(step)
    command = [self.args.passnet, "eval", *map(str, samples), "--device", self.args.device, "--warmup", "5", "--trials", str(trials), "--json",
               "--quiet", "--time-limit", f"{max(5.0, seconds):.0f}", "--out", str(self.out / name), *options]
    started = time.monotonic()
    try:
      done = subprocess.run(command, capture_output=True, text=True, timeout=max(30.0, seconds + 30))
      status, text, errors = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as e:
      status, text, errors = "killed", "", str(e.stderr or "")
    step.update(seconds=round(time.monotonic() - started, 1), status=status)
    try:
      document = json.loads(text) if status in (0, 1) else None
    except ValueError:
      document = None
    if document is None:
      step["error"] = (text[-300:] + errors[-700:]).strip()
      print(f"eval_checks: {name} could not run: {step['error'][-300:]}", flush=True)
      return {}
    self.document["machine"] = self.document["machine"] or document["machine"]
    step.update({k: document["worker"].get(k) for k in ("isolation", "warm_seconds", "phase_seconds")}, unmeasured=len(document["worker"].get("unmeasured") or []))
    return {(v["sample"], v["compiler"]): v for v in document["variants"]}

  def row(self, check, id, what, wanted, got, evidence=None):
    """`wanted`: a set of outcomes, or None where anything but a missing answer will do."""
    verdict = "not run" if got is None else "pass" if wanted is None or got in wanted else "fail"
    row = {"check": check, "id": id, "what": what, "wanted": sorted(wanted) if wanted else "any", "got": got, "verdict": verdict}
    if evidence:
      row["evidence"] = [str(e)[:300] for e in evidence[:2]]
    self.document["rows"].append(row)
    if verdict == "fail":
      print(f"  {check} {id}: {got} instead of {row['wanted']}: {row.get('evidence', '')}"[:300], flush=True)

  def outcome(self, got, sample, compiler="pass_mgr"):
    v = got.get((sample, compiler))
    if v is None:
      return None, []
    return "correct" if v["outcome"].startswith("correct") else v["outcome"], v["evidence"]

  def write(self, name, entries):
    folder = self.out / "samples" / name
    for e in entries:
      cases.write_sample(folder / e.id, model=e.model, metas=e.metas, passes=e.passes)
    return [folder / e.id for e in entries]

  def save(self):
    rows = self.document["rows"]
    self.document["counts"] = {v: sum(r["verdict"] == v for r in rows) for v in ("pass", "fail", "not run")}
    self.document["seconds"] = round(time.monotonic() - self.started, 1)
    (self.out / "checks.json").write_text(json.dumps(self.document, indent=1) + "\n")

  # -- steps
  def exploits(self):
    chosen = [e for e in [*exploits.EXPLOITS, *ON_A_GPU] if e.id not in HOST_ONLY]
    samples = self.write("exploits", chosen)
    for protocol in ("public", "strict"):
      got = self.evaluate("exploits_" + protocol, samples, "--rules", "public", "--protocol", protocol, "--variant-deadline", "25",
                          seconds=min(self.left(), 90)) if self.left() > NEEDS["exploits"] else {}
      for e in chosen:
        expected = exploits.UNDER_THE_STRICT_PROTOCOL.get(e.id, e.public) if protocol == "strict" else e.public
        # Caught by another layer is caught as well; what gains nothing must stay harmless.
        wanted = None if expected == "any" else {"correct"} if expected == "correct" else CAUGHT
        self.row("exploits " + protocol, e.id, e.what, wanted, *self.outcome(got, e.id))
      self.save()

  def honest(self):
    samples = self.write("honest", honest.HONEST)
    for i in range(self.args.repeats):
      for protocol in ("public", "strict"):
        if i and self.left() < NEEDS["honest"] + 150:  # the other steps come first
          return
        got = self.evaluate(f"honest_{protocol}_{i}", samples, "--rules", "public", "--protocol", protocol, "--variant-deadline", "60",
                            seconds=min(self.left(), 60)) if self.left() > NEEDS["honest"] else {}
        for e in honest.HONEST:
          self.row(f"honest {protocol}", f"{e.id}/{i}", e.what, {"correct"}, *self.outcome(got, e.id))
        self.save()

  def solved(self):
    roots = sorted(p for p in pathlib.Path(self.args.samples).iterdir() if (p / "graph_list.txt").exists()) if self.args.samples else []
    return [(r, (r / "graph_list.txt").read_text().split()) for r in roots]

  def passes(self):
    """One variant of each solved sample. The strict protocol only: it looks at everything that the public one does."""
    solved = [(root, labels[0]) for root, labels in self.solved() if labels]
    if not solved:
      return
    folder = self.out / "samples" / "passes"
    for root, label in solved:  # the same passes and one variant, as a sample of its own
      target = folder / root.name
      for name in (label, "pass_dir"):
        shutil.copytree(root / name, target / name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
      (target / "graph_list.txt").write_text(label + "\n")
    got = self.evaluate("passes", [folder], "--protocol", "strict", "--variant-deadline", "60", "--memory-gb", "30",
                        seconds=min(self.left(), 80)) if self.left() > NEEDS["passes"] else {}
    for root, label in solved:
      outcome, evidence = self.outcome(got, root.name)
      # Times may vary here, where nobody waits for quiet; everything else would be a flag.
      self.row("passes", root.name, label, {"correct", "fluctuation"}, outcome, evidence)
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
    got = self.evaluate("aa", [root for root, _ in chosen], "--compare", "pass_mgr", "pass_mgr", "--memory-gb", "30", trials=100,
                        seconds=min(self.left(), 80)) if self.left() > NEEDS["aa"] else {}
    seen = {}
    records = self.out / "aa"
    for path in sorted(records.rglob("records.jsonl")) if got else []:
      for line in path.read_text().splitlines():
        r = json.loads(line)
        if r.get("versus"):
          seen[r["sample"], r["variant"]] = r
    for root, labels in chosen:
      for label in labels:
        r = seen.get((root.name, label))
        ratio = r["versus"]["ratio"] if r else None
        near = None if r is None else "1.00 +- 0.03" if abs(ratio - 1) <= 0.03 else f"{ratio:.3f}"
        self.row("aa", f"{root.name}/{label}", "the same passes twice, interleaved", {"1.00 +- 0.03"}, near,
                 [f"{ratio} {r['versus']['interval_90']} unsteady: {r['compiled'].get('unsteady')}"] if r else None)
    self.save()

  def faults(self):
    for name, (_, passes, _) in FAULTS.items():
      cases.write_sample(self.out / "samples" / "faults" / name, passes=passes)
      cases.write_sample(self.out / "samples" / "faults" / ("right_beside_" + name), passes=cases.one_pass())
    folder = self.out / "samples" / "faults"
    got = self.evaluate("faults", [folder], "--rules", "public", "--variant-deadline", "15", seconds=max(20.0, self.left(True) - 25)) if self.left(True) > 30 else {}
    for name, (what, _, wanted) in FAULTS.items():
      self.row("faults", name, what, wanted, *self.outcome(got, name))
      self.row("faults", "right_beside_" + name, "an honest variant of the same run", {"correct"}, *self.outcome(got, "right_beside_" + name))
    self.save()
    after = cases.write_sample(self.out / "samples" / "right_after", passes=cases.one_pass())
    got = self.evaluate("after", [after], "--variant-deadline", "30", seconds=max(15.0, self.left(True))) if self.left(True) > 12 else {}
    self.row("faults", "right_after", "an honest variant measured afterwards", {"correct"}, *self.outcome(got, "right_after"))
    self.save()


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--passnet", required=True)
  parser.add_argument("--out", required=True)
  parser.add_argument("--samples", default="", help="solved samples, for passes and aa")
  parser.add_argument("--repeats", type=int, default=3)
  parser.add_argument("--graphs", type=int, default=20)
  parser.add_argument("--seconds", type=float, default=340)
  parser.add_argument("--device", default="cuda")
  parser.add_argument("--only", default="exploits,passes,honest,aa,faults")
  args = parser.parse_args()
  args.passnet, args.out = str(pathlib.Path(args.passnet).resolve()), str(pathlib.Path(args.out).resolve())
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
