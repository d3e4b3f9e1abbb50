"""What passes between the server and the process of a job: the order, and the stage of the analysis in words.

The order has plain words and numbers, so that the server needs nothing of the engine. The stage is written to a file by
the guarded child, which may do anything with it, since it reads a stranger's bytes. So the file is opened only if it is
a plain one, little of it is read, and words that are not from here are not shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from time import monotonic
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from thpdiag.sandbox.outcome import Limits
from thpdiag.serve.storage.jobs import Job

if TYPE_CHECKING:
    from thpdiag.host.reading import Step


@dataclass(frozen=True, slots=True)
class AnalysisOrder:
    """One bundle to be analysed.

    `files` have the names that were uploaded, which may decide what they are taken for, and lead to the bundles as they
    are kept; they lie in one folder. The child writes into `room` alone. `size` is in bytes, of all. `rules` are
    folders with further rules; together with those that come along their digest has to be `rules_digest`.
    """

    sha256: str
    name: str
    size: int
    files: tuple[Path, ...]
    room: Path
    limits: Limits
    rules: tuple[Path, ...] = ()
    rules_digest: str = ""


def prepare_order(
    job: Job, contents: Mapping[str, Path], folder: Path, limits: Limits,
    rules: tuple[Path, ...] = (), rules_digest: str = "",
) -> AnalysisOrder:  # fmt: skip
    """The order of a job, which is worked on in an empty folder of its own; `contents` are its files by name."""
    named, room = folder / "named", folder / "room"
    named.mkdir()
    room.mkdir()
    files = link_files(contents, named)
    size = sum(content.stat().st_size for content in contents.values())
    return AnalysisOrder(job.sha256, job.name, size, files, room, limits, rules, rules_digest)


def link_files(contents: Mapping[str, Path], folder: Path) -> tuple[Path, ...]:
    """Links in a folder, by the names of the files, to where they are kept."""
    for name, content in contents.items():
        (folder / name).symlink_to(content.absolute())
    return tuple(folder / name for name in contents)


STAGE_FILE: Final = "stage"
STAGE_BYTES: Final = 60  # bytes of the file, always: a reader never meets half of the words
STAGE_SECONDS: Final = 0.2  # seconds between two counts
STAGE_READING: Final = "reading file {}"
STAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "read": "listing the bundle",
        "cases": "distinguishing hosts",
        "rules": "evaluating the rules",
        "lines that are cited": "quoting the cited lines",
        "result": "writing the result",
    }
)
STAGE_PACKING: Final = "packing the result"
_KNOWN_STAGES: Final = re.compile(
    rf"reading file \d{{1,9}}|{'|'.join(map(re.escape, (*STAGES.values(), STAGE_PACKING)))}", re.ASCII
)


@dataclass(slots=True)
class StageWriter:
    """Where the child says what it does. A disk without room for that is no matter of the analysis."""

    room: Path
    _counted: float = -STAGE_SECONDS

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """What the analysis calls the block."""
        self.tell(STAGES.get(name, ""))
        yield

    def count(self, step: Step) -> None:
        """The files of the bundle that are read."""
        now = monotonic()
        if step.files and now - self._counted >= STAGE_SECONDS:
            self._counted = now
            self.tell(STAGE_READING.format(step.files))

    def tell(self, words: str) -> None:
        with suppress(OSError):
            handle = os.open(self.room / STAGE_FILE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.pwrite(handle, words.ljust(STAGE_BYTES).encode("ascii", "replace")[:STAGE_BYTES], 0)
            finally:
                os.close(handle)


def read_stage(room: Path) -> str:
    """What is being done now; empty if nothing of ours is told."""
    try:
        handle = os.open(room / STAGE_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        if not S_ISREG(os.fstat(handle).st_mode):
            return ""
        words = os.pread(handle, STAGE_BYTES, 0).decode("ascii", "replace").strip()
    except OSError:
        return ""
    finally:
        os.close(handle)
    return words if _KNOWN_STAGES.fullmatch(words) else ""
