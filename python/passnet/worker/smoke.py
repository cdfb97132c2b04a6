"""The smoke command: the real path of a pass_dir on real variants, without a GPU where there is none.

Real torch.compile with the pass manager's backend; kernels interpreted on the CPU, launched natively on CUDA.
Per variant and input family: a poisoned call, a plain call, repeated calls with fresh inputs. Outputs,
mutated inputs and aliasing are compared with eager; wrapper outputs with array programs where the caller
gives them. What one run proves is said in `proven`; an interpreter run proves nothing about speed or about
the arithmetic of a device.
"""

import contextlib
import time
import traceback

import torch

from . import capture, compare, interpreter, pass_loader, pass_manager, poison, reference, replay, samples
from .errors import WorkerError, describe

DEFAULTS = {
  "poisoned": True,
  "plain": True,
  "repeats": 1,
  "families": ["sample", "live"],
  "device": "cpu",
  "seed": 1,
  "t": compare.BASE_T,
  "max_elements": 1 << 25,
  "program_sample": 0,
  "reference_points": 4096,
}


def command(request, progress, run=None):
  """smoke: {"sample" | "variants", "pass_dir", "const_pass_dir"?, "rejected"?, "options"?, "meta"?: {label:
  overrides}, "programs"?: {label: {pass: [array program per match]}}} -> {"variants": [...], "loaded",
  "skipped", "ok"}. run: another kind of VariantRun.
  """
  options = {**DEFAULTS, **request.get("options", {})}
  pairs = (
    samples.variant_dirs(request["sample"]) if "sample" in request else [(d, d) for d in request["variants"]]
  )
  wanted = request.get("labels")
  pairs = [p for p in pairs if not wanted or p[0] in wanted]
  results, out = [], {}
  with _kernels(options) as session, pass_loader.imported_as_pass_dir(request["pass_dir"]):
    passes = pass_loader.load(request["pass_dir"], request.get("const_pass_dir"), request.get("rejected"))
    out.update(loaded=[p.name for p in passes.passes], skipped=passes.skipped)
    for i, (label, path) in enumerate(pairs):
      started = time.monotonic()
      try:
        variant = samples.load_variant(path, label, request.get("meta", {}).get(label))
        result = (run or VariantRun)(
          variant, passes, options, request.get("programs", {}).get(label, {}), session
        ).run()
      except Exception as e:  # noqa: BLE001 - one bad variant is one bad entry
        result = {"ok": False, "error": describe(e)}
      results.append({"label": label, **result, "seconds": round(time.monotonic() - started, 3)})
      progress({"variant": label, "done": i + 1, "of": len(pairs), "ok": results[-1]["ok"]})
  return {
    **out,
    "variants": results,
    "ok": bool(results) and all(r["ok"] for r in results),
    "device": options["device"],
  }


def _kernels(options):
  if torch.device(options["device"]).type == "cpu":
    return interpreter.Session(sample=options["program_sample"], seed=options["seed"])
  return contextlib.nullcontext()


class VariantRun:
  def __init__(self, variant, passes, options, programs, session):
    self.variant, self.passes, self.options = variant, passes, options
    self.programs, self.session = programs, session
    self.first_launch = len(session.launches) if session is not None else 0
    self._answered = None  # ((family, seed), outputs, inputs afterwards) of the last eager run
    self._stable = {}  # family -> eager equals itself
    self.device = torch.device(options["device"])
    self.wrapper_calls = []

  def run(self):
    elements = sum(_numel(m.shape) for m in self.variant.metas)
    if elements > self.options["max_elements"]:
      raise WorkerError(
        "too_large",
        f"{elements} input elements, the limit is {self.options['max_elements']}",
        "give shrunk tensor descriptions in `meta`, or raise max_elements",
      )
    self.model = samples.build_model(self.variant, self.device.type)
    self.metas = samples.ordered_metas(self.variant, self.model)
    if "live" in self.options["families"]:
      self._variances()
    torch._dynamo.reset()
    self.backend = pass_manager.PassBackend(self.passes, device="cpu" if self.device.type == "cpu" else None)
    if self.programs:
      self.backend.before, self.backend.observer = self._before, self._observe
    self.compiled = torch.compile(self.model, backend=self.backend)
    calls = []
    for number, (family, mode, seed) in enumerate(self._plan()):
      calls.append(self._call(family, mode, seed))
      if "error" in calls[-1] and number == 0:
        break  # nothing was compiled: every further call fails alike
    ok = all(c["ok"] for c in calls)
    out = {
      "ok": ok,
      "graphs": self.backend.records,
      "calls": calls,
      "violations": sorted({v for c in calls for v in c.get("violations", [])}),
      "worst": _worst(calls),
      "shrunk": self.variant.shrunk,
      "degenerate_only": _degenerate_only(calls),
      "proven": self._proven(calls, ok),
    }
    if self.session is not None:
      out["launches"] = self._launches()[:64]
    return out

  def _launches(self):
    return self.session.launches[self.first_launch :] if self.session is not None else []

  def _plan(self):
    """(family, mode, seed) of each call; the first is poisoned when asked for, as in the harness' warm-up."""
    o = self.options
    for family in o["families"]:
      if o["poisoned"]:
        yield family, "poisoned", o["seed"]
      if o["plain"]:
        yield family, "plain", o["seed"]
      # The sample's own inputs are the same for every seed: repeating them says nothing that the live ones do not.
      if family == "sample" and "live" in o["families"]:
        continue
      for i in range(o["repeats"]):
        yield family, "plain", o["seed"] + 1 + i

  def _inputs(self, family, seed):
    if family == "sample":
      named = replay.public_inputs(self.variant, self.device)
    else:
      named = replay.live_inputs(self.variant, seed, self._variances(), self.device)
    return [named[m.name] for m in self.metas]

  def _variances(self):
    if not hasattr(self, "_variance_names"):
      self._variance_names = capture.running_variances(self.variant)
    return self._variance_names

  def _eager(self, inputs):
    torch.manual_seed(1024)
    return self.model(*inputs)

  def _call(self, family, mode, seed):
    out = {"family": family, "mode": mode, "seed": seed, "ok": False}
    base = self._inputs(family, seed)
    mine = [t.clone() for t in base]
    try:
      # The poisoned and the first plain call see the same inputs: eager has answered already.
      if self._answered is None or self._answered[0] != (family, seed):
        eager_in = [t.clone() for t in base]
        self._answered = ((family, seed), self._eager(eager_in), eager_in)
      _, expected, eager_in = self._answered
      if family not in self._stable:
        again = self._eager([t.clone() for t in base])
        self._stable[family] = all(
          r["ok"] for r in compare.compare_structures(expected, again, self.options["t"])
        )
    except Exception as e:  # noqa: BLE001
      out["error"] = {
        **describe(e),
        "code": "eager_failed",
        "remedy": "the model itself fails on these inputs",
      }
      return out
    if not self._stable[family]:
      out["error"] = {
        "code": "eager_unstable",
        "message": f"eager does not equal itself on two copies of the {family} inputs",
        "remedy": "nothing can be proven by comparison on these inputs",
      }
      return out
    out["eager_finite"] = all(
      bool(torch.isfinite(t).all())
      for t in compare.as_tuple(expected)
      if isinstance(t, torch.Tensor) and t.is_floating_point()
    )
    self.backend.poisoned = mode == "poisoned"
    self.backend.start_call()
    self.wrapper_calls = []
    poison.clear_violations()
    try:
      torch.manual_seed(1024)
      got = self.compiled(*mine)
      if self.device.type == "cuda":
        torch.cuda.synchronize()
    except Exception as e:  # noqa: BLE001
      inner = pass_manager.innermost(e)
      out["error"] = {
        **describe(inner),
        "traceback": "".join(traceback.format_exception(type(inner), inner, inner.__traceback__)[-12:]),
      }
      out["violations"] = list(poison.violations)
      return out
    finally:
      if self.session is not None:
        self.session.memory.clear()
    out["violations"] = list(poison.violations) + pass_loader.kept_tensors(self.passes)
    self._compare(out, expected, got, eager_in, mine)
    return out

  def _compare(self, out, expected, got, eager_in, mine):
    t = self.options["t"]
    sampled = bool(self.options["program_sample"]) and any(l["ran"] < l["programs"] for l in self._launches())
    if not sampled:
      out["outputs"] = compare.compare_structures(expected, got, t)
      out["inputs"] = [
        {"name": m.name, **r}
        for m, e, g in zip(self.metas, eager_in, mine)
        for r in [compare.compare_tensors(e, g, t)]
        if not r["ok"]
      ]
      want, have = compare.alias_relation(eager_in, expected), compare.alias_relation(mine, got)
      if want != have:
        out["alias"] = {"eager": want, "compiled": have}
        # Sharing that eager does not have shows a caller writes it cannot expect. A copy where eager has a view is
        # what a pass over a view gives; the harness compares values only, and the difference stays in the record.
        out["alias_added"] = sorted(set(have) - set(want))
    out["sampled"] = sampled
    out["wrappers"] = self.wrapper_calls
    decided = [w["ok"] for w in self.wrapper_calls if "ok" in w]
    outputs_ok = all(r["ok"] for r in out.get("outputs", [])) and not out.get("inputs")
    if not outputs_ok and self._reference_rules() and self._near(expected, got, eager_in, mine):
      # CPU eager and CUDA eager differ in their last bits: where every wrapper agrees with the CUDA
      # reference, that is what counts.
      out["note"] = (
        "differs from CPU eager; every wrapper output agrees with the CUDA reference, which decides"
      )
      outputs_ok = True
    out["ok"] = outputs_ok and not out.get("alias_added") and not out["violations"] and (not decided or all(decided))

  def _near(self, expected, got, eager_in, mine):
    return _close_enough(expected, got) and _close_enough(eager_in, mine)

  def _reference_rules(self):
    """Every wrapper call either agrees with its program or hands back memory that it was given."""
    return any(w.get("ok") for w in self.wrapper_calls) and all(
      w.get("ok", w["identity"]) for w in self.wrapper_calls
    )

  # -- wrapper outputs against array programs
  def _program(self, name, ordinal):
    programs = self.programs.get(name)
    if isinstance(programs, list):
      return programs[ordinal] if ordinal < len(programs) else None
    return programs

  def _before(self, name, ordinal, args):
    self._saved = (
      [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
      if self._program(name, ordinal)
      else None
    )

  def _observe(self, name, ordinal, args, result):
    given = [a for a in args if isinstance(a, torch.Tensor)]
    entry = {
      "pass": name,
      "ordinal": ordinal,
      "identity": bool(compare.alias_relation(given, result))
      and len({r.split("=")[0] for r in compare.alias_relation(given, result) if "=in" in r})
      == len(compare.as_tuple(result)),
    }
    self.wrapper_calls.append(entry)
    program = self._program(name, ordinal)
    if program is None:
      return
    try:
      tensors = [a for a in self._saved if isinstance(a, torch.Tensor)]
      values = compare.as_tuple(result)
      entry["outputs"] = [
        self._against_reference(program, k, tensors, v)
        for k, v in enumerate(values)
        if isinstance(v, torch.Tensor)
      ]
      entry["ok"] = all(o["ok"] for o in entry["outputs"])
    except Exception as e:  # noqa: BLE001
      entry.update(ok=False, error=describe(e))

  def _against_reference(self, program, k, tensors, value):
    written = None
    if self.session is not None and self.session.memory.record_stores:
      written = torch.from_numpy(self.session.memory.written_mask(value).copy())
    got = reference.compare_output(
      program,
      k,
      tensors,
      value,
      self.options["t"],
      written,
      self.options["reference_points"],
      self.options["seed"],
    )
    return got

  def _proven(self, calls, ok):
    on = "GPU" if self.device.type == "cuda" else "interpreter on the CPU"
    done = [c for c in calls if "error" not in c]
    if not ok:
      return {}
    said = {
      "structure": "torch.compile on the CPU" if self.device.type == "cpu" else "torch.compile on the GPU",
      "numerics": on,
    }
    if any(c["mode"] == "poisoned" for c in done):
      said["poison"] = on
    if self.variant.shrunk:
      said["numerics"] += ", shrunk shapes"
    if any(c.get("sampled") for c in done):
      said["numerics"] += ", a sample of the programs"
    return said


def _degenerate_only(calls):
  """Right on the sample's own inputs and wrong on live ones: the pass needs the degenerate data."""
  by_family = {f: [c["ok"] for c in calls if c["family"] == f] for f in ("sample", "live")}
  return bool(
    by_family["sample"] and all(by_family["sample"]) and by_family["live"] and not all(by_family["live"])
  )


LOOSE_T = -1


def _close_enough(expected, got):
  """Agreement to a rough tolerance: two ways to round differ by no more, a wrong program does."""
  return all(r["ok"] for r in compare.compare_structures(expected, got, LOOSE_T))


def _numel(shape):
  n = 1
  for s in shape:
    n *= s
  return n


def _worst(calls):
  """The largest difference and the most failing elements over all outputs of all calls."""
  outputs = [o for c in calls for o in c.get("outputs", []) if "max_abs_diff" in o]
  if not outputs:
    return None
  bad = max(outputs, key=lambda o: (o["outside"], o["max_abs_diff"]))
  return {
    "max_abs_diff": max(o["max_abs_diff"] for o in outputs),
    "outside": bad["outside"],
    **({"first_bad": bad["first_bad"]} if "first_bad" in bad else {}),
  }
