"""A process takes the limits upon itself; there is no way back. What this kernel lacks is left out, layer by layer."""

from __future__ import annotations

import os
import resource
import signal
import sys
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from thpdiag.guard import kernel, landlock
from thpdiag.guard.limits import MIB, Cell, Limits

SPARE_MEMORY, SPARE_SECONDS = 64 * MIB, 5  # above the limit: to say that it was reached
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/localtime", "/dev/urandom", "/dev/zero")
# What pmrep and sadf, the programs that readers start, look up; a customer's bytes are in none of them.
_PROGRAMS = ("/etc/pcp.conf", "/etc/pcp.env", "/etc/pcp", "/var/lib/pcp", "/etc/sysconfig/sysstat", "/etc/sysstat")


class Layer(StrEnum):
    """What stands between a child and the machine."""

    LIMITS = "limits of memory, CPU time, file size and open files"
    PRIVILEGES = "no new privileges"
    NETWORK = "a network of its own, which is empty"
    FILES = "Landlock"
    PARENT = "ends with its parent"


def confine(limits: Limits, cell: Cell, parent: int) -> tuple[Layer, ...]:
    """The layers that are in force now. `parent` is the process that forked this one."""
    _limited(limits)
    found = [Layer.LIMITS]
    with suppress(OSError):
        kernel.no_new_privileges()
        found.append(Layer.PRIVILEGES)
    with suppress(OSError):
        kernel.leave_network()
        found.append(Layer.NETWORK)
    with suppress(OSError):
        if landlock.restrict(_rights(cell)):
            found.append(Layer.FILES)
    with suppress(OSError):  # after all that changes rights, which would undo it
        kernel.no_core()
        kernel.die_with_parent(signal.SIGKILL)
        found.append(Layer.PARENT)
    if os.getppid() != parent:  # it ended before it was watched
        os._exit(1)
    return tuple(found)


def _rights(cell: Cell) -> list[tuple[Path, landlock.Right]]:
    """What may be opened, and what for."""
    write = [Path(os.devnull), *([cell.scratch] if cell.scratch else ())]
    stdin = [] if cell.stdin is None else [Path("/dev/stdin")]  # a program may open its input by this name
    return [
        *((path, landlock.Right.READ) for path in (*_interpreter(), *cell.read, *stdin)),
        *((path, landlock.Right.LIST) for path in cell.names),
        *((path, landlock.Right.WRITE) for path in write),
    ]


def relieved() -> None:
    """A little more memory, to say that there was not enough."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _limited(limits: Limits) -> None:
    memory = _in_use() + limits.memory
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


def _in_use() -> int:
    """The address space of this process; /proc/self/statm is pages, the first of them all."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * resource.getpagesize()


def _interpreter() -> list[Path]:
    """Python, its packages, ours, and what its libraries and the programs of readers need of the system."""
    own = [sys.prefix, sys.base_prefix, str(Path(__file__).parents[1])]
    packages = [entry for entry in sys.path if entry.startswith("/") and entry not in ("/", _here())]
    return [Path(path) for path in (*own, *packages, *_SYSTEM, *_PROGRAMS)]


def _here() -> str:
    """The folder we stand in, which `python -m` puts among the packages."""
    try:
        return str(Path.cwd())
    except OSError:
        return "/"
