"""tools/check_docs on small trees: what it must report, and what it must not."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check_docs"
# A program with one command that has one option.
BINARY = """#!/bin/sh
case "$1" in
  --help) printf 'Usage: passnet SUBCOMMAND\\n\\nSubcommands:\\n  solve    the main job\\n\\nExit status: 0\\n' ;;
  solve) printf 'Options:\\n  --out TEXT\\n' ;;
  *) exit 2 ;;
esac
"""


def check(files, binary=True):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        if binary:
            (root / "program").write_text(BINARY)
            os.chmod(root / "program", 0o755)
        done = subprocess.run([sys.executable, str(TOOL), "--root", folder, "--passnet", "program"], capture_output=True, text=True)
        return done.returncode, done.stdout.splitlines()


class CheckDocs(unittest.TestCase):
    def test_what_is_there_passes(self):
        files = {"a.md": "[b](docs/b.md), [heading](docs/b.md#one-thing), [out](https://example.org/x), `docs/b.md`, `docs/*.md`\n"
                         "`passnet solve X --out Y`, `make lint`\n",
                 "docs/b.md": "# One thing\n", "Makefile": "build lint: setup\n\ttrue\n"}
        self.assertEqual(check(files), (0, ["check_docs: ok"]))

    def test_links_that_lead_nowhere(self):
        files = {"a.md": "text\n[b](docs/none.md) and [c](docs/b.md#other) and [d](../x.md)\n", "docs/b.md": "# One thing\n"}
        self.assertEqual(check(files), (1, ["a.md:2: the link ../x.md leads nowhere",
                                            "a.md:2: the link docs/b.md#other names no heading of docs/b.md",
                                            "a.md:2: the link docs/none.md leads nowhere", "check_docs: 3 findings"]))

    def test_paths_in_backticks_and_blocks(self):
        files = {"a.md": "`src/none.h` but not src/other.h, and `src/<name>.h`\n```\ntools/none --all\n```\n", "src/a.h": ""}
        self.assertEqual(check(files), (1, ["a.md:1: src/none.h does not exist", "a.md:3: tools/none does not exist",
                                            "check_docs: 2 findings"]))

    def test_commands_options_and_targets(self):
        files = {"a.md": "```\nbuild/passnet serve\npassnet solve X --tune  # passnet is fine\nmake cake\n```\n", "Makefile": "lint:\n"}
        self.assertEqual(check(files), (1, ["a.md:2: passnet has no command serve", "a.md:3: passnet solve has no option --tune",
                                            "a.md:4: make has no target cake", "check_docs: 3 findings"]))

    def test_without_a_binary_commands_are_not_checked(self):
        files = {"a.md": "`passnet serve`\n"}
        self.assertEqual(check(files, binary=False),
                         (0, ["check_docs: no program, commands and options were not checked", "check_docs: ok"]))


if __name__ == "__main__":
    unittest.main()
