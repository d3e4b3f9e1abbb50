"""`thpdiag baseline`: create a baseline of accepted findings of hosts or a fleet, and show its entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import rich_click as click

from thpdiag.cli import EagerGroup
from thpdiag.cli import options as shared
from thpdiag.cli.options import TODAY, RuleChoice, parse_day, parse_today
from thpdiag.cli.saved import find_result
from thpdiag.errors import InputError, UsageError
from thpdiag.model.result import SCHEMA, Finding, Host, Result, Verdict
from thpdiag.pipeline import analyze_paths
from thpdiag.report.baseline import acceptable, baseline, baseline_text, day, rows
from thpdiag.report.escaping import prose, visible
from thpdiag.report.layout import fold
from thpdiag.report.messages import plural
from thpdiag.store.reading import StoreReader
from thpdiag.store.schema import DATABASE_NAME


@click.group(cls=EagerGroup)
def command() -> None:
    """Accept current findings, so that only new or worse ones fail --fail-on."""


@command.command()
@shared.PATHS_OF_FILES
@shared.output_option("Write the baseline to this file", required=True)
@click.option("--reason", required=True, help="The reason for accepting the findings.")
@click.option("--expires", default="", metavar="DATE", help="The last day (YYYY-MM-DD) of the acceptance.")
@shared.rule_options
@shared.PROGRESS
def create(*, paths: tuple[Path, ...], outputs: tuple[str, ...], reason: str, expires: str, chosen: RuleChoice) -> None:
    """Write a baseline of all findings in PATHS: results of thpdiag (JSON or HTML) or bundles.

    For a folder of `thpdiag triage`, the baseline covers all of its results.
    """
    if not reason.strip():
        raise UsageError("--reason is empty; give a reason for accepting the findings")
    until = parse_day(expires, "--expires") if expires else None
    targets = shared.parse_outputs(outputs, ("json",), default="json")
    document = baseline(documents(paths, chosen), reason.strip(), until)
    count, end = plural(len(document["accepted"]), "finding"), f" until {until}" if until else ", with no last day"
    for _, output in targets:
        shared.write(baseline_text(document), output)
        shared.print_message(visible(f"{output} accepts {count}{end}"))


def documents(paths: Sequence[Path], chosen: RuleChoice) -> Iterator[Result]:
    """Yield saved results, the results in triage folders, and one result of all other paths together."""
    if missing := shared.missing_path_error(paths):
        raise missing
    stores = [path for path in paths if path.name == DATABASE_NAME or (path / DATABASE_NAME).is_file()]
    results = {path: find_result(path) for path in paths if path not in stores}
    bundles = [path for path, result in results.items() if result is None]
    yield from (result for result in results.values() if result is not None)
    for store in stores:
        yield from _findings_of_store(store)
    if bundles:
        with shared.progress_display() as show:
            analyzed = analyze_paths(bundles, chosen.rules(), progress=show)
        if not shared.is_recognised(analyzed):
            raise InputError(shared.unrecognised_reason(analyzed))
        yield analyzed


def _findings_of_store(path: Path) -> Iterator[Result]:
    """Yield the hosts of a store with their valid findings; print messages about invalid ones and missing results."""
    bundles = invalid = 0
    with StoreReader.at(path) as store:
        for stored in store.current():
            bundles += stored.result.document is None
            document = stored.result.document or {}
            cases = document.get("cases")
            for host in (case for case in (cases if isinstance(cases, list) else [document]) if isinstance(case, dict)):
                findings = host.get("findings")
                findings = findings if isinstance(findings, list) else []
                valid = [finding for finding in findings if acceptable(finding)]
                invalid += len(findings) - len(valid)
                host_part, case = host.get("host"), host.get("case")
                name = host_part.get("name") if isinstance(host_part, Mapping) else None
                yield Result.model_construct(
                    schema_=SCHEMA, verdict=Verdict.model_construct(status="found"),
                    host=Host.model_construct(name=name if isinstance(name, str) else None),
                    case=case if isinstance(case, str) else None,
                    findings=[Finding.model_construct(**finding) for finding in valid],
                )  # fmt: skip
    if bundles:
        shared.print_message(
            visible(f"{path}: {plural(bundles, 'bundle')} without a result; no findings of these are accepted")
        )
    if invalid:
        shared.print_message(visible(f"{path}: {plural(invalid, 'finding')} in an invalid form; not accepted"))


@command.command()
@click.argument("file", type=click.Path(path_type=Path))
@TODAY
def show(file: Path, today: str) -> None:
    """Show what a baseline accepts, host by host."""
    current_day, host = parse_today(today), None
    for row in rows(file):
        if row.get("host") != host:
            host = row.get("host")
            click.echo(prose(host or "unnamed host"))
        for line in _entry_lines(row, current_day):
            click.echo(line)


def _entry_lines(row: Mapping[str, Any], today: date) -> Iterator[str]:
    about = f" ({row['entity']})" if row.get("entity") else ""
    weight = f"{row['severity'] or 'no severity'}, {row['confidence'] or 'no confidence'}: {row.get('title') or ''}"
    expires = row.get("expires")
    until = "accepted with no last day"
    if expires:
        until = f"EXPIRED on {expires}" if day(expires) < today else f"accepted until {expires}"
    yield from fold(prose(weight + about), f"  {visible(row['rule'])}  ", "      ")
    yield from fold(prose(f"{until}: {row['reason']}"), "      ")
