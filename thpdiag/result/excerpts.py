"""Lines of the customer's files in the document: which are to be quoted, and what of them stands there then."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from thpdiag.diagnosis import Diagnosis
from thpdiag.engine.load import Rule
from thpdiag.engine.wording import raw
from thpdiag.model import Evidence
from thpdiag.model.passage import Passage, Quote
from thpdiag.result.settings import settings

Quotes = Mapping[Passage, Quote]
_SPELLED = re.compile(r"\b(?:[a-z]+_\w+|[A-Z][a-z]+[A-Z]\w+)\b")  # as kernel files name a counter or a size


def cited(diagnoses: Sequence[Diagnosis]) -> Iterator[Passage]:
    """What the documents of the diagnoses cite."""
    for diagnosis in diagnoses:
        rules = {rule.id: rule for rule in diagnosis.rules}
        for finding in diagnosis.findings:
            outcome = finding.outcome
            told = (*outcome.evidence, *outcome.against)
            yield from filter(None, (passage(evidence, rules[outcome.rule]) for evidence in told))
        for item in diagnosis.ruled_out:
            yield from filter(None, (passage(evidence, item.rule) for evidence in item.evidence))
        yield from map(_of_row, _placed(settings(diagnosis)))


def passage(evidence: Evidence, rule: Rule) -> Passage | None:
    """The lines that show what evidence says; None if none does.

    That no stack shows something is no line: such evidence cites where the recording begins.
    """
    cite = evidence.cite
    if cite is None or cite.line is None or (evidence.kind == "stack" and not evidence.value):
        return None
    return Passage(cite.member, cite.line, evidence.kind, _names(evidence, rule), cite.text)


def excerpt(evidence: Evidence, rule: Rule, quotes: Quotes) -> dict[str, Any]:
    """The keys of the document that quote."""
    wanted = passage(evidence, rule)
    quote = quotes.get(wanted) if wanted else None
    if wanted is None or quote is None:
        return {}
    rows = quote.line != wanted.line or (len(quote.lines) > 1 and not quote.said and wanted.kind != "stack")
    below = {"excerpt_line": quote.line} if rows else {}
    return {"excerpt": list(quote.lines), **below}


def settings_quoted(diagnosis: Diagnosis, quotes: Quotes) -> dict[str, Any]:
    """The settings of the host, each place with the line that stands there."""
    found = settings(diagnosis)
    for row in _placed(found):
        if quote := quotes.get(_of_row(row)):
            row["excerpt"] = list(quote.lines)
    return found


def _placed(part: object) -> Iterator[dict[str, Any]]:
    """What names a line, however deep it lies."""
    if isinstance(part, dict):
        if part.get("member") and part.get("line"):
            yield part
        yield from (row for item in part.values() for row in _placed(item))
    elif isinstance(part, list):
        yield from (row for item in part for row in _placed(item))


def _of_row(row: Mapping[str, Any]) -> Passage:
    return Passage(row["member"], row["line"])


def _names(evidence: Evidence, rule: Rule) -> tuple[str, ...]:
    """What kernel files call what the check looks at; else what the words of the evidence name as they do."""
    check = rule.checks.get(evidence.check)
    asked = check.metrics if check else ()
    found = dict.fromkeys(name for metric in asked for name in raw(metric))
    return tuple(found) or tuple(dict.fromkeys(_SPELLED.findall(evidence.text)) if evidence.kind == "counter" else ())
