"""tools/test: the counts that its closing line is made of, from result files of every kind."""
import importlib.machinery
import importlib.util
import pathlib
import subprocess
import tempfile
import unittest
from unittest import mock

PATH = pathlib.Path(__file__).resolve().parents[2] / "tools" / "test"
loader = importlib.machinery.SourceFileLoader("tools_test", str(PATH))
tools_test = importlib.util.module_from_spec(importlib.util.spec_from_loader("tools_test", loader))
loader.exec_module(tools_test)

GTEST = """<testsuites><testsuite name="A">
  <testcase name="p" status="run" result="completed"/>
  <testcase name="f" status="run" result="completed"><failure message="x"/></testcase>
  <testcase name="s" status="run" result="skipped"><skipped message="y"/></testcase>
  <testcase name="d" status="notrun" result="suppressed"/>
</testsuite></testsuites>"""

CTEST = """<testsuite>
  <testcase name="good" status="run"/><testcase name="script" status="run"/>
  <testcase name="crashed" status="fail"><failure message=""/></testcase>
  <testcase name="absent" status="notrun"/>
  <testcase name="late" status="fail"><failure message="Timeout"/></testcase>
</testsuite>"""


class Counts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.build = pathlib.Path(self.folder.name)
        self.addCleanup(self.folder.cleanup)

    def ctest(self, files, status):
        """run_ctest with a ctest that leaves these files."""
        def fake(command, **_):
            for name, text in files.items():
                (self.build / "test-results" / name).write_text(text)
            return subprocess.CompletedProcess(command, status)
        args = mock.Mock(jobs=1, filter=None)
        with mock.patch.object(tools_test.subprocess, "run", fake):
            return tools_test.run_ctest(self.build, args, {})

    def test_cases_of_one_file(self):
        path = self.build / "a.xml"
        path.write_text(GTEST)
        self.assertEqual(tools_test.count_junit(path), (1, 1, 2))
        path.write_text("<broken")
        self.assertIsNone(tools_test.count_junit(path))

    def test_programs_without_a_result_file_count_once(self):
        passing = '<testsuites><testcase name="a" status="run" result="completed"/>' * 1 + "</testsuites>"
        counts, status = self.ctest({"ctest-summary.xml": CTEST, "good.xml": passing, "late.xml": passing}, 8)
        # good 1, script 1, late 1 passed before it ran out of time; crashed, absent and late failed.
        self.assertEqual((counts, status), ((3, 3, 0), 8))

    def test_no_results_at_all_is_a_failure(self):
        counts, status = self.ctest({}, 0)
        self.assertEqual(counts, (0, 1, 0))
        self.assertNotEqual(status, 0)

    def test_old_results_are_not_counted_again(self):
        stale = self.build / "test-results"
        stale.mkdir()
        (stale / "ctest-summary.xml").write_text(CTEST)
        self.assertEqual(self.ctest({}, 0)[0], (0, 1, 0))


if __name__ == "__main__":
    unittest.main()
