"""Limits of a child process, what it may touch, and the outcome of its call: one of eight names, and the bytes it gave.

The reading of a bundle has limits of its own (`thpdiag.bundle.limits`), which cut the input and still give a document.
These are the net below them: with 300 s of CPU for reading, more is left to judge what was read.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes unless said otherwise.

    `memory` is address space beyond that of the process which forks, for a preloaded one has much of it that is not
    used. `files` are open ones: a folder that is walked holds one per level, of which there may be 128. Time limits
    hold for the child; programs that it starts have their own and end with it. `scratch` is all that lies in its folder
    for scratch files. With `every_layer` no call is made unless all of `Layer` are in force.
    """

    cpu_seconds: int = 420
    wall_seconds: float = 3900.0
    memory: int = 2048 * MIB
    file_size: int = 256 * MIB
    files: int = 256
    answer: int = 64 * MIB
    said: int = MIB  # on stdout and stderr, which nobody reads but for the end of a crash
    scratch: int = 4096 * MIB
    every_layer: bool = False


class Layer(StrEnum):
    """What stands between a child and the machine."""

    LIMITS = "limits of memory, CPU time, file size and open files"
    PRIVILEGES = "no new privileges"
    NETWORK = "an empty network namespace"
    FILES = "Landlock"
    SYSTEM_CALLS = "seccomp"
    PARENT = "ends with its parent"


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the child may touch: it reads these paths and the interpreter's own, and writes into `scratch` or nowhere.

    `names` are folders of which it may see what is in them. `stdin` is the open file that it gets as standard input.
    """

    read: tuple[Path, ...] = ()
    names: tuple[Path, ...] = ()
    scratch: Path | None = None
    stdin: int | None = None


_FAULTS = frozenset(
    {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT, signal.SIGSYS, signal.SIGTRAP}
)


class Status(StrEnum):
    """The name of an end."""

    OK = "ok"
    PARTIAL = "partial"  # the answer says that part of the input was lost
    LIMIT = "limit"  # `detail` says which; with an answer: the answer says what was cut
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out of memory"
    SIGNAL = "signal"  # `detail` is its number
    REFUSED = "refused"  # a mistake of the user, which is told
    BUG = "bug"  # a mistake of thpdiag


_CODES: Final[Mapping[str, int]] = {Status.OK: 0, Status.REFUSED: 3, Status.PARTIAL: 5, Status.BUG: 70}


def exit_code(name: str) -> int:
    """The exit code of an end that is known by its name alone, `signal 11`; 6 for one that has no name here.

    A fault is a mistake of ours or of a library. A plain kill comes from outside, most often for want of memory.
    """
    if name.startswith(f"{Status.SIGNAL} "):
        return 70 if int(name.removeprefix(f"{Status.SIGNAL} ")) in _FAULTS else 6
    return _CODES.get(name, 6)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call gives: the bytes, and whether they speak of all of the input."""

    content: bytes
    status: Status = Status.OK
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended. `content` is what it gave, empty if it was ended before; `said` what it wrote beside.

    `code` is the exit code of a refused call. `missing` are the layers that this machine does not have.
    """

    status: Status
    detail: str = ""
    content: bytes = b""
    said: str = ""
    code: int = 0
    missing: tuple[Layer, ...] = ()

    @property
    def name(self) -> str:
        """The named status in a word or two: `ok`, `limit (cpu)`, `signal 11`."""
        if self.status is Status.SIGNAL:
            return f"signal {self.detail}"
        return f"{self.status} ({self.detail})" if self.status is Status.LIMIT else str(self.status)

    @property
    def exit_code(self) -> int:
        """As the command line leaves (`thpdiag.errors.EXIT_CODES`)."""
        return self.code if self.status is Status.REFUSED else exit_code(self.name)

    @property
    def sentence(self) -> str:
        """What happened, for a person."""
        if self.status is Status.SIGNAL:
            word = signal.strsignal(int(self.detail)) or "unknown"
            hint = "; the kernel may do this if memory is short" if self.detail == str(int(signal.SIGKILL)) else ""
            return f"the child process was ended by signal {self.detail} ({word.lower()}{hint})"
        return {
            Status.OK: "the child process ended well",
            Status.PARTIAL: "part of the input was lost",
            Status.LIMIT: f"the child process exceeded its limit of {self.detail} and was stopped",
            Status.TIMEOUT: "the child process took too long and was stopped",
            Status.OUT_OF_MEMORY: "the child process needed more memory than it may use",
            Status.REFUSED: self.detail,
        }.get(self.status, f"the child process failed: {self.detail}")
