"""`thpdiag triage`: diagnose many bundles, merge the results of shards, rebuild reports, and export.

Progress is a bar on a terminal, a line every 30 s in a log, or lines of JSON for a program.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import date
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import BinaryIO, TextIO

import rich_click as click
from click.exceptions import Exit
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from thpdiag import __version__
from thpdiag.cli import options as shared
from thpdiag.cli.options import Accepting, Delivery, ProgressKind, Redaction, RuleChoice
from thpdiag.cli.terminal import interruptible, saved_option
from thpdiag.engine.load import changed_params, digest
from thpdiag.errors import InputError, StoreError, UsageError, WorkersError
from thpdiag.fleet.batch import Tally, run_batch
from thpdiag.fleet.cluster import Cluster
from thpdiag.fleet.report import (
    FORMATS,
    INDEX,
    PAGES_FOLDER,
    STDOUT,
    Pages,
    ReportOptions,
    ReportResult,
    make_redacted_report,
    make_report,
    redacted_copy,
)
from thpdiag.fleet.sources.items import ALL_ITEMS, Shard, find_items
from thpdiag.fleet.work import RunConfig, Workers
from thpdiag.host.options import Options
from thpdiag.model import SEVERITIES
from thpdiag.report.baseline import Judge
from thpdiag.report.escaping import visible
from thpdiag.report.messages import plural
from thpdiag.sandbox.outcome import Limits
from thpdiag.sandbox.preload import check_layers
from thpdiag.store.export import FORMAT_NAMES, export, format_of_suffix
from thpdiag.store.export import FORMATS as TABLE_FORMATS
from thpdiag.store.reading import StoreReader
from thpdiag.store.results import Analysis, KnownContents
from thpdiag.store.schema import DATABASE_NAME, Busy, database_path
from thpdiag.store.store import Store

SCRATCH = ".thpdiag-scratch"
TEXT_TABLES = ("csv", "jsonl")  # formats that may go to standard output
LINE_INTERVAL_S = {"log": 30.0, "json": 1.0}
IDLE_LINE_INTERVAL_S = 30.0  # while no bundle is finished
PROGRESS_SCHEMA = "thpdiag/progress/1"
BASE_FILES, FILES_PER_JOB = 24, 8  # maximum of open files, as measured, with a margin
Clock = Callable[[], float]

OUT_DIR = click.option(
    "--out-dir", metavar="DIR", type=click.Path(path_type=Path, file_okay=False), default="thpdiag-triage",
    show_default=True, help="The folder for the results.",
)  # fmt: skip
STORE = click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
WAIT = click.option("--wait", is_flag=True, help="Wait for another run that uses the same folder.")
JOBS = click.option(
    "-j", "--jobs", type=click.IntRange(1), help="The number of processes; the default is the number of CPUs."
)


def report_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of reports to a command."""
    for option in (
        shared.SHOW_SUPPRESSED,
        shared.redaction_options,
        shared.acceptance_options,
        click.option("--fail-on-missing", is_flag=True, help="Exit 1 if a rule could not be decided on some host."),
        shared.FAIL_ON,
        click.option(
            "--pages",
            type=click.Choice([pages.value for pages in Pages]),
            default=Pages.FINDINGS.value,
            show_default=True,
            help="Which bundles get their own page: those with findings above severity info, all, or none.",
        ),
        shared.OUTPUT,
        shared.format_option(FORMATS),
    ):
        command = option(command)
    return command


@click.command("run")
@click.argument("paths", nargs=-1)
@OUT_DIR
@click.option("--from", "lists", multiple=True, metavar="FILE", help="A list of bundles, one per line; `-` is stdin.")
@JOBS
@click.option(
    "--scheduler", default="", metavar="ADDRESS",
    help="Run on a Dask cluster: tcp://HOST:PORT, tls://HOST:PORT, or `local` for one on this machine.",
)  # fmt: skip
@click.option("--shard", default="", metavar="I/N", help="Diagnose only the I-th of N parts of the bundles.")
@click.option("--resume", is_flag=True, help="Continue: skip bundles that already have results in DIR.")
@click.option("--retry-failed", is_flag=True, help="With --resume: also retry bundles that hit a limit or crashed.")
@WAIT
@click.option(
    "--progress", type=ProgressKind(), default="auto", show_default=True,
    help="`auto`: a bar on a terminal, a line every 30 s elsewhere; `log`: lines; `json`: for programs; `none`.",
)  # fmt: skip
@shared.QUIET
@shared.REQUIRE_SANDBOX
@report_options
@shared.VERBOSE
@shared.rule_options
@shared.delivery_options
def run(
    *,
    paths: tuple[str, ...],
    out_dir: Path,
    lists: tuple[str, ...],
    jobs: int | None,
    scheduler: str,
    shard: str,
    resume: bool,
    retry_failed: bool,
    wait: bool,
    progress: str,
    require_sandbox: bool | None,
    delivery: Delivery,
    pages: str,
    fail_on_missing: bool,
    accepting: Accepting,
    redaction: Redaction,
    chosen: RuleChoice,
) -> None:
    """Diagnose all bundles at PATHS: archives, folders, patterns, and addresses such as s3://bucket/nightly/.

    Stored results are complete, however the run ends. Exit codes: 1 if a finding fails --fail-on; 5 if a bundle has no
    complete result (the results have the reason); 6 if there is no room for results or the cluster failed; otherwise 0.
    """
    if not paths and not lists:
        raise UsageError("no bundles given; add paths, or a list with --from")
    if retry_failed and not resume:
        raise UsageError("--retry-failed needs --resume")
    _check_out_dir(out_dir, resume=resume)
    if require_sandbox and not scheduler:
        check_layers()
    count = jobs or len(os.sched_getaffinity(0))
    _check_open_files(count)
    report_settings = _report_options(delivery, pages, count, fail_on_missing=fail_on_missing)
    judge, missing = _judge(accepting)
    chosen = chosen._replace(folders=tuple(folder.absolute() for folder in chosen.folders))
    rules = chosen.rules()
    changed = changed_params(rules)
    options = Options(typed_options={"set": changed} if changed else {})
    analysis = Analysis(__version__, digest(rules), options.typed_options)
    stdin = _duplicate_stdin() if "-" in lists else None
    items = find_items(paths, [out_dir], lists, stdin, Shard.parse(shard) if shard else ALL_ITEMS)
    busy = Busy.WAIT if wait else Busy.REFUSE
    with interruptible(f"the results in {out_dir} are complete; --resume continues from there") as check:
        with Store.open(out_dir, analysis, busy, shared.print_message) as store, _scratch_in(out_dir) as scratch:
            stored = store.analyzed_contents(analysis) if resume else ()
            known = KnownContents.from_digests(sha256 for sha256, document in stored if document or not retry_failed)
            limits = Limits(every_layer=bool(require_sandbox))
            config = RunConfig(analysis, scratch, *chosen, options, limits, known)
            executor = Cluster(config, scheduler, count) if scheduler else Workers(config, count)
            with show_batch_progress("none" if saved_option("quiet") else progress) as show, executor:
                tally = run_batch(items, executor, store, lambda tally: (check(), show(tally)))
            if not tally.bundles and not shard:
                raise InputError("no bundles given: the list is empty")
            result = _make_report(store, report_settings, judge, redaction)
        _print_messages(result, out_dir, missing, delivery.verbosity)
    raise Exit(result.gate.exit_code)


def _check_open_files(jobs: int) -> None:
    """Refuse to start if the open file limit is too low for the pipes of the workers, the store and the report."""
    limit, needed = resource.getrlimit(resource.RLIMIT_NOFILE)[0], BASE_FILES + jobs * FILES_PER_JOB
    if limit != resource.RLIM_INFINITY and limit < needed:
        text = f"the open file limit is {limit}, but {plural(jobs, 'job')} need {needed}"
        raise WorkersError(f"{text}: raise the limit (`ulimit -n {needed}`), or use fewer jobs (-j)")


def _check_out_dir(out_dir: Path, *, resume: bool) -> None:
    """Refuse to overwrite results without `--resume`, or files that are not from triage."""
    if (out_dir / DATABASE_NAME).exists():
        if not resume:
            raise UsageError(f"{out_dir} already has results: add --resume to continue, or choose another --out-dir")
    elif foreign := [name for name in (INDEX, PAGES_FOLDER) if (out_dir / name).exists()]:
        raise UsageError(f"{out_dir} has a {foreign[0]} that is not from triage; choose another --out-dir")


def _duplicate_stdin() -> BinaryIO:
    """Return a copy of stdin for another thread; a thread must not hold `sys.stdin` when the interpreter exits."""
    if sys.stdin is None:
        raise UsageError("--from -: standard input is closed")
    return os.fdopen(os.dup(sys.stdin.fileno()), "rb")


@contextmanager
def _scratch_in(out_dir: Path) -> Iterator[Path]:
    """Create an empty folder for downloads and extracted files, and delete it at the end."""
    scratch = out_dir.absolute() / SCRATCH
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        scratch.mkdir()
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _report_options(delivery: Delivery, pages: str, jobs: int, *, fail_on_missing: bool) -> ReportOptions:
    """Make the options of a report: the files of `-o`, and stdout for `-f` unless one of the files is stdout."""
    files = shared.parse_outputs(delivery.outputs, FORMATS)
    if not any(file == STDOUT for _, file in files):
        files.append((delivery.form, STDOUT))
    return ReportOptions(files, Pages(pages), delivery.presentation, jobs, fail_on_missing)


def _judge(accepting: Accepting) -> tuple[Judge, list[Path]]:
    """Return the judge of accepted findings, and missing baselines, which are no error: the first run has none yet."""
    missing = [path for path in accepting.baselines if not os.path.lexists(path)]
    existing = [path for path in accepting.baselines if path not in missing]
    return accepting._replace(baselines=existing).judge(), missing


def _make_report(store: StoreReader, options: ReportOptions, judge: Judge, redaction: Redaction) -> ReportResult:
    """Make the report, with pseudonyms if requested."""
    if not redaction:
        return make_report(store, options, judge)
    with redaction.names() as names:
        return make_redacted_report(store, options, judge, names)


def _print_messages(result: ReportResult, folder: Path, missing: Sequence[Path], verbosity: int) -> None:
    """Print warnings, hints about missing baselines, and on a terminal the place of the page."""
    for path in missing:
        accept = f"thpdiag baseline create {quote(str(folder))} -o {quote(str(path))} --reason TEXT --expires DATE"
        text = f"no baseline {path}: every finding counts. To accept what is there today: {accept}"
        shared.print_message(visible(text))
    shared.report_warnings(result.warnings, result.notes, verbosity)
    shared.notice(f"{folder / INDEX} written, {result.pages:,} pages of hosts")


@click.command("merge")
@click.argument("shards", nargs=-1, required=True, type=click.Path(path_type=Path))
@OUT_DIR
@WAIT
def merge(*, shards: tuple[Path, ...], out_dir: Path, wait: bool) -> None:
    """Merge the results of SHARDS (triage folders or results.sqlite files). Merging again changes nothing."""
    if any(shard.resolve() == out_dir.resolve() for shard in shards):
        raise UsageError(f"{out_dir} cannot be merged into itself; name another --out-dir")
    for shard in shards:
        with StoreReader.at(shard) as other:
            runs = list(other.runs())
        if not runs:
            raise StoreError(f"{shard}: the store has no run")
    last = Analysis(runs[-1]["tool_version"], runs[-1]["rules_digest"], runs[-1]["options"])
    with Store.open(out_dir, last, Busy.WAIT if wait else Busy.REFUSE, shared.print_message) as store:
        new = store.merge(shards)
        total = sum(store.statuses().values())
    merged = f"{plural(new, 'new bundle')} of {plural(len(shards), 'shard')}, {total} in all"
    shared.print_message(visible(f"{out_dir}: {merged}"))


@click.command("report")
@STORE
@report_options
@JOBS
@click.option("-v", "--verbose", "verbosity", count=True, help="Show all warnings about suppressions and baselines.")
@shared.delivery_options
def report(
    *,
    folder: Path,
    delivery: Delivery,
    pages: str,
    fail_on_missing: bool,
    accepting: Accepting,
    redaction: Redaction,
    jobs: int | None,
) -> None:
    """Rebuild the fleet page (DIR/index.html) and the host pages, and write other formats, from the results in DIR.

    DIR is the --out-dir of `thpdiag triage`.
    """
    options = _report_options(delivery, pages, jobs or len(os.sched_getaffinity(0)), fail_on_missing=fail_on_missing)
    judge, missing = _judge(accepting)
    with StoreReader.at(folder) as store:
        result = _make_report(store, options, judge, redaction)
    _print_messages(result, database_path(folder).parent, missing, delivery.verbosity)
    raise Exit(result.gate.exit_code)


@click.command("export")
@STORE
@click.option(
    "-o", "--output", required=True, metavar="FILE",
    help="A file that ends in .csv, .jsonl, .parquet, or .sqlite, or FORMAT=FILE; csv=- and jsonl=- are stdout.",
)  # fmt: skip
@shared.redaction_options
def export_table(folder: Path, output: str, redaction: Redaction) -> None:
    """Write the results in DIR, the --out-dir of `thpdiag triage`, as one table with a row per finding.

    A host without findings and a bundle without a host have one row. A .sqlite file is a copy of all results, which
    `triage report` and `triage merge` read.
    """
    form, file = _table_target(output)
    if file == STDOUT and form not in TEXT_TABLES:
        raise UsageError(f"{form} is binary; write it to a file: -o {form}=FILE")
    with _store_to_share(folder, redaction) as store:
        if file != STDOUT:
            export(store, file, form)
            shared.notice(f"{file} written")
        elif sys.stdout is not None:  # None: it was closed before the program started
            TABLE_FORMATS[form](store, sys.stdout.buffer)


@contextmanager
def _store_to_share(folder: Path, redaction: Redaction) -> Iterator[StoreReader]:
    """Open the store, or a copy with pseudonyms."""
    with ExitStack() as undo:
        store = undo.enter_context(StoreReader.at(folder))
        if redaction:
            names = undo.enter_context(redaction.names())
            store, _ = undo.enter_context(redacted_copy(store, Judge([], date.min, {}), names))
        yield store


def _table_target(output: str) -> tuple[str, Path]:
    """Parse format and file of `-o`."""
    name, sign, rest = output.partition("=")
    if sign and name in FORMAT_NAMES and rest:
        return name, Path(rest)
    if output in FORMAT_NAMES or Path(output) == STDOUT:
        raise UsageError(f"-o {output}: name the format and the file, such as csv=-, jsonl=- or results.csv")
    if Path(output).is_dir():
        raise UsageError(f"-o {output}: that is a folder; name a file in it, such as {Path(output) / 'results.csv'}")
    return format_of_suffix(Path(output)), Path(output)


@contextmanager
def show_batch_progress(
    kind: str, out: TextIO | None = None, clock: Clock = time.monotonic
) -> Iterator[Callable[[Tally], None]]:
    """Yield a function that shows the progress of a run. `auto` is a bar on a terminal and `log` elsewhere."""
    out = out or sys.stderr
    if kind == "auto":
        kind = "bar" if out.isatty() else "log"
    if kind == "none":
        yield lambda _tally: None
    elif kind == "bar":
        columns = (
            TextColumn("{task.fields[rate]}"),
            BarColumn(12),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[findings]}", table_column=Column(no_wrap=True, overflow="ellipsis")),
        )
        with Progress(*columns, console=Console(file=out), transient=True) as bar:
            task, begun = bar.add_task("", total=None, rate="", findings=""), clock()

            def show(tally: Tally) -> None:
                rate = f"{_rate(tally, clock() - begun):.1f}/s"
                total = tally.bundles if tally.listed else None
                bar.update(task, completed=tally.done, total=total, rate=rate, findings=_describe_findings(tally))

            yield show
    else:
        lines = _ProgressLines(_log_line if kind == "log" else _json_line, LINE_INTERVAL_S[kind], out, clock)
        yield lines.show
        lines.finish()


class _ProgressLines:
    """Writes lines of progress at intervals, and one at the end."""

    def __init__(self, line: Callable[[Tally, float], str], interval: float, out: TextIO, clock: Clock) -> None:
        self._line, self._interval, self._out, self._clock = line, interval, out, clock
        self._begun = self._last = clock()
        self._pending: Tally | None = None
        self._done = 0

    def show(self, tally: Tally) -> None:
        self._pending = tally
        interval = self._interval if tally.done != self._done else max(self._interval, IDLE_LINE_INTERVAL_S)
        if self._clock() - self._last >= interval:
            self._write(tally)

    def finish(self) -> None:
        """Write the last line if it is not written yet."""
        if self._pending is not None and (self._pending.done != self._done or not self._done):
            self._write(self._pending)

    def _write(self, tally: Tally) -> None:
        self._last, self._pending, self._done = self._clock(), None, tally.done
        self._out.write(self._line(tally, self._last - self._begun) + "\n")
        self._out.flush()


def _log_line(tally: Tally, seconds: float) -> str:
    rate, remaining = _rate(tally, seconds), ""
    if tally.listed and rate and tally.bundles > tally.done:
        remaining = f", about {(tally.bundles - tally.done) / rate:.0f} s left"
    more = "" if tally.listed else " or more"
    return f"triage: {tally.done} of {tally.bundles}{more} bundles{remaining}; {_describe_findings(tally)}"


def _json_line(tally: Tally, seconds: float) -> str:
    numbers = {"found": tally.bundles, "skipped": tally.skipped, "twice": tally.duplicates, "hosts": tally.hosts}
    counts = {
        "listed": tally.listed, "done": tally.done, "statuses": dict(tally.statuses), "findings": dict(tally.findings),
    }  # fmt: skip
    return json.dumps({"schema": PROGRESS_SCHEMA, "seconds": round(seconds, 1), **numbers, **counts}, sort_keys=True)


def _describe_findings(tally: Tally) -> str:
    counts = tally.findings
    findings = ", ".join(f"{counts[severity]} {severity}" for severity in reversed(SEVERITIES) if counts[severity])
    incomplete = f", {tally.incomplete} incomplete" if tally.incomplete else ""
    return f"findings: {findings or 'none'}{incomplete}"


def _rate(tally: Tally, seconds: float) -> float:
    """Return bundles per second, without skipped ones."""
    return (tally.done - tally.skipped) / seconds if seconds else 0.0


COMMANDS: Mapping[str, click.Command] = MappingProxyType(
    {"run": run, "merge": merge, "report": report, "export": export_table}
)
