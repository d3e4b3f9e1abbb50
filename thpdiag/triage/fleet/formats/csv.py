"""The fleet as a table: a row per host, and one for each bundle without a host; RFC 4180, UTF-8.

Columns. number: the place in the order of paths; host, case: its names; bundle, sha256: where it was found; status,
reason: how the bundle ended. os, kernel, platform, apps: of the host. verdict to sentence: the answer; accepted: `yes`
if the finding of the verdict is accepted. undecided: rules that could not be decided; recorded: when its data was.
differs: what differs from the others of its group, one after the other with `;` between; page: its page beside the
index. A text that a spreadsheet would take for a formula begins with an apostrophe instead.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Final, TextIO

from thpdiag.reports.spreadsheet import cell
from thpdiag.triage.fleet import sentences
from thpdiag.triage.fleet.hosts import FleetHost
from thpdiag.triage.fleet.overview import Fleet

COLUMNS: Final = (
    "number", "host", "case", "bundle", "sha256", "status", "reason", "os", "kernel", "platform", "apps", "verdict",
    "rule", "mechanism", "severity", "confidence", "state", "sentence", "accepted", "undecided", "recorded", "differs",
    "page",
)  # fmt: skip


def write(fleet: Fleet, out: TextIO) -> None:
    """The stream is one without translation of line ends."""
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for host in fleet.hosts():
        differs = "; ".join(map(sentences.outlier, fleet.survey.outliers(host)))
        writer.writerow([_cell(value) for value in _row(host, differs)])


def _row(host: FleetHost, differs: str) -> Iterator[str | int | None]:
    yield from (host.number, host.name, host.title, host.path, host.sha256, host.status, host.reason)
    yield from (host.os, host.kernel, host.platform, ",".join(host.apps))
    yield from (host.verdict, host.rule, host.mechanism, host.severity, host.confidence, host.state, host.sentence)
    yield from ("yes" if host.accepted else "", host.undecided, host.recorded, differs, host.page)


def _cell(value: str | int | None) -> str | int:
    return cell(value) if isinstance(value, str) else "" if value is None else value
