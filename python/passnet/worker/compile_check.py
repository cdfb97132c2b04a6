"""The compile command: kernels of a pass_dir to machine code for named targets, with no device.

Says per kernel and target: registers, spills, shared memory, the width of each global access, and how many
fused multiply-adds the machine code holds, so that a contraction nobody wrote can be found.
"""

import ast
import collections
import os
import re
import subprocess
import tempfile
import time

import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from . import interpreter, pass_loader
from .errors import WorkerError, describe

DEFAULT_TARGETS = (80, 86, 90)
# Largest dynamic shared memory of one block, bytes (CUDA programming guide, table of compute capabilities).
SHARED_LIMIT = {
  70: 98304,
  75: 65536,
  80: 166912,
  86: 101376,
  87: 166912,
  89: 101376,
  90: 232448,
  100: 232448,
  120: 101376,
}


def command(request, progress):
  """compile: {"pass_dir", "kernels": [entry], "targets"?, "enable_fp_fusion"?} -> {"kernels": [...]}.

  entry: {"kernel", "pointer_dtypes": ["*fp32", ...], "constants": [[name, Python literal], ...],
  "num_warps"?, "num_stages"?, "aligned"?: true} or with "signature": {parameter: type} in place of
  pointer_dtypes; "aligned" may be a list of parameter names.
  """
  targets = [int(t) for t in request.get("targets", DEFAULT_TARGETS)]
  out = []
  with interpreter.driver_without_device(), pass_loader.imported_as_pass_dir(request["pass_dir"]):
    module = _module(request["pass_dir"], request.get("module", "_shared_kernels"))
    for i, entry in enumerate(request["kernels"]):
      result = {k: entry[k] for k in ("kernel", "route", "pass", "entry") if k in entry}
      result["targets"] = {}
      for target in targets:
        started = time.monotonic()
        try:
          found = compile_entry(module, entry, target, request.get("enable_fp_fusion", False))
        except Exception as e:  # noqa: BLE001 - a kernel that does not compile is a finding
          found = {"ok": False, "error": describe(e, with_traceback=False)}
        result["targets"][f"sm_{target}"] = {**found, "seconds": round(time.monotonic() - started, 3)}
      result["ok"] = all(t["ok"] for t in result["targets"].values())
      out.append(result)
      progress({"done": i + 1, "of": len(request["kernels"])})
  return {"kernels": out, "ok": all(k["ok"] for k in out)}


def _module(pass_dir, name):
  import importlib

  file = os.path.join(pass_dir, name + ".py")
  if not os.path.exists(file):
    raise WorkerError("module_missing", f"{file} does not exist", "")
  return importlib.import_module(f"{pass_loader.PACKAGE}.{name}")


def _constant(text):
  if not isinstance(text, str):
    return text
  value = text.strip()
  found = re.fullmatch(r"float\(['\"](-?(?:inf|nan))['\"]\)", value)
  if found:
    return float(found.group(1))
  if re.fullmatch(r"tl\.\w+", value):
    return getattr(triton.language, value[3:])
  try:
    return ast.literal_eval(value)
  except (ValueError, SyntaxError) as e:
    raise WorkerError("constant", f"{text!r} is no Python literal", "") from e


def _source(module, entry):
  function = getattr(module, entry["kernel"], None)
  if not hasattr(function, "arg_names"):
    raise WorkerError("kernel_missing", f"{module.__file__} defines no kernel {entry['kernel']}", "")
  constants = {name: _constant(text) for name, text in entry.get("constants", [])}
  names = function.arg_names
  unknown = [n for n in constants if n not in names]
  rest = [n for n in names if n not in constants]
  types = entry.get("signature")
  if types is None:
    types = dict(zip(rest, entry["pointer_dtypes"]))
    if len(rest) != len(entry["pointer_dtypes"]):
      unknown.append(f"{len(entry['pointer_dtypes'])} pointer types for {rest}")
  if unknown or any(n not in types for n in rest):
    raise WorkerError(
      "signature",
      f"{entry['kernel']}{tuple(names)}: the entry does not fit ({unknown or [n for n in rest if n not in types]})",
      "",
    )
  signature = {n: "constexpr" if n in constants else types[n] for n in names}
  aligned = entry.get("aligned", True)
  attributes = {
    (i,): [["tt.divisibility", 16]]
    for i, n in enumerate(names)
    if signature[n].startswith("*") and (aligned is True or (isinstance(aligned, list) and n in aligned))
  }
  return ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes)


def compile_entry(module, entry, target, enable_fp_fusion=False):
  options = {
    "num_warps": entry.get("num_warps", 4),
    "num_stages": entry.get("num_stages", 1),
    "enable_fp_fusion": entry.get("enable_fp_fusion", enable_fp_fusion),
  }
  compiled = triton.compile(_source(module, entry), target=GPUTarget("cuda", target, 32), options=options)
  out = {"ok": True, "findings": [], "shared": compiled.metadata.shared, **_ptx_facts(compiled.asm["ptx"])}
  out.update(_machine_facts(compiled.asm["cubin"]))
  limit = SHARED_LIMIT.get(target, 101376)
  if out["shared"] > limit:
    out.update(ok=False, reason=f"{out['shared']} bytes of shared memory, a block of sm_{target} has {limit}")
    out["findings"].append({"code": "shared_over_limit", "message": out["reason"]})
  out["spills"] = out.get("spill_bytes", 0)
  if out["spills"]:
    out["findings"].append(
      {"code": "spills", "message": f"{out['spill_bytes']} bytes of registers spilled per thread"}
    )
  return out


_ACCESS = re.compile(r"\b(ld|st)\.global((?:\.[\w:]+)*?)(?:\.v(\d))?\.[busf](\d+)\b")


def _ptx_facts(ptx):
  """Bytes per thread and instruction of global accesses, and arithmetic counts, as PTX has them."""
  widths = {"ld": collections.Counter(), "st": collections.Counter()}
  for kind, _, vector, bits in _ACCESS.findall(ptx):
    widths[kind][int(vector or 1) * int(bits) // 8] += 1
  count = lambda pattern: len(re.findall(pattern, ptx))  # noqa: E731
  return {
    "loads": {str(k): v for k, v in sorted(widths["ld"].items())},
    "stores": {str(k): v for k, v in sorted(widths["st"].items())},
    "ptx_fma": count(r"\bfma\.rn(?:\.ftz)?\.f32\b"),
    "ptx_mma": count(r"\b(?:mma\.sync|wgmma\.mma_async)\b"),
    "ptx_approx": count(r"\b(?:ex2|lg2|rcp|rsqrt|sqrt|sin|cos|div|tanh)\.(?:approx|full)"),
  }


def _machine_facts(cubin):
  """Registers and spills from the binary's resource table, fused multiply-adds from its disassembly."""
  tool = knobs.nvidia.cuobjdump.path
  with tempfile.NamedTemporaryFile(suffix=".cubin") as f:
    f.write(cubin)
    f.flush()
    usage = _run([tool, "-res-usage", f.name])
    sass = _run([tool, "-sass", f.name])
  out = {}
  found = re.search(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)", usage or "")
  if found:
    out.update(
      registers=int(found.group(1)),
      stack_bytes=int(found.group(2)),
      spill_bytes=int(found.group(4)) or int(found.group(2)),
    )
  if sass is not None:
    out.update(
      sass_ffma=len(re.findall(r"\bFFMA\b", sass)),
      sass_fmul=len(re.findall(r"\bFMUL\b", sass)),
      sass_fadd=len(re.findall(r"\bFADD\b", sass)),
      sass_local=len(re.findall(r"\b(?:LDL|STL)\b", sass)),
      instructions=len(re.findall(r"/\*[0-9a-f]{4,}\*/\s+\S", sass)),
    )
    widths = collections.Counter(
      int(w or 32) // 8
      for w in re.findall(
        r"\bLDG\.E(?:\.\w+)*?(?:\.(128|64|U16|S16|U8|S8))?\b", re.sub(r"\.[US](16|8)\b", "", sass)
      )
    )
    out["sass_loads"] = {str(k): v for k, v in sorted(widths.items())}
  if out.get("sass_local") == 0:
    out["spill_bytes"] = 0  # a stack frame without local accesses is no spill (libdevice's slow paths aside)
  return out


def _run(argv):
  try:
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout
  except (OSError, subprocess.SubprocessError):
    return None
