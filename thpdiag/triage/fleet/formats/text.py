"""The fleet for a terminal: 80 columns, numbers first, then the gravest hosts; long lists end with how many more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TextIO

from thpdiag.reports.columns import columns, fold
from thpdiag.reports.verdict import plural
from thpdiag.reports.visible import prose, visible
from thpdiag.triage.fleet import sentences
from thpdiag.triage.fleet.hosts import OK, FleetHost
from thpdiag.triage.fleet.overview import Fleet, Overview

MOST: Final = 20  # of a list; the overview has more for formats with more room
WIDEST: Final = 24  # columns of a cell of the tables
LONGEST: Final = 400  # characters of a sentence
NONE: Final = "-"


def write(fleet: Fleet, out: TextIO) -> None:
    out.writelines(f"{line.rstrip()}\n" for line in _lines(fleet.overview))


def _lines(told: Overview) -> Iterator[str]:
    yield from fold(_numbers(told))
    yield from fold(sentences.gate(told.gate)) if sentences.gate(told.gate) else ()
    yield from _verdicts(told)
    yield from _hosts(told)
    yield from _outliers(told)
    yield from _histories(told)
    yield from _failed(told)


def _numbers(told: Overview) -> str:
    failed = told.statuses.total() - told.statuses[OK]
    accepted = f", {told.accepted:,} of them accepted" if told.accepted else ""
    incomplete = f"; {plural(failed, 'bundle')} without a complete result" if failed else ""
    return f"{told.said}: {told.found.all:,} with a finding{accepted}{incomplete}."


def _heading(text: str) -> list[str]:
    return ["", text, "-" * columns(text)]


def _verdicts(told: Overview) -> Iterator[str]:
    if not told.verdicts:
        return
    yield from _heading("Hosts by verdict")
    counted = sorted(told.verdicts.items(), key=lambda pair: (-pair[1], [part or "" for part in pair[0]]))
    rows = [(f"{hosts:,}", *map(_cell, said)) for said, hosts in counted[:MOST]]
    yield from _table(("hosts", "verdict", "mechanism", "severity", "confidence"), rows)
    yield from _more(len(counted) - MOST)


def _hosts(told: Overview) -> Iterator[str]:
    if not told.found.all:
        return
    yield from _heading("Hosts with a finding, the gravest first")
    for host in told.found.items[:MOST]:
        said = [host.severity, host.confidence, host.mechanism, "accepted" if host.accepted else "", _over(host)]
        yield from fold(f"{_named(host)}: {prose(', '.join(filter(None, said)))}", "  ", "      ")
        yield from fold(_short(host.sentence), "      ") if host.sentence else ()
    yield from _more(told.found.all - MOST)


def _outliers(told: Overview) -> Iterator[str]:
    if not told.outliers.all:
        return
    yield from _heading("Hosts that differ from the others of their group")
    for one in told.outliers.items[:MOST]:
        yield from fold(f"{_named(one.host)}: {_short(sentences.outlier(one))}", "  ", "      ")
    yield from _more(told.outliers.all - MOST)


def _histories(told: Overview) -> Iterator[str]:
    if not told.histories.all:
        return
    yield from _heading("The same host over time, as far as its name tells")
    for history in told.histories.items[:MOST]:
        yield from fold(f"{visible(history.name)}: {sentences.order(history)}", "  ", "      ")
        events = list(sentences.history(history))
        for event in events[:MOST]:
            yield from fold(_short(event), "    ", "      ")
        yield from _more(len(events) - MOST, "    ")
    yield from _more(told.histories.all - MOST)


def _failed(told: Overview) -> Iterator[str]:
    if not told.failed.all:
        return
    yield from _heading("Bundles without a complete result")
    for host in told.failed.items[:MOST]:
        why = f"{host.status}: {host.reason}" if host.reason else host.status
        yield from fold(f"{visible(host.path)}: {_short(why)}", "  ", "      ")
    yield from _more(told.failed.all - MOST)


def _named(host: FleetHost) -> str:
    return visible(host.label if host.label == host.path else f"{host.label} ({host.path})")


def _over(host: FleetHost) -> str:
    return "over at the end of the bundle" if host.state == "past" else ""


def _more(count: int, margin: str = "  ") -> list[str]:
    return [f"{margin}... and {count:,} more"] if count > 0 else []


def _cell(value: str | None) -> str:
    shown = _short(value or "", 2 * WIDEST).replace("_", " ") or NONE
    while columns(shown) > WIDEST:
        shown = f"{shown[:-4]}..."
    return shown


def _short(text: str, most: int = LONGEST) -> str:
    shown = prose(text)
    return shown if len(shown) <= most else f"{shown[:most]} ..."


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as their widest cell; the first has numbers."""
    table = [head, *rows]
    widths = [max(columns(row[at]) for row in table) for at in range(len(head))]
    for row in table:
        number, *cells = zip(row, (width - columns(one) for one, width in zip(row, widths, strict=True)), strict=True)
        yield "  ".join(["", f"{' ' * number[1]}{number[0]}", *(f"{one}{' ' * room}" for one, room in cells)])
