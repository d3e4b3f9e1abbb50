"""What is stored of a bundle, and what decides whether it must be analysed again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from thpdiag.json_text import compact


@dataclass(frozen=True, slots=True)
class Analysis:
    """All that changes a result but the bundle: with the same of these the same bundle need not be read again."""

    tool_version: str
    rules_digest: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def options_text(self) -> str:
        """The options in one form, whatever their order."""
        return compact(self.options)


@dataclass(frozen=True, slots=True)
class BundleResult:
    """What came of a bundle.

    `sha256` is that of its content, `path` where it was, relative to what the user named. `status` is how the attempt
    ended: `ok`, `partial`, `limit`, `timeout`, `out of memory`, `signal N` or `refused`; `reason` says more of all but
    the first. `document` is the result document, if one was made.
    """

    sha256: str
    path: str
    size: int
    status: str
    reason: str = ""
    attempts: int = 1
    document: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """A bundle as it is in the store, with the analysis that its result is of and the begin of its run."""

    result: BundleResult
    analysis: Analysis
    begun: str
