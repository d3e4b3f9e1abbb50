"""Severities from the least to the gravest, and when a finding fails a gate (`--fail-on`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thpdiag.result.schema import schema

SEVERITIES: tuple[str, ...] = tuple(filter(None, reversed(schema()["$defs"]["severity"]["enum"])))
NEVER = "never"


def fails(finding: Mapping[str, Any], fail_on: str) -> bool:
    """Whether a finding is as grave as `fail_on` or graver, and nobody has accepted it."""
    if fail_on == NEVER or finding.get("suppressed"):
        return False
    return rank(finding.get("severity")) >= rank(fail_on)


def rank(severity: str | None) -> int:
    """The place of a severity in the order, -1 of an unknown one."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else -1
