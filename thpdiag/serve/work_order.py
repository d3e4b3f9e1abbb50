"""Communication between the server and the process of a job: the order, and the stage of the analysis.

The order consists of plain types, so that the server need not import the engine. The sandboxed child, which parses
untrusted data, writes the stage to a file. So the file is read only if it is a regular one, up to STAGE_BYTES, and only
known texts are shown.
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

    `files` are links to the stored bundles in one folder; they have the uploaded names, which detection may use. The
    child writes only to `scratch`. `size` is the total in bytes. `rules` are folders with further rules;
    `rules_digest` is the expected digest of these and the built-in rules.
    """

    sha256: str
    name: str
    size: int
    files: tuple[Path, ...]
    scratch: Path
    limits: Limits
    rules: tuple[Path, ...] = ()
    rules_digest: str = ""


def prepare_order(
    job: Job, contents: Mapping[str, Path], folder: Path, limits: Limits,
    rules: tuple[Path, ...] = (), rules_digest: str = "",
) -> AnalysisOrder:  # fmt: skip
    """Return the order of a job that uses an empty folder; `contents` are its files by name."""
    named, scratch = folder / "named", folder / "room"
    named.mkdir()
    scratch.mkdir()
    files = link_files(contents, named)
    size = sum(content.stat().st_size for content in contents.values())
    return AnalysisOrder(job.sha256, job.name, size, files, scratch, limits, rules, rules_digest)


def link_files(contents: Mapping[str, Path], folder: Path) -> tuple[Path, ...]:
    """Create symbolic links to stored files in a folder, by name."""
    for name, content in contents.items():
        (folder / name).symlink_to(content.absolute())
    return tuple(folder / name for name in contents)


STAGE_FILE: Final = "stage"
STAGE_BYTES: Final = 60  # constant size of the file, so that a reader never gets a partial text
STAGE_SECONDS: Final = 0.2  # between two counts of files
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
    """Writes the stage of the analysis to a file; a full disk is ignored."""

    scratch: Path
    _counted: float = -STAGE_SECONDS

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self.write(STAGES.get(name, ""))
        yield

    def count(self, step: Step) -> None:
        """Write the number of files read, at most every STAGE_SECONDS."""
        now = monotonic()
        if step.files and now - self._counted >= STAGE_SECONDS:
            self._counted = now
            self.write(STAGE_READING.format(step.files))

    def write(self, words: str) -> None:
        with suppress(OSError):
            handle = os.open(self.scratch / STAGE_FILE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.pwrite(handle, words.ljust(STAGE_BYTES).encode("ascii", "replace")[:STAGE_BYTES], 0)
            finally:
                os.close(handle)


def read_stage(scratch: Path) -> str:
    """Return the stage of the analysis; empty if there is no known text."""
    try:
        handle = os.open(scratch / STAGE_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
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
