"""For every hard rule a pass_dir that breaks it, what the check says, and the pass_dir that the message asks for.

  tests/golden/check_repairs.py --binary build/passnet [--accept]

repairs/NAME.txt holds two cases in the form of tests/corpus/check_corpus.py, `before` and `after`; repairs/NAME.message what a
person sees for the first one. The second one is green and has no finding left. --accept writes the messages anew.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "corpus"))

import check_corpus


def check(binary, root):
  """Exit status and what a person sees, places relative to the sample."""
  done = subprocess.run([binary, "check", ".", "--quiet"], cwd=root, capture_output=True, text=True, timeout=120)
  return done.returncode, done.stdout, done.stderr


def message_of(stdout, stderr):
  """The findings, and the graph built by hand where one is printed."""
  lines = stdout.splitlines()
  start = next((i for i, line in enumerate(lines) if "would match as this graph" in line), None)
  graph = []
  if start is not None:
    end = next(i for i in range(start, len(lines)) if lines[i].startswith("pattern = pattern()"))
    graph = lines[start:end + 1]
  return stderr + ("\n".join(graph) + "\n" if graph else "")


def main():
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--binary", required=True)
  parser.add_argument("--accept", action="store_true", help="write the messages as they are now")
  args = parser.parse_args()
  binary = str(pathlib.Path(args.binary).resolve())
  failures = count = 0
  rules = set()
  for path in sorted((HERE / "repairs").glob("*.txt")):
    before, after = check_corpus.read_cases(path)
    count += 1
    rules.add(path.stem.split("_")[0])
    trouble = []
    with tempfile.TemporaryDirectory() as scratch:
      scratch = pathlib.Path(scratch)
      status, out, err = check(binary, check_corpus.write_sample(before, scratch / "before"))
      if status != (before.verdict == "red"):
        trouble.append(f"before: exit status {status}")
      got = message_of(out, err)
      golden = path.with_suffix(".message")
      if args.accept:
        golden.write_text(got)
      elif not golden.exists() or golden.read_text() != got:
        trouble.append(f"the message is\n{got}but the golden one is\n{golden.read_text() if golden.exists() else '(none)'}")
      if before.code and before.code not in got:
        trouble.append(f"the message lacks {before.code}")
      status, out, err = check(binary, check_corpus.write_sample(after, scratch / "after"))
      if status != 0 or err:
        trouble.append(f"after: exit status {status}, {err}")
    if trouble:
      failures += 1
      print(f"{path.name}: " + "\n".join(trouble))
  missing = {f"h{i}" for i in range(1, 11)} - rules
  if missing:
    failures += 1
    print(f"no repair for the hard rules {sorted(missing)}")
  print(f"{count} repairs, {failures} failed")
  return 1 if failures else 0


if __name__ == "__main__":
  sys.exit(main())
