"""Lints of knowledge: the catalogue of known issues, and the words that packs add.

For issues these check form, names, ranges and contradictions between entries; for words what the form of the file does
not ensure (which knowledge/packs.py checks).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from itertools import combinations, pairwise
from typing import Any

import re2

from thpdiag.diagnosis.remedies import fact_name
from thpdiag.errors import RuleError
from thpdiag.knowledge.applications import application
from thpdiag.knowledge.known_issues import HARMS, MAINLINE, Catalogue, KnownIssue, Range, numbers
from thpdiag.knowledge.mechanisms import cures, mechanisms, remedies
from thpdiag.knowledge.packs import pack_parts
from thpdiag.knowledge.symbols import families
from thpdiag.knowledge.vocabulary import term
from thpdiag.knowledge.yaml_nodes import suggestion

CONDITIONS = {"one_of", "least", "most", "from", "below", "matches"}
MAX_TITLE = 110  # characters
_ID = re.compile(r"[a-z0-9][a-z0-9.-]{5,60}")
_DATE = re.compile(r"(\d{4})(?:-(\d\d))?(?:-(\d\d))?")
_LINE = re.compile(r"mainline|el\d+(?:_\d+)?|sles1\d(?:\.\d)?|ubuntu\d+\.\d+|uek\d+\.\d+")
_DEFECT_ID = re.compile(r"CVE-\d{4}-\d+|(?:bsc|LP)#\d+|\bbugs? \d{6,}|KBA \d+|KCS \d+")  # identifiers of a defect
Complaint = tuple[str, str]


def issue_complaints(known: Catalogue) -> list[str]:
    """Return the errors in the entries as `id: what`."""
    complaints: list[Complaint] = []
    for issue in known.issues:
        checks = (
            _text_complaints(issue, known.date),
            _condition_complaints(issue),
            _workaround_complaints(issue),
            _range_complaints(issue),
        )
        complaints += [(issue.id, what) for check in checks for what in check]
    ids = [issue.id for issue in known.issues]
    complaints += [(name, "duplicate id") for name in dict.fromkeys(ids) if ids.count(name) > 1]
    complaints += [(a.id, what) for a, b in combinations(known.issues, 2) for what in _contradictions(a, b)]
    return [f"{name}: {what}" for name, what in complaints]


def _text_complaints(issue: KnownIssue, checked: str) -> Iterator[str]:
    if not _ID.fullmatch(issue.id):
        yield "an id has small letters, digits, dots and hyphens"
    if len(issue.title) > MAX_TITLE or issue.title.endswith("."):
        yield f"the title is a line of at most {MAX_TITLE} characters without a full stop"
    if issue.harm not in HARMS:
        yield f"harm is one of {', '.join(HARMS)}"
    if not issue.defect.endswith(".") or not issue.source:
        yield "the defect is a sentence or two, and has a source"
    match = _DATE.fullmatch(str(issue.date))
    try:
        day = date(*(int(part or 1) for part in match.groups())) if match else None
    except ValueError:
        day = None
    if day is None:
        yield "the date is YYYY-MM-DD, YYYY-MM or YYYY"
    elif day.isoformat() > checked:
        yield f"the source is of {issue.date}, after the catalogue was checked ({checked})"
    elif match and not match[3] and not issue.doubt:
        yield "give the reason for an inexact date in `doubt`"


def _condition_complaints(issue: KnownIssue) -> Iterator[str]:
    if not (issue.kernels or issue.app or issue.needs):
        yield "it has no condition, so that it is true of every host"
    if issue.app and application(issue.app) is None:
        yield f"no application is called {issue.app} (applications.yaml)"
    if issue.versions and not issue.app:
        yield "versions are those of an app"
    for name, needed in issue.needs.items():
        if term(name) is None:
            yield f"the vocabulary has no {name}"
        if not needed or set(needed) - CONDITIONS:
            yield f"{name}: a condition is one of {', '.join(sorted(CONDITIONS))}"
        if "matches" in needed and not _compiles(str(needed["matches"])):
            yield f"{name}: not a valid RE2 pattern"


def _compiles(pattern: str) -> bool:
    try:
        re2.compile(pattern)
    except re2.error:
        return False
    return True


def _workaround_complaints(issue: KnownIssue) -> Iterator[str]:
    work = issue.workaround
    if (work.sets or work.run) and not work.until:
        yield "a workaround needs `until`"
    if set(work.back) - set(work.sets):
        yield "back has only settings that the workaround sets"
    if work.remedy and work.remedy not in remedies():
        yield f"no remedy is called {work.remedy} (remedies.yaml)"
    yield from (f"the vocabulary has no setting {name}" for name in work.sets if term(fact_name(name)) is None)


def _range_complaints(issue: KnownIssue) -> Iterator[str]:
    for item in (*issue.kernels, *issue.versions):
        name = item.line or issue.app
        if item in issue.kernels and not _LINE.fullmatch(item.line):
            yield f"unknown line of kernels '{item.line}'"
        if any(text and not numbers(text) for text in (item.since, item.fixed, item.last)):
            yield f"{name}: a version must start with a number"
        if item.fixed and item.last:
            yield f"{name}: a range that has a fix has no last version"
        if (item.line == MAINLINE or item in issue.versions) and not (item.fixed or item.last):
            yield f"{name}: the line is still maintained, so a range needs a fix or a last version"
        if item.since and numbers(item.since) > numbers(item.fixed or item.last or "9999"):
            yield f"{name}: the range ends before it starts"
    for line, ranges in _by_line((*issue.kernels, *issue.versions)).items():
        for item, following in pairwise(sorted(ranges, key=lambda r: numbers(r.since or "0"))):
            end = numbers(item.fixed or item.last)
            if not end or numbers(following.since or "0") < end:
                yield f"{line or issue.app}: two ranges overlap"


def _by_line(ranges: Iterable[Range]) -> dict[str, list[Range]]:
    ranges_by_line: dict[str, list[Range]] = {}
    for item in ranges:
        ranges_by_line.setdefault(item.line, []).append(item)
    return ranges_by_line


def _contradictions(left: KnownIssue, right: KnownIssue) -> Iterator[str]:
    """Different fixed versions for one defect and kernel line, or opposite advice for a program."""
    if left.app and left.app == right.app and _may_coincide(left, right):
        for name, words in left.workaround.sets.items():
            if not set(map(str, words)) & set(map(str, right.workaround.sets.get(name, words))):
                yield f"{right.id} sets {name} otherwise where both are true"
    if not set(_DEFECT_ID.findall(left.source)) & set(_DEFECT_ID.findall(right.source)):
        return
    fixes = {(r.line, numbers(r.since)[:2] if r.line == MAINLINE else ()): r.fixed for r in right.kernels}
    for range_ in left.kernels:
        key = (range_.line, numbers(range_.since)[:2] if range_.line == MAINLINE else ())
        if key in fixes and fixes[key] != range_.fixed:
            yield f"{right.id} names another fixed version for {range_.line}, of the same defect"


def _may_coincide(a: KnownIssue, b: KnownIssue) -> bool:
    """Whether both entries can apply to one host, according to their ranges and lists of values."""
    if not (_overlap(a.kernels, b.kernels) and _overlap(a.versions, b.versions)):
        return False
    lists = ((a.needs[name].get("one_of"), b.needs[name].get("one_of")) for name in a.needs if name in b.needs)
    return all(not (values and other_values) or set(values) & set(other_values) for values, other_values in lists)


def _overlap(some: Iterable[Range], others: Iterable[Range]) -> bool:
    """Whether ranges have a version in common; none at all is every version. el9_4 is a part of el9."""
    if not some or not others:
        return True
    return any(
        f"{max(left.line, right.line)}_".startswith(f"{min(left.line, right.line)}_")
        and not _ends_before(left, right)
        and not _ends_before(right, left)
        for left in some
        for right in others
    )


def _ends_before(range_: Range, other: Range) -> bool:
    first, end = numbers(other.since or "0"), numbers(range_.fixed or range_.last)
    return bool(end) and (end <= first if range_.fixed else end < first[: len(end)])


KINDS = ("thp", "alternative", "none")
TERM_KINDS = ("setting", "state", "counter", "gauge", "rate")
_WRITES = re.compile(r"(?<![0-9&])>>?\s*(?!/dev/null)[/~]|sysctl -w|\binstall\b.*/|\btee\b")


def pack_complaints() -> list[str]:
    """Return the errors in the words of the packs in use, one line each."""
    complaints = [
        line for table in pack_parts("mechanisms.yaml") for line in _mechanism_complaints(table.get("mechanisms", {}))
    ]
    complaints += [line for table in pack_parts("remedies.yaml") for line in _remedy_complaints(table)]
    complaints += [line for table in pack_parts("vocabulary.yaml") for line in _vocabulary_complaints(table)]
    try:
        families()
    except RuleError as error:
        complaints.append(str(error))
    return complaints


def _mechanism_complaints(rows: Mapping[str, Any]) -> Iterator[str]:
    for name, row in rows.items():
        if row["kind"] not in KINDS:
            yield f"mechanism {name}: kind is one of {', '.join(KINDS)}"
        if not str(row["sentence"]).endswith("."):
            yield f"mechanism {name}: sentence ends with a full stop"
        for other in (*row.get("looks_like", ()), *row.get("leads_to", ())):
            if other not in mechanisms():
                yield f"mechanism {name}: there is no mechanism '{other}'{suggestion(other, mechanisms())}"
        if not any(remedy["cures"] != "any" and cures(remedy, name) for remedy in remedies().values()):
            yield f"mechanism {name}: no remedy cures it, if only by where to look"


def _remedy_complaints(table: Mapping[str, Any]) -> Iterator[str]:
    for name, row in table.get("remedies", {}).items():
        cured = row["cures"] if isinstance(row["cures"], list) else []
        for other in (*cured, *(variant.get("mechanism", "") for variant in row.get("variants", ()))):
            if other and other not in mechanisms():
                yield f"remedy {name}: there is no mechanism '{other}'{suggestion(other, mechanisms())}"
        variants = (row, *row.get("variants", ()))
        for part in variants:
            steps = [*part.get("now", ()), *part.get("persist", ())]
            has_undo = part.get("undo") or part.get("undo_persist") or row.get("undo")
            if any(map(_WRITES.search, steps)) and not has_undo:
                yield f"remedy {name}: what it writes has an undo"
        if not any(key in part for part in variants for key in ("now", "persist", "sets")):
            yield f"remedy {name}: it has no command (now, persist or sets)"
    for name in table.get("verify", {}):
        if name not in mechanisms():
            yield f"verify: there is no mechanism '{name}'{suggestion(name, mechanisms())}"


def _vocabulary_complaints(table: Mapping[str, Any]) -> Iterator[str]:
    for section in ("facts", "metrics"):
        for name, row in table.get(section, {}).items():
            if row["kind"] not in TERM_KINDS:
                yield f"{name}: kind is one of {', '.join(TERM_KINDS)}"
    for name, row in table.get("events", {}).items():
        if ("message" in row) != ("hint" in row):
            yield f"event {name}: message and hint are given together; each such line holds the hint"
        elif "hint" in row and len(row["hint"]) < 4:
            yield f"event {name}: the hint is so short that it is part of too many lines"
