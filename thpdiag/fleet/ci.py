"""Reports of a store for CI services, all that are wanted in one walk through it; `thpdiag.report` has their writers.

    with ci_reports(store, ["junit", "sarif"], presentation, marks) as made:
        for piece in made["junit"].pieces(): ...

Bundles come in the order of their paths, so that the same results give the same bytes whoever finished first. One
document is in memory at a time, without the parts that no format shows; what waits for the end waits on the disk. What
grows with the fleet in memory is a name per host and a fingerprint per finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from thpdiag.errors import StoreFullError
from thpdiag.model.result import Tool
from thpdiag.report import AnyResult, messages
from thpdiag.report.ci import Bundle, Fingerprints, Writer, locate_findings
from thpdiag.report.github import GitHub
from thpdiag.report.gitlab import GitLab
from thpdiag.report.junit import JUnit
from thpdiag.report.presentation import PLAIN, Presentation
from thpdiag.report.sarif import Sarif
from thpdiag.store.reading import StoreReader
from thpdiag.store.results import StoredResult
from thpdiag.store.spill import SpilledFirst, SpillFile

Document = Mapping[str, Any]
Marks = Callable[[Document], AnyResult]
UNUSED_KEYS: Final = ("timeline", "profiles", "notes", "ask")
UNUSED_PARTS: Final = {
    "rules": ("tree",),
    "ruled_out": ("evidence",),
    "inputs": ("problems", "first", "last", "sha256"),
}
REFUSED: Final = "refused"
DAMAGED_RESULT: Final = "damaged result"
# What a document that has not the form of the schema can raise in those that read it.
MALFORMED: Final = (AttributeError, IndexError, KeyError, TypeError, ValueError)
CI_FORMATS: Final[Mapping[str, type[Writer]]] = MappingProxyType(
    {"github": GitHub, "gitlab": GitLab, "junit": JUnit, "sarif": Sarif}
)


def open_bundle(stored: StoredResult, presentation: Presentation, marks: Marks, prints: Fingerprints) -> Bundle:
    """A bundle with its findings.

    Of what was refused because nothing in it was recognized there is a document, which says no more than that.
    """
    result, tool, document = stored.result, stored.analysis, stored.result.document
    made_by = Tool.model_construct(version=tool.tool_version, rules_digest=tool.rules_digest)
    closed = Bundle((), (), made_by, result.path or result.sha256, result.status, result.reason)
    if document is None or closed.status == REFUSED:
        return closed
    try:
        hosts = messages.hosts(marks(_needed_parts(document)))
        return replace(closed, hosts=hosts, found=locate_findings(hosts, presentation, prints, closed.path))
    except MALFORMED as error:
        return _damaged_bundle(closed, error)


def _damaged_bundle(bundle: Bundle, error: Exception) -> Bundle:
    """A document is from a process that read what strangers sent; one without the form of the schema is no result."""
    reason = f"it has not the form of a result ({type(error).__name__}: {error})"
    return replace(bundle, hosts=(), found=(), status=DAMAGED_RESULT, reason=reason)


def _needed_parts(document: Document) -> Document:
    bare = {key: value for key, value in document.items() if key not in UNUSED_KEYS}
    for key, large in UNUSED_PARTS.items():
        bare[key] = [{name: part for name, part in one.items() if name not in large} for one in bare.get(key, ())]
    bare["host"] = {"name": (bare.get("host") or {}).get("name")}
    return bare | ({"cases": [_needed_parts(one) for one in bare["cases"]]} if bare.get("cases") else {})


class _Spilled:
    """Texts in the store's spill file by their weight (`thpdiag.report.ci.Spool`)."""

    def __init__(self, aside: SpillFile) -> None:
        self._texts = SpilledFirst(aside)

    def add(self, weight: int, text: str, /) -> None:
        self._texts.add((-weight,), partial(str, text))

    def texts(self) -> Iterable[str]:
        return self._texts


@contextmanager
def ci_reports(
    store: StoreReader,
    forms: Iterable[str],
    presentation: Presentation = PLAIN,
    marks: Marks = lambda document: document,
) -> Iterator[Mapping[str, Writer]]:
    """The reports of these formats; `marks` gives a document with what somebody accepts marked in it."""
    with closing(SpillFile(store.file.parent)) as aside:
        try:
            made = {form: CI_FORMATS[form](presentation, lambda: _Spilled(aside), many=True) for form in forms}
            prints = Fingerprints()
            for stored in store.current():
                bundle = open_bundle(stored, presentation, marks, prints)
                for report in made.values():
                    try:
                        report.add(bundle)
                    except MALFORMED as error:
                        report.add(_damaged_bundle(bundle, error))
            aside.flush()
        except StoreFullError as error:
            raise StoreFullError(f"no room for reports in the folder of {store.file} ({error})") from error
        yield made
