"""Performance of a job: its time, latencies and work per second; start-up times of the host.

Time of a job, as bash, zsh, POSIX `time -p`, GNU time and `time -v` print it.

    real    1m0.123s
    user    0m55.010s
    sys     0m4.004s

Units: minutes and seconds, or seconds, or hours:minutes:seconds. The job is the command after `time`; zsh and `time -v`
print it.
Varies: decimal comma in some locales; zsh prints `./job 1 0.01s user 0.00s system 12% cpu 1:00.12 total`, GNU time
`0.01user 0.00system 1:00.12elapsed 12%CPU`.
Source: bash, zsh and GNU time manuals.

Latencies and work per second, as load generators and other programs print them (patterns in knowledge/workloads.yaml).

    Requests per second:    1155.01 [#/sec] (mean)
      99%     14
    SET: 109409.20 requests per second, p50=0.287 msec
    p99 = 12.3 ms

Units: seconds, and operations (or bytes) per second. The job is the command above the output, without redirections; if
there is no command, it is the load generator. `step` is the last printed digit, `lasted` the duration of the
measurement in seconds.
Varies: output in a generic form counts only below a command. Results that a command prints from a file
(`cat result.txt`) were measured at an unknown time under unknown settings and are not read.
Source: ab 2.3, wrk 4.1, hey 0.1, redis-benchmark 7.0, sysbench 1.0, pgbench 15, fio 3.33, dd, stress-ng 0.15 and
cyclictest 2.4 as they print; memtier_benchmark and YCSB by their documentation.

Start-up time of the host and its services, as systemd-analyze prints it.

    Startup finished in 3.061s (firmware) + 2.118s (loader) + 1.912s (kernel) + 22.512s (userspace) = 29.603s
     1min 12.341s postgresql.service

The start of the host is counted without firmware and boot loader; services count from ten seconds on. They are jobs, so
that starts with different settings can be compared. critical-chain adds no information and only gives a problem.
cloud-init analyze blame is the equivalent for the parts of a guest's first start:

    -- Boot Record 01 --
         13.12500s (modules-final/config-scripts_user)

Source: systemd src/analyze (time, blame, critical-chain), 204 to 258; cloud-init cloudinit/analyze/show.py, 20 to 24.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from thpdiag.knowledge.workloads import Figure, work_lines
from thpdiag.model import Fact, Problem, Record
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._cpu import cpu_seconds
from thpdiag.parsers._lines import ParseErrors, any_of, with_errors

NUMBER = r"\d{1,9}(?:[.,]\d{1,6})?"
SHELL = re.compile(rf"(real|user|sys)\s+(?:(?:(\d{{1,6}})h)?(\d{{1,9}})m)?({NUMBER})s?\s*$", re.ASCII)
ZSH = re.compile(
    rf"(.*?)\s{{1,8}}({NUMBER})s user ({NUMBER})s system \d+% cpu ((?:\d{{1,6}}:){{0,2}}{NUMBER}) total\s*$", re.ASCII
)
GNU = re.compile(rf"({NUMBER})user ({NUMBER})system ((?:\d{{1,6}}:){{0,2}}{NUMBER})elapsed \S+CPU", re.ASCII)
GNU_REST = re.compile(r"\(\d+avgtext\+\d+avgdata |\d+inputs\+\d+outputs ")
VERBOSE = re.compile(r"\s*Command being timed: \"(.*)\"\s*$")
VERBOSE_TIME = re.compile(
    rf"\s*(User time|System time|Elapsed \(wall clock\) time) \(.*\): ((?:\d{{1,6}}:){{0,2}}{NUMBER})\s*$"
)
VERBOSE_REST = re.compile(
    r"\s*(?:Percent of CPU|Average \w|Maximum resident|M(?:aj|in)or \(|(?:V|Inv)oluntary context|Swaps|File system|"
    r"Socket messages|Signals delivered|Page size|Exit status)[^:]{0,50}: \S+\s*$"
)
ORDER = ("user", "sys", "real")
KINDS = {"User time": "user", "System time": "sys", "Elapsed (wall clock) time": "real"}
_FOLDERS = r"(?>(?:[^\s/]{0,80}+/){0,9})"
TIME = re.compile(rf"{_FOLDERS}(?:command\s{{1,8}}{_FOLDERS})?time\s{{1,8}}(?:-\S{{1,80}}\s{{1,8}}){{0,8}}")
_WORD = r"(?:(?!2>)[^'\"|>&;\s])"
OUTPUT = re.compile(rf"((?>{_WORD}*(?:\s++(?>{_WORD}+))*))\s*+(?:2?>>?&?|\|&?)[^;]*$")


def job(command: str) -> str:
    """Return the measured command: without `time` and its options, and without redirections and pipes.

    >>> job("time -p ./load 64 2>&1 | tee always.txt")
    './load 64'
    """
    command = TIME.sub("", command.strip(), count=1).strip()
    return match[1] if (match := OUTPUT.fullmatch(command)) else command


def _parse_times(text: str, name: str) -> list[tuple[str, str, float | None]]:
    """Return (job, kind, seconds) for each time in a line; seconds are None if impossible."""
    if line := SHELL.match(text):
        rest = cpu_seconds(line[4])
        minutes = int(line[2] or 0) * 60 + int(line[3] or 0)
        return [(name, line[1], None if rest is None else minutes * 60 + rest)]
    if line := GNU.match(text):
        return [(name, kind, cpu_seconds(number)) for kind, number in zip(ORDER, line.groups(), strict=True)]
    if line := VERBOSE_TIME.match(text):
        return [(name, KINDS[line[1]], cpu_seconds(line[2]))]
    if line := ZSH.match(text):
        name = job(line[1]) or name
        return [(name, kind, cpu_seconds(number)) for kind, number in zip(ORDER, line.groups()[1:], strict=True)]
    return []


_is_time_line = any_of(SHELL, GNU, GNU_REST, VERBOSE_TIME, VERBOSE_REST)


@with_errors("work_time")
def read_work_time(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield work.seconds for each of real, user and sys."""
    name = job(source.command)
    for line, text in lines:
        if command := VERBOSE.match(text):
            name = command[1]
            continue
        times = _parse_times(text, name)
        if not times and text.strip() and not _is_time_line(text):
            errors.note(line, text, "not a time of a job")
        for job_name, kind, value in times:
            if value is None:
                errors.note(line, text, "an impossible time of a job: not used")
                continue
            labels = (("job", job_name), ("kind", kind)) if job_name else (("kind", kind),)
            yield Fact("work.seconds", value, source.cite(line, text), labels, source.time)


WORK_TIME = Parser(
    "work_time", "time of a job", read_work_time, continues=_is_time_line,
    opens=re.compile(
        rf"(?:real|user|sys)\s+(?:\d{{1,9}}m)?{NUMBER}s?\s*$|{GNU.pattern}|{VERBOSE.pattern}|"
        rf"\S.{{0,160}}?s user {NUMBER}s system \d+% cpu "
    ),
    confirm=lambda lines: (
        not lines[0].startswith(("user", "sys")) and (not lines[0].startswith("real") or len(lines) > 1)
    ),
)  # fmt: skip


LATENCIES = ("mean", "p50", "p90", "p95", "p99")
TIMES = ("real", "user", "sys")
RUNS = ("runs", "least", "most")
STRESS = "stress"
VARIABLES = re.compile(r"(?:[A-Za-z_]\w*=\S*\s+)*")  # environment variables before a command
SHOW_COMMAND = re.compile(r"(?:sudo\s+)?(?:cat|tail|head|less|more|z?e?grep|diff|paste|watch)\b")


def read_work_figures(source: Source, lines: Lines) -> Iterator[Record]:
    """Yield work.latency, work.rate and work.seconds."""
    if SHOW_COMMAND.match(source.command):
        return
    block = _Block(source, job(source.command))
    begin = (0, "")
    for number, line in lines:
        begin = begin if begin[0] else (number, line)
        block.parse_line(number, line)
    yield from block.complete_facts()
    if block.tool == STRESS and not block.facts:
        text = (
            "stress counts no work: what it did is unknown. stress-ng --metrics-brief makes the same load and counts it"
        )
        yield Problem(source.cite(*begin), text, reader="work_figures")


@dataclass(slots=True)
class _Block:
    """The figures of one output. Its duration may be printed after them."""

    source: Source
    job: str
    tool: str = ""  # the tool that printed the block, identified by the first figure
    heading: Figure | None = None
    unit: str = ""
    title: str = ""
    lasted: str = ""
    facts: list[Fact] = field(default_factory=list)
    runs: dict[str, dict[str, str]] = field(default_factory=dict)  # number of runs and their extremes, by job

    def parse_line(self, number: int, line: str) -> None:
        is_known = False
        for figure in work_lines().figures:
            if not figure.tool and (is_known or not self.job):  # generic patterns do not apply to the line of a tool
                continue
            if figure.under and not self._is_under(figure):
                continue
            for match in figure.line.finditer(line):
                if figure.tool and self._is_line_of_current_tool(figure, line):
                    break
                is_known, self.tool = True, self.tool or figure.tool
                groups = {name: text for name, text in match.groupdict().items() if text is not None}
                self.title = groups.get("title", self.title)
                if "job" in groups:
                    variables = VARIABLES.match(self.source.command)
                    self.job = f"{variables[0] if variables else ''}{groups['job']}"
                if figure.heading:
                    self.heading, self.unit = figure, groups.get("unit", "")
                if "lasted" in groups:
                    unit = "" if "rate" in groups else figure.unit or groups.get("unit", "")
                    self.lasted = f"{float(groups['lasted']) * work_lines().units[unit]:g}"
                self._add_figures(figure, groups, number, line)

    def _is_line_of_current_tool(self, figure: Figure, line: str) -> bool:
        """Return whether a line that fits another tool also fits the tool of the block, which then has precedence."""
        if self.tool in ("", figure.tool):
            return False
        return any(other.tool == self.tool and other.line.search(line) for other in work_lines().figures)

    def _is_under(self, figure: Figure) -> bool:
        return self.heading is not None and (self.heading.tool, self.heading.heading) == (figure.tool, figure.under)

    def _add_figures(self, figure: Figure, groups: dict[str, str], number: int, line: str) -> None:
        units, unit_name = work_lines().units, figure.unit or groups.get("unit", "")
        for name in TIMES:
            if name in groups:
                self._add("work.seconds", name, figure, groups[name], units[unit_name], number, line)
        if runs := {name: groups[name] for name in RUNS if name in groups}:
            factors = {name: 1.0 if name == "runs" else units[unit_name] for name in runs}
            sizes = {name: f"{float(text) * factors[name]:g}" for name, text in runs.items()}
            self.runs.setdefault(self.job, {}).update(sizes)
        latencies = {name: groups[name] for name in LATENCIES if name in groups}
        if (percent := f"p{groups.get('percent', '')}") in LATENCIES:
            latencies[percent] = groups["value"]
        for name, text in latencies.items():
            unit = units[unit_name or (self.unit if figure.under else "")]
            self._add("work.latency", name, figure, text, unit, number, line)
        if "rate" in groups:
            factor = 1 if unit_name in ("ms", "msec") else units[unit_name]  # ms is the unit of a latency in the line
            self._add("work.rate", figure.of, figure, groups["rate"], factor, number, line)

    def _add(self, name: str, kind: str, figure: Figure, text: str, unit: float, number: int, line: str) -> None:
        digits = len(text.partition(".")[2])
        labels: tuple[tuple[str, str], ...] = (
            ("job", self.job or figure.tool), ("kind", kind), ("title", self.title), ("tool", figure.tool),
            ("step", f"{10**-digits * unit:g}"),
        )  # fmt: skip
        labels = tuple((key, value) for key, value in labels if value)
        value = float(f"{float(text) * unit:.9g}")
        self.facts.append(Fact(name, value, self.source.cite(number, line), labels, self.source.time))

    def complete_facts(self) -> Iterator[Fact]:
        """Yield the facts with the duration and the number of runs, which may follow the figures."""
        for fact in self.facts:
            lasted = (("lasted", self.lasted),) if self.lasted else ()
            runs = self.runs.get(fact.label("job") or "", {}) if fact.name == "work.seconds" else {}
            yield Fact(fact.name, fact.value, fact.cite, (*fact.labels, *lasted, *runs.items()), fact.time)


PERF_STAT = re.compile(r"\s{0,4}Performance counter stats for \S")


def _is_figure_line(text: str) -> bool:
    """Return whether a line continues such an output. perf stat has a separate parser, which calls this one."""
    known = work_lines()
    if PERF_STAT.match(text):
        return False
    return not text.strip() or bool(known.rest.match(text)) or any(figure.line.search(text) for figure in known.figures)


WORK_FIGURES = Parser(
    "work_figures", "latency and work per second", read_work_figures, opens=work_lines().opens,
    continues=_is_figure_line,
)  # fmt: skip


_SPAN = r"(?:\d{1,9}(?:\.\d{1,6})?(?:y|month|w|d|h|min|s|ms|us) ?){1,8}"
_SPAN_UNITS = {"w": 604800.0, "d": 86400.0, "h": 3600.0, "min": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}
_SPAN_PART = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(y|month|w|d|h|min|s|ms|us)")
_STARTUP = re.compile(rf"Startup finished in (?P<parts>(?:{_SPAN}\(\w{{1,20}}\)(?: \+ )?){{1,8}})(?: ?= {_SPAN})?\s*$")
_STARTUP_PART = re.compile(rf"({_SPAN})\((\w{{1,20}})\)")
_TARGET = re.compile(rf"[\w@.\\-]{{1,200}}\.target reached after {_SPAN}in userspace\.?\s*$")
_BLAME = re.compile(
    rf" {{0,20}}(?P<span>{_SPAN})(?P<unit>[^\s/]{{1,200}}"
    r"\.(?:service|device|mount|swap|socket|target|timer|path|slice))\s*$"
)
_CHAIN = re.compile(
    rf"(?:[ │|]{{0,200}}[└├`|]─?-?)?(?:\.\.\.|[^\s/]{{1,200}}\.\w{{4,10}})(?: @{_SPAN})?(?: ?\+{_SPAN})?\s*$"
)
_CLOUD_HEAD = re.compile(r"-- Boot Record \d{1,4} --\s*$|\d{1,4} boot records analyzed\s*$")
_CLOUD_BLAME = re.compile(r"\s{1,12}(?P<seconds>\d{1,9}\.\d{5})s \((?P<part>[\w./-]{1,200})\)\s*$")
_CHAIN_HEAD = re.compile(r"The time (?:when|after) (?:the )?unit|The time the unit took to start is printed")
PARTS_BEFORE_KERNEL = frozenset(("firmware", "loader"))
MIN_START_SECONDS = 10.0  # shorter start-up times of services vary too much


def _span(text: str) -> float | None:
    """Parse a time span of systemd to seconds; None if it has months or years."""
    parts = _SPAN_PART.findall(text)
    if any(unit not in _SPAN_UNITS for _, unit in parts):
        return None
    return round(sum(float(number) * _SPAN_UNITS[unit] for number, unit in parts), 6)


@with_errors("systemd_analyze")
def read_systemd_analyze(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield work.seconds of the start of the host, and of services that took long to start."""
    chain, has_times = (0, ""), False
    for number, line in lines:
        seconds, job_name = None, ""
        chain = (number, line) if _CHAIN_HEAD.match(line) and not chain[0] else chain
        if startup := _STARTUP.match(line):
            parts = [span for span, part in _STARTUP_PART.findall(startup["parts"]) if part not in PARTS_BEFORE_KERNEL]
            spans = [span for text in parts if (span := _span(text)) is not None]
            seconds, job_name = (
                (round(sum(spans), 6) if spans and len(spans) == len(parts) else None),
                "start of the host",
            )
        elif blame := _BLAME.match(line):
            seconds, job_name = _span(blame["span"]), f"start of {blame['unit']}"
            if not blame["unit"].endswith(".service") or seconds is None or seconds < MIN_START_SECONDS:
                continue
        elif part := _CLOUD_BLAME.match(line):
            has_times, seconds, job_name = True, float(part["seconds"]), f"start of {part['part']}"
            seconds = seconds if seconds >= MIN_START_SECONDS else None
        elif not _is_other_analyze_line(line):
            errors.note(number, line, "not a line of systemd-analyze")
        if seconds is not None:
            has_times, labels = True, (("job", job_name), ("kind", "real"))
            yield Fact("work.seconds", seconds, source.cite(number, line), labels, source.time)
    if chain[0] and not has_times:
        text = "the order in which units waited for each other (critical-chain) says nothing of memory: not used"
        yield Problem(source.cite(*chain), text, reader="systemd_analyze")


_is_other_analyze_line = any_of(_CLOUD_HEAD, _TARGET, _CHAIN, _CHAIN_HEAD, blank=True)
SYSTEMD_ANALYZE = Parser(
    "systemd_analyze", "how long the host and its services took to start: systemd-analyze time, blame, critical-chain",
    read_systemd_analyze,
    opens=re.compile(rf"{_STARTUP.pattern}|{_BLAME.pattern}|{_CHAIN_HEAD.pattern}|{_CLOUD_HEAD.pattern}"),
    continues=any_of(_STARTUP, _TARGET, _BLAME, _CHAIN, _CHAIN_HEAD, _CLOUD_HEAD, _CLOUD_BLAME, blank=True),
    confirm=lambda lines: not _BLAME.match(lines[0]) or len(lines) == 1 or bool(_BLAME.match(lines[1])),
)  # fmt: skip
