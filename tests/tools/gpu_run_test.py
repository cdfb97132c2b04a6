"""Documents of tools/gpu_run: merging of stages and shards, and the score, whose values are those of the public aggregator."""

import importlib.machinery
import importlib.util
import pathlib
import unittest

PATH = pathlib.Path(__file__).resolve().parents[2] / "tools" / "gpu_run"


def loaded():
  loader = importlib.machinery.SourceFileLoader("gpu_run", str(PATH))
  module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_run", loader))
  loader.exec_module(module)
  return module


gpu_run = loaded()
MACHINE = {"gpu": "NVIDIA H200", "torch": "2.11.0"}


def entry(status="correct", t=-10, **facts):
  return {"status": status, "first_correct_t": t, "violations": [], **facts}


def passes(variants, left_out=()):
  return {"schema": "passnet.passes/1", "machine": MACHINE, "variants": variants, "left_out": list(left_out)}


def row(speedup, t, status="correct"):
  return {"speedup": speedup, "first_correct_t": t, "status": status}


class Score(unittest.TestCase):
  def test_values_of_the_public_aggregator(self):
    self.assertAlmostEqual(gpu_run.score([row(1.3, -10)]), 1.3, 4)
    self.assertAlmostEqual(gpu_run.score([row(1.0, -5)]), 0.99807, 4)
    self.assertAlmostEqual(gpu_run.score([row(1.0, -4)]), 0.678, 3)
    self.assertAlmostEqual(gpu_run.score([row(1.0, -3)]), 0.461, 3)
    self.assertAlmostEqual(gpu_run.score([row(1.0, 0)]), 0.179, 3)
    self.assertAlmostEqual(gpu_run.score([row(2.0, None, "wrong")]), 0.1472, 3)
    self.assertAlmostEqual(gpu_run.score([row(None, None, "crash")]), 0.1, 4)

  def test_is_a_geometric_mean(self):
    self.assertAlmostEqual(gpu_run.score([row(2.0, -10), row(0.5, -10)]), 1.0, 4)
    self.assertIsNone(gpu_run.score([]))


class Merge(unittest.TestCase):
  def find(self, document, compiler, variant="float32/v0"):
    return [r for r in document["variants"] if r["compiler"] == compiler and r["variant"] == variant]

  def test_times_win_over_a_later_check_without(self):
    timed = entry(eager_us=100.0, passnet_us=80.0, passnet_gpu_us=7.0, bytes=64)
    document = gpu_run.merge([passes({"s/float32/v0": timed}), passes({"s/float32/v0": entry()})], "x")
    (found,) = self.find(document, "passnet")
    self.assertEqual((found["e2e_us"], found["gpu_us"], found["speedup"], found["dtype"], found["bytes"]), (80.0, 7.0, 1.25, "float32", 64))

  def test_left_out_is_a_row_and_no_variant_of_the_summary(self):
    document = gpu_run.merge([passes({"s/float32/v0": entry()}, ["s/float16/v0"])], "x")
    (found,) = self.find(document, "passnet", "float16/v0")
    self.assertEqual(found["status"], "left_out")
    self.assertEqual(document["summary"]["passnet"]["variants"], 1)

  def test_a_variant_that_one_stage_left_out_and_another_measured_is_measured(self):
    measured = passes({"s/float32/v0": entry(eager_us=10.0, passnet_us=5.0)})
    for order in ((measured, passes({}, ["s/float32/v0"])), (passes({}, ["s/float32/v0"]), measured)):
      (found,) = self.find(gpu_run.merge(order, "x"), "passnet")
      self.assertEqual(found["status"], "correct")

  def test_wrong_and_crash_say_why(self):
    bad = entry("wrong", None, live_plain={"outside": 3, "reasons": ["far off"]})
    crash = {"status": "crash", "error": "ValueError: no", "violations": []}
    document = gpu_run.merge([passes({"s/float32/v0": bad, "s/float16/v0": crash})], "x")
    self.assertIn("3 elements outside far off", self.find(document, "passnet")[0]["reason"])
    self.assertEqual(self.find(document, "passnet", "float16/v0")[0]["reason"], "ValueError: no")
    self.assertEqual(document["summary"]["passnet"]["correct"], 0)

  def test_shards(self):
    merged = gpu_run.merge_passes([passes({"a/float32/v0": entry()}, ["b/float32/v0"]), passes({"b/float32/v0": entry()}, ["c/float32/v0"])])
    self.assertEqual(sorted(merged["variants"]), ["a/float32/v0", "b/float32/v0"])
    self.assertEqual(merged["left_out"], ["c/float32/v0"])

  def test_compilers(self):
    stage = {"schema": "passnet.compilers/1", "machine": MACHINE,
             "variants": {"s/float32/v0": {"eager": {"outside": 0, "e2e_us": 50.0}, "inductor": {"outside": 2, "e2e_us": 100.0}}}}
    document = gpu_run.merge([stage], "x")
    (found,) = self.find(document, "inductor")
    self.assertEqual((found["speedup"], found["status"]), (0.5, "wrong"))
    self.assertEqual(document["summary"]["inductor"]["at_least_1"], 0)

  def test_the_file_is_named_after_date_and_gpu(self):
    document = gpu_run.merge([passes({})], "x")
    self.assertRegex(gpu_run.file_name(document, "run"), r"^\d{4}-\d\d-\d\d-h200-run\.json$")


if __name__ == "__main__":
  unittest.main()
