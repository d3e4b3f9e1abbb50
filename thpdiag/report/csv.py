"""Findings as rows for a spreadsheet or a script: RFC 4180, UTF-8, one table, the most severe first.

Columns. case, host: of the finding; verdict: found, not_applicable, nothing_found or cannot_tell of that host;
sentence: the verdict in words. rule, fingerprint, title, mechanism, severity, confidence, role, entity, window: of the
finding. file, line, proof: its strongest evidence. classes: classes of evidence that support it, separated by spaces.
remedy: the first step. accepted_by, reason, expires: of an accepted finding. version, rules_digest: of thpdiag. A host
without findings has one row with only the first four and the last two.

A text that a spreadsheet would evaluate as a formula (it begins with = + - @, or a wide form of one) begins with an
apostrophe instead.
"""

from __future__ import annotations

import io

from thpdiag.model.result import Finding, Result
from thpdiag.report import AnyResult, messages
from thpdiag.report.ci import line_number
from thpdiag.report.escaping import csv_writer, prose
from thpdiag.report.presentation import PLAIN, Presentation, rank

FINDING_COLUMNS = ("rule", "fingerprint", "title", "mechanism", "severity", "confidence", "role", "entity")
COLUMNS = (
    "case", "host", "verdict", "sentence", *FINDING_COLUMNS, "window", "file", "line", "proof", "classes", "remedy",
    "accepted_by", "reason", "expires", "version", "rules_digest",
)  # fmt: skip


def render(document: AnyResult, presentation: Presentation = PLAIN) -> str:
    out = io.StringIO()
    write = csv_writer(out)
    write(COLUMNS)
    for host in messages.hosts(document):
        findings = sorted(presentation.findings(host), key=lambda finding: -rank(finding.severity))
        for row in map(_finding_cells, findings) if findings else ({},):
            values = map({**_host_cells(host), **row}.get, COLUMNS)
            write(None if value is None else prose(str(value)) for value in values)
    return out.getvalue()


def _host_cells(host: Result) -> dict[str, object]:
    return {
        "case": host.case, "host": messages.name(host), "verdict": host.verdict.status,
        "sentence": messages.sentence(host), "version": host.tool.version, "rules_digest": host.tool.rules_digest,
    }  # fmt: skip


def _finding_cells(finding: Finding) -> dict[str, object]:
    proof = next(iter((*messages.proof(finding), *finding.evidence)), None)
    accepted = finding.suppressed
    return {
        **{key: getattr(finding, key) for key in FINDING_COLUMNS},
        "window": messages.window_text(finding.window),
        **({"file": proof.member, "line": line_number(proof), "proof": proof.text} if proof else {}),
        "classes": " ".join(finding.classes_spoken),
        "remedy": finding.remedies[0].id if finding.remedies else None,
        **({"accepted_by": accepted.by, "reason": accepted.reason, "expires": accepted.expires} if accepted else {}),
    }
