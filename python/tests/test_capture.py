import gzip
import json
import operator
import os

import pytest
import torch

from passnet.worker import capture, encode, samples

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))

S = {"shape": [4, 6]}


def graphs(make_variant, body, metas, **options):
  return capture.capture_variant(samples.load_variant(make_variant(body, metas)), **options)


def nodes(graph):
  return {n["name"]: n for n in graph["nodes"]}


def test_nodes_values_and_literals(make_variant):
  got = graphs(
    make_variant,
    """
a = x[slice(None, None, None), None, ..., 1:3]
b = a.to(torch.float16)
c = torch.cat([x, y], dim=-1)
d = c.reshape((4, -1)).permute(1, 0)
return (b, d)""",
    {"x": S, "y": S},
  )
  assert got["inputs"] == "fake" and len(got["graphs"]) == 1
  n = nodes(got["graphs"][0])
  assert n["l_x_"]["input"] == "x" and n["l_x_"]["shape"] == [4, 6] and n["l_x_"]["dtype"] == "torch.float32"
  assert n["a"]["target"] == "operator.getitem"
  assert n["a"]["args"][1] == {
    "tuple": [{"slice": [None, None, None]}, None, {"ellipsis": True}, {"slice": [1, 3, None]}]
  }
  assert n["a"]["storage"] == n["l_x_"]["storage"] and n["a"]["stride"] == [6, 6, 1]  # a view
  assert (
    n["b"]["op"] == "call_method"
    and n["b"]["args"][1] == {"dtype": "torch.float16"}
    and n["b"]["storage"] != n["a"]["storage"]
  )
  assert (
    n["c"]["target"] == "torch.cat"
    and n["c"]["args"] == [[{"node": "l_x_"}, {"node": "l_y_"}]]
    and n["c"]["kwargs"] == {"dim": -1}
  )
  assert n["d"]["stride"] == [1, 12]
  assert got["graphs"][0]["outputs"] == [{"node": "b"}, {"node": "d"}]


def test_writes_and_aliases(make_variant):
  got = graphs(
    make_variant,
    """
x += y
r = torch.nn.functional.relu(x, inplace=True)
d = torch.nn.functional.dropout(r, 0.1, False, False)
z = y * 1
z[0] = d[1]
return (d, z)""",
    {"x": S, "y": S},
  )
  n = nodes(got["graphs"][0])
  x, y = n["l_x_"]["storage"], n["l_y_"]["storage"]
  assert n["x"]["target"] == "operator.iadd" and n["x"]["writes"] == [x]
  assert n["r"]["writes"] == [x] and n["r"]["storage"] == x
  assert n["d"]["writes"] == [] and n["d"]["storage"] == x  # eval dropout returns its argument
  store = next(v for v in n.values() if v["target"] == "operator.setitem")
  assert store["writes"] == [n["z"]["storage"]] and n["z"]["storage"] not in (x, y)


def test_a_broken_graph_gives_its_pieces_in_order(make_variant):
  got = graphs(
    make_variant,
    "n = k.item()\nreturn ((x * 2).sin() + n,)",
    {"x": S, "k": {"shape": [], "dtype": "torch.int64", "data": [3]}},
  )
  # The description fixes k, so fakes do; a number that is drawn needs real inputs.
  assert got["inputs"] == "fake" and len(got["graphs"]) == 1
  targets = [(n["target"], n["args"][1:]) for n in got["graphs"][0]["nodes"] if n["op"].startswith("call")]
  assert targets == [("operator.mul", [2]), ("sin", []), ("operator.add", [3])]
  drawn = graphs(
    make_variant,
    "a = x * 2\nn = k.item()\nreturn (a[:n],)",
    {"x": S, "k": {"shape": [], "dtype": "torch.int64", "min_val": 1, "max_val": 3, "data": None, "mean": 0, "std": 1}},
  )
  assert drawn["inputs"] == "real" and len(drawn["graphs"]) == 2


def test_values_behind_a_break_are_followed_on_fakes(make_variant):
  variant = samples.load_variant(
    make_variant(
      "m = k != 0\na = x + 1\nj = k[m]\nreturn (j + 1, a * 2)",
      {"x": S, "k": {"shape": [4], "dtype": "torch.int64", "data": [1, 0, 2, 0]}},
    )
  )
  recorded = capture.record(variant)
  assert len(recorded.graphs) == 2
  # The second graph takes what ran between the two, and a value of the first.
  assert sorted(map(str, recorded.origins[1])) == ["(0, 'a')", "None"]


def test_device_literals_are_rewritten_for_the_device(make_variant):
  got = graphs(
    make_variant,
    "return (x.to(device(type='cuda', index=0)) + torch.arange(6, device=device(type='cuda')),)",
    {"x": S},
  )
  assert '"cuda' not in json.dumps(got["graphs"]) and '"device": "cpu"' in json.dumps(got["graphs"])


def test_canonical_names():
  from torch._C import _nn

  assert (
    encode.canonical_target(torch.nn.functional.linear)
    == encode.canonical_target(_nn.linear)
    == "torch.nn.functional.linear"
  )
  assert (
    encode.canonical_target(torch.conv2d) == "torch.conv2d"
    and encode.canonical_target(torch.nn.functional.conv2d) == "torch.conv2d"
  )
  assert (
    encode.canonical_target(operator.add) == "operator.add"
    and encode.canonical_target(operator.iadd) == "operator.iadd"
  )
  assert (
    encode.canonical_target(torch.nn.functional.relu) == "torch.nn.functional.relu"
    and encode.canonical_target(torch.relu) == "torch.relu"
  )


@pytest.mark.parametrize(
  "value,want",
  [
    ((1, [2, None]), {"tuple": [1, [2, None]]}),
    (float("-inf"), {"float": "-inf"}),
    (-0.0, -0.0),
    (True, True),
    (torch.strided, {"layout": "torch.strided"}),
    (torch.channels_last, {"memory_format": "torch.channels_last"}),
    (torch.Size([2, 3]), {"size": [2, 3]}),
    (1j, {"complex": [0.0, 1.0]}),
  ],
)
def test_arguments(value, want):
  assert encode.encode_arg(value) == want


def test_the_recorded_graphs_are_what_capture_gives_today(sample_dir):
  """Two samples of the recording, so that a change of the encoding cannot go unnoticed."""
  path = os.path.join(ROOT, "tests", "data", "dynamo_graphs_2.13.json.gz")
  with gzip.open(path) as f:
    recorded = json.load(f)
  if not torch.__version__.startswith(recorded["torch"]):
    pytest.skip(f"recorded with torch {recorded['torch']}, this is {torch.__version__}")
  for name in ("RTMO-l_start349_end354_12", "S-ViPNAS-MobileNetV3_start128_end133_7"):
    for label, variant in samples.variant_dirs(sample_dir(name)):
      got = capture.capture_variant(samples.load_variant(variant, label))
      assert json.loads(json.dumps(got["graphs"])) == recorded["samples"][name][label]["graphs"], (
        name,
        label,
      )
