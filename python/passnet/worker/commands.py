"""The table of commands. Modules are imported when first used, so that versions answers even where Triton is
broken.

Each command is `command(request, progress)`, returns the fields of the reply, and raises WorkerError for what
a person can mend.
"""

import importlib

from .errors import WorkerError

TABLE = {
  "versions": "versions",
  "identities": "identities",
  "capture": "capture",
  "trace": "trace",
  "smoke": "smoke",
  "compile": "compile_check",
  "bench": "bench",
  "evaluate": "evaluate",
  "evaluate_all": "eval_server",
}


def run(name, request, progress):
  if name not in TABLE:
    raise WorkerError(
      "command.unknown", f"the worker has no command {name!r}", "commands: " + ", ".join([*TABLE, "shutdown"])
    )
  module = importlib.import_module(f"{__package__}.{TABLE[name]}")
  try:
    return module.command(request, progress)
  except KeyError as e:
    if (
      e.args
      and e.args[0] in ("pass_dir", "variants", "sample", "kernels", "programs", "jobs")
      and e.args[0] not in request
    ):
      raise WorkerError("request.field", f"the request has no field {e.args[0]!r}", "") from e
    raise
