"""`thpdiag rules`: list, show, check, test the rules; print the schema of a rule file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import rich_click as click
from click.exceptions import Exit

from thpdiag.cli import rules_coverage, rules_docs, rules_new
from thpdiag.cli.options import RULES, SET, one
from thpdiag.engine.cases import GAPS, known_gaps, load_cases
from thpdiag.engine.lint import complaints, names_of_lints
from thpdiag.engine.lint.beside import cases_beside
from thpdiag.engine.load import Rule
from thpdiag.engine.rule_set import places, rule_set
from thpdiag.engine.schema import CHECKS, RuleFile
from thpdiag.workbench.mutants import unnoticed
from thpdiag.workbench.trials import Trial, run, trials


@click.group()
def command() -> None:
    """List, show, check and test the rules."""


command.add_command(rules_coverage.command)
command.add_command(rules_docs.command)
command.add_command(rules_new.command)


@command.command("list")
@RULES
def list_(folders: tuple[Path, ...]) -> None:
    """One line per rule; of rules that are not ours, where they come from."""
    for rule in sorted(rule_set(folders), key=lambda r: r.id):
        file, pack = rule.file, rule.source.pack
        origin = "" if pack is None or pack.own else f"  [{pack.told}]"
        click.echo(f"{file.id:8} {file.severity:9} {file.role:13} {file.mechanism:28} {file.title}{origin}")


@command.command()
@click.argument("id")
@RULES
def show(id: str, folders: tuple[Path, ...]) -> None:
    """A rule as it stands in its file."""
    click.echo(one(id, rule_set(folders)).source.text.rstrip())


@command.command()
@click.argument(
    "named", metavar="[FOLDERS]...", nargs=-1, type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@RULES
@click.option("--list", "names", flag_value="names", default="", help="The names of all checks, with a line each.")
def lint(named: tuple[Path, ...], folders: tuple[Path, ...], names: str) -> None:
    """Check the shipped rules and those in FOLDERS: names, numbers, logic, evidence, words, cases.

    Exit 4 if one is wrong. `# lint: allow NAME REASON` in a rule file excepts it from a check.
    """
    if names:
        for name, says in names_of_lints().items():
            click.echo(f"{name:26}{says}")
        return
    all_folders = tuple(dict.fromkeys((*named, *folders)))
    rules = rule_set(all_folders)
    found = complaints(rules, *cases_beside(places(all_folders), rules))
    for complaint in found:
        click.echo(complaint)
    click.echo(f"{len(rules)} rules, {len(found)} complaints", err=True)
    if found:
        raise Exit(4)


@command.command()
@click.argument("ids", nargs=-1)
@RULES
@SET
@click.option("--no-mutate", "mutate", flag_value="no", default="yes", help="Do not look for what no case notices.")
@click.option("--gaps", flag_value="gaps", default="", help="List what is known to go unnoticed too.")
def test(ids: tuple[str, ...], folders: tuple[Path, ...], changes: tuple[str, ...], mutate: str, gaps: str) -> None:
    """Run the cases beside the rules (of IDS, or of all), and make one thing wrong at a time to see if a case notices.

    A check always yes or no, a threshold doubled or halved, a level of confidence or a relation less, `or` for `and`.
    What a folder's unnoticed.txt lists is let pass. Exit 1 if a case fails, or if anything else goes unnoticed.
    """
    rules, found = rule_set(folders, changes), places(folders)
    cases = load_cases(found, rules)
    chosen = [one(i, rules) for i in ids] or rules
    failures: list[str] = []
    missed: list[str] = []
    for rule in chosen:
        ready = trials(rule, rules, cases.get(rule.id, ()))
        failures += _failures(rule, rules, ready)
        missed += unnoticed(rule, rules, ready) if mutate == "yes" else ()
    if mutate == "yes":
        own = {rule.id for rule in chosen}
        known = {line for line in known_gaps(found) if line.split(":")[0] in own}
        failures += [f"{line}: no case notices" for line in missed if gaps or line not in known]
        failures += [f"{line}: a case notices; take the line out of {GAPS}" for line in sorted(known - {*missed})]
    for line in failures:
        click.echo(line)
    total = sum(len(cases.get(rule.id, ())) for rule in chosen)
    click.echo(f"{total} cases of {len(chosen)} rules, {len(failures)} failures", err=True)
    if failures:
        raise Exit(1)


def _failures(rule: Rule, rules: Sequence[Rule], ready: Sequence[Trial]) -> list[str]:
    if not ready:
        return [f"{rule.id}: no cases"]
    tested = [run(rule, rules, one) for one in ready]
    return [f"{rule.id}: case '{t.case}': expected {t.expected}, got {t.actual}" for t in tested if not t.passed]


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
