"""Landlock: this process, and what it starts, may open only what is named. Needs no rights, since Linux 5.13.

Source: Documentation/userspace-api/landlock.rst and linux/landlock.h. The version (ABI) says what can be restricted:
1 files; 2 renames between folders; 3 truncation; 4 TCP; 5 ioctl of devices; 6 signals and abstract sockets. What a
kernel does not know is left out. The numbers of the system calls are the same on all machines but Alpha.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path

from thpdiag.guard.kernel import syscall

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_ASK_VERSION = 1
_BENEATH = 1  # a rule for a path and what lies below it
_EXECUTE, _WRITE, _READ, _LIST, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_OF_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE  # the others make sense for folders only
_FILES = {1: 13, 2: 14, 3: 15, 4: 15}  # by version: that many bits, from the lowest
_NEWEST_FILES = 16
_TCP, _SCOPES = 0b11, 0b11  # bind and connect; abstract sockets and signals
_TCP_SINCE, _SCOPES_SINCE = 4, 6


def version() -> int:
    """The version of the kernel's Landlock; 0 if it has none or it is switched off."""
    try:
        return syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION))
    except OSError:
        return 0


class Right(Enum):
    """What may be done with a path and what lies below it. What is read may be executed too: programs of readers."""

    LIST = _LIST
    READ = _EXECUTE | _READ | _LIST
    WRITE = ~_EXECUTE


def restrict(rights: Sequence[tuple[Path, Right]]) -> int:
    """From here on nothing else can be opened, and no TCP; gives the version, 0 for none.

    Files that are open stay so. A path that is not there is left out. It needs `no_new_privileges`.
    """
    known = version()
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
