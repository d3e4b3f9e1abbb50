"""`thpdiag baseline`: accept what was found on a host or a fleet, once, with a reason; and see what is accepted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import rich_click as click

from thpdiag.accepted.acceptance import day
from thpdiag.accepted.baseline import baseline, baseline_text, rows
from thpdiag.analyze import analyze
from thpdiag.cli import options as shared
from thpdiag.cli.accepting import TODAY, a_day, this_day
from thpdiag.cli.saved import saved
from thpdiag.errors import InputError, UsageError
from thpdiag.reports.columns import fold
from thpdiag.reports.verdict import plural
from thpdiag.reports.visible import prose, visible


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
    """Write a baseline of all findings in PATHS: results of thpdiag (JSON or HTML), or what a customer sent."""
    if not reason.strip():
        raise UsageError("--reason is empty; say why the findings are accepted")
    until = a_day(expires, "--expires") if expires else None
    found = baseline(documents(paths, folders, changes, progress), reason.strip(), until)
    shared.write(baseline_text(found), output)
    accepts = plural(len(found["accepted"]), "finding")
    shared.complain(visible(f"{output} accepts {accepts}{f' until {until}' if until else ', with no last day'}"))


def documents(
    paths: Sequence[Path], folders: Sequence[Path], changes: Sequence[str], progress: str
) -> list[Mapping[str, Any]]:
    """The saved results among the paths, and one result of all others together."""
    if mistake := shared.absent(paths):
        raise mistake
    results = {path: saved(path) for path in paths}
    bundles = [path for path, result in results.items() if result is None]
    found: list[Mapping[str, Any]] = [result for result in results.values() if result is not None]
    if bundles:
        with shared.shown(progress) as show:
            found.append(analyze(bundles, shared.loaded(folders, changes), progress=show))
        if not shared.recognised(found[-1]):
            raise InputError(shared.NOTHING)
    return found


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
