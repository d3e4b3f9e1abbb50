"""What is made of a store, all of it again from the store: the fleet page, pages of hosts, files for people and CI.

Called at the end of a run and by `thpdiag triage report`. A kill leaves whole files or none, and the next call makes
what is missing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from thpdiag.accepted.acceptance import Acceptance
from thpdiag.accepted.judge import Judge
from thpdiag.reports.presentation import PLAIN, Presentation
from thpdiag.triage.fleet.ci.reports import FORMATS as CI_FORMATS
from thpdiag.triage.fleet.ci.reports import reports
from thpdiag.triage.fleet.formats import FORMATS as FLEET_FORMATS
from thpdiag.triage.fleet.gate import Gate
from thpdiag.triage.fleet.overview import Fleet
from thpdiag.triage.fleet.page import write_page
from thpdiag.triage.pages import Page, Pages, make, planned
from thpdiag.triage.store.aside import Notes
from thpdiag.triage.store.reading import Reading
from thpdiag.triage.written import ODD, cannot, whole

FORMATS: Final = (*FLEET_FORMATS, *CI_FORMATS)
INDEX: Final = "index.html"
STDOUT: Final = Path("-")
SUMMARY: Final = "GITHUB_STEP_SUMMARY"  # the variable that names a file to which the commands of a CI step add


@dataclass(frozen=True, slots=True)
class Wanted:
    """`outputs` are formats with their files, `-` is stdout. `jobs` is the number of processes that make pages.

    `fail_on_missing` is empty if a rule that could not be decided is no failure.
    """

    outputs: Sequence[tuple[str, Path]] = ()
    pages: Pages = Pages.FINDINGS
    presentation: Presentation = PLAIN
    jobs: int = 1
    fail_on_missing: str = ""


@dataclass(frozen=True, slots=True)
class Made:
    """The gate, how many pages of hosts there are, and what a person should know."""

    gate: Gate
    pages: int
    warnings: Sequence[str]
    notes: Sequence[str]


def report(store: Reading, wanted: Wanted, judge: Judge) -> Made:
    """Make all of it in the folder of the store, and write the outputs."""
    folder, presentation = store.file.parent, wanted.presentation
    with store.moment():
        addresses = Notes(store.aside)
        plan = _noted(planned(store, judge, wanted.pages), addresses)
        failed = make(folder, plan, judge, wanted.jobs) if wanted.pages is not Pages.NONE else []
        for page in failed:
            del addresses[page.bundle]
        fleet = Fleet(
            store, judge, presentation.fail_on, lambda row: addresses.get(row["bundle"]) or "", wanted.fail_on_missing
        )
        gate = fleet.gate
        with whole(folder / INDEX) as out:
            write_page(
                store, out, page=fleet.page, accepted=fleet.accepted, acceptances=_acceptances(judge),
                survey=fleet.survey,
            )  # fmt: skip
        warnings = [*_outputs(fleet, wanted), *map(_no_page, failed), *judge.warnings()]
    return Made(gate, len(addresses), warnings, list(judge.notes()))


def _noted(pages: Iterable[Page], addresses: Notes) -> Iterator[Page]:
    """Note the address of each page that passes."""
    for page in pages:
        addresses[page.bundle] = page.address
        yield page


def _outputs(fleet: Fleet, wanted: Wanted) -> Iterator[str]:
    """Write the files; what a person should know of them."""
    for form, file in wanted.outputs:
        if form in FLEET_FORMATS:
            with stream(file) as out:
                FLEET_FORMATS[form](fleet, out)
    files = {form: [file for name, file in wanted.outputs if name == form] for form, _ in wanted.outputs}
    forms = [form for form in files if form in CI_FORMATS]
    if not forms:
        return

    def marks(document: Mapping[str, Any]) -> Mapping[str, Any]:
        return fleet.judge.marked(document) if fleet.judge.entries else document

    with reports(fleet.store, forms, wanted.presentation, marks) as made:
        for form, one in made.items():
            _write(one.pieces(), files[form])
            yield from one.warnings()


def _write(pieces: Iterable[str], files: Sequence[Path]) -> None:
    with ExitStack() as until:
        outs = [until.enter_context(stream(file)) for file in files]
        for piece in pieces:
            for out in outs:
                out.write(piece)


@contextmanager
def stream(file: Path) -> Iterator[TextIO]:
    """Where a format goes: stdout, the end of a CI step's summary, what a link names, a device, else a whole file."""
    summary = str(file) == os.environ.get(SUMMARY)
    if file == STDOUT and sys.stdout is None:  # closed before we began: nobody wants it
        with Path(os.devnull).open("w", encoding="utf-8", errors=ODD) as out:
            yield out
    elif file == STDOUT:
        yield sys.stdout
    elif summary or file.is_symlink() or (file.exists() and not file.is_file()):
        with cannot(file), file.open("a" if summary else "w", encoding="utf-8", newline="", errors=ODD) as out:
            yield out
    else:
        with whole(file) as out:
            yield out


def _acceptances(judge: Judge) -> list[str]:
    """What accepts findings, for the end of the page."""
    return [_acceptance(entry) for entry in judge.entries]


def _acceptance(entry: Acceptance) -> str:
    until = f", until {entry.expires}" if entry.expires else ""
    return f"{entry.label}{until}: {entry.reason} ({Path(entry.place).name})"


def _no_page(page: Page) -> str:
    return f"{page.path}: its result has not the form of a result; there is no page of it"
