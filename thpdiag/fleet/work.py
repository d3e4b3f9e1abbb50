"""Work on one bundle (fetch it if it is remote, compute its digest, analyse it in the sandbox), and the pool of workers
of this machine.

A failure of a bundle becomes a result, not an exception, so that one bundle cannot end the run.
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
DISK_SPACE = "disk space"  # detail of `Status.LIMIT` when a child process got ENOSPC or EDQUOT
MIN_FREE_BYTES = 1 << 20  # a disk with less free space counts as full
MAX_ATTEMPTS: Final = 2
MAX_ITEM_SECONDS: Final = 86_400.0  # for one item; for an archive of archives this covers all bundles in it
ITEMS_PER_WORKER: Final = 4  # items per worker that are submitted in advance
_TRACEBACK_PLACE = re.compile(r'File "(?:[^"]*/)?([^"/]+)", line (\d+)')


@dataclass(frozen=True, slots=True)
class RunConfig:
    """The settings that all bundles of a run share.

    Bundles in `known` have a result and are skipped. `max_fetch_bytes` limits the download of one bundle.
    """

    analysis: Analysis
    scratch: Path
    folders: tuple[Path, ...] = ()
    changes: tuple[str, ...] = ()
    options: Options = Options()  # noqa: RUF009 - frozen
    limits: Limits = Limits()  # noqa: RUF009 - frozen
    known: KnownContents = KnownContents()  # noqa: RUF009 - frozen
    max_fetch_bytes: int = 8 << 30


@dataclass(frozen=True, slots=True)
class Skipped:
    """A bundle that was not analysed, because the store has its result."""

    sha256: str
    path: str


ItemResult = PackedResult | Skipped
Results = Future[list[ItemResult]]


@cache
def preload(folders: tuple[Path, ...], changes: tuple[str, ...]) -> None:
    """Load and compile what every bundle needs, in a process that forks, so that its children share it.

    Cached: in a worker whose fork server has called this already it returns at once.
    """
    preload_analysis(_rules(folders, changes))
    freeze_memory()


def work_on(item: BundleItem, config: RunConfig) -> list[ItemResult]:
    """Return the result of a bundle, or those of all bundles in an archive of archives."""
    if item.refused:
        return [unread_result(item, Status.REFUSED, item.refused)]
    try:
        with TemporaryDirectory(prefix="bundle-", dir=config.scratch) as scratch:
            return list(_work_on_file(item, config, Path(scratch)))
    except OSError as error:
        if error.errno not in DISK_FULL_ERRNOS:
            raise
        raise StoreFullError(f"{config.scratch}: no room to work in ({error.strerror}). {RESUME_HINT}") from error


def unread_result(item: BundleItem, status: str, reason: str, attempts: int = 1) -> PackedResult:
    """Return the result of a bundle that could not be read. Its key is its path, not its content.

    So the results name every failed upload, although all of these may have the same content, and drop the name when
    the path succeeds later. Status `lost` means that the worker died.
    """
    return PackedResult(unread_key(item.label), item.label, item.size, str(status), reason, attempts)


def failed_result(item: BundleItem, error: BaseException, attempts: int) -> PackedResult:
    """Return the result of a bundle on which thpdiag itself failed, outside of the child process."""
    return unread_result(item, Status.BUG, describe_bug("".join(traceback.format_exception(error))), attempts)


def describe_bug(text: str) -> str:
    """Return a traceback as one line: the error, and the file and line of the last frame."""
    lines = [line for line in text.split("\n") if line.strip()]
    places = _TRACEBACK_PLACE.findall(text)
    place = f" ({places[-1][0]}, line {places[-1][1]})" if places else ""
    return f"thpdiag failed on it, please report that: {lines[-1].strip() if lines else 'no words'}{place}"


def _work_on_file(item: BundleItem, config: RunConfig, scratch: Path) -> Iterator[ItemResult]:
    try:
        if is_address(item.place):
            item = replace(item, place=str(fetch(item.place, scratch, config.max_fetch_bytes)))
        collection = open_collection(Path(item.place), scratch)
    except UnreadError as error:
        _check_free_space(config.scratch)
        yield unread_result(item, Status.REFUSED, str(error))
        return
    if collection is None:
        yield _work_on_bundle(item, config)
    else:
        yield from _work_on_collection(collection, item, config)


def _work_on_collection(collection: Collection, item: BundleItem, config: RunConfig) -> Iterator[ItemResult]:
    """Yield the results of the archives in an archive, and of its other files if something in these is recognised.

    If so, and none of the archives is a bundle, the archives belong to the other files: the whole item is one bundle.
    """
    results: list[ItemResult] = []
    for inner in (replace(inner, label=f"{item.label}/{inner.label}") for inner in collection):
        refused = unread_result(inner, Status.REFUSED, inner.refused) if inner.refused else None
        results.append(refused or _work_on_bundle(inner, config))
    others = collection.siblings
    other = others and _work_on_bundle(replace(others, label=f"{item.label}/{others.label}"), config)
    if not other or not _is_recognised(other):
        yield from results
    elif any(map(_is_recognised, results)):
        yield from [*results, other]
    else:
        yield _work_on_bundle(item, config)


def _is_recognised(result: ItemResult) -> bool:
    return isinstance(result, Skipped) or result.status != Status.REFUSED


def _work_on_bundle(item: BundleItem, config: RunConfig) -> ItemResult:
    """Return the result of a bundle. If it changes while it is read, it is read once more."""
    for _ in range(2):
        before = _file_stamp(item)
        result = _analyze(item, config)
        if _file_stamp(item) == before:
            return result
    return unread_result(item, Status.REFUSED, CHANGED)


def _file_stamp(item: BundleItem) -> tuple[int, ...] | None:
    """Return inode, size and mtime: they change with the file, and for a folder with the names in it."""
    try:
        status = os.stat(item.place)  # noqa: PTH116 - a name that came from a list
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


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
    """Raise StoreFullError if the disk is full although the scratch files of the bundle are deleted."""
    if shutil.disk_usage(scratch).free < MIN_FREE_BYTES:
        raise StoreFullError(f"{scratch}: no room to work in. {RESUME_HINT}")


def _pack_outcome(sha256: str, item: BundleItem, outcome: Outcome) -> PackedResult:
    if outcome.status is not Status.OK:
        reason = describe_bug(outcome.detail) if outcome.status is Status.BUG else outcome.sentence
        return PackedResult(sha256, item.label, item.size, outcome.name, reason)
    document = json.loads(outcome.content)
    status, reason = status_of_document(document)
    if status == Status.REFUSED:
        return unread_result(item, Status.REFUSED, reason)
    packed = zlib.compress(outcome.content, ZLIB_LEVEL)
    return PackedResult(sha256, item.label, item.size, status, reason, 1, packed, rows_of_document(document, status))


def status_of_document(document: Mapping[str, Any]) -> tuple[str, str]:
    """Return status and reason: whether a document covers the whole bundle, like exit codes 3, 6, 5, 0 of `analyze`."""
    cases = document.get("cases") or [document]
    problems = [problem for case in cases for problem in case["problems"]]
    is_undecided = any(case["unknown"] for case in cases)
    limit = _first_problem([problem for problem in problems if problem["kind"] == "limit"])
    damage = _first_problem([problem for problem in problems if problem.get("hides") and is_undecided])
    if not any(row.get("reader") for case in cases for row in case["inputs"]):
        return str(Status.REFUSED), "; ".join(filter(None, (NOT_RECOGNISED, limit or damage)))
    if limit:
        return str(Status.LIMIT), limit
    return (str(Status.PARTIAL), damage) if damage else (str(Status.OK), "")


def _first_problem(problems: Sequence[Mapping[str, Any]]) -> str:
    """Describe the first problem and count the others; empty if there is none."""
    if not problems:
        return ""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{problems[0].get('member', '')}: {problems[0]['text']}{more}"


def rules_digest(config: RunConfig) -> str:
    """Return the digest of the rules on this machine."""
    return digest(_rules(config.folders, config.changes))


@cache
def _rules(folders: tuple[Path, ...], changes: tuple[str, ...]) -> tuple[Rule, ...]:
    return rule_set(folders, changes)


class Workers(WorkerPool):
    """A pool of up to `count` processes on this machine, each of which forks a confined child for every bundle.

    The processes come from the fork server, which has loaded what all bundles need. They handle a bundle as opaque
    bytes and parse only the JSON that a child returns. So the death of a worker has an outside cause (the OOM killer,
    a kill by a user), and the bundle is tried once more. A context manager.
    """

    def __init__(self, config: RunConfig, count: int) -> None:
        super().__init__(count, partial(_make_handler, config), fleet.preloaded_modules, MAX_ITEM_SECONDS)
        self.room = count * ITEMS_PER_WORKER

    def work_on(self, item: BundleItem) -> list[ItemResult]:
        """Return the results of an item; blocks the calling thread until they are there."""
        attempt = 1
        while (results := self.collect(self.submit(item), item, attempt)) is None:
            attempt += 1
        return results

    def collect(self, future: Results, item: BundleItem, attempt: int) -> list[ItemResult] | None:
        """Return the results of an item, or None if it must be tried again; raise errors of the run."""
        try:
            error = future.exception()
        except CancelledError:  # the pool was stopped
            return None
        if error is None:
            results = future.result()
            return [replace(one, attempts=attempt) if isinstance(one, PackedResult) else one for one in results]
        if isinstance(error, ThpdiagError):
            raise error
        if isinstance(error, TimeoutError):
            reason = f"no result within {MAX_ITEM_SECONDS / 3600:g} hours"
            return [unread_result(item, Status.TIMEOUT, reason, attempt)]
        if not isinstance(error, WorkerDiedError | OSError | MemoryError):
            return [failed_result(item, error, attempt)]
        if attempt < MAX_ATTEMPTS:
            return None
        if isinstance(error, WorkerDiedError):
            reason = f"the worker process was killed {error}, twice"
        else:
            reason = f"the worker process failed twice ({error or 'no memory'})"
        return [unread_result(item, "lost", reason, attempt)]

    def check_alive(self) -> None:
        """Do nothing: the pool replaces a worker that dies."""


def _make_handler(config: RunConfig) -> Handler:
    """Prepare a worker process; return the function that it calls for each item."""
    preload(config.folders, config.changes)
    return partial(work_on, config=config)
