"""All reports of a store: the fleet page, pages of hosts, and files for people and CI.

Called at the end of a run and by `thpdiag triage report`; everything is made from the store. Files are written
atomically: under another name first, renamed once they are on the disk. The page of a host (`hosts/` and the first
digits of the bundle's sha256) ends with a stamp of its inputs: version of thpdiag, analysis, run, accepted findings. An
existing page with the same stamp is not made again, whatever its mtime.

With redaction the reports are made of a copy of the store that has pseudonyms instead of the customers' names. The copy
is made bundle by bundle in the order of paths, so the same store gives the same pseudonyms, and a host has one
pseudonym in all its bundles; it is in the folder of the store while reports are made of it. Acceptance is decided by
the real names, before. The store itself keeps the real names, which `--resume` and baselines need.
"""

from __future__ import annotations

import fcntl
import os
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from functools import partial
from hashlib import sha256
from itertools import chain, count, groupby, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TextIO

from jinja2 import TemplateError

from thpdiag import __version__
from thpdiag.errors import StoreError, UsageError
from thpdiag.fleet.formats import CI_FORMATS, DAMAGED_RESULT, FLEET_FORMATS, MALFORMED, ci_reports
from thpdiag.fleet.overview import Fleet, Gate, judge_findings
from thpdiag.fleet.page import write_page
from thpdiag.fleet.work import status_of_document
from thpdiag.model.document import compact, plain_document
from thpdiag.model.result import as_document
from thpdiag.redact.document import redact_result
from thpdiag.redact.names import Names
from thpdiag.redact.words import Words
from thpdiag.report import html
from thpdiag.report.baseline import Accepted, Judge
from thpdiag.report.presentation import PLAIN, Presentation, rank
from thpdiag.sandbox.preload import WorkerDiedError, WorkerPool
from thpdiag.store.reading import Row, StoreReader
from thpdiag.store.results import (
    UNREAD_PREFIX,
    Analysis,
    BundleResult,
    PackedResult,
    StoredResult,
    pack_result,
    unread_key,
)
from thpdiag.store.schema import database_path, write_errors
from thpdiag.store.spill import SpilledTexts
from thpdiag.store.store import BUNDLES_PER_TRANSACTION, Store

FOLDER_PREFIX: Final = ".thpdiag-redacted-"
_CUSTOMER_WORD: Final = re.compile(r"[/'\"@\\=]|\.\w")


@contextmanager
def redacted_copy(store: StoreReader, judge: Judge, names: Names) -> Iterator[tuple[StoreReader, Judge]]:
    """Yield a copy of the store with pseudonyms, and a judge that accepts the same findings there; extends `names`."""
    accepted: dict[tuple[str, str | None, str | None], Accepted] = {}

    def redact(stored: StoredResult) -> PackedResult:
        result = _redact(stored, judge, names)
        for entry in _baseline_entries(result.document or {}):
            accepted.setdefault((entry.fingerprint, entry.severity, entry.confidence), entry)
        return pack_result(result)

    with TemporaryDirectory(prefix=FOLDER_PREFIX, dir=store.file.parent) as folder:
        for analysis, group in groupby(store.current(), key=lambda stored: stored.analysis):
            with Store.open(Path(folder), analysis) as copy:
                while portion := [*map(redact, islice(group, BUNDLES_PER_TRANSACTION))]:
                    copy.put_all(portion)
        if not database_path(Path(folder)).exists():  # the store has no results
            Store.open(Path(folder), Analysis("", "")).close()
        with StoreReader.at(Path(folder)) as reader:
            yield reader, Judge(list(accepted.values()), judge.today, judge.options if accepted else {})


def _redact(stored: StoredResult, judge: Judge, names: Names) -> BundleResult:
    """Return a result with pseudonyms and its accepted findings marked; an invalid document is removed."""
    result, document = stored.result, stored.result.document
    status, reason = result.status, result.reason
    if document is not None:
        try:
            marked = as_document(judge.mark_document(document)) if judge.entries else document
            document = redact_result(marked, names)
            reason = status_of_document(document)[1] if reason else ""
        except MALFORMED as error:
            document, status, reason = None, DAMAGED_RESULT, type(error).__name__
    path = Words(names).place(result.path)
    if document is None:
        reason = redact_message(reason, names)
    key = unread_key(path) if result.sha256.startswith(UNREAD_PREFIX) else result.sha256
    return replace(result, sha256=key, path=path, status=status, reason=reason, document=document)


def redact_message(text: str, names: Names) -> str:
    """Return a message of thpdiag about a bundle with pseudonyms for paths, addresses and quoted words."""
    words = Words(names)
    return " ".join(words.line(w) if _CUSTOMER_WORD.search(w) else words.sentence(w) for w in text.split(" "))


def _baseline_entries(document: Mapping[str, Any]) -> Iterator[Accepted]:
    """Yield baseline entries, with pseudonyms, for the accepted findings of a redacted document."""
    for case in document.get("cases") or [document]:
        for finding in case.get("findings") or ():
            if (mark := finding.get("suppressed")) and finding.get("fingerprint"):
                expires = date.fromisoformat(mark["expires"]) if mark.get("expires") else None
                yield Accepted(
                    mark["by"], mark.get("reason") or "", expires, finding["rule"], "",
                    finding["fingerprint"], finding.get("severity"), finding.get("confidence"), case.get("case"),
                )  # fmt: skip


_PART_NUMBERS: Final = count()
SURROGATES: Final = "backslashreplace"  # error handler for lone surrogates, which UTF-8 cannot encode


@contextmanager
def atomic_file(file: Path) -> Iterator[TextIO]:
    """Open a UTF-8 stream whose file appears only if the block ends without an error; keeps line ends."""
    with write_errors(file, UsageError), ExitStack() as undo:
        part, out = _part_file(file)
        undo.enter_context(out)
        undo.callback(part.unlink, missing_ok=True)
        yield out
        out.flush()
        os.fsync(out.fileno())
        part.replace(file)
        undo.pop_all()
        out.close()


def _part_file(file: Path) -> tuple[Path, TextIO]:
    """Open the temporary file for a report: reuse one that a killed run left, but not one that is being written."""
    part = file.with_name(f".{file.name}.part")
    out = part.open("a", encoding="utf-8", newline="", errors=SURROGATES)
    try:
        fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(out.fileno()), part.stat()):
            out.truncate(0)
            return part, out
    except OSError:  # another process writes it or has just renamed it, or the file system has no locks
        pass
    out.close()
    part = file.with_name(f".{file.name}.{os.getpid()}-{next(_PART_NUMBERS)}.part")
    return part, part.open("w", encoding="utf-8", newline="", errors=SURROGATES)


PAGES_FOLDER: Final = "hosts"
MIN_DIGITS: Final = 12  # of the sha256 in the name of a page
PAGES_PER_TASK: Final = 16  # pages in one message to a worker process
MIN_PAGES_FOR_POOL: Final = 64  # with fewer pages the start of worker processes costs more than it saves
POOL_BROKEN: Final = (
    "a process that wrote pages was killed, perhaps by the OOM killer; finished pages stay, and "
    "`thpdiag triage report` continues with the rest"
)
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_PAGE: Final = re.compile(rf"[0-9a-f]{{{MIN_DIGITS},64}}\.html")


class Pages(StrEnum):
    """Which bundles have a page: those with a finding above severity `info`, all with a result, none."""

    FINDINGS = "findings"
    ALL = "all"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class HostPage:
    """A page to be made for the bundle with this number in the store; `stamp` identifies the inputs of the page."""

    bundle: int
    path: str
    address: str
    stamp: str


def plan_pages(store: StoreReader, judge: Judge, which: Pages, addresses: SpilledTexts) -> Iterator[HostPage]:
    """Yield the pages of a fleet in the order of paths, and store the address of each by its bundle.

    If the first digits of two bundles are equal, the second name gets more digits.
    """
    taken = SpilledTexts(store.spill_file)
    for bundle, rows in groupby(store.fleet() if which is not Pages.NONE else (), key=lambda row: row["bundle"]):
        hosts = list(rows)
        name = hosts[0]["sha256"]
        if which is Pages.ALL:
            wanted = hosts[0]["place"] is not None
        else:
            wanted = any(rank(finding["severity"]) > rank("info") for host in hosts for finding in host["findings"])
        if wanted and _SHA256.fullmatch(name):
            short = next(name[:digits] for digits in range(MIN_DIGITS, 65) if name[:digits] not in taken)
            taken[short], address = "", f"{PAGES_FOLDER}/{short}.html"
            addresses[bundle] = address
            yield HostPage(bundle, hosts[0]["path"], address, _stamp(hosts, judge))


def make_pages(folder: Path, store: Path, pages: Iterable[HostPage], judge: Judge, jobs: int) -> list[HostPage]:
    """Make the missing and outdated pages in a folder; return those that cannot be made because a result is damaged.

    `store` is the file of the store.
    """
    (folder / PAGES_FOLDER).mkdir(exist_ok=True)
    outdated = (page for page in pages if not _is_current(folder / page.address, page.stamp))
    first = list(islice(outdated, MIN_PAGES_FOR_POOL))
    to_make = chain(first, outdated)
    if jobs == 1 or len(first) < MIN_PAGES_FOR_POOL:
        return _make_portion(folder, store, judge, to_make)
    failed: list[HostPage] = []
    running: deque[Future[list[HostPage]]] = deque()
    # Each worker opens the store itself, since a SQLite connection must not cross a fork.
    with WorkerPool(jobs, partial(partial, _make_portion, folder, store, judge), (__name__,)) as pool:
        try:
            while portion := list(islice(to_make, PAGES_PER_TASK)):
                running.append(pool.submit(portion))
                if len(running) > 2 * jobs:
                    failed += running.popleft().result()
            return failed + [page for future in running for page in future.result()]
        except WorkerDiedError as error:
            raise StoreError(POOL_BROKEN) from error


def remove_pages(folder: Path) -> None:
    """Remove all pages of hosts, so that they are made anew."""
    for page in (folder / PAGES_FOLDER).glob("*.html"):
        if _PAGE.fullmatch(page.name):
            page.unlink()


def _make_portion(folder: Path, store: Path, judge: Judge, pages: Iterable[HostPage]) -> list[HostPage]:
    """Make pages; return those that cannot be made."""
    with StoreReader.at(store) as reader:
        return [page for page in pages if not _make_page(reader, folder, judge, page)]


def _make_page(store: StoreReader, folder: Path, judge: Judge, page: HostPage) -> bool:
    """Make a page; return whether that was possible."""
    document = store.document(page.bundle)
    try:
        text = html.render(judge.mark_document(document) if judge.entries and document else document or {})
    except (*MALFORMED, TemplateError):  # the document is not valid
        return False
    with atomic_file(folder / page.address) as out:
        out.write(f"{text}{page.stamp}")
    return True


def _stamp(hosts: Sequence[Row], judge: Judge) -> str:
    """Return an HTML comment with a digest of the inputs of a page."""
    accepted = [
        plain_document(entry.mark()) if entry else None for host in hosts for _, entry in judge_findings(host, judge)
    ]
    names = ("sha256", "tool_version", "rules_digest", "options", "begun")
    analysis = [__version__, *(hosts[0][name] for name in names)]
    inputs = compact({"": [analysis, accepted, judge.options if judge.entries else {}]})
    return f"<!-- made of {sha256(inputs.encode()).hexdigest()} -->\n"


def _is_current(file: Path, stamp: str) -> bool:
    """Whether the file ends with the stamp."""
    try:
        with file.open("rb") as page:
            page.seek(-len(stamp), os.SEEK_END)
            return page.read() == stamp.encode()
    except OSError:
        return False


FORMATS: Final = (*FLEET_FORMATS, *CI_FORMATS)
INDEX: Final = "index.html"
STDOUT: Final = Path("-")
SUMMARY_VARIABLE: Final = "GITHUB_STEP_SUMMARY"  # names the file to which the commands of a CI step append


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """`outputs` are formats with their files (`-` is stdout), `jobs` is the number of processes that make pages."""

    outputs: Sequence[tuple[str, Path]] = ()
    pages: Pages = Pages.FINDINGS
    presentation: Presentation = PLAIN
    jobs: int = 1
    fail_on_missing: bool = False


@dataclass(frozen=True, slots=True)
class ReportResult:
    """The gate, the number of host pages, and messages for the user."""

    gate: Gate
    pages: int
    warnings: Sequence[str]
    notes: Sequence[str]


def make_redacted_report(store: StoreReader, options: ReportOptions, judge: Judge, names: Names) -> ReportResult:
    """Make all reports with pseudonyms, which are added to `names`; existing pages of hosts are removed."""
    with redacted_copy(store, judge, names) as (copy, judge_of_copy):
        result = make_report(copy, options, judge_of_copy, store.file.parent)
    return replace(result, warnings=[redact_message(text, names) for text in (*result.warnings, *judge.warnings())])


def make_report(store: StoreReader, options: ReportOptions, judge: Judge, folder: Path | None = None) -> ReportResult:
    """Make the pages in a folder (by default that of the store), and write the outputs."""
    folder = folder or store.file.parent
    with store.snapshot():
        addresses = SpilledTexts(store.spill_file)
        pages = plan_pages(store, judge, options.pages, addresses)
        if folder != store.file.parent:  # existing pages have the names of customers
            remove_pages(folder)
        failed = make_pages(folder, store.file, pages, judge, options.jobs) if options.pages is not Pages.NONE else []
        for page in failed:
            del addresses[page.bundle]
        fleet = Fleet(
            store, judge, options.presentation.fail_on, lambda row: addresses.get(row["bundle"]) or "",
            fail_on_missing=options.fail_on_missing,
        )  # fmt: skip
        with atomic_file(folder / INDEX) as out:
            write_page(fleet, out)
        warnings = [
            *_write_outputs(fleet, options),
            *(f"{page.path}: its result is malformed, so it has no page" for page in failed),
            *judge.warnings(),
        ]
    return ReportResult(fleet.overview.gate, len(addresses), warnings, list(judge.notes()))


def _write_outputs(fleet: Fleet, options: ReportOptions) -> Iterator[str]:
    """Write the files; yield warnings for the user."""
    for form, file in options.outputs:
        if form in FLEET_FORMATS:
            with output_stream(file) as out:
                FLEET_FORMATS[form](fleet, out)
    forms = [form for form in dict(options.outputs) if form in CI_FORMATS]
    if not forms:
        return
    marks = {"marks": fleet.judge.mark_document} if fleet.judge.entries else {}
    with ci_reports(fleet.store, forms, options.presentation, **marks) as reports:
        for form, report in reports.items():
            with ExitStack() as files:
                outs = [files.enter_context(output_stream(file)) for name, file in options.outputs if name == form]
                for piece in report.pieces():
                    for out in outs:
                        out.write(piece)
            yield from report.warnings()


@contextmanager
def output_stream(file: Path) -> Iterator[TextIO]:
    """Open an output: stdout, the end of a CI step's summary, the target of a link, a device, or an atomic file."""
    is_summary = str(file) == os.environ.get(SUMMARY_VARIABLE)
    if file == STDOUT and sys.stdout is None:  # it was closed before the program started
        with Path(os.devnull).open("w", encoding="utf-8", errors=SURROGATES) as out:
            yield out
    elif file == STDOUT:
        try:
            yield sys.stdout
            sys.stdout.flush()
        except BrokenPipeError:  # `| head`: drop the rest; other files and the exit code are unaffected
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    elif is_summary or file.is_symlink() or (file.exists() and not file.is_file()):
        with (
            write_errors(file, UsageError),
            file.open("a" if is_summary else "w", encoding="utf-8", newline="", errors=SURROGATES) as out,
        ):
            yield out
    else:
        with atomic_file(file) as out:
            yield out
