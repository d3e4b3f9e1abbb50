"""What a worker does with one bundle: fetch it if it is far away, tell what content it is, analyse it in the guard;
and the workers of this machine.

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
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from thpdiag import fleet
from thpdiag.engine.load import Rule, digest, rule_set
from thpdiag.errors import StoreFullError, ThpdiagError
from thpdiag.fleet.sources.collections import Collection, open_collection
from thpdiag.fleet.sources.item import BundleItem, UnreadError, identity
from thpdiag.fleet.sources.remote import fetch, is_address
from thpdiag.host.options import Options
from thpdiag.isolated import analyze_isolated, preload_analysis
from thpdiag.report.ci import NOT_RECOGNISED
from thpdiag.sandbox.outcome import Limits, Outcome, Status
from thpdiag.sandbox.preload import Handler, WorkerDiedError, WorkerPool, freeze_memory
from thpdiag.store.results import ZLIB_LEVEL, Analysis, KnownContents, PackedResult, rows_of_document, unread_key
from thpdiag.store.schema import DISK_FULL_ERRNOS

RESUME_HINT = "The stored results are complete; free space, and run it again with --resume."
CHANGED = "it changed while it was read; once it is complete, --resume takes it again"
DISK_SPACE = "disk space"  # a limit of the guard: what a child wrote had no room
MIN_FREE_BYTES = 1 << 20  # bytes; less on the disk is none
MAX_ATTEMPTS: Final = 2
MAX_ITEM_SECONDS: Final = 86_400.0  # of an archive of archives for all that is in it
ITEMS_PER_WORKER: Final = 4  # that are handed over before they are worked on
_PLACE = re.compile(r'File "(?:[^"]*/)?([^"/]+)", line (\d+)')


@dataclass(frozen=True, slots=True)
class RunConfig:
    """What is the same for all bundles of a run.

    What is `known` has a result that is not made again. `most` bounds what is fetched for one bundle.
    """

    analysis: Analysis
    scratch: Path
    folders: tuple[Path, ...] = ()
    changes: tuple[str, ...] = ()
    options: Options = Options()  # noqa: RUF009 - frozen
    limits: Limits = Limits()  # noqa: RUF009 - frozen
    known: KnownContents = KnownContents()  # noqa: RUF009 - frozen
    most: int = 8 << 30


@dataclass(frozen=True, slots=True)
class Skipped:
    """A bundle whose result is in the store."""

    sha256: str
    path: str


ItemResult = PackedResult | Skipped
Results = Future[list[ItemResult]]


@cache
def preload(folders: tuple[Path, ...], changes: tuple[str, ...]) -> None:
    """Have loaded and compiled what every bundle needs, so that no child does it again; for a process that forks.

    Done once: a worker of a fork server that has done it has nothing left to do.
    """
    preload_analysis(_rules(folders, changes))
    freeze_memory()


def work_on(item: BundleItem, config: RunConfig) -> list[ItemResult]:
    """The result of a bundle; of an archive of archives those of all that are in it."""
    if item.refused:
        return [unread_result(item, Status.REFUSED, item.refused)]
    try:
        with TemporaryDirectory(prefix="bundle-", dir=config.scratch) as scratch:
            return list(_work_on_file(item, config, Path(scratch)))
    except OSError as error:
        if error.errno not in DISK_FULL_ERRNOS:
            raise
        raise StoreFullError(f"{config.scratch}: no room to work in ({error.strerror}). {RESUME_HINT}") from error


def unread_result(item: BundleItem, status: str, why: str, attempts: int = 1) -> PackedResult:
    """A bundle that was not read, or to no avail: it is known by its path, not by its content.

    So every failed upload is named in the results, though all have the same content, and no longer once it succeeded.
    `lost` is one whose worker died.
    """
    return PackedResult(unread_key(item.label), item.label, item.size, str(status), why, attempts)


def failed_result(item: BundleItem, error: BaseException, attempts: int) -> PackedResult:
    """A bundle that made thpdiag itself fail, outside of the child process."""
    why = describe_bug("".join(traceback.format_exception(error)))
    return unread_result(item, Status.BUG, why, attempts)


def describe_bug(text: str) -> str:
    """A traceback in a line: what, and where in which file of ours."""
    lines = [line for line in text.split("\n") if line.strip()]
    places = _PLACE.findall(text)
    where = f" ({places[-1][0]}, line {places[-1][1]})" if places else ""
    return f"thpdiag failed on it, please report that: {lines[-1].strip() if lines else 'no words'}{where}"


def _work_on_file(item: BundleItem, config: RunConfig, scratch: Path) -> Iterator[ItemResult]:
    try:
        if is_address(item.place):
            item = replace(item, place=str(fetch(item.place, scratch, config.most)))
        inner = open_collection(Path(item.place), scratch)
    except UnreadError as error:
        _check_free_space(config.scratch)
        yield unread_result(item, Status.REFUSED, str(error))
        return
    yield from [_work_on_bundle(item, config)] if inner is None else _work_on_collection(inner, item, config)


def _work_on_collection(found: Collection, item: BundleItem, config: RunConfig) -> Iterator[ItemResult]:
    """The results of an archive of archives; of what lies beside them only if something in it is recognised.

    If that is so, and none of the archives is a bundle, they belong to it: all of it is one.
    """
    ended = []
    for one in (replace(inner, label=f"{item.label}/{inner.label}") for inner in found):
        ended.append(unread_result(one, Status.REFUSED, one.refused) if one.refused else _work_on_bundle(one, config))
    beside = found.beside and _work_on_bundle(replace(found.beside, label=f"{item.label}/{found.beside.label}"), config)
    if beside and _is_recognised(beside):
        yield from [*ended, beside] if any(map(_is_recognised, ended)) else [_work_on_bundle(item, config)]
    else:
        yield from ended


def _is_recognised(done: ItemResult) -> bool:
    return isinstance(done, Skipped) or done.status != Status.REFUSED


def _work_on_bundle(item: BundleItem, config: RunConfig) -> ItemResult:
    """The result of a bundle; one that somebody is still writing is begun once more."""
    for _ in range(2):
        before = _file_stamp(item)
        done = _analyze(item, config)
        if _file_stamp(item) == before:
            return done
    return unread_result(item, Status.REFUSED, CHANGED)


def _file_stamp(item: BundleItem) -> tuple[int, ...] | None:
    """What changes when a file does; of a folder, when a name in it does."""
    try:
        found = os.stat(item.place)  # noqa: PTH116 - a name that came from a list
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _analyze(item: BundleItem, config: RunConfig) -> ItemResult:
    try:
        content = identity(Path(item.place))
    except UnreadError as error:
        return unread_result(item, Status.REFUSED, str(error))
    if content.sha256 in config.known:
        return Skipped(content.sha256, item.label)
    outcome = analyze_isolated(
        [Path(item.place)], _rules(config.folders, config.changes), config.options,
        limits=config.limits, scratch=config.scratch,
    )  # fmt: skip
    if outcome.detail == DISK_SPACE:
        _check_free_space(config.scratch)
    return _pack_outcome(content.sha256, replace(item, size=content.size), outcome)


def _check_free_space(scratch: Path) -> None:
    """A disk that stays full when a bundle has gone from it is no matter of that bundle."""
    if shutil.disk_usage(scratch).free < MIN_FREE_BYTES:
        raise StoreFullError(f"{scratch}: no room to work in. {RESUME_HINT}")


def _pack_outcome(sha256: str, item: BundleItem, outcome: Outcome) -> PackedResult:
    if outcome.status is not Status.OK:
        why = describe_bug(outcome.detail) if outcome.status is Status.BUG else outcome.sentence
        return PackedResult(sha256, item.label, item.size, outcome.name, why)
    document = json.loads(outcome.content)
    status, reason = status_of_document(document)
    if status == Status.REFUSED:
        return unread_result(item, Status.REFUSED, reason)
    packed = zlib.compress(outcome.content, ZLIB_LEVEL)
    return PackedResult(sha256, item.label, item.size, status, reason, 1, packed, rows_of_document(document, status))


def status_of_document(document: Mapping[str, Any]) -> tuple[str, str]:
    """Whether the document speaks of all of the bundle: its status and why; as `analyze` leaves with 3, 6, 5 or 0."""
    cases = document.get("cases") or [document]
    problems = [problem for case in cases for problem in case["problems"]]
    undecided = any(case["unknown"] for case in cases)
    cut = _first_problem([problem for problem in problems if problem["kind"] == "limit"])
    damage = _first_problem([problem for problem in problems if problem.get("hides") and undecided])
    if not any(given.get("reader") for case in cases for given in case["inputs"]):
        return str(Status.REFUSED), "; ".join(filter(None, (NOT_RECOGNISED, cut or damage)))
    if cut:
        return str(Status.LIMIT), cut
    return (str(Status.PARTIAL), damage) if damage else (str(Status.OK), "")


def _first_problem(problems: Sequence[Mapping[str, Any]]) -> str:
    """The first of them, and how many more there are; empty if there is none."""
    if not problems:
        return ""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{problems[0].get('member', '')}: {problems[0]['text']}{more}"


def rules_digest(config: RunConfig) -> str:
    """What the rules are where this runs."""
    return digest(_rules(config.folders, config.changes))


@cache
def _rules(folders: tuple[Path, ...], changes: tuple[str, ...]) -> tuple[Rule, ...]:
    return rule_set(folders, changes)


class Workers(WorkerPool):
    """Up to `count` processes of this machine, no more than there are bundles; each forks a confined child for every
    bundle. To be used as a context.

    They come from the fork server, which has loaded what all bundles need, and see nothing of a bundle but its bytes,
    blindly, and our own JSON. That one dies is not the bundle's doing but that of the machine (want of memory,
    somebody's kill), so the bundle is tried once more.
    """

    def __init__(self, config: RunConfig, count: int) -> None:
        super().__init__(count, partial(_set_up, config), fleet.preloaded_modules, MAX_ITEM_SECONDS)
        self.room = count * ITEMS_PER_WORKER

    def results_of(self, item: BundleItem) -> list[ItemResult]:
        """For a thread that waits for one item."""
        attempt = 1
        while (results := self.collect(self.submit(item), item, attempt)) is None:
            attempt += 1
        return results

    def collect(self, begun: Results, item: BundleItem, attempt: int) -> list[ItemResult] | None:
        """The results of an item; None if it is to be tried again. Raises what is wrong with the run, not the item."""
        try:
            error = begun.exception()
        except CancelledError:  # the pool was stopped
            return None
        if error is None:
            return [replace(one, attempts=attempt) if isinstance(one, PackedResult) else one for one in begun.result()]
        if isinstance(error, ThpdiagError):
            raise error
        if isinstance(error, TimeoutError):
            why = f"no result within {MAX_ITEM_SECONDS / 3600:g} hours"
            return [unread_result(item, Status.TIMEOUT, why, attempt)]
        if not isinstance(error, WorkerDiedError | OSError | MemoryError):
            return [failed_result(item, error, attempt)]
        if attempt < MAX_ATTEMPTS:
            return None
        if isinstance(error, WorkerDiedError):
            why = f"the worker process was killed {error}, twice"
        else:
            why = f"the worker process failed twice ({error or 'no memory'})"
        return [unread_result(item, "lost", why, attempt)]

    def look(self) -> None:
        """A worker that dies is replaced by the pool: there is nothing to look after."""


def _set_up(config: RunConfig) -> Handler:
    """In a worker."""
    preload(config.folders, config.changes)
    return partial(work_on, config=config)
