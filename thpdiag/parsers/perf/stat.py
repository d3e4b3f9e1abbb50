r"""perf stat: counts of events of a command, a process or the host (text, -I, -x, -j). perf mem report: TLB of loads.

     Performance counter stats for process id '4711':

               945086      page-faults                      #  486.885 K/sec
      <not supported>      dTLB-load-misses

          2.001981675 seconds time elapsed

    #           time             counts unit events
         0.500575340              56412      page-faults            (-I 500)
         0.500548023,52392,,page-faults,1001315121,100.00,,         (-I 500 -x,)
    {"interval" : 0.500, "counter-value" : "48446.0", "unit" : "", "event" : "page-faults", ...}   (-I 500 -j)

The time of a command is work done (thpdiag.parsers.work). Page faults per second of the host (-a) and of one process
(-p) are those of sar -B and pidstat -r; those of a command belong to neither. Tracepoints of the host are counters of
/proc/vmstat (COUNTERS of _kernel_events) except mm_page_alloc_extfrag, which also counts fallbacks that do not fragment
a block. The time counted comes from `seconds time elapsed`, from the times of -I, or from `sleep N`, the usual job.
Rows of sockets, nodes or cores (`N0 16 120012 page-faults`) are added up. Units: counts, msec of task-clock; means with
-r. `<not supported>` (virtual machines) and `<not counted>` are unknown, never 0. Page walks, for addresses that no TLB
has: dTLB-load-misses per instruction, and cycles of walks per cycle where these were counted. Varies: `user` and `sys`
from 4.20, JSON from 5.19; thousands separators by locale. Source: tools/perf/util/stat-display.c.

perf mem report --stdio: slow loads, by the TLB that had their address.

    # Overhead       Samples  Local Weight  Memory access             Symbol  ...  TLB access              Locked
        2.14%             3  1204          Local RAM hit             [.] walk  ...  L2 miss                 No

Units: weight (cycles) as Overhead. Only slow loads are recorded, so the share is not that of all loads. `Walker hit`
and `L2 miss` are walks. Source: tools/perf/util/mem-events.c (perf_mem__tlb_scnprintf).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from thpdiag.model import Citation, Entity, Fact, Record, Sample
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._kernel_events import COUNTERS, REQUEST
from thpdiag.parsers._lines import ParseErrors, any_of, with_errors
from thpdiag.parsers._units import MAX_QUANTITY
from thpdiag.parsers.work import PERF_STAT, read_work_figures

READER = "perf_stat"
NOT_COUNTED = r"<not (?:supported|counted)>"
CPU_GROUP = r"[SN]\d{1,4}(?:-[A-Z]{1,2}\d{1,4}){0,3}"  # --per-socket, --per-node or --per-core
EVENT_NAME = r"[A-Za-z][\w./:=,-]{1,90}"
TEXT_ROW = re.compile(
    rf"\s*(?:(?P<at>\d{{1,9}}\.\d{{9}})\s+)?(?:(?P<part>{CPU_GROUP})\s+\d{{1,5}}\s+)?(?P<count>\d[\d.,\u202f\xa0]{{0,30}}|{NOT_COUNTED})\s+"
    rf"(?:(?P<unit>msec|ns|Joules|MiB|Bytes|%)\s+)?(?P<event>{EVENT_NAME}?),?(?:\s+(?:#|\().*|\s*)$"
)
CSV_ROW = re.compile(
    rf"\s*(?:(?P<at>\d{{1,9}}\.\d{{9}})(?P<sep>[,;\t]))?(?:(?P<part>{CPU_GROUP})[,;\t]\d{{1,5}}[,;\t])?(?P<count>\d{{1,18}}(?:\.\d{{1,9}})?|{NOT_COUNTED})[,;\t]"
    rf"(?P<unit>\w{{0,8}})[,;\t](?P<event>[A-Za-z][\w./:=-]{{1,90}})[,;\t]\d{{1,18}}[,;\t]\d{{1,3}}\.\d\d(?:[,;\t].*)?$"
)
JSON_ROW = re.compile(
    r'\{(?:"interval" : (?P<at>\d{1,9}\.\d{1,9}), )?'
    rf'"counter-value" : "(?P<count>\d{{1,18}}(?:\.\d{{1,9}})?|{NOT_COUNTED})", '
    rf'"unit" : "(?P<unit>\w{{0,8}})", "event" : "(?P<event>{EVENT_NAME})", .{{0,400}}\}}\s*$'
)
ROW_FORMS = (CSV_ROW, JSON_ROW, TEXT_ROW)
INTERVALS = re.compile(r"#\s+time\s+(?:counts|cpu\s+counts)\s+unit\s+events\s*$")
STARTED = re.compile(r"# started on \w{3} \w{3} ")
ELAPSED = re.compile(r"\s*(\d{1,9}[.,]\d{1,9})(?: \+- [\d.,]+)? seconds time elapsed")
IGNORED = re.compile(
    r"\s*[\d.,]{1,20} seconds (?:user|sys)\b|Some events weren't counted|\s*#\s|\s*\(?The counter|\s*echo \d|"
    r"\s*perf stat "
)
PROCESS_RUN = re.compile(r"\s*Performance counter stats for process id '(\d{1,10})'")
NO_JOB_RUN = re.compile(r"\s*Performance counter stats for (?:process id|thread id|'system wide'|'CPU\(s\))")
HOST_RUN = re.compile(r"\s*Performance counter stats for 'system wide'")
TRACEPOINTS = (("compaction", REQUEST), ("vmscan", "mm_vmscan_direct_reclaim_begin"))
HOST_RATES = {"page-faults": "node_vmstat_pgfault:rate", "faults": "node_vmstat_pgfault:rate",
              "major-faults": "node_vmstat_pgmajfault:rate", "context-switches": "node_context_switches_total:rate",
              "cs": "node_context_switches_total:rate",
              **{f"{group}:{event}": f"{COUNTERS[event]}:rate" for group, event in TRACEPOINTS}}  # fmt: skip
PROCESS_RATES = {"page-faults": "process_faults_total:rate", "faults": "process_faults_total:rate",
                 "minor-faults": "process_minor_faults_total:rate", "major-faults": "process_major_faults_total:rate",
                 "task-clock": "process_cpu_ratio"}  # fmt: skip
WALKS = re.compile(r"dTLB-load-misses|dtlb_load_misses\.(?:miss_causes_a_walk|walk_completed)")
WALK_CYCLES = re.compile(r"dtlb_load_misses\.(?:walk_active|walk_duration)")
CYCLES = re.compile(r"(?:cpu-)?cycles|cpu_clk_unhalted\.thread")
INSTRUCTIONS = re.compile("instructions")
MAX_EVENTS = 1000  # per run
MAX_LINES = 1000  # of a run that are searched for the time of its job
MIN_INSTRUCTIONS = 1e8  # a hundredth of a second of CPU time


class Count(NamedTuple):
    """A row: event, count (None: not counted; a clock in seconds), time of -I, and whether it is of some CPUs only."""

    event: str
    value: float | None
    at: str
    is_partial: bool


def parse_count_row(text: str) -> Count | None:
    """Return the row on this line in any of the forms, None if there is none."""
    match = next(filter(None, (form.match(text) for form in ROW_FORMS)), None)
    if match is None:
        return None
    unit, count, time = match["unit"] or "", match["count"], match["at"] or ""
    is_partial = bool(match.groupdict().get("part"))
    if count.startswith("<"):
        return Count(match["event"], None, time, is_partial)
    if match.re is TEXT_ROW and not unit:
        count = re.sub(r"\D", "", count)  # thousands separators
    elif match.re is TEXT_ROW:
        whole, _, part = re.sub(r"[^\d.,]", "", count).replace(",", ".").rpartition(".")
        count = f"{whole.replace('.', '')}.{part}" if whole else part
    value = float(count) / (1000 if unit == "msec" else 1)
    return Count(match["event"], value, time, is_partial) if value <= MAX_QUANTITY else None


@dataclass(slots=True)
class _Run:
    """One run of perf stat: the subject of the counts, their sums, and the counts of the open interval."""

    source: Source
    is_host: bool = False
    entity: Entity = ()
    is_job: bool = False  # its time is work done; for the host or a process it is only the time of observation
    lines: list[tuple[int, str]] = field(default_factory=list)
    elapsed: float = 0.0
    sums: dict[str, tuple[float, Citation]] = field(default_factory=dict)
    at: str = ""
    began: float = 0.0
    counts: dict[str, float] = field(default_factory=dict)
    event_of_metric: dict[str, str] = field(default_factory=dict)  # the event of a metric's count
    first: Citation | None = None

    def __post_init__(self) -> None:
        self.elapsed = seconds_of_sleep(self.source.command)  # -x and -j do not print the time

    def add(self, row: Count, cite: Citation) -> Iterator[Sample]:
        """Take a count, and yield the rates of the interval that it ends. Rows of some CPUs each are added up."""
        event, count = row.event, row.value or 0.0
        if row.at != self.at:
            yield from self._rates(float(self.at) - self.began if self.at else 0.0)
            self.began, self.at = float(self.at or 0), row.at
        if event in self.sums or len(self.sums) < MAX_EVENTS:
            old = self.sums.get(event, (0.0, cite))
            self.sums[event] = old[0] + count, old[1]
        names = HOST_RATES if self.is_host else PROCESS_RATES if self.entity else {}
        if event in names:
            self.first = self.first or cite
            metric = names[event]
            previous = self.counts.get(metric, 0.0) if row.is_partial else 0.0
            # a second event of the same metric does not count again
            if not row.is_partial or self.event_of_metric.setdefault(metric, event) == event:
                self.counts[metric] = previous + count

    def finish(self) -> Iterator[Record]:
        """Yield the records of the whole run."""
        if self.is_job:
            yield from read_work_figures(self.source, self.lines)
        yield from self._rates(float(self.at) - self.began if self.at else self.elapsed)
        instructions = self._sum(INSTRUCTIONS)
        if instructions and instructions[0] >= MIN_INSTRUCTIONS and (walks := self._sum(WALKS)):
            yield Fact("tlb.walks_per_instruction", round(walks[0] / instructions[0], 8), walks[1])
        if (cycles := self._sum(CYCLES)) and cycles[0] >= MIN_INSTRUCTIONS and (walk_cycles := self._sum(WALK_CYCLES)):
            yield Fact("tlb.walk_cycles_ratio", round(min(walk_cycles[0] / cycles[0], 1.0), 6), walk_cycles[1])

    def _rates(self, seconds: float) -> Iterator[Sample]:
        """Yield the counts per second."""
        if seconds > 0 and self.first:
            values = {name: count / seconds for name, count in self.counts.items()}
            kind, time = "system" if self.is_host else "process", None if self.at else self.source.time
            yield Sample(kind, values, self.first, READER, self.entity, time)
        self.counts, self.event_of_metric, self.first = {}, {}, None

    def _sum(self, event: re.Pattern[str]) -> tuple[float, Citation] | None:
        """Return the sum of the first of several equivalent events."""
        return next((count for name, count in self.sums.items() if event.fullmatch(name)), None)


SHORT_WITH_VALUE = "eIxoptrCDGM"
LONG_WITH_VALUE = ("pid", "event", "delay", "timeout", "interval-print", "field-separator", "output", "repeat")
PART_OPTIONS = {"C", "G", "for-each-cgroup", "cpu", "cgroup"}  # options that count a part of the host


def _options(command: str) -> tuple[dict[str, str], list[str]]:
    """Return the options of perf stat by name, and the words of the job after them."""
    words = command.rpartition("perf stat ")[2].split() if "perf stat " in command else []
    options: dict[str, str] = {}
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word == "--":
            break
        name, _, value = word.lstrip("-").partition("=")
        if not word.startswith("--"):
            while len(name) > 1 and name[0] not in SHORT_WITH_VALUE:
                options[name[0]], name = "", name[1:]
            name, value = name[:1], name[1:]
        takes_value = name in SHORT_WITH_VALUE or name in LONG_WITH_VALUE
        options[name] = value or (words.pop(0) if words and takes_value else "")
    return options, words


def command_scope(command: str) -> tuple[bool, Entity]:
    """Whether a command counts the whole host, and the one process that it counts.

    >>> command_scope("perf stat -I 500 -a -e page-faults sleep 2")
    (True, ())
    """
    options, _ = _options(command)
    if PART_OPTIONS & options.keys():
        return False, ()
    pid = options.get("p", "") or options.get("pid", "")
    return "a" in options or "all-cpus" in options, (("pid", pid),) if pid.isdigit() else ()


def seconds_of_sleep(command: str) -> float:
    """Return the seconds of `sleep N` where it is the whole job, else 0.

    >>> seconds_of_sleep("perf stat -a -x, -e page-faults sleep 2"), seconds_of_sleep("perf stat -a ./job; sleep 2")
    (2.0, 0.0)
    """
    options, job = _options(command)
    is_whole = not options.keys() & {"D", "delay", "timeout", "r", "repeat"}
    return float(job[1]) if is_whole and len(job) == 2 and job[0] == "sleep" and job[1][:6].isdigit() else 0.0


@with_errors(READER)
def read(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """Yield the figures of a job, rates of the host or a process, and facts of address translation."""
    run = _Run(source, *command_scope(source.command))
    unattributed: tuple[int, str] | None = None  # first row of counts without a command, host or process
    for number, text in lines:
        if PERF_STAT.match(text):
            yield from run.finish()
            process = PROCESS_RUN.match(text)
            run = _Run(source, bool(HOST_RUN.match(text)), (("pid", process[1]),) if process else ())
            run.is_job = not NO_JOB_RUN.match(text)
        if len(run.lines) < MAX_LINES:
            run.lines.append((number, text))
        if match := ELAPSED.match(text):
            run.elapsed = float(match[1].replace(",", "."))
        elif row := parse_count_row(text):
            if not (run.is_job or run.is_host or run.entity):
                unattributed = unattributed or (number, text)
            if row.value is not None:
                yield from run.add(row, source.cite(number, text))
        elif text.strip() and not IGNORED.match(text) and not PERF_STAT.match(text):
            odd.note(number, text, "not a line of perf stat, or counts of a part (CPU, group)")
    yield from run.finish()
    if unattributed:
        odd.note(*unattributed, "no command above shows whether the host (-a) or a process (-p) was counted: no rates")


def _without_groups(form: re.Pattern[str]) -> str:
    """Return the pattern without group names, which would be duplicates in an alternation of forms."""
    return re.sub(r"\?P<\w+>", "?:", form.pattern)


PARSER = Parser(
    READER, "perf stat", read,
    opens=re.compile(rf"{PERF_STAT.pattern}|{INTERVALS.pattern}|{_without_groups(CSV_ROW)}|{_without_groups(JSON_ROW)}"),
    continues=any_of(PERF_STAT, INTERVALS, STARTED, ELAPSED, *ROW_FORMS, IGNORED, blank=True),
    priority=1,  # before the figures of jobs, which also match its last lines
)  # fmt: skip


MEM_OPENS = re.compile(r"# (?:To display the perf\.data header info|Samples: \S+ of event 'cpu/mem-(?:loads|stores))")
MEM_HEADER = re.compile(r"# (?:Samples: \S+ of event '\S{0,40}mem-loads|Overhead\s+Samples\s.*\sTLB access\s)")
MEM_ROW = re.compile(r"\s*\d{1,3}\.\d\d%\s+(\d{1,12})\s")
MEM_TLB = re.compile(r"\s(?:L1|L2|Walker|Fault)(?: or (?:L1|L2|Walker|Fault))? (?:hit|miss)\s+(?:Yes|No)\b")
WALKED = re.compile(r"Walker| miss")
MIN_LOADS = 200  # samples


def read_mem_report(source: Source, lines: Lines) -> Iterator[Record]:
    """Yield the share of slow loads for which the page table was walked."""
    walked = known = 0
    head: tuple[int, str] | None = None
    for number, text in lines:
        if head is None and MEM_HEADER.match(text):
            head = number, text
        elif (row := MEM_ROW.match(text)) and (tlb := MEM_TLB.search(text)):
            known += int(row[1])
            walked += int(row[1]) if WALKED.search(tlb[0]) else 0
    if head and known >= MIN_LOADS:
        yield Fact("tlb.slow_load_ratio", round(walked / known, 6), source.cite(*head))
    elif head:
        odd = ParseErrors(source, "perf_mem")
        odd.note(*head, "fewer than 200 loads of which the TLB is known: they prove nothing about the program")
        yield from odd.problems()


MEM = Parser(
    "perf_mem", "perf mem report", read_mem_report, opens=MEM_OPENS,
    confirm=lambda lines: any(map(MEM_HEADER.match, lines)), continues=any_of(MEM_ROW, re.compile("#"), blank=True),
    lookahead=16, priority=2,  # before perf report, whose shares are of CPU time
)  # fmt: skip
