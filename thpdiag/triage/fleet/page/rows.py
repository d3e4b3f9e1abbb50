"""The rows of the page's tables as HTML. They are most of the page: end tags that may be left out are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from thpdiag.reports.severities import SEVERITIES, rank
from thpdiag.triage.fleet.hosts import FleetHost
from thpdiag.triage.fleet.page.leaves import Column, Table
from thpdiag.triage.fleet.page.words import (
    CONFIDENCES,
    FOUND,
    GRAVEST,
    NONE,
    UNKNOWN,
    VERDICTS,
    address,
    told,
    verdict,
)

_RESULTS: Final = (*GRAVEST, FOUND, *(words for status, words in VERDICTS.items() if status != FOUND), UNKNOWN)
HOSTS: Final = Table(
    "hosts",
    "hosts",
    "host",
    (
        Column("Host"),
        Column(
            "Result",
            f'data-facet="Severity" data-order="{"|".join(_RESULTS)}" data-found="{"|".join((*GRAVEST, FOUND))}" '
            'data-notes="no note"',
        ),
        Column("Diagnosis"),
        Column("Mechanism", 'data-facet="Mechanism"'),
        Column("Confidence", f'data-facet="Confidence" data-order="{"|".join(CONFIDENCES)}"'),
        Column("Kernel", 'data-facet="Kernel"'),
        Column("Distribution", 'data-facet="Distribution"'),
        Column("Applications", 'data-facet="Application" data-many'),
    ),
)
INCOMPLETE: Final = Table(
    "incomplete",
    "bundles without a complete result",
    "bundle without a complete result",
    (Column("Bundle"), Column("Status", 'data-facet="Status"'), Column("Reason"), Column("Attempts", "data-number")),
)
_DIGITS = re.compile(r"\d+")
Key = tuple[int, int, int, int, str, int]


def gravity(host: FleetHost) -> Key:
    """The order of the page: what was found and nobody accepts, gravest and surest first; then names."""
    order, sure = _place(host.verdict, tuple(VERDICTS)), _place(host.confidence, CONFIDENCES)
    return order, int(host.accepted), -rank(host.severity), sure, natural(host.label), host.number


def natural(name: str) -> str:
    """A name as it is sorted: web2 before web10."""
    return _DIGITS.sub(lambda digits: digits[0].zfill(12), name)


def _place(word: str | None, order: tuple[str, ...]) -> int:
    return order.index(word) if word in order else len(order)


def result(host: FleetHost) -> str:
    """Severity of what was found, else the verdict in words."""
    if host.verdict == FOUND:
        return host.severity if host.severity in SEVERITIES else FOUND
    return verdict(host.verdict)


def host_cell(host: FleetHost) -> str:
    """Its name, which leads to its page, and below it its bundle."""
    name = told(host.label)
    if host.page:
        name = f'<a href="{address(host.page)}">{name}</a>'
    elif host.label != host.path:
        name = f"<span>{name}</span>"
    return f"{name} <small>{told(host.path)}</small>" if host.label != host.path else name


def host_row(host: FleetHost, notes: Sequence[str] = ()) -> str:
    """`notes` stand below its result."""
    found = host.verdict == FOUND
    apps = " ".join(f"<i>{told(app)}</i>" for app in host.apps)
    return (
        f"<tr><td>{host_cell(host)}<td>{_result(host, notes)}<td>{told(host.sentence)}"
        f"<td>{told(host.mechanism) or (UNKNOWN if found else NONE)}"
        f"<td>{told(host.confidence) or (UNKNOWN if found else NONE)}<td>{told(host.kernel) or UNKNOWN}"
        f"<td>{distribution(host)}<td>{apps or NONE}\n"
    )


def distribution(host: FleetHost) -> str:
    return told(host.os or host.platform) or UNKNOWN


def _result(host: FleetHost, notes: Sequence[str]) -> str:
    words = result(host)
    graded = f" class={words}" if words in SEVERITIES else ""
    more = f" <small>{', '.join(notes)}</small>" if notes else ""
    return f"<b{graded}>{words}</b>{more}"


def incomplete_row(host: FleetHost) -> str:
    return (
        f"<tr><td>{told(host.path)}<td>{told(host.status)}<td>{told(host.reason) or UNKNOWN}"
        f"<td data-v={host.attempts:d}>{host.attempts:,}\n"
    )
