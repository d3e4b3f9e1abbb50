"""The way into the bundle stage: the inputs the user names, one after another, as members and problems."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
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
    the user names is given in any case. `stdin` stands for `-` in `paths`. Of several inputs each has its name before
    the paths of its members, for two captures of one host hold files of the same names.
    """
    yield from _members(list(zip(paths, _labels(paths), strict=True)), wants, limits, stdin)


def members_again(
    paths: Sequence[Path], wants: Callable[[str], object], limits: Limits = _DEFAULTS, stdin: BinaryIO | None = None
) -> Iterator[Member]:
    """Members that were read before, a second time, as far as that goes; by the same names. What is wrong was told."""
    labelled = [(path, label) for path, label in zip(paths, _labels(paths), strict=True) if lasting(path, stdin)]
    if STDIN in paths and stdin is not None and lasting(STDIN, stdin):
        stdin.seek(0)
    for found in _members(labelled, wants, limits, stdin):
        if isinstance(found, Member):
            yield found


def lasting(path: Path, stdin: BinaryIO | None = None) -> bool:
    """Whether it can be read a second time. A pipe cannot: a named one would wait for somebody to write to it."""
    if path == STDIN:
        return stdin is not None and stdin.seekable()
    try:
        return _kind(path) in {stat.S_IFREG, stat.S_IFDIR}
    except StreamError:
        return False


def _members(
    labelled: Sequence[tuple[Path, str]], wants: Callable[[str], object], limits: Limits, stdin: BinaryIO | None
) -> Iterator[Member | Problem]:
    budget = Budget(limits)
    for path, label in labelled:
        name = "stdin" if path == STDIN else _name(path)
        try:
            for found in _input(path, name, wants, budget, stdin):
                yield _labelled(found, label, name)
        except StreamError as failure:
            yield failure.problem(label or name, hides=True)


def _name(path: Path) -> str:
    return printable(os.fsencode(path.name or path.resolve().name))


def _labels(paths: Sequence[Path]) -> list[str]:
    """A name for each of several inputs: its own, with its parent's where two are alike, numbered as a last resort."""
    if len(paths) == 1:
        return [""]
    names = [_name(path) for path in paths]
    if len(set(names)) < len(names):
        names = [f"{_name(path.absolute().parent)}/{_name(path)}" for path in paths]
    return [name if names.count(name) == 1 else f"{name}.{i}" for i, name in enumerate(names, start=1)]


def _labelled(found: Member | Problem, label: str, name: str) -> Member | Problem:
    """The same under its input's label; a single file is its own label."""
    if not label:
        return found
    if isinstance(found, Member):
        found.path = label if found.path == name else f"{label}/{found.path}"
        return found
    member = found.cite.member
    place = label if member == name else f"{label}/{member}"
    return replace(found, cite=replace(found.cite, member=place))


def _input(
    path: Path, name: str, wants: Callable[[str], object], budget: Budget, stdin: BinaryIO | None
) -> Iterator[Member | Problem]:
    intake = Intake(wants, budget)
    yield from _walked(path, name, intake, stdin)
    if intake.late:
        yield from _again(path, name, intake.late, budget)


def _walked(path: Path, name: str, intake: Intake, stdin: BinaryIO | None) -> Iterator[Member | Problem]:
    if path == STDIN:
        yield from intake.file(stdin or sys.stdin.buffer, name)
    elif _kind(path) == stat.S_IFDIR:
        yield from intake.directory(path, name)
    else:
        with _opened(path) as file:
            yield from intake.file(file, name)


def _again(path: Path, name: str, late: dict[str, tuple[str, ...]], budget: Budget) -> Iterator[Member | Problem]:
    """Links that stood behind their targets: a file is read a second time for them, a pipe cannot be."""
    if not lasting(path):
        text = "is wanted by a link that came after it, and a stream cannot be read twice"
        for member in late:
            yield Problem(Citation(member), text, ProblemKind.UNREADABLE)
        return
    for found in _walked(path, name, Intake(late.__contains__, budget), None):
        if isinstance(found, Member) and found.path in late:
            found.aliases = late[found.path]
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
