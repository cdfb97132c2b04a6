#!/usr/bin/env python3
"""Compares native capture with recorded dynamo graphs, node for node.

  capture_vs_dynamo.py --passnet build/passnet --samples DIR [--recorded FILE] [--only TEXT]
  capture_vs_dynamo.py --jsonl FILE --samples DIR          lines {"dir": ..., "r": <capture document>}

Equal are: the number of graphs; per graph the compute nodes in order with op, target, args and kwargs, the inputs that are
read, and the outputs; per value shape and dtype, strides where native capture claims to know them, and storage: values
that share memory in the recording share an id here (the reverse is allowed: an id means "may alias"). Written storages
likewise. Placeholders are compared by the parameter they stand for, never by name or order; node names not at all.
Exit status 1 if any variant differs, 2 if nothing could be compared.
"""

import argparse
import collections
import gzip
import json
import os
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def normal(value, names):
  """An argument with node names replaced by what they stand for, and without what two encodings may differ in."""
  if isinstance(value, list):
    return ["list"] + [normal(v, names) for v in value]
  if isinstance(value, dict):
    (key, inner), = value.items() if len(value) == 1 else [("other", value)]
    if key == "node":
      return ["node", names.get(inner, "?" + str(inner))]
    if key in ("tuple", "size"):
      return ["tuple"] + [normal(v, names) for v in inner]
    if key == "slice":
      return ["slice"] + [normal(v, names) for v in inner]
    if key == "dict":
      pairs = inner.items() if isinstance(inner, dict) else inner
      return ["dict"] + [[k, normal(v, names)] for k, v in pairs]
    return [key, inner]
  # 1, 1.0 and True are three values.
  return [type(value).__name__, repr(value)]


def input_of(node):
  """The parameter a placeholder stands for; dynamo drops underscores at the ends of names."""
  return (node.get("input") or node["target"]).strip("_")


def is_compute(node):
  return node["op"] not in ("placeholder", "output")


def names_of(graph):
  names, i = {}, 0
  for node in graph["nodes"]:
    if node["op"] == "placeholder":
      names[node["name"]] = "input " + input_of(node)
    elif is_compute(node):
      names[node["name"]] = i
      i += 1
  return names


def values_of(node):
  """[(shape, dtype, stride, storage)] of a node: one for a tensor, several for a tuple; None if nothing is known."""
  if "tuple" in node:
    return [(v.get("shape"), v.get("dtype"), v.get("stride"), v.get("storage")) for v in node["tuple"]]
  if node.get("shape") is None:
    return None
  if isinstance(node.get("dtype"), list):
    return list(zip(node["shape"], node["dtype"], node["stride"], node["storage"]))
  return [(node["shape"], node.get("dtype"), node.get("stride"), node.get("storage"))]


class Difference(Exception):
  pass


def effective_stride(shape, stride):
  """Strides of size-1 and empty axes address nothing."""
  if stride is None or 0 in shape:
    return None
  return [s if n != 1 else None for n, s in zip(shape, stride)]


def compare_graph(native, recorded, stats):
  mine = [n for n in native["nodes"] if is_compute(n)]
  theirs = [n for n in recorded["nodes"] if is_compute(n)]
  names_mine, names_theirs = names_of(native), names_of(recorded)
  for i, (a, b) in enumerate(zip(mine, theirs)):
    where = f"node {i} ({b['name']} = {b['target']})"
    for key in ("op", "target"):
      if a[key] != b[key]:
        raise Difference(f"{where}: {key} {a[key]} instead of {b[key]}")
    args = normal(a["args"], names_mine), normal(b["args"], names_theirs)
    if args[0] != args[1]:
      raise Difference(f"{where}: args {args[0]} instead of {args[1]}")
    kwargs = [{k: normal(v, n) for k, v in x["kwargs"].items()} for x, n in ((a, names_mine), (b, names_theirs))]
    if kwargs[0] != kwargs[1]:  # the recording keeps no order of keywords
      raise Difference(f"{where}: kwargs {kwargs[0]} instead of {kwargs[1]}")
  if len(mine) != len(theirs):
    longer = mine if len(mine) > len(theirs) else theirs
    extra = longer[min(len(mine), len(theirs))]
    raise Difference(f"{len(mine)} nodes instead of {len(theirs)}, the first beyond is {extra['name']} = {extra['target']}")
  read = [{input_of(n) for n in g["nodes"] if n["op"] == "placeholder"} for g in (native, recorded)]
  if read[0] != read[1]:
    raise Difference(f"inputs {sorted(read[0])} instead of {sorted(read[1])}")
  outputs = [[normal(o, n) for o in flat(g["outputs"])] for g, n in ((native, names_mine), (recorded, names_theirs))]
  if outputs[0] != outputs[1]:
    raise Difference(f"outputs {outputs[0]} instead of {outputs[1]}")
  compare_metadata(native, recorded, names_mine, names_theirs, stats)


def flat(outputs):
  if isinstance(outputs, dict) and "tuple" in outputs:
    return outputs["tuple"]
  return outputs


def compare_metadata(native, recorded, names_mine, names_theirs, stats):
  by_identity = {names_mine[n["name"]]: n for n in native["nodes"] if n["op"] != "output"}
  same_storage = collections.defaultdict(set)
  for b in recorded["nodes"]:
    if b["op"] == "output":
      continue
    a = by_identity[names_theirs[b["name"]]]
    where = f"{b['name']} = {b['target']}"
    theirs, mine = values_of(b), values_of(a)
    if theirs is None:
      continue
    if mine is None:
      stats["unknown " + a["target"]] += 1
      continue
    if len(theirs) != len(mine):
      raise Difference(f"{where}: {len(mine)} values instead of {len(theirs)}")
    for (shape, dtype, stride, storage), (rshape, rdtype, rstride, rstorage) in zip(mine, theirs):
      if shape is None:
        stats["unknown " + a["target"]] += 1
        continue
      if shape != rshape:
        raise Difference(f"{where}: shape {shape} instead of {rshape}")
      if dtype != rdtype:
        raise Difference(f"{where}: dtype {dtype} instead of {rdtype}")
      stats["values"] += 1
      if stride is None:
        stats["strides unknown"] += 1
      elif effective_stride(shape, stride) != effective_stride(rshape, rstride):
        raise Difference(f"{where}: stride {stride} instead of {rstride}")
      if rstorage is not None and 0 not in rshape:
        same_storage[rstorage].add(storage)
    for w in b.get("writes", []):
      if len(same_storage[w] & set(a.get("writes", []))) == 0:
        raise Difference(f"{where}: does not write the storage that the recording says (native writes {a.get('writes')})")
    if len(a.get("writes", [])) > len(b.get("writes", [])):
      stats["writes more than recorded"] += 1
  for ids in same_storage.values():
    if len(ids) > 1:
      raise Difference(f"values that share memory have the storages {sorted(map(str, ids))}")


def documents(args):
  if args.jsonl:
    with open(args.jsonl, encoding="utf-8") as f:
      return {os.path.normpath(d["dir"]): d["r"] for d in map(json.loads, f)}
  return None


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--passnet")
  parser.add_argument("--jsonl")
  parser.add_argument("--samples", default=os.environ.get("PASSNET_DATA", ""))
  parser.add_argument("--recorded", default=os.path.join(ROOT, "tests", "data", "dynamo_graphs_2.13.json.gz"))
  parser.add_argument("--only", default="")
  parser.add_argument("--verbose", action="store_true")
  args = parser.parse_args()
  with gzip.open(args.recorded) as f:
    recorded = json.load(f)
  ready = documents(args)
  stats, equal, different = collections.Counter(), 0, 0
  for sample, variants in recorded["samples"].items():
    for label, record in variants.items():
      if args.only not in f"{sample}/{label}" or "graphs" not in record:
        continue
      path = os.path.normpath(os.path.join(args.samples, sample, label))
      try:
        if ready is not None:
          document = ready.get(path)
          if document is None:
            continue
        else:
          done = subprocess.run([args.passnet, "capture", path, "--json", "--device", "cpu"], capture_output=True,
                                text=True, timeout=60)
          document = json.loads(done.stdout)
        if document["status"] == "error":
          raise Difference(document["findings"][0]["message"])
        if len(document["graphs"]) != len(record["graphs"]):
          raise Difference(f"{len(document['graphs'])} graphs instead of {len(record['graphs'])}")
        for native, theirs in zip(document["graphs"], record["graphs"]):
          compare_graph(native, theirs, stats)
        equal += 1
      except (Difference, ValueError, subprocess.TimeoutExpired) as e:
        different += 1
        print(f"{sample}/{label}: {e}")
  print(f"{equal} variants equal, {different} different; {dict(sorted(stats.items()))}")
  return 2 if equal + different == 0 else 1 if different else 0


if __name__ == "__main__":
  sys.exit(main())
