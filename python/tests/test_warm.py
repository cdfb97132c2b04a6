"""What the clean parent has ready for its children, and that no device is asked for on the way."""
import json
import os
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))

PREPARED = """
import json, os, sys
sys.path.insert(0, os.path.join(%r, "python"))
import torch
asked = []
# As on a machine with a GPU: what counts the devices opens them.
torch._C._ensureCUDADeviceGuardSet = lambda: asked.append("count")
from passnet.worker import warm
proof = warm.prepare(kernels=True)
from triton.runtime import cache
hashed = cache.triton_key.cache_info().currsize
before = set(sys.modules)
warm.finish()
warm.write_built(os.path.join(os.environ["TRITON_CACHE_DIR"], "of a candidate"))
print(json.dumps({"proof": proof, "asked": asked, "hashed": hashed, "new": len(set(sys.modules) - before)}))
"""


def test_a_prepared_parent_has_opened_nothing_and_left_nothing_out(tmp_path):
  """The first compilation is behind it, Triton has hashed its own files, and no device was counted."""
  folder = tmp_path / "cache"
  (folder / "KEY").mkdir(parents=True)
  (folder / "KEY" / "cuda_utils.x.so").write_bytes(b"built before any pass")
  (folder / "KEY" / "kernel.cubin").write_bytes(b"something else")
  done = subprocess.run([sys.executable, "-c", PREPARED % ROOT], capture_output=True, text=True, timeout=100, env={**os.environ, "TRITON_CACHE_DIR": str(folder)})
  assert done.returncode == 0, done.stderr[-3000:]
  said = json.loads(done.stdout.strip().splitlines()[-1])
  assert said["proof"]["clean"] and said["proof"]["left_out"] == [] and said["asked"] == []
  assert said["hashed"] == 1 and said["new"] == 0
  candidate = folder / "of a candidate"
  assert [str(p.relative_to(candidate)) for p in candidate.rglob("*") if p.is_file()] == ["KEY/cuda_utils.x.so"]
  assert (candidate / "KEY" / "cuda_utils.x.so").read_bytes() == b"built before any pass"

PROBED = """
import json, os, sys
sys.path.insert(0, os.path.join(%r, "python"))
from passnet.worker import warm
warm.CONTROL_FILE = "/dev/null"
warm._device_works = lambda: {works}
left_out = warm.prepare()["left_out"]
done = set(warm._done)
warm.finish()
print(json.dumps([left_out, sorted(set(warm._done) - done)]))
"""


def test_a_step_behind_which_the_device_fails_is_left_to_the_children():
  """Tried in a throw-away child; what was left out there is what a child does for itself."""
  for works, wanted in (("True", [[], []]), ("False", [["first compilation"]] * 2)):
    script = (PROBED % ROOT).replace("{works}", works)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and json.loads(done.stdout.strip().splitlines()[-1]) == wanted, (works, done.stdout, done.stderr[-2000:])
