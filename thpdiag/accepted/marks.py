"""Marks the findings that somebody accepts, in a copy of the document, and says what of the files had no effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from thpdiag.accepted.acceptance import Acceptance, Document, Finding
from thpdiag.accepted.baseline import Accepted, gone, graver, weight
from thpdiag.accepted.suppressions import Suppression, likely

Judge = Callable[[Finding, Document], Acceptance | None]


@dataclass(frozen=True, slots=True)
class Marked:
    """The document with marks, what everybody must know of the entries, and what is told on request only."""

    document: dict[str, Any]
    warnings: Sequence[str]
    notes: Sequence[str]


def marked(document: Document, entries: Sequence[Acceptance], today: date, options: Mapping[str, str]) -> Marked:
    """`options` are told as such in the document. Marks that it has already are judged anew."""
    live = [entry for entry in entries if not entry.expired(today)]
    used: set[int] = set()

    def judge(finding: Finding, host: Document) -> Acceptance | None:
        found = [(number, entry) for number, entry in enumerate(live) if entry.covers(finding, host)]
        used.update(number for number, _ in found)
        return found[0][1] if found else None

    copy = _copied(document, judge, options)
    idle = [entry for number, entry in enumerate(live) if number not in used]
    warnings = [_told_over(entry) for entry in entries if entry.expired(today)]
    warnings += [told for entry in idle if (told := _without_effect(entry, document))]
    notes = [f"{e.place}: {e.label}: has no last day (expires)" for e in live if e.expires is None]
    notes += [f"{e.place}: {e.label}: no longer found" for e in idle if isinstance(e, Accepted) and gone(e, document)]
    return Marked(copy, warnings, notes)


def _copied(document: Document, judge: Judge, options: Mapping[str, str]) -> dict[str, Any]:
    copy = {**document, "tool": _with_options(document.get("tool") or {}, options)}
    if "findings" in document:
        copy["findings"] = [_with_mark(finding, judge(finding, document)) for finding in document["findings"]]
    if document.get("cases"):
        copy["cases"] = [_copied(case, judge, options) for case in document["cases"]]
    return copy


def _with_options(tool: Mapping[str, Any], options: Mapping[str, str]) -> dict[str, Any]:
    told = {**(tool.get("options") or {}), **options}
    return {**tool, "options": {name: value for name, value in told.items() if value or name not in options}}


def _with_mark(finding: Finding, entry: Acceptance | None) -> dict[str, Any]:
    bare = {key: value for key, value in finding.items() if key != "suppressed"}
    return {**bare, "suppressed": entry.mark()} if entry else bare


def _told_over(entry: Acceptance) -> str:
    return f"{entry.place}: {entry.label}: expired on {entry.expires}, accepts nothing any more ({entry.reason})"


def _without_effect(entry: Acceptance, document: Document) -> str:
    """A suppression that fits nothing is a mistake or can go; a baseline is made of a whole fleet."""
    told = f"{entry.place}: {entry.label}"
    if isinstance(entry, Suppression):
        why = likely(entry.rule, document)
        return f"{told}: accepts no finding of this input{f'; {why}' if why else ''}"
    if not isinstance(entry, Accepted):
        return ""
    now = graver(entry, document)
    return f"{told}: accepted as {weight(entry)}, is {now} now, and counts as new" if now else ""
