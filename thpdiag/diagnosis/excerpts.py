"""Excerpts of the customer's files in the result: which lines are quoted, and their text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from thpdiag.diagnosis.diagnose import Diagnosis
from thpdiag.engine.load import Rule
from thpdiag.engine.wording import kernel_names
from thpdiag.model import Citation, Evidence
from thpdiag.model.facts import Excerpt, ExcerptRequest

Quotes = Mapping[ExcerptRequest, Excerpt]
_KERNEL_NAME = re.compile(r"\b(?:[a-z]+_\w+|[A-Z][a-z]+[A-Z]\w+)\b")  # a counter or size in kernel files


def place(cite: Citation | None) -> dict[str, Any]:
    """Return the keys of a result that name a citation's member and line."""
    if cite is None:
        return {}
    return {"member": cite.member} if cite.line is None else {"member": cite.member, "line": cite.line}


def quoted_place(cite: Citation, quotes: Quotes) -> dict[str, Any]:
    """Return the keys of `place` with the text of the line."""
    quote = quotes.get(ExcerptRequest(cite.member, cite.line)) if cite.member and cite.line else None
    return place(cite) | ({"excerpt": list(quote.lines)} if quote else {})


def excerpt_requests(diagnoses: Sequence[Diagnosis]) -> Iterator[ExcerptRequest]:
    """Yield the lines that the evidence of the diagnoses cites."""
    for diagnosis in diagnoses:
        rules = {rule.id: rule for rule in diagnosis.rules}
        for outcome in (finding.outcome for finding in diagnosis.findings):
            for evidence in (*outcome.evidence, *outcome.against):
                if request := excerpt_request(evidence, rules[outcome.rule]):
                    yield request
        for item in diagnosis.ruled_out:
            yield from filter(None, (excerpt_request(evidence, item.rule) for evidence in item.evidence))


def excerpt(evidence: Evidence, rule: Rule, quotes: Quotes) -> dict[str, Any]:
    """Return the keys of a result that quote the lines of some evidence."""
    request = excerpt_request(evidence, rule)
    quote = quotes.get(request) if request else None
    if request is None or quote is None:
        return {}
    is_other = quote.line != request.line or (len(quote.lines) > 1 and not quote.cited and request.kind != "stack")
    return {"excerpt": list(quote.lines), **({"excerpt_line": quote.line} if is_other else {})}


def excerpt_request(evidence: Evidence, rule: Rule) -> ExcerptRequest | None:
    """Return the lines that show a piece of evidence, or None.

    The absence of stacks has no line: such evidence cites the start of the recording. A line is found by the kernel's
    names of the check's metrics, or else by such names in the text of the evidence.
    """
    cite = evidence.cite
    if cite is None or cite.line is None or (evidence.kind == "stack" and not evidence.value):
        return None
    check = rule.checks.get(evidence.check)
    names = dict.fromkeys(name for metric in (check.metrics if check else ()) for name in kernel_names(metric))
    if not names and evidence.kind == "counter":
        names = dict.fromkeys(_KERNEL_NAME.findall(evidence.text))
    return ExcerptRequest(cite.member, cite.line, evidence.kind, tuple(names), cite.text)
