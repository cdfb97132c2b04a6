"""docs/commands.md says what --help says."""
import subprocess
import sys

import pytest

from cli_samples import ROOT

TOOL = ROOT / "tools" / "write_command_docs"
PAGE = ROOT / "docs" / "commands.md"


def run_tool(binary, *arguments):
  return subprocess.run([sys.executable, TOOL, "--passnet", binary, *arguments], capture_output=True, text=True)


def test_the_page_is_as_help_says(binary):
  done = run_tool(binary, "--check")
  assert done.returncode == 0, done.stdout + done.stderr


def test_a_changed_table_is_found_and_written_anew(binary, tmp_path):
  page = tmp_path / "commands.md"
  page.write_text(PAGE.read_text().replace("| `--restore TEXT` |", "| `--restroe TEXT` |"))
  assert page.read_text() != PAGE.read_text()
  done = run_tool(binary, "--check", "--file", page)
  assert done.returncode == 1 and "-| `--restroe TEXT` |" in done.stdout
  assert run_tool(binary, "--file", page).returncode == 0
  assert page.read_text() == PAGE.read_text()


def test_a_command_without_its_table_is_found(binary, tmp_path):
  page = tmp_path / "commands.md"
  page.write_text(PAGE.read_text().replace("<!-- generated: doctor -->", ""))
  done = run_tool(binary, "--check", "--file", page)
  assert done.returncode == 2 and "generated: doctor" in done.stderr


@pytest.mark.parametrize("command", ["solve", "analyze", "check", "capture", "doctor"])
def test_help_of_a_command(passnet, command):
  run = passnet(command, "--help")
  assert run.status == 0 and run.err == ""
  assert run.out.splitlines()[1].startswith(f"Usage: passnet {command} [OPTIONS]")
  # Every option of --help stands in the page.
  page = PAGE.read_text()
  for line in run.out.splitlines():
    words = line.split()
    if line.startswith("  --"):
      assert f"`{words[0]}" in page, line


def test_help_and_version_of_the_program(passnet):
  run = passnet("--help")
  assert run.status == 0 and "Exit status: 0 done and all green" in run.out
  run = passnet("--version")
  assert run.status == 0 and run.out.count(".") == 2
