"""`thpdiag rules coverage`: what no rule covers."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import rich_click as click

from thpdiag.cli.options import RULES
from thpdiag.engine.lint.beside import cases_beside
from thpdiag.engine.rule_set import places, rule_set
from thpdiag.workbench.coverage import Covered, covered, without_cases

WIDTH = 80


@click.command("coverage")
@RULES
@click.option("-f", "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True,
              help="What to print.")  # fmt: skip
def command(folders: tuple[Path, ...], form: str) -> None:
    """Say which mechanisms, remedies, applications, events, functions and metrics no rule covers, and which
    rules lack a kind of case."""
    rules = rule_set(folders)
    found = covered(rules)
    lacking = without_cases(rules, cases_beside(places(folders), rules)[0])
    if form == "json":
        document = {"rules": len(rules), "covered": [one.document() for one in found], "cases_missing": lacking}
        click.echo(json.dumps(document, indent=2))
        return
    click.echo("\n".join(_text(len(rules), found, lacking)))


def _text(count: int, found: Sequence[Covered], lacking: Mapping[str, Sequence[str]]) -> Iterator[str]:
    yield f"{count} rules"
    yield ""
    yield f"{'':14}{'known':>7}{'used':>7}{'unused':>8}"
    for one in found:
        yield f"{one.kind:14}{one.total:7}{one.total - len(one.unused):7}{len(one.unused):8}"
    for one in found:
        if one.unused:
            yield f"\n{one.what}:"
            yield from _wrapped("  ".join(one.unused))
    if lacking:
        yield "\nRules without a case that:"
        yield from (f"  {identity:10} {', '.join(kinds)}" for identity, kinds in lacking.items())


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
