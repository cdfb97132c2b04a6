"""Eager time of every node, on the CPU: which nodes are timed, and that calls which write their operand end well."""

import textwrap

import torch

from passnet.worker import node_times, samples

MODEL = """
import torch

class GraphModule(torch.nn.Module):
    def forward(self, in_0):
        tmp_0 = torch.sigmoid(in_0)
        tmp_1 = tmp_0.add_(1.0)
        tmp_2 = tmp_1.view(-1)
        return (tmp_2,)
"""
META = """
class Program_weight_tensor_meta_in_0:
    name = "in_0"
    shape = [4, 8]
    dtype = "torch.float32"
    mean = 0.0
    std = 1.0
    data = None
"""


def test_every_call_has_a_row(tmp_path):
  folder = tmp_path / "float32" / "0"
  folder.mkdir(parents=True)
  (folder / "model.py").write_text(textwrap.dedent(MODEL))
  (folder / "weight_meta.py").write_text(META)
  (folder / "input_meta.py").write_text("")
  variant = samples.load_variant(str(folder), "float32/0", None)
  rows = node_times.measure(variant, torch.device("cpu"))
  assert [row["target"] for row in rows] == ["torch.sigmoid", ".add_", ".view"]
  assert all(row["us"] >= node_times.LEAST_US and row["gpu_us"] == 0 for row in rows)
