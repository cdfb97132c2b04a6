"""The versions command: what is installed and usable."""

import platform
import sys


def command(request, progress):
  out = {"python": platform.python_version(), "executable": sys.executable}
  for name in ("torch", "triton", "numpy"):
    try:
      out[name] = __import__(name).__version__
    except Exception as e:  # noqa: BLE001 - a broken installation is an answer too
      out[name] = None
      out[name + "_error"] = f"{type(e).__name__}: {e}"
  out["gpus"] = []
  if out["torch"]:
    import torch

    out["cuda"] = torch.version.cuda
    if torch.cuda.is_available():
      for i in range(torch.cuda.device_count()):
        p = torch.cuda.get_device_properties(i)
        out["gpus"].append(
          {
            "index": i,
            "name": p.name,
            "capability": f"{p.major}.{p.minor}",
            "bytes": p.total_memory,
            "multiprocessors": p.multi_processor_count,
            "uuid": str(getattr(p, "uuid", "")),
          }
        )
  return out
