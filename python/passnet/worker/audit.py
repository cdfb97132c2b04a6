"""What a pass has no business to change: process-wide settings and the functions that a measurement rests on.

A snapshot is taken before anything of a pass is loaded and compared afterwards; a function counts as changed when
another object stands at its name, or when its code was exchanged underneath it.
"""

import builtins
import os
import sys
import time

import numpy
import torch

from . import compare, device_lock, pass_manager, poison, rounds, samples, timing

_FLAGS = {
  "default dtype": torch.get_default_dtype,
  "deterministic algorithms": torch.are_deterministic_algorithms_enabled,
  "float32 matmul precision": torch.get_float32_matmul_precision,
  "intra-op threads": torch.get_num_threads,
  "gradient mode": torch.is_grad_enabled,
  "autocast": lambda: (torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda")),
  "tf32 of matmul": lambda: torch.backends.cuda.matmul.allow_tf32,
  "16-bit reductions": lambda: (
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction,
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction,
  ),
  "cudnn": lambda: (
    torch.backends.cudnn.enabled,
    torch.backends.cudnn.benchmark,
    torch.backends.cudnn.deterministic,
    torch.backends.cudnn.allow_tf32,
  ),
  "attention kernels": lambda: (
    torch.backends.cuda.flash_sdp_enabled(),
    torch.backends.cuda.mem_efficient_sdp_enabled(),
    torch.backends.cuda.math_sdp_enabled(),
  ),
}

_OWNERS = (
  (time, "time perf_counter perf_counter_ns monotonic sleep"),
  (torch, "allclose equal isfinite abs compile empty empty_like zeros full as_tensor"),
  (torch.Tensor, "__eq__ __sub__ abs all clone data_ptr float max mean sum to is_floating_point shape"),
  (torch.cuda, "synchronize Event is_available empty_cache current_stream memory_allocated"),
  (torch.cuda.Event, "record elapsed_time synchronize"),
  (numpy, "median percentile asarray"),
  (builtins, "print open len sum sorted isinstance zip min max"),
  (os, "write read _exit"),
  (sys, "exit settrace setprofile"),
  (timing, "timed_call statistics synchronise ratio_interval fluctuation threshold _now _seed _synchronize"),
  (rounds, "turns own_round common_round alike_turns of_turns"),
  (compare, "compare_tensors compare_structures public_correctness tolerance"),
  (poison, "guarded_call wrap unwrap violations PosionDispatchTensor PlainTensorGuard"),
  (pass_manager, "apply_pass find_matches PassBackend"),
  (pass_manager.PassBackend, "__call__ _wrapper start_call"),
  (samples, "build_model load_variant"),
  (device_lock, "DeviceLock"),
)


def _identity(value):
  code = getattr(value, "__code__", None)
  return (id(value), id(code) if code is not None else None)


def snapshot():
  """{name: value} of all settings and functions that are watched."""
  state = {}
  for name, read in _FLAGS.items():
    try:
      state[name] = read()
    except Exception as e:  # noqa: BLE001 - a setting that this torch does not have
      state[name] = type(e).__name__
  for owner, names in _OWNERS:
    for name in names.split():
      if name in vars(owner) or hasattr(owner, name):
        holder = vars(owner).get(name, getattr(owner, name))
        state[f"{owner.__name__}.{name}"] = _identity(holder)
  return state


def changes(before, after=None):
  """Names whose value is not what it was."""
  after = snapshot() if after is None else after
  return sorted(name for name, value in before.items() if after.get(name) != value)
