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
    host_names,
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
LARGEST = 64 << 20  # bytes
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Accepted(Acceptance):
    """A finding as it was accepted."""

    fingerprint: str
    severity: str | None
    confidence: str | None
    host: str | None = None

    def covers(self, finding: Finding, host: Document) -> bool:
        return finding.get("fingerprint") == self.fingerprint and _at_most(finding, self.severity, self.confidence)


def _at_most(finding: Finding, severity: str | None, confidence: str | None) -> bool:
    return rank(finding.get("severity")) <= rank(severity) and _sure(finding.get("confidence")) <= _sure(confidence)


def _sure(confidence: str | None) -> int:
    return CONFIDENCES.index(confidence) if confidence in CONFIDENCES else -1


def graver(entry: Accepted, document: Document) -> str:
    """How grave and sure the findings are now that an entry no longer covers; empty if there are none."""
    found = [
        f for host in hosts(document) for f in host.get("findings") or () if f.get("fingerprint") == entry.fingerprint
    ]
    return " and ".join(_weight(f.get("severity"), f.get("confidence")) for f in found)


def weight(entry: Accepted) -> str:
    """How grave and sure the finding was when it was accepted."""
    return _weight(entry.severity, entry.confidence)


def _weight(severity: str | None, confidence: str | None) -> str:
    return f"{severity or 'no severity'}, {confidence or 'no confidence'}"


def gone(entry: Accepted, document: Document) -> bool:
    """Whether its host is in the document, and the finding is not."""
    return any(entry.host in host_names(host) for host in hosts(document)) and not graver(entry, document)


def baseline(documents: Iterable[Document], reason: str, expires: date | None) -> dict[str, Any]:
    """The baseline that accepts every finding of the documents; of two of one fingerprint the graver one, or both."""
    every = [host for document in documents for host in hosts(document)]
    entries = [_entry(f, host, reason, expires) for host in every for f in host.get("findings") or ()]
    kept = [entry for entry in entries if not any(_includes(other, entry) for other in entries)]
    unique = {tuple(str(entry[key]) for key in KEYS): entry for entry in kept}
    order = sorted(unique.values(), key=lambda e: [str(e[key] or "") for key in ("host", "rule", "entity", *KEYS)])
    return {"schema": SCHEMA, "accepted": order}


def _entry(finding: Finding, host: Document, reason: str, expires: date | None) -> dict[str, Any]:
    if not finding.get("fingerprint"):
        raise AcceptanceError("this result was made before findings had fingerprints; analyze the input again")
    told = {key: finding.get(key) for key in ("fingerprint", "rule", "title", "severity", "confidence")}
    name = (host.get("host") or {}).get("name") or host.get("case")
    about = without_pid(finding["entity"]) if finding.get("entity") else None
    until = expires.isoformat() if expires else None
    return {**told, "entity": about, "host": name, "reason": reason, "expires": until}


def _includes(other: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    """Whether another entry accepts this one's finding and a graver one."""
    if other["fingerprint"] != entry["fingerprint"]:
        return False
    same = (other["severity"], other["confidence"]) == (entry["severity"], entry["confidence"])
    return not same and _at_most(entry, other["severity"], other["confidence"])


def baseline_text(data: Mapping[str, Any]) -> str:
    """The file."""
    return written(data)


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
        text = data.decode("utf-8")
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
