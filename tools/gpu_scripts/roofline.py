#!/usr/bin/env python3
"""How close the kernels come to what the machine allows, on inputs of 64 MB and more: a row per class, shape and dtype.

  roofline.py run --passnet PASSNET -o roofline.json [--seconds 240] [--only TEXT,...] [--dtypes float32,float16,bfloat16] [--no-compile]
  roofline.py merge RECORD... -o FILE     records of runs of parts as one; of two rows for one case the later record's stands

Each case is one operator class as a sample, solved by PASSNET without a pre-flight and met in the real path. The bound of a
kernel is the longer of two times: its bytes (every input and output once) at the bandwidth of a large copy measured in the same
run; and its instructions, counted in the machine code where that has no loop, at one a clock for each of the four schedulers of
a multiprocessor. Times are device times by events with a cold cache, next to eager and torch.compile's default mode, all three in
turn. `share` is bound over time. Every region is compared with eager at t = -5 on the sample's and on live inputs.

Without a GPU nothing is timed, and small shapes are interpreted.
"""

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile

import torch

import common
import regions
import tune

from passnet.worker import interpreter, pass_manager

# class: the share of the bound that it must reach. Then its cases: name, statements, {input: shape}; `R` divides the first extent
# of every input on a machine without a GPU.
WANTED = {"pointwise": 0.85, "row": 0.85, "cat": 0.85, "broadcast": 0.85, "spatial": 0.75, "depthwise": 0.75}
CASES = [
  ("pointwise", "add_relu_mul", ["a = x + y", "b = torch.relu(a)", "c = b * 0.5"], {"x": (64, 256, 56, 56), "y": (64, 256, 56, 56)}),
  ("pointwise", "gelu_add", ["a = torch.nn.functional.gelu(x)", "c = a + y"], {"x": (32, 1024, 1536), "y": (32, 1024, 1536)}),
  ("pointwise", "silu_mul", ["a = torch.nn.functional.silu(x)", "c = a * y"], {"x": (16, 2048, 2048), "y": (16, 2048, 2048)}),
  ("row", "layer_norm", ["a = x + y", "c = torch.nn.functional.layer_norm(a, (768,), w, b, 1e-06)"],
   {"x": (128, 512, 768), "y": (128, 512, 768), "w": (768,), "b": (768,)}),
  ("row", "softmax", ["a = x * 0.125", "c = torch.nn.functional.softmax(a, -1)"], {"x": (32, 16, 256, 256)}),
  ("row", "long_softmax", ["a = x + y", "c = torch.nn.functional.softmax(a, -1)"], {"x": (16, 8, 256, 2048), "y": (16, 1, 256, 2048)}),
  ("cat", "channels", ["a = torch.relu(x)", "c = torch.cat([a, y], 1)"], {"x": (64, 192, 56, 56), "y": (64, 64, 56, 56)}),
  ("cat", "last", ["c = torch.cat([x, y], -1)"], {"x": (64, 1024, 512), "y": (64, 1024, 256)}),
  ("broadcast", "gate", ["a = torch.sigmoid(g)", "c = x * a"], {"x": (64, 256, 56, 56), "g": (64, 256, 1, 1)}),
  ("broadcast", "bias_row", ["a = x + b", "c = torch.relu(a)"], {"x": (64, 1024, 768), "b": (768,)}),
  ("broadcast", "norm_relu", ["a = torch.nn.functional.batch_norm(x, m, v, w, b, False, 0.1, 1e-05)", "c = torch.relu(a)"],
   {"x": (64, 256, 56, 56), "m": (256,), "v": (256,), "w": (256,), "b": (256,)}),
  ("spatial", "mean", ["a = x.mean((2, 3), keepdim = True)", "c = a * 2.0"], {"x": (128, 256, 56, 56)}),
  ("spatial", "pool", ["a = torch.relu(x)", "c = torch.nn.functional.adaptive_avg_pool2d(a, 1)"], {"x": (256, 512, 28, 28)}),
  ("depthwise", "3x3", ["c = torch.conv2d(x, w, None, (1, 1), (1, 1), (1, 1), 256)"], {"x": (64, 256, 56, 56), "w": (256, 1, 3, 3)}),
  ("depthwise", "3x3_stride_2", ["c = torch.conv2d(x, w, None, (2, 2), (1, 1), (1, 1), 128)"], {"x": (64, 128, 112, 112), "w": (128, 1, 3, 3)}),
  ("depthwise", "7x7", ["c = torch.conv2d(x, w, None, (1, 1), (3, 3), (1, 1), 192)"], {"x": (128, 192, 28, 28), "w": (192, 1, 7, 7)}),
]


def write_case(folder, dtype, statements, inputs, on_gpu):
  """One sample of one variant; its graph returns the last value only."""
  variant = os.path.join(folder, dtype, "0")
  os.makedirs(variant)
  body = "\n".join(f"        {s}" for s in statements)
  with open(os.path.join(variant, "model.py"), "w") as f:
    f.write(f"import torch\n\nclass GraphModule(torch.nn.Module):\n\n    def forward(self, {', '.join(inputs)}):\n{body}\n        return (c,)\n")
  with open(os.path.join(variant, "weight_meta.py"), "w") as f:
    for name, shape in inputs.items():
      extents = list(shape) if on_gpu or len(shape) < 3 or name == "w" else [1, *shape[1:]]
      kind = "positive" if name == "v" else "plain"
      f.write(f'class Program_weight_tensor_meta_{name}:\n\tname = "{name}"\n\tshape = {extents}\n\tdtype = "torch.{dtype}"\n\tdevice = "cuda:0"\n'
              f"\tmean = {1.0 if kind == 'positive' else 0.0}\n\tstd = {0.1 if kind == 'positive' else 1.0}\n\n")
  with open(os.path.join(folder, "graph_list.txt"), "w") as f:
    f.write(f"{dtype}/0\n")


# An instruction of the disassembler: an address and text; a branch back to an address that has been seen is a loop.
LINE = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)\s*([^;]*);")


def instructions(cubin):
  """(instructions up to the last EXIT, whether a loop is among them), or None where no disassembler is there."""
  import triton
  tool = os.path.join(os.path.dirname(triton.__file__), "backends", "nvidia", "bin", "nvdisasm")
  if not os.path.exists(tool):
    return None
  with tempfile.NamedTemporaryFile(suffix=".cubin") as f:
    f.write(cubin)
    f.flush()
    done = subprocess.run([tool, "-c", f.name], capture_output=True, text=True)
  if done.returncode:
    return None
  labels, count, loop, end = {}, 0, False, 0
  for line in done.stdout.splitlines():
    label = re.match(r"\s*(\.L_x_\d+):", line)
    if label:
      labels[label[1]] = count
      continue
    found = LINE.search(line)
    if not found:
      continue
    count += 1
    if found[2].startswith("EXIT"):
      end = count
    target = re.search(r"(\.L_x_\d+)", found[3])
    # The padding after the end branches to itself.
    if found[2].startswith("BRA") and target and labels.get(target[1], count) < count - 1:
      loop = True
  return end or count, loop


def issue_us(launches):
  """Time that the instructions alone need, or None where a kernel has a loop or cannot be read."""
  properties = torch.cuda.get_device_properties(0)
  total = 0.0
  for launch in launches:
    compiled = launch.kernel[(launch.grid,)](*launch.tensors, *launch.constants.values(), num_warps=launch.warps, num_stages=launch.stages,
                                             enable_fp_fusion=False)
    found = instructions(compiled.asm["cubin"])
    if found is None or found[1]:
      return None
    total += found[0] * launch.warps * launch.grid / (4 * properties.multi_processor_count)
  return round(total / clock_khz() * 1e3, 2)


def clock_khz():
  """The multiprocessors' highest clock."""
  rate = getattr(torch.cuda.get_device_properties(0), "clock_rate", None)
  if rate:
    return rate
  done = subprocess.run(["nvidia-smi", "--query-gpu=clocks.max.sm", "--format=csv,noheader,nounits", "-i", "0"], capture_output=True, text=True)
  return float(done.stdout.split()[0]) * 1e3


def in_turn_us(calls, rounds=3):
  """Device times of several calls: the median of rounds in which each has its turn."""
  seen = {name: [] for name in calls}
  for _ in range(rounds):
    for name, call in calls.items():
      seen[name].append(regions.device_us(call))
  return {name: sorted(times)[rounds // 2] for name, times in seen.items()}


def measure(loaded, values, bandwidth, with_compile):
  eager, wrapper = regions.eager_of(loaded), loaded.function
  mine = values[:-1]
  total = regions.bytes_of(regions.tensors_of(values) + regions.tensors_of(regions.compare.as_tuple(wrapper(*values))))
  launches = tune.launches_of(loaded, values)
  wrapper(*values)
  calls = {"us": lambda: wrapper(*values), "eager_us": lambda: eager(*mine)}
  if with_compile:
    torch._dynamo.reset()
    compiled = torch.compile(eager)
    calls["inductor_us"] = lambda: compiled(*mine)
  out = {"bytes": total, **in_turn_us(calls), "bytes_us": round(total / bandwidth * 1e6, 2), "issue_us": issue_us(launches),
         "kernels": [[launch.kernel.fn.__name__, launch.grid, launch.warps, {k: str(v) for k, v in launch.constants.items()}] for launch in launches]}
  out["bound_us"] = max(out["bytes_us"], out["issue_us"] or 0)
  out["share"] = round(out["bound_us"] / out["us"], 3)
  return out


def run_case(args, kind, name, dtype, statements, inputs, folder, bandwidth):
  write_case(folder, dtype, statements, inputs, torch.cuda.is_available())
  done = subprocess.run([args.passnet, "solve", folder, "--no-preflight-run", "--no-gpu", "--quiet", "--json"], capture_output=True, text=True)
  entry = {"class": kind, "case": name, "dtype": dtype, "wanted": WANTED[kind]}
  if not os.path.exists(os.path.join(folder, "pass_dir", "sorted_output_pass_rule_names.json")):
    return {**entry, "failed": (done.stdout + done.stderr)[-300:]}
  meetings = regions.Meetings(folder, os.path.join(folder, dtype, "0"), f"{dtype}/0")
  wrong = 0
  for family in regions.FAMILIES:
    met = list(meetings.meet(family).items())
    for (met_name, _), values in met:
      wrong += regions.judge(meetings.passes[met_name], values)["outside"]
    if family == "live" and torch.cuda.is_available() and len(met) == 1:
      entry.update(measure(meetings.passes[met[0][0][0]], met[0][1], bandwidth, args.compile))
    entry["passes"] = [key[0] for key, _ in met]
  return {**entry, "outside": wrong}


def line_of(e):
  head = f"{e['class']:10s} {e['case']:14s} {e['dtype']:9s}"
  if "failed" in e:
    return f"{head} {e['failed'][:200]}"
  if "us" not in e:
    return f"{head} {e['outside']} outside, {', '.join(e['passes'])}"
  return (f"{head} {e['bytes'] / 1e6:7.0f} MB {e['us']:8.1f} us, eager {e['eager_us']:8.1f}, inductor {e.get('inductor_us', 0):8.1f}, bytes "
          f"{e['bytes_us']:7.1f}, issue {e['issue_us'] or 0:7.1f}, share {e['share']:.2f} of {e['wanted']}, {e['outside']} outside")


def merge(args):
  rows, runs, machines = {}, [], []
  for path in args.records:
    with open(path, encoding="utf-8") as f:
      document = json.load(f)
    for row in document["rows"]:
      rows[row["class"], row["case"], row["dtype"]] = row
    machines.append({k: document["machine"][k] for k in ("gpu", "torch", "triton", "cuda", "cudnn", "python")})
    # What was run, not where.
    runs.append({"date": document["date"], "command": re.sub(r" (-o|--passnet) \S+", "", document["command"]),
                 "copy_bytes_per_s": document["copy_bytes_per_s"]})
  if any(m != machines[0] for m in machines):
    print("roofline: the records are of different machines")
    return 2
  order = {(kind, name): i for i, (kind, name, _, _) in enumerate(CASES)}
  sorted_rows = sorted(rows.values(), key=lambda r: (order.get((r["class"], r["case"]), 99), r["dtype"]))
  with open(args.output, "w", encoding="utf-8") as f:
    json.dump({"schema": "passnet.roofline/1", "machine": machines[0], "runs": runs, "rows": sorted_rows}, f, indent=1)
    f.write("\n")
  for row in sorted_rows:
    print(line_of(row))
  return 0


def main():
  top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  commands = top.add_subparsers(dest="action", required=True)
  merging = commands.add_parser("merge")
  merging.add_argument("records", nargs="+")
  merging.add_argument("-o", "--output", required=True)
  parser = commands.add_parser("run")
  parser.add_argument("--passnet", required=True)
  parser.add_argument("-o", "--output", required=True)
  parser.add_argument("--seconds", type=float, default=240)
  parser.add_argument("--only", default="", help="cases whose class/name holds one of these texts, separated by commas")
  parser.add_argument("--dtypes", default="float32,float16,bfloat16")
  parser.add_argument("--no-compile", dest="compile", action="store_false", help="leave torch.compile's time out")
  args = top.parse_args()
  if args.action == "merge":
    return merge(args)
  args.passnet = os.path.abspath(args.passnet)
  bandwidth = regions.copy_bandwidth() if torch.cuda.is_available() else None
  results = common.Results(args.output, schema="passnet.roofline/1", command=" ".join(["roofline.py", *sys.argv[1:]]), date=common.today(),
                           copy_bytes_per_s=bandwidth, rows=[], left_out=[])
  deadline = common.Deadline(args.seconds)
  with tempfile.TemporaryDirectory() as root, interpreter.Session() if not torch.cuda.is_available() else contextlib.nullcontext():
    for kind, name, statements, inputs in CASES:
      for dtype in args.dtypes.split(","):
        if not any(t in f"{kind}/{name}" for t in args.only.split(",")):
          continue
        if deadline.over():
          results.document["left_out"].append(f"{kind}/{name}/{dtype}")
          continue
        try:
          entry = run_case(args, kind, name, dtype, statements, inputs, os.path.join(root, f"{kind}_{name}_{dtype}"), bandwidth)
        except Exception as e:  # noqa: BLE001 - a case that fails is one row
          inner = pass_manager.innermost(e)
          entry = {"class": kind, "case": name, "dtype": dtype, "wanted": WANTED[kind], "failed": f"{type(inner).__name__}: {str(inner)[:300]}"}
        results.document["rows"].append(entry)
        print(line_of(entry), flush=True)
        results.save()
        if torch.cuda.is_available():
          torch.cuda.empty_cache()
  results.save(force=True)
  rows = results.document["rows"]
  short = [r for r in rows if "failed" in r or r["outside"] or ("share" in r and r["share"] < r["wanted"])]
  print(f"roofline: {len(rows)} rows, {len(short)} short of their share, wrong or failed, {len(results.document['left_out'])} left out")
  return 1 if short else 0


if __name__ == "__main__":
  sys.exit(main())
