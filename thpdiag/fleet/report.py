"""What is made of a store, all of it again from the store: the fleet page, pages of hosts, files for people and CI.

Called at the end of a run and by `thpdiag triage report`. A file is whole or not there: it is written under another
name, and renamed once it is on the disk; the next call makes what is missing. The page of a host (`hosts/` and the
first digits of the bundle's sha256) ends with a mark of all that it is made of: version of thpdiag, analysis, run, what
is accepted. One that is there with the same mark is not made again, whatever the clock says.

With pseudonyms in place of the customers' names reports are made of a copy that has only those. The copy is made bundle
by bundle in the order of paths, so that the same store gives the same pseudonyms, one for a host in however many
bundles it is; it lies beside the store while reports are made of it. What is accepted is decided by the real names,
before. The store itself keeps them: `--resume` and baselines need them.
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
_FOREIGN: Final = re.compile(r"[/'\"@\\=]|\.\w")


@contextmanager
def redacted_copy(store: StoreReader, judge: Judge, names: Names) -> Iterator[tuple[StoreReader, Judge]]:
    """A store with pseudonyms, and what accepts in it what `judge` accepts in the other; `names` learns the names."""
    accepted: dict[tuple[str, str | None, str | None], Accepted] = {}

    def redacted(stored: StoredResult) -> PackedResult:
        result = _redact(stored, judge, names)
        for one in _baseline_entries(result.document or {}):
            accepted.setdefault((one.fingerprint, one.severity, one.confidence), one)
        return pack_result(result)

    with TemporaryDirectory(prefix=FOLDER_PREFIX, dir=store.file.parent) as folder:
        for analysis, group in groupby(store.current(), key=lambda stored: stored.analysis):
            with Store.open(Path(folder), analysis) as copy:
                while portion := [*map(redacted, islice(group, BUNDLES_PER_TRANSACTION))]:
                    copy.put_all(portion)
        if not database_path(Path(folder)).exists():  # nothing is stored
            Store.open(Path(folder), Analysis("", "")).close()
        with StoreReader.at(Path(folder)) as reader:
            yield reader, Judge(list(accepted.values()), judge.today, judge.options if accepted else {})


def _redact(stored: StoredResult, judge: Judge, names: Names) -> BundleResult:
    """A bundle with pseudonyms; accepted findings are marked in its document. One without the form of a result goes."""
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
    """A sentence of ours about a bundle; what in it may be a path, an address or quoted becomes a pseudonym."""
    words = Words(names)
    return " ".join(words.line(one) if _FOREIGN.search(one) else words.sentence(one) for one in text.split(" "))


def _baseline_entries(document: Mapping[str, Any]) -> Iterator[Accepted]:
    """The findings of a document that somebody accepts, as entries by their pseudonyms."""
    for case in document.get("cases") or [document]:
        for finding in case.get("findings") or ():
            if (mark := finding.get("suppressed")) and finding.get("fingerprint"):
                expires = date.fromisoformat(mark["expires"]) if mark.get("expires") else None
                yield Accepted(
                    mark["by"], mark.get("reason") or "", expires, finding["rule"], "",
                    finding["fingerprint"], finding.get("severity"), finding.get("confidence"), case.get("case"),
                )  # fmt: skip


_PART_NUMBERS: Final = count()
SURROGATES: Final = "backslashreplace"  # of lone surrogates, which no encoding has


@contextmanager
def atomic_file(file: Path) -> Iterator[TextIO]:
    """A stream to a file that is there once it ends without an error; UTF-8, line ends as they are written."""
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
    """Where a file is written before it has its name: what a kill left is used again, what somebody writes is not."""
    part = file.with_name(f".{file.name}.part")
    out = part.open("a", encoding="utf-8", newline="", errors=SURROGATES)
    try:
        fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(out.fileno()), part.stat()):
            out.truncate(0)
            return part, out
    except OSError:  # somebody is at it, has just given it its name, or the file system has no locks
        pass
    out.close()
    part = file.with_name(f".{file.name}.{os.getpid()}-{next(_PART_NUMBERS)}.part")
    return part, part.open("w", encoding="utf-8", newline="", errors=SURROGATES)


PAGES_FOLDER: Final = "hosts"
MIN_DIGITS: Final = 12
PAGES_PER_TASK: Final = 16  # pages that a process makes at a time
MIN_PAGES_FOR_POOL: Final = 64  # pages from which on further processes are worth their start
POOL_BROKEN: Final = (
    "a process that wrote pages was killed, perhaps by the OOM killer; finished pages stay, and "
    "`thpdiag triage report` continues with the rest"
)
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_PAGE: Final = re.compile(rf"[0-9a-f]{{{MIN_DIGITS},64}}\.html")


class Pages(StrEnum):
    """Which bundles have a page: those with a finding graver than `info`, all with a result, none."""

    FINDINGS = "findings"
    ALL = "all"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class HostPage:
    """A page to be made. `bundle` is the number of its bundle in the store, `mark` says what it is made of."""

    bundle: int
    path: str
    address: str
    mark: str


def plan_pages(store: StoreReader, judge: Judge, which: Pages, addresses: SpilledTexts) -> Iterator[HostPage]:
    """The pages that a fleet has, in the order of paths, each noted with its bundle among the `addresses`.

    Of two bundles with the same first digits one has more.
    """
    taken = SpilledTexts(store.aside)
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
            yield HostPage(bundle, hosts[0]["path"], address, _mark(hosts, judge))


def make_pages(place: Path, store: Path, pages: Iterable[HostPage], judge: Judge, jobs: int) -> list[HostPage]:
    """Make the pages that are not there as they should be; those that cannot be made are returned.

    They go to the folder `place`; `store` is the file of the store. What a result that is damaged raises costs its own
    page only.
    """
    (place / PAGES_FOLDER).mkdir(exist_ok=True)
    left = (page for page in pages if not _is_current(place / page.address, page.mark))
    first = list(islice(left, MIN_PAGES_FOR_POOL))
    to_make = chain(first, left)
    if jobs == 1 or len(first) < MIN_PAGES_FOR_POOL:
        return _make_portion(place, store, judge, to_make)
    failed: list[HostPage] = []
    running: deque[Future[list[HostPage]]] = deque()
    # Each worker sets itself up with `partial(_make_portion, ...)`: a connection of SQLite is of one process.
    with WorkerPool(jobs, partial(partial, _make_portion, place, store, judge), (__name__,)) as pool:
        try:
            while portion := list(islice(to_make, PAGES_PER_TASK)):
                running.append(pool.submit(portion))
                if len(running) > 2 * jobs:
                    failed += running.popleft().result()
            return failed + [page for future in running for page in future.result()]
        except WorkerDiedError as error:
            raise StoreError(POOL_BROKEN) from error


def remove_pages(place: Path) -> None:
    """Remove the pages of hosts, so that all are made anew."""
    for page in (place / PAGES_FOLDER).glob("*.html"):
        if _PAGE.fullmatch(page.name):
            page.unlink()


def _make_portion(place: Path, store: Path, judge: Judge, pages: Iterable[HostPage]) -> list[HostPage]:
    """Make pages; those that cannot be made are returned."""
    with StoreReader.at(store) as reader:
        return [page for page in pages if not _make_page(reader, place, judge, page)]


def _make_page(store: StoreReader, place: Path, judge: Judge, page: HostPage) -> bool:
    """Whether the page could be made."""
    document = store.document(page.bundle)
    try:
        text = html.render(judge.mark_document(document) if judge.entries and document else document or {})
    except (*MALFORMED, TemplateError):  # it has not the form of the schema
        return False
    with atomic_file(place / page.address) as out:
        out.write(f"{text}{page.mark}")
    return True


def _mark(hosts: Sequence[Row], judge: Judge) -> str:
    """A comment for the end of the page."""
    accepted = [
        plain_document(entry.mark()) if entry else None for host in hosts for _, entry in judge_findings(host, judge)
    ]
    first = hosts[0]
    made_of = [__version__, *(first[name] for name in ("sha256", "tool_version", "rules_digest", "options", "begun"))]
    whole_of = compact({"": [made_of, accepted, judge.options if judge.entries else {}]})
    return f"<!-- made of {sha256(whole_of.encode()).hexdigest()} -->\n"


def _is_current(file: Path, mark: str) -> bool:
    """Whether the file ends with the mark."""
    try:
        with file.open("rb") as page:
            page.seek(-len(mark), os.SEEK_END)
            return page.read() == mark.encode()
    except OSError:
        return False


FORMATS: Final = (*FLEET_FORMATS, *CI_FORMATS)
INDEX: Final = "index.html"
STDOUT: Final = Path("-")
SUMMARY: Final = "GITHUB_STEP_SUMMARY"  # the variable that names a file to which the commands of a CI step add


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """`outputs` are formats with their files, `-` is stdout. `jobs` is the number of processes that make pages.

    `fail_on_missing`: a rule that could not be decided is a failure.
    """

    outputs: Sequence[tuple[str, Path]] = ()
    pages: Pages = Pages.FINDINGS
    presentation: Presentation = PLAIN
    jobs: int = 1
    fail_on_missing: bool = False


@dataclass(frozen=True, slots=True)
class ReportResult:
    """The gate, how many pages of hosts there are, and what a person should know."""

    gate: Gate
    pages: int
    warnings: Sequence[str]
    notes: Sequence[str]


def make_redacted_report(store: StoreReader, wanted: ReportOptions, judge: Judge, names: Names) -> ReportResult:
    """The same with pseudonyms, which `names` learns; pages that others have made of the store go."""
    with redacted_copy(store, judge, names) as (copy, known):
        made = make_report(copy, wanted, known, store.file.parent)
    return replace(made, warnings=[redact_message(text, names) for text in (*made.warnings, *judge.warnings())])


def make_report(store: StoreReader, wanted: ReportOptions, judge: Judge, folder: Path | None = None) -> ReportResult:
    """Make all of it in a folder, that of the store if none is named, and write the outputs."""
    folder, presentation = folder or store.file.parent, wanted.presentation
    with store.moment():
        addresses = SpilledTexts(store.aside)
        plan = plan_pages(store, judge, wanted.pages, addresses)
        if folder != store.file.parent:  # whatever is there has the names of customers
            remove_pages(folder)
        failed = make_pages(folder, store.file, plan, judge, wanted.jobs) if wanted.pages is not Pages.NONE else []
        for page in failed:
            del addresses[page.bundle]
        fleet = Fleet(
            store,
            judge,
            presentation.fail_on,
            lambda row: addresses.get(row["bundle"]) or "",
            fail_on_missing=wanted.fail_on_missing,
        )
        with atomic_file(folder / INDEX) as out:
            write_page(fleet, out)
        warnings = [
            *_write_outputs(fleet, wanted),
            *(f"{page.path}: its result is malformed, so it has no page" for page in failed),
            *judge.warnings(),
        ]
    return ReportResult(fleet.overview.gate, len(addresses), warnings, list(judge.notes()))


def _write_outputs(fleet: Fleet, wanted: ReportOptions) -> Iterator[str]:
    """Write the files; what a person should know of them."""
    for form, file in wanted.outputs:
        if form in FLEET_FORMATS:
            with output_stream(file) as out:
                FLEET_FORMATS[form](fleet, out)
    forms = [form for form in dict(wanted.outputs) if form in CI_FORMATS]
    if not forms:
        return
    marks = {"marks": fleet.judge.mark_document} if fleet.judge.entries else {}
    with ci_reports(fleet.store, forms, wanted.presentation, **marks) as made:
        for form, report in made.items():
            with ExitStack() as until:
                outs = [until.enter_context(output_stream(file)) for name, file in wanted.outputs if name == form]
                for piece in report.pieces():
                    for out in outs:
                        out.write(piece)
            yield from report.warnings()


@contextmanager
def output_stream(file: Path) -> Iterator[TextIO]:
    """Where a format goes: stdout, the end of a CI step's summary, what a link names, a device, else a whole file."""
    summary = str(file) == os.environ.get(SUMMARY)
    if file == STDOUT and sys.stdout is None:  # closed before we began: nobody wants it
        with Path(os.devnull).open("w", encoding="utf-8", errors=SURROGATES) as out:
            yield out
    elif file == STDOUT:
        try:
            yield sys.stdout
            sys.stdout.flush()
        except BrokenPipeError:  # `| head`: nobody wants the rest; other files and the exit code are as without it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    elif summary or file.is_symlink() or (file.exists() and not file.is_file()):
        with (
            write_errors(file, UsageError),
            file.open("a" if summary else "w", encoding="utf-8", newline="", errors=SURROGATES) as out,
        ):
            yield out
    else:
        with atomic_file(file) as out:
            yield out
