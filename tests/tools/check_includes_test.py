"""tools/check_includes on small trees: what it must report, and what it must not."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check_includes"


def check(files):
    with tempfile.TemporaryDirectory() as folder:
        src = pathlib.Path(folder) / "src"
        files = {"CMakeLists.txt": "set(folders low\n  high)\n", **files}
        for name, text in files.items():
            path = src / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run([sys.executable, str(TOOL), str(src)], capture_output=True, text=True)
        return done.returncode, done.stdout.splitlines()


class CheckIncludes(unittest.TestCase):
    def test_upward_includes_pass(self):
        files = {"low/a.h": "#include <vector>\n", "high/b.cpp": '#include "low/a.h"\n#include "embedded/x.h"\n'}
        self.assertEqual(check(files), (0, ["check_includes: ok"]))

    def test_downward_include_is_reported_with_its_line(self):
        files = {"low/a.h": '#pragma once\n\n#include "high/b.h"\n', "high/b.h": ""}
        self.assertEqual(
            check(files),
            (1, ['src/low/a.h:3: low includes "high/b.h", but high comes after low', "check_includes: 1 findings"]))

    def test_unknown_folders_and_missing_files_are_reported(self):
        files = {"low/a.cpp": '#include "a.h"\n#include "low/none.h"\n', "stray/c.cpp": ""}
        code, lines = check(files)
        self.assertEqual(code, 1)
        self.assertEqual(lines[:3], [
            'src/low/a.cpp:1: "a.h" does not start with a folder of src/',
            'src/low/a.cpp:2: "low/none.h" does not exist',
            "src/stray/c.cpp: folder stray is not in the list of src/CMakeLists.txt"])


if __name__ == "__main__":
    unittest.main()
