"""What an analysis that has ended came to: its verdict for whoever sent the bundle, and the exit code for a gate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from thpdiag.guard.outcome import exit_code as ended_with
from thpdiag.reports import FORMATS
from thpdiag.reports.exit_code import CUT_SHORT, exit_code
from thpdiag.reports.severities import NEVER, SEVERITIES
from thpdiag.serve.api.forms import CASES, hosts_told
from thpdiag.serve.storage.cases import Case

GATES: Final = (*SEVERITIES, NEVER)
BUG: Final = 70
NOTHING: Final = 3


def left_with(case: Case, document: Mapping[str, Any], fail_on: str) -> int:
    """The exit code of `thpdiag analyze --isolate --fail-on` for the same bundle (`thpdiag.errors.EXIT_CODES`)."""
    if ended_with(case.status) == BUG:
        return BUG
    code = exit_code(document, fail_on)
    unread = code == NOTHING and case.status not in ("ok", "partial")
    return CUT_SHORT if unread else code  # the child was ended before it could tell anything


def verdict_told(case: Case, document: Mapping[str, Any]) -> dict[str, Any]:
    """The first host leads; `sentence`, `leading` and `confidence` at the top are its own."""
    hosts = hosts_told(document)
    first = hosts[0]
    return {
        "status": first["verdict"]["status"], "sentence": first["verdict"]["sentence"],
        "confidence": first["verdict"]["confidence"], "leading": first["leading"], "hosts": hosts,
        "page": f"/cases/{case.id}", "report": f"{CASES}/{case.id}/report.html",
    }  # fmt: skip


def text_told(document: Mapping[str, Any]) -> str:
    """The report as a terminal shows it."""
    return FORMATS["text"](document)
