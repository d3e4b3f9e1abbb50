"""Options that several commands share, and what becomes of a result: where it is written, which exit code it gives.

Options that belong together reach a command as one object, a named tuple with their parameters (`as_one`): `Reading`,
`RuleChoice`, `Delivery`, `Accepting`, `Redaction`.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import date, datetime
from functools import wraps
from hashlib import sha256
from itertools import islice
from pathlib import Path
from stat import S_IMODE
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol, TypeVar

import rich_click as click
from click.exceptions import Exit

from thpdiag.cli import check_linux
from thpdiag.cli.terminal import complain as complain
from thpdiag.cli.terminal import notice as notice
from thpdiag.cli.terminal import print_progress, remember, setting, show_progress, shows_color
from thpdiag.engine.load import Rule, changed_params, rule_files, rule_set
from thpdiag.engine.quantity import parse_quantity, split_unit, units_like
from thpdiag.engine.timing import TITLE, Timings
from thpdiag.errors import InputError, UsageError, describe_unwritable
from thpdiag.host.options import Options, parse_window
from thpdiag.knowledge.yaml_nodes import suggestion
from thpdiag.model import SEVERITIES, Problem
from thpdiag.model.result import as_document
from thpdiag.report import FORMATS, AnyResult
from thpdiag.report.escaping import visible
from thpdiag.report.presentation import CUT_SHORT as CUT_SHORT
from thpdiag.report.presentation import DAMAGED as DAMAGED
from thpdiag.report.presentation import OWN_REPORT, Presentation, Suppressed, documents
from thpdiag.report.presentation import exit_code as exit_code
from thpdiag.report.presentation import fails_gate as fails_gate
from thpdiag.report.presentation import is_recognised as is_recognised

if TYPE_CHECKING:
    from thpdiag.host.reading import Progress
    from thpdiag.redact.names import Names
    from thpdiag.report.baseline import Acceptance, Judge
    from thpdiag.sandbox import outcome as sandbox

NOTHING_RECOGNISED = (
    "nothing in the input was recognized; expected a sosreport, or an archive, folder or text with recordings of one "
    "host, such as vmstat, sar or perf script (`thpdiag inputs` shows each file)"
)
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:/", re.IGNORECASE)
MAX_NEIGHBOURS = 10_000  # names of a folder that are looked through for the one that was meant
SUFFIXES = {"txt": "text", "htm": "html", "md": "markdown", "xml": "junit"}
SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"  # the variable that names the file to which the commands of a CI step add

_Command = Callable[..., Any]
_Decorator = Callable[[_Command], _Command]


def as_one(name: str, made: type[Any], *options: _Decorator) -> _Decorator:
    """Parameters that are the fields of a named tuple reach the command as one, `name`; the options of some of them."""

    def decorate(command: _Command) -> _Command:
        @wraps(command)
        def with_options(**given: Any) -> Any:
            own = {field: given.pop(field) for field in made._fields if field in given}
            return command(**given, **{name: made(**own)})

        decorated: _Command = with_options
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


PATHS = click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))


def format_option(formats: Collection[str] = ("text", "json"), default: str = "text") -> _Decorator:
    """`-f` with these formats."""
    choice = click.Choice(sorted(formats), case_sensitive=False)
    return click.option(
        "-f", "--format", "form", type=choice, default=default, show_default=True, help="The format to print."
    )


FORMAT = format_option(FORMATS)
PATHS_OF_FILES = click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))


def output_option(help: str, *, required: bool = False) -> _Decorator:
    """`-o`: a file, in the format of its suffix, or `FORMAT=PATH`; as often as wanted."""
    return click.option(
        "-o", "--output", "outputs", multiple=True, required=required, metavar="[FORMAT=]PATH",
        help=f"{help}; may be given several times, `-` is stdout.",
    )  # fmt: skip


OUTPUT = output_option("Also write the report to this file, in the format of its suffix (or FORMAT=PATH)")
VERBOSE = click.option(
    "-v", "--verbose", "verbosity", count=True, help="Text: print all details, as --full; twice: also the match trees."
)
SHOW_SUPPRESSED = click.option(
    "--show-suppressed", "suppressed", flag_value=Suppressed.SHOWN.value, default=Suppressed.LEFT_OUT.value,
    help="Also list findings that a suppression or baseline accepts.",
)  # fmt: skip


def stack(*options: _Decorator) -> _Decorator:
    """Several options as one decorator, in the order of the help."""

    def decorate(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


EXTENT = stack(
    click.option(
        "--short", "extent", flag_value="short", help="Text: print only the first block, to paste into a ticket."
    ),
    click.option("--full", "extent", flag_value="full", help="Text: print everything, including the cited lines."),
)
COLOR = click.option(
    "--color", type=click.Choice(["auto", "always", "never"], case_sensitive=False), expose_value=False,
    callback=remember, help="When to color text: `auto` colors on a terminal and respects NO_COLOR and FORCE_COLOR.",
)  # fmt: skip
QUIET = click.option(
    "-q", "--quiet", is_flag=True, default=None, expose_value=False, callback=remember,
    help="Print only errors on stderr: no progress, no notices.",
)  # fmt: skip
PROGRESS_KINDS = ("auto", "log", "json", "none")


class ProgressKind(click.Choice[str]):
    """How progress is shown; `no` is what `none` was called before."""

    def __init__(self) -> None:
        super().__init__(PROGRESS_KINDS, case_sensitive=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert("none" if value == "no" else value, param, ctx)


def _fail_on(text: str) -> _Decorator:
    severities = click.Choice([*reversed(SEVERITIES), "never"], case_sensitive=False)
    return click.option("--fail-on", type=severities, default="never", show_default=True, help=text)


FAIL_ON = _fail_on("Exit 1 if there is a finding of this severity or higher.")
FAIL_ON_CHANGE = _fail_on("Exit 1 if a finding of this severity or higher is new or worse.")


def check_rule_folders(_context: click.Context, parameter: click.Parameter, folders: Sequence[Path]) -> Sequence[Path]:
    """Refuse a folder without rules: who names one expects them to be used."""
    for folder in folders:
        if not rule_files(folder):
            raise UsageError(f"{folder} has no rules (files NAME.yaml); `thpdiag rules new` writes the first")
    return folders


RULES = click.option(
    "--rules", "folders", type=click.Path(exists=True, file_okay=False, path_type=Path), multiple=True,
    callback=check_rule_folders,
    help="A folder with additional rules; may be given several times.",
)  # fmt: skip
SET = click.option(
    "--set", "changes", multiple=True, metavar="RULE.PARAM=VALUE",
    help="Override a parameter of a rule, such as 'THP-013.often=0.1 /s'; may be given several times.",
)  # fmt: skip
FAIL_ON_MISSING = click.option("--fail-on-missing", is_flag=True, help="Exit 1 if a rule could not be decided.")
SINCE = click.option("--since", help="Ignore data before this time (host clock).")
UNTIL = click.option("--until", help="Ignore data after this time (host clock).")
AT = click.option("--at", help="Use only five minutes before and after this time.")
PROGRESS = stack(
    click.option(
        "--progress", type=ProgressKind(), expose_value=False, callback=remember,
        help="`auto`: a line on a terminal only; `log`: periodic lines; `json`: for programs; `none`: nothing.",
    ),
    click.option(
        "--no-progress", "without", is_flag=True, default=None, hidden=True, expose_value=False,
        callback=lambda context, _parameter, given: given and context.meta.update({"thpdiag.cli.progress": "none"}),
    ),
    QUIET,
)  # fmt: skip
STRICT = click.option("--strict", is_flag=True, hidden=True)
PROCESS = click.option("--process", default="", help="Analyze only this process (PID or command name).")


class RuleChoice(NamedTuple):
    """Folders with further rules, and other values of parameters."""

    folders: tuple[Path, ...]
    changes: tuple[str, ...]

    def rules(self) -> tuple[Rule, ...]:
        return rule_set(self.folders, self.changes)


rule_options = as_one("chosen", RuleChoice, RULES, SET)


class Reading(NamedTuple):
    """What of the input is looked at."""

    process: str
    since: str | None
    until: str | None
    at: str | None
    strict: bool

    def named_options(self, rules: Sequence[Rule]) -> dict[str, str]:
        """The options that were given, for the document."""
        given = {"since": self.since, "until": self.until, "at": self.at, "process": self.process}
        return {name: value for name, value in {**given, "set": changed_params(rules)}.items() if value}

    def options(self, rules: Sequence[Rule] = (), case: str = "") -> Options:
        window = parse_window(self.since, self.until, self.at)
        return Options(window, case, self.process, strict=self.strict, typed_options=self.named_options(rules))


def quantity_callback(like: str, least: str) -> Callable[[click.Context, click.Parameter, str | None], float | None]:
    """What turns the text of an option into base units, of the same kind as `like`, not below `least`."""
    kind = units_like(split_unit(like)[1])

    def parse(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
        if text is None:
            return None
        try:
            value, unit = split_unit(text)
        except ValueError:
            value, unit = 0.0, ""
        if unit not in kind or not parse_quantity(least) <= value < math.inf:
            raise click.BadParameter(f"{text!r}; at least {least}, written like {like!r}, in {', '.join(kind)}")
        return value

    return parse


_MAX_MEMORY = click.option(
    "--max-memory", metavar="SIZE", callback=quantity_callback("4 GiB", "256 MiB"),
    help="Stop at this much memory, such as '8 GiB'; the default is 4 GiB, or 2 GiB with --isolate.",
)  # fmt: skip
_MAX_TIME = click.option(
    "--max-time", metavar="TIME", callback=quantity_callback("10 min", "1 s"),
    help="Stop after this time, such as '20 min'; the default is 5 min of CPU time or 1 h.",
)  # fmt: skip
REQUIRE_SANDBOX = click.option(
    "--require-sandbox", is_flag=True, default=None,
    help="Read nothing if this machine lacks a layer of the sandbox (`thpdiag doctor` lists them).",
)  # fmt: skip


class Ceiling(NamedTuple):
    """What an analysis may use: bytes of memory, seconds to read. None is the default."""

    max_memory: float | None
    max_time: float | None

    def apply(self, options: Options) -> Options:
        """The options with the time that reading may take."""
        if not self.max_time:
            return options
        return replace(options, limits=replace(options.limits, cpu_seconds=self.max_time, wall_seconds=self.max_time))

    def child_limits(self, *, every_layer: bool) -> sandbox.Limits:
        """Those of a child process: the time is more, to judge what was read."""
        check_linux("--isolate")
        from thpdiag import isolated  # few runs need the sandbox

        base, reading = replace(isolated.LIMITS, every_layer=every_layer), Options().limits
        more = self.max_time - reading.cpu_seconds if self.max_time else 0
        late = self.max_time - reading.wall_seconds if self.max_time else 0
        cpu, wall = base.cpu_seconds + math.ceil(more), base.wall_seconds + late
        return replace(base, cpu_seconds=cpu, wall_seconds=wall, memory=int(self.max_memory or base.memory))


ceiling_options = as_one("ceiling", Ceiling, _MAX_MEMORY, _MAX_TIME)
packed_reading = as_one("reading", Reading)
selection_options = as_one("reading", Reading, PROCESS, SINCE, UNTIL, AT, PROGRESS, STRICT)


def progress_of(*, wanted: bool = True) -> AbstractContextManager[Progress | None]:
    """Progress as `--progress` says; without it, if somebody watches."""
    kind = "none" if setting("quiet") or not wanted else setting("progress", "auto")
    if kind in ("log", "json"):
        return print_progress(kind)
    if kind == "none" or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return nullcontext()
    return show_progress()


def rule_by_id(wanted: str, rules: Sequence[Rule]) -> Rule:
    """The rule of an id, however it is capitalised, of a mechanism, or of words of its title; UsageError if none is.

    Of several the one whose file has the mechanism's name is meant, else the gravest; a terminal names the others.
    """
    found = matching_rules(wanted, rules)
    if not found:
        raise UsageError(f"no rule {wanted!r}{_similar_rule(wanted, rules)}; `thpdiag rules list` has all")
    if len(found) > 1:
        others = ", ".join(f"{rule.id} ({rule.file.title})" for rule in found[1:MAX_ALIKE])
        more = f" and {len(found) - MAX_ALIKE} more" if len(found) > MAX_ALIKE else ""
        notice(f"{found[0].id} of {len(found)} rules for {wanted!r}; others: {others}{more}")
    return found[0]


MAX_ALIKE = 5  # rules that are named where several are meant
_LEADING = ("root_cause", "alternative", "contributing")


def matching_rules(wanted: str, rules: Sequence[Rule]) -> list[Rule]:
    """The rules of an id, else of a mechanism, else those whose titles have all the words; causes first."""

    def order(rule: Rule) -> tuple[bool, int, int, str]:
        own = Path(rule.source.path).stem == rule.file.mechanism
        role = _LEADING.index(rule.file.role) if rule.file.role in _LEADING else len(_LEADING)
        return not own, role, -SEVERITIES.index(rule.file.severity), rule.id

    words = re.findall(r"\w+", wanted.lower())
    for found in (
        [rule for rule in rules if rule.id == wanted.upper()],
        [rule for rule in rules if rule.file.mechanism == wanted.lower()],
        [rule for rule in rules if words and set(words) <= set(re.findall(r"\w+", rule.file.title.lower()))],
        [
            rule
            for rule in rules
            if words and all(w in f"{rule.file.title} {rule.file.mechanism}".lower() for w in words)
        ],
    ):
        if found:
            return sorted(found, key=order)
    return []


def _similar_rule(wanted: str, rules: Sequence[Rule]) -> str:
    """An id or a mechanism that is like what was written: of an id the letters must be those of one that is known."""
    if re.fullmatch(r"[A-Za-z]+-?\d+", wanted):
        digits = re.sub(r"\D", "", wanted).zfill(2)
        same = [rule.id for rule in rules if rule.id.endswith(f"-{digits}") or rule.id.endswith(f"-0{digits}")]
        return (
            f"; did you mean {' or '.join(repr(i) for i in same[:2])}?" if same and wanted.upper() not in same else ""
        )
    return suggestion(wanted.lower(), {rule.file.mechanism for rule in rules})


def missing_path(paths: Sequence[Path]) -> InputError | None:
    """The mistake of naming a path that is not there, as something to say or to raise."""
    missing = next((path for path in paths if str(path) != "-" and not path.exists()), None)
    if missing is None:
        return None
    if ADDRESS.match(str(missing)):
        address = re.sub(":/+", "://", visible(str(missing)), count=1)  # a Path keeps one slash
        return InputError(f"{address} is an address; download it first, or give it to `thpdiag triage`")
    return InputError(f"{visible(str(missing))}: no such file or folder{_neighbour(missing) or '; check the path'}")


def _neighbour(path: Path) -> str:
    """The name beside a path that is not there that may have been meant."""
    try:
        names = [entry.name for entry in islice(path.parent.iterdir(), MAX_NEIGHBOURS)]
    except OSError:
        return f"; no such folder: {path.parent}" if not path.parent.exists() else ""
    return visible(suggestion(path.name, names))


def pointless_input(paths: Sequence[Path], document: AnyResult) -> InputError | None:
    """The mistake of naming only files without a byte, folders without a file, or reports; None if there was more."""
    rows = [row for one in documents(document) for row in one.inputs]
    if rows and all(row.reader == OWN_REPORT for row in rows):
        return InputError(why_unrecognised(document))
    if any(str(path) == "-" and any(row.size for row in rows) for path in paths):
        return None
    if not all(str(path) == "-" or _is_empty(path) for path in paths):
        return None
    first = paths[0]
    if str(first) == "-":
        return InputError("standard input is empty; check the command before the pipe")
    kind = "folder has no files" if first.is_dir() else "file is empty"
    return InputError(f"{visible(str(first))}: the {kind}; check the path, or ask for it again")


def _is_empty(path: Path) -> bool:
    try:
        if path.is_dir():
            return not any(files for _, _, files in os.walk(path))
        return path.is_file() and not path.stat().st_size
    except OSError:
        return False


def parse_outputs(
    outputs: Sequence[str],
    formats: Collection[str] = FORMATS,
    *,
    default: str = "",
    suffixes: Mapping[str, str] = SUFFIXES,
) -> list[tuple[str, Path]]:
    """The (format, file) pairs of `-o`; a path alone decides by its suffix, and `default` is for a suffix of no format.

    Where a command has such a format, `FORMAT=` in front of a path is that of one of its formats only.
    """
    found = []
    for text in outputs:
        name, sign, rest = text.partition("=")
        if not sign or (default and name not in formats):  # of stacks.speedscope.json the longer ending
            double = next((one for one in formats if text.endswith(f".{one}.json")), "")
            name, rest = double or Path(text).suffix.lstrip(".") or text, text
        known = suffixes.get(name, name)
        if default and known not in formats and known not in DRAWN:
            known = default
        if known not in formats or not rest:
            wrong = f"-o {text!r}: no format has this name; write FORMAT=PATH, or a file such as report.html"
            if Path(text).is_dir():
                wrong = (
                    f"-o: {text} is a folder; write FORMAT=PATH, or a file in it, such as {Path(text, 'report.html')}"
                )
            elif default:
                wrong = f"-o {text!r}: this command does not write {known}; write FORMAT=PATH"
            raise UsageError(f"{wrong}; formats are {', '.join(sorted(formats))}")
        found.append((known, Path(rest)))
    _check_outputs([path for _, path in found])
    return found


DRAWN = frozenset(("html", "htm", "pdf", "png", "svg"))  # suffixes that promise what such a command does not write


def _check_outputs(paths: Sequence[Path]) -> None:
    """Refuse before the analysis what could not be written after it, and what would be overwritten by its neighbour."""
    for path in paths:
        if str(path) == "-":
            continue
        if path.is_dir():
            raise UsageError(f"-o: {path} is a folder; name a file in it")
        if not path.parent.is_dir():
            raise UsageError(f"-o: {path} cannot be written: no such folder: {path.parent}; create it first")
    whole = [str(path) if str(path) == "-" else path.resolve() for path in paths if not _is_appended(path)]
    twice = [path for path in whole if whole.count(path) > 1]
    if twice:
        raise UsageError(
            f"-o: two formats cannot both go to {'stdout' if twice[0] == '-' else twice[0]}; name another file"
        )


def _is_appended(path: Path) -> bool:
    """Whether what is written to a path is added to it: the summary of a CI step, a pipe, a device."""
    return str(path) == os.environ.get(SUMMARY_VARIABLE) or (path.exists() and not path.is_file())


T = TypeVar("T", contravariant=True)


class Renderer(Protocol[T]):
    """A format of a document."""

    def __call__(self, document: T, presentation: Presentation, /) -> str: ...


class Delivery(NamedTuple):
    """Where the result goes and how it is shown."""

    form: str
    outputs: tuple[str, ...]
    fail_on: str
    verbosity: int
    suppressed: str = Suppressed.LEFT_OUT.value
    extent: str | None = None

    @property
    def presentation(self) -> Presentation:
        level = {"short": -1, "full": max(1, self.verbosity)}.get(self.extent or "", self.verbosity)
        return Presentation(level, self.fail_on, Suppressed(self.suppressed))

    def deliver(
        self,
        document: T,
        files: Sequence[tuple[str, Path]],
        formats: Mapping[str, Renderer[T]],
        *,
        watched: bool = True,
        silent: bool = False,
    ) -> None:
        """Print the result unless some `-o` claims stdout, and write the files; `silent` prints nothing as text."""
        claimed = any(str(path) == "-" for _, path in files) or (silent and self.form == "text")
        printed = () if claimed else ((self.form, Path("-")),)
        targets = (*printed, *files)
        for number, (name, path) in enumerate(targets):
            with progress_of(wanted=watched) as show:
                if show:
                    from thpdiag.host.reading import Step  # loaded by whatever shows progress

                    show(Step("write", number, len(targets), name))
                color = str(path) == "-" and shows_color()
                text = formats[name](document, self.presentation._replace(color=color))
            write(text, path)


packed_delivery = as_one("delivery", Delivery)


def write(content: str | bytes, path: Path) -> None:
    """To a file, or to stdout for `-`; to the end of the summary of a CI step, which others write to as well.

    In UTF-8, as the formats promise, but for a terminal, which gets what it can show.
    """
    if str(path) == "-":
        shown = sys.stdout is not None and sys.stdout.isatty()
        try:
            click.echo(content if shown or isinstance(content, bytes) else content.encode(), nl=False)
        except BrokenPipeError:  # `| head`: nobody wants the rest; other files and the exit code are as without it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    mode = "ab" if str(path) == os.environ.get(SUMMARY_VARIABLE) else "wb"
    try:
        with path.open(mode) as file:
            file.write(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise UsageError(describe_unwritable(path, error)) from error
    notice(f"{path} written")


def check_timings_file(name: str | None) -> None:
    """Refuse to write timings over anything but timings: `--timings a.tar b.tar` names a bundle, not a new file."""
    path = Path(name or "-")
    if str(path) == "-" or not path.exists():
        return
    begin = path.read_bytes()[: len(TITLE)] if path.is_file() else b""
    if begin != TITLE.encode():
        raise UsageError(f"--timings takes a new file, and {path} already exists (--timings=- is stderr)")


def write_timings(spent: Timings, name: str) -> None:
    """The timings to stderr (`-`) or into a file."""
    text = "\n".join(spent.lines())
    if name == "-":
        click.echo(text, err=True)
    else:
        write(text + "\n", Path(name))


def format_problem(problem: Problem) -> str:
    """A problem and where it is, for stderr."""
    return visible(f"{problem.cite.member}: {problem.text!s}")


def why_unrecognised(document: AnyResult) -> str:
    """The sentence of an input in which nothing was recognised."""
    if any(row.reader == OWN_REPORT for one in documents(document) for row in one.inputs):
        return "the input is a report of thpdiag, not what a host recorded; `thpdiag render` shows a saved result"
    return NOTHING_RECOGNISED


def exit_with_result(document: AnyResult, code: int | None = None, mistake: InputError | None = None) -> NoReturn:
    """Leave with the exit code of the result; of nothing recognised it is said what would have been, or the mistake."""
    if not is_recognised(document):
        complain(str(mistake or why_unrecognised(document)))
    raise Exit(exit_code(document) if code is None else code)


MAX_WARNINGS = 8  # warnings at level 0
OTHERS_MODE = 0o007
MAX_MAPPING_BYTES = 64 << 20


def parse_day(text: str, option: str) -> date:
    """The day that an option gives."""
    from thpdiag.report.baseline import day

    try:
        return day(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


def today_or(text: str) -> date:
    """The day of `--today`, else that of the clock where the command runs."""
    return parse_day(text, "--today") if text else datetime.now().astimezone().date()


TODAY = click.option("--today", default="", hidden=True)
_SUPPRESS = click.option(
    "--suppress", "suppress", type=click.Path(path_type=Path), multiple=True,
    help="A YAML file of accepted findings (rule, host, entity, reason, expires); they do not fail --fail-on.",
)  # fmt: skip
_BASELINE = click.option(
    "--baseline", "baselines", type=click.Path(path_type=Path), multiple=True,
    help="A file from `thpdiag baseline create`; accepted findings do not fail --fail-on unless they get worse.",
)  # fmt: skip


class Accepting(NamedTuple):
    """The files that accept findings, and the day on which they do."""

    suppress: Sequence[Path]
    baselines: Sequence[Path]
    today: str

    def __bool__(self) -> bool:
        return bool(self.suppress or self.baselines)

    def mark(self, document: AnyResult, verbosity: int = 0) -> AnyResult:
        """The result with what the files accept marked; without files the result itself."""
        if not self:
            return document
        judge = self.judge()
        marked = judge.mark_document(document)
        report_warnings(list(judge.warnings()), list(judge.notes()), verbosity)
        return marked

    def judge(self) -> Judge:
        """What judges the findings of many documents, one after the other."""
        from thpdiag.report.baseline import Judge, read_baseline, read_suppressions

        entries: list[Acceptance] = [entry for path in self.suppress for entry in read_suppressions(path)]
        entries += [entry for path in self.baselines for entry in read_baseline(path)]
        digests = {  # the files as the result names them: without their folders. The day is in the marks only.
            name: ", ".join(f"{path.name} (sha256 {sha256(path.read_bytes()).hexdigest()[:12]})" for path in paths)
            for name, paths in (("suppress", self.suppress), ("baseline", self.baselines))
        }
        return Judge(entries, today_or(self.today), digests)


acceptance_options = as_one("accepting", Accepting, _SUPPRESS, _BASELINE, TODAY)


def report_warnings(warnings: Sequence[str], notes: Sequence[str], verbosity: int = 0) -> None:
    """On stderr; without -v the first few."""
    shown = warnings if verbosity else warnings[:MAX_WARNINGS]
    for text in (*shown, *(notes if verbosity else ())):
        complain(visible(text))
    if len(warnings) > len(shown):
        complain(f"and {len(warnings) - len(shown)} more entries without effect (-v)")


_REDACT = click.option(
    "--redact", is_flag=True,
    help="Replace the customer's hosts, addresses, users, paths, and programs with pseudonyms.",
)  # fmt: skip
_MAPS = click.option(
    "--redact-map", "maps", multiple=True, type=click.Path(dir_okay=False, path_type=Path),
    help="Read and save the name mapping here; a `sos clean` mapping is only read. Implies --redact.",
)  # fmt: skip


class Redaction(NamedTuple):
    """Whether the customer's names are replaced, and the files that keep who is who."""

    redact: bool = True
    maps: Sequence[Path] = ()

    def __bool__(self) -> bool:
        return bool(self.redact or self.maps)

    def apply(self, document: AnyResult) -> AnyResult:
        """The result as it may be given away, if that was asked for."""
        return self.apply_to_all([document])[0]

    def apply_to_all(self, documents: Sequence[AnyResult]) -> Sequence[AnyResult]:
        """Several results with one mapping: a host that is in two of them has one pseudonym."""
        if not self:
            return documents
        from thpdiag.redact.document import redact_together

        with self.names() as names:
            return redact_together([as_document(one) for one in documents], names)

    def apply_to_compared(self, documents: Sequence[AnyResult]) -> Sequence[AnyResult]:
        """The same with the checksums, since by them it is known what is the same file."""
        if not self:
            return documents
        from thpdiag.redact.document import with_checksums

        plain = [as_document(one) for one in documents]
        done = map(as_document, self.apply_to_all(plain))
        return [with_checksums(one, original) for one, original in zip(done, plain, strict=True)]

    @contextmanager
    def names(self) -> Iterator[Names]:
        """The names of the mappings; what was met is kept in the first of ours."""
        from thpdiag.redact.names import Names, mapping_text, read

        known: dict[str, dict[str, str]] = {}
        target: Path | None = None
        for path in self.maps:
            text = _read_mapping(path)
            pairs, own = read(text, path) if text else ({}, True)
            target = path if own and target is None else target
            for kind, found in pairs.items():
                known.setdefault(kind, {}).update(found)
        names = Names(known)
        yield names
        if target is not None:
            _write_mapping(target, mapping_text(names))


redaction_options = as_one("redaction", Redaction, _REDACT, _MAPS)
redaction_map_option = as_one("redaction", Redaction, _MAPS)  # for a command that redacts in any case


def _read_mapping(path: Path) -> str:
    """What is in a mapping; empty if there is none yet."""
    try:
        if not path.exists():
            return ""
        if path.stat().st_size > MAX_MAPPING_BYTES:
            raise InputError(f"{path} is not a name mapping: it has more than {MAX_MAPPING_BYTES >> 20} MiB")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a name mapping: it is not text") from error


def _write_mapping(path: Path, text: str) -> None:
    """Write a mapping that only its owner can read; those to whom its owner gave it may go on."""
    try:
        path.touch(mode=0o600)
        if (mode := path.stat().st_mode) & OTHERS_MODE and path.is_file():
            path.chmod(S_IMODE(mode) & ~OTHERS_MODE)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(describe_unwritable(path, error)) from error
    notice(f"{path} written")
