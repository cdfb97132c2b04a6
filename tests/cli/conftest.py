"""Fixtures for tests of the program as its users start it.

The binary is PASSNET_BINARY, set by tools/test; build/passnet where that is not set.
"""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from cli_samples import MODEL, ROOT, WEIGHTS, Run

BINARY = pathlib.Path(os.environ.get("PASSNET_BINARY", ROOT / "build" / "passnet")).resolve()


@pytest.fixture(scope="session")
def binary():
  if not os.access(BINARY, os.X_OK):
    pytest.fail(f"{BINARY} is not there: build it, or name another with PASSNET_BINARY")
  return str(BINARY)


@pytest.fixture
def environment():
  """The environment of the program: the Python of the tests is the worker's."""
  env = dict(os.environ)
  env.setdefault("PASSNET_PYTHON", sys.executable)
  return env


@pytest.fixture
def passnet(binary, environment, tmp_path):
  """passnet("solve", "s") -> Run(status, out, err), started in tmp_path."""

  def run(*args, env=None, timeout=60):
    done = subprocess.run([binary, *map(str, args)], cwd=tmp_path, env={**environment, **(env or {})},
                          capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)
    return Run(done.returncode, done.stdout, done.stderr)

  return run


@pytest.fixture
def make_sample(tmp_path):
  """Writes a sample of one variant whose pass_dir holds somebody's work; returns its folder."""

  def make(name="s", model=MODEL, weights=WEIGHTS):
    sample = tmp_path / name
    variant = sample / "float32" / "0"
    variant.mkdir(parents=True)
    (sample / "graph_list.txt").write_text("float32/0\n")
    (variant / "model.py").write_text(model)
    if weights is not None:
      (variant / "weight_meta.py").write_text(weights)
    found = sample / "pass_dir"
    (found / "__pycache__").mkdir(parents=True)
    (found / "Theirs.py").write_text("# somebody's work\r\n")
    (found / "notes.json").write_bytes(b"\xff\x00 not text")
    (found / "__pycache__" / "Theirs.cpython-312.pyc").write_bytes(b"\x00compiled")
    return sample

  return make


@pytest.fixture
def example(tmp_path):
  """A copy of a sample of examples/, its pass_dir taken as somebody's work."""

  def copy(name, to=None):
    target = tmp_path / (to or name)
    shutil.copytree(ROOT / "examples" / name, target)
    shutil.rmtree(target / ".passnet", ignore_errors=True)
    return target

  return copy
