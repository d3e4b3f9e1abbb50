"""The way into the bundle stage: the inputs the user names, one after another, as members and problems."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from thpdiag.bundle.directory import cannot
from thpdiag.bundle.failure import StreamError
from thpdiag.bundle.intake import Intake
from thpdiag.bundle.limits import Budget, Limits
from thpdiag.bundle.member import Member
from thpdiag.bundle.names import printable
from thpdiag.model import Citation, Problem, ProblemKind

STDIN = Path("-")
_DEFAULTS = Limits()


def members(
    paths: Sequence[Path], wants: Callable[[str], object], limits: Limits = _DEFAULTS, stdin: BinaryIO | None = None
) -> Iterator[Member | Problem]:
    """The members that `wants` asks for, each valid until the next is asked for, and what could not be read.

    `wants` gets the path of every file in an archive or directory, and the paths of links that lead to it. A file that
    the user names is given in any case. `stdin` stands for `-` in `paths`.
    """
    budget = Budget(limits)
    for path in paths:
        name = "stdin" if path == STDIN else printable(os.fsencode(path.name or path.resolve().name))
        try:
            yield from _input(path, name, wants, budget, stdin)
        except StreamError as failure:
            yield failure.problem(name, hides=True)


def _input(
    path: Path, name: str, wants: Callable[[str], object], budget: Budget, stdin: BinaryIO | None
) -> Iterator[Member | Problem]:
    intake = Intake(wants, budget)
    if path == STDIN:
        yield from intake.file(stdin or sys.stdin.buffer, name)
    elif _kind(path) == stat.S_IFDIR:
        yield from intake.directory(path, name)
        return
    else:
        with _opened(path) as file:
            yield from intake.file(file, name)
    if intake.late:
        yield from _again(path, name, intake, budget)


def _again(path: Path, name: str, first: Intake, budget: Budget) -> Iterator[Member | Problem]:
    """Links that stood behind their targets: a file is read a second time for them, a pipe cannot be."""
    if path == STDIN or _kind(path) != stat.S_IFREG:
        text = "is wanted by a link that came after it, and a stream cannot be read twice"
        for late in first.late:
            yield Problem(Citation(late), text, ProblemKind.UNREADABLE)
        return
    with _opened(path) as file:
        for found in Intake(first.late.__contains__, budget).file(file, name):
            if isinstance(found, Member):
                found.aliases = first.late.get(found.path, ())
                yield found


def _opened(path: Path) -> BinaryIO:
    """A regular file or a pipe; the user's own links are followed."""
    if _kind(path) not in {stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK}:
        raise StreamError(ProblemKind.REFUSED, "is no file, pipe or directory")
    try:
        return path.open("rb", buffering=0)
    except OSError as error:
        raise cannot(error) from error


def _kind(path: Path) -> int:
    try:
        return stat.S_IFMT(path.stat().st_mode)
    except OSError as error:
        raise cannot(error) from error
