"""Options that several commands share, and the delivery of a result: output files and exit code.

Related options reach a command as one named tuple (`group_options`): `Reading`, `RuleChoice`, `Delivery`, `Accepting`,
`Redaction`.
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
from thpdiag.cli.terminal import notice as notice
from thpdiag.cli.terminal import print_message as print_message
from thpdiag.cli.terminal import print_progress, save_option, saved_option, show_progress, shows_color
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
MAX_NEIGHBOURS = 10_000  # names of a folder that are compared with a missing one
SUFFIXES = {"txt": "text", "htm": "html", "md": "markdown", "xml": "junit"}
SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"  # names the file to which the commands of a CI step append

_Command = Callable[..., Any]
_Decorator = Callable[[_Command], _Command]


def group_options(name: str, tuple_class: type[Any], *options: _Decorator) -> _Decorator:
    """Return a decorator that adds options, and passes the fields of a named tuple as one parameter `name`."""

    def decorate(command: _Command) -> _Command:
        @wraps(command)
        def with_options(**parameters: Any) -> Any:
            fields = {field: parameters.pop(field) for field in tuple_class._fields if field in parameters}
            return command(**parameters, **{name: tuple_class(**fields)})

        return combine_options(*options)(with_options)

    return decorate


def combine_options(*options: _Decorator) -> _Decorator:
    """Combine several options to one decorator, in the order of the help."""

    def decorate(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


PATHS = click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))


def format_option(formats: Collection[str] = ("text", "json"), default: str = "text") -> _Decorator:
    """Return the option `-f` with these formats."""
    choice = click.Choice(sorted(formats), case_sensitive=False)
    return click.option(
        "-f", "--format", "form", type=choice, default=default, show_default=True, help="The format to print."
    )


FORMAT = format_option(FORMATS)
PATHS_OF_FILES = click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))


def output_option(help: str, *, required: bool = False) -> _Decorator:
    """Return the repeatable option `-o`: a file in the format of its suffix, or `FORMAT=PATH`."""
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


EXTENT = combine_options(
    click.option(
        "--short", "extent", flag_value="short", help="Text: print only the first block, to paste into a ticket."
    ),
    click.option("--full", "extent", flag_value="full", help="Text: print everything, including the cited lines."),
)
COLOR = click.option(
    "--color", type=click.Choice(["auto", "always", "never"], case_sensitive=False), expose_value=False,
    callback=save_option, help="When to color text: `auto` colors on a terminal and respects NO_COLOR and FORCE_COLOR.",
)  # fmt: skip
QUIET = click.option(
    "-q", "--quiet", is_flag=True, default=None, expose_value=False, callback=save_option,
    help="Print only errors on stderr: no progress, no notices.",
)  # fmt: skip
PROGRESS_KINDS = ("auto", "log", "json", "none")


class ProgressKind(click.Choice[str]):
    """The kinds of progress; `no` is accepted as the former name of `none`."""

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
    """Raise UsageError for a folder without rules."""
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
PROGRESS = combine_options(
    click.option(
        "--progress", type=ProgressKind(), expose_value=False, callback=save_option,
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
    """Folders with additional rules, and changed parameters."""

    folders: tuple[Path, ...]
    changes: tuple[str, ...]

    def rules(self) -> tuple[Rule, ...]:
        return rule_set(self.folders, self.changes)


rule_options = group_options("chosen", RuleChoice, RULES, SET)


class Reading(NamedTuple):
    """The selection of the input: process and time range."""

    process: str
    since: str | None
    until: str | None
    at: str | None
    strict: bool

    def named_options(self, rules: Sequence[Rule]) -> dict[str, str]:
        """The options that differ from the default, for the document."""
        fields = {"since": self.since, "until": self.until, "at": self.at, "process": self.process}
        return {name: value for name, value in {**fields, "set": changed_params(rules)}.items() if value}

    def options(self, rules: Sequence[Rule] = (), case: str = "") -> Options:
        window = parse_window(self.since, self.until, self.at)
        return Options(window, case, self.process, strict=self.strict, typed_options=self.named_options(rules))


def quantity_callback(
    example: str, minimum: str
) -> Callable[[click.Context, click.Parameter, str | None], float | None]:
    """Return a click callback that parses a quantity with a unit like that of the example, in base units."""
    units = units_like(split_unit(example)[1])

    def parse(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
        if text is None:
            return None
        try:
            value, unit = split_unit(text)
        except ValueError:
            value, unit = 0.0, ""
        if unit not in units or not parse_quantity(minimum) <= value < math.inf:
            raise click.BadParameter(f"{text!r}; at least {minimum}, written like {example!r}, in {', '.join(units)}")
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
    """The limits of an analysis: bytes of memory, seconds for reading. None is the default."""

    max_memory: float | None
    max_time: float | None

    def apply(self, options: Options) -> Options:
        """Return the options with the time limit of reading."""
        if not self.max_time:
            return options
        return replace(options, limits=replace(options.limits, cpu_seconds=self.max_time, wall_seconds=self.max_time))

    def child_limits(self, *, every_layer: bool) -> sandbox.Limits:
        """Return the limits of a child process, which has more time than reading, to evaluate the rules."""
        check_linux("--isolate")
        from thpdiag import isolated  # rarely needed

        base, reading = replace(isolated.LIMITS, every_layer=every_layer), Options().limits
        more_cpu = self.max_time - reading.cpu_seconds if self.max_time else 0
        more_wall = self.max_time - reading.wall_seconds if self.max_time else 0
        cpu, wall = base.cpu_seconds + math.ceil(more_cpu), base.wall_seconds + more_wall
        return replace(base, cpu_seconds=cpu, wall_seconds=wall, memory=int(self.max_memory or base.memory))


ceiling_options = group_options("ceiling", Ceiling, _MAX_MEMORY, _MAX_TIME)
reading_options = group_options("reading", Reading)
selection_options = group_options("reading", Reading, PROCESS, SINCE, UNTIL, AT, PROGRESS, STRICT)


def progress_display(*, wanted: bool = True) -> AbstractContextManager[Progress | None]:
    """Return the display of progress for `--progress`; by default only on a terminal."""
    kind = "none" if saved_option("quiet") or not wanted else saved_option("progress", "auto")
    if kind in ("log", "json"):
        return print_progress(kind)
    if kind == "none" or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return nullcontext()
    return show_progress()


def rule_by_id(wanted: str, rules: Sequence[Rule]) -> Rule:
    """Return the rule with this id (in any case), mechanism, or words in its title; raises UsageError.

    Of several rules the one whose file is named after the mechanism is preferred, then the most severe; a notice lists
    the others.
    """
    matches = matching_rules(wanted, rules)
    if not matches:
        raise UsageError(f"no rule {wanted!r}{_similar_rule(wanted, rules)}; `thpdiag rules list` has all")
    if len(matches) > 1:
        others = ", ".join(f"{rule.id} ({rule.file.title})" for rule in matches[1:MAX_LISTED_RULES])
        more = f" and {len(matches) - MAX_LISTED_RULES} more" if len(matches) > MAX_LISTED_RULES else ""
        notice(f"{matches[0].id} of {len(matches)} rules for {wanted!r}; others: {others}{more}")
    return matches[0]


MAX_LISTED_RULES = 5
_PREFERRED_ROLES = ("root_cause", "alternative", "contributing")


def matching_rules(wanted: str, rules: Sequence[Rule]) -> list[Rule]:
    """Return the rules with this id, else this mechanism, else all the words in their titles; causes first."""

    def order(rule: Rule) -> tuple[bool, int, int, str]:
        is_main = Path(rule.source.path).stem == rule.file.mechanism
        role = rule.file.role
        rank = _PREFERRED_ROLES.index(role) if role in _PREFERRED_ROLES else len(_PREFERRED_ROLES)
        return not is_main, rank, -SEVERITIES.index(rule.file.severity), rule.id

    words = re.findall(r"\w+", wanted.lower())
    for matches in (
        [rule for rule in rules if rule.id == wanted.upper()],
        [rule for rule in rules if rule.file.mechanism == wanted.lower()],
        [rule for rule in rules if words and set(words) <= set(re.findall(r"\w+", rule.file.title.lower()))],
        [
            rule
            for rule in rules
            if words and all(w in f"{rule.file.title} {rule.file.mechanism}".lower() for w in words)
        ],
    ):
        if matches:
            return sorted(matches, key=order)
    return []


def _similar_rule(wanted: str, rules: Sequence[Rule]) -> str:
    """Suggest a rule: for an id those with the same number, else a similar mechanism."""
    if re.fullmatch(r"[A-Za-z]+-?\d+", wanted):
        digits = re.sub(r"\D", "", wanted).zfill(2)
        ids = [rule.id for rule in rules if rule.id.endswith((f"-{digits}", f"-0{digits}"))]
        return f"; did you mean {' or '.join(map(repr, ids[:2]))}?" if ids and wanted.upper() not in ids else ""
    return suggestion(wanted.lower(), {rule.file.mechanism for rule in rules})


def missing_path_error(paths: Sequence[Path]) -> InputError | None:
    """Return the error for the first path that does not exist, or None."""
    missing = next((path for path in paths if str(path) != "-" and not path.exists()), None)
    if missing is None:
        return None
    if ADDRESS.match(str(missing)):
        address = re.sub(":/+", "://", visible(str(missing)), count=1)  # a Path keeps one slash
        return InputError(f"{address} is an address; download it first, or give it to `thpdiag triage`")
    return InputError(f"{visible(str(missing))}: no such file or folder{_similar_path(missing) or '; check the path'}")


def _similar_path(path: Path) -> str:
    """Suggest a similar name in the folder of a missing path."""
    try:
        names = [entry.name for entry in islice(path.parent.iterdir(), MAX_NEIGHBOURS)]
    except OSError:
        return f"; no such folder: {path.parent}" if not path.parent.exists() else ""
    return visible(suggestion(path.name, names))


def empty_input_error(paths: Sequence[Path], document: AnyResult) -> InputError | None:
    """Return the error for an input of empty files, empty folders or reports only; else None."""
    rows = [row for one in documents(document) for row in one.inputs]
    if rows and all(row.reader == OWN_REPORT for row in rows):
        return InputError(unrecognised_reason(document))
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
    """Parse the values of `-o` to (format, file) pairs; the format is that of the suffix unless it is named.

    With a `default`, which is for unknown suffixes, a path may contain `=`: only a known format before it counts.
    """
    targets = []
    for text in outputs:
        name, separator, rest = text.partition("=")
        if not separator or (default and name not in formats):  # the longest suffix counts: stacks.speedscope.json
            double_suffix = next((form for form in formats if text.endswith(f".{form}.json")), "")
            name, rest = double_suffix or Path(text).suffix.lstrip(".") or text, text
        form = suffixes.get(name, name)
        if default and form not in formats and form not in RENDERED_SUFFIXES:
            form = default
        if form not in formats or not rest:
            problem = f"-o {text!r}: no format has this name; write FORMAT=PATH, or a file such as report.html"
            if Path(text).is_dir():
                example = Path(text, "report.html")
                problem = f"-o: {text} is a folder; write FORMAT=PATH, or a file in it, such as {example}"
            elif default:
                problem = f"-o {text!r}: this command does not write {form}; write FORMAT=PATH"
            raise UsageError(f"{problem}; formats are {', '.join(sorted(formats))}")
        targets.append((form, Path(rest)))
    _check_outputs([path for _, path in targets])
    return targets


RENDERED_SUFFIXES = frozenset(("html", "htm", "pdf", "png", "svg"))  # never written in the default format


def _check_outputs(paths: Sequence[Path]) -> None:
    """Refuse before the analysis files that cannot be written, and two formats for the same file."""
    for path in paths:
        if str(path) == "-":
            continue
        if path.is_dir():
            raise UsageError(f"-o: {path} is a folder; name a file in it")
        if not path.parent.is_dir():
            raise UsageError(f"-o: {path} cannot be written: no such folder: {path.parent}; create it first")
    files = [str(path) if str(path) == "-" else path.resolve() for path in paths if not _is_appended(path)]
    if duplicates := [path for path in files if files.count(path) > 1]:
        file = "stdout" if duplicates[0] == "-" else duplicates[0]
        raise UsageError(f"-o: two formats cannot both go to {file}; name another file")


def _is_appended(path: Path) -> bool:
    """Whether writing appends to the path: the summary of a CI step, a pipe, a device."""
    return str(path) == os.environ.get(SUMMARY_VARIABLE) or (path.exists() and not path.is_file())


T = TypeVar("T", contravariant=True)


class Renderer(Protocol[T]):
    """A function that renders a document in a format."""

    def __call__(self, document: T, presentation: Presentation, /) -> str: ...


class Delivery(NamedTuple):
    """The formats, files and presentation of a result."""

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
        """Write the result to the files, and to stdout unless it is among these; `silent` omits text on stdout."""
        omits_stdout = any(str(path) == "-" for _, path in files) or (silent and self.form == "text")
        targets = (*(() if omits_stdout else ((self.form, Path("-")),)), *files)
        for number, (name, path) in enumerate(targets):
            with progress_display(wanted=watched) as show:
                if show:
                    from thpdiag.host.reading import Step  # already imported for progress

                    show(Step("write", number, len(targets), name))
                color = str(path) == "-" and shows_color()
                text = formats[name](document, self.presentation._replace(color=color))
            write(text, path)


delivery_options = group_options("delivery", Delivery)


def write(content: str | bytes, path: Path) -> None:
    """Write to a file, or to stdout for `-`; append to the summary of a CI step, which has other writers.

    The encoding is UTF-8, except on a terminal.
    """
    if str(path) == "-":
        is_terminal = sys.stdout is not None and sys.stdout.isatty()
        try:
            click.echo(content if is_terminal or isinstance(content, bytes) else content.encode(), nl=False)
        except BrokenPipeError:  # `| head`: drop the rest; other files and the exit code are unaffected
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
    """Refuse to overwrite other files than timings: in `--timings a.tar b.tar` the first bundle is taken for a file."""
    path = Path(name or "-")
    if str(path) == "-" or not path.exists():
        return
    head = path.read_bytes()[: len(TITLE)] if path.is_file() else b""
    if head != TITLE.encode():
        raise UsageError(f"--timings takes a new file, and {path} already exists (--timings=- is stderr)")


def write_timings(times: Timings, name: str) -> None:
    """Write the timings to stderr (`-`) or a file."""
    text = "\n".join(times.lines())
    if name == "-":
        click.echo(text, err=True)
    else:
        write(text + "\n", Path(name))


def format_problem(problem: Problem) -> str:
    """Format a problem with its member."""
    return visible(f"{problem.cite.member}: {problem.text!s}")


def unrecognised_reason(document: AnyResult) -> str:
    """Return the message for an input in which nothing was recognised."""
    if any(row.reader == OWN_REPORT for one in documents(document) for row in one.inputs):
        return "the input is a report of thpdiag, not what a host recorded; `thpdiag render` shows a saved result"
    return NOTHING_RECOGNISED


def exit_with_result(document: AnyResult, code: int | None = None, error: InputError | None = None) -> NoReturn:
    """Exit with the code of the result. If nothing was recognised, print the error or the reason."""
    if not is_recognised(document):
        print_message(str(error or unrecognised_reason(document)))
    raise Exit(exit_code(document) if code is None else code)


MAX_WARNINGS = 8  # printed without -v
OTHERS_MODE = 0o007  # permissions of other users
MAX_MAPPING_BYTES = 64 << 20


def parse_day(text: str, option: str) -> date:
    """Parse the date of an option; raises UsageError."""
    from thpdiag.report.baseline import day

    try:
        return day(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


def parse_today(text: str) -> date:
    """Return the date of `--today`, or the current local date."""
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
    """The files that accept findings, and the date for their expiry."""

    suppress: Sequence[Path]
    baselines: Sequence[Path]
    today: str

    def __bool__(self) -> bool:
        return bool(self.suppress or self.baselines)

    def mark(self, document: AnyResult, verbosity: int = 0) -> AnyResult:
        """Return the result with accepted findings marked, and print warnings about the files."""
        if not self:
            return document
        judge = self.judge()
        marked = judge.mark_document(document)
        report_warnings(list(judge.warnings()), list(judge.notes()), verbosity)
        return marked

    def judge(self) -> Judge:
        """Return the judge of accepted findings, which can be used for many documents."""
        from thpdiag.report.baseline import Judge, read_baseline, read_suppressions

        entries: list[Acceptance] = [entry for path in self.suppress for entry in read_suppressions(path)]
        entries += [entry for path in self.baselines for entry in read_baseline(path)]
        digests = {  # the names of the files in the result, without folders; the date is only in the marks
            name: ", ".join(f"{path.name} (sha256 {sha256(path.read_bytes()).hexdigest()[:12]})" for path in paths)
            for name, paths in (("suppress", self.suppress), ("baseline", self.baselines))
        }
        return Judge(entries, parse_today(self.today), digests)


acceptance_options = group_options("accepting", Accepting, _SUPPRESS, _BASELINE, TODAY)


def report_warnings(warnings: Sequence[str], notes: Sequence[str], verbosity: int = 0) -> None:
    """Print warnings on stderr, without -v only the first ones; notes only with -v."""
    shown = warnings if verbosity else warnings[:MAX_WARNINGS]
    for text in (*shown, *(notes if verbosity else ())):
        print_message(visible(text))
    if len(warnings) > len(shown):
        print_message(f"and {len(warnings) - len(shown)} more entries without effect (-v)")


_REDACT = click.option(
    "--redact", is_flag=True,
    help="Replace the customer's hosts, addresses, users, paths, and programs with pseudonyms.",
)  # fmt: skip
_MAPS = click.option(
    "--redact-map", "maps", multiple=True, type=click.Path(dir_okay=False, path_type=Path),
    help="Read and save the name mapping here; a `sos clean` mapping is only read. Implies --redact.",
)  # fmt: skip


class Redaction(NamedTuple):
    """Whether the customer's names are replaced, and the files with the name mapping."""

    redact: bool = True
    maps: Sequence[Path] = ()

    def __bool__(self) -> bool:
        return bool(self.redact or self.maps)

    def apply(self, document: AnyResult) -> AnyResult:
        """Return the redacted result, or the result itself without redaction."""
        return self.apply_to_all([document])[0]

    def apply_to_all(self, documents: Sequence[AnyResult]) -> Sequence[AnyResult]:
        """Redact several results with one mapping: a host has the same pseudonym in all of them."""
        if not self:
            return documents
        from thpdiag.redact.document import redact_together

        with self.names() as names:
            return redact_together(list(map(as_document, documents)), names)

    def apply_to_compared(self, documents: Sequence[AnyResult]) -> Sequence[AnyResult]:
        """Redact several results but keep the checksums, by which a comparison identifies equal files."""
        if not self:
            return documents
        from thpdiag.redact.document import with_checksums

        plain = list(map(as_document, documents))
        return list(map(with_checksums, map(as_document, self.apply_to_all(plain)), plain))

    @contextmanager
    def names(self) -> Iterator[Names]:
        """Yield the names of all mappings; at the end save them to the first mapping in the format of thpdiag."""
        from thpdiag.redact.names import Names, mapping_text, read

        known: dict[str, dict[str, str]] = {}
        target: Path | None = None
        for path in self.maps:
            text = _read_mapping(path)
            pairs, is_writable = read(text, path) if text else ({}, True)
            target = path if is_writable and target is None else target
            for kind, pseudonyms in pairs.items():
                known.setdefault(kind, {}).update(pseudonyms)
        names = Names(known)
        yield names
        if target is not None:
            _write_mapping(target, mapping_text(names))


redaction_options = group_options("redaction", Redaction, _REDACT, _MAPS)
redaction_map_option = group_options("redaction", Redaction, _MAPS)  # for a command that always redacts


def _read_mapping(path: Path) -> str:
    """Read a mapping; empty if the file does not exist yet."""
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
    """Write a mapping without permissions for other users; those of the owner and group are kept."""
    try:
        path.touch(mode=0o600)
        if (mode := path.stat().st_mode) & OTHERS_MODE and path.is_file():
            path.chmod(S_IMODE(mode) & ~OTHERS_MODE)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(describe_unwritable(path, error)) from error
    notice(f"{path} written")
