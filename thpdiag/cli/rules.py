"""`thpdiag rules`: list, show, create, lint, test and document rules; their coverage; the schema of rule files."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import rich_click as click
from click.exceptions import Exit

from thpdiag.authoring.cases import GAPS_FILE, known_gaps, load_cases
from thpdiag.authoring.catalogue import catalogue
from thpdiag.authoring.formatting import formatted_file, rule_and_case_files
from thpdiag.authoring.knowledge import issue_complaints, pack_complaints
from thpdiag.authoring.skeleton import skeleton
from thpdiag.authoring.testing import Coverage, rule_coverage, run_case, trials, unnoticed_mistakes, without_cases
from thpdiag.cli import EagerGroup
from thpdiag.cli.options import (
    RULES,
    SET,
    check_rule_folders,
    format_option,
    output_option,
    parse_outputs,
    rule_by_id,
    write,
)
from thpdiag.engine.lint import lint_names, lint_rules
from thpdiag.engine.lint.issue import read_cases
from thpdiag.engine.load import rule_places, rule_set
from thpdiag.engine.schema import CHECKS, RuleFile
from thpdiag.errors import UsageError, describe_unwritable
from thpdiag.knowledge.known_issues import catalogue as known_issues
from thpdiag.knowledge.vocabulary import Term, term, terms
from thpdiag.parsers import parsers_of_names
from thpdiag.report.layout import fold


@click.group(cls=EagerGroup)
def command() -> None:
    """List, show, check, and test the rules."""


@command.command("list")
@RULES
def list_(folders: tuple[Path, ...]) -> None:
    """List the rules, one per line; third-party rules with their origin."""
    for rule in sorted(rule_set(folders), key=lambda r: r.id):
        file, pack = rule.file, rule.source.pack
        origin = "" if pack is None or pack.own else f"  [{pack.label}]"
        click.echo(f"{file.id:8} {file.severity:9} {file.role:13} {file.mechanism:28} {file.title}{origin}")


@command.command()
@click.argument("id", metavar="ID|MECHANISM|WORDS", nargs=-1, required=True)
@RULES
def show(id: tuple[str, ...], folders: tuple[Path, ...]) -> None:
    """Print the file of a rule, by ID, mechanism, or words of its title."""
    click.echo(rule_by_id(" ".join(id), rule_set(folders)).source.text.rstrip())


@command.command()
@click.argument(
    "named", metavar="[FOLDERS]...", nargs=-1, type=click.Path(exists=True, file_okay=False, path_type=Path),
    callback=check_rule_folders,
)  # fmt: skip
@RULES
@click.option("--list", "names", is_flag=True, help="List all checks with their descriptions.")
def lint(*, named: tuple[Path, ...], folders: tuple[Path, ...], names: bool) -> None:
    """Check the shipped rules and those in FOLDERS: names, numbers, logic, evidence, wording, and cases.

    Exit 4 if a check fails. `# lint: allow NAME REASON` in a rule file disables a check.
    """
    if names:
        for name, description in lint_names().items():
            click.echo(f"{name:26}{description}")
        return
    all_folders = tuple(dict.fromkeys((*named, *folders)))
    rules = rule_set(all_folders)
    complaints = lint_rules(rules, *read_cases(rule_places(all_folders), rules))
    complaints += [f"known issue {complaint}" for complaint in issue_complaints(known_issues())]
    complaints += pack_complaints()
    for complaint in complaints:
        click.echo(complaint)
    click.echo(f"{len(rules)} rules, {len(complaints)} complaints", err=True)
    if complaints:
        raise Exit(4)


@command.command()
@click.argument("ids", nargs=-1)
@RULES
@SET
@click.option("--no-mutate", "cases_only", is_flag=True, help="Run the cases only, without mutations.")
@click.option("--gaps", is_flag=True, help="Also list the mutations that are known to survive.")
def test(
    *, ids: tuple[str, ...], folders: tuple[Path, ...], changes: tuple[str, ...], cases_only: bool, gaps: bool
) -> None:
    """Run the test cases of the rules (IDS, or all), and mutate the rules to check that a case fails for each mutation.

    Mutations: a check that is always yes or no, a threshold doubled or halved, a confidence level or relation removed,
    `or` for `and`. Mutations in a folder's unnoticed.txt are ignored. Exit 1 if a case fails or a mutation survives.
    """
    rules, places = rule_set(folders, changes), rule_places(folders)
    chosen = [rule_by_id(i, rules) for i in ids] or rules
    cases = load_cases(places, chosen)
    failures: list[str] = []
    survivors: list[str] = []
    for rule in chosen:
        rule_trials = trials(rule, rules, cases.get(rule.id, ()))
        results = [run_case(rule, rules, trial) for trial in rule_trials]
        failures += [f"{rule.id}: no cases"] if not rule_trials else []
        failures += [
            f"{rule.id}: case '{r.case}': expected {r.expected}, got {r.actual}" for r in results if not r.passed
        ]
        survivors += unnoticed_mistakes(rule, rules, rule_trials) if not cases_only else ()
    if not cases_only:
        rule_ids = {rule.id for rule in chosen}
        known = {line for line in known_gaps(places) if line.split(":")[0] in rule_ids}
        failures += [f"{line}: no case notices" for line in survivors if gaps or line not in known]
        failures += [
            f"{line}: a case fails now; remove the line from {GAPS_FILE}" for line in sorted(known - {*survivors})
        ]
    for line in failures:
        click.echo(line)
    total = sum(len(cases.get(rule.id, ())) for rule in chosen)
    click.echo(f"{total} cases of {len(chosen)} rules, {len(failures)} failures", err=True)
    if failures:
        raise Exit(1)


@command.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--check", is_flag=True, help="Change nothing; exit 1 if a file is not formatted.")
def fmt(paths: tuple[Path, ...], *, check: bool) -> None:
    """Format rule and case files: block style, 100 columns, comments kept.

    PATH is a file or a folder; the default is the current folder.
    """
    changed = 0
    for path in (file for place in paths or (Path(),) for file in rule_and_case_files(place)):
        text, formatted = formatted_file(path)
        if formatted != text:
            changed += 1
            click.echo(f"{path} is not formatted" if check else path)
            if not check:
                write(formatted, path)
    if check and changed:
        raise Exit(1)


@command.command()
def schema() -> None:
    """Print the JSON Schema of rule files, for editors."""
    document = RuleFile.model_json_schema(by_alias=True)
    definitions = document.setdefault("$defs", {})
    for name, model in CHECKS.items():
        part = model.model_json_schema(by_alias=True, ref_template="#/$defs/{model}")
        definitions.update(part.pop("$defs", {}))
        definitions[f"check_{name}"] = part
    checks = {"anyOf": [{"$ref": f"#/$defs/check_{name}"} for name in CHECKS]}
    document["properties"]["checks"]["additionalProperties"] = checks
    click.echo(json.dumps(document, indent=2, sort_keys=True))


@command.command("new")
@click.argument("wanted", metavar="ID|MECHANISM")
@click.option("--rules", "folder", type=click.Path(file_okay=False, path_type=Path), default=Path(),
              help="The folder to write to; the default is the current folder.")  # fmt: skip
@click.option("--mechanism", default="", help="The mechanism, if the rule is named by its ID.")
@click.option("--name", default="", help="The name of the two files; the default is the mechanism.")
def new(wanted: str, folder: Path, mechanism: str, name: str) -> None:
    """Create a commented rule and its cases for an ID (ACME-01) or a mechanism.

    `thpdiag rules lint FOLDER` lists what to complete. Existing files are not changed.
    """
    template = skeleton(wanted, rule_set((folder,) if folder.is_dir() else ()), mechanism)
    stem = name.removesuffix(".yaml") or template.name
    files = {folder / f"{stem}.yaml": template.rule, folder / f"{stem}.cases.yaml": template.cases}
    for path in files:
        if path.exists():
            raise UsageError(f"{path} already exists; choose another name with --name")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            path.write_text(text, encoding="utf-8")
            click.echo(path)
    except OSError as error:
        raise UsageError(describe_unwritable(folder, error)) from error


@command.command("docs")
@RULES
@output_option("Write it to this file, not to stdout")
def docs(folders: tuple[Path, ...], outputs: tuple[str, ...]) -> None:
    """Print the catalog of all rules in Markdown: what each rule checks, means, and advises."""
    targets = parse_outputs(outputs, ("markdown",), default="markdown")
    for _, path in targets or [("markdown", Path("-"))]:
        write(catalogue(rule_set(folders)), path)


@command.command("facts")
@click.argument("words", metavar="[WORD]...", nargs=-1)
@RULES
@format_option()
def facts(words: tuple[str, ...], folders: tuple[Path, ...], form: str) -> None:
    """List the facts and metrics for rules: name, unit, meaning, command, parsers, and the rules that use them.

    With WORDs, list only those with all WORDs in the name or meaning.
    """
    uses: dict[str, list[str]] = {}
    for rule in rule_set(folders):
        for name in sorted({name for check in rule.checks.values() for name in check.needs}):
            uses.setdefault(name, []).append(rule.id)
    known = {entry.name: entry for entry in terms()}
    for name in uses:  # members of a family, such as the counters of /proc/vmstat, have no entries of their own
        if name not in known and (family := term(name)):
            known[name] = family._replace(name=name)
    matches = [
        known[name]
        for name in sorted(known)
        if all(word.lower() in f"{name} {known[name].means}".lower() for word in words)
    ]
    if not matches:
        raise UsageError(f"no fact or metric matches {' '.join(words)!r}; `thpdiag rules facts` lists all")
    sources, rows = parsers_of_names(), []
    for entry in matches:
        parsers = sources.get(entry.name) or sources.get(getattr(term(entry.name), "name", ""), [])
        rows.append((entry, parsers, sorted(uses.get(entry.name, ()))))
    if form == "json":
        document = [entry._asdict() | {"parsers": parsers, "rules": rules} for entry, parsers, rules in rows]
        click.echo(json.dumps(document, indent=2))
        return
    for row in rows:
        click.echo("\n".join(_term_lines(*row)))


def _term_lines(entry: Term, parsers: Sequence[str], rules: Sequence[str]) -> Iterator[str]:
    unit = "" if entry.unit in ("", "1") else f", {entry.unit}"
    used = f"; used by {', '.join(rules)}" if rules else ""
    yield f"{entry.name}  ({entry.kind}{unit}{'' if entry.entity == 'system' else f', of each {entry.entity}'})"
    yield from fold(f"{entry.means}{used}", "    ")
    if entry.ask_for:
        yield f"    $ {entry.ask_for}"
    label = "read by" if parsers else "computed from"
    yield from fold(", ".join(parsers) or "other facts and metrics", f"    {label}: ", "        ")


WIDTH = 80


@command.command("coverage")
@RULES
@format_option()
def coverage(folders: tuple[Path, ...], form: str) -> None:
    """List mechanisms, remedies, applications, events, functions, and metrics that no rule uses, and rules that lack a
    kind of case."""
    rules = rule_set(folders)
    kinds = rule_coverage(rules)
    missing = without_cases(rules, read_cases(rule_places(folders), rules)[0])
    if form == "json":
        document = {"rules": len(rules), "covered": [kind.document() for kind in kinds], "cases_missing": missing}
        click.echo(json.dumps(document, indent=2))
        return
    click.echo("\n".join(_coverage_lines(len(rules), kinds, missing)))


def _coverage_lines(count: int, kinds: Sequence[Coverage], missing: Mapping[str, Sequence[str]]) -> Iterator[str]:
    yield f"{count} rules"
    yield ""
    yield f"{'':14}{'known':>7}{'used':>7}{'unused':>8}"
    for kind in kinds:
        yield f"{kind.kind:14}{kind.total:7}{kind.total - len(kind.unused):7}{len(kind.unused):8}"
    for kind in kinds:
        if kind.unused:
            yield f"\n{kind.what}:"
            names = "  ".join(kind.unused)
            yield from textwrap.wrap(names, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    if missing:
        yield "\nRules without a case that:"
        yield from (f"  {rule_id:10} {', '.join(cases)}" for rule_id, cases in missing.items())
