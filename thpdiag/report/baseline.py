"""Accepted findings: entries with a reason, an optional last day, and their place in a file.

Suppression files (`--suppress`): YAML, a list of accepted findings with host, reason and last day.

- rule: THP-013            # an id, or a mechanism such as khugepaged-scan
  host: "db-*"             # a glob; by default every host
  entity: redis-server     # a glob over process, zone or device; a process has its name, with or without pid
  reason: defrag is switched with the next maintenance, change 4711
  expires: 2027-01-31      # the last day; without one it never expires

Baselines (`--baseline`): the findings of a host or a fleet at the time of their acceptance, as JSON for programs. An
entry accepts its finding up to its recorded severity and confidence; with a higher one it counts as new. Entries are
indexed by fingerprint: a fleet has as many of them as findings.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, Literal

from thpdiag.errors import AcceptanceError, InputError, UsageError
from thpdiag.knowledge.yaml_nodes import Place, YamlError, load_with_places, point_at, suggestion
from thpdiag.model import result
from thpdiag.model.finding import CONFIDENCES, SEVERITIES
from thpdiag.model.result import Finding, Result, as_result
from thpdiag.report.json import to_json
from thpdiag.report.presentation import documents, rank

_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_PID = re.compile(r" \(\d+\)", re.ASCII)
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")
SCHEMA = "thpdiag/baseline/1"
UNKNOWN_NAME = "host"  # the name of a host in documents if the input does not contain one
MAX_BASELINE_BYTES = 64 << 20
MAX_NAMES: Final = 10_000  # of rules and mechanisms, compared with unknown names in suppressions
KEYS = ("rule", "host", "entity", "reason", "expires")
REQUIRED = ("rule", "reason")
BASELINE_KEYS = ("fingerprint", "rule", "host", "entity", "title", "severity", "confidence", "reason", "expires")
BASELINE_REQUIRED = ("fingerprint", "rule", "severity", "confidence", "reason")


def day(text: str) -> date:
    """Return the date of YYYY-MM-DD. ValueError for anything else, including days that do not exist."""
    if not _DAY.fullmatch(text):
        raise ValueError(f"a day is written as YYYY-MM-DD, such as 2027-01-31, not {text!r}")
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{text} is not a date: {error}") from error


def _day_mistake(text: str) -> str:
    try:
        day(text)
    except ValueError as error:
        return str(error)
    return ""


def _without_pid(entity: str) -> str:
    """Return a process by its name only: another run has another pid."""
    return _PID.sub("", entity)


def _label(entry: Mapping[str, Any]) -> str:
    """Return a description of an entry for people."""
    entity, host = entry.get("entity"), entry.get("host")
    return f"{entry['rule']}{f' ({entity})' if entity else ''}{f' on {host}' if host else ''}"


@dataclass(frozen=True, slots=True)
class Acceptance(ABC):
    """An entry. `expires` is its last day, `label` its description for people, `place` its position in a file."""

    by: Literal["suppression", "baseline"]
    reason: str
    expires: date | None
    label: str
    place: str

    @abstractmethod
    def covers(self, finding: Finding, hosts: Collection[str]) -> bool:
        """Return whether the entry is about this finding of a host with these names, at its severity."""

    def is_expired(self, today: date) -> bool:
        return self.expires is not None and today > self.expires

    def mark(self) -> result.Acceptance:
        """Return its form in the result document."""
        expires = self.expires.isoformat() if self.expires else None
        return result.Acceptance.model_construct(by=self.by, reason=self.reason, expires=expires)


@dataclass(frozen=True, slots=True)
class Suppression(Acceptance):
    """An entry of a suppression file; `rule` is an id or a mechanism, `host` and `entity` are globs."""

    rule: str
    host: str
    entity: str

    def covers(self, finding: Finding, hosts: Collection[str]) -> bool:
        entity = finding.entity or ""
        return (
            self.rule in (finding.rule, finding.mechanism)
            and _fits(self.host, hosts or {""})
            and _fits(self.entity, {entity, _without_pid(entity)})
        )


@dataclass(frozen=True, slots=True)
class Accepted(Acceptance):
    """An entry of a baseline: a finding at the time of its acceptance."""

    fingerprint: str
    severity: str | None
    confidence: str | None
    host: str | None = None

    @property
    def nameless(self) -> bool:
        """Whether the input did not name the host: fingerprints of all such hosts are made of the same word."""
        return self.host in (None, UNKNOWN_NAME)

    def covers(self, finding: Finding, hosts: Collection[str]) -> bool:
        return finding.fingerprint == self.fingerprint and _at_most(
            (finding.severity, finding.confidence), (self.severity, self.confidence)
        )


Weight = tuple[str | None, str | None]  # severity and confidence


def _at_most(weight: Weight, other: Weight) -> bool:
    confidence, other_confidence = (CONFIDENCES.index(c) if c in CONFIDENCES else -1 for c in (weight[1], other[1]))
    return rank(weight[0]) <= rank(other[0]) and confidence <= other_confidence


def _describe_weight(severity: str | None, confidence: str | None) -> str:
    return f"{severity or 'no severity'}, {confidence or 'no confidence'}"


def _fits(pattern: str, names: Iterable[str]) -> bool:
    """Return whether a name matches as a glob, or literally as in a report: `[md0_raid1]`."""
    return any(name == pattern or fnmatchcase(name, pattern) for name in names)


# Suppression files

EXAMPLE = "docs/how-to/accept.md has an example"


def read_suppressions(path: Path) -> list[Suppression]:
    """Return the entries of a file. AcceptanceError lists all mistakes with their places."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(_unreadable(path, error, EXAMPLE)) from error
    return parse_suppressions(str(path), text)


def parse_suppressions(path: str, text: str) -> list[Suppression]:
    """Return the entries of the text of a file."""
    try:
        data, places = load_with_places(text)
    except YamlError as error:
        raise _invalid(path, point_at(path, text, str(error), error.place)) from error
    entries = [] if data is None else data
    if not isinstance(entries, list):
        message = f"suppressions must be a list, where each entry starts with `- rule:`, not {_kind_of_value(entries)}"
        raise _invalid(path, point_at(path, text, message, places.get(())))
    mistakes = [
        point_at(path, text, message, places.get(where) or places.get(where[:1]))
        for number, entry in enumerate(entries)
        for where, message in _mistakes(entry, number)
    ]
    if mistakes:
        raise _invalid(path, *mistakes)
    return [
        Suppression(
            "suppression", entry["reason"].strip(), day(entry["expires"]) if "expires" in entry else None,
            _label(entry), f"{path}:{places[(number,)].line}",
            entry["rule"], entry.get("host", "*"), entry.get("entity", "*"),
        )
        for number, entry in enumerate(entries)
    ]  # fmt: skip


def _invalid(path: str, *mistakes: str) -> AcceptanceError:
    """Return an error with all mistakes and a hint."""
    return AcceptanceError("\n".join((*mistakes, f"{path}: {EXAMPLE}")))


def _mistakes(entry: Any, number: int) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if not isinstance(entry, dict):
        yield (number,), f"an entry has {', '.join(KEYS)}, and is not {_kind_of_value(entry)}"
        return
    yield from (((number, key), f"unknown key '{key}'{suggestion(key, KEYS)}") for key in entry if key not in KEYS)
    yield from (((number,), f"the key '{key}' is missing") for key in REQUIRED if key not in entry)
    for key, value in ((key, entry[key]) for key in KEYS if key in entry):
        if not isinstance(value, str) or not value.strip():
            yield (number, key), f"{key}: a text, not {_kind_of_value(value)}"
        elif key == "expires" and (mistake := _day_mistake(value)):
            yield (number, key), f"{key}: {mistake}"


def _kind_of_value(value: object) -> str:
    kinds = {dict: "a mapping", list: "a list", type(None): "nothing", bool: "true or false"}
    if isinstance(value, str):
        return "text" if value.strip() else "an empty text"
    return kinds.get(type(value), f"the number {value}")


# Baselines


def baseline(results: Iterable[Result], reason: str, expires: date | None) -> dict[str, Any]:
    """Return the baseline that accepts every finding of the results, of which it keeps only the entries in memory.

    Of two findings with one fingerprint it has the more severe one, or both.
    """
    by_fingerprint: dict[str, list[dict[str, Any]]] = {}
    for document in results:
        for host in documents(document):
            for finding in host.findings:
                entry = _entry(finding, host, reason, expires)
                same = by_fingerprint.setdefault(entry["fingerprint"], [])
                if not any(_includes(other, entry) or other == entry for other in same):
                    same[:] = [*(other for other in same if not _includes(entry, other)), entry]
    entries = (entry for same in by_fingerprint.values() for entry in same)
    order = sorted(entries, key=lambda e: [str(e[key] or "") for key in ("host", "rule", "entity", *BASELINE_KEYS)])
    return {"schema": SCHEMA, "accepted": order}


def _entry(finding: Finding, host: Result, reason: str, expires: date | None) -> dict[str, Any]:
    if not finding.fingerprint:
        raise InputError("this result was made before findings had fingerprints; analyze the input again")
    return {
        "fingerprint": finding.fingerprint, "rule": finding.rule, "title": finding.title,
        "severity": finding.severity, "confidence": finding.confidence,
        "entity": _without_pid(finding.entity or "").strip() or None, "host": host.host.name or host.case,
        "reason": reason, "expires": expires.isoformat() if expires else None,
    }  # fmt: skip


def _includes(other: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    """Return whether another entry of the same fingerprint accepts this finding and a more severe one."""
    weights = [(row["severity"], row["confidence"]) for row in (entry, other)]
    return weights[0] != weights[1] and _at_most(*weights)


def acceptable(finding: object) -> bool:
    """Return whether an entry can be made of a finding; the result may be from a damaged process."""
    keys = ("fingerprint", "rule", "title", "severity", "confidence", "entity")
    return isinstance(finding, Mapping) and not any(_value_mistake(key, finding.get(key)) for key in keys)


def baseline_text(data: Mapping[str, Any]) -> str:
    """Return the file. InputError if it is too large to be read back."""
    text = to_json(data)
    if len(text) > MAX_BASELINE_BYTES:
        entries, most = len(data["accepted"]), MAX_BASELINE_BYTES >> 20
        raise InputError(f"a baseline of {entries:,} findings is larger than {most} MiB; none is read")
    return text


def read_baseline(path: Path) -> list[Accepted]:
    """Return the entries of a file. AcceptanceError lists all mistakes."""
    return [
        Accepted(
            "baseline", row["reason"].strip(), day(row["expires"]) if row.get("expires") else None,
            _label(row), f"{path}: accepted[{number}]",
            row["fingerprint"], row["severity"], row["confidence"], row.get("host"),
        )
        for number, row in enumerate(rows(path))
    ]  # fmt: skip


def rows(path: Path) -> Sequence[Mapping[str, Any]]:
    """Return the checked entries of a file as JSON objects."""
    data = _read_json(path)
    if not isinstance(data, dict) or data.get("schema") != SCHEMA or not isinstance(data.get("accepted"), list):
        raise AcceptanceError(
            f"{path}: not a baseline: its schema is not {SCHEMA}; `thpdiag baseline create` writes one"
        )
    top = ("schema", "accepted")
    mistakes = [f"unknown key '{key}'{suggestion(key, top)}" for key in data if key not in top]
    mistakes += [f"accepted[{n}]: {m}" for n, row in enumerate(data["accepted"]) for m in _row_mistakes(row)]
    if mistakes:
        raise AcceptanceError("\n".join(f"{path}: {mistake}" for mistake in mistakes))
    entries: list[dict[str, Any]] = data["accepted"]
    return entries


def _unreadable(path: Path, error: OSError | UnicodeDecodeError, hint: str) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"{path}: cannot be read: {reason[:1].lower()}{reason[1:]}; {hint}"


def _read_json(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BASELINE_BYTES + 1)
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(_unreadable(path, error, "`thpdiag baseline create` writes one")) from error
    if len(data) > MAX_BASELINE_BYTES:
        raise AcceptanceError(f"{path}: larger than {MAX_BASELINE_BYTES >> 20} MiB")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        message = f"a baseline is JSON, as `thpdiag baseline create` writes it: {error.msg[:1].lower()}{error.msg[1:]}"
        raise AcceptanceError(point_at(str(path), text, message, Place(error.lineno, error.colno))) from error
    except (ValueError, RecursionError) as error:
        raise AcceptanceError(f"{path}: {error}") from error


def _row_mistakes(row: Any) -> Iterator[str]:
    if not isinstance(row, dict):
        yield "an entry is an object"
        return
    yield from (f"unknown key '{key}'{suggestion(key, BASELINE_KEYS)}" for key in row if key not in BASELINE_KEYS)
    yield from (f"the key '{key}' is missing" for key in BASELINE_REQUIRED if key not in row)
    for key in (key for key in BASELINE_KEYS if key in row):
        if mistake := _value_mistake(key, row[key]):
            yield f"{key}: {mistake}"


def _value_mistake(key: str, value: Any) -> str:
    words = {"severity": SEVERITIES, "confidence": CONFIDENCES}.get(key)
    if value is None and key not in ("fingerprint", "rule", "reason"):
        return ""
    if not isinstance(value, str) or not value.strip():
        return "it is a text"
    if words and value not in words:
        return f"one of {', '.join(words)}, not '{value}'{suggestion(value, words)}"
    if key == "fingerprint" and not _FINGERPRINT.fullmatch(value):
        return f"16 digits of 0 to 9 and a to f, not '{value}'"
    return _day_mistake(value) if key == "expires" else ""


# Matching of findings and entries


class Judge:
    """Matches findings with entries, over one result or a fleet; `options` are added to the results that it marks.

    It records the entries that matched, their hosts that were seen, and the severity of findings in a baseline.
    """

    def __init__(self, entries: Sequence[Acceptance], today: date, options: Mapping[str, str]) -> None:
        self.entries, self.options = entries, options
        self.today = today
        self._live = [entry for entry in entries if not entry.is_expired(today)]
        self._accepted: dict[str, list[tuple[int, Acceptance]]] = {}
        self._others: list[tuple[int, Acceptance]] = []
        for number, entry in enumerate(self._live):
            if isinstance(entry, Accepted):
                self._accepted.setdefault(entry.fingerprint, []).append((number, entry))
            else:
                self._others.append((number, entry))
        self._wanted = {entry.host for entry in self._live if isinstance(entry, Accepted) and entry.host}
        self._used: set[int] = set()
        self._hosts: set[str] = set()
        self._weights: dict[str, dict[str, None]] = {}
        self._names: set[str] = set()

    def mark_document(self, document: Result | Mapping[str, Any]) -> Result:
        """Return a result (of one host or several) with marks; existing marks are replaced."""
        whole = as_result(document)
        all_options = {**whole.tool.options, **self.options}
        options = {name: value for name, value in all_options.items() if value or name not in self.options}
        changed: dict[str, Any] = {"tool": whole.tool.model_copy(update={"options": options})}
        names = {name for name in (whole.host.name, whole.case) if name}
        if not whole.cases:
            rules = ((rule.id, rule.mechanism) for rule in whole.rules)
            findings = ((finding.rule, finding.mechanism) for finding in whole.findings)
            self.see(names, (name for both in (*rules, *findings) for name in both))
        if "findings" in whole.model_fields_set:
            changed["findings"] = [self._with_mark(finding, names) for finding in whole.findings]
        if whole.cases:
            changed["cases"] = [self.mark_document(case) for case in whole.cases]
        return whole.model_copy(update=changed)

    def see(self, hosts: Collection[str], rules: Iterable[str | None]) -> None:
        """Record the names of a host, and the rules and mechanisms that its result names."""
        self._hosts |= self._wanted.intersection(hosts)
        if self._others and len(self._names) < MAX_NAMES:
            self._names.update(filter(None, rules))

    def entry(self, finding: Finding, hosts: Collection[str]) -> Acceptance | None:
        """Return the first entry that accepts a finding of a host with these names."""
        candidates = self._accepted.get(finding.fingerprint, []) if finding.fingerprint else []
        if candidates and finding.fingerprint:
            weight = _describe_weight(finding.severity, finding.confidence)
            self._weights.setdefault(finding.fingerprint, {})[weight] = None
        matches = [(number, entry) for number, entry in (*candidates, *self._others) if entry.covers(finding, hosts)]
        self._used.update(number for number, _ in matches)
        return min(matches, key=lambda pair: pair[0])[1] if matches else None

    def warnings(self) -> Iterator[str]:
        """Yield warnings about the entries, once all documents were seen."""
        for entry in self.entries:
            if entry.is_expired(self.today):
                yield f"{_about(entry)}: expired on {entry.expires}, no longer accepts anything ({entry.reason})"
        yield from filter(None, map(self._without_effect, self._idle()))
        for number, entry in enumerate(self._live):
            if number in self._used and isinstance(entry, Accepted) and entry.nameless:
                yield f"{_about(entry)}: its host has no name in the input; it accepts this of every unnamed host"

    def notes(self) -> Iterator[str]:
        """Yield notes that are printed on request."""
        yield from (f"{_about(entry)}: has no last day (expires)" for entry in self._live if entry.expires is None)
        for entry in self._idle():
            if isinstance(entry, Accepted) and entry.host in self._hosts and entry.fingerprint not in self._weights:
                yield f"{_about(entry)}: no longer found"

    def _idle(self) -> list[Acceptance]:
        return [entry for number, entry in enumerate(self._live) if number not in self._used]

    def _without_effect(self, entry: Acceptance) -> str:
        """Return a warning about an unused entry; unused entries of a baseline, made of a whole fleet, are normal."""
        if isinstance(entry, Suppression):
            hint = ""
            if self._names and entry.rule not in self._names:  # maybe a misspelled name
                hint = f"; no rule or mechanism '{entry.rule}'{suggestion(entry.rule, sorted(self._names))}"
            return f"{_about(entry)}: accepts no finding of this input{hint}"
        if not isinstance(entry, Accepted) or not (current := " and ".join(self._weights.get(entry.fingerprint, ()))):
            return ""
        accepted = _describe_weight(entry.severity, entry.confidence)
        return f"{_about(entry)}: accepted as {accepted}, is {current} now, and counts as new"

    def _with_mark(self, finding: Finding, hosts: Collection[str]) -> Finding:
        entry = self.entry(finding, hosts)
        if entry is not None:
            return finding.model_copy(update={"suppressed": entry.mark()})
        if finding.suppressed is None:
            return finding
        rest = {name: getattr(finding, name) for name in finding.model_fields_set - {"suppressed"}}
        return Finding.model_construct(**rest)


def _about(entry: Acceptance) -> str:
    return f"{entry.place}: {entry.label}"
