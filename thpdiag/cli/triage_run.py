"""`thpdiag triage PATH...`: many bundles in, one store and one fleet page out."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import rich_click as click
from click.exceptions import Exit

from thpdiag import __version__
from thpdiag.case.options import Options
from thpdiag.cli import options as shared
from thpdiag.cli.accepting import accepting, judge
from thpdiag.cli.interrupted import interruptible
from thpdiag.cli.triage_progress import KINDS, watching
from thpdiag.cli.triage_report import FAIL_ON_MISSING, FORMAT, PAGES, with_stdout
from thpdiag.cli.triage_report import told as tell_made
from thpdiag.engine.chosen_params import told as changed
from thpdiag.engine.rule_set import rule_set
from thpdiag.errors import InputError, UsageError
from thpdiag.reports.presentation import Presentation, Suppressed
from thpdiag.result.rule_packs import digest
from thpdiag.triage.batch import batch
from thpdiag.triage.engines.cluster import Cluster
from thpdiag.triage.engines.local import Local
from thpdiag.triage.pages import FOLDER, Pages
from thpdiag.triage.report import INDEX, Wanted, report
from thpdiag.triage.store.bundle import Analysis
from thpdiag.triage.store.form import NAME
from thpdiag.triage.store.known import Known
from thpdiag.triage.store.lock import Busy
from thpdiag.triage.store.store import Store
from thpdiag.triage.work import Asked
from thpdiag.triage.worklist.found import items
from thpdiag.triage.worklist.shard import ALL, Shard

SCRATCH = ".thpdiag-scratch"
OUT_DIR = click.option(
    "--out-dir", "out_dir", metavar="DIR", type=click.Path(path_type=Path, file_okay=False), default="thpdiag-triage",
    show_default=True, help="The folder of the results.",
)  # fmt: skip


@click.command()
@click.argument("paths", nargs=-1)
@OUT_DIR
@click.option("--from", "lists", multiple=True, metavar="FILE", help="A list of bundles, one a line; `-` is stdin.")
@click.option("-j", "--jobs", type=click.IntRange(1), default=None, help="Processes; as many as CPUs if not given.")
@click.option(
    "--scheduler", default="", metavar="ADDRESS",
    help="Work on a cluster of Dask: tcp://HOST:PORT, or `local` for one on this machine.",
)  # fmt: skip
@click.option("--shard", default="", metavar="I/N", help="Only the I-th of N parts of the bundles.")
@click.option("--resume", flag_value="yes", default="", help="Go on: leave out what is in DIR's results already.")
@click.option(
    "--retry-failed",
    flag_value="yes",
    default="",
    help="With --resume: those too that were ended (a limit, a crash).",
)
@click.option("--wait", flag_value="yes", default="", help="Wait for another run that writes to the same folder.")
@click.option(
    "--progress", type=click.Choice(KINDS), default="auto", show_default=True,
    help="`auto` is a bar on a terminal and a line every 30 s elsewhere; `json` is for machines.",
)  # fmt: skip
@FORMAT
@shared.OUTPUT
@PAGES
@shared.FAIL_ON
@FAIL_ON_MISSING
@accepting
@shared.SHOW_SUPPRESSED
@shared.VERBOSE
@shared.RULES
@shared.SET
def command(
    paths: tuple[str, ...], out_dir: Path, lists: tuple[str, ...], jobs: int | None, scheduler: str, shard: str,
    resume: str, retry_failed: str, wait: str, progress: str, form: str, outputs: tuple[str, ...], pages: str,
    fail_on: str, fail_on_missing: str, suppress: tuple[Path, ...], baselines: tuple[Path, ...], today: str,
    suppressed: str, verbosity: int, folders: tuple[Path, ...], changes: tuple[str, ...],
) -> None:  # fmt: skip
    """Diagnose all bundles at PATHS: archives, folders of them, patterns, addresses such as s3://bucket/nightly/.

    What is stored when it ends, however it ends, is whole. Exit codes: 1 a finding fails --fail-on; 5 a bundle has no
    complete result, its status and reason are in the results; 6 no room for results, or a cluster was lost; else 0.
    """
    if not paths and not lists:
        raise UsageError("no bundles are named: give paths, or a list with --from")
    if retry_failed and not resume:
        raise UsageError("--retry-failed goes with --resume")
    free(out_dir, resume)
    count = jobs or len(os.sched_getaffinity(0))
    presentation = Presentation(verbosity, fail_on, Suppressed(suppressed))
    wanted = Wanted(with_stdout(form, outputs), Pages(pages), presentation, count, fail_on_missing)
    accepts = judge(suppress, baselines, today)
    folders = tuple(folder.absolute() for folder in folders)
    rules = rule_set(folders, changes)
    told = {"set": changed(rules)}
    options = Options(told={name: value for name, value in told.items() if value})
    analysis = Analysis(__version__, digest(rules), options.told)
    part = Shard.parsed(shard) if shard else ALL
    work = items(paths, [out_dir], lists, standard_input() if "-" in lists else None, part)
    busy = Busy.WAIT if wait else Busy.REFUSE
    with interruptible(f"what is stored in {out_dir} is whole, and --resume goes on from there") as check:
        with Store.open(out_dir, analysis, busy, shared.complain) as store, scratch_in(out_dir) as scratch:
            known = store.known(analysis) if resume else ()
            left_out = Known.of(sha256 for sha256, document in known if document or not retry_failed)
            asked = Asked(analysis, scratch, folders, changes, options, known=left_out)
            with watching(progress) as watch, engine(asked, scheduler, count) as workers:
                tally = batch(work, workers, store, lambda tally: (check(), watch(tally)))
            if not tally.found and not shard:
                raise InputError("no bundle is named: the list is empty")
            made = report(store, wanted, accepts)
        tell_made(made, out_dir, verbosity)
    raise Exit(made.gate.exit_code)


def free(out_dir: Path, resume: str) -> None:
    """Refuse what would be written over: results without `--resume`, and files of somebody else."""
    if (out_dir / NAME).exists():
        if not resume:
            raise UsageError(f"{out_dir} has results already: --resume goes on with them, or name another --out-dir")
    elif there := [name for name in (INDEX, FOLDER) if (out_dir / name).exists()]:
        raise UsageError(f"{out_dir} has a {there[0]} that is no result of triage; name another --out-dir")


def standard_input() -> BinaryIO:
    """For a thread that reads it: the stream of Python itself must not be held by one when the program ends."""
    if sys.stdin is None:
        raise UsageError("--from -: standard input is closed")
    return os.fdopen(os.dup(sys.stdin.fileno()), "rb")


def engine(asked: Asked, scheduler: str, count: int) -> Local | Cluster:
    """What does the work."""
    return Cluster(asked, scheduler, count) if scheduler else Local(asked, count)


@contextmanager
def scratch_in(out_dir: Path) -> Iterator[Path]:
    """A folder for what is fetched and unpacked, empty when it begins, gone when it ends."""
    scratch = out_dir.absolute() / SCRATCH
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        scratch.mkdir()
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
