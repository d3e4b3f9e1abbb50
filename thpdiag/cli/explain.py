"""`thpdiag explain`: what a rule means; with a bundle, the result of each check and the smallest change of it."""

from __future__ import annotations

import sys
from pathlib import Path

import rich_click as click

from thpdiag.cli import options as shared
from thpdiag.cli.options import Reading, Redaction, RuleChoice
from thpdiag.diagnosis.explanation import citations, explain
from thpdiag.diagnosis.result_document import document
from thpdiag.host.excerpts import cited_lines
from thpdiag.host.reading import read_input
from thpdiag.model.document import plain_document, read_document
from thpdiag.model.explanation import Explanation
from thpdiag.pipeline import diagnose_input
from thpdiag.report import explained as report
from thpdiag.report.json import render


@click.command()
@click.argument("id")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, allow_dash=True))
@shared.format_option()
@shared.redaction_options
@shared.rule_options
@shared.selection_options
def command(
    *, id: str, paths: tuple[Path, ...], form: str, redaction: Redaction, chosen: RuleChoice, reading: Reading
) -> None:
    """Explain a rule; with PATHS, why it fires there or does not, and what would change that.

    ID is a rule ID, a mechanism (fault-compaction), or quoted words of a title ('zone lock').
    """
    rules = chosen.rules()
    rule = shared.rule_by_id(id, rules)
    if missing := shared.missing_path_error(paths):
        raise missing
    options = reading.options(rules)
    if not paths:
        _print(explain(rule, [], {}, options.typed_options), form)
        return
    stdin = sys.stdin.buffer
    with shared.progress_display() as show:
        parsed = read_input(paths, options, stdin=stdin, progress=show)
        diagnoses = diagnose_input(parsed, rules, options, progress=show)
        quotes = cited_lines(citations(rule, diagnoses), parsed.texts, paths, options.limits, stdin)
    explanation = explain(rule, diagnoses, quotes, options.typed_options)
    result = document(diagnoses, options.typed_options)
    if redaction:
        from thpdiag.redact.document import redacted_explanation

        with redaction.names() as names:
            redacted = redacted_explanation(plain_document(explanation), result, names)
            explanation = read_document(Explanation, redacted)
    _print(explanation, form)
    shared.exit_with_result(result)


def _print(explanation: Explanation, form: str) -> None:
    click.echo(render(explanation) if form == "json" else report.render(explanation), nl=False)
