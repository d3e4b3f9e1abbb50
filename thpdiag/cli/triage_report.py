"""`thpdiag triage report`: the fleet page, pages of hosts, and files for people and CI, from the results of a batch."""

from __future__ import annotations

import os
from pathlib import Path

import rich_click as click
from click.exceptions import Exit

from thpdiag.cli import options as shared
from thpdiag.cli.accepting import accepting, judge, tell
from thpdiag.reports.presentation import Presentation, Suppressed
from thpdiag.triage.pages import Pages
from thpdiag.triage.report import FORMATS, INDEX, STDOUT, Made, Wanted, report
from thpdiag.triage.store.form import located
from thpdiag.triage.store.reading import Reading

FORMAT = click.option(
    "-f", "--format", "form", type=click.Choice(sorted(FORMATS)), default="text", show_default=True,
    help="What to print.",
)  # fmt: skip
PAGES = click.option(
    "--pages", type=click.Choice([one.value for one in Pages]), default=Pages.FINDINGS.value, show_default=True,
    help="Which bundles get a page of their own: those with a finding graver than info, all, none.",
)  # fmt: skip
FAIL_ON_MISSING = click.option(
    "--fail-on-missing", flag_value="yes", default="", help="Exit 1 if a rule could not be decided on some host."
)

VERBOSE = click.option("-v", "verbosity", count=True, help="All that is to be told of suppressions and baselines.")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@FORMAT
@shared.OUTPUT
@PAGES
@shared.FAIL_ON
@FAIL_ON_MISSING
@accepting
@shared.SHOW_SUPPRESSED
@click.option("-j", "--jobs", type=click.IntRange(1), default=None, help="Processes; as many as CPUs if not given.")
@VERBOSE
def command(
    folder: Path, form: str, outputs: tuple[str, ...], pages: str, fail_on: str, fail_on_missing: str,
    suppress: tuple[Path, ...], baselines: tuple[Path, ...], today: str, suppressed: str, jobs: int | None,
    verbosity: int,
) -> None:  # fmt: skip
    """Make the fleet page (DIR/index.html) and the pages of hosts again, and write other formats, from DIR's results.

    DIR is the --out-dir of `thpdiag triage`.
    """
    wanted = Wanted(
        with_stdout(form, outputs), Pages(pages), Presentation(verbosity, fail_on, Suppressed(suppressed)),
        jobs or len(os.sched_getaffinity(0)), fail_on_missing,
    )  # fmt: skip
    accepts = judge(suppress, baselines, today)
    with Reading.at(folder) as store:
        made = report(store, wanted, accepts)
    told(made, located(folder).parent, verbosity)
    raise Exit(made.gate.exit_code)


def with_stdout(form: str, outputs: tuple[str, ...]) -> list[tuple[str, Path]]:
    """The files of `-o`, and stdout for `-f` unless one of them claims it."""
    files = shared.targets(outputs, FORMATS)
    return files if any(file == STDOUT for _, file in files) else [*files, (form, STDOUT)]


def told(made: Made, folder: Path, verbosity: int) -> None:
    """Warnings on stderr, and where the page is for who watches."""
    tell(made.warnings, made.notes, verbosity)
    shared.notice(f"{folder / INDEX} written, {made.pages:,} pages of hosts")
