"""What a worker does with one bundle: fetch it if it is far away, tell what content it is, analyse it in the guard.

All of it is told in results, never by an exception: a batch goes on whatever a bundle does.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import traceback
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from thpdiag.case.options import Options
from thpdiag.engine.load import Rule
from thpdiag.engine.rule_set import rule_set
from thpdiag.errors import StoreFullError
from thpdiag.guard.limits import Limits
from thpdiag.guard.outcome import Outcome, Status
from thpdiag.guard.preloaded import settled
from thpdiag.isolated import analyzed
from thpdiag.result.rule_packs import digest
from thpdiag.triage.item import Item
from thpdiag.triage.store.bundle import Analysis
from thpdiag.triage.store.known import Known
from thpdiag.triage.store.packed import LEVEL, Packed, rows, unread
from thpdiag.triage.store.trouble import NO_ROOM
from thpdiag.triage.worklist.addresses import fetched
from thpdiag.triage.worklist.collections import Collection, collected
from thpdiag.triage.worklist.identity import identity
from thpdiag.triage.worklist.labels import is_address
from thpdiag.triage.worklist.unread import UnreadError
from thpdiag.warm import warm

SAFE = "What is stored is whole; make room and run it again with --resume."
UNKNOWN = "nothing in it was recognised"
CHANGED = "it changed while it was read; once it is complete, --resume takes it again"
DISK = "disk space"  # a limit of the guard: what a child wrote had no room
LITTLE = 1 << 20  # bytes; less on the disk is none
_PLACE = re.compile(r'File "(?:[^"]*/)?([^"/]+)", line (\d+)')


@dataclass(frozen=True, slots=True)
class Asked:
    """What is the same for all bundles of a run.

    What is `known` has a result that is not made again. `most` bounds what is fetched for one bundle.
    """

    analysis: Analysis
    scratch: Path
    folders: tuple[Path, ...] = ()
    changes: tuple[str, ...] = ()
    options: Options = Options()  # noqa: RUF009 - frozen
    limits: Limits = Limits()  # noqa: RUF009 - frozen
    known: Known = Known()  # noqa: RUF009 - frozen
    most: int = 8 << 30


@dataclass(frozen=True, slots=True)
class Skipped:
    """A bundle whose result is in the store."""

    sha256: str
    path: str


Done = Packed | Skipped


@cache
def warmed(folders: tuple[Path, ...], changes: tuple[str, ...]) -> None:
    """Have loaded and compiled what every bundle needs, so that no child does it again; for a process that forks.

    Done once: a worker of a fork server that has done it has nothing left to do.
    """
    warm(_rules(folders, changes))
    settled()


def worked(item: Item, asked: Asked) -> list[Done]:
    """The result of a bundle; of an archive of archives those of all that are in it."""
    if item.refused:
        return [refused(item, item.refused)]
    try:
        with TemporaryDirectory(prefix="bundle-", dir=asked.scratch) as scratch:
            return list(_worked(item, asked, Path(scratch)))
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise StoreFullError(f"{asked.scratch}: no room to work in ({error.strerror}). {SAFE}") from error


def refused(item: Item, why: str) -> Packed:
    """A bundle that was not read, or to no avail: it is known by its path, not by its content.

    So every failed upload is told by its name, though all have the same content, and no longer once it has succeeded.
    """
    return Packed(unread(item.told), item.told, item.size, str(Status.REFUSED), why)


def lost(item: Item, why: str, attempts: int) -> Packed:
    """A bundle whose worker died."""
    return Packed(unread(item.told), item.told, item.size, "lost", why, attempts)


def late(item: Item, seconds: float, attempts: int) -> Packed:
    """A bundle whose worker came to no end."""
    why = f"nothing came of it within {seconds / 3600:g} hours"
    return Packed(unread(item.told), item.told, item.size, str(Status.TIMEOUT), why, attempts)


def failed(item: Item, error: BaseException, attempts: int) -> Packed:
    """A bundle that made thpdiag itself fail, outside of the guard."""
    why = mistake("".join(traceback.format_exception(error)))
    return Packed(unread(item.told), item.told, item.size, str(Status.BUG), why, attempts)


def mistake(text: str) -> str:
    """A traceback in a line: what, and where in which file of ours."""
    lines = [line for line in text.split("\n") if line.strip()]
    places = _PLACE.findall(text)
    where = f" ({places[-1][0]}, line {places[-1][1]})" if places else ""
    return f"thpdiag failed on it, please report that: {lines[-1].strip() if lines else 'no words'}{where}"


def _worked(item: Item, asked: Asked, scratch: Path) -> Iterator[Done]:
    try:
        if is_address(item.place):
            item = replace(item, place=str(fetched(item.place, scratch, asked.most)))
        inner = collected(Path(item.place), scratch)
    except UnreadError as error:
        _room(asked.scratch)
        yield refused(item, str(error))
        return
    yield from [_one(item, asked)] if inner is None else _inner(inner, item, asked)


def _inner(found: Collection, item: Item, asked: Asked) -> Iterator[Done]:
    """The results of an archive of archives; of what lies beside them only if something in it is recognised.

    If that is so, and none of the archives is a bundle, they belong to it: all of it is one.
    """
    ended = []
    for one in (replace(inner, told=f"{item.told}/{inner.told}") for inner in found):
        ended.append(refused(one, one.refused) if one.refused else _one(one, asked))
    beside = found.beside and _one(replace(found.beside, told=f"{item.told}/{found.beside.told}"), asked)
    if beside and _recognised(beside):
        yield from [*ended, beside] if any(map(_recognised, ended)) else [_one(item, asked)]
    else:
        yield from ended


def _recognised(done: Done) -> bool:
    return isinstance(done, Skipped) or done.status != Status.REFUSED


def _one(item: Item, asked: Asked) -> Done:
    """The result of a bundle; one that somebody is still writing is begun once more."""
    for _ in range(2):
        before = _stamp(item)
        done = _read(item, asked)
        if _stamp(item) == before:
            return done
    return refused(item, CHANGED)


def _stamp(item: Item) -> tuple[int, ...] | None:
    """What changes when a file does; of a folder, when a name in it does."""
    try:
        found = os.stat(item.place)  # noqa: PTH116 - a name that came from a list
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _read(item: Item, asked: Asked) -> Done:
    try:
        content = identity(Path(item.place))
    except UnreadError as error:
        return refused(item, str(error))
    if content.sha256 in asked.known:
        return Skipped(content.sha256, item.told)
    outcome = analyzed(
        [Path(item.place)], _rules(asked.folders, asked.changes), asked.options,
        limits=asked.limits, scratch=asked.scratch,
    )  # fmt: skip
    if outcome.detail == DISK:
        _room(asked.scratch)
    return _packed(content.sha256, replace(item, size=content.size), outcome)


def _room(scratch: Path) -> None:
    """A disk that stays full when a bundle has gone from it is no matter of that bundle."""
    if shutil.disk_usage(scratch).free < LITTLE:
        raise StoreFullError(f"{scratch}: no room to work in. {SAFE}")


def _packed(sha256: str, item: Item, outcome: Outcome) -> Packed:
    if outcome.status is not Status.OK:
        why = mistake(outcome.detail) if outcome.status is Status.BUG else outcome.sentence
        return Packed(sha256, item.told, item.size, outcome.name, why)
    document = json.loads(outcome.content)
    status, reason = ended(document)
    if status == Status.REFUSED:
        return refused(item, reason)
    packed = zlib.compress(outcome.content, LEVEL)
    return Packed(sha256, item.told, item.size, status, reason, 1, packed, rows(document, status))


def ended(document: Mapping[str, Any]) -> tuple[str, str]:
    """Whether the document speaks of all of the bundle: its status and why; as `analyze` leaves with 3, 6, 5 or 0."""
    cases = document.get("cases") or [document]
    problems = [problem for case in cases for problem in case["problems"]]
    undecided = any(case["unknown"] for case in cases)
    cut = _first([problem for problem in problems if problem["kind"] == "limit"])
    damage = _first([problem for problem in problems if problem.get("hides") and undecided])
    if not any(given.get("reader") for case in cases for given in case["inputs"]):
        return str(Status.REFUSED), "; ".join(filter(None, (UNKNOWN, cut or damage)))
    if cut:
        return str(Status.LIMIT), cut
    return (str(Status.PARTIAL), damage) if damage else (str(Status.OK), "")


def _first(problems: Sequence[Mapping[str, Any]]) -> str:
    """The first of them, and how many more there are; empty if there is none."""
    if not problems:
        return ""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{problems[0].get('member', '')}: {problems[0]['text']}{more}"


def rules_digest(asked: Asked) -> str:
    """What the rules are where this runs."""
    return digest(_rules(asked.folders, asked.changes))


@cache
def _rules(folders: tuple[Path, ...], changes: tuple[str, ...]) -> tuple[Rule, ...]:
    return rule_set(folders, changes)
