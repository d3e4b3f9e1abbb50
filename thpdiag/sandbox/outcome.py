"""The limits and permissions of a child process, and the outcome of its call: one of eight statuses, and an answer.

Reading a bundle has its own limits (`thpdiag.bundle.limits`), which cut the input and still give a document. The limits
here are the safety net: reading has 300 s of CPU, and these leave more time to evaluate the rules.
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
    """The limits of a child, in bytes unless the name has another unit.

    `memory` is address space in addition to that of the parent, since a preloaded parent has much unused address space.
    `files` limits open files: walking a folder needs one per level, and there may be 128 levels. Time limits apply to
    the child; programs that it starts have their own and end with it. `scratch` limits the content of the scratch
    folder. With `every_layer` the call is refused unless all of `Layer` are in force.
    """

    cpu_seconds: int = 420
    wall_seconds: float = 3900.0
    memory: int = 2048 * MIB
    file_size: int = 256 * MIB
    files: int = 256
    answer: int = 64 * MIB
    output: int = MIB  # on stdout and stderr, of which only the end is kept, for crashes
    scratch: int = 4096 * MIB
    every_layer: bool = False


class Layer(StrEnum):
    """The layers of confinement between a child and the machine."""

    LIMITS = "limits of memory, CPU time, file size and open files"
    PRIVILEGES = "no new privileges"
    NETWORK = "an empty network namespace"
    FILES = "Landlock"
    SYSTEM_CALLS = "seccomp"
    PARENT = "ends with its parent"


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the child may access: it may read these paths and those of the interpreter, and write to `scratch` only.

    `names` are folders that it may list. `stdin` is the file descriptor that becomes its standard input.
    """

    read: tuple[Path, ...] = ()
    names: tuple[Path, ...] = ()
    scratch: Path | None = None
    stdin: int | None = None


_FAULT_SIGNALS = frozenset(
    {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT, signal.SIGSYS, signal.SIGTRAP}
)


class Status(StrEnum):
    """How a call ended."""

    OK = "ok"
    PARTIAL = "partial"  # the answer reports that part of the input was lost
    LIMIT = "limit"  # `detail` names the limit; if there is an answer, it reports what was cut
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out of memory"
    SIGNAL = "signal"  # `detail` is the number of the signal
    REFUSED = "refused"  # an error of the user; `detail` is the message
    BUG = "bug"  # an error of thpdiag


_CODES: Final[Mapping[str, int]] = {Status.OK: 0, Status.REFUSED: 3, Status.PARTIAL: 5, Status.BUG: 70}


def exit_code(name: str) -> int:
    """Return the exit code of a status as text (`signal 11`); 6 for an unknown one.

    A fault is a bug of thpdiag or of a library. SIGKILL comes from outside, mostly from the OOM killer.
    """
    if name.startswith(f"{Status.SIGNAL} "):
        return 70 if int(name.removeprefix(f"{Status.SIGNAL} ")) in _FAULT_SIGNALS else 6
    return _CODES.get(name, 6)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call returns: bytes, and whether they cover the whole input."""

    content: bytes
    status: Status = Status.OK
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended. `content` is its answer, empty if it was stopped; `output` the end of stdout and stderr.

    `code` is the exit code of a refused call. `missing` are the layers that this machine does not have.
    """

    status: Status
    detail: str = ""
    content: bytes = b""
    output: str = ""
    code: int = 0
    missing: tuple[Layer, ...] = ()

    @property
    def name(self) -> str:
        """The status as text: `ok`, `limit (cpu)`, `signal 11`."""
        if self.status is Status.SIGNAL:
            return f"signal {self.detail}"
        return f"{self.status} ({self.detail})" if self.status is Status.LIMIT else str(self.status)

    @property
    def exit_code(self) -> int:
        """The exit code of the command line (`thpdiag.errors.EXIT_CODES`)."""
        return self.code if self.status is Status.REFUSED else exit_code(self.name)

    @property
    def sentence(self) -> str:
        """What happened, as a sentence for the user."""
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
