"""Real bodies without metadata: analyze reads each to its end, whatever it makes of it."""
import json
import os
import pathlib

import pytest

from cli_samples import ROOT


def folders():
  data = os.environ.get("PASSNET_DATA")
  roots = [pathlib.Path(data).parent / "capture-only"] if data else []
  roots += [pathlib.Path(data) / "capture-only"] if data else []
  roots.append(ROOT.parent / "shared" / "data" / "capture-only")
  for root in roots:
    found = sorted(path.parent for path in root.glob("*/model.py"))
    if found:
      return found
  return []


def test_the_bodies_are_there():
  if not folders():
    pytest.skip("no capture-only beside the samples: set PASSNET_DATA to the folder of samples")
  assert len(folders()) >= 16


@pytest.mark.parametrize("folder", folders(), ids=lambda path: path.name)
def test_analyze_ends_in_order(passnet, folder):
  run = passnet("analyze", folder)
  assert run.status in (0, 1), run.err[-2000:]
  assert "internal" not in run.err
  run = passnet("analyze", "--json", folder)
  document = json.loads(run.out)
  assert run.status == (0 if document["status"] == "green" else 1)
  assert document["variants"][0]["graphs"][0]["nodes"], "a graph with nodes was captured"
