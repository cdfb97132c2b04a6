"""Who runs on which processors while something is timed.

The timed process has cores to itself: the hardware threads that share a core with its own belong to nobody, because a
busy sibling makes every call of the host up to twice as long. Runs that time at once on one machine take different
cores, agreed on by locks of files. Where the topology is hidden, both usual numberings of siblings (next to each other,
or half the machine apart) are kept clear. Where the system takes the wish for a core and does not keep to it, as some
sandboxes do, `enforced` says so and fewer children compile at once.
"""

import contextlib
import fcntl
import os
import time
from dataclasses import dataclass, field

LEAST = 6  # with fewer processors nothing is set apart
TIMED = 2  # cores a GPU: one for the calls, one for what else the process does


def parse_list(text):
  """"0-2,5" as a set of numbers."""
  out = set()
  for part in text.strip().split(","):
    if part:
      low, _, high = part.partition("-")
      out.update(range(int(low), int(high or low) + 1))
  return out


def read_siblings(root="/sys/devices/system/cpu"):
  """{processor: the processors of its core, itself included}; empty where the system does not tell."""
  out = {}
  with contextlib.suppress(OSError, ValueError):
    for name in os.listdir(root):
      if name.startswith("cpu") and name[3:].isdigit():
        with contextlib.suppress(OSError, ValueError), open(f"{root}/{name}/topology/thread_siblings_list", encoding="utf-8") as f:
          out[int(name[3:])] = parse_list(f.read())
  return out


@dataclass
class Cores:
  compile: list
  timing: list
  idle: list = field(default_factory=list)  # siblings of timing cores: nobody's
  topology: str = "read"  # read, hidden, shared: too few processors to set any apart
  index: int = 0
  runs: int = 1  # that time on this machine at once, as far as is known
  enforced: bool = True

  def facts(self):
    return {"timing": self.timing, "idle_siblings": self.idle, "compile": self.compile, "topology": self.topology,
            "enforced": self.enforced, "run": self.index, "runs": self.runs}


def _groups(mine, siblings):
  """Whole cores as sorted lists of the processors of `mine`, in the order of their first one."""
  seen, out = set(), []
  for cpu in sorted(mine):
    if cpu not in seen:
      group = sorted((siblings.get(cpu) or {cpu}) & set(mine)) or [cpu]
      seen.update(group)
      out.append(group)
  return out


def split(mine, siblings, index=0, runs=1):
  """The processors of one run among `runs`, from the end of the list: the first ones serve interrupts."""
  mine = sorted(mine)
  runs = max(runs, index + 1)
  if len(mine) < LEAST or len(mine) < 4 * runs + 2:
    return Cores(mine, mine, topology="shared", index=index, runs=runs)
  known = all(cpu in siblings for cpu in mine)
  if known:
    groups = _groups(mine, siblings)
    count = TIMED if len(groups) >= 2 * TIMED * runs else 1
    if len(groups) <= count * runs:
      return Cores(mine, mine, topology="shared", index=index, runs=runs)
    kept = groups[::-1][: count * runs]
    own = kept[count * index : count * (index + 1)]
    if count == 1:  # a whole core, both of its threads
      timing, idle = own[0], []
    else:
      timing, idle = sorted(g[0] for g in own), sorted(c for g in own for c in g[1:])
    taken = {c for g in kept for c in g}
  else:
    # Two neighbours and the two half the machine on from them: closed under both numberings; of them two that share no
    # core under either.
    half = len(mine) // 2
    quads = [(half - 2 * i - 2, half - 2 * i - 1, 2 * half - 2 * i - 2, 2 * half - 2 * i - 1) for i in range(runs)]
    if half < 4 * runs:
      pair = [(half * 2 - 2 * i - 2, half * 2 - 2 * i - 1) for i in range(runs)]
      timing, idle = [mine[c] for c in pair[index]], []
      taken = {mine[c] for p in pair for c in p}
    else:
      a, b, c, d = quads[index]
      timing, idle = [mine[a], mine[d]], [mine[b], mine[c]]
      taken = {mine[c] for q in quads for c in q}
  return Cores([c for c in mine if c not in taken], timing, idle, "read" if known else "hidden", index, runs)


def visible_gpus(dev="/dev", proc="/proc/driver/nvidia/gpus", visible=None):
  """(GPUs of the machine as far as can be seen without asking the driver, number of the one that is used)."""
  names = os.environ.get("CUDA_VISIBLE_DEVICES", "") if visible is None else visible
  numbers = [int(n) for n in names.replace(" ", "").split(",") if n.isdigit()]
  seen = 1
  with contextlib.suppress(OSError):
    seen = max(seen, sum(n.startswith("nvidia") and n[6:].isdigit() for n in os.listdir(dev)))
  with contextlib.suppress(OSError):
    seen = max(seen, len(os.listdir(proc)))
  return max([seen, *(n + 1 for n in numbers)]), numbers[0] if numbers else 0


class Claim:
  """This run's number among those that time on the machine; given back with the process."""

  def __init__(self, folder, wanted, count):
    self.folder, self.index, self.shared, self.file = folder, wanted, False, None
    os.makedirs(folder, mode=0o700, exist_ok=True)
    for index in [wanted, *(i for i in range(max(count, wanted + 1)) if i != wanted)]:
      file = os.open(self._path(index), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
      try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.index, self.file = index, file
        return
      except OSError:
        os.close(file)
    self.shared = True  # more runs than GPUs: they wait for each other at the device's lock

  def _path(self, index):
    return os.path.join(self.folder, f"cores-{index}.lock")

  def runs(self, count):
    """How many cores have to be left alone now: those of all runs that there are, and of those that may come."""
    for name in os.listdir(self.folder):
      number = name.removeprefix("cores-").removesuffix(".lock")
      if name.startswith("cores-") and number.isdigit() and int(number) >= count and self._taken(int(number)):
        count = int(number) + 1
    return max(count, self.index + 1)

  def _taken(self, index):
    if index == self.index:
      return True
    try:
      file = os.open(self._path(index), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
      return False
    try:
      fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
      return False
    except OSError:
      return True
    finally:
      os.close(file)


def _spin(cpu, writer, seconds):
  """In a child: how far it counts on that processor."""
  try:
    os.sched_setaffinity(0, [cpu])
    count, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
      count += 1
    os.write(writer, b"%d\n" % count)
  finally:
    os._exit(0)


def _count(cpus, seconds):
  """The sum of what children on these processors count at the same time."""
  reader, writer = os.pipe()
  pids = []
  for cpu in cpus:
    pid = os.fork()
    if pid == 0:
      _spin(cpu, writer, seconds)
    pids.append(pid)
  os.close(writer)
  data = b""
  while part := os.read(reader, 4096):
    data += part
  os.close(reader)
  for pid in pids:
    os.waitpid(pid, 0)
  return sum(int(n) for n in data.split())


def enforced(cpu, seconds=0.05):
  """Whether who asks for one processor stays on it: two children that do get no further than one."""
  return _count([cpu, cpu], seconds) < 1.4 * max(1, _count([cpu], seconds))


class Division:
  """Who of one run may run where, from its beginning to its end. `folder`: of the locks; None: nobody else is asked.
  `apart`: whether timing has processors of its own.
  """

  def __init__(self, folder, apart=True):
    self.mine, self.siblings = sorted(os.sched_getaffinity(0)), read_siblings()
    self.gpus, gpu = visible_gpus()
    self.claim = Claim(folder, gpu, self.gpus) if folder else None
    self.now = split(self.mine, self.siblings, gpu) if apart else Cores(self.mine, self.mine, topology="shared")
    self.driver = None  # process and its processors before it was kept to some

  def again(self):
    """Looked at again for every child: another run may have begun."""
    if self.claim is not None:
      kept = self.now.enforced
      self.now = split(self.mine, self.siblings, self.claim.index, self.claim.runs(self.gpus))
      self.now.enforced = kept
    return self.now

  def begin(self, slots, driver):
    """This process and the driver leave the timing cores alone. Returns how many children may be under way at once: fewer
    where nobody is kept to his processors, so that the system has whole cores to give."""
    now = self.again()
    if now.topology == "shared":
      return slots
    now.enforced = enforced(now.compile[0])
    with contextlib.suppress(OSError):
      os.sched_setaffinity(0, now.compile)
      if driver > 1:  # else it is a process that cannot be seen from here
        self.driver = (driver, sorted(os.sched_getaffinity(driver)))
        _keep_process_to(driver, now.compile)
    return slots if now.enforced else min(slots, max(1, len(self.mine) // 2 // now.runs - 2))

  def end(self):
    if self.driver is not None:
      _keep_process_to(*self.driver)


def _keep_process_to(pid, processors):
  """Every thread of a process."""
  with contextlib.suppress(OSError):
    for thread in os.listdir(f"/proc/{pid}/task"):
      with contextlib.suppress(OSError):
        os.sched_setaffinity(int(thread), processors)
