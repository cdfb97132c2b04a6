"""The strict protocol: eager in a process that never loads the candidate, fresh contents for every call.

The process that the clean parent forked becomes the reference. Before it touches a device it forks the candidate, and
from then on asks it, over a channel of its own, to do one thing at a time: load the passes, a number of poisoned calls,
a block of timed calls, to write down the outputs of a call. The reference draws the inputs and hands over their bytes
only; seeds, expected outputs and tolerances never reach the candidate. Blocks of eager and of the candidate alternate;
the reference's own clock bounds what the candidate claims. What the candidate answers is checked for its form and
otherwise taken for what it is: a claim.
"""

import contextlib
import os
import random
import secrets
import shutil
import socket
import sys
import tempfile
import time

import numpy as np
import torch

from . import (
  audit,
  capture,
  compare,
  compilers,
  device_lock,
  evaluate,
  interpreter,
  pass_loader,
  poison,
  protocol,
  record,
  replay,
  sandbox,
  samples,
  timing,
  warm,
)
from .errors import WorkerError

CONTENTS, BUFFERS = 4, 3  # different inputs, and sets of addresses that they are copied to; one more is like another but for
# secret elements, for who looks at some elements to know the rest
LARGE = 1 << 30  # bytes of inputs beyond which there are fewer
EXTRA_CALLS = 15  # at most so many more warm-up calls than announced
LEAST_BLOCKS = 3  # with fewer, one that the machine interrupted would accuse the candidate
BLOCK = 10  # calls of a side in a turn; after each block of the candidate an output is brought over and compared


class CandidateLost(Exception):
  pass


# ---- the candidate's side

class Candidate:
  """Everything that runs in the process that loads the passes."""

  def __init__(self, job, options, channel, exchange):
    self.job, self.options, self.channel, self.exchange = job, options, channel, exchange
    self.device = torch.device(options["device"])
    self.backend = self.call = self.model = None
    self.contents, self.buffers, self.first = [], [], {}
    self.block = []
    self.odd = []  # calls whose outputs are not those of an earlier call on the same contents

  def serve(self):
    warm.finish()
    with contextlib.ExitStack() as stack:
      self.session = stack.enter_context(interpreter.Session()) if self.device.type == "cpu" else None
      if self.device.type == "cuda":
        torch.set_num_threads(2)  # many children share the cores; before the settings are noted, or it would seem the pass's doing
      state = audit.snapshot()
      while True:
        message = self.channel.read()
        if message is None or message["cmd"] == "close":
          break
        self.channel.write({"v": protocol.VERSION, "id": message["id"], **self._answer(message)})
      if message is not None:
        self.channel.write({"v": protocol.VERSION, "id": message["id"], **self._closing(state)})

  def _answer(self, message):
    try:
      return {"done": getattr(self, "do_" + message["cmd"])(message)}
    except BaseException as e:  # noqa: BLE001 - whatever a pass raises is an answer
      return {"error": record.failure(e) if isinstance(e, Exception) else {"code": type(e).__name__, "message": str(e), "type": type(e).__name__, "traceback": "", "remedy": ""},
              "skipped": getattr(e, "skipped", [])}

  def do_load(self, message):
    if self.device.type == "cuda":
      torch.cuda.init()
      torch.zeros(1, device=self.device)
      torch.cuda.synchronize(self.device)
    sandbox.after_device({**self.job.get("sandbox", {}), "network": False})
    variant = samples.load_variant(self.job["variant"], self.job.get("label"))
    self.backend = compilers.load_backend(self.job["compilers"][0])
    self.model = samples.build_model(variant, self.device.type)
    files = [torch.load(os.path.join(self.exchange, f), weights_only=True) for f in message["files"]]
    self.contents = [[t.to(self.device) for t in tensors] for tensors in files]
    self.buffers = [[torch.empty_like(t) for t in self.contents[0]] for _ in range(message["buffers"])]
    torch._dynamo.reset()
    self.call = torch.compile(self.model, backend=self.backend)
    poison.clear_violations()
    return {"loaded": [p.name for p in self.backend.pass_set.passes], "skipped": self.backend.pass_set.skipped}

  def _prepare(self, content, buffer):
    """New contents at addresses that held others; finished before the call begins."""
    inputs = self.buffers[buffer]
    for t, value in zip(inputs, self.contents[content]):
      t.copy_(value)
    timing.synchronise(self.device)
    self.backend.start_call()
    return inputs

  def _noted(self, content, kind, value):
    known = self.first.get(content)
    if known is None:
      self.first[content] = compare.as_tuple(value)
      self.first[content] = tuple(v.clone() if isinstance(v, torch.Tensor) else v for v in self.first[content])
    elif not record.agree(known, value):
      self.odd.append(kind)
    if self.session is not None:
      self.session.memory.clear()

  def do_calls(self, message):
    """Calls that are not timed: [content, buffer, poisoned] each. The last one's outputs can be asked for."""
    self.block = []
    for content, buffer, poisoned in message["plan"]:
      inputs = self._prepare(content, buffer)
      self.backend.poisoned = poisoned
      torch.manual_seed(timing.SEED)
      value = self.call(*inputs)
      timing.synchronise(self.device)
      self._noted(content, "poisoned" if poisoned else "plain", value)
      self.block = [value]
    return {}

  def do_block(self, message):
    self.backend.poisoned = False
    self.block, e2e, gpu = [], [], []
    for content, buffer in message["plan"]:
      inputs = self._prepare(content, buffer)
      value, host, on_device = timing.timed_call(self.call, inputs, self.device)
      e2e.append(host)
      if on_device is not None:
        gpu.append(on_device)
      self._noted(content, "timed", value)
      self.block.append(_apart(value, inputs))
    return {"e2e": e2e, "gpu": gpu}

  def do_write(self, message):
    values = compare.as_tuple(self.block[message["call"]])
    plain = [v.detach().cpu() if isinstance(v, torch.Tensor) else None for v in values]
    facts = [{"dtype": record.dtype_word(v), "shape": list(v.shape) if isinstance(v, torch.Tensor) else None,
              "plain": type(v) is torch.Tensor and not vars(v)} for v in values]
    torch.save([None if p is None else p.as_subclass(torch.Tensor).contiguous() for p in plain], os.path.join(self.exchange, message["file"]))
    return {"facts": facts}

  def _closing(self, state):
    loaded = self.backend.pass_set if self.backend is not None else None
    self.block, self.first = [], {}
    return {
      "done": {
        "graphs": self.backend.records if self.backend is not None else [],
        "violations": list(poison.violations),
        "kept_tensors": pass_loader.kept_tensors(loaded) if loaded is not None and "kept" not in self.options["without"] else [],
        "state_changes": audit.changes(state) if "audit" not in self.options["without"] else [],
        "odd": sorted(set(self.odd)),
      }
    }


def _apart(value, inputs):
  """The outputs of a call, with those that lie in its inputs' memory copied: the next call's contents would change them."""
  filled = {t.untyped_storage().data_ptr() for t in inputs}
  return tuple(
    v.clone() if type(v) is torch.Tensor and v.untyped_storage().data_ptr() in filled else v for v in compare.as_tuple(value)
  )


# ---- the reference's side

class Asking:
  """The channel to the candidate: one question, one answer, with the time that passed by this side's clock."""

  def __init__(self, channel, pid):
    self.channel, self.pid, self.number, self.seconds = channel, pid, 0, 0.0

  def ask(self, cmd, **fields):
    self.number += 1
    started = time.monotonic()
    try:
      self.channel.write({"v": protocol.VERSION, "id": self.number, "cmd": cmd, **fields})
      message = self.channel.read()
    except (OSError, WorkerError) as e:
      raise CandidateLost(str(e)) from e
    self.seconds = time.monotonic() - started
    if message is None:
      raise CandidateLost("it ended")
    if message.get("id") != self.number or not ({"done", "error"} & set(message)):
      raise CandidateLost("its answer is to no question")
    return message


def start_candidate(job, own_answers):
  """Forks the candidate; to be called before any device is touched. `own_answers`: the descriptor of this process's
  results, which the candidate must not have.
  """
  options = {**evaluate.DEFAULTS, "block": BLOCK, **job.get("options", {})}
  exchange = tempfile.mkdtemp(prefix="passnet-strict-")
  ours, theirs = socket.socketpair()
  parent, pid = os.getpid(), os.fork()
  if pid == 0:
    status = 1
    try:
      ours.close()
      with contextlib.suppress(OSError):
        os.close(own_answers)
      sandbox.die_with_parent(parent)
      os.environ["TRITON_CACHE_DIR"] = os.path.join(exchange, "triton")
      warm.write_built(os.environ["TRITON_CACHE_DIR"])
      Candidate(job, options, protocol.Channel(theirs.fileno(), theirs.fileno()), exchange).serve()
      status = 0
    finally:
      sys.stdout.flush()
      os._exit(status)
  theirs.close()
  return ours, pid, exchange


def evaluate_job(job, report, lock, candidate):
  """The one record of a strict job: a single compiler that loads passes. candidate: of start_candidate."""
  ours, pid, exchange = candidate
  options = {**evaluate.DEFAULTS, "block": BLOCK, **job.get("options", {})}
  asking = Asking(protocol.Channel(ours.fileno(), ours.fileno()), pid)
  try:
    return [_Reference(job, options, report, lock, asking, exchange).run()]
  finally:
    ours.close()
    with contextlib.suppress(OSError):
      os.kill(pid, 9)
    with contextlib.suppress(ChildProcessError):
      os.waitpid(pid, 0)
    shutil.rmtree(exchange, ignore_errors=True)


class _Reference:
  def __init__(self, job, options, report, lock, candidate, exchange):
    self.job, self.options, self.report = job, options, report
    self.candidate, self.exchange = candidate, exchange
    self.device = torch.device(options["device"])
    self.lock = lock(self.device) if callable(lock) else lock or device_lock.NoLock()
    self.rng = random.SystemRandom()
    self.started = time.monotonic()
    self.spec = job["compilers"][0]
    self.record = {
      "schema": record.SCHEMA, "variant": job.get("label") or job["variant"], "path": job["variant"],
      "compiler": self.spec["name"], "kind": self.spec.get("kind", self.spec["name"]), "protocol": "strict", "order": "strict",
      "warmup": options["warmup"], "trials": options["trials"], "device": options["device"],
      "hardware": record.hardware_name(self.device), "comparable": self.device.type == "cuda" and not options["side_by_side"], "torch": torch.__version__,
      "status": "failed",
    }

  def run(self):
    try:
      self._run()
    except CandidateLost as e:
      self.record.update(failed_in="process", error={"code": "crash", "message": f"the candidate's process was lost: {e}, {self._end()}", "type": "", "traceback": "", "remedy": ""})
    except Exception as e:  # noqa: BLE001 - the reference itself: the sample's or the surroundings' fault
      self.record.update(failed_in="eager", error=record.failure(e), eager={"ok": False, "error": record.failure(e)})
    self.record["seconds"] = round(time.monotonic() - self.started, 3)
    return self.record

  def _end(self):
    for _ in range(20):
      pid, status = os.waitpid(self.candidate.pid, os.WNOHANG)
      if pid:
        code = os.waitstatus_to_exitcode(status)
        return f"signal {-code}" if code < 0 else f"exit status {code}"
      time.sleep(0.05)
    return "still running"

  # -- one question whose error is the candidate's failure
  def _ask(self, phase, cmd, **fields):
    answer = self.candidate.ask(cmd, **fields)
    if "error" in answer:
      error = answer["error"] if isinstance(answer["error"], dict) else {"code": "candidate", "message": str(answer["error"])}
      if phase == "load":
        self.record.update(failed_in="load", error=error, skipped=answer.get("skipped", []))
      else:
        self.record.update(failed_in="compiled", phase=phase, compiled={"ok": False, "error": error})
      raise _Failed
    return answer["done"]

  def _draw(self, variant):
    """Inputs of the sample and of two more kinds: its own distribution with secret seeds, and live values."""
    variances = capture.running_variances(variant)
    named = [replay.public_inputs(variant)]
    bytes_each = sum(t.numel() * t.element_size() for t in named[0].values())
    count = CONTENTS if bytes_each <= LARGE else 2
    for i in range(1, count):
      seed = secrets.randbits(31)
      named.append(replay.live_inputs(variant, seed, variances) if i == 2 or count == 2 else replay.public_inputs(variant, seed=seed))
    if count == CONTENTS:
      named.append(self._but_for_an_element(named[1], named[3]))
    self.record["input_bytes"] = bytes_each
    self.live = min(2, count - 1)
    return named, (BUFFERS if bytes_each <= LARGE else 1)

  def _but_for_an_element(self, named, other):
    """A copy of some inputs with one element of each, beyond the first quarter, taken from others of the same kind."""
    out = {}
    for name, t in named.items():
      out[name] = t.clone()
      if t.numel() > 1:
        i = self.rng.randrange(t.numel() // 4, t.numel())
        out[name].view(-1)[i] = other[name].reshape(-1)[i]
    return out

  def _run(self):
    with contextlib.ExitStack() as stack:
      stack.enter_context(contextlib.suppress(_Failed))
      self._measure()
    if self.record["status"] != "success" and self.record.get("failed_in") == "process":
      return
    closing = self.candidate.ask("close").get("done")
    if not isinstance(closing, dict):
      raise CandidateLost("no closing account")
    odd = closing.pop("odd", [])
    self.record.update({k: closing.get(k, []) for k in ("graphs", "violations", "kept_tensors", "state_changes")})
    if odd:
      self.record.setdefault("other_calls", []).append({"call": "/".join(odd), "number": 0, "ok": False, "reason": "outputs differ between calls on the same contents"})

  def _measure(self):
    self.report({"phase": "load"})
    variant = samples.load_variant(self.job["variant"], self.job.get("label"))
    self.record["dtype"] = variant.dtype_name
    self.model = samples.build_model(variant, self.device.type)
    metas = samples.ordered_metas(variant, self.model)
    named, buffers = self._draw(variant)
    files = []
    for i, tensors in enumerate(named):
      files.append(f"in{i}.pt")
      torch.save([tensors[m.name] for m in metas], os.path.join(self.exchange, files[-1]))
    loaded = self._ask("load", "load", files=files, buffers=buffers)
    self.record.update(loaded=loaded["loaded"], skipped=loaded["skipped"])
    self.contents = [[tensors[m.name].to(self.device) for m in metas] for tensors in named]
    self.buffers = [[torch.empty_like(t) for t in self.contents[0]] for _ in range(buffers)]
    self.expected = [self._eager_once(i) for i in range(len(named))]
    again = self._eager_once(0)
    self.record["eager_equals_itself"] = all(r["ok"] for r in compare.compare_structures(self.expected[0], again))
    self.report({"phase": "compile", "compiler": self.spec["name"]})
    with self.lock.held(exclusive=False):
      self._ask("compile", "calls", plan=[[0, 0, True]])
    self.report({"phase": "lock"})
    with self.lock.held(exclusive=True):
      self.report({"phase": "time"})
      self._warm_up()
      self._rounds()
    self.report({"phase": "compare"})
    self._judge()

  def _random_pair(self):
    return [self.rng.randrange(len(self.contents)), self.rng.randrange(len(self.buffers))]

  def _warm_up(self):
    count = self.options["warmup"] - 1 + self.rng.randrange(EXTRA_CALLS + 1)
    self._ask("warm", "calls", plan=[[*self._random_pair(), True] for _ in range(count)])
    for _ in range(self.options["warmup"]):
      self._eager_call(*self._random_pair())

  def _eager_inputs(self, content, buffer):
    inputs = self.buffers[buffer]
    for t, value in zip(inputs, self.contents[content]):
      t.copy_(value)
    timing.synchronise(self.device)
    return inputs

  def _eager_call(self, content, buffer):
    return timing.timed_call(self.model, self._eager_inputs(content, buffer), self.device)

  def _eager_block(self, plan, times):
    """A block of this side; also what such a block takes beside the calls: the inputs' contents, and looking at the outputs
    as the candidate does."""
    started, looked = time.monotonic(), 0.0
    for i, (content, buffer) in enumerate(plan):
      value, host, on_device = self._eager_call(content, buffer)
      times["e2e_ms"].append(host)
      if on_device is not None:
        times["gpu_ms"].append(on_device)
      if i == 0:
        began = time.monotonic()
        record.agree(self.expected[content], value)
        timing.synchronise(self.device)
        looked = time.monotonic() - began
    beside = time.monotonic() - started - sum(times["e2e_ms"][-len(plan) :]) / 1e3
    self.beside.append(beside + looked * (len(plan) - 1))

  def _own_clock(self):
    """What this side's clock saw of the candidate's blocks, what the candidate claims of it and what such blocks take
    beside: of each the median of the blocks, which a busy machine does not move, times their number. None where the times
    say nothing, or the blocks are too few for a median to mean anything."""
    count = len(self.claims)
    if self.options["side_by_side"] or count < LEAST_BLOCKS:
      return None
    seen, claimed = (float(np.median([c[i] for c in self.claims])) * count for i in (0, 1))
    return {"seen": round(seen, 6), "claimed": round(claimed, 6), "beside": round(float(np.median(self.beside)) * count, 6)}

  def _eager_once(self, content):
    value = self._eager_call(content, 0)[0]
    return tuple(v.clone() if isinstance(v, torch.Tensor) else v for v in compare.as_tuple(value))

  def _rounds(self):
    """Alternating blocks; every round is kept, the slowest quiet one counts."""
    self.rounds, self.checks, self.claims, self.beside = [], [], [], []
    limit = evaluate.fluctuation_limit(self.options, self.device)
    for _ in range(max(1, self.options["rounds"])):
      mine, theirs = {"e2e_ms": [], "gpu_ms": []}, {"e2e_ms": [], "gpu_ms": []}
      done, turn = 0, 0
      while done < self.options["trials"]:
        count = min(self.options["block"], self.options["trials"] - done)
        for side in ("candidate", "eager") if turn % 2 == 0 else ("eager", "candidate"):
          plan = [self._random_pair() for _ in range(count)]
          if side == "candidate":
            got = self._ask("run", "block", plan=plan)
            if len(got.get("e2e", [])) != count or not all(isinstance(v, float) and v >= 0 for v in got["e2e"]):
              raise CandidateLost("its times are none")
            self.claims.append((self.candidate.seconds, sum(got["e2e"]) / 1e3))
            theirs["e2e_ms"] += got["e2e"]
            theirs["gpu_ms"] += got.get("gpu", [])
            self._check("timed", plan, self.rng.randrange(count))
          else:
            self._eager_block(plan, mine)
        done, turn = done + count, turn + 1
      self.rounds.append((mine, theirs))
      if all(timing.fluctuation(t[k]) <= limit for t in (mine, theirs) for k in ("e2e_ms", "gpu_ms")):
        break
    for kind, content in (("live", self.live), ("compared", 0)):
      plan = [[content, self.rng.randrange(len(self.buffers)), False]]
      self._ask("run", "calls", plan=plan)
      self.final = self._check(kind, plan, 0)

  def _check(self, kind, plan, index):
    """The outputs of one call, brought over and compared here."""
    content = plan[index][0]
    name = f"out{len(self.checks)}.pt"
    facts = self._ask("run", "write", call=index, file=name)["facts"]
    path = os.path.join(self.exchange, name)
    try:
      tensors = torch.load(path, weights_only=True)
    except Exception as e:  # noqa: BLE001
      raise CandidateLost(f"its outputs cannot be read: {type(e).__name__}") from e
    os.unlink(path)
    got = tuple(t.to(self.device) if isinstance(t, torch.Tensor) else t for t in tensors)
    results = compare.compare_structures(self.expected[content], got)
    for r, f in zip(results, facts):
      if isinstance(f, dict) and f.get("plain") is False:
        r.update(ok=False, reason="not a plain tensor")
    self.checks.append({"call": kind, "number": len(self.checks), "content": content, "ok": all(r["ok"] for r in results),
                        "reason": record.first_reason(results), "first_correct_t": record.first_correct_t(self.expected[content], got)})
    return got

  def _judge(self):
    limit = evaluate.fluctuation_limit(self.options, self.device)
    quiet = [r for r in self.rounds if all(timing.fluctuation(t[k]) <= limit for t in r for k in ("e2e_ms", "gpu_ms"))]
    for key, index in (("eager", 0), ("compiled", 1)):
      self.record[key] = {"ok": True, "rounds": [{"e2e": timing.statistics(r[index]["e2e_ms"]), "gpu": timing.statistics(r[index]["gpu_ms"]),
                                                  "fluctuation": [round(timing.fluctuation(r[index][k]), 4) for k in ("e2e_ms", "gpu_ms")]} for r in self.rounds]}
    self.record["own_clock"] = self._own_clock()
    if not quiet:
      error = {"code": "fluctuation", "message": f"Environment fluctuation detected in {len(self.rounds)} rounds. Please re-run the evaluation.", "type": "RuntimeError", "traceback": "", "remedy": ""}
      self.record.update(failed_in="compiled", phase="fluctuation", compiled={**self.record["compiled"], "ok": False, "error": error})
      return
    chosen = max(quiet, key=lambda r: np.median(r[1]["e2e_ms"]))
    for key, times in (("eager", chosen[0]), ("compiled", chosen[1])):
      self.record[key].update(e2e=timing.statistics(times["e2e_ms"]), gpu=timing.statistics(times["gpu_ms"]),
                              e2e_ms=[round(v, 6) for v in times["e2e_ms"]], gpu_ms=[round(v, 6) for v in times["gpu_ms"]])
    expected, got = self.expected[0], self.final
    eager, compiled = self.record["eager"], self.record["compiled"]
    for side, values in ((eager, expected), (compiled, got)):
      side["dtypes"] = [record.dtype_word(v) for v in values]
      side["shapes"] = [list(v.shape) if isinstance(v, torch.Tensor) else None for v in values]
    self.record.update(
      status="success",
      type_match=eager["dtypes"] == compiled["dtypes"],
      shape_match=eager["shapes"] == compiled["shapes"],
      outputs=compare.compare_structures(expected, got),
      first_correct_t=record.first_correct_t(expected, got),
    )
    # Any other content must be as right as the sample's own, up to the baseline.
    own = self.record["first_correct_t"]
    bar = max(compare.BASE_T, own if own is not None else 99)
    self.record["other_calls"] = [
      {**c, "ok": c["first_correct_t"] is not None and c["first_correct_t"] <= bar} for c in self.checks if c["call"] in ("timed", "live")
    ]
    self.record["live"] = {"first_correct_t": next(c["first_correct_t"] for c in self.checks if c["call"] == "live")}
    if self.record["type_match"] and all(isinstance(o, torch.Tensor) for o in expected):
      self.record["correctness"] = compare.public_correctness(expected, got)
    self.record["speedup_e2e"] = record.ratio(eager["e2e"]["median"], compiled["e2e"]["median"])
    if compiled["gpu"]:
      self.record["speedup_gpu"] = record.ratio(eager["gpu"]["median"], compiled["gpu"]["median"])
    n = self.options["block"]
    blocks = [[t["e2e_ms"][i : i + n] for i in range(0, len(t["e2e_ms"]), n)] for t in chosen]
    self.record["speedup_e2e_90"] = timing.ratio_interval(*blocks)


class _Failed(Exception):
  """The candidate failed; the record says how."""
