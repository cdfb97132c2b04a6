"""What the tools that record results share: where samples lie, what machine this is, how a result is named and written."""

import datetime
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv" / "bin" / "python"
PYTHON = str(VENV) if VENV.exists() else sys.executable


def samples_folder():
  """PASSNET_DATA, or shared/data/samples beside the checkout; None where there is none."""
  folder = pathlib.Path(os.environ.get("PASSNET_DATA") or ROOT.parent / "shared" / "data" / "samples")
  return folder if folder.is_dir() else None


def samples_below(folder, only=""):
  return sorted(p for p in folder.iterdir() if (p / "graph_list.txt").exists() and only in p.name)


def binary():
  """The passnet to run: PASSNET, or the one of `make build`."""
  path = pathlib.Path(os.environ.get("PASSNET") or ROOT / "build" / "passnet")
  if not path.is_file():
    print(f"{path.name} is not built; run: make build", file=sys.stderr)
    raise SystemExit(2)
  return str(path.resolve())


def machine():
  """The CPU and its cores: what a time depends on. No name of a host, no path."""
  model = "unknown"
  try:
    with open("/proc/cpuinfo", encoding="utf-8") as f:
      model = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), model)
  except OSError:
    pass
  load = os.getloadavg()[0]
  return {"cpu": model, "cores": os.cpu_count(), "load_at_start": round(load, 2), "python": sys.version.split()[0]}


def commit():
  done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
  return done.stdout.strip() or None


def today():
  return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")


def command_line():
  """What was called, without anybody's paths."""
  return " ".join(["tools/" + os.path.basename(sys.argv[0]), *(os.path.basename(a) if os.sep in a else a for a in sys.argv[1:])])


def write_result(what, document, folder=None):
  """bench/results/<date>-<what>.json, or below `folder`; the name."""
  target = pathlib.Path(folder) if folder else ROOT / "bench" / "results"
  target.mkdir(parents=True, exist_ok=True)
  path = target / f"{today()}-{what}.json"
  head = {"schema": f"passnet.{what.replace('-', '_')}/1", "date": today(), "commit": commit(), "command": command_line()}
  path.write_text(json.dumps({**head, **document}, indent=1) + "\n", encoding="utf-8")
  return path.name
