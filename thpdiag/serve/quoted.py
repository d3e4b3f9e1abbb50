"""Lines of a file in a bundle, read in a guarded child: what comes back is data, never a page.

The bundle is read from its start up to the lines that are asked for, and nothing of it is kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from thpdiag.bundle import Limits as Bounds
from thpdiag.bundle import Member, members
from thpdiag.guard.limits import MIB, Cell, Limits
from thpdiag.guard.outcome import Answer, Status
from thpdiag.guard.preloaded import Preloaded
from thpdiag.model import Problem

MOST: Final = 200  # lines at once
LONGEST: Final = 2_000  # characters of a line
GUARD: Final = Limits(cpu_seconds=30, wall_seconds=60.0, memory=512 * MIB, file_size=0, files=64, answer=4 * MIB)
BOUNDS: Final = Bounds(cpu_seconds=20.0, wall_seconds=40.0, line=16 * 1024)
BINARY: Final = "it is no text and has no lines"
NOT_THERE: Final = "no file of this name was found in the bundle"
ENDED: Final = "the file ends before this line"
CUT: Final = "the bundle could not be read so far: {}"
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class Quoted:
    """Numbered lines from 1, or why there are none; `ends` says that the file has no more."""

    lines: tuple[tuple[int, str], ...] = ()
    ends: bool = False
    reason: str = ""


def quoted(bundle: Path, member: str, first: int, last: int) -> Quoted:
    """The lines `first` to `last` of a member, MOST at the most; takes a process and the time to read up to them."""
    call = partial(read, bundle, member, first, min(last, first + MOST - 1))
    with Preloaded() as process:
        outcome = process.submit(call, GUARD, Cell(read=(bundle,))).result()
    if outcome.status is not Status.OK:
        return Quoted(reason=CUT.format(outcome.name))
    told = json.loads(outcome.content)
    return Quoted(tuple((number, text) for number, text in told["lines"]), told["ends"], told["reason"])


def read(bundle: Path, member: str, first: int, last: int) -> Answer:
    """The same within the child, as JSON."""
    lines: list[tuple[int, str]] = []
    ends, reason = False, NOT_THERE
    for found in members([bundle], lambda path: path == member, BOUNDS):
        if isinstance(found, Problem):
            reason = CUT.format(found.text) if found.hides else reason
        elif _is(found, member, bundle):
            lines, ends, reason = _lines(found, first, last)
            break
    told = {"lines": lines, "ends": ends, "reason": reason}
    return Answer(json.dumps(told).encode())


def _is(found: Member, member: str, bundle: Path) -> bool:
    """Whether it is the one; a bundle that is no archive has the name under which it is kept, not that it came with."""
    return found.path in (member, bundle.name) or member in found.aliases


def _lines(found: Member, first: int, last: int) -> tuple[list[tuple[int, str]], bool, str]:
    head = found.head(4096)
    if b"\0" in head and not head.startswith(_UTF16):
        return [], False, BINARY
    rows = list(islice(_cut(found.lines(), first, last), MOST + 1))
    wanted = [(number, text) for number, text in rows if number <= last][:MOST]
    if wanted:
        return wanted, len(wanted) == len(rows), ""
    return [], False, CUT.format(found.problems[-1].text) if found.problems else ENDED


def _cut(lines: Iterator[tuple[int, str]], first: int, last: int) -> Iterator[tuple[int, str]]:
    """Those from `first` to one behind `last`, which says that there are more."""
    for number, text in lines:
        if number > last + 1:
            return
        if number >= first:
            yield number, text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
