"""Lines of the customer's files in the result: which are to be quoted, and what of them stands there then."""

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
_SPELLED = re.compile(r"\b(?:[a-z]+_\w+|[A-Z][a-z]+[A-Z]\w+)\b")  # as kernel files name a counter or a size


def place(cite: Citation | None) -> dict[str, Any]:
    """The keys of a result that say where something stands."""
    if cite is None:
        return {}
    return {"member": cite.member} if cite.line is None else {"member": cite.member, "line": cite.line}


def quoted_place(cite: Citation, quotes: Quotes) -> dict[str, Any]:
    """The same with the line that stands there."""
    quote = quotes.get(ExcerptRequest(cite.member, cite.line)) if cite.member and cite.line else None
    return place(cite) | ({"excerpt": list(quote.lines)} if quote else {})


def excerpt_requests(diagnoses: Sequence[Diagnosis]) -> Iterator[ExcerptRequest]:
    """What the evidence of the diagnoses cites."""
    for diagnosis in diagnoses:
        rules = {rule.id: rule for rule in diagnosis.rules}
        for outcome in (finding.outcome for finding in diagnosis.findings):
            for evidence in (*outcome.evidence, *outcome.against):
                if wanted := excerpt_request(evidence, rules[outcome.rule]):
                    yield wanted
        for item in diagnosis.ruled_out:
            yield from filter(None, (excerpt_request(evidence, item.rule) for evidence in item.evidence))


def excerpt(evidence: Evidence, rule: Rule, quotes: Quotes) -> dict[str, Any]:
    """The keys of a result that quote what evidence cites."""
    wanted = excerpt_request(evidence, rule)
    quote = quotes.get(wanted) if wanted else None
    if wanted is None or quote is None:
        return {}
    rows = quote.line != wanted.line or (len(quote.lines) > 1 and not quote.cited and wanted.kind != "stack")
    return {"excerpt": list(quote.lines), **({"excerpt_line": quote.line} if rows else {})}


def excerpt_request(evidence: Evidence, rule: Rule) -> ExcerptRequest | None:
    """The lines that show what evidence says; None if none does.

    That no stack shows something is no line: such evidence cites where the recording begins. A line is found by what
    kernel files call what the check looks at; else by what the words of the evidence name as they do.
    """
    cite = evidence.cite
    if cite is None or cite.line is None or (evidence.kind == "stack" and not evidence.value):
        return None
    check = rule.checks.get(evidence.check)
    names = dict.fromkeys(name for metric in (check.metrics if check else ()) for name in kernel_names(metric))
    if not names and evidence.kind == "counter":
        names = dict.fromkeys(_SPELLED.findall(evidence.text))
    return ExcerptRequest(cite.member, cite.line, evidence.kind, tuple(names), cite.text)
