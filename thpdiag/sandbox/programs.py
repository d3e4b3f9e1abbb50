"""Running external programs that decode what thpdiag cannot: sadf, pmrep.

This is the only place that starts other programs. A program runs without a shell, with three environment variables
(none of the user's), in the root folder, with its input as an open file, and must not write files. Its output is
streamed. A program that hangs, prints without end or dies is killed with all its children, and `ending` states why. On
systems without rlimits (Windows) no program is found.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO

ENVIRONMENT: Mapping[str, str] = {"LC_ALL": "C", "TZ": "UTC", "PATH": "/usr/local/bin:/usr/bin:/bin"}
STDIN = "/dev/stdin"  # the input, for programs that need a file name; the file itself may be unlinked
_KEPT_STDERR_BYTES = 4096
# Code between fork and exec is unsafe in a process with threads, and limits that the parent sets come too late. So a
# separate interpreter sets the limits on itself and then executes the program.
_LAUNCHER = """
import os, resource, sys
for which, most in zip(*[iter(map(int, sys.argv[1:11]))] * 2):
    hard = resource.getrlimit(which)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (most, most))
os.execv(sys.argv[11], sys.argv[11:])
"""


@dataclass(frozen=True, slots=True)
class ProgramLimits:
    """The limits of a program. `seconds` is the time spent waiting for its output, not that of its reader."""

    seconds: float = 300.0
    cpu_seconds: int = 300
    output: int = 1 << 31  # bytes
    memory: int = 1 << 30  # bytes of address space
    files: int = 64


class Ending(StrEnum):
    """How a program ended."""

    RUNNING = "is running"
    DONE = "ended well"
    FAILED = "ended with an error"
    CRASHED = "crashed"
    TIMED_OUT = "took too long and was stopped"
    TOO_LONG = "printed too much and was stopped"
    STOPPED = "was no longer needed"
    NOT_STARTED = "could not be started"

    @property
    def is_limit(self) -> bool:
        """Whether a limit cut the output."""
        return self in (Ending.TIMED_OUT, Ending.TOO_LONG)


def find_program(program: str) -> Path | None:
    """Return the path of a program. Only absolute folders of PATH are searched, never the analyzed data."""
    if importlib.util.find_spec("resource") is None:
        return None
    folders = [f for f in os.environ.get("PATH", os.defpath).split(os.pathsep) if f.startswith("/")]
    path = shutil.which(program, path=os.pathsep.join(folders))
    return Path(path) if path else None


class ProgramRun:
    """One run of a program. Iteration yields its output; afterwards `ending` and `stderr` are final."""

    def __init__(
        self,
        program: Path,
        arguments: Sequence[str],
        stdin: IO[bytes] | None = None,
        bounds: ProgramLimits = ProgramLimits(),
    ) -> None:
        self.ending = Ending.RUNNING
        self.stderr = b""
        self._command = [str(program), *arguments]
        self._stdin = stdin
        self._bounds = bounds

    @property
    def complaint(self) -> str:
        """The first line of stderr, if it is printable."""
        line = self.stderr.partition(b"\n")[0].decode("ascii", "replace").strip()[:200]
        return line if line.isprintable() else ""

    def __iter__(self) -> Generator[bytes, None, None]:
        if not os.access(self._command[0], os.X_OK):
            self.ending, self.stderr = Ending.NOT_STARTED, b"no such program, or not to be executed"
            return
        try:
            child = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _LAUNCHER, *_rlimit_arguments(self._bounds), *self._command],
                stdin=self._stdin or subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=dict(ENVIRONMENT), cwd="/", start_new_session=True, bufsize=0,
            )  # fmt: skip
        except (OSError, ValueError) as error:  # no interpreter, or an argument with a NUL
            self.ending, self.stderr = Ending.NOT_STARTED, str(error).encode()
            return
        try:
            yield from self._read_output(child)
            self.ending = self._wait(child)
        finally:
            if self.ending is Ending.RUNNING:
                self.ending = Ending.STOPPED
            _kill(child)

    def _read_output(self, child: subprocess.Popen[bytes]) -> Generator[bytes, None, None]:
        from thpdiag.sandbox.supervise import read_pipes  # Unix only, as is `resource`

        stdout, stderr = (pipe.fileno() for pipe in (child.stdout, child.stderr) if pipe)
        room = self._bounds.output
        try:
            for pipe, part in read_pipes((stdout, stderr), self._bounds.seconds):
                if pipe == stderr:
                    self.stderr = (self.stderr + part)[:_KEPT_STDERR_BYTES]
                    continue
                yield part[:room]
                room -= len(part)
                if room < 0:
                    self.ending = Ending.TOO_LONG
                    return
        except TimeoutError:
            self.ending = Ending.TIMED_OUT

    def _wait(self, child: subprocess.Popen[bytes]) -> Ending:
        if self.ending is not Ending.RUNNING:
            return self.ending
        try:  # it has closed its output, so it should end soon
            code = child.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return Ending.TIMED_OUT
        if code < 0:
            return Ending.TIMED_OUT if -code in (signal.SIGXCPU, signal.SIGKILL) else Ending.CRASHED
        return Ending.FAILED if code else Ending.DONE


def _rlimit_arguments(bounds: ProgramLimits) -> Iterator[str]:
    """Yield pairs of numbers for the launcher: resource and limit."""
    import resource

    limits = {
        resource.RLIMIT_CPU: bounds.cpu_seconds,
        resource.RLIMIT_NOFILE: bounds.files,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_AS: bounds.memory,
    }
    yield from (str(number) for pair in limits.items() for number in pair)


def _kill(child: subprocess.Popen[bytes]) -> None:
    """Kill the program and its process group, and close the pipes."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()
