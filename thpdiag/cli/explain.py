"""`thpdiag explain`.

What a rule means; with a bundle, each check's answer, by how much it was missed, and the smallest change.
"""

from __future__ import annotations

import sys
from pathlib import Path

import rich_click as click

from thpdiag.analyze import diagnosed_in
from thpdiag.case.options import Options
from thpdiag.case.quoted import quoted_lines
from thpdiag.case.reading import read
from thpdiag.case.window import parsed
from thpdiag.cli import options as shared
from thpdiag.engine.chosen_params import told as changed
from thpdiag.reports import explained as report
from thpdiag.reports.json import render
from thpdiag.result.document import document
from thpdiag.result.explained import citations, explained


@click.command()
@click.argument("id")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, allow_dash=True))
@click.option("-f", "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@shared.RULES
@shared.SET
@shared.part
def command(
    id: str, paths: tuple[Path, ...], form: str, folders: tuple[Path, ...], changes: tuple[str, ...], process: str,
    since: str | None, until: str | None, at: str | None, progress: str, strict: str,
) -> None:  # fmt: skip
    """Explain rule ID; with PATHS, why it fires there or does not, and what would have turned it."""
    rules = shared.loaded(folders, changes)
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
    _print(explained(rule, diagnoses, quotes, told), form)
    shared.finish(document(diagnoses, told))


def _print(found: dict[str, object], form: str) -> None:
    click.echo(render(found) if form == "json" else report.render(found), nl=False)
