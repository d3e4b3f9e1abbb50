"""Confinement of a process by itself: rlimits, an empty network, Landlock, seccomp, death with its parent.

There is no way back. What this kernel lacks is left out, layer by layer, and `confine` says which are in force.
Landlock needs no rights, since Linux 5.13: this process, and what it starts, may open only what is named. Its version
(ABI) says what can be restricted: 1 files; 2 renames between folders; 3 truncation; 4 TCP; 5 ioctl of devices; 6
signals and abstract sockets.

Source: Documentation/userspace-api/landlock.rst, linux/landlock.h, linux/prctl.h, linux/sched.h. The numbers are the
same on all machines, those of the system calls on all but Alpha.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import resource
import signal
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum
from itertools import count
from pathlib import Path

from thpdiag.sandbox.outcome import MIB, Allowed, Layer, Limits
from thpdiag.sandbox.seccomp import install_filter, seccomp_filter

_NEW_NET, _NEW_USER = 0x40000000, 0x10000000
_DEATH_SIGNAL, _DUMPABLE, _SUBREAPER, _NO_NEW_PRIVS = 1, 4, 36, 38
_LIBC = ctypes.CDLL(None, use_errno=True)


def syscall(number: int, *arguments: object) -> int:
    """A system call by its number; OSError as the kernel says."""
    return _check(_LIBC.syscall(ctypes.c_long(number), *arguments))


def die_with_parent(signal: int) -> None:
    """This signal comes when the thread that forked this process ends."""
    _prctl(_DEATH_SIGNAL, signal)


def adopt_orphans() -> None:
    """What a child leaves behind becomes a child of this process, to be found and ended."""
    _prctl(_SUBREAPER, 1)


def _prctl(what: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    _check(_LIBC.prctl(ctypes.c_int(what), ctypes.c_ulong(value), zero, zero, zero))


def _check(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


_CREATE, _ADD, _RESTRICT = 444, 445, 446
_ASK_VERSION = 1
_BENEATH = 1  # a rule for a path and what lies below it
_EXECUTE, _WRITE, _READ, _LIST, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_OF_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE  # the others make sense for folders only
_FILES = {1: 13, 2: 14, 3: 15, 4: 15}  # by version: that many bits, from the lowest
_NEWEST_FILES = 16
_TCP, _SCOPES = 0b11, 0b11  # bind and connect; abstract sockets and signals
_TCP_SINCE, _SCOPES_SINCE = 4, 6


def landlock_version() -> int:
    """The version of the kernel's Landlock; 0 if it has none or it is switched off."""
    try:
        return syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION))
    except OSError:
        return 0


class LandlockRight(Enum):
    """What may be done with a path and what lies below it. What is read may be executed too: programs of readers."""

    LIST = _LIST
    READ = _EXECUTE | _READ | _LIST
    WRITE = ~_EXECUTE


def landlock_restrict(rights: Sequence[tuple[Path, LandlockRight]]) -> int:
    """From here on nothing else can be opened, and no TCP; gives the version, 0 for none.

    Files that are open stay so. A path that is not there is left out. It needs no new privileges (prctl).
    """
    known = landlock_version()
    if not known:
        return 0
    files = (1 << _FILES.get(known, _NEWEST_FILES)) - 1
    handled = [files, *([_TCP] if known >= _TCP_SINCE else ()), *([_SCOPES] if known >= _SCOPES_SINCE else ())]
    attributes = (ctypes.c_uint64 * len(handled))(*handled)
    rules = syscall(_CREATE, attributes, ctypes.c_size_t(ctypes.sizeof(attributes)), ctypes.c_uint32(0))
    try:
        for path, right in rights:
            with suppress(OSError):  # not there, or a pipe, which nobody opens by a name
                _allow(rules, path, right.value & files)
        syscall(_RESTRICT, ctypes.c_int(rules), ctypes.c_uint32(0))
    finally:
        os.close(rules)
    return known


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def _allow(rules: int, path: Path, rights: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _OF_FILES
        rule = _Beneath(rights, place)
        syscall(_ADD, ctypes.c_int(rules), ctypes.c_int(_BENEATH), ctypes.byref(rule), ctypes.c_uint32(0))
    finally:
        os.close(place)


SPARE_MEMORY, SPARE_SECONDS = 64 * MIB, 5  # above the limit: to say that it was reached
_SYSTEM_PATHS = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/localtime", "/dev/urandom", "/dev/zero")
# What pmrep and sadf, the programs that readers start, look up; a customer's bytes are in none of them.
_PROGRAM_PATHS = ("/etc/pcp.conf", "/etc/pcp.env", "/etc/pcp", "/var/lib/pcp", "/etc/sysconfig/sysstat", "/etc/sysstat")


# What the interpreter, its libraries and the programs of readers look up; no variable of the analyst's but these.
_VARIABLES = re.compile(r"PATH|HOME|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|OPENBLAS_NUM_THREADS|PYDANTIC_DISABLE_PLUGINS")
_MAX_PROCESSES = 64  # with threads
_COUNTED_SINCE = (5, 14)  # Linux counts the processes of each user namespace for themselves


def confine(limits: Limits, cell: Allowed, parent: int) -> tuple[Layer, ...]:
    """The layers that are in force now. `parent` is the process that forked this one."""
    _set_limits(limits)
    found = [Layer.LIMITS]
    with suppress(OSError):
        _prctl(_NO_NEW_PRIVS, 1)  # no program gains rights by set-uid or by capabilities of its file
        found.append(Layer.PRIVILEGES)
    with suppress(OSError):
        # Not even loopback is up. In a user namespace root would lose its right to read files of others.
        own_user_namespace = 0 if os.geteuid() == 0 else _NEW_USER
        _check(_LIBC.unshare(_NEW_NET | own_user_namespace))
        found.append(Layer.NETWORK)
        if own_user_namespace and _kernel() >= _COUNTED_SINCE:
            # Elsewhere the limit counts whatever the user runs on the machine, or root, whom it does not bind.
            resource.setrlimit(resource.RLIMIT_NPROC, (_MAX_PROCESSES, _MAX_PROCESSES))
    with suppress(OSError):
        if landlock_restrict(_rights(cell)):
            found.append(Layer.FILES)
    with suppress(OSError):  # after all that changes rights, which would undo it
        _prctl(_DUMPABLE, 0)  # no dump of memory, not even through a pipe to a collector, which asks no limit
        die_with_parent(signal.SIGKILL)
        found.append(Layer.PARENT)
    if os.getppid() != parent:  # it ended before it was watched
        os._exit(1)
    with suppress(OSError):  # the last: it refuses some of the above
        if content := seccomp_filter():
            install_filter(_LIBC, content)
            found.append(Layer.SYSTEM_CALLS)
    return tuple(found)


def forget_environment() -> None:
    """Leave in this process no variable that is not needed, such as keys of a store: its memory is overwritten."""
    pointers = ctypes.POINTER(ctypes.c_void_p).in_dll(_LIBC, "environ")
    blocks: list[tuple[int, int]] = []
    for number in count():
        if not (address := pointers[number]):
            break
        name, _, value = ctypes.string_at(address).partition(b"=")
        if not _VARIABLES.fullmatch(os.fsdecode(name)):
            blocks.append((address, len(name) + 1 + len(value)))
    for variable in [name for name in os.environ if not _VARIABLES.fullmatch(name)]:
        del os.environ[variable]
    for block in blocks:
        ctypes.memset(block[0], 0, block[1])


def _kernel() -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", platform.release())[:2])


def _rights(cell: Allowed) -> list[tuple[Path, LandlockRight]]:
    """What may be opened, and what for."""
    write = [Path(os.devnull), *([cell.scratch] if cell.scratch else ())]
    stdin = [] if cell.stdin is None else [Path("/dev/stdin")]  # a program may open its input by this name
    return [
        *((path, LandlockRight.READ) for path in (*_interpreter(), *cell.read, *stdin)),
        *((path, LandlockRight.LIST) for path in cell.names),
        *((path, LandlockRight.WRITE) for path in write),
    ]


def raise_memory_limit() -> None:
    """A little more memory, to say that there was not enough."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _set_limits(limits: Limits) -> None:
    memory = _address_space() + limits.memory
    bounds = {
        resource.RLIMIT_CPU: (limits.cpu_seconds, limits.cpu_seconds + SPARE_SECONDS),
        resource.RLIMIT_AS: (memory, memory + SPARE_MEMORY),
        resource.RLIMIT_FSIZE: (limits.file_size, limits.file_size),
        resource.RLIMIT_NOFILE: (limits.files, limits.files),
        resource.RLIMIT_CORE: (0, 0),
    }
    for which, (soft, hard) in bounds.items():
        most = resource.getrlimit(which)[1]
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        resource.setrlimit(which, (soft, hard))


def _address_space() -> int:
    """The address space of this process; /proc/self/statm is pages, the first of them all."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * resource.getpagesize()


def _interpreter() -> list[Path]:
    """Python, its packages, ours, and what its libraries and the programs of readers need of the system."""
    own = [sys.prefix, sys.base_prefix, str(Path(__file__).parents[1])]
    packages = [entry for entry in sys.path if entry.startswith("/") and entry not in ("/", _working_folder())]
    return [Path(path) for path in (*own, *packages, *_SYSTEM_PATHS, *_PROGRAM_PATHS)]


def _working_folder() -> str:
    """The folder we stand in, which `python -m` puts among the packages."""
    try:
        return str(Path.cwd())
    except OSError:
        return "/"
