"""The fleet as Markdown for the summary of a CI job: headings, lists and code only, names of strangers as code.

GitHub takes 1 MiB of a step; the lists are folded long before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TextIO

from thpdiag.reports.marked import code, paragraph
from thpdiag.reports.verdict import plural
from thpdiag.triage.fleet import sentences
from thpdiag.triage.fleet.hosts import OK, FleetHost
from thpdiag.triage.fleet.overview import Fleet, Overview

MOST: Final = 20
LONGEST: Final = 400  # characters of a sentence or a name


def write(fleet: Fleet, out: TextIO) -> None:
    out.write("\n\n".join(_blocks(fleet.overview)) + "\n")


def _blocks(told: Overview) -> Iterator[str]:
    yield "## thpdiag: fleet"
    yield from _first(told)
    yield from _section("Hosts by verdict", list(_verdicts(told)), len(told.verdicts))
    yield from _section("Hosts with a finding, the gravest first", list(_hosts(told)), told.found.all)
    yield from _section("Hosts that differ from the others of their group", list(_outliers(told)), told.outliers.all)
    yield from _section("The same host over time, as far as its name tells", list(_over_time(told)), told.histories.all)
    yield from _section("Bundles without a complete result", list(_failed(told)), told.failed.all)


def _first(told: Overview) -> Iterator[str]:
    failed = told.statuses.total() - told.statuses[OK]
    accepted = f" ({told.accepted:,} accepted)" if told.accepted else ""
    incomplete = f", {plural(failed, 'bundle')} without a complete result" if failed else ""
    yield f"**{told.said}: {told.found.all:,} with a finding{accepted}{incomplete}.**"
    if verdict := sentences.gate(told.gate):
        yield f"**{verdict}**"


def _section(heading: str, rows: Sequence[str], whole: int) -> Iterator[str]:
    if rows:
        more = [f"- ... and {whole - len(rows):,} more"] if whole > len(rows) else []
        yield f"### {heading}"
        yield "\n".join([*(f"- {row}" for row in rows), *more])


def _verdicts(told: Overview) -> Iterator[str]:
    counted = sorted(told.verdicts.items(), key=lambda pair: (-pair[1], [part or "" for part in pair[0]]))
    for said, hosts in counted[:MOST]:
        words = ", ".join(part.replace("_", " ") for part in said if part)
        yield f"{plural(hosts, 'host')}: {_text(words or 'unknown')}"


def _hosts(told: Overview) -> Iterator[str]:
    for host in told.found.items[:MOST]:
        said = [host.severity, host.confidence, host.mechanism, "accepted" if host.accepted else ""]
        weight = _text(", ".join(filter(None, said)))
        yield f"{_named(host)}: {weight}. {_text(host.sentence or '')}".rstrip()


def _outliers(told: Overview) -> Iterator[str]:
    for one in told.outliers.items[:MOST]:
        yield f"{_named(one.host)}: {_text(sentences.outlier(one))}"


def _over_time(told: Overview) -> Iterator[str]:
    for history in told.histories.items[:MOST]:
        events = list(sentences.history(history))
        more = [f"... and {len(events) - MOST:,} more"] if len(events) > MOST else []
        inner = "".join(f"\n  - {_text(event)}" for event in [*events[:MOST], *more])
        yield f"{code(_short(history.name))}: {sentences.order(history)}{inner}"


def _failed(told: Overview) -> Iterator[str]:
    for host in told.failed.items[:MOST]:
        why = f"{host.status}: {host.reason}" if host.reason else host.status
        yield f"{code(_short(host.path))}: {_text(why)}"


def _named(host: FleetHost) -> str:
    place = f" ({code(_short(host.path))})" if host.label != host.path else ""
    return f"{code(_short(host.label))}{place}"


def _text(text: str) -> str:
    return paragraph(_short(text))


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."
