"""What the tests of the program write and compare. A module of its own: several folders of tests have a conftest."""
import collections
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

MODEL = """import torch

class GraphModule(torch.nn.Module):

    def forward(self, a, b):
        c = a + b
        d = torch.nn.functional.relu(c)
        return (d,)
"""

WEIGHTS = """class Program_weight_tensor_meta_a:
    name = "a"
    shape = [2, 8]
    dtype = "torch.float32"

class Program_weight_tensor_meta_b:
    name = "b"
    shape = [8]
    dtype = "torch.float32"
""".replace("    ", "\t")  # as real metadata is written

Run = collections.namedtuple("Run", "status out err")


def tree(folder):
  """Every file below a folder with its bytes; links and folders by kind."""
  folder = pathlib.Path(folder)
  found = {}
  for path in sorted(folder.rglob("*")):
    name = path.relative_to(folder).as_posix()
    found[name] = "link" if path.is_symlink() else "folder" if path.is_dir() else path.read_bytes()
  return found
