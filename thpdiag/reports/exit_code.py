"""The exit code that a result gives, for the command line and for whoever asks a server for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thpdiag.reports.severities import fails

CUT_SHORT, DAMAGED = 6, 5


def exit_code(document: Mapping[str, Any], fail_on: str = "never", fail_on_missing: object = None) -> int:
    """The first that applies of 1, 3, 6, 5, 0 (`thpdiag.errors.EXIT_CODES`)."""
    every = documents(document)
    undecided = any(d.get("unknown") for d in every)
    problems = [p for d in every for p in d.get("problems", ())]
    if gated(document, fail_on) or (fail_on_missing and undecided):
        return 1
    if not recognised(document):
        return 3
    if any(p["kind"] == "limit" for p in problems):
        return CUT_SHORT
    return DAMAGED if undecided and any(p.get("hides") for p in problems) else 0


def recognised(document: Mapping[str, Any]) -> bool:
    """Whether any reader knew any part of the input."""
    return any(i.get("reader") for d in documents(document) for i in d.get("inputs", ()))


def gated(document: Mapping[str, Any], fail_on: str) -> bool:
    """Whether some finding that nobody accepted fails the gate of `--fail-on`."""
    return any(fails(finding, fail_on) for one in documents(document) for finding in one.get("findings", ()))


def documents(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The document of each host."""
    return list(document.get("cases", [document]))
