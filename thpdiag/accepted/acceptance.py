"""What every acceptance has: a reason, a last day, and the place in a file where it stands."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_PID = re.compile(r" \(\d+\)", re.ASCII)
Finding = Mapping[str, Any]
Document = Mapping[str, Any]


def day(text: str) -> date:
    """A day as YYYY-MM-DD. ValueError for anything else, a day that no calendar has too."""
    if not _DAY.fullmatch(text):
        raise ValueError(f"a day is written as YYYY-MM-DD, such as 2027-01-31, not {text!r}")
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{text} is no day: {error}") from error


def no_day(text: str) -> str:
    """What is wrong with a day; empty for one that is right."""
    try:
        day(text)
    except ValueError as error:
        return str(error)
    return ""


def hosts(document: Document) -> list[Document]:
    """The document of each host; those of JSON that is no object are left out, for others to complain of."""
    cases = document.get("cases")
    return [one for one in cases if isinstance(one, Mapping)] if cases and isinstance(cases, list) else [document]


def host_names(document: Document) -> set[str]:
    """What a host is called in a document: its own name and that of the case."""
    return {str(name) for name in ((document.get("host") or {}).get("name"), document.get("case")) if name}


def without_pid(entity: str) -> str:
    """A process by its name: another run has another pid."""
    return _PID.sub("", entity)


def label(rule: str, entity: str | None, host: str | None) -> str:
    """What an entry is about, for people."""
    return f"{rule}{f' ({entity})' if entity else ''}{f' on {host}' if host else ''}"


@dataclass(frozen=True, slots=True)
class Acceptance(ABC):
    """`expires` is the last day on which it holds. `label` names it for people, `place` is where it stands."""

    by: str
    reason: str
    expires: date | None
    label: str
    place: str

    @abstractmethod
    def covers(self, finding: Finding, host: Document) -> bool:
        """Whether it is about this finding of this host, and accepts it as grave as it is."""

    def expired(self, today: date) -> bool:
        return self.expires is not None and today > self.expires

    def mark(self) -> dict[str, str | None]:
        """What the result document says of it."""
        return {
            "by": self.by, "reason": self.reason, "expires": self.expires.isoformat() if self.expires else None,
        }  # fmt: skip
