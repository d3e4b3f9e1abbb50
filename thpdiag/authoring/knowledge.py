"""Lints of knowledge: the catalogue of known issues, and the words that packs bring.

Of an issue form, names, ranges, and entries that contradict each other; of words what a file's form alone cannot tell
(knowledge/packs.py checks that).
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
MAX_TITLE = 110  # characters: what is said on the phone
_ID = re.compile(r"[a-z0-9][a-z0-9.-]{5,60}")
_DATE = re.compile(r"(\d{4})(?:-(\d\d))?(?:-(\d\d))?")
_LINE = re.compile(r"mainline|el\d+(?:_\d+)?|sles1\d(?:\.\d)?|ubuntu\d+\.\d+|uek\d+\.\d+")
_SAME = re.compile(r"CVE-\d{4}-\d+|(?:bsc|LP)#\d+|\bbugs? \d{6,}|KBA \d+|KCS \d+")  # what names one defect
Complaint = tuple[str, str]


def issue_complaints(known: Catalogue) -> list[str]:
    """What is wrong with the entries, `id: what`; empty for a good catalogue."""
    found: list[Complaint] = []
    for issue in known.issues:
        checks = (_words(issue, known.date), _conditions(issue), _workaround(issue), _ranges(issue))
        found += [(issue.id, what) for check in checks for what in check]
    ids = [issue.id for issue in known.issues]
    found += [(name, "duplicate id") for name in dict.fromkeys(ids) if ids.count(name) > 1]
    found += [(one.id, what) for one, other in combinations(known.issues, 2) for what in _contradictions(one, other)]
    return [f"{name}: {what}" for name, what in found]


def _words(issue: KnownIssue, checked: str) -> Iterator[str]:
    if not _ID.fullmatch(issue.id):
        yield "an id has small letters, digits, dots and hyphens"
    if len(issue.title) > MAX_TITLE or issue.title.endswith("."):
        yield f"the title is a line of at most {MAX_TITLE} characters without a full stop"
    if issue.harm not in HARMS:
        yield f"harm is one of {', '.join(HARMS)}"
    if not issue.defect.endswith(".") or not issue.source:
        yield "the defect is a sentence or two, and has a source"
    found = _DATE.fullmatch(str(issue.date))
    try:
        day = date(*(int(part or 1) for part in found.groups())) if found else None
    except ValueError:
        day = None
    if day is None:
        yield "the date is YYYY-MM-DD, YYYY-MM or YYYY"
    elif day.isoformat() > checked:
        yield f"the source is of {issue.date}, after the catalogue was checked ({checked})"
    elif found and not found[3] and not issue.doubt:
        yield "give the reason for an inexact date in `doubt`"


def _conditions(issue: KnownIssue) -> Iterator[str]:
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


def _workaround(issue: KnownIssue) -> Iterator[str]:
    work = issue.workaround
    if (work.sets or work.run) and not work.until:
        yield "a workaround needs `until`"
    if set(work.back) - set(work.sets):
        yield "back has only settings that the workaround sets"
    if work.remedy and work.remedy not in remedies():
        yield f"no remedy is called {work.remedy} (remedies.yaml)"
    yield from (f"the vocabulary has no setting {name}" for name in work.sets if term(fact_name(name)) is None)


def _ranges(issue: KnownIssue) -> Iterator[str]:
    for one in (*issue.kernels, *issue.versions):
        name = one.line or issue.app
        if one in issue.kernels and not _LINE.fullmatch(one.line):
            yield f"unknown line of kernels '{one.line}'"
        if any(text and not numbers(text) for text in (one.since, one.fixed, one.last)):
            yield f"{name}: a version must start with a number"
        if one.fixed and one.last:
            yield f"{name}: a range that has a fix has no last version"
        if (one.line == MAINLINE or one in issue.versions) and not (one.fixed or one.last):
            yield f"{name}: the line is still maintained, so a range needs a fix or a last version"
        if one.since and numbers(one.since) > numbers(one.fixed or one.last or "9999"):
            yield f"{name}: the range ends before it starts"
    for line, ranges in _by_line((*issue.kernels, *issue.versions)).items():
        for one, other in pairwise(sorted(ranges, key=lambda r: numbers(r.since or "0"))):
            end = numbers(one.fixed or one.last)
            if not end or numbers(other.since or "0") < end:
                yield f"{line or issue.app}: two ranges overlap"


def _by_line(ranges: Iterable[Range]) -> dict[str, list[Range]]:
    found: dict[str, list[Range]] = {}
    for one in ranges:
        found.setdefault(one.line, []).append(one)
    return found


def _contradictions(one: KnownIssue, other: KnownIssue) -> Iterator[str]:
    """Two entries of one defect with two fixed versions for the same line of kernels; opposite advice for a program."""
    if one.app and one.app == other.app and _may_meet(one, other):
        for name, words in one.workaround.sets.items():
            if not set(map(str, words)) & set(map(str, other.workaround.sets.get(name, words))):
                yield f"{other.id} sets {name} otherwise where both are true"
    if not set(_SAME.findall(one.source)) & set(_SAME.findall(other.source)):
        return
    fixes = {(r.line, numbers(r.since)[:2] if r.line == MAINLINE else ()): r.fixed for r in other.kernels}
    for mine in one.kernels:
        key = (mine.line, numbers(mine.since)[:2] if mine.line == MAINLINE else ())
        if key in fixes and fixes[key] != mine.fixed:
            yield f"{other.id} names another fixed version for {mine.line}, of the same defect"


def _may_meet(one: KnownIssue, other: KnownIssue) -> bool:
    """Whether both can be true of one host, as far as ranges and lists of values tell."""
    if not (_overlap(one.kernels, other.kernels) and _overlap(one.versions, other.versions)):
        return False
    lists = (
        (one.needs[name].get("one_of"), other.needs[name].get("one_of")) for name in one.needs if name in other.needs
    )
    return all(not (mine and others) or set(mine) & set(others) for mine, others in lists)


def _overlap(some: Iterable[Range], others: Iterable[Range]) -> bool:
    """Whether ranges have a version in common; none at all is every version. el9_4 is a part of el9."""
    if not some or not others:
        return True
    return any(
        f"{max(one.line, other.line)}_".startswith(f"{min(one.line, other.line)}_")
        and not _ends_before(one, other)
        and not _ends_before(other, one)
        for one in some
        for other in others
    )


def _ends_before(one: Range, other: Range) -> bool:
    first, end = numbers(other.since or "0"), numbers(one.fixed or one.last)
    return bool(end) and (end <= first if one.fixed else end < first[: len(end)])


KINDS = ("thp", "alternative", "none")
TERM_KINDS = ("setting", "state", "counter", "gauge", "rate")
_WRITES = re.compile(r"(?<![0-9&])>>?\s*(?!/dev/null)[/~]|sysctl -w|\binstall\b.*/|\btee\b")


def pack_complaints() -> list[str]:
    """What is wrong with the words of the packs in use, a line each."""
    found = [line for table in pack_parts("mechanisms.yaml") for line in _of_mechanisms(table.get("mechanisms", {}))]
    found += [line for table in pack_parts("remedies.yaml") for line in _of_remedies(table)]
    found += [line for table in pack_parts("vocabulary.yaml") for line in _of_vocabulary(table)]
    try:
        families()
    except RuleError as error:
        found.append(str(error))
    return found


def _of_mechanisms(rows: Mapping[str, Any]) -> Iterator[str]:
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


def _of_remedies(table: Mapping[str, Any]) -> Iterator[str]:
    for name, row in table.get("remedies", {}).items():
        told = row["cures"] if isinstance(row["cures"], list) else []
        for other in (*told, *(variant.get("mechanism", "") for variant in row.get("variants", ()))):
            if other and other not in mechanisms():
                yield f"remedy {name}: there is no mechanism '{other}'{suggestion(other, mechanisms())}"
        for one in (row, *row.get("variants", ())):
            steps = [*one.get("now", ()), *one.get("persist", ())]
            if any(map(_WRITES.search, steps)) and not (one.get("undo") or one.get("undo_persist") or row.get("undo")):
                yield f"remedy {name}: what it writes has an undo"
        if not any(key in one for one in (row, *row.get("variants", ())) for key in ("now", "persist", "sets")):
            yield f"remedy {name}: it has no command (now, persist or sets)"
    for name in table.get("verify", {}):
        if name not in mechanisms():
            yield f"verify: there is no mechanism '{name}'{suggestion(name, mechanisms())}"


def _of_vocabulary(table: Mapping[str, Any]) -> Iterator[str]:
    for section in ("facts", "metrics"):
        for name, row in table.get(section, {}).items():
            if row["kind"] not in TERM_KINDS:
                yield f"{name}: kind is one of {', '.join(TERM_KINDS)}"
    for name, row in table.get("events", {}).items():
        if ("message" in row) != ("hint" in row):
            yield f"event {name}: message and hint are given together; each such line holds the hint"
        elif "hint" in row and len(row["hint"]) < 4:
            yield f"event {name}: the hint is so short that it is part of too many lines"
