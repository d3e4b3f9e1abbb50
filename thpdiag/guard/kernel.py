"""The calls of Linux that Python 3.11 does not have: prctl and unshare.

Numbers are those of linux/prctl.h and linux/sched.h, the same on all machines.
"""

from __future__ import annotations

import ctypes
import os

_NEW_NET, _NEW_USER = 0x40000000, 0x10000000
_DEATH_SIGNAL, _DUMPABLE, _SUBREAPER, _NO_NEW_PRIVS = 1, 4, 36, 38
_LIBC = ctypes.CDLL(None, use_errno=True)


def syscall(number: int, *arguments: object) -> int:
    """A system call by its number; OSError as the kernel says."""
    return _checked(_LIBC.syscall(ctypes.c_long(number), *arguments))


def die_with_parent(signal: int) -> None:
    """This signal comes when the thread that forked this process ends."""
    _prctl(_DEATH_SIGNAL, signal)


def no_new_privileges() -> None:
    """No program that is started from here gains rights by set-uid or by capabilities of its file."""
    _prctl(_NO_NEW_PRIVS, 1)


def no_core() -> None:
    """No dump of memory, not even through a pipe to a collector, which asks no limit."""
    _prctl(_DUMPABLE, 0)


def adopt_orphans() -> None:
    """What a child leaves behind becomes a child of this process, to be found and ended."""
    _prctl(_SUBREAPER, 1)


def leave_network() -> None:
    """An empty network of its own: not even loopback is up.

    Root takes no user namespace for it: in one, it would lose its right to read files of others.
    """
    _checked(_LIBC.unshare(_NEW_NET if os.geteuid() == 0 else _NEW_NET | _NEW_USER))


def _prctl(what: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    _checked(_LIBC.prctl(ctypes.c_int(what), ctypes.c_ulong(value), zero, zero, zero))


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
