"""What is made of a store, all of it again from the store: the fleet page, pages of hosts, files for people and CI.

Called at the end of a run and by `thpdiag triage report`. A kill leaves whole files or none, and the next call makes
what is missing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TextIO

from thpdiag.fleet.atomic_file import SURROGATES, atomic_file, write_errors
from thpdiag.fleet.ci import CI_FORMATS, ci_reports
from thpdiag.fleet.formats import FLEET_FORMATS
from thpdiag.fleet.host_pages import Pages, make_pages, plan_pages, remove_pages
from thpdiag.fleet.overview import Fleet, Gate
from thpdiag.fleet.page import write_page
from thpdiag.fleet.redaction import redact_message, redacted_copy
from thpdiag.redact.names import Names
from thpdiag.report.baseline import Judge
from thpdiag.report.presentation import PLAIN, Presentation
from thpdiag.store.reading import StoreReader
from thpdiag.store.spill import SpilledTexts

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
            write_errors(file),
            file.open("a" if summary else "w", encoding="utf-8", newline="", errors=SURROGATES) as out,
        ):
            yield out
    else:
        with atomic_file(file) as out:
            yield out
