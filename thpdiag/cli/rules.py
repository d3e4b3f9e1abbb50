"""`thpdiag rules`: list, show, check, test the rules; print the schema of a rule file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources.abc import Traversable
from pathlib import Path

import rich_click as click

from thpdiag.engine.cases import load_cases, run, unnoticed
from thpdiag.engine.load import Rule, builtin_rules, load_rules, suggestion
from thpdiag.engine.schema import CHECKS, RuleFile
from thpdiag.errors import UsageError

RULES = click.option(
    "--rules", "folders", type=click.Path(exists=True, file_okay=False, path_type=Path), multiple=True,
    help="A folder with further rules; may be given several times.",
)  # fmt: skip


def loaded(folders: Sequence[Path]) -> tuple[Rule, ...]:
    """The shipped rules and those of the folders."""
    return load_rules([builtin_rules(), *folders])


@click.group()
def command() -> None:
    """List, show, check and test the rules."""


@command.command("list")
@RULES
def list_(folders: tuple[Path, ...]) -> None:
    """One line per rule."""
    for rule in sorted(loaded(folders), key=lambda r: r.id):
        file = rule.file
        click.echo(f"{file.id:8} {file.severity:9} {file.role:13} {file.mechanism:28} {file.title}")


@command.command()
@click.argument("id")
@RULES
def show(id: str, folders: tuple[Path, ...]) -> None:  # noqa: A002 - the option's name
    """A rule as it stands in its file."""
    rules = {r.id: r for r in loaded(folders)}
    if id not in rules:
        raise UsageError(f"no rule {id}{suggestion(id, rules)}")
    click.echo(rules[id].source.text.rstrip())


@command.command()
@click.argument("paths", nargs=-1, type=click.Path(exists=True, file_okay=False, path_type=Path))
def lint(paths: tuple[Path, ...]) -> None:
    """Check rule files: form, names, references. Exit 4 if one is wrong."""
    from thpdiag.engine.lint import complaints  # noqa: PLC0415 - reads the knowledge files, only this command needs them

    rules = loaded(paths)
    found = complaints(rules)
    for complaint in found:
        click.echo(complaint)
    click.echo(f"{len(rules)} rules, {len(found)} complaints", err=True)
    if found:
        raise click.exceptions.Exit(4)


@command.command()
@click.argument("ids", nargs=-1)
@RULES
@click.option("--mutate/--no-mutate", default=True, help="Also flip each check and report those that no case notices.")
def test(ids: tuple[str, ...], folders: tuple[Path, ...], mutate: bool) -> None:  # noqa: FBT001 - click's flag
    """Run the cases beside the rules. Exit 1 if one fails or a flipped check goes unnoticed."""
    rules = loaded(folders)
    cases = load_cases(_folders(folders), rules)
    failures = total = 0
    for rule in rules:
        if ids and rule.id not in ids:
            continue
        results = [run(rule, rules, case) for case in cases.get(rule.id, ())]
        total += len(results)
        for result in (r for r in results if not r.passed):
            failures += 1
            click.echo(f"{rule.id}: case '{result.case}': expected {result.expected}, got {result.actual}")
        if not results:
            failures += 1
            click.echo(f"{rule.id}: no cases")
        for line in unnoticed(rule, rules, cases.get(rule.id, ())) if mutate and results else ():
            failures += 1
            click.echo(line)
    click.echo(f"{total} cases of {len(ids) or len(rules)} rules, {failures} failures", err=True)
    if failures:
        raise click.exceptions.Exit(1)


def _folders(folders: Sequence[Path]) -> list[Traversable]:
    return [builtin_rules(), *folders]


@command.command()
def schema() -> None:
    """JSON Schema of a rule file, for editors."""
    document = RuleFile.model_json_schema(by_alias=True)
    definitions = document.setdefault("$defs", {})
    for name, model in CHECKS.items():
        part = model.model_json_schema(by_alias=True, ref_template="#/$defs/{model}")
        definitions.update(part.pop("$defs", {}))
        definitions[f"check_{name}"] = part
    checks = {"anyOf": [{"$ref": f"#/$defs/check_{name}"} for name in CHECKS]}
    document["properties"]["checks"]["additionalProperties"] = checks
    click.echo(json.dumps(document, indent=2, sort_keys=True))
