"""What a process is told of a job: plain words and numbers, so that the server needs nothing of the engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from thpdiag.guard.limits import Limits
from thpdiag.serve.storage.jobs import Job


@dataclass(frozen=True, slots=True)
class Order:
    """One bundle to be analysed.

    `file` has the name that was uploaded, which may decide what it is taken for, and leads to the bundle as it is kept.
    The child writes into `room` alone. `size` is in bytes.
    """

    sha256: str
    name: str
    size: int
    file: Path
    room: Path
    limits: Limits


def prepared(job: Job, content: Path, folder: Path, limits: Limits) -> Order:
    """The order of a job, which is worked on in an empty folder of its own."""
    named, room = folder / "named", folder / "room"
    named.mkdir()
    room.mkdir()
    file = named / job.name
    file.symlink_to(content.absolute())
    return Order(job.sha256, job.name, content.stat().st_size, file, room, limits)
