"""Findings as rows for a spreadsheet or a script: RFC 4180, UTF-8, one table, the gravest first.

Columns. case, host: where it was found; verdict: found, not_applicable, nothing_found or cannot_tell of that host;
sentence: its answer. rule, fingerprint, title, mechanism, severity, confidence, role, entity, window: of the finding.
file, line, proof: its strongest evidence. classes: classes of evidence that speak for it, with spaces between.
remedy: the first to try. accepted_by, reason, expires: of an accepted finding. version, rules_digest: of thpdiag. A
host without findings has one row, in which these are empty but the first four and the last two.

A text that a spreadsheet would take for a formula (it begins with = + - @, or a wide form of one) begins with an
apostrophe instead.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

from thpdiag.reports import verdict
from thpdiag.reports.located import line, shown
from thpdiag.reports.presentation import PLAIN, Presentation
from thpdiag.reports.severities import rank
from thpdiag.reports.spreadsheet import cell

FORMAT = "csv"
COLUMNS = (
    "case", "host", "verdict", "sentence", "rule", "fingerprint", "title", "mechanism", "severity", "confidence",
    "role", "entity", "window", "file", "line", "proof", "classes", "remedy", "accepted_by", "reason", "expires",
    "version", "rules_digest",
)  # fmt: skip


def render(document: Mapping[str, Any], presentation: Presentation = PLAIN) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\r\n")
    writer.writeheader()
    for host in verdict.hosts(document):
        findings = sorted(shown(host, presentation), key=lambda finding: -rank(finding["severity"]))
        for row in map(_finding, findings) if findings else ({},):
            writer.writerow({name: _cell(value) for name, value in (*_host(host), *row.items())})
    return out.getvalue()


def _host(host: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    yield "case", host["case"]
    yield "host", verdict.name(host)
    yield "verdict", host["verdict"]["status"]
    yield "sentence", verdict.sentence(host)
    yield "version", host["tool"]["version"]
    yield "rules_digest", host["tool"]["rules_digest"]


def _finding(finding: Mapping[str, Any]) -> dict[str, object]:
    keys = ("rule", "fingerprint", "title", "mechanism", "severity", "confidence", "role", "entity")
    proof = next(iter((*verdict.proof(finding), *finding["evidence"])), None)
    said = finding["suppressed"] or {}
    return {
        **{key: finding[key] for key in keys},
        "window": verdict.window(finding["window"]),
        **({"file": proof["member"], "line": line(proof), "proof": proof["text"]} if proof else {}),
        "classes": " ".join(finding["classes_spoken"]),
        "remedy": next((advice["id"] for advice in finding["remedies"]), None),
        "accepted_by": said.get("by"), "reason": said.get("reason"), "expires": said.get("expires"),
    }  # fmt: skip


def _cell(value: object) -> str:
    return "" if value is None else cell(str(value))
