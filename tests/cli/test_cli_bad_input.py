"""What bad input gets: exit status 2, one message that names file, line and remedy, and nothing written."""
import os
import pathlib
import shutil
import stat
import subprocess
import tempfile

import pytest

from cli_samples import MODEL, WEIGHTS, Run, tree

GRAPHS = "s/graph_list.txt"
CODE = "s/float32/0/model.py"
META = "s/float32/0/weight_meta.py"


def edit(path, old, new):
  text = path.read_text()
  assert old in text
  path.write_text(text.replace(old, new, 1))


def with_call(call, shape_b):
  def prepare(sample):
    edit(sample / "float32/0/model.py", "a + b", call)
    edit(sample / "float32/0/weight_meta.py", "[8]", shape_b)

  return prepare


def no_graph_list(sample):
  (sample / "graph_list.txt").unlink()


def empty_graph_list(sample):
  (sample / "graph_list.txt").write_text("\n\n")


def binary_graph_list(sample):
  (sample / "graph_list.txt").write_bytes(b"\x7fELF\x02\x00\xd0")


def no_model(sample):
  (sample / "float32/0/model.py").unlink()


def second_variant_without_model(sample):
  (sample / "float32/1").mkdir()
  (sample / "graph_list.txt").write_text("float32/0\nfloat32/1\n")


def second_variant_without_folder(sample):
  (sample / "graph_list.txt").write_text("float32/0\n\nfloat32/9\n")


def syntax_error(sample):
  edit(sample / "float32/0/model.py", "a + b", "a + (b")


def no_class(sample):
  edit(sample / "float32/0/model.py", "GraphModule", "Other")


def unknown_dtype(sample):
  edit(sample / "float32/0/weight_meta.py", "torch.float32", "torch.float33")


def no_weight_meta(sample):
  (sample / "float32/0/weight_meta.py").unlink()


def no_meta_of_b(sample):
  (sample / "float32/0/weight_meta.py").write_text(WEIGHTS[:WEIGHTS.index("class Program_weight_tensor_meta_b")])


def negative_shape(sample):
  edit(sample / "float32/0/weight_meta.py", "[2, 8]", "[2, -8]")


def huge_model(sample):
  os.truncate(sample / "float32/0/model.py", 200 << 20)


def binary_model(sample):
  (sample / "float32/0/model.py").write_bytes(b"\x7fELF\x02\x01\x01\x00" + bytes(range(256)))


def nul_in_model(sample):
  (sample / "float32/0/model.py").write_bytes(b"import torch\n\x00\n")


def latin_1_model(sample):
  (sample / "float32/0/model.py").write_bytes(MODEL.encode() + "# caf\u00e9\n".encode("latin-1"))


def loop_of_links(sample):
  shutil.rmtree(sample / "float32/0")
  (sample / "float32/0").symlink_to("0")


def loop_as_model(sample):
  (sample / "float32/0/model.py").unlink()
  (sample / "float32/0/model.py").symlink_to("model.py")


def folder_as_model(sample):
  (sample / "float32/0/model.py").unlink()
  (sample / "float32/0/model.py").mkdir()


# name, what is done to a good sample, the whole first line of the message
CASES = [
  ("no graph_list", no_graph_list, f"{GRAPHS}: error: the sample has no graph_list.txt [sample.no_graph_list]"),
  ("empty graph_list", empty_graph_list, f"{GRAPHS}: error: graph_list.txt lists nothing [sample.no_variants]"),
  ("binary graph_list", binary_graph_list,
   f"{GRAPHS}:1:7: error: the file is not UTF-8: byte 0xd0 at offset 6 [source.utf8]"),
  ("no model.py", no_model,
   f"{GRAPHS}:1:1: error: no variant can be read: 'float32/0' has no model.py [sample.no_variants]"),
  ("one of two has no model.py", second_variant_without_model,
   f"{GRAPHS}:2:1: error: 'float32/1' has no model.py [sample.no_model]"),
  ("one of two has no folder", second_variant_without_folder,
   f"{GRAPHS}:3:1: error: 'float32/9' is listed, but there is no such folder [sample.variant_missing]"),
  ("syntax error", syntax_error, f"{CODE}:6:18: error: this is not valid Python, at 'b' [pysrc.syntax]"),
  ("no class", no_class, f"{CODE}: error: there is no class GraphModule [capture.no_model]"),
  ("unknown dtype", unknown_dtype,
   f"{META}:4:10: error: 'torch.float33' is no dtype that is supported [meta.unknown_dtype]"),
  ("no weight_meta", no_weight_meta,
   f"{META}: error: there is no weight_meta.py beside model.py [sample.no_weight_meta]"),
  ("an input without metadata", no_meta_of_b,
   f"{CODE}:5:26: error: parameter 'b' has no entry in weight_meta.py [capture.input_without_meta]"),
  ("negative shape", negative_shape, f"{META}:3:14: error: the size -8 is negative [meta.bad_shape]"),
  ("shapes do not broadcast", with_call("a + b", "[7]"),
   f"{CODE}:6:13: error: `c` (operator.add): shapes [7] do not broadcast: 8 and 7 meet at axis -1"
   " [ops.bad_arguments]"),
  ("matmul", with_call("torch.matmul(a, b)", "[7, 4]"),
   f"{CODE}:6:13: error: `c` (torch.matmul): `other` should be a factor for (2, 8), and (7, 4) is not"
   " [ops.bad_arguments]"),
  ("linear", with_call("torch.nn.functional.linear(a, b, None)", "[4, 7]"),
   f"{CODE}:6:13: error: `c` (torch.nn.functional.linear): `weight` should be a matrix with rows of 8"
   " [ops.bad_arguments]"),
  ("view", with_call("(a + b).view(3, 5)", "[8]"),
   f"{CODE}:6:13: error: `c` (view): `shape` should be sizes whose product is 16 [ops.bad_arguments]"),
  ("axis", with_call("torch.nn.functional.softmax(a, dim=9)", "[8]"),
   f"{CODE}:6:13: error: `c` (torch.nn.functional.softmax): dim 9 is out of range for 2 dimensions"
   " [ops.bad_arguments]"),
  ("200 MB", huge_model,
   f"{CODE}: error: cannot read {CODE}: it is larger than 67108864 bytes [file.too_large]"),
  ("binary", binary_model,
   f"{CODE}:2:118: error: the file is not UTF-8: byte 0x80 at offset 136 [source.utf8]"),
  ("NUL", nul_in_model, f"{CODE}:2:1: error: the file holds a NUL byte at offset 13 [source.nul]"),
  ("Latin-1", latin_1_model,
   f"{CODE}:9:6: error: the file is not UTF-8: byte 0xe9 at offset {len(MODEL) + 5} [source.utf8]"),
  ("loop of links", loop_of_links,
   f"{GRAPHS}:1:1: error: no variant can be read: 'float32/0' cannot be read: cannot look at s/float32/0: "
   "it is a loop of symbolic links [sample.no_variants]"),
  ("model.py links to itself", loop_as_model,
   f"{GRAPHS}:1:1: error: no variant can be read: the model.py of 'float32/0' cannot be read: cannot look at {CODE}: "
   "it is a loop of symbolic links [sample.no_variants]"),
  ("model.py is a folder", folder_as_model,
   f"{CODE}: error: cannot read {CODE}: it is a folder, not a file [file.not_file]"),
]


def refused(run, first_line):
  """The message of a refused run, looked at."""
  assert run.status == 2, run
  assert run.out == ""
  lines = run.err.splitlines()
  assert lines[0] == first_line
  assert any(line.startswith("  hint: ") for line in lines), run.err
  assert "internal" not in run.err


@pytest.mark.parametrize("prepare, first_line", [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_refused_with_a_message_and_nothing_written(passnet, make_sample, prepare, first_line):
  sample = make_sample()
  prepare(sample)
  large = sample / "float32/0/model.py"
  if large.is_file() and large.stat().st_size > 1 << 20:
    before = tree(sample / "pass_dir")
    looked_at = sample / "pass_dir"
  else:
    before = tree(sample)
    looked_at = sample
  for command in (["solve", "--no-preflight-run"], ["check"]):
    refused(passnet(*command, "--quiet", "s"), first_line)
  assert tree(looked_at) == before
  assert not (sample / ".passnet").exists()


@pytest.mark.parametrize("prepare, first_line", [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_analyze_and_capture_say_the_same_and_do_not_crash(passnet, make_sample, prepare, first_line):
  sample = make_sample()
  prepare(sample)
  for command in ("analyze", "capture"):
    run = passnet(command, "--quiet", "s")
    assert run.status in (1, 2), run
    if prepare is no_graph_list:  # then the folder is not taken as a sample, and has no model.py of its own
      assert run.err.splitlines()[0].endswith("[sample.no_model]")
    else:
      assert run.err.splitlines()[0] == first_line


@pytest.mark.parametrize("command", ["solve", "check", "analyze", "capture"])
def test_a_path_that_is_not_there(passnet, command):
  refused(passnet(command, "--quiet", "nowhere/s"), "nowhere/s: error: there is no such folder [sample.missing]")


@pytest.mark.parametrize("command", ["solve", "check"])
def test_a_file_as_sample(passnet, make_sample, command):
  sample = make_sample()
  before = tree(sample)
  refused(passnet(command, "--quiet", "s/graph_list.txt"),
          "s/graph_list.txt: error: this is no folder [sample.not_a_directory]")
  assert tree(sample) == before


@pytest.mark.parametrize("command", ["solve", "check"])
def test_a_folder_that_may_not_be_read(binary, make_sample, command):
  sample = make_sample()
  before = tree(sample)
  # Root may read everything: then the program runs as nobody, in a folder that nobody can reach.
  user = 65534 if os.geteuid() == 0 else None
  with tempfile.TemporaryDirectory() as place:
    os.chmod(place, 0o755)
    shutil.copytree(sample, os.path.join(place, "s"))
    variant = pathlib.Path(place, "s", "float32", "0")
    variant.chmod(0)
    try:
      run = subprocess.run([binary, command, "--quiet", "s"], cwd=place, user=user, capture_output=True, text=True)
    except OSError as error:
      pytest.skip(f"the program cannot be run as another user: {error}")
    finally:
      variant.chmod(stat.S_IRWXU)
    assert tree(os.path.join(place, "s")) == before
  refused(Run(run.returncode, run.stdout, run.stderr),
          "s/graph_list.txt:1:1: error: no variant can be read: the model.py of 'float32/0' cannot be read: "
          "cannot look at s/float32/0/model.py: it may not be accessed [sample.no_variants]")


def test_a_sample_that_may_not_be_written(binary, make_sample):
  user = 65534 if os.geteuid() == 0 else None
  with tempfile.TemporaryDirectory() as place:
    os.chmod(place, 0o755)
    sample = pathlib.Path(place, "s")
    shutil.copytree(make_sample(), sample)
    before = tree(sample)
    sample.chmod(0o555)
    try:
      run = subprocess.run([binary, "solve", "--no-preflight-run", "--quiet", "s"], cwd=place, user=user,
                           capture_output=True, text=True)
    except OSError as error:
      pytest.skip(f"the program cannot be run as another user: {error}")
    finally:
      sample.chmod(stat.S_IRWXU)
    assert tree(sample) == before
  assert run.returncode == 2 and "s/.passnet" in run.stderr.splitlines()[0]
  assert "  hint: " in run.stderr


def test_where_the_history_cannot_be_kept_nothing_is_written(passnet, make_sample):
  sample = make_sample()
  (sample / ".passnet").write_text("a file in the way")
  before = tree(sample)
  run = passnet("solve", "--no-preflight-run", "--quiet", "s")
  assert run.status == 2 and "s/.passnet" in run.err.splitlines()[0]
  assert tree(sample) == before


def test_a_model_without_a_legal_region_is_red_and_keeps_what_was_there(passnet, make_sample):
  body = "torch.nonexistent_function(a, b)"
  sample = make_sample(model=MODEL.replace("a + b", body).replace("torch.nn.functional.relu(c)", "c"))
  before = tree(sample / "pass_dir")
  run = passnet("solve", "--no-preflight-run", "--quiet", "s")
  assert run.status == 1
  assert run.err.splitlines()[0] == (
    f"{CODE}:6:13: error: no operator row knows the function `torch.nonexistent_function` [ops.unknown_target]")
  assert "some variant has no region" in run.out
  assert tree(sample / "pass_dir") == before


# arguments, the first line, a line of the hint
USAGE = [
  ([], "error: A subcommand is required [cli.usage]", "  hint: `passnet --help` lists the commands"),
  (["sovle", "s"], None, "  hint: did you mean `passnet solve`?"),
  (["solve"], "error: SAMPLE is required [cli.usage]", "  hint: `passnet solve --help` lists its options"),
  (["solve", "s", "--frobnicate"], None, "  hint: `passnet solve --help` lists its options"),
  (["solve", "s", "--device", "tpu"], None, "  hint: `passnet solve --help` lists its options"),
  (["solve", "s", "--jobs", "-1"], None, "  hint: `passnet solve --help` lists its options"),
  (["check", "s", "--rules", "lax"], None, "  hint: `passnet check --help` lists its options"),
]


@pytest.mark.parametrize("arguments, first_line, hint", USAGE, ids=[" ".join(case[0]) or "none" for case in USAGE])
def test_usage(passnet, arguments, first_line, hint):
  run = passnet(*arguments)
  assert run.status == 2 and run.out == ""
  lines = run.err.splitlines()
  assert lines[0].endswith("[cli.usage]")
  assert first_line is None or lines[0] == first_line
  assert hint in lines


def test_an_unknown_profile(passnet, make_sample):
  sample = make_sample()
  before = tree(sample)
  for profile in ("h2000", "nowhere.json"):
    run = passnet("solve", "--no-preflight-run", "--quiet", "--profile", profile, "s")
    assert run.status == 2 and profile in run.err.splitlines()[0]
    assert "  hint: " in run.err
  assert tree(sample) == before


def test_check_without_pass_dir(passnet, make_sample):
  sample = make_sample()
  shutil.rmtree(sample / "pass_dir")
  run = passnet("check", "--quiet", "s")
  refused(run, "s/pass_dir: error: there is no such folder [check.no_pass_dir]")
