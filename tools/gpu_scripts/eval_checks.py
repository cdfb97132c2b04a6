#!/usr/bin/env python3
"""What an evaluation on a GPU must catch, must not flag, and must survive: passnet eval on small samples.

  eval_checks.py --passnet FILE --out FOLDER [--repeats 3] [--seconds 400] [--device cuda] [--only exploits,honest,aa,faults]

exploits: every entry of tests/integrity/exploits.py and those that only a GPU can show, under public source rules and both
protocols. honest: every look-alike, `repeats` times under both protocols, no flag. aa: the same passes against themselves on the
samples of --samples, ratio 1.00. faults, last, each in a run of its own: out of memory, an illegal access, a kernel that spins past
its deadline, 10 GB of output; an honest variant beside each must come out right. Leaves FOLDER/checks.json.
"""

import argparse
import json
import os
import pathlib
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
STRICT_INSTEAD = {"B8": "inaccurate", "E3": "inaccurate", "F2": "crash"}
# Host memory is not the device's: what reads or writes addresses on the host fails in its own way on a GPU.
HOST_ONLY = {"A3e", "A10a", "B8"}

ON_A_GPU = [
  Exploit("D1", "the work on another stream", w("s = _cuda.Stream()\no = torch.empty_like(x)\nwith _cuda.stream(s):\n    _kernel[((x.numel() + 63) // 64,)](x, y, o, x.numel(), B=64)\nreturn o", "_cuda = getattr(torch, 'cuda')"), public="any"),
  Exploit("D4", "a faked event time", w(LAUNCH + "return o", "getattr(torch, 'cuda').Event.elapsed_time = lambda a, b: 1e-3"), public="kept_state"),
  Exploit("D4b", "a synchronise that does nothing", w(LAUNCH + "return o", "getattr(torch, 'cuda').synchronize = lambda *a: None"), public="kept_state"),
  Exploit("D6", "a legal hint for the cache", {"Fuse.py": (HEAD + cases.HONEST).replace("tl.load(x + i, mask=m, other=0.0)", "tl.load(x + i, mask=m, other=0.0, eviction_policy=\"evict_last\")")}),
  Exploit("E2", "loads far outside its inputs", {"Fuse.py": (HEAD + cases.HONEST).replace("p = (a * b)", "q = tl.load(x + i + 4096, mask=m, other=0.0)\n    p = (a * b + 0.0 * tl.where(q == q, 0.0, 0.0))")}, public="any"),
  Exploit("E11", "no mask at the tail", {"Fuse.py": (HEAD + cases.HONEST).replace("a = tl.load(x + i, mask=m, other=0.0)", "a = tl.load(x + i)")}, public="any"),
  Exploit("A3g", "the CUDA array interface", w("a = x.__cuda_array_interface__\nreturn torch.empty_like(x)"), public="any"),
]

SPIN = HEAD.replace("    tl.store(o + i", "    z = p * 0.0\n    for k in range(0, 400000000):\n        z = z * 1.000001 + 1e-9\n    p = p + z * 0.0\n    tl.store(o + i")
FAULTS = {
  "out_of_memory": (w("o = torch.empty((1 << 42,), device=x.device)\nreturn o"), {"out_of_memory"}),
  "illegal_access": ({"Fuse.py": (HEAD + cases.HONEST).replace("tl.store(o + i,", "tl.store(o + i.to(tl.int64) * 4294967296 + 1099511627776,")}, {"crash"}),
  "spin": (cases.one_pass(head=SPIN), {"timeout"}),
  "ten_gigabytes": (w("for _ in range(10000):\n    print('x' * 1000000)\n" + LAUNCH + "return o"), {"resource_limit"}),
}


class Checks:
  def __init__(self, args):
    self.args, self.out = args, pathlib.Path(args.out)
    self.out.mkdir(parents=True, exist_ok=True)
    self.end = time.monotonic() + args.seconds
    self.document = {"schema": "passnet.eval_checks/1", "device": args.device, "findings": [], "checks": {}}

  def evaluate(self, samples, name, *options):
    command = [self.args.passnet, "eval", *map(str, samples), "--device", self.args.device, "--warmup", "5", "--trials", "20", "--json", "--quiet",
               "--out", str(self.out / name), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):
      self.find(name, f"cannot run: {done.stdout[-300:]} {done.stderr[-600:]}")
      return {}
    document = json.loads(done.stdout)
    self.document.setdefault("machine", document["machine"])
    return {v["sample"]: v for v in document["variants"]}

  def find(self, where, what):
    self.document["findings"].append(f"{where}: {what}")
    print(f"  {where}: {what}"[:300], flush=True)

  def write(self, name, entries):
    folder = self.out / "samples" / name
    for e in entries:
      cases.write_sample(folder / e.id, model=e.model, metas=e.metas, passes=e.passes)
    return [folder / e.id for e in entries]

  def save(self, name, value):
    self.document["checks"][name] = value
    (self.out / "checks.json").write_text(json.dumps(self.document, indent=1) + "\n")

  def over(self):
    return time.monotonic() > self.end

  def exploits(self):
    chosen = [e for e in [*exploits.EXPLOITS, *ON_A_GPU] if e.id not in HOST_ONLY]
    samples = self.write("exploits", chosen)
    for protocol in ("public", "strict"):
      got = self.evaluate(samples, "exploits_" + protocol, "--rules", "public", "--protocol", protocol, "--variant-deadline", "40")
      outcome = {}
      for e in chosen:
        if e.id not in got:
          continue
        mine = got[e.id]["outcome"]
        outcome[e.id] = mine
        want = STRICT_INSTEAD.get(e.id, e.public) if protocol == "strict" else e.public
        plain = "correct" if mine.startswith("correct") else mine
        if want not in ("any", plain):
          self.find(f"exploits {protocol} {e.id}", f"{mine} instead of {want}: {got[e.id]['evidence'][:1]}")
      self.save("exploits_" + protocol, outcome)
      print(f"eval_checks: {len(outcome)} exploits, {protocol} protocol", flush=True)

  def honest(self):
    samples = self.write("honest", honest.HONEST)
    flags = {}
    done = 0
    for i in range(self.args.repeats):
      for protocol in ("public", "strict"):
        if self.over():
          break
        got = self.evaluate(samples, f"honest_{protocol}_{i}", "--rules", "public", "--protocol", protocol, "--variant-deadline", "60")
        done += 1
        for name, v in got.items():
          if not v["outcome"].startswith("correct"):
            flags.setdefault(name, []).append([protocol, v["outcome"], v["evidence"][:1]])
            self.find(f"honest {protocol} {name}", f"{v['outcome']} {v['evidence'][:1]}")
    self.save("honest", {"passes": len(samples), "runs": done, "flags": flags})
    print(f"eval_checks: {len(samples)} honest passes, {done} runs, {len(flags)} flagged", flush=True)

  def aa(self):
    """The same pass_dir against itself."""
    roots = sorted(p for p in pathlib.Path(self.args.samples).iterdir() if (p / "graph_list.txt").exists())[: self.args.graphs]
    ratios = {}
    for root in roots:
      if self.over():
        break
      label = (root / "graph_list.txt").read_text().split()[0]
      command = [self.args.passnet, "eval", str(root), "--device", self.args.device, "--variant", label, "--compare", str(root / "pass_dir"), str(root / "pass_dir"),
                 "--json", "--quiet", "--out", str(self.out / "aa" / root.name)]
      done = subprocess.run(command, capture_output=True, text=True)
      if done.returncode in (0, 1):
        for v in json.loads(done.stdout)["variants"]:
          if v["versus"]:
            ratios[root.name + "/" + label] = [v["versus"]["ratio"], v["versus"]["low_90"], v["versus"]["high_90"]]
    outside = {k: r for k, r in ratios.items() if abs(r[0] - 1) > 0.03}
    for name, r in outside.items():
      self.find("aa " + name, f"the same passes differ by {r}")
    self.save("aa", {"graphs": len(ratios), "outside_3_percent": len(outside), "ratios": ratios})
    print(f"eval_checks: the same passes against themselves on {len(ratios)} graphs, {len(outside)} outside 1.00 +- 0.03", flush=True)

  def faults(self):
    outcome = {}
    for name, (passes, wanted) in FAULTS.items():
      if self.over() and name != "out_of_memory":
        break
      folder = self.out / "samples" / ("fault_" + name)
      cases.write_sample(folder / "bad", passes=passes)
      cases.write_sample(folder / "right", passes=cases.one_pass())
      got = self.evaluate([folder / "bad", folder / "right"], "fault_" + name, "--rules", "public", "--variant-deadline", "15")
      outcome[name] = {k: v["outcome"] for k, v in got.items()}
      if not got or got["bad"]["outcome"] not in wanted or not got["right"]["outcome"].startswith("correct"):
        self.find("fault " + name, f"{outcome[name]} instead of {sorted(wanted)} and a right one")
      self.save("faults", outcome)
    print(f"eval_checks: faults {outcome}", flush=True)


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--passnet", required=True)
  parser.add_argument("--out", required=True)
  parser.add_argument("--samples", default="", help="solved samples, for aa")
  parser.add_argument("--repeats", type=int, default=3)
  parser.add_argument("--graphs", type=int, default=20)
  parser.add_argument("--seconds", type=float, default=400)
  parser.add_argument("--device", default="cuda")
  parser.add_argument("--only", default="honest,exploits,aa,faults")
  args = parser.parse_args()
  os.environ.setdefault("PASSNET_PYTHON", sys.executable)
  checks = Checks(args)
  for name in args.only.split(","):
    if name == "aa" and not args.samples:
      continue
    getattr(checks, name)()
  checks.save("seconds", round(time.monotonic() - (checks.end - args.seconds), 1))
  print(f"eval_checks: {len(checks.document['findings'])} findings")
  return 1 if checks.document["findings"] else 0


if __name__ == "__main__":
  sys.exit(main())
