"""`thpdiag explain`.

What a rule means; with a bundle, each check's answer, by how much it was missed, and the smallest change.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import rich_click as click

from thpdiag.analyze import diagnosed_in
from thpdiag.case.options import Options
from thpdiag.case.quoted import quoted_lines
from thpdiag.case.reading import read
from thpdiag.case.window import parsed
from thpdiag.cli import options as shared
from thpdiag.cli.redaction import naming, redacting
from thpdiag.engine.chosen_params import told as changed
from thpdiag.engine.rule_set import rule_set
from thpdiag.reports import explained as report
from thpdiag.reports.json import render
from thpdiag.result.document import document
from thpdiag.result.explained import citations, explained


@click.command()
@click.argument("id")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, allow_dash=True))
@click.option("-f", "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@redacting
@shared.RULES
@shared.SET
@shared.part
def command(
    id: str, paths: tuple[Path, ...], form: str, folders: tuple[Path, ...], changes: tuple[str, ...], process: str,
    since: str | None, until: str | None, at: str | None, progress: str, strict: str,
    redact: str, maps: tuple[Path, ...],
) -> None:  # fmt: skip
    """Explain rule ID; with PATHS, why it fires there or does not, and what would have turned it."""
    rules = rule_set(folders, changes)
    rule = shared.one(id, rules)
    if mistake := shared.absent(paths):
        raise mistake
    asked = {"since": since, "until": until, "at": at, "process": process, "set": changed(rules)}
    told = {name: value for name, value in asked.items() if value}
    options = Options(window=parsed(since, until, at), process=process, strict=bool(strict), told=told)
    if not paths:
        _print(explained(rule, [], {}, told), form)
        return
    stdin = sys.stdin.buffer
    with shared.shown(progress) as show:
        given = read(paths, options, stdin=stdin, progress=show)
        diagnoses = diagnosed_in(given, rules, options)
        quotes = quoted_lines(citations(rule, diagnoses), given.kept, paths, options.limits, stdin)
    found, result = explained(rule, diagnoses, quotes, told), document(diagnoses, told)
    _print(_clean(found, result, maps) if redact or maps else found, form)
    shared.finish(result)


def _clean(found: dict[str, object], result: Mapping[str, Any], maps: Sequence[Path]) -> dict[str, object]:
    from thpdiag.redact.explained import redacted_explanation

    with naming(maps) as names:
        return redacted_explanation(found, result, names)


def _print(found: dict[str, object], form: str) -> None:
    click.echo(render(found) if form == "json" else report.render(found), nl=False)
