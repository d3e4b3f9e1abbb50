"""`thpdiag explain`.

What a rule means; with a bundle, each check's value, the needed value, and what kept it from firing.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import rich_click as click

from thpdiag.analyze import analyze
from thpdiag.cli import options as shared
from thpdiag.engine.expression import parse
from thpdiag.engine.load import Rule
from thpdiag.engine.nearest import smallest_change
from thpdiag.model import Verdict3
from thpdiag.reports.visible import visible

WIDTH = 80


@click.command()
@click.argument("id")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, allow_dash=True))
@shared.RULES
@shared.SET
def command(id: str, paths: tuple[Path, ...], folders: tuple[Path, ...], changes: tuple[str, ...]) -> None:
    """Explain rule ID; with PATHS, why it fires there or does not."""
    rules = shared.loaded(folders, changes)
    rule = shared.one(id, rules)
    if mistake := shared.absent(paths):
        raise mistake
    click.echo("\n".join(_rule(rule)))
    if not paths:
        return
    result = analyze(paths, rules, stdin=sys.stdin.buffer)
    for document in shared.documents(result):
        click.echo("\n".join(_here(rule, document)))
    shared.finish(result)


def _rule(rule: Rule) -> Iterator[str]:
    file = rule.file
    yield from textwrap.wrap(f"{file.id}  {file.title}", WIDTH, subsequent_indent="  ")
    yield f"{file.severity}, {file.role.replace('_', ' ')}, mechanism {file.mechanism}"
    yield ""
    yield from textwrap.wrap(" ".join(file.means.split()), WIDTH)
    yield ""
    yield from textwrap.wrap(f"Fires when: {rule.when}", WIDTH, subsequent_indent="  ")
    for level, expression in rule.confidence.items():
        yield from textwrap.wrap(f"{level}: {expression}", WIDTH, subsequent_indent="  ")
    for name, parameter in file.params.items():
        yield from textwrap.wrap(f"${name} = {parameter.default}: {parameter.means}", WIDTH, subsequent_indent="  ")
    if file.verify:
        yield from textwrap.wrap(f"Verify: {' '.join(file.verify.split())}", WIDTH, subsequent_indent="  ")
    for line in file.false_positives:
        yield from textwrap.wrap(f"Beware: {' '.join(line.split())}", WIDTH, subsequent_indent="  ")
    for line in file.references:
        yield from textwrap.wrap(f"Source: {' '.join(line.split())}", WIDTH, subsequent_indent="  ")


def _here(rule: Rule, document: Mapping[str, Any]) -> Iterator[str]:
    entry = next(r for r in document["rules"] if r["id"] == rule.id)
    yield ""
    yield f"On {visible(document['case'])}: {entry['outcome']}"
    leaves = dict(_leaves(entry["tree"]))
    for name, leaf in leaves.items():
        yield f"  {leaf['value']:8}{name}"
        yield from _indented(f"is:     {visible(leaf['text'])}")
        yield from _indented(f"needed: {visible(str(leaf['needed']))}")
    if entry["outcome"] not in ("fires", "excluded"):
        values = {name: Verdict3[leaf["value"].upper()] for name, leaf in leaves.items()}
        change = smallest_change(parse(str(rule.when)), values)
        steps = [f"{name} {value.word} ({visible(str(leaves[name]['needed']))})" for name, value in change]
        yield from textwrap.wrap(f"Would have fired with: {' and '.join(steps)}", WIDTH, subsequent_indent="  ")


def _indented(text: str) -> Iterator[str]:
    yield from textwrap.wrap(text, WIDTH, initial_indent=" " * 10, subsequent_indent=" " * 18)


def _leaves(tree: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not tree["children"]:
        yield tree["expr"], tree
    for child in tree["children"]:
        yield from _leaves(child)
