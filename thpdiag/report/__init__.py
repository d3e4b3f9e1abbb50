"""Reports: one output format per module, each a pure function of the result, imported on first use.

A format is a module of this package with a function `render` that takes the result and a `Presentation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Protocol

from thpdiag.model.result import Result
from thpdiag.report.presentation import PLAIN, Presentation

AnyResult = Result | Mapping[str, Any]  # a result, or its JSON document


class Report(Protocol):
    """A function that returns the text of a report."""

    def __call__(self, document: AnyResult, presentation: Presentation = PLAIN, /) -> str: ...


def _report(form: str) -> Report:
    def render(document: AnyResult, presentation: Presentation = PLAIN, /) -> str:
        report: Report = import_module(f"{__name__}.{form}").render
        return report(document, presentation)

    return render


FORMATS: Mapping[str, Report] = MappingProxyType(
    {form: _report(form) for form in ("csv", "github", "gitlab", "html", "json", "junit", "markdown", "sarif", "text")}
)
