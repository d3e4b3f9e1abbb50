"""Baselines (`--baseline`): the findings of a host or a fleet as they were accepted once, as JSON for programs.

An entry accepts its finding as grave and as sure as it was then. What got graver or surer counts as new.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from thpdiag.accepted.acceptance import (
    Acceptance,
    Document,
    Finding,
    day,
    hosts,
    label,
    no_day,
    without_pid,
)
from thpdiag.errors import AcceptanceError
from thpdiag.knowledge.complaints import pointed, suggestion
from thpdiag.knowledge.yaml_nodes import Place
from thpdiag.reports.json import written
from thpdiag.reports.severities import SEVERITIES, rank

SCHEMA = "thpdiag/baseline/1"
CONFIDENCES = ("possible", "likely", "confirmed")
KEYS = ("fingerprint", "rule", "host", "entity", "title", "severity", "confidence", "reason", "expires")
REQUIRED = ("fingerprint", "rule", "severity", "confidence", "reason")
NOBODY = "host"  # what a document calls a host whose name is not in the input
LARGEST = 64 << 20  # bytes
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Accepted(Acceptance):
    """A finding as it was accepted."""

    fingerprint: str
    severity: str | None
    confidence: str | None
    host: str | None = None

    @property
    def nameless(self) -> bool:
        """Whether the input did not name the host: fingerprints of all such hosts are made of the same word."""
        return self.host in (None, NOBODY)

    def covers(self, finding: Finding, host: Document) -> bool:
        return finding.get("fingerprint") == self.fingerprint and _at_most(finding, self.severity, self.confidence)


def _at_most(finding: Finding, severity: str | None, confidence: str | None) -> bool:
    return rank(finding.get("severity")) <= rank(severity) and _sure(finding.get("confidence")) <= _sure(confidence)


def _sure(confidence: str | None) -> int:
    return CONFIDENCES.index(confidence) if confidence in CONFIDENCES else -1


def weight(entry: Accepted) -> str:
    """How grave and sure the finding was when it was accepted."""
    return _weight(entry.severity, entry.confidence)


def weight_of(finding: Finding) -> str:
    """How grave and sure a finding is now."""
    return _weight(finding.get("severity"), finding.get("confidence"))


def _weight(severity: str | None, confidence: str | None) -> str:
    return f"{severity or 'no severity'}, {confidence or 'no confidence'}"


def baseline(documents: Iterable[Document], reason: str, expires: date | None) -> dict[str, Any]:
    """The baseline that accepts every finding of the documents; of two of one fingerprint the graver one, or both.

    One document after the other: what is kept of them is the entries.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for document in documents:
        for host in hosts(document):
            for finding in host.get("findings") or ():
                entry = _entry(finding, host, reason, expires)
                same = found.setdefault(entry["fingerprint"], [])
                if not any(_includes(other, entry) or other == entry for other in same):
                    same[:] = [*(other for other in same if not _includes(entry, other)), entry]
    every = (entry for same in found.values() for entry in same)
    order = sorted(every, key=lambda e: [str(e[key] or "") for key in ("host", "rule", "entity", *KEYS)])
    return {"schema": SCHEMA, "accepted": order}


def _entry(finding: Finding, host: Document, reason: str, expires: date | None) -> dict[str, Any]:
    if not finding.get("fingerprint"):
        raise AcceptanceError("this result was made before findings had fingerprints; analyze the input again")
    told = {key: finding.get(key) for key in ("fingerprint", "rule", "title", "severity", "confidence")}
    name = (host.get("host") or {}).get("name") or host.get("case")
    about = without_pid(finding.get("entity") or "").strip() or None
    until = expires.isoformat() if expires else None
    return {**told, "entity": about, "host": name, "reason": reason, "expires": until}


def _includes(other: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    """Whether another entry of the same fingerprint accepts this one's finding and a graver one."""
    same = (other["severity"], other["confidence"]) == (entry["severity"], entry["confidence"])
    return not same and _at_most(entry, other["severity"], other["confidence"])


def acceptable(finding: object) -> bool:
    """Whether an entry can be made of it, which is not sure of a result that a damaged process wrote."""
    keys = ("fingerprint", "rule", "title", "severity", "confidence", "entity")
    return isinstance(finding, Mapping) and not any(_mistake(key, finding.get(key)) for key in keys)


def baseline_text(data: Mapping[str, Any]) -> str:
    """The file. AcceptanceError if it is larger than one that is read."""
    text = written(data)
    if len(text) > LARGEST:
        entries = len(data["accepted"])
        raise AcceptanceError(f"a baseline of {entries:,} findings is larger than {LARGEST >> 20} MiB; none is read")
    return text


def accepted(path: Path) -> list[Accepted]:
    """The entries of a file. AcceptanceError names everything that is wrong."""
    return [
        Accepted(
            "baseline", row["reason"].strip(), day(row["expires"]) if row.get("expires") else None,
            _label(row), f"{path}: accepted[{number}]",
            row["fingerprint"], row["severity"], row["confidence"], row.get("host"),
        )
        for number, row in enumerate(rows(path))
    ]  # fmt: skip


def rows(path: Path) -> Sequence[Mapping[str, Any]]:
    """The entries of a file as they stand there, checked."""
    data = _json(path)
    if not isinstance(data, dict) or data.get("schema") != SCHEMA or not isinstance(data.get("accepted"), list):
        raise AcceptanceError(f"{path}: no baseline: its schema is not {SCHEMA}")
    wrong = [f"unknown key '{key}'{suggestion(key, ('schema', 'accepted'))}" for key in data if key not in _TOP]
    wrong += [f"accepted[{n}]: {m}" for n, row in enumerate(data["accepted"]) for m in _mistakes(row)]
    if wrong:
        raise AcceptanceError("\n".join(f"{path}: {mistake}" for mistake in wrong))
    found: list[dict[str, Any]] = data["accepted"]
    return found


_TOP = ("schema", "accepted")


def _json(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise AcceptanceError(f"{path}: cannot be read: {error}") from error
    if len(data) > LARGEST:
        raise AcceptanceError(f"{path}: larger than {LARGEST >> 20} MiB")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise AcceptanceError(pointed(str(path), text, error.msg, Place(error.lineno, error.colno))) from error
    except (ValueError, RecursionError) as error:
        raise AcceptanceError(f"{path}: {error}") from error


def _mistakes(row: Any) -> Iterator[str]:
    if not isinstance(row, dict):
        yield "an entry is an object"
        return
    yield from (f"unknown key '{key}'{suggestion(key, KEYS)}" for key in row if key not in KEYS)
    yield from (f"the key '{key}' is missing" for key in REQUIRED if key not in row)
    for key in (key for key in KEYS if key in row):
        if mistake := _mistake(key, row[key]):
            yield f"{key}: {mistake}"


def _mistake(key: str, value: Any) -> str:
    words = {"severity": SEVERITIES, "confidence": CONFIDENCES}.get(key)
    if value is None and key not in ("fingerprint", "rule", "reason"):
        return ""
    if not isinstance(value, str) or not value.strip():
        return "it is a text"
    if words and value not in words:
        return f"one of {', '.join(words)}, not '{value}'{suggestion(value, words)}"
    if key == "fingerprint" and not _FINGERPRINT.fullmatch(value):
        return f"16 digits of 0 to 9 and a to f, not '{value}'"
    return no_day(value) if key == "expires" else ""


def _label(row: Mapping[str, Any]) -> str:
    return label(row["rule"], row.get("entity"), row.get("host"))
