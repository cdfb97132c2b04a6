"""What a child gives up before and after it opens a device, each step said to have been reached or not.

Nothing here needs more than the kernel offers to anybody: a parent-death signal, limits, another user where the
process may change, no new privileges, and a list of system calls that an evaluation never makes. The address space
is never limited: a CUDA process maps hundreds of gigabytes.
"""

import ctypes
import os
import resource
import struct
import sys

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER = 1, 4, 38, 22, 36
SIGKILL = 9

# x86_64 numbers. Refused with EPERM: reading or steering other processes, namespaces and mounts, kernel facilities
# with a history. Creating threads, memory and files stays.
DENIED = {
  "ptrace": 101,
  "process_vm_readv": 310,
  "process_vm_writev": 311,
  "pidfd_getfd": 438,
  "userfaultfd": 323,
  "bpf": 321,
  "perf_event_open": 298,
  "add_key": 248,
  "request_key": 249,
  "keyctl": 250,
  "mount": 165,
  "umount2": 166,
  "pivot_root": 155,
  "chroot": 161,
  "move_mount": 429,
  "open_tree": 428,
  "fsopen": 430,
  "setns": 308,
  "unshare": 272,
  "io_uring_setup": 425,
  "io_uring_enter": 426,
  "io_uring_register": 427,
  "reboot": 169,
  "kexec_load": 246,
  "kexec_file_load": 320,
  "init_module": 175,
  "finit_module": 313,
  "delete_module": 176,
  "swapon": 167,
  "swapoff": 168,
  "settimeofday": 164,
  "clock_settime": 227,
  "adjtimex": 159,
  "clock_adjtime": 305,
  "process_madvise": 440,
}
# Sockets other than local ones, for strict: the network is not reachable even without a namespace.
_SOCKET = 41
_AF_UNIX = 1


def _prctl(option, a=0, b=0, c=0, d=0):
  libc = ctypes.CDLL(None, use_errno=True)
  return libc.prctl(option, ctypes.c_ulong(a), b if not isinstance(b, int) else ctypes.c_ulong(b), ctypes.c_ulong(c),
                    ctypes.c_ulong(d)) == 0


def die_with_parent(parent):
  _prctl(PR_SET_PDEATHSIG, SIGKILL)
  if os.getppid() != parent:  # it died before the signal was asked for
    os._exit(9)


def adopt_orphans():
  """Grandchildren whose parent ended come to this process instead of init's."""
  return _prctl(PR_SET_CHILD_SUBREAPER, 1)


def _limit(name, value):
  number = getattr(resource, name)
  soft, hard = resource.getrlimit(number)
  value = value if hard == resource.RLIM_INFINITY else min(value, hard)
  resource.setrlimit(number, (value, value))


def before_device(wanted):
  """Limits and the user. Returns the steps reached."""
  reached = []
  _limit("RLIMIT_CORE", 0)
  _limit("RLIMIT_FSIZE", wanted.get("file_bytes", 4 << 30))
  reached.append("limits")
  if wanted.get("user") and os.geteuid() == 0:
    try:
      os.setgroups([])
      os.setresgid(wanted["user"], wanted["user"], wanted["user"])
      os.setresuid(wanted["user"], wanted["user"], wanted["user"])
      reached.append("user")
    except OSError:
      pass
  return reached


def after_device(wanted):
  """No new privileges, and the system calls that stay open. Returns the steps reached."""
  reached = []
  if _prctl(PR_SET_NO_NEW_PRIVS, 1):
    reached.append("no_new_privs")
  if wanted.get("seccomp", True) and install_filter(wanted.get("network", True)):
    reached.append("seccomp" if wanted.get("network", True) else "seccomp_no_network")
  return reached


def filter_program(network):
  """The filter as classic BPF: (code, jump if true, jump if false, value) each."""
  load, jump_eq, ret = 0x20, 0x15, 0x06
  allow, errno_eperm, architecture = 0x7FFF0000, 0x00050001, 0xC000003E
  program = [(load, 0, 0, 4), (jump_eq, 1, 0, architecture), (ret, 0, 0, errno_eperm), (load, 0, 0, 0)]
  for number in sorted(DENIED.values()):
    program += [(jump_eq, 0, 1, number), (ret, 0, 0, errno_eperm)]
  if not network:
    program += [(jump_eq, 0, 3, _SOCKET), (load, 0, 0, 16), (jump_eq, 1, 0, _AF_UNIX), (ret, 0, 0, errno_eperm)]
  program.append((ret, 0, 0, allow))
  return program


def install_filter(network=True):
  """Whether the filter is in force. Only x86_64 is known."""
  if os.uname().machine != "x86_64" or sys.platform != "linux":
    return False
  program = filter_program(network)
  text = b"".join(struct.pack("HBBI", *line) for line in program)
  buffer = ctypes.create_string_buffer(text, len(text))
  head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(buffer)))
  return _prctl(PR_SET_SECCOMP, 2, ctypes.byref(head))
