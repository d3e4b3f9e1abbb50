"""Comparison of two results of a host (before and after, or a good and a bad one): what became of each finding.

The comparison is a document of its own (`thpdiag.compare.model`), from which every output is made. A finding that is
merely missing is not called fixed: its rule must be decided, and its own counters or stacks must show the improvement,
at a comparable load.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from thpdiag.report.presentation import PLAIN, Presentation

if TYPE_CHECKING:
    from thpdiag.compare.model import Comparison


class ComparisonReport(Protocol):
    """A function that renders a comparison in a format."""

    def __call__(self, comparison: Comparison, presentation: Presentation = PLAIN, /) -> str: ...


def _report(module: str) -> ComparisonReport:
    def render(comparison: Comparison, presentation: Presentation = PLAIN, /) -> str:
        report: ComparisonReport = import_module(module).render
        return report(comparison, presentation)

    return render


# By the names that `--format` accepts.
FORMATS: Mapping[str, ComparisonReport] = MappingProxyType(
    {
        "text": _report("thpdiag.compare.text"),
        "json": _report("thpdiag.report.json"),
        "html": _report("thpdiag.compare.page"),
    }
)
