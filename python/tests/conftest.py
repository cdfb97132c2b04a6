import os
import signal
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "python"))
CORPUS = os.path.join(ROOT, "tests", "corpus", "worker")


@pytest.fixture(autouse=True)
def deadline():
  """A test that hangs fails: two minutes each."""

  def late(*_):
    raise TimeoutError("the test took longer than 120 s")

  old = signal.signal(signal.SIGALRM, late)
  signal.alarm(120)
  yield
  signal.alarm(0)
  signal.signal(signal.SIGALRM, old)


@pytest.fixture
def corpus():
  return lambda name: os.path.join(CORPUS, name)


@pytest.fixture
def sample_dir():
  """A real sample by name; the test is skipped where the samples are not there."""

  def find(name):
    roots = [os.environ.get("PASSNET_DATA"), os.path.join(ROOT, "..", "shared", "data", "samples")]
    for root in filter(None, roots):
      for path in (os.path.join(root, name), os.path.join(root, "samples", name)):
        if os.path.exists(os.path.join(path, "graph_list.txt")):
          return path
    pytest.skip(f"sample {name} not found: set PASSNET_DATA to the folder of samples")

  return find


@pytest.fixture
def make_variant(tmp_path):
  """Writes a variant directory: make_variant(forward body, {name: meta fields}) -> its path."""
  counter = iter(range(1000))

  def make(body, metas, dtype="float32"):
    path = tmp_path / dtype / str(next(counter))
    path.mkdir(parents=True)
    lines = "\n".join("        " + line for line in body.strip().splitlines())
    (path / "model.py").write_text(
      "import torch\nfrom torch import device\n\nclass GraphModule(torch.nn.Module):\n\n"
      f"    def forward(self, {', '.join(metas)}):\n{lines}\n"
    )
    text = ""
    for name, fields in metas.items():
      fields = {"dtype": f"torch.{dtype}", "mean": 0.0, "std": 1.0, **fields}
      text += f"class Program_weight_tensor_meta_{name}:\n\tname = {name!r}\n"
      text += "".join(f"\t{k} = {v!r}\n" for k, v in fields.items()) + "\n"
    (path / "weight_meta.py").write_text(text)
    (path / "input_meta.py").write_text("")
    return str(path)

  return make
