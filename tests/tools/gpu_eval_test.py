"""tools/gpu_eval pair and the repeats of eval_checks, with a stand-in for the program that answers at once or is cut off."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
STAND_IN = '''#!{python}
import json, pathlib, sys, time
args = sys.argv[1:]
value = lambda name, default=None: args[args.index(name) + 1] if name in args else default
samples = []
for a in args[1:]:
  if a.startswith("--"):
    break
  samples.append(pathlib.Path(a))
out, fresh = pathlib.Path(value("--out")), "spawn" in args
variants, made = [], 0
for i in range(int(value("--repeat", "1"))):
  for s in samples:
    for label in (s / "graph_list.txt").read_text().split():
      if (fresh or i) and made >= {most}:
        continue
      made += 1
      time.sleep(0.1 if fresh else 0.02)
      print(f"[{{made}}/9] {{s.name}}: correct", file=sys.stderr, flush=True)
      record = {{"sample": s.name, "variant": label + (f"#{{i + 1}}" if i else ""), "compiler": "pass_mgr", "speedup_e2e": 1.0,
                "outcome": "kept_state" if "flagged" in s.name and i == 1 else "correct", "evidence": ["said why"],
                "compiled": {{"e2e": {{"median": 1.1 if fresh and made == 1 else 1.0}}}}, "eager": {{}}}}
      (out / s.name).mkdir(parents=True, exist_ok=True)
      with open(out / s.name / "records.jsonl", "a") as f:
        f.write(json.dumps(record) + "\\n")
      variants.append(record)
print("killed before it was whole" if "cut" in str(out) else json.dumps({{"variants": variants, "machine": {{"gpu": None}}, "worker": {{}}}}))
'''


class WithStandIn(unittest.TestCase):
  def setUp(self):
    self.folder = tempfile.TemporaryDirectory()
    self.root = pathlib.Path(self.folder.name)
    for name in ("a", "b", "c_flagged"):
      for part in ("float32/0", "pass_dir"):
        (self.root / "samples" / name / part).mkdir(parents=True)
      (self.root / "samples" / name / "graph_list.txt").write_text("float32/0\n")
      (self.root / "samples" / name / "float32/0/weight_meta.py").write_text("shape = [4, 8]\n")

  def tearDown(self):
    self.folder.cleanup()

  def program(self, most):
    path = self.root / "passnet"
    path.write_text(STAND_IN.format(python=sys.executable, most=most))
    path.chmod(0o755)
    return path

  def run_tool(self, *command):
    return subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, timeout=60)

  def pair(self, most):
    done = self.run_tool(ROOT / "tools" / "gpu_eval", "pair", "--out", self.root / "out", "--samples", self.root / "samples", "--passnet", self.program(most), "--seconds", 30)
    self.assertEqual(done.returncode, 0, done.stderr)
    return json.loads((self.root / "out" / "pair.json").read_text())

  def test_a_whole_pair(self):
    got = self.pair(9)
    self.assertTrue(got["of_all_variants"])
    self.assertGreater(got["throughput_ratio"], 1)
    self.assertEqual(got["compared"]["compiled.e2e"], 3)
    self.assertEqual(got["within_5_percent"]["compiled.e2e"], round(2 / 3, 4))

  def test_fresh_ones_that_were_cut_off(self):
    got = self.pair(2)
    self.assertFalse(got["of_all_variants"])
    self.assertEqual((got["runs"]["fork"]["records"], got["runs"]["fresh"]["records"], got["compared"]["compiled.e2e"]), (3, 2, 2))
    self.assertGreater(got["throughput_ratio"], 1)

  def checks(self, out, most):
    done = self.run_tool(ROOT / "tools" / "gpu_scripts" / "eval_checks.py", "--passnet", self.program(most), "--samples", self.root / "samples",
                         "--only", "repeats", "--repeats", 3, "--device", "cpu", "--out", self.root / out)
    return done.returncode, json.loads((self.root / out / "checks.json").read_text())

  def test_one_flag_in_the_repeats_is_a_failure(self):
    for out in ("out", "cut"):  # the document, or the records that a killed run left
      status, got = self.checks(out, 999)
      passes = {r["id"]: r for r in got["rows"] if r["check"] == "passes strict"}
      self.assertEqual({k: (r["verdict"], r["evaluated"]) for k, r in passes.items()}, {"a": ("pass", 3), "b": ("pass", 3), "c_flagged": ("fail", 3)})
      self.assertEqual((status, passes["c_flagged"]["got"]["kept_state"], got["repeats"]["passes strict"]["flagged"]), (1, 1, 1))

  def test_what_was_not_repeated_often_enough_is_said(self):
    _, got = self.checks("out", 0)
    self.assertEqual({r["verdict"] for r in got["rows"]}, {"fewer"})
    self.assertEqual({k: (v["least"], v["asked"]) for k, v in got["repeats"].items()}["honest strict"], (1, 3))


if __name__ == "__main__":
  unittest.main()
