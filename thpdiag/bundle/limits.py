"""How much of a bundle is read before thpdiag stops and says so.

Every limit ends with a Problem that names it; none is silent. `Limits` are the numbers, `Budget` counts against those
that hold for all inputs and all nesting levels together.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from thpdiag.bundle.failure import StreamError
from thpdiag.model import ProblemKind

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes unless said otherwise.

    `codec_memory` is for the outermost decompressor; one inside another gets half (xz -9 needs 65 MiB, zstd -22 128
    MiB). Repetitive logs pack well, so `ratio` is asked only after `ratio_after` bytes.
    """

    total_bytes: int = 64 * GIB  # decompressed, all levels added
    ratio: int = 250  # decompressed bytes per byte of the customer's files
    ratio_after: int = GIB
    members: int = 1_000_000
    wanted: int = 200_000  # members that are given to readers
    metadata: int = MIB  # of one extended header, sparse map or zip record
    name: int = 4 * KIB
    nesting: int = 3  # archives in archives
    codec_memory: int = 144 * MIB
    line: int = 64 * KIB
    member_bytes: int = 4 * GIB  # of one member
    hole_bytes: int = 64 * MIB  # zeros put in for the holes of one sparse member
    held_bytes: int = 64 * MIB  # a zip that cannot be sought in is held in memory
    links: int = 200_000
    link_bytes: int = 32 * MIB  # of all link names of one archive
    directory_depth: int = 128
    cpu_seconds: float = 300.0
    wall_seconds: float = 3600.0


class Budget:
    """What has been used of the limits that hold for everything together."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.read = 0
        self.total = 0
        self.members = 0
        self.wanted = 0
        self._cpu = time.process_time() + limits.cpu_seconds
        self._wall = time.monotonic() + limits.wall_seconds

    def took(self, size: int) -> None:
        """`size` bytes were read from the customer's files."""
        self.read += size

    def gave(self, size: int) -> None:
        """`size` bytes came out of a file or a decompressor; raises StreamError when a limit is passed."""
        self.total += size
        limits = self.limits
        if self.total > limits.total_bytes:
            raise _reached("total_bytes", f"more than {limits.total_bytes} bytes in all")
        if self.total > limits.ratio_after and self.total > limits.ratio * self.read:
            raise _reached("ratio", f"unpacks to more than {limits.ratio} times its size")
        if time.process_time() > self._cpu:
            raise _reached("cpu_seconds", f"took more than {limits.cpu_seconds:g} s of CPU")
        if time.monotonic() > self._wall:
            raise _reached("wall_seconds", f"took more than {limits.wall_seconds:g} s")

    def met(self, members: int) -> None:
        """`members` more members were seen."""
        self.members += members
        if self.members > self.limits.members:
            raise _reached("members", f"more than {self.limits.members} members")

    def gives(self) -> None:
        """One more member goes to the readers."""
        self.wanted += 1
        if self.wanted > self.limits.wanted:
            raise _reached("wanted", f"more than {self.limits.wanted} members that are of interest")


def _reached(limit: str, text: str) -> StreamError:
    return StreamError(ProblemKind.LIMIT, f"{text} (limit {limit}); the rest was not read")
