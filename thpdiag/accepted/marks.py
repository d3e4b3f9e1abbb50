"""Marks the findings that somebody accepts, in a copy of the document, and says what of the files had no effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from thpdiag.accepted.acceptance import Acceptance, Document
from thpdiag.accepted.judge import Judge


@dataclass(frozen=True, slots=True)
class Marked:
    """The document with marks, what everybody must know of the entries, and what is told on request only."""

    document: dict[str, Any]
    warnings: Sequence[str]
    notes: Sequence[str]


def marked(document: Document, entries: Sequence[Acceptance], today: date, options: Mapping[str, str]) -> Marked:
    """`options` are told as such in the document. Marks that it has already are judged anew."""
    judge = Judge(entries, today, options)
    copy = judge.marked(document)
    return Marked(copy, list(judge.warnings()), list(judge.notes()))
