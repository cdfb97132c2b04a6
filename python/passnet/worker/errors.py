"""The one exception type whose text is meant for a person: code, message and what to do about it."""

import traceback


class WorkerError(Exception):
  def __init__(self, code, message, remedy=""):
    super().__init__(message)
    self.code, self.message, self.remedy = code, message, remedy


def describe(error, with_traceback=True):
  """Any exception as the error object of a reply."""
  if isinstance(error, WorkerError):
    out = {"code": error.code, "message": error.message, "remedy": error.remedy}
  else:
    out = {"code": type(error).__name__, "message": str(error) or type(error).__name__, "remedy": ""}
  if with_traceback:
    out["traceback"] = "".join(traceback.format_exception(type(error), error, error.__traceback__))
  return out
