"""Reports: one output format per file, each a pure function of the result document.

A module of this package is a format when it has a `FORMAT`, the name that `--format` knows it by, and a `render`, which
takes the document and, if need be, how it is to be shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any, Protocol

from thpdiag.reports.presentation import PLAIN, Presentation


class Report(Protocol):
    """The text of a report."""

    def __call__(self, document: Mapping[str, Any], presentation: Presentation = PLAIN, /) -> str: ...


def _found() -> dict[str, Report]:
    modules = (import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__))
    return {module.FORMAT: module.render for module in modules if hasattr(module, "FORMAT")}


FORMATS: Mapping[str, Report] = MappingProxyType(_found())
