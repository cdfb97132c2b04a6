"""What solve promises: whole states whatever interrupts it, nothing lost, the same bytes every time."""
import ast
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import pytest

from cli_samples import ROOT, tree

EXAMPLES = sorted(path.name for path in (ROOT / "examples").iterdir() if (path / "graph_list.txt").is_file())
QUICK = ["solve", "--no-preflight-run", "--quiet"]
KILLS = int(os.environ.get("PASSNET_KILLS", "500" if os.environ.get("PASSNET_SOAK") else "50"))
ALLOWED_IMPORTS = {"torch", "triton", "pass_dir._shared_kernels", "inspect", "operator", "math"}


def files_of(folder):
  """The files of a pass_dir or of a kept state, the marker left out."""
  return {name: content for name, content in tree(folder).items() if content != "folder" and name != ".ignore"}


def kept_states(sample):
  history = sample / ".passnet" / "history"
  return {path.name: files_of(path / "files") for path in history.iterdir() if (path / "state.json").is_file()}


def leave_found(sample):
  """Somebody's work in pass_dir; returns its files."""
  shutil.rmtree(sample / "pass_dir", ignore_errors=True)
  (sample / "pass_dir" / "__pycache__").mkdir(parents=True)
  (sample / "pass_dir" / "Theirs.py").write_bytes(b"# theirs\r\n" * 1000)
  (sample / "pass_dir" / "notes.json").write_bytes(b"\xff\x00\n")
  (sample / "pass_dir" / "__pycache__" / "Theirs.cpython-312.pyc").write_bytes(b"\x00compiled")
  (sample / "pass_dir" / ".ignore").write_bytes(b"keep me")
  return files_of(sample / "pass_dir")


def test_solve_keeps_and_restore_gives_back(passnet, example):
  sample = example("transformer_residual_norm", "s")
  found = leave_found(sample)
  assert passnet(*QUICK, "s").status == 0
  written = files_of(sample / "pass_dir")
  assert not set(written) & set(found)
  assert (sample / "pass_dir" / ".ignore").read_bytes() == b"keep me"
  run = passnet("solve", "--restore", "found", "s")
  assert run.status == 0, run
  assert files_of(sample / "pass_dir") == found
  assert (sample / "pass_dir" / ".ignore").read_bytes() == b"keep me"
  # And forward again, by the beginning of the state's name.
  name = next(name for name, files in kept_states(sample).items() if files == written)
  run = passnet("solve", "--restore", name[:10], "s")
  assert run.status == 0 and run.out == f"s/pass_dir is now state {name}\n"
  assert files_of(sample / "pass_dir") == written
  before = tree(sample / "pass_dir")
  run = passnet("solve", "--restore", "0123456789abcdef0", "s")
  assert run.status == 2
  assert run.err.splitlines()[0] == (
    "s/.passnet/history: error: no kept state is named '0123456789abcdef0' [state.unknown]")
  assert name in run.err
  assert tree(sample / "pass_dir") == before


def test_killed_at_any_moment_the_pass_dir_is_whole(binary, passnet, environment, example, tmp_path, capsys):
  template = example("transformer_residual_norm", "template")
  found = leave_found(template)
  done = tmp_path / "done"
  shutil.copytree(template, done)
  start = time.monotonic()
  assert passnet(*QUICK, "done").status == 0
  took = time.monotonic() - start
  final = files_of(done / "pass_dir")
  whole = list(kept_states(done).values())
  assert found in whole and final in whole and len(whole) >= 3  # what was there, the floor, the upside

  seed = int(os.environ.get("PASSNET_SEED", time.time_ns() % 1_000_000))
  with capsys.disabled():
    print(f"\n  {KILLS} kills, PASSNET_SEED={seed}", end="")
  draw = random.Random(seed)
  seen = []
  for number in range(KILLS):
    sample = tmp_path / "killed"
    shutil.copytree(template, sample)
    process = subprocess.Popen([binary, *QUICK, "killed"], cwd=tmp_path, env=environment,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(draw.uniform(0, took * 1.1))
    process.send_signal(signal.SIGKILL)
    process.wait()
    now = files_of(sample / "pass_dir")
    assert now in whole, f"kill {number}: pass_dir holds {sorted(now)}"
    assert now == found or found in kept_states(sample).values(), f"kill {number}: what was there is lost"
    assert (sample / "pass_dir" / ".ignore").read_bytes() == b"keep me"
    seen.append("found" if now == found else "final" if now == final else "floor")
    # Of these, and of the first that stopped between the states: a rerun finishes, and what was there first comes back.
    if number % 20 == 0 or (seen[-1] == "floor" and seen.count("floor") <= 4):
      assert passnet(*QUICK, "killed").status == 0
      assert files_of(sample / "pass_dir") == final
      assert not (sample / ".passnet" / "staging").exists()
      assert passnet("solve", "--restore", "found", "killed").status == 0
      assert files_of(sample / "pass_dir") == found
    shutil.rmtree(sample)
  # Drawn over the whole run: both ends must have been met, or the moments were not random.
  assert "found" in seen and "final" in seen, seen


def test_two_solves_of_one_sample(binary, passnet, environment, example, tmp_path):
  sample = example("transformer_residual_norm", "s")
  found = leave_found(sample)
  # A worker that never answers holds the first solve in its pre-flight.
  slow = tmp_path / "slow_python"
  slow.write_text("#!/bin/sh\nexec sleep 60\n")
  slow.chmod(0o755)
  first = subprocess.Popen([binary, "solve", "--quiet", "s"], cwd=tmp_path, start_new_session=True,
                           env={**environment, "PASSNET_PYTHON": str(slow)},
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
  try:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not list((sample / ".passnet").glob("history/*/state.json")):
      time.sleep(0.02)
    assert first.poll() is None
    for arguments in (QUICK, ["solve", "--restore", "found"]):
      run = passnet(*arguments, "s")
      assert run.status == 2, run
      lines = run.err.splitlines()
      assert lines[0] == f"s: error: s/.passnet/lock is locked by process {first.pid} [lock.busy]"
      assert lines[1] == "  hint: another passnet works on this sample; wait for it, or stop it"
      assert files_of(sample / "pass_dir") == found
  finally:
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
  assert passnet(*QUICK, "s").status == 0  # the lock went with its process


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_same_bytes_every_time(passnet, example, tmp_path, name):
  one, two = example(name, "one"), example(name, "another_place")
  assert passnet(*QUICK, "--jobs", 1, "one").status == 0
  assert passnet(*QUICK, "--jobs", 4, tmp_path / "another_place", env={"LC_ALL": "C", "HOME": "/nonexistent"}).status == 0
  first = files_of(one / "pass_dir")
  assert files_of(two / "pass_dir") == first and first
  # Again over its own result: nothing changes, no state is added.
  states = kept_states(one)
  assert passnet(*QUICK, "one").status == 0
  assert files_of(one / "pass_dir") == first and kept_states(one) == states


@pytest.mark.parametrize("name", EXAMPLES)
def test_only_allowed_imports(passnet, example, name):
  sample = example(name, "s")
  assert passnet(*QUICK, "s").status == 0
  imported = set()
  for state in kept_states(sample).values():
    for file, content in state.items():
      if not file.endswith(".py"):
        continue
      for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Import):
          imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
          assert node.level == 0, file
          # Its own kernels go by the name that the evaluator loads them under.
          imported.add(node.module if node.module.startswith("pass_dir") else node.module.split(".")[0])
  assert "torch" in imported and imported <= ALLOWED_IMPORTS, imported


def test_out_leaves_the_sample_alone(passnet, example, tmp_path):
  sample = example("conv_tail_pooling", "s")
  before = tree(sample)
  (tmp_path / "elsewhere").mkdir()
  run = passnet(*QUICK, "--out", "elsewhere", "s")
  assert run.status == 0, run
  assert tree(sample) == before
  assert files_of(tmp_path / "elsewhere" / "pass_dir")
  run = passnet("check", "--quiet", "--pass-dir", pathlib.Path("elsewhere") / "pass_dir", "s")
  assert run.status == 0, run


def test_where_the_disk_says_no_the_old_state_stands(passnet, example):
  """A folder of the history that cannot be made: the run ends with an error and pass_dir as it was."""
  sample = example("conv_tail_pooling", "s")
  found = leave_found(sample)
  (sample / ".passnet").mkdir()
  (sample / ".passnet" / "history").write_text("in the way")
  run = passnet(*QUICK, "s")
  assert run.status == 2 and "s/.passnet/history" in run.err.splitlines()[0]
  assert files_of(sample / "pass_dir") == found
