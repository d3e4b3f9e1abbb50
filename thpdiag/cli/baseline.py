"""`thpdiag baseline`: accept what was found on a host or a fleet, once, with a reason; and see what is accepted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import rich_click as click

from thpdiag.accepted.acceptance import day, hosts
from thpdiag.accepted.baseline import acceptable, baseline, baseline_text, rows
from thpdiag.analyze import analyze
from thpdiag.cli import options as shared
from thpdiag.cli.accepting import TODAY, a_day, this_day
from thpdiag.cli.saved import saved
from thpdiag.engine.rule_set import rule_set
from thpdiag.errors import InputError, UsageError
from thpdiag.reports.columns import fold
from thpdiag.reports.verdict import plural
from thpdiag.reports.visible import prose, visible
from thpdiag.triage.store.form import NAME
from thpdiag.triage.store.reading import Reading


@click.group()
def command() -> None:
    """Accept the findings of today, so that only new and graver ones fail a gate."""


@command.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", "output", required=True, type=click.Path(path_type=Path), help="The file to write.")
@click.option("--reason", required=True, help="Why the findings are accepted.")
@click.option("--expires", default="", metavar="DATE", help="The last day (YYYY-MM-DD) on which they are.")
@shared.RULES
@shared.SET
@shared.PROGRESS
def create(
    paths: tuple[Path, ...], output: Path, reason: str, expires: str, folders: tuple[Path, ...],
    changes: tuple[str, ...], progress: str,
) -> None:  # fmt: skip
    """Write a baseline of all findings in PATHS: results of thpdiag (JSON or HTML), or what a customer sent.

    A folder that `thpdiag triage` wrote stands for all results in it.
    """
    if not reason.strip():
        raise UsageError("--reason is empty; say why the findings are accepted")
    until = a_day(expires, "--expires") if expires else None
    found = baseline(documents(paths, folders, changes, progress), reason.strip(), until)
    shared.write(baseline_text(found), output)
    accepts = plural(len(found["accepted"]), "finding")
    shared.complain(visible(f"{output} accepts {accepts}{f' until {until}' if until else ', with no last day'}"))


def documents(
    paths: Sequence[Path], folders: Sequence[Path], changes: Sequence[str], progress: str
) -> Iterator[Mapping[str, Any]]:
    """The results in folders of `triage`, the saved ones, and one result of all other paths together."""
    if mistake := shared.absent(paths):
        raise mistake
    batches = [path for path in paths if is_store(path)]
    results = {path: saved(path) for path in paths if path not in batches}
    bundles = [path for path, result in results.items() if result is None]
    yield from (result for result in results.values() if result is not None)
    for batch in batches:
        yield from stored(batch)
    if bundles:
        with shared.shown(progress) as show:
            found = analyze(bundles, rule_set(folders, changes), progress=show)
        if not shared.recognised(found):
            raise InputError(shared.NOTHING)
        yield found


def is_store(path: Path) -> bool:
    """Whether it is the folder of a batch, or its store itself."""
    return path.name == NAME or (path / NAME).is_file()


def stored(path: Path) -> Iterator[Mapping[str, Any]]:
    """The hosts of a batch, one after the other; what of it no entry can be made of is said."""
    bundles = odd = 0
    with Reading.at(path) as store:
        for one in store.current():
            bundles += one.result.document is None
            for host in hosts(one.result.document or {}):
                findings = host.get("findings")
                findings = findings if isinstance(findings, list) else []
                told = [finding for finding in findings if acceptable(finding)]
                odd += len(findings) - len(told)
                yield {**_named(host), "findings": told}
    if bundles:
        shared.complain(visible(f"{path}: {plural(bundles, 'bundle')} without a result; nothing of that is accepted"))
    if odd:
        shared.complain(visible(f"{path}: {plural(odd, 'finding')} without the form of one; not accepted"))


def _named(host: Mapping[str, Any]) -> dict[str, Any]:
    told, case = host.get("host"), host.get("case")
    name = told.get("name") if isinstance(told, Mapping) else None
    return {"host": {"name": name if isinstance(name, str) else None}, "case": case if isinstance(case, str) else None}


@command.command()
@click.argument("file", type=click.Path(path_type=Path))
@TODAY
def show(file: Path, today: str) -> None:
    """What a baseline accepts, host by host."""
    now, host = this_day(today), None
    for row in rows(file):
        if row.get("host") != host:
            host = row.get("host")
            click.echo(prose(host or "unnamed host"))
        for line in _entry(row, now):
            click.echo(line)


def _entry(row: Mapping[str, Any], today: date) -> Iterator[str]:
    about = f" ({row['entity']})" if row.get("entity") else ""
    told = f"{row['severity'] or 'no severity'}, {row['confidence'] or 'no confidence'}: {row.get('title') or ''}"
    yield from fold(prose(told + about), f"  {visible(row['rule'])}  ", "      ")
    yield from fold(prose(f"{_until(row.get('expires'), today)}: {row['reason']}"), "      ")


def _until(expires: str | None, today: date) -> str:
    if not expires:
        return "accepted with no last day"
    return f"EXPIRED on {expires}" if day(expires) < today else f"accepted until {expires}"
