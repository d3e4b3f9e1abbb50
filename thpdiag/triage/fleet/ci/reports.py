"""Reports of a store for CI services, all that are wanted in one walk through it.

    with reports(store, ["junit", "sarif"], presentation, marks) as made:
        for piece in made["junit"].pieces(): ...

Bundles come in the order of their paths, so that the same results give the same bytes whoever finished first. One
document is in memory at a time; what waits for the end waits on the disk. What grows with the fleet in memory is a
name per host and a fingerprint per finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final, Protocol

from thpdiag.errors import StoreFullError
from thpdiag.reports.located import Fingerprints
from thpdiag.reports.presentation import PLAIN, Presentation
from thpdiag.triage.fleet.ci.bundle import DAMAGED, ODD, Bundle, Document, Marks, opened, without_hosts
from thpdiag.triage.fleet.ci.github import GitHub
from thpdiag.triage.fleet.ci.gitlab import GitLab
from thpdiag.triage.fleet.ci.junit import JUnit
from thpdiag.triage.fleet.ci.sarif import Sarif
from thpdiag.triage.fleet.ci.spool import Spools
from thpdiag.triage.store.bundle import Stored
from thpdiag.triage.store.reading import Reading
from thpdiag.triage.store.trouble import NO_ROOM


class Report(Protocol):
    """Takes one bundle after the other, then gives its text, once. `add` takes all of a bundle or raises one of ODD."""

    def add(self, bundle: Bundle) -> None: ...

    def pieces(self) -> Iterator[str]: ...

    def warnings(self) -> Iterator[str]:
        """What a person should know, once the pieces are there: what the service will not take or show."""
        ...


class Kind(Protocol):
    def __call__(self, presentation: Presentation, spools: Spools, /) -> Report: ...


FORMATS: Final[Mapping[str, Kind]] = MappingProxyType(
    {"github": GitHub, "gitlab": GitLab, "junit": JUnit, "sarif": Sarif}
)


def unmarked(document: Document) -> Document:
    """Nobody accepts anything."""
    return document


@contextmanager
def reports(
    store: Reading, forms: Iterable[str], presentation: Presentation = PLAIN, marks: Marks = unmarked
) -> Iterator[Mapping[str, Report]]:
    """The reports of these formats; `marks` gives a document with what somebody accepts marked in it."""
    with Spools(store.file.parent) as spools:
        try:
            made = {form: FORMATS[form](presentation, spools) for form in forms}
            prints = Fingerprints()
            for stored in store.current():
                bundle = _opened(stored, presentation, marks, prints)
                for report in made.values():
                    _add(report, bundle, stored)
            spools.flush()
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            raise StoreFullError(f"no room for reports beside {store.file} ({error.strerror})") from error
        yield made


def _opened(stored: Stored, presentation: Presentation, marks: Marks, prints: Fingerprints) -> Bundle:
    try:
        return opened(stored, presentation, marks, prints)
    except ODD as error:
        return _damaged(stored, error)


def _add(report: Report, bundle: Bundle, stored: Stored) -> None:
    try:
        report.add(bundle)
    except ODD as error:
        report.add(_damaged(stored, error))


def _damaged(stored: Stored, error: Exception) -> Bundle:
    """A document is from a process that read what strangers sent; one without the form of the schema is no result."""
    return without_hosts(stored, DAMAGED, f"it has not the form of a result ({type(error).__name__}: {error})")
