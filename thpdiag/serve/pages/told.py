"""What lists and heads of pages say of a case, in words."""

from __future__ import annotations

from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from thpdiag.reports import verdict
from thpdiag.serve.storage.cases import Case

VERDICTS: Final = MappingProxyType(
    {
        "found": "cause found",
        "nothing_found": "nothing found",
        "not_applicable": "not applicable",
        "cannot_tell": "cannot tell",
    }
)
_COLOURS: Final = MappingProxyType({"nothing_found": "good", "not_applicable": "good"})


def named(case: Case) -> str:
    """The host that leads, or what the case is called; the bundle where nobody has named either."""
    name = verdict.name({"host": {"name": case.host}, "case": case.title})
    return case.name if case.name and name == verdict.NAMELESS else name


def said(case: Case) -> str:
    """The verdict in a sentence."""
    return verdict.sentence({"verdict": {"sentence": case.sentence, "status": case.verdict}})


def short(case: Case) -> str:
    """The verdict in a word or two."""
    return VERDICTS.get(case.verdict or "", "no verdict")


def colour(case: Case) -> str:
    """The class of style of a verdict: its severity, or what it is without one."""
    return case.severity or _COLOURS.get(case.verdict or "", "")


def when(seconds: float | None) -> str:
    """A time of this server, in UTC, to the minute."""
    return "" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def recorded(case: Case) -> str:
    """When the data was, to the minute; the host's local time where nobody knows its zone."""
    if not case.recorded:
        return ""
    day, _, clock = case.recorded.partition("T")
    return f"{day} {clock[:5]} {'UTC' if clock.endswith('Z') else 'local'}"


def size(number: int) -> str:
    """Bytes of a file."""
    return f"{number:,} bytes" if number < 1 << 20 else f"{number / (1 << 20):,.1f} MiB"


def older_first(one: Case, other: Case) -> tuple[Case, Case]:
    """By when their data was, if both are known in UTC; else by when they were made."""
    times = (one.recorded or "", other.recorded or "")
    if all(time.endswith("Z") for time in times) and times[0] != times[1]:
        return (one, other) if times[0] < times[1] else (other, one)
    return (one, other) if one.number <= other.number else (other, one)
